#![forbid(unsafe_code)]
//! What a program takes from its environment: time, randomness, tasks, threads, connections, environment variables.
//!
//! * [`time`]: [`time::Instant`], the wall clock, `sleep`, `timeout`, `interval`, and [`time::Clock`], time as a
//!   parameter.
//! * [`random`]: random bytes.
//! * [`task`]: [`spawn`], [`spawn_blocking`], [`task::JoinHandle`]; [`thread`]: threads.
//! * [`net`]: TCP connections and listeners. [`process`]: environment variables and arguments.
//! * [`hash`]: [`HashMap`] and [`HashSet`], whose order repeats in a simulation.
//! * [`simulation`]: one thread in which all of these come from a seed and a virtual clock.
//!
//! Outside of a simulation every function is a call of the system or of tokio, after one look at a flag of the
//! thread. No other crate calls those directly: clippy.toml lists what is disallowed, and
//! docs/decisions/0018-environment.md says why.
//!
//! Invariants: a simulation concerns its thread only; what happens in it depends on its seed alone. Must never
//! know: what the time, the bytes and the tasks are for.

// The one place that provides what is disallowed elsewhere.
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
