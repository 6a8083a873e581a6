//! SHA-256, HMAC-SHA-256 and comparison in constant time, for request signatures.
//!
//! Invariant: the implementation is aws-lc (SHA extensions where the processor has them), which
//! also serves TLS; `examples/checksum_speed.rs` prints its rate.
//!
//! Must not depend on: the signed content.

use aws_lc_rs::{constant_time, digest, hmac};

/// A running SHA-256 over bytes that arrive in pieces.
#[derive(Clone)]
pub struct Sha256(digest::Context);

impl Sha256 {
    /// An empty message.
    pub fn new() -> Sha256 {
        Sha256(digest::Context::new(&digest::SHA256))
    }

    /// Appends `data` to the message.
    pub fn update(&mut self, data: &[u8]) {
        self.0.update(data);
    }

    /// The digest of everything appended.
    pub fn finish(self) -> [u8; 32] {
        to_array(self.0.finish().as_ref())
    }
}

impl Default for Sha256 {
    fn default() -> Self {
        Sha256::new()
    }
}

/// SHA-256 of `data` in one call, without the set-up of a [`Sha256`].
pub fn sha256(data: &[u8]) -> [u8; 32] {
    to_array(digest::digest(&digest::SHA256, data).as_ref())
}

/// HMAC-SHA-256 (RFC 2104) of `data` under `key`, a key of any length.
pub fn hmac_sha256(key: &[u8], data: &[u8]) -> [u8; 32] {
    let key = hmac::Key::new(hmac::HMAC_SHA256, key);
    to_array(hmac::sign(&key, data).as_ref())
}

/// Whether `a` and `b` are equal, in a time that depends on their lengths only. Slices of
/// different lengths are unequal (and the lengths are not treated as secret).
pub fn ct_eq(a: &[u8], b: &[u8]) -> bool {
    constant_time::verify_slices_are_equal(a, b).is_ok()
}

fn to_array(bytes: &[u8]) -> [u8; 32] {
    let mut out = [0; 32];
    out.copy_from_slice(bytes);
    out
}
