//! Targets that restart, forget, are slow, damage data, and lose namespaces.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use super::rig::*;
use crate::error::Error;
use crate::host::{HostOptions, RemoteNamespace};
use crate::memory::{Memory, Only};
use crate::namespace::{Fault, Namespace, Subsystem};
use crate::pdu::kind;
use crate::samples::NQN;

const B: usize = 4096;

#[test]
fn writes_during_restarts_of_the_target_are_there_afterwards() {
    let target = Target::memory(4096, 1024);
    let namespace = target.namespace(options());
    let finished = AtomicBool::new(false);
    let written = Mutex::new(BTreeMap::new());
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..4u64)
            .map(|writer| {
                let (namespace, written, finished) = (&namespace, &written, &finished);
                scope.spawn(move || {
                    let mut turn = 0;
                    while !finished.load(Ordering::Acquire) {
                        let block = writer * 256 + turn * 7 % 250;
                        let data = content(writer << 32 | turn, 5 * B);
                        namespace.write(block * B as u64, &data).unwrap();
                        for n in 0..5 {
                            written.lock().insert(block + n, data[n as usize * B..][..B].to_vec());
                        }
                        turn += 1;
                    }
                })
            })
            .collect();
        for _ in 0..5 {
            // Connected again, with writes on their way.
            namespace.read(0, &mut vec![0; B]).unwrap();
            let losses = namespace.losses();
            target.stop();
            until(|| namespace.losses() > losses);
            target.start();
        }
        finished.store(true, Ordering::Release);
        writers.into_iter().for_each(|w| w.join().unwrap());
    });
    namespace.flush().unwrap();
    for (block, data) in written.lock().iter() {
        let mut back = vec![0; B];
        namespace.read(block * B as u64, &mut back).unwrap();
        assert!(back == *data, "block {block}");
    }
    assert!(namespace.losses() >= 5);
}

/// A namespace whose writes are lost by [`Cached::lose`] unless they were flushed.
pub(super) struct Cached {
    now: Arc<Memory>,
    durable: Arc<Memory>,
    flushes: AtomicU64,
}

impl Cached {
    pub(super) fn new(blocks: u64) -> Arc<Cached> {
        let (now, durable) = (Memory::new(4096, blocks), Memory::new(4096, blocks));
        Arc::new(Cached { now, durable, flushes: AtomicU64::new(0) })
    }

    fn copy(from: &Memory, to: &Memory) {
        let mut all = vec![0; from.blocks() as usize * B];
        from.read(0, &mut all).unwrap();
        to.write(0, all, false).unwrap();
    }

    pub(super) fn lose(&self) {
        Cached::copy(&self.durable, &self.now);
    }
}

impl Namespace for Cached {
    fn block(&self) -> u32 {
        4096
    }
    fn blocks(&self) -> u64 {
        self.now.blocks()
    }
    fn id(&self) -> [u8; 16] {
        [7; 16]
    }
    fn read(&self, at: u64, out: &mut [u8]) -> Result<(), Fault> {
        self.now.read(at, out)
    }
    fn write(&self, at: u64, data: Vec<u8>, durable: bool) -> Result<(), Fault> {
        self.now.write(at, data, durable)
    }
    fn flush(&self) -> Result<(), Fault> {
        self.flushes.fetch_add(1, Ordering::Relaxed);
        Cached::copy(&self.now, &self.durable);
        Ok(())
    }
    fn zero(&self, at: u64, len: u64, keep: bool, durable: bool) -> Result<(), Fault> {
        self.now.zero(at, len, keep, durable)
    }
    fn trim(&self, at: u64, len: u64) -> Result<(), Fault> {
        self.now.trim(at, len)
    }
}

#[test]
fn a_flush_after_a_restart_covers_what_was_written_before_it() {
    let cached = Cached::new(64);
    let target = Target::of(only(cached.clone()));
    let namespace = target.namespace(options());
    let (old, new) = (content(1, 4 * B), content(2, 2 * B));
    namespace.write(0, &old).unwrap();
    namespace.flush().unwrap();
    namespace.write(0, &content(3, 2 * B)).unwrap();
    namespace.write(0, &new).unwrap();
    namespace.zero(3 * B as u64, B as u64).unwrap();
    target.stop();
    // As a loss of power: the cache is gone.
    cached.lose();
    target.start();
    namespace.flush().unwrap();
    cached.lose();
    let mut back = vec![0; 4 * B];
    namespace.read(0, &mut back).unwrap();
    assert!(back == [&new[..], &old[2 * B..3 * B], &[0; B]].concat());
}

