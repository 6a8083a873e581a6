//! Reads of a hard disk, in the order of their places.
//!
//! One head serves all requests, and another place costs it milliseconds, so a long read is cheap if it is not interrupted. So of the
//! long reads that wait one is at the device, while what the one before has read is checked. The next is always the first one behind the last, by
//! segment and offset, and after the last of all the first again; every read is reached within one such turn.
//!
//! Invariants: one long read is at the device; what waits is bounded ([`MOST`]); a job that panics takes no other with it.
//!
//! Must not depend on: what is read.

use crate::core::Shared;
use crate::read_queue::{Job, Place};
use crate::{Error, Result};
use parking_lot::MutexGuard;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Threads that read: one waits for the device, the other one checks.
const AT_ONCE: usize = 2;
/// Reads that may wait.
const MOST: usize = 4096;

impl Shared {
    /// Waits until no other long read is at a hard disk; until the result is dropped, none is.
    pub fn read_turn(&self) -> Option<MutexGuard<'_, ()>> {
        self.hard_disk.is().then(|| self.read_order.device.lock())
    }

    /// Like [`Shared::on_io`], for a long read at `place`: on a hard disk in the order of the places.
    pub async fn on_io_at<T: Send + 'static>(
        self: &Arc<Self>,
        place: Place,
        f: impl FnOnce(&Arc<Shared>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        if !self.hard_disk.is() {
            return self.on_io(f).await;
        }
        self.answered(|job| self.spawn_at(place, job), f).await
    }

    fn spawn_at(self: &Arc<Self>, place: Place, job: Job) -> Result<()> {
        let key = {
            let mut s = self.read_order.state.lock();
            if s.waiting.len() >= MOST {
                return Err(Error::Offline("too many reads wait for the drive"));
            }
            let key = s.add(place, job);
            // Other work of the drive has a thread, too.
            if s.running >= AT_ONCE.min(self.options.io_threads - 1).max(1) {
                return Ok(());
            }
            s.running += 1;
            key
        };
        let me = self.clone();
        self.spawn(move || me.run_reads()).inspect_err(|_| {
            let refused = {
                let mut s = self.read_order.state.lock();
                s.running -= 1;
                match s.running {
                    // Nobody would take the others either: they end without an answer.
                    0 => std::mem::take(&mut s.waiting),
                    _ => s.waiting.remove_entry(&key).into_iter().collect(),
                }
            };
            drop(refused);
        })
    }

    fn run_reads(&self) {
        loop {
            let job = {
                let mut s = self.read_order.state.lock();
                match s.take() {
                    Some(job) => job,
                    None => {
                        s.running -= 1;
                        return;
                    }
                }
            };
            let _ = catch_unwind(AssertUnwindSafe(job));
        }
    }
}
