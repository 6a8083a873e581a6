//! Shards of a hard disk are written one after the other, and share flushes.
//!
//! Another place costs the head milliseconds, and so does a flush, after which the file system writes its own log at another place, and
//! the journal of the drive at one more. So a shard is written in pieces as long as memory allows, usually whole; its region is reserved when its first
//! piece is written, so that it is next to the piece before; and complete shards wait for each other's flush: until no other has
//! something to write, or is being received for [`LINGER`], but not longer than [`BYTES`] or [`AGE`].
//!
//! Invariants: one thread writes shards at a time, in the order in which they had enough to be written; a shard is answered only after a
//! flush that began after all of it was written; what waits is bounded by the number of shards that are being written.
//!
//! Must not depend on: what shards contain.

use crate::core::Shared;
use crate::op::Op;
use crate::write_queue::{Part, Step};
use crate::{Error, Result};
use ashlar_environment::time::Instant;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Complete shards are flushed after so many bytes of them were written.
const BYTES: u64 = 64 << 20;
/// Complete shards are flushed after so long.
const AGE: Duration = Duration::from_secs(1);
/// How long complete shards wait for those of which some is in memory.
const LINGER: Duration = Duration::from_millis(250);
/// Shards that may wait.
const MOST: usize = 4096;

/// Complete shards that wait for a flush, by segment.
#[derive(Default)]
struct Complete {
    of: BTreeMap<u32, Vec<Op>>,
    bytes: u64,
    since: Option<Instant>,
}

impl Complete {
    fn add(&mut self, segment: u32, op: Op) {
        if let Op::Extent { shard, .. } = &op {
            self.bytes += shard.region_bytes();
        }
        self.since.get_or_insert_with(Instant::now);
        self.of.entry(segment).or_default().push(op);
    }

    fn is_due(&self) -> bool {
        self.bytes >= BYTES || self.since.is_some_and(|t| t.elapsed() >= AGE)
    }
}

impl Shared {
    /// Has the job written by the thread that writes shards; it is started if there is none.
    pub fn write_in_turn(self: &Arc<Self>, job: Arc<dyn Part>) -> Result<()> {
        {
            let mut s = self.write_order.state.lock();
            if s.waiting.len() >= MOST {
                return Err(Error::Offline("too many shards wait for the drive"));
            }
            s.waiting.push_back(job);
            if s.running {
                drop(s);
                self.write_order.work.notify_one();
                return Ok(());
            }
            s.running = true;
        }
        let me = self.clone();
        // Without threads that is later, so that shards come together in tests, too.
        self.spawn_unlocked(move || me.write_shards()).inspect_err(|e| {
            let refused = {
                let mut s = self.write_order.state.lock();
                s.running = false;
                std::mem::take(&mut s.waiting)
            };
            for job in refused {
                job.fail(e.clone());
            }
        })
    }

    /// How long complete shards still wait for others.
    fn linger(&self, complete: &Complete) -> Option<Duration> {
        let left = LINGER.checked_sub(complete.since?.elapsed())?;
        let others = self.threads && self.frames_waiting.load(Ordering::Relaxed) > 0;
        (others && self.writable().is_ok()).then_some(left)
    }

    fn write_shards(self: &Arc<Self>) {
        let mut complete = Complete::default();
        loop {
            let next = {
                let mut s = self.write_order.state.lock();
                while s.waiting.is_empty()
                    && let Some(left) = self.linger(&complete)
                {
                    self.write_order.work.wait_for(&mut s, left);
                }
                let next = s.waiting.pop_front();
                if next.is_none() && complete.of.is_empty() {
                    s.running = false;
                    return;
                }
                next
            };
            let idle = next.is_none();
            if let Some(job) = next {
                // A panic of one must not keep the others waiting.
                match catch_unwind(AssertUnwindSafe(|| job.clone().write_queued(true))) {
                    Ok(Step::Done(segment, op)) => complete.add(segment, op),
                    // In its turn again: others have waited.
                    Ok(Step::More) => self.write_order.state.lock().waiting.push_back(job),
                    Ok(Step::Idle) | Err(_) => {}
                }
            }
            if idle || complete.is_due() {
                for (segment, ops) in std::mem::take(&mut complete).of {
                    self.flush_and_name(segment, ops);
                }
            }
        }
    }
}
