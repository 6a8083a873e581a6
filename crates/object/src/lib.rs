#![forbid(unsafe_code)]
//! Buckets, keys, versions, parts and listings: what an S3 door needs, without HTTP.
//!
//! A [`Store`] keeps every key as one register (docs/protocol.md 2) in the placement group of the key,
//! every multipart upload as one more register and every part as another, all in the same group.
//! A change of any of them is a compare-and-set: the decision (conditions, versioning, multipart
//! state) is taken in a pure function of the state before, so that it holds for exactly the state
//! it replaces.
//!
//! | file | what it holds |
//! |---|---|
//! | `store`, `bucket`, `gate` | the store, its options, the bucket registry and its cache, safe deletion |
//! | `put`, `get`, `copy`, `delete`, `tags` | one family of operations each |
//! | `append` | parts that are put behind what is there |
//! | `rename`, `held` | a key under another name; keys in the hands of a rename |
//! | `expire` | what lifecycle rules need: a look without records, removal of what is due |
//! | `upload`, `complete`, `parts`, `sweep` | multipart uploads, their state machine, their collector |
//! | `seal`, `sealing`, `reseal` | encrypted bodies: packages and keys; in and out; keys sealed anew |
//! | `listing`, `list` | how keys become pages; the lists over registers |
//! | `versions`, `conditions` | pure: the version list of a key; RFC 9110 conditions |
//! | `usage`, `tally` | what a bucket holds, and its limit; the counts as a state machine |
//! | `timing` | how long a call waits for the drives |
//! | `feed` | the record of changes that others follow |
//! | `summary` | what the index of a drive keeps of a record, so that lists need no record |
//! | `backend`, `memory` | registers and data over placement groups; the same in memory, for tests |
//!
//! Invariants: a condition is judged on the state that is replaced, never on an older one; data is
//! dropped only after a chosen record stopped naming it; the hot path does no I/O for the bucket;
//! `Last-Modified` of a key never goes back; a key that existed during a whole list is in it once.
//!
//! It must never know: HTTP, XML, signatures, users; files, sockets, drives.

mod append;
mod backend;
mod body;
mod bucket;
mod complete;
pub mod conditions;
mod copy;
mod delete;
mod error;
mod expire;
pub mod feed;
#[doc(hidden)]
pub mod fuzzed;
mod gate;
mod get;
mod held;
mod list;
mod listing;
mod lock;
mod memory;
mod part_usage;
mod parts;
mod put;
mod rename;
mod reseal;
mod seal;
mod sealing;
mod store;
mod summary;
mod sweep;
mod tags;
mod tally;
#[cfg(test)]
mod tests;
pub mod timing;
mod types;
mod upload;
mod usage;
mod versions;

pub use append::Tail;
pub use ashlar_checksum::{Algorithm, Digest};
pub use ashlar_erasure_set::as_tenant;
pub use ashlar_format::record::{Checksum, Data, Part, Retention, Version};
pub use ashlar_format::{BucketId, VersionId, WriteId};
pub use backend::{CopyTurn, DecoderRoom};
pub use bucket::{Bucket, CreateBucket, Versioning};
pub use conditions::{Conditions, EntityTag, Match, Verdict};
pub use copy::{Copied, CopySeal, CopySource, CopySpec};
pub use delete::{Deleted, ToDelete};
pub use error::{Error, Result};
pub use expire::{Chosen, Expired, Found, Glanced, MAX_LOOK};
pub use get::{Object, ObjectBody};
pub use list::{
    Entry, ListSpec, Listing, UploadEntry, UploadListSpec, UploadListing, VersionEntry, VersionListSpec,
    VersionListing,
};
pub use parts::{PartEntry, PartListing, PartPut, PartSpec};
pub use put::{Committed, Put, PutSpec, Sums, VersionSpec};
pub use rename::RenameSpec;
pub use seal::{Cipher, ContentKey, MAX_ENVELOPE, Seal, Sealed};
pub use store::{Options, Store};
pub use sweep::Swept;
pub use types::{Class, ETag, Pairs, UploadId, digest_of, parse_version, version_text};
pub use upload::{Completed, CompletedPart, OpenUpload, UploadSpec};
pub use usage::{COUNT_BOUNDS, Counted, QUOTA, SIZE_BOUNDS, Usage};

/// Longest key, in bytes of UTF-8.
pub const MAX_KEY: usize = 1024;
/// Largest part number.
pub const MAX_PARTS: u16 = 10_000;
/// Smallest part of a multipart upload, except the last.
pub const MIN_PART: u64 = 5 * 1024 * 1024;
/// Largest part and largest single PUT.
pub const MAX_PUT: u64 = 5 * 1024 * 1024 * 1024;
/// Largest object.
pub const MAX_OBJECT: u64 = 5 * 1024 * 1024 * 1024 * 1024;
/// Most entries of one page of a list.
pub const MAX_PAGE: usize = 1000;
