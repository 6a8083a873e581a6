//! Hosts and targets with TLS, over sockets.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, RwLock};

use super::rig::*;
use crate::auth::{Admission, HostKeys, Secret};
use crate::error::Error;
use crate::host::{HostOptions, RemoteNamespace, discover, list};
use crate::memory::{Alone, Memory};
use crate::namespace::{Subsystem, Subsystems};
use crate::samples::{HOST, NQN};
use crate::tls::{Derivation, Psk, TlsKey, TlsMode};

const SHORT: Duration = Duration::from_secs(1);
const SECRET: &str = "DHHC-1:01:AQgPFh0kKzI5QEdOVVxjanF4f4aNlJuiqbC3vsXM09pl1OOC:";
const KEYS: [&str; 3] = [
    "NVMeTLSkey-1:01:AQgPFh0kKzI5QEdOVVxjanF4f4aNlJuiqbC3vsXM09pl1OOC:",
    "NVMeTLSkey-1:02:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwP/w0S89ELi3W2LxIcLXVsDn8kXZQ==:",
    "NVMeTLSkey-1:00:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwNf9LrZ:",
];

fn key(number: usize) -> Option<TlsKey> {
    Some(KEYS[number].parse().unwrap())
}

fn secret() -> Option<Secret> {
    Some(SECRET.parse().unwrap())
}

/// A target of one host.
struct Guarded {
    inner: Arc<dyn Subsystem>,
    keys: RwLock<HostKeys>,
    mode: RwLock<TlsMode>,
}

impl Guarded {
    fn of(mode: TlsMode, secret: Option<Secret>, tls: Option<TlsKey>) -> Arc<Guarded> {
        let inner = Arc::new(Alone::new(NQN, Memory::new(4096, 1024)));
        let keys = RwLock::new(HostKeys { secret, tls, ..HostKeys::default() });
        Arc::new(Guarded { inner, keys, mode: RwLock::new(mode) })
    }
}

impl Subsystems for Guarded {
    fn list(&self) -> Vec<Arc<dyn Subsystem>> {
        vec![self.inner.clone()]
    }

    fn admission(&self, host: &str) -> Admission {
        if host == HOST {
            Admission::Authenticated(Arc::new(self.keys.read().clone()))
        } else {
            Admission::Refused
        }
    }

    fn tls(&self) -> TlsMode {
        *self.mode.read()
    }
}

fn host(tls_key: Option<TlsKey>, secret: Option<Secret>) -> HostOptions {
    HostOptions { host_nqn: HOST.into(), tls_key, secret, queues: 4, ..options() }
}

fn attach(target: &Target, options: HostOptions) -> Result<RemoteNamespace, Error> {
    RemoteNamespace::attach(&at(target.address, NQN, 1), options)
}

fn refused(target: &Target, options: HostOptions) -> String {
    match attach(target, options).err().unwrap() {
        Error::Refused(why) => why,
        other => panic!("{other}"),
    }
}

#[test]
fn a_host_with_its_key_uses_all_queues() {
    for (mode, number, secret) in [
        (TlsMode::Required, 0, None),
        (TlsMode::Allowed, 1, None),
        (TlsMode::Allowed, 2, None),
        (TlsMode::Allowed, 0, secret()),
    ] {
        let target = Target::of(Guarded::of(mode, secret.clone(), key(number)));
        let namespace = attach(&target, host(key(number), secret)).unwrap();
        let len = 1 << 20;
        let threads: Vec<_> = (0..4).map(|n| content(n, len)).collect();
        std::thread::scope(|s| {
            for (n, data) in threads.iter().enumerate() {
                let (namespace, at) = (&namespace, (n * len) as u64);
                s.spawn(move || {
                    namespace.write(at, data).unwrap();
                    let mut read = vec![0; len];
                    namespace.read(at, &mut read).unwrap();
                    assert!(read == *data);
                });
            }
        });
        namespace.flush().unwrap();
        let portal = target.address.to_string();
        let options = host(key(number), Some(SECRET.parse().unwrap()));
        assert!(discover(&portal, &options).unwrap().iter().any(|e| e.nqn == NQN));
        assert_eq!(list(&portal, NQN, &options).unwrap().len(), 1);
    }
}

#[test]
fn nothing_of_a_session_is_seen_on_the_wire() {
    let target = Target::of(Guarded::of(TlsMode::Required, None, key(0)));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, seen) = (listener.local_addr().unwrap(), Arc::new(Mutex::new(Vec::new())));
    let (all, to) = (seen.clone(), target.address);
    std::thread::spawn(move || {
        for host in listener.incoming() {
            let (host, target) = (host.unwrap(), TcpStream::connect(to).unwrap());
            for (from, to) in [(&host, &target), (&target, &host)] {
                let (mut from, mut to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                let all = all.clone();
                std::thread::spawn(move || {
                    let mut bytes = [0; 4096];
                    while let Ok(n @ 1..) = from.read(&mut bytes) {
                        all.lock().extend_from_slice(&bytes[..n]);
                        if to.write_all(&bytes[..n]).is_err() {
                            break;
                        }
                    }
                    let _ = to.shutdown(std::net::Shutdown::Both);
                });
            }
        }
    });
    let namespace = RemoteNamespace::attach(&at(address, NQN, 1), host(key(0), None)).unwrap();
    let data = vec![b'?'; 64 << 10];
    namespace.write(0, &data).unwrap();
    let mut read = vec![0; 64 << 10];
    namespace.read(0, &mut read).unwrap();
    assert_eq!(read, data);
    drop(namespace);
    let seen = seen.lock();
    assert!(seen.len() > 128 << 10 && !seen.windows(8).any(|w| w == b"????????"));
}

