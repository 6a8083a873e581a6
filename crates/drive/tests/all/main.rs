//! Tests of a drive: its behaviour without faults, after crashes, with damage and with faults.
#![allow(missing_docs)]
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests run in real time")]

mod basic;
mod common;
mod crash;
mod damage;
mod decoders;
mod faults;
mod fences;
mod folds;
mod golden;
mod groups;
mod hard_disks;
mod kinds;
mod late;
mod older;
mod rings;
mod space;
mod unnamed;
