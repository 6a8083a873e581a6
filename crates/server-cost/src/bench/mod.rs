//! The benchmark: a closed loop of signed requests against any S3 server, and what they cost it.
//!
//! Server CPU time (user and system, all threads) is the measure, since it is steady on noisy
//! machines; throughput and latency stand beside it. For each size: PUT for some seconds, then GET
//! of what was written, then the objects are deleted.
//!
//! Invariants: a request is sent once (an error is counted, never hidden by a repetition); it
//! writes only below its own prefix of its own bucket and removes that at the end.
//!
//! Must never know: the server's insides.

mod listing;
mod load;
mod process;
mod report;
mod start;

use std::{path::PathBuf, time::Duration};

use ashlar_client::{Algorithm, Client, Config, Credentials, Payload};
use clap::{Args, ValueEnum};

use crate::{Outcome, size::Size};
use process::Process;
use report::{Environment, Report, Row};

/// What to load, how, for how long.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// The server, for instance http://127.0.0.1:9000
    #[arg(long, required_unless_present = "start")]
    endpoint: Option<String>,
    /// Access key
    #[arg(long, default_value = "benchmark", env = "ASHLAR_BENCH_ACCESS_KEY")]
    access_key: String,
    /// Secret key
    #[arg(
        long,
        default_value = "benchmark-secret-key",
        env = "ASHLAR_BENCH_SECRET_KEY",
        hide_env_values = true
    )]
    secret_key: String,
    /// The server's process, for its CPU time and memory
    #[arg(long)]
    pid: Option<u32>,
    /// Starts this program (`ashlar`, `target/release/ashlar`, `minio`) as `PROGRAM server DRIVES`
    #[arg(long, requires = "drives", conflicts_with_all = ["endpoint", "pid"])]
    start: Option<String>,
    /// Blank folders for --start, as `DIR/drive{1...4}`; emptied at the end
    #[arg(long)]
    drives: Option<String>,
    /// More arguments for the program that --start starts
    #[arg(long, allow_hyphen_values = true, value_delimiter = ' ')]
    server_args: Vec<String>,
    /// The whole table of targets, with the listing of 100,000 keys
    #[arg(long)]
    table: bool,
    /// Requests in flight
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=4096))]
    concurrency: u32,
    /// Threads of the load generator [default: a quarter of the cores]
    #[arg(long)]
    threads: Option<usize>,
    /// How long each phase is measured
    #[arg(long, default_value_t = 10.0)]
    seconds: f64,
    /// How long each phase runs before it is measured
    #[arg(long, default_value_t = 1.0)]
    warmup: f64,
    /// Object sizes
    #[arg(long, value_delimiter = ',', default_value = "10MiB,1MiB,128KiB,4KiB")]
    sizes: Vec<Size>,
    /// A PUT phase also ends when it has written so much
    #[arg(long, default_value = "3GiB")]
    max_bytes: Size,
    /// How payloads are signed
    #[arg(long, value_enum, default_value_t = PayloadMode::Signed)]
    payload: PayloadMode,
    /// Compares every byte read with what was written (costs the client time, not the server)
    #[arg(long)]
    verify: bool,
    /// Lists so many keys; 0 leaves the listing out
    #[arg(long)]
    listing: Option<u32>,
    /// The bucket; made if it is not there
    #[arg(long, default_value = "benchmark")]
    bucket: String,
    /// Writes everything measured as JSON
    #[arg(long)]
    json: Option<PathBuf>,
    /// Leaves the objects and the drives' contents
    #[arg(long)]
    keep: bool,
}

/// How payloads are signed.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum PayloadMode {
    /// `x-amz-content-sha256` is the payload's hash, computed before the clock starts
    Signed,
    /// Signed chunks of 64 KiB, as minio-go and warp over plain HTTP
    Streaming,
    /// UNSIGNED-PAYLOAD
    Unsigned,
    /// Trailing CRC64NVME, unsigned, as today's AWS SDKs over TLS
    Trailer,
    /// Trailing CRC32 in signed chunks, as today's AWS SDKs over plain HTTP
    SignedTrailer,
}

