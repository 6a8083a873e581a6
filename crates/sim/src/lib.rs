#![forbid(unsafe_code)]
//! A whole cluster in one thread, from one seed.
//!
//! Real stores (`object`, `erasure-set`, `commit`) coordinate over real drives (`drive`) on simulated disks; between
//! them is a network that loses, delays, reorders and repeats messages; time is virtual. Clients work, faults strike,
//! and when they have stopped everything must answer, nothing may be lost, and the history of all calls must be one
//! that S3 allows.
//!
//! | file | what it holds |
//! |---|---|
//! | `plan`, `trace` | what a run is made of; what happened in it, in words |
//! | `host`, `network`, `control` | a drive and its machine; messages; the control store |
//! | `cluster` | all of them together, with the coordinators |
//! | `keys` | what calls do, as S3 promises it |
//! | `client`, `work` | one call and what it is told; which calls are made |
//! | `faults` | what strikes |
//! | `run` | a run from its seed to its verdict |
//! | `scenario` | runs with names: defects that were found by reading |
//!
//! Invariants: a seed decides everything, also across machines; a run ends after a bounded virtual time.
//! Not shipped. docs/decisions/0021-simulator.md says why it is made so.

pub mod client;
pub mod cluster;
pub mod control;
pub mod describe;
pub mod faults;
pub mod host;
pub mod keys;
pub mod network;
pub mod plan;
pub mod run;
#[cfg(test)]
mod scenario;
pub mod trace;
pub mod work;

pub use plan::{Mutant, Plan};
pub use run::{Verdict, run};
