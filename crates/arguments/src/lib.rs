//! # ashlar-arguments: parsing of values on command lines
//!
//! Sizes (`384MiB`), durations (`15m`) and ranges (`/mnt/disk{1...16}`), for the server and for the commands.
//!
//! Invariant: pure functions; an error is a sentence for the user who wrote the value.
//!
//! Must not depend on: the use of a value.
#![forbid(unsafe_code)]

pub mod expand;
pub mod size;
pub mod time;
