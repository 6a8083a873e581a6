#![forbid(unsafe_code)]
//! Simulates a whole cluster in one thread, from one seed.
//!
//! Real stores (`object`, `erasure-set`, `commit`) coordinate over real drives (`drive`) on simulated disks.
//! Between them is a network that loses, delays, reorders and repeats messages; time is virtual. Clients make
//! calls while faults are injected. After the faults have stopped, everything must answer, nothing may be
//! lost, and S3 must allow the history of all calls.
//!
//! | file | what it holds |
//! |---|---|
//! | `plan`, `trace` | the parameters of a run; its events as text |
//! | `host`, `network`, `control` | a drive and its machine; messages; the control store |
//! | `cluster` | all of them together, with the coordinators |
//! | `keys` | the model of S3 calls |
//! | `client`, `work` | one call and its outcome; which calls are made |
//! | `faults` | the injected faults |
//! | `run` | a run from its seed to its verdict |
//! | `turns` | turns between coordinators |
//! | `contention_scenario` | many clients change one key through all coordinators |
//! | `move_scenario` | slots move away from a drive that is gone, and returns |
//! | `scenario` | named runs for defects that were found by reading code |
//!
//! Invariants: a seed determines everything, also across machines; a run ends after a bounded virtual time.
//! Not shipped. docs/decisions/0021-simulator.md gives the reasons for its design.

pub mod client;
pub mod cluster;
#[cfg(test)]
mod contention_scenario;
pub mod control;
pub mod describe;
pub mod faults;
pub mod host;
pub mod keys;
#[cfg(test)]
mod move_scenario;
pub mod network;
pub mod plan;
#[cfg(test)]
mod quota_scenario;
pub mod run;
#[cfg(test)]
mod scenario;
pub mod trace;
mod turns;
pub mod work;

pub use plan::{Mutant, Plan};
pub use run::{Verdict, run};
