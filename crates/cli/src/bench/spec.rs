//! `ashlar bench spec`: measures a server in its states, from nominal to rebuilt.

use std::{path::PathBuf, process::ExitCode, sync::atomic::Ordering, time::Duration};

use ashlar_bench::{
    Error,
    agent::random_text,
    cost::Source,
    host,
    live::Live,
    load::{self, Console, RunContext, parse_bytes},
    spec::{
        self, State,
        objects::{self, Blank, Objects, Setup},
    },
};
use ashlar_bench_report::{
    result::{FORMAT, Host, Run, Severity, VERSION, file, server},
    units,
};
use clap::Args;
use serde_json::{Value, json};
use time::{OffsetDateTime, format_description::well_known::Rfc3339};

use super::{results, s3, shared, show, spec_arrays, spec_arrays::ArrayOptions};
use crate::{
    Globals,
    aliases::Aliases,
    failure::{Failure, Kind, Outcome},
    output::Output,
};

const AFTER: &str = "\
Large objects in ascending order stand for sequential work, small ones in random order for random work: get, put, and for \
small ones 70 % get with 30 % put. Each is measured several times in each state: nominal; drives down, as many as \
the code survives and the server can spare; rebuild, while blank drives take their place; after.

The rebuild needs blank drives: --blank moves the folders of the drives that were taken down aside (they are on this machine), \
or --blank-command does what is needed elsewhere. Without either only nominal and down are measured, and the drives come back.

Exit codes:
  0    measured
  6    measured, but the result is marked invalid
  130  interrupted; what was measured until then was written, and is marked invalid
  others as for every command

With --fabric drive groups are measured instead: a virtual enclosure, a group in each of its zones, and a load on their virtual \
drives, all over NVMe/TCP. The first state is the baseline, the namespaces without groups; drives are pulled from the enclosure and \
put back. The table has published, predicted and measured figures side by side.

Examples:
  ashlar bench spec it
  ashlar bench spec --fabric data24-supremeraid --scale 5000 --duration 20s --out spec.json
  ashlar bench spec it/bench --large 16MiB --duration 1m --repeat 5 --blank --out spec.json";

/// What to measure.
#[derive(Args, Debug)]
#[command(after_long_help = AFTER)]
pub struct Options {
    /// ALIAS[/BUCKET[/PREFIX]] of an Ashlar server; all data is written under a prefix of this run
    #[arg(required_unless_present = "fabric")]
    target: Option<String>,
    #[command(flatten)]
    pub(super) arrays: ArrayOptions,
    /// Size of large objects
    #[arg(long, default_value = "4MiB", value_parser = parse_bytes, value_name = "SIZE")]
    large: u64,
    /// Number of large objects that are read
    #[arg(long, default_value_t = 500, value_name = "N")]
    large_objects: u64,
    /// Size of small objects
    #[arg(long, default_value = "4KiB", value_parser = parse_bytes, value_name = "SIZE")]
    small: u64,
    /// Number of small objects that are read
    #[arg(long, default_value_t = 20_000, value_name = "N")]
    small_objects: u64,
    /// Requests in flight
    #[arg(long, short, default_value_t = 32, value_name = "N")]
    pub(super) concurrency: u32,
    /// Duration of each phase
    #[arg(long, short, default_value = "30s", value_parser = s3::duration, value_name = "TIME")]
    pub(super) duration: Duration,
    /// Measurements per phase, at least 2
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(2..=20), value_name = "N")]
    pub(super) repeat: u32,
    /// Measure again if the coefficient of variation of the repetitions is larger
    #[arg(long, default_value = "5%", value_parser = s3::share, value_name = "SHARE")]
    pub(super) cov: f64,
    /// Maximum number of further measurements per phase
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(0..=20), value_name = "N")]
    pub(super) reruns: u32,
    /// Drives to take down, by path or id
    #[arg(long, value_delimiter = ',', value_name = "DRIVE")]
    drive: Vec<String>,
    /// Number of drives to take down [default: as many as the code and the server allow]
    #[arg(long, conflicts_with = "drive", value_name = "N")]
    down: Option<u32>,
    /// Move the folders of drives that are down to another name, and remove them after the rebuild
    #[arg(long, conflicts_with = "blank_command")]
    blank: bool,
    /// Shell command that makes the drive at $DRIVE blank
    #[arg(long, value_name = "COMMAND")]
    blank_command: Option<String>,
    /// Process ids of the server, to measure its CPU time and memory
    #[arg(long, value_delimiter = ',', value_name = "PID")]
    server_pid: Vec<u32>,
    /// Seed of contents and choices [default: random, in the result]
    #[arg(long)]
    pub(super) seed: Option<u64>,
    /// File for the result [default: ashlar-bench-spec-TIME.json]
    #[arg(long, short, value_name = "FILE")]
    pub(super) out: Option<PathBuf>,
    /// Name of the run in reports
    #[arg(long)]
    pub(super) name: Option<String>,
}

