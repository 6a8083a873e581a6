//! Accepts connections and serves HTTP/1.1 on them until the server stops.
//!
//! Invariants: the number of connections is limited, in total and per address; a new connection replaces
//! unauthenticated or idle ones, oldest first, and is refused if there are none; [`RESERVE`] further
//! connections are reserved for administration and health checks; a stop waits for requests in flight; a
//! failed accept never ends the loop.

use ashlar_environment::time::{self, Instant};
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use ashlar_admin::metrics::ConnectionCounts;
use ashlar_admin::peer::Peer;
use ashlar_admin::responses::busy;
use ashlar_node::clock::coarse;
use ashlar_s3::WorkPermits;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use super::connection::{CHECK_INTERVAL, Class, ConnectionState, Outgoing, Watched};
use super::routes::Routes;
use super::socket::Socket;
use ashlar_server_options::limits::Bounds;

/// Connections beyond the limit that are reserved for administration and health checks.
const RESERVE: usize = 64;
/// When sockets hold too much unsent data, connections whose clients take nothing for this many seconds are
/// closed.
const STUCK: u64 = 2;
/// One in this many connections may be silent: no request was permitted, and none is in progress.
const SILENT: usize = 4;
/// Seconds for which any connection may be silent.
const SILENCE: u64 = 1;
/// Time between searches for such connections.
const STUCK_INTERVAL: Duration = Duration::from_millis(200);
/// Maximum bytes that hyper buffers per connection: a body frame, or a request head.
const MAX_BUFFER: usize = 256 * 1024;
/// Slightly more than the limit of the S3 service, so that the service refuses a long head.
const MAX_HEAD: usize = 80 * 1024;
const HANDSHAKE: Duration = Duration::from_secs(10);

/// Listening sockets.
pub struct Listener {
    sockets: Vec<TcpListener>,
    tls: Option<TlsAcceptor>,
    purpose: Purpose,
}

/// Which requests are answered.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Purpose {
    /// All.
    Everything,
    /// Only administration.
    Administration,
    /// Only those of the web console.
    Console,
}

/// Turns `HOST:PORT`, `:PORT` or `PORT` into addresses to listen on.
///
/// # Errors
/// A message for the operator.
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
    /// Binds all of `addresses`.
    ///
    /// # Errors
    /// A message for the operator.
    pub fn bind(
        addresses: &[SocketAddr],
        tls: Option<Arc<rustls::ServerConfig>>,
    ) -> Result<Listener, String> {
        let mut sockets = Vec::new();
        for address in addresses {
            match bind(*address) {
                Ok(socket) => sockets.push(socket),
                // On a machine without IPv6, "every address" means IPv4.
                Err(_) if address.ip().is_unspecified() && address.is_ipv6() => {
                    let any = SocketAddr::new(IpAddr::from([0u8; 4]), address.port());
                    sockets.push(bind(any).map_err(|e| cannot_listen(any, &e))?);
                }
                Err(e) => return Err(cannot_listen(*address, &e)),
            }
        }
        Ok(Listener { sockets, tls: tls.map(TlsAcceptor::from), purpose: Purpose::Everything })
    }

    /// Restricts the listener to administration requests.
    pub fn for_administration(self) -> Listener {
        Listener { purpose: Purpose::Administration, ..self }
    }

    /// Restricts the listener to the web console.
    pub fn for_console(self) -> Listener {
        Listener { purpose: Purpose::Console, ..self }
    }

    /// The bound addresses, with the actual port numbers.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.sockets.iter().filter_map(|s| s.local_addr().ok()).collect()
    }

    /// Whether the listener uses TLS.
    pub fn is_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// Serves until `stop` is true, then waits at most `drain_timeout` for connections to end.
    #[expect(clippy::disallowed_methods, reason = "connections are not simulated, and are ended together")]
    pub async fn serve(
        self,
        routes: Arc<Routes>,
        bounds: Bounds,
        stop: watch::Receiver<bool>,
        drain_timeout: Duration,
    ) {
        let mut accepting = JoinSet::new();
        let shared = Arc::new(ListenerState {
            tls: self.tls,
            purpose: self.purpose,
            bounds,
            open: Mutex::default(),
            counts: routes.connections().clone(),
            unsent: Arc::default(),
            stuck_closed_at: Mutex::new(Instant::now()),
            heads: routes.heads().clone(),
            stop: stop.clone(),
            routes,
        });
        for socket in self.sockets {
            accepting.spawn(accept(socket, shared.clone()));
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
        if time::timeout(drain_timeout, all).await.is_err() {
            tracing::warn!("connections that did not end in time were closed");
        }
    }
}

/// The error message for an address that cannot be bound, with advice.
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
    // The backlog that most systems allow: a connection beyond it is retried by the client after a second or
    // more.
    socket.listen(4096)
}

