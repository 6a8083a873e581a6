//! `ashlar bench s3`: parses the options, calls the crate `bench`, prints the result.

mod job;
mod table;

use std::{
    fs,
    io::Write,
    process::ExitCode,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use ashlar_bench::{
    Error,
    agent::Coordinator,
    cost::Source,
    live::Live,
    load::{self, Job, RunContext, Runner, Session, Sizes, Slo, Warmup},
    server::ask,
    wire::{Shape, expand},
};
use ashlar_bench_report::result::{Host, Run, Severity, file, redact, server};
use clap::ValueEnum;

pub(super) use self::job::{duration, share};
use self::job::{job, rate, warmup};
use self::table::table;
use crate::Globals;

const AFTER: &str = "\
Data is written under a prefix of this run only (PREFIX + run id), and only that is removed afterwards.

Examples:
  ashlar bench s3 get it/bench --size 4KiB --concurrency 8 --duration 30s
  ashlar bench s3 mixed it/bench --mix get=70,put=30 --rate 2000 --arrivals poisson
  ashlar bench s3 get it/bench --sweep --slo p99=50ms
  ashlar bench s3 put --endpoint http://n{1...4}:9000 --agents c{1...4} --token-file token

Exit codes:
  0    measured
  1    it could not be run, or could not be finished
  2    the command line is wrong
  6    measured, but the result is marked invalid (wrong data, errors, overload, client at its limit)
  130  interrupted; what was measured until then was written";

/// The operation to measure.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Operation_ {
    /// Write new objects
    Put,
    /// Read whole objects
    Get,
    /// Several operations with weights (--mix)
    Mixed,
    /// Read pages of the listing
    List,
    /// Read the heads of objects
    Stat,
    /// Delete objects, singly or in batches (--batch)
    Delete,
    /// Read single parts of multipart objects
    Multipart,
    /// Upload multipart objects
    MultipartPut,
    /// Write, read and delete single versions
    Versioned,
    /// Writes with If-None-Match and If-Match; a failed condition is an expected outcome
    Conditional,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum PayloadArg {
    /// SHA-256 of the body in the request head
    Signed,
    /// UNSIGNED-PAYLOAD
    Unsigned,
    /// Signed chunks of 64 KiB
    Streaming,
    /// Signed chunks and a signed trailing checksum
    StreamingTrailer,
    /// Unsigned chunks and a trailing checksum, as the AWS SDKs do over TLS
    Trailer,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Arrivals {
    /// Constant intervals
    Fixed,
    /// Random intervals, as from many independent users
    Poisson,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum OrderArg {
    /// Random order in the listing
    Random,
    /// Ascending
    Sequential,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum SelectArg {
    /// In turn
    RoundRobin,
    /// The one with the fewest requests in flight
    Least,
}

/// A load on an S3 server.
#[derive(clap::Args, Debug)]
#[command(after_long_help = AFTER)]
pub struct Args {
    /// The operation to measure
    #[arg(value_enum)]
    operation: Operation_,
    /// ALIAS/BUCKET[/PREFIX], or BUCKET[/PREFIX] with --endpoint [default bucket: benchmark]
    target: Option<String>,

    /// Endpoints, comma-separated, with ranges: http://n{1...4}:9000
    #[arg(long, help_heading = "Server", value_name = "LIST")]
    endpoint: Option<String>,
    /// Access key [env: ASHLAR_ACCESS_KEY, AWS_ACCESS_KEY_ID]
    #[arg(long, help_heading = "Server", value_name = "KEY")]
    access_key: Option<String>,
    /// Secret key; better in the environment [env: ASHLAR_SECRET_KEY, AWS_SECRET_ACCESS_KEY]
    #[arg(long, help_heading = "Server", value_name = "SECRET")]
    secret_key: Option<String>,
    /// Send requests without signature
    #[arg(long, help_heading = "Server", conflicts_with_all = ["access_key", "secret_key"])]
    anonymous: bool,
    /// Region that signatures name [default: the alias's, else us-east-1]
    #[arg(long, help_heading = "Server")]
    region: Option<String>,
    /// Virtual-host style: the bucket in the host name instead of the path
    #[arg(long, help_heading = "Server")]
    virtual_host: bool,
    /// How requests are distributed over several endpoints
    #[arg(long, help_heading = "Server", value_enum, default_value = "round-robin")]
    host_select: SelectArg,
    /// How bodies of objects are signed
    #[arg(long, help_heading = "Server", value_enum, default_value = "signed")]
    payload: PayloadArg,
    /// Checksum sent with objects: crc32, crc32c, crc64nvme, sha1, sha256 or none
    /// [default: none; crc64nvme with a trailer]
    #[arg(long, help_heading = "Server", value_name = "NAME")]
    checksum: Option<String>,
    /// A request times out after this time without progress
    #[arg(long, help_heading = "Server", default_value = "60s", value_parser = duration, value_name = "TIME")]
    timeout: Duration,

    /// Requests in flight (and connections)
    #[arg(long, short, help_heading = "Load", value_name = "N")]
    concurrency: Option<u32>,
    /// Open loop: operations per second, independent of the answers
    #[arg(long, help_heading = "Load", value_parser = rate, value_name = "N/s")]
    rate: Option<f64>,
    /// Intervals of the open loop
    #[arg(long, help_heading = "Load", value_enum, default_value = "fixed")]
    arrivals: Arrivals,
    /// Open loop: the run ends as overloaded if more requests are due and unanswered
    /// [default: those of 5 seconds]
    #[arg(long, help_heading = "Load", value_name = "N")]
    limit: Option<u64>,
    /// Find the highest rate that keeps --slo; begins at --rate or a quarter of the closed loop's
    #[arg(long, help_heading = "Load", requires = "slo")]
    sweep: bool,
    /// Service level objective of the sweep, on response time
    #[arg(long, help_heading = "Load", value_name = "p99=50ms")]
    slo: Option<Slo>,
    /// Seconds of each step of a sweep
    #[arg(long, help_heading = "Load", default_value = "10s", value_parser = duration, value_name = "TIME")]
    sweep_step: Duration,
    /// Highest rate of a sweep
    #[arg(long, help_heading = "Load", value_parser = rate, value_name = "N/s")]
    sweep_to: Option<f64>,
    /// A sweep ends when the best passing and the lowest failing rate are this close
    #[arg(long, help_heading = "Load", default_value = "5%", value_parser = share, value_name = "SHARE")]
    sweep_precision: f64,
    /// Weights of `mixed` and `versioned`: get, stat, put, delete, list
    /// [default: get=45,stat=30,put=15,delete=10]
    #[arg(long, help_heading = "Load", value_name = "LIST")]
    mix: Option<String>,
    /// Measure on these agents (`ashlar bench agent`): host{1...4}:7761; --concurrency is per agent,
    /// --rate, --objects, --count and --bytes are totals
    #[arg(long, help_heading = "Load", value_name = "LIST")]
    agents: Option<String>,
    /// The agents' token
    #[arg(long, help_heading = "Load", env = "ASHLAR_BENCH_TOKEN", hide_env_values = true)]
    token: Option<String>,
    /// File with the agents' token
    #[arg(long, help_heading = "Load", conflicts_with = "token", value_name = "FILE")]
    token_file: Option<std::path::PathBuf>,

    /// Stop after this time [default: 30s; at most 5m with --steady]
    #[arg(long, short, help_heading = "End", value_parser = duration, value_name = "TIME")]
    duration: Option<Duration>,
    /// Stop after this many operations
    #[arg(long, help_heading = "End", value_name = "N")]
    count: Option<u64>,
    /// Stop after this many payload bytes
    #[arg(long, help_heading = "End", value_parser = load::parse_bytes, value_name = "SIZE")]
    bytes: Option<u64>,
    /// Stop when the 95 % confidence interval of the rate is within plus or minus this share
    #[arg(long, help_heading = "End", value_parser = share, num_args = 0..=1, require_equals = true,
        default_missing_value = "2.5%", value_name = "SHARE")]
    steady: Option<f64>,
    /// What is cut from the start of the run: a time, or `auto` (change-point test)
    #[arg(long, help_heading = "End", default_value = "auto", value_parser = warmup, value_name = "TIME")]
    warmup: Warmup,
    /// Number of repetitions
    #[arg(long, help_heading = "End", default_value_t = 1, value_name = "N")]
    repeat: u32,
    /// Abort when more operations fail than this
    #[arg(long, help_heading = "End", default_value = "50%", value_parser = share, value_name = "SHARE")]
    max_error_rate: f64,

    /// Sizes: 4KiB, random:10MiB (log2), or weighted 4096:10740,8192:20
    #[arg(long, short, help_heading = "Data", default_value = "10MiB", value_name = "SIZES")]
    size: Sizes,
    /// Contents: random, constant, or compressible:RATIO (2 compresses to a half)
    #[arg(long, help_heading = "Data", default_value = "random", value_name = "SHAPE")]
    data: Shape,
    /// Compare every byte that is read with the byte that was written
    #[arg(long, help_heading = "Data")]
    verify: bool,
    /// Read ranges of this size, at random offsets, instead of whole objects (get, mixed)
    #[arg(long, help_heading = "Data", value_parser = load::parse_bytes, value_name = "SIZE")]
    range_size: Option<u64>,
    /// Objects to prepare for reading, or the maximum number of existing ones to use
    /// [default: 2500; 16 shared keys for conditional]
    #[arg(long, help_heading = "Data", value_name = "N")]
    objects: Option<u64>,
    /// Read existing objects under PREFIX; write and delete nothing
    #[arg(long, help_heading = "Data")]
    existing: bool,
    /// Keep the written objects
    #[arg(long, help_heading = "Data")]
    keep: bool,
    /// Use this many buckets: BUCKET-0, BUCKET-1, ...
    #[arg(long, help_heading = "Data", default_value_t = 1, value_name = "N")]
    buckets: u32,
    /// Folders above each key
    #[arg(long, help_heading = "Data", default_value_t = 0, value_name = "N")]
    depth: u32,
    /// Entries per folder
    #[arg(long, help_heading = "Data", default_value_t = 16, value_name = "N")]
    fanout: u32,
    /// Order of the names of keys
    #[arg(long, help_heading = "Data", value_enum, default_value = "random")]
    key_order: OrderArg,
    /// Seed of contents, sizes and choices [default: random, in the result]
    #[arg(long, help_heading = "Data")]
    seed: Option<u64>,
    /// Versions per key (versioned)
    #[arg(long, help_heading = "Data", default_value_t = 5, value_name = "N")]
    versions: u32,
    /// Parts per object (multipart, multipart-put)
    #[arg(long, help_heading = "Data", default_value_t = 4, value_name = "N")]
    parts: u32,
    /// Size of each part
    #[arg(long, help_heading = "Data", default_value = "5MiB", value_parser = load::parse_bytes, value_name = "SIZE")]
    part_size: u64,
    /// Keys per delete request; 1 deletes them singly
    #[arg(long, help_heading = "Data", default_value_t = 1, value_name = "N")]
    batch: u32,
    /// Keys per page of list
    #[arg(long, help_heading = "Data", default_value_t = 1000, value_name = "N")]
    list_keys: u32,

    /// Process ids of the server, to measure its CPU time and memory
    #[arg(long, help_heading = "Cost", value_delimiter = ',', value_name = "PID")]
    server_pid: Vec<u32>,
    /// Process name of the server, for the same
    #[arg(long, help_heading = "Cost", conflicts_with = "server_pid", value_name = "NAME")]
    server_name: Option<String>,
    /// URLs of the server's metrics (process_cpu_seconds_total and others), for the same
    #[arg(long, help_heading = "Cost", value_delimiter = ',', conflicts_with_all = ["server_pid", "server_name"], value_name = "URL")]
    server_metrics: Vec<String>,
    /// Bearer token of the metrics
    #[arg(long, help_heading = "Cost", env = "ASHLAR_METRICS_TOKEN", hide_env_values = true)]
    server_metrics_token: Option<String>,

    /// File for the result [default: ashlar-bench-OPERATION-TIME.json]
    #[arg(long, short, help_heading = "Result", value_name = "FILE")]
    out: Option<std::path::PathBuf>,
    /// Name of the run in reports
    #[arg(long, help_heading = "Result")]
    name: Option<String>,
}

/// A flag that is set on the first Ctrl-C or SIGTERM; a second one exits at once and prints what it `leaves`.
pub(super) fn interrupt(leaves: Option<String>) -> &'static AtomicBool {
    static FLAG: AtomicBool = AtomicBool::new(false);
    let started = ashlar_environment::thread::start("interrupt", None, move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let Ok(runtime) = runtime else { return };
        runtime.block_on(async {
            use tokio::signal::unix::{SignalKind, signal};
            let Ok(mut term) = signal(SignalKind::terminate()) else { return };
            loop {
                tokio::select! {
                    _ = tokio::signal::ctrl_c() => {}
                    _ = term.recv() => {}
                }
                if FLAG.swap(true, Ordering::Relaxed) {
                    let leaves = leaves.as_ref().map(|l| format!("; {l}")).unwrap_or_default();
                    let _ = writeln!(std::io::stderr(), "ashlar: ended at once{leaves}");
                    std::process::exit(130);
                }
            }
        });
    });
    started.expect("the system starts a thread");
    &FLAG
}

