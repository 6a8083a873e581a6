//! Tests of the API layer: real requests over real sockets to a service with a store in memory.
//!
//! All of them are one program, because linking one program per file took most of the build time of the
//! tests.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests run in real time")]

mod common;

mod acl;
mod append;
mod conformance;
mod encryption;
mod extract;
mod features;
mod fields;
mod forms;
mod listings;
mod lock;
mod objects;
mod parsing;
mod paths;
mod permissions;
mod pitfalls;
mod rename;
mod snapshots;
mod sts;
mod uploads;
