//! One connection, plain or TLS, and the buffer that answers are read into.
//!
//! Invariants: `begin..end` of the buffer are received bytes that were not consumed; a socket with an error
//! is dropped, never reused. A worker has one buffer for all its connections, because it reads one answer at
//! a time. The thread that starts the workers allocates it, because an allocator with a heap per thread would
//! otherwise touch megabytes for each of them.
//!
//! Must not depend on: HTTP.

use std::{
    io::{self, ErrorKind, IoSlice, Read, Write},
    net::TcpStream,
    sync::Arc,
    time::Duration,
};

use rustls::{ClientConfig, ClientConnection, StreamOwned};
use rustls_pki_types::ServerName;

use super::Host;

/// Bytes one read takes at most; larger buffers leave the processor's second-level cache.
const BUFFER: usize = 128 << 10;

enum Stream {
    Plain(TcpStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

/// A connection to a host.
pub struct Line {
    stream: Stream,
}

/// What was received and not taken yet.
pub struct Buffer {
    bytes: Box<[u8]>,
    begin: usize,
    end: usize,
}

impl Line {
    /// Connects; `timeout` bounds connecting, the handshake and every later silence.
    ///
    /// # Errors
    /// That of the last address tried.
    pub fn connect(host: &Host, tls: Option<&Arc<ClientConfig>>, timeout: Duration) -> io::Result<Line> {
        let mut last = io::Error::new(ErrorKind::AddrNotAvailable, "no address");
        for address in &host.addresses {
            match TcpStream::connect_timeout(address, timeout) {
                Ok(socket) => return Line::over(socket, host, tls, timeout),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    fn over(
        socket: TcpStream,
        host: &Host,
        tls: Option<&Arc<ClientConfig>>,
        timeout: Duration,
    ) -> io::Result<Line> {
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(timeout))?;
        socket.set_write_timeout(Some(timeout))?;
        let stream = if host.tls {
            let config = tls.ok_or_else(|| io::Error::other("TLS is not set up"))?.clone();
            let name = ServerName::try_from(host.name.clone()).map_err(io::Error::other)?;
            let mut session = ClientConnection::new(config, name).map_err(io::Error::other)?;
            let mut socket = socket;
            while session.is_handshaking() {
                session.complete_io(&mut socket)?;
            }
            Stream::Tls(Box::new(StreamOwned::new(session, socket)))
        } else {
            Stream::Plain(socket)
        };
        Ok(Line { stream })
    }

    /// Sends both pieces, in one system call where it takes them.
    pub fn send(&mut self, first: &[u8], second: &[u8]) -> io::Result<()> {
        match &mut self.stream {
            Stream::Plain(socket) => {
                let (mut a, mut b) = (first, second);
                while !a.is_empty() || !b.is_empty() {
                    let sent = if b.is_empty() {
                        socket.write(a)
                    } else {
                        socket.write_vectored(&[IoSlice::new(a), IoSlice::new(b)])
                    };
                    match sent {
                        Ok(0) => return Err(ErrorKind::WriteZero.into()),
                        Ok(n) => {
                            let of_a = n.min(a.len());
                            a = &a[of_a..];
                            b = &b[n - of_a..];
                        }
                        Err(error) if error.kind() == ErrorKind::Interrupted => {}
                        Err(error) => return Err(error),
                    }
                }
                Ok(())
            }
            Stream::Tls(stream) => {
                stream.write_all(first)?;
                stream.write_all(second)?;
                stream.flush()
            }
        }
    }

    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            let read = match &mut self.stream {
                Stream::Plain(socket) => socket.read(into),
                Stream::Tls(stream) => stream.read(into),
            };
            match read {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                other => return other,
            }
        }
    }
}

impl Buffer {
    /// An empty one.
    pub fn new() -> Buffer {
        Buffer { bytes: vec![0; BUFFER].into_boxed_slice(), begin: 0, end: 0 }
    }

    /// Forgets what is held, before an answer of another connection is read.
    pub fn clear(&mut self) {
        (self.begin, self.end) = (0, 0);
    }

    /// What has been received and not taken.
    pub fn held(&self) -> &[u8] {
        &self.bytes[self.begin..self.end]
    }

    /// Marks bytes of [`Buffer::held`] as taken.
    pub fn take(&mut self, n: usize) {
        assert!(n <= self.end - self.begin, "only what was received can be taken");
        self.begin += n;
        if self.begin == self.end {
            self.clear();
        }
    }

    /// Receives more behind what is held; 0 means that the server closed.
    ///
    /// # Errors
    /// `InvalidData` if the buffer is full, else the socket's.
    pub fn receive(&mut self, line: &mut Line) -> io::Result<usize> {
        if self.end == self.bytes.len() {
            if self.begin == 0 {
                return Err(io::Error::new(ErrorKind::InvalidData, "the answer's head is too long"));
            }
            self.bytes.copy_within(self.begin..self.end, 0);
            (self.begin, self.end) = (0, self.end - self.begin);
        }
        let n = line.read(&mut self.bytes[self.end..])?;
        self.end += n;
        Ok(n)
    }
}

impl Default for Buffer {
    fn default() -> Self {
        Buffer::new()
    }
}
