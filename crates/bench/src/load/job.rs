//! The parameters of a load: plain values that are sent to agents as JSON.
//!
//! Must not depend on: the syntax of the command line.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::Sizes;
use crate::{
    Error, Result,
    wire::{Keys, Payload, Shape},
};

/// The kind of load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// Write new objects.
    Put,
    /// Read whole objects.
    Get,
    /// Several operations by weight.
    Mixed,
    /// Read pages of the listing.
    List,
    /// Read heads of objects.
    Stat,
    /// Remove objects.
    Delete,
    /// Read single parts of objects that were uploaded in parts.
    Multipart,
    /// Upload objects in parts.
    MultipartPut,
    /// Write, read and remove single versions.
    Versioned,
    /// Writes under conditions.
    Conditional,
}

impl Mode {
    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Put => "put",
            Mode::Get => "get",
            Mode::Mixed => "mixed",
            Mode::List => "list",
            Mode::Stat => "stat",
            Mode::Delete => "delete",
            Mode::Multipart => "multipart",
            Mode::MultipartPut => "multipart-put",
            Mode::Versioned => "versioned",
            Mode::Conditional => "conditional",
        }
    }
}

/// One kind of measured operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Op {
    /// PutObject.
    Put,
    /// GetObject.
    Get,
    /// HeadObject.
    Head,
    /// ListObjectsV2, one page.
    List,
    /// DeleteObject.
    Delete,
    /// DeleteObjects.
    MultiDelete,
    /// PutObject with `If-None-Match: *`.
    PutIfNoneMatch,
    /// PutObject with `If-Match`.
    PutIfMatch,
    /// A whole upload in parts.
    Upload,
    /// CreateMultipartUpload, a step of [`Op::Upload`].
    CreateUpload,
    /// UploadPart, a step of [`Op::Upload`].
    PutPart,
    /// CompleteMultipartUpload, a step of [`Op::Upload`].
    CompleteUpload,
}

impl Op {
    /// All of them, in the order of their numbers.
    pub const ALL: [Op; 12] = [
        Op::Put,
        Op::Get,
        Op::Head,
        Op::List,
        Op::Delete,
        Op::MultiDelete,
        Op::PutIfNoneMatch,
        Op::PutIfMatch,
        Op::Upload,
        Op::CreateUpload,
        Op::PutPart,
        Op::CompleteUpload,
    ];

    /// The name in results.
    pub fn name(self) -> &'static str {
        match self {
            Op::Put => "PUT",
            Op::Get => "GET",
            Op::Head => "HEAD",
            Op::List => "LIST",
            Op::Delete => "DELETE",
            Op::MultiDelete => "MULTI-DELETE",
            Op::PutIfNoneMatch => "PUT-IF-NONE-MATCH",
            Op::PutIfMatch => "PUT-IF-MATCH",
            Op::Upload => "UPLOAD",
            Op::CreateUpload => "CREATE-UPLOAD",
            Op::PutPart => "PUT-PART",
            Op::CompleteUpload => "COMPLETE-UPLOAD",
        }
    }

    /// Whether it is a step of another operation, and so left out of totals.
    pub fn is_step(self) -> bool {
        matches!(self, Op::CreateUpload | Op::PutPart | Op::CompleteUpload)
    }
}

/// Parses a name of `--mix`.
impl FromStr for Op {
    type Err = String;

    fn from_str(text: &str) -> Result<Op, String> {
        match text {
            "put" => Ok(Op::Put),
            "get" => Ok(Op::Get),
            "stat" | "head" => Ok(Op::Head),
            "list" => Ok(Op::List),
            "delete" => Ok(Op::Delete),
            _ => Err(format!("`{text}` cannot be mixed; choose from get, stat, put, delete, list")),
        }
    }
}

/// The names of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// Scattered: neighbours in time are far apart in the listing.
    Random,
    /// Ascending.
    Sequential,
}

/// Which host gets the next request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Select {
    /// One after the other, each worker for itself.
    RoundRobin,
    /// That with the fewest requests of this program in flight.
    Least,
}

/// How load is offered in one phase, on one machine.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Offer {
    /// Connections, and so the most requests in flight.
    pub concurrency: u32,
    /// Operations per second; `None` is the closed loop.
    pub rate: Option<f64>,
    /// Random (Poisson) rather than equal distances between intended starts.
    pub poisson: bool,
    /// In the open loop: so many intended requests without an answer declare the run overloaded.
    pub limit: u64,
}

