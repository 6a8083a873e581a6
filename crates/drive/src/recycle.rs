//! Extent segments before and after they hold shards: prepared in advance, reused when empty, removed when
//! not needed.
//!
//! A first-touched page costs more than the copy into it (1.5 us per 4 KiB in memory; on a disk, an extent
//! that has to be converted). So a segment that has become empty gets a new number and is kept for later
//! shards instead of being removed.
//!
//! The name of a new segment has to be durable before a shard in it is, which takes a flush of the folder. So the names
//! of many segments are made durable at once, as empty files, before they are needed: no write waits for the
//! folder, and one flush serves many segments.
//!
//! Invariants: a number is never used twice, so that a region (segment, offset) is never assigned twice, and
//! a reference to an old region finds nothing. The name of a spare segment is durable before a region of it is
//! assigned; its length is durable with the first flush of a region (`fdatasync` covers the length). A segment leaves the table under the lock under which readers pin, so none is
//! removed while a reader uses it. Spares are bounded by [`Shared::most_spares`] and by age, names by [`MOST_NAMES`].
//!
//! **A late drop cannot affect a segment that was reused.** A decision about a shard or a region may be
//! executed arbitrarily late: a discard waits for the journal and for a lookup in the index files; a region
//! waits for its readers, for the maintenance thread and for the rest of its segment. This is harmless at any
//! time, because
//!
//! 1. A shard is dropped by its name (write id, index), never by its position. The drop applies to the entry
//!    that the index has at that time, under the lock and in journal order. It concerns shards staged before
//!    it (`queue`), so a shard that was staged again under the same name after it stays.
//! 2. A region is freed exactly once: by the change that removes its name from the index (`account`). It is
//!    freed as (segment number, offset). Offsets only grow while a number exists, and a reused segment gets a
//!    new number that no manifest, no journal record and no entry in memory has ever contained
//!    ([`Core::new_extent_number`]; after a restart it is above every number in a file name, the manifest or
//!    a replayed record). So no later shard ever has the same (number, offset).
//! 3. A number that left the table never returns, and leads to no file: the table is checked, under its lock,
//!    before a region is punched out ([`Verdict::Forget`]) and before a file is kept open under a number
//!    ([`Shared::extent_file`]). Only the maintenance thread removes numbers from the table and punches, one
//!    after the other.
//! 4. A segment leaves the table only if it is sealed, no shard in it is being written, none is pinned by a
//!    reader, and its count, which is exact, is 0. A wrong count makes the segment suspect, and a suspect
//!    segment never leaves the table while the process runs.
//!
//! `tests/all/late.rs` tests this with random operations, drops that are delayed across reuse, crashes and
//! lost index files.
//!
//! Must not depend on: what shards hold.

use crate::Result;
use crate::core::{Core, Shared};
use crate::files::{Kind, segment_name};
use crate::space::{Extent, Freed, FreedWaiting, SpareExtent};
use ashlar_environment::time::Instant;
use ashlar_machine::DiskFile;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// A freed region waits this long for the rest of its segment before it is punched out.
const PUNCH_AFTER: Duration = Duration::from_secs(5);
/// The smallest usual segment: drives with little data have small segments, so that these take little space.
const SMALLEST: u64 = 8 << 20;
/// A spare segment other than the newest is removed when it was not used for this long.
const SPARE_FOR: Duration = Duration::from_secs(60);
/// Most names that are prepared. Drives with few segments have fewer.
const MOST_NAMES: usize = 64;

/// What to do with a segment that has freed regions.
enum Verdict {
    Keep,
    Punch,
    /// The segment is gone, or its count is wrong: nothing is given back.
    Forget,
    /// The segment is empty; its length.
    Empty(u64),
}

/// An empty segment under its new number.
struct Renamed {
    number: u32,
    bytes: u64,
    file: DiskFile,
}

impl Core {
    /// Bytes of prepared segments.
    pub fn spare_bytes(&self) -> u64 {
        self.spare_extents.iter().map(|s| s.bytes).sum()
    }