#[test]
fn what_is_kept_for_a_flush_is_bounded() {
    let cached = Cached::new(16 << 8);
    let target = Target::of(only(cached.clone()));
    let namespace = target.namespace(options());
    for turn in 0..20 {
        namespace.write((turn % 16) << 20, &content(turn, 1 << 20)).unwrap();
    }
    // Nobody has asked for one.
    assert!(cached.flushes.load(Ordering::Relaxed) >= 2);
}

/// Changes the first `times` PDUs of data of 8 blocks.
fn damage(
    times: u64,
    mut change: impl FnMut(&mut Vec<u8>) + Send + 'static,
) -> impl FnMut(&mut Vec<u8>) -> Fate + Send {
    let mut left = times;
    move |pdu| {
        // Identify has data too: only that of 8 blocks is meant.
        if pdu[0] == kind::C2H_DATA && pdu.len() >= 8 * B && left > 0 {
            left -= 1;
            change(pdu);
        }
        Fate::Pass
    }
}

fn through(proxy: &Proxy, options: HostOptions) -> RemoteNamespace {
    RemoteNamespace::attach(&at(proxy.address, NQN, 1), options).unwrap()
}

#[test]
fn a_wrong_digest_is_asked_for_again_and_never_believed() {
    let target = Target::memory(4096, 64);
    let data = content(4, 8 * B);
    target.namespace(options()).write(0, &data).unwrap();
    let flip = |pdu: &mut Vec<u8>| pdu[100] ^= 1;
    let proxy = Proxy::before(target.address, damage(2, flip));
    let namespace = through(&proxy, options());
    let mut back = vec![0; 8 * B];
    namespace.read(0, &mut back).unwrap();
    assert!(back == data);
    assert_eq!(namespace.losses(), 0, "a data digest does not end the connection");
    let proxy = Proxy::before(target.address, damage(u64::MAX, flip));
    let error = through(&proxy, options()).read(0, &mut back).unwrap_err().to_string();
    assert!(error.contains("digest") && error.contains(NQN), "{error}");
    // The header: the connection ends, and is made again.
    let proxy = Proxy::before(target.address, damage(1, |pdu| pdu[8] ^= 1));
    let namespace = through(&proxy, options());
    namespace.read(0, &mut back).unwrap();
    assert!(back == data && namespace.losses() == 1);
}

#[test]
fn a_short_answer_is_an_error() {
    let target = Target::memory(4096, 64);
    let plain = || HostOptions { header_digest: false, data_digest: false, ..options() };
    let cut = |pdu: &mut Vec<u8>| {
        let (len, data) = (pdu.len() - B, 7 * B as u32);
        pdu.truncate(len);
        pdu[4..8].copy_from_slice(&(len as u32).to_le_bytes());
        pdu[16..20].copy_from_slice(&data.to_le_bytes());
    };
    let proxy = Proxy::before(target.address, damage(1, cut));
    through(&proxy, plain()).read(0, &mut vec![0; 8 * B]).unwrap();
    let proxy = Proxy::before(target.address, damage(u64::MAX, cut));
    let error = through(&proxy, plain()).read(0, &mut vec![0; 8 * B]).unwrap_err().to_string();
    assert!(error.contains("less data than was asked for"), "{error}");
}

#[test]
fn a_target_that_does_not_answer_is_left_and_asked_again() {
    let target = Target::memory(4096, 64);
    let mut silences = 1;
    let proxy = Proxy::before(target.address, move |pdu| {
        if pdu[0] == kind::C2H_DATA && pdu.len() >= 8 * B && silences > 0 {
            silences -= 1;
            return Fate::Silence;
        }
        Fate::Pass
    });
    let namespace = through(&proxy, HostOptions { command_timeout: Duration::from_secs(2), ..options() });
    namespace.read(0, &mut vec![0; 8 * B]).unwrap();
    assert!(namespace.losses() >= 1);
}

#[test]
fn a_connection_that_is_cut_within_a_command_is_made_again() {
    let target = Target::memory(4096, 1024);
    let mut seen = 0;
    let proxy = Proxy::before(target.address, move |pdu| {
        // Every tenth request for data.
        seen += u64::from(pdu[0] == kind::R2T);
        if pdu[0] == kind::R2T && seen % 10 == 0 { Fate::Cut } else { Fate::Pass }
    });
    let namespace = through(&proxy, options());
    for turn in 0..40 {
        let data = content(turn, 16 * B);
        namespace.write(turn * 16 * B as u64, &data).unwrap();
        // Else ever more would be written again at each connection, with ever more requests for data.
        namespace.flush().unwrap();
        let mut back = vec![0; 16 * B];
        namespace.read(turn * 16 * B as u64, &mut back).unwrap();
        assert!(back == data);
    }
    assert!(namespace.losses() >= 3);
}

