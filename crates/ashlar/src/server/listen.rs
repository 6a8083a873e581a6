//! Accepting connections and serving HTTP/1.1 on them, until told to stop.
//!
//! Invariants: connections are bounded, in all and per address; stopping lets what is in flight end;
//! an accept that fails never ends the loop.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use ashlar_s3::Watch;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use super::connection::{LOOK, Life, Watched};
use super::routes::{Peer, Routes};

/// Most connections.
pub const MAX_CONNECTIONS: usize = 4096;
/// Most connections from one address that is not this machine.
pub const MAX_PER_ADDRESS: usize = 1024;
/// Bytes hyper may hold of one connection: a body frame, or a request head.
const MAX_BUFFER: usize = 256 * 1024;
/// A little more than the service allows, so that it is the service that answers.
const MAX_HEAD: usize = 80 * 1024;
const HANDSHAKE: Duration = Duration::from_secs(10);

/// Sockets that listen.
pub struct Listener {
    sockets: Vec<TcpListener>,
    tls: Option<TlsAcceptor>,
    /// Only administration is answered.
    admin: bool,
}

/// Turns `HOST:PORT`, `:PORT` or `PORT` into addresses to listen on.
///
/// # Errors
/// In words.
pub async fn resolve(text: &str) -> Result<Vec<SocketAddr>, String> {
    let bad = |why: &dyn std::fmt::Display| {
        format!("--address {text}: {why}; expected HOST:PORT, for instance 127.0.0.1:9000 or :9000")
    };
    let full = if text.bytes().all(|b| b.is_ascii_digit()) { format!(":{text}") } else { text.to_owned() };
    if let Some(port) = full.strip_prefix(':') {
        let port: u16 = port.parse().map_err(|e| bad(&e))?;
        return Ok(vec![SocketAddr::new(IpAddr::from([0u16; 8]), port)]);
    }
    let found: Vec<SocketAddr> = tokio::net::lookup_host(&full).await.map_err(|e| bad(&e))?.collect();
    if found.is_empty() { Err(bad(&"the name has no address")) } else { Ok(found) }
}

impl Listener {
    /// Listens on all of `addresses`.
    ///
    /// # Errors
    /// In words.
    pub fn bind(
        addresses: &[SocketAddr],
        tls: Option<Arc<rustls::ServerConfig>>,
    ) -> Result<Listener, String> {
        let mut sockets = Vec::new();
        for address in addresses {
            match bind(*address) {
                Ok(socket) => sockets.push(socket),
                // A machine without IPv6: every address means IPv4 then.
                Err(_) if address.ip().is_unspecified() && address.is_ipv6() => {
                    let any = SocketAddr::new(IpAddr::from([0u8; 4]), address.port());
                    sockets.push(bind(any).map_err(|e| cannot_listen(any, &e))?);
                }
                Err(e) => return Err(cannot_listen(*address, &e)),
            }
        }
        Ok(Listener { sockets, tls: tls.map(TlsAcceptor::from), admin: false })
    }

    /// Answers only administration.
    pub fn for_administration(self) -> Listener {
        Listener { admin: true, ..self }
    }

    /// Addresses in use, with real port numbers.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.sockets.iter().filter_map(|s| s.local_addr().ok()).collect()
    }

    /// Whether it speaks TLS.
    pub fn is_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// Serves until `stop` is true, then lets connections end for at most `patience`.
    pub async fn serve(self, routes: Arc<Routes>, stop: watch::Receiver<bool>, patience: Duration) {
        let mut accepting = JoinSet::new();
        let doors = Arc::new(Doors {
            routes,
            tls: self.tls,
            admin: self.admin,
            all: Arc::new(Semaphore::new(MAX_CONNECTIONS)),
            from: Mutex::new(HashMap::new()),
            stop: stop.clone(),
        });
        for socket in self.sockets {
            accepting.spawn(accept(socket, doors.clone()));
        }
        let mut connections = JoinSet::new();
        while let Some(done) = accepting.join_next().await {
            if let Ok(open) = done {
                connections.spawn(async move {
                    let mut open = open;
                    while open.join_next().await.is_some() {}
                });
            }
        }
        let all = async { while connections.join_next().await.is_some() {} };
        if tokio::time::timeout(patience, all).await.is_err() {
            tracing::warn!("connections that did not end in time were cut");
        }
    }
}

/// Why an address cannot be used, and what to do.
fn cannot_listen(address: SocketAddr, error: &std::io::Error) -> String {
    use std::io::ErrorKind;
    let advice = match error.kind() {
        ErrorKind::AddrInUse => "another program listens there; stop it or choose another --address",
        ErrorKind::AddrNotAvailable => "no network interface of this machine has this address",
        ErrorKind::PermissionDenied if address.port() < 1024 => {
            "ports below 1024 need root or the capability CAP_NET_BIND_SERVICE"
        }
        _ => return format!("cannot listen on {address}: {error}"),
    };
    format!("cannot listen on {address}: {error}: {advice}")
}

