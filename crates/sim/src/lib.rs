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
//! | `mutant` | answers as a coordinator or drive with a defect takes them |
//! | `monitor` | what a drive monitor does about drives that fence themselves or go back in time |
//! | `cluster` | all of them together, with the coordinators |
//! | `keys` | the model of S3 calls |
//! | `client`, `work` | one call and its outcome; which calls are made |
//! | `faults` | the injected faults |
//! | `redundancy` | what is missing, looked up at the drives themselves |
//! | `run` | a run from its seed to its verdict |
//! | `turns` | turns between coordinators |
//!
//! Runs with a story of their own are in `tests/scenarios`.
//!
//! Invariants: a seed determines everything, also across machines; a run ends after a bounded virtual time.
//! Not shipped. docs/decisions/0021-simulator.md gives the reasons for its design.

pub mod client;
pub mod cluster;
pub mod control;
pub mod describe;
pub mod faults;
pub mod host;
pub mod keys;
pub mod monitor;
pub mod mutant;
pub mod network;
pub mod plan;
pub mod redundancy;
pub mod run;
pub mod trace;
mod turns;
pub mod work;

/// A sixth of a run is spent in the allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

pub use plan::{Mutant, Plan};
pub use run::{Verdict, run};