#[test]
fn a_target_that_stays_away_is_an_error_until_it_is_back() {
    let target = Target::memory(4096, 64);
    let fast_io_fail_timeout = Duration::from_millis(300);
    let namespace = target.namespace(HostOptions { fast_io_fail_timeout, ..options() });
    namespace.write(0, &content(5, B)).unwrap();
    target.stop();
    let mut back = vec![0; B];
    let error = namespace.read(0, &mut back).unwrap_err();
    assert!(matches!(&error, Error::Unreachable { namespace, .. } if namespace.contains(NQN)), "{error}");
    assert!(error.to_string().contains("refused"), "{error}");
    target.start();
    until(|| namespace.read(0, &mut back).is_ok());
    assert!(back == content(5, B));
}

/// A subsystem whose namespace can be taken away.
struct Changing(Mutex<Option<Arc<dyn Namespace>>>);

impl Subsystem for Changing {
    fn nqn(&self) -> String {
        NQN.into()
    }
    fn serial(&self) -> String {
        "1".into()
    }
    fn model(&self) -> String {
        "changing".into()
    }
    fn namespaces(&self) -> Vec<u32> {
        self.0.lock().iter().map(|_| 1).collect()
    }
    fn namespace(&self, nsid: u32) -> Option<Arc<dyn Namespace>> {
        self.0.lock().clone().filter(|_| nsid == 1)
    }
    fn in_service(&self) -> bool {
        true
    }
}

#[test]
fn a_namespace_that_is_deleted_or_becomes_another_one() {
    let changing = Arc::new(Changing(Mutex::new(Some(Memory::new(4096, 64)))));
    let target = Target::of(Arc::new(Only(changing.clone())));
    let namespace = target.namespace(options());
    let data = content(6, B);
    namespace.write(0, &data).unwrap();
    *changing.0.lock() = None;
    let error = namespace.write(0, &data).unwrap_err().to_string();
    assert!(error.contains("Invalid Namespace") && error.contains("/1: write"), "{error}");
    // Another one at its place: it is never read or written.
    let other = Cached::new(64);
    *changing.0.lock() = Some(other.clone());
    until(|| namespace.read(0, &mut vec![0; B]).is_err_and(|e| e.to_string().contains("another namespace")));
    target.stop();
    target.start();
    assert!(namespace.write(0, &data).is_err());
}

/// A namespace that answers a write only when it is told to.
struct Slow {
    memory: Arc<Memory>,
    open: Mutex<bool>,
    opened: Condvar,
}

impl Namespace for Slow {
    fn block(&self) -> u32 {
        4096
    }
    fn blocks(&self) -> u64 {
        self.memory.blocks()
    }
    fn id(&self) -> [u8; 16] {
        [8; 16]
    }
    fn read(&self, at: u64, out: &mut [u8]) -> Result<(), Fault> {
        self.memory.read(at, out)
    }
    fn write(&self, at: u64, data: Vec<u8>, durable: bool) -> Result<(), Fault> {
        let mut open = self.open.lock();
        while !*open {
            self.opened.wait(&mut open);
        }
        drop(open);
        self.memory.write(at, data, durable)
    }
    fn flush(&self) -> Result<(), Fault> {
        Ok(())
    }
    fn zero(&self, at: u64, len: u64, keep: bool, durable: bool) -> Result<(), Fault> {
        self.memory.zero(at, len, keep, durable)
    }
    fn trim(&self, at: u64, len: u64) -> Result<(), Fault> {
        self.memory.trim(at, len)
    }
}

#[test]
fn reads_pass_a_write_that_takes_long() {
    let memory = Memory::new(4096, 64);
    let slow = Arc::new(Slow { memory, open: Mutex::new(false), opened: Condvar::new() });
    let target = Target::of(only(slow.clone()));
    let namespace = target.namespace(options());
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| namespace.write(0, &content(9, 16 * B)));
        for _ in 0..20 {
            namespace.read(32 * B as u64, &mut vec![0; B]).unwrap();
        }
        *slow.open.lock() = true;
        slow.opened.notify_all();
        writer.join().unwrap().unwrap();
    });
}
