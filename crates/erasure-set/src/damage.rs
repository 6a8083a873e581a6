//! The damage that was found, by name: on which drive, of which object, and whether it was repaired.
//!
//! Invariants: at most [`KEPT`] findings are kept, the latest; each is logged once, when it is found.
//!
//! Must not depend on: the code that finds damage.

use crate::table::View;
use ashlar_environment::time;
use ashlar_format::{BucketId, DriveId, RegisterKey, Space};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};

/// Number of findings that are kept.
const KEPT: usize = 256;
/// Bytes after the object's key in the register key of an upload: a separator and the id of the upload.
pub(crate) const UPLOAD_TAIL: usize = 17;
/// Bytes after that in the register key of a part: its number.
pub(crate) const PART_TAIL: usize = 2;

/// What is damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// The record of a key.
    Record,
    /// A shard that does not verify: its index.
    Shard(u8),
    /// A shard that should exist and does not: its index.
    Missing(u8),
}

/// One finding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// When it was found: milliseconds since 1970.
    pub at_ms: u64,
    /// The drive.
    pub drive: DriveId,
    /// The path of the drive.
    pub path: String,
    /// The bucket of the object.
    pub bucket: BucketId,
    /// The object's key (also for a part or an upload).
    pub key: Vec<u8>,
    /// What is damaged.
    pub what: What,
    /// Whether it was made again.
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
    /// The findings that are kept, the latest last.
    pub(crate) fn list(&self) -> Vec<Damage> {
        self.last.lock().iter().cloned().collect()
    }

    /// Number of findings since the start.
    pub(crate) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// Records that damage was found on the drive of a slot.
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
