//! The interface between a job and its workers: where the work is done, where progress is shown.
//!
//! Must not depend on: how a job is run (`drive`), where it is run (`session`, agents).

use std::sync::atomic::AtomicBool;

use ashlar_bench_report::result::Host;

use super::{Delta, Offer, Reason, Stop};
use crate::{Result, cost::Source, stall::Stalls};

/// Where progress is shown. Every method may do nothing.
pub trait Console {
    /// Something with so many steps begins (0: unknown).
    fn begin(&mut self, what: &str, total: u64);
    /// Shows how many are done.
    fn progress(&mut self, done: u64);
    /// The work has ended.
    fn end(&mut self);
    /// Something worth a line.
    fn note(&mut self, text: &str);
    /// A second of a phase.
    fn snapshot(&mut self, snapshot: &Snapshot);
}

/// Shows nothing.
pub struct Silent;

impl Console for Silent {
    fn begin(&mut self, _: &str, _: u64) {}
    fn progress(&mut self, _: u64) {}
    fn end(&mut self) {}
    fn note(&mut self, _: &str) {}
    fn snapshot(&mut self, _: &Snapshot) {}
}

/// A second of a phase.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// What runs, for instance `get, 20 in flight`.
    pub name: String,
    /// Seconds since its start.
    pub at_s: f64,
    /// What share of it is done, if that can be known.
    pub done: Option<f64>,
    /// Operations per second, whole operations only.
    pub rate: f64,
    /// Bytes per second.
    pub bytes: f64,
    /// Median and 99th percentile, nanoseconds; response time in an open loop.
    pub p50: u64,
    /// See `p50`.
    pub p99: u64,
    /// Failures since the start.
    pub errors: u64,
}

/// How a phase ended.
#[derive(Clone, Debug)]
pub struct Ended {
    /// The reason of the end.
    pub reason: Reason,
    /// When, in seconds from its start.
    pub seconds: f64,
    /// Requests that were due and not sent.
    pub unsent: u64,
    /// Agents that were lost, with the reason.
    pub lost: Vec<String>,
    /// What was noticed of stalls: of this machine (no name) or of each agent.
    pub stalls: Vec<(Option<String>, Stalls)>,
}

/// Who does the work: this machine ([`super::Session`]) or agents.
pub trait Runner {
    /// Makes buckets and data.
    ///
    /// # Errors
    /// When the run cannot begin.
    fn prepare(&mut self, console: &mut dyn Console, interrupt: &AtomicBool) -> Result<()>;

    /// Runs a phase; `sink` gets what is measured, about once a second, and may end it.
    ///
    /// # Errors
    /// When there is nothing to judge.
    fn run(
        &mut self,
        offer: &Offer,
        stop: &Stop,
        interrupt: &AtomicBool,
        sink: &mut dyn FnMut(Option<u32>, Delta) -> Option<Reason>,
    ) -> Result<Ended>;

    /// Removes what the run wrote.
    ///
    /// # Errors
    /// When something stays behind.
    fn clean(&mut self, console: &mut dyn Console) -> Result<()>;
}

/// Everything a run needs besides its job.
pub struct RunContext<'a> {
    /// Where the server's usage is read.
    pub server: Option<Source>,
    /// The facts that the server reports ([`crate::server`]).
    pub host: Option<Host>,
    /// The names of agents; empty for a local run.
    pub agents: Vec<String>,
    /// The command line, without secrets.
    pub command: Vec<String>,
    /// What the user calls the run.
    pub name: Option<String>,
    /// Set to end the run early.
    pub interrupt: &'a AtomicBool,
}
