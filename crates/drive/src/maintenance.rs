//! The maintenance thread: one thread per drive for all work that is not urgent.
//!
//! It checks the folder, updates the free space, journals lazy operations, prepares segments, writes and
//! merges index files, frees regions and compacts.
//!
//! Invariants: each piece of work is bounded and can be interrupted by a crash; the maintenance thread yields
//! between steps, so that a long merge never delays writing the overlay.
//!
//! Must not depend on: other drives.

use crate::core::{EMPTIED, Shared};
use crate::drain::Merge;
use crate::files::segment_name;
use crate::index::must;
use crate::maintenance_state::Urge;
use crate::op::Op;
use crate::run::Mode;
use crate::{Completion, Result};
use ashlar_environment::time::Instant;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Bytes of a merge between two checks for other work.
const MERGE_STEP: u64 = 2 << 20;

impl Shared {
    /// Runs the maintenance thread.
    pub fn run_maintenance(self: &Arc<Self>) {
        let mut merges: Vec<Merge> = Vec::new();
        let mut last_tick = Instant::now();
        loop {
            {
                let mut core = self.core.lock();
                if core.closing || core.fenced.is_some() {
                    break;
                }
                if !core.maintenance_woken && merges.is_empty() {
                    self.maintenance_work.wait_for(&mut core, self.options.tick);
                }
                core.maintenance_woken = false;
                if core.closing {
                    break;
                }
            }
            if last_tick.elapsed() >= self.options.tick {
                last_tick = Instant::now();
                self.tick();
            }
            let one = self.upkeep.lock();
            let done = self.round(&mut merges, false);
            drop(one);
            if let Err(e) = done {
                tracing::warn!(drive = %self.label.drive, error = %e, "drive upkeep failed");
                merges.clear();
                ashlar_environment::thread::sleep(Duration::from_millis(50).min(self.options.tick));
            }
        }
        drop(merges);
        // Before it waits for a journal that may hang.
        self.mark_fenced();
        self.last_round();
    }

    /// After the journal thread has ended: writes a checkpoint, unless the drive was just dropped.
    fn last_round(self: &Arc<Self>) {
        while self.journal_ended.outcome().ok == 0 {
            self.journal_ended.block(Duration::from_millis(100));
        }
        if self.writable().is_ok() && self.core.lock().checkpoint_on_close {
            let _one = self.upkeep.lock();
            // Nothing is left to search for at the next start.
            let noted = !self.core.lock().unnamed.noted.is_empty();
            if noted {
                self.core.lock().queue.push(Op::NoteUnnamed);
                self.commit();
            }
            // What waits to be given back is dropped with the process.
            if let Err(e) = self.drain().and_then(|()| self.settle_freed(true)) {
                tracing::warn!(drive = %self.label.drive, error = %e, "no checkpoint at close");
            }
        }
        self.mark_fenced();
        self.set_closed();
        self.lock.lock().take();
    }

    /// Runs once per tick: checks the folder and free space, commits lazy operations.
    pub fn tick(self: &Arc<Self>) {
        if self.core.lock().fenced.is_some() {
            return;
        }
        let active = self.core.lock().active;
        let here = self.root.identity("label").is_ok_and(|id| id == self.label_identity)
            && (active == 0 || self.journal_folder.identity(&segment_name(active)).is_ok());
        if !here {
            self.fence(EMPTIED);
            return;
        }
        if let Ok(space) = self.root.space() {
            let mut core = self.core.lock();
            core.free = space.free;
            core.capacity = space.total;
            drop(core);
            if space.read_only {
                self.set_read_only();
            }
        }
        self.options.pool.trim();
        {
            let records = self.counters.records.load(Ordering::Relaxed);
            let mut k = self.maintenance.lock();
            k.idle = records.saturating_sub(k.records) < 64;
            k.records = records;
        }
        let mut core = self.core.lock();
        if !(core.lazy.is_empty() && core.unnamed.records.is_empty()) {
            let _ = core.enqueue(Op::Barrier { done: Completion::ignored() }, &self.journal_work);
        }
        core.raise_floors(None, &self.journal_work);
    }