/// Runs a life cycle.
pub fn run(options: &Options, globals: &Globals) -> ExitCode {
    results::end(globals, |output| match (&options.arrays.fabric, &options.target) {
        (Some(name), _) => spec_arrays::measure(options, name, output),
        (None, target) => measure(options, target.as_deref().unwrap_or_default(), globals, output),
    })
}

pub(super) fn failed(error: Error) -> Failure {
    let kind = if matches!(error, Error::Usage(_)) { Kind::Usage } else { Kind::Failed };
    Failure::new(kind, error.to_string())
}

fn measure(options: &Options, target: &str, globals: &Globals, output: &Output) -> Outcome {
    let interrupt =
        s3::interrupt(Some("drives may be out of service, and objects of the run left behind".to_owned()));
    let (alias, location) = target.split_once('/').unwrap_or((target, ""));
    let (bucket, prefix) = location.split_once('/').unwrap_or((location, ""));
    let aliases = Aliases::load(globals)?;
    let admin = aliases.client(alias)?;
    let id = random_text().map_err(failed)?;
    let seed = options.seed.unwrap_or_else(|| u64::from_str_radix(&id[..12], 16).unwrap_or(1));
    let target = shared::target(globals, &aliases, alias)?;
    let url = target.endpoints.concat();
    let local = ["//127.", "//localhost", "//[::1]"].iter().any(|h| url.contains(h));
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
    let command = shared::command();
    let around = RunContext {
        server: server.transpose().map_err(failed)?,
        host: None,
        agents: Vec::new(),
        command: command.clone(),
        name: None,
        interrupt,
    };
    let started = OffsetDateTime::from(ashlar_environment::time::wall());
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
    print_expected_duration(output, &plan, &driver, options);
    let mut said = |state: State, phase: &str, repetition: u32| {
        output.note(&format!("{}: {phase} #{repetition}", state.name()));
    };
    let done = spec::run(&plan, &mut driver, &mut said);
    // Also after an error: drives that were not replaced are put back.
    spec::Driver::restore(&mut driver);
    let cleaned = driver.clean();
    let mut caveats = driver.caveats().to_vec();
    drop(driver);
    // Measurements from before an error or an interruption are a result too, but it must not be compared.
    let (outcome, failure) = match done {
        Ok(outcome) if outcome.interrupted => (outcome, Some(Failure::new(Kind::Interrupted, "interrupted"))),
        Ok(outcome) => (outcome, None),
        Err((outcome, _)) if interrupt.load(Ordering::Relaxed) => {
            (outcome, Some(Failure::new(Kind::Interrupted, "interrupted")))
        }
        Err((outcome, error)) => (outcome, Some(failed(error))),
    };
    if outcome.phases.is_empty()
        && let Some(failure) = failure
    {
        if let Err(left) = cleaned {
            live.note(&left.to_string());
        }
        return Err(failure);
    }
    match &failure {
        Some(failure) if failure.kind == Kind::Interrupted => caveats.push(host::interrupted()),
        Some(failure) => {
            let text = format!("the run ended early: {failure}");
            caveats.push(results::caveat(Severity::Invalid, "incomplete", text));
        }
        None => {}
    }
    caveats.splice(0..0, outcome.caveats);
    if let Err(left) = cleaned {
        live.note(&left.to_string());
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
        environment: vec![Host { role: "client".to_owned(), facts }, server::host(alias, Some(&info))],
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
    if let Some(failure) = failure {
        return Err(failure);
    }
    let invalid = result.caveats.iter().filter(|c| c.severity == Severity::Invalid).count();
    if invalid > 0 {
        Err(Failure::new(Kind::Partly, "measured, but the result is marked invalid"))
    } else {
        Ok(())
    }
}

/// Prints the expected duration before anything is changed.
fn print_expected_duration(output: &Output, plan: &spec::Options, driver: &Objects<'_>, options: &Options) {
    let expected = plan.expected(spec::Driver::phases(driver).len(), options.duration.as_secs_f64());
    let data = driver.prepared_bytes();
    if output.json {
        let object = json!({ "status": "expected", "expected": expected, "prepared_bytes": data });
        output.result(|| object, String::new);
        output.flush();
        return;
    }
    let most = if expected.at_most > expected.measurements {
        format!(", at most {} if repetitions differ too much", units::seconds(expected.at_most_seconds))
    } else {
        String::new()
    };
    let rebuild = if plan.states.contains(&State::Rebuild) { " and the rebuild" } else { "" };
    output.note(&format!(
        "Expected duration: {} for {} measurements{most}; plus preparing {}{rebuild}, which depend on the server.",
        units::seconds(expected.seconds),
        expected.measurements,
        units::bytes(data as f64)
    ));
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
