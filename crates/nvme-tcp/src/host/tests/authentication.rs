//! Hosts that authenticate themselves, and targets that do, over sockets.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::RwLock;

use super::rig::*;
use crate::auth::{Admission, Group, Hash, HostKeys, Secret};
use crate::error::Error;
use crate::host::{HostOptions, RemoteNamespace, discover, list};
use crate::memory::{Alone, Memory};
use crate::namespace::{Subsystem, Subsystems};
use crate::samples::{HOST, NQN};

const SHORT: Duration = Duration::from_secs(1);
const HOST_SECRET: &str = "DHHC-1:01:AQgPFh0kKzI5QEdOVVxjanF4f4aNlJuiqbC3vsXM09pl1OOC:";
const OTHER_SECRET: &str = "DHHC-1:00:AAcOFRwjKjE4P0ZNVFtiaXB3foWMk5qhqK+2vcTL0tk/PUPo:";
const CONTROLLER_SECRET: &str = "DHHC-1:01:AgcMERYbICUqLzQ5PkNITVJXXGFma3B1en+EiY6TmJ19R/Gn:";

fn secret(text: &str) -> Option<Secret> {
    Some(text.parse().unwrap())
}

/// A target of hosts that it knows.
struct Guarded {
    inner: Arc<dyn Subsystem>,
    admission: RwLock<Admission>,
}

impl Guarded {
    fn of(admission: Admission) -> Arc<Guarded> {
        let inner = Arc::new(Alone::new(NQN, Memory::new(4096, 256)));
        Arc::new(Guarded { inner, admission: RwLock::new(admission) })
    }

    /// Knows the host of the tests.
    fn knowing(controller: Option<Secret>, hash: Option<Hash>, group: Option<Group>) -> Arc<Guarded> {
        let secret = HOST_SECRET.parse().unwrap();
        let keys = HostKeys { secret: Some(secret), controller_secret: controller, hash, group, tls: None };
        Guarded::of(Admission::Authenticated(Arc::new(keys)))
    }
}

impl Subsystems for Guarded {
    fn list(&self) -> Vec<Arc<dyn Subsystem>> {
        vec![self.inner.clone()]
    }

    fn admission(&self, host: &str) -> Admission {
        match &*self.admission.read() {
            Admission::Authenticated(_) if host != HOST => Admission::Refused,
            other => other.clone(),
        }
    }
}

fn host(secret: Option<Secret>, controller_secret: Option<Secret>) -> HostOptions {
    HostOptions { host_nqn: HOST.into(), secret, controller_secret, queues: 4, ..options() }
}

fn attach(target: &Target, options: HostOptions) -> Result<RemoteNamespace, String> {
    RemoteNamespace::attach(&at(target.address, NQN, 1), options).map_err(|e| match e {
        Error::Refused(why) => why,
        other => panic!("{other}"),
    })
}

#[test]
fn a_host_with_its_secret_uses_all_queues() {
    for (hash, group) in [
        (Some(Hash::Sha256), Some(Group::Null)),
        (Some(Hash::Sha384), Some(Group::Ffdhe2048)),
        (Some(Hash::Sha512), Some(Group::Ffdhe3072)),
        (None, None),
    ] {
        for controller in [None, secret(CONTROLLER_SECRET)] {
            let target = Target::of(Guarded::knowing(secret(CONTROLLER_SECRET), hash, group));
            let namespace = attach(&target, host(secret(HOST_SECRET), controller)).unwrap();
            for block in 0..16u8 {
                namespace.write(u64::from(block) * 4096, &[block; 4096]).unwrap();
            }
            let mut read = vec![0; 16 * 4096];
            namespace.read(0, &mut read).unwrap();
            assert!(read.chunks(4096).zip(0u8..).all(|(c, n)| c.iter().all(|b| *b == n)));
            namespace.flush().unwrap();
        }
    }
}

