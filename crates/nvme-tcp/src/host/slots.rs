//! The commands of one queue that are on their way: their identifiers, and how far their data is.
//!
//! Invariants: a PDU that does not fit a command on its way breaks the protocol; data of a read arrives once, in order, and never
//! more than was asked for; a write is asked for its data in order, one piece at a time; an identifier is not used again soon.
//!
//! Must not depend on: sockets.

use std::sync::Arc;

use ashlar_environment::time::Instant;

use crate::error::Error;
use crate::host::call::{Answer, Asked, Call, Event, Failure, Outcome};
use crate::host::pdu::Part;
use crate::pdu::{broken, fes, u16_at, u64_at};

/// Who gets the answer of a command.
pub(crate) enum Sink {
    /// The command of this number of a call.
    Call(Arc<Call>, usize),
    /// The owner of the queue: an asynchronous event.
    Event,
}

/// A command on its way.
pub(crate) struct Slot {
    pub(crate) sink: Sink,
    /// Bytes for the target that travel when it asks.
    pub(crate) outgoing: usize,
    /// Bytes that it asked for.
    pub(crate) asked: usize,
    /// It has asked, and has not got all.
    pub(crate) owed: bool,
    /// Bytes that the target sends.
    pub(crate) room: usize,
    pub(crate) data: Vec<u8>,
    /// A digest was wrong.
    pub(crate) damaged: bool,
    /// When it has to be answered; none: whenever there is an event.
    pub(crate) until: Option<Instant>,
}

/// The commands of a queue.
pub(crate) struct Slots {
    all: Vec<(u16, Option<Slot>)>,
    free: Vec<usize>,
}

impl Slots {
    /// A queue for `depth` commands, 1 to 1024.
    pub(crate) fn new(depth: usize) -> Slots {
        let mut all = Vec::with_capacity(depth);
        all.resize_with(depth, || (0, None));
        Slots { all, free: (0..depth).rev().collect() }
    }

    pub(crate) fn is_full(&self) -> bool {
        self.free.is_empty()
    }

    /// Takes a place; the identifier of the command. None: all are taken.
    pub(crate) fn add(&mut self, slot: Slot) -> Option<u16> {
        let at = self.free.pop()?;
        let (turn, place) = &mut self.all[at];
        *turn = (*turn + 1) % 64;
        *place = Some(slot);
        Some((at as u16) | *turn << 10)
    }

    pub(crate) fn get(&mut self, command: u16) -> Result<&mut Slot, Error> {
        let found = self.all.get_mut(usize::from(command & 0x3ff)).filter(|(turn, _)| *turn == command >> 10);
        match found.and_then(|(_, slot)| slot.as_mut()) {
            Some(slot) => Ok(slot),
            None => broken("an answer to a command that is not on its way", fes::INVALID_HEADER, 8),
        }
    }

    fn remove(&mut self, command: u16) -> Result<Slot, Error> {
        self.get(command)?;
        let at = usize::from(command & 0x3ff);
        self.free.push(at);
        match self.all[at].1.take() {
            Some(slot) => Ok(slot),
            None => broken("an answer to a command that is not on its way", fes::INVALID_HEADER, 8),
        }
    }

    /// The target asks for data.
    pub(crate) fn ask(&mut self, part: &Part) -> Result<(), Error> {
        let slot = self.get(part.command)?;
        if slot.owed {
            return broken("a request for data before the one before was answered", fes::SEQUENCE, 8);
        }
        if part.offset != slot.asked || part.len == 0 || part.len > slot.outgoing - slot.asked {
            return broken("a request for data that is not the next", fes::OUT_OF_RANGE, 12);
        }
        let Sink::Call(call, number) = &slot.sink else {
            return broken("a request for data of a command without any", fes::INVALID_HEADER, 8);
        };
        let asked = Asked { command: part.command, tag: part.tag, offset: part.offset, len: part.len };
        call.tell(*number, Event::Asked(asked));
        slot.asked += part.len;
        slot.owed = true;
        Ok(())
    }

    /// The memory for data that arrives, with what it has already; [`Slots::put`] gives it back.
    pub(crate) fn take(&mut self, part: &Part) -> Result<Vec<u8>, Error> {
        let slot = self.get(part.command)?;
        if part.offset != slot.data.len() {
            return broken("data that is not the next", fes::OUT_OF_RANGE, 12);
        }
        if part.len > slot.room - slot.data.len() {
            return broken("more data than was asked for", fes::OUT_OF_RANGE, 16);
        }
        Ok(std::mem::take(&mut slot.data))
    }

    /// Data has arrived. A command that is not there any more was ended meanwhile.
    pub(crate) fn put(&mut self, command: u16, data: Vec<u8>, whole: bool) {
        if let Ok(slot) = self.get(command) {
            slot.data = data;
            slot.damaged |= !whole;
        }
    }

    /// A completion, of 16 bytes (Base 3.3.3.2). True: it was one of an event, which is returned.
    pub(crate) fn complete(&mut self, completion: &[u8; 16]) -> Result<Option<u64>, Error> {
        let command = u16_at(completion, 12);
        let status = u16_at(completion, 14) >> 1;
        self.finish(command, status, u64_at(completion, 0))
    }

    /// The end of a command. An event is returned.
    pub(crate) fn finish(&mut self, command: u16, status: u16, result: u64) -> Result<Option<u64>, Error> {
        let slot = self.get(command)?;
        // A command that breaks the protocol stays: it hears of the end when there is one, and not before.
        if status == 0 && !slot.damaged {
            if slot.data.len() != slot.room {
                return broken("less data than was asked for", fes::OUT_OF_RANGE, 0);
            }
            if slot.asked != slot.outgoing || slot.owed {
                return broken("a write succeeded without its data", fes::SEQUENCE, 0);
            }
        }
        let slot = self.remove(command)?;
        let answer = match status {
            0 if slot.damaged => Err(Failure::Digest),
            0 => Ok(Outcome { result, data: Vec::new() }),
            _ => Err(Failure::Status(status)),
        };
        if let Sink::Event = slot.sink {
            return Ok(answer.ok().map(|o| o.result));
        }
        slot.end(answer);
        Ok(None)
    }

    /// The connection has ended: so have all commands.
    pub(crate) fn end_all(&mut self) {
        for at in 0..self.all.len() {
            if let Some(slot) = self.all[at].1.take() {
                slot.end(Err(Failure::Lost));
                self.free.push(at);
            }
        }
    }

    /// Whether a command should have been answered by now.
    pub(crate) fn overdue(&self, now: Instant) -> bool {
        self.all.iter().filter_map(|(_, s)| s.as_ref()?.until).any(|until| until <= now)
    }
}

impl Slot {
    fn end(self, answer: Answer) {
        if let Sink::Call(call, number) = self.sink {
            let data = self.data;
            call.tell(number, Event::Done(answer.map(|o| Outcome { data, ..o })));
        }
    }
}