/// State that all connections share.
struct ListenerState {
    routes: Arc<Routes>,
    tls: Option<TlsAcceptor>,
    purpose: Purpose,
    bounds: Bounds,
    open: Mutex<Open>,
    counts: Arc<ConnectionCounts>,
    /// Bytes of answers that sockets have not taken.
    unsent: Arc<AtomicUsize>,
    stuck_closed_at: Mutex<Instant>,
    heads: Arc<WorkPermits>,
    stop: watch::Receiver<bool>,
}

/// The connections that are open.
#[derive(Default)]
struct Open {
    connections: HashMap<u64, (IpAddr, Arc<ConnectionState>)>,
    from: HashMap<IpAddr, usize>,
    next: u64,
}

/// A connection that is counted while it is open.
struct CountedConnection {
    shared: Arc<ListenerState>,
    id: u64,
    state: Arc<ConnectionState>,
    /// Whether it uses the reserve: only administration and health checks are answered.
    reserved: bool,
}

impl Drop for CountedConnection {
    fn drop(&mut self) {
        let mut open = self.shared.open.lock();
        open.remove(self.id);
        self.shared.counts.open.fetch_sub(1, Relaxed);
    }
}

impl Open {
    fn remove(&mut self, id: u64) -> Option<Arc<ConnectionState>> {
        let (ip, state) = self.connections.remove(&id)?;
        if let Some(n) = self.from.get_mut(&ip) {
            *n -= 1;
            if *n == 0 {
                self.from.remove(&ip);
            }
        }
        Some(state)
    }

    /// Closes up to `most` connections of the lowest class; only those from the address `of`, if it is given.
    fn close_lowest(&mut self, of: Option<IpAddr>, most: usize) -> Option<(Class, usize)> {
        let mut all: Vec<(Class, u64, u64)> = self
            .connections
            .iter()
            .filter(|(_, (ip, _))| of.is_none_or(|of| of == *ip))
            .filter_map(|(id, (_, state))| state.class().map(|(class, since)| (class, since, *id)))
            .collect();
        let class = all.iter().map(|v| v.0).min()?;
        all.retain(|v| v.0 == class);
        // The sequence number of a connection orders by age more precisely than seconds do.
        all.sort_unstable_by_key(|v| (v.1, v.2));
        all.truncate(most);
        for (_, _, id) in &all {
            if let Some(state) = self.remove(*id) {
                state.cut.notify_one();
            }
        }
        Some((class, all.len()))
    }
}

impl ListenerState {
    /// Counts a new connection, which may close others. `None`: it must be refused.
    fn admit(self: &Arc<ListenerState>, ip: IpAddr) -> Option<CountedConnection> {
        let mut open = self.open.lock();
        let mut reserved = false;
        let address_full = !ip.is_loopback() && open.from.get(&ip).copied().unwrap_or(0) >= self.bounds.each;
        if address_full || open.connections.len() >= self.bounds.all {
            // Closes several at once, so that the search through all connections serves many new ones.
            let bound = if address_full { self.bounds.each } else { self.bounds.all };
            match open.close_lowest(address_full.then_some(ip), (bound / 64).max(1)) {
                Some((class, n)) => {
                    self.counts.displaced[class as usize].fetch_add(n as u64, Relaxed);
                }
                None if !address_full && open.connections.len() < self.bounds.all + RESERVE => {
                    reserved = true
                }
                None => {
                    self.counts.refused.fetch_add(1, Relaxed);
                    return None;
                }
            }
        }
        let id = open.next;
        open.next += 1;
        let state = ConnectionState::new(self.unsent.clone());
        open.connections.insert(id, (ip, state.clone()));
        *open.from.entry(ip).or_default() += 1;
        self.counts.open.fetch_add(1, Relaxed);
        Some(CountedConnection { shared: self.clone(), id, state, reserved })
    }

    /// Closes the oldest silent connections when there are too many.
    fn close_silent(&self) {
        let most = self.bounds.all / SILENT;
        let mut open = self.open.lock();
        if open.connections.len() <= most {
            return;
        }
        let mut silent: Vec<(u64, u64)> = open
            .connections
            .iter()
            .filter(|(_, (_, state))| state.class().is_some_and(|(class, _)| class == Class::Silent))
            .map(|(id, (_, state))| (state.accepted, *id))
            .collect();
        let Some(over) = silent.len().checked_sub(most).filter(|over| *over > 0) else { return };
        silent.sort_unstable();
        let old = coarse().saturating_sub(SILENCE);
        for (_, id) in silent.into_iter().take(over).take_while(|(accepted, _)| *accepted < old) {
            if let Some(state) = open.remove(id) {
                state.cut.notify_one();
                self.counts.displaced[Class::Silent as usize].fetch_add(1, Relaxed);
            }
        }
    }

