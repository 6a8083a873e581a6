//! Drops what a drive holds of groups in which it has no slot any more.
//!
//! A drive that was away while its slots moved may have the only good copy of something: a body whose other shards were
//! lost before they were made again. So its data of a group goes only after every register of the group was healed on
//! all slots and nothing is missing. Until then it stays where it is.
//!
//! Invariants: nothing is dropped of a group in which the drive has a slot, or a vote; nothing is dropped before every
//! slot of the group votes and every shard exists there. A release may be interrupted anywhere and repeated.
//!
//! Must not depend on: why the drive has no slot.

use crate::list::group_range;
use crate::progress::slot_of;
use crate::sets::{Inner, Sets};
use crate::table::{Member, View};
use crate::{Error, Result};
use ashlar_drive::{Error as DriveError, Role};
use ashlar_environment::time::{self, Instant};
use ashlar_format::{DriveId, GroupId, WriteId};
use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// Registers and shards looked at per page.
const PAGE: usize = 512;
/// Number of concurrent heals.
const WIDTH: usize = 16;
/// How often it is looked whether what was dropped is gone, and the pause between two looks: drives drop lazily.
const LOOKS: usize = 100;
const PAUSE: Duration = Duration::from_millis(50);

impl Sets {
    /// Whether a drive has a slot of a group in which it does not vote yet.
    #[must_use]
    pub fn joins(&self, drive: DriveId) -> bool {
        self.inner.table.load().joins(drive)
    }

    /// Drops what `drive` holds of `groups`, in which it has neither a slot nor a vote. Returns the groups of which it
    /// holds nothing now; the others wait until all their slots vote and nothing is missing there.
    ///
    /// # Errors
    /// [`Error::Invalid`]: the drive is not attached, or has a slot or a vote in one of the groups.
    pub fn release<'a>(
        &'a self,
        drive: DriveId,
        groups: &'a [GroupId],
    ) -> BoxFuture<'a, Result<Vec<GroupId>>> {
        Box::pin(async move { self.inner.release(drive, groups).await })
    }
}

fn away(e: DriveError) -> Error {
    Error::Unavailable(format!("the drive that left: {e}"))
}

impl Inner {
    async fn release(self: &Arc<Self>, drive: DriveId, groups: &[GroupId]) -> Result<Vec<GroupId>> {
        let table = self.table.load_full();
        let member = table.members.get(&drive).ok_or(Error::Invalid("not attached"))?;
        let mut whole = BTreeSet::new();
        let mut purged = Vec::new();
        for group in groups {
            let view = table.view(*group)?;
            if slot_of(view, drive).is_some() {
                return Err(Error::Invalid("the drive has a slot of a group that it is to release"));
            }
            match member.drive.role(*group) {
                None => {
                    whole.insert(*group);
                }
                Some(Role::Voter) => {
                    return Err(Error::Invalid("the drive votes in a group that it is to release"));
                }
                Some(_) => match self.purge_records(view, member).await {
                    Ok(()) => purged.push(*group),
                    Err(e) => tracing::debug!(%drive, %group, "what the drive holds of a group stays: {e}"),
                },
            }
        }
        whole.extend(self.until_purged(member, purged).await?);
        if !whole.is_empty()
            && let Err(e) = self.release_shards(member, &whole).await
        {
            tracing::debug!(%drive, "shards of groups that the drive left stay: {e}");
            whole.clear();
        }
        Ok(whole.into_iter().collect())
    }

    /// Heals a group completely, and then tells a drive outside of it to drop the records that it holds.
    async fn purge_records(self: &Arc<Self>, view: &Arc<View>, from: &Member) -> Result<()> {
        self.heal_whole(view).await?;
        let (mut at, end) = group_range(view.group);
        loop {
            let began = Instant::now();
            let page = from.scan(&at, &end, PAGE, u32::MAX).await.map_err(away)?;
            let Some(last) = page.last() else { return Ok(()) };
            at = last.key.as_bytes().to_vec();
            at.push(0);
            for entry in &page {
                from.drive.purge(&entry.key, entry.ballot, view.epoch);
            }
            self.heal_pacer.pace(0, began.elapsed()).await;
        }
    }

