//! Stores the records of full scrubs in the control store, so that a pass goes on after a restart and at another node.
//!
//! The record of a group is the value `scrub/GROUP`: JSON, format 1 (docs/formats.md). What cannot be read counts as
//! absent.
//!
//! Invariants: a record is bounded (below 24 KiB), and so is what is kept of it here (one per group).
//!
//! Must not depend on: when a pass is due.

use std::collections::HashMap;
use std::sync::Arc;

use ashlar_cluster::{Control, Error, Update};
use ashlar_environment::time;
use ashlar_erasure_set::{MARK_BYTES, MARKS, ScrubCounts, ScrubMark, ScrubPass, ScrubRecord, ScrubRecords};
use ashlar_format::{DriveId, GroupId, RegisterKey};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

/// Prefix of the keys in the control store; the group follows.
const PREFIX: &str = "scrub/";

/// The records in the control store.
pub(crate) struct StoredScrubs {
    control: Control,
    decoded: Mutex<HashMap<GroupId, Decoded>>,
}

/// What was decoded last of a group.
struct Decoded {
    /// The revision of its value.
    revision: u64,
    /// `None`: it is none of this format.
    record: Option<Arc<ScrubRecord>>,
}

impl StoredScrubs {
    pub(crate) fn new(control: Control) -> StoredScrubs {
        StoredScrubs { control, decoded: Mutex::default() }
    }
}

impl ScrubRecords for StoredScrubs {
    fn read(&self, group: GroupId) -> Option<Arc<ScrubRecord>> {
        let value = self.control.get(&format!("{PREFIX}{group}"))?;
        let mut decoded = self.decoded.lock();
        if let Some(known) = decoded.get(&group).filter(|known| known.revision == value.revision) {
            return known.record.clone();
        }
        let record = decode(&value.bytes).map(Arc::new);
        decoded.insert(group, Decoded { revision: value.revision, record: record.clone() });
        record
    }

    fn write(&self, group: GroupId, record: ScrubRecord) -> BoxFuture<'static, Result<ScrubRecord, String>> {
        let control = self.control.clone();
        // A task of its own: the caller does not wait for a store that does not answer.
        let written = ashlar_environment::spawn("scrub-record", async move {
            let key = format!("{PREFIX}{group}");
            let merge = |update: &mut Update| {
                let entry = control.read(&key);
                let stored = entry.bytes().and_then(|bytes| decode(bytes));
                let merged = match &stored {
                    Some(stored) => record.clone().merged(stored.clone(), time::wall_ms()),
                    None => record.clone(),
                };
                if stored.as_ref() != Some(&merged) {
                    update.set(&entry, encode(&merged));
                }
                Ok::<_, Error>(merged)
            };
            control.change(merge).await.map_err(|error| error.to_string())
        });
        Box::pin(async move { written.await.unwrap_or_else(|error| Err(error.to_string())) })
    }
}

#[derive(Serialize, Deserialize)]
struct Document {
    format: u32,
    seen_ms: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    last: Option<Pass>,
    #[serde(skip_serializing_if = "Option::is_none")]
    current: Option<Pass>,
}

#[derive(Serialize, Deserialize)]
struct Pass {
    began_ms: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    ended_ms: Option<i64>,
    drives: Vec<String>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    position: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    marks: Vec<(String, i64, bool)>,
    marked_ms: i64,
    interval_ms: i64,
    whole: bool,
    counts: Counts,
}

#[derive(Serialize, Deserialize)]
struct Counts {
    took_ms: u64,
    registers: u64,
    damaged: u64,
    records: u64,
    shards: u64,
    missing: u64,
    lost: u64,
    bytes: u64,
}

fn encode(record: &ScrubRecord) -> Bytes {
    let (last, current) = (record.last.as_ref().map(written), record.current.as_ref().map(written));
    let document = Document { format: 1, seen_ms: record.seen_ms, last, current };
    Bytes::from(serde_json::to_vec(&document).unwrap_or_default())
}

/// `None`: not a record of this format.
fn decode(bytes: &[u8]) -> Option<ScrubRecord> {
    let document: Document = serde_json::from_slice(bytes).ok().filter(|d: &Document| d.format == 1)?;
    let pass = |pass: Option<Pass>| match pass {
        Some(pass) => read(pass).map(Some),
        None => Some(None),
    };
    let (last, current) = (pass(document.last)?, pass(document.current)?);
    Some(ScrubRecord { seen_ms: document.seen_ms, last, current })
}

fn written(pass: &ScrubPass) -> Pass {
    let (marks, c) = (pass.marks.iter(), pass.counts);
    Pass {
        began_ms: pass.began_ms,
        ended_ms: pass.ended_ms,
        drives: pass.drives.iter().map(|drive| drive.to_hex()).collect(),
        position: BASE64.encode(&pass.position),
        marks: marks.map(|m| (BASE64.encode(&m.position), m.at_ms, m.whole)).collect(),
        marked_ms: pass.marked_ms,
        interval_ms: pass.interval_ms,
        whole: pass.whole,
        counts: Counts {
            took_ms: c.took_ms,
            registers: c.registers,
            damaged: c.damaged,
            records: c.records,
            shards: c.shards,
            missing: c.missing,
            lost: c.lost,
            bytes: c.bytes,
        },
    }
}

/// `None`: it has values that are never written.
fn read(pass: Pass) -> Option<ScrubPass> {
    let bytes = |text: &str, most| BASE64.decode(text).ok().filter(|bytes| bytes.len() <= most);
    let mark = |(position, at_ms, whole): &(String, i64, bool)| {
        Some(ScrubMark { position: bytes(position, MARK_BYTES)?, at_ms: *at_ms, whole: *whole })
    };
    let marks: Option<Vec<ScrubMark>> = pass.marks.iter().map(mark).collect();
    let ascend = |marks: &Vec<ScrubMark>| marks.is_sorted_by(|a, b| a.position < b.position);
    let c = pass.counts;
    Some(ScrubPass {
        began_ms: pass.began_ms,
        ended_ms: pass.ended_ms,
        drives: pass.drives.iter().map(|id| DriveId::from_hex(id)).collect::<Option<_>>()?,
        position: bytes(&pass.position, RegisterKey::MAX + 1)?,
        marks: marks.filter(|marks| marks.len() <= MARKS && ascend(marks))?,
        marked_ms: pass.marked_ms,
        interval_ms: pass.interval_ms,
        whole: pass.whole,
        counts: ScrubCounts {
            took_ms: c.took_ms,
            registers: c.registers,
            damaged: c.damaged,
            records: c.records,
            shards: c.shards,
            missing: c.missing,
            lost: c.lost,
            bytes: c.bytes,
        },
    })
}

#[cfg(test)]
#[path = "scrub_records_tests.rs"]
mod tests;
