//! Fences of buckets over the placement groups (docs/protocol.md 2.15): set on a majority of every group,
//! inspected, lifted, copied to drives that join.
//!
//! Invariants: [`ashlar_commit::bucket_fence`] makes the decisions. Whether a bucket is empty is asked of
//! exactly the drives whose fences were counted, in the layout in which they were counted. What is undecided
//! there is settled by a round with the deletion's permission to pass its fences. That permission is a
//! property of the task ([`with_fence_right`]), so that everything a deletion calls has it and nothing else
//! in the process does.
//!
//! Must not depend on: the registry of buckets.

use crate::list::{Shown, above};
use crate::register::LAYOUTS;
use crate::sets::{Inner, Sets};
use crate::table::{Member, View};
use crate::{Error, Result};
use ashlar_commit::SlotSet;
use ashlar_commit::bucket_fence::{Deletion, FenceStep, Fencing, Grant, Verdict, joined, judge};
use ashlar_drive::{Error as DriveError, FenceAnswer};
use ashlar_format::{Body, BucketId, GroupId, RegisterKey, Space};
use bytes::Bytes;
use futures::future::{BoxFuture, join_all};
use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt};
use std::collections::BTreeMap;

/// Registers inspected at a time.
const STRETCH: usize = 64;

tokio::task_local! {
    /// The bucket and the deletion for which the current task works.
    static RIGHT: (BucketId, Deletion);
}

/// Runs `work` with the permission of a deletion: its updates and rounds in this bucket pass the fences of
/// the deletion.
pub fn with_fence_right<T>(
    bucket: BucketId,
    deletion: Deletion,
    work: impl Future<Output = T>,
) -> impl Future<Output = T> {
    RIGHT.scope((bucket, deletion), work)
}

/// The deletion for which the current task works, if it is one of this bucket.
#[must_use]
pub fn fence_right(bucket: BucketId) -> Option<Deletion> {
    RIGHT.try_with(|(b, d)| (*b == bucket).then_some(*d)).ok().flatten()
}

/// The kind of change that an ACCEPT of the current task makes, for the check against a fence.
pub(crate) fn grant(key: &RegisterKey, empties: bool) -> Grant {
    match fence_right(key.bucket()) {
        _ if empties => Grant::Empties,
        Some(d) => Grant::Of(d),
        None => Grant::Plain,
    }
}

/// A bucket whose fences were counted in every group.
#[derive(Clone, Debug)]
pub struct FencedBucket {
    bucket: BucketId,
    /// For each group its layout epoch and the slots that were counted.
    groups: Vec<(GroupId, u32, SlotSet)>,
}

impl Sets {
    /// Fences a bucket on a majority of every group. Afterwards nothing can be chosen in the bucket that the
    /// counted drives do not show.
    ///
    /// # Errors
    /// [`Error::BucketFenced`]: a later deletion has replaced this one. [`Error::Unavailable`]: too few
    /// voters answer; some may be fenced.
    pub fn fence_bucket(&self, bucket: BucketId, by: Deletion) -> BoxFuture<'_, Result<FencedBucket>> {
        Box::pin(async move {
            for _ in 0..LAYOUTS {
                let table = self.inner.table.load_full();
                let groups = join_all(table.views.iter().map(|v| fence_group(v, bucket, by))).await;
                match groups.into_iter().collect::<Result<Vec<_>>>() {
                    Ok(groups) => return Ok(FencedBucket { bucket, groups }),
                    Err(Error::Unavailable(_)) if self.inner.newer_layout(&table.views).await => {}
                    Err(e) => return Err(e),
                }
            }
            Err(Error::Unavailable("the layout keeps changing".into()))
        })
    }

    /// Key and summary of an existing register in a space of a fenced bucket; `None`: there is none, and none
    /// can appear. Must be called with the permission of the deletion ([`with_fence_right`]).
    ///
    /// # Errors
    /// [`Error::Unavailable`]: not all counted drives answer, or the layout has changed since.
    pub fn first_behind<'a>(
        &'a self,
        fenced: &'a FencedBucket,
        space: Space,
    ) -> BoxFuture<'a, Result<Option<(Bytes, Bytes)>>> {
        Box::pin(async move {
            for (group, epoch, slots) in &fenced.groups {
                let view = self.inner.view(*group)?;
                if view.epoch != *epoch {
                    return Err(Error::Unavailable("the layout has changed meanwhile".into()));
                }
                let found = self.inner.first_of(&view, *slots, space, fenced.bucket).await?;
                if found.is_some() {
                    return Ok(found);
                }
            }
            Ok(None)
        })
    }

    /// Lifts the fences of a bucket, up to those of a deletion, on all drives.
    ///
    /// # Errors
    /// [`Error::Unavailable`]: some drives were not reached; their fences are lifted later ([`Sets::fences`]
    /// shows them).
    pub fn lift_fences(&self, bucket: BucketId, up_to: Deletion) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            let table = self.inner.table.load_full();
            let lifts = table.members.values().map(|m| m.in_time(m.drive.lift_fence(bucket, up_to)));
            let lifted: Result<Vec<()>, DriveError> = join_all(lifts).await.into_iter().collect();
            lifted.map(drop).map_err(|e| Error::Unavailable(format!("lifting a fence: {e}")))
        })
    }

    /// The fenced buckets on the attached drives, each with its highest deletion. Drives that do not answer
    /// are left out.
    pub fn fences(&self) -> BoxFuture<'_, Vec<(BucketId, Deletion)>> {
        Box::pin(async move {
            let table = self.inner.table.load_full();
            let asks = table.members.values().map(|m| m.in_time(m.drive.fences()));
            let mut all: BTreeMap<BucketId, Deletion> = BTreeMap::new();
            for (_, bucket, deletion) in join_all(asks).await.into_iter().flatten().flatten() {
                let highest = all.entry(bucket).or_default();
                *highest = deletion.max(*highest);
            }
            all.into_iter().collect()
        })
    }

    /// Whether no other process proposes to these drives.
    #[must_use]
    pub fn is_sole(&self) -> bool {
        self.inner.options.sole
    }
}

