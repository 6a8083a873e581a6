//! The bytes of a connection: a socket, and TLS over it.
//!
//! One thread receives and one sends at a time; both may do so at once. Reads of the socket return every [`TICK`], so that
//! a thread that waits for a client can look whether it is still needed.
//!
//! Invariants: nothing that was received before TLS began is taken for something that was received over TLS: until then
//! only what is asked for is read from the socket. A message, received or sent, has a time by which it has to be over, so
//! a slow client cannot hold memory for ever.
//!
//! Must not depend on: the protocol above.

use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use ashlar_environment::time::Instant;
use parking_lot::Mutex;
use rustls::{ServerConfig, ServerConnection};

/// Time after which a read of a quiet socket returns.
pub(crate) const TICK: Duration = Duration::from_secs(2);
/// Bytes per second that a client takes or sends within a message, at least, after the time of [`Wire::new`].
const SLOWEST: u64 = 64 << 10;
/// Bytes that are read from a socket at once, under TLS.
const RAW: usize = 16 << 10;
/// Bytes that are encrypted at once.
const PIECE: usize = 32 << 10;

/// A connected socket, or what stands for one in tests.
pub(crate) trait Socket: Send + Sync {
    /// Receives at least one byte; 0: the other end has sent everything. `WouldBlock` after [`TICK`].
    fn receive(&self, out: &mut [u8]) -> io::Result<usize>;
    /// Sends some.
    fn send(&self, slices: &[IoSlice<'_>]) -> io::Result<usize>;
    /// Ends one or both directions.
    fn shut(&self, how: Shutdown);
}

macro_rules! socket {
    ($kind:ty) => {
        impl Socket for $kind {
            fn receive(&self, out: &mut [u8]) -> io::Result<usize> {
                (&*self).read(out)
            }

            fn send(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
                (&*self).write_vectored(slices)
            }

            fn shut(&self, how: Shutdown) {
                // It may be closed already.
                let _ = self.shutdown(how);
            }
        }
    };
}

socket!(TcpStream);
socket!(UnixStream);

struct Tls {
    connection: Mutex<ServerConnection>,
    /// Bytes from the socket that TLS has not read yet.
    raw: Mutex<(Vec<u8>, usize)>,
}

/// A connection to a client.
pub(crate) struct Wire {
    socket: Arc<dyn Socket>,
    tls: Option<Tls>,
    /// Time for a message, beside that for its length.
    patience: Duration,
}

fn is_tick(e: &io::Error) -> bool {
    matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

impl Wire {
    pub(crate) fn new(socket: Arc<dyn Socket>, patience: Duration) -> Wire {
        Wire { socket, tls: None, patience }
    }

    pub(crate) fn is_encrypted(&self) -> bool {
        self.tls.is_some()
    }

    /// Receives at least one byte; 0: there is no more. `WouldBlock` after [`TICK`].
    pub(crate) fn receive(&self, out: &mut [u8]) -> io::Result<usize> {
        match &self.tls {
            None => self.receive_raw(out),
            Some(tls) => self.receive_tls(tls, out),
        }
    }

    fn receive_raw(&self, out: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.socket.receive(out) {
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                other => return other,
            }
        }
    }

    fn receive_tls(&self, tls: &Tls, out: &mut [u8]) -> io::Result<usize> {
        let mut raw = tls.raw.lock();
        let (bytes, at) = &mut *raw;
        loop {
            {
                let mut connection = tls.connection.lock();
                match connection.reader().read(out) {
                    Err(e) if e.kind() == ErrorKind::WouldBlock => {}
                    other => return other,
                }
                if *at < bytes.len() {
                    let mut rest = &bytes[*at..];
                    connection.read_tls(&mut rest)?;
                    *at = bytes.len() - rest.len();
                    connection.process_new_packets().map_err(io::Error::other)?;
                    continue;
                }
            }
            bytes.resize(RAW, 0);
            let n = self.receive_raw(bytes).inspect_err(|_| *at = RAW)?;
            bytes.truncate(n);
            *at = 0;
            if n == 0 {
                // Without a farewell: what was received is whole all the same, as the protocol has lengths.
                return Ok(0);
            }
        }
    }

    /// When a message of `len` bytes that begins now has to be over.
    pub(crate) fn deadline(&self, len: usize) -> Instant {
        Instant::now() + self.patience + Duration::from_secs(len as u64 / SLOWEST)
    }

    /// Fills `out`, until a time.
    pub(crate) fn receive_all(&self, out: &mut [u8], until: Instant) -> io::Result<()> {
        let mut done = 0;
        while done < out.len() {
            match self.receive(&mut out[done..]) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(n) => done += n,
                Err(e) if is_tick(&e) => {}
                Err(e) => return Err(e),
            }
            if done < out.len() && Instant::now() >= until {
                return Err(io::Error::new(ErrorKind::TimedOut, "the client is too slow within a message"));
            }
        }
        Ok(())
    }

    /// Sends everything.
    pub(crate) fn send(&self, slices: &mut [IoSlice<'_>]) -> io::Result<()> {
        let Some(tls) = &self.tls else { return self.send_raw(slices) };
        for slice in slices.iter() {
            for piece in slice.chunks(PIECE) {
                let sealed = {
                    let mut connection = tls.connection.lock();
                    connection.writer().write_all(piece)?;
                    taken(&mut connection)?
                };
                self.send_raw(&mut [IoSlice::new(&sealed)])?;
            }
        }
        Ok(())
    }

    fn send_raw(&self, mut slices: &mut [IoSlice<'_>]) -> io::Result<()> {
        let until = self.deadline(slices.iter().map(|s| s.len()).sum());
        while !slices.is_empty() {
            // IOV_MAX is 1024 on Linux.
            let n = slices.len().min(1024);
            match self.socket.send(&slices[..n]) {
                Ok(0) if slices[..n].iter().all(|s| s.is_empty()) => return Ok(()),
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(sent) => IoSlice::advance_slices(&mut slices, sent),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if is_tick(&e) => {
                    if Instant::now() >= until {
                        return Err(io::Error::new(
                            ErrorKind::TimedOut,
                            "the client does not take its replies",
                        ));
                    }
                }
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    /// Begins TLS; the client speaks first.
    pub(crate) fn start_tls(&mut self, config: &Arc<ServerConfig>, until: Instant) -> io::Result<()> {
        let mut connection = ServerConnection::new(config.clone()).map_err(io::Error::other)?;
        while connection.is_handshaking() {
            let out = taken(&mut connection)?;
            if !out.is_empty() {
                self.send_raw(&mut [IoSlice::new(&out)])?;
                continue;
            }
            if Instant::now() >= until {
                return Err(io::Error::new(ErrorKind::TimedOut, "TLS was not agreed on in time"));
            }
            let mut raw = [0; 4096];
            let n = match self.receive_raw(&mut raw) {
                Err(e) if is_tick(&e) => continue,
                other => other?,
            };
            if n == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            let mut rest = &raw[..n];
            while !rest.is_empty() {
                connection.read_tls(&mut rest)?;
                if let Err(e) = connection.process_new_packets() {
                    // The alert tells the client why.
                    let alert = taken(&mut connection)?;
                    let _ = self.send_raw(&mut [IoSlice::new(&alert)]);
                    return Err(io::Error::other(e));
                }
            }
        }
        let out = taken(&mut connection)?;
        self.send_raw(&mut [IoSlice::new(&out)])?;
        self.tls = Some(Tls { connection: Mutex::new(connection), raw: Mutex::new((Vec::new(), 0)) });
        Ok(())
    }

    /// Breaks the connection: nothing is received or sent any more.
    pub(crate) fn cut(&self) {
        self.socket.shut(Shutdown::Both);
    }

    /// Ends the connection. What was sent arrives.
    pub(crate) fn close(&self) {
        if let Some(tls) = &self.tls {
            let farewell = {
                let mut connection = tls.connection.lock();
                connection.send_close_notify();
                taken(&mut connection)
            };
            if let Ok(farewell) = farewell {
                let _ = self.send_raw(&mut [IoSlice::new(&farewell)]);
            }
        }
        self.cut();
    }
}

/// What TLS has to send.
fn taken(connection: &mut ServerConnection) -> io::Result<Vec<u8>> {
    let mut out = Vec::new();
    while connection.wants_write() {
        connection.write_tls(&mut out)?;
    }
    Ok(out)
}