    fn extent_live(&self) -> u64 {
        self.extents.values().filter(|e| !e.lost).map(|e| e.live).sum()
    }

    fn most_names(&self) -> usize {
        (self.extents.len() * 4).clamp(8, MOST_NAMES)
    }

    /// Whether most prepared names are used up.
    fn wants_names(&self) -> bool {
        !self.extents.is_empty() && self.extent_names.len() * 4 <= self.most_names()
    }

    fn new_extent_number(&mut self) -> u32 {
        self.next_extent = self.next_extent.max(1) + 1;
        self.next_extent - 1
    }

    fn judge(&mut self, n: u32, due: bool) -> Verdict {
        let Some(e) = self.extents.get(&n).filter(|e| !e.lost && !e.suspect) else { return Verdict::Forget };
        let unused = e.sealed && e.live == 0 && e.writers == 0;
        if unused && !self.pins.keys().chain(self.held.keys()).any(|(s, _)| *s == n) {
            let bytes = e.bytes;
            // From here on no reader can pin a region of it.
            self.extents.remove(&n);
            return Verdict::Empty(bytes);
        }
        if due { Verdict::Punch } else { Verdict::Keep }
    }
}

impl Shared {
    /// Makes the next segment the active one and seals the one before. The caller holds
    /// `extent_making`.
    pub fn next_extent(&self, need: u64) -> Result<()> {
        let taken = {
            let mut core = self.core.lock();
            let i = core.spare_extents.iter().position(|s| s.bytes >= need);
            i.and_then(|i| core.spare_extents.remove(i)).map(|s| (s.number, s.bytes))
        };
        let (number, bytes) = match taken {
            Some(s) => s,
            None => self.make_extent(need)?,
        };
        let mut core = self.core.lock();
        let before = core.active_extent;
        core.seal_extent(before);
        core.extents.insert(number, Extent { bytes, ..Extent::default() });
        core.active_extent = number;
        Ok(())
    }

    /// A number for which there is an empty file with a durable name.
    fn take_name(&self) -> std::io::Result<u32> {
        loop {
            if let Some(n) = self.core.lock().extent_names.pop_front() {
                return Ok(n);
            }
            self.make_names(false)?;
        }
    }

    /// Prepares names, with one flush of the folder: if there are none, or if `most` are used up.
    fn make_names(&self, most: bool) -> std::io::Result<()> {
        let _one = self.extent_naming.lock();
        let numbers: Vec<u32> = {
            let mut core = self.core.lock();
            let wanted = if most { core.wants_names() } else { core.extent_names.is_empty() };
            if !wanted {
                return Ok(());
            }
            (core.extent_names.len()..core.most_names()).map(|_| core.new_extent_number()).collect()
        };
        let new = |n: &u32| self.extent_folder.create(&segment_name(*n), false).map(drop);
        if let Err(e) = numbers.iter().try_for_each(new).and_then(|()| self.extent_folder.sync()) {
            for n in numbers {
                let _ = self.extent_folder.remove(&segment_name(n));
            }
            return Err(e);
        }
        self.counters.syncs.fetch_add(1, Ordering::Relaxed);
        self.core.lock().extent_names.extend(numbers);
        Ok(())
    }

    /// The maintenance thread: prepares the names of segments before they are needed.
    pub fn prepare_names(&self) -> Result<()> {
        self.make_names(true).map_err(|e| self.failed("naming extent segments", &e))
    }

