//! One connection to a directory, with one operation at a time.
//!
//! Invariants: only StartTLS is sent before TLS is established, and bytes received before TLS are never read
//! as an answer after it; every step has a time limit, every message and every answer a size limit; referrals
//! are not followed; link-local and metadata addresses are never connected to.
//!
//! Must not depend on: the purpose of an operation.

use ashlar_environment::time;
use futures::future::BoxFuture;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use ashlar_outbound::{Io, classify, is_allowed};
use rustls_pki_types::ServerName;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::ber::{Writer, head};
use super::filter::Filter;
use super::message::{self, Answer, Entry, Outcome, Scope, Search};

/// Time limit of a step: connecting, TLS, a bind, a search.
pub const STEP: Duration = Duration::from_secs(10);
/// Longest message, in bytes.
const MESSAGE: usize = 1 << 20;
/// Most bytes of all answers to one request.
const ALL: usize = 16 << 20;

/// How the connection is kept private.
#[derive(Clone)]
pub enum Privacy {
    /// TLS from the first byte.
    Tls(Arc<rustls::ClientConfig>),
    /// TLS after StartTLS.
    StartTls(Arc<rustls::ClientConfig>),
    /// Not encrypted.
    None,
}

/// The address of a directory.
#[derive(Clone)]
pub struct Server {
    /// A name or an address.
    pub host: String,
    /// The port.
    pub port: u16,
    /// How the connection is encrypted.
    pub privacy: Privacy,
}

/// Why an operation failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The directory cannot be reached, is busy, or violates the protocol.
    #[error("the directory {0}")]
    Away(String),
    /// The directory refused the operation.
    #[error("the directory refuses {0}: {1}")]
    Refused(&'static str, Outcome),
    /// The answer exceeds a limit.
    #[error("the answer of the directory is too large: {0}")]
    TooMuch(String),
}

/// A connection.
pub struct Connection {
    stream: Box<dyn Io>,
    /// Bytes that were read but not decoded.
    read: Vec<u8>,
    received: usize,
    id: u32,
}

async fn within<T>(what: &str, f: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    match time::timeout(STEP, f).await {
        Ok(done) => done,
        Err(_) => Err(Failure::Away(format!("did not answer within {} s: {what}", STEP.as_secs()))),
    }
}

fn away(what: &'static str) -> impl Fn(std::io::Error) -> Failure {
    move |e| Failure::Away(format!("cannot be reached: {what}: {e}"))
}

impl Server {
    /// Connects.
    ///
    /// # Errors
    /// `Away`, `Refused` (StartTLS).
    pub fn connect(&self) -> BoxFuture<'_, Result<Connection, Failure>> {
        Box::pin(async move {
            let tcp = within("connecting", self.tcp()).await?;
            let _ = tcp.set_nodelay(true);
            match &self.privacy {
                Privacy::None => Ok(Connection::over(Box::new(tcp))),
                Privacy::Tls(config) => within("TLS", self.tls(config, tcp)).await,
                Privacy::StartTls(config) => {
                    let tcp = within("StartTLS", start_tls(tcp)).await?;
                    within("TLS", self.tls(config, tcp)).await
                }
            }
        })
    }

    async fn tcp(&self) -> Result<TcpStream, Failure> {
        let found =
            tokio::net::lookup_host((self.host.as_str(), self.port)).await.map_err(away("its name"))?;
        let mut last = Failure::Away("cannot be reached: its name has no address".into());
        for address in found.take(8) {
            last = match classify(address.ip()) {
                class if !is_allowed(class) => {
                    Failure::Away(format!("is at {address}, {class}: not allowed"))
                }
                _ => match connect(address).await {
                    Ok(stream) => return Ok(stream),
                    Err(e) => away("connecting")(e),
                },
            };
        }
        Err(last)
    }

    async fn tls(&self, config: &Arc<rustls::ClientConfig>, tcp: TcpStream) -> Result<Connection, Failure> {
        let name = ServerName::try_from(self.host.clone()).map_err(|_| {
            Failure::Away(format!("has the name \"{}\", which is not valid for TLS", self.host))
        })?;
        let stream = TlsConnector::from(config.clone()).connect(name, tcp).await.map_err(away("TLS"))?;
        Ok(Connection::over(Box::new(stream)))
    }
}

