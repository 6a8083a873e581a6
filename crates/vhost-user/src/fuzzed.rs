//! Entry points for the fuzzer: a guest whose memory is the input.
//!
//! Must not depend on: sockets of the system.

use std::sync::Arc;

use ashlar_nbd::{Device, Memory as Blocks};
use virtio_bindings::virtio_blk::{
    VIRTIO_BLK_T_DISCARD, VIRTIO_BLK_T_FLUSH, VIRTIO_BLK_T_GET_ID, VIRTIO_BLK_T_IN, VIRTIO_BLK_T_OUT,
    VIRTIO_BLK_T_WRITE_ZEROES,
};
use virtio_queue::{Queue, QueueT as _};
use vm_memory::{Bytes as _, GuestAddress, GuestAddressSpace as _, GuestMemoryAtomic, GuestMemoryMmap};

use crate::request::{Counters, Target};

/// Bytes of the guest: ring, and buffers behind it.
const BYTES: usize = 64 << 10;
/// Descriptors of its ring.
const SIZE: u16 = 8;
/// Where the rings begin.
const AVAILABLE: u64 = 0x80;
const USED: u64 = 0x100;

/// One request: descriptors at 0 (each 16 bytes), the available ring at 0x80, the header at 0x200, data at 0x400, its status at 0x800.
fn sample(kind: u32, sector: u64, data: u32, writable: bool) -> Vec<u8> {
    let mut guest = vec![0; 0x900];
    let mut descriptor = |n: usize, at: u64, len: u32, flags: u16, next: u16| {
        let bytes =
            [&at.to_le_bytes()[..], &len.to_le_bytes(), &flags.to_le_bytes(), &next.to_le_bytes()].concat();
        guest[n * 16..n * 16 + 16].copy_from_slice(&bytes);
    };
    descriptor(0, 0x200, 16, 1, if data > 0 { 1 } else { 2 });
    descriptor(1, 0x400, data, 1 | if writable { 2 } else { 0 }, 2);
    descriptor(2, 0x800, 1, 2, 0);
    guest[AVAILABLE as usize + 2] = 1;
    guest[0x200..0x204].copy_from_slice(&kind.to_le_bytes());
    guest[0x208..0x210].copy_from_slice(&sector.to_le_bytes());
    // Eight sectors from sector 0 on, for what takes ranges.
    guest[0x408] = 8;
    guest
}

/// Guests with one request each.
#[must_use]
pub fn guests() -> Vec<Vec<u8>> {
    vec![
        sample(VIRTIO_BLK_T_IN, 2, 512, true),
        sample(VIRTIO_BLK_T_OUT, 2, 1024, false),
        sample(VIRTIO_BLK_T_FLUSH, 0, 0, false),
        sample(VIRTIO_BLK_T_GET_ID, 0, 20, true),
        sample(VIRTIO_BLK_T_DISCARD, 0, 16, false),
        sample(VIRTIO_BLK_T_WRITE_ZEROES, 0, 32, false),
    ]
}

/// Executes what is in the ring of a guest with this memory. Whether something was answered with a status.
pub fn guest(input: &[u8]) -> bool {
    let Ok(memory) = GuestMemoryMmap::from_ranges(&[(GuestAddress(0), BYTES)]) else { return false };
    let space = GuestMemoryAtomic::new(memory);
    let memory = space.memory();
    let Ok(mut queue) = Queue::new(SIZE) else { return false };
    queue.set_size(SIZE);
    let placed = queue
        .try_set_desc_table_address(GuestAddress(0))
        .and_then(|()| queue.try_set_avail_ring_address(GuestAddress(AVAILABLE)))
        .and_then(|()| queue.try_set_used_ring_address(GuestAddress(USED)));
    if placed.is_err() || memory.write_slice(&input[..input.len().min(BYTES)], GuestAddress(0)).is_err() {
        return false;
    }
    queue.set_ready(true);
    let device: Arc<dyn Device> = Blocks::new(64 << 10);
    let counters = Counters::default();
    let target = Target { device: &*device, serial: "fuzzed", counters: &counters };
    let mut answered = false;
    for _ in 0..SIZE {
        let Some(chain) = queue.pop_descriptor_chain(memory.clone()) else { break };
        let written = target.execute(&chain, &memory);
        answered |= written > 0;
        assert!(written as usize <= usize::from(SIZE) * BYTES, "more than descriptors can hold");
        let _ = queue.add_used(&*memory, chain.head_index(), written);
    }
    answered
}
