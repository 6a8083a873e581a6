//! The commands of one queue that are not answered yet: their memory, and the data that they wait for.
//!
//! A command whose data travels needs memory: for a write before it is asked for its data (`R2T`), for a read before it is
//! executed. There is a window of it for each queue; commands that it has no room for wait in order, and cost only themselves.
//! The receiver never waits for memory: the data that would free it arrives behind the next command.
//!
//! Invariants: bytes in use are at most the window; commands in progress are at most the entries of the queue; data of
//! a transfer is written once, in order.
//!
//! Must not depend on: sockets, namespaces.

use std::collections::VecDeque;

use crate::command::{Command, Transfer, io};
use crate::error::Error;
use crate::pdu::{H2cData, MAX_DATA, broken, fes};
use crate::status;

/// Bytes of data of one queue, at least: a Compare has its data twice.
pub(crate) const LEAST_WINDOW: usize = 2 * MAX_DATA;

/// A command to be executed.
pub(crate) struct Job {
    pub(crate) command: Command,
    /// From the host.
    pub(crate) data: Vec<u8>,
    /// Bytes that the host has room for.
    pub(crate) room: usize,
    /// Why it is not executed.
    pub(crate) refused: Option<u16>,
    /// Bytes of the window.
    pub(crate) reserved: usize,
}

/// What happens with a command now.
pub(crate) enum Action {
    Run(Job),
    /// The host is asked for data: identifier of the command, tag, bytes.
    Ask(u16, u16, u32),
}

/// Data of a command that arrives.
struct Arriving {
    job: Job,
    len: usize,
    /// A digest was wrong.
    damaged: bool,
    /// The receiver has the data.
    out: bool,
}

struct Waiting {
    command: Command,
    transfer: Transfer,
    data: Vec<u8>,
}

/// The state of a queue.
pub(crate) struct Flow {
    free: usize,
    /// Entries of the queue.
    size: u16,
    /// Commands in progress.
    taken: usize,
    /// The submission queue head pointer.
    head: u16,
    waiting: VecDeque<Waiting>,
    arriving: Vec<Option<Arriving>>,
    /// Commands that waited and can be executed.
    pub(crate) ready: VecDeque<Job>,
}

impl Flow {
    /// A queue with a window of `window` bytes. It takes one command, until its size is known.
    pub(crate) fn new(window: usize) -> Flow {
        Flow {
            free: window.max(LEAST_WINDOW),
            size: 1,
            taken: 0,
            head: 0,
            waiting: VecDeque::new(),
            arriving: Vec::new(),
            ready: VecDeque::new(),
        }
    }

    /// The number of entries, as Connect says.
    pub(crate) fn resize(&mut self, entries: u16) {
        self.size = entries;
        // Connect was its first command.
        self.head = 1 % entries;
    }

    /// The submission queue head pointer.
    pub(crate) fn head(&self) -> u16 {
        self.head
    }

    /// A command arrived, with data. None: it waits.
    ///
    /// # Errors
    /// [`Error::Protocol`]: the queue has no room for it.
    pub(crate) fn admit(
        &mut self,
        command: Command,
        data: Vec<u8>,
        damaged: bool,
    ) -> Result<Option<Action>, Error> {
        if self.taken >= usize::from(self.size) {
            return broken("more commands than the queue has entries", fes::SEQUENCE, 0);
        }
        self.taken += 1;
        self.head = (self.head + 1) % self.size;
        let refused = match command.transfer(data.len(), MAX_DATA) {
            Ok(transfer) if !damaged => return Ok(self.place(Waiting { command, transfer, data })),
            Ok(_) => status::TRANSIENT_TRANSPORT,
            Err(status) => status,
        };
        let refused = Some(refused);
        Ok(Some(Action::Run(Job { command, data: Vec::new(), room: 0, refused, reserved: 0 })))
    }

    fn place(&mut self, new: Waiting) -> Option<Action> {
        let needed = cost(&new);
        if needed > self.free || needed > 0 && !self.waiting.is_empty() {
            self.waiting.push_back(new);
            return None;
        }
        Some(self.begin(new))
    }

    fn begin(&mut self, new: Waiting) -> Action {
        let reserved = cost(&new);
        self.free -= reserved;
        let Waiting { command, transfer, data } = new;
        let room = if let Transfer::ToHost(len) = transfer { len } else { 0 };
        let mut job = Job { command, data, room, refused: None, reserved };
        let Transfer::FromHost(len) = transfer else { return Action::Run(job) };
        job.data = Vec::with_capacity(len);
        let tag = self.arriving.iter().position(Option::is_none).unwrap_or(self.arriving.len());
        if tag == self.arriving.len() {
            self.arriving.push(None);
        }
        self.arriving[tag] = Some(Arriving { job, len, damaged: false, out: false });
        // There are at most as many as the queue has entries.
        Action::Ask(command.id(), tag as u16, len as u32)
    }

    /// A command was answered: the host may send another one.
    pub(crate) fn answered(&mut self) {
        self.taken -= 1;
    }

    /// Memory was given back. What can begin now.
    pub(crate) fn give_back(&mut self, bytes: usize) -> Vec<Action> {
        self.free += bytes;
        let mut out = Vec::new();
        while self.waiting.front().is_some_and(|w| cost(w) <= self.free)
            && let Some(next) = self.waiting.pop_front()
        {
            out.push(self.begin(next));
        }
        out
    }

    /// The memory for data that arrives, with what it has already; [`Flow::put`] gives it back.
    ///
    /// # Errors
    /// [`Error::Protocol`]: nobody asked for it.
    pub(crate) fn take(&mut self, head: &H2cData) -> Result<Vec<u8>, Error> {
        let found = self.arriving.get_mut(usize::from(head.tag)).and_then(Option::as_mut);
        let Some(found) = found.filter(|a| !a.out) else {
            return broken("data with an unknown tag", fes::INVALID_HEADER, 10);
        };
        if found.job.command.id() != head.command {
            return broken("data of another command", fes::INVALID_HEADER, 8);
        }
        let here = found.job.data.len();
        if head.offset != here {
            return broken("data that is not the next", fes::OUT_OF_RANGE, 12);
        }
        if head.len > found.len - here {
            return broken("more data than was asked for", fes::OUT_OF_RANGE, 16);
        }
        if head.last != (here + head.len == found.len) {
            return broken("the mark of the last data", fes::INVALID_HEADER, 1);
        }
        found.out = true;
        Ok(std::mem::take(&mut found.job.data))
    }

    /// Data has arrived. The command, if it has all of it.
    pub(crate) fn put(&mut self, tag: u16, data: Vec<u8>, damaged: bool) -> Option<Job> {
        let place = self.arriving.get_mut(usize::from(tag))?;
        let mut found = place.take()?;
        found.job.data = data;
        found.out = false;
        found.damaged |= damaged;
        if found.job.data.len() < found.len {
            *place = Some(found);
            return None;
        }
        if found.damaged {
            found.job.refused = Some(status::TRANSIENT_TRANSPORT);
        }
        Some(found.job)
    }
}

/// Bytes that a command needs beside itself and the data in its capsule.
fn cost(waiting: &Waiting) -> usize {
    let twice = waiting.command.opcode() == io::COMPARE;
    match waiting.transfer {
        Transfer::None => 0,
        Transfer::InCapsule if twice => waiting.data.len(),
        Transfer::InCapsule => 0,
        Transfer::FromHost(len) if twice => 2 * len,
        Transfer::FromHost(len) | Transfer::ToHost(len) => len,
    }
}