async fn connect(address: SocketAddr) -> std::io::Result<TcpStream> {
    ashlar_environment::net::connect(address).await
}

/// Sends StartTLS. The returned stream has been read no further than the answer.
async fn start_tls(tcp: TcpStream) -> Result<TcpStream, Failure> {
    let mut c = Plain { tcp, read: Vec::new() };
    c.tcp.write_all(&message::start_tls(1)).await.map_err(away("StartTLS"))?;
    loop {
        match whole(&c.read)? {
            None => {
                let mut chunk = [0; 512];
                let n = c.tcp.read(&mut chunk).await.map_err(away("StartTLS"))?;
                if n == 0 {
                    return Err(Failure::Away("closed the connection at StartTLS".into()));
                }
                c.read.extend_from_slice(&chunk[..n]);
            }
            Some((skip, end)) => {
                // Bytes that an attacker injected before TLS must not be read as an answer after it.
                if end != c.read.len() {
                    return Err(Failure::Away("sent data before TLS".into()));
                }
                return match message::read(&c.read[skip..end]) {
                    Some((1, Answer::Extended(o))) if o.code == Outcome::SUCCESS => Ok(c.tcp),
                    Some((_, Answer::Extended(o))) => Err(Failure::Refused("StartTLS", o)),
                    _ => Err(broken()),
                };
            }
        }
    }
}

struct Plain {
    tcp: TcpStream,
    read: Vec<u8>,
}

fn broken() -> Failure {
    Failure::Away("does not speak LDAP".into())
}

/// Start and end of the content of the first message; `None` while it is incomplete.
fn whole(read: &[u8]) -> Result<Option<(usize, usize)>, Failure> {
    let Some((tag, length, skip)) = head(read).ok_or_else(broken)? else { return Ok(None) };
    if tag != 0x30 {
        return Err(broken());
    }
    if length > MESSAGE {
        return Err(Failure::TooMuch(format!("a message of {length} bytes")));
    }
    Ok((read.len() >= skip + length).then_some((skip, skip + length)))
}

impl Connection {
    fn over(stream: Box<dyn Io>) -> Connection {
        Connection { stream, read: Vec::new(), received: 0, id: 0 }
    }

    /// A connection whose directory answers these bytes, whatever the requests, and then closes it.
    pub fn scripted(bytes: &[u8]) -> Connection {
        let script = std::io::Cursor::new(bytes.to_vec());
        Connection::over(Box::new(tokio::io::join(script, tokio::io::sink())))
    }

    #[cfg(test)]
    pub fn fake(stream: tokio::io::DuplexStream) -> Connection {
        Connection::over(Box::new(stream))
    }

    async fn send(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.received = 0;
        self.stream.write_all(bytes).await.map_err(away("sending"))?;
        self.stream.flush().await.map_err(away("sending"))
    }

    /// The next answer to the last request.
    async fn answer(&mut self) -> Result<Answer, Failure> {
        loop {
            if let Some((skip, end)) = whole(&self.read)? {
                let (id, answer) = message::read(&self.read[skip..end]).ok_or_else(broken)?;
                self.read.drain(..end);
                return match (id, answer) {
                    (0, Answer::Extended(o)) => Err(Failure::Away(format!("ends the connection: {o}"))),
                    (id, answer) if id == self.id => Ok(answer),
                    _ => Err(broken()),
                };
            }
            let mut chunk = [0; 8192];
            let n = self.stream.read(&mut chunk).await.map_err(away("receiving"))?;
            if n == 0 {
                return Err(Failure::Away("closed the connection".into()));
            }
            self.received += n;
            if self.received > ALL {
                return Err(Failure::TooMuch(format!("more than {ALL} bytes")));
            }
            self.read.extend_from_slice(&chunk[..n]);
        }
    }

