//! One TLS session over buffers that it does not own: records in, plaintext out, and back.
//!
//! rustls's interface for unbuffered connections is used instead of its stream: a stream reads at most 4 KiB
//! per system call and copies the plaintext once more (docs/decisions/0025-transport-between-nodes.md).
//!
//! Invariants: plaintext is handed out in order and completely; ciphertext is appended to `outgoing` in the
//! order in which it must be sent. After an error the session is not used for data again.
//!
//! Must not depend on: sockets, messages.

use std::sync::Arc;

use rustls::client::UnbufferedClientConnection;
use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::{ConnectionState, EncodeError, EncryptError, UnbufferedStatus};
use rustls::{ClientConfig, CommonState, ServerConfig};
use rustls_pki_types::{CertificateDer, ServerName};

use crate::error::{Error, Result};

/// Most plaintext of a record.
pub(crate) const RECORD: usize = 16 << 10;
/// More than a record adds to its plaintext.
const OVERHEAD: usize = 64;

/// A TLS session.
pub(crate) enum Session {
    Client(Box<UnbufferedClientConnection>),
    Server(Box<UnbufferedServerConnection>),
}

/// Where a call of [`Session::advance`] stopped.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Stopped {
    /// Nothing is left to do with these bytes: more must be read.
    WantsBytes,
    /// The other end sends no more data.
    Closed,
}

impl Session {
    pub(crate) fn client(config: Arc<ClientConfig>) -> Result<Session> {
        // Certificates name nodes, not hosts, and no name is sent; rustls requires one.
        let name = ServerName::try_from("node.invalid").map_err(|e| Error::identity("TLS", e))?;
        let session = UnbufferedClientConnection::new(config, name).map_err(|e| Error::identity("TLS", e))?;
        Ok(Session::Client(Box::new(session)))
    }

    pub(crate) fn server(config: Arc<ServerConfig>) -> Result<Session> {
        let session = UnbufferedServerConnection::new(config).map_err(|e| Error::identity("TLS", e))?;
        Ok(Session::Server(Box::new(session)))
    }

    fn common(&self) -> &CommonState {
        match self {
            Session::Client(session) => session,
            Session::Server(session) => session,
        }
    }

    /// Whether data can be sent and received.
    pub(crate) fn is_established(&self) -> bool {
        !self.common().is_handshaking()
    }

    /// The certificate of the other end, which was verified in the handshake.
    pub(crate) fn peer_certificate(&self) -> Option<CertificateDer<'static>> {
        self.common().peer_certificates()?.first().map(|c| c.clone().into_owned())
    }

    /// Whether both ends named the protocol.
    pub(crate) fn has_protocol(&self) -> bool {
        self.common().alpn_protocol().is_some()
    }

    /// Takes complete records from the front of `incoming`, gives their plaintext to `take`, and appends what
    /// must be sent to `outgoing`. Returns how many bytes of `incoming` are used up, also after an error.
    pub(crate) fn advance(
        &mut self,
        incoming: &mut [u8],
        outgoing: &mut Outgoing,
        take: &mut dyn FnMut(&[u8]),
    ) -> (usize, Result<Stopped, rustls::Error>) {
        let mut used = 0;
        loop {
            let rest = incoming.get_mut(used..).unwrap_or_default();
            let (discard, next) = match self {
                Session::Client(session) => step(session.process_tls_records(rest), outgoing, take),
                Session::Server(session) => step(session.process_tls_records(rest), outgoing, take),
            };
            used += discard;
            match next {
                Ok(None) => {}
                Ok(Some(stopped)) => return (used, Ok(stopped)),
                Err(e) => return (used, Err(e)),
            }
        }
    }

    /// Appends the records of some plaintext to `outgoing`. `incoming` are the bytes received but not used up
    /// so far, as for [`Session::advance`].
    pub(crate) fn encrypt(
        &mut self,
        plain: &[u8],
        incoming: &mut [u8],
        outgoing: &mut Outgoing,
        take: &mut dyn FnMut(&[u8]),
    ) -> (usize, Result<(), rustls::Error>) {
        let mut used = 0;
        loop {
            let rest = incoming.get_mut(used..).unwrap_or_default();
            let (discard, done) = match self {
                Session::Client(session) => write(session.process_tls_records(rest), plain, outgoing, take),
                Session::Server(session) => write(session.process_tls_records(rest), plain, outgoing, take),
            };
            used += discard;
            match done {
                Ok(false) => {}
                Ok(true) => return (used, Ok(())),
                Err(e) => return (used, Err(e)),
            }
        }
    }

    /// Appends the alert that tells the other end why the session failed, if there is one. `incoming` are the
    /// bytes that are not used up: rustls remembers where in them a message of the handshake begins.
    pub(crate) fn alert(&mut self, incoming: &mut [u8], outgoing: &mut Outgoing) {
        let mut used = 0;
        // After an error rustls gives the alert, and then the error again.
        for _ in 0..4 {
            let rest = incoming.get_mut(used..).unwrap_or_default();
            let (discard, next) = match self {
                Session::Client(session) => step(session.process_tls_records(rest), outgoing, &mut |_| ()),
                Session::Server(session) => step(session.process_tls_records(rest), outgoing, &mut |_| ()),
            };
            used += discard;
            if !matches!(next, Ok(None)) {
                return;
            }
        }
    }
}

