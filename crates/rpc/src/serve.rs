//! The server's end of a connection: requests become calls of the service, their results answers.
//!
//! Invariants: what the other end may have in flight is bounded by the limits that it was told; more is an
//! error that ends the connection. Every request is answered once, unless it was cancelled or the connection
//! ended. Request ids increase. After a goodbye no request is begun. Calls end with the connection.
//!
//! Must not depend on: sockets, methods.

use std::collections::VecDeque;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use ashlar_environment::HashMap;
use ashlar_environment::task::JoinHandle;
use ashlar_environment::time::Instant;
use ashlar_machine::BufferPool;
use bytes::Bytes;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use futures::task::AtomicWaker;
use parking_lot::Mutex;

use crate::driver::Role;
use crate::error::{Error, Refusal, Result};
use crate::frame::{FREE_BULK, Header, Kind, MAX_BULK, MAX_HEAD, charge};
use crate::handshake::CLOSING;
use crate::hello::Purpose;
use crate::inbound::Place;
use crate::outbound::Outbound;
use crate::service::{Caller, Incoming, Reply, Service};

/// How often an end of a connection that only answers looks after itself.
const TICK: Duration = Duration::from_secs(5);
/// Longest reason of a refusal.
const LONGEST_REASON: usize = 4096;

type Outcome = Result<Reply, Refusal>;
/// What is done when the connection ends.
type OnEnd = Box<dyn FnOnce(&Error) + Send>;

/// What the task of a connection shares with the tasks of its calls and with its endpoint.
#[derive(Default)]
pub(crate) struct Shared {
    finished: Mutex<VecDeque<(u64, Outcome)>>,
    /// Bytes of requests whose memory was given back since the last credit.
    returned: AtomicU64,
    retire: AtomicBool,
    kill: Mutex<Option<Error>>,
    killed: AtomicBool,
    waker: AtomicWaker,
}

impl Shared {
    /// Takes no more requests; the connection ends when the other end has its answers.
    pub(crate) fn retire(&self) {
        self.retire.store(true, Ordering::Release);
        self.waker.wake();
    }

    /// Ends the connection.
    pub(crate) fn kill(&self, why: Error) {
        *self.kill.lock() = Some(why);
        self.killed.store(true, Ordering::Release);
        self.waker.wake();
    }

    fn finish(&self, id: u64, outcome: Outcome) {
        self.finished.lock().push_back((id, outcome));
        self.waker.wake();
    }
}

/// A payload in a buffer: gives credit back when it is dropped.
struct Credited {
    bytes: Bytes,
    shared: Arc<Shared>,
}

impl AsRef<[u8]> for Credited {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Credited {
    fn drop(&mut self) {
        // The buffer first: what is credited may be used at once.
        let len = charge(std::mem::take(&mut self.bytes).len());
        self.shared.returned.fetch_add(u64::from(len), Ordering::AcqRel);
        self.shared.waker.wake();
    }
}

/// A call that is not answered yet.
struct Running {
    task: Option<JoinHandle<()>>,
    answer_limit: u32,
}

/// What the other end was told.
pub(crate) struct Grant {
    pub(crate) version: u8,
    pub(crate) purpose: Purpose,
    pub(crate) window: u32,
    pub(crate) requests: u32,
}

/// The role of the server's end.
pub(crate) struct Serving {
    caller: Caller,
    service: Arc<dyn Service>,
    shared: Arc<Shared>,
    pool: BufferPool,
    grant: Grant,
    running: HashMap<u64, Running>,
    last_id: u64,
    /// Credit that the other end has left, for payloads of requests and of answers.
    credit: u64,
    answers: u64,
    said_goodbye: bool,
    on_end: Option<OnEnd>,
}

impl Serving {
    pub(crate) fn new(
        caller: Caller,
        service: Arc<dyn Service>,
        shared: Arc<Shared>,
        pool: BufferPool,
        grant: Grant,
        on_end: OnEnd,
    ) -> Serving {
        let window = u64::from(grant.window);
        Serving {
            caller,
            service,
            shared,
            pool,
            grant,
            running: HashMap::default(),
            last_id: 0,
            credit: window,
            answers: window,
            said_goodbye: false,
            on_end: Some(on_end),
        }
    }

