//! S3 loads: closed loop by concurrency, open loop by rate, sweeps to the knee.
//!
//! * [`Job`] has all parameters of a load, and is sent to agents unchanged.
//! * [`Session`] holds what a job needs on one machine: prepares data, runs phases, cleans up.
//! * [`drive`] runs a whole job, here or on agents, and writes the [`ashlar_bench_report::result::Run`].
//!
//! Layers, each of which uses only those before it: numbers and parts (`job`, `keys`, `sizes`, `record`,
//! `store`), shared state (`runner`, `phase`, `context`), `worker` and its operations, `session`; beside them
//! `watch`, `verdict`, `document` and [`drive`], which do not depend on where the work is done.
//!
//! Invariants: memory does not grow with the number of requests (histograms and time steps, both bounded;
//! keys are numbers); an intended request is sent or counted as not sent, never dropped; all written objects
//! are under a prefix that only this run uses, and only those are removed.
//!
//! Must not depend on: terminals, command lines.

mod arrivals;
mod buckets;
mod context;
mod document;
mod drive;
mod job;
mod keys;
mod ops;
mod ops_more;
mod phase;
mod population;
mod record;
mod runner;
mod session;
mod sizes;
mod sparse;
pub mod steady;
mod store;
mod verdict;
mod watch;
mod worker;

pub use crate::host::facts;
pub use arrivals::Arrivals;
pub(crate) use buckets::Buckets;
pub use drive::{Tune, drive, tune};
pub use job::{Job, Mode, Offer, Op, Order, Select, Slo, Stop, Sweep, Target, Warmup};
pub use phase::Reason;
pub use record::{CellDelta, Delta, HostDelta, Recorder, Sample, TICK};
pub use runner::{Console, Ended, RunContext, Runner, Silent, Snapshot};
pub use session::Session;
pub use sizes::{Sizes, bytes as parse_bytes};
pub use sparse::Sparse;
pub use store::Store;
