//! The journal of a running drive: group commit.
//!
//! One thread takes all queued operations, puts them into one batch, writes it with one write, makes it
//! durable with one flush, then applies and answers them all.
//!
//! Invariants: a batch is written only after the previous one is durable, so that at most the last batch can
//! be torn; nothing is answered before its flush succeeded (I11); a failed write or flush fences the drive
//! (I12).
//!
//! Must not depend on: what a record or a shard contains.

use crate::core::{Core, Shared};
use crate::head::Writer;
use crate::op::{Op, states_len};
use crate::place::place;
use crate::space::Position;
use crate::{Error, Result};
use ashlar_environment::time::Instant;
use ashlar_format::GroupId;
use ashlar_format::codec;
use ashlar_format::journal::{self, BATCH_HEADER, BatchWriter, GroupState, PAGE, SECTOR, kind, record_len};
use ashlar_machine::{Buf, FileSystem};
use parking_lot::MutexGuard;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Most bytes of a batch of several records.
const MAX_BATCH: usize = 1 << 20;
/// The batch buffer kept between batches; a larger one goes back to the pool.
const KEEP_BUFFER: usize = 64 << 10;
/// How often a hard disk checks whether the records of its large shards have come, and for how long.
const GATHER: (Duration, Duration) = (Duration::from_millis(4), Duration::from_millis(50));
/// The longest delay of a batch while the changes of the index in memory are over their limit.
const MOST_DELAY: Duration = Duration::from_millis(20);

impl Shared {
    /// The journal thread.
    pub fn run_journal(self: &Arc<Self>) {
        loop {
            {
                let mut core = self.core.lock();
                while core.queue.is_empty() && core.fenced.is_none() {
                    if core.closing {
                        if core.lazy.is_empty() && core.unnamed.records.is_empty() {
                            return;
                        }
                        break;
                    }
                    core.journal_sleeps = true;
                    self.journal_work.wait(&mut core);
                    core.journal_sleeps = false;
                }
                self.gather(&mut core);
                self.await_index(&mut core);
                if core.fenced.is_some() {
                    return;
                }
            }
            if !self.commit() && self.core.lock().closing {
                // What waits cannot be written; the next start finds the shards.
                return;
            }
        }
    }

    /// On a hard disk, where a batch costs the time of two seeks and a flush: large shards that were flushed together are named together,
    /// so waits shortly while fewer operations are queued than shards wait for a batch. A single operation does not wait.
    fn gather(&self, core: &mut MutexGuard<'_, Core>) {
        if !self.hard_disk.is() {
            return;
        }
        let began = Instant::now();
        while core.queue.len() < core.unnamed.records.len()
            && !core.closing
            && core.fenced.is_none()
            && began.elapsed() < GATHER.1
        {
            self.journal_work.wait_for(core, GATHER.0);
        }
    }

    /// Delays the next batch while the maintenance thread writes changes of the index more slowly than clients add some:
    /// not at [`Options::cache_bytes`], by [`MOST_DELAY`] at twice that, and by a share of it between. A batch that the
    /// maintenance thread itself waits for is not delayed.
    ///
    /// [`Options::cache_bytes`]: crate::Options::cache_bytes
    fn await_index(&self, core: &mut MutexGuard<'_, Core>) {
        let began = Instant::now();
        while let Some(left) = self.delay(core).checked_sub(began.elapsed()).filter(|d| !d.is_zero()) {
            if core.closing
                || core.fenced.is_some()
                || core.queue.iter().any(|op| matches!(op, Op::Barrier { .. }))
            {
                return;
            }
            self.journal_work.wait_for(core, left);
        }
    }

    /// How long a batch waits for the index to be written.
    fn delay(&self, core: &Core) -> Duration {
        let limit = self.options.cache_bytes;
        let over = core.overlay.active.bytes.saturating_sub(limit).min(limit);
        MOST_DELAY.mul_f64(over as f64 / limit.max(1) as f64)
    }

    /// Commits everything that is queued. Returns false if nothing was, or if what is left cannot be written now.
    pub fn commit(self: &Arc<Self>) -> bool {
        self.run_later();
        let mut w = self.writer.lock();
        self.commit_with(&mut w)
    }

    /// Without threads: commits until nothing is queued, as the journal thread does. What may wait for a later batch
    /// waits.
    pub fn commit_queued(self: &Arc<Self>) {
        loop {
            while self.run_later() {}
            if self.core.lock().queue.is_empty() {
                return;
            }
            self.commit();
        }
    }