    /// Makes a segment: number and length.
    fn make_extent(&self, need: u64) -> Result<(u32, u64)> {
        let number = self.take_name().map_err(|e| self.failed("naming an extent segment", &e))?;
        let bytes = {
            let core = self.core.lock();
            let room = core.free.saturating_sub(self.options.reserve_bytes);
            // Near the end of the drive, smaller segments, so that the last bytes can be used.
            let bytes = self.usual_bytes(&core).min((room / 4).next_multiple_of(1 << 20));
            bytes.max(need)
        };
        let made = (|| {
            let f = self.extent_folder.open(&segment_name(number), self.options.direct)?;
            f.allocate(bytes)?;
            Ok(f)
        })();
        let file = match made {
            Ok(f) => f,
            Err(e) => {
                let _ = self.extent_folder.remove(&segment_name(number));
                return Err(self.failed("making an extent segment", &e));
            }
        };
        self.files.put(Kind::Extent, number, Arc::new(file));
        let mut core = self.core.lock();
        core.free = core.free.saturating_sub(bytes);
        Ok((number, bytes))
    }

    /// Whether the active segment has less than half left and no successor, and the drive has space for one.
    pub fn wants_extent(&self, core: &Core) -> bool {
        let room = self.options.reserve_bytes.saturating_mul(2) + self.options.segment_bytes;
        core.spare_extents.is_empty()
            && core.free >= room
            && core.extents.get(&core.active_extent).is_some_and(|e| !e.sealed && e.at * 2 > e.bytes)
    }

    /// The maintenance thread: makes the next segment before it is needed.
    pub fn prepare_extent(&self) -> Result<()> {
        if !self.wants_extent(&self.core.lock()) {
            return Ok(());
        }
        let _one = self.extent_making.lock();
        if !self.wants_extent(&self.core.lock()) {
            return Ok(());
        }
        let (number, bytes) = self.make_extent(0)?;
        let since = Instant::now();
        self.core.lock().spare_extents.push_back(SpareExtent { number, bytes, since });
        Ok(())
    }

    /// Whether free bytes are so low that nothing is kept that could be given back.
    fn short(&self, core: &Core) -> bool {
        core.free < self.options.reserve_bytes.saturating_mul(4).saturating_add(self.options.segment_bytes)
    }

    /// The length of the next segment: a sixteenth of the bytes in use, so that a few segments that are half
    /// empty or prepared take little space in comparison; at least a thirty-second of a hard disk.
    fn usual_bytes(&self, core: &Core) -> u64 {
        let most = self.options.segment_bytes;
        // A hard disk flushes each segment, and its file system writes a log for that.
        let least = if self.hard_disk.is() { (core.capacity / 32).max(SMALLEST) } else { SMALLEST };
        let bytes = (core.extent_live() / 16).max(least.min(most));
        bytes.checked_next_power_of_two().unwrap_or(most).clamp(SMALLEST.min(most), most)
    }

    /// Bytes of empty segments worth keeping: a sixteenth of the drive, an eighth of what is free, an eighth of what
    /// is in use.
    fn most_spares(&self, core: &Core) -> u64 {
        let enough = (core.extent_live() / 8).max(2 * self.usual_bytes(core));
        if self.short(core) { 0 } else { (core.capacity / 16).min(core.free / 8).min(enough) }
    }

    /// For the maintenance thread: processes freed regions. Empty segments are kept or removed; regions of
    /// others are given back to the file system after some time, or at once if `all` or short of space.
    pub fn settle_freed(&self, all: bool) -> Result<()> {
        let mut waiting = std::mem::take(&mut self.maintenance.lock().freed);
        let now = Instant::now();
        let short = {
            let mut core = self.core.lock();
            for f in std::mem::take(&mut core.freed) {
                let new = || FreedWaiting { since: now, regions: Vec::new() };
                waiting.entry(f.region.segment).or_insert_with(new).regions.push(f);
            }
            core.freed_bytes = 0;
            // Garbage above this limit does not wait: it is a quarter of what is in use.
            core.freed_most = (core.extent_live() / 4).max(2 * self.usual_bytes(&core));
            let garbage: u64 = waiting.values().flat_map(|w| &w.regions).map(|f| f.bytes).sum();
            self.short(&core) || garbage > core.freed_most
        };
        let mut first_error = Ok(());
        let mut renamed = Vec::new();
        let mut left = BTreeMap::new();
        for (n, w) in waiting {
            let due = all || short || now.duration_since(w.since) >= PUNCH_AFTER;
            let verdict = self.core.lock().judge(n, due);
            let done = match verdict {
                Verdict::Keep => {
                    left.insert(n, w);
                    Ok(())
                }
                Verdict::Forget => Ok(()),
                Verdict::Punch => self.punch(n, &w.regions),
                Verdict::Empty(bytes) => self.emptied(n, bytes, (!all).then_some(&mut renamed)),
            };
            first_error = first_error.and(done);
        }
        first_error = first_error.and(self.recycled(renamed));
        let bytes = |w: &FreedWaiting| w.regions.iter().map(|f| f.bytes).sum::<u64>();
        self.core.lock().freed_waiting = left.values().map(bytes).sum();
        self.maintenance.lock().freed = left;
        first_error
    }

