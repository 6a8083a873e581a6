//! A session of TLS without a socket: encrypted bytes are given to it and taken from it. Nothing here waits.
//!
//! The library (s2n-tls) asks a stream for bytes. That stream is a [`Pipe`] in memory, so that it never waits for a peer with a session in
//! hand, and the two directions of a connection need not wait for each other.
//!
//! Must not depend on: sockets.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;
use s2n_tls::connection::Connection;
use s2n_tls_tokio::TlsStream;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Encrypted bytes, in both directions.
#[derive(Default)]
struct Buffers {
    incoming: Vec<u8>,
    /// Bytes of `incoming` that were taken.
    taken: usize,
    outgoing: Vec<u8>,
}

/// The stream that the library sees. Its copies are the same stream.
#[derive(Clone, Default)]
pub(super) struct Pipe(Arc<Mutex<Buffers>>);

impl Pipe {
    /// Adds what the peer has sent.
    pub(super) fn feed(&self, bytes: &[u8]) {
        self.0.lock().incoming.extend_from_slice(bytes);
    }

    /// Moves what is to be sent to the end of `out`.
    pub(super) fn drain(&self, out: &mut Vec<u8>) {
        let outgoing = &mut self.0.lock().outgoing;
        if out.is_empty() {
            std::mem::swap(out, outgoing);
        } else {
            out.append(outgoing);
        }
    }
}

impl AsyncRead for Pipe {
    fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, out: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let mut buffers = self.0.lock();
        let left = &buffers.incoming[buffers.taken..];
        if left.is_empty() {
            return Poll::Pending;
        }
        let n = left.len().min(out.remaining());
        out.put_slice(&left[..n]);
        buffers.taken += n;
        if buffers.taken == buffers.incoming.len() {
            buffers.incoming.clear();
            buffers.taken = 0;
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Pipe {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.0.lock().outgoing.extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// What nobody waits with.
pub(super) fn context() -> Context<'static> {
    Context::from_waker(Waker::noop())
}

/// A session after its handshake.
pub(super) struct Session {
    stream: TlsStream<Pipe>,
    pipe: Pipe,
}

/// The end of a session, in words. Never an error that says to try again.
fn broken(error: &io::Error) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("TLS: {error}"))
}

impl Session {
    pub(super) fn new(stream: TlsStream<Pipe>, pipe: Pipe) -> Session {
        Session { stream, pipe }
    }

    pub(super) fn connection(&self) -> &Connection {
        self.stream.as_ref()
    }

    /// Adds what the peer has sent.
    pub(super) fn feed(&self, bytes: &[u8]) {
        self.pipe.feed(bytes);
    }

    /// Decrypts what is there, at least one byte; 0: the peer has sent everything. None: more is needed.
    ///
    /// # Errors
    /// The session is broken.
    pub(super) fn read(&mut self, out: &mut [u8]) -> io::Result<Option<usize>> {
        let mut read = ReadBuf::new(out);
        // A record at a time.
        while read.remaining() > 0 {
            let before = read.filled().len();
            match Pin::new(&mut self.stream).poll_read(&mut context(), &mut read) {
                Poll::Ready(Ok(())) if read.filled().len() > before => {}
                Poll::Ready(Ok(())) if before == 0 => return Ok(Some(0)),
                Poll::Ready(Err(e)) if before == 0 => return Err(broken(&e)),
                // What came before it is told first; the end is seen again.
                Poll::Ready(_) | Poll::Pending => break,
            }
        }
        let n = read.filled().len();
        Ok((n > 0).then_some(n))
    }

    /// Encrypts bytes, to the end of `out`.
    ///
    /// # Errors
    /// The session is broken.
    pub(super) fn write(&mut self, mut bytes: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
        while !bytes.is_empty() {
            match Pin::new(&mut self.stream).poll_write(&mut context(), bytes) {
                Poll::Ready(Ok(n)) if n > 0 => bytes = &bytes[n..],
                Poll::Ready(Err(e)) => return Err(broken(&e)),
                // The pipe takes everything.
                _ => return Err(broken(&io::ErrorKind::WriteZero.into())),
            }
        }
        self.pipe.drain(out);
        Ok(())
    }

    /// Tells the peer that nothing more is sent, at the end of `out`.
    pub(super) fn close(&mut self, out: &mut Vec<u8>) {
        // A session that is broken says so already, or nothing any more.
        let _ = Pin::new(&mut self.stream).poll_shutdown(&mut context());
        self.pipe.drain(out);
    }
}
