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
use crate::{Error, Result};
use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Threads that read: one waits for the device, the other one checks.
const AT_ONCE: usize = 2;
/// Reads that may wait.
const MOST: usize = 4096;

/// A place on the drive: segment and offset.
pub(crate) type Place = (u32, u64);
type Job = Box<dyn FnOnce() + Send>;

/// The reads that wait.
#[derive(Default)]
pub(crate) struct ReadOrder {
    state: Mutex<State>,
    /// Held by the one that reads.
    device: Mutex<()>,
}

#[derive(Default)]
struct State {
    /// By place, and by a number, because several may want the same.
    waiting: BTreeMap<(Place, u64), Job>,
    next: u64,
    /// Where the last one began.
    at: Place,
    running: usize,
}

impl State {
    fn add(&mut self, place: Place, job: Job) -> (Place, u64) {
        self.next += 1;
        self.waiting.insert((place, self.next), job);
        (place, self.next)
    }

    /// The first one from the last place on, or the first of all.
    fn take(&mut self) -> Option<Job> {
        let behind = self.waiting.range((self.at, 0)..).next().map(|(key, _)| *key);
        let key = behind.or_else(|| self.waiting.keys().next().copied())?;
        self.at = key.0;
        self.waiting.remove(&key)
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_are_taken_upwards_and_from_the_beginning_again() {
        let served = Arc::new(Mutex::new(Vec::new()));
        let mut s = State::default();
        let add = |s: &mut State, place: Place| {
            let served = served.clone();
            s.add(place, Box::new(move || served.lock().push(place)));
        };
        for place in [(2, 0), (1, 500), (1, 0), (2, 900), (1, 500)] {
            add(&mut s, place);
        }
        for n in 0..8 {
            s.take().unwrap()();
            match n {
                // Behind the head: it waits for the next turn. Ahead of it: in this one.
                1 => add(&mut s, (1, 100)),
                2 => add(&mut s, (1, 800)),
                4 => add(&mut s, (2, 0)),
                _ => {}
            }
        }
        assert!(s.take().is_none());
        let expected = [(1, 0), (1, 500), (1, 500), (1, 800), (2, 0), (2, 0), (2, 900), (1, 100)];
        assert_eq!(*served.lock(), expected);
    }
}
