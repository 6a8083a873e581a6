//! Large shards that are durable before the journal names them.
//!
//! A region says itself which shard it holds (`ashlar_format::frame`). So a shard is durable once its region
//! is flushed, and its journal record needs no flush of its own: it is written with the next batch, usually
//! that of the ACCEPT that follows. After a crash, recovery looks for such regions (`search`) where the journal
//! *notes* that some may be: by extent segment, the offset from which on.
//!
//! Invariants: a shard without a durable journal record is answered only if a durable note covers its region;
//! a note is replaced as a whole, by one that covers every reserved region that no durable record names, and
//! the first batch of every journal segment contains one, so that compaction may drop any; the records precede
//! every other operation of their batch; a shard is read without its record, and whoever needs the place of the
//! record has it written first.
//!
//! Must not depend on: files.

use crate::Completion;
use crate::core::{Core, MAX_LAZY_OPS, Shared};
use crate::entry::{Region, Shard, ShardName};
use crate::op::Op;
use crate::run::{Halt, Lookup, Mode};
use ashlar_environment::HashMap;
use ashlar_format::GroupId;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Where unnamed regions may be: by extent segment, ascending, the offset from which on.
pub(crate) type Note = Vec<(u32, u64)>;

/// What the drive knows of regions without a journal record.
#[derive(Default)]
pub(crate) struct Unnamed {
    /// Reserved regions (segment, offset) that no durable journal record names.
    pub regions: BTreeSet<(u32, u64)>,
    /// The note that is in force in the journal.
    pub noted: BTreeMap<u32, u64>,
    /// The shards whose records wait: at most `MAX_LAZY_OPS`, and those that a start has found and has no room to journal.
    pub shards: HashMap<ShardName, Waiting>,
    /// Their records, for the next batch.
    pub records: Vec<Op>,
    /// In recovery only.
    pub recovery: Option<Replayed>,
}

pub(crate) struct Waiting {
    shard: Shard,
    /// It was discarded: that is journaled after its record.
    dropped: bool,
}

/// What a replay learns for the search.
#[derive(Default)]
pub(crate) struct Replayed {
    /// The last note, or that of the index manifest.
    pub note: Note,
    /// Regions that records in the range of the note name.
    pub named: BTreeSet<(u32, u64)>,
}

impl Unnamed {
    pub fn reserved(&mut self, region: Region) {
        self.regions.insert((region.segment, region.offset));
    }

    /// A durable record names the region, or nobody will use it.
    pub fn settled(&mut self, region: Region) {
        self.regions.remove(&(region.segment, region.offset));
    }

    /// Forgets the shards that wait: the drive is out of service.
    pub fn clear(&mut self) {
        self.records.clear();
        self.shards.clear();
    }

    /// The record of a shard waits for the next batch. A durable note must cover its region.
    pub fn wait(&mut self, name: ShardName, shard: Box<Shard>) {
        self.shards.insert(name, Waiting { shard: (*shard).clone(), dropped: false });
        self.records.push(Op::Extent { name, shard, done: Completion::ignored() });
    }

    /// A shard whose record waits, unless it was discarded.
    pub fn shard(&self, name: &ShardName) -> Option<&Shard> {
        self.shards.get(name).filter(|w| !w.dropped).map(|w| &w.shard)
    }

    /// The group of a shard whose record waits, unless it was discarded.
    pub fn group(&self, name: &ShardName) -> Option<GroupId> {
        self.shard(name).map(|s| s.owner.group())
    }

    pub fn contains(&self, name: &ShardName) -> bool {
        self.shards.contains_key(name)
    }

    /// Marks a shard whose record waits as discarded. Returns false if it is no such shard.
    pub fn discard(&mut self, name: &ShardName) -> bool {
        self.shards.get_mut(name).map(|w| w.dropped = true).is_some()
    }

    /// A shard is staged again: an earlier discard does not concern it.
    pub fn staged_again(&mut self, name: &ShardName) {
        if let Some(w) = self.shards.get_mut(name) {
            w.dropped = false;
        }
    }

    /// Bytes of the regions of shards whose records wait.
    pub fn bytes(&self) -> u64 {
        self.shards.values().map(|w| w.shard.region_bytes()).sum()
    }

    /// The record of a shard is durable. Returns whether the shard was discarded meanwhile.
    pub fn written(&mut self, name: &ShardName) -> bool {
        self.shards.remove(name).is_some_and(|w| w.dropped)
    }

