//! A socket whose bytes are encrypted: what [`crate::wire`] sees of a connection with TLS.
//!
//! The session is locked only while bytes in memory are encrypted or decrypted, never while the socket below is waited for: one thread may
//! wait for the peer while another one sends.
//!
//! Invariants: records leave in the order in which they were encrypted; what was encrypted is sent before it is said that it was taken; at
//! most [`PART`] bytes are encrypted ahead, and [`BUFFER`] received.
//!
//! Must not depend on: the protocol above, whose keys they are.

use std::io::{self, IoSlice};
use std::net::{Shutdown, SocketAddr};
use std::sync::Arc;

use parking_lot::Mutex;

use super::session::Session;
use crate::wire::Socket;

/// Bytes that are received at once.
const BUFFER: usize = 64 << 10;
/// Bytes that are encrypted together, at most: eight records.
const PART: usize = 128 << 10;

/// What is on its way out.
#[derive(Default)]
struct Outgoing {
    /// What is to be encrypted next.
    plain: Vec<u8>,
    /// What is encrypted.
    sealed: Vec<u8>,
    /// Bytes of `sealed` that were sent.
    sent: usize,
    /// The bytes that `sealed` stands for, of the call that was not finished.
    stands_for: usize,
}

impl Outgoing {
    /// Sends what is encrypted.
    ///
    /// # Errors
    /// `WouldBlock`, and then the rest is sent by the next call; others.
    fn flush(&mut self, socket: &dyn Socket) -> io::Result<()> {
        while self.sent < self.sealed.len() {
            match socket.send(&[IoSlice::new(&self.sealed[self.sent..])])? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                n => self.sent += n,
            }
        }
        self.sealed.clear();
        self.sent = 0;
        Ok(())
    }
}

/// A socket with TLS.
pub(super) struct TlsSocket {
    below: Arc<dyn Socket>,
    session: Mutex<Session>,
    /// What is received into. Whoever has it receives.
    incoming: Mutex<Box<[u8]>>,
    /// Whoever has it sends.
    outgoing: Mutex<Outgoing>,
}

impl TlsSocket {
    pub(super) fn new(below: Arc<dyn Socket>, session: Session) -> TlsSocket {
        TlsSocket {
            below,
            session: Mutex::new(session),
            incoming: Mutex::new(vec![0; BUFFER].into_boxed_slice()),
            outgoing: Mutex::default(),
        }
    }
}

impl Socket for TlsSocket {
    fn receive(&self, out: &mut [u8]) -> io::Result<usize> {
        let mut incoming = self.incoming.lock();
        loop {
            if let Some(n) = self.session.lock().read(out)? {
                return Ok(n);
            }
            match self.below.receive(&mut incoming)? {
                // Without a farewell: PDUs say themselves whether they are whole.
                0 => return Ok(0),
                n => self.session.lock().feed(&incoming[..n]),
            }
        }
    }

    fn send(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut outgoing = self.outgoing.lock();
        let outgoing = &mut *outgoing;
        if outgoing.stands_for == 0 {
            outgoing.plain.clear();
            for slice in slices {
                let room = PART - outgoing.plain.len();
                outgoing.plain.extend_from_slice(&slice[..slice.len().min(room)]);
            }
            self.session.lock().write(&outgoing.plain, &mut outgoing.sealed)?;
            outgoing.stands_for = outgoing.plain.len();
        }
        outgoing.flush(&*self.below)?;
        Ok(std::mem::take(&mut outgoing.stands_for))
    }

    fn shut(&self, how: Shutdown) {
        // Whoever is sending has something to say; a connection that breaks says nothing.
        if let (Shutdown::Write, Some(mut outgoing)) = (how, self.outgoing.try_lock()) {
            self.session.lock().close(&mut outgoing.sealed);
            // The peer sees the end of the connection in any case.
            let _ = outgoing.flush(&*self.below);
        }
        self.below.shut(how);
    }

    fn local(&self) -> Option<SocketAddr> {
        self.below.local()
    }
}
