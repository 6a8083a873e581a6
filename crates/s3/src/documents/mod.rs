//! Documents of buckets: the kinds by name, and the XML of each.
//!
//! Invariant: the same code reads stored documents and documents from clients. Must not depend on: requests,
//! permissions to read or write a document.

pub(crate) mod cors;
pub(crate) mod lifecycle;
pub(crate) mod logging;
pub(crate) mod public_access_block;
pub(crate) mod website;

/// The bucket's document that holds its policy.
pub const POLICY: &str = "policy";
