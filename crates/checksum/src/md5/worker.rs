//! The threads that hash, and when they wait for more streams.
//!
//! A worker takes up to sixteen streams from the ready list into its batch and hashes until they have no more
//! bytes, adding others that become ready meanwhile. Sixteen lanes cost hardly more than one, so a worker
//! should begin with many streams, and stop when few are left:
//!
//! * A worker that finds few streams ready waits for those that had their last block hashed up to 20 ms ago
//!   and will probably return: up to 8 ms while no caller waits for a ready stream, up to 1 ms if one does,
//!   but in total at most a quarter of the time for which it hashes. A lone stream is hashed immediately.
//! * A worker with a quarter of its lanes empty waits in the same way before it continues.
//!
//! Processor time matters more than latency here: a waiting worker sleeps, with a timer, and is woken early
//! only when all expected streams have come. Idle workers sleep without a timer.
//!
//! Measured with eight uploads of 10 MiB on two Zen 4 cores (`examples/checksum_speed.rs`), in processor
//! seconds per GiB. When each brings 1 MiB every 4 ms: 0.50 without waiting, 0.39 with 1 ms for all, 0.27
//! with the rules above. When they bring all as fast as it is hashed: 0.20 to 0.28. Another way to share
//! lanes, in which a caller that awaits a stream hashes for all on its own thread, took 0.35 and 0.33 to
//! 0.44: it begins with fewer streams, and saves little by not handing over. A fast stream beside others that
//! bring 256 KiB every ms ran at a third of its speed without the limit on waits, and runs at two thirds with
//! it.
//!
//! Invariants: a worker that finds streams on the list and no other worker for them does not sleep without a
//! timer. A panic in a worker ends the process: the streams in its lanes could neither continue nor be given
//! up. Wakers, and the drop code of chunks, run outside of all locks; a cell's lock may be taken while the
//! list's is held, never the other way round.
//!
//! Must not depend on: the content of chunks, their producers.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use ashlar_environment::time::Instant;
use parking_lot::MutexGuard;
use smallvec::SmallVec;

use super::batch::{Batch, Left};
use super::cell::Cell;
use super::kernel::LANES;
use super::scheduler::{List, Shared};

/// A wait shorter than this is not worth its timer.
const SHORTEST_WAIT: Duration = Duration::from_micros(100);

/// While a caller waits for its streams, a worker may wait for more streams during this fraction of the time
/// for which it hashes. It bounds what many slow streams can cost a fast one.
const WAIT_SHARE: u32 = 4;

/// One thread's part.
pub(super) struct Worker<'a> {
    shared: &'a Shared,
    batch: Batch,
    /// How long it may make a caller wait; earned by hashing.
    credit: Duration,
}

