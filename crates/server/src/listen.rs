//! Accepting connections and serving HTTP/1.1 on them, until told to stop.
//!
//! Invariants: connections are bounded, in all and per address; a new one displaces those that have shown nothing,
//! oldest first, and is refused only when there are none; [`RESERVE`] places beyond the bound are for administration
//! and health; stopping lets what is in flight end; an accept that fails never ends the loop.

use ashlar_environment::time::{self, Instant};
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use ashlar_s3::Turns;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use super::clock::coarse;
use super::connection::{Class, Counts, LOOK, Life, Outgoing, Peer, Watched};
use super::limits::Bounds;
use super::responses::busy;
use super::routes::Routes;

/// Connections beyond the bound, for administration and health.
const RESERVE: usize = 64;
/// Connections whose clients take nothing for so many seconds are cut when too much of answers waits.
const STUCK: u64 = 2;
/// One in so many connections may be silent: never permitted anything, and without a request.
const SILENT: usize = 4;
/// Seconds for which a connection may be silent in any case.
const SILENCE: u64 = 1;
/// How often they are looked for.
const RELIEF: Duration = Duration::from_millis(200);
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
    #[expect(clippy::disallowed_methods, reason = "connections are not simulated, and are ended together")]
    pub async fn serve(
        self,
        routes: Arc<Routes>,
        bounds: Bounds,
        stop: watch::Receiver<bool>,
        patience: Duration,
    ) {
        let mut accepting = JoinSet::new();
        let doors = Arc::new(Doors {
            tls: self.tls,
            admin: self.admin,
            bounds,
            open: Mutex::default(),
            counts: routes.connections().clone(),
            unsent: Arc::default(),
            relieved: Mutex::new(Instant::now()),
            heads: routes.heads().clone(),
            stop: stop.clone(),
            routes,
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
        if time::timeout(patience, all).await.is_err() {
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
    // As many as most systems allow: what does not fit waits a second or more for its next try.
    socket.listen(4096)
}

/// What every connection needs.
struct Doors {
    routes: Arc<Routes>,
    tls: Option<TlsAcceptor>,
    admin: bool,
    bounds: Bounds,
    open: Mutex<Open>,
    counts: Arc<Counts>,
    /// Bytes of answers that sockets have not taken.
    unsent: Arc<AtomicUsize>,
    relieved: Mutex<Instant>,
    heads: Arc<Turns>,
    stop: watch::Receiver<bool>,
}

/// The connections that are open.
#[derive(Default)]
struct Open {
    lives: HashMap<u64, (IpAddr, Arc<Life>)>,
    from: HashMap<IpAddr, usize>,
    next: u64,
}

/// A connection counted while it lives.
struct Counted {
    doors: Arc<Doors>,
    id: u64,
    life: Arc<Life>,
    /// It is beyond the bound: only administration and health are answered.
    reserved: bool,
}

impl Drop for Counted {
    fn drop(&mut self) {
        let mut open = self.doors.open.lock();
        open.remove(self.id);
        self.doors.counts.open.fetch_sub(1, Relaxed);
    }
}

impl Open {
    fn remove(&mut self, id: u64) -> Option<Arc<Life>> {
        let (ip, life) = self.lives.remove(&id)?;
        if let Some(n) = self.from.get_mut(&ip) {
            *n -= 1;
            if *n == 0 {
                self.from.remove(&ip);
            }
        }
        Some(life)
    }

    /// Ends connections that make room first, up to `most`, all of one class; of one address only, if it is given.
    fn displace(&mut self, of: Option<IpAddr>, most: usize) -> Option<(Class, usize)> {
        let mut all: Vec<(Class, u64, u64)> = self
            .lives
            .iter()
            .filter(|(_, (ip, _))| of.is_none_or(|of| of == *ip))
            .filter_map(|(id, (_, life))| life.class().map(|(class, since)| (class, since, *id)))
            .collect();
        let class = all.iter().map(|v| v.0).min()?;
        all.retain(|v| v.0 == class);
        // The number of a connection tells its age better than seconds do.
        all.sort_unstable_by_key(|v| (v.1, v.2));
        all.truncate(most);
        for (_, _, id) in &all {
            if let Some(life) = self.remove(*id) {
                life.cut.notify_one();
            }
        }
        Some((class, all.len()))
    }
}

impl Doors {
    /// Counts a new connection, which may cost others theirs. `None`: there is no room.
    fn admit(self: &Arc<Doors>, ip: IpAddr) -> Option<Counted> {
        let mut open = self.open.lock();
        let mut reserved = false;
        let crowd = !ip.is_loopback() && open.from.get(&ip).copied().unwrap_or(0) >= self.bounds.each;
        if crowd || open.lives.len() >= self.bounds.all {
            // Several at once, so that looking at all of them is done once for many.
            let bound = if crowd { self.bounds.each } else { self.bounds.all };
            match open.displace(crowd.then_some(ip), (bound / 64).max(1)) {
                Some((class, n)) => {
                    self.counts.displaced[class as usize].fetch_add(n as u64, Relaxed);
                }
                None if !crowd && open.lives.len() < self.bounds.all + RESERVE => reserved = true,
                None => {
                    self.counts.refused.fetch_add(1, Relaxed);
                    return None;
                }
            }
        }
        let id = open.next;
        open.next += 1;
        let life = Life::new(self.unsent.clone());
        open.lives.insert(id, (ip, life.clone()));
        *open.from.entry(ip).or_default() += 1;
        self.counts.open.fetch_add(1, Relaxed);
        Some(Counted { doors: self.clone(), id, life, reserved })
    }

    /// Ends the oldest of the connections that have shown nothing, when these are too many.
    fn end_silent(&self) {
        let most = self.bounds.all / SILENT;
        let mut open = self.open.lock();
        if open.lives.len() <= most {
            return;
        }
        let mut silent: Vec<(u64, u64)> = open
            .lives
            .iter()
            .filter(|(_, (_, life))| life.class().is_some_and(|(class, _)| class == Class::Silent))
            .map(|(id, (_, life))| (life.accepted, *id))
            .collect();
        let Some(over) = silent.len().checked_sub(most).filter(|over| *over > 0) else { return };
        silent.sort_unstable();
        let old = coarse().saturating_sub(SILENCE);
        for (_, id) in silent.into_iter().take(over).take_while(|(accepted, _)| *accepted < old) {
            if let Some(life) = open.remove(id) {
                life.cut.notify_one();
                self.counts.displaced[Class::Silent as usize].fetch_add(1, Relaxed);
            }
        }
    }

    /// Cuts connections whose clients take nothing while too much of answers waits, the worst first.
    fn relieve(&self) {
        let waits = self.unsent.load(Relaxed);
        if waits <= self.bounds.unsent {
            return;
        }
        {
            let mut last = self.relieved.lock();
            if last.elapsed() < RELIEF {
                return;
            }
            *last = Instant::now();
        }
        let mut open = self.open.lock();
        let mut stuck: Vec<(usize, u64)> = open
            .lives
            .iter()
            .filter_map(|(id, (_, life))| {
                let (bytes, seconds) = life.unsent();
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
            if let Some(life) = open.remove(id) {
                life.cut.notify_one();
                self.counts.cut.fetch_add(1, Relaxed);
            }
        }
    }
}

/// Accepts until told to stop; answers the connections that are still open.
#[expect(clippy::disallowed_methods, reason = "connections are not simulated, and are ended together")]
async fn accept(socket: TcpListener, doors: Arc<Doors>) -> JoinSet<()> {
    let mut open = JoinSet::new();
    let mut stop = doors.stop.clone();
    let mut relief = time::interval(RELIEF);
    loop {
        let accepted = tokio::select! {
            accepted = socket.accept() => accepted,
            _ = relief.tick() => {
                doors.relieve();
                doors.end_silent();
                while open.try_join_next().is_some() {}
                continue;
            }
            _ = stop.wait_for(|s| *s) => return open,
        };
        while open.try_join_next().is_some() {}
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                // Out of descriptors, most likely: give connections time to end.
                tracing::warn!(%error, "a connection could not be accepted");
                time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let Some(counted) = doors.admit(peer.ip()) else {
            tracing::debug!(%peer, "too many connections");
            continue;
        };
        open.spawn(async move {
            let cut = counted.life.cut.clone();
            tokio::select! {
                () = connection(stream, peer, &counted) => {}
                () = cut.notified() => tracing::debug!(%peer, "connection ended to make room for others"),
            }
        });
    }
}

async fn connection(stream: TcpStream, peer: SocketAddr, counted: &Counted) {
    let _ = stream.set_nodelay(true);
    match &counted.doors.tls {
        None => serve(stream, peer, None, counted).await,
        Some(tls) => match time::timeout(HANDSHAKE, tls.accept(stream)).await {
            Ok(Ok(stream)) => {
                let chain = stream.get_ref().1.peer_certificates().unwrap_or_default();
                let chain = chain.iter().map(|c| c.to_vec()).collect();
                serve(stream, peer, Some(chain), counted).await;
            }
            Ok(Err(error)) => tracing::debug!(%peer, %error, "TLS handshake failed"),
            Err(_) => tracing::debug!(%peer, "TLS handshake took too long"),
        },
    }
}

/// Answers a connection; `tls`: the client's certificates.
async fn serve<S>(stream: S, peer: SocketAddr, tls: Option<Vec<Vec<u8>>>, counted: &Counted)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let Counted { doors, life, reserved, .. } = counted;
    let io = TokioIo::new(Watched::new(stream, life.clone(), doors.heads.clone()));
    let watch = life.watch.clone();
    let peer =
        Arc::new(Peer { address: peer, tls: tls.is_some(), certificates: tls.unwrap_or_default(), watch });
    let service = service_fn(|request| {
        let (routes, peer, running) = (doors.routes.clone(), peer.clone(), life.begin());
        let (admin, reserved) = (doors.admin, *reserved);
        async move {
            let response = match admin {
                true => Box::pin(routes.administer(request, &peer)).await,
                false if reserved && !routes.is_own(&request) => {
                    routes.connections().busy.fetch_add(1, Relaxed);
                    busy()
                }
                // On the heap: hyper keeps room for the whole future in each connection, idle or not.
                false => Box::pin(routes.answer(request, &peer)).await,
            };
            // The request lasts until its answer has left.
            let sets = routes.sets();
            Ok::<_, std::convert::Infallible>(response.map(|body| Outgoing::new(body, running, sets)))
        }
    });
    let mut http = http1::Builder::new();
    http.max_buf_size(MAX_BUFFER).max_header_size(MAX_HEAD).max_headers(256).header_read_timeout(None);
    let mut running = std::pin::pin!(http.serve_connection(io, service));
    let mut look = time::interval(LOOK);
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
