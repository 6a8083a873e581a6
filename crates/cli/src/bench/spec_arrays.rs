//! `ashlar bench spec --fabric`: the life cycle of drive groups on a virtual enclosure, beside what was published and what the model
//! predicts. The enclosure and the arrays are child processes of this program.

use std::{path::PathBuf, sync::atomic::Ordering};

use ashlar_arguments::size;
use ashlar_bench::{
    agent::random_text,
    host,
    load::parse_bytes,
    spec::{
        self, State,
        arrays::{Arrays, Work},
        rig::{self, Rig, Setup},
    },
    stall,
};
use ashlar_bench_report::{
    result::{Run, Severity, file},
    sheet::{self, Row, Shape},
    units,
};
use ashlar_fabric::SETUPS;
use clap::Args;
use serde_json::json;
use toml::Table;

use super::{results, s3, shared, show, spec::Options};
use crate::{
    failure::{Failure, Kind, Outcome},
    output::{Output, empty_table},
};

/// Arrays instead of a server.
#[derive(Args, Debug)]
pub struct ArrayOptions {
    /// Measure drive groups on a virtual enclosure: a set-up that ships (`ashlar fabric setup`), or a TOML file
    #[arg(long, value_name = "NAME|FILE", help_heading = "Drive groups", conflicts_with_all = ["target", "drive", "down", "blank", "blank_command", "server_pid"])]
    pub fabric: Option<String>,
    /// The scale 1:N [default: that of the set-up]
    #[arg(long, value_name = "N", help_heading = "Drive groups", requires = "fabric")]
    scale: Option<f64>,
    /// The level of the groups: raid5, raid6 or K+M
    #[arg(long, default_value = "raid5", help_heading = "Drive groups")]
    level: String,
    /// Bytes of a strip
    #[arg(long, value_name = "SIZE", default_value = "64KiB", value_parser = parse_bytes, help_heading = "Drive groups")]
    strip: u64,
    /// How data and parity stay consistent over a loss of power: journal, bitmap or none
    #[arg(long, default_value = "journal", help_heading = "Drive groups")]
    policy: String,
    /// Bytes of each namespace that hold data
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = parse_bytes, help_heading = "Drive groups")]
    member: u64,
    /// Where the run makes the folder of its enclosure, which it removes at the end [default: the folder for temporary files]
    #[arg(long, value_name = "DIR", help_heading = "Drive groups")]
    folder: Option<PathBuf>,
    /// Everything once over, too short to mean anything: two measurements of 0.5 s, 4 requests in flight, 2 MiB of each namespace
    #[arg(long, help_heading = "Drive groups", requires = "fabric")]
    quick: bool,
}

/// The set-up of a name or a file.
fn set_up(name: &str) -> Outcome<Table> {
    let text = match SETUPS.iter().find(|s| s.0 == name) {
        Some((_, text)) => (*text).to_owned(),
        None => std::fs::read_to_string(name).map_err(|e| {
            let kind = if e.kind() == std::io::ErrorKind::NotFound { Kind::NotFound } else { Kind::Failed };
            Failure::new(kind, format!("{name}: {e}"))
        })?,
    };
    text.parse::<Table>().map_err(|e| Failure::usage(format!("{name}: {e}")))
}

/// Whether drives and ports have the rates of the published enclosure.
fn has_published_rates(table: &Table) -> bool {
    let own = |section: &str, names: &[&str]| {
        table.get(section).is_some_and(|s| names.iter().any(|n| s.get(n).is_some()))
    };
    table.get("model").and_then(toml::Value::as_str) == Some("data24")
        && !own("drive", &["read", "write", "read_iops", "write_iops", "read_us", "write_us"])
        && !own("port", &["rate", "iops"])
        && !own("module", &["rate", "iops"])
        && table.get("faults").is_none()
}

/// What is run, with what `--quick` says.
struct Chosen {
    plan: spec::Options,
    setup: Setup,
    work: Work,
    scale: f64,
    published_rates: bool,
}

