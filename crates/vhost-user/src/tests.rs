//! A hypervisor's side of the protocol, with the frontend of rust-vmm and a driver of one ring that is written out here.

use std::collections::VecDeque;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ashlar_nbd::{Device, Export, Exports, Extent, Fault, Memory};
use parking_lot::Mutex;
use vhost::vhost_user::message::{VhostUserConfigFlags, VhostUserProtocolFeatures, VhostUserVirtioFeatures};
use vhost::vhost_user::{Frontend, VhostUserFrontend as _};
use vhost::{VhostBackend as _, VhostUserMemoryRegionInfo, VringConfigData};
use virtio_bindings::virtio_blk::*;
use vm_memory::{Bytes as _, FileOffset, GuestAddress, GuestMemoryBackend as _, GuestMemoryMmap};
use vmm_sys_util::eventfd::{EFD_NONBLOCK, EventFd};

use crate::Server;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const MIB: u64 = 1 << 20;
/// Descriptors of the ring of the tests.
const SIZE: u16 = 64;
const DESCRIPTORS: u64 = 0x1000;
const AVAILABLE: u64 = 0x2000;
const USED: u64 = 0x3000;
/// Buffers of requests: 64 KiB for each descriptor.
const BUFFERS: u64 = 0x10_0000;

/// A device in memory whose requests for some sectors wait until they are released.
struct Slow {
    memory: Arc<Memory>,
    /// Writes that begin here wait.
    held: u64,
    released: AtomicBool,
    flushes: Mutex<u64>,
}

impl Slow {
    fn new(bytes: u64) -> Arc<Slow> {
        let (released, flushes) = (AtomicBool::new(true), Mutex::new(0));
        Arc::new(Slow { memory: Memory::new(bytes), held: 8 * 4096, released, flushes })
    }
}

impl Device for Slow {
    fn size(&self) -> u64 {
        self.memory.size()
    }
    fn read(&self, at: u64, out: &mut [u8]) -> Result<(), Fault> {
        self.memory.read(at, out)
    }
    fn write(&self, at: u64, data: Vec<u8>, durable: bool) -> Result<(), Fault> {
        while at == self.held && !self.released.load(Ordering::Acquire) {
            std::thread::sleep(Duration::from_millis(1));
        }
        self.memory.write(at, data, durable)
    }
    fn flush(&self) -> Result<(), Fault> {
        *self.flushes.lock() += 1;
        self.memory.flush()
    }
    fn zero(&self, at: u64, len: u64, keep: bool, durable: bool) -> Result<(), Fault> {
        self.memory.zero(at, len, keep, durable)
    }
    fn trim(&self, at: u64, len: u64, durable: bool) -> Result<(), Fault> {
        self.memory.trim(at, len, durable)
    }
    fn extents(&self, at: u64, len: u64, most: usize) -> Result<Vec<Extent>, Fault> {
        self.memory.extents(at, len, most)
    }
}

/// Devices that come and go.
#[derive(Default)]
struct Listed(Mutex<Vec<(String, Arc<Slow>)>>);

impl Exports for Listed {
    fn list(&self) -> Vec<(String, String)> {
        self.0.lock().iter().map(|(name, _)| (name.clone(), String::new())).collect()
    }
    fn open(&self, name: &str) -> Option<Export> {
        let found = self.0.lock().iter().find(|(n, _)| n == name)?.1.clone();
        Some(Export { name: name.to_owned(), description: String::new(), device: found })
    }
}