/// When a phase ends; the first condition that is met ends it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Stop {
    /// After so many seconds.
    pub seconds: Option<f64>,
    /// After so many operations, exactly.
    pub count: Option<u64>,
    /// After at least so many payload bytes.
    pub bytes: Option<u64>,
    /// When the half-width of the confidence interval is below this share of the mean.
    pub steady: Option<f64>,
}

/// How much of the start is cut.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Warmup {
    /// What the change-point test finds ([`super::steady`]).
    Auto,
    /// So many seconds.
    Seconds(f64),
}

/// A latency objective.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Slo {
    /// In percent, for instance 99.9.
    pub percentile: f64,
    /// The largest response time.
    pub nanoseconds: u64,
}

/// Parses `p99=50ms`, `p99.9=2s`, `p50=800us`.
impl FromStr for Slo {
    type Err = String;

    fn from_str(text: &str) -> Result<Slo, String> {
        let bad = || format!("`{text}`: expected an objective like p99=50ms");
        let (name, limit) = text.split_once('=').ok_or_else(bad)?;
        let percentile: f64 = name.strip_prefix('p').and_then(|p| p.parse().ok()).ok_or_else(bad)?;
        let digits = limit.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let value: f64 = digits.parse().map_err(|_| bad())?;
        let scale = match &limit[digits.len()..] {
            "us" => 1e3,
            "ms" => 1e6,
            "s" => 1e9,
            _ => return Err(bad()),
        };
        if !(0.0..100.0).contains(&percentile) || value <= 0.0 || !value.is_finite() {
            return Err(bad());
        }
        Ok(Slo { percentile, nanoseconds: (value * scale) as u64 })
    }
}

/// The search for the highest rate that keeps an objective.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sweep {
    /// The objective.
    pub slo: Slo,
    /// The first rate.
    pub from: f64,
    /// Never more than this.
    pub to: Option<f64>,
    /// Seconds of each step.
    pub step_s: f64,
    /// The search ends when the highest good and the lowest bad rate are this close (a share).
    pub precision: f64,
}

/// Where requests go and how they look.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Target {
    /// Endpoints, ranges expanded.
    pub endpoints: Vec<String>,
    /// Credentials; `None` is anonymous.
    pub keys: Option<Keys>,
    /// Accept any certificate.
    pub insecure: bool,
    /// A certificate authority in PEM.
    pub authority: Option<String>,
    /// Bucket in the host's name.
    pub virtual_host: bool,
    /// Choice of host.
    pub select: Select,
    /// Seconds of silence until a request has timed out.
    pub timeout_s: f64,
    /// How bodies are signed.
    pub payload: Payload,
    /// Checksum sent with objects, by its name in the protocol.
    pub checksum: Option<String>,
}

/// A load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// The kind of load.
    pub mode: Mode,
    /// The server and bucket.
    pub target: Target,
    /// The bucket, or what the names of several begin with.
    pub bucket: String,
    /// How many buckets.
    pub buckets: u32,
    /// What the user wants keys to begin with.
    pub prefix: String,
    /// The name of this run, part of all its keys.
    pub run: String,
    /// Folders above each key.
    pub depth: u32,
    /// Entries per folder.
    pub fanout: u32,
    /// Names of keys.
    pub order: Order,
    /// Use the objects under `prefix` instead of writing data.
    pub existing: bool,
    /// Objects to prepare, or the most existing ones to use.
    pub objects: u64,
    /// Their sizes.
    pub sizes: Sizes,
    /// Their bytes.
    pub shape: Shape,
    /// Of all random choices.
    pub seed: u64,
    /// Compare every byte that is read.
    pub verify: bool,
    /// Bytes of a GET, from a random offset on; the whole object if it is not longer. `None`: whole objects.
    pub range: Option<u64>,
    /// Operations and their weights.
    pub mix: Vec<(Op, u32)>,
    /// Versions per key.
    pub versions: u32,
    /// Bytes of a part.
    pub part_size: u64,
    /// Parts of an upload.
    pub parts: u32,
    /// Keys per request of `delete`.
    pub batch: u32,
    /// Keys per page of `list`.
    pub list_keys: u32,
    /// Do not remove what was written.
    pub keep: bool,
    /// How load is offered.
    pub offer: Offer,
    /// When it ends.
    pub stop: Stop,
    /// The cut of the warm-up.
    pub warmup: Warmup,
    /// Repetitions of the phase.
    pub repetitions: u32,
    /// A run with a larger share of failures is given up.
    pub max_error_rate: f64,
    /// The rates to try.
    pub sweep: Option<Sweep>,
}

