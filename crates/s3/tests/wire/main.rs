//! The door on the wire: real requests over real sockets to a service with a store in memory.
//!
//! One program for all of it: a test program each took most of the time that building the tests took.

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
mod sts;
mod uploads;