#[test]
fn hosts_with_a_wrong_key_or_none_are_refused() {
    let target = Target::of(Guarded::of(TlsMode::Allowed, None, key(0)));
    assert!(refused(&target, host(None, None)).contains("Connect Invalid Host"));
    assert!(refused(&target, host(key(1), None)).contains("there is no TLS"));
    assert!(refused(&target, host(key(2), None)).contains("there is no TLS"));
    let unknown = HostOptions { host_nqn: "nqn.other".into(), ..host(key(0), None) };
    assert!(refused(&target, unknown).contains("there is no TLS"));
    assert!(attach(&target, host(key(0), None)).is_ok());
    // A target that requires it ends the connection of one without.
    let target = Target::of(Guarded::of(TlsMode::Required, None, key(0)));
    assert!(attach(&target, host(None, None)).is_err());
    // One without TLS does not get anything of a host with a key.
    let target = Target::of(Guarded::of(TlsMode::Off, secret(), None));
    assert!(attach(&target, host(key(0), secret())).is_err());
    assert!(attach(&target, host(None, secret())).is_ok());
    // A host that is known only by its secret.
    let target = Target::of(Guarded::of(TlsMode::Allowed, secret(), None));
    assert!(refused(&target, host(key(0), secret())).contains("there is no TLS"));
    assert!(attach(&target, host(None, secret())).is_ok());
    // Both are demanded.
    let target = Target::of(Guarded::of(TlsMode::Allowed, secret(), key(0)));
    assert!(refused(&target, host(key(0), None)).contains("has no secret"));
    assert!(attach(&target, host(key(0), secret())).is_ok());
}

#[test]
fn a_key_serves_the_host_and_the_subsystem_of_its_name_alone() {
    let guarded = Guarded::of(TlsMode::Required, None, key(0));
    let target = Target::of(guarded.clone());
    // A session with the name of another subsystem, or of another host, than the Connect after it.
    let connect = |session: (&str, &str), named: (&str, &str)| {
        use crate::host::queue::{Opening, Queue};
        let key = key(0).unwrap();
        let psk = Psk::new(&key, session.0, session.1, 1, Derivation::Specified).unwrap();
        let (timeout, connect) = (LONG, LONG);
        let opening = Opening { header_digest: false, data_digest: false, depth: 8, timeout, connect };
        let queue = Queue::open(&target.address.to_string(), &opening, vec![psk]).unwrap();
        let data = crate::host::request::connect_data(&[7; 16], 0xffff, named.1, named.0);
        let done = queue.call(crate::host::request::connect(0, 32, 0, &data)).is_ok();
        queue.close();
        done
    };
    assert!(connect((HOST, NQN), (HOST, NQN)));
    assert!(connect((HOST, crate::DISCOVERY), (HOST, crate::DISCOVERY)));
    assert!(!connect((HOST, NQN), (HOST, crate::DISCOVERY)));
    assert!(!connect((HOST, crate::DISCOVERY), (HOST, NQN)));
    assert!(!connect((HOST, NQN), ("nqn.other", NQN)));
}

#[test]
fn a_key_that_changes_counts_for_the_next_connection() {
    let guarded = Guarded::of(TlsMode::Allowed, None, key(0));
    let target = Target::of(guarded.clone());
    let options = HostOptions { fast_io_fail_timeout: SHORT, ..host(key(0), None) };
    let namespace = attach(&target, options).unwrap();
    namespace.write(0, &[1; 4096]).unwrap();
    guarded.keys.write().tls = key(1);
    namespace.read(0, &mut [0; 4096]).unwrap();
    assert!(attach(&target, host(key(0), None)).is_err());
    assert!(attach(&target, host(key(1), None)).is_ok());
    // After a restart of the target the old key leads nowhere, until it is the right one again.
    target.stop();
    target.start();
    until(|| namespace.read(0, &mut [0; 4096]).is_err());
    guarded.keys.write().tls = key(0);
    until(|| namespace.read(0, &mut [0; 4096]).is_ok());
}

#[test]
fn a_target_that_stops_in_the_handshake_is_given_up() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let options = HostOptions { command_timeout: SHORT, ..host(key(0), None) };
    let attached = RemoteNamespace::attach(&at(address, NQN, 1), options);
    assert!(matches!(attached.err().unwrap(), Error::Connection(_)));
}
