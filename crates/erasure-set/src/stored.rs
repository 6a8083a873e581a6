//! The bytes that a drive stores as the record of a register.
//!
//! Usually they are the encoded record itself. A one-sync write (docs/protocol.md 2.3 a) stores a wrapper
//! with the record, the data that a recovering proposer needs to judge it, and the whole record it was built
//! on (one level deep). What both records end with is written once. Layout of the wrapper: docs/formats.md,
//! "One-sync record".
//!
//! Invariants: one encoding per value; the first byte distinguishes the forms; a decoder never panics.
//!
//! Must not depend on: drives, ballots.

use ashlar_commit::{OneSync, SlotSet};
use ashlar_format::codec::{Reader, Writer};
use ashlar_format::{Ballot, Error, Record, WriteId};
use bytes::Bytes;

/// First byte of the wrapped form; encoded records begin with a small format number.
const ONE_SYNC: u8 = 0xE2;
/// That of the form in which the record before has all of its bytes. It is read and not written.
const ONE_SYNC_1: u8 = 0xE1;

/// The record that another one was built on, without a wrapper, as the other one's bytes tell it: a record that
/// adds a version ends like the one before.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub(crate) struct Parent {
    /// Its bytes before those that both records end with.
    begin: Bytes,
    /// How many those are.
    shared: usize,
}

impl Parent {
    /// `parent`: its bytes; `record`: those of the record that was built on it.
    pub(crate) fn of(parent: &Bytes, record: &[u8]) -> Parent {
        let shared = parent.iter().rev().zip(record.iter().rev()).take_while(|(a, b)| a == b).count();
        Parent { begin: parent.slice(..parent.len() - shared), shared }
    }

    /// There was none.
    pub(crate) fn is_none(&self) -> bool {
        self.begin.is_empty() && self.shared == 0
    }

    /// Its bytes. `record`: those of the record that was built on it.
    pub(crate) fn bytes(&self, record: &[u8]) -> Bytes {
        if self.shared == 0 {
            return self.begin.clone();
        }
        let end = &record[record.len() - self.shared..];
        Bytes::from([&self.begin, end].concat())
    }
}

/// The additional fields of a one-sync record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OneSyncRecord {
    /// The parameters that decide whether it is chosen.
    pub(crate) one_sync: OneSync,
    /// The write whose shards are in the same ACCEPT.
    pub(crate) write_id: WriteId,
    /// The record it was built on.
    pub(crate) parent: Parent,
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
        matches!(bytes.first(), Some(&(ONE_SYNC | ONE_SYNC_1)))
    }

    /// Parses the bytes of a drive.
    pub(crate) fn parse(bytes: &Bytes) -> Result<Stored, Error> {
        if !Stored::is_one_sync(bytes) {
            return Ok(Stored { record: bytes.clone(), one_sync_record: None });
        }
        let mut r = Reader::new(bytes);
        let form = r.u8()?;
        let (k, needed, targets) = (r.u8()?, r.u8()?, SlotSet(r.u64()?));
        let write_id = WriteId(r.array()?);
        let parent_ballot = Ballot::from_bytes(&r.array()?);
        let begin = bytes.slice_ref(r.bytes()?);
        let shared = if form == ONE_SYNC { r.var()? } else { 0 };
        let parent_summary = bytes.slice_ref(r.bytes()?);
        let record = bytes.slice_ref(r.bytes()?);
        r.end()?;
        if k == 0 || needed < k || record.is_empty() {
            return Err(Error::Malformed("one-sync record"));
        }
        let shared = usize::try_from(shared).ok().filter(|n| *n <= record.len());
        let shared = shared.ok_or(Error::Malformed("record before a one-sync record"))?;
        let differ = || record.len() == shared || begin.last() != record.get(record.len() - shared - 1);
        if form == ONE_SYNC && !begin.is_empty() && !differ() {
            return Err(Error::Malformed("record before a one-sync record"));
        }
        let parent = Parent { begin, shared };
        let one_sync = OneSync { k, needed, targets };
        let one_sync_record = OneSyncRecord { one_sync, write_id, parent, parent_ballot, parent_summary };
        Ok(Stored { record, one_sync_record: Some(one_sync_record) })
    }

    /// The bytes for a drive.
    pub(crate) fn wrap(record: &[u8], one_sync_record: &OneSyncRecord) -> Bytes {
        let mut w = Writer::with_capacity(320 + record.len() + one_sync_record.parent.begin.len());
        w.u8(ONE_SYNC);
        w.u8(one_sync_record.one_sync.k);
        w.u8(one_sync_record.one_sync.needed);
        w.u64(one_sync_record.one_sync.targets.0);
        w.raw(&one_sync_record.write_id.0);
        w.raw(&one_sync_record.parent_ballot.to_bytes());
        w.bytes(&one_sync_record.parent.begin);
        w.var(one_sync_record.parent.shared as u64);
        w.bytes(&one_sync_record.parent_summary);
        w.bytes(record);
        Bytes::from(w.into_vec())
    }

    /// The record itself.
    pub(crate) fn decode(&self) -> Result<Record, Error> {
        Record::decode(&self.record)
    }
}

