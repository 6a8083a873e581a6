//! A change in the feed: one committed change of one key, its effect and its cause.
//!
//! Must not depend on: S3's names of events, who reads the feed.

use std::sync::Arc;

use ashlar_format::{Ballot, Version, VersionId};

use crate::types::{ETag, Pairs};
use crate::{Bucket, Versioning, marks, versions};

macro_rules! kinds {
    ($($number:literal $name:ident $text:literal $what:literal,)*) => {
        /// The kind of a change.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
        #[repr(u8)]
        pub enum Kind {
            $(#[doc = $what] $name = $number,)*
            /// A kind of a later release.
            #[default]
            Other = 255,
        }

        impl Kind {
            /// All known kinds.
            pub const ALL: &'static [Kind] = &[$(Kind::$name,)*];

            /// A short name.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Kind::$name => $text,)* Kind::Other => "other" }
            }
        }
    };
}

kinds! {
    1 Put "put" "A body was put.",
    2 Post "post" "A form was posted.",
    3 Copy "copy" "A version was copied here.",
    4 Complete "complete" "A multipart upload was completed.",
    5 Append "append" "Bytes were appended.",
    6 Rename "rename" "It was renamed to this key.",
    7 Delete "delete" "A version was removed.",
    8 Mark "mark" "A delete marker was made.",
    9 TagsPut "tags-put" "Tags were set.",
    10 TagsDelete "tags-delete" "Tags were removed.",
    11 AclPut "acl-put" "The access control list was set.",
    12 RetentionPut "retention-put" "The retention was set.",
    13 LegalHoldPut "legal-hold-put" "The legal hold was set or lifted.",
    14 Expire "expire" "A lifecycle rule removed a version.",
    15 ExpireMark "expire-mark" "A lifecycle rule made a delete marker.",
    16 Get "get" "It was read; not a change.",
    17 Head "head" "Its metadata were read; not a change.",
    18 GetTags "get-tags" "Its tags were read; not a change.",
    19 GetAcl "get-acl" "Its access control list was read; not a change.",
    20 GetRetention "get-retention" "Its retention was read; not a change.",
    21 GetLegalHold "get-legal-hold" "Its legal hold was read; not a change.",
    22 Attributes "attributes" "Its attributes were read; not a change.",
}

impl Kind {
    pub(crate) fn from_number(number: u8) -> Kind {
        Kind::ALL.iter().copied().find(|k| *k as u8 == number).unwrap_or(Kind::Other)
    }

    /// The kind of a change that made a delete marker, for this requested kind.
    fn marking(self) -> Kind {
        if self == Kind::Expire { Kind::ExpireMark } else { Kind::Mark }
    }

    /// The kind of a change that removed a version, for this requested kind.
    fn removing(self) -> Kind {
        if self == Kind::Expire { Kind::Expire } else { Kind::Delete }
    }
}

/// Why a change is made: the request, and its sender. The API layer passes it to the readers of the feed.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Cause {
    /// The requested kind.
    pub kind: Kind,
    /// The sender: the access key, or a name of the server itself. Empty: anonymous.
    pub who: String,
    /// The address that the request came from; empty if the server itself makes the change.
    pub source: String,
    /// The id of the request.
    pub request_id: String,
    /// The user agent of the client.
    pub agent: String,
    /// The endpoint that the client used, `scheme://host`.
    pub endpoint: String,
}

/// One committed change of one key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Change {
    /// Its position in the feed, from 1, growing by 1. Of two changes of one key, the later one has the
    /// greater position.
    pub position: u64,
    /// Its place in the order of all changes of the key, through whatever node they are made: of two changes of one key the
    /// later one has the higher ballot. Of a read: the ballot of the change whose effect was read. [`Ballot::ZERO`]: not known
    /// (recorded before all nodes could tell it).
    pub ballot: Ballot,
    /// Milliseconds since 1970 when it was requested.
    pub time_ms: i64,
    /// The name of the bucket.
    pub bucket: String,
    /// The key.
    pub key: String,
    /// The effect.
    pub kind: Kind,
    /// The version concerned; `None` in a bucket that never had versioning.
    pub version_id: Option<VersionId>,
    /// Bytes of the version; 0 for delete markers.
    pub size: u64,
    /// The ETag of the version; `None` for delete markers, and if it is unknown.
    pub etag: Option<ETag>,
    /// Metadata of the version that clients gave (`content-type`, `x-amz-meta-*`, ...).
    pub meta: Pairs,
    /// The cause.
    pub cause: Arc<Cause>,
}

/// Allowed difference between display times and times of intents, since a clock may be set back slightly.
pub(crate) const SLACK_MS: i64 = 10_000;

/// The effect of a change on a key's list, before it has a position.
pub(crate) struct Effect {
    pub kind: Kind,
    /// When the version was made; never earlier than an older version of the key. 0: there is none.
    pub modified_ms: i64,
    pub version_id: Option<VersionId>,
    pub size: u64,
    pub etag: Option<ETag>,
    pub meta: Pairs,
}

impl Effect {
    /// The effect on a version that was made, changed or removed.
    pub fn of(kind: Kind, v: &Version, versioning: Versioning) -> Effect {
        let mut meta = v.meta.clone();
        meta.retain(|(name, _)| !marks::is_internal(name));
        Effect {
            kind,
            modified_ms: v.modified_ms,
            version_id: versions::shown(versioning, v.id),
            size: v.size,
            etag: (!v.delete_marker).then(|| versions::etag(v)),
            meta,
        }
    }

    /// The effect of a change from `old` to `new` for the requested kind. One call changes one version.
    pub fn between(asked: Kind, old: &[Version], new: &[Version], bucket: &Bucket) -> Effect {
        let same = |a: &Version, b: &Version| {
            a.id == b.id && a.modified_ms == b.modified_ms && a.md5 == b.md5 && a.parts == b.parts
        };
        let made = new.first().filter(|n| !old.iter().any(|o| same(o, n)));
        if let Some(v) = made {
            let kind = if v.delete_marker { asked.marking() } else { asked };
            return Effect::of(kind, v, bucket.versioning);
        }
        if let Some(v) = old.iter().find(|o| !new.iter().any(|n| same(o, n))) {
            return Effect::of(asked.removing(), v, bucket.versioning);
        }
        match new.iter().find(|n| !old.contains(n)).or(new.first()) {
            Some(v) => Effect::of(asked, v, bucket.versioning),
            None => Effect {
                kind: asked,
                modified_ms: 0,
                version_id: None,
                size: 0,
                etag: None,
                meta: Pairs::new(),
            },
        }
    }
}
