//! The server: listeners, the connections that they accept, and their end.
//!
//! Invariant: a connection beyond the limit is closed at once.
//!
//! Must not depend on: PDUs, commands.

use std::io::{self, ErrorKind};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::ops::RangeInclusive;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use ashlar_environment::{net, thread, time::Instant};
use parking_lot::Mutex;

use crate::channel;
use crate::connection::{Connection, WORKERS};
use crate::controller::{AUTHENTICATION, Core, LAST_CONTROLLER};
use crate::error::Error;
use crate::flow::LEAST_WINDOW;
use crate::namespace::Subsystems;
use crate::wire::{Socket, TICK, Wire};

/// Time after which `accept` returns, to see whether the server stops and which controllers end.
const ACCEPT: Duration = Duration::from_millis(300);
/// Time that connections have to end when the server stops.
const FAREWELL: Duration = Duration::from_secs(10);
/// Time for a PDU, beside that for its length, and for the Connect of a connection.
const PATIENCE: Duration = Duration::from_secs(60);

/// Bounds of a server.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Connections at once. A host has one for its admin queue and up to eight for I/O queues, for each subsystem.
    pub connections: usize,
    /// Bytes of data in memory, of all connections: each has an equal share, at least 2 MiB. Beside that a connection has up
    /// to 1 MiB for data in capsules.
    pub memory: u64,
    /// Time for the handshake of TLS, at most a minute, and from the Connect of a queue until its host is authenticated, if it has to be.
    pub authentication: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { connections: 64, memory: 256 << 20, authentication: AUTHENTICATION }
    }
}

/// What a server has counted since it was started.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Statistics {
    /// Connections that are open.
    pub connections: u64,
    /// Controllers: hosts that are connected.
    pub controllers: u64,
    /// Connections that were accepted.
    pub accepted: u64,
    /// Connections that were closed at once, because there were too many.
    pub refused: u64,
    /// Connections that were ended because of a PDU that breaks the protocol.
    pub broken: u64,
    /// Read commands.
    pub reads: u64,
    /// Write commands.
    pub writes: u64,
    /// Other I/O commands.
    pub others: u64,
    /// Bytes of read commands.
    pub bytes_read: u64,
    /// Bytes of write commands.
    pub bytes_written: u64,
    /// Commands that failed.
    pub errors: u64,
    /// Queues that were refused because their host may not connect, was not authenticated, or did not begin TLS as it has to.
    pub unauthenticated: u64,
}

struct Shared {
    core: Arc<Core>,
    limits: Limits,
    /// Sockets of open connections, to end them.
    open: Mutex<Vec<Arc<dyn Socket>>>,
}

/// A server in operation.
pub struct Server {
    shared: Arc<Shared>,
    listeners: Mutex<Vec<thread::JoinHandle<()>>>,
}

impl Server {
    /// Listens at all addresses, each `HOST:PORT`, and serves until [`Server::stop`].
    ///
    /// # Errors
    /// [`Error::Listen`]; then nothing is served.
    pub fn start(
        addresses: &[String],
        subsystems: Arc<dyn Subsystems>,
        limits: Limits,
    ) -> Result<Server, Error> {
        Server::start_with(addresses, subsystems, limits, 1..=LAST_CONTROLLER)
    }

    /// As [`Server::start`], for one of several servers of the same subsystems: a host that is connected to several needs
    /// controllers with different numbers (CNTLID, Base 3.1.1), so each server has a range of its own, within 1 to 0xffef.
    ///
    /// # Errors
    /// [`Error::Listen`]; then nothing is served.
    pub fn start_with(
        addresses: &[String],
        subsystems: Arc<dyn Subsystems>,
        limits: Limits,
        controllers: RangeInclusive<u16>,
    ) -> Result<Server, Error> {
        let share = limits.memory / limits.connections.max(1) as u64;
        let window = (share as usize).max(LEAST_WINDOW);
        let core = Core::with_numbers(subsystems, window, WORKERS, controllers, limits.authentication);
        let shared = Arc::new(Shared { core, limits, open: Mutex::default() });
        let server = Server { shared, listeners: Mutex::default() };
        let mut bound = Vec::new();
        for address in addresses {
            let failed = |error| Error::Listen { address: address.clone(), error };
            let listener = net::bind_blocking(address.as_str()).map_err(failed)?;
            let copy = listener.try_clone().and_then(|l| limit_accept(l.into()));
            copy.map_err(failed)?;
            server.shared.core.addresses.write().push(listener.local_addr().map_err(failed)?);
            bound.push((listener, address));
        }
        for (listener, address) in bound {
            let shared = server.shared.clone();
            let handle = thread::start("nvme-accept", None, move || accept(&listener, &shared));
            let handle = handle.map_err(|error| Error::Listen { address: address.clone(), error })?;
            server.listeners.lock().push(handle);
        }
        Ok(server)
    }

