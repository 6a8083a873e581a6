//! One connection of a hypervisor: what the device says about itself, and the threads that execute its requests.
//!
//! The thread of the rings takes requests and gives them to [`WORKERS`] threads, so that requests that wait for drives do not wait for
//! each other.
//!
//! Invariants: a ring is stopped only when none of its requests is under way; at the end of a connection all requests that were taken
//! have ended.
//!
//! Must not depend on: sockets, what requests do.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ashlar_environment::thread;
use ashlar_nbd::Device;
use parking_lot::{Condvar, Mutex};
use vhost::vhost_user::message::{VhostUserProtocolFeatures, VhostUserVirtioFeatures};
use vhost_user_backend::{VhostUserBackend, VringMutex, VringT as _};
use virtio_bindings::virtio_blk::{
    VIRTIO_BLK_F_BLK_SIZE, VIRTIO_BLK_F_DISCARD, VIRTIO_BLK_F_FLUSH, VIRTIO_BLK_F_MQ, VIRTIO_BLK_F_RO,
    VIRTIO_BLK_F_SEG_MAX, VIRTIO_BLK_F_TOPOLOGY, VIRTIO_BLK_F_WRITE_ZEROES,
};
use virtio_bindings::virtio_config::VIRTIO_F_VERSION_1;
use virtio_bindings::virtio_ring::{VIRTIO_RING_F_EVENT_IDX, VIRTIO_RING_F_INDIRECT_DESC};
use vmm_sys_util::epoll::EventSet;
use vmm_sys_util::event::{EventConsumer, EventFlag, EventNotifier, new_event_consumer_and_notifier};

use crate::request::{Counters, RANGES, SECTOR, Target};
use crate::ring::{Ring, Space, Taken};

/// Rings, at most: the hypervisor chooses how many it uses.
pub(crate) const RINGS: usize = 16;
/// Descriptors of a ring, at most.
pub(crate) const RING_SIZE: usize = 1024;
/// Threads that execute the requests of one connection.
const WORKERS: usize = 16;
/// Descriptors of one request, at most, beside those of header and status: requests of 1 MiB, of pages that lie anywhere, are not divided. More than
/// a short ring has come in indirect descriptors.
const SEGMENTS: u32 = 510;
/// The most sectors in one range to discard or to write zeros: the work of a request is bounded.
const MOST_SECTORS: u32 = (256 << 20) / SECTOR as u32;
/// Bytes of the configuration space that the features here need.
const CONFIG: usize = 60;

/// A device as one connection sees it.
pub(crate) struct Backend {
    device: Arc<dyn Device>,
    serial: String,
    counters: Arc<Counters>,
    rings: Vec<Ring>,
    space: Mutex<Option<Space>>,
    event_idx: AtomicBool,
    work: Work,
    exit: Mutex<Option<(EventConsumer, EventNotifier)>>,
}

/// Requests that wait for a thread.
#[derive(Default)]
struct Work {
    waiting: Mutex<(VecDeque<Job>, bool)>,
    ready: Condvar,
}

struct Job {
    ring: usize,
    vring: VringMutex,
    taken: Taken,
}

impl Backend {
    pub(crate) fn new(
        device: Arc<dyn Device>,
        serial: String,
        counters: Arc<Counters>,
    ) -> io::Result<Arc<Backend>> {
        let exit = new_event_consumer_and_notifier(EventFlag::NONBLOCK | EventFlag::CLOEXEC)?;
        Ok(Arc::new(Backend {
            device,
            serial,
            counters,
            rings: (0..RINGS).map(|_| Ring::default()).collect(),
            space: Mutex::default(),
            event_idx: AtomicBool::new(false),
            work: Work::default(),
            exit: Mutex::new(Some(exit)),
        }))
    }

    /// Starts the threads that execute requests; they end after [`Backend::finish`].
    pub(crate) fn start(self: &Arc<Self>) -> io::Result<Vec<thread::JoinHandle<()>>> {
        let mut workers = Vec::new();
        for _ in 0..WORKERS {
            let backend = self.clone();
            match thread::start("vhost-user", None, move || backend.run()) {
                Ok(worker) => workers.push(worker),
                // Fewer are enough.
                Err(error) if workers.is_empty() => return Err(error),
                Err(_) => break,
            }
        }
        Ok(workers)
    }

    /// Takes no further request, and waits for those that were taken.
    pub(crate) fn stop(&self) {
        self.rings.iter().for_each(Ring::stop);
    }

    /// The connection has ended: takes and answers nothing more.
    pub(crate) fn abandon(&self) {
        self.rings.iter().for_each(Ring::abandon);
    }

    /// Lets the threads end.
    pub(crate) fn finish(&self) {
        self.work.waiting.lock().1 = true;
        self.work.ready.notify_all();
    }

    fn run(&self) {
        loop {
            let job = {
                let mut waiting = self.work.waiting.lock();
                loop {
                    if let Some(job) = waiting.0.pop_front() {
                        break job;
                    }
                    if waiting.1 {
                        return;
                    }
                    self.work.ready.wait(&mut waiting);
                }
            };
            let target = Target { device: &*self.device, serial: &self.serial, counters: &self.counters };
            let written = target.execute(&job.taken.chain, &job.taken.memory);
            self.rings[job.ring].end(&job.vring, job.taken.ticket, written);
        }
    }

