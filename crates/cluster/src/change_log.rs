//! The log of changes behind a copy of the control store: what a change writes does not grow with the store.
//!
//! A drive has one log beside its two slots. A record of the log holds changes that follow the copy in the slot
//! that was written last; the hash of a record covers the hash before it, and the first one that of the copy. So
//! a record of another copy, of another drive, or behind a torn record never verifies. Records begin at
//! multiples of [`BLOCK`]: appending one never writes a block that holds an acknowledged record. When the log has
//! reached its limit, a full copy is written to the other slot and the log begins anew at its first byte.
//! Byte layout: see [`encode`].
//!
//! Invariants: a record is flushed before the next one is written, so only the last one can be torn; a process
//! appends only behind a copy that it has written itself; the changes of a log are applied only to the position
//! that they were made from.
//!
//! Must not depend on: drives, and what values mean.

use std::collections::VecDeque;
use std::sync::Arc;

use ashlar_checksum::frame_hash;
use ashlar_format::codec::{Reader, Writer};
use bytes::Bytes;

use crate::control::{Change, Value};
use crate::copy::Snapshot;

/// Records begin at multiples of this, in bytes.
pub(crate) const BLOCK: usize = 4096;
/// Least limit of a log, in bytes. Above it, a log may be as long as the copy that it follows.
const LEAST_LIMIT: usize = 1 << 20;
/// Format number, the first byte of a record.
const FORMAT: u8 = 1;
/// Bytes of changes that are kept for drives which are behind.
const KEPT_BYTES: usize = 1 << 20;
/// Key of the checksum: "ashlar control store log 1 .....". Never changes.
const KEY: [u64; 4] = [
    u64::from_le_bytes(*b"ashlar c"),
    u64::from_le_bytes(*b"ontrol s"),
    u64::from_le_bytes(*b"tore log"),
    u64::from_le_bytes(*b" 1 ....."),
];

/// The changes of one revision.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct LoggedChange {
    /// The term, which a logged change never changes.
    pub term: u64,
    /// The revision that it was made from.
    pub from: u64,
    /// The revision that it makes.
    pub revision: u64,
    /// Keys with their new values; `None`: removed.
    pub keys: Vec<(String, Option<Bytes>)>,
}

impl LoggedChange {
    /// The changes between two snapshots. `None`: not only keys differ, so that it needs a full copy.
    pub(crate) fn between(old: &Snapshot, new: &Snapshot, changes: &[Change]) -> Option<LoggedChange> {
        let only_keys = (old.term, &old.members, &old.before) == (new.term, &new.members, &new.before);
        let keys = || changes.iter().map(|c| (c.key.clone(), c.value.clone())).collect();
        only_keys.then(|| LoggedChange {
            term: new.term,
            from: old.revision,
            revision: new.revision,
            keys: keys(),
        })
    }

    fn size(&self) -> usize {
        let key =
            |(key, value): &(String, Option<Bytes>)| key.len() + value.as_ref().map_or(0, Bytes::len) + 16;
        self.keys.iter().map(key).sum::<usize>() + 32
    }

    /// Applies it; false if it does not follow this position.
    fn apply(&self, to: &mut Snapshot) -> bool {
        if to.position() != (self.term, self.from) || self.revision <= self.from {
            return false;
        }
        to.revision = self.revision;
        for (key, value) in &self.keys {
            match value {
                Some(bytes) => {
                    let value = Value { revision: self.revision, bytes: bytes.clone() };
                    to.entries.insert(key.clone(), value);
                }
                None => drop(to.entries.remove(key)),
            }
        }
        true
    }
}

/// The last changes, for drives that are behind by a few. Bounded by [`KEPT_BYTES`].
#[derive(Default)]
pub(crate) struct RecentChanges {
    changes: VecDeque<Arc<LoggedChange>>,
    bytes: usize,
}

impl RecentChanges {
    pub(crate) fn add(&mut self, change: LoggedChange) {
        self.bytes += change.size();
        self.changes.push_back(Arc::new(change));
        while self.bytes > KEPT_BYTES && self.changes.len() > 1 {
            self.bytes -= self.changes.pop_front().map_or(0, |c| c.size());
        }
    }

    /// The changes that lead from one position to another, in order; `None` if they are not all here.
    pub(crate) fn path(&self, from: (u64, u64), to: (u64, u64)) -> Option<Vec<Arc<LoggedChange>>> {
        let mut path: Vec<Arc<LoggedChange>> = Vec::new();
        let mut at = to;
        for change in self.changes.iter().rev() {
            if at == from {
                break;
            }
            // A change that failed is not on the way: no later one was made from it.
            if (change.term, change.revision) == at {
                at = (change.term, change.from);
                path.push(change.clone());
            }
        }
        path.reverse();
        (at == from && !path.is_empty()).then_some(path)
    }
}

/// Where the log of a drive goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LogEnd {
    /// The hash of the last record, or of the copy.
    hash: [u8; 32],
    /// Where the next record begins.
    at: usize,
    /// No record may end behind this.
    limit: usize,
}