    /// The batch with this operation was not written. If it is a record that waits, and the drive is still
    /// written, it waits again; on a drive that only reads, the shard is read without it, and found again at the
    /// next start. Any other operation is given back.
    pub fn failed(&mut self, op: Op, goes_on: bool) -> Option<Op> {
        match &op {
            Op::Extent { name, .. } if self.shards.contains_key(name) => {
                if goes_on {
                    self.records.push(op);
                }
                None
            }
            _ => Some(op),
        }
    }

    /// A replay found a note. When the index of a drive in service is made again, the note in force stays.
    pub fn replay_note(&mut self, note: Note) {
        if let Some(r) = &mut self.recovery {
            self.noted = note.iter().copied().collect();
            r.named.retain(|(s, o)| note.iter().any(|(segment, from)| s == segment && o >= from));
            r.note = note;
        }
    }

    /// A replay found a record that names a region.
    pub fn replay_region(&mut self, segment: u32, offset: u64) {
        if let Some(r) = &mut self.recovery {
            r.named.insert((segment, offset));
        }
    }
}

impl Core {
    /// What a note must contain now.
    pub fn unnamed_note(&self) -> Note {
        if let Some(r) = &self.unnamed.recovery {
            // Nothing was searched yet.
            return r.note.clone();
        }
        let mut from = BTreeMap::new();
        let mut next = self.unnamed.regions.first().copied();
        while let Some((segment, offset)) = next {
            from.insert(segment, offset);
            next = segment.checked_add(1).and_then(|n| self.unnamed.regions.range((n, 0)..).next().copied());
        }
        for (segment, offset) in self.next_regions() {
            from.entry(segment).or_insert(offset);
        }
        from.into_iter().collect()
    }

    /// Where the next regions will be: in the active segment, and in the one that follows it.
    fn next_regions(&self) -> impl Iterator<Item = (u32, u64)> {
        let active = self.extents.get(&self.active_extent).filter(|e| !e.sealed);
        let active = active.map(|e| (self.active_extent, e.at));
        let next = self.spare_extents.front().map(|s| (s.number, 0));
        active.into_iter().chain(next).filter(|_| !self.closing)
    }

    /// Whether the note in force covers the next regions.
    pub fn unnamed_covered(&self) -> bool {
        self.next_regions().all(|(n, at)| self.unnamed.noted.get(&n).is_some_and(|from| *from <= at))
    }

    /// Keeps the record of a shard whose region is flushed for the next batch, if that is safe. Returns the
    /// completion to answer, or the operation, which must then be journaled before it is answered.
    #[allow(clippy::result_large_err)] // given back to its owner
    pub fn name_later(&mut self, op: Op) -> Result<Completion, Op> {
        let weight = op.weight();
        let Op::Extent { name, shard, done } = op else { return Err(op) };
        let covered = shard
            .extent
            .is_some_and(|r| self.unnamed.noted.get(&r.segment).is_some_and(|from| *from <= r.offset));
        // A discard that waits precedes this shard, and must not follow its record in a batch.
        let mut waiting = self.lazy.iter().chain(&self.queue);
        let discarded = waiting.any(|op| matches!(op, Op::Discard { name: n, .. } if *n == name));
        let safe = covered
            && !discarded
            && !self.unnamed.shards.contains_key(&name)
            && self.unnamed.records.len() < MAX_LAZY_OPS
            && self.may_enqueue(weight).is_ok();
        if !safe {
            return Err(Op::Extent { name, shard, done });
        }
        self.unresolved_discards.remove(&name);
        self.unnamed.wait(name, shard);
        Ok(done)
    }
}

impl Shared {
    /// Has the record of a shard written, if it waits, so that the index knows the shard.
    pub fn name_first(self: &Arc<Self>, name: ShardName, mode: Mode) -> Lookup<()> {
        if !self.core.lock().unnamed.contains(&name) {
            return Ok(());
        }
        if mode == Mode::Now && self.threads {
            return Err(Halt::WouldBlock);
        }
        self.submit_and_wait(Vec::new()).map_err(Halt::Failed)
    }

    /// The same for all shards.
    pub fn name_all(self: &Arc<Self>) -> Lookup<()> {
        if self.core.lock().unnamed.records.is_empty() {
            return Ok(());
        }
        self.submit_and_wait(Vec::new()).map_err(Halt::Failed)
    }
}