fn until(what: &str, done: impl Fn() -> bool) {
    let begun = Instant::now();
    while !done() {
        assert!(begun.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A guest with one ring.
struct Guest {
    memory: GuestMemoryMmap,
    _file: File,
    frontend: Frontend,
    kick: EventFd,
    call: EventFd,
    next: u16,
    free: VecDeque<u16>,
}

impl Guest {
    /// Connects; the ring goes on after `answered` requests.
    fn connect(path: &Path, memory: Option<(GuestMemoryMmap, File)>, answered: u16) -> Guest {
        let (memory, file) = memory.unwrap_or_else(|| {
            let file = tempfile::tempfile().unwrap();
            file.set_len(8 * MIB).unwrap();
            let offset = FileOffset::new(file.try_clone().unwrap(), 0);
            let range = (GuestAddress(0), 8 * MIB as usize, Some(offset));
            (GuestMemoryMmap::from_ranges_with_files([range]).unwrap(), file)
        });
        let mut frontend = Frontend::connect(path, 16).unwrap();
        frontend.set_owner().unwrap();
        let offered = frontend.get_features().unwrap();
        let wanted = VhostUserVirtioFeatures::PROTOCOL_FEATURES.bits() | 1 << 32 | 1 << VIRTIO_BLK_F_FLUSH;
        assert_eq!(offered & wanted, wanted);
        frontend.set_features(wanted).unwrap();
        let protocol = frontend.get_protocol_features().unwrap();
        assert!(protocol.contains(VhostUserProtocolFeatures::CONFIG | VhostUserProtocolFeatures::MQ));
        frontend.set_protocol_features(protocol & !VhostUserProtocolFeatures::REPLY_ACK).unwrap();
        let region = memory.iter().next().map(VhostUserMemoryRegionInfo::from_guest_region).unwrap().unwrap();
        frontend.set_mem_table(&[region]).unwrap();
        let (kick, call) = (EventFd::new(EFD_NONBLOCK).unwrap(), EventFd::new(EFD_NONBLOCK).unwrap());
        let base = memory.get_host_address(GuestAddress(0)).unwrap() as u64;
        frontend.set_vring_num(0, SIZE).unwrap();
        let at = VringConfigData {
            queue_max_size: SIZE,
            queue_size: SIZE,
            flags: 0,
            desc_table_addr: base + DESCRIPTORS,
            used_ring_addr: base + USED,
            avail_ring_addr: base + AVAILABLE,
            log_addr: None,
        };
        frontend.set_vring_addr(0, &at).unwrap();
        frontend.set_vring_base(0, answered).unwrap();
        frontend.set_vring_call(0, &call).unwrap();
        frontend.set_vring_kick(0, &kick).unwrap();
        frontend.set_vring_enable(0, true).unwrap();
        let next = memory.read_obj::<u16>(GuestAddress(AVAILABLE + 2)).unwrap();
        Guest { memory, _file: file, frontend, kick, call, next, free: (0..SIZE).collect() }
    }

    /// Makes a request available: its header, what it sends, room for what it gets, its status. The descriptor of its status.
    fn send(&mut self, kind: u32, sector: u64, out: &[u8], room: u32) -> u16 {
        let mut header = [0; 16];
        header[..4].copy_from_slice(&kind.to_le_bytes());
        header[8..].copy_from_slice(&sector.to_le_bytes());
        let mut parts: Vec<(Vec<u8>, u32, bool)> = vec![(header.to_vec(), 16, false)];
        if !out.is_empty() {
            parts.push((out.to_vec(), out.len() as u32, false));
        }
        if room > 0 {
            parts.push((vec![0xee; room as usize], room, true));
        }
        parts.push((vec![0xff], 1, true));
        let taken: Vec<u16> = (0..parts.len()).map(|_| self.free.pop_front().unwrap()).collect();
        for (i, (bytes, len, writable)) in parts.iter().enumerate() {
            let last = i + 1 == parts.len();
            let buffer = BUFFERS + u64::from(taken[i]) * 0x1_0000;
            self.memory.write_slice(bytes, GuestAddress(buffer)).unwrap();
            let flags = u16::from(!last) | if *writable { 2 } else { 0 };
            let next = if last { 0 } else { taken[i + 1] };
            let at = DESCRIPTORS + u64::from(taken[i]) * 16;
            self.memory.write_obj(buffer, GuestAddress(at)).unwrap();
            self.memory.write_obj(*len, GuestAddress(at + 8)).unwrap();
            self.memory.write_obj(flags, GuestAddress(at + 12)).unwrap();
            self.memory.write_obj(next, GuestAddress(at + 14)).unwrap();
        }
        let slot = AVAILABLE + 4 + u64::from(self.next % SIZE) * 2;
        self.memory.write_obj(taken[0], GuestAddress(slot)).unwrap();
        self.next = self.next.wrapping_add(1);
        std::sync::atomic::fence(Ordering::SeqCst);
        self.memory.write_obj(self.next, GuestAddress(AVAILABLE + 2)).unwrap();
        *taken.last().unwrap()
    }

    fn notify(&self) {
        self.kick.write(1).unwrap();
    }

    /// How many requests were answered.
    fn answered(&self) -> u16 {
        std::sync::atomic::fence(Ordering::SeqCst);
        self.memory.read_obj(GuestAddress(USED + 2)).unwrap()
    }

    /// The descriptor of the n-th answer and its bytes.
    fn answer(&self, n: u16) -> (u32, u32) {
        let at = USED + 4 + u64::from(n % SIZE) * 8;
        (self.memory.read_obj(GuestAddress(at)).unwrap(), self.memory.read_obj(GuestAddress(at + 4)).unwrap())
    }

    fn buffer(&self, descriptor: u16, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.memory.read_slice(&mut bytes, GuestAddress(BUFFERS + u64::from(descriptor) * 0x1_0000)).unwrap();
        bytes
    }

    /// Sends one request and waits: its status, and what it got.
    fn ask(&mut self, kind: u32, sector: u64, out: &[u8], room: u32) -> (u8, Vec<u8>) {
        let before = self.answered();
        let status = self.send(kind, sector, out, room);
        self.notify();
        until("an answer", || self.answered() != before);
        until("a notification", || self.call.read().is_ok());
        let got = if room > 0 { self.buffer(status - 1, room as usize) } else { Vec::new() };
        let said = self.buffer(status, 1)[0];
        // Its descriptors are the only ones in use.
        self.free = (0..SIZE).collect();
        (said, got)
    }
}

fn serve(devices: &[(&str, Arc<Slow>)]) -> (tempfile::TempDir, Arc<Listed>, Server) {
    let folder = tempfile::tempdir().unwrap();
    let listed = Arc::new(Listed::default());
    *listed.0.lock() = devices.iter().map(|(name, device)| ((*name).to_owned(), device.clone())).collect();
    let server = Server::start(&folder.path().join("vm"), 0o600, listed.clone()).unwrap();
    (folder, listed, server)
}

fn range(sector: u64, sectors: u32, flags: u32) -> Vec<u8> {
    [&sector.to_le_bytes()[..], &sectors.to_le_bytes()[..], &flags.to_le_bytes()[..]].concat()
}

const OK: u8 = VIRTIO_BLK_S_OK as u8;
const IOERR: u8 = VIRTIO_BLK_S_IOERR as u8;
const UNSUPPORTED: u8 = VIRTIO_BLK_S_UNSUPP as u8;

#[test]
fn requests_do_what_the_specification_says() {
    let device = Slow::new(4 * MIB);
    let (folder, _, server) = serve(&[("tank/data", device.clone())]);
    let mut guest = Guest::connect(&folder.path().join("vm/tank/data.sock"), None, 0);
    let data: Vec<u8> = (0..8192u32).map(|n| (n % 251) as u8).collect();
    assert_eq!(guest.ask(VIRTIO_BLK_T_OUT, 9, &data, 0).0, OK);
    assert_eq!(guest.ask(VIRTIO_BLK_T_IN, 9, &[], 8192), (OK, data.clone()));
    let mut raw = vec![0; 8192];
    device.memory.read(9 * 512, &mut raw).unwrap();
    assert_eq!(raw, data);
    assert_eq!(guest.ask(VIRTIO_BLK_T_FLUSH, 0, &[], 0).0, OK);
    assert_eq!(*device.flushes.lock(), 1);
    let (said, id) = guest.ask(VIRTIO_BLK_T_GET_ID, 0, &[], 20);
    assert_eq!((said, id), (OK, [&b"data"[..], &[0; 16]].concat()));
    // Zeros with and without space, and a discard of what is left.
    assert_eq!(guest.ask(VIRTIO_BLK_T_WRITE_ZEROES, 0, &range(9, 2, 0), 0).0, OK);
    assert_eq!(guest.ask(VIRTIO_BLK_T_WRITE_ZEROES, 0, &range(11, 2, 1), 0).0, OK);
    let (said, got) = guest.ask(VIRTIO_BLK_T_IN, 9, &[], 4096);
    assert_eq!((said, &got[..2048], &got[2048..]), (OK, &[0; 2048][..], &data[2048..4096]));
    assert_eq!(guest.ask(VIRTIO_BLK_T_DISCARD, 0, &range(0, 4096, 0), 0).0, OK);
    assert_eq!(guest.ask(VIRTIO_BLK_T_IN, 16, &[], 512), (OK, vec![0; 512]));
    let counted = server.statistics();
    assert_eq!((counted.reads, counted.writes, counted.others, counted.errors), (3, 1, 5, 0));
    assert_eq!((counted.bytes_read, counted.bytes_written, counted.connections), (12_800, 8192, 1));
    server.stop();
}

#[test]
fn bad_requests_change_nothing_and_are_answered() {
    let device = Slow::new(MIB);
    let (folder, _, server) = serve(&[("tank/data", device.clone())]);
    let mut guest = Guest::connect(&folder.path().join("vm/tank/data.sock"), None, 0);
    let sectors = MIB / 512;
    // Behind the end, over it, at the largest sector number, parts of sectors.
    assert_eq!(guest.ask(VIRTIO_BLK_T_OUT, sectors, &[1; 512], 0).0, IOERR);
    assert_eq!(guest.ask(VIRTIO_BLK_T_OUT, sectors - 1, &[1; 1024], 0).0, IOERR);
    assert_eq!(guest.ask(VIRTIO_BLK_T_OUT, u64::MAX, &[1; 512], 0).0, IOERR);
    assert_eq!(guest.ask(VIRTIO_BLK_T_OUT, 0, &[1; 100], 0).0, IOERR);
    assert_eq!(guest.ask(VIRTIO_BLK_T_IN, sectors - 1, &[], 1024).0, IOERR);
    // One of two ranges is outside; a flag that does not exist; half a range; too many.
    let two = [range(0, 8, 1), range(sectors - 1, 2, 1)].concat();
    assert_eq!(guest.ask(VIRTIO_BLK_T_WRITE_ZEROES, 0, &two, 0).0, IOERR);
    assert_eq!(guest.ask(VIRTIO_BLK_T_WRITE_ZEROES, 0, &range(0, 8, 2), 0).0, UNSUPPORTED);
    assert_eq!(guest.ask(VIRTIO_BLK_T_DISCARD, 0, &range(0, 8, 1), 0).0, UNSUPPORTED);
    assert_eq!(guest.ask(VIRTIO_BLK_T_DISCARD, 0, &range(0, 8, 0)[..8], 0).0, IOERR);
    assert_eq!(guest.ask(VIRTIO_BLK_T_DISCARD, 0, &range(0, 1, 0).repeat(17), 0).0, IOERR);
    assert_eq!(guest.ask(77, 0, &[], 0).0, UNSUPPORTED);
    assert_eq!(server.statistics().errors, 11);
    let mut raw = vec![0; MIB as usize];
    device.memory.read(0, &mut raw).unwrap();
    assert!(raw.iter().all(|b| *b == 0));
    // The ring still works.
    assert_eq!(guest.ask(VIRTIO_BLK_T_OUT, 0, &[7; 512], 0).0, OK);
    server.stop();
}

#[test]
fn config_describes_the_device() {
    let (folder, _, server) = serve(&[("tank/data", Slow::new(3 * MIB))]);
    let mut guest = Guest::connect(&folder.path().join("vm/tank/data.sock"), None, 0);
    let (_, config) = guest.frontend.get_config(0, 60, VhostUserConfigFlags::empty(), &[0; 60]).unwrap();
    let word = |at: usize| u32::from_le_bytes(config[at..at + 4].try_into().unwrap());
    assert_eq!(u64::from_le_bytes(config[..8].try_into().unwrap()), 3 * MIB / 512);
    assert_eq!((word(12), word(20), config[24], word(28), config[34]), (510, 512, 3, 8, 16));
    assert_eq!(
        (word(36), word(40), word(44), word(48), word(52), config[56]),
        (524_288, 16, 8, 524_288, 16, 1)
    );
    server.stop();
}

/// A later request ends first: its answer waits. After the end of the connection the hypervisor goes on behind what was answered, and
/// every request is executed.
#[test]
fn answers_come_in_order_and_a_new_connection_goes_on_behind_them() {
    let device = Slow::new(4 * MIB);
    let (folder, _, server) = serve(&[("tank/data", device.clone())]);
    let path = folder.path().join("vm/tank/data.sock");
    let mut guest = Guest::connect(&path, None, 0);
    assert_eq!(guest.ask(VIRTIO_BLK_T_OUT, 0, &[1; 512], 0).0, OK);
    device.released.store(false, Ordering::Release);
    let held = guest.send(VIRTIO_BLK_T_OUT, 64, &[2; 4096], 0);
    let later = guest.send(VIRTIO_BLK_T_OUT, 128, &[3; 4096], 0);
    guest.notify();
    let read = |at: u64| {
        let mut byte = [0];
        device.memory.read(at, &mut byte).unwrap();
        byte[0]
    };
    until("the later request has ended", || read(128 * 512) == 3 && guest.buffer(later, 1)[0] == OK);
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(guest.answered(), 1, "nothing is answered before the request before it");
    // The process ends here in the worst case: what a hypervisor knows is that one request was answered.
    let (memory, file) = (guest.memory.clone(), guest._file.try_clone().unwrap());
    drop(guest);
    until("the end of the connection is noticed", || server.statistics().connections == 0);
    assert_eq!(memory.read_obj::<u16>(GuestAddress(USED + 2)).unwrap(), 1);
    device.released.store(true, Ordering::Release);
    // Requests of the connection before have ended when the next one begins.
    let guest = Guest::connect(&path, Some((memory, file)), 1);
    guest.notify();
    until("all are answered", || guest.answered() >= 3);
    assert_eq!((read(64 * 512), read(128 * 512)), (2, 3));
    assert_eq!((guest.buffer(held, 1)[0], guest.buffer(later, 1)[0]), (OK, OK));
    let heads: Vec<u32> = (1..3).map(|n| guest.answer(n).0).collect();
    assert_eq!(heads, [0, 3], "in the order of the requests: {heads:?}");
    server.stop();
}

#[test]
fn stopping_a_ring_waits_for_its_requests() {
    let device = Slow::new(4 * MIB);
    let (folder, _, server) = serve(&[("tank/data", device.clone())]);
    let mut guest = Guest::connect(&folder.path().join("vm/tank/data.sock"), None, 0);
    device.released.store(false, Ordering::Release);
    guest.send(VIRTIO_BLK_T_OUT, 64, &[2; 4096], 0);
    guest.notify();
    until("the request is taken", || server.statistics().writes == 1);
    let released = Arc::new(AtomicBool::new(false));
    let (slow, said) = (device.clone(), released.clone());
    let later = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(100));
        said.store(true, Ordering::SeqCst);
        slow.released.store(true, Ordering::Release);
    });
    let base = guest.frontend.get_vring_base(0).unwrap();
    assert!(released.load(Ordering::SeqCst), "the ring was stopped while a request was under way");
    assert_eq!((base, guest.answered()), (1, 1));
    // What becomes available now is not taken.
    guest.send(VIRTIO_BLK_T_OUT, 0, &[2; 512], 0);
    guest.notify();
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(guest.answered(), 1);
    later.join().unwrap();
    server.stop();
}