/// For the fuzzer: the bytes of a one-sync record decode to one value, which has one encoding in each form.
#[doc(hidden)]
pub fn fuzzed_stored(bytes: &[u8]) {
    if let Ok(stored) = Stored::parse(&Bytes::copy_from_slice(bytes)) {
        let _ = stored.decode();
        match &stored.one_sync_record {
            Some(one_sync_record) => {
                let parent = one_sync_record.parent.bytes(&stored.record);
                let _ = Record::decode(&parent);
                let parent = Parent::of(&parent, &stored.record);
                if bytes.first() == Some(&ONE_SYNC) {
                    assert_eq!(parent, one_sync_record.parent);
                    assert_eq!(Stored::wrap(&stored.record, one_sync_record), bytes);
                }
            }
            None => assert_eq!(stored.record, bytes),
        }
    }
}

/// One-sync records for the fuzzer.
#[doc(hidden)]
#[must_use]
pub fn fuzzed_stored_seeds() -> Vec<Vec<u8>> {
    let of = |seq| Record { seq, parent: 9, nonce: 0, body: ashlar_format::Body::Tombstone }.encode();
    let record = of(3);
    let one_sync_record = |parent: Vec<u8>| OneSyncRecord {
        one_sync: OneSync { k: 2, needed: 3, targets: SlotSet(15) },
        write_id: WriteId([7; 16]),
        parent: Parent::of(&Bytes::from(parent), &record),
        parent_ballot: Ballot { epoch: 1, counter: 5, node: 2, nonce: 9 },
        parent_summary: Bytes::from_static(b"s"),
    };
    [one_sync_record(of(2)), one_sync_record(record.clone()), one_sync_record(Vec::new())]
        .map(|one_sync_record| Stored::wrap(&record, &one_sync_record).to_vec())
        .to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ashlar_format::Body;

    fn one_sync_record(parent: Parent) -> OneSyncRecord {
        OneSyncRecord {
            one_sync: OneSync { k: 2, needed: 3, targets: SlotSet(15) },
            write_id: WriteId([7; 16]),
            parent,
            parent_ballot: Ballot { epoch: 1, counter: 5, node: 2, nonce: 9 },
            parent_summary: Bytes::from_static(b"s"),
        }
    }

    fn plain() -> Bytes {
        Bytes::from(Record { seq: 3, parent: 9, nonce: 0, body: Body::Tombstone }.encode())
    }

    #[test]
    fn both_forms_round_trip() {
        let plain = plain();
        let s = Stored::parse(&plain).unwrap();
        assert_eq!((s.record.clone(), s.one_sync_record.is_none()), (plain.clone(), true));
        let of = |bytes: &[u8]| Parent::of(&Bytes::copy_from_slice(bytes), &plain);
        // No record before; one that ends otherwise; one that ends alike; the same one; an end of it; a longer one.
        let longer = [b"longer", &plain[..]].concat();
        let mut alike = plain.to_vec();
        alike[1] = 2;
        let parents: [&[u8]; 6] = [b"", b"parent", &alike, &plain, &plain[4..], &longer];
        for (parent, shared) in
            parents.into_iter().zip([0, 0, plain.len() - 2, plain.len(), plain.len() - 4, plain.len()])
        {
            let one = one_sync_record(of(parent));
            assert_eq!((one.parent.shared, one.parent.is_none()), (shared, parent.is_empty()));
            let wrapped = Stored::wrap(&plain, &one);
            fuzzed_stored(&wrapped);
            let s = Stored::parse(&wrapped).unwrap();
            assert_eq!(s.record, plain);
            assert_eq!(s.one_sync_record.as_ref(), Some(&one));
            assert_eq!(s.one_sync_record.as_ref().unwrap().parent.bytes(&s.record), parent);
            assert_eq!(s.decode().unwrap().seq, 3);
            for cut in 1..wrapped.len() {
                assert!(Stored::parse(&wrapped.slice(..cut)).is_err(), "{cut} bytes");
            }
        }
    }

    /// Where a byte is written twice that both records end with, or more are shared than there are.
    #[test]
    fn other_encodings_of_a_parent_are_refused() {
        let plain = plain();
        for shared in [plain.len() + 1, usize::MAX] {
            let parent = Parent { begin: Bytes::from_static(b"x"), shared };
            assert!(Stored::parse(&Stored::wrap(&plain, &one_sync_record(parent))).is_err());
        }
        let parent = Parent { begin: plain.slice(..plain.len() - 3), shared: 3 };
        assert!(Stored::parse(&Stored::wrap(&plain, &one_sync_record(parent))).is_err());
    }

    /// The form of earlier releases, byte by byte.
    #[test]
    fn form_with_whole_parent_is_read() {
        let (plain, one) = (plain(), one_sync_record(Parent::default()));
        let mut w = Writer::with_capacity(200);
        w.raw(&[0xE1, 2, 3]);
        w.u64(15);
        w.raw(&[7; 16]);
        w.raw(&one.parent_ballot.to_bytes());
        w.bytes(&plain);
        w.bytes(b"s");
        w.bytes(&plain);
        let bytes = Bytes::from(w.into_vec());
        fuzzed_stored(&bytes);
        let s = Stored::parse(&bytes).unwrap();
        let read = s.one_sync_record.unwrap();
        assert_eq!(read.parent.bytes(&s.record), plain);
        assert_eq!((s.record, OneSyncRecord { parent: Parent::default(), ..read }), (plain, one));
    }
}
