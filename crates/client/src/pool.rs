//! Persistent HTTP/1.1 connections, by host.
//!
//! Invariants: a connection is used by one request or idle here, never both; idle connections are limited in
//! number and age; the newest is used first, so that the others can expire.
//!
//! Must not depend on: the requests.

use std::{collections::HashMap, sync::Arc, time::Duration};

use ashlar_environment::time::{self, Instant};
use http::HeaderValue;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use rustls_pki_types::ServerName;
use tokio_rustls::TlsConnector;

use crate::{
    body::Outgoing,
    config::Config,
    error::{Error, Result},
    tls,
};

/// Maximum age of an idle connection: most servers close theirs after a minute or more.
const MAX_IDLE: Duration = Duration::from_secs(30);

/// The address of a connection.
#[derive(Debug, PartialEq, Eq, Clone)]
pub(crate) struct Host {
    /// A DNS name or an address, without brackets.
    pub(crate) name: String,
    pub(crate) port: u16,
    pub(crate) https: bool,
    /// `host` or `host:port` as in the `host` header, without the default port.
    pub(crate) authority: String,
    pub(crate) header: HeaderValue,
}

impl Host {
    /// The host of an endpoint URL.
    pub(crate) fn parse(endpoint: &str) -> Result<Host> {
        let bad = |why: &str| Error::Invalid(format!("endpoint {endpoint:?}: {why}"));
        let uri: http::Uri = endpoint.parse().map_err(|_| bad("not a URL"))?;
        let https = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => return Err(bad("must begin with http:// or https://")),
        };
        if !matches!(uri.path(), "" | "/") || uri.query().is_some() {
            return Err(bad("nothing may follow the host and port"));
        }
        let authority = uri.authority().ok_or_else(|| bad("no host"))?;
        if authority.as_str().contains('@') {
            return Err(bad("the endpoint must not contain credentials"));
        }
        Host::new(uri.host().unwrap_or_default(), authority.port_u16(), https)
            .ok_or_else(|| bad("no valid host"))
    }

    fn new(name: &str, port: Option<u16>, https: bool) -> Option<Host> {
        if name.is_empty() {
            return None;
        }
        let default = if https { 443 } else { 80 };
        let authority = match port {
            Some(port) if port != default => format!("{name}:{port}"),
            _ => name.to_owned(),
        };
        let header = HeaderValue::from_str(&authority).ok()?;
        let name = name.trim_start_matches('[').trim_end_matches(']').to_owned();
        Some(Host { name, port: port.unwrap_or(default), https, authority, header })
    }

    /// The host of a bucket in virtual-host style.
    pub(crate) fn of_bucket(&self, bucket: &str) -> Option<Host> {
        Host::new(&format!("{bucket}.{}", self.name), Some(self.port), self.https)
    }

    pub(crate) fn scheme(&self) -> &'static str {
        if self.https { "https" } else { "http" }
    }
}

/// A connection that a request uses.
pub(crate) struct Connection {
    pub(crate) sender: SendRequest<Outgoing>,
    pub(crate) host: Arc<Host>,
    /// Whether it was used before: the server may have closed it meanwhile.
    pub(crate) reused: bool,
}

struct Idle {
    sender: SendRequest<Outgoing>,
    since: Instant,
}

/// The connections of one client.
pub(crate) struct Pool {
    idle: Mutex<HashMap<Arc<str>, Vec<Idle>>>,
    tls: Option<TlsConnector>,
    connect_timeout: Duration,
    max_idle: usize,
}

impl Pool {
    pub(crate) fn new(config: &Config, https: bool) -> Result<Pool> {
        Ok(Pool {
            idle: Mutex::default(),
            tls: if https { Some(tls::connector(&config.tls)?) } else { None },
            connect_timeout: config.connect_timeout,
            max_idle: config.max_idle,
        })
    }

