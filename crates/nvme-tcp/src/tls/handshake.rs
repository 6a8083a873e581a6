//! The begin of a session: at the target, which finds the key of the host, and at the host.
//!
//! Invariants: a handshake is over by its time, however slowly its bytes arrive; a session is one of TLS 1.3 with a pre-shared key, else it is
//! refused; the library checks the key, which this only chooses.
//!
//! Must not depend on: where keys are kept.

use std::future::Future;
use std::io::{self, ErrorKind, IoSlice};
use std::pin::{Pin, pin};
use std::sync::{Arc, LazyLock};
use std::task::Poll;

use ashlar_environment::time::Instant;
use parking_lot::Mutex;
use s2n_tls::callbacks::{ClientHelloCallback, ConnectionFuture};
use s2n_tls::config::Config;
use s2n_tls::connection::{Connection, ModifiedBuilder};
use s2n_tls::enums::{PskHmac, Version};
use s2n_tls::error::{Error as Cause, ErrorType};
use s2n_tls::security::Policy;
use s2n_tls_tokio::{TlsAcceptor, TlsConnector, TlsStream};

use super::hello::Hello;
use super::key::TlsKey;
use super::psk::{Derivation, Identity, Psk};
use super::session::{Pipe, Session, context};
use super::socket::TlsSocket;
use crate::auth::hash::Hash;
use crate::error::Error;
use crate::wire::{Socket, is_tick};

/// TLS 1.3 and nothing older; AES-128-GCM, AES-256-GCM and ChaCha20-Poly1305; X25519 and the curves of NIST. Its name stays, whatever later
/// releases of the library add.
const POLICY: &str = "AWS-CRT-SDK-TLSv1.3-2023";
/// Bytes that are received at once.
const BUFFER: usize = 4 << 10;

/// Who is at the other end, by the name of its key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Peer {
    /// The name of the host.
    pub(crate) host: String,
    /// The name of the subsystem that the connection is for.
    pub(crate) subsystem: String,
}

