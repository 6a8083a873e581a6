//! The result document: one schema for every mode, written as JSON (docs/bench-results.md).
//!
//! Invariants: units are in the names (`_s`, `_ns`, `_per_s`, `bytes`); a value that was not
//! measured is absent; a reader of version N reads every version up to N and refuses newer ones.
//!
//! Must not depend on: how a number was measured or how it is shown.

pub mod file;
pub mod hist;
mod load;
mod phase;
pub mod redact;
pub mod server;
pub mod settings;
pub mod title;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use phase::{SET_ASIDE, averaged};

/// The value of [`Run::format`].
pub const FORMAT: &str = "ashlar-bench";
/// The newest version this program writes and reads.
pub const VERSION: u32 = 1;

/// One run of one command: any mode.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Always [`FORMAT`].
    pub format: String,
    /// Version of this schema.
    pub version: u32,
    /// `s3`, `drive`, `net`, `gpu`, `spec` or `import`.
    pub mode: String,
    /// What the user calls it; else what was measured ([`title`]).
    pub name: String,
    /// Start, RFC 3339 in UTC.
    pub started: String,
    /// The command line, without secrets.
    pub command: Vec<String>,
    /// Where it ran; one entry per machine that took part (client first).
    pub environment: Vec<Host>,
    /// Parameters as given and as resolved, flat, by their long option's name.
    pub setup: BTreeMap<String, serde_json::Value>,
    /// What was measured, in order.
    pub phases: Vec<Phase>,
    /// What limits the hardware sets, when a plan was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ceilings: Option<serde_json::Value>,
    /// What a reader must know before believing the numbers.
    pub caveats: Vec<Caveat>,
}

/// A machine that took part.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Host {
    /// `client`, `server` or `agent NAME`.
    pub role: String,
    /// Facts by name: `cpu`, `cores`, `memory_bytes`, `kernel`, `mount PATH`, `version ashlar` ...
    pub facts: BTreeMap<String, String>,
}

/// How bad a [`Caveat`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Good to know.
    Note,
    /// The numbers may mislead.
    Warning,
    /// The result must not be used.
    Invalid,
}

/// Something a reader must know.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Caveat {
    /// How bad.
    pub severity: Severity,
    /// A short stable name, for instance `client-throttled`, `cached-data`, `errors`.
    pub code: String,
    /// In words, with the numbers.
    pub text: String,
}

/// How load was offered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "loop", rename_all = "lowercase", try_from = "load::Fields")]
pub enum Load {
    /// A fixed number of requests in flight.
    Closed {
        /// Requests in flight.
        concurrency: u32,
    },
    /// Requests begin at times that do not depend on the answers.
    Open {
        /// Operations offered per second.
        rate_per_s: f64,
        /// `fixed` or `poisson`.
        arrivals: String,
        /// The most requests in flight before the run is declared overloaded.
        limit: u32,
    },
}

/// One measured interval with one load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Phase {
    /// What was done: `put`, `get`, `mixed`, `seq-read-128KiB`, `send` ...
    pub name: String,
    /// Life cycle: `nominal`, `down`, `rebuild`, `after`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// Which repetition, from 1.
    pub repetition: u32,
    /// How load was offered.
    pub load: Load,
    /// Seconds from the start of the run to the start of this phase.
    pub at_s: f64,
    /// Seconds cut from the start as warm-up; not in any number below.
    pub warmup_s: f64,
    /// Seconds that were measured.
    pub seconds: f64,
    /// Why it ended: `time`, `count`, `bytes`, `steady`, `errors`, `interrupted`.
    pub stopped_by: String,
    /// Per kind of operation.
    pub operations: Vec<Operation>,
    /// What it cost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Cost>,
    /// Further measured values by name with the unit in it, for instance `rebuild_seconds`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub values: BTreeMap<String, f64>,
}

/// All operations of one kind within a phase.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Operation {
    /// `PUT`, `GET`, `HEAD`, `LIST`, `DELETE`, `read`, `write` ...
    pub name: String,
    /// Operations that ended well.
    pub count: u64,
    /// Payload bytes of those.
    pub bytes: u64,
    /// Bytes that were compared with what was written.
    pub verified_bytes: u64,
    /// Failed operations by S3 code, `timeout`, `connection`, `wrong-bytes` ...
    pub errors: BTreeMap<String, u64>,
    /// Operations per second over the phase, from batch means.
    pub rate_per_s: Estimate,
    /// Bytes per second over the phase, from batch means.
    pub bytes_per_s: Estimate,
    /// From sending a request to the end of its answer.
    pub service: Histogram,
    /// From the intended start to the end of the answer; absent in a closed loop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response: Option<Histogram>,
    /// From sending to the first byte of the answer's body.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_byte: Option<Histogram>,
    /// Progress over time.
    pub timeline: Timeline,
    /// By host (`host H`), agent (`agent A`) or drive (`drive PATH`).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub by: BTreeMap<String, Share>,
}

/// What one host, agent or drive had of an operation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Share {
    /// Operations that ended well.
    pub count: u64,
    /// Payload bytes.
    pub bytes: u64,
    /// Failed operations.
    pub errors: u64,
    /// Service time.
    pub service: Histogram,
}

/// A mean with what is known about it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// The mean.
    pub mean: f64,
    /// 95 % confidence interval, when there were enough batches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ci95: Option<(f64, f64)>,
    /// Coefficient of variation of the batches (standard deviation / mean).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cov: Option<f64>,
}

/// A histogram of times in nanoseconds, three significant digits, 1 us to 1 h.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Histogram {
    /// Values recorded.
    pub count: u64,
    /// Smallest, largest, mean and standard deviation.
    pub min_ns: u64,
    /// Largest value.
    pub max_ns: u64,
    /// Mean.
    pub mean_ns: f64,
    /// Standard deviation.
    pub stdev_ns: f64,
    /// `p50`, `p90`, `p99`, `p99.9`, `p99.99`: convenience, derived from `buckets`.
    pub percentiles_ns: BTreeMap<String, u64>,
    /// (value in nanoseconds, count), ascending, only those that are not empty.
    pub buckets: Vec<(u64, u64)>,
}

/// Progress over time in equal steps, at most [`Timeline::MAX`] of them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Timeline {
    /// Length of a step; doubled, and neighbours joined, whenever there would be too many.
    pub step_s: f64,
    /// The steps, from the start of the phase (warm-up included, marked by `Phase::warmup_s`).
    pub points: Vec<Point>,
}

impl Timeline {
    /// The most steps that are kept.
    pub const MAX: usize = 1200;
}

/// One step of a [`Timeline`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Operations that ended within the step.
    pub count: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Operations that failed within it.
    pub errors: u64,
    /// Largest service time.
    pub max_ns: u64,
}

/// What a phase cost.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// This program (all agents together).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<ProcessCost>,
    /// The server, when its process or metrics could be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<ProcessCost>,
    /// Server CPU seconds per GiB of payload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_s_per_gib: Option<f64>,
    /// Server CPU microseconds per operation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_us_per_op: Option<f64>,
    /// Client CPU microseconds per operation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_us_per_op: Option<f64>,
}

/// CPU and memory of one side.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProcessCost {
    /// User CPU seconds within the phase.
    pub user_s: f64,
    /// System CPU seconds within the phase.
    pub system_s: f64,
    /// CPU seconds per second and core of its machine, 0 to 1.
    pub cpu_share: f64,
    /// Peak resident bytes.
    pub peak_bytes: u64,
}
