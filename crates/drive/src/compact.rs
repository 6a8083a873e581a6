//! Reclaims space of the journal: the records still in use of a mostly dead segment move to the head, then
//! the segment is removed.
//!
//! Invariants: a move is a copy of a checked record, applied only if the index still points to the original.
//! Before the victim is removed, the checkpoint of recovery is after it, and the copies and a list of
//! segments without the victim are durable. A purge or discard record also moves while a segment that it
//! refers to exists. A segment that does not verify is never removed.
//!
//! Must not depend on: what records contain.

use crate::core::{Core, Shared};
use crate::entry::Loc;
use crate::files::{Kind, segment_name};
use crate::index::must;
use crate::maintenance_state::{Pass, Urge};
use crate::op::Op;
use crate::run::Mode;
use crate::{Error, Result, Tally};
use ashlar_environment::time::Instant;
use ashlar_format::RegisterKey;
use ashlar_format::codec;
use ashlar_format::journal::{self, Entry};
use bytes::Bytes;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Bytes moved between two pauses.
const CHUNK: usize = 512 << 10;
/// The least and the longest pause: at most about 100 MB/s, and at least 8 MB/s if the drive does its part at once.
const PAUSES: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(60));
/// A pause is so many times as long as what was moved before it took: the drives of a machine compact at the same time, and
/// requests need the processors.
const REST: u32 = 3;

impl Core {
    /// Bytes of a segment that must move.
    fn needed_bytes(&self, n: u32) -> u64 {
        let Some(s) = self.journal.get(&n) else { return 0 };
        let deletions = s.need.is_some_and(|(lo, hi)| self.exists_other(n, lo, hi));
        s.live + if deletions { s.deletions } else { 0 }
    }

    fn exists_other(&self, not: u32, lo: u32, hi: u32) -> bool {
        lo <= hi && self.journal.range(lo..=hi).any(|(n, _)| *n != not)
    }

    /// The segment whose compaction is most useful, if any is.
    ///
    /// Moving needs space at the head too. So that compaction ends, it works in passes: a pass considers only
    /// segments from before it began, and the next pass begins when there is garbage of two more segments, or when more
    /// of it is worth the work than in the last pass.
    pub fn victim(&self, bad: &[u32], urge: Urge, pass: &mut Pass) -> Option<u32> {
        let sealed = || self.journal.iter().filter(|(n, _)| **n < self.active && !bad.contains(n));
        let total: u64 = self.journal.values().map(|s| s.bytes).sum();
        let typical = total / self.journal.len().max(1) as u64;
        let (mut garbage, mut deletions) = (0, 0);
        let mut best: Option<(u64, u32)> = None;
        for (n, s) in sealed() {
            let needed = self.needed_bytes(*n).min(s.bytes);
            if needed == 0 {
                return Some(*n);
            }
            garbage += s.bytes - needed;
            deletions += s.deletions;
            let permille = needed * 1000 / s.bytes.max(1);
            if pass.before.is_none_or(|b| *n < b) && best.is_none_or(|(b, _)| permille < b) {
                best = Some((permille, *n));
            }
        }
        if pass.before.is_none() {
            let left = if urge > pass.urge { 0 } else { pass.left.min(garbage) };
            if garbage < left + 2 * typical {
                pass.left = pass.left.min(garbage);
                return None;
            }
            pass.before = Some(self.active);
        }
        // How much of a segment may have to move, and the share of garbage that is accepted: a quarter of
        // what is in use when the drive is idle.
        let (worth, leave) = match urge {
            Urge::Busy => (250, 4),
            Urge::Idle => (800, 5),
            Urge::ShortOfSpace => (800, u64::MAX),
        };
        if let Some((permille, n)) = best {
            if permille <= worth && garbage.saturating_mul(leave) > total {
                return Some(n);
            }
            // Purges and discards accumulate behind old segments: move the oldest segment first.
            let oldest = sealed().map(|(n, _)| *n).next();
            if deletions * 4 > total && oldest.is_some_and(|n| pass.before.is_some_and(|b| n < b)) {
                return oldest;
            }
        }
        *pass = Pass { before: None, left: garbage, urge };
        None
    }
}

impl Shared {
    /// Moves what is in use out of `victim` and removes it. Returns false if it does not verify.
    pub fn compact(self: &Arc<Self>, victim: u32, pace: bool) -> Result<bool> {
        let mut moves: Vec<Op> = Vec::new();
        let mut size = 0;
        let mut purges = false;
        // Small enough that batches fill segments well.
        let chunk = CHUNK.min(self.options.journal_segment_bytes as usize / 8);
        let mut began = Instant::now();
        let sound = self.walk_segment(victim, |loc, kind, payload| {
            if let Ok(Entry::Purge { .. }) = Entry::decode(kind, payload) {
                purges = true;
            }
            if let Some(op) = self.survivor(victim, loc, kind, payload)? {
                size += op.weight();
                moves.push(op);
                if size >= chunk {
                    self.move_records(std::mem::take(&mut moves), size)?;
                    size = 0;
                    // A segment takes seconds, in which clients change the index too.
                    self.keep_up(false)?;
                    if pace && self.threads {
                        let (least, most) = PAUSES;
                        ashlar_environment::thread::sleep((began.elapsed() * REST).clamp(least, most));
                        began = Instant::now();
                    }
                }
            }
            Ok(())
        })?;
        if !sound {
            self.counters.read_errors.fetch_add(1, Ordering::Relaxed);
            return Ok(false);
        }
        let state_here = self.core.lock().state_segment <= victim;
        if purges || state_here {
            moves.push(Op::States);
        }
        self.move_records(std::mem::take(&mut moves), size)?;
        if self.maintenance.lock().manifest.position.segment <= victim {
            // Recovery would start in the victim: move the checkpoint first.
            self.drain()?;
        }
        moves.push(Op::Forget { victim });
        self.submit_and_wait(moves)?;
        self.core.lock().journal.remove(&victim);
        self.files.forget(Kind::Journal, victim);
        self.journal_folder
            .remove(&segment_name(victim))
            .and_then(|()| self.journal_folder.sync())
            .map_err(|e| self.failed("removing a journal segment", &e))?;
        Ok(true)
    }

