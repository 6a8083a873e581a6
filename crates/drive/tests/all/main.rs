//! Tests of a drive: what it does, what a crash leaves, what damage does, what faults do.
#![allow(missing_docs)]

mod basic;
mod common;
mod crash;
mod damage;
mod decoders;
mod faults;
mod golden;
mod groups;
mod kinds;
mod late;
mod space;
