//! A target that can be stopped and started again at its address, and a proxy before it.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::host::{Address, HostOptions, Portal, RemoteNamespace};
use crate::memory::{Alone, Memory, Only};
use crate::namespace::{Namespace, Subsystems};
use crate::pdu::{COMMON, u32_at};
use crate::samples::NQN;
use crate::server::{Limits, Server};

pub(super) const LONG: Duration = Duration::from_secs(60);

pub(super) fn only(namespace: Arc<dyn Namespace>) -> Arc<dyn Subsystems> {
    Arc::new(Only(Arc::new(Alone::new(NQN, namespace))))
}

/// A server at an address that stays the same.
pub(super) struct Target {
    pub(super) address: SocketAddr,
    subsystems: Arc<dyn Subsystems>,
    server: Mutex<Option<Server>>,
}

impl Target {
    pub(super) fn of(subsystems: Arc<dyn Subsystems>) -> Target {
        let server = Server::start(&["127.0.0.1:0".into()], subsystems.clone(), Limits::default()).unwrap();
        Target { address: server.addresses()[0], subsystems, server: Mutex::new(Some(server)) }
    }

    pub(super) fn memory(block: u32, blocks: u64) -> Target {
        Target::of(only(Memory::new(block, blocks)))
    }

    pub(super) fn stop(&self) {
        drop(self.server.lock().take());
    }

    /// Listens again. The port may be taken for a moment.
    pub(super) fn start(&self) {
        until(|| {
            let made = Server::start(&[self.address.to_string()], self.subsystems.clone(), Limits::default());
            made.map(|s| *self.server.lock() = Some(s)).is_ok()
        });
    }

    pub(super) fn namespace(&self, options: HostOptions) -> RemoteNamespace {
        RemoteNamespace::attach(&at(self.address, NQN, 1), options).unwrap()
    }
}

pub(super) fn at(socket: SocketAddr, nqn: &str, nsid: u32) -> Address {
    across(&[socket], nqn, nsid)
}

/// A namespace that is reached through several ports.
pub(super) fn across(sockets: &[SocketAddr], nqn: &str, nsid: u32) -> Address {
    let portals = sockets.iter().map(|s| Portal { host: s.ip().to_string(), port: s.port() }).collect();
    Address { portals, discovery: false, nqn: nqn.into(), nsid }
}

pub(super) fn options() -> HostOptions {
    HostOptions {
        fast_io_fail_timeout: LONG,
        first_delay: Duration::from_millis(5),
        reconnect_delay: Duration::from_millis(50),
        quiesce: Duration::from_millis(100),
        ..HostOptions::new().unwrap()
    }
}

/// Waits for a condition.
pub(super) fn until(mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + LONG;
    while !holds() {
        assert!(Instant::now() < end, "it does not happen");
        std::thread::sleep(Duration::from_millis(2));
    }
}

pub(super) fn content(seed: u64, len: usize) -> Vec<u8> {
    let mut out = vec![0; len];
    ashlar_environment::random::Seeded::new(seed).fill(&mut out);
    out
}

/// What happens to a PDU of the target.
pub(super) enum Fate {
    Pass,
    /// The connection ends instead.
    Cut,
    /// It never arrives, and nothing after it.
    Silence,
}

type Tamper = Arc<Mutex<dyn FnMut(&mut Vec<u8>) -> Fate + Send>>;

/// A proxy that shows every PDU of the target to a function, which may change it.
pub(super) struct Proxy {
    pub(super) address: SocketAddr,
    ended: Arc<AtomicBool>,
    /// Both ends of its connections.
    open: Arc<Mutex<Vec<TcpStream>>>,
}

impl Proxy {
    pub(super) fn before(
        target: SocketAddr,
        tamper: impl FnMut(&mut Vec<u8>) -> Fate + Send + 'static,
    ) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, ended) = (listener.local_addr().unwrap(), Arc::new(AtomicBool::new(false)));
        let (tamper, stop): (Tamper, _) = (Arc::new(Mutex::new(tamper)), ended.clone());
        let open = Arc::new(Mutex::new(Vec::new()));
        let mine = open.clone();
        std::thread::spawn(move || {
            for host in listener.incoming() {
                if stop.load(Ordering::Acquire) {
                    return;
                }
                let (host, Ok(target)) = (host.unwrap(), TcpStream::connect(target)) else { continue };
                mine.lock().extend([host.try_clone().unwrap(), target.try_clone().unwrap()]);
                pump(&host, &target, tamper.clone());
            }
        });
        Proxy { address, ended, open }
    }

    /// Passes everything on.
    pub(super) fn plain(target: SocketAddr) -> Proxy {
        Proxy::before(target, |_| Fate::Pass)
    }

    /// Ends all connections.
    pub(super) fn cut(&self) {
        self.open.lock().drain(..).for_each(|s| drop(s.shutdown(Shutdown::Both)));
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Release);
        let _ = TcpStream::connect(self.address);
    }
}

fn pump(host: &TcpStream, target: &TcpStream, tamper: Tamper) {
    let (mut from, mut to) = (host.try_clone().unwrap(), target.try_clone().unwrap());
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut from, &mut to);
        let _ = to.shutdown(Shutdown::Both);
    });
    let (mut from, mut to) = (target.try_clone().unwrap(), host.try_clone().unwrap());
    std::thread::spawn(move || {
        let mut silent = false;
        while let Some(mut pdu) = next(&mut from) {
            let fate = if silent { Fate::Silence } else { tamper.lock()(&mut pdu) };
            match fate {
                Fate::Pass if to.write_all(&pdu).is_ok() => {}
                Fate::Silence => silent = true,
                _ => break,
            }
        }
        let _ = (to.shutdown(Shutdown::Both), from.shutdown(Shutdown::Both));
    });
}

fn next(from: &mut TcpStream) -> Option<Vec<u8>> {
    let mut out = vec![0; COMMON];
    from.read_exact(&mut out).ok()?;
    out.resize(u32_at(&out, 4) as usize, 0);
    from.read_exact(&mut out[COMMON..]).ok()?;
    Some(out)
}