    /// Journals moves of `size` bytes. They do not count as writes of a drive that is in use.
    fn move_records(self: &Arc<Self>, moves: Vec<Op>, size: usize) -> Result<()> {
        self.counters.compacted.fetch_add(size as u64, Ordering::Relaxed);
        self.maintenance.lock().records += moves.len() as u64;
        self.submit_and_wait(moves)
    }

    /// The operation that moves this record of the victim, if it is still needed.
    fn survivor(self: &Arc<Self>, victim: u32, loc: Loc, kind: u8, payload: &[u8]) -> Result<Option<Op>> {
        let entry = Entry::decode(kind, payload).map_err(Error::from)?;
        let bytes = || Bytes::copy_from_slice(payload);
        Ok(match entry {
            Entry::Accept(mut e) => {
                let Some(key) = RegisterKey::from_bytes(e.key) else { return Ok(None) };
                let Some(now) = self.register_now(&key, Mode::Wait).map_err(must)? else {
                    return Ok(None);
                };
                if now.loc != loc {
                    return Ok(None);
                }
                e.flags = now.flags;
                // Segments before the first existing one hold nothing.
                let first = self.core.lock().journal.keys().next().copied().unwrap_or(0);
                e.oldest = now.oldest.max(first);
                let mut w = codec::Writer::with_capacity(payload.len() + 8);
                journal::accept_head(&mut w, &e);
                w.raw(e.record);
                Some(Op::MoveRegister { key, from: loc, payload: w.into_vec().into() })
            }
            Entry::Stage(e) => self.moved((e.write_id, e.index), loc, kind, bytes)?,
            Entry::Extent(e) => self.moved((e.write_id, e.index), loc, kind, bytes)?,
            Entry::Purge { oldest, newest, .. } => self.deletion(victim, kind, oldest, newest, bytes),
            Entry::Discard { write_id, index, segment, before } => {
                let before = if before == (0, 0) { (loc.segment, loc.at) } else { before };
                let mut w = codec::Writer::with_capacity(64);
                journal::discard(&mut w, write_id, index, segment, before);
                self.deletion(victim, kind, segment, segment, || w.into_vec().into())
            }
            Entry::Fence(mut e) => {
                let key = (e.group, e.bucket);
                let core = self.core.lock();
                let Some(now) = core.fences.place(&key).filter(|f| f.loc == loc) else { return Ok(None) };
                let first = core.journal.keys().next().copied().unwrap_or(0);
                e.oldest = now.oldest.max(first);
                let mut w = codec::Writer::with_capacity(64);
                journal::fence(&mut w, &e);
                Some(Op::MoveFence { key, from: loc, payload: w.into_vec().into() })
            }
            Entry::Lift(e) => self.deletion(victim, kind, e.oldest, e.newest, bytes),
            Entry::Hints(_) | Entry::State(_) | Entry::Unnamed(_) => None,
            Entry::Segments(_) | Entry::Seal { .. } => None,
        })
    }

    fn moved(
        self: &Arc<Self>,
        name: crate::entry::ShardName,
        loc: Loc,
        kind: u8,
        bytes: impl FnOnce() -> Bytes,
    ) -> Result<Option<Op>> {
        let now = self.shard_now(name, Mode::Wait).map_err(must)?;
        let current = now.is_some_and(|s| s.loc == loc);
        Ok(current.then(|| Op::MoveShard { name, from: loc, kind, payload: bytes() }))
    }

    fn deletion(&self, victim: u32, kind: u8, lo: u32, hi: u32, bytes: impl FnOnce() -> Bytes) -> Option<Op> {
        let needed = self.core.lock().exists_other(victim, lo, hi);
        needed.then(|| Op::MoveDeletion { kind, payload: bytes(), need: (lo, hi) })
    }

    /// Journals operations and waits until they are durable.
    pub fn submit_and_wait(self: &Arc<Self>, ops: Vec<Op>) -> Result<()> {
        let tally = Tally::new(1);
        let failed_before = self.core.lock().failed_moves;
        {
            let mut core = self.core.lock();
            for op in ops {
                core.enqueue(op, &self.journal_work).map_err(|(_, e)| e)?;
            }
            let done = tally.completion(0);
            core.enqueue(Op::Barrier { done }, &self.journal_work).map_err(|(_, e)| e)?;
        }
        if self.threads {
            while tally.outcome().ok | tally.outcome().failed == 0 {
                tally.block(Duration::from_millis(100));
                self.writable()?;
            }
        } else {
            while self.commit() {}
        }
        // The barrier may be in a later batch than the operations before it.
        if self.core.lock().failed_moves != failed_before {
            return Err(Error::Full);
        }
        match tally.outcome().ok {
            0 => Err(tally.error().unwrap_or(Error::Offline("closing"))),
            _ => Ok(()),
        }
    }
}