    fn punch(&self, n: u32, regions: &[Freed]) -> Result<()> {
        let file = match self.extent_file(n) {
            Ok(f) => f,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            Err(e) => return Err(self.failed("opening an extent", &e)),
        };
        for f in regions.iter().filter(|f| f.bytes > 0) {
            file.punch_hole(f.region.offset, f.bytes).map_err(|e| self.failed("freeing an extent", &e))?;
        }
        Ok(())
    }

    /// Segment `n` is empty, and no longer in the table. `renamed`: those to be reused; `None`: none is.
    fn emptied(&self, n: u32, bytes: u64, renamed: Option<&mut Vec<Renamed>>) -> Result<()> {
        self.files.forget(Kind::Extent, n);
        if let Some(renamed) = renamed
            && let Some(number) = self.may_recycle(bytes, renamed)
        {
            match self.rename(n, number, bytes) {
                Ok(new) => {
                    renamed.push(new);
                    return Ok(());
                }
                Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(()),
                Err(e) => {
                    tracing::debug!(drive = %self.label.drive, segment = n, error = %e, "not used again")
                }
            }
            let _ = self.extent_folder.remove(&segment_name(number));
        }
        self.extent_folder.remove(&segment_name(n)).map_err(|e| self.failed("removing an extent segment", &e))
    }

    /// The number under which a segment of `bytes` may be reused; `renamed`: those that are about to be.
    fn may_recycle(&self, bytes: u64, renamed: &[Renamed]) -> Option<u32> {
        let waiting = renamed.iter().map(|r| r.bytes).sum::<u64>();
        let mut core = self.core.lock();
        // Segments from the time when the drive held less are too small in the long run.
        let usual = (self.usual_bytes(&core) / 4..=self.options.segment_bytes).contains(&bytes);
        let room = core.spare_bytes() + waiting + bytes <= self.most_spares(&core);
        (usual && room).then(|| core.new_extent_number())
    }

    /// Gives segment `n` another number; its name is not durable yet.
    fn rename(&self, n: u32, number: u32, bytes: u64) -> std::io::Result<Renamed> {
        let file = self.extent_folder.open(&segment_name(n), self.options.direct)?;
        // What was punched out is allocated again, so that a write to it cannot fail because the drive is
        // full.
        file.allocate(bytes)?;
        self.extent_folder.rename(&segment_name(n), &segment_name(number))?;
        Ok(Renamed { number, bytes, file })
    }

    /// Makes the names of renamed segments durable, with one flush, and has the segments used again.
    fn recycled(&self, renamed: Vec<Renamed>) -> Result<()> {
        if renamed.is_empty() {
            return Ok(());
        }
        self.extent_folder.sync().map_err(|e| self.failed("renaming extent segments", &e))?;
        self.counters.syncs.fetch_add(1, Ordering::Relaxed);
        self.counters.recycled.fetch_add(renamed.len() as u64, Ordering::Relaxed);
        let since = Instant::now();
        for Renamed { number, bytes, file } in renamed {
            self.files.put(Kind::Extent, number, Arc::new(file));
            self.core.lock().spare_extents.push_back(SpareExtent { number, bytes, since });
        }
        Ok(())
    }

