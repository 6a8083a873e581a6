//! One connection, which is one queue pair: a few threads that take turns at receiving, and execute what they received.
//!
//! The thread that holds `inbox` receives one command, lets the next thread receive, executes the command and hands in its
//! response. Whoever hands in a PDU while nobody sends sends all that are there, so that responses that are ready together
//! leave together; it also begins commands that waited for the memory of what was sent. Threads are started when all others
//! are busy, up to [`WORKERS`] for an I/O queue; the admin queue has one.
//!
//! Invariants: memory is given back when the response was sent. Commands that were received whole before the connection ended
//! are executed; those of a host that is gone are not answered. Nothing is sent after a `C2HTermReq`.
//!
//! Must not depend on: listeners, what commands do.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use ashlar_environment::{thread, time::Instant};
use parking_lot::Mutex;

use crate::authentication::QueueAuthentication;
use crate::command::{Answer, admin as admin_opcode, completion};
use crate::controller::{Core, Queue};
use crate::error::Error;
use crate::flow::{Action, Flow, Job};
use crate::pdu::{self, Agreed};
use crate::receive::{Inbox, Received};
use crate::tls::Peer;
use crate::wire::Wire;
use crate::{admin, authentication, fabrics, io, status};

/// Threads of an I/O queue, at most: the commands that a namespace works on at once.
pub(crate) const WORKERS: usize = 8;
/// Bytes of the stack of a thread.
const STACK: usize = 1 << 20;
/// PDUs that are sent together, at most.
const TOGETHER: usize = 128;

/// A PDU to be sent.
pub(crate) struct Packet {
    head: Vec<u8>,
    data: Vec<u8>,
    /// What follows the data.
    tail: Vec<u8>,
    /// Bytes of the window that are given back when it was sent.
    reserved: usize,
}

impl Packet {
    /// A PDU without data.
    pub(crate) fn control(head: Vec<u8>) -> Packet {
        Packet { head, data: Vec::new(), tail: Vec::new(), reserved: 0 }
    }
}

/// PDUs that go out.
#[derive(Default)]
struct Outbox {
    queue: VecDeque<Packet>,
    sending: bool,
    /// The last PDU is there.
    closed: bool,
}

/// A connection.
pub(crate) struct Connection {
    pub(crate) wire: Wire,
    /// The address of the host, for people.
    pub(crate) from: String,
    pub(crate) core: Arc<Core>,
    /// Who is at the other end, if TLS has shown it.
    pub(crate) peer: Option<Peer>,
    agreed: OnceLock<Agreed>,
    pub(crate) queue: OnceLock<Queue>,
    pub(crate) flow: Mutex<Flow>,
    inbox: Mutex<Inbox>,
    outbox: Mutex<Outbox>,
    /// The host is gone: PDUs are dropped.
    pub(crate) broken: AtomicBool,
    /// Nothing more is received: what was answered is sent.
    over: AtomicBool,
    /// Until when the host has to connect to a queue.
    until: Instant,
    threads: AtomicUsize,
    /// Threads that receive, or wait for their turn.
    receiving: AtomicUsize,
    workers: AtomicUsize,
}

impl Connection {
    pub(crate) fn new(wire: Wire, from: String, peer: Option<Peer>, core: Arc<Core>) -> Arc<Connection> {
        let window = core.window;
        let until = wire.deadline(0);
        Arc::new(Connection {
            wire,
            from,
            core,
            peer,
            agreed: OnceLock::new(),
            queue: OnceLock::new(),
            flow: Mutex::new(Flow::new(window)),
            inbox: Mutex::new(Inbox::new()),
            outbox: Mutex::default(),
            broken: AtomicBool::new(false),
            over: AtomicBool::new(false),
            until,
            threads: AtomicUsize::new(1),
            receiving: AtomicUsize::new(0),
            workers: AtomicUsize::new(1),
        })
    }

    pub(crate) fn agree(&self, agreed: Agreed) {
        let _ = self.agreed.set(agreed);
    }

    fn agreed(&self) -> Agreed {
        // No command is received before.
        self.agreed.get().copied().unwrap_or(Agreed { header_digest: false, data_digest: false, align: 4 })
    }

    /// Becomes a queue. Only the thread that executes Connect calls it, while there is no other.
    pub(crate) fn become_queue(&self, queue: Queue, entries: u16) {
        if queue.id > 0 {
            self.workers.store(self.core.workers, Ordering::Release);
        }
        let _ = self.queue.set(queue);
        self.flow.lock().resize(entries);
    }

