//! One connection: a few threads that take turns at receiving, and execute what they received.
//!
//! The thread that holds `inbox` receives one request, lets the next thread receive, executes the request and hands in its
//! reply. Whoever hands in a reply while nobody sends sends all that are there, so that replies that are ready
//! together leave together. Threads are started when all others are busy, up to [`WORKERS`].
//!
//! Invariants: memory is taken before data is received or read, and is given back when the reply was sent. Requests that were
//! received before the connection ended are executed; those of a client that is gone are not answered.
//!
//! Must not depend on: listeners, what devices do.

use std::collections::VecDeque;
use std::io::{ErrorKind, IoSlice};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use ashlar_environment::thread;
use parking_lot::Mutex;

use crate::budget::Budget;
use crate::error::Error;
use crate::negotiate::Agreed;
use crate::protocol::*;
use crate::request::{self, Job, Reply};
use crate::wire::Wire;

/// Threads of a connection, at most: the requests that a device works on at once.
pub(crate) const WORKERS: usize = 16;
/// Bytes of the stack of a thread.
const STACK: usize = 1 << 20;
/// Bytes that are received at once. Data of longer writes is received where it is kept.
const BUFFER: usize = 64 << 10;
/// Bytes of a buffer for reads that is kept for the next one, at most.
const KEPT: usize = 256 << 10;
/// Replies that are sent together, at most.
const TOGETHER: usize = 256;

/// What a server counts.
#[derive(Default)]
pub(crate) struct Counters {
    pub(crate) connections: AtomicU64,
    pub(crate) accepted: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) reads: AtomicU64,
    pub(crate) writes: AtomicU64,
    pub(crate) others: AtomicU64,
    pub(crate) bytes_read: AtomicU64,
    pub(crate) bytes_written: AtomicU64,
    pub(crate) errors: AtomicU64,
}

/// Requests that come in.
struct Inbox {
    buffer: Box<[u8]>,
    start: usize,
    end: usize,
    /// Nothing more is received.
    ended: bool,
}

/// Replies that go out.
#[derive(Default)]
struct Outbox {
    queue: VecDeque<Reply>,
    sending: bool,
}

/// A connection after its negotiation.
pub(crate) struct Connection {
    wire: Wire,
    agreed: Agreed,
    budget: Arc<Budget>,
    counters: Arc<Counters>,
    /// The server stops.
    stopping: Arc<AtomicBool>,
    inbox: Mutex<Inbox>,
    outbox: Mutex<Outbox>,
    /// Buffers for reads: to make new memory zeros and to give it back costs as much as the rest of a read.
    spare: Mutex<Vec<Vec<u8>>>,
    /// The client is gone: replies are dropped.
    broken: AtomicBool,
    threads: AtomicUsize,
    /// Threads that receive, or wait for their turn.
    receiving: AtomicUsize,
    workers: usize,
}

impl Connection {
    pub(crate) fn new(
        wire: Wire,
        agreed: Agreed,
        budget: Arc<Budget>,
        counters: Arc<Counters>,
        stopping: Arc<AtomicBool>,
        workers: usize,
    ) -> Arc<Connection> {
        let buffer = vec![0; BUFFER].into_boxed_slice();
        Arc::new(Connection {
            wire,
            agreed,
            budget,
            counters,
            stopping,
            inbox: Mutex::new(Inbox { buffer, start: 0, end: 0, ended: false }),
            outbox: Mutex::new(Outbox::default()),
            spare: Mutex::default(),
            broken: AtomicBool::new(false),
            threads: AtomicUsize::new(1),
            receiving: AtomicUsize::new(0),
            workers,
        })
    }

    /// Serves requests until the connection ends. The last thread returns true; the connection is closed then.
    pub(crate) fn work(self: &Arc<Connection>, last: &(impl Fn() + Clone + Send + 'static)) {
        loop {
            self.receiving.fetch_add(1, Ordering::AcqRel);
            let job = self.next();
            let others = self.receiving.fetch_sub(1, Ordering::AcqRel) - 1;
            let Some(job) = job else { break };
            if others == 0 {
                self.start_thread(last);
            }
            let reply = request::perform(&self.agreed, job);
            self.answer(reply);
        }
        if self.threads.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.wire.close();
            last();
        }
    }