    /// Where it listens, with the ports that the system chose.
    #[must_use]
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.shared.core.addresses.read().clone()
    }

    /// What it has counted.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        let c = &self.shared.core.counters;
        let of = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
        Statistics {
            connections: of(&c.connections),
            controllers: self.shared.core.controllers() as u64,
            accepted: of(&c.accepted),
            refused: of(&c.refused),
            broken: of(&c.broken),
            reads: of(&c.reads),
            writes: of(&c.writes),
            others: of(&c.others),
            bytes_read: of(&c.bytes_read),
            bytes_written: of(&c.bytes_written),
            errors: of(&c.errors),
            unauthenticated: of(&c.unauthenticated),
        }
    }

    /// Breaks all connections at once, as a port that loses its link: commands that are executed are not answered. Accepts no
    /// more. The server is to be dropped then.
    pub fn cut(&self) {
        self.shared.core.stopping.store(true, Ordering::Release);
        self.shared.open.lock().iter().for_each(|s| s.shut(Shutdown::Both));
    }

    /// Accepts no more, answers the commands that have arrived, and closes all connections.
    pub fn stop(&self) {
        self.shared.core.stopping.store(true, Ordering::Release);
        for listener in self.listeners.lock().drain(..) {
            // A listener that panicked listens no more.
            let _ = listener.join();
        }
        // Threads that wait for commands see the end of the stream.
        self.shared.open.lock().iter().for_each(|s| s.shut(Shutdown::Read));
        let until = Instant::now() + FAREWELL;
        while !self.shared.open.lock().is_empty() && Instant::now() < until {
            thread::sleep(Duration::from_millis(5));
        }
        self.shared.open.lock().iter().for_each(|s| s.shut(Shutdown::Both));
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Lets `accept` end with `WouldBlock` after [`ACCEPT`]: the option of the socket for receiving is also that of accepting.
fn limit_accept(listener: OwnedFd) -> io::Result<()> {
    UnixStream::from(listener).set_read_timeout(Some(ACCEPT))
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    while !shared.core.stopping.load(Ordering::Acquire) {
        match listener.accept().and_then(|(s, from)| prepare(s, from)) {
            Ok((socket, from)) => begin(socket, from, shared),
            Err(e)
                if matches!(
                    e.kind(),
                    ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
                ) => {}
            Err(error) => {
                // Out of files, or a host that is gone already.
                tracing::warn!(%error, "cannot accept an NVMe connection");
                thread::sleep(ACCEPT);
            }
        }
        shared.core.expire();
    }
}

fn prepare(socket: TcpStream, from: SocketAddr) -> io::Result<(Arc<TcpStream>, String)> {
    ashlar_machine::tune_socket(&socket)?;
    socket.set_read_timeout(Some(TICK))?;
    socket.set_write_timeout(Some(TICK))?;
    Ok((Arc::new(socket), from.to_string()))
}

fn begin(stream: Arc<TcpStream>, from: String, shared: &Arc<Shared>) {
    let socket: Arc<dyn Socket> = stream.clone();
    let counters = &shared.core.counters;
    {
        let mut open = shared.open.lock();
        if open.len() >= shared.limits.connections {
            counters.refused.fetch_add(1, Ordering::Relaxed);
            tracing::warn!(from, "an NVMe connection was closed: there are too many");
            socket.shut(Shutdown::Both);
            return;
        }
        open.push(socket.clone());
    }
    counters.accepted.fetch_add(1, Ordering::Relaxed);
    counters.connections.fetch_add(1, Ordering::Relaxed);
    let (mine, kept) = (shared.clone(), socket.clone());
    let started = thread::start("nvme", None, move || {
        let Some((channel, peer)) = channel::begin(&stream, &from, &mine.core, PATIENCE) else {
            socket.shut(Shutdown::Both);
            return forget(&mine, &socket);
        };
        let wire = Wire::new(channel, PATIENCE);
        let connection = Connection::new(wire, from, peer, mine.core.clone());
        connection.work(&move || forget(&mine, &socket));
    });
    if let Err(error) = started {
        tracing::warn!(%error, "cannot start a thread for an NVMe connection");
        kept.shut(Shutdown::Both);
        forget(shared, &kept);
    }
}

fn forget(shared: &Shared, socket: &Arc<dyn Socket>) {
    shared.open.lock().retain(|s| !Arc::ptr_eq(s, socket));
    shared.core.counters.connections.fetch_sub(1, Ordering::Relaxed);
}
