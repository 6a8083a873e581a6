#![forbid(unsafe_code)]
//! What a program takes from its environment: time, randomness, tasks, threads, connections, environment variables.
//!
//! * [`time`]: [`time::Instant`], the wall clock, `sleep`, `timeout`, `interval`, and [`time::Clock`], time as a
//!   parameter.
//! * [`random`]: random bytes.
//! * [`task`]: [`spawn`], [`spawn_blocking`], [`task::JoinHandle`]; [`thread`]: threads.
//! * [`net`]: TCP connections and listeners. [`process`]: environment variables and arguments.
//! * [`hash`]: [`HashMap`] and [`HashSet`], whose iteration order is repeatable in a simulation.
//! * [`simulation`]: one thread in which all of these come from a seed and a virtual clock.
//!
//! Outside of a simulation every function calls the system or tokio, after a check of a flag of the thread.
//! No other crate calls those directly: clippy.toml lists what is disallowed, and
//! docs/decisions/0018-environment.md gives the reasons.
//!
//! Invariants: a simulation affects only its own thread; its behaviour depends only on its seed.
//!
//! Must not depend on: what the time, the bytes and the tasks are for.

// This crate alone may use what is disallowed in the others.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

pub mod hash;
pub mod net;
pub mod process;
pub mod random;
pub mod simulation;
pub mod task;
pub mod thread;
pub mod time;

mod scheduler;
mod sleep;
mod world;

#[cfg(test)]
mod tests;

pub use hash::{HashMap, HashSet};
pub use task::{spawn, spawn_blocking};