impl LogEnd {
    /// The begin of the log behind a copy, given as its bytes.
    pub(crate) fn behind(copy: &[u8]) -> LogEnd {
        let mut hash = [0; 32];
        if let Some(last) = copy.last_chunk::<32>() {
            hash = *last;
        }
        LogEnd { hash, at: 0, limit: copy.len().max(LEAST_LIMIT) }
    }

    /// Where the next record begins, in bytes.
    pub(crate) fn at(&self) -> u64 {
        self.at as u64
    }

    /// The next record, and the end of the log behind it; `None`: the log has reached its limit.
    pub(crate) fn record(&self, changes: &[Arc<LoggedChange>]) -> Option<(Vec<u8>, LogEnd)> {
        let (bytes, hash) = encode(changes, &self.hash);
        let at = self.at + bytes.len();
        (at <= self.limit).then_some((bytes, LogEnd { hash, at, limit: self.limit }))
    }
}

/// A record: length of the body u32, body, HighwayHash-256 of the hash before it and the body (key: "ashlar control
/// store log 1 ....."), zero bytes up to a multiple of [`BLOCK`]. Body: format u8 = 1, term u64, list of changes: from
/// revision u64, revision u64, list of (key bytes, 0, or 1 and value bytes). Returns it with its hash.
fn encode(changes: &[Arc<LoggedChange>], before: &[u8; 32]) -> (Vec<u8>, [u8; 32]) {
    let mut w = Writer::default();
    w.u8(FORMAT);
    w.u64(changes.first().map_or(0, |c| c.term));
    w.list(changes, |w, change| {
        w.u64(change.from);
        w.u64(change.revision);
        w.list(&change.keys, |w, (key, value)| {
            w.bytes(key.as_bytes());
            w.option(value.as_ref(), |w, value| w.bytes(value));
        });
    });
    let body = w.into_vec();
    let hash = frame_hash(&KEY, &[before, &body]);
    let mut out = Vec::with_capacity((body.len() + 36).next_multiple_of(BLOCK));
    out.extend_from_slice(&(body.len() as u32).to_le_bytes());
    out.extend_from_slice(&body);
    out.extend_from_slice(&hash);
    out.resize(out.len().next_multiple_of(BLOCK), 0);
    (out, hash)
}

fn decode(body: &[u8]) -> Result<Vec<LoggedChange>, ashlar_format::Error> {
    let mut r = Reader::new(body);
    if r.u8()? != FORMAT {
        return Err(ashlar_format::Error::Malformed("format of the control store's log"));
    }
    let term = r.u64()?;
    let changes = r.list(|r| {
        let (from, revision) = (r.u64()?, r.u64()?);
        let keys = r.list(|r| {
            let key = r.string()?;
            Ok((key, r.option(|r| Ok(Bytes::copy_from_slice(r.bytes()?)))?))
        })?;
        Ok(LoggedChange { term, from, revision, keys })
    })?;
    r.end()?;
    Ok(changes)
}

/// The record at the begin of `log`, if it verifies behind `before`: its body, its hash, and where the next begins.
fn next_record<'a>(log: &'a [u8], before: &[u8; 32]) -> Option<(&'a [u8], [u8; 32], usize)> {
    let (length, rest) = log.split_first_chunk::<4>()?;
    let (body, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
    let hash = frame_hash(&KEY, &[before, body]);
    (rest.first_chunk::<32>()? == &hash).then_some((body, hash, (body.len() + 36).next_multiple_of(BLOCK)))
}

/// Applies the log to the copy that it follows, given also as its bytes. Ends at the first record that does not
/// verify: it is torn, or belongs to another copy.
///
/// # Errors
/// A record that verifies and cannot be understood: a newer release wrote it.
pub(crate) fn replay(copy: &[u8], to: &mut Snapshot, log: &[u8]) -> Result<(), ashlar_format::Error> {
    let (mut hash, mut at) = (LogEnd::behind(copy).hash, 0);
    while let Some((body, next, length)) = log.get(at..).and_then(|rest| next_record(rest, &hash)) {
        for change in decode(body)? {
            if !change.apply(to) {
                return Err(ashlar_format::Error::Malformed("a change that does not follow"));
            }
        }
        (hash, at) = (next, at + length);
    }
    Ok(())
}

/// For the fuzzer: the body of a record. What decodes must encode to the same changes.
#[doc(hidden)]
pub fn fuzzed_log_record(body: &[u8]) {
    if let Ok(changes) = decode(body) {
        let changes: Vec<_> = changes.into_iter().map(Arc::new).collect();
        let (record, _) = encode(&changes, &[7; 32]);
        let (again, ..) = next_record(&record, &[7; 32]).unwrap_or((&[], [0; 32], 0));
        let same = decode(again).is_ok_and(|again| again.iter().eq(changes.iter().map(|c| &**c)));
        assert!(same, "a record that is not itself");
    }
}

#[cfg(test)]
#[path = "change_log_tests.rs"]
mod tests;