/// The exit code of a command that only an interruption ends.
pub(super) fn ended() -> ExitCode {
    ExitCode::from(130)
}

/// Prints the error and returns the exit code.
pub(super) fn failed(error: &Error, globals: &Globals) -> ExitCode {
    let code = if matches!(error, Error::Usage(_)) { 2 } else { 1 };
    if globals.json {
        let object = serde_json::json!({"message": error.to_string(), "exitCode": code});
        // The reader of the output may be gone.
        let _ = writeln!(std::io::stdout(), "{}", serde_json::json!({"status": "error", "error": object}));
    } else {
        eprintln!("ashlar: {error}");
    }
    ExitCode::from(code)
}

/// Runs the load.
pub fn run(args: &Args, globals: &Globals) -> ExitCode {
    match measure(args, globals) {
        Ok(code) => code,
        Err(error) => failed(&error, globals),
    }
}

fn measure(args: &Args, globals: &Globals) -> Result<ExitCode, Error> {
    let job = job(args, globals)?;
    job.check()?;
    let left = format!("what was written below {}/{} is left behind", job.bucket, job.run_prefix());
    let interrupt = interrupt((!job.existing && !job.keep).then_some(left));
    let no_color = globals.no_color
        || ashlar_environment::process::variable_os("NO_COLOR").is_some_and(|v| !v.is_empty());
    let mut live = Live::new(globals.quiet || globals.json, !no_color);
    let mut around = RunContext {
        server: server(args)?,
        host: Some(host(args, &job)),
        agents: Vec::new(),
        command: super::shared::command(),
        name: args.name.clone(),
        interrupt,
    };
    let run = if let Some(list) = &args.agents {
        let token = match (&args.token, &args.token_file) {
            (Some(token), _) => token.clone(),
            (None, Some(file)) => fs::read_to_string(file)
                .map_err(Error::io(format!("cannot read {}", file.display())))?
                .trim()
                .to_owned(),
            (None, None) => return Err(Error::usage("agents need a --token")),
        };
        let mut coordinator = Coordinator::connect(&expand(list)?, &token, job.clone())?;
        let facts = coordinator.facts();
        around.agents = facts.iter().map(|f| f.0.clone()).collect();
        let mut run = load::drive(&job, &mut coordinator, &mut live, &around)?;
        for (name, facts) in facts {
            let role = format!("agent {name}");
            run.environment.iter_mut().filter(|h| h.role == role).for_each(|h| h.facts.clone_from(&facts));
        }
        run
    } else {
        let mut session: Box<dyn Runner> = Box::new(Session::new(job.clone())?);
        load::drive(&job, session.as_mut(), &mut live, &around)?
    };
    finish(args, globals, &run, interrupt.load(Ordering::Relaxed))
}