    fn request(&mut self, header: Header, head: Bytes, bulk: Bytes, out: &mut Outbound) -> Result<()> {
        if self.said_goodbye {
            // Its id is above the one in the goodbye, so that the other end knows that it is not executed.
            return Ok(());
        }
        if header.id <= self.last_id {
            return Err(Error::malformed("a request id that does not increase"));
        }
        if self.running.len() >= self.grant.requests as usize {
            return Err(Error::malformed("more requests in flight than permitted"));
        }
        let expected = u64::from(charge(header.amount as usize));
        let Some(answers) = self.answers.checked_sub(expected) else {
            return Err(Error::malformed("longer answers in flight than permitted"));
        };
        self.answers = answers;
        self.last_id = header.id;
        let bulk = if charge(bulk.len()) == 0 {
            bulk
        } else {
            Bytes::from_owner(Credited { bytes: bulk, shared: self.shared.clone() })
        };
        let request = Incoming {
            method: header.code,
            epoch: header.epoch,
            head,
            bulk,
            deadline: Instant::now() + Duration::from_micros(u64::from(header.deadline_us)),
            answer_limit: header.amount as usize,
        };
        let running = Running { task: None, answer_limit: header.amount };
        self.running.insert(header.id, running);
        match begin(&*self.service, &self.caller, request) {
            // While the other end does not take its answers, this one stays within its limits.
            Ok(outcome) if out.is_full() => self.shared.finished.lock().push_back((header.id, outcome)),
            Ok(outcome) => self.answer(header.id, outcome, out),
            Err(call) => {
                let (id, shared) = (header.id, self.shared.clone());
                let task = ashlar_environment::spawn("rpc call", async move {
                    let outcome = AssertUnwindSafe(call).catch_unwind().await;
                    shared.finish(id, outcome.unwrap_or_else(|_| Err(panicked())));
                });
                if let Some(running) = self.running.get_mut(&header.id) {
                    running.task = Some(task);
                }
            }
        }
        Ok(())
    }

    /// Sends the answer, unless the request was cancelled.
    fn answer(&mut self, id: u64, outcome: Outcome, out: &mut Outbound) {
        let Some(running) = self.running.remove(&id) else { return };
        self.answers += u64::from(charge(running.answer_limit as usize));
        let too_long = |r: &Reply| {
            let len: usize = r.bulk.iter().map(Bytes::len).sum();
            r.head.len() > MAX_HEAD || len > MAX_BULK.min(running.answer_limit as usize)
        };
        let header = Header { id, ..Header::new(Kind::Answer, self.grant.version) };
        match outcome {
            Ok(reply) if too_long(&reply) => {
                let code = Refusal::TOO_LONG;
                out.push(Header { code, ..header }, b"the answer is longer than permitted", Vec::new());
            }
            Ok(reply) => out.push(header, &reply.head, reply.bulk),
            Err(refusal) => {
                // Code 0 would be success.
                let code = if refusal.code == 0 { Refusal::INTERNAL } else { refusal.code };
                let mut len = refusal.message.len().min(LONGEST_REASON);
                while !refusal.message.is_char_boundary(len) {
                    len -= 1;
                }
                out.push(Header { code, ..header }, &refusal.message.as_bytes()[..len], Vec::new());
            }
        }
    }
}

fn panicked() -> Refusal {
    Refusal::new(Refusal::INTERNAL, "the service failed unexpectedly")
}

/// Calls the service and polls it once. `Err`: it is not ready.
fn begin(
    service: &dyn Service,
    caller: &Caller,
    request: Incoming,
) -> Result<Outcome, BoxFuture<'static, Outcome>> {
    let called = std::panic::catch_unwind(AssertUnwindSafe(|| service.call(caller, request)));
    let Ok(mut call) = called else { return Ok(Err(panicked())) };
    let mut context = Context::from_waker(Waker::noop());
    match std::panic::catch_unwind(AssertUnwindSafe(|| call.as_mut().poll(&mut context))) {
        Ok(Poll::Ready(outcome)) => Ok(outcome),
        // Its task polls it again at once, with a waker.
        Ok(Poll::Pending) => Err(call),
        Err(_) => Ok(Err(panicked())),
    }
}

