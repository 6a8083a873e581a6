//! Fills a drive that joins (docs/protocol.md 2.7, 2.13): records first, then its vote, then shards.
//!
//! Invariants: other voters are fenced in the layout's epoch before they are read (I7): a majority of them,
//! or, with fewer left, every survivor and at least half; a key is copied by the rules of
//! [`ashlar_commit::Resync`]; the drive gets its vote in a group only after every register of this group was
//! seen on it. An interrupted rebuild starts again from the beginning: keys that are already there cost only
//! one lookup.
//!
//! Must not depend on: what a version means beyond the data it names.

use crate::heal_group::{STRETCH, WIDTH};
use crate::list::{Shown, group_range, readers};
use crate::progress::{Job, Phase, Progress, measured, slot_of};
use crate::register::Register;
use crate::sets::{Inner, Sets};
use crate::stored::Stored;
use crate::table::{Member, Table, View};
use crate::{Error, Result};
use ashlar_commit::{Copy, Resync, SlotSet};
use ashlar_drive::{Accept, Error as DriveError, Seen, State, Tally};
use ashlar_duties::{Duty, Unit};
use ashlar_environment::HashMap;
use ashlar_environment::time::{self, Instant};
use ashlar_format::{Ballot, DriveId, RegisterKey};
use bytes::Bytes;
use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// Pause before another attempt to fill a drive.
const AGAIN: Duration = Duration::from_secs(2);

impl Sets {
    /// The progress of the rebuilds; the last finished one of a drive stays until the process ends.
    #[must_use]
    pub fn rebuilds(&self) -> Vec<Progress> {
        let table = self.inner.table.load();
        let jobs = self.inner.rebuilds.jobs.lock();
        // A drive that waited to join and votes now was restored by other means (`salvage`).
        let waits = |drive: &DriveId, j: &Job| {
            j.progress.phase == Phase::Waiting && table.members.contains_key(drive) && !table.joins(*drive)
        };
        jobs.iter().filter(|(drive, j)| !waits(drive, j)).map(|(_, j)| measured(j, &table)).collect()
    }

    /// The rebuilds that were finished since the start of the process, the latest last; at most 32.
    #[must_use]
    pub fn rebuilt(&self) -> Vec<Progress> {
        self.inner.rebuilds.history.lock().iter().cloned().collect()
    }

    /// Fills a joining drive now, in this task: records, vote, shards. The background task does the same.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if too few other drives can be fenced and read.
    pub fn rebuild(&self, drive: DriveId) -> BoxFuture<'_, Result<Progress>> {
        Box::pin(async move {
            self.inner.rebuild(drive).await?;
            let jobs = self.inner.rebuilds.jobs.lock();
            jobs.get(&drive).map(|j| j.progress.clone()).ok_or(Error::Invalid("not a drive of this pool"))
        })
    }
}

impl Inner {
    pub(crate) async fn rebuild(self: &Arc<Self>, drive: DriveId) -> Result<()> {
        let table = self.table.load_full();
        let Some(member) = table.members.get(&drive).cloned() else {
            return Err(Error::Invalid("not attached"));
        };
        hold(&table).await;
        let views: Vec<_> = table.views.iter().filter(|v| slot_of(v, drive).is_some()).cloned().collect();
        let joining: Vec<_> = views.iter().filter(|v| !member.is_voter(v.group)).cloned().collect();
        if !joining.is_empty() {
            self.rebuilds.begin(&member.drive, Phase::Waiting, 0);
            let total = self.count(&joining).await;
            let mut last = None;
            let mut begun = false;
            // A group that cannot be read yet does not prevent the drive from voting in the others.
            for view in &joining {
                let filled = match self.fence(view).await {
                    Ok(from) => {
                        if !std::mem::replace(&mut begun, true) {
                            self.rebuilds.begin(&member.drive, Phase::Records, total);
                        }
                        self.join_group(view, &member, from).await
                    }
                    Err(e) => Err(e),
                };
                match filled {
                    Ok(()) => self.rebuilds.owe(drive, view.group),
                    Err(e) => {
                        tracing::debug!(drive = %drive, group = %view.group, "cannot join the group yet: {e}");
                        last = Some(e);
                    }
                }
            }
            if let Some(e) = last {
                self.rebuilds.note(drive, |p| (p.phase, p.why) = (Phase::Waiting, Some(e.to_string())));
                return Err(e);
            }
            tracing::info!(drive = %drive, "all records copied: the drive votes");
        }
        // A drive that took over some groups has the shards of its other groups.
        let views = match self.rebuilds.owed(drive) {
            Some(joined) => views.into_iter().filter(|v| joined.contains(&v.group)).collect(),
            None => views,
        };
        let total = self.count(&views).await;
        self.rebuilds.begin(&member.drive, Phase::Shards, total);
        for (n, view) in views.iter().enumerate() {
            let healed = self.heal_group(view, false, |h, looked| {
                self.rebuilds.note(drive, |p| {
                    p.looked += looked;
                    p.shards += u64::from(h.shards);
                    p.bytes += h.bytes;
                    p.missing += u64::from(h.missing + h.lost);
                });
            });
            if let Err(e) = healed.await {
                // They are made later: the background task tries again.
                views[n..].iter().for_each(|v| self.rebuilds.owe(drive, v.group));
                return Err(e);
            }
        }
        self.rebuilds.end(&member.drive);
        Ok(())
    }

