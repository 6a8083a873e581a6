//! `ashlar bench spec`: a server through its life.

use std::{path::PathBuf, process::ExitCode, sync::atomic::Ordering, time::Duration};

use ashlar_bench::{
    Error,
    agent::random_text,
    cost::Source,
    live::Live,
    load::{self, Console, Select, Surroundings, Target, parse_bytes},
    result::{FORMAT, Host, Run, Severity, VERSION, file},
    spec::{
        self, State,
        objects::{self, Blank, Objects, Setup},
    },
    wire::{Keys, Payload},
};
use clap::Args;
use serde_json::{Value, json};
use time::{OffsetDateTime, format_description::well_known::Rfc3339};

use super::{results, s3, show};
use crate::client::{
    Globals,
    aliases::Aliases,
    failure::{Failure, Kind, Outcome},
    output::Output,
};

const AFTER: &str = "\
Large objects in ascending order stand for sequential work, small ones in random order for random work: get, put, and for \
small ones 70 % get with 30 % put. Each is measured several times in each state of life: nominal; drives down, as many as \
the code survives and the server can spare; rebuild, while blank drives take their place; after.

The rebuild needs blank drives: --blank moves the folders of the drives that were taken down aside (they are on this machine), \
or --blank-command does what is needed elsewhere. Without either only nominal and down are measured, and the drives come back.

Exit codes:
  0    measured
  6    measured, but the result is marked invalid
  others as everywhere";

/// What to measure.
#[derive(Args, Debug)]
#[command(after_long_help = AFTER)]
pub struct Options {
    /// ALIAS[/BUCKET[/PREFIX]] of an Ashlar server; data lies under a prefix of this run only
    target: String,
    /// Large objects: their size
    #[arg(long, default_value = "4MiB", value_parser = parse_bytes, value_name = "SIZE")]
    large: u64,
    /// Large objects that are read: how many
    #[arg(long, default_value_t = 500, value_name = "N")]
    large_objects: u64,
    /// Small objects: their size
    #[arg(long, default_value = "4KiB", value_parser = parse_bytes, value_name = "SIZE")]
    small: u64,
    /// Small objects that are read: how many
    #[arg(long, default_value_t = 20_000, value_name = "N")]
    small_objects: u64,
    /// Requests in flight
    #[arg(long, short, default_value_t = 32, value_name = "N")]
    concurrency: u32,
    /// How long each phase lasts
    #[arg(long, short, default_value = "30s", value_parser = s3::duration, value_name = "TIME")]
    duration: Duration,
    /// How often each phase is measured, at least 2
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(2..=20), value_name = "N")]
    repeat: u32,
    /// Repetitions that differ by a larger coefficient of variation are measured again
    #[arg(long, default_value = "5%", value_parser = s3::share, value_name = "SHARE")]
    cov: f64,
    /// How many times more, at most, for each phase
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(0..=20), value_name = "N")]
    reruns: u32,
    /// Drives to take down, by path or id
    #[arg(long, value_delimiter = ',', value_name = "DRIVE")]
    drive: Vec<String>,
    /// How many drives to take down [default: as many as the code survives and the server can spare]
    #[arg(long, conflicts_with = "drive", value_name = "N")]
    down: Option<u32>,
    /// Move the folders of drives that were taken down aside, and remove what was moved when the rebuild is over
    #[arg(long, conflicts_with = "blank_command")]
    blank: bool,
    /// This shell command makes the drive at $DRIVE blank
    #[arg(long, value_name = "COMMAND")]
    blank_command: Option<String>,
    /// Process of the server, for its CPU time and memory
    #[arg(long, value_delimiter = ',', value_name = "PID")]
    server_pid: Vec<u32>,
    /// Seed of contents and choices [default: random, in the result]
    #[arg(long)]
    seed: Option<u64>,
    /// Where the result goes [default: ashlar-bench-spec-TIME.json]
    #[arg(long, short, value_name = "FILE")]
    out: Option<PathBuf>,
    /// What the run is called in reports
    #[arg(long)]
    name: Option<String>,
}

