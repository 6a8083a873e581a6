//! What was found damaged, by name: which drive, which object, whether it is whole again.
//!
//! Invariants: at most [`KEPT`] are remembered, the latest; each is told in the log once, when it is found.
//! Must not depend on: who finds it.

use crate::table::View;
use ashlar_environment::time;
use ashlar_format::{BucketId, DriveId, RegisterKey, Space};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};

/// Finds that are remembered.
const KEPT: usize = 256;
/// Behind the object's key in the register key of an upload: a separator and the upload's id.
pub(crate) const UPLOAD_TAIL: usize = 17;
/// Behind that in the register key of a part: its number.
pub(crate) const PART_TAIL: usize = 2;

/// What is damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// The record of a key.
    Record,
    /// A shard that does not verify: its index.
    Shard(u8),
    /// A shard that is not there although it should be: its index.
    Missing(u8),
}

/// One find.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// When: milliseconds since 1970.
    pub at_ms: u64,
    /// On which drive.
    pub drive: DriveId,
    /// Where that is.
    pub path: String,
    /// Whose it is.
    pub bucket: BucketId,
    /// The object's key (of a part or an upload too).
    pub key: Vec<u8>,
    /// What is damaged.
    pub what: What,
    /// It was made again.
    pub repaired: bool,
}

/// See [`crate::Sets::damages`].
#[derive(Default)]
pub(crate) struct Damages {
    last: Mutex<VecDeque<Damage>>,
    count: AtomicU64,
}

impl std::fmt::Display for What {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            What::Record => write!(f, "record"),
            What::Shard(n) => write!(f, "shard {n}"),
            What::Missing(n) => write!(f, "shard {n} (missing)"),
        }
    }
}

/// The object's key in a register key.
fn object_key(key: &RegisterKey) -> &[u8] {
    let bytes = key.key();
    let tail = match key.space() {
        s if s == Space::Upload as u8 => UPLOAD_TAIL,
        s if s == Space::Part as u8 => UPLOAD_TAIL + PART_TAIL,
        _ => 0,
    };
    &bytes[..bytes.len().saturating_sub(tail)]
}

impl Damages {
    /// What is remembered, the latest last.
    pub(crate) fn list(&self) -> Vec<Damage> {
        self.last.lock().iter().cloned().collect()
    }

    /// Finds of damage since the start.
    pub(crate) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// Damage was found on a slot's drive.
    pub(crate) fn found(&self, view: &View, slot: u8, key: &RegisterKey, what: What, repaired: bool) {
        let Some(m) = view.member(slot) else { return };
        let found = Damage {
            at_ms: time::wall_ms().max(0).unsigned_abs(),
            drive: m.id,
            path: m.drive.path().display().to_string(),
            bucket: key.bucket(),
            key: object_key(key).to_vec(),
            what,
            repaired,
        };
        let object = found.key.escape_ascii();
        tracing::warn!(drive = %found.path, bucket = ?found.bucket, %object, %what, repaired,
            "damage was found on a drive");
        self.count.fetch_add(1, Ordering::Relaxed);
        let mut last = self.last.lock();
        if last.len() == KEPT {
            last.pop_front();
        }
        last.push_back(found);
    }
}