    /// Copies the fences and the records of one group; then the drive votes in it.
    async fn join_group(
        self: &Arc<Self>,
        view: &Arc<View>,
        member: &Arc<Member>,
        from: SlotSet,
    ) -> Result<()> {
        self.copy_fences(view, member, from).await?;
        self.copy_group(view, member, from).await?;
        self.drop_extras(view, member, from).await?;
        // Its promises from now on, and the ballot from which its absences count.
        let joining = async {
            member.drive.fence_epoch(view.group, view.epoch).await?;
            member.drive.joined(view.group, view.epoch).await
        };
        member.patiently(joining).await.map_err(|e| Error::Unavailable(format!("joining: {e}")))
    }

    async fn count(&self, views: &[Arc<View>]) -> u64 {
        let mut total = 0;
        for v in views {
            let (from, to) = group_range(v.group);
            if let Some(m) = readers(v).ok().and_then(|s| s.iter().next()).and_then(|s| v.member(s)) {
                total += m.in_time(m.drive.range_digest(&from, &to, v.epoch)).await.map_or(0, |d| d.0);
            }
        }
        total
    }

    /// Fences the drives that may be read for a copy, and returns their slots.
    async fn fence(&self, view: &View) -> Result<SlotSet> {
        let joining = view.which(|m| !m.is_voter(view.group));
        let voters = view.which(|m| m.is_voter(view.group) && m.is_up());
        let mut fenced = SlotSet::EMPTY;
        for slot in voters.iter() {
            if let Some(m) = view.member(slot)
                && m.in_time(m.drive.fence_epoch(view.group, view.epoch)).await.is_ok()
            {
                fenced.insert(slot);
            }
        }
        if fenced.len() >= view.quorum.majority() {
            return Ok(fenced);
        }
        // Less than a majority is left. Every slot that is not being filled must answer: a voter that is only
        // away may have a record that the others do not have (2.13).
        let rest = view.quorum.all().without(joining);
        if fenced == rest && fenced.len() >= view.quorum.half() {
            return Ok(fenced);
        }
        let (have, need) = (fenced.len(), view.quorum.majority());
        Err(Error::Unavailable(format!(
            "group {}: {have} of {need} voters, and {} slots are neither voting nor being filled",
            view.group,
            rest.without(fenced).len()
        )))
    }

    /// Copies every record of a group to the joining drive.
    async fn copy_group(
        self: &Arc<Self>,
        view: &Arc<View>,
        to: &Arc<Member>,
        sources: SlotSet,
    ) -> Result<()> {
        // With more than a majority fenced, only a majority is read.
        let most = usize::from(view.quorum.majority());
        let sources: SlotSet = sources.iter().take(most).collect();
        // The known state of a remote drive is the last one received; its answer to FENCE was counted.
        let fenced = view.which(|m| m.drive.local().is_none_or(|d| d.epoch(view.group) >= view.epoch));
        assert!(sources.without(fenced).is_empty(), "I7: {sources:?} are read, {fenced:?} are fenced");
        let (mut from, end) = group_range(view.group);
        loop {
            let began = Instant::now();
            let stretch = self.stretch(view, sources, &from, &end, STRETCH).await?;
            let mut copies = FuturesUnordered::new();
            let mut keys = stretch.keys.iter();
            loop {
                while copies.len() < WIDTH {
                    let Some(shown) = keys.next() else { break };
                    copies.push(async move {
                        let copied = self.copy_key(view, to, sources, shown).await;
                        // Here no key's turn is held, and the other copies go on.
                        self.heal_pacer.pace(0, Duration::ZERO).await;
                        copied
                    });
                }
                let Some(copied) = copies.next().await else { break };
                let copied = copied?;
                self.rebuilds.note(to.id, |p| {
                    p.looked += 1;
                    p.copied += u64::from(copied);
                });
            }
            drop(copies);
            self.heal_pacer.pace(0, began.elapsed()).await;
            match stretch.next {
                Some(next) => from = next,
                None => return Ok(()),
            }
        }
    }