#[test]
fn rings_that_break_the_rules_harm_nobody() {
    let (a, b) = (Slow::new(MIB), Slow::new(MIB));
    let (folder, _, server) = serve(&[("tank/a", a), ("tank/b", b)]);
    let mut bad = Guest::connect(&folder.path().join("vm/tank/a.sock"), None, 0);
    let mut good = Guest::connect(&folder.path().join("vm/tank/b.sock"), None, 0);
    // A buffer outside of the memory.
    let status = bad.send(VIRTIO_BLK_T_IN, 0, &[], 512);
    let at = GuestAddress(DESCRIPTORS + u64::from(status - 1) * 16);
    bad.memory.write_obj(u64::MAX - 100, at).unwrap();
    bad.notify();
    until("an answer", || bad.answered() == 1);
    assert_eq!(bad.answer(0).1, 0, "nothing was written");
    // A chain that never ends, one without a status, and an index that jumps.
    bad.memory.write_obj(0u64, at).unwrap();
    let head = bad.send(VIRTIO_BLK_T_IN, 0, &[], 512) - 2;
    let link = GuestAddress(DESCRIPTORS + u64::from(head + 2) * 16 + 12);
    bad.memory.write_obj(3u16, link).unwrap();
    bad.memory.write_obj(head, GuestAddress(link.0 + 2)).unwrap();
    bad.notify();
    until("an answer", || bad.answered() == 2);
    let alone = bad.send(VIRTIO_BLK_T_FLUSH, 0, &[], 0);
    bad.memory.write_obj(0u16, GuestAddress(DESCRIPTORS + u64::from(alone) * 16 + 12)).unwrap();
    bad.notify();
    until("an answer", || bad.answered() == 3);
    bad.memory.write_obj(bad.next.wrapping_add(5000), GuestAddress(AVAILABLE + 2)).unwrap();
    bad.notify();
    assert_eq!(good.ask(VIRTIO_BLK_T_OUT, 0, &[9; 512], 0).0, OK);
    assert_eq!(good.ask(VIRTIO_BLK_T_IN, 0, &[], 512), (OK, vec![9; 512]));
    server.stop();
}