    /// Without threads: runs the jobs that would run beside. Returns whether there were any.
    fn run_later(&self) -> bool {
        let jobs = if self.threads { Vec::new() } else { std::mem::take(&mut *self.later.lock()) };
        let any = !jobs.is_empty();
        for job in jobs {
            job();
        }
        any
    }

    /// Commits on the caller's thread unless another thread is committing. Where a flush does not wait for a
    /// device, handing over to the journal thread costs several times the commit itself.
    pub fn commit_here(self: &Arc<Self>) {
        // A caller must not sleep; the journal thread may.
        if !self.delay(&self.core.lock()).is_zero() {
            self.journal_work.notify_one();
            return;
        }
        // If the writer is taken, its holder checks the queue again and commits the operation.
        for _ in 0..64 {
            let Some(mut w) = self.writer.try_lock() else { return };
            self.commit_with(&mut w);
            drop(w);
            if self.core.lock().queue.is_empty() {
                return;
            }
        }
        self.journal_work.notify_one();
    }

    fn commit_with(self: &Arc<Self>, w: &mut Writer) -> bool {
        let mut ops = std::mem::take(&mut w.ops);
        {
            let mut core = self.core.lock();
            core.take(&mut ops);
        }
        if ops.is_empty() {
            w.ops = ops;
            return false;
        }
        let mut rest = ops.drain(..).peekable();
        let mut batch = std::mem::take(&mut w.batch);
        let (mut size, mut written) = (0, true);
        while let Some(op) = rest.next() {
            size += op.size();
            batch.push(op);
            let next = rest.peek().map_or(usize::MAX, Op::size);
            if size.saturating_add(next) > MAX_BATCH {
                written = self.commit_batch(w, &mut batch, size);
                size = 0;
            }
        }
        drop(rest);
        w.ops = ops;
        w.batch = batch;
        if w.buf.as_ref().is_some_and(|b| b.capacity() > KEEP_BUFFER) {
            w.buf = None;
        }
        // Records that could not be written wait again, and are not tried again at once.
        written || !self.core.lock().queue.is_empty()
    }

    /// Writes one batch and answers its operations. Returns whether it was written.
    fn commit_batch(self: &Arc<Self>, w: &mut Writer, batch: &mut Vec<Op>, size: usize) -> bool {
        let started = Instant::now();
        let r = self.write_batch(w, batch, size);
        match r {
            Ok(states) => {
                let us = started.elapsed().as_micros() as u64;
                let c = &self.counters;
                c.batches.fetch_add(1, Ordering::Relaxed);
                c.records.fetch_add(batch.len() as u64, Ordering::Relaxed);
                c.commit_us.fetch_add(us, Ordering::Relaxed);
                c.commit_us_max.fetch_max(us, Ordering::Relaxed);
                self.settle(w, batch, &states);
                true
            }
            Err(e) => {
                let mut gone = Vec::new();
                {
                    let mut core = self.core.lock();
                    core.failed_moves += u64::from(batch.iter().any(Op::is_upkeep));
                    for op in batch.iter() {
                        if let Op::Accept { hash, accept, .. } = op
                            && let Some(p) = core.pending.remove(hash)
                        {
                            gone.push(p);
                            // It let records through that are not written: the acceptor becomes as after a
                            // restart.
                            core.groups.reset(accept.key.group());
                        }
                        if let Op::Fence { key, .. } = op {
                            core.fences.answered(key);
                        }
                    }
                }
                drop(gone);
                for op in batch.drain(..) {
                    let goes_on = self.writable().is_ok();
                    let failed = self.core.lock().unnamed.failed(op, goes_on);
                    if let Some(op) = failed {
                        op.fail(&e);
                    }
                }
                false
            }
        }
    }

