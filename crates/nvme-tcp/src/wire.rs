//! The bytes of a connection: a socket.
//!
//! One thread receives and one sends at a time; both may do so at once. Reads of the socket return every [`TICK`], so that
//! a thread that waits for a host can look whether it is still needed.
//!
//! Invariant: a PDU, received or sent, has a time by which it has to be over, so a slow host cannot hold memory for ever.
//!
//! Must not depend on: the protocol above.

use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use ashlar_environment::time::Instant;

/// Time after which a read of a quiet socket returns.
pub(crate) const TICK: Duration = Duration::from_millis(500);
/// Bytes per second that a host takes or sends within a PDU, at least, after the time of [`Wire::new`].
const SLOWEST: u64 = 64 << 10;
/// Time that a host has to close its connection after it was told why (30 seconds for hosts: TCP 3.5).
const FAREWELL: Duration = Duration::from_secs(5);

/// A connected socket, or what stands for one in tests.
pub(crate) trait Socket: Send + Sync {
    /// Receives at least one byte; 0: the other end has sent everything. `WouldBlock` after [`TICK`].
    fn receive(&self, out: &mut [u8]) -> io::Result<usize>;
    /// Sends some.
    fn send(&self, slices: &[IoSlice<'_>]) -> io::Result<usize>;
    /// Ends one or both directions.
    fn shut(&self, how: Shutdown);
    /// The address that the host has connected to.
    fn local(&self) -> Option<SocketAddr>;
}

impl Socket for TcpStream {
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

    fn local(&self) -> Option<SocketAddr> {
        self.local_addr().ok()
    }
}

/// A connection to a host.
pub(crate) struct Wire {
    pub(crate) socket: Arc<dyn Socket>,
    /// Time for a PDU, beside that for its length.
    patience: Duration,
}

/// Whether it only says that there is nothing now.
pub(crate) fn is_tick(e: &io::Error) -> bool {
    matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

impl Wire {
    pub(crate) fn new(socket: Arc<dyn Socket>, patience: Duration) -> Wire {
        Wire { socket, patience }
    }

    /// Receives at least one byte; 0: there is no more. `WouldBlock` after [`TICK`].
    pub(crate) fn receive(&self, out: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.socket.receive(out) {
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                other => return other,
            }
        }
    }

    /// When a PDU of `len` bytes that begins now has to be over.
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
                return Err(io::Error::new(ErrorKind::TimedOut, "the other end is too slow within a PDU"));
            }
        }
        Ok(())
    }

    /// Sends everything.
    pub(crate) fn send(&self, mut slices: &mut [IoSlice<'_>]) -> io::Result<()> {
        let until = self.deadline(slices.iter().map(|s| s.len()).sum());
        while !slices.is_empty() {
            // IOV_MAX is 1024 on Linux.
            let n = slices.len().min(1024);
            match self.socket.send(&slices[..n]) {
                Ok(0) if slices.iter().all(|s| s.is_empty()) => return Ok(()),
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(sent) => IoSlice::advance_slices(&mut slices, sent),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if is_tick(&e) => {
                    if Instant::now() >= until {
                        return Err(io::Error::new(
                            ErrorKind::TimedOut,
                            "the other end does not take what it is sent",
                        ));
                    }
                }
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    /// Breaks the connection: nothing is received or sent any more.
    pub(crate) fn cut(&self) {
        self.socket.shut(Shutdown::Both);
    }

    /// Ends the connection. What was sent arrives: a socket that is closed with bytes that nobody read is reset, and takes
    /// with it what the host has not read.
    pub(crate) fn close(&self) {
        self.socket.shut(Shutdown::Write);
        let until = Instant::now() + FAREWELL;
        let mut nobody_reads = [0; 4096];
        while Instant::now() < until {
            match self.receive(&mut nobody_reads) {
                Ok(0) => break,
                Err(e) if !is_tick(&e) => break,
                _ => {}
            }
        }
        self.cut();
    }
}
