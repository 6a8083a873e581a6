//! One client connection: time limits on its socket and its requests.
//!
//! Invariants: a request head must arrive within [`HEAD`] seconds; an idle connection is closed after
//! [`IDLE`] seconds; a client that does not read its answer is disconnected after [`STUCK`] seconds. Requests
//! have no timers of their own: the connection checks these limits every [`CHECK_INTERVAL`]. Reading a head
//! beyond [`FREE_HEAD`] bytes needs a permit, so that incomplete heads use little memory. While much unsent
//! data waits in all sockets, a connection asks for the next piece of an answer only after its socket has
//! taken the previous one.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll};
use std::time::Duration;

use ashlar_erasure_set::Sets;
use ashlar_node::clock::coarse;
use ashlar_s3::body::Broken;
use ashlar_s3::{Body, HeadScanner, Watch, WorkPermit, WorkPermits};
use bytes::Bytes;
use futures::future::BoxFuture;
use futures::task::AtomicWaker;
use http_body::{Frame, SizeHint};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::Notify;

use super::socket::Socket;

/// Maximum seconds to receive a request head, from its first byte.
pub const HEAD: u64 = 10;
/// Maximum seconds without a request.
pub const IDLE: u64 = 60;
/// Maximum seconds in which the client takes nothing of an answer.
pub const STUCK: u64 = 60;
/// Time between checks of the limits.
pub const CHECK_INTERVAL: Duration = Duration::from_secs(3);

/// Bytes of a request head that are read without a permit.
pub const FREE_HEAD: usize = 8 << 10;

/// Long request heads that are read at the same time.
const LONG_HEADS: usize = 64;
/// How long a connection waits for a permit.
const PERMIT_TIMEOUT: Duration = Duration::from_secs(4);

/// Permits for reading long request heads.
pub fn heads() -> Arc<WorkPermits> {
    WorkPermits::new(LONG_HEADS, PERMIT_TIMEOUT)
}

/// State of a connection. Times are [`coarse`] seconds; 0 means unset.
#[derive(Debug)]
pub struct ConnectionState {
    /// Requests in progress.
    running: AtomicU64,
    /// When the connection became idle.
    idle_since: AtomicU64,
    /// When the first byte of the current head arrived.
    head_since: AtomicU64,
    /// When the socket stopped taking data.
    stuck_since: AtomicU64,
    /// When the last request began, and when the connection was accepted.
    began: AtomicU64,
    pub accepted: u64,
    /// Bytes received of the current head.
    head: AtomicUsize,
    /// Bytes of answers that the socket has not taken: of this connection, and of all.
    unsent: AtomicUsize,
    all_unsent: Arc<AtomicUsize>,
    /// The task that waits for the socket to take them.
    taken: AtomicWaker,
    /// Whether a request was permitted.
    pub watch: Watch,
    /// Notified when the connection must close in favour of others.
    pub cut: Arc<Notify>,
}

/// The order in which connections are closed in favour of others: lower classes first, within a class older
/// ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// No request was permitted, and no request has begun.
    Silent,
    /// No request was permitted, and a request has been arriving for a while.
    Unknown,
    /// A request was permitted, and the connection is idle.
    Idle,
    /// The client does not read its answer.
    Stuck,
}

impl ConnectionState {
    /// State of a newly accepted connection; the time limit of its first head begins now. `all_unsent`:
    /// unsent bytes of all connections.
    pub fn new(all_unsent: Arc<AtomicUsize>) -> Arc<ConnectionState> {
        Arc::new(ConnectionState {
            began: AtomicU64::new(0),
            accepted: coarse(),
            head: AtomicUsize::new(0),
            unsent: AtomicUsize::new(0),
            all_unsent,
            taken: AtomicWaker::new(),
            watch: Watch::default(),
            cut: Arc::default(),
            running: AtomicU64::new(0),
            idle_since: AtomicU64::new(coarse()),
            head_since: AtomicU64::new(coarse()),
            stuck_since: AtomicU64::new(0),
        })
    }

    /// Marks the begin of a request.
    pub fn begin(self: &Arc<ConnectionState>) -> Running {
        self.running.fetch_add(1, Relaxed);
        self.head_since.store(0, Relaxed);
        self.head.store(0, Relaxed);
        self.began.store(coarse(), Relaxed);
        Running(self.clone())
    }

    /// The class of the connection, and since when it is in it; `None` if it must not be closed now.
    pub fn class(&self) -> Option<(Class, u64)> {
        let now = coarse();
        let running = self.running.load(Relaxed) > 0 || self.unsent.load(Relaxed) > 0;
        let began = self.began.load(Relaxed);
        let stuck = self.stuck_since.load(Relaxed);
        match (self.watch.is_known(), running) {
            (false, false) => Some((Class::Silent, self.accepted)),
            (false, true) => (now >= began + 2).then_some((Class::Unknown, began)),
            (true, false) => {
                let idle = self.idle_since.load(Relaxed);
                (now > idle + 1).then_some((Class::Idle, idle))
            }
            (true, true) => (stuck > 0 && now >= stuck + 5).then_some((Class::Stuck, stuck)),
        }
    }

    /// Bytes of its answer that the socket has not taken, and for how many seconds it has taken nothing.
    pub fn unsent(&self) -> (usize, u64) {
        let stuck = self.stuck_since.load(Relaxed);
        (self.unsent.load(Relaxed), if stuck > 0 { coarse().saturating_sub(stuck) } else { 0 })
    }

    /// Counts a piece of an answer that goes to the socket.
    fn handed(&self, bytes: usize) {
        self.unsent.fetch_add(bytes, Relaxed);
        self.all_unsent.fetch_add(bytes, Relaxed);
    }

