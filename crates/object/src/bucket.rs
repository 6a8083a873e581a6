//! A bucket: its settings, its name, its form in the control store.
//!
//! Invariant: a bucket is a value, a snapshot of one revision of the registry.
//!
//! Must not depend on: the registry, the store.

use std::collections::BTreeMap;
use std::sync::Arc;

use ashlar_commit::bucket_fence::{Deletion, Registered};
use ashlar_format::BucketId;
use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::types::Pairs;
use crate::{Error, Result};

/// Whether a bucket keeps versions.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Versioning {
    /// Never enabled: every key has at most the null version, and no version ids are shown.
    #[default]
    Off,
    /// Every change makes a new version.
    Enabled,
    /// Changes replace the null version, older versions stay.
    Suspended,
}

/// The parameters of a new bucket.
#[derive(Clone, Debug, Default)]
pub struct CreateBucket {
    /// Enables versioning permanently and allows object lock.
    pub object_lock: bool,
    /// The region that the bucket reports; empty for the default region.
    pub region: String,
    /// Documents that it has from the beginning, by kind.
    pub documents: BTreeMap<String, Arc<str>>,
    /// Tags that it has from the beginning.
    pub tags: Pairs,
}

/// A bucket as of one revision of the registry; a cheap, shared snapshot.
#[derive(Clone, Debug)]
pub struct Bucket {
    /// Never changes; a bucket that is deleted and created again has another id.
    pub id: BucketId,
    /// The name.
    pub name: String,
    /// Milliseconds since 1970.
    pub created_ms: i64,
    /// Whether it keeps versions.
    pub versioning: Versioning,
    /// Created with object lock.
    pub object_lock: bool,
    /// As given at creation.
    pub region: String,
    /// Bucket tags; empty when none are set.
    pub tags: Pairs,
    /// Other configuration by name (policy, cors, ...), opaque to this crate.
    pub documents: BTreeMap<String, Arc<str>>,
    /// The state of its deletions.
    pub(crate) deletion: Registered,
}

/// The JSON in the control store, format 1.
#[derive(Serialize, Deserialize)]
struct Stored {
    format: u32,
    id: String,
    created_ms: i64,
    versioning: Versioning,
    #[serde(default)]
    object_lock: bool,
    #[serde(default)]
    region: String,
    #[serde(default)]
    tags: Pairs,
    #[serde(default)]
    documents: BTreeMap<String, String>,
    /// Number of the last deletion that was begun, and whether it is under way.
    #[serde(default, skip_serializing_if = "is_zero")]
    deletions: u64,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    deleting: bool,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // as serde calls it
fn is_zero(n: &u64) -> bool {
    *n == 0
}

impl Bucket {
    pub(crate) fn encode(&self) -> Result<Bytes> {
        let stored = Stored {
            format: 1,
            id: self.id.to_hex(),
            created_ms: self.created_ms,
            versioning: self.versioning,
            object_lock: self.object_lock,
            region: self.region.clone(),
            tags: self.tags.clone(),
            documents: self.documents.iter().map(|(k, v)| (k.clone(), v.to_string())).collect(),
            deletions: self.deletion.last.0,
            deleting: self.deletion.open,
        };
        let json = serde_json::to_vec(&stored).map_err(|e| Error::Internal(e.to_string()))?;
        Ok(Bytes::from(json))
    }

    pub(crate) fn decode(name: &str, bytes: &[u8]) -> Result<Bucket> {
        let bad = |why: String| Error::Internal(format!("bucket {name} in the registry: {why}"));
        let s: Stored = serde_json::from_slice(bytes).map_err(|e| bad(e.to_string()))?;
        if s.format != 1 {
            return Err(bad(format!("format {} is not known here", s.format)));
        }
        Ok(Bucket {
            id: BucketId::from_hex(&s.id).ok_or_else(|| bad("its id".to_owned()))?,
            name: name.to_owned(),
            created_ms: s.created_ms,
            versioning: s.versioning,
            object_lock: s.object_lock,
            region: s.region,
            tags: s.tags,
            documents: s.documents.into_iter().map(|(k, v)| (k, Arc::from(v))).collect(),
            deletion: Registered { last: Deletion(s.deletions), open: s.deleting },
        })
    }
}

/// The rules of S3 for bucket names.
pub(crate) fn check_name(name: &str) -> Result<()> {
    let bad = |why| Err(Error::InvalidBucketName(why));
    if !(3..=63).contains(&name.len()) {
        return bad("3 to 63 characters are allowed");
    }
    let legal = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'.';
    if !name.bytes().all(legal) {
        return bad("only lower-case letters, digits, dots and hyphens are allowed");
    }
    let ends = |b: Option<u8>| b.is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    if !ends(name.bytes().next()) || !ends(name.bytes().last()) {
        return bad("it must begin and end with a letter or digit");
    }
    if name.contains("..") {
        return bad("two dots in a row");
    }
    if name.parse::<std::net::Ipv4Addr>().is_ok() {
        return bad("it looks like an IP address");
    }
    if name.starts_with("xn--") || name.ends_with("-s3alias") || name.ends_with("--ol-s3") {
        return bad("a reserved prefix or suffix");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for good in ["abc", "a.b-c", "0123", &"x".repeat(63)] {
            assert!(check_name(good).is_ok(), "{good}");
        }
        for bad in ["ab", "Abc", "a_b", "-ab", "ab-", "a..b", "1.2.3.4", "xn--abc", &"x".repeat(64), "a/b"] {
            assert!(check_name(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn golden_json() {
        let bucket = Bucket {
            id: BucketId([1; 16]),
            name: "b".into(),
            created_ms: 5,
            versioning: Versioning::Enabled,
            object_lock: false,
            region: "x".into(),
            tags: vec![("k".into(), "v".into())],
            documents: [("cors".to_owned(), Arc::from("<a/>"))].into(),
            deletion: Registered::default(),
        };
        let json = bucket.encode().unwrap();
        assert_eq!(
            std::str::from_utf8(&json).unwrap(),
            "{\"format\":1,\"id\":\"01010101010101010101010101010101\",\"created_ms\":5,\
             \"versioning\":\"enabled\",\"object_lock\":false,\"region\":\"x\",\"tags\":[[\"k\",\"v\"]],\
             \"documents\":{\"cors\":\"<a/>\"}}"
        );
        assert_eq!(Bucket::decode("b", &json).unwrap().encode().unwrap(), json);
        assert!(Bucket::decode("b", b"{}").is_err());
        let deleting = Bucket { deletion: Registered::default().begin(), ..bucket };
        let json = deleting.encode().unwrap();
        assert!(json.ends_with(b"},\"deletions\":1,\"deleting\":true}"));
        assert_eq!(Bucket::decode("b", &json).unwrap().deletion, deleting.deletion);
    }
}
