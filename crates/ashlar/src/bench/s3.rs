//! `ashlar bench s3`: parses, calls the `bench` room, prints.

use std::{
    fs,
    io::Write,
    process::ExitCode,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use ashlar_bench::{
    Error,
    agent::{Coordinator, random_text},
    cost::Source,
    live::{self, Live},
    load::{
        self, Job, Mode, Offer, Op, Order, Runner, Select, Session, Sizes, Slo, Stop, Surroundings, Sweep,
        Target, Warmup,
    },
    result::{Operation, Phase, Run, Severity},
    wire::{Keys, Payload, Shape, expand},
};
use clap::ValueEnum;
use comfy_table::{CellAlignment, ContentArrangement, Table, presets};

use crate::client::{Globals, aliases::Aliases};

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

/// What is done.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Operation_ {
    /// Write new objects
    Put,
    /// Read whole objects
    Get,
    /// Several operations by weight (--mix)
    Mixed,
    /// Read pages of the listing
    List,
    /// Read heads of objects
    Stat,
    /// Remove objects, singly or in batches (--batch)
    Delete,
    /// Read single parts of objects uploaded in parts
    Multipart,
    /// Upload objects in parts
    MultipartPut,
    /// Write, read and remove single versions
    Versioned,
    /// Writes under If-None-Match and If-Match; losing is an expected outcome
    Conditional,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum PayloadArg {
    /// SHA-256 of the body in the head
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
    /// Equal distances
    Fixed,
    /// Random distances, as of many independent users
    Poisson,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum OrderArg {
    /// Scattered over the listing
    Random,
    /// Ascending
    Sequential,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum SelectArg {
    /// One after the other
    RoundRobin,
    /// The one with the fewest requests in flight
    Least,
}

/// A load on an S3 server.
#[derive(clap::Args, Debug)]
#[command(after_long_help = AFTER)]
pub struct Args {
    /// What to do
    #[arg(value_enum)]
    operation: Operation_,
    /// ALIAS/BUCKET[/PREFIX], or BUCKET[/PREFIX] with --endpoint [default bucket: ashlar-bench]
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
    /// Bucket in the host's name instead of the path
    #[arg(long, help_heading = "Server")]
    virtual_host: bool,
    /// Which of several endpoints gets the next request
    #[arg(long, help_heading = "Server", value_enum, default_value = "round-robin")]
    host_select: SelectArg,
    /// How bodies of objects are signed
    #[arg(long, help_heading = "Server", value_enum, default_value = "signed")]
    payload: PayloadArg,
    /// Checksum sent with objects: crc32, crc32c, crc64nvme, sha1, sha256 or none
    /// [default: none; crc64nvme with a trailer]
    #[arg(long, help_heading = "Server", value_name = "NAME")]
    checksum: Option<String>,
    /// A request has timed out when nothing moved for so long
    #[arg(long, help_heading = "Server", default_value = "60s", value_parser = duration, value_name = "TIME")]
    timeout: Duration,

    /// Requests in flight (and connections)
    #[arg(long, short, help_heading = "Load", value_name = "N")]
    concurrency: Option<u32>,
    /// Open loop: operations per second, whatever the answers take
    #[arg(long, help_heading = "Load", value_parser = rate, value_name = "N/s")]
    rate: Option<f64>,
    /// Distances of the open loop
    #[arg(long, help_heading = "Load", value_enum, default_value = "fixed")]
    arrivals: Arrivals,
    /// Open loop: more requests due and unanswered end the run as overloaded
    /// [default: those of 5 seconds]
    #[arg(long, help_heading = "Load", value_name = "N")]
    limit: Option<u64>,
    /// Find the highest rate that keeps --slo; begins at --rate or a quarter of the closed loop's
    #[arg(long, help_heading = "Load", requires = "slo")]
    sweep: bool,
    /// Objective of the sweep, on response time
    #[arg(long, help_heading = "Load", value_name = "p99=50ms")]
    slo: Option<Slo>,
    /// Seconds of each step of a sweep
    #[arg(long, help_heading = "Load", default_value = "10s", value_parser = duration, value_name = "TIME")]
    sweep_step: Duration,
    /// Highest rate of a sweep
    #[arg(long, help_heading = "Load", value_parser = rate, value_name = "N/s")]
    sweep_to: Option<f64>,
    /// A sweep ends when the best good and the lowest bad rate are this close
    #[arg(long, help_heading = "Load", default_value = "5%", value_parser = share, value_name = "SHARE")]
    sweep_precision: f64,
    /// Weights of `mixed` and `versioned`: get, stat, put, delete, list
    /// [default: get=45,stat=30,put=15,delete=10]
    #[arg(long, help_heading = "Load", value_name = "LIST")]
    mix: Option<String>,
    /// Measure on these agents (`ashlar bench agent`): host{1...4}:7761; --concurrency is of each,
    /// --rate, --objects, --count and --bytes of all together
    #[arg(long, help_heading = "Load", value_name = "LIST")]
    agents: Option<String>,
    /// The agents' token
    #[arg(long, help_heading = "Load", env = "ASHLAR_BENCH_TOKEN", hide_env_values = true)]
    token: Option<String>,
    /// A file with the agents' token
    #[arg(long, help_heading = "Load", conflicts_with = "token", value_name = "FILE")]
    token_file: Option<std::path::PathBuf>,

    /// Stop after this time [default: 30s; 5m at most with --steady]
    #[arg(long, short, help_heading = "End", value_parser = duration, value_name = "TIME")]
    duration: Option<Duration>,
    /// Stop after so many operations
    #[arg(long, help_heading = "End", value_name = "N")]
    count: Option<u64>,
    /// Stop after so many payload bytes
    #[arg(long, help_heading = "End", value_parser = load::parse_bytes, value_name = "SIZE")]
    bytes: Option<u64>,
    /// Stop when the 95 % interval of the rate is narrower than plus or minus this share
    #[arg(long, help_heading = "End", value_parser = share, num_args = 0..=1, require_equals = true,
        default_missing_value = "2.5%", value_name = "SHARE")]
    steady: Option<f64>,
    /// What is cut from the start: a time, or `auto` (change-point test)
    #[arg(long, help_heading = "End", default_value = "auto", value_parser = warmup, value_name = "TIME")]
    warmup: Warmup,
    /// Measure so many times
    #[arg(long, help_heading = "End", default_value_t = 1, value_name = "N")]
    repeat: u32,
    /// Give up when more operations fail
    #[arg(long, help_heading = "End", default_value = "50%", value_parser = share, value_name = "SHARE")]
    max_error_rate: f64,

    /// Sizes: 4KiB, random:10MiB (log2), or weighted 4096:10740,8192:20
    #[arg(long, short, help_heading = "Data", default_value = "10MiB", value_name = "SIZES")]
    size: Sizes,
    /// Contents: random, constant, or compressible:RATIO (2 shrinks to a half)
    #[arg(long, help_heading = "Data", default_value = "random", value_name = "SHAPE")]
    data: Shape,
    /// Compare every byte that is read with what was written
    #[arg(long, help_heading = "Data")]
    verify: bool,
    /// Objects to prepare for reading, or the most existing ones to use
    /// [default: 2500; 16 shared keys for conditional]
    #[arg(long, help_heading = "Data", value_name = "N")]
    objects: Option<u64>,
    /// Read what is there under PREFIX; write and remove nothing
    #[arg(long, help_heading = "Data")]
    existing: bool,
    /// Leave what was written
    #[arg(long, help_heading = "Data")]
    keep: bool,
    /// Spread over so many buckets: BUCKET-0, BUCKET-1, ...
    #[arg(long, help_heading = "Data", default_value_t = 1, value_name = "N")]
    buckets: u32,
    /// Folders above each key
    #[arg(long, help_heading = "Data", default_value_t = 0, value_name = "N")]
    depth: u32,
    /// Entries per folder
    #[arg(long, help_heading = "Data", default_value_t = 16, value_name = "N")]
    fanout: u32,
    /// Names of keys
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
    /// Keys per delete request; 1 deletes singly
    #[arg(long, help_heading = "Data", default_value_t = 1, value_name = "N")]
    batch: u32,
    /// Keys per page of list
    #[arg(long, help_heading = "Data", default_value_t = 1000, value_name = "N")]
    list_keys: u32,

    /// Processes of the server, for its CPU time and memory
    #[arg(long, help_heading = "Cost", value_delimiter = ',', value_name = "PID")]
    server_pid: Vec<u32>,
    /// The same by name
    #[arg(long, help_heading = "Cost", conflicts_with = "server_pid", value_name = "NAME")]
    server_name: Option<String>,
    /// The same from metrics (process_cpu_seconds_total and its like) at these URLs
    #[arg(long, help_heading = "Cost", value_delimiter = ',', conflicts_with_all = ["server_pid", "server_name"], value_name = "URL")]
    server_metrics: Vec<String>,
    /// Bearer token of the metrics
    #[arg(long, help_heading = "Cost", env = "ASHLAR_METRICS_TOKEN", hide_env_values = true)]
    server_metrics_token: Option<String>,

    /// Where the result goes [default: ashlar-bench-OPERATION-TIME.json]
    #[arg(long, short, help_heading = "Result", value_name = "FILE")]
    out: Option<std::path::PathBuf>,
    /// What the run is called in reports
    #[arg(long, help_heading = "Result")]
    name: Option<String>,
}

pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let value: f64 = digits.parse().map_err(|_| format!("`{text}` is no time; write 30s, 5m or 500ms"))?;
    let scale = match &text[digits.len()..] {
        "ms" => 1e-3,
        "" | "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        unit => return Err(format!("`{unit}` is no unit of time; write 500ms, 30s, 5m or 1h")),
    };
    Duration::try_from_secs_f64(value * scale).map_err(|_| format!("`{text}` is no time"))
}