/// Runs a life cycle.
pub fn run(options: &Options, globals: &Globals) -> ExitCode {
    results::end(globals, |output| measure(options, globals, output))
}

fn failed(error: Error) -> Failure {
    let kind = if matches!(error, Error::Usage(_)) { Kind::Usage } else { Kind::Failed };
    Failure::new(kind, error.to_string())
}

fn measure(options: &Options, globals: &Globals, output: &Output) -> Outcome {
    let interrupt = s3::interrupt();
    let (alias, place) = options.target.split_once('/').unwrap_or((&options.target, ""));
    let (bucket, prefix) = place.split_once('/').unwrap_or((place, ""));
    let aliases = Aliases::load(globals)?;
    let admin = aliases.client(alias)?;
    let known =
        aliases.get(alias).ok_or_else(|| Failure::new(Kind::NotFound, format!("no alias `{alias}`")))?;
    let id = random_text().map_err(failed)?;
    let seed = options.seed.unwrap_or_else(|| u64::from_str_radix(&id[..12], 16).unwrap_or(1));
    let target = Target {
        endpoints: vec![known.url.clone()],
        keys: Some(Keys {
            access: known.access_key.clone(),
            secret: known.secret_key.clone(),
            token: known.session_token.clone(),
            region: known.region.clone().unwrap_or_else(|| "us-east-1".to_owned()),
        }),
        insecure: globals.insecure,
        authority: globals.ca.as_ref().map(std::fs::read_to_string).transpose()?,
        virtual_host: matches!(known.path.as_deref(), Some("off" | "dns")),
        select: Select::RoundRobin,
        timeout_s: 60.0,
        payload: Payload::Signed,
        checksum: None,
    };
    let local = ["//127.", "//localhost", "//[::1]"].iter().any(|h| known.url.contains(h));
    let facts = load::facts();
    let setup = Setup {
        job: objects::job(
            target,
            if bucket.is_empty() { "benchmark".to_owned() } else { bucket.to_owned() },
            if prefix.is_empty() || prefix.ends_with('/') { prefix.to_owned() } else { format!("{prefix}/") },
            format!("ashlar-bench-{}", &id[..16]),
            seed,
            options.concurrency,
            options.duration.as_secs_f64(),
        ),
        large: (options.large, options.large_objects),
        small: (options.small, options.small_objects),
        drives: options.drive.clone(),
        down: options.down,
        blank: match (&options.blank_command, options.blank) {
            (Some(command), _) => Blank::Command(command.clone()),
            (None, true) => Blank::Aside,
            (None, false) => Blank::Never,
        },
        memory_bytes: facts.get("memory_bytes").and_then(|m| m.parse().ok()).filter(|_| local),
    };
    let whole = setup.blank != Blank::Never;
    let server = (!options.server_pid.is_empty()).then(|| Source::of_pids(options.server_pid.clone()));
    let command: Vec<String> = std::env::args().collect();
    let around = Surroundings {
        server: server.transpose().map_err(failed)?,
        agents: Vec::new(),
        command: command.clone(),
        name: None,
        interrupt,
    };
    let started = OffsetDateTime::now_utc();
    let started = started.replace_nanosecond(0).unwrap_or(started).format(&Rfc3339).unwrap_or_default();
    let mut live = Live::new(globals.quiet || globals.json, !globals.no_color);
    let mut driver = Objects::new(setup, admin, &mut live, around).map_err(failed)?;
    let info = driver.info().map_err(failed)?;
    let plan = spec::Options {
        states: if whole { State::ALL.to_vec() } else { vec![State::Nominal, State::Down] },
        repetitions: options.repeat,
        cov_limit: options.cov,
        reruns: options.reruns,
    };
    let mut said = |state: State, phase: &str, repetition: u32| {
        output.note(&format!("{}: {phase} #{repetition}", state.name()));
    };
    let done = spec::run(&plan, &mut driver, &mut said);
    // Also after an error; what was not replaced comes back.
    spec::Driver::restore(&mut driver);
    let cleaned = driver.clean();
    let mut caveats = driver.caveats().to_vec();
    drop(driver);
    let outcome = match (done, &cleaned) {
        (Ok(outcome), _) => outcome,
        (Err(error), _) => {
            if let Err(left) = cleaned {
                live.note(&left.to_string());
            }
            let mut failure = failed(error);
            if interrupt.load(Ordering::Relaxed) {
                failure.kind = Kind::Interrupted;
            }
            return Err(failure);
        }
    };
    caveats.splice(0..0, outcome.caveats);
    if let Err(left) = cleaned {
        caveats.push(results::caveat(Severity::Warning, "left-behind", left.to_string()));
    }
    if !whole {
        let text = "No rebuild was measured: that needs --blank or --blank-command.";
        caveats.push(results::caveat(Severity::Note, "no-rebuild", text.to_owned()));
    }
    let result = Run {
        format: FORMAT.to_owned(),
        version: VERSION,
        mode: "spec".to_owned(),
        name: options.name.clone().unwrap_or_else(|| format!("Life cycle of {alias}")),
        started: started.clone(),
        command,
        environment: vec![Host { role: "client".to_owned(), facts }, server_facts(&info)],
        setup: settings(options, seed),
        phases: outcome.phases,
        ceilings: None,
        caveats,
    };
    let time: String = started.chars().filter(char::is_ascii_alphanumeric).collect();
    let out = options.out.clone().unwrap_or_else(|| format!("ashlar-bench-spec-{time}.json").into());
    file::store(&out, &result).map_err(results::failed)?;
    let object = serde_json::to_value(&result).unwrap_or_default();
    output.result(|| object, || show::text(output, &result, false));
    output.note(&format!("Result: {}; `ashlar bench report {}` shows it.", out.display(), out.display()));
    let invalid = result.caveats.iter().filter(|c| c.severity == Severity::Invalid).count();
    if invalid > 0 {
        Err(Failure::new(Kind::Partly, "measured, but the result is marked invalid"))
    } else {
        Ok(())
    }
}

