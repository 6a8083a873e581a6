//! The parameters of a body and of a new version, and the results of a change.
//!
//! Must not depend on: how bodies are written; the store.

use ashlar_checksum::{Algorithm, Digest};
use ashlar_format::{Checksum, Retention, Version, VersionId};

use crate::bucket::Versioning;
use crate::marks;
use crate::types::{Class, ETag, Pairs};
use crate::versions;

/// The parameters that are given before the body.
#[derive(Clone, Copy, Debug)]
pub struct PutSpec {
    /// Bytes of the body, exactly.
    pub size: u64,
    /// Additional checksum to compute and store.
    pub checksum: Option<Algorithm>,
    /// False: no MD5 is computed and the ETag is a random tag: of the form `hex-1`, which clients do not
    /// treat as an MD5, or for an encrypted object `hex`.
    pub want_md5: bool,
    /// The redundancy.
    pub class: Class,
}

impl PutSpec {
    /// A body of `size` bytes with MD5 and no additional checksum.
    #[must_use]
    pub fn new(size: u64) -> PutSpec {
        PutSpec { size, checksum: None, want_md5: true, class: Class::Standard }
    }
}

/// The sums computed over a body.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sums {
    /// Bytes received.
    pub size: u64,
    /// MD5, if requested.
    pub md5: Option<[u8; 16]>,
    /// The requested additional checksum.
    pub checksum: Option<Digest>,
}

/// The fields of a new version besides its data.
#[derive(Clone, Debug, Default)]
pub struct VersionSpec {
    /// System and user metadata; sorted by name when stored. Names that begin with a colon are
    /// dropped.
    pub meta: Pairs,
    /// Object tags.
    pub tags: Pairs,
    /// Access control list as given; empty means private.
    pub acl: String,
    /// Retention mode and date.
    pub retention: Option<Retention>,
    /// Legal hold.
    pub legal_hold: bool,
}

impl VersionSpec {
    /// Metadata in stored form.
    pub(crate) fn stored_meta(mut meta: Pairs) -> Pairs {
        meta.retain(|(k, _)| !marks::is_internal(k));
        meta.sort();
        meta
    }
}

/// A durable change.
#[derive(Clone, Debug)]
pub struct Committed {
    /// The version id to show: `None` in a bucket that never had versioning.
    pub version_id: Option<VersionId>,
    /// ETag of the new version.
    pub etag: ETag,
    /// Milliseconds since 1970.
    pub modified_ms: i64,
    /// Bytes.
    pub size: u64,
    /// The stored checksum.
    pub checksum: Option<Checksum>,
}

impl Committed {
    pub(crate) fn of(v: &Version, versioning: Versioning) -> Committed {
        Committed {
            version_id: versions::shown(versioning, v.id),
            etag: versions::etag(v),
            modified_ms: v.modified_ms,
            size: v.size,
            checksum: v.checksum.clone(),
        }
    }
}
