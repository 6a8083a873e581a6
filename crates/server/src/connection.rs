//! One connection: its socket watched for silence, its requests handed on.
//!
//! Invariants: a request head must come within [`HEAD`], an idle connection lives for [`IDLE`], a
//! client that does not take its answer is cut off after [`STUCK`]; no request pays for a timer of
//! its own: the connection looks at itself every few seconds. A head longer than [`FREE_HEAD`] is read on only with
//! a turn, so that half-sent heads hold little; while many answers wait in sockets, the next piece of an answer is
//! asked for only when the socket has taken the one before.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll};
use std::time::Duration;

use ashlar_erasure_set::Sets;
use ashlar_s3::body::Broken;
use ashlar_s3::{Body, HeadScanner, Turn, Turns, Watch};
use bytes::Bytes;
use futures::future::BoxFuture;
use futures::task::AtomicWaker;
use http_body::{Frame, SizeHint};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::Notify;

use super::clock::coarse;

/// Seconds for a request head, from its first byte.
pub const HEAD: u64 = 10;
/// Seconds without any request.
pub const IDLE: u64 = 60;
/// Seconds in which the client takes nothing of an answer.
pub const STUCK: u64 = 60;
/// How often a connection looks at itself.
pub const LOOK: Duration = Duration::from_secs(3);

/// Bytes of a request head that are read without a turn.
pub const FREE_HEAD: usize = 8 << 10;

/// Long request heads at a time.
const LONG_HEADS: usize = 64;
/// How long others wait for theirs.
const PATIENCE: Duration = Duration::from_secs(4);

/// What is known about the other end of a connection.
pub struct Peer {
    /// Its address.
    pub address: SocketAddr,
    /// It speaks TLS.
    pub tls: bool,
    /// The client's certificates in DER, its own first; none unless TLS asked for them.
    pub certificates: Vec<Vec<u8>>,
    /// The scanner of its requests.
    pub watch: Watch,
}

/// Turns to read long request heads.
pub fn heads() -> Arc<Turns> {
    Turns::new(LONG_HEADS, PATIENCE)
}

/// What became of connections, for metrics.
#[derive(Default, Debug)]
pub struct Counts {
    /// Open now.
    pub open: AtomicUsize,
    /// Displaced by others, by class.
    pub displaced: [AtomicU64; 4],
    /// Refused because there were too many.
    pub refused: AtomicU64,
    /// Cut because too much of answers waited in sockets.
    pub cut: AtomicU64,
    /// Answered from the reserve with 503.
    pub busy: AtomicU64,
}

/// What is known about a connection. Times are [`coarse`] seconds, 0 for "not".
#[derive(Debug)]
pub struct Life {
    /// Requests that run.
    running: AtomicU64,
    /// Since when there is nothing to do.
    idle_since: AtomicU64,
    /// Since when a head is coming.
    head_since: AtomicU64,
    /// Since when the socket takes nothing.
    stuck_since: AtomicU64,
    /// When the last request began, and when the connection was made.
    began: AtomicU64,
    pub accepted: u64,
    /// Bytes of the head that is coming.
    head: AtomicUsize,
    /// Bytes of answers that the socket has not taken, of this connection and of all.
    unsent: AtomicUsize,
    all_unsent: Arc<AtomicUsize>,
    /// Whoever waits for the socket to take them.
    taken: AtomicWaker,
    /// Whether a request was permitted.
    pub watch: Watch,
    /// The connection must make room for others.
    pub cut: Arc<Notify>,
}

/// Which connections make room for others first: those of a lower class, and of these the older ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// Nobody was permitted anything, and no request has come.
    Silent,
    /// A request has been coming for a while, and nobody was permitted anything before.
    Unknown,
    /// It is known, and idle.
    Idle,
    /// Its client takes nothing of its answer.
    Stuck,
}

