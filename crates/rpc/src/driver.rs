//! The task of a connection: reads, gives messages to its role, sends what the role wants sent.
//!
//! One task does both directions, so that TLS needs no lock, and the answers to a batch of requests are one
//! write. Requests and answers that others add wake it; it then lets every task that is ready run once before
//! it takes them, so that what those add goes into the same write. There is no timer for batches.
//!
//! Invariants: the role is registered to be woken before its queue is looked at. The task ends when the
//! connection does, and dropping it ends both.
//!
//! Must not depend on: what either end does with messages.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use ashlar_environment::time::{Instant, Sleep, sleep_until};
use bytes::Bytes;

use crate::error::{Error, Result};
use crate::frame::Header;
use crate::inbound::{Inbound, Place, Receiver};
use crate::outbound::Outbound;
use crate::stream::Stream;

/// Reads in a row, before what they caused is sent.
const READS: usize = 4;
/// Rounds of reading and sending, before other tasks run: a megabyte takes one or two milliseconds with TLS.
const ROUNDS: usize = 2;
/// How often messages are taken from the queue and sent, before other tasks run.
const WRITES: usize = 2;

/// One end of a connection.
pub(crate) trait Role: Send + Unpin {
    /// The version agreed on.
    fn version(&self) -> u8;
    /// Where the payload of a message goes.
    fn place(&mut self, header: &Header) -> Result<Place>;
    /// A complete message.
    fn message(&mut self, header: Header, head: Bytes, bulk: Option<Bytes>, out: &mut Outbound)
    -> Result<()>;
    /// Whether more may be read while these messages wait to be sent. If reading causes messages, it has to
    /// stop when the other end does not take them; the other end, whose reading causes none, never stops.
    fn may_read(&self, out: &Outbound) -> bool;
    /// Stores who is woken when [`Role::fill`] has something to do.
    fn register(&mut self, waker: &Waker);
    /// Whether others added something since the last [`Role::fill`].
    fn has_more(&self) -> bool;
    /// Moves what others added to `out`, until it is full.
    fn fill(&mut self, out: &mut Outbound) -> Result<()>;
    /// Called regularly; returns the time to the next call.
    fn tick(&mut self, out: &mut Outbound) -> Result<Duration>;
    /// Whether the connection is no longer needed.
    fn is_over(&self) -> bool;
    /// The connection has ended.
    fn ended(&mut self, why: &Error);
}

struct Both<'a, R> {
    role: &'a mut R,
    out: &'a mut Outbound,
}

impl<R: Role> Receiver for Both<'_, R> {
    fn version(&self) -> Option<u8> {
        Some(self.role.version())
    }
    fn place(&mut self, header: &Header) -> Result<Place> {
        self.role.place(header)
    }
    fn message(&mut self, header: Header, head: Bytes, bulk: Option<Bytes>) -> Result<()> {
        self.role.message(header, head, bulk, self.out)
    }
}

/// The task; its result is why the connection ended.
pub(crate) struct Driver<R: Role> {
    stream: Stream,
    inbound: Inbound,
    outbound: Outbound,
    role: R,
    timer: Pin<Box<Sleep>>,
    /// Other tasks had their turn since something was added.
    waited: bool,
    ended: bool,
}

impl<R: Role> Driver<R> {
    /// Drives a connection on which the hellos were exchanged; `early` was received behind them.
    pub(crate) fn new(stream: Stream, inbound: Inbound, role: R) -> Driver<R> {
        Driver {
            stream,
            inbound,
            outbound: Outbound::default(),
            role,
            timer: Box::pin(sleep_until(Instant::now())),
            waited: false,
            ended: false,
        }
    }

    fn poll_ticks(&mut self, cx: &mut Context<'_>) -> Result<()> {
        while self.timer.as_mut().poll(cx).is_ready() {
            self.stream.release();
            self.outbound.release();
            let next = self.role.tick(&mut self.outbound)?.max(Duration::from_millis(1));
            self.timer.as_mut().reset(Instant::now() + next);
        }
        Ok(())
    }

