#![forbid(unsafe_code)]
//! Buckets, keys, versions, parts and listings: everything that an S3 API layer needs, without HTTP.
//!
//! A [`Store`] keeps every key as one register (docs/protocol.md 2) in the placement group of the key, and
//! every multipart upload and every part as further registers in the same group. Every change of a register
//! is a compare-and-set: a pure function of the previous state makes the decision (conditions, versioning,
//! multipart state), so that it holds for exactly the state that is replaced.
//!
//! Files in layers; each uses its own layer and those above it in this table:
//!
//! | layer | file | what it holds |
//! |---|---|---|
//! | types | `types`, `error`, `conditions`, `bucket` | values of the interface; errors; RFC 9110 conditions; a bucket |
//! | | `marks`, `seal`, `summary`, `versions`, `lock` | pure: internal metadata; packages and keys of encrypted bodies; the part of a record that the index keeps, so that lists read no records; the version list of a key; object lock and its time |
//! | | `spec`, `tally`, `bucket_gate`, `timing` | parameters and results of changes; counts as a state machine; safe deletion; how long a call waits for the drives |
//! | drives | `backend`, `memory`, `sealing` | registers and data over placement groups; the same in memory, for tests; encryption of bodies |
//! | | `upload_registers`, `part_record` | the registers of an upload; the content of part registers |
//! | parts of the store | `registry`, `usage`, `usage_parts`, `part_usage`, `quota_record`, `node_share`, `feed` | buckets in memory; their usage and limits; what nodes record of a limit together; the change feed (except `feed::background`, which reads keys and is an operation) |
//! | store | `store` | what all operations share; the only way to change a key |
//! | shared by operations | `body`, `shares`, `listing`, `held_keys`, `assemble` | receiving a body; shares of a limit; grouping keys into pages; keys held by an attempt; assembling a version from parts |
//! | operations | `buckets`, `put`, `get`, `copy`, `delete`, `tags`, `retention`, `list` | one family each |
//! | | `append`, `rename`, `reseal` | appending parts; renaming a key; replacing envelopes |
//! | | `upload`, `complete`, `parts`, `sweep` | multipart uploads, their state machine, their collector |
//! | | `expire`, `count`, `fence` | lifecycle: scans without records and removal; counting buckets; deletion of buckets by fences |
//!
//! The definitions of `Store` and `Inner` are in `store`, their methods in the files of the operations.
//!
//! Invariants: a condition is evaluated on the state that is replaced, never on an older one; data is dropped
//! only after a chosen record stopped naming it; the hot path does no I/O for the bucket; `Last-Modified` of
//! a key never goes back; a key that existed during a whole list is in it once.
//!
//! Must not depend on: HTTP, XML, signatures, users; files, sockets, drives.

#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests run in real time")
)]

mod append;
mod assemble;
mod backend;
mod body;
mod bucket;
mod bucket_gate;
mod buckets;
mod complete;
pub mod conditions;
mod copy;
mod count;
mod delete;
mod error;
mod expire;
pub mod feed;
mod fence;
#[doc(hidden)]
pub mod fuzzed;
mod get;
mod held_keys;
mod list;
mod list_change;
mod listing;
mod lock;
mod marks;
mod memory;
mod node_share;
mod paged;
mod part_record;
mod part_usage;
mod parts;
mod put;
mod quota_record;
mod registry;
mod rename;
mod reseal;
mod retention;
mod seal;
mod sealing;
mod shares;
mod spec;
mod spill;
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
mod upload_registers;
mod usage;
mod usage_numbers;
mod usage_parts;
mod versions;

pub use append::AppendBase;
pub use ashlar_checksum::{Algorithm, Digest};
pub use ashlar_erasure_set::as_tenant;
pub use ashlar_format::record::{Checksum, Data, Part, Retention, Version};
pub use ashlar_format::{Ballot, BucketId, VersionId, WriteId};
pub use assemble::CompletedPart;
pub use backend::{CopyPermit, DecoderMemory};
pub use bucket::{Bucket, CreateBucket, Versioning};
pub use complete::Completed;
pub use conditions::{Conditions, EntityTag, Match, Verdict};
pub use copy::{Copied, CopySeal, CopySource, CopySpec};
pub use delete::ToDelete;
pub use error::{Error, Result};
pub use expire::{Decide, Expired, KeyVersions, MAX_SCAN, ScannedKey, ToExpire};
pub use get::{Object, ObjectBody, WantedRange};
pub use list::{
    Entry, ListSpec, Listing, UploadEntry, UploadListSpec, UploadListing, VersionEntry, VersionListSpec,
    VersionListing,
};
pub use parts::{PartEntry, PartListing, PartPut, PartSpec};
pub use put::Put;
pub use registry::OpenBucket;
pub use rename::RenameSpec;
pub use seal::{Cipher, ContentKey, MAX_ENVELOPE, Seal, Sealed};
pub use spec::{Committed, PutSpec, Sums, VersionSpec};
pub use store::{Options, Store};
pub use sweep::Swept;
pub use types::{Class, ETag, Pairs, UploadId, digest_of, parse_version, version_text};
pub use upload::{OpenUpload, UploadSpec};
pub use usage::{COUNT_BOUNDS, Counted, NUMBERS, Numbers, QUOTA, SIZE_BOUNDS, Usage};
pub use usage_numbers::{RestOfUsage, UsagePart, UsageParts, sum as sum_of_usage};
pub use versions::Deleted;

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
