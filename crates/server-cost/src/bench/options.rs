//! The options of the benchmark.
//!
//! Must not depend on: how it is carried out.

use std::path::PathBuf;

use ashlar_client::{Algorithm, Client, Config, Credentials, Payload};
use clap::{Args, ValueEnum};

use crate::{outcome::Outcome, size::Size};

/// What to load, how, for how long.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// The server, for instance http://127.0.0.1:9000
    #[arg(long, required_unless_present = "start")]
    pub endpoint: Option<String>,
    /// Access key
    #[arg(long, default_value = "benchmark", env = "ASHLAR_BENCH_ACCESS_KEY")]
    pub access_key: String,
    /// Secret key
    #[arg(
        long,
        default_value = "benchmark-secret-key",
        env = "ASHLAR_BENCH_SECRET_KEY",
        hide_env_values = true
    )]
    pub secret_key: String,
    /// The server's process, for its CPU time and memory
    #[arg(long)]
    pub pid: Option<u32>,
    /// Starts this program (`ashlar`, `target/release/ashlar`, `minio`) as `PROGRAM server DRIVES`
    #[arg(long, requires = "drives", conflicts_with_all = ["endpoint", "pid"])]
    pub start: Option<String>,
    /// Blank folders for --start, as `DIR/drive{1...4}`; emptied at the end
    #[arg(long)]
    pub drives: Option<String>,
    /// More arguments for the program that --start starts
    #[arg(long, allow_hyphen_values = true, value_delimiter = ' ')]
    pub server_args: Vec<String>,
    /// The whole table of targets, with the listing of 100,000 keys
    #[arg(long)]
    pub table: bool,
    /// Requests in flight
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub concurrency: u32,
    /// Threads of the load generator [default: a quarter of the cores]
    #[arg(long)]
    pub threads: Option<usize>,
    /// How long each phase is measured
    #[arg(long, default_value_t = 10.0)]
    pub seconds: f64,
    /// How long each phase runs before it is measured
    #[arg(long, default_value_t = 1.0)]
    pub warmup: f64,
    /// Object sizes
    #[arg(long, value_delimiter = ',', default_value = "10MiB,1MiB,128KiB,4KiB")]
    pub sizes: Vec<Size>,
    /// A PUT phase also ends when it has written so much
    #[arg(long, default_value = "3GiB")]
    pub max_bytes: Size,
    /// How payloads are signed
    #[arg(long, value_enum, default_value_t = PayloadMode::Signed)]
    pub payload: PayloadMode,
    /// Compares every byte read with what was written (costs the client time, not the server)
    #[arg(long)]
    pub verify: bool,
    /// Lists so many keys; 0 leaves the listing out
    #[arg(long)]
    pub listing: Option<u32>,
    /// The bucket; made if it is not there
    #[arg(long, default_value = "benchmark")]
    pub bucket: String,
    /// Writes everything measured as JSON
    #[arg(long)]
    pub json: Option<PathBuf>,
    /// Leaves the objects and the drives' contents
    #[arg(long)]
    pub keep: bool,
}

/// How payloads are signed.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum PayloadMode {
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
    /// The corresponding setting of the client.
    pub fn payload(self) -> Payload {
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
    /// Threads of the load generator.
    pub fn threads(&self) -> usize {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        self.threads.unwrap_or(cores / 4).clamp(1, self.concurrency as usize)
    }

    /// How many keys are listed.
    pub fn listing(&self) -> u32 {
        self.listing.unwrap_or(if self.table { 100_000 } else { 0 })
    }

    /// A client of the server.
    pub fn client(&self, endpoint: &str) -> Outcome<Client> {
        let credentials = Credentials::new(&self.access_key, &self.secret_key);
        let mut config = Config::new(endpoint, Some(credentials));
        config.attempts = 1;
        config.max_idle = self.concurrency as usize;
        config.tls.insecure = true;
        Ok(Client::new(config)?)
    }
}
