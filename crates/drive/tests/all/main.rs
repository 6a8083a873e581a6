//! Tests of a drive: what it does, what a crash leaves, what damage does, what faults do.
#![allow(missing_docs)]
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests run in real time")]

mod basic;
mod common;
mod crash;
mod damage;
mod decoders;
mod faults;
mod fences;
mod golden;
mod groups;
mod kinds;
mod late;
mod space;
