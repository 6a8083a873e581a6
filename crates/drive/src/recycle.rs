//! Extent segments before and after they hold shards: made ahead of need, used again when empty,
//! given back when nobody needs them.
//!
//! A first-touched page costs more than the copy into it (1.5 us per 4 KiB in memory; on a disk, an
//! extent that has to be converted), hence a segment that has become empty gets a new number and is
//! kept for the next shards, instead of being removed. Invariants: a number is never used twice, so
//! that a region (segment, offset) is never given out twice and whatever still speaks of an old one
//! finds nothing; a spare segment's name and length are durable before a region of it is given out; a
//! segment leaves the table under the lock under which readers pin, so none is taken from a reader;
//! spares are bounded by [`Shared::most_spares`] and by age.
//!
//! Must never know: what shards hold.

use crate::Result;
use crate::core::{Core, Extent, Freed, Shared};
use crate::files::{Kind, segment_name};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// A freed region waits this long for the rest of its segment before it is punched out.
const PUNCH_AFTER: Duration = Duration::from_secs(5);
/// A spare segment but the newest is removed when nobody took it for this long.
const SPARE_FOR: Duration = Duration::from_secs(60);

/// An empty segment with a durable name.
pub(crate) struct SpareExtent {
    pub number: u32,
    pub bytes: u64,
    since: Instant,
}

/// Freed regions of one segment.
pub(crate) struct Waiting {
    since: Instant,
    regions: Vec<Freed>,
}

/// What to do with a segment that has freed regions.
enum Verdict {
    Keep,
    Punch,
    /// Nothing is in it; its length.
    Empty(u64),
}

impl Core {
    /// Bytes of prepared segments.
    pub fn spare_bytes(&self) -> u64 {
        self.spare_extents.iter().map(|s| s.bytes).sum()
    }

    fn new_extent_number(&mut self) -> u32 {
        self.next_extent = self.next_extent.max(1) + 1;
        self.next_extent - 1
    }

    fn judge(&mut self, n: u32, due: bool) -> Verdict {
        let Some(e) = self.extents.get(&n) else { return Verdict::Punch };
        let unused = e.sealed && e.live == 0 && e.writers == 0;
        if unused && !self.pins.keys().chain(self.held.keys()).any(|(s, _)| *s == n) {
            let bytes = e.bytes;
            // From here on nobody can pin a region of it.
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

    /// Makes a segment: number and length.
    fn make_extent(&self, need: u64) -> Result<(u32, u64)> {
        let (number, bytes) = {
            let mut core = self.core.lock();
            let room = core.free.saturating_sub(self.options.reserve_bytes);
            // Near the end of the drive smaller segments, so that the last bytes can be used.
            let bytes = self.options.segment_bytes.min((room / 4).next_multiple_of(1 << 20));
            (core.new_extent_number(), bytes.max(need))
        };
        let made = (|| {
            let f = self.extent_folder.create(&segment_name(number), self.options.direct)?;
            f.allocate(bytes)?;
            f.sync_all()?;
            self.extent_folder.sync()?;
            Ok(f)
        })();
        let file = match made {
            Ok(f) => f,
            Err(e) => {
                let _ = self.extent_folder.remove(&segment_name(number));
                return Err(self.failed("making an extent segment", &e));
            }
        };
        self.counters.syncs.fetch_add(2, Ordering::Relaxed);
        self.files.put(Kind::Extent, number, Arc::new(file));
        let mut core = self.core.lock();
        core.free = core.free.saturating_sub(bytes);
        Ok((number, bytes))
    }

    /// Has the active segment less than half left and no successor, and the drive room for one?
    pub fn wants_extent(&self, core: &Core) -> bool {
        let room = self.options.reserve_bytes.saturating_mul(2) + self.options.segment_bytes;
        core.spare_extents.is_empty()
            && core.free >= room
            && core.extents.get(&core.active_extent).is_some_and(|e| !e.sealed && e.at * 2 > e.bytes)
    }

    /// The keeper: makes the next segment before it is needed.
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

    /// Free bytes below which nothing is kept that could be given back.
    fn short(&self, core: &Core) -> bool {
        core.free < self.options.reserve_bytes.saturating_mul(4).saturating_add(self.options.segment_bytes)
    }

    /// Bytes of empty segments worth keeping: a sixteenth of the drive, an eighth of what is free.
    fn most_spares(&self, core: &Core) -> u64 {
        if self.short(core) { 0 } else { (core.capacity / 16).min(core.free / 8) }
    }

    /// The keeper: sorts freed regions. Segments that are empty are kept or removed, regions of
    /// others are given back to the file system after a while, or at once if `all` or short of space.
    pub fn settle_freed(&self, all: bool) -> Result<()> {
        let mut waiting = std::mem::take(&mut self.keeper.lock().freed);
        let now = Instant::now();
        let short = {
            let mut core = self.core.lock();
            for f in std::mem::take(&mut core.freed) {
                let new = || Waiting { since: now, regions: Vec::new() };
                waiting.entry(f.region.segment).or_insert_with(new).regions.push(f);
            }
            self.short(&core)
        };
        let mut first_error = Ok(());
        let mut left = BTreeMap::new();
        for (n, w) in waiting {
            let due = all || short || now.duration_since(w.since) >= PUNCH_AFTER;
            let verdict = self.core.lock().judge(n, due);
            let done = match verdict {
                Verdict::Keep => {
                    left.insert(n, w);
                    Ok(())
                }
                Verdict::Punch => self.punch(n, &w.regions),
                Verdict::Empty(bytes) => self.emptied(n, bytes, !all),
            };
            first_error = first_error.and(done);
        }
        self.keeper.lock().freed = left;
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

    /// Nothing is in segment `n`, and the table does not know it any more.
    fn emptied(&self, n: u32, bytes: u64, keep: bool) -> Result<()> {
        self.files.forget(Kind::Extent, n);
        if keep && let Some(number) = self.may_recycle(bytes) {
            match self.recycle(n, number, bytes) {
                Ok(()) => return Ok(()),
                Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(()),
                Err(e) => {
                    tracing::debug!(drive = %self.label.drive, segment = n, error = %e, "not used again")
                }
            }
            let _ = self.extent_folder.remove(&segment_name(number));
        }
        self.extent_folder.remove(&segment_name(n)).map_err(|e| self.failed("removing an extent segment", &e))
    }

    /// The number under which a segment of `bytes` may be used again.
    fn may_recycle(&self, bytes: u64) -> Option<u32> {
        let mut core = self.core.lock();
        let usual = bytes == self.options.segment_bytes;
        let room = core.spare_bytes() + bytes <= self.most_spares(&core);
        (usual && room).then(|| core.new_extent_number())
    }

    fn recycle(&self, n: u32, number: u32, bytes: u64) -> std::io::Result<()> {
        let file = self.extent_folder.open(&segment_name(n), self.options.direct)?;
        // What was punched out is allocated again, so that a write into it cannot find the drive full.
        file.allocate(bytes)?;
        self.extent_folder.rename(&segment_name(n), &segment_name(number))?;
        self.extent_folder.sync()?;
        self.counters.syncs.fetch_add(1, Ordering::Relaxed);
        self.counters.recycled.fetch_add(1, Ordering::Relaxed);
        self.files.put(Kind::Extent, number, Arc::new(file));
        let since = Instant::now();
        self.core.lock().spare_extents.push_back(SpareExtent { number, bytes, since });
        Ok(())
    }

    /// The keeper: removes spare segments that nobody took, and all when space is short or `all`.
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