#[test]
fn sockets_follow_the_exports() {
    let data = Slow::new(MIB);
    let (folder, listed, server) = serve(&[("tank/data", data.clone())]);
    let path = |name: &str| folder.path().join("vm").join(name);
    assert!(path("tank/data.sock").exists());
    listed.0.lock().push(("tank/late".to_owned(), Slow::new(MIB)));
    until("a socket for the new one", || path("tank/late.sock").exists());
    let mut guest = Guest::connect(&path("tank/late.sock"), None, 0);
    assert_eq!(guest.ask(VIRTIO_BLK_T_OUT, 0, &[1; 512], 0).0, OK);
    // It is deleted, and another one gets its name: the hypervisor is disconnected.
    listed.0.lock()[1].1 = Slow::new(2 * MIB);
    until("the old one is gone", || guest.frontend.get_features().is_err());
    until("nobody is connected", || server.statistics().connections == 0);
    until("a socket for the other one", || path("tank/late.sock").exists());
    let mut guest = Guest::connect(&path("tank/late.sock"), None, 0);
    assert_eq!(guest.ask(VIRTIO_BLK_T_OUT, 3 * MIB / 1024, &[1; 512], 0).0, OK);
    listed.0.lock().clear();
    until("no sockets", || !path("tank").exists());
    // A name that is no path below the folder gets none, and the server goes on.
    listed.0.lock().push(("../escaped".to_owned(), Slow::new(MIB)));
    listed.0.lock().push(("tank/data".to_owned(), data));
    until("a socket again", || path("tank/data.sock").exists());
    assert!(!folder.path().join("escaped.sock").exists());
    server.stop();
    assert!(!path("tank/data.sock").exists());
}

#[test]
fn a_path_in_use_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let listed = Arc::new(Listed::default());
    listed.0.lock().push(("data".to_owned(), Slow::new(MIB)));
    let _other = std::os::unix::net::UnixListener::bind(folder.path().join("data.sock")).unwrap();
    let said = Server::start(folder.path(), 0o600, listed).err().unwrap().to_string();
    assert!(said.contains("data.sock") && said.contains("listens"), "{said}");
}