    /// Closes connections whose clients take nothing while sockets hold too much unsent data, the worst
    /// first.
    fn close_stuck(&self) {
        let waits = self.unsent.load(Relaxed);
        if waits <= self.bounds.unsent {
            return;
        }
        {
            let mut last = self.stuck_closed_at.lock();
            if last.elapsed() < STUCK_INTERVAL {
                return;
            }
            *last = Instant::now();
        }
        let mut open = self.open.lock();
        let mut stuck: Vec<(usize, u64)> = open
            .connections
            .iter()
            .filter_map(|(id, (_, state))| {
                let (bytes, seconds) = state.unsent();
                (seconds >= STUCK).then_some((bytes, *id))
            })
            .collect();
        stuck.sort_unstable_by(|a, b| b.cmp(a));
        let mut over = waits - self.bounds.unsent;
        for (bytes, id) in stuck {
            if over == 0 {
                break;
            }
            over = over.saturating_sub(bytes);
            if let Some(state) = open.remove(id) {
                state.cut.notify_one();
                self.counts.cut.fetch_add(1, Relaxed);
            }
        }
    }
}

/// Accepts connections until the server stops; returns those that are still open.
#[expect(clippy::disallowed_methods, reason = "connections are not simulated, and are ended together")]
async fn accept(socket: TcpListener, shared: Arc<ListenerState>) -> JoinSet<()> {
    let mut open = JoinSet::new();
    let mut stop = shared.stop.clone();
    let mut relief = time::interval(STUCK_INTERVAL);
    loop {
        let accepted = tokio::select! {
            accepted = socket.accept() => accepted,
            _ = relief.tick() => {
                shared.close_stuck();
                shared.close_silent();
                while open.try_join_next().is_some() {}
                continue;
            }
            _ = stop.wait_for(|s| *s) => return open,
        };
        while open.try_join_next().is_some() {}
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                // Probably out of file descriptors: wait until connections end.
                tracing::warn!(%error, "a connection could not be accepted");
                time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let Some(counted) = shared.admit(peer.ip()) else {
            tracing::debug!(%peer, "too many connections");
            continue;
        };
        open.spawn(async move {
            let cut = counted.state.cut.clone();
            tokio::select! {
                () = connection(stream, peer, &counted) => {}
                () = cut.notified() => tracing::debug!(%peer, "connection closed in favour of others"),
            }
        });
    }
}

async fn connection(stream: TcpStream, peer: SocketAddr, counted: &CountedConnection) {
    let _ = stream.set_nodelay(true);
    match &counted.shared.tls {
        None => serve(Socket::Plain(stream), peer, None, counted).await,
        Some(tls) => match time::timeout(HANDSHAKE, tls.accept(stream)).await {
            Ok(Ok(stream)) => {
                let chain = stream.get_ref().1.peer_certificates().unwrap_or_default();
                let chain = chain.iter().map(|c| c.to_vec()).collect();
                serve(Socket::Tls(Box::new(stream)), peer, Some(chain), counted).await;
            }
            Ok(Err(error)) => tracing::debug!(%peer, %error, "TLS handshake failed"),
            Err(_) => tracing::debug!(%peer, "TLS handshake took too long"),
        },
    }
}

/// Serves one connection; `tls`: the client's certificates.
async fn serve(stream: Socket, peer: SocketAddr, tls: Option<Vec<Vec<u8>>>, counted: &CountedConnection) {
    let CountedConnection { shared, state, reserved, .. } = counted;
    let io = TokioIo::new(Watched::new(stream, state.clone(), shared.heads.clone()));
    let watch = state.watch.clone();
    let peer =
        Arc::new(Peer { address: peer, tls: tls.is_some(), certificates: tls.unwrap_or_default(), watch });
    let service = service_fn(|request| {
        let (routes, peer, running) = (shared.routes.clone(), peer.clone(), state.begin());
        let (purpose, reserved) = (shared.purpose, *reserved);
        async move {
            let response = match purpose {
                Purpose::Administration => Box::pin(routes.administer(request, &peer)).await,
                Purpose::Console => Box::pin(routes.console(request, &peer)).await,
                Purpose::Everything if reserved && !routes.is_own(&request) => {
                    routes.connections().busy.fetch_add(1, Relaxed);
                    busy()
                }
                // On the heap: hyper reserves space for the whole future in each connection, idle or not.
                Purpose::Everything => Box::pin(routes.answer(request, &peer)).await,
            };
            // The request lasts until its answer has been sent.
            let sets = routes.sets();
            Ok::<_, std::convert::Infallible>(response.map(|body| Outgoing::new(body, running, sets)))
        }
    });
    let mut http = http1::Builder::new();
    http.max_buf_size(MAX_BUFFER).max_header_size(MAX_HEAD).max_headers(256).header_read_timeout(None);
    let mut running = std::pin::pin!(http.serve_connection(io, service));
    let mut look = time::interval(CHECK_INTERVAL);
    let mut stop = shared.stop.clone();
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
                if let Some(why) = state.close_reason() {
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
