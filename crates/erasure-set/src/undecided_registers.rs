//! Tracks which registers may be undecided: a record may be on slots outside of the majority that would
//! answer.
//!
//! If this process is the only coordinator, that holds for all registers from the start, and from every
//! change of the drives, until a check of all registers on all slots has ended. It also holds for a register
//! whose update failed, or was abandoned after its record was sent, until a round has settled it. If other
//! processes propose too, it always holds.
//!
//! Invariants: "all may be undecided" is the safe state; the number of kept keys is bounded, and above the bound all
//! registers may be undecided; a reader pays two loads if none is.
//!
//! Must not depend on: how a register is read or settled.

use crate::keylock::HashKeyed;
use ashlar_format::RegisterKey;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Most keys kept.
const BOUND: usize = 4096;

/// The registers that may be undecided; see the module.
pub(crate) struct UndecidedRegisters {
    /// Number of times that all registers became possibly undecided, and the number up to which a check has ended that.
    raised: AtomicU64,
    ended: AtomicU64,
    /// Registers of failed updates, by their hash.
    keys: Mutex<HashKeyed<RegisterKey>>,
    count: AtomicUsize,
}

impl UndecidedRegisters {
    pub(crate) fn new() -> UndecidedRegisters {
        let zero = || AtomicU64::new(0);
        UndecidedRegisters {
            raised: AtomicU64::new(1),
            ended: zero(),
            keys: Mutex::default(),
            count: AtomicUsize::new(0),
        }
    }

    /// From now on all registers may be undecided.
    pub(crate) fn raise(&self) {
        self.raised.fetch_add(1, Ordering::SeqCst);
    }

    /// A check begins; the returned number is for [`UndecidedRegisters::end`].
    pub(crate) fn begin(&self) -> u64 {
        self.raised.load(Ordering::SeqCst)
    }

    /// The check with this number has seen every register on every slot, and settled what it saw.
    pub(crate) fn end(&self, begun: u64) {
        self.ended.fetch_max(begun, Ordering::SeqCst);
    }

    /// Whether all registers may be undecided.
    pub(crate) fn all(&self) -> bool {
        self.ended.load(Ordering::SeqCst) != self.raised.load(Ordering::SeqCst)
    }

    /// An update of this register failed after its record was sent.
    pub(crate) fn add(&self, key: &RegisterKey, hash: u64) {
        let mut keys = self.keys.lock();
        if keys.len() < BOUND || keys.contains_key(&hash) {
            keys.insert(hash, key.clone());
            self.count.store(keys.len(), Ordering::SeqCst);
        } else {
            drop(keys);
            self.raise();
        }
    }

    /// Whether an update of this register failed.
    pub(crate) fn has(&self, hash: u64) -> bool {
        self.count.load(Ordering::SeqCst) > 0 && self.keys.lock().contains_key(&hash)
    }

    /// Whether an update of any register failed.
    pub(crate) fn any(&self) -> bool {
        self.count.load(Ordering::SeqCst) > 0
    }

    /// A round under a new ballot has settled the register.
    pub(crate) fn settled(&self, hash: u64) {
        if self.any() {
            let mut keys = self.keys.lock();
            keys.remove(&hash);
            self.count.store(keys.len(), Ordering::SeqCst);
        }
    }

    /// The registers of failed updates.
    pub(crate) fn keys(&self) -> Vec<RegisterKey> {
        self.keys.lock().values().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ashlar_format::{BucketId, GroupId, Space};

    #[test]
    fn only_a_later_check_ends_it() {
        let d = UndecidedRegisters::new();
        assert!(d.all(), "at the start");
        let look = d.begin();
        d.raise();
        d.end(look);
        assert!(d.all(), "raised during the look");
        d.end(d.begin());
        assert!(!d.all());
    }

    #[test]
    fn keys_are_bounded() {
        let d = UndecidedRegisters::new();
        d.end(d.begin());
        for i in 0..=BOUND as u64 {
            d.add(&RegisterKey::new(GroupId::default(), Space::Object, BucketId::ZERO, &i.to_be_bytes()), i);
        }
        assert!(d.has(3) && !d.has(BOUND as u64) && d.all() && d.keys().len() == BOUND);
        d.settled(3);
        assert!(!d.has(3) && d.any());
    }
}
