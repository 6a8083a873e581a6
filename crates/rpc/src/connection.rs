//! The client's end of a connection: calls that wait for answers.
//!
//! Invariants: a request counts as sent from the moment at which its first byte may leave. Until then it can be
//! withdrawn and certainly is not executed; from then on its outcome is unknown until an answer comes. The
//! queue holds at most the requests in flight, and one cancellation for each that was sent. Credit is taken
//! before a request is queued. When the connection ends, every call learns it.
//!
//! Must not depend on: how connections are made.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::Waker;
use std::time::Duration;

use ashlar_environment::time::{Instant, timeout_at};
use ashlar_machine::{Buf, BufferPool};
use bytes::Bytes;
use futures::task::AtomicWaker;
use parking_lot::Mutex;
use rustls_pki_types::CertificateDer;
use tokio::sync::{Notify, Semaphore, oneshot};

use crate::call::{Answer, Request};
use crate::driver::Role;
use crate::error::{Error, Refusal, Result, Unsent};
use crate::frame::{FREE_BULK, Header, Kind, charge};
use crate::hello::{Hello, Purpose};
use crate::inbound::Place;
use crate::outbound::Outbound;
use crate::permits::{Counted, acquire};
use crate::statistics::RoundTrips;

/// Connections for large messages look after themselves this often while nothing is asked.
const IDLE_TICK: Duration = Duration::from_secs(5);

/// Why a call has no answer.
pub(crate) enum NotBegun {
    /// The connection takes no more requests; the request, to be used with another one.
    Retry(Request),
    /// The call failed.
    Failed(Error),
}

impl From<Error> for NotBegun {
    fn from(why: Error) -> NotBegun {
        NotBegun::Failed(why)
    }
}

enum Queued {
    Request { id: u64, request: Request, deadline: Instant },
    Cancel(u64),
}

struct Pending {
    answer: oneshot::Sender<Result<Answer>>,
    /// Where a large payload of the answer goes.
    buf: Option<Buf>,
    answer_limit: usize,
    /// Credit to take back if it is withdrawn.
    credit: usize,
    sent: Option<Instant>,
}

struct State {
    queue: VecDeque<Queued>,
    pending: BTreeMap<u64, Pending>,
    last_id: u64,
    ended: Option<Error>,
    heard: Instant,
    /// A ping is not answered since then.
    asked: Option<Instant>,
}

/// What the task of a connection shares with its callers.
pub(crate) struct Connection {
    pub(crate) remote: Hello,
    pub(crate) certificate: Option<CertificateDer<'static>>,
    version: u8,
    state: Mutex<State>,
    waker: AtomicWaker,
    /// No new calls: the other end said goodbye, or this end replaces the connection.
    retiring: AtomicBool,
    /// Notified when it retires or ends.
    changed: Notify,
    killed: Mutex<Option<Error>>,
    requests: Semaphore,
    credit: Semaphore,
    answers: Semaphore,
    trips: Arc<RoundTrips>,
    /// Calls that use it, or wait for credit.
    calls: AtomicUsize,
}

impl Connection {
    pub(crate) fn new(
        remote: Hello,
        version: u8,
        certificate: Option<CertificateDer<'static>>,
        trips: Arc<RoundTrips>,
    ) -> Arc<Connection> {
        let (requests, window) = (remote.requests as usize, remote.window as usize);
        Arc::new(Connection {
            remote,
            certificate,
            version,
            state: Mutex::new(State {
                queue: VecDeque::new(),
                pending: BTreeMap::new(),
                last_id: 0,
                ended: None,
                heard: Instant::now(),
                asked: None,
            }),
            waker: AtomicWaker::new(),
            retiring: AtomicBool::new(false),
            changed: Notify::new(),
            killed: Mutex::new(None),
            requests: Semaphore::new(requests.min(Semaphore::MAX_PERMITS)),
            credit: Semaphore::new(window),
            answers: Semaphore::new(window),
            trips,
            calls: AtomicUsize::new(0),
        })
    }