    /// Records of older epochs that the joining drive has and its sources do not have were deleted in the
    /// meantime, or never chosen: they are dropped before the drive votes.
    async fn drop_extras(&self, view: &Arc<View>, to: &Arc<Member>, sources: SlotSet) -> Result<()> {
        let (mut from, end) = group_range(view.group);
        let away = |e| Error::Unavailable(format!("the joining drive: {e}"));
        loop {
            let began = Instant::now();
            let page = to.in_time(to.drive.scan(&from, &end, STRETCH, u32::MAX)).await.map_err(away)?;
            let Some(last) = page.last() else { return Ok(()) };
            let mut next = last.key.as_bytes().to_vec();
            next.push(0);
            let old = page.iter().filter(|e| e.ballot < Ballot::fence(view.epoch));
            let mut extras: HashMap<RegisterKey, Ballot> = old.map(|e| (e.key.clone(), e.ballot)).collect();
            for slot in sources.iter() {
                let mut at = from.clone();
                while !extras.is_empty() {
                    let theirs = self.scan(view, slot, &at, &next, STRETCH).await?;
                    for e in &theirs {
                        extras.remove(&e.key);
                    }
                    match theirs.last() {
                        Some(e) if theirs.len() == STRETCH => {
                            at = e.key.as_bytes().to_vec();
                            at.push(0);
                        }
                        _ => break,
                    }
                }
            }
            for (key, ballot) in &extras {
                tracing::debug!(?key, ?ballot, "a drive that joins forgets what its peers do not hold");
                to.drive.purge(key, *ballot, view.epoch);
            }
            self.see_gone(to, &extras).await?;
            self.heal_pacer.pace(0, began.elapsed()).await;
            from = next;
        }
    }

    /// Waits until the joining drive shows none of `extras`: it drops them lazily.
    async fn see_gone(&self, to: &Member, extras: &HashMap<RegisterKey, Ballot>) -> Result<()> {
        for (key, ballot) in extras {
            let mut looks = 0;
            loop {
                let reply = to.read(key, false, u32::MAX).await;
                let reply = reply.map_err(|e| Error::Unavailable(format!("the joining drive: {e}")))?;
                if reply.accepted.is_none_or(|s| s.ballot != *ballot) {
                    break;
                }
                looks += 1;
                if looks > 200 {
                    return Err(Error::Unavailable(format!("the joining drive does not forget {key:?}")));
                }
                time::sleep(Duration::from_millis(50)).await;
            }
        }
        Ok(())
    }

    /// Copies one register to the joining drive; returns whether something was copied.
    async fn copy_key(
        self: &Arc<Self>,
        view: &Arc<View>,
        to: &Arc<Member>,
        sources: SlotSet,
        shown: &Shown,
    ) -> Result<bool> {
        let key = shown.key();
        if sources.len() < view.quorum.majority() {
            return self.copy_survivors(view, to, sources, key).await;
        }
        let hash = ashlar_checksum::key_hash(key.as_bytes());
        let want = match shown {
            // A majority shows it, so it is chosen.
            Shown::Same(e) if holds(to, key, e.ballot).await? => return Ok(false),
            Shown::Same(e) => self.register_at(view, key, e.ballot).await?,
            // A round settles it, and its ACCEPT reaches the joining drive too.
            Shown::Differ(..) => self.read_slowly(key, hash).await?,
        };
        // If the register has changed, its new state was sent to the joining drive as well.
        let Some(want) = want else { return Ok(true) };
        let mut turn = self.turn(hash).await;
        if holds(to, key, want.ballot).await? {
            return Ok(true);
        }
        if self.copy_to(view, to, key, &want, true).await.is_err() || !holds(to, key, want.ballot).await? {
            // The record changed between the read and the copy, or cannot be copied: a round is needed.
            self.renew(key, hash, &mut turn).await?;
        }
        if holds(to, key, want.ballot).await? {
            return Ok(true);
        }
        Err(Error::Unavailable(format!("the joining drive does not take {key:?}")))
    }