#[test]
fn hosts_with_a_wrong_secret_or_none_are_refused() {
    let target = Target::of(Guarded::knowing(secret(CONTROLLER_SECRET), None, None));
    let refused = |options| attach(&target, options).err().unwrap();
    assert!(refused(host(None, None)).contains("has no secret"));
    assert!(refused(host(secret(OTHER_SECRET), None)).contains("the target does not accept this host"));
    let wrong = refused(host(secret(HOST_SECRET), secret(OTHER_SECRET)));
    assert!(wrong.contains("this host does not accept the target"), "{wrong}");
    // A host whose name the target does not know.
    let unknown = HostOptions { host_nqn: "nqn.other".into(), ..host(secret(HOST_SECRET), None) };
    assert!(refused(unknown).contains("Connect Invalid Host"));
    // It tells of its subsystems all the same, and lists no namespaces.
    let portal = target.address.to_string();
    assert!(discover(&portal, &host(None, None)).unwrap().iter().any(|e| e.nqn == NQN));
    assert!(list(&portal, NQN, &host(None, None)).is_err());
    assert_eq!(list(&portal, NQN, &host(secret(HOST_SECRET), None)).unwrap().len(), 1);
}

#[test]
fn a_target_that_does_not_authenticate_itself_is_refused() {
    // It has no secret of its own.
    let target = Target::of(Guarded::knowing(None, None, None));
    let both = || host(secret(HOST_SECRET), secret(CONTROLLER_SECRET));
    assert!(attach(&target, both()).err().unwrap().contains("the target does not accept this host"));
    assert!(attach(&target, host(secret(HOST_SECRET), None)).is_ok());
    // It asks nobody.
    let target = Target::of(Guarded::of(Admission::Open));
    assert!(attach(&target, both()).err().unwrap().contains("does not authenticate anybody"));
    assert!(attach(&target, host(secret(HOST_SECRET), None)).is_ok());
}

#[test]
fn a_host_that_is_removed_loses_its_controller_and_one_with_a_new_secret_does_not() {
    let guarded = Guarded::knowing(None, None, Some(Group::Null));
    let target = Target::of(guarded.clone());
    let patient = host(secret(HOST_SECRET), None);
    let namespace = attach(&target, HostOptions { fast_io_fail_timeout: SHORT, ..patient }).unwrap();
    namespace.write(0, &[1; 4096]).unwrap();
    let known = std::mem::replace(&mut *guarded.admission.write(), Admission::Refused);
    until(|| namespace.paths()[0].losses == 1);
    assert!(namespace.read(0, &mut [0; 4096]).is_err());
    // It may connect again; another secret is asked only of new connections.
    *guarded.admission.write() = known;
    until(|| namespace.read(0, &mut [0; 4096]).is_ok());
    let losses = namespace.paths()[0].losses;
    let other = OTHER_SECRET.parse().unwrap();
    let keys = HostKeys { secret: Some(other), ..HostKeys::default() };
    *guarded.admission.write() = Admission::Authenticated(Arc::new(keys));
    std::thread::sleep(SHORT);
    namespace.read(0, &mut [0; 4096]).unwrap();
    assert_eq!(namespace.paths()[0].losses, losses);
    assert!(attach(&target, host(secret(HOST_SECRET), None)).is_err());
    assert!(attach(&target, host(secret(OTHER_SECRET), None)).is_ok());
}

#[test]
fn a_host_authenticates_itself_again_after_its_target_was_restarted() {
    let target = Target::of(Guarded::knowing(secret(CONTROLLER_SECRET), None, None));
    let namespace = attach(&target, host(secret(HOST_SECRET), secret(CONTROLLER_SECRET))).unwrap();
    namespace.write(4096, &[3; 4096]).unwrap();
    target.stop();
    target.start();
    let mut read = [0; 4096];
    namespace.read(4096, &mut read).unwrap();
    assert_eq!(read, [3; 4096]);
}
