//! The bytes that a drive stores as the record of a register.
//!
//! Usually they are the encoded record itself. A one-sync write (docs/protocol.md 2.3 a) stores a wrapper
//! with the record, the data that a recovering proposer needs to judge it, and a full copy of the record it
//! was built on (one level deep). Layout of the wrapper: docs/formats.md, "One-sync record".
//!
//! Invariants: one encoding per value; the first byte distinguishes the two forms; a decoder never panics.
//!
//! Must not depend on: drives, ballots.

use ashlar_commit::{OneSync, SlotSet};
use ashlar_format::codec::{Reader, Writer};
use ashlar_format::{Ballot, Error, Record, WriteId};
use bytes::Bytes;

/// First byte of the wrapped form; encoded records begin with a small format number.
const ONE_SYNC: u8 = 0xE1;

/// The additional fields of a one-sync record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OneSyncRecord {
    /// The parameters that decide whether it is chosen.
    pub(crate) one_sync: OneSync,
    /// The write whose shards are in the same ACCEPT.
    pub(crate) write_id: WriteId,
    /// The record it was built on, without a wrapper; empty if there was none.
    pub(crate) parent: Bytes,
    /// The ballot of that record; zero if there was none.
    pub(crate) parent_ballot: Ballot,
    /// Its summary.
    pub(crate) parent_summary: Bytes,
}

/// The parts of either form, without a copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stored {
    /// The encoded record.
    pub(crate) record: Bytes,
    /// Present for a one-sync record.
    pub(crate) one_sync_record: Option<OneSyncRecord>,
}

impl Stored {
    /// Whether the bytes are a wrapped record.
    pub(crate) fn is_one_sync(bytes: &[u8]) -> bool {
        bytes.first() == Some(&ONE_SYNC)
    }

    /// Parses the bytes of a drive.
    pub(crate) fn parse(bytes: &Bytes) -> Result<Stored, Error> {
        if !Stored::is_one_sync(bytes) {
            return Ok(Stored { record: bytes.clone(), one_sync_record: None });
        }
        let mut r = Reader::new(bytes);
        r.u8()?;
        let (k, needed, targets) = (r.u8()?, r.u8()?, SlotSet(r.u64()?));
        let write_id = WriteId(r.array()?);
        let parent_ballot = Ballot::from_bytes(&r.array()?);
        let parent = bytes.slice_ref(r.bytes()?);
        let parent_summary = bytes.slice_ref(r.bytes()?);
        let record = bytes.slice_ref(r.bytes()?);
        r.end()?;
        if k == 0 || needed < k || record.is_empty() {
            return Err(Error::Malformed("one-sync record"));
        }
        let one_sync = OneSync { k, needed, targets };
        let one_sync_record = OneSyncRecord { one_sync, write_id, parent, parent_ballot, parent_summary };
        Ok(Stored { record, one_sync_record: Some(one_sync_record) })
    }

    /// The bytes for a drive.
    pub(crate) fn wrap(record: &[u8], one_sync_record: &OneSyncRecord) -> Bytes {
        let mut w = Writer::with_capacity(48 + record.len() + one_sync_record.parent.len());
        w.u8(ONE_SYNC);
        w.u8(one_sync_record.one_sync.k);
        w.u8(one_sync_record.one_sync.needed);
        w.u64(one_sync_record.one_sync.targets.0);
        w.raw(&one_sync_record.write_id.0);
        w.raw(&one_sync_record.parent_ballot.to_bytes());
        w.bytes(&one_sync_record.parent);
        w.bytes(&one_sync_record.parent_summary);
        w.bytes(record);
        Bytes::from(w.into_vec())
    }

    /// The record itself.
    pub(crate) fn decode(&self) -> Result<Record, Error> {
        Record::decode(&self.record)
    }
}

/// For the fuzzer: the bytes of a one-sync record decode to one value, which has one encoding.
#[doc(hidden)]
pub fn fuzzed_stored(bytes: &[u8]) {
    if let Ok(stored) = Stored::parse(&Bytes::copy_from_slice(bytes)) {
        let _ = stored.decode();
        match &stored.one_sync_record {
            Some(one_sync_record) => assert_eq!(Stored::wrap(&stored.record, one_sync_record), bytes),
            None => assert_eq!(stored.record, bytes),
        }
    }
}

/// One-sync records for the fuzzer.
#[doc(hidden)]
#[must_use]
pub fn fuzzed_stored_seeds() -> Vec<Vec<u8>> {
    let record = Record { seq: 3, parent: 9, nonce: 0, body: ashlar_format::Body::Tombstone }.encode();
    let one_sync_record = |parent: &[u8]| OneSyncRecord {
        one_sync: OneSync { k: 2, needed: 3, targets: SlotSet(15) },
        write_id: WriteId([7; 16]),
        parent: Bytes::copy_from_slice(parent),
        parent_ballot: Ballot { epoch: 1, counter: 5, node: 2, nonce: 9 },
        parent_summary: Bytes::from_static(b"s"),
    };
    [one_sync_record(&record), one_sync_record(b"")]
        .map(|one_sync_record| Stored::wrap(&record, &one_sync_record).to_vec())
        .to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ashlar_format::Body;

    #[test]
    fn both_forms_round_trip() {
        let plain = Bytes::from(Record { seq: 3, parent: 9, nonce: 0, body: Body::Tombstone }.encode());
        let s = Stored::parse(&plain).unwrap();
        assert_eq!((s.record.clone(), s.one_sync_record.is_none()), (plain.clone(), true));
        let one_sync_record = OneSyncRecord {
            one_sync: OneSync { k: 2, needed: 3, targets: SlotSet(15) },
            write_id: WriteId([7; 16]),
            parent: Bytes::from_static(b"parent"),
            parent_ballot: Ballot { epoch: 1, counter: 5, node: 2, nonce: 9 },
            parent_summary: Bytes::from_static(b"s"),
        };
        let wrapped = Stored::wrap(&plain, &one_sync_record);
        let s = Stored::parse(&wrapped).unwrap();
        assert_eq!(s.record, plain);
        assert_eq!(s.one_sync_record.as_ref(), Some(&one_sync_record));
        assert_eq!(s.decode().unwrap().seq, 3);
        for cut in 0..wrapped.len() {
            let part = wrapped.slice(..cut);
            if !part.is_empty() {
                assert!(Stored::parse(&part).is_err(), "{cut} bytes");
            }
        }
    }
}
