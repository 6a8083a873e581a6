//! Every hash of the project, in one room.
//!
//! * [`frame_hash`], [`key_hash`]: HighwayHash for what lies on drives and for placement. Both are
//!   on-drive format: their golden values are in `tests/known_answers.rs` and may never change.
//! * [`Md5Lanes`]: MD5 of many concurrent uploads in SIMD lanes. MD5 is the largest single cost of
//!   a PUT, and it cannot be made faster within one message; eight or sixteen messages side by side
//!   cost hardly more than one.
//! * [`Algorithm`], [`Hasher`], [`Digest`]: the checksums a client may send with an object.
//! * [`Sha256`], [`hmac_sha256`], [`ct_eq`]: what request signatures need; [`Sha256Stream`]: of large
//!   bodies, two side by side.
//!
//! Invariants: each function is a pure function of its input bytes (and key), equal on every
//! machine and instruction set; no unbounded memory is held except what callers queue themselves.
//!
//! This room must never know: HTTP, objects, files, clocks other than for pausing its own threads.

#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests run in real time")
)]

mod algorithm;
mod frame;
mod frames;
mod md5;
mod sha;
mod sha_lanes;

pub use algorithm::{Algorithm, Digest, Hasher, combine_crc, composite};
pub use frame::{KEY_HASH_KEY, frame_hash, key_hash};
pub use frames::frame_hashes;
#[doc(hidden)]
pub use md5::Tuning;
pub use md5::{INLINE_BELOW, LaneStats, Md5Lanes, Md5Stream, md5_kernel, md5_once};
pub use sha::{Sha256, ct_eq, hmac_sha256, sha256};
pub use sha_lanes::Sha256Stream;