fn choose(options: &Options, name: &str) -> Outcome<Chosen> {
    let arrays = &options.arrays;
    let table = set_up(name)?;
    let of_file = table.get("scale").and_then(|s| s.as_float().or(s.as_integer().map(|i| i as f64)));
    let scale = arrays.scale.or(of_file).unwrap_or(1.0);
    if !(1.0..=1e9).contains(&scale) {
        return Err(Failure::usage("--scale: from 1 to 1000000000"));
    }
    let level = arrays.level.to_ascii_lowercase();
    let level = level.strip_prefix("raid").unwrap_or(&level).to_owned();
    rig::parity(&level).map_err(|e| Failure::usage(e.to_string()))?;
    let quick = arrays.quick;
    let member = if quick { 2 << 20 } else { arrays.member };
    if member < 1 << 20 {
        return Err(Failure::usage("--member: at least 1 MiB"));
    }
    let program = ashlar_environment::process::executable();
    let published_rates = has_published_rates(&table);
    let seed = options
        .seed
        .map_or_else(|| random_text().map(|t| u64::from_str_radix(&t[..12], 16).unwrap_or(1)), Ok);
    Ok(Chosen {
        plan: spec::Options {
            states: State::ARRAY.to_vec(),
            repetitions: if quick { 2 } else { options.repeat },
            cov_limit: options.cov,
            reruns: if quick { 0 } else { options.reruns },
        },
        work: Work {
            depth: if quick { 4 } else { options.concurrency.max(1) },
            seconds: if quick { 0.5 } else { options.duration.as_secs_f64() },
            warmup: if quick { 0.1 } else { (options.duration.as_secs_f64() / 10.0).clamp(0.1, 5.0) },
            member: member >> 20 << 20,
            seed: seed.map_err(super::spec::failed)?,
        },
        setup: Setup {
            program: program.map_err(|e| Failure::new(Kind::Failed, e.to_string()))?,
            enclosure: table,
            scale,
            parent: arrays.folder.clone().unwrap_or_else(std::env::temp_dir),
            level,
            strip: arrays.strip,
            policy: arrays.policy.clone(),
            member: member >> 20 << 20,
        },
        scale,
        published_rates,
    })
}

/// Runs the life cycle.
pub fn measure(options: &Options, name: &str, output: &Output) -> Outcome {
    let chosen = choose(options, name)?;
    let interrupt = s3::interrupt(None);
    let parity = rig::parity(&chosen.setup.level).map_err(super::spec::failed)? as usize;
    let member = chosen.setup.member;
    let mut run = host::new_run("spec", options.name.as_deref(), shared::command());
    if options.name.is_none() {
        run.name = format!("Life cycle of RAID {} on {name} at 1:{}", chosen.setup.level, chosen.scale);
    }
    settings(&mut run, options, name, &chosen);
    let rig = Rig::start(chosen.setup).map_err(super::spec::failed)?;
    let (drives, members) = rig.shape();
    let shape = Shape {
        scale: chosen.scale,
        drives,
        ports: rig.ports(),
        groups: rig.groups(),
        members,
        parity,
        published_rates: chosen.published_rates,
    };
    let note = |text: &str| output.note(text);
    let mut driver = Arrays::new(rig, chosen.work, interrupt, &note);
    expected(
        output,
        &chosen.plan,
        &driver,
        options,
        (members - parity) as u64 * member * shape.groups as u64,
    );
    let watch = stall::Watch::start();
    let mut said = |state: State, phase: &str, repetition: u32| {
        output.note(&format!("{}: {phase} #{repetition}", state.name()));
    };
    let done = spec::run(&chosen.plan, &mut driver, &mut said);
    drop(driver);
    host::ended(&mut run, &watch.end(), interrupt);
    let (outcome, failure) = match done {
        Ok(outcome) if outcome.interrupted => (outcome, Some(Failure::new(Kind::Interrupted, "interrupted"))),
        Ok(outcome) => (outcome, None),
        Err((outcome, _)) if interrupt.load(Ordering::Relaxed) => {
            (outcome, Some(Failure::new(Kind::Interrupted, "interrupted")))
        }
        Err((outcome, error)) => (outcome, Some(super::spec::failed(error))),
    };
    if let Some(failure) = failure.as_ref().filter(|f| f.kind != Kind::Interrupted) {
        let text = format!("the run ended early: {failure}");
        run.caveats.push(results::caveat(Severity::Invalid, "incomplete", text));
    }
    run.caveats.extend(outcome.caveats);
    run.phases = outcome.phases;
    finish(options, output, &run, &shape)?;
    match failure {
        Some(failure) => Err(failure),
        None if run.caveats.iter().any(|c| c.severity == Severity::Invalid) => {
            Err(Failure::new(Kind::Partly, "measured, but the result is marked invalid"))
        }
        None => Ok(()),
    }
}