    fn start_thread(self: &Arc<Connection>, last: &(impl Fn() + Clone + Send + 'static)) {
        let started = self.threads.load(Ordering::Acquire);
        if started >= self.workers
            || self
                .threads
                .compare_exchange(started, started + 1, Ordering::AcqRel, Ordering::Acquire)
                .is_err()
        {
            return;
        }
        let (me, done) = (self.clone(), last.clone());
        if let Err(error) = thread::start("nbd-worker", Some(STACK), move || me.work(&done)) {
            // Those that are there go on.
            self.threads.fetch_sub(1, Ordering::AcqRel);
            tracing::warn!(%error, "cannot start a thread for a connection");
        }
    }

    /// The next request. None: the connection has ended.
    fn next(&self) -> Option<Job> {
        let mut inbox = self.inbox.lock();
        if inbox.ended {
            return None;
        }
        match self.receive(&mut inbox) {
            Ok(Some(job)) => return Some(job),
            Ok(None) => {}
            Err(error) => {
                if !self.broken.load(Ordering::Acquire) {
                    tracing::warn!(export = self.agreed.export.name, %error, "an NBD connection ended");
                }
            }
        }
        inbox.ended = true;
        None
    }

    fn receive(&self, inbox: &mut Inbox) -> Result<Option<Job>, Error> {
        if !self.fill(inbox)? {
            return Ok(None);
        }
        let mut bytes = [0; HEAD];
        bytes.copy_from_slice(&inbox.buffer[inbox.start..inbox.start + HEAD]);
        inbox.start += HEAD;
        let head = Head::decode(&bytes).ok_or(Error::Protocol("a request without its magic number"))?;
        if head.command == command::DISCONNECT {
            return Ok(None);
        }
        let refused = request::check(&self.agreed, &head);
        self.count(&head, refused.is_some());
        let reserved = self.budget.take(request::memory(&head, refused.is_some()));
        let mut data = Vec::new();
        if head.command == command::READ && refused.is_none() {
            data = self.spare.lock().pop().unwrap_or_default();
            // The device fills it; what it has is sent only then.
            data.resize(head.len as usize, 0);
        }
        if head.command == command::WRITE {
            if refused.is_some() {
                self.skip(inbox, u64::from(head.len))?;
            } else {
                data = self.receive_data(inbox, head.len as usize)?;
            }
        }
        Ok(Some(Job { head, data, refused, reserved }))
    }

    /// Receives until the head of a request is there. False: the client has ended the connection, or the server stops.
    fn fill(&self, inbox: &mut Inbox) -> Result<bool, Error> {
        let mut until = None;
        while inbox.end - inbox.start < HEAD {
            if inbox.start > 0 {
                inbox.buffer.copy_within(inbox.start..inbox.end, 0);
                (inbox.start, inbox.end) = (0, inbox.end - inbox.start);
            }
            let begun = inbox.end > 0;
            if self.broken.load(Ordering::Acquire) || !begun && self.stopping.load(Ordering::Acquire) {
                return Ok(false);
            }
            if begun {
                let until = *until.get_or_insert_with(|| self.wire.deadline(HEAD));
                self.wire.receive_all(&mut inbox.buffer[inbox.end..HEAD], until)?;
                inbox.end = HEAD;
                continue;
            }
            match self.wire.receive(&mut inbox.buffer[inbox.end..]) {
                Ok(0) => return Ok(false),
                Ok(n) => inbox.end += n,
                Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
                Err(e) => return Err(e.into()),
            }
        }
        Ok(true)
    }

    /// The data of a write: what has been received already, and the rest where it stays.
    fn receive_data(&self, inbox: &mut Inbox, len: usize) -> Result<Vec<u8>, Error> {
        let here = len.min(inbox.end - inbox.start);
        let mut data = Vec::with_capacity(len);
        data.extend_from_slice(&inbox.buffer[inbox.start..inbox.start + here]);
        inbox.start += here;
        if here < len {
            data.resize(len, 0);
            self.wire.receive_all(&mut data[here..], self.wire.deadline(len))?;
        }
        Ok(data)
    }

    /// Receives data that nobody wants.
    fn skip(&self, inbox: &mut Inbox, len: u64) -> Result<(), Error> {
        let here = len.min((inbox.end - inbox.start) as u64);
        inbox.start += here as usize;
        let (mut left, until) = (len - here, self.wire.deadline(len as usize));
        while left > 0 {
            // The buffer is empty.
            let piece = left.min(BUFFER as u64) as usize;
            self.wire.receive_all(&mut inbox.buffer[..piece], until)?;
            left -= piece as u64;
            (inbox.start, inbox.end) = (0, 0);
        }
        Ok(())
    }

    fn count(&self, head: &Head, refused: bool) {
        let c = &self.counters;
        let add = |counter: &AtomicU64, n: u64| {
            counter.fetch_add(n, Ordering::Relaxed);
        };
        match head.command {
            _ if refused => add(&c.errors, 1),
            command::READ => {
                add(&c.reads, 1);
                add(&c.bytes_read, u64::from(head.len));
            }
            command::WRITE => {
                add(&c.writes, 1);
                add(&c.bytes_written, u64::from(head.len));
            }
            _ => add(&c.others, 1),
        }
    }

    /// Keeps the buffers of replies that were sent, as many as there are threads.
    fn keep(&self, sent: Vec<Reply>) {
        let mut spare = self.spare.lock();
        for Reply { data, .. } in sent {
            if (1..=KEPT).contains(&data.capacity()) && spare.len() < self.workers {
                spare.push(data);
            }
        }
    }

    /// Hands in a reply; sends what is there, unless another thread does so already.
    fn answer(&self, reply: Reply) {
        {
            let mut outbox = self.outbox.lock();
            outbox.queue.push_back(reply);
            if std::mem::replace(&mut outbox.sending, true) {
                return;
            }
        }
        loop {
            let batch: Vec<Reply> = {
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
            let mut slices: Vec<IoSlice<'_>> =
                batch.iter().flat_map(|r| [IoSlice::new(&r.head), IoSlice::new(&r.data)]).collect();
            if let Err(error) = self.wire.send(&mut slices) {
                self.broken.store(true, Ordering::Release);
                tracing::warn!(export = self.agreed.export.name, %error, "an NBD client takes no replies");
                // Ends the receiving too.
                self.wire.cut();
            }
            self.keep(batch);
        }
    }
}