    /// For the maintenance thread: removes spare segments that were not used, and all if space is short or
    /// `all`.
    pub fn release_spares(&self, all: bool) -> Result<()> {
        let gone: Vec<u32> = {
            let mut core = self.core.lock();
            let short = all || self.short(&core);
            let newest = core.spare_extents.back().map(|s| s.number);
            let stays =
                |s: &SpareExtent| !short && (Some(s.number) == newest || s.since.elapsed() < SPARE_FOR);
            let (stay, gone): (Vec<_>, Vec<_>) = core.spare_extents.drain(..).partition(stays);
            core.spare_extents = stay.into();
            gone.into_iter().map(|s| s.number).collect()
        };
        for n in gone {
            self.files.forget(Kind::Extent, n);
            self.extent_folder
                .remove(&segment_name(n))
                .map_err(|e| self.failed("removing an extent segment", &e))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulated::simulated_drive;
    use crate::{Drive, Role, Tally};
    use ashlar_format::{Ballot, BucketId, GroupId, RegisterKey, Space, WriteId};
    use bytes::Bytes;

    fn put(d: &Drive, id: u8) {
        let owner = RegisterKey::new(GroupId::default(), Space::Object, BucketId([1; 16]), b"k");
        let ballot = Ballot { epoch: 0, counter: 1, node: 1, nonce: 7 };
        let mut w = d.begin_shard(&owner, WriteId([id; 16]), 0, ballot, 0, 8192, 8192).unwrap();
        let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
        let wrote = std::pin::pin!(w.write(Bytes::from(vec![id; 8192]))).poll(&mut cx);
        assert!(matches!(wrote, std::task::Poll::Ready(Ok(()))));
        let t = Tally::new(1);
        w.finish(t.completion(0));
        d.pump();
        assert_eq!(t.outcome().ok, 1, "{:?}", t.error());
    }

    fn region(d: &Drive, id: u8) -> crate::entry::Region {
        d.shared.shard_now((WriteId([id; 16]), 0), crate::run::Mode::Wait).unwrap().unwrap().extent.unwrap()
    }

    /// A reader may have kept the file open under its old number, and a writer may give its region back after
    /// the maintenance thread read the list of freed ones. Neither affects the shards that came later.
    #[test]
    fn late_free_of_old_number_frees_nothing() {
        let (_disk, d) = simulated_drive(Role::Voter, 32 << 10, 64 << 10);
        // Two to a segment; the third seals the first one.
        (1..=3).for_each(|id| put(&d, id));
        let old = region(&d, 1);
        let kept_open = d.shared.extent_file(old.segment).unwrap();
        d.discard(GroupId::default(), 0, &[1, 2].map(|id| (WriteId([id; 16]), 0)));
        d.pump();
        let wait =
            std::pin::pin!(d.flush()).poll(&mut std::task::Context::from_waker(std::task::Waker::noop()));
        assert!(wait.is_ready());
        d.upkeep().unwrap();
        assert_eq!(d.stats().recycled, 1);
        d.shared.files.put(Kind::Extent, old.segment, kept_open);
        (4..=6).for_each(|id| put(&d, id));
        let new = [5, 6].map(|id| region(&d, id)).into_iter().find(|r| r.offset == old.offset);
        assert!(new.is_some_and(|r| r.segment != old.segment), "the place was not used again");
        d.shared.core.lock().freed.push(Freed { region: old, bytes: 16384 });
        d.shared.settle_freed(true).unwrap();
        for id in 3..=6 {
            let verified = std::pin::pin!(d.verify_shard(WriteId([id; 16]), 0))
                .poll(&mut std::task::Context::from_waker(std::task::Waker::noop()));
            assert!(matches!(verified, std::task::Poll::Ready(Ok(()))), "shard {id}: {verified:?}");
        }
    }
}
