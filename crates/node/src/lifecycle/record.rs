//! The stored state of a pass through a bucket: what it did, and where it is.
//!
//! Invariant: stored records stay readable (JSON, format 1). Must not depend on: how rules are carried out.

use ashlar_object::Expired;
use serde::{Deserialize, Serialize};

/// What one pass did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PassCounts {
    /// Keys and uploads examined.
    pub keys: u64,
    /// Current versions that expired.
    pub current: u64,
    /// Noncurrent versions removed.
    pub versions: u64,
    /// Delete markers removed.
    pub markers: u64,
    /// Uploads aborted.
    pub uploads: u64,
    /// Versions kept because they are locked.
    pub locked: u64,
    /// Keys postponed to a later pass.
    pub failed: u64,
}

impl PassCounts {
    pub(super) fn add(&mut self, e: Expired) {
        self.current += e.current;
        self.versions += e.versions;
        self.markers += e.markers;
        self.locked += e.locked;
    }

    pub(super) fn changed(&self) -> u64 {
        self.current + self.versions + self.markers + self.uploads
    }
}

/// The position of a pass: the prefix of versions or uploads, and the last key.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Position {
    pub(super) uploads: bool,
    pub(super) prefix: String,
    pub(super) after: String,
}

/// The stored state of the last pass through a bucket. JSON, format 1.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct PassRecord {
    pub(super) format: u32,
    /// The version of the rules: the time when they were set.
    pub(super) set_ms: i64,
    pub(super) began_ms: i64,
    /// `None` while the pass runs.
    pub(super) ended_ms: Option<i64>,
    #[serde(rename = "place")]
    pub(super) position: Position,
    #[serde(rename = "did")]
    pub(super) counts: PassCounts,
}

impl PassRecord {
    pub(super) fn decode(bytes: &[u8]) -> Option<PassRecord> {
        serde_json::from_slice::<PassRecord>(bytes).ok().filter(|k| k.format == 1)
    }

    /// Whether `other` is ahead with the same rules: in a later pass, or at the end of this one.
    pub(super) fn is_behind(&self, other: &PassRecord) -> bool {
        let order = |k: &PassRecord| (k.began_ms, k.ended_ms.is_some());
        self.set_ms == other.set_ms && order(self) < order(other)
    }
}