    /// Lays out, writes and flushes a batch. Returns the new states of the groups that it changes.
    fn write_batch(&self, w: &mut Writer, batch: &[Op], size: usize) -> Result<Vec<(GroupId, GroupState)>> {
        self.writable()?;
        let changes = batch.iter().any(|op| matches!(op, Op::State { .. } | Op::States));
        w.note = None;
        let noting = batch.iter().any(|op| matches!(op, Op::NoteUnnamed));
        let (mut states, count, note, noted) = {
            let core = self.core.lock();
            let states = if changes { core.groups.states() } else { BTreeMap::new() };
            (states, core.journal.len() + 1, core.unnamed_note(), core.unnamed_covered() && !noting)
        };
        let listed = |n: usize| record_len(8 + 4 * n);
        let forget = batch.iter().any(|op| matches!(op, Op::Forget { .. }));
        let mut need = BATCH_HEADER + size + 2 * listed(count) + record_len(8 + 16 * note.len());
        for _ in batch.iter().filter(|op| matches!(op, Op::States)) {
            let more: usize = batch.iter().map(Op::groups).sum();
            need += states_len(states.len() + more);
        }
        if w.file.is_none()
            || w.older
            || u64::from(w.position.at) + (need.next_multiple_of(PAGE) + PAGE) as u64 > w.bytes
        {
            self.rotate(w, need)?;
        }
        let starts = w.prologue;
        let segments = starts.then(|| self.segment_list());
        need = need.next_multiple_of(PAGE);
        let align = self.batch_align();
        let mut buf = match w.buf.take() {
            Some(b) if b.capacity() >= need => b,
            _ => self.options.pool.get_reserved(need.max(16 << 10)),
        };
        let cap = buf.capacity();
        buf.set_len(cap);
        let at = w.position;
        let mut out = BatchWriter::new(self.key, at.segment, at.at, align);
        w.placed.clear();
        let mut written = BTreeMap::new();
        if let Some(list) = segments {
            let mut p = codec::Writer::with_capacity(8 + 4 * list.len());
            let list: Vec<u32> = list.into_iter().filter(|n| *n < at.segment).collect();
            journal::segments(&mut p, &list);
            out.push(&mut buf, kind::SEGMENTS, &[&p.into_vec()]);
        }
        for op in batch {
            if let Op::Purge { key, ballot, .. } = op
                && let Some(state) = states.get_mut(&key.group())
            {
                state.horizon = state.horizon.max(*ballot);
            }
            let left = op.change_states(&mut states);
            written.extend(left.iter().copied());
            let placed = place(&mut out, &mut buf, at.segment, op, &left);
            w.placed.push(placed);
        }
        if forget {
            let mut list = self.segment_list();
            list.retain(|n| {
                *n < at.segment && !batch.iter().any(|op| matches!(op, Op::Forget { victim } if victim == n))
            });
            let mut p = codec::Writer::with_capacity(8 + 4 * list.len());
            journal::segments(&mut p, &list);
            out.push(&mut buf, kind::SEGMENTS, &[&p.into_vec()]);
        }
        if starts || noting || !(noted || out.is_empty()) {
            let mut p = codec::Writer::with_capacity(8 + 16 * note.len());
            journal::unnamed(&mut p, &note);
            out.push(&mut buf, kind::UNNAMED, &[&p.into_vec()]);
            w.note = Some(note);
        }
        if out.is_empty() {
            // Only barriers: everything before them is durable already.
            w.buf = Some(buf);
            return Ok(Vec::new());
        }
        let r = self.put_batch(w, &out, &mut buf);
        w.buf = Some(buf);
        r?;
        w.prologue = false;
        Ok(written.into_iter().collect())
    }

    /// The alignment to which batches are padded.
    pub(super) fn batch_align(&self) -> usize {
        if self.medium == FileSystem::Memory { SECTOR } else { PAGE }
    }

    /// Closes and writes a batch at the head; moves the head.
    pub(super) fn put_batch(&self, w: &mut Writer, out: &BatchWriter, buf: &mut Buf) -> Result<()> {
        let at = w.position;
        let done = out.close(buf, at.seq + 1, &at.chain);
        let bytes = &buf[..done.len as usize];
        let Some(file) = &w.file else { return Err(Error::Offline("no journal segment")) };
        self.counters.writes.fetch_add(1, Ordering::Relaxed);
        let written = file.write_at(bytes, u64::from(at.at));
        if let Err(e) = written {
            let err = Error::io("writing the journal", &e);
            if err == Error::Full {
                // The file system took the space of a sparse segment: leave zeros.
                let undone = file.punch_hole(u64::from(at.at), bytes.len() as u64);
                if matches!(undone, Ok(true)) {
                    return Err(Error::Full);
                }
            }
            if err == Error::ReadOnly {
                w.batch_failed();
                self.set_read_only();
                return Err(err);
            }
            w.batch_failed();
            self.fence(&format!("journal write failed: {e}"));
            return Err(err);
        }
        if self.options.strict {
            self.counters.syncs.fetch_add(1, Ordering::Relaxed);
            let began = Instant::now();
            if let Err(e) = file.sync_data() {
                w.batch_failed();
                self.fence(&format!("journal flush failed: {e}"));
                return Err(Error::io("flushing the journal", &e));
            }
            self.hard_disk.note_flush(began.elapsed());
        }
        self.still_linked(file, "a journal segment")?;
        let end = at.at + done.len;
        w.batch_is_durable(Position { segment: at.segment, at: end, seq: done.seq, chain: done.chain });
        Ok(())
    }
}