fn rate(text: &str) -> Result<f64, String> {
    let rate: f64 = text.trim_end_matches("/s").parse().map_err(|_| format!("`{text}` is no rate"))?;
    if rate > 0.0 && rate.is_finite() { Ok(rate) } else { Err("the rate must be above 0".into()) }
}

pub(super) fn share(text: &str) -> Result<f64, String> {
    let bad = || format!("`{text}` is no share; write 5% or 0.05");
    let share = match text.strip_suffix('%') {
        Some(percent) => percent.parse::<f64>().map_err(|_| bad())? / 100.0,
        None => text.parse().map_err(|_| bad())?,
    };
    if (0.0..=1.0).contains(&share) { Ok(share) } else { Err(bad()) }
}

fn warmup(text: &str) -> Result<Warmup, String> {
    if text == "auto" { Ok(Warmup::Auto) } else { duration(text).map(|d| Warmup::Seconds(d.as_secs_f64())) }
}

/// Set on the first Ctrl-C or SIGTERM; a second one ends the program at once.
pub(super) fn interrupt() -> &'static AtomicBool {
    static FLAG: AtomicBool = AtomicBool::new(false);
    std::thread::spawn(|| {
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
                    std::process::exit(130);
                }
            }
        });
    });
    &FLAG
}

/// The end of a command that only an interruption ends.
pub(super) fn ended() -> ExitCode {
    ExitCode::from(130)
}

