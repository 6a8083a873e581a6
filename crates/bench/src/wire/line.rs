//! One connection, plain or TLS, with one read buffer.
//!
//! Invariants: `begin..end` of the buffer are bytes received and not taken; a socket that made an
//! error is dropped, never used again.
//!
//! Must never know: HTTP.

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
    buffer: Box<[u8]>,
    begin: usize,
    end: usize,
    /// Requests answered on this connection.
    pub used: u64,
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
        Ok(Line { stream, buffer: vec![0; BUFFER].into_boxed_slice(), begin: 0, end: 0, used: 0 })
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

    /// What has been received and not taken.
    pub fn held(&self) -> &[u8] {
        &self.buffer[self.begin..self.end]
    }

    /// Marks bytes of [`Line::held`] as taken.
    pub fn take(&mut self, n: usize) {
        assert!(n <= self.end - self.begin, "only what was received can be taken");
        self.begin += n;
        if self.begin == self.end {
            (self.begin, self.end) = (0, 0);
        }
    }

    /// Receives more behind what is held; 0 means that the server closed.
    ///
    /// # Errors
    /// `InvalidData` if the buffer is full, else the socket's.
    pub fn receive(&mut self) -> io::Result<usize> {
        if self.end == self.buffer.len() {
            if self.begin == 0 {
                return Err(io::Error::new(ErrorKind::InvalidData, "the answer's head is too long"));
            }
            self.buffer.copy_within(self.begin..self.end, 0);
            (self.begin, self.end) = (0, self.end - self.begin);
        }
        let free = &mut self.buffer[self.end..];
        loop {
            let read = match &mut self.stream {
                Stream::Plain(socket) => socket.read(free),
                Stream::Tls(stream) => stream.read(free),
            };
            match read {
                Ok(n) => {
                    self.end += n;
                    return Ok(n);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}