    /// Notes that the socket has taken everything.
    fn flushed(&self) {
        if self.unsent.load(Relaxed) > 0 {
            let taken = self.unsent.swap(0, Relaxed);
            self.all_unsent.fetch_sub(taken, Relaxed);
            self.taken.wake();
        }
    }

    /// The reason to close the connection, if a limit is exceeded.
    pub fn close_reason(&self) -> Option<&'static str> {
        let now = coarse();
        let over = |since: &AtomicU64, limit: u64| {
            let since = since.load(Relaxed);
            since > 0 && now.saturating_sub(since) > limit
        };
        if over(&self.stuck_since, STUCK) {
            return Some("the client takes nothing of its answer");
        }
        if self.running.load(Relaxed) > 0 || self.unsent.load(Relaxed) > 0 {
            return None;
        }
        if over(&self.head_since, HEAD) {
            return Some("the request head is too slow");
        }
        over(&self.idle_since, IDLE).then_some("idle")
    }

    fn read(&self) {
        if self.running.load(Relaxed) == 0 && self.head_since.load(Relaxed) == 0 {
            self.head_since.store(coarse(), Relaxed);
        }
    }

    fn wrote(&self, pending: bool) {
        if !pending {
            if self.stuck_since.load(Relaxed) != 0 {
                self.stuck_since.store(0, Relaxed);
            }
        } else if self.stuck_since.load(Relaxed) == 0 {
            self.stuck_since.store(coarse(), Relaxed);
        }
    }
}

impl Drop for ConnectionState {
    fn drop(&mut self) {
        self.all_unsent.fetch_sub(*self.unsent.get_mut(), Relaxed);
    }
}

/// Counts a request until its answer has been sent or abandoned.
pub struct Running(Arc<ConnectionState>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.idle_since.store(coarse(), Relaxed);
        self.0.running.fetch_sub(1, Relaxed);
    }
}

/// The body of an answer and the request that it belongs to.
pub struct Outgoing {
    body: Body,
    state: Arc<ConnectionState>,
    sets: Sets,
    /// A piece was requested and has not arrived. The pending read may hold memory that others need, so it
    /// must be polled until the piece arrives.
    asked: bool,
    _running: Running,
}

impl Outgoing {
    /// The body of the answer to the request `running`.
    pub fn new(body: Body, running: Running, sets: Sets) -> Outgoing {
        Outgoing { body, state: running.0.clone(), sets, asked: false, _running: running }
    }
}

impl http_body::Body for Outgoing {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        let me = &mut *self;
        if !me.asked && me.state.unsent.load(Relaxed) > 0 && me.sets.is_crowded() {
            me.state.taken.register(cx.waker());
            // The task that polls this also flushes the socket, so no wake-up is missed.
            return Poll::Pending;
        }
        me.asked = true;
        let frame = std::task::ready!(Pin::new(&mut me.body).poll_frame(cx));
        me.asked = false;
        if let Some(Ok(frame)) = &frame
            && let Some(data) = frame.data_ref()
        {
            me.state.handed(data.len());
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A socket that reports its traffic to [`ConnectionState`].
pub struct Watched {
    socket: Socket,
    scanner: HeadScanner,
    state: Arc<ConnectionState>,
    permits: Arc<WorkPermits>,
    permit: PermitState,
}

/// State of the permit to read a long head.
enum PermitState {
    No,
    Waiting(BoxFuture<'static, Option<WorkPermit>>),
    Has(#[allow(dead_code)] WorkPermit), // held, not looked at
}

impl Watched {
    /// Observes `socket`; reading long heads needs a permit of `permits`.
    pub fn new(socket: Socket, state: Arc<ConnectionState>, permits: Arc<WorkPermits>) -> Watched {
        let scanner = HeadScanner::new(state.watch.clone());
        Watched { socket, scanner, state, permits, permit: PermitState::No }
    }

    /// Waits for the permit to read more of a head.
    fn poll_turn(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            match &mut self.permit {
                PermitState::Has(_) => return Poll::Ready(Ok(())),
                PermitState::No => {
                    let (permits, cut) = (self.permits.clone(), self.state.cut.clone());
                    self.permit = PermitState::Waiting(Box::pin(async move { permits.take(cut).await }));
                }
                PermitState::Waiting(permit) => match std::task::ready!(permit.as_mut().poll(cx)) {
                    Some(permit) => self.permit = PermitState::Has(permit),
                    None => return Poll::Ready(Err(io::Error::other("too many long request heads at once"))),
                },
            }
        }
    }
}

impl AsyncRead for Watched {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let me = &mut *self;
        let heading = me.state.running.load(Relaxed) == 0;
        if heading && me.state.head.load(Relaxed) >= FREE_HEAD {
            std::task::ready!(me.poll_turn(cx))?;
        } else if !heading && !matches!(me.permit, PermitState::No) {
            me.permit = PermitState::No;
        }
        let before = buf.filled().len();
        let result = Pin::new(&mut self.socket).poll_read(cx, buf);
        let new = &buf.filled()[before..];
        if !new.is_empty() {
            if heading {
                self.state.head.fetch_add(new.len(), Relaxed);
            }
            self.scanner.feed(new);
            self.state.read();
        }
        result
    }
}

impl AsyncWrite for Watched {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.socket).poll_write(cx, buf);
        self.state.wrote(result.is_pending());
        result
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.socket).poll_write_vectored(cx, bufs);
        self.state.wrote(result.is_pending());
        result
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let result = Pin::new(&mut self.socket).poll_flush(cx);
        if result.is_ready() {
            self.state.flushed();
        }
        // TLS buffers more than its socket takes; a stuck socket shows here.
        self.state.wrote(result.is_pending());
        result
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(cx)
    }
}
