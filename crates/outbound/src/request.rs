//! Sends requests: resolve, classify, connect to the checked address, send, limit the answer.
//!
//! Invariants: an address is classified after it was resolved and before anything is sent, and the connection
//! is made to that address; a kept connection was checked when it was made; a request is repeated
//! automatically only if nothing of it was sent; at most [`IDLE`] connections are kept.

use ashlar_environment::time::{self, Instant};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures::future::BoxFuture;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use rustls_pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::{Class, Error, Result, Url, classify, tls};

/// Most kept connections.
const IDLE: usize = 8;
/// How long a kept connection is reused.
const KEPT: Duration = Duration::from_secs(15);
/// Most addresses of one name that are tried.
const TRIES: usize = 4;
/// Most bytes of the head of an answer.
const HEAD: usize = 64 * 1024;

/// Rules for requests.
#[derive(Clone, Debug)]
pub struct Rules {
    /// Whether loopback addresses are allowed.
    pub allow_loopback: bool,
    /// Whether private networks are allowed.
    pub allow_private: bool,
    /// Whether link-local and metadata addresses are allowed.
    pub allow_link_local: bool,
    /// Certificate authorities in PEM; if there are any, they replace the system's.
    pub authorities: Vec<Vec<u8>>,
    /// The client certificate, for servers that request one.
    pub identity: Option<tls::Identity>,
    /// Time limit of a whole request, including connecting.
    pub timeout: Duration,
    /// Most bytes of the body of an answer.
    pub max_body: usize,
}

impl Default for Rules {
    /// Public and private addresses, the system's authorities, 10 s, 1 MiB.
    fn default() -> Rules {
        Rules {
            allow_loopback: false,
            allow_private: true,
            allow_link_local: false,
            authorities: Vec::new(),
            identity: None,
            timeout: Duration::from_secs(10),
            max_body: 1 << 20,
        }
    }
}

impl Rules {
    /// Whether addresses of this class are allowed.
    pub fn allow(&self, class: Class) -> bool {
        match class {
            Class::Public => true,
            Class::Private => self.allow_private,
            Class::Loopback => self.allow_loopback,
            Class::LinkLocal | Class::Metadata => self.allow_link_local,
            Class::Unusable => false,
        }
    }
}

/// An answer. A redirect is an answer like any other: it is not followed.
#[derive(Debug)]
pub struct Answer {
    /// The status.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    /// The body, whole.
    pub body: Bytes,
}

/// An answer that arrives piece by piece. Dropping it closes its connection.
pub struct Stream {
    /// The status.
    pub status: StatusCode,
    url: Url,
    body: Incoming,
    _sender: Sender,
}

impl Stream {
    /// The next piece of the body; none at its end. Dropping the future loses nothing.
    ///
    /// # Errors
    /// The connection broke.
    pub fn piece(&mut self) -> BoxFuture<'_, Result<Option<Bytes>>> {
        Box::pin(async move {
            while let Some(frame) = self.body.frame().await {
                if let Ok(data) = frame.map_err(|e| broken(&self.url, &e))?.into_data() {
                    return Ok(Some(data));
                }
            }
            Ok(None)
        })
    }
}

/// Resolves names.
pub trait Resolve: Send + Sync {
    /// The addresses of a host.
    fn resolve<'a>(&'a self, host: &'a str, port: u16) -> BoxFuture<'a, io::Result<Vec<SocketAddr>>>;
}

/// The system's resolver.
struct System;

impl Resolve for System {
    fn resolve<'a>(&'a self, host: &'a str, port: u16) -> BoxFuture<'a, io::Result<Vec<SocketAddr>>> {
        Box::pin(async move { Ok(tokio::net::lookup_host((host, port)).await?.collect()) })
    }
}

type Sender = SendRequest<Full<Bytes>>;

struct Kept {
    origin: String,
    sender: Sender,
    since: Instant,
}

/// Sends requests according to rules.
pub struct Outbound {
    rules: Rules,
    tls: TlsConnector,
    names: Arc<dyn Resolve>,
    idle: Mutex<Vec<Kept>>,
}

impl Outbound {
    /// A client with these rules.
    ///
    /// # Errors
    /// An authority is no certificate, or the system has none.
    pub fn new(rules: Rules) -> Result<Outbound> {
        Outbound::resolving(rules, Arc::new(System))
    }