impl PayloadMode {
    fn payload(self) -> Payload {
        match self {
            PayloadMode::Signed => Payload::Signed,
            PayloadMode::Streaming => Payload::SignedChunks,
            PayloadMode::Unsigned => Payload::Unsigned,
            PayloadMode::Trailer => Payload::Trailer(Algorithm::Crc64Nvme),
            PayloadMode::SignedTrailer => Payload::SignedTrailer(Algorithm::Crc32),
        }
    }
}

impl Options {
    fn threads(&self) -> usize {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        self.threads.unwrap_or(cores / 4).clamp(1, self.concurrency as usize)
    }

    fn listing(&self) -> u32 {
        self.listing.unwrap_or(if self.table { 100_000 } else { 0 })
    }

    fn client(&self, endpoint: &str) -> Outcome<Client> {
        let credentials = Credentials::new(&self.access_key, &self.secret_key);
        let mut config = Config::new(endpoint, Some(credentials));
        config.attempts = 1;
        config.max_idle = self.concurrency as usize;
        config.tls.insecure = true;
        Ok(Client::new(config)?)
    }
}

/// Runs the benchmark and prints the table.
pub fn run(options: &Options) -> Outcome {
    let server = match (&options.start, &options.drives) {
        (Some(program), Some(drives)) => Some(start::Server::start(program, drives, options)?),
        _ => None,
    };
    let endpoint = match (&server, &options.endpoint) {
        (Some(server), _) => server.endpoint.clone(),
        (None, Some(endpoint)) => endpoint.clone(),
        (None, None) => return Err("name --endpoint or --start".into()),
    };
    let pid = server.as_ref().map(start::Server::pid).or(options.pid);
    let process = pid.map(Process::open).transpose()?;
    if process.is_none() {
        eprintln!("note: without --pid the server's CPU time and memory are not known");
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let outcome = measure(options, &endpoint, process.as_ref(), &runtime);
    if let Some(server) = server {
        server.stop(options.keep)?;
    }
    let report = outcome?;
    report.print();
    if let Some(path) = &options.json {
        std::fs::write(path, serde_json::to_vec_pretty(&report)?)?;
    }
    if report.rows.iter().any(|row| row.errors > 0) {
        return Err("some requests failed; see the table".into());
    }
    Ok(())
}

fn measure(
    options: &Options,
    endpoint: &str,
    process: Option<&Process>,
    runtime: &tokio::runtime::Runtime,
) -> Outcome<Report> {
    let client = options.client(endpoint)?;
    runtime.block_on(async {
        if !client.bucket_exists(&options.bucket).await? {
            client.create_bucket(&options.bucket, false).await?;
        }
        Outcome::Ok(())
    })?;
    let prefix = format!("bench-{:08x}/", getrandom::u32()?);
    let mut report = Report {
        environment: Environment::here(endpoint, options),
        idle_rss_bytes: process.and_then(Process::rss),
        rows: Vec::new(),
        listing: None,
    };
    let settle = Duration::from_millis(500);
    for &size in &options.sizes {
        let objects = load::Objects::new(&prefix, size, options)?;
        for verb in [load::Verb::Put, load::Verb::Get] {
            let _ = process.map(Process::reset_peak);
            let measured = load::run(options, endpoint, &objects, verb, process, settle)?;
            let row = Row::new(verb, size, measured, process.and_then(Process::peak_rss));
            eprintln!("{}", row.line());
            report.rows.push(row);
        }
        if !options.keep {
            runtime.block_on(load::remove(&client, &options.bucket, &objects))?;
        }
    }
    let keys = options.listing();
    if keys > 0 {
        let _ = process.map(Process::reset_peak);
        report.listing = Some(listing::run(options, endpoint, &prefix, keys, process, runtime)?);
    }
    if !options.keep {
        // Fails where others keep objects in the bucket, which is as it should be.
        let _ = runtime.block_on(client.delete_bucket(&options.bucket));
    }
    Ok(report)
}