    pub(crate) async fn copy_to(
        &self,
        view: &View,
        to: &Member,
        key: &RegisterKey,
        want: &Register,
        chosen: bool,
    ) -> Result<()> {
        let Some(slot) = slot_of(view, to.id) else { return Ok(()) };
        let only: SlotSet = [slot].into_iter().collect();
        self.copy_record(view, key, want, only, chosen).await.map(|_| ())
    }

    /// Like [`Inner::copy_key`] if less than a majority is left: every survivor is read, and [`Resync`]
    /// decides what to copy (2.13).
    async fn copy_survivors(
        self: &Arc<Self>,
        view: &Arc<View>,
        to: &Arc<Member>,
        sources: SlotSet,
        key: &RegisterKey,
    ) -> Result<bool> {
        let hash = ashlar_checksum::key_hash(key.as_bytes());
        // No write can be under way: there is no majority. But a second rebuild can.
        let _turn = self.locks.lock(hash).await;
        let dead = view.quorum.all().without(sources);
        let mut rule: Resync<Bytes> = Resync::dead(view.quorum, view.epoch, dead)
            .ok_or_else(|| Error::Unavailable("less than half of a group is left".into()))?;
        for slot in sources.iter() {
            rule.on_fenced(slot);
            let m = view.member(slot).ok_or_else(|| Error::Unavailable("a drive went away".into()))?;
            let reply = m.read(key, true, view.epoch).await;
            let reply = reply.map_err(|e| Error::Unavailable(format!("a survivor: {e}")))?;
            let horizon = reply.horizon;
            let Some(Seen { ballot, hint, with_shard, record: Some(bytes), .. }) = reply.accepted else {
                rule.on_absent(slot, horizon);
                continue;
            };
            match Stored::parse(&bytes).map_err(|e| Error::Corrupt(format!("{key:?}: {e}")))?.one_sync_record
            {
                Some(l) if !hint => {
                    rule.on_record_one_sync(slot, (ballot, bytes), l.one_sync, with_shard);
                }
                _ => rule.on_record(slot, Some((ballot, bytes))),
            }
        }
        match rule.copy() {
            Copy::Wait => Err(Error::Unavailable("not every survivor was read".into())),
            Copy::Nothing => Ok(false),
            Copy::Record((ballot, _)) if holds(to, key, *ballot).await? => Ok(false),
            Copy::Record((ballot, _)) => {
                let want = self.register_at(view, key, *ballot).await?;
                let want = want.ok_or_else(|| Error::Unavailable("a survivor changed".into()))?;
                self.copy_to(view, to, key, &want, false).await?;
                self.must_hold(to, key, *ballot).await
            }
            Copy::Parent { of: (ballot, bytes), maybe_lost } => {
                if maybe_lost {
                    tracing::error!(?key, ?ballot, "a write may have been lost with the dead drives");
                    self.rebuilds.note(to.id, |p| p.missing += 1);
                }
                self.copy_parent(view, to, key, bytes).await
            }
        }
    }

    pub(crate) async fn must_hold(&self, to: &Member, key: &RegisterKey, ballot: Ballot) -> Result<bool> {
        if holds(to, key, ballot).await? {
            return Ok(true);
        }
        Err(Error::Unavailable(format!("the joining drive does not take {key:?}")))
    }

    /// Copies the parent inside a one-sync record that was never chosen.
    pub(crate) async fn copy_parent(
        &self,
        view: &View,
        to: &Member,
        key: &RegisterKey,
        of: &Bytes,
    ) -> Result<bool> {
        let parts = Stored::parse(of).map_err(|e| Error::Corrupt(format!("{key:?}: {e}")))?;
        let Some(one_sync_record) = parts.one_sync_record.filter(|l| !l.parent.is_none()) else {
            return Ok(false);
        };
        let (ballot, tally) = (one_sync_record.parent_ballot, Tally::new(1));
        let record = one_sync_record.parent.bytes(&parts.record);
        let (key, summary) = (key.clone(), one_sync_record.parent_summary);
        let epoch = view.epoch;
        self.heal_pacer.charge((record.len() + summary.len()) as u64);
        let accept = Accept { key: key.clone(), ballot, epoch, record, summary, inline: None };
        to.drive.copy(accept, false, tally.completion(0));
        // The next request shows whether it did.
        let _ = time::timeout(Duration::from_secs(20), tally.wait_all()).await;
        self.must_hold(to, &key, ballot).await
    }

