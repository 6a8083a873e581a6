//! When another node answered last, and since when it owes an answer.
//!
//! Invariants: every answer of the node counts, whatever it says. A call that nobody waits for any more owes nothing,
//! unless it was given up because the node was silent: so a silent node stays silent until it answers. A call that takes
//! long says nothing while others are answered.
//!
//! Must not depend on: what is asked, how messages travel.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use ashlar_environment::time::Instant;
use parking_lot::Mutex;

use crate::transport::Failure;

/// A node that was asked something and has not answered anything for this long is silent.
pub const SILENCE: Duration = Duration::from_millis(1500);

/// The contact to one node.
pub(crate) struct Contact(Mutex<State>);

struct State {
    /// The number of the next call.
    next: u64,
    /// Calls without an answer, by number: when each was sent.
    open: BTreeMap<u64, Instant>,
    /// When the node answered last; at first, when it became known.
    heard: Instant,
    /// Since when the node has owed the answer to a call that is over, if it has not answered anything since.
    given_up: Option<Instant>,
}

impl Contact {
    pub(crate) fn new() -> Arc<Contact> {
        let state = State { next: 0, open: BTreeMap::new(), heard: Instant::now(), given_up: None };
        Arc::new(Contact(Mutex::new(state)))
    }

    /// A call is being sent.
    pub(crate) fn ask(self: &Arc<Contact>) -> Asked {
        let mut state = self.0.lock();
        let number = state.next;
        state.next += 1;
        state.open.insert(number, Instant::now());
        drop(state);
        Asked { contact: self.clone(), number }
    }

    /// Whether the node has owed an answer for [`SILENCE`].
    pub(crate) fn is_silent(&self) -> bool {
        let state = self.0.lock();
        let oldest = state.open.values().next().map(|sent| state.owed(*sent));
        let since = oldest.into_iter().chain(state.given_up).min();
        since.is_some_and(|since| since.elapsed() >= SILENCE)
    }
}

impl State {
    /// Since when the answer to an open call has been owed.
    fn owed(&self, sent: Instant) -> Instant {
        sent.max(self.heard)
    }

    fn give_up(&mut self, since: Instant) {
        self.given_up = Some(self.given_up.map_or(since, |before| before.min(since)));
    }
}

/// A call without an answer. Dropping it says that nobody waits any more.
pub(crate) struct Asked {
    contact: Arc<Contact>,
    number: u64,
}

impl Asked {
    /// The call is over.
    pub(crate) fn ended<T>(self, result: &Result<T, Failure>) {
        let mut state = self.contact.0.lock();
        let sent = state.open.remove(&self.number);
        match (result, sent) {
            (Ok(_) | Err(Failure::Refused(_) | Failure::TooLong), _) => {
                state.heard = Instant::now();
                state.given_up = None;
            }
            (Err(Failure::NotSent | Failure::Unanswered), Some(sent)) => {
                let since = state.owed(sent);
                state.give_up(since);
            }
            (Err(_), None) => {}
        }
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        let mut state = self.contact.0.lock();
        let Some(sent) = state.open.remove(&self.number) else { return };
        let since = state.owed(sent);
        if since.elapsed() >= SILENCE {
            state.give_up(since);
        }
    }
}