impl Role for Serving {
    fn version(&self) -> u8 {
        self.grant.version
    }

    fn place(&mut self, header: &Header) -> Result<Place> {
        let len = header.bulk_len as usize;
        if header.kind != Kind::Request {
            return Err(Error::malformed("a payload with a message that is not a request"));
        }
        let Some(credit) = self.credit.checked_sub(u64::from(charge(len))) else {
            return Err(Error::malformed("more bytes in flight than permitted"));
        };
        self.credit = credit;
        if self.said_goodbye {
            return Ok(Place::Discard);
        }
        Ok(match self.grant.purpose {
            _ if len <= FREE_BULK => Place::Heap,
            // Small messages do not wait for memory behind large ones; their window bounds them.
            Purpose::Small => Place::Buffer(self.pool.get_reserved(len)),
            Purpose::Bulk => match self.pool.try_get(len) {
                Some(buf) => Place::Buffer(buf),
                None => Place::Wait(Box::pin(self.pool.get(len))),
            },
        })
    }

    fn message(
        &mut self,
        header: Header,
        head: Bytes,
        bulk: Option<Bytes>,
        out: &mut Outbound,
    ) -> Result<()> {
        match header.kind {
            Kind::Request => self.request(header, head, bulk.unwrap_or_default(), out),
            Kind::Cancel => {
                if let Some(running) = self.running.remove(&header.id) {
                    self.answers += u64::from(charge(running.answer_limit as usize));
                    if let Some(task) = running.task {
                        task.abort();
                    }
                    self.shared.finished.lock().retain(|(id, _)| *id != header.id);
                }
                Ok(())
            }
            Kind::Ping => {
                let pong = Header { id: header.id, ..Header::new(Kind::Pong, self.grant.version) };
                out.push(pong, b"", Vec::new());
                Ok(())
            }
            Kind::Hello | Kind::Answer | Kind::Pong | Kind::Credit | Kind::Goodbye => {
                Err(Error::malformed("a kind of message that a client does not send here"))
            }
        }
    }

    fn may_read(&self, out: &Outbound) -> bool {
        !out.is_full()
    }

    fn register(&mut self, waker: &Waker) {
        self.shared.waker.register(waker);
    }

    fn has_more(&self) -> bool {
        let shared = &self.shared;
        shared.returned.load(Ordering::Acquire) > 0
            || shared.killed.load(Ordering::Acquire)
            || (shared.retire.load(Ordering::Acquire) && !self.said_goodbye)
            || !shared.finished.lock().is_empty()
    }

    fn fill(&mut self, out: &mut Outbound) -> Result<()> {
        if self.shared.killed.load(Ordering::Acquire)
            && let Some(why) = self.shared.kill.lock().clone()
        {
            return Err(why);
        }
        let version = self.grant.version;
        let returned = self.shared.returned.swap(0, Ordering::AcqRel);
        if returned > 0 {
            // At most a window, which is a u32, is outside.
            self.credit += returned;
            out.push(Header { amount: returned as u32, ..Header::new(Kind::Credit, version) }, b"", vec![]);
        }
        if self.shared.retire.load(Ordering::Acquire) && !self.said_goodbye {
            self.said_goodbye = true;
            let header = Header { code: CLOSING, id: self.last_id, ..Header::new(Kind::Goodbye, version) };
            out.push(header, b"this node takes no more requests", Vec::new());
        }
        while !out.is_full() {
            let Some((id, outcome)) = self.shared.finished.lock().pop_front() else { break };
            self.answer(id, outcome, out);
        }
        Ok(())
    }

    fn tick(&mut self, _: &mut Outbound) -> Result<Duration> {
        Ok(TICK)
    }

    /// The other end closes the connection.
    fn is_over(&self) -> bool {
        false
    }

    fn ended(&mut self, why: &Error) {
        for (_, running) in self.running.drain() {
            if let Some(task) = running.task {
                task.abort();
            }
        }
        if let Some(on_end) = self.on_end.take() {
            on_end(why);
        }
    }
}
