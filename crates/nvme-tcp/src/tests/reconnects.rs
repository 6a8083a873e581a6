//! A host that comes back: what it had sent before is not executed behind what it sends now.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::rig::*;
use crate::command::io;
use crate::namespace::{Fault, Namespace};
use crate::samples::{self, NQN};
use crate::server::Limits;

/// A namespace whose writes wait.
#[derive(Default)]
struct Slow {
    let_go: AtomicBool,
    /// Writes that have begun, and that have ended.
    begun: AtomicU64,
    ended: AtomicU64,
}

impl Namespace for Slow {
    fn block(&self) -> u32 {
        512
    }
    fn blocks(&self) -> u64 {
        64
    }
    fn id(&self) -> [u8; 16] {
        [3; 16]
    }
    fn read(&self, _: u64, _: &mut [u8]) -> Result<(), Fault> {
        Ok(())
    }
    fn write(&self, _: u64, _: Vec<u8>, _: bool) -> Result<(), Fault> {
        self.begun.fetch_add(1, Ordering::SeqCst);
        let until = Instant::now() + LONG;
        while !self.let_go.load(Ordering::SeqCst) && Instant::now() < until {
            thread::sleep(Duration::from_millis(2));
        }
        self.ended.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }
    fn flush(&self) -> Result<(), Fault> {
        Ok(())
    }
    fn zero(&self, _: u64, _: u64, _: bool, _: bool) -> Result<(), Fault> {
        Ok(())
    }
    fn trim(&self, _: u64, _: u64) -> Result<(), Fault> {
        Ok(())
    }
}

/// A server, and a host whose write is being executed.
fn busy() -> (crate::Server, Arc<Slow>, Host, Host) {
    let slow = Arc::new(Slow::default());
    let server = serve_namespace(slow.clone(), Limits::default());
    let admin = Host::admin(&server, NQN, 0);
    let mut queue = Host::io(&server, &admin, OFF, 0, 0);
    queue.submit(&blocks(io::WRITE, 0, 1, 0, 512, true), &[7; 512]);
    while slow.begun.load(Ordering::SeqCst) == 0 {
        thread::sleep(Duration::from_millis(1));
    }
    (server, slow, admin, queue)
}

/// Runs something that has to wait for the write, and lets the write go on meanwhile.
fn waits_for_write(slow: &Slow, what: impl FnOnce() + Send) {
    thread::scope(|s| {
        let waiting = s.spawn(move || {
            what();
            slow.ended.load(Ordering::SeqCst)
        });
        thread::sleep(Duration::from_millis(200));
        let early = waiting.is_finished();
        slow.let_go.store(true, Ordering::SeqCst);
        assert_eq!(waiting.join().unwrap(), 1);
        assert!(!early, "it has not waited");
    });
}

#[test]
fn a_host_that_connects_again_waits_for_its_old_commands() {
    let (server, slow, admin, queue) = busy();
    drop((admin, queue));
    while server.statistics().controllers > 0 {
        thread::sleep(Duration::from_millis(1));
    }
    waits_for_write(&slow, || drop(Host::admin(&server, NQN, 0)));
}

#[test]
fn a_controller_that_is_disabled_has_executed_its_commands() {
    let (_server, slow, mut admin, queue) = busy();
    waits_for_write(&slow, || {
        assert_eq!(admin.ask(&samples::property_set(4, 0x14, 0)).status, 0);
        assert_eq!(admin.ask(&samples::property_get(5, 0x1c, false)).result, 0);
    });
    drop(queue);
}

/// Another host does not wait.
#[test]
fn a_second_path_is_not_held_up() {
    let (server, slow, _admin, _queue) = busy();
    drop(Host::admin(&server, NQN, 0));
    slow.let_go.store(true, Ordering::SeqCst);
}