    /// The record that some slot shows under `ballot`.
    pub(crate) async fn register_at(
        &self,
        view: &View,
        key: &RegisterKey,
        ballot: Ballot,
    ) -> Result<Option<Register>> {
        for (_, m) in view.prompt_first() {
            let Ok(r) = m.read(key, true, view.epoch).await else { continue };
            if let Some(seen) = r.accepted
                && seen.ballot == ballot
                && let Some(bytes) = &seen.record
            {
                let record = Stored::parse(bytes).and_then(|s| s.decode());
                let record = record.map_err(|e| Error::Corrupt(format!("{key:?}: {e}")))?;
                let (digest, record) = (seen.digest, Arc::new(record));
                return Ok(Some(Register { ballot, digest, record }));
            }
        }
        Ok(None)
    }
}

/// Makes every drive hold the groups in which the layout gives it a slot, as a joining drive: from then on it
/// accepts records and shards. One that had left a group and joins it again follows the present epoch from then on, so
/// that nobody who knows an older map has it drop what it gets now. A drive that does not answer stays unchanged.
pub(crate) async fn hold(table: &Table) {
    for member in table.members.values() {
        let lacks = |v: &&Arc<View>| {
            let drive = &member.drive;
            let behind = || !member.is_voter(v.group) && drive.epoch(v.group) < v.epoch;
            slot_of(v, member.id).is_some() && (drive.role(v.group).is_none() || behind())
        };
        let new: Vec<_> = table.views.iter().filter(lacks).map(|v| (v.group, v.epoch)).collect();
        if !new.is_empty()
            && let Err(e) = member.patiently(member.drive.join(&new)).await
        {
            tracing::debug!(drive = %member.id, "the drive does not take its groups yet: {e}");
        }
    }
}

/// Whether the drive shows a record of at least `ballot`.
async fn holds(m: &Member, key: &RegisterKey, ballot: Ballot) -> Result<bool> {
    // Not a read of the register: only the state of this drive.
    match m.read(key, false, u32::MAX).await {
        Ok(r) => Ok(r.accepted.is_some_and(|s| s.ballot >= ballot)),
        Err(DriveError::Corrupt(_)) => Ok(false),
        Err(e) => Err(Error::Unavailable(format!("the joining drive: {e}"))),
    }
}

impl Inner {
    /// Drives that do not vote in one of their groups and can be filled.
    fn joining(&self) -> Vec<DriveId> {
        let table = self.table.load();
        let in_view = |v: &Arc<View>| {
            let online = |m: &Member| m.drive.state() == State::Online && !m.is_away();
            let lacks = |m: &Arc<Member>| !m.is_voter(v.group) && online(m);
            v.members().filter(|(_, m)| lacks(m)).map(|(_, m)| m.id).collect::<Vec<_>>()
        };
        let mut joining: Vec<DriveId> = table.views.iter().flat_map(in_view).collect();
        joining.sort_unstable();
        joining.dedup();
        joining
    }

    /// Drives whose shards this process began to make, and could not.
    fn owed(&self) -> Vec<DriveId> {
        let table = self.table.load();
        let here = |id: &DriveId| table.members.get(id).is_some_and(|m| m.is_here());
        self.rebuilds.owing().into_iter().filter(here).collect()
    }
}

/// The background task: fills drives that join.
pub(crate) async fn run(of: Weak<Inner>) {
    loop {
        let Some(inner) = of.upgrade() else { return };
        let mut joining = inner.joining();
        joining.retain(|id| inner.options.duties.mine(Duty::Rebuild, &Unit::Drive(id.0)));
        let owed: Vec<DriveId> = inner.owed().into_iter().filter(|id| !joining.contains(id)).collect();
        let mut failed = false;
        for drive in joining.into_iter().chain(owed) {
            if let Err(e) = inner.rebuild(drive).await {
                tracing::info!(drive = %drive, "cannot fill the drive yet: {e}");
                failed = true;
            }
        }
        let wait = if failed { AGAIN } else { Duration::from_secs(1) };
        let _ = time::timeout(wait, inner.rebuilds.work.notified()).await;
    }
}