/// Prints why it did not work.
pub(super) fn failed(error: &Error, globals: &Globals) -> ExitCode {
    let code = if matches!(error, Error::Usage(_)) { 2 } else { 1 };
    if globals.json {
        println!(
            "{}",
            serde_json::json!({"status": "error", "error": {"message": error.to_string(), "exitCode": code}})
        );
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
    let interrupt = interrupt();
    let no_color = globals.no_color || std::env::var_os("NO_COLOR").is_some_and(|v| !v.is_empty());
    let mut live = Live::new(globals.quiet || globals.json, !no_color);
    let server = server(args)?;
    let mut around = Surroundings {
        server,
        agents: Vec::new(),
        command: command(std::env::args()),
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
    let file = args.out.clone().unwrap_or_else(|| format!("ashlar-bench-{operation}-{time}.json").into());
    let text = serde_json::to_string(run).map_err(|e| Error::setup(e.to_string()))?;
    fs::write(&file, text.as_bytes()).map_err(Error::io(format!("cannot write {}", file.display())))?;
    let shown = if globals.json { text } else { table(run) };
    let _ = writeln!(std::io::stdout(), "{shown}");
    if !globals.json && !globals.quiet {
        eprintln!("Result: {}", file.display());
    }
    let invalid = run.caveats.iter().any(|c| c.severity == Severity::Invalid);
    Ok(match (interrupted, invalid) {
        (true, _) => ended(),
        (_, true) => ExitCode::from(6),
        _ => ExitCode::SUCCESS,
    })
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

/// The command line without what must not be in a result.
fn command(arguments: impl Iterator<Item = String>) -> Vec<String> {
    const SECRET: [&str; 4] = ["--secret-key", "--token", "--server-metrics-token", "--access-key"];
    let mut hide = false;
    arguments
        .map(|argument| {
            if std::mem::take(&mut hide) {
                return "***".to_owned();
            }
            hide = SECRET.contains(&argument.as_str());
            match argument.split_once('=') {
                Some((name, _)) if SECRET.contains(&name) => format!("{name}=***"),
                _ => argument,
            }
        })
        .collect()
}

/// Endpoints, credentials, bucket and prefix.
fn place(
    args: &Args,
    globals: &Globals,
) -> Result<(Vec<String>, Option<Keys>, Option<bool>, String, String), Error> {
    let variable =
        |names: &[&str]| names.iter().find_map(|n| std::env::var(n).ok().filter(|v| !v.is_empty()));
    let mut access = args.access_key.clone();
    let mut secret = args.secret_key.clone();
    let mut token = None;
    let mut region = args.region.clone();
    let mut virtual_host = None;
    let target = args.target.clone().unwrap_or_default();
    let (endpoints, rest) = match &args.endpoint {
        Some(list) => (expand(list)?, target),
        None => {
            let (name, rest) = target.split_once('/').unwrap_or((&target, ""));
            if name.is_empty() {
                return Err(Error::usage("name a server: ALIAS/BUCKET, or --endpoint"));
            }
            let aliases = Aliases::load(globals).map_err(|e| Error::usage(e.to_string()))?;
            let alias = aliases.get(name).ok_or_else(|| {
                Error::usage(format!(
                    "no alias is called `{name}`; add it with `ashlar alias set` or give --endpoint"
                ))
            })?;
            if access.is_none() && !alias.access_key.is_empty() {
                access = Some(alias.access_key.clone());
                secret = Some(alias.secret_key.clone());
                token.clone_from(&alias.session_token);
            }
            region = region.or_else(|| alias.region.clone());
            virtual_host = alias.path.as_deref().map(|p| matches!(p, "off" | "dns"));
            (vec![alias.url.clone()], rest.to_owned())
        }
    };
    if args.endpoint.is_some() && access.is_none() && !args.anonymous {
        access = variable(&["ASHLAR_ACCESS_KEY", "AWS_ACCESS_KEY_ID"]);
        token = variable(&["ASHLAR_SESSION_TOKEN", "AWS_SESSION_TOKEN"]);
    }
    if access.is_some() && secret.is_none() {
        secret = variable(&["ASHLAR_SECRET_KEY", "AWS_SECRET_ACCESS_KEY"]);
    }
    let region = region.or_else(|| variable(&["AWS_REGION"])).unwrap_or_else(|| "us-east-1".into());
    let keys = match (args.anonymous, access, secret) {
        (true, ..) => None,
        (false, Some(access), Some(secret)) => Some(Keys { access, secret, token, region }),
        _ => {
            return Err(Error::usage(
                "credentials are missing: set ASHLAR_ACCESS_KEY and ASHLAR_SECRET_KEY, or --anonymous",
            ));
        }
    };
    let (bucket, prefix) = rest.split_once('/').unwrap_or((&rest, ""));
    let bucket = if bucket.is_empty() { "ashlar-bench" } else { bucket };
    Ok((endpoints, keys, virtual_host, bucket.into(), prefix.into()))
}

fn target(args: &Args, globals: &Globals) -> Result<(Target, String, String), Error> {
    let (endpoints, keys, virtual_host, bucket, prefix) = place(args, globals)?;
    let authority = match &globals.ca {
        Some(file) => {
            Some(fs::read_to_string(file).map_err(Error::io(format!("cannot read {}", file.display())))?)
        }
        None => None,
    };
    let payload = match args.payload {
        PayloadArg::Signed => Payload::Signed,
        PayloadArg::Unsigned => Payload::Unsigned,
        PayloadArg::Streaming => Payload::Streaming,
        PayloadArg::StreamingTrailer => Payload::StreamingTrailer,
        PayloadArg::Trailer => Payload::Trailer,
    };
    let trailing = matches!(payload, Payload::StreamingTrailer | Payload::Trailer);
    let checksum = match args.checksum.as_deref() {
        None if trailing => Some("crc64nvme".to_owned()),
        None | Some("none") => None,
        Some(name) => Some(name.to_owned()),
    };
    let target = Target {
        endpoints,
        keys,
        insecure: globals.insecure,
        authority,
        virtual_host: args.virtual_host || virtual_host.unwrap_or(false),
        select: match args.host_select {
            SelectArg::RoundRobin => Select::RoundRobin,
            SelectArg::Least => Select::Least,
        },
        timeout_s: args.timeout.as_secs_f64(),
        payload,
        checksum,
    };
    Ok((target, bucket, prefix))
}

fn mix(args: &Args, mode: Mode) -> Result<Vec<(Op, u32)>, Error> {
    let single = |op| Ok(vec![(op, 1)]);
    let text = match mode {
        Mode::Mixed | Mode::Versioned => args.mix.as_deref().unwrap_or("get=45,stat=30,put=15,delete=10"),
        _ if args.mix.is_some() => return Err(Error::usage("--mix belongs to mixed and versioned")),
        Mode::Put => return single(Op::Put),
        Mode::Get | Mode::Multipart => return single(Op::Get),
        Mode::List => return single(Op::List),
        Mode::Stat => return single(Op::Head),
        Mode::Delete => return single(if args.batch > 1 { Op::MultiDelete } else { Op::Delete }),
        Mode::MultipartPut => return single(Op::Upload),
        Mode::Conditional => return Ok(vec![(Op::PutIfNoneMatch, 1), (Op::PutIfMatch, 1)]),
    };
    text.split(',')
        .map(|item| {
            let bad = || Error::usage(format!("--mix `{item}`: expected OPERATION=WEIGHT"));
            let (name, weight) = item.split_once('=').ok_or_else(bad)?;
            Ok((name.trim().parse::<Op>().map_err(Error::usage)?, weight.trim().parse().map_err(|_| bad())?))
        })
        .collect()
}

fn job(args: &Args, globals: &Globals) -> Result<Job, Error> {
    let mode = match args.operation {
        Operation_::Put => Mode::Put,
        Operation_::Get => Mode::Get,
        Operation_::Mixed => Mode::Mixed,
        Operation_::List => Mode::List,
        Operation_::Stat => Mode::Stat,
        Operation_::Delete => Mode::Delete,
        Operation_::Multipart => Mode::Multipart,
        Operation_::MultipartPut => Mode::MultipartPut,
        Operation_::Versioned => Mode::Versioned,
        Operation_::Conditional => Mode::Conditional,
    };
    let (target, bucket, mut prefix) = target(args, globals)?;
    if !prefix.is_empty() && !prefix.ends_with('/') && !args.existing {
        prefix.push('/');
    }
    let id = random_text()?;
    let open = args.rate.is_some() || args.sweep;
    let concurrency = args.concurrency.unwrap_or(if open { 64 } else { 20 });
    let rate = args.rate.filter(|_| !args.sweep);
    let limit = args.limit.unwrap_or_else(|| {
        let offered = args.sweep_to.or(args.rate).unwrap_or(20_000.0);
        (offered * 5.0) as u64 + u64::from(concurrency)
    });
    let unlimited = args.count.is_none() && args.bytes.is_none();
    let default = if args.steady.is_some() { 300.0 } else { 30.0 };
    let seconds = args.duration.map(|d| d.as_secs_f64()).or(unlimited.then_some(default));
    let sweep = args.slo.filter(|_| args.sweep).map(|slo| Sweep {
        slo,
        from: args.rate.unwrap_or(0.0),
        to: args.sweep_to,
        step_s: args.sweep_step.as_secs_f64(),
        precision: args.sweep_precision.max(0.001),
    });
    let seed = match args.seed {
        Some(seed) => seed,
        None => u64::from_str_radix(&id[..12], 16).unwrap_or(1),
    };
    Ok(Job {
        mode,
        target,
        bucket,
        buckets: args.buckets,
        prefix,
        run: format!("ashlar-bench-{}", &id[..16]),
        depth: args.depth,
        fanout: args.fanout,
        order: match args.key_order {
            OrderArg::Random => Order::Random,
            OrderArg::Sequential => Order::Sequential,
        },
        existing: args.existing,
        objects: args.objects.unwrap_or(if mode == Mode::Conditional { 16 } else { 2500 }),
        sizes: args.size.clone(),
        shape: args.data,
        seed,
        verify: args.verify,
        mix: mix(args, mode)?,
        versions: args.versions,
        part_size: args.part_size,
        parts: args.parts,
        batch: args.batch,
        list_keys: args.list_keys,
        keep: args.keep,
        offer: Offer { concurrency, rate, poisson: matches!(args.arrivals, Arrivals::Poisson), limit },
        stop: Stop { seconds, count: args.count, bytes: args.bytes, steady: args.steady },
        warmup: args.warmup,
        repetitions: args.repeat,
        max_error_rate: args.max_error_rate,
        sweep,
    })
}

/// The result for people.
fn table(run: &Run) -> String {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header([
        "LOAD",
        "OPERATION",
        "COUNT",
        "PER SECOND",
        "+-",
        "THROUGHPUT",
        "P50",
        "P99",
        "P99.9",
        "MAX",
        "ERRORS",
    ]);
    for phase in &run.phases {
        for operation in &phase.operations {
            table.add_row(row(phase, operation));
        }
    }
    for column in table.column_iter_mut().skip(2) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let mut out = table.trim_fmt();
    for phase in &run.phases {
        let Some(cost) = &phase.cost else { continue };
        let number = |name: &str, value: Option<f64>| value.map(|v| format!("{name} {v:.1} us/operation"));
        let per_gib = cost.server_s_per_gib.map(|v| format!("server {v:.3} CPU-s/GiB"));
        let share =
            cost.client.as_ref().map(|c| format!("client uses {:.0} % of its CPUs", c.cpu_share * 100.0));
        let parts = [
            number("client", cost.client_us_per_op),
            number("server", cost.server_us_per_op),
            per_gib,
            share,
        ];
        out.push_str(&format!(
            "\n{}: warm-up {:.1} s, measured {:.1} s, ended by {}; {}",
            load_text(phase),
            phase.warmup_s,
            phase.seconds,
            phase.stopped_by,
            parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
        ));
    }
    for phase in &run.phases {
        for operation in phase.operations.iter().filter(|o| !o.errors.is_empty()) {
            let errors: Vec<String> =
                operation.errors.iter().map(|(code, n)| format!("{code} {n}")).collect();
            out.push_str(&format!("\n{} failures: {}", operation.name, errors.join(", ")));
        }
    }
    for caveat in &run.caveats {
        let level = match caveat.severity {
            Severity::Note => "note",
            Severity::Warning => "warning",
            Severity::Invalid => "INVALID",
        };
        out.push_str(&format!("\n{level}: {} ({})", caveat.text, caveat.code));
    }
    out
}

fn load_text(phase: &Phase) -> String {
    match &phase.load {
        ashlar_bench::result::Load::Closed { concurrency } => format!("{} in flight", concurrency),
        ashlar_bench::result::Load::Open { rate_per_s, .. } => format!("{rate_per_s:.1}/s"),
    }
}

fn row(phase: &Phase, operation: &Operation) -> Vec<String> {
    // What a user of an open loop waits is the response time.
    let times = operation.response.as_ref().unwrap_or(&operation.service);
    let time = |name: &str| times.percentiles_ns.get(name).map_or_else(|| "-".into(), |ns| live::time(*ns));
    let rate = &operation.rate_per_s;
    let half = rate.ci95.map_or_else(
        || "-".into(),
        |ci| format!("{:.1} %", (ci.1 - ci.0) / 2.0 / rate.mean.max(1e-9) * 100.0),
    );
    let bytes = operation.bytes_per_s.mean;
    let max = if times.count > 0 { live::time(times.max_ns) } else { "-".into() };
    vec![
        load_text(phase),
        operation.name.clone(),
        operation.count.to_string(),
        format!("{:.1}", rate.mean),
        half,
        if bytes > 0.0 { live::rate(bytes) } else { "-".into() },
        time("p50"),
        time("p99"),
        time("p99.9"),
        max,
        operation.errors.values().sum::<u64>().to_string(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values() {
        assert_eq!(duration("1.5m"), Ok(Duration::from_secs(90)));
        assert_eq!(duration("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!((share("5%"), share("0.05"), rate("20/s")), (Ok(0.05), Ok(0.05), Ok(20.0)));
        assert!(
            duration("5 x").is_err()
                && duration("-1s").is_err()
                && share("101%").is_err()
                && rate("0").is_err()
        );
    }

    #[test]
    fn secrets_stay_out_of_results() {
        let arguments = ["ashlar", "--secret-key", "abc", "--token=def", "get"].map(String::from);
        assert_eq!(command(arguments.into_iter()), ["ashlar", "--secret-key", "***", "--token=***", "get"]);
    }
}