    /// One round of upkeep. `merges`: those under way. `all`: do everything that is due, now.
    pub fn round(self: &Arc<Self>, merges: &mut Vec<Merge>, all: bool) -> Result<()> {
        self.writable()?;
        if self.counters.index_broken.load(Ordering::SeqCst) {
            merges.clear();
            self.rebuild_index()?;
        }
        self.keep_up(all)?;
        self.resolve_waiting()?;
        self.settle_freed(all)?;
        self.release_spares(all)?;
        if !all {
            self.prepare_extent()?;
            self.prepare_names()?;
        }
        if all {
            self.merge_all(merges)?;
        } else {
            self.merge(merges, MERGE_STEP)?;
        }
        if merges.is_empty() {
            self.compact_one(all)?;
        }
        Ok(())
    }

    /// What requests wait for if it is late: a segment for the head of the journal, and room for changes of the index in
    /// memory. `all`: writes even a small overlay.
    pub fn keep_up(self: &Arc<Self>, all: bool) -> Result<()> {
        if self.wants_spare() {
            self.prepare_spare()?;
        }
        let (over, bytes) = {
            let core = self.core.lock();
            let bytes = core.overlay.active.bytes;
            (bytes > self.options.cache_bytes / 2 || core.overlay.frozen.is_some(), bytes)
        };
        // From time to time also a small overlay, so that recovery stays short and space is given back.
        let stale = || {
            let k = self.maintenance.lock();
            k.last_drain.is_none_or(|t| t.elapsed() > Duration::from_secs(60))
        };
        if over || (bytes > 0 && (all || stale())) {
            self.drain()?;
            self.maintenance.lock().last_drain = Some(Instant::now());
        }
        Ok(())
    }

    /// Whether the head is more than half way through its segment.
    fn wants_spare(&self) -> bool {
        let core = self.core.lock();
        if core.spare.is_some() || core.active == 0 {
            return false;
        }
        let bytes = core.journal.get(&core.active).map_or(0, |s| s.bytes);
        core.applied.segment == core.active && u64::from(core.applied.at) * 2 > bytes
    }

    fn compact_one(self: &Arc<Self>, all: bool) -> Result<()> {
        loop {
            let victim = {
                let core = self.core.lock();
                let mut k = self.maintenance.lock();
                let short = core.free < self.options.reserve_bytes.saturating_mul(2);
                let urge = match (short, all || k.idle) {
                    (true, _) => Urge::ShortOfSpace,
                    (_, true) => Urge::Idle,
                    _ => Urge::Busy,
                };
                let k = &mut *k;
                core.victim(&k.bad, urge, &mut k.pass)
            };
            let Some(n) = victim else { return Ok(()) };
            let short = self.core.lock().free < self.options.reserve_bytes;
            if !self.compact(n, !short && !all)? {
                tracing::error!(drive = %self.label.drive, segment = n, "segment does not verify");
                self.maintenance.lock().bad.push(n);
            }
            if !all {
                // Does the other work first, then continues at once.
                self.core.lock().maintenance_woken = true;
                return Ok(());
            }
        }
    }

    /// Looks up the entries that waiting discards and purges refer to, then journals these lazily.
    fn resolve_waiting(self: &Arc<Self>) -> Result<()> {
        let (discards, purges) = {
            let core = self.core.lock();
            if core.unresolved_discards.is_empty() && core.unresolved.is_empty() {
                return Ok(());
            }
            let discards: Vec<_> = core.unresolved_discards.iter().copied().collect();
            (discards, core.unresolved.clone())
        };
        for name in discards {
            let found = self.shard_now(name, Mode::Wait).map_err(must)?;
            let mut core = self.core.lock();
            // No longer in the set: it was staged again in the meantime and stays.
            if core.unresolved_discards.remove(&name)
                && let Some(s) = found
            {
                let op = Op::Discard { name, target: s.loc.segment };
                core.enqueue_lazy(op, &self.journal_work);
            }
        }
        for (key, ballot) in &purges {
            let found = self.register_now(key, Mode::Wait).map_err(must)?;
            if let Some(r) = found.filter(|r| r.ballot == *ballot) {
                let (oldest, newest) = (r.oldest, r.loc.segment);
                let op = Op::Purge { key: key.clone(), ballot: *ballot, oldest, newest };
                self.core.lock().enqueue_lazy(op, &self.journal_work);
            }
        }
        self.core.lock().unresolved.drain(..purges.len());
        Ok(())
    }