    /// A connection to `host`: the newest idle one that is still open, or a new one. With `fresh`,
    /// always a new one.
    pub(crate) async fn get(&self, host: &Arc<Host>, fresh: bool) -> Result<Connection> {
        while !fresh && let Some(mut sender) = self.pop(host) {
            if sender.ready().await.is_ok() {
                return Ok(Connection { sender, host: host.clone(), reused: true });
            }
        }
        let sender = match time::timeout(self.connect_timeout, self.connect(host)).await {
            Ok(connected) => connected.map_err(|e| unreachable(host, &e))?,
            Err(_) => {
                let waited = format!("no answer for {} s", self.connect_timeout.as_secs());
                return Err(Error::Unreachable { endpoint: host.authority.clone(), reason: waited });
            }
        };
        Ok(Connection { sender, host: host.clone(), reused: false })
    }

    fn pop(&self, host: &Host) -> Option<SendRequest<Outgoing>> {
        let mut idle = self.idle.lock();
        let of_host = idle.get_mut(host.authority.as_str())?;
        while let Some(one) = of_host.pop() {
            if one.since.elapsed() > MAX_IDLE {
                of_host.clear(); // the rest are older
                return None;
            }
            if !one.sender.is_closed() {
                return Some(one.sender);
            }
        }
        None
    }

    /// Returns a connection to the pool after its last answer was read to the end.
    pub(crate) fn put(&self, connection: Connection) {
        if connection.sender.is_closed() {
            return;
        }
        let one = Idle { sender: connection.sender, since: Instant::now() };
        let mut idle = self.idle.lock();
        match idle.get_mut(connection.host.authority.as_str()) {
            Some(of_host) if of_host.len() < self.max_idle => of_host.push(one),
            Some(_) => {}
            None => {
                idle.insert(connection.host.authority.as_str().into(), vec![one]);
            }
        }
    }

    async fn connect(&self, host: &Host) -> std::result::Result<SendRequest<Outgoing>, Failure> {
        let stream = ashlar_environment::net::connect((host.name.as_str(), host.port)).await?;
        stream.set_nodelay(true)?;
        if !host.https {
            return handshake(TokioIo::new(stream)).await;
        }
        let tls = self.tls.as_ref().ok_or("TLS is not set up")?;
        let name = ServerName::try_from(host.name.clone())?;
        handshake(TokioIo::new(tls.connect(name, stream).await?)).await
    }
}

type Failure = Box<dyn std::error::Error + Send + Sync>;

async fn handshake<T>(io: T) -> std::result::Result<SendRequest<Outgoing>, Failure>
where
    T: hyper::rt::Read + hyper::rt::Write + Unpin + Send + 'static,
{
    let (sender, connection) = http1::Builder::new().handshake(io).await?;
    // Ends when the sender is dropped or the peer closes; the request receives the error.
    ashlar_environment::spawn("client-connection", async move {
        if let Err(error) = connection.await {
            tracing::debug!(%error, "connection ended");
        }
    });
    Ok(sender)
}

fn unreachable(host: &Host, error: &Failure) -> Error {
    Error::Unreachable { endpoint: host.authority.clone(), reason: chain(error.as_ref()) }
}

/// An error with all its causes, in one line.
pub(crate) fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut out = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let text = cause.to_string();
        if !out.contains(&text) {
            out.push_str(": ");
            out.push_str(&text);
        }
        source = cause.source();
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints() {
        let host = Host::parse("http://127.0.0.1:9000").unwrap();
        assert_eq!((host.authority.as_str(), host.port, host.https), ("127.0.0.1:9000", 9000, false));
        let host = Host::parse("https://s3.example.com:443/").unwrap();
        assert_eq!((host.authority.as_str(), host.port), ("s3.example.com", 443));
        assert_eq!(host.of_bucket("b").unwrap().authority, "b.s3.example.com");
        let host = Host::parse("http://[::1]:9000").unwrap();
        assert_eq!((host.authority.as_str(), host.name.as_str()), ("[::1]:9000", "::1"));
        for bad in ["", "localhost:9000", "ftp://x", "http://", "http://h/path", "http://k:s@h"] {
            assert!(matches!(Host::parse(bad), Err(Error::Invalid(_))), "{bad}");
        }
    }
}
