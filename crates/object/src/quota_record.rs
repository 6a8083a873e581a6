//! The record of a bucket's quota in the control store: its key, its JSON, format 1.
//!
//! Invariant: two writes of a record never have the same bytes, so that a write decides the outcome of every
//! earlier one that was derived from the same state.
//!
//! Must not depend on: what is decided with it (`ashlar_commit::quota_share`).

use std::collections::BTreeMap;

use ashlar_cluster::Entry;
use ashlar_commit::quota_share::{PendingCount, QuotaRecord, Share};
use ashlar_format::BucketId;
use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::{Error, Result};

/// Keys of the records in the control store: this and the id of the bucket.
pub(crate) const PREFIX: &str = "quota/";

/// The key of a bucket's record.
pub(crate) fn key(bucket: BucketId) -> String {
    format!("{PREFIX}{bucket}")
}

/// The bucket that a key is about.
pub(crate) fn bucket_of(key: &str) -> Option<BucketId> {
    key.strip_prefix(PREFIX).and_then(BucketId::from_hex)
}

#[derive(Serialize, Deserialize)]
struct Stored {
    format: u32,
    /// Grows with every write.
    writes: u64,
    charged: Option<u64>,
    asked: u64,
    ended: u64,
    suspicions: u64,
    counts: u64,
    shares: BTreeMap<u16, StoredShare>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    count: Option<StoredCount>,
}

#[derive(Serialize, Deserialize)]
struct StoredShare {
    life: u64,
    granted: u64,
    net: i64,
    gross: u64,
    answered: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    suspected: Option<u64>,
}

#[derive(Serialize, Deserialize)]
struct StoredCount {
    bytes: u64,
    waits: BTreeMap<u16, u64>,
}

/// A record, and how often it was written.
#[derive(Default)]
pub(crate) struct Read {
    pub record: QuotaRecord,
    writes: u64,
}

/// What an entry of the control store says; an absent one: nothing was counted or granted yet.
pub(crate) fn decode(entry: &Entry) -> Result<Read> {
    let Some(bytes) = entry.bytes() else { return Ok(Read::default()) };
    let bad = |why: String| Error::Internal(format!("{} in the control store: {why}", entry.key()));
    let stored: Stored = serde_json::from_slice(bytes).map_err(|e| bad(e.to_string()))?;
    if stored.format != 1 {
        return Err(bad(format!("format {} is not known here", stored.format)));
    }
    let share = |s: StoredShare| Share {
        life: s.life,
        granted: s.granted,
        net: s.net,
        gross: s.gross,
        answered: s.answered,
        suspected: s.suspected,
    };
    let record = QuotaRecord {
        charged: stored.charged,
        shares: stored.shares.into_iter().map(|(node, s)| (node, share(s))).collect(),
        asked: stored.asked,
        ended: stored.ended,
        suspicions: stored.suspicions,
        counts: stored.counts,
        count: stored.count.map(|c| PendingCount { bytes: c.bytes, waits: c.waits }),
    };
    Ok(Read { record, writes: stored.writes })
}

impl Read {
    /// The next value, with `record` in the place of what was read.
    pub(crate) fn encode(&self, record: &QuotaRecord) -> Result<Bytes> {
        let share = |s: &Share| StoredShare {
            life: s.life,
            granted: s.granted,
            net: s.net,
            gross: s.gross,
            answered: s.answered,
            suspected: s.suspected,
        };
        let stored = Stored {
            format: 1,
            writes: self.writes + 1,
            charged: record.charged,
            asked: record.asked,
            ended: record.ended,
            suspicions: record.suspicions,
            counts: record.counts,
            shares: record.shares.iter().map(|(node, s)| (*node, share(s))).collect(),
            count: record.count.as_ref().map(|c| StoredCount { bytes: c.bytes, waits: c.waits.clone() }),
        };
        serde_json::to_vec(&stored).map(Bytes::from).map_err(|e| Error::Internal(e.to_string()))
    }
}
