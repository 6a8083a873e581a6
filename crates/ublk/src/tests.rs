//! What needs no driver: structures, choices, requests, threads and links. tests/system/test_ublk.py has the rest.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use ashlar_machine::UblkDescriptor;
use ashlar_nbd::{Device, Extent, Fault, Memory};
use parking_lot::Mutex;

use crate::choice::{Choice, choose, is_ours, mark};
use crate::driver::{EINVAL, EIO, EOPNOTSUPP, EROFS, Info, Parameters, State};
use crate::links::Links;
use crate::pool::Pool;
use crate::request::{Counters, Data, execute};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const MIB: u64 = 1 << 20;

fn until(what: &str, done: impl Fn() -> bool) {
    let since = Instant::now();
    while !done() {
        assert!(since.elapsed() < Duration::from_secs(20), "{what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Field for field as in `struct ublksrv_ctrl_dev_info` on x86-64.
#[test]
fn information_has_the_layout_of_the_kernel() {
    let info = Info { id: 7, ..Info::new(0x1122_3344_5566_7788, 4, 128, 1 << 20) };
    let bytes = info.encode();
    assert_eq!(bytes.len(), 64);
    assert_eq!((&bytes[..4], &bytes[8..16]), (&[4, 0, 128, 0][..], &[0, 0, 16, 0, 7, 0, 0, 0][..]));
    assert_eq!(bytes[24..32], [0xd8, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(bytes[32..40], [0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11]);
    assert_eq!(Info::decode(&bytes), info);
    let mut bytes = bytes;
    (bytes[4], bytes[16], bytes[17]) = (2, 0x39, 0x30);
    let read = Info::decode(&bytes);
    assert_eq!((read.state, read.pid, read.lacks()), (State::Quiesced, 12345, None));
    bytes[24] = 0x58;
    assert!(Info::decode(&bytes).lacks().unwrap().contains("USER_COPY"));
}

/// Field for field as in `struct ublk_params` on x86-64.
#[test]
fn parameters_have_the_layout_of_the_kernel() {
    let of =
        Parameters { sectors: 96 << 11, read_only: false, physical: 4096, most: 2048, most_cleared: 1 << 19 };
    let bytes = of.encode();
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    assert_eq!((bytes.len(), word(0), word(4), word(8)), (60, 60, 3, 0b1100));
    assert_eq!((&bytes[12..16], word(16), word(20)), (&[9, 12, 12, 12][..], 2048, 0));
    assert_eq!((word(24), word(28), word(32), word(36)), (96 << 11, 0, 0, 0));
    assert_eq!((word(40), word(44), word(48), word(52), word(56)), (0, 4096, 1 << 19, 1 << 19, 1));
    assert_eq!(Parameters { read_only: true, ..of }.encode()[8], 0b1101);
}

fn found(id: u32, mark: u64, state: State, pid: i32) -> Info {
    Info { id, state, pid, ..Info::new(mark, 1, 128, 1 << 20) }
}

#[test]
fn only_what_an_ended_process_has_left_is_taken() {
    let (mine, other) = (mark(Some([1; 16]), "a"), mark(Some([2; 16]), "a"));
    assert_ne!(mine, other);
    let runs = |pid: i32| pid == 10;
    let of = |all: &[Info]| choose(all, mine, runs);
    assert_eq!(of(&[]), Choice::Add);
    // Devices of others, in whatever state.
    let foreign: Vec<Info> = [State::Dead, State::Live, State::Quiesced, State::Failing]
        .into_iter()
        .zip(0..)
        .flat_map(|(state, id)| [found(id, other, state, 11), found(id + 10, 5, state, 11)])
        .collect();
    assert_eq!(of(&foreign), Choice::Add);
    let quiesced = found(3, mine, State::Quiesced, 11);
    assert_eq!(of(&[foreign, vec![quiesced.clone()]].concat()), Choice::Recover(quiesced.clone()));
    // Its number may be that of another process by now.
    let reused = found(3, mine, State::Quiesced, 10);
    assert_eq!(of(std::slice::from_ref(&reused)), Choice::Recover(reused));
    // Served by somebody, or not yet noticed that it is not.
    assert_eq!(of(&[found(3, mine, State::Live, 11)]), Choice::Wait(3));
    let Choice::Refuse(why) = of(&[quiesced.clone(), found(4, mine, State::Live, 10)]) else { panic!() };
    assert!(why.contains("/dev/ublkb4") && why.contains("process 10"), "{why}");
    // Two of them: it is not known which one.
    let Choice::Refuse(why) = of(&[quiesced.clone(), found(4, mine, State::Quiesced, 12)]) else { panic!() };
    assert!(why.contains("ublkb3") && why.contains("ublkb4"), "{why}");
    // Not finished, and made in another way.
    assert_eq!(of(&[found(3, mine, State::Dead, -1)]), Choice::Remove(3));
    assert_eq!(of(&[found(2, mine, State::Dead, -1), quiesced.clone()]), Choice::Recover(quiesced.clone()));
    let other_way = Info { flags: 0, ..quiesced };
    assert!(matches!(of(&[other_way]), Choice::Refuse(why) if why.contains("lacks")));
}

#[test]
fn marks_are_stable_and_ours() {
    // Devices outlive the program: another release must know them.
    assert_eq!(mark(Some([7; 16]), "tank/data"), mark(Some([7; 16]), "tank/renamed"));
    assert_ne!(mark(None, "tank/data"), mark(None, "tank/other"));
    let mine = found(0, mark(None, "tank/data"), State::Live, 1);
    assert!(is_ours(&mine) && !is_ours(&Info { mark: 1, ..mine.clone() }));
    assert_eq!(mark(Some([7; 16]), ""), MARK_OF_SEVENS);
}

/// Of 16 bytes of 7, computed once with `sha256sum`.
const MARK_OF_SEVENS: u64 = 0xa51a_b6ba_6b4e_7aa4;

/// The data of a request in memory.
struct Bytes(Mutex<Vec<u8>>);

impl Data for Bytes {
    fn take(&self, from: u32, out: &mut [u8]) -> io::Result<()> {
        let from = from as usize;
        let bytes = self.0.lock();
        out.copy_from_slice(bytes.get(from..from + out.len()).ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn give(&self, from: u32, data: &[u8]) -> io::Result<()> {
        let mut bytes = self.0.lock();
        let from = from as usize;
        let len = bytes.len().max(from + data.len());
        bytes.resize(len, 0);
        bytes[from..from + data.len()].copy_from_slice(data);
        Ok(())
    }
}

/// A device that notes what it is asked.
struct Noted {
    memory: Arc<Memory>,
    read_only: bool,
    said: Mutex<Vec<String>>,
}

impl Noted {
    fn new(size: u64) -> Noted {
        Noted { memory: Memory::new(size), read_only: false, said: Mutex::default() }
    }
}

impl Device for Noted {
    fn size(&self) -> u64 {
        self.memory.size()
    }
    fn read_only(&self) -> bool {
        self.read_only
    }
    fn read(&self, at: u64, out: &mut [u8]) -> Result<(), Fault> {
        self.memory.read(at, out)
    }
    fn write(&self, at: u64, data: Vec<u8>, durable: bool) -> Result<(), Fault> {
        self.said.lock().push(format!("write {at} {} {durable}", data.len()));
        self.memory.write(at, data, durable)
    }
    fn flush(&self) -> Result<(), Fault> {
        self.said.lock().push("flush".into());
        Err(Fault::Gone)
    }
    fn zero(&self, at: u64, len: u64, keep: bool, durable: bool) -> Result<(), Fault> {
        self.said.lock().push(format!("zero {at} {len} {keep} {durable}"));
        self.memory.zero(at, len, keep, durable)
    }
    fn trim(&self, at: u64, len: u64, durable: bool) -> Result<(), Fault> {
        self.said.lock().push(format!("trim {at} {len} {durable}"));
        self.memory.trim(at, len, durable)
    }
    fn extents(&self, at: u64, len: u64, most: usize) -> Result<Vec<Extent>, Fault> {
        self.memory.extents(at, len, most)
    }
}

#[test]
fn requests_do_what_the_driver_means() {
    let (device, counters) = (Noted::new(4 * MIB), Counters::default());
    let ask = |operation: u32, start: u64, sectors: u32, data: Vec<u8>| {
        let data = Bytes(Mutex::new(data));
        let asked = UblkDescriptor { operation, sectors, start };
        (execute(&device, &counters, asked, &data), data.0.into_inner())
    };
    let data: Vec<u8> = (0..3 * MIB / 2).map(|n| (n % 251) as u8).collect();
    // Longer than a piece; with and without FUA, and with flags that mean nothing here.
    assert_eq!(ask(1, 9, 3 << 10, data.clone()).0, data.len() as i32);
    assert_eq!(ask(1 | 1 << 13 | 1 << 11, 0, 1, vec![5; 512]).0, 512);
    assert_eq!(ask(1 << 8, 9, 3 << 10, Vec::new()), (data.len() as i32, data));
    assert_eq!(ask(0, 0, 1, Vec::new()).1, vec![5; 512]);
    assert_eq!(ask(5, 16, 8, Vec::new()).0, 0);
    assert_eq!(ask(5 | 1 << 15 | 1 << 13, 24, 8, Vec::new()).0, 0);
    assert_eq!(ask(3, 32, 8192 - 32, Vec::new()).0, 0);
    assert_eq!(ask(0, 16, 4, Vec::new()).1, vec![0; 2048]);
    assert_eq!(ask(2, 0, 0, Vec::new()).0, -EIO);
    assert_eq!(
        *device.said.lock(),
        [
            "write 4608 1048576 false",
            "write 1053184 524288 false",
            "write 0 512 true",
            "zero 8192 4096 false false",
            "zero 12288 4096 true true",
            "trim 16384 4177920 false",
            "flush"
        ]
    );
    let count = |of: &std::sync::atomic::AtomicU64| of.load(Ordering::Relaxed);
    assert_eq!((count(&counters.reads), count(&counters.writes), count(&counters.others)), (3, 2, 4));
    assert_eq!(count(&counters.errors), 1);
    assert_eq!(count(&counters.bytes_written), 3 * MIB / 2 + 512);
}

#[test]
fn bad_requests_change_nothing() {
    let (mut device, counters) = (Noted::new(MIB), Counters::default());
    let ask = |device: &Noted, operation: u32, start: u64, sectors: u32| {
        let data = Bytes(Mutex::new(vec![1; 1024]));
        execute(device, &counters, UblkDescriptor { operation, sectors, start }, &data)
    };
    for (start, sectors) in [(2048, 1), (2047, 2), (u64::MAX, 1), (u64::MAX / 512, 8), (0, u32::MAX)] {
        for operation in [0, 1, 3, 5] {
            assert_eq!(ask(&device, operation, start, sectors), -EINVAL, "{operation} {start} {sectors}");
        }
    }
    // Less data than it says; operations that there are not.
    assert_eq!(ask(&device, 1, 0, 4), -EIO);
    for operation in [4, 10, 13, 18, 255] {
        assert_eq!(ask(&device, operation, 0, 1), -EOPNOTSUPP);
    }
    device.read_only = true;
    assert_eq!([1, 3, 5].map(|operation| ask(&device, operation, 0, 1)), [-EROFS; 3]);
    assert_eq!(ask(&device, 0, 0, 1), 512);
    assert!(device.said.lock().is_empty());
}

#[test]
fn work_waits_for_no_other_work_and_none_is_lost() {
    let (released, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let (held, counted) = (released.clone(), done.clone());
    let pool = Pool::new(Box::new(move |job: usize| {
        until("released", || job != 0 || held.load(Ordering::Acquire));
        counted.fetch_add(1, Ordering::AcqRel);
        assert!(!job.is_multiple_of(50) || job == 0, "work that panics");
    }));
    (0..1000).for_each(|job| pool.give(job));
    until("all but the one that waits", || done.load(Ordering::Acquire) == 999);
    assert!((2..=16).contains(&pool.threads()));
    released.store(true, Ordering::Release);
    pool.finish();
    assert_eq!((done.load(Ordering::Acquire), pool.threads()), (1000, 0));
}

#[test]
fn names_are_links_and_stay_in_the_folder() {
    let folder = tempfile::tempdir().unwrap();
    let links = Links::new(&folder.path().join("drives")).unwrap();
    let (a, b) = (Path::new("/dev/ublkb0"), Path::new("/dev/ublkb1"));
    let at = |name: &str| folder.path().join("drives").join(name);
    links.set("tank/data", a).unwrap();
    links.set("tank/other", b).unwrap();
    assert_eq!(std::fs::read_link(at("tank/data")).unwrap(), a);
    // Another device has the name now; the old one's end does not take it away.
    links.set("tank/data", b).unwrap();
    links.remove("tank/data", a);
    assert_eq!(std::fs::read_link(at("tank/data")).unwrap(), b);
    links.remove("tank/data", b);
    assert!(!at("tank/data").exists() && at("tank").exists());
    links.remove("tank/other", b);
    assert!(!at("tank").exists() && at("").exists());
    // What is no link stays, and names lead nowhere else.
    std::fs::write(at("file"), "x").unwrap();
    assert_eq!(links.set("file", a).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
    links.remove("file", a);
    assert_eq!(std::fs::read(at("file")).unwrap(), b"x");
    for name in ["../out", "/out", "tank/../../out", "", "."] {
        assert_eq!(links.set(name, a).unwrap_err().kind(), io::ErrorKind::InvalidInput, "{name}");
    }
    assert!(!folder.path().join("out").exists());
}