    /// Gives the requests of a ring to the threads; whether there were any.
    fn take_all(&self, ring: usize, vring: &VringMutex) -> bool {
        let Some(space) = self.space.lock().clone() else { return false };
        let mut any = false;
        while let Some(taken) = self.rings[ring].take(vring, &space) {
            any = true;
            self.work.waiting.lock().0.push_back(Job { ring, vring: vring.clone(), taken });
            self.work.ready.notify_one();
        }
        any
    }

    /// `struct virtio_blk_config`, little-endian.
    fn config(&self) -> [u8; CONFIG] {
        let (_, preferred, _) = self.device.block_sizes();
        let exponent = (preferred / SECTOR as u32).max(1).ilog2() as u8;
        let mut config = [0; CONFIG];
        let mut put = |at: usize, bytes: &[u8]| config[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, &(self.device.size() / SECTOR).to_le_bytes());
        put(12, &SEGMENTS.to_le_bytes());
        put(20, &(SECTOR as u32).to_le_bytes());
        // Topology: a physical block has 2^exponent logical ones, and is the smallest request that is not read and written again.
        put(24, &[exponent, 0]);
        put(26, &(1u16 << exponent).to_le_bytes());
        put(28, &(1u32 << exponent).to_le_bytes());
        put(34, &(RINGS as u16).to_le_bytes());
        // What to discard, and where it begins: whole physical blocks.
        put(36, &MOST_SECTORS.to_le_bytes());
        put(40, &RANGES.to_le_bytes());
        put(44, &(1u32 << exponent).to_le_bytes());
        put(48, &MOST_SECTORS.to_le_bytes());
        put(52, &RANGES.to_le_bytes());
        // Zeros may be made by giving space back.
        put(56, &[1]);
        config
    }
}

impl VhostUserBackend for Backend {
    type Bitmap = ();
    type Vring = VringMutex;

    fn num_queues(&self) -> usize {
        RINGS
    }

    fn max_queue_size(&self) -> usize {
        RING_SIZE
    }

    fn features(&self) -> u64 {
        let of_block = [
            VIRTIO_BLK_F_SEG_MAX,
            VIRTIO_BLK_F_BLK_SIZE,
            VIRTIO_BLK_F_FLUSH,
            VIRTIO_BLK_F_TOPOLOGY,
            VIRTIO_BLK_F_MQ,
            VIRTIO_BLK_F_DISCARD,
            VIRTIO_BLK_F_WRITE_ZEROES,
        ];
        let of_rings = [VIRTIO_F_VERSION_1, VIRTIO_RING_F_INDIRECT_DESC, VIRTIO_RING_F_EVENT_IDX];
        let bits = of_block.into_iter().chain(of_rings).fold(0, |all, bit| all | 1 << bit);
        let read_only = if self.device.read_only() { 1 << VIRTIO_BLK_F_RO } else { 0 };
        bits | read_only | VhostUserVirtioFeatures::PROTOCOL_FEATURES.bits()
    }

    fn protocol_features(&self) -> VhostUserProtocolFeatures {
        VhostUserProtocolFeatures::CONFIG
            | VhostUserProtocolFeatures::MQ
            | VhostUserProtocolFeatures::REPLY_ACK
            | VhostUserProtocolFeatures::CONFIGURE_MEM_SLOTS
    }

    fn set_event_idx(&self, enabled: bool) {
        self.event_idx.store(enabled, Ordering::Relaxed);
    }

    fn get_config(&self, offset: u32, size: u32) -> Vec<u8> {
        let config = self.config();
        let (from, len) = (offset as usize, size as usize);
        // What is not known here is zero.
        (from..from.saturating_add(len)).map(|at| config.get(at).copied().unwrap_or(0)).collect()
    }

    fn update_memory(&self, space: Space) -> io::Result<()> {
        *self.space.lock() = Some(space);
        Ok(())
    }

    fn exit_event(&self, _thread: usize) -> Option<(EventConsumer, EventNotifier)> {
        self.exit.lock().take()
    }

    fn stop_vring(&self, ring: u32) -> io::Result<()> {
        if let Some(ring) = self.rings.get(ring as usize) {
            ring.drain();
        }
        Ok(())
    }

    fn handle_event(&self, event: u16, _: EventSet, vrings: &[VringMutex], _thread: usize) -> io::Result<()> {
        let ring = usize::from(event);
        let (Some(vring), true) = (vrings.get(ring), ring < RINGS) else { return Ok(()) };
        if !self.event_idx.load(Ordering::Relaxed) {
            self.take_all(ring, vring);
            return Ok(());
        }
        // With event indexes the guest notifies once, and only after it was told from where on.
        loop {
            let _ = vring.disable_notification();
            let any = self.take_all(ring, vring);
            // What came meanwhile was not notified.
            if !vring.enable_notification().unwrap_or(false) || !any {
                return Ok(());
            }
        }
    }
}