    /// Simple bind with a name and a password, which must not be empty.
    ///
    /// # Errors
    /// `Away`: there is no outcome.
    pub fn bind<'a>(&'a mut self, dn: &'a str, password: &'a str) -> BoxFuture<'a, Result<Outcome, Failure>> {
        Box::pin(async move {
            within("binding", async {
                self.id += 1;
                let bytes = message::bind(self.id, dn, password);
                self.send(&bytes).await?;
                match self.answer().await? {
                    Answer::Bound(outcome) => Ok(outcome),
                    _ => Err(broken()),
                }
            })
            .await
        })
    }

    /// Finds entries, at most `limit`; none if there is no entry `base`. `attributes`: those to return.
    ///
    /// # Errors
    /// `TooMuch` when there are more; `Away`, `Refused`.
    pub fn search<'a>(
        &'a mut self,
        (base, scope): (&'a str, Scope),
        filter: (&'a Filter, &'a str, &'a str),
        attributes: &'a [&'a str],
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Entry>, Failure>> {
        Box::pin(async move {
            let (filter, user, dn) = filter;
            let mut encoded = Writer::default();
            filter.encode(user, dn, &mut encoded);
            let question = Search {
                base,
                scope,
                // Ask for one more entry, to detect that there are too many.
                limit: u32::try_from(limit + 1).unwrap_or(u32::MAX),
                filter: &encoded.done(),
                attributes,
                seconds: u32::try_from(STEP.as_secs()).unwrap_or(10),
            };
            within("searching", async {
                self.id += 1;
                let bytes = message::search(self.id, &question);
                self.send(&bytes).await?;
                let mut found = Vec::new();
                let more = || Failure::TooMuch(format!("more than {limit} entries"));
                loop {
                    match self.answer().await? {
                        Answer::Entry(_) if found.len() == limit => return Err(more()),
                        Answer::Entry(entry) => found.push(entry),
                        Answer::Elsewhere => {
                            tracing::debug!(
                                "the directory refers to another one; referrals are not followed"
                            );
                        }
                        Answer::Done(o) => {
                            return match o.code {
                                Outcome::SUCCESS | Outcome::NO_SUCH_OBJECT => Ok(found),
                                Outcome::SIZE_LIMIT => Err(more()),
                                _ if o.is_passing() => Err(Failure::Away(format!("cannot search: {o}"))),
                                _ => Err(Failure::Refused("a search", o)),
                            };
                        }
                        _ => return Err(broken()),
                    }
                }
            })
            .await
        })
    }

    /// Sends an unbind and closes the connection.
    pub fn close(mut self) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            let bytes = message::unbind(self.id + 1);
            let leave = async {
                let _ = self.send(&bytes).await;
                let _ = self.stream.shutdown().await;
            };
            let _ = time::timeout(Duration::from_secs(1), leave).await;
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn framed(content: &[u8]) -> Vec<u8> {
        let mut w = Writer::default();
        w.bytes(0x30, content);
        w.done()
    }

    /// The result of a search if the directory answers this.
    async fn told(answer: Vec<u8>, limit: usize) -> Result<Vec<Entry>, Failure> {
        let (ours, mut theirs) = tokio::io::duplex(4 << 20);
        theirs.write_all(&answer).await.unwrap();
        theirs.shutdown().await.unwrap();
        let mut c = Connection::fake(ours);
        c.search(("dc=x", Scope::Tree), (&Filter::any(), "", ""), &[], limit).await
    }

    const ENTRY: &[u8] = b"\x02\x01\x01\x64\x08\x04\x04cn=a\x30\x00";
    const DONE: &[u8] = b"\x02\x01\x01\x65\x07\x0a\x01\x00\x04\x00\x04\x00";

    #[tokio::test]
    async fn invalid_answers_are_errors() {
        let ok = [framed(ENTRY), framed(b"\x02\x01\x01\x73\x00"), framed(DONE)].concat();
        assert_eq!(told(ok.clone(), 1).await.unwrap().len(), 1, "a reference is passed over");
        assert!(matches!(told(ok, 0).await, Err(Failure::TooMuch(_))));
        let coded =
            |code: u8| framed(&[&b"\x02\x01\x01\x65\x07\x0a\x01"[..], &[code], b"\x04\x00\x04\x00"].concat());
        assert!(told(coded(32), 1).await.unwrap().is_empty());
        assert!(matches!(told(coded(4), 1).await, Err(Failure::TooMuch(_))));
        assert!(matches!(told(coded(51), 1).await, Err(Failure::Away(_))));
        assert!(matches!(told(coded(50), 1).await, Err(Failure::Refused(..))));
        assert!(matches!(told(coded(10), 1).await, Err(Failure::Refused(..))), "referrals are not followed");
        // A wrong message id, a notice of disconnection, no LDAP, an incomplete message, no answer.
        assert!(matches!(
            told(framed(b"\x02\x01\x07\x65\x07\x0a\x01\x00\x04\x00\x04\x00"), 1).await,
            Err(Failure::Away(_))
        ));
        assert!(matches!(
            told(framed(b"\x02\x01\x00\x78\x07\x0a\x01\x34\x04\x00\x04\x00"), 1).await,
            Err(Failure::Away(_))
        ));
        assert!(matches!(told(b"HTTP/1.1 400 Bad Request\r\n".to_vec(), 1).await, Err(Failure::Away(_))));
        assert!(matches!(told(framed(ENTRY), 1).await, Err(Failure::Away(_))));
        assert!(matches!(told(Vec::new(), 1).await, Err(Failure::Away(_))));
        // A length above the limit is refused before the message is read; so is unlimited nesting.
        assert!(matches!(told(b"\x30\x84\x7f\xff\xff\xff".to_vec(), 1).await, Err(Failure::TooMuch(_))));
        let mut deep = Vec::new();
        for left in (0..100_000u32).rev() {
            deep.extend([&[0x30, 0x84][..], &(left * 6).to_be_bytes()].concat());
        }
        assert!(matches!(told(deep, 1).await, Err(Failure::Away(_))));
    }

    #[tokio::test]
    async fn bind_returns_the_outcome() {
        let (ours, mut theirs) = tokio::io::duplex(1 << 16);
        theirs.write_all(&framed(b"\x02\x01\x01\x61\x07\x0a\x01\x31\x04\x00\x04\x00")).await.unwrap();
        let mut c = Connection::fake(ours);
        assert_eq!(c.bind("cn=a", "pw").await.unwrap().code, 49);
        c.close().await;
        let mut sent = Vec::new();
        theirs.read_to_end(&mut sent).await.unwrap();
        assert!(sent.ends_with(b"\x42\x00"));
    }

    /// The result of a StartTLS that is answered with `answer`.
    async fn starting(answer: Vec<u8>) -> Result<TcpStream, Failure> {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = async {
            let (mut s, _) = listener.accept().await.unwrap();
            let mut asked = [0; 64];
            let _ = s.read(&mut asked).await.unwrap();
            s.write_all(&answer).await.unwrap();
            s
        };
        let (started, _held) =
            tokio::join!(async { start_tls(connect(address).await.unwrap()).await }, server);
        started
    }

    #[tokio::test]
    async fn bytes_injected_before_tls_are_refused() {
        let yes = framed(b"\x02\x01\x01\x78\x07\x0a\x01\x00\x04\x00\x04\x00");
        assert!(starting(yes.clone()).await.is_ok());
        let slipped = [yes, framed(b"\x02\x01\x01\x61\x07\x0a\x01\x00\x04\x00\x04\x00")].concat();
        assert!(matches!(starting(slipped).await, Err(Failure::Away(_))));
        let no = framed(b"\x02\x01\x01\x78\x07\x0a\x01\x02\x04\x00\x04\x00");
        assert!(matches!(starting(no).await, Err(Failure::Refused("StartTLS", _))));
    }

    #[tokio::test]
    async fn metadata_addresses_are_not_connected_to() {
        for host in ["169.254.169.254", "0.0.0.0", "fe80::1", "::ffff:169.254.169.254"] {
            let server = Server { host: host.into(), port: 1, privacy: Privacy::None };
            let Err(Failure::Away(why)) = server.connect().await else { panic!("{host}") };
            assert!(why.contains("not allowed"), "{why}");
        }
    }
}