/// Stores and prints what was measured.
fn finish(options: &Options, output: &Output, run: &Run, shape: &Shape) -> Outcome {
    if run.phases.is_empty() {
        return Ok(());
    }
    let time: String = run.started.chars().filter(char::is_ascii_alphanumeric).collect();
    let out = options.out.clone().unwrap_or_else(|| format!("ashlar-bench-spec-{time}.json").into());
    file::store(&out, run).map_err(results::failed)?;
    let object = serde_json::to_value(run).unwrap_or_default();
    output.result(|| object, || show::text(output, run, false));
    let rows = sheet::rows(&run.phases, shape);
    output.result(|| json!({ "sheet": rows, "scale": shape.scale }), || table(&rows, shape));
    output.note(&format!("Result: {}; `ashlar bench report {}` shows it.", out.display(), out.display()));
    Ok(())
}

fn table(rows: &[Row], shape: &Shape) -> String {
    let mut table = empty_table();
    table.set_header([
        "State",
        "Phase",
        "Published",
        "Predicted",
        "Measured",
        "Of predicted",
        "Of baseline",
        "COV",
        "Ops per CPU %",
        "Drive reads",
        "Drive writes",
    ]);
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".into());
    let number = |n: f64| format!("{n:.2}");
    for r in rows {
        let rate = |n: f64| if r.bytes { units::bytes_per_s(n) } else { units::per_s(n) };
        table.add_row([
            r.state.clone(),
            r.phase.clone(),
            or_dash(r.published.map(rate)),
            or_dash(r.predicted.map(rate)),
            rate(r.measured),
            or_dash(r.predicted.map(|p| units::percent(r.measured / p))),
            or_dash(r.of_baseline.map(units::percent)),
            or_dash(r.cov.map(units::percent)),
            or_dash(r.per_cpu_percent.map(number)),
            or_dash(r.drive_reads.map(number)),
            or_dash(r.drive_writes.map(number)),
        ]);
    }
    format!("At 1:1: what was measured, times {}\n{table}", shape.scale)
}

fn settings(run: &mut Run, options: &Options, name: &str, chosen: &Chosen) {
    let all = [
        ("fabric", json!(name)),
        ("scale", json!(chosen.scale)),
        ("level", json!(chosen.setup.level)),
        ("strip", json!(size::show(chosen.setup.strip))),
        ("policy", json!(chosen.setup.policy)),
        ("member", json!(size::show(chosen.setup.member))),
        ("concurrency", json!(chosen.work.depth)),
        ("duration", json!(chosen.work.seconds)),
        ("warmup", json!(chosen.work.warmup)),
        ("repeat", json!(chosen.plan.repetitions)),
        ("cov", json!(options.cov)),
        ("reruns", json!(chosen.plan.reruns)),
        ("quick", json!(options.arrays.quick)),
        ("seed", json!(chosen.work.seed)),
    ];
    run.setup.extend(all.into_iter().map(|(k, v)| (k.to_owned(), v)));
}

/// Says how long it takes, before anything is measured.
fn expected(output: &Output, plan: &spec::Options, driver: &Arrays<'_>, options: &Options, bytes: u64) {
    let each = if options.arrays.quick { 0.6 } else { options.duration.as_secs_f64() * 1.1 };
    let expected = plan.expected(spec::Driver::phases(driver).len(), each);
    if output.json {
        output.result(
            || json!({ "status": "expected", "expected": expected, "prepared_bytes": 2 * bytes }),
            String::new,
        );
        output.flush();
        return;
    }
    output.note(&format!(
        "Expected duration: {} for {} measurements; plus writing {} twice and the rebuild, at the rates of the enclosure.",
        units::seconds(expected.seconds),
        expected.measurements,
        units::bytes(bytes as f64)
    ));
}
