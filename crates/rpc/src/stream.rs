//! A TCP connection with TLS on it: what the tasks of connections read from and write to.
//!
//! Invariants: what was taken from the list of bytes to send is sent in order. Received plaintext is handed
//! out before more is read. Memory for ciphertext exists only while there is traffic.
//!
//! Must not depend on: messages.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf as _, Bytes};
use rustls_pki_types::CertificateDer;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use crate::error::{Error, Result};
use crate::tls::{Outgoing, Session, Stopped};

/// Most pieces of one write.
const PIECES: usize = 64;

/// Most bytes that TLS may leave unused while it waits for more: a record, or a message of the handshake. The
/// sender says how long these are, and need not have authenticated.
const UNUSED: usize = 64 << 10;

/// A connection, with or without TLS.
pub(crate) struct Stream {
    tcp: TcpStream,
    tls: Option<Session>,
    /// Bytes of one read, and of the record that it ended in.
    incoming: Vec<u8>,
    start: usize,
    end: usize,
    outgoing: Outgoing,
    /// Most bytes of a read, and most plaintext that is encrypted ahead of writing.
    size: usize,
    used: bool,
}

impl Stream {
    pub(crate) fn new(tcp: TcpStream, tls: Option<Session>) -> Stream {
        let incoming = Vec::new();
        let outgoing = Outgoing::default();
        Stream { tcp, tls, incoming, start: 0, end: 0, outgoing, size: 32 << 10, used: true }
    }

    /// Sets the bytes per read and write.
    pub(crate) fn set_size(&mut self, size: usize) {
        self.size = size;
    }

    pub(crate) fn is_plain(&self) -> bool {
        self.tls.is_none()
    }

