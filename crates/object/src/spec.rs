//! What is said of a body and of a new version before it is made, and what is answered after.
//!
//! Must not depend on: how bodies are written; the store.

use ashlar_checksum::{Algorithm, Digest};
use ashlar_format::{Checksum, Retention, Version, VersionId};

use crate::bucket::Versioning;
use crate::marks;
use crate::types::{Class, ETag, Pairs};
use crate::versions;

/// What is known before the body.
#[derive(Clone, Copy, Debug)]
pub struct PutSpec {
    /// Bytes of the body, exactly.
    pub size: u64,
    /// Additional checksum to compute and store.
    pub checksum: Option<Algorithm>,
    /// False: no MD5 is computed and the ETag is a random tag: of the form `hex-1`, which clients do not take
    /// for an MD5, or of an encrypted object `hex`.
    pub want_md5: bool,
    /// How redundantly to keep it.
    pub class: Class,
}

impl PutSpec {
    /// A body of `size` bytes with MD5 and no additional checksum.
    #[must_use]
    pub fn new(size: u64) -> PutSpec {
        PutSpec { size, checksum: None, want_md5: true, class: Class::Standard }
    }
}

/// What was computed over a body.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sums {
    /// Bytes that came.
    pub size: u64,
    /// MD5, when it was wanted.
    pub md5: Option<[u8; 16]>,
    /// The additional checksum that was asked for.
    pub checksum: Option<Digest>,
}

/// What a new version carries besides its data.
#[derive(Clone, Debug, Default)]
pub struct VersionSpec {
    /// System and user metadata; sorted by name when stored. Names that begin with a colon are
    /// dropped.
    pub meta: Pairs,
    /// Object tags.
    pub tags: Pairs,
    /// Access control list as given; empty means private.
    pub acl: String,
    /// Until when it is kept, and how strictly.
    pub retention: Option<Retention>,
    /// Kept until that is lifted.
    pub legal_hold: bool,
}

impl VersionSpec {
    /// Metadata as stored.
    pub(crate) fn stored_meta(mut meta: Pairs) -> Pairs {
        meta.retain(|(k, _)| !marks::is_internal(k));
        meta.sort();
        meta
    }
}

/// A change that is durable.
#[derive(Clone, Debug)]
pub struct Committed {
    /// The version id to show: `None` in a bucket that never had versioning.
    pub version_id: Option<VersionId>,
    /// Of the new version.
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