/// Fences one group; returns its epoch and the counted slots.
async fn fence_group(view: &View, bucket: BucketId, by: Deletion) -> Result<(GroupId, u32, SlotSet)> {
    let mut fencing = Fencing::new(view.quorum);
    let mut step = FenceStep::Wait;
    let mut waiting = FuturesUnordered::new();
    for slot in 0..view.n() {
        match view.member(slot) {
            None => step = fencing.on_silent(slot),
            Some(m) => waiting.push(async move {
                let fence = m.drive.fence_bucket(view.group, bucket, by, view.epoch);
                (slot, m.in_time(fence).await)
            }),
        }
    }
    while step == FenceStep::Wait {
        let Some((slot, answer)) = waiting.next().await else { break };
        step = match answer {
            Ok(FenceAnswer::Fenced { counted: true }) => fencing.on_fenced(slot),
            Ok(FenceAnswer::Later(d)) => fencing.on_later(d),
            Ok(FenceAnswer::Fenced { counted: false }) | Err(_) => fencing.on_silent(slot),
        };
    }
    match step {
        FenceStep::Fenced(slots) => {
            // The other drives were asked too, but the caller does not wait for them.
            let _ = waiting.next().now_or_never();
            Ok((view.group, view.epoch, slots))
        }
        FenceStep::Later(d) => Err(Error::BucketFenced(d)),
        FenceStep::Unavailable | FenceStep::Wait => {
            Err(Error::Unavailable(format!("group {}: too few voters can be fenced", view.group)))
        }
    }
}

impl Inner {
    /// The first existing register of a group, as the drives of `slots` show it.
    async fn first_of(
        &self,
        view: &View,
        slots: SlotSet,
        space: Space,
        bucket: BucketId,
    ) -> Result<Option<(Bytes, Bytes)>> {
        let head = RegisterKey::new(view.group, space, bucket, b"");
        let mut from = head.as_bytes().to_vec();
        let end = above(&from).unwrap_or_else(|| vec![0xff; RegisterKey::MAX + 1]);
        loop {
            let stretch = self.stretch(view, slots, &from, &end, STRETCH).await?;
            for shown in stretch.keys {
                let (key, summary) = match shown {
                    Shown::Same(e) => (e.key, e.summary),
                    Shown::Differ(key, seen) => {
                        let of = |slot| seen.iter().find(|(s, _)| *s == slot);
                        let shown =
                            slots.iter().map(|s| of(s).map(|(_, e)| (e.ballot, !e.summary.is_empty())));
                        match judge(shown) {
                            Verdict::Absent => continue,
                            Verdict::Present | Verdict::Settle => self.settled(view, key).await?,
                        }
                    }
                };
                if !summary.is_empty() {
                    return Ok(Some((Bytes::copy_from_slice(key.key()), summary)));
                }
            }
            match stretch.next {
                Some(next) => from = next,
                None => return Ok(None),
            }
        }
    }

    /// A register that a round has decided, with its summary; empty: the register does not exist.
    async fn settled(&self, view: &View, key: RegisterKey) -> Result<(RegisterKey, Bytes)> {
        let hash = ashlar_checksum::key_hash(key.as_bytes());
        let mut turn = self.turn(hash).await;
        let Some(now) = self.settle(&key, hash, &mut turn).await? else { return Ok((key, Bytes::new())) };
        if matches!(now.record.body, Body::Tombstone) {
            return Ok((key, Bytes::new()));
        }
        match self.summary(view, &key, now.ballot).await {
            Some(summary) => Ok((key, summary)),
            None => Err(Error::Unavailable("a key keeps changing".into())),
        }
    }

    /// Copies the fences of a group from `sources` to a drive that joins.
    pub(crate) async fn copy_fences(&self, view: &View, to: &Member, sources: SlotSet) -> Result<()> {
        let mut fences: BTreeMap<BucketId, Vec<Deletion>> = BTreeMap::new();
        for slot in sources.iter() {
            let m = view.member(slot).ok_or_else(|| Error::Unavailable("a drive went away".into()))?;
            let there = m.in_time(m.drive.fences()).await;
            let there = there.map_err(|e| Error::Unavailable(format!("reading fences: {e}")))?;
            for (_, bucket, deletion) in there.into_iter().filter(|f| f.0 == view.group) {
                fences.entry(bucket).or_default().push(deletion);
            }
        }
        for (bucket, seen) in fences {
            let fence = to.drive.fence_bucket(view.group, bucket, joined(seen), u32::MAX);
            let answer = to.in_time(fence).await;
            answer.map_err(|e| Error::Unavailable(format!("the joining drive: {e}")))?;
        }
        Ok(())
    }
}