    /// Whether calls can begin.
    pub(crate) fn is_open(&self) -> bool {
        !self.retiring.load(Ordering::Acquire)
    }

    /// Returns when it is no longer open.
    pub(crate) async fn retired(&self) {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if !self.is_open() {
                return;
            }
            changed.await;
        }
    }

    /// Begins no more calls; ends when those that began have their answers.
    pub(crate) fn retire(&self) {
        self.retiring.store(true, Ordering::Release);
        // Whoever waits for credit goes to another connection.
        self.requests.close();
        self.credit.close();
        self.answers.close();
        self.changed.notify_waiters();
        self.waker.wake();
    }

    /// Ends at once.
    pub(crate) fn kill(&self, why: Error) {
        *self.killed.lock() = Some(why);
        self.retire();
    }

    /// Calls that use it, or wait for credit.
    pub(crate) fn load(&self) -> usize {
        self.calls.load(Ordering::Relaxed)
    }

    /// Since when the oldest request is unanswered.
    pub(crate) fn oldest(&self) -> Option<Instant> {
        self.state.lock().pending.values().next()?.sent
    }

    /// How long a ping has been unanswered, from the last sign of life.
    pub(crate) fn silent_for(&self) -> Duration {
        let state = self.state.lock();
        if state.asked.is_some() { state.heard.elapsed() } else { Duration::ZERO }
    }

    /// One call. `buf` is where a large payload of the answer goes; it is taken when the call begins.
    pub(crate) async fn call(
        &self,
        request: Request,
        buf: &mut Option<Buf>,
        deadline: Instant,
    ) -> Result<Answer, NotBegun> {
        let bulk: usize = request.bulk.iter().map(Bytes::len).sum();
        let (credit, answer) = (charge(bulk), charge(request.answer_limit));
        if credit.max(answer) > self.remote.window {
            return Err(NotBegun::Failed(Error::NotSent(Unsent::TooLong("above the other end's window"))));
        }
        let _counted = Counted::new(&self.calls);
        // Held until the call is over.
        let Some(_request) = acquire(&self.requests, 1, deadline).await? else {
            return Err(NotBegun::Retry(request));
        };
        let Some(_answer) = acquire(&self.answers, answer, deadline).await? else {
            return Err(NotBegun::Retry(request));
        };
        let Some(taken) = acquire(&self.credit, credit, deadline).await? else {
            return Err(NotBegun::Retry(request));
        };
        let (send, receive) = oneshot::channel();
        let id = {
            let mut state = self.state.lock();
            if state.ended.is_some() || !self.is_open() {
                return Err(NotBegun::Retry(request));
            }
            taken.forget();
            state.last_id += 1;
            let id = state.last_id;
            let pending = Pending {
                answer: send,
                buf: buf.take(),
                answer_limit: request.answer_limit,
                credit: credit as usize,
                sent: None,
            };
            state.pending.insert(id, pending);
            state.queue.push_back(Queued::Request { id, request, deadline });
            id
        };
        self.waker.wake();
        let waiting = Waiting { connection: self, id };
        let outcome = match timeout_at(deadline, receive).await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(_)) => Err(Error::Unanswered("the connection ended".into())),
            Err(_) => Err(waiting.withdraw()),
        };
        outcome.map_err(NotBegun::Failed)
    }

    /// Takes a call back. False if it was sent, or is over.
    fn withdraw(&self, id: u64) -> Withdrawn {
        let mut state = self.state.lock();
        let Some(pending) = state.pending.remove(&id) else { return Withdrawn::Over };
        if pending.sent.is_some() {
            state.queue.push_back(Queued::Cancel(id));
            drop(state);
            self.waker.wake();
            return Withdrawn::Sent;
        }
        state.queue.retain(|queued| !matches!(queued, Queued::Request { id: of, .. } if *of == id));
        drop(state);
        self.credit.add_permits(pending.credit);
        Withdrawn::Unsent
    }
}