/// Ciphertext to send. The memory behind its end stays initialized, so that it is not cleared each time.
#[derive(Default)]
pub(crate) struct Outgoing {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
}

impl Outgoing {
    /// What is not sent yet.
    pub(crate) fn unsent(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    /// Notes that bytes were sent.
    pub(crate) fn advance(&mut self, by: usize) {
        self.start += by;
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
    }

    /// Gives the memory back if nothing is unsent.
    pub(crate) fn release(&mut self) {
        if self.start == self.end {
            *self = Outgoing::default();
        }
    }

    /// Memory behind the end; [`Outgoing::append`] adds it.
    fn space(&mut self, len: usize) -> &mut [u8] {
        let until = self.end + len;
        if self.bytes.len() < until {
            self.bytes.resize(until, 0);
        }
        &mut self.bytes[self.end..until]
    }

    fn append(&mut self, len: usize) {
        self.end += len;
    }
}

/// Carries out one state. None: another call is needed.
fn step<D>(
    status: UnbufferedStatus<'_, '_, D>,
    outgoing: &mut Outgoing,
    take: &mut dyn FnMut(&[u8]),
) -> (usize, Result<Option<Stopped>, rustls::Error>) {
    let mut discard = status.discard;
    let state = match status.state {
        Ok(state) => state,
        Err(e) => return (discard, Err(e)),
    };
    let next = match state {
        ConnectionState::ReadTraffic(mut traffic) => {
            while let Some(record) = traffic.next_record() {
                match record {
                    Ok(record) => {
                        discard += record.discard;
                        take(record.payload);
                    }
                    Err(e) => return (discard, Err(e)),
                }
            }
            Ok(None)
        }
        ConnectionState::EncodeTlsData(mut data) => match data.encode(&mut []) {
            Ok(_) | Err(EncodeError::AlreadyEncoded) => Ok(None),
            Err(EncodeError::InsufficientSize(size)) => {
                match data.encode(outgoing.space(size.required_size)) {
                    Ok(len) => {
                        outgoing.append(len);
                        Ok(None)
                    }
                    Err(_) => Err(rustls::Error::General("a handshake message changed its length".into())),
                }
            }
        },
        // `outgoing` is sent in order, so that what follows is sent later.
        ConnectionState::TransmitTlsData(data) => {
            data.done();
            Ok(None)
        }
        ConnectionState::BlockedHandshake | ConnectionState::WriteTraffic(_) => Ok(Some(Stopped::WantsBytes)),
        ConnectionState::PeerClosed | ConnectionState::Closed => Ok(Some(Stopped::Closed)),
        _ => Err(rustls::Error::General("early data, which was not offered".into())),
    };
    (discard, next)
}

/// Encrypts when the state allows it. False: another call is needed.
fn write<D>(
    status: UnbufferedStatus<'_, '_, D>,
    plain: &[u8],
    outgoing: &mut Outgoing,
    take: &mut dyn FnMut(&[u8]),
) -> (usize, Result<bool, rustls::Error>) {
    if let UnbufferedStatus { discard, state: Ok(ConnectionState::WriteTraffic(mut traffic)), .. } = status {
        let room = plain.len() + plain.len().div_ceil(RECORD) * OVERHEAD;
        // A key update, which rustls adds by itself, may come before the records.
        let mut result = traffic.encrypt(plain, outgoing.space(room));
        if let Err(EncryptError::InsufficientSize(size)) = &result {
            result = traffic.encrypt(plain, outgoing.space(size.required_size));
        }
        let done = match result {
            Ok(len) => {
                outgoing.append(len);
                Ok(true)
            }
            Err(e) => Err(rustls::Error::General(e.to_string())),
        };
        return (discard, done);
    }
    let (discard, next) = step(status, outgoing, take);
    let next = match next {
        Ok(None) => Ok(false),
        Ok(Some(_)) => Err(rustls::Error::General("the session takes no data".into())),
        Err(e) => Err(e),
    };
    (discard, next)
}