    /// As [`Outbound::new`], with another resolver.
    ///
    /// # Errors
    /// As [`Outbound::new`].
    pub fn resolving(rules: Rules, names: Arc<dyn Resolve>) -> Result<Outbound> {
        let mut config = tls::config(&rules.authorities, false)?;
        if let Some(identity) = &rules.identity {
            config = tls::identified(&config, identity)?;
        }
        let tls = TlsConnector::from(config);
        Ok(Outbound { rules, tls, names, idle: Mutex::default() })
    }

    /// The rules.
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// `GET url`.
    ///
    /// # Errors
    /// See [`Error`]. An answer of any status is an answer.
    pub fn get<'a>(
        &'a self,
        url: &'a str,
        headers: &'a [(HeaderName, HeaderValue)],
    ) -> BoxFuture<'a, Result<Answer>> {
        self.ask(Method::GET, url, headers, Bytes::new())
    }

    /// `POST url`.
    ///
    /// # Errors
    /// See [`Error`]. An answer of any status is an answer.
    pub fn post<'a>(
        &'a self,
        url: &'a str,
        headers: &'a [(HeaderName, HeaderValue)],
        body: Bytes,
    ) -> BoxFuture<'a, Result<Answer>> {
        self.ask(Method::POST, url, headers, body)
    }

    /// Any request.
    ///
    /// # Errors
    /// See [`Error`]. An answer of any status is an answer.
    pub fn ask<'a>(
        &'a self,
        method: Method,
        url: &'a str,
        headers: &'a [(HeaderName, HeaderValue)],
        body: Bytes,
    ) -> BoxFuture<'a, Result<Answer>> {
        Box::pin(async move {
            let url = Url::parse(url)?;
            let request = request(method, &url, headers, body);
            match time::timeout(self.rules.timeout, self.run(&url, request)).await {
                Ok(result) => result,
                Err(_) => Err(Error::TooSlow { host: url.host, seconds: self.rules.timeout.as_secs() }),
            }
        })
    }

    /// `POST url`, whose answer arrives piece by piece for as long as the server likes. The limits of time
    /// and size hold only until the head of the answer is there.
    ///
    /// # Errors
    /// See [`Error`]. An answer of any status is an answer.
    pub fn stream<'a>(
        &'a self,
        url: &'a str,
        headers: &'a [(HeaderName, HeaderValue)],
        body: Bytes,
    ) -> BoxFuture<'a, Result<Stream>> {
        Box::pin(async move {
            let url = Url::parse(url)?;
            let request = request(Method::POST, &url, headers, body);
            let begin = async {
                let mut sender = self.connect(&url).await?;
                let answer = sender.send_request(request).await.map_err(|e| broken(&url, &e))?;
                Ok((sender, answer))
            };
            let Ok(begun) = time::timeout(self.rules.timeout, begin).await else {
                return Err(Error::TooSlow { host: url.host, seconds: self.rules.timeout.as_secs() });
            };
            let (sender, answer) = begun?;
            Ok(Stream { status: answer.status(), url, body: answer.into_body(), _sender: sender })
        })
    }

    async fn run(&self, url: &Url, mut request: Request<Full<Bytes>>) -> Result<Answer> {
        let origin = url.origin();
        while let Some(mut sender) = self.kept(&origin) {
            if sender.ready().await.is_err() {
                continue;
            }
            match sender.try_send_request(request).await {
                Ok(response) => return self.read(url, response, sender, origin).await,
                // The connection was closed meanwhile, and nothing was sent.
                Err(mut lost) => match lost.take_message() {
                    Some(unsent) => request = unsent,
                    None => return Err(broken(url, lost.error())),
                },
            }
        }
        let mut sender = self.connect(url).await?;
        let response = sender.send_request(request).await.map_err(|e| broken(url, &e))?;
        self.read(url, response, sender, origin).await
    }

    /// A kept connection for this origin; drops old ones.
    fn kept(&self, origin: &str) -> Option<Sender> {
        let mut idle = self.idle.lock();
        idle.retain(|k| k.since.elapsed() < KEPT && !k.sender.is_closed());
        let at = idle.iter().rposition(|k| k.origin == origin)?;
        Some(idle.remove(at).sender)
    }

    async fn read(
        &self,
        url: &Url,
        response: Response<Incoming>,
        sender: Sender,
        origin: String,
    ) -> Result<Answer> {
        let (parts, mut incoming) = response.into_parts();
        let mut body = BytesMut::new();
        while let Some(frame) = incoming.frame().await {
            let frame = frame.map_err(|e| broken(url, &e))?;
            let Some(data) = frame.data_ref() else { continue };
            if body.len() + data.len() > self.rules.max_body {
                return Err(Error::TooLarge { host: url.host.clone(), limit: self.rules.max_body });
            }
            body.extend_from_slice(data);
        }
        let mut idle = self.idle.lock();
        if idle.len() >= IDLE {
            idle.remove(0);
        }
        idle.push(Kept { origin, sender, since: Instant::now() });
        Ok(Answer { status: parts.status, headers: parts.headers, body: body.freeze() })
    }

    /// The allowed addresses of a host.
    async fn addresses(&self, url: &Url) -> Result<Vec<SocketAddr>> {
        let found = match url.host.parse::<IpAddr>() {
            Ok(ip) => vec![SocketAddr::new(ip, url.port)],
            Err(_) => self.names.resolve(&url.host, url.port).await.map_err(|e| broken(url, &e))?,
        };
        let Some(first) = found.first().copied() else {
            return Err(Error::Unreachable(format!("{}: the name has no address", url.host)));
        };
        let mut good: Vec<SocketAddr> =
            found.into_iter().filter(|a| self.rules.allow(classify(a.ip()))).collect();
        if good.is_empty() {
            let (address, class) = (first.ip(), classify(first.ip()));
            return Err(Error::Forbidden { host: url.host.clone(), address, class });
        }
        good.truncate(TRIES);
        Ok(good)
    }

    async fn connect(&self, url: &Url) -> Result<Sender> {
        let addresses = self.addresses(url).await?;
        // An address that does not answer must leave time for the others.
        let share = self.rules.timeout / (addresses.len() as u32 + 1);
        let mut last = String::new();
        for address in addresses {
            match time::timeout(share, ashlar_environment::net::connect(address)).await {
                Ok(Ok(stream)) => return self.speak(url, stream).await,
                Ok(Err(e)) => last = format!("{} ({address}): {e}", url.host),
                Err(_) => last = format!("{} ({address}): does not answer", url.host),
            }
        }
        Err(Error::Unreachable(last))
    }

    async fn speak(&self, url: &Url, stream: TcpStream) -> Result<Sender> {
        let _ = stream.set_nodelay(true);
        if !url.https {
            return handshake(url, Box::new(stream)).await;
        }
        let name = ServerName::try_from(url.host.clone())
            .map_err(|_| Error::Invalid(format!("\"{}\" is not a host name", url.host)))?;
        let stream = self.tls.connect(name, stream).await.map_err(|e| broken(url, &e))?;
        handshake(url, Box::new(stream)).await
    }
}

