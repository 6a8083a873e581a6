//! One queue of a controller, which is one connection: callers send, one thread receives.
//!
//! Invariants: at most as many commands are on their way as the queue has entries, each with the memory that its caller asked
//! for; a command that is not answered in time ends the connection, as it may still be executed; when the connection ends, every
//! command on its way is told so, once.
//!
//! Must not depend on: what commands do.

use std::io::{ErrorKind, IoSlice};
use std::net::{Shutdown, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use ashlar_environment::{net, thread, time::Instant};
use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::command::SQE;
use crate::error::Error;
use crate::host::call::{Answer, Asked, Call, Event, Failure, Outcome, Piece};
use crate::host::pdu::{self, Head, Part, Terms};
use crate::host::request::Request;
use crate::host::slots::{Sink, Slot, Slots};
use crate::pdu::{COMMON, DIGEST, IC, MAX_DATA, SHORT, broken, digest, fes, flag, h2c_term, kind};
use crate::pdu::{u16_at, u32_at};
use crate::tls::{self, Psk};
use crate::wire::{Socket, TICK, Wire, is_tick};

/// Bytes that are received at once.
const BUFFER: usize = 64 << 10;
/// Bytes of the stack of a receiver.
const STACK: usize = 1 << 20;

/// What a queue is opened with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Opening {
    pub(crate) header_digest: bool,
    pub(crate) data_digest: bool,
    /// Commands on their way, at most.
    pub(crate) depth: usize,
    /// Time for a PDU, and for the answer of a command.
    pub(crate) timeout: Duration,
    /// Time for the connection.
    pub(crate) connect: Duration,
}

struct State {
    slots: Slots,
    /// Why it has ended.
    ended: Option<Arc<Error>>,
    /// The target has ended it: it knows.
    ended_by_target: bool,
    /// Asynchronous events that came in, and nobody has taken.
    events: Vec<u64>,
}

/// A queue.
pub(crate) struct Queue {
    wire: Wire,
    terms: Terms,
    timeout: Duration,
    /// Bytes of data in a capsule, at most.
    in_capsule: Mutex<usize>,
    /// Whoever has it sends.
    sending: Mutex<()>,
    state: Mutex<State>,
    /// A place is free, an event came in, or the queue has ended.
    changed: Condvar,
}

/// Connects to the first address of a name that answers.
fn dial(portal: &str, timeout: Duration) -> Result<Arc<dyn Socket>, Error> {
    let mut last = std::io::Error::new(ErrorKind::NotFound, "the name has no address");
    for address in portal.to_socket_addrs()? {
        match net::connect_blocking(&address, timeout) {
            Ok(socket) => {
                ashlar_machine::tune_socket(&socket)?;
                socket.set_read_timeout(Some(TICK))?;
                socket.set_write_timeout(Some(TICK))?;
                return Ok(Arc::new(socket));
            }
            Err(e) => last = e,
        }
    }
    Err(last.into())
}

impl Queue {
    /// Connects to `HOST:PORT`, with TLS if there are keys for it, and agrees on digests.
    ///
    /// # Errors
    /// [`Error::Connection`], [`Error::Protocol`]; [`Error::Refused`] if the target does not agree on TLS.
    pub(crate) fn open(portal: &str, opening: &Opening, psks: Vec<Psk>) -> Result<Arc<Queue>, Error> {
        let mut socket = dial(portal, opening.connect)?;
        if !psks.is_empty() {
            socket = tls::connect(&socket, psks, Instant::now() + opening.timeout)?;
        }
        let (queue, incoming) = Queue::over(socket, opening)?;
        let mine = queue.clone();
        thread::start("nvme-host", Some(STACK), move || mine.receive_all(incoming))?;
        Ok(queue)
    }

