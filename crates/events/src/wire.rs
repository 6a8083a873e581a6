//! Connections to targets: TCP, or TLS over it.
//!
//! Invariants: the addresses of a name are checked before a connection is made; loopback, link-local and
//! metadata addresses are refused unless the operator allows them (`ashlar_outbound::allow`).

use ashlar_environment::time;
use std::sync::Arc;
use std::time::Duration;

use ashlar_outbound::{Io, classify, is_allowed, refuse_host, tls};
use rustls::ClientConfig;
use rustls_pki_types::ServerName;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufStream};
use tokio_rustls::TlsConnector;

use crate::target::Failure;

/// Time to connect, TLS included.
const PATIENCE: Duration = Duration::from_secs(10);
/// Longest line of a line-based protocol.
const LINE: u64 = 64 * 1024;

/// A connection.
pub type Line = BufStream<Box<dyn Io>>;

/// The address of a target.
#[derive(Clone)]
pub struct TargetAddress {
    /// A name or an address.
    pub host: String,
    /// The port.
    pub port: u16,
    /// The configuration of TLS; `None`: no TLS.
    pub tls: Option<Arc<ClientConfig>>,
}

/// A failure after which sending is tried again. `why` must contain no secret.
pub fn retry(what: &str, why: impl std::fmt::Display) -> Failure {
    Failure::Retry(format!("{what}: {why}"))
}

impl TargetAddress {
    /// Parses `HOST:PORT`, with or without a scheme before it and a path behind it.
    pub fn parse(text: &str, default: u16, tls: Option<Arc<ClientConfig>>) -> Result<TargetAddress, String> {
        let rest = text.split_once("://").map_or(text, |(_, rest)| rest);
        let rest = rest.split(['/', '?']).next().unwrap_or_default();
        let rest = rest.rsplit_once('@').map_or(rest, |(_, rest)| rest);
        let (host, port) = match rest.strip_prefix('[') {
            Some(six) => {
                let (host, port) = six.split_once(']').ok_or("the address has no closing bracket")?;
                (host, port.strip_prefix(':'))
            }
            None => rest.rsplit_once(':').map_or((rest, None), |(host, port)| (host, Some(port))),
        };
        let port = match port.filter(|p| !p.is_empty()) {
            None => default,
            Some(text) => text.parse().ok().filter(|p| *p > 0).ok_or("the address has no valid port")?,
        };
        if host.is_empty() || host.contains(|c: char| c.is_whitespace() || c.is_control()) {
            return Err("the address has no host".into());
        }
        refuse_host(host)?;
        Ok(TargetAddress { host: host.to_owned(), port, tls })
    }

    /// Opens a TCP connection to an allowed address.
    pub async fn tcp(&self) -> Result<Box<dyn Io>, Failure> {
        if let Some(bytes) = crate::played::take() {
            return Ok(Box::new(tokio::io::join(std::io::Cursor::new(bytes), tokio::io::sink())));
        }
        let what = format!("{}:{}", self.host, self.port);
        let found = tokio::net::lookup_host((self.host.as_str(), self.port));
        let found = time::timeout(PATIENCE, found).await;
        let found = found.map_err(|_| retry(&what, "the name is not resolved"))?;
        let mut last = retry(&what, "the name has no address");
        for address in found.map_err(|e| retry(&what, e))? {
            if !is_allowed(classify(address.ip())) {
                last =
                    retry(&what, format_args!("{} is {}: not allowed", address.ip(), classify(address.ip())));
                continue;
            }
            match time::timeout(PATIENCE, ashlar_environment::net::connect(address)).await {
                Ok(Ok(stream)) => {
                    let _ = stream.set_nodelay(true);
                    return Ok(Box::new(stream));
                }
                Ok(Err(e)) => last = retry(&what, e),
                Err(_) => last = retry(&what, "does not answer"),
            }
        }
        Err(last)
    }

    /// TLS over a connection.
    pub async fn secured(&self, stream: Box<dyn Io>) -> Result<Box<dyn Io>, Failure> {
        let Some(config) = &self.tls else { return Ok(stream) };
        let name =
            ServerName::try_from(self.host.clone()).map_err(|_| retry(&self.host, "is not a host name"))?;
        let made = TlsConnector::from(config.clone()).connect(name, stream);
        match time::timeout(PATIENCE, made).await {
            Ok(Ok(stream)) => Ok(Box::new(stream)),
            Ok(Err(e)) => Err(retry(&self.host, e)),
            Err(_) => Err(retry(&self.host, "TLS takes too long")),
        }
    }

    /// Opens a connection, with TLS if configured.
    pub async fn connect(&self) -> Result<Line, Failure> {
        Ok(BufStream::new(self.secured(self.tcp().await?).await?))
    }
}

/// The configuration of TLS from settings.
pub fn config(
    authorities: &[Vec<u8>],
    insecure: bool,
    identity: Option<&tls::Identity>,
) -> Result<Arc<ClientConfig>, String> {
    let config = tls::config(authorities, insecure).map_err(|e| e.to_string())?;
    match identity {
        None => Ok(config),
        Some(identity) => tls::identified(&config, identity).map_err(|e| e.to_string()),
    }
}

/// Reads a line, without its end.
pub async fn line(from: &mut Line) -> std::io::Result<String> {
    let mut out = Vec::new();
    let n = (&mut *from).take(LINE).read_until(b'\n', &mut out).await?;
    if n == 0 || out.last() != Some(&b'\n') {
        return Err(std::io::ErrorKind::UnexpectedEof.into());
    }
    while matches!(out.last(), Some(b'\n' | b'\r')) {
        out.pop();
    }
    String::from_utf8(out).map_err(|_| std::io::ErrorKind::InvalidData.into())
}

/// Reads `count` bytes. Refuses a count that is too large for an answer.
pub async fn bytes(from: &mut Line, count: usize) -> std::io::Result<Vec<u8>> {
    if count > 16 << 20 {
        return Err(std::io::Error::other("the answer is too long"));
    }
    // Allocate for the bytes that arrived, never for the length that was announced.
    let mut out = Vec::new();
    (&mut *from).take(count as u64).read_to_end(&mut out).await?;
    if out.len() < count { Err(std::io::ErrorKind::UnexpectedEof.into()) } else { Ok(out) }
}