impl Worker<'_> {
    pub(super) fn new(shared: &Shared) -> Worker<'_> {
        Worker { shared, batch: Batch::new(), credit: shared.tuning.gather }
    }

    /// The main loop of the thread.
    pub(super) fn work(&mut self) {
        let tuning = self.shared.tuning;
        // Whether the worker has already waited for more streams.
        let mut waited = false;
        let mut list = self.shared.list.lock();
        while !list.shut_down {
            let at_hand = self.batch.len() + list.ready.len();
            let expected = list.expected(Instant::now(), tuning.recent);
            // A lone stream is better served from sleep without a timer.
            let worth_waiting = !waited && at_hand < tuning.enough && expected > 0 && at_hand + expected > 1;
            if worth_waiting && (list.gathering.is_some() || list.free >= at_hand.max(1)) {
                // Another worker waits already, or has free lanes: it takes these streams.
                if self.batch.len() > 0 {
                    self.hand_over(&mut list);
                } else {
                    self.sleep(&mut list);
                }
            } else if worth_waiting {
                let length = tuning.enough.min(at_hand + expected) - self.batch.len();
                self.wait_for_more(&mut list, length);
                waited = true;
            } else if at_hand == 0 {
                self.sleep(&mut list);
                waited = false;
            } else {
                self.hash(&mut list);
                waited = false;
            }
        }
    }

    /// Sleeps until notified.
    fn sleep(&self, list: &mut MutexGuard<'_, List>) {
        list.idle += 1;
        self.shared.idle.wait(list);
        if !list.shut_down {
            list.free -= LANES;
        }
    }

    /// Sleeps until `length` streams are ready, for a limited time: for `gather` or the credit if a caller
    /// waits for a ready stream, for a few times `gather` otherwise.
    fn wait_for_more(&mut self, list: &mut MutexGuard<'_, List>, length: usize) {
        let shared = self.shared;
        if self.batch.is_waited_for() {
            shared.urgent.store(true, Ordering::Relaxed);
        }
        let start = Instant::now();
        list.gathering = Some(length);
        for _ in 0..shared.tuning.patience {
            let hurried = shared.urgent.load(Ordering::Relaxed);
            let limit = if hurried { self.credit } else { shared.tuning.gather };
            if limit < SHORTEST_WAIT {
                break;
            }
            shared.waits.fetch_add(1, Ordering::Relaxed);
            let in_time = !shared.gathering.wait_for(list, limit).timed_out();
            if in_time || shared.urgent.load(Ordering::Relaxed) {
                break;
            }
        }
        list.gathering = None;
        if shared.urgent.load(Ordering::Relaxed) {
            self.credit = self.credit.saturating_sub(start.elapsed());
        }
    }

    /// Puts the streams of `batch` back on the list for a worker that waits.
    fn hand_over(&mut self, list: &mut MutexGuard<'_, List>) {
        let mut cells = Vec::with_capacity(LANES);
        MutexGuard::unlocked(list, || self.batch.give_back(|cell| cells.push(cell)));
        list.ready.extend(cells);
        self.shared.ready.store(list.ready.len(), Ordering::Relaxed);
        if list.gathering.is_some_and(|length| list.ready.len() >= length) {
            list.gathering = None;
            self.shared.gathering.notify_one();
        }
    }

    /// Hashes until nothing is left, or so little that waiting for more is better.
    fn hash(&mut self, list: &mut MutexGuard<'_, List>) {
        let (shared, batch) = (self.shared, &mut self.batch);
        shared.runs.fetch_add(1, Ordering::Relaxed);
        shared.urgent.store(false, Ordering::Relaxed);
        let start = Instant::now();
        let mut now = start;
        let mut most = 0;
        let mut left = Left::default();
        loop {
            let lanes = LANES.min(batch.len() + list.ready.len());
            most = most.max(lanes);
            let few = shared.tuning.decline > 0 && lanes <= most - most.div_ceil(shared.tuning.decline);
            let expected = list.expected(now, shared.tuning.recent);
            if lanes == 0 || few && expected > 0 || list.shut_down {
                break;
            }
            let incoming: SmallVec<[Arc<Cell>; LANES]> = list.ready.drain(..lanes - batch.len()).collect();
            shared.ready.store(list.ready.len(), Ordering::Relaxed);
            let free = LANES - lanes;
            list.free += free;
            MutexGuard::unlocked(list, || {
                incoming.into_iter().for_each(|cell| batch.admit(cell));
                rounds(shared, batch, &mut left);
            });
            list.free -= free;
            list.ready.extend(left.yielded.drain(..));
            now = Instant::now();
            for id in left.paused.drain(..) {
                list.remember(id, now);
            }
        }
        let earned = now.duration_since(start) / WAIT_SHARE;
        self.credit = shared.tuning.gather.min(self.credit + earned);
        let (blocks, steps) = batch.take_counts();
        shared.blocks.fetch_add(blocks, Ordering::Relaxed);
        shared.steps.fetch_add(steps, Ordering::Relaxed);
    }
}

/// Hashes, without the lock, until a stream leaves its lane or others can have one.
fn rounds(shared: &Shared, batch: &mut Batch, left: &mut Left) {
    while batch.len() > 0 {
        let more = shared.ready.load(Ordering::Relaxed) > 0;
        let before = batch.len();
        batch.round(more && before == LANES, left);
        if batch.len() < before || more && before < LANES {
            break;
        }
    }
}