    /// Agrees with what is at the other end of a socket. Nobody receives yet.
    pub(crate) fn over(socket: Arc<dyn Socket>, opening: &Opening) -> Result<(Arc<Queue>, Incoming), Error> {
        let wire = Wire::new(socket, opening.timeout);
        let mut hello = pdu::ic_req(opening.header_digest, opening.data_digest);
        wire.send(&mut [IoSlice::new(&hello)])?;
        let mut incoming = Incoming::new();
        hello.resize(IC, 0);
        let mut first = [0; COMMON];
        let until = wire.deadline(0);
        incoming.fill(&wire, &mut first, until)?;
        let head = Head::decode(&first, None, 0)?;
        let mut whole = [0; IC];
        whole[..COMMON].copy_from_slice(&first);
        incoming.fill(&wire, &mut whole[COMMON..head.header.min(head.len)], until)?;
        if head.kind == kind::C2H_TERM {
            return Err(ended_by_target(&whole));
        }
        let terms = pdu::ic_resp(&whole, opening.header_digest, opening.data_digest)?;
        let state = State {
            slots: Slots::new(opening.depth.clamp(1, 1024)),
            ended: None,
            ended_by_target: false,
            events: Vec::new(),
        };
        let queue = Queue {
            wire,
            terms,
            timeout: opening.timeout,
            in_capsule: Mutex::new(crate::pdu::IN_CAPSULE),
            sending: Mutex::default(),
            state: Mutex::new(state),
            changed: Condvar::new(),
        };
        Ok((Arc::new(queue), incoming))
    }

    /// Bytes of data that a command may have in its capsule.
    pub(crate) fn in_capsule(&self) -> usize {
        *self.in_capsule.lock()
    }

    /// Says how much data an I/O command may have in its capsule.
    pub(crate) fn limit_capsules(&self, bytes: usize) {
        *self.in_capsule.lock() = bytes;
    }

    /// Why it has ended, if it has.
    pub(crate) fn ended(&self) -> Option<Arc<Error>> {
        self.state.lock().ended.clone()
    }

    /// Whether the target has ended it.
    pub(crate) fn ended_by_target(&self) -> bool {
        self.state.lock().ended_by_target
    }

    /// Waits until there is an event, the queue ends, or `time` is over. The events that came in.
    pub(crate) fn wait_for_event(&self, time: Duration) -> Vec<u64> {
        let mut state = self.state.lock();
        if state.events.is_empty() && state.ended.is_none() {
            self.changed.wait_for(&mut state, time);
        }
        std::mem::take(&mut state.events)
    }

    /// Ends the connection; commands on their way are lost.
    pub(crate) fn close(&self) {
        self.end(Error::Connection(std::io::Error::new(
            ErrorKind::ConnectionAborted,
            "it was closed by this host",
        )));
    }

    fn end(&self, why: Error) {
        let mut state = self.state.lock();
        if state.ended.is_none() {
            state.ended_by_target = is_of_target(&why);
            state.ended = Some(Arc::new(why));
            // Before callers hear of it: then nothing of it comes in any more.
            self.wire.socket.shut(Shutdown::Both);
        }
        state.slots.end_all();
        self.changed.notify_all();
    }

    /// One command.
    pub(crate) fn call(&self, request: Request<'_>) -> Answer {
        let mut pieces = [Piece::new(request)];
        self.execute(&mut pieces);
        pieces[0].answer.take().unwrap_or(Err(Failure::Lost))
    }

    /// Sends a command whose answer is an event.
    pub(crate) fn await_event(&self, request: &Request<'_>) -> Result<(), Failure> {
        self.submit(request, Sink::Event, true).map(drop)
    }

