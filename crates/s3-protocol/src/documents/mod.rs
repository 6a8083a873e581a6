//! Documents of buckets: the kinds by name, and the XML of each.
//!
//! Invariant: the same code reads stored documents and documents from clients. Must not depend on: requests,
//! permissions to read or write a document.

pub mod cors;
pub mod lifecycle;
pub mod logging;
pub mod public_access_block;
pub mod website;

/// The bucket's document that holds its policy.
pub const POLICY: &str = "policy";