impl Life {
    /// A connection that was just accepted. Its first head counts from now. `all_unsent`: what sockets have not
    /// taken, of all connections.
    pub fn new(all_unsent: Arc<AtomicUsize>) -> Arc<Life> {
        Arc::new(Life {
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

    /// A request begins.
    pub fn begin(self: &Arc<Life>) -> Running {
        self.running.fetch_add(1, Relaxed);
        self.head_since.store(0, Relaxed);
        self.head.store(0, Relaxed);
        self.began.store(coarse(), Relaxed);
        Running(self.clone())
    }

    /// Whether and how soon it should make room for others, and since when it is as it is.
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

    /// Bytes of its answer that the socket has not taken, and for how many seconds it takes nothing.
    pub fn unsent(&self) -> (usize, u64) {
        let stuck = self.stuck_since.load(Relaxed);
        (self.unsent.load(Relaxed), if stuck > 0 { coarse().saturating_sub(stuck) } else { 0 })
    }

    /// A piece of an answer is on its way to the socket.
    fn handed(&self, bytes: usize) {
        self.unsent.fetch_add(bytes, Relaxed);
        self.all_unsent.fetch_add(bytes, Relaxed);
    }

    /// The socket has taken all there was.
    fn flushed(&self) {
        if self.unsent.load(Relaxed) > 0 {
            let taken = self.unsent.swap(0, Relaxed);
            self.all_unsent.fetch_sub(taken, Relaxed);
            self.taken.wake();
        }
    }

    /// Why the connection should end, if it should.
    pub fn verdict(&self) -> Option<&'static str> {
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

impl Drop for Life {
    fn drop(&mut self) {
        self.all_unsent.fetch_sub(*self.unsent.get_mut(), Relaxed);
    }
}

/// Counts a request until its answer has been sent or given up.
pub struct Running(Arc<Life>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.idle_since.store(coarse(), Relaxed);
        self.0.running.fetch_sub(1, Relaxed);
    }
}

/// An answer on its way out, and the request it belongs to.
pub struct Outgoing {
    body: Body,
    life: Arc<Life>,
    sets: Sets,
    /// It was asked for a piece and has not given it. What it waits for may be memory that others want: it must
    /// be asked on until it has given the piece.
    asked: bool,
    _running: Running,
}

impl Outgoing {
    /// The body of the answer to the request `running`.
    pub fn new(body: Body, running: Running, sets: Sets) -> Outgoing {
        Outgoing { body, life: running.0.clone(), sets, asked: false, _running: running }
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
        if !me.asked && me.life.unsent.load(Relaxed) > 0 && me.sets.is_crowded() {
            me.life.taken.register(cx.waker());
            // It is flushed by the task that polls this, so nothing can be missed.
            return Poll::Pending;
        }
        me.asked = true;
        let frame = std::task::ready!(Pin::new(&mut me.body).poll_frame(cx));
        me.asked = false;
        if let Some(Ok(frame)) = &frame
            && let Some(data) = frame.data_ref()
        {
            me.life.handed(data.len());
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

/// A socket whose traffic is watched.
pub struct Watched<S> {
    socket: S,
    scanner: HeadScanner,
    life: Arc<Life>,
    turns: Arc<Turns>,
    turn: Asked,
}

/// A turn to read a long head.
enum Asked {
    No,
    Waiting(BoxFuture<'static, Option<Turn>>),
    Has(#[allow(dead_code)] Turn), // held, not looked at
}

impl<S> Watched<S> {
    /// Watches `socket`; long heads take turns.
    pub fn new(socket: S, life: Arc<Life>, turns: Arc<Turns>) -> Watched<S> {
        let scanner = HeadScanner::new(life.watch.clone());
        Watched { socket, scanner, life, turns, turn: Asked::No }
    }

    /// Waits until more of a head may be read.
    fn poll_turn(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            match &mut self.turn {
                Asked::Has(_) => return Poll::Ready(Ok(())),
                Asked::No => {
                    let (turns, cut) = (self.turns.clone(), self.life.cut.clone());
                    self.turn = Asked::Waiting(Box::pin(async move { turns.take(cut).await }));
                }
                Asked::Waiting(turn) => match std::task::ready!(turn.as_mut().poll(cx)) {
                    Some(turn) => self.turn = Asked::Has(turn),
                    None => return Poll::Ready(Err(io::Error::other("too many long request heads at once"))),
                },
            }
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let me = &mut *self;
        let heading = me.life.running.load(Relaxed) == 0;
        if heading && me.life.head.load(Relaxed) >= FREE_HEAD {
            std::task::ready!(me.poll_turn(cx))?;
        } else if !heading && !matches!(me.turn, Asked::No) {
            me.turn = Asked::No;
        }
        let before = buf.filled().len();
        let result = Pin::new(&mut self.socket).poll_read(cx, buf);
        let new = &buf.filled()[before..];
        if !new.is_empty() {
            if heading {
                self.life.head.fetch_add(new.len(), Relaxed);
            }
            self.scanner.feed(new);
            self.life.read();
        }
        result
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.socket).poll_write(cx, buf);
        self.life.wrote(result.is_pending());
        result
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.socket).poll_write_vectored(cx, bufs);
        self.life.wrote(result.is_pending());
        result
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let result = Pin::new(&mut self.socket).poll_flush(cx);
        if result.is_ready() {
            self.life.flushed();
        }
        // TLS takes more than its socket does, and is stuck here.
        self.life.wrote(result.is_pending());
        result
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(cx)
    }
}