fn request(
    method: Method,
    url: &Url,
    headers: &[(HeaderName, HeaderValue)],
    body: Bytes,
) -> Request<Full<Bytes>> {
    let mut request = Request::new(Full::new(body));
    *request.method_mut() = method;
    *request.uri_mut() = url.path.clone();
    let all = request.headers_mut();
    all.insert(header::HOST, url.authority.clone());
    all.insert(header::USER_AGENT, HeaderValue::from_static("Ashlar"));
    for (name, value) in headers {
        all.insert(name.clone(), value.clone());
    }
    request
}

/// A byte stream in both directions, plain or with TLS: boxed, what uses it is compiled once for both.
pub trait Io: AsyncRead + AsyncWrite + Unpin + Send + Sync {}
impl<S: AsyncRead + AsyncWrite + Unpin + Send + Sync> Io for S {}

async fn handshake(url: &Url, stream: Box<dyn Io>) -> Result<Sender> {
    let made = http1::Builder::new().max_buf_size(HEAD).handshake(TokioIo::new(stream)).await;
    let (sender, connection) = made.map_err(|e| broken(url, &e))?;
    // Ends when the sender is dropped, or the other end closes.
    ashlar_environment::spawn("outbound-connection", async move {
        if let Err(error) = connection.await {
            tracing::debug!(%error, "an outbound connection ended");
        }
    });
    Ok(sender)
}

fn broken(url: &Url, error: &dyn std::error::Error) -> Error {
    let mut text = format!("{}: {error}", url.host);
    let mut cause = error.source();
    while let Some(inner) = cause {
        text.push_str(": ");
        text.push_str(&inner.to_string());
        cause = inner.source();
    }
    Error::Unreachable(text)
}
