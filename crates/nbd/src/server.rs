//! The server: listeners, the connections that they accept, and their end.
//!
//! Invariants: a connection beyond the limit is closed at once; a Unix socket has its file mode before it has its name, so
//! nobody else can connect to it in between; a name that a running program listens at is not taken.
//!
//! Must not depend on: the options and requests of clients.

use std::fmt;
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ashlar_environment::{net, thread, time::Instant};
use parking_lot::Mutex;
use rustls::ServerConfig;

use crate::budget::Budget;
use crate::connection::{Connection, Counters, WORKERS};
use crate::device::Exports;
use crate::error::Error;
use crate::negotiate::{Offer, negotiate};
use crate::wire::{Socket, TICK, Wire};

/// Time after which `accept` returns, to see whether the server stops.
const ACCEPT: Duration = Duration::from_millis(300);
/// Time that connections have to end when the server stops.
const FAREWELL: Duration = Duration::from_secs(10);
/// Time for a message, beside that for its length.
const PATIENCE: Duration = Duration::from_secs(60);

/// Where a server listens: `HOST:PORT` or `unix:PATH`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Endpoint {
    /// A TCP address.
    Tcp(String),
    /// The path of a Unix socket.
    Unix(PathBuf),
}

impl FromStr for Endpoint {
    type Err = String;

    fn from_str(s: &str) -> Result<Endpoint, String> {
        match s.strip_prefix("unix:") {
            Some("") => Err("unix: is followed by the path of a socket".into()),
            Some(path) => Ok(Endpoint::Unix(path.into())),
            None if s
                .rsplit_once(':')
                .is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok()) =>
            {
                Ok(Endpoint::Tcp(s.to_owned()))
            }
            None => Err(format!("{s:?} is neither HOST:PORT nor unix:PATH")),
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Endpoint::Tcp(address) => f.write_str(address),
            Endpoint::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// TLS of a server.
#[derive(Clone)]
pub struct Tls {
    /// Certificate, key, and what is asked of clients.
    pub config: Arc<ServerConfig>,
    /// Clients must use it.
    pub required: bool,
}

/// Bounds of a server.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Connections at once.
    pub connections: usize,
    /// Bytes of data in memory, of all connections.
    pub memory: u64,
    /// The file mode of Unix sockets.
    pub socket_mode: u32,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { connections: 64, memory: 256 << 20, socket_mode: 0o600 }
    }
}

/// Bytes of data in memory of one connection: two of the largest requests, and some.
const PER_CONNECTION: u64 = 2 * crate::MAX_PAYLOAD as u64 + (4 << 20);

/// What a server has counted since it was started.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Statistics {
    /// Connections that are open.
    pub connections: u64,
    /// Connections that were accepted.
    pub accepted: u64,
    /// Connections that were closed at once, because there were too many.
    pub refused: u64,
    /// Read requests.
    pub reads: u64,
    /// Write requests.
    pub writes: u64,
    /// Other requests.
    pub others: u64,
    /// Bytes asked for by reads.
    pub bytes_read: u64,
    /// Bytes of writes.
    pub bytes_written: u64,
    /// Requests that were refused before a device was asked.
    pub errors: u64,
}

struct Shared {
    exports: Arc<dyn Exports>,
    tls: Option<Tls>,
    limits: Limits,
    budget: Arc<Budget>,
    counters: Arc<Counters>,
    stopping: Arc<AtomicBool>,
    /// Sockets of open connections, to end them.
    open: Mutex<Vec<Arc<dyn Socket>>>,
}

/// A server in operation.
pub struct Server {
    shared: Arc<Shared>,
    listeners: Mutex<Vec<thread::JoinHandle<()>>>,
    endpoints: Vec<Endpoint>,
}

enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Server {
    /// Listens at all endpoints and serves until [`Server::stop`].
    ///
    /// # Errors
    /// [`Error::Listen`]; then nothing is served.
    pub fn start(
        endpoints: &[Endpoint],
        exports: Arc<dyn Exports>,
        tls: Option<Tls>,
        limits: Limits,
    ) -> Result<Server, Error> {
        let memory = limits.memory.max(PER_CONNECTION);
        let shared = Arc::new(Shared {
            exports,
            tls,
            limits,
            budget: Budget::new(memory, None),
            counters: Arc::default(),
            stopping: Arc::default(),
            open: Mutex::default(),
        });
        let mut server = Server { shared, listeners: Mutex::default(), endpoints: Vec::new() };
        for endpoint in endpoints {
            let failed = |error| Error::Listen { endpoint: endpoint.to_string(), error };
            let (listener, bound) = listen(endpoint, limits.socket_mode).map_err(failed)?;
            let shared = server.shared.clone();
            let handle =
                thread::start("nbd-accept", None, move || accept(&listener, &shared)).map_err(failed)?;
            server.listeners.lock().push(handle);
            server.endpoints.push(bound);
        }
        Ok(server)
    }

    /// Where it listens, with the ports that the system chose.
    #[must_use]
    pub fn endpoints(&self) -> &[Endpoint] {
        &self.endpoints
    }

    /// What it has counted.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        let c = &self.shared.counters;
        let of = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
        Statistics {
            connections: of(&c.connections),
            accepted: of(&c.accepted),
            refused: of(&c.refused),
            reads: of(&c.reads),
            writes: of(&c.writes),
            others: of(&c.others),
            bytes_read: of(&c.bytes_read),
            bytes_written: of(&c.bytes_written),
            errors: of(&c.errors),
        }
    }

    /// Accepts no more, answers the requests that have arrived, and closes all connections.
    pub fn stop(&self) {
        self.shared.stopping.store(true, Ordering::Release);
        for listener in self.listeners.lock().drain(..) {
            // A listener that panicked listens no more.
            let _ = listener.join();
        }
        for endpoint in &self.endpoints {
            if let Endpoint::Unix(path) = endpoint {
                let _ = std::fs::remove_file(path);
            }
        }
        // Threads that wait for requests see the end of the stream.
        self.shared.open.lock().iter().for_each(|s| s.shut(std::net::Shutdown::Read));
        let until = Instant::now() + FAREWELL;
        while !self.shared.open.lock().is_empty() && Instant::now() < until {
            thread::sleep(Duration::from_millis(5));
        }
        self.shared.open.lock().iter().for_each(|s| s.shut(std::net::Shutdown::Both));
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

fn listen(endpoint: &Endpoint, mode: u32) -> io::Result<(Listener, Endpoint)> {
    match endpoint {
        Endpoint::Tcp(address) => {
            let listener = net::bind_blocking(address.as_str())?;
            limit_accept(listener.try_clone()?.into())?;
            let bound = listener.local_addr()?;
            Ok((Listener::Tcp(listener), Endpoint::Tcp(bound.to_string())))
        }
        Endpoint::Unix(path) => {
            let listener = listen_unix(path, mode)?;
            limit_accept(listener.try_clone()?.into())?;
            Ok((Listener::Unix(listener), endpoint.clone()))
        }
    }
}

/// Lets `accept` end with `WouldBlock` after [`ACCEPT`]: the option of the socket for receiving is also that of accepting.
fn limit_accept(listener: OwnedFd) -> io::Result<()> {
    UnixStream::from(listener).set_read_timeout(Some(ACCEPT))
}

/// Listens at a path with a file mode. A socket that nobody listens at any more is replaced.
///
/// # Errors
/// `AddrInUse` if a program listens there, `AlreadyExists` if something else is there; the errors of the system.
pub fn listen_unix(path: &Path, mode: u32) -> io::Result<UnixListener> {
    match std::fs::symlink_metadata(path) {
        Ok(_) if UnixStream::connect(path).is_ok() => {
            return Err(io::Error::new(ErrorKind::AddrInUse, "a program listens there"));
        }
        Ok(found) if !std::os::unix::fs::FileTypeExt::is_socket(&found.file_type()) => {
            return Err(io::Error::new(ErrorKind::AlreadyExists, "a file that is no socket is there"));
        }
        _ => {}
    }
    // Nobody else enters this folder.
    let mut private = path.as_os_str().to_owned();
    private.push(".new");
    let private = PathBuf::from(private);
    let _ = std::fs::remove_dir_all(&private);
    std::fs::DirBuilder::new().mode(0o700).create(&private)?;
    let made = private.join("s");
    let listener = UnixListener::bind(&made).and_then(|listener| {
        std::fs::set_permissions(&made, std::fs::Permissions::from_mode(mode))?;
        std::fs::rename(&made, path)?;
        Ok(listener)
    });
    let _ = std::fs::remove_dir_all(&private);
    listener
}

fn accept(listener: &Listener, shared: &Arc<Shared>) {
    while !shared.stopping.load(Ordering::Acquire) {
        let accepted = match listener {
            Listener::Tcp(l) => l.accept().and_then(|(s, from)| prepare_tcp(s, from)),
            Listener::Unix(l) => l.accept().and_then(|(s, _)| prepare_unix(s)),
        };
        match accepted {
            Ok((socket, from)) => begin(socket, from, shared),
            Err(e)
                if matches!(
                    e.kind(),
                    ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
                ) => {}
            Err(error) => {
                // Out of files, or a client that is gone already.
                tracing::warn!(%error, "cannot accept an NBD connection");
                thread::sleep(ACCEPT);
            }
        }
    }
}

fn prepare_tcp(socket: TcpStream, from: SocketAddr) -> io::Result<(Arc<dyn Socket>, String)> {
    ashlar_machine::tune_socket(&socket)?;
    socket.set_read_timeout(Some(TICK))?;
    socket.set_write_timeout(Some(TICK))?;
    Ok((Arc::new(socket), from.to_string()))
}

fn prepare_unix(socket: UnixStream) -> io::Result<(Arc<dyn Socket>, String)> {
    socket.set_read_timeout(Some(TICK))?;
    socket.set_write_timeout(Some(TICK))?;
    Ok((Arc::new(socket), "the Unix socket".to_owned()))
}

fn begin(socket: Arc<dyn Socket>, from: String, shared: &Arc<Shared>) {
    let counters = &shared.counters;
    {
        let mut open = shared.open.lock();
        if open.len() >= shared.limits.connections {
            counters.refused.fetch_add(1, Ordering::Relaxed);
            tracing::warn!(from, "an NBD connection was closed: there are too many");
            socket.shut(std::net::Shutdown::Both);
            return;
        }
        open.push(socket.clone());
    }
    counters.accepted.fetch_add(1, Ordering::Relaxed);
    counters.connections.fetch_add(1, Ordering::Relaxed);
    let (mine, kept) = (shared.clone(), socket.clone());
    let started = thread::start("nbd", None, move || serve(&mine, socket, &from));
    if let Err(error) = started {
        tracing::warn!(%error, "cannot start a thread for an NBD connection");
        kept.shut(std::net::Shutdown::Both);
        forget(shared, &kept);
    }
}

fn forget(shared: &Shared, socket: &Arc<dyn Socket>) {
    shared.open.lock().retain(|s| !Arc::ptr_eq(s, socket));
    shared.counters.connections.fetch_sub(1, Ordering::Relaxed);
}

fn serve(shared: &Arc<Shared>, socket: Arc<dyn Socket>, from: &str) {
    let mut wire = Wire::new(socket.clone(), PATIENCE);
    let offer = Offer {
        exports: &*shared.exports,
        tls: shared.tls.as_ref().map(|t| &t.config),
        tls_required: shared.tls.as_ref().is_some_and(|t| t.required),
    };
    let agreed = match negotiate(&mut wire, &offer) {
        Ok(Some(agreed)) => agreed,
        other => {
            if let Err(error) = other {
                tracing::warn!(from, %error, "an NBD negotiation failed");
            }
            wire.close();
            return forget(shared, &socket);
        }
    };
    tracing::info!(
        from,
        export = agreed.export.name,
        tls = wire.is_encrypted(),
        "an NBD client is connected"
    );
    let budget = Budget::new(PER_CONNECTION, Some(shared.budget.clone()));
    let (counters, stopping) = (shared.counters.clone(), shared.stopping.clone());
    let connection = Connection::new(wire, agreed, budget, counters, stopping, WORKERS);
    let shared = shared.clone();
    connection.work(&move || forget(&shared, &socket));
}