fn finish(args: &Args, globals: &Globals, run: &Run, interrupted: bool) -> Result<ExitCode, Error> {
    let time: String = run.started.chars().filter(|c| c.is_ascii_alphanumeric()).collect();
    let operation = run.setup.get("operation").and_then(|o| o.as_str()).unwrap_or("s3");
    let path = args.out.clone().unwrap_or_else(|| format!("ashlar-bench-{operation}-{time}.json").into());
    let mut run = run.clone();
    redact::run(&mut run);
    let run = &run;
    let text = serde_json::to_string(run).map_err(|e| Error::setup(e.to_string()))?;
    file::store(&path, run).map_err(|e| Error::setup(e.to_string()))?;
    let shown = if globals.json { text } else { table(run) };
    let _ = writeln!(std::io::stdout(), "{shown}");
    if !globals.json && !globals.quiet {
        eprintln!("Result: {}", path.display());
    }
    let invalid = run.caveats.iter().any(|c| c.severity == Severity::Invalid);
    Ok(match (interrupted, invalid) {
        (true, _) => ended(),
        (_, true) => ExitCode::from(6),
        _ => ExitCode::SUCCESS,
    })
}

/// Describes the server by its alias or address and by what it reports.
fn host(args: &Args, job: &Job) -> Host {
    let alias = args.target.as_deref().filter(|_| args.endpoint.is_none());
    let name = match alias.and_then(|t| t.split('/').next()) {
        Some(alias) => alias.to_owned(),
        None => {
            let first = job.target.endpoints.first().map_or("", String::as_str);
            let authority = first.split_once("://").map_or(first, |(_, rest)| rest);
            authority.rsplit('@').next().unwrap_or_default().trim_end_matches('/').to_owned()
        }
    };
    server::host(&name, ask(&job.target).as_ref())
}

fn server(args: &Args) -> Result<Option<Source>, Error> {
    if let Some(name) = &args.server_name {
        return Source::of_name(name).map(Some);
    }
    if !args.server_pid.is_empty() {
        return Source::of_pids(args.server_pid.clone()).map(Some);
    }
    if !args.server_metrics.is_empty() {
        return Source::of_metrics(&args.server_metrics, args.server_metrics_token.clone()).map(Some);
    }
    Ok(None)
}
