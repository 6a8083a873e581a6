//! The requests of one ring that are under way, and the order of their answers.
//!
//! Requests end in any order, but are answered in the order in which the guest made them available. After a connection that ended
//! unexpectedly a hypervisor knows one number only: how many requests were answered. With this order the others are exactly those that
//! follow, and it sends them again.
//!
//! Invariants: every request that was taken is answered once, unless its connection has ended; when [`Ring::drain`] returns, none is under way; no more requests are under
//! way than the ring has room for.
//!
//! Must not depend on: what requests do.

use std::collections::VecDeque;

use parking_lot::{Condvar, Mutex};
use vhost_user_backend::{VringMutex, VringT as _};
use virtio_queue::QueueT as _;
use vm_memory::GuestAddressSpace as _;

use crate::request::{Chain, Memory};

/// The memory of a guest, and its changes.
pub(crate) type Space = vm_memory::GuestMemoryAtomic<vm_memory::GuestMemoryMmap>;

/// A request that was taken from a ring.
pub(crate) struct Taken {
    /// Its place in the order of answers.
    pub(crate) ticket: u64,
    pub(crate) chain: Chain,
    pub(crate) memory: Memory,
}

/// The requests of one ring.
#[derive(Default)]
pub(crate) struct Ring {
    under_way: Mutex<UnderWay>,
    idle: Condvar,
}

#[derive(Default)]
struct UnderWay {
    /// The ticket of the first of `ended`.
    first: u64,
    /// Nothing more is taken.
    stopped: bool,
    /// Nothing more is answered.
    abandoned: bool,
    /// For each request that is not answered yet: the bytes that were written for it, once it has ended; and its descriptor.
    ended: VecDeque<(u16, Option<u32>)>,
}

impl Ring {
    /// Takes the next request. `None`: there is none, or the ring is stopped.
    pub(crate) fn take(&self, vring: &VringMutex, space: &Space) -> Option<Taken> {
        // Before the lock of the ring, as everywhere: whoever stops it sees this request in `ended`.
        let mut under_way = self.under_way.lock();
        let mut state = vring.get_mut();
        let queue = state.get_queue_mut();
        // A driver that keeps to the rules has no descriptor left when the ring is full.
        if under_way.stopped || under_way.ended.len() >= usize::from(queue.size()) {
            return None;
        }
        let memory = space.memory();
        let chain = queue.pop_descriptor_chain(memory.clone())?;
        let ticket = under_way.first + under_way.ended.len() as u64;
        under_way.ended.push_back((chain.head_index(), None));
        Some(Taken { ticket, chain, memory })
    }

    /// A request has ended, for which `written` bytes were written. It is answered when all before it are.
    pub(crate) fn end(&self, vring: &VringMutex, ticket: u64, written: u32) {
        let mut under_way = self.under_way.lock();
        let place = (ticket - under_way.first) as usize;
        under_way.ended[place].1 = Some(written);
        let mut answered = false;
        while let Some(&(head, Some(written))) = under_way.ended.front() {
            if !under_way.abandoned
                && let Err(error) = vring.add_used(head, written)
            {
                tracing::warn!(%error, "a guest has no valid ring for answers");
            }
            under_way.ended.pop_front();
            under_way.first += 1;
            answered = true;
        }
        // An unknown wish is treated as one for a notification: one too many does no harm.
        if answered && !under_way.abandoned && vring.needs_notification().unwrap_or(true) {
            let _ = vring.signal_used_queue();
        }
        if under_way.ended.is_empty() {
            self.idle.notify_all();
        }
    }

    /// Takes nothing more, and waits for what was taken.
    pub(crate) fn stop(&self) {
        self.under_way.lock().stopped = true;
        self.drain();
    }

    /// Takes and answers nothing more: the hypervisor has looked how many were answered, and will send the others again.
    pub(crate) fn abandon(&self) {
        let mut under_way = self.under_way.lock();
        (under_way.stopped, under_way.abandoned) = (true, true);
    }

    /// Waits until no request is under way. Requests may be taken again afterwards, unless the hypervisor has stopped its side.
    pub(crate) fn drain(&self) {
        let mut under_way = self.under_way.lock();
        while !under_way.ended.is_empty() {
            self.idle.wait(&mut under_way);
        }
    }
}