impl Job {
    /// The prefix of everything this run writes.
    pub fn run_prefix(&self) -> String {
        format!("{}{}/", self.prefix, self.run)
    }

    /// The name of bucket `i`.
    pub fn bucket_name(&self, i: u32) -> String {
        if self.buckets == 1 { self.bucket.clone() } else { format!("{}-{i}", self.bucket) }
    }

    /// Whether data must be there before the measurement.
    pub fn needs_data(&self) -> bool {
        !self.existing && !matches!(self.mode, Mode::Put | Mode::MultipartPut)
    }

    /// Says what cannot work before anything is touched.
    ///
    /// # Errors
    /// [`Error::Usage`] in words.
    pub fn check(&self) -> Result<()> {
        let refuse = |text: &str| Err(Error::usage(text));
        let reads = [Op::Get, Op::Head, Op::List];
        if self.mix.is_empty() || self.mix.iter().all(|m| m.1 == 0) {
            return refuse("the mix has no operation with a weight above 0");
        }
        if self.existing && !self.mix.iter().all(|m| reads.contains(&m.0) || m.1 == 0) {
            return refuse("--existing only reads: it works with get, stat, list, and mixes of these");
        }
        if self.existing && matches!(self.mode, Mode::Versioned | Mode::Multipart) {
            return refuse("--existing does not work with versioned or multipart: their data must be known");
        }
        if self.existing && self.verify {
            return refuse("--verify needs data that this run wrote, so not --existing");
        }
        if self.range.is_some() && (self.existing || !matches!(self.mode, Mode::Get | Mode::Mixed)) {
            return refuse(
                "--range-size works with get and mixed, and not with --existing: sizes must be known",
            );
        }
        if self.range == Some(0) {
            return refuse("--range-size must be above 0");
        }
        if self.mode == Mode::Versioned && self.mix.iter().any(|m| m.0 == Op::List) {
            return refuse("versioned can only mix get, stat, put and delete");
        }
        if self.objects == 0 || self.objects > 1 << 32 {
            return refuse("--objects must be 1 to 4294967296");
        }
        if self.mode == Mode::Versioned && self.objects * u64::from(self.versions) > 4 << 20 {
            return refuse(
                "--objects times --versions must not exceed 4194304: their ids are kept in memory",
            );
        }
        if matches!(self.mode, Mode::Multipart | Mode::MultipartPut)
            && !((1..=10_000).contains(&self.parts) && self.part_size > 0)
        {
            return refuse("--parts must be 1 to 10000 and --part-size above 0");
        }
        if !(1..=1000).contains(&self.batch) || !(1..=1000).contains(&self.list_keys) {
            return refuse("--batch and --list-keys must be 1 to 1000");
        }
        if !(1..=100_000).contains(&self.offer.concurrency) || !(1..=1000).contains(&self.buckets) {
            return refuse("--concurrency must be 1 to 100000 and --buckets 1 to 1000");
        }
        if self.offer.rate.is_some_and(|r| !(r.is_finite() && r > 0.0)) {
            return refuse("--rate must be above 0");
        }
        let stop = &self.stop;
        if stop.seconds.is_none() && stop.count.is_none() && stop.bytes.is_none() {
            return refuse("nothing ends the run: give --duration, --count or --bytes");
        }
        if self.depth > 8 {
            return refuse("--depth must not exceed 8");
        }
        let trailing = matches!(self.target.payload, Payload::StreamingTrailer | Payload::Trailer);
        if trailing && self.target.checksum.is_none() {
            return refuse("a payload with a trailer needs a --checksum");
        }
        if self.target.keys.is_none()
            && matches!(self.target.payload, Payload::Streaming | Payload::StreamingTrailer)
        {
            return refuse("signed streams need credentials");
        }
        if self.mode == Mode::Delete && (self.sweep.is_some() || self.repetitions > 1) {
            return refuse("delete cannot be swept or repeated: its data is used up; give --rate instead");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objectives_are_parsed() {
        assert_eq!("p99=50ms".parse(), Ok(Slo { percentile: 99.0, nanoseconds: 50_000_000 }));
        assert_eq!("p99.9=2s".parse::<Slo>().unwrap().nanoseconds, 2_000_000_000);
        for bad in ["", "99=50ms", "p99", "p99=50", "p100=1s", "p99=-1ms", "p99=1h"] {
            assert!(bad.parse::<Slo>().is_err(), "{bad}");
        }
    }

    #[test]
    fn operations_have_stable_numbers() {
        for (i, op) in Op::ALL.iter().enumerate() {
            assert_eq!(*op as usize, i);
        }
    }
}