    /// Serves commands until the connection ends. The last thread calls `last`; the connection is closed then.
    pub(crate) fn work(self: &Arc<Connection>, last: &(impl Fn() + Clone + Send + 'static)) {
        loop {
            let waited = self.flow.lock().ready.pop_front();
            let job = if let Some(job) = waited {
                job
            } else {
                self.receiving.fetch_add(1, Ordering::AcqRel);
                let job = self.next();
                let others = self.receiving.fetch_sub(1, Ordering::AcqRel) - 1;
                let Some(job) = job else { break };
                if others == 0 {
                    self.start_thread(last);
                }
                job
            };
            self.perform(job);
        }
        if self.threads.fetch_sub(1, Ordering::AcqRel) == 1 {
            if let Some(queue) = self.queue.get() {
                self.core.leave(queue);
            }
            self.wire.close();
            last();
        }
    }

    fn start_thread(self: &Arc<Connection>, last: &(impl Fn() + Clone + Send + 'static)) {
        let started = self.threads.load(Ordering::Acquire);
        if started >= self.workers.load(Ordering::Acquire)
            || self
                .threads
                .compare_exchange(started, started + 1, Ordering::AcqRel, Ordering::Acquire)
                .is_err()
        {
            return;
        }
        let (me, done) = (self.clone(), last.clone());
        if let Err(error) = thread::start("nvme-worker", Some(STACK), move || me.work(&done)) {
            // Those that are there go on.
            self.threads.fetch_sub(1, Ordering::AcqRel);
            tracing::warn!(%error, "cannot start a thread for a queue");
        }
    }

    /// The next command that can be executed. None: the connection has ended.
    fn next(&self) -> Option<Job> {
        let mut inbox = self.inbox.lock();
        loop {
            // Whoever sends while it receives makes commands ready too.
            if let Some(job) = self.flow.lock().ready.pop_front() {
                return Some(job);
            }
            if inbox.ended || self.over.load(Ordering::Acquire) {
                return None;
            }
            match self.receive(&mut inbox) {
                Ok(Received::Job(job)) => return Some(job),
                Ok(Received::Nothing) => continue,
                Ok(Received::End) => {}
                Err(error) => self.fail(&error, &inbox.header),
            }
            inbox.ended = true;
        }
    }

    fn fail(&self, error: &Error, header: &[u8]) {
        if !self.broken.load(Ordering::Acquire) {
            tracing::warn!(host = self.from, %error, "an NVMe connection ended");
        }
        if let Error::Protocol { fes, at, .. } = error {
            self.core.counters.broken.fetch_add(1, Ordering::Relaxed);
            self.send_last(Packet::control(pdu::c2h_term(*fes, *at, header)));
        }
    }

    /// What is due while nothing arrives. False: the connection ends.
    pub(crate) fn tick(&self) -> bool {
        let Some(queue) = self.queue.get() else { return Instant::now() < self.until };
        if queue.controller.ended() || self.over.load(Ordering::Acquire) || self.is_late(queue) {
            return false;
        }
        if queue.id == 0 {
            self.events(queue);
        }
        true
    }

    /// Whether the host was not authenticated in time.
    fn is_late(&self, queue: &Queue) -> bool {
        let late = queue.authentication.as_ref().is_some_and(|g| !g.is_passed() && Instant::now() >= g.until);
        if late && !self.over.swap(true, Ordering::AcqRel) {
            self.refuse(queue, "it did not authenticate itself in time");
        }
        late
    }

    /// Counts and logs a queue whose host was not authenticated.
    fn refuse(&self, queue: &Queue, why: &str) {
        self.core.counters.unauthenticated.fetch_add(1, Ordering::Relaxed);
        let (from, host) = (&self.from, &queue.controller.host.nqn);
        tracing::warn!(from, host, queue = queue.id, why, "an NVMe host was not authenticated");
    }

    /// Executes a command of the authentication, or refuses another one before it.
    fn authenticate(&self, queue: &Queue, job: &Job) -> Answer {
        if self.is_late(queue) {
            return Answer::failed(status::AUTHENTICATION_REQUIRED);
        }
        let answer = authentication::perform(&self.core, queue, job);
        if let Some(why) = queue.authentication.as_ref().and_then(QueueAuthentication::failure)
            && !self.over.swap(true, Ordering::AcqRel)
        {
            self.refuse(queue, &why);
        }
        answer
    }

    /// Completes the commands that wait for an event, if there is one.
    fn events(&self, queue: &Queue) {
        if let Some((command, result)) = queue.controller.event() {
            self.complete(command, 0, Answer::with(result), 0);
        }
    }

    fn perform(&self, job: Job) {
        let (command, room, reserved) = (job.command.id(), job.room, job.reserved);
        let answer = match (job.refused, self.queue.get()) {
            (Some(status), _) => Some(Answer::failed(status)),
            (None, None) => Some(fabrics::connect(self, &job)),
            (None, Some(queue)) => {
                if queue.is_open() {
                    queue.controller.heard();
                }
                match (queue.id, job.command.opcode()) {
                    _ if !queue.is_open() || authentication::concerns(&job.command) => {
                        Some(self.authenticate(queue, &job))
                    }
                    (_, admin_opcode::FABRICS) => Some(fabrics::perform(queue, &job)),
                    (0, _) => admin::perform(self, queue, &job),
                    _ => Some(io::perform(&self.core, queue, job)),
                }
            }
        };
        if let Some(answer) = answer {
            self.complete(command, room, answer, reserved);
        }
        if let Some(queue) = self.queue.get().filter(|q| q.id == 0) {
            self.events(queue);
        }
    }

    /// Answers a command.
    fn complete(&self, command: u16, room: usize, answer: Answer, reserved: usize) {
        let agreed = self.agreed();
        let Answer { mut status, result, mut data } = answer;
        if status == status::SUCCESS && data.len() > room {
            status = status::SGL_LENGTH;
        }
        if status != status::SUCCESS {
            data = Vec::new();
            self.core.counters.errors.fetch_add(1, Ordering::Relaxed);
        }
        let head = {
            let mut flow = self.flow.lock();
            flow.answered();
            flow.head()
        };
        let (id, flow_control) = self.queue.get().map_or((0, true), |q| (q.id, q.flow_control));
        let head = if flow_control { head } else { 0 };
        let response = || pdu::response(&completion(result, head, id, command, status), &agreed);
        if data.is_empty() {
            return self.send(Packet { reserved, ..Packet::control(response()) });
        }
        // Without the head pointer a response says nothing more than that (TCP 3.3.2.1).
        let success = !flow_control && result == 0;
        let (head, mut tail) = pdu::c2h_data(command, &data, success, &agreed);
        if !success {
            tail.extend_from_slice(&response());
        }
        self.send(Packet { head, data, tail, reserved });
    }

    /// Hands in the last PDU.
    fn send_last(&self, packet: Packet) {
        {
            let mut outbox = self.outbox.lock();
            outbox.queue.push_back(packet);
            outbox.closed = true;
        }
        self.send_all();
    }

    /// Hands in a PDU; sends what is there, unless another thread does so already.
    pub(crate) fn send(&self, packet: Packet) {
        {
            let mut outbox = self.outbox.lock();
            if outbox.closed {
                return;
            }
            outbox.queue.push_back(packet);
        }
        self.send_all();
    }

    fn send_all(&self) {
        if std::mem::replace(&mut self.outbox.lock().sending, true) {
            return;
        }
        loop {
            let batch: Vec<Packet> = {
                let mut outbox = self.outbox.lock();
                if outbox.queue.is_empty() {
                    outbox.sending = false;
                    return;
                }
                let n = outbox.queue.len().min(TOGETHER);
                outbox.queue.drain(..n).collect()
            };
            if self.broken.load(Ordering::Acquire) {
                continue;
            }
            let mut slices: Vec<IoSlice<'_>> = batch
                .iter()
                .flat_map(|p| [IoSlice::new(&p.head), IoSlice::new(&p.data), IoSlice::new(&p.tail)])
                .collect();
            if let Err(error) = self.wire.send(&mut slices) {
                self.broken.store(true, Ordering::Release);
                tracing::warn!(host = self.from, %error, "an NVMe host takes no responses");
                // Ends the receiving too.
                self.wire.cut();
                continue;
            }
            let reserved: usize = batch.iter().map(|p| p.reserved).sum();
            drop(batch);
            self.begin_waiting(reserved);
        }
    }

    /// Memory is free again: begins what waited for it.
    fn begin_waiting(&self, bytes: usize) {
        if bytes == 0 {
            return;
        }
        let agreed = self.agreed();
        let mut asked = Vec::new();
        {
            let mut flow = self.flow.lock();
            for action in flow.give_back(bytes) {
                match action {
                    Action::Run(job) => flow.ready.push_back(job),
                    Action::Ask(command, tag, len) => {
                        asked.push(Packet::control(pdu::r2t(command, tag, len, &agreed)));
                    }
                }
            }
        }
        // The caller sends.
        let mut outbox = self.outbox.lock();
        if !outbox.closed {
            outbox.queue.extend(asked);
        }
    }
}