    /// Waits until a drive holds no record of the groups that were purged from it, and returns those of which it holds none.
    /// It waits once for all: a drive writes what it drops once a tick.
    async fn until_purged(&self, from: &Member, mut groups: Vec<GroupId>) -> Result<Vec<GroupId>> {
        let mut gone = Vec::new();
        for look in 0..LOOKS {
            if look > 0 {
                time::sleep(PAUSE).await;
            }
            let mut there = Vec::new();
            for group in groups {
                let (at, end) = group_range(group);
                let empty = from.scan(&at, &end, 1, u32::MAX).await.map_err(away)?.is_empty();
                if empty { &mut gone } else { &mut there }.push(group);
            }
            groups = there;
            if groups.is_empty() {
                break;
            }
        }
        for group in &groups {
            tracing::debug!(drive = %from.id, %group, "the drive that left does not drop its records yet");
        }
        Ok(gone)
    }

    /// Heals every register of a group.
    ///
    /// # Errors
    /// `Unavailable`: something is missing, or cannot be looked at; then some slot may lack it.
    async fn heal_whole(self: &Arc<Self>, view: &Arc<View>) -> Result<()> {
        let sets = Sets { inner: self.clone() };
        let (mut from, end) = group_range(view.group);
        loop {
            let began = Instant::now();
            self.all_vote(view)?;
            let stretch = self.any_stretch(view, &from, &end, PAGE, true).await?;
            let mut heals = FuturesUnordered::new();
            let mut keys = stretch.keys.iter();
            loop {
                while heals.len() < WIDTH {
                    let Some(shown) = keys.next() else { break };
                    heals.push(async {
                        let healed = sets.heal_register(shown.key(), false).await;
                        self.heal_pacer.pace(0, Duration::ZERO).await;
                        healed
                    });
                }
                let Some(healed) = heals.next().await else { break };
                let healed = healed?;
                if healed.missing + healed.lost > 0 {
                    return Err(Error::Unavailable("a shard of the group is missing".into()));
                }
            }
            drop(heals);
            // A drive that went away meanwhile was not looked at.
            self.all_vote(view)?;
            self.heal_pacer.pace(0, began.elapsed()).await;
            match stretch.next {
                Some(next) => from = next,
                None => return Ok(()),
            }
        }
    }

    /// Every slot of the group has a drive that votes and answers, in the layout of `view`.
    fn all_vote(&self, view: &View) -> Result<()> {
        let now = self.view(view.group)?;
        let all = now.which(|m| m.is_here() && !m.is_hung() && m.is_voter(now.group));
        if now.epoch == view.epoch && all == now.quorum.all() {
            return Ok(());
        }
        Err(Error::Unavailable("not every slot of the group votes".into()))
    }

    /// Drops the shards of these groups, whose registers are gone from the drive.
    async fn release_shards(&self, from: &Member, groups: &BTreeSet<GroupId>) -> Result<()> {
        for _ in 0..LOOKS {
            let (mut after, mut found) = (None, false);
            loop {
                let began = Instant::now();
                let page = from.patiently(from.drive.shards(after, PAGE)).await.map_err(away)?;
                let Some(last) = page.last() else { break };
                after = Some((last.write_id, last.index));
                for group in groups {
                    let of = page.iter().filter(|s| s.owner.group() == *group);
                    let ids: Vec<(WriteId, u8)> = of.map(|s| (s.write_id, s.index)).collect();
                    if !ids.is_empty() {
                        found = true;
                        from.drive.discard(*group, u32::MAX, &ids);
                    }
                }
                self.heal_pacer.pace(0, began.elapsed()).await;
            }
            if !found {
                return Ok(());
            }
            time::sleep(PAUSE).await;
        }
        Err(Error::Unavailable("the drive that left does not drop its shards".into()))
    }
}