    /// Seals the active extent segment if nothing in it is in use, so that all its space is given back.
    pub fn drop_empty_extents(&self) {
        let mut core = self.core.lock();
        let n = core.active_extent;
        let empty = core.extents.get(&n).is_some_and(|e| e.at > 0 && e.live == 0 && e.writers == 0);
        if empty {
            core.active_extent = 0;
            core.seal_extent(n);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulated::formatted_drive;
    use crate::{Accept, Drive, Options, Role, Tally};
    use ashlar_format::{Ballot, BucketId, GroupId, RegisterKey, Space};
    use ashlar_machine::{BufferPool, Folder, SimDisk};
    use bytes::Bytes;

    const CACHE: usize = 64 << 10;

    fn options() -> Options {
        let mut o = Options::new(BufferPool::new(64 << 20));
        (o.segment_bytes, o.journal_segment_bytes, o.reserve_bytes) = (1 << 20, 4 << 20, 1 << 20);
        (o.cache_bytes, o.tick) = (CACHE, Duration::from_millis(20));
        o
    }

    fn accept(n: u64) -> Accept {
        let name = format!("key-{n:07}");
        let ballot = Ballot { epoch: 0, counter: n + 1, node: 1, nonce: 1 };
        Accept {
            key: RegisterKey::new(GroupId::default(), Space::Object, BucketId([1; 16]), name.as_bytes()),
            ballot,
            epoch: 0,
            record: Bytes::from(vec![7; 200]),
            summary: Bytes::new(),
            inline: None,
        }
    }

    /// Moving a segment changes the index for each record in it, while clients change it too.
    #[test]
    fn compaction_of_a_segment_writes_the_index_meanwhile() {
        let disk = SimDisk::new(256 << 20);
        let d = formatted_drive(&Folder::simulated(&disk, None), Role::Voter, &options(), false);
        for n in 0..30_000 {
            d.accept(accept(n), Completion::ignored());
            if n % 64 == 0 {
                d.pump();
            }
        }
        d.pump();
        d.shared.round(&mut Vec::new(), false).unwrap();
        let first = *d.shared.core.lock().journal.keys().next().unwrap();
        assert!(d.shared.compact(first, false).unwrap());
        let stats = d.stats();
        assert!(stats.compacted > 2 << 20, "{stats:?}");
        // Half of the limit, and a chunk of an eighth of a segment.
        assert!(stats.overlay_bytes < CACHE as u64 / 2 + (1 << 20), "{stats:?}");
        assert_eq!(d.audit().unwrap(), Vec::<String>::new());
    }

    /// Writes keys, eight at a time, until so many bytes of changes are in memory.
    fn write_until(d: &Drive, from: u64, bytes: usize) -> u64 {
        let mut n = from;
        while d.stats().overlay_bytes < bytes as u64 {
            let tally = Tally::new(8);
            (0..8).for_each(|i| d.accept(accept(n + i), tally.completion(i as u8)));
            while tally.outcome().ok != 0xff {
                tally.block(Duration::from_millis(100));
                assert_eq!(tally.outcome().failed, 0, "{:?}", tally.error());
            }
            n += 8;
        }
        n
    }

    /// On a file system where the journal thread commits, and on one where callers do.
    #[test]
    fn writers_slow_down_until_the_index_is_written() {
        for base in ["/dev/shm", "/tmp"] {
            let dir = tempfile::tempdir_in(base).unwrap();
            let d = formatted_drive(&Folder::real(dir.path(), None), Role::Voter, &options(), true);
            // The maintenance thread cannot work.
            let busy = d.shared.upkeep.lock();
            let n = write_until(&d, 0, CACHE);
            let began = Instant::now();
            let n = write_until(&d, n, 2 * CACHE);
            // 27 batches of eight, 10 ms each in the mean.
            assert!(began.elapsed() > Duration::from_millis(150), "{:?}", began.elapsed());
            drop(busy);
            while d.stats().overlay_bytes > CACHE as u64 {
                ashlar_environment::thread::sleep(Duration::from_millis(5));
            }
            d.tidy().unwrap();
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            for k in 0..n {
                let read = runtime.block_on(d.read(&accept(k).key, false, 0)).unwrap();
                assert!(read.accepted.is_some(), "key {k}");
            }
        }
    }
}
