//! # ashlar-arguments: values as people write them on command lines
//!
//! Sizes (`384MiB`) and ranges (`/mnt/disk{1...16}`), for the server and for the commands.
//!
//! Invariant: pure; an error is a sentence for the person who wrote the value.
//!
//! Must never know: what a value is for.
#![forbid(unsafe_code)]

pub mod expand;
pub mod size;
