//! One connection: its socket watched for silence, its requests handed on.
//!
//! Invariants: a request head must come within [`HEAD`], an idle connection lives for [`IDLE`], a
//! client that does not take its answer is cut off after [`STUCK`]; no request pays for a timer of
//! its own: the connection looks at itself every few seconds.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll};
use std::time::Duration;

use ashlar_s3::{HeadScanner, Watch};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::clock::coarse;

/// Seconds for a request head, from its first byte.
pub const HEAD: u64 = 10;
/// Seconds without any request.
pub const IDLE: u64 = 60;
/// Seconds in which the client takes nothing of an answer.
pub const STUCK: u64 = 60;
/// How often a connection looks at itself.
pub const LOOK: Duration = Duration::from_secs(3);

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
}

impl Life {
    /// A connection that was just accepted. Its first head counts from now.
    pub fn new() -> Arc<Life> {
        Arc::new(Life {
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
        Running(self.clone())
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
        if self.running.load(Relaxed) > 0 {
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

/// Counts a request while it lives.
pub struct Running(Arc<Life>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.idle_since.store(coarse(), Relaxed);
        self.0.running.fetch_sub(1, Relaxed);
    }
}

/// A socket whose traffic is watched.
pub struct Watched<S> {
    socket: S,
    scanner: HeadScanner,
    life: Arc<Life>,
}

impl<S> Watched<S> {
    /// Watches `socket`.
    pub fn new(socket: S, watch: Watch, life: Arc<Life>) -> Watched<S> {
        Watched { socket, scanner: HeadScanner::new(watch), life }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let result = Pin::new(&mut self.socket).poll_read(cx, buf);
        let new = &buf.filled()[before..];
        if !new.is_empty() {
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
        Pin::new(&mut self.socket).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(cx)
    }
}