    /// The verified certificate of the other end.
    pub(crate) fn peer_certificate(&self) -> Option<CertificateDer<'static>> {
        self.tls.as_ref()?.peer_certificate()
    }

    /// Ends the handshake of TLS; data that follows it at once is kept.
    pub(crate) async fn handshake(&mut self) -> Result<Vec<u8>> {
        let mut early = Vec::new();
        while self.tls.as_ref().is_some_and(|tls| !tls.is_established()) {
            std::future::poll_fn(|cx| self.poll_handshake(cx, &mut early)).await?;
        }
        if self.tls.as_ref().is_some_and(|tls| !tls.has_protocol()) {
            return Err(Error::Unauthorized("the other end speaks another protocol".into()));
        }
        Ok(early)
    }

    fn poll_handshake(&mut self, cx: &mut Context<'_>, early: &mut Vec<u8>) -> Poll<Result<()>> {
        self.process(&mut |bytes| early.extend_from_slice(bytes))?;
        ready!(self.poll_write_outgoing(cx)).map_err(broken)?;
        if self.tls.as_ref().is_none_or(Session::is_established) {
            return Poll::Ready(Ok(()));
        }
        match ready!(self.poll_fill(cx)) {
            Ok(0) => Poll::Ready(Err(Error::unreachable("closed during the handshake"))),
            Ok(_) => Poll::Ready(Ok(())),
            Err(e) => Poll::Ready(Err(broken(e))),
        }
    }

    /// Reads once, and hands out the plaintext. False at the end of the data.
    pub(crate) fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        take: &mut dyn FnMut(&[u8]),
    ) -> Poll<Result<bool>> {
        if ready!(self.poll_fill(cx)).map_err(broken)? == 0 {
            return Poll::Ready(Ok(false));
        }
        Poll::Ready(self.process(take))
    }

    /// Without TLS: reads straight into `space`, which is not empty. Returns 0 at the end of the data.
    pub(crate) fn poll_receive_into(
        &mut self,
        cx: &mut Context<'_>,
        space: &mut [u8],
    ) -> Poll<Result<usize>> {
        let mut buf = ReadBuf::new(space);
        ready!(Pin::new(&mut self.tcp).poll_read(cx, &mut buf)).map_err(broken)?;
        self.used = true;
        Poll::Ready(Ok(buf.filled().len()))
    }

    /// Sends all of `pending`. `take` is for data that was received in the same bytes as something of TLS.
    pub(crate) fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        pending: &mut VecDeque<Bytes>,
        take: &mut dyn FnMut(&[u8]),
    ) -> Poll<Result<()>> {
        if self.tls.is_none() {
            return self.poll_send_plain(cx, pending);
        }
        loop {
            ready!(self.poll_write_outgoing(cx)).map_err(broken)?;
            if pending.is_empty() {
                return Poll::Ready(Ok(()));
            }
            self.encrypt(pending, take)?;
        }
    }

    /// Gives memory back that was not used since the last call.
    pub(crate) fn release(&mut self) {
        if !std::mem::take(&mut self.used) && self.start == self.end {
            self.incoming = Vec::new();
            self.outgoing.release();
        }
    }

    /// Tells the other end, if it can be done at once, why TLS failed.
    fn alert(&mut self) {
        if let Some(tls) = &mut self.tls {
            tls.alert(&mut self.incoming[self.start..self.end], &mut self.outgoing);
            // The connection is closed anyway.
            let _ = self.tcp.try_write(self.outgoing.unsent());
        }
    }

    fn poll_send_plain(&mut self, cx: &mut Context<'_>, pending: &mut VecDeque<Bytes>) -> Poll<Result<()>> {
        while !pending.is_empty() {
            let mut pieces = [IoSlice::new(&[]); PIECES];
            let mut count = 0;
            for (place, piece) in pieces.iter_mut().zip(pending.iter()) {
                *place = IoSlice::new(piece);
                count += 1;
            }
            let tcp = Pin::new(&mut self.tcp);
            let mut sent = ready!(tcp.poll_write_vectored(cx, &pieces[..count])).map_err(broken)?;
            if sent == 0 {
                return Poll::Ready(Err(broken(io::ErrorKind::WriteZero.into())));
            }
            while let Some(first) = pending.front_mut() {
                if sent < first.len() {
                    first.advance(sent);
                    break;
                }
                sent -= first.len();
                pending.pop_front();
            }
        }
        Poll::Ready(Ok(()))
    }

    fn poll_write_outgoing(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.outgoing.unsent().is_empty() {
            let sent = ready!(Pin::new(&mut self.tcp).poll_write(cx, self.outgoing.unsent()))?;
            if sent == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.outgoing.advance(sent);
        }
        Poll::Ready(Ok(()))
    }

    /// Encrypts up to `size` bytes of `pending`.
    fn encrypt(&mut self, pending: &mut VecDeque<Bytes>, take: &mut dyn FnMut(&[u8])) -> Result<()> {
        let Some(tls) = &mut self.tls else { return Ok(()) };
        self.used = true;
        let mut room = self.size;
        while room > 0
            && let Some(first) = pending.front_mut()
        {
            let plain = first.split_to(first.len().min(room));
            if first.is_empty() {
                pending.pop_front();
            }
            room -= plain.len();
            let incoming = &mut self.incoming[self.start..self.end];
            let (used, done) = tls.encrypt(&plain, incoming, &mut self.outgoing, take);
            self.start += used;
            done.map_err(refused)?;
        }
        Ok(())
    }

    /// Reads once into `incoming`.
    fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        } else if self.start > 0 {
            self.incoming.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        if self.end > UNUSED {
            return Poll::Ready(Err(io::Error::other("a message of the handshake is too long")));
        }
        let size = self.end + self.size;
        if self.incoming.len() < size {
            self.incoming.resize(size, 0);
        }
        let mut buf = ReadBuf::new(&mut self.incoming[self.end..]);
        ready!(Pin::new(&mut self.tcp).poll_read(cx, &mut buf))?;
        let read = buf.filled().len();
        self.end += read;
        self.used = true;
        Poll::Ready(Ok(read))
    }

    /// Hands out the plaintext of what was read. False if the other end sends no more.
    fn process(&mut self, take: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let incoming = &mut self.incoming[self.start..self.end];
        let Some(tls) = &mut self.tls else {
            take(incoming);
            self.start = self.end;
            return Ok(true);
        };
        let (used, stopped) = tls.advance(incoming, &mut self.outgoing, take);
        self.start += used;
        match stopped {
            Ok(stopped) => Ok(stopped == Stopped::WantsBytes),
            Err(e) => {
                // Whoever does not speak TLS gets no answer.
                if !matches!(e, rustls::Error::InvalidMessage(_)) {
                    self.alert();
                }
                Err(refused(e))
            }
        }
    }
}

/// The connection broke. What that means for a call depends on whether it was sent.
fn broken(e: io::Error) -> Error {
    Error::unreachable(e)
}

fn refused(e: rustls::Error) -> Error {
    use rustls::{AlertDescription as Alert, CertificateError, Error as Tls};
    match e {
        Tls::InvalidCertificate(CertificateError::Other(other)) => match other.0.downcast_ref::<Error>() {
            Some(own) => own.clone(),
            None => Error::Unauthorized(other.to_string()),
        },
        Tls::InvalidCertificate(_) | Tls::NoCertificatesPresented | Tls::PeerIncompatible(_) => {
            Error::Unauthorized(e.to_string())
        }
        Tls::AlertReceived(Alert::CloseNotify | Alert::InternalError | Alert::UserCanceled) => {
            Error::unreachable(e)
        }
        Tls::AlertReceived(_) => Error::Unauthorized(format!("the other end refuses this node: {e}")),
        Tls::NoApplicationProtocol => Error::Unauthorized("the other end speaks another protocol".into()),
        e => Error::Malformed(format!("TLS: {e}")),
    }
}