fn bind(address: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = if address.is_ipv6() { TcpSocket::new_v6()? } else { TcpSocket::new_v4()? };
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(1024)
}

/// What every connection needs.
struct Doors {
    routes: Arc<Routes>,
    tls: Option<TlsAcceptor>,
    admin: bool,
    all: Arc<Semaphore>,
    from: Mutex<HashMap<IpAddr, usize>>,
    stop: watch::Receiver<bool>,
}

/// A connection counted for its address while it lives.
struct Counted {
    doors: Arc<Doors>,
    ip: IpAddr,
}

impl Drop for Counted {
    fn drop(&mut self) {
        let mut from = self.doors.from.lock();
        if let Some(n) = from.get_mut(&self.ip) {
            *n -= 1;
            if *n == 0 {
                from.remove(&self.ip);
            }
        }
    }
}

impl Doors {
    fn count(self: &Arc<Doors>, ip: IpAddr) -> Option<Counted> {
        let mut from = self.from.lock();
        let n = from.entry(ip).or_default();
        if *n >= MAX_PER_ADDRESS && !ip.is_loopback() {
            return None;
        }
        *n += 1;
        Some(Counted { doors: self.clone(), ip })
    }
}

/// Accepts until told to stop; answers the connections that are still open.
async fn accept(socket: TcpListener, doors: Arc<Doors>) -> JoinSet<()> {
    let mut open = JoinSet::new();
    let mut stop = doors.stop.clone();
    loop {
        let Ok(room) = doors.all.clone().acquire_owned().await else { return open };
        let accepted = tokio::select! {
            accepted = socket.accept() => accepted,
            _ = stop.wait_for(|s| *s) => return open,
        };
        while open.try_join_next().is_some() {}
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                // Out of descriptors, most likely: give connections time to end.
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let Some(counted) = doors.count(peer.ip()) else {
            tracing::warn!(%peer, "too many connections from one address");
            continue;
        };
        let doors = doors.clone();
        open.spawn(async move {
            connection(stream, peer, &doors).await;
            drop((room, counted));
        });
    }
}

async fn connection(stream: TcpStream, peer: SocketAddr, doors: &Arc<Doors>) {
    let _ = stream.set_nodelay(true);
    match &doors.tls {
        None => serve(stream, peer, None, doors).await,
        Some(tls) => match tokio::time::timeout(HANDSHAKE, tls.accept(stream)).await {
            Ok(Ok(stream)) => {
                let chain = stream.get_ref().1.peer_certificates().unwrap_or_default();
                let chain = chain.iter().map(|c| c.to_vec()).collect();
                serve(stream, peer, Some(chain), doors).await;
            }
            Ok(Err(error)) => tracing::debug!(%peer, %error, "TLS handshake failed"),
            Err(_) => tracing::debug!(%peer, "TLS handshake took too long"),
        },
    }
}

/// Answers a connection; `tls`: the client's certificates.
async fn serve<S>(stream: S, peer: SocketAddr, tls: Option<Vec<Vec<u8>>>, doors: &Arc<Doors>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let watch = Watch::default();
    let life = Life::new();
    let io = TokioIo::new(Watched::new(stream, watch.clone(), life.clone()));
    let peer =
        Arc::new(Peer { address: peer, tls: tls.is_some(), certificates: tls.unwrap_or_default(), watch });
    let service = service_fn(|request| {
        let (routes, peer, running) = (doors.routes.clone(), peer.clone(), life.begin());
        let admin = doors.admin;
        async move {
            let response = match admin {
                true => Box::pin(routes.administer(request, &peer)).await,
                false => routes.answer(request, &peer).await,
            };
            drop(running);
            Ok::<_, std::convert::Infallible>(response)
        }
    });
    let mut http = http1::Builder::new();
    http.max_buf_size(MAX_BUFFER).max_header_size(MAX_HEAD).max_headers(256).header_read_timeout(None);
    let mut running = std::pin::pin!(http.serve_connection(io, service));
    let mut look = tokio::time::interval(LOOK);
    let mut stop = doors.stop.clone();
    let mut stopping = false;
    loop {
        tokio::select! {
            result = running.as_mut() => {
                if let Err(error) = result {
                    tracing::debug!(peer = %peer.address, %error, "connection ended");
                }
                return;
            }
            _ = look.tick() => {
                if let Some(why) = life.verdict() {
                    tracing::debug!(peer = %peer.address, why, "connection closed");
                    return;
                }
            }
            _ = stop.wait_for(|s| *s), if !stopping => {
                stopping = true;
                running.as_mut().graceful_shutdown();
            }
        }
    }
}
