//! The beginning of a connection: TLS, then the hellos of both ends.
//!
//! Invariants: before the hello of an authenticated node of the cluster nothing but that hello is accepted.
//! Whoever does not authenticate gets no message. An authenticated node that cannot be served is told why.
//!
//! Must not depend on: requests.

use std::future::poll_fn;
use std::task::{Poll, ready};

use bytes::Bytes;
use rustls_pki_types::CertificateDer;
use tokio::net::TcpStream;
use webpki::KeyUsage;

use crate::error::{Error, Result};
use crate::frame::{Header, Kind};
use crate::hello::{Hello, Purpose};
use crate::inbound::{Inbound, Place, Receiver};
use crate::limits::{Security, Transport};
use crate::outbound::Outbound;
use crate::stream::Stream;
use crate::tls::Session;

/// Reasons in a goodbye.
pub(crate) const CLOSING: u16 = 1;
const INCOMPATIBLE: u16 = 2;
const UNAUTHORIZED: u16 = 3;

/// Bytes per read and write of a connection for large messages, and of others.
const BULK_SIZE: usize = 256 << 10;
const SMALL_SIZE: usize = 32 << 10;

/// A connection on which messages can be sent.
pub(crate) struct Open {
    pub(crate) stream: Stream,
    pub(crate) inbound: Inbound,
    /// The other end's hello.
    pub(crate) remote: Hello,
    pub(crate) version: u8,
    /// The certificate of the other end, unless there is no TLS.
    pub(crate) certificate: Option<CertificateDer<'static>>,
}

/// The client's side, with node `to`.
pub(crate) async fn dial(transport: &Transport, tcp: TcpStream, to: u16, purpose: Purpose) -> Result<Open> {
    let tls = match &transport.security {
        Security::Tls(credentials) => Some(Session::client(credentials.client(to)?)?),
        Security::Plain(..) => None,
    };
    let mut stream = Stream::new(tcp, tls);
    let mut inbound = Inbound::default();
    let early = stream.handshake().await?;
    let own = transport.hello(to, purpose, 0, 0);
    send(&mut stream, Header::new(Kind::Hello, 0), &own.encode()).await?;
    let (header, head) = one(&mut stream, &mut inbound, &early).await?;
    if header.kind == Kind::Goodbye {
        let said = String::from_utf8_lossy(&head).into_owned();
        return Err(match header.code {
            INCOMPATIBLE => Error::Incompatible(said),
            UNAUTHORIZED => Error::Unauthorized(said),
            _ => Error::unreachable(said),
        });
    }
    let remote = Hello::decode(&head)?;
    own.check_other(&remote, to)?;
    let version = own.common_version(&remote)?;
    own.check_levels(&remote)?;
    if remote.purpose != purpose || remote.requests == 0 {
        return Err(Error::malformed("unexpected answer to the hello"));
    }
    let certificate = stream.peer_certificate();
    stream.set_size(size(purpose));
    Ok(Open { stream, inbound, remote, version, certificate })
}

/// The server's side. Returns with the number of the node that dialled.
pub(crate) async fn accept(transport: &Transport, tcp: TcpStream) -> Result<(u16, Open)> {
    let tls = match &transport.security {
        Security::Tls(credentials) => Some(Session::server(credentials.server())?),
        Security::Plain(..) => None,
    };
    let mut stream = Stream::new(tcp, tls);
    let mut inbound = Inbound::default();
    let early = stream.handshake().await?;
    let certificate = stream.peer_certificate();
    let (header, head) = one(&mut stream, &mut inbound, &early).await?;
    if header.kind != Kind::Hello {
        return Err(Error::malformed("the first message is not a hello"));
    }
    let remote = Hello::decode(&head)?;
    let node = match (&transport.security, &certificate) {
        (Security::Plain(..), _) => remote.from,
        // Verified in the handshake, but perhaps withdrawn since.
        (Security::Tls(credentials), Some(certificate)) => {
            credentials.verify(certificate, KeyUsage::client_auth())?
        }
        (Security::Tls(_), None) => return Err(Error::Unauthorized("no certificate".into())),
    };
    let limits = &transport.limits;
    let window = match remote.purpose {
        Purpose::Small => limits.small_window,
        Purpose::Bulk => limits.bulk_window,
    };
    let own = transport.hello(node, remote.purpose, window, limits.requests);
    let agreed = own.check_other(&remote, node).and_then(|()| own.check_levels(&remote));
    let agreed = agreed.and_then(|()| own.common_version(&remote));
    let version = match agreed {
        Ok(version) => version,
        Err(why) => {
            let code = if matches!(why, Error::Incompatible(_)) { INCOMPATIBLE } else { UNAUTHORIZED };
            let said = why.to_string();
            let header = Header { code, ..Header::new(Kind::Goodbye, 0) };
            send(&mut stream, header, said.as_bytes()).await?;
            return Err(why);
        }
    };
    send(&mut stream, Header::new(Kind::Hello, 0), &own.encode()).await?;
    stream.set_size(size(remote.purpose));
    Ok((node, Open { stream, inbound, remote, version, certificate }))
}

fn size(purpose: Purpose) -> usize {
    match purpose {
        Purpose::Small => SMALL_SIZE,
        Purpose::Bulk => BULK_SIZE,
    }
}

async fn send(stream: &mut Stream, header: Header, head: &[u8]) -> Result<()> {
    let mut out = Outbound::default();
    out.push(header, head, Vec::new());
    poll_fn(|cx| stream.poll_send(cx, out.pieces(), &mut |_| ())).await
}

/// The first message of the other end: a hello or a goodbye.
struct First(Option<(Header, Bytes)>);

impl Receiver for First {
    fn version(&self) -> Option<u8> {
        None
    }
    fn place(&mut self, _: &Header) -> Result<Place> {
        Err(Error::malformed("a payload before the hello"))
    }
    fn message(&mut self, header: Header, head: Bytes, _: Option<Bytes>) -> Result<()> {
        match self.0.replace((header, head)) {
            None => Ok(()),
            Some(_) => Err(Error::malformed("two messages where one hello was expected")),
        }
    }
}

async fn one(stream: &mut Stream, inbound: &mut Inbound, early: &[u8]) -> Result<(Header, Bytes)> {
    let mut first = First(None);
    inbound.feed(early, &mut first)?;
    while first.0.is_none() {
        let open = poll_fn(|cx| {
            let mut fed = Ok(());
            let read = stream.poll_receive(cx, &mut |bytes| {
                if fed.is_ok() {
                    fed = inbound.feed(bytes, &mut first);
                }
            });
            let read = ready!(read);
            Poll::Ready(fed.and(read))
        })
        .await?;
        if !open {
            return Err(Error::unreachable("closed before the hello"));
        }
    }
    match first.0 {
        Some(message) if !inbound.is_partial() => Ok(message),
        _ => Err(Error::malformed("data follows the hello")),
    }
}