enum Withdrawn {
    Unsent,
    Sent,
    Over,
}

/// A call that waits; dropping it takes it back.
struct Waiting<'a> {
    connection: &'a Connection,
    id: u64,
}

impl Waiting<'_> {
    /// Takes the call back at its deadline.
    fn withdraw(&self) -> Error {
        match self.connection.withdraw(self.id) {
            Withdrawn::Unsent => Error::NotSent(Unsent::Deadline),
            Withdrawn::Sent | Withdrawn::Over => Error::Unanswered("the deadline passed".into()),
        }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.connection.withdraw(self.id);
    }
}

/// The role of the client's end.
pub(crate) struct Calling {
    pub(crate) connection: Arc<Connection>,
    pub(crate) purpose: Purpose,
    /// For answers of medium length.
    pub(crate) pool: BufferPool,
    pub(crate) ping: Duration,
    pub(crate) silence: Duration,
}

impl Calling {
    fn answer(&self, header: Header, head: Bytes, bulk: Option<Bytes>) -> Result<()> {
        let now = Instant::now();
        let mut state = self.connection.state.lock();
        state.heard = now;
        state.asked = None;
        if header.id > state.last_id {
            return Err(Error::malformed("the answer to a request that was not sent"));
        }
        let Some(pending) = state.pending.remove(&header.id) else { return Ok(()) };
        drop(state);
        let Some(sent) = pending.sent else {
            return Err(Error::malformed("the answer to a request that was not sent"));
        };
        self.connection.trips.add(now.duration_since(sent));
        let outcome = match (header.code, bulk) {
            (0, Some(bulk)) => Ok(Answer { head, bulk }),
            (0, None) => Err(Error::Unanswered("the answer's payload was not kept".into())),
            (code, _) => {
                let message = String::from_utf8_lossy(&head).into_owned();
                Err(Error::Refused(Refusal { code, message }))
            }
        };
        // The caller may have gone.
        let _ = pending.answer.send(outcome);
        Ok(())
    }

    /// The other end executes requests up to an id, and no others.
    fn goodbye(&self, last: u64) {
        self.connection.retire();
        let mut state = self.connection.state.lock();
        let refused = state.pending.split_off(&last.saturating_add(1));
        let unsent = |queued: &Queued| matches!(queued, Queued::Request { id, .. } if *id > last);
        state.queue.retain(|queued| !unsent(queued));
        drop(state);
        for pending in refused.into_values() {
            let _ = pending.answer.send(Err(Error::unreachable("the node takes no more requests")));
        }
    }

    fn heard(&self) {
        let mut state = self.connection.state.lock();
        state.heard = Instant::now();
        state.asked = None;
    }
}

impl Role for Calling {
    fn version(&self) -> u8 {
        self.connection.version
    }

    fn place(&mut self, header: &Header) -> Result<Place> {
        if header.kind != Kind::Answer {
            return Err(Error::malformed("a payload with a message that is not an answer"));
        }
        let len = header.bulk_len as usize;
        let mut state = self.connection.state.lock();
        state.heard = Instant::now();
        let Some(pending) = state.pending.get_mut(&header.id) else { return Ok(Place::Discard) };
        if len > pending.answer_limit || pending.sent.is_none() {
            return Err(Error::malformed("a longer answer than was asked for"));
        }
        Ok(match pending.buf.take() {
            Some(mut buf) => {
                buf.set_len(len);
                Place::Buffer(buf)
            }
            None if len <= FREE_BULK => Place::Heap,
            None => Place::Buffer(self.pool.get_reserved(len)),
        })
    }