    /// Reads until nothing is there, or often enough. Returns whether there may be more.
    fn poll_reads(&mut self, cx: &mut Context<'_>) -> Result<bool> {
        let Driver { stream, inbound, outbound, role, .. } = self;
        let mut both = Both { role, out: outbound };
        for _ in 0..READS {
            if !both.role.may_read(both.out) {
                return Ok(true);
            }
            match inbound.poll_ready(cx, &mut both) {
                Poll::Ready(done) => done?,
                Poll::Pending => return Ok(false),
            }
            if stream.is_plain()
                && let Some(space) = inbound.space()
            {
                match stream.poll_receive_into(cx, space) {
                    Poll::Ready(Ok(0)) => return Err(closed()),
                    Poll::Ready(read) => inbound.filled(read?, &mut both)?,
                    Poll::Pending => return Ok(false),
                }
                continue;
            }
            let mut fed = Ok(());
            let read = stream.poll_receive(cx, &mut |bytes| {
                if fed.is_ok() {
                    fed = inbound.feed(bytes, &mut both);
                }
            });
            fed?;
            match read {
                Poll::Ready(Ok(true)) => {}
                Poll::Ready(Ok(false)) => return Err(closed()),
                Poll::Ready(Err(e)) => return Err(e),
                Poll::Pending => return Ok(false),
            }
        }
        Ok(true)
    }

    /// Sends everything, or as much as the connection takes.
    fn poll_writes(&mut self, cx: &mut Context<'_>) -> Result<Poll<()>> {
        for _ in 0..WRITES {
            self.role.fill(&mut self.outbound)?;
            let Driver { stream, inbound, outbound, .. } = self;
            match stream.poll_send(cx, outbound.pieces(), &mut |bytes| inbound.keep(bytes)) {
                Poll::Ready(sent) => sent?,
                Poll::Pending => return Ok(Poll::Pending),
            }
            if !self.role.has_more() {
                return Ok(Poll::Ready(()));
            }
        }
        cx.waker().wake_by_ref();
        Ok(Poll::Pending)
    }

    fn turn(&mut self, cx: &mut Context<'_>) -> Result<Poll<()>> {
        self.role.register(cx.waker());
        self.poll_ticks(cx)?;
        let mut again = self.poll_reads(cx)?;
        if self.role.has_more() && !self.waited && self.outbound.is_empty() {
            // Once: those who are ready may add more.
            self.waited = true;
            after_ready_tasks(cx);
            return Ok(Poll::Pending);
        }
        self.waited = false;
        for _ in 0..ROUNDS {
            let sent = self.poll_writes(cx)?;
            if sent.is_ready() && self.role.is_over() {
                return Ok(Poll::Ready(()));
            }
            let stuck = sent.is_pending() && !self.role.may_read(&self.outbound);
            if !again || stuck {
                return Ok(Poll::Pending);
            }
            again = self.poll_reads(cx)?;
        }
        cx.waker().wake_by_ref();
        Ok(Poll::Pending)
    }
}

/// Has the running task polled again after the tasks that are ready. A task that wakes itself wakes another thread as well, to
/// which it may move: for each message that costs more than sending it.
fn after_ready_tasks(cx: &mut Context<'_>) {
    let yielded = std::pin::pin!(tokio::task::yield_now());
    // The first step says when to wake the task; there is no need for the second.
    let _ = yielded.poll(cx);
}

fn closed() -> Error {
    Error::unreachable("the other end closed the connection")
}

impl<R: Role> Future for Driver<R> {
    type Output = Error;
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Error> {
        let me = &mut *self;
        let why = match me.turn(cx) {
            Ok(Poll::Pending) => return Poll::Pending,
            Ok(Poll::Ready(())) => Error::unreachable("the connection is no longer needed"),
            Err(why) => why,
        };
        me.ended = true;
        me.role.ended(&why);
        Poll::Ready(why)
    }
}

impl<R: Role> Drop for Driver<R> {
    fn drop(&mut self) {
        if !self.ended {
            self.role.ended(&Error::unreachable("this node closed the connection"));
        }
    }
}
