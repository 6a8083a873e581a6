//! What a caller waits for: the commands of one call, which may be on their way together.
//!
//! The receiver of a queue tells events; the caller, who has the data, acts on them. So the receiver never sends, and never waits
//! for a target that takes nothing.
//!
//! Must not depend on: sockets.

use std::collections::VecDeque;

use parking_lot::{Condvar, Mutex};

use crate::host::request::Request;

/// What a command answered.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Outcome {
    /// Dwords 0 and 1 of the completion.
    pub(crate) result: u64,
    pub(crate) data: Vec<u8>,
}

/// Why a command has no good answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Failure {
    /// It was answered with this status.
    Status(u16),
    /// The digest of its data was wrong.
    Digest,
    /// The connection ended before it was answered: nobody knows whether it was executed.
    Lost,
    /// The connection had ended before it was sent: it was not executed.
    Unsent,
}

pub(crate) type Answer = Result<Outcome, Failure>;

/// The target asks for data of a write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Asked {
    pub(crate) command: u16,
    pub(crate) tag: u16,
    pub(crate) offset: usize,
    pub(crate) len: usize,
}

pub(crate) enum Event {
    Asked(Asked),
    Done(Answer),
}

/// The events of one caller. At most one of each kind is there per command.
#[derive(Default)]
pub(crate) struct Call {
    events: Mutex<VecDeque<(usize, Event)>>,
    wake: Condvar,
}

impl Call {
    /// Tells an event of the command with this number.
    pub(crate) fn tell(&self, number: usize, event: Event) {
        self.events.lock().push_back((number, event));
        self.wake.notify_one();
    }

    /// The events that nobody has taken.
    pub(crate) fn told(&self) -> Vec<(usize, Event)> {
        self.events.lock().drain(..).collect()
    }

    /// The next event.
    pub(crate) fn wait(&self) -> (usize, Event) {
        let mut events = self.events.lock();
        loop {
            match events.pop_front() {
                Some(event) => return event,
                None => self.wake.wait(&mut events),
            }
        }
    }
}

/// One command of a call.
pub(crate) struct Piece<'a> {
    pub(crate) request: Request<'a>,
    /// None: not answered yet.
    pub(crate) answer: Option<Answer>,
}

impl<'a> Piece<'a> {
    pub(crate) fn new(request: Request<'a>) -> Piece<'a> {
        Piece { request, answer: None }
    }
}