/// What a target knows of a host and a subsystem: the key, or why there is none, in words.
pub(crate) type Known = dyn Fn(&Identity<'_>) -> Result<TlsKey, String> + Send + Sync;

/// What a handshake of a target needs, and what it has found.
struct Choice {
    known: Box<Known>,
    /// The peer; or why there is none.
    found: Mutex<Result<Peer, String>>,
}

impl Choice {
    /// The peer and its key.
    fn choose(&self, body: &[u8]) -> Result<(Peer, Psk), String> {
        let hello = Hello::decode(body).ok_or("its pre-shared keys are malformed")?;
        let mut why = "it offers no pre-shared key".to_owned();
        for offer in &hello.offers {
            let Some(identity) = Identity::decode(&offer.identity) else {
                "the name of its key is not that of a retained key of NVMe/TCP".clone_into(&mut why);
                continue;
            };
            let key = match (self.known)(&identity) {
                Ok(key) => key,
                Err(reason) => {
                    why = reason;
                    continue;
                }
            };
            let (host, subsystem) = (identity.host, identity.subsystem);
            why = format!("its key is not the one that {host:?} has here");
            for derivation in Derivation::ALL {
                let psk = Psk::new(&key, host, subsystem, identity.version, derivation);
                let named = psk.filter(|psk| psk.identity.as_bytes() == offer.identity);
                let named = named.map(|psk| psk.proved_by(offer.binder.len()));
                if let Some(psk) = named.filter(|psk| hello.proves(offer, psk)) {
                    return Ok((Peer { host: host.to_owned(), subsystem: subsystem.to_owned() }, psk));
                }
            }
        }
        Err(why)
    }
}

/// Called with the `ClientHello`, before the library looks for a key.
struct Chooser;

impl ClientHelloCallback for Chooser {
    fn on_client_hello(
        &self,
        connection: &mut Connection,
    ) -> Result<Option<Pin<Box<dyn ConnectionFuture>>>, Cause> {
        let choice = connection.application_context::<Arc<Choice>>().cloned();
        let choice = choice.ok_or_else(|| Cause::application("there are no keys".into()))?;
        let hello = connection.client_hello()?;
        // The library hands the random value out apart from the message.
        let (mut body, random) = (hello.raw_message()?, hello.random()?);
        if let Some(place) = body.get_mut(2..34) {
            place.copy_from_slice(&random);
        }
        match choice.choose(&body) {
            Ok((peer, psk)) => {
                connection.append_psk(&of_library(&psk)?)?;
                *choice.found.lock() = Ok(peer);
                Ok(None)
            }
            Err(why) => {
                *choice.found.lock() = Err(why.clone());
                Err(Cause::application(why.into()))
            }
        }
    }
}

fn of_library(psk: &Psk) -> Result<s2n_tls::psk::Psk, Cause> {
    let mut made = s2n_tls::psk::Psk::builder()?;
    made.set_identity(psk.identity.as_bytes())?;
    made.set_secret(&psk.secret)?;
    made.set_hmac(if psk.hash == Hash::Sha384 { PskHmac::SHA384 } else { PskHmac::SHA256 })?;
    made.build()
}

/// How both ends speak. There are no certificates: without a key that both have, a handshake fails.
static CONFIG: LazyLock<Result<Config, String>> = LazyLock::new(|| configure().map_err(|e| e.to_string()));

fn configure() -> Result<Config, Cause> {
    let mut made = Config::builder();
    made.with_system_certs(false)?;
    made.set_security_policy(&Policy::from_version(POLICY)?)?;
    // The delay after an error protects block ciphers of older versions.
    made.set_max_blinding_delay(0)?;
    made.set_client_hello_callback(Chooser)?;
    made.build()
}

/// Why there is no session.
enum Failed {
    /// The connection broke, or was too slow.
    Socket(io::Error),
    /// The two ends did not agree.
    Tls(Cause),
    /// This end cannot begin.
    Here(String),
}

impl From<Cause> for Failed {
    fn from(cause: Cause) -> Failed {
        Failed::Tls(cause)
    }
}

fn config() -> Result<Config, Failed> {
    CONFIG.clone().map_err(Failed::Here)
}

/// Sends everything, until a time.
fn send_all(socket: &dyn Socket, mut bytes: &[u8], until: Instant) -> io::Result<()> {
    while !bytes.is_empty() {
        match socket.send(&[IoSlice::new(bytes)]) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(n) => bytes = &bytes[n..],
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) if is_tick(&e) && Instant::now() < until => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

/// Carries bytes between the socket and the pipe until the handshake is over.
fn carry(
    socket: &dyn Socket,
    pipe: &Pipe,
    handshake: impl Future<Output = Result<TlsStream<Pipe>, Cause>>,
    until: Instant,
) -> Result<TlsStream<Pipe>, Failed> {
    let mut handshake = pin!(handshake);
    let (mut incoming, mut outgoing) = ([0; BUFFER], Vec::new());
    loop {
        let polled = handshake.as_mut().poll(&mut context());
        pipe.drain(&mut outgoing);
        let sent = send_all(socket, &outgoing, until);
        outgoing.clear();
        match polled {
            Poll::Ready(Ok(stream)) => return sent.map(|()| stream).map_err(Failed::Socket),
            // The peer may have gone before it was told.
            Poll::Ready(Err(cause)) => return Err(Failed::Tls(cause)),
            Poll::Pending => sent.map_err(Failed::Socket)?,
        }
        if Instant::now() >= until {
            return Err(Failed::Socket(io::Error::new(ErrorKind::TimedOut, "the handshake took too long")));
        }
        match socket.receive(&mut incoming) {
            Ok(0) => return Err(Failed::Socket(ErrorKind::UnexpectedEof.into())),
            Ok(n) => pipe.feed(&incoming[..n]),
            Err(e) if is_tick(&e) || e.kind() == ErrorKind::Interrupted => {}
            Err(e) => return Err(Failed::Socket(e)),
        }
    }
}

/// What was agreed on has to be what this is for.
fn check(connection: &Connection) -> Result<(), Failed> {
    let version = connection.actual_protocol_version()?;
    if version != Version::TLS13 || connection.negotiated_psk_identity_length()? == 0 {
        return Err(Failed::Here("the session is not one of TLS 1.3 with a pre-shared key".to_owned()));
    }
    Ok(())
}

fn describe(cause: &Cause) -> String {
    if cause.kind() == ErrorType::Alert {
        return "the other end broke the handshake off".to_owned();
    }
    cause.message().to_owned()
}

/// Begins a session as a target, with a host that has sent the first byte of a `ClientHello`, until a time.
///
/// # Errors
/// Why there is none, in words.
pub(crate) fn accept(
    socket: &Arc<dyn Socket>,
    known: Box<Known>,
    until: Instant,
) -> Result<(Arc<dyn Socket>, Peer), String> {
    let nobody = Err("it did not finish its ClientHello".to_owned());
    let choice = Arc::new(Choice { known, found: Mutex::new(nobody) });
    let pipe = Pipe::default();
    let begin = || -> Result<Session, Failed> {
        let mine = choice.clone();
        let builder = ModifiedBuilder::new(config()?, move |connection: &mut Connection| {
            connection.set_application_context(mine.clone());
            connection.prefer_throughput()
        });
        let stream = carry(&**socket, &pipe, TlsAcceptor::new(builder).accept(pipe.clone()), until)?;
        let session = Session::new(stream, pipe.clone());
        check(session.connection())?;
        Ok(session)
    };
    let made = begin();
    match (made, choice.found.lock().clone()) {
        (Ok(session), Ok(peer)) => Ok((Arc::new(TlsSocket::new(socket.clone(), session)), peer)),
        (Err(Failed::Socket(e)), Ok(_)) => Err(e.to_string()),
        (Err(Failed::Socket(e)), Err(_)) => Err(format!("it did not finish its ClientHello: {e}")),
        (Err(Failed::Tls(cause)), Ok(_)) => Err(describe(&cause)),
        (Err(Failed::Here(why)), _) | (_, Err(why)) => Err(why),
    }
}

/// Begins a session as a host, with the keys that a target may know, until a time.
///
/// # Errors
/// [`Error::Connection`]; [`Error::Refused`] if the two ends do not agree.
pub(crate) fn connect(
    socket: &Arc<dyn Socket>,
    psks: Vec<Psk>,
    until: Instant,
) -> Result<Arc<dyn Socket>, Error> {
    let pipe = Pipe::default();
    let begin = || -> Result<Session, Failed> {
        let psks = Arc::new(psks);
        let builder = ModifiedBuilder::new(config()?, move |connection: &mut Connection| {
            for psk in psks.iter() {
                connection.append_psk(&of_library(psk)?)?;
            }
            connection.prefer_throughput()
        });
        // A target has one name here, and no certificate that would have it.
        let stream = carry(&**socket, &pipe, TlsConnector::new(builder).connect("", pipe.clone()), until)?;
        let session = Session::new(stream, pipe.clone());
        check(session.connection())?;
        Ok(session)
    };
    match begin() {
        Ok(session) => Ok(Arc::new(TlsSocket::new(socket.clone(), session))),
        Err(Failed::Socket(e)) => Err(e.into()),
        Err(Failed::Tls(cause)) => Err(Error::Refused(format!(
            "there is no TLS with the target, which may not know this host, or have another key of it: {}",
            describe(&cause)
        ))),
        Err(Failed::Here(why)) => Err(Error::Refused(format!("there is no TLS with the target: {why}"))),
    }
}