    /// Executes commands together, as far as the queue has places, until each has an answer. Those that have one are left out.
    pub(crate) fn execute(&self, pieces: &mut [Piece<'_>]) {
        let call = Arc::new(Call::default());
        let (mut next, mut under_way) = (0, 0);
        loop {
            while next < pieces.len() {
                if pieces[next].answer.is_none() {
                    // Whoever has commands under way must not wait for a place: they may wait for data.
                    let sink = Sink::Call(call.clone(), next);
                    match self.submit(&pieces[next].request, sink, under_way == 0) {
                        Ok(true) => under_way += 1,
                        Ok(false) => break,
                        Err(failure) => pieces[next].answer = Some(Err(failure)),
                    }
                }
                next += 1;
            }
            if under_way == 0 {
                return;
            }
            match call.wait() {
                (number, Event::Done(answer)) => {
                    pieces[number].answer = Some(answer);
                    under_way -= 1;
                }
                (number, Event::Asked(asked)) => self.give(&asked, pieces[number].request.data),
            }
        }
    }

    /// Sends a command. False: there is no place, and it does not `wait`.
    pub(crate) fn submit(&self, request: &Request<'_>, sink: Sink, wait: bool) -> Result<bool, Failure> {
        let here = request.data.len() <= self.in_capsule();
        let until = match sink {
            Sink::Event => None,
            Sink::Call(..) => Some(Instant::now() + request.timeout.unwrap_or(self.timeout)),
        };
        let slot = Slot {
            sink,
            outgoing: if here { 0 } else { request.data.len() },
            asked: 0,
            owed: false,
            room: request.room,
            data: Vec::with_capacity(request.room),
            damaged: false,
            until,
        };
        let mut state = self.state.lock();
        while state.ended.is_none() && state.slots.is_full() {
            if !wait {
                return Ok(false);
            }
            self.changed.wait(&mut state);
        }
        if state.ended.is_some() {
            return Err(Failure::Unsent);
        }
        let Some(id) = state.slots.add(slot) else { return Ok(false) };
        MutexGuard::unlock_fair(state);
        let mut command = request.command;
        command[2..4].copy_from_slice(&id.to_le_bytes());
        place(&mut command, request, here);
        let data = if here { request.data } else { &[] };
        let (head, tail) = pdu::capsule(&command, data, &self.terms);
        // The command has its place: if it cannot be sent, the end of the queue answers it.
        self.send(&head, data, &tail);
        Ok(true)
    }

    fn send(&self, head: &[u8], data: &[u8], tail: &[u8]) {
        let turn = self.sending.lock();
        let sent = self.wire.send(&mut [IoSlice::new(head), IoSlice::new(data), IoSlice::new(tail)]);
        drop(turn);
        if let Err(e) = sent {
            self.end(e.into());
        }
    }

    /// Sends data that the target asked for.
    fn give(&self, asked: &Asked, data: &[u8]) {
        let all = &data[asked.offset..asked.offset + asked.len];
        let mut done = 0;
        while done < all.len() {
            let part = &all[done..all.len().min(done + self.terms.max_data.min(MAX_DATA))];
            let last = done + part.len() == all.len();
            if last {
                // Before it is sent: the answer may come at once. A command that failed meanwhile gets nothing more.
                match self.state.lock().slots.get(asked.command) {
                    Ok(slot) => slot.owed = false,
                    Err(_) => return,
                }
            }
            let (head, tail) =
                pdu::h2c_data(asked.command, asked.tag, asked.offset + done, part, last, &self.terms);
            self.send(&head, part, &tail);
            done += part.len();
        }
    }

    fn receive_all(&self, mut incoming: Incoming) {
        let why = loop {
            match self.receive(&mut incoming) {
                Ok(true) => {}
                Ok(false) => break Error::Connection(ErrorKind::ConnectionReset.into()),
                Err(e) => break e,
            }
        };
        if let Error::Protocol { fes, at, .. } = &why {
            let term = h2c_term(*fes, *at, &incoming.header);
            // It may take it or not.
            let _ = self.wire.socket.send(&[IoSlice::new(&term)]);
        }
        self.end(why);
    }

    /// Receives one PDU. False: there is none any more.
    pub(crate) fn receive(&self, incoming: &mut Incoming) -> Result<bool, Error> {
        if !self.wait(incoming)? {
            return Ok(false);
        }
        let mut header = [0; SHORT + DIGEST];
        let until = self.wire.deadline(0);
        incoming.fill(&self.wire, &mut header[..COMMON], until)?;
        let mut first = [0; COMMON];
        first.copy_from_slice(&header[..COMMON]);
        incoming.header = first.to_vec();
        let head = Head::decode(&first, Some(&self.terms), MAX_DATA)?;
        incoming.fill(&self.wire, &mut header[COMMON..SHORT], until)?;
        incoming.header = header[..SHORT].to_vec();
        if head.kind == kind::C2H_TERM {
            return Err(ended_by_target(&header));
        }
        let mut ends = SHORT;
        if self.terms.header_digest {
            incoming.fill(&self.wire, &mut header[SHORT..], until)?;
            ends += DIGEST;
            if digest(&[&header[..SHORT]]) != header[SHORT..] {
                return broken("a header digest", fes::HEADER_DIGEST, 0);
            }
        }
        let mut bytes = [0; SHORT];
        bytes.copy_from_slice(&header[..SHORT]);
        match head.kind {
            kind::R2T => self.state.lock().slots.ask(&Part::decode(&bytes))?,
            kind::C2H_DATA => self.receive_data(incoming, &head, &Part::decode(&bytes), ends)?,
            _ => {
                let mut completion = [0; 16];
                completion.copy_from_slice(&bytes[COMMON..]);
                let mut state = self.state.lock();
                let event = state.slots.complete(&completion)?;
                state.events.extend(event);
                self.changed.notify_all();
            }
        }
        Ok(true)
    }

    fn receive_data(
        &self,
        incoming: &mut Incoming,
        head: &Head,
        part: &Part,
        ends: usize,
    ) -> Result<(), Error> {
        if part.len != head.data {
            return broken("the length of data", fes::INVALID_HEADER, 16);
        }
        let mut data = self.state.lock().slots.take(part)?;
        let until = self.wire.deadline(head.len);
        // What is between the header and its data.
        let mut nothing = [0; 256];
        incoming.fill(&self.wire, &mut nothing[..head.offset - ends], until)?;
        let from = data.len();
        data.resize(from + part.len, 0);
        incoming.fill(&self.wire, &mut data[from..], until)?;
        let mut whole = true;
        if self.terms.data_digest {
            let mut sum = [0; DIGEST];
            incoming.fill(&self.wire, &mut sum, until)?;
            whole = digest(&[&data[from..]]) == sum;
        }
        let mut state = self.state.lock();
        state.slots.put(part.command, data, whole);
        if head.flags & flag::SUCCESS != 0 {
            state.slots.finish(part.command, 0, 0)?;
            self.changed.notify_all();
        }
        Ok(())
    }

    /// Waits for the first byte of a PDU. False: there is none any more.
    fn wait(&self, incoming: &mut Incoming) -> Result<bool, Error> {
        while incoming.start == incoming.end {
            match self.wire.receive(&mut incoming.buffer) {
                Ok(0) => return Ok(false),
                Ok(n) => (incoming.start, incoming.end) = (0, n),
                Err(e) if is_tick(&e) => {}
                Err(e) => return Err(e.into()),
            }
            let now = Instant::now();
            if now < incoming.next_look {
                continue;
            }
            incoming.next_look = now + TICK;
            let state = self.state.lock();
            if state.ended.is_some() {
                return Ok(false);
            }
            if state.slots.overdue(now) {
                let text = "a command was not answered in time";
                return Err(std::io::Error::new(ErrorKind::TimedOut, text).into());
            }
        }
        Ok(true)
    }
}

/// Whether an error means that the target has closed the connection. A connection that was closed by this host ends otherwise.
fn is_of_target(why: &Error) -> bool {
    match why {
        Error::Ended { .. } => true,
        Error::Connection(e) => {
            matches!(e.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe | ErrorKind::UnexpectedEof)
        }
        _ => false,
    }
}

/// Says where the data of a command is (Base 4.1.2).
fn place(command: &mut [u8; SQE], request: &Request<'_>, here: bool) {
    let len = request.data.len().max(request.room) as u32;
    command[32..36].copy_from_slice(&len.to_le_bytes());
    command[39] = if here && !request.data.is_empty() { 0x01 } else { 0x5a };
}

fn ended_by_target(header: &[u8]) -> Error {
    Error::Ended { fes: u16_at(header, 8), at: u32_at(header, 10) }
}

/// Bytes that have come in.
pub(crate) struct Incoming {
    buffer: Box<[u8]>,
    start: usize,
    end: usize,
    /// The header of the PDU that is received, to repeat it if it is wrong.
    header: Vec<u8>,
    /// When it is looked again whether a command is overdue.
    next_look: Instant,
}

impl Incoming {
    fn new() -> Incoming {
        let buffer = vec![0; BUFFER].into_boxed_slice();
        Incoming { buffer, start: 0, end: 0, header: Vec::new(), next_look: Instant::now() }
    }

    /// Fills `out`, until a time.
    fn fill(&mut self, wire: &Wire, out: &mut [u8], until: Instant) -> Result<(), Error> {
        let mut done = 0;
        loop {
            let n = (out.len() - done).min(self.end - self.start);
            out[done..done + n].copy_from_slice(&self.buffer[self.start..self.start + n]);
            self.start += n;
            done += n;
            if done == out.len() {
                return Ok(());
            }
            if out.len() - done >= BUFFER {
                return Ok(wire.receive_all(&mut out[done..], until)?);
            }
            match wire.receive(&mut self.buffer) {
                Ok(0) => return Err(std::io::Error::from(ErrorKind::UnexpectedEof).into()),
                Ok(n) => (self.start, self.end) = (0, n),
                Err(e) if is_tick(&e) => {}
                Err(e) => return Err(e.into()),
            }
            if self.start == self.end && Instant::now() >= until {
                let slow = std::io::Error::new(ErrorKind::TimedOut, "the target is too slow within a PDU");
                return Err(slow.into());
            }
        }
    }
}

/// Data of an answer, which has the length that was asked for.
pub(crate) fn data_of(answer: Answer) -> Result<Vec<u8>, Failure> {
    answer.map(|Outcome { data, .. }| data)
}
