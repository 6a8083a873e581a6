//! Reservations of a namespace: who may read and write it (Base 8.19).
//!
//! * [`Reservations`]: those of one namespace, common to all controllers, ports and addresses through which hosts reach it.
//! * [`ReservationType`]: what a reservation forbids to others.
//! * [`ReservationStatus`]: what operators see.
//!
//! Hosts are known by the identifier that they have named in Connect (HOSTID). A reservation command is answered when no I/O command
//! is executed any more that was admitted under the rights of before: what a host was forbidden has no effect after that answer.
//!
//! Files: `kind` (types, and what they forbid), `state` (registrants and the reservation), `rights` (what hosts may do), `gate` (admission of I/O commands), `notice`
//! (notifications), `known` (what a controller has told of them, and their log page), `command` (commands and the data structure of Reservation Report), `feature` (features of a
//! namespace), `fuzzed`.
//!
//! Invariants: an I/O command is judged by the rights of one moment, and a change of rights waits for all that were admitted before;
//! registrants and notices are bounded; nothing is kept over a loss of power: whoever owns
//! the namespace makes new [`Reservations`] then, or forgets what was there.
//!
//! Must not depend on: controllers, connections, what a namespace is made of.

pub(crate) mod command;
pub(crate) mod feature;
pub(crate) mod fuzzed;
mod gate;
mod kind;
pub(crate) mod known;
mod notice;
mod rights;
mod state;

#[cfg(test)]
mod tests;

use parking_lot::Mutex;

pub use kind::ReservationType;
pub use state::{Registrant, ReservationStatus};

pub(crate) use gate::Admitted;
pub(crate) use rights::{Class, HostId};
pub(crate) use state::{Refusal, State};

use gate::Gate;
use notice::{Notice, NoticeKind, Notices};

/// The reservations of a namespace.
#[derive(Default)]
pub struct Reservations {
    state: Mutex<State>,
    gate: Gate,
    notices: Mutex<Notices>,
}

impl Reservations {
    /// Without registrants.
    #[must_use]
    pub fn new() -> Reservations {
        Reservations::default()
    }

    /// What is registered and reserved.
    #[must_use]
    pub fn status(&self) -> ReservationStatus {
        self.state.lock().status()
    }

    /// Removes the reservation and all registrations, as an operator wants it who cannot ask the hosts. They are told as by the Clear of
    /// another host. False: there were none.
    pub fn clear(&self) -> bool {
        let mut state = self.state.lock();
        let there = !state.is_empty();
        if there {
            let told = state.clear_all();
            self.publish(&state, told);
        }
        there
    }

    /// Forgets everything, as by a loss of power. Nobody is told.
    pub fn forget(&self) {
        let mut state = self.state.lock();
        *state = State::default();
        self.publish(&state, Vec::new());
    }

    /// Admits an I/O command, for as long as the result is kept.
    ///
    /// # Errors
    /// [`Refusal::Conflict`].
    pub(crate) fn admit(&self, host: &HostId, class: Class) -> Result<Admitted, Refusal> {
        self.gate.admit(host, class).ok_or(Refusal::Conflict)
    }

    /// Changes what is registered or reserved. It has effect for commands that are admitted from now on; [`Reservations::wait`] waits
    /// for the others.
    pub(crate) fn change(
        &self,
        change: impl FnOnce(&mut State) -> Result<Vec<Notice>, Refusal>,
    ) -> Result<(), Refusal> {
        let mut state = self.state.lock();
        let told = change(&mut state)?;
        self.publish(&state, told);
        Ok(())
    }

    /// Waits until no I/O command is executed that was admitted under other rights than those of now.
    pub(crate) fn wait(&self) {
        self.gate.wait();
    }

    /// Notices for a host that came after number `seen`, and the number of the last one.
    pub(crate) fn notices(&self, host: &HostId, seen: u64) -> (u64, Vec<NoticeKind>) {
        self.notices.lock().after(host, seen)
    }

    /// The state is locked: rights and notices have its order.
    fn publish(&self, state: &State, told: Vec<Notice>) {
        self.gate.change(state.rights());
        self.notices.lock().extend(told);
    }
}
