//! The bytes of the segments of the feed. Layout: docs/formats.md, "Change feed".
//!
//! Invariants: one value has one encoding; a decoder never panics, whatever its input.
//!
//! Must not depend on: where segments are stored.

use std::sync::Arc;

use ashlar_format::codec::{Reader, Writer};
use ashlar_format::{Ballot, BucketId, Error, VersionId};

use super::change::{Cause, Change, Kind};
use crate::types::ETag;

/// First byte of a segment.
const FORMAT: u8 = 1;

/// An intended change, recorded before it is made.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Intent {
    /// Its id while it is open; from 1.
    pub id: u64,
    /// Milliseconds since 1970.
    pub time_ms: i64,
    pub bucket_id: BucketId,
    pub bucket: String,
    pub key: String,
    /// The version that the request names, if any.
    pub version: Option<VersionId>,
    pub cause: Arc<Cause>,
}

/// One entry of a segment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Entry {
    /// A change is about to be made.
    Intent(Intent),
    /// A change was made, for the intent with this id (0: there was none).
    Change(u64, Arc<Change>),
    /// The change of this intent was not made.
    Void(u64),
}

/// A decoded segment.
pub(crate) struct Segment {
    /// Number of the oldest segment with an intent that was open when this one was written.
    pub open_from: u64,
    pub entries: Vec<Entry>,
}

impl Entry {
    /// Its approximate number of bytes.
    pub fn weight(&self) -> usize {
        let of_cause =
            |c: &Cause| c.who.len() + c.source.len() + c.request_id.len() + c.agent.len() + c.endpoint.len();
        match self {
            Entry::Intent(i) => 64 + i.bucket.len() + i.key.len() + of_cause(&i.cause),
            Entry::Change(_, c) => {
                let meta: usize = c.meta.iter().map(|(k, v)| k.len() + v.len() + 4).sum();
                114 + c.bucket.len() + c.key.len() + meta + of_cause(&c.cause)
            }
            Entry::Void(_) => 8,
        }
    }
}

/// The bytes of a segment.
pub(crate) fn encode(open_from: u64, entries: &[Entry]) -> Vec<u8> {
    let mut w = Writer::with_capacity(16 + entries.iter().map(Entry::weight).sum::<usize>());
    w.u8(FORMAT);
    w.var(open_from);
    w.list(entries, |w, e| match e {
        Entry::Intent(i) => {
            w.u8(1);
            put_intent(w, i);
        }
        Entry::Change(intent, c) if c.ballot == Ballot::ZERO => {
            w.u8(2);
            w.var(*intent);
            put_change(w, c);
        }
        Entry::Change(intent, c) => {
            w.u8(4);
            w.var(*intent);
            w.raw(&c.ballot.to_bytes());
            put_change(w, c);
        }
        Entry::Void(intent) => {
            w.u8(3);
            w.var(*intent);
        }
    });
    w.into_vec()
}

/// The inverse of [`encode`].
pub(crate) fn decode(bytes: &[u8]) -> Result<Segment, Error> {
    let mut r = Reader::new(bytes);
    match r.u8()? {
        FORMAT => {}
        found => return Err(Error::Version { what: "change feed", found: u32::from(found) }),
    }
    let open_from = r.var()?;
    let entries = r.list(|r| match r.u8()? {
        1 => Ok(Entry::Intent(get_intent(r)?)),
        2 => Ok(Entry::Change(r.var()?, Arc::new(get_change(r, Ballot::ZERO)?))),
        3 => Ok(Entry::Void(r.var()?)),
        4 => {
            let intent = r.var()?;
            match Ballot::from_bytes(&r.array()?) {
                Ballot::ZERO => Err(Error::Malformed("ballot of a change")),
                ballot => Ok(Entry::Change(intent, Arc::new(get_change(r, ballot)?))),
            }
        }
        _ => Err(Error::Malformed("entry of the change feed")),
    })?;
    r.end()?;
    Ok(Segment { open_from, entries })
}

fn put_cause(w: &mut Writer, c: &Cause) {
    w.u8(c.kind as u8);
    for text in [&c.who, &c.source, &c.request_id, &c.agent, &c.endpoint] {
        w.bytes(text.as_bytes());
    }
}

fn get_cause(r: &mut Reader<'_>) -> Result<Cause, Error> {
    Ok(Cause {
        kind: Kind::from_number(r.u8()?),
        who: r.string()?,
        source: r.string()?,
        request_id: r.string()?,
        agent: r.string()?,
        endpoint: r.string()?,
    })
}

fn put_version(w: &mut Writer, v: Option<&VersionId>) {
    w.option(v, |w, v| w.raw(&v.0));
}