    fn message(&mut self, header: Header, head: Bytes, bulk: Option<Bytes>, _: &mut Outbound) -> Result<()> {
        match header.kind {
            Kind::Answer => self.answer(header, head, bulk),
            Kind::Pong => {
                self.heard();
                Ok(())
            }
            Kind::Credit => {
                let credit = &self.connection.credit;
                let most = self.connection.remote.window as usize;
                if credit.available_permits() + header.amount as usize > most {
                    return Err(Error::malformed("more credit than the window"));
                }
                credit.add_permits(header.amount as usize);
                Ok(())
            }
            Kind::Goodbye => {
                self.goodbye(header.id);
                Ok(())
            }
            Kind::Hello | Kind::Request | Kind::Cancel | Kind::Ping => {
                Err(Error::malformed("a kind of message that a server does not send here"))
            }
        }
    }

    fn may_read(&self, _: &Outbound) -> bool {
        true
    }

    fn register(&mut self, waker: &Waker) {
        self.connection.waker.register(waker);
    }

    fn has_more(&self) -> bool {
        !self.connection.state.lock().queue.is_empty()
    }

    fn fill(&mut self, out: &mut Outbound) -> Result<()> {
        if let Some(why) = self.connection.killed.lock().clone() {
            return Err(why);
        }
        let now = Instant::now();
        let mut late = Vec::new();
        let mut state = self.connection.state.lock();
        let State { queue, pending, .. } = &mut *state;
        while !out.is_full()
            && let Some(queued) = queue.pop_front()
        {
            let (id, request, deadline) = match queued {
                Queued::Cancel(id) => {
                    let cancel = Header { id, ..Header::new(Kind::Cancel, self.connection.version) };
                    out.push(cancel, b"", Vec::new());
                    continue;
                }
                Queued::Request { id, request, deadline } => (id, request, deadline),
            };
            if deadline <= now {
                late.extend(pending.remove(&id));
                continue;
            }
            let Some(pending) = pending.get_mut(&id) else { continue };
            pending.sent = Some(now);
            let left = deadline.duration_since(now).as_micros();
            let header = Header {
                code: request.method,
                id,
                deadline_us: u32::try_from(left).unwrap_or(u32::MAX),
                epoch: request.epoch,
                amount: request.answer_limit as u32,
                ..Header::new(Kind::Request, self.connection.version)
            };
            out.push(header, &request.head, request.bulk);
        }
        drop(state);
        for pending in late {
            self.connection.credit.add_permits(pending.credit);
            let _ = pending.answer.send(Err(Error::NotSent(Unsent::Deadline)));
        }
        Ok(())
    }

    fn tick(&mut self, out: &mut Outbound) -> Result<Duration> {
        let mut state = self.connection.state.lock();
        let quiet = state.heard.elapsed();
        if state.asked.is_some_and(|asked| asked.elapsed() > self.silence) && quiet > self.silence {
            return Err(Error::unreachable(format!("silent for {:.1} s", quiet.as_secs_f64())));
        }
        let busy = !state.pending.is_empty();
        let patience = if busy { self.ping / 4 } else { self.ping };
        if (busy || self.purpose == Purpose::Small) && quiet >= patience && state.asked.is_none() {
            state.asked = Some(Instant::now());
            out.push(Header { id: 1, ..Header::new(Kind::Ping, self.connection.version) }, b"", Vec::new());
        }
        Ok(match self.purpose {
            Purpose::Bulk if !busy => IDLE_TICK.min(self.silence),
            Purpose::Small | Purpose::Bulk => self.ping / 4,
        })
    }

    fn is_over(&self) -> bool {
        if self.connection.is_open() {
            return false;
        }
        let state = self.connection.state.lock();
        state.pending.is_empty() && state.queue.is_empty()
    }

    fn ended(&mut self, why: &Error) {
        let pending = {
            let mut state = self.connection.state.lock();
            state.ended = Some(why.clone());
            state.queue.clear();
            std::mem::take(&mut state.pending)
        };
        self.connection.retire();
        for pending in pending.into_values() {
            let outcome = match pending.sent {
                Some(_) => Error::Unanswered(why.to_string()),
                None => Error::unreachable(why),
            };
            let _ = pending.answer.send(Err(outcome));
        }
    }
}
