//! Documents of buckets: the kinds by name, and the language of each.
//!
//! Invariant: what is kept is read by the same code as what clients send. Must not depend on: requests, who may
//! read or write a document.

pub(crate) mod cors;
pub(crate) mod lifecycle;
pub(crate) mod logging;
pub(crate) mod public_access_block;
pub(crate) mod website;

/// The bucket's document that holds its policy.
pub const POLICY: &str = "policy";
