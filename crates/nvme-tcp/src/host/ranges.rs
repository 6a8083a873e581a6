//! Ranges that are being changed: no two changes of the same block are on their way at once, on whatever path.
//!
//! When the connection of a change is lost, the target may execute it later, even after the change was repeated on another path. That is
//! harmless while the block holds, or gets, the same data. So its range stays held until nothing of the lost controller can be
//! executed any more, and later changes of the same blocks wait. Others, and reads, do not.
//!
//! Invariant: ranges that are held do not overlap.
//!
//! Must not depend on: connections.

use std::collections::BTreeMap;
use std::time::Duration;

use ashlar_environment::time::Instant;
use parking_lot::{Condvar, Mutex};

use crate::host::facts::Identity;

/// Ranges of namespaces that are not attached any more, and are still held.
static LEFT: Mutex<BTreeMap<Identity, Vec<Held>>> = Mutex::new(BTreeMap::new());

/// A range, in bytes.
#[derive(Clone, Copy, Debug)]
struct Held {
    at: u64,
    end: u64,
    /// None: as long as its change takes.
    until: Option<Instant>,
}

#[derive(Default)]
struct State {
    next: u64,
    held: BTreeMap<u64, Held>,
    waiting: usize,
}

impl State {
    /// Holds a range, unless a part of it is held. Else: when to look again, if that is known.
    fn hold(&mut self, at: u64, end: u64) -> Result<u64, Option<Instant>> {
        let now = Instant::now();
        self.held.retain(|_, h| h.until.is_none_or(|t| t > now));
        let others: Vec<&Held> = self.held.values().filter(|h| h.at < end && at < h.end).collect();
        if !others.is_empty() {
            return Err(others.iter().filter_map(|h| h.until).min());
        }
        self.next += 1;
        self.held.insert(self.next, Held { at, end, until: None });
        Ok(self.next)
    }
}

/// The ranges of a namespace.
#[derive(Default)]
pub(crate) struct Ranges {
    state: Mutex<State>,
    changed: Condvar,
}

impl Ranges {
    /// Those of a namespace, with what is still held from earlier.
    pub(crate) fn of(identity: &Identity) -> Ranges {
        let ranges = Ranges::default();
        let left = LEFT.lock().get(identity).cloned().unwrap_or_default();
        ranges.state.lock().held.extend((0..).zip(left).map(|(n, held)| (u64::MAX - n, held)));
        ranges
    }

    /// The namespace is not used any more: what is held stays held for whoever attaches it next.
    pub(crate) fn leave(&self, identity: &Identity) {
        let now = Instant::now();
        let held: Vec<Held> =
            self.state.lock().held.values().copied().filter(|h| h.until > Some(now)).collect();
        let mut left = LEFT.lock();
        left.retain(|_, all| all.iter().any(|h| h.until > Some(now)));
        if !held.is_empty() {
            left.insert(*identity, held);
        }
    }

    /// Holds a range, once no part of it is held.
    pub(crate) fn begin(&self, at: u64, end: u64) -> u64 {
        let mut state = self.state.lock();
        loop {
            let look = match state.hold(at, end) {
                Ok(number) => return number,
                Err(look) => look,
            };
            state.waiting += 1;
            match look {
                Some(until) => {
                    self.changed.wait_for(&mut state, until.saturating_duration_since(Instant::now()));
                }
                None => self.changed.wait(&mut state),
            }
            state.waiting -= 1;
        }
    }

    /// Holds a range, if no part of it is held.
    pub(crate) fn try_begin(&self, at: u64, end: u64) -> Option<u64> {
        self.state.lock().hold(at, end).ok()
    }

    /// Waits until a range may be free, at most for `time`.
    pub(crate) fn wait(&self, time: Duration) {
        let mut state = self.state.lock();
        self.changed.wait_for(&mut state, time);
    }

    /// The change of a range has ended. It stays held up to `until`, if a repeated command of it may still be executed.
    pub(crate) fn end(&self, number: u64, until: Option<Instant>) {
        let mut state = self.state.lock();
        match (until, state.held.get_mut(&number)) {
            (Some(_), Some(held)) => held.until = until,
            _ => {
                state.held.remove(&number);
            }
        }
        self.changed.notify_all();
    }

    /// Changes that wait for a range.
    #[cfg(test)]
    pub(crate) fn waiting(&self) -> usize {
        self.state.lock().waiting
    }
}
