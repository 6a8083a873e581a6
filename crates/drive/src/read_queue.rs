//! The reads of a hard disk that wait: see `read_order`.
//!
//! Invariant: the next one is the first behind the last, and after the last of all the first again.
//!
//! Must not depend on: who reads.

use parking_lot::Mutex;
use std::collections::BTreeMap;

/// A place on the drive: segment and offset.
pub(crate) type Place = (u32, u64);
pub(crate) type Job = Box<dyn FnOnce() + Send>;

/// The reads that wait.
#[derive(Default)]
pub(crate) struct ReadOrder {
    pub state: Mutex<State>,
    /// Held by the one that reads.
    pub device: Mutex<()>,
}

/// The reads that wait, and where the head is.
#[derive(Default)]
pub(crate) struct State {
    /// By place, and by a number, because several may want the same.
    pub waiting: BTreeMap<(Place, u64), Job>,
    next: u64,
    /// Where the last one began.
    at: Place,
    /// Threads that read.
    pub running: usize,
}

impl State {
    /// Adds a read; what it is known by.
    pub fn add(&mut self, place: Place, job: Job) -> (Place, u64) {
        self.next += 1;
        self.waiting.insert((place, self.next), job);
        (place, self.next)
    }

    /// The first one from the last place on, or the first of all.
    pub fn take(&mut self) -> Option<Job> {
        let behind = self.waiting.range((self.at, 0)..).next().map(|(key, _)| *key);
        let key = behind.or_else(|| self.waiting.keys().next().copied())?;
        self.at = key.0;
        self.waiting.remove(&key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

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
