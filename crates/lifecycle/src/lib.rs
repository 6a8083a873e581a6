#![forbid(unsafe_code)]
//! Lifecycle rules of buckets: their form, their validation, and what is due under them.
//!
//! Everything here is a pure function of rules, versions and a time. Semantics: Amazon S3 User Guide,
//! "Managing the lifecycle of objects", and the API reference of PutBucketLifecycleConfiguration.
//!
//! | file | what it holds |
//! |---|---|
//! | `rule` | rules as they are stored, and their validation |
//! | `calendar` | when a number of days has passed: at a midnight |
//! | `plan` | the versions of a key and the uploads that are due, and what a list shows without reading records |
//!
//! Invariants: nothing is due before all conditions of a rule hold; no plan removes the data of a locked
//! version; if several rules apply to a version, the earliest counts.
//!
//! It must not depend on: HTTP, XML, drives, how a version is removed.

mod calendar;
mod plan;
mod rule;
#[cfg(test)]
mod tests;

pub use calendar::{Calendar, DAY_MS};
pub use plan::{Action, Due, KeySummary, VersionState};
pub use rule::{Config, DOCUMENT, Expiration, Filter, Invalid, MAX_ID, MAX_RULES, Minimum, Noncurrent, Rule};