fn server_facts(info: &Value) -> Host {
    let mut facts = std::collections::BTreeMap::new();
    let text = |v: &Value| v.as_str().map_or_else(|| v.to_string(), str::to_owned);
    for (name, key) in [("version ashlar", "version"), ("code", "code"), ("deployment", "deployment")] {
        if !info[key].is_null() {
            facts.insert(name.to_owned(), text(&info[key]));
        }
    }
    if let Some(drives) = info["drives"].as_array() {
        facts.insert("drives".to_owned(), drives.len().to_string());
        for drive in drives {
            let capacity = drive["capacity"].as_f64().map(ashlar_bench::units::bytes).unwrap_or_default();
            facts.insert(format!("drive {}", text(&drive["path"])), capacity);
        }
    }
    Host { role: "server".to_owned(), facts }
}

fn settings(options: &Options, seed: u64) -> std::collections::BTreeMap<String, Value> {
    [
        ("target", json!(options.target)),
        ("large", json!(options.large)),
        ("large-objects", json!(options.large_objects)),
        ("small", json!(options.small)),
        ("small-objects", json!(options.small_objects)),
        ("concurrency", json!(options.concurrency)),
        ("duration", json!(options.duration.as_secs_f64())),
        ("repeat", json!(options.repeat)),
        ("cov", json!(options.cov)),
        ("reruns", json!(options.reruns)),
        ("drive", json!(options.drive)),
        ("down", json!(options.down)),
        ("blank", json!(options.blank)),
        ("blank-command", json!(options.blank_command)),
        ("seed", json!(seed)),
    ]
    .into_iter()
    .filter(|(_, v)| !v.is_null())
    .map(|(k, v)| (k.to_owned(), v))
    .collect()
}