fn get_version(r: &mut Reader<'_>) -> Result<Option<VersionId>, Error> {
    r.option(|r| Ok(VersionId(r.array()?)))
}

fn put_intent(w: &mut Writer, i: &Intent) {
    w.var(i.id);
    w.i64(i.time_ms);
    w.raw(&i.bucket_id.0);
    w.bytes(i.bucket.as_bytes());
    w.bytes(i.key.as_bytes());
    put_version(w, i.version.as_ref());
    put_cause(w, &i.cause);
}

fn get_intent(r: &mut Reader<'_>) -> Result<Intent, Error> {
    Ok(Intent {
        id: r.var()?,
        time_ms: r.i64()?,
        bucket_id: BucketId(r.array()?),
        bucket: r.string()?,
        key: r.string()?,
        version: get_version(r)?,
        cause: Arc::new(get_cause(r)?),
    })
}

fn put_change(w: &mut Writer, c: &Change) {
    w.var(c.position);
    w.i64(c.time_ms);
    w.bytes(c.bucket.as_bytes());
    w.bytes(c.key.as_bytes());
    w.u8(c.kind as u8);
    put_version(w, c.version_id.as_ref());
    w.var(c.size);
    w.option(c.etag.as_ref(), |w, e| {
        w.raw(&e.md5);
        w.u16(e.parts);
    });
    w.list(&c.meta, |w, (name, value)| {
        w.bytes(name.as_bytes());
        w.bytes(value.as_bytes());
    });
    put_cause(w, &c.cause);
}

fn get_change(r: &mut Reader<'_>, ballot: Ballot) -> Result<Change, Error> {
    Ok(Change {
        position: r.var()?,
        ballot,
        time_ms: r.i64()?,
        bucket: r.string()?,
        key: r.string()?,
        kind: Kind::from_number(r.u8()?),
        version_id: get_version(r)?,
        size: r.var()?,
        etag: r.option(|r| Ok(ETag { md5: r.array()?, parts: r.u16()? }))?,
        meta: r.list(|r| Ok((r.string()?, r.string()?)))?,
        cause: Arc::new(get_cause(r)?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries() -> Vec<Entry> {
        let cause = Arc::new(Cause {
            kind: Kind::Copy,
            who: "root".into(),
            source: "127.0.0.1".into(),
            request_id: "00AB".into(),
            agent: "x".into(),
            endpoint: "http://h".into(),
        });
        let intent = Intent {
            id: 7,
            time_ms: 5,
            bucket_id: BucketId([9; 16]),
            bucket: "b".into(),
            key: "k".into(),
            version: Some(VersionId([3; 16])),
            cause: cause.clone(),
        };
        let change = Change {
            position: 300,
            ballot: Ballot::ZERO,
            time_ms: 6,
            bucket: "b".into(),
            key: "k".into(),
            kind: Kind::Put,
            version_id: None,
            size: 1 << 40,
            etag: Some(ETag { md5: [1; 16], parts: 2 }),
            meta: vec![("content-type".into(), "a/b".into())],
            cause,
        };
        let ballot = Ballot { epoch: 1, counter: 0x0203, node: 4, nonce: 0x0506_0708 };
        let ordered = Change { position: 301, ballot, ..change.clone() };
        vec![
            Entry::Intent(intent),
            Entry::Change(7, Arc::new(change)),
            Entry::Void(8),
            Entry::Change(9, Arc::new(ordered)),
        ]
    }

    #[test]
    fn golden_bytes() {
        let bytes = encode(2, &entries());
        let hex: String = bytes.iter().map(|b| format!("{b:02x}")).collect();
        assert_eq!(
            hex,
            include_str!("golden.hex").split_whitespace().collect::<String>(),
            "the layout of segments changed: it needs another format number"
        );
    }

    #[test]
    fn entries_round_trip_and_other_bytes_are_refused() {
        let bytes = encode(2, &entries());
        let back = decode(&bytes).unwrap();
        assert_eq!((back.open_from, &back.entries), (2, &entries()));
        for cut in 0..bytes.len() {
            assert!(decode(&bytes[..cut]).is_err(), "{cut} bytes");
        }
        for at in 0..bytes.len() {
            let mut bad = bytes.clone();
            bad[at] ^= 0x81;
            // Anything but a panic or an endless allocation is allowed.
            let _ = decode(&bad);
        }
    }

    #[test]
    fn kinds_have_fixed_numbers() {
        for (i, kind) in Kind::ALL.iter().enumerate() {
            assert_eq!(*kind as usize, i + 1);
            assert_eq!(Kind::from_number(i as u8 + 1), *kind);
        }
        assert_eq!(Kind::from_number(200), Kind::Other);
    }
}
