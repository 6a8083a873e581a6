//! Decoders of stored values, for the fuzzer.
//!
//! Invariant: the program calls nothing here.
//!
//! Must not depend on: a running store.

use std::sync::Arc;

use ashlar_format::{Ballot, BucketId, VersionId};

use crate::bucket::Bucket;
use crate::feed::{Cause, Change, Kind, entry};
use crate::types::ETag;
use crate::{feed, seal, summary};

/// A segment of the change feed: what decodes must encode to the same segment.
pub fn feed_segment(bytes: &[u8]) {
    if let Ok(s) = entry::decode(bytes) {
        let again = entry::decode(&entry::encode(s.open_from, &s.entries));
        assert!(
            again.is_ok_and(|a| a.open_from == s.open_from && a.entries == s.entries),
            "a segment that is not itself"
        );
    }
}

/// Segments of the change feed.
#[must_use]
pub fn feed_segments() -> Vec<Vec<u8>> {
    let cause = Arc::new(Cause {
        kind: Kind::Copy,
        who: "root".into(),
        source: "127.0.0.1".into(),
        request_id: "00AB".into(),
        agent: "agent".into(),
        endpoint: "http://localhost".into(),
    });
    let intent = entry::Intent {
        id: 7,
        time_ms: 1_700_000_000_000,
        bucket_id: BucketId([1; 16]),
        bucket: "bucket".into(),
        key: "key".into(),
        version: Some(VersionId([2; 16])),
        cause: cause.clone(),
    };
    let change = Change {
        position: 9,
        ballot: Ballot::ZERO,
        time_ms: 1,
        bucket: "bucket".into(),
        key: "key".into(),
        kind: Kind::Copy,
        version_id: Some(VersionId([3; 16])),
        size: 1 << 40,
        etag: Some(ETag { md5: [4; 16], parts: 2 }),
        meta: vec![("content-type".into(), "text/plain".into())],
        cause,
    };
    let ballot = Ballot { epoch: 1, counter: 2, node: 3, nonce: 4 };
    let ordered = Change { ballot, ..change.clone() };
    let all = [
        entry::Entry::Intent(intent),
        entry::Entry::Change(7, Arc::new(change)),
        entry::Entry::Void(8),
        entry::Entry::Change(7, Arc::new(ordered)),
    ];
    vec![entry::encode(3, &all), entry::encode(0, &[])]
}

/// The summary of a record in the index of a drive, decoded as each of the kinds.
pub fn summary(bytes: &[u8]) {
    let _ = (summary::version(bytes), summary::scanned(bytes), summary::upload(bytes), summary::part(bytes));
    let _ = summary::is_held(bytes);
}

/// Texts that are stored with objects: how a version is encrypted, names of segments of the change feed, a
/// bucket in the registry.
///
/// # Panics
/// If a decoded value does not encode to the same text.
pub fn kept(bytes: &[u8]) {
    feed::fuzzed_name(bytes);
    if let Ok(text) = std::str::from_utf8(bytes) {
        seal::fuzzed_words(text);
    }
    if let Ok(bucket) = Bucket::decode("bucket", bytes) {
        let json = bucket.encode().expect("what was JSON is JSON");
        let again = Bucket::decode("bucket", &json).and_then(|b| b.encode());
        assert_eq!(again.ok(), Some(json), "a bucket that is not itself");
    }
}

/// Texts of each kind.
#[must_use]
pub fn kept_texts() -> Vec<Vec<u8>> {
    let bucket = r#"{"format":1,"id":"01010101010101010101010101010101","created_ms":5,"versioning":"enabled","object_lock":true,"region":"x","tags":[["k","v"]],"documents":{"cors":"<a/>"}}"#;
    ["1 aes parts s3 k AQI", "1 chacha clear c BAQE", "1 aes hidden ", &feed::fuzzed_names(), bucket]
        .map(|text| text.as_bytes().to_vec())
        .to_vec()
}
