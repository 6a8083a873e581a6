//! `ashlar bench plan`: ceilings of a hardware profile or of measured runs, and the table of published
//! figures.

use std::{fs, path::PathBuf, process::ExitCode};

use ashlar_bench::host;
use ashlar_bench_report::{
    plan::{
        Direction, Plan, Profile, measured,
        published::{self, Row},
    },
    result::{Caveat, Run, Severity},
    units,
};
use clap::Args;
use serde_json::json;

use super::{results, shared};
use crate::{
    Globals,
    failure::{Failure, Outcome},
    output::{Output, Tone},
};

/// The input of the plan.
#[derive(Args)]
#[command(after_long_help = "\
Examples:
  ashlar bench plan --list
  ashlar bench plan --profile openio-352
  ashlar bench plan --show data24-minio > mine.toml; ashlar bench plan --profile mine.toml --get 40GB/s
  ashlar bench plan --measure drive.json --measure net.json --code 12+4 --measured s3.json --out s3.json
  ashlar bench plan --published")]
pub struct Options {
    /// Hardware profile: the name of a shipped profile, or a TOML file
    #[arg(long, value_name = "NAME|FILE", group = "from")]
    profile: Option<String>,
    /// Measured hardware: a result of `bench drive`, and one of `bench net` (repeat the option)
    #[arg(long, value_name = "FILE", group = "from")]
    measure: Vec<PathBuf>,
    /// List the shipped profiles
    #[arg(long, group = "from")]
    list: bool,
    /// Print a shipped profile as a template
    #[arg(long, value_name = "NAME", group = "from")]
    show: Option<String>,
    /// Published figures of other systems, with the values that the model computes for them
    #[arg(long, group = "from")]
    published: bool,
    /// Data and parity shards, for instance 12+4; overrides the profile
    #[arg(long, value_name = "K+M", value_parser = code)]
    code: Option<(u32, u32)>,
    /// A measured run, to compute its efficiency against the ceilings
    #[arg(long, value_name = "FILE")]
    measured: Option<PathBuf>,
    /// Measured GET, for instance 54.76GB/s
    #[arg(long, value_name = "RATE", value_parser = shared::rate)]
    get: Option<f64>,
    /// Measured PUT
    #[arg(long, value_name = "RATE", value_parser = shared::rate)]
    put: Option<f64>,
    /// Write the plan, or the measured run with its ceilings, as a result
    #[arg(long, short, value_name = "FILE")]
    out: Option<PathBuf>,
}

fn code(text: &str) -> Result<(u32, u32), String> {
    let parsed = text.split_once('+').and_then(|(k, m)| Some((k.parse().ok()?, m.parse().ok()?)));
    match parsed {
        Some((k, m)) if (1..=64).contains(&k) && m <= 64 && k + m <= 64 => Ok((k, m)),
        _ => Err("write for instance 12+4; k >= 1 and k+m <= 64".to_owned()),
    }
}

/// Runs the command.
pub fn run(options: &Options, globals: &Globals) -> ExitCode {
    results::end(globals, |output| plan(options, output))
}

fn plan(options: &Options, output: &Output) -> Outcome {
    if options.list {
        return list(output);
    }
    if let Some(name) = &options.show {
        let text = Profile::embedded_text(name).ok_or_else(|| unknown(name))?;
        output.bytes(text.as_bytes());
        return Ok(());
    }
    if options.published {
        published(output);
        return Ok(());
    }
    let profile = profile(options)?;
    let mut plan = Plan::of(&profile);
    let mut run = match &options.measured {
        Some(path) => {
            let run = results::open(path)?;
            if run.mode == "drive" && !options.measure.is_empty() {
                return Err(Failure::usage(
                    "the input of this plan is a result of `bench drive`: --measured needs a run through the erasure code",
                ));
            }
            let (get, put) = measured::get_and_put(&run);
            if get.is_none() && put.is_none() {
                return Err(Failure::usage(format!("`{}` has neither GET nor PUT", path.display())));
            }
            plan.measured(get, put);
            run
        }
        None => {
            let mut run = host::new_run("plan", Some(&format!("plan {}", profile.name)), shared::command());
            run.caveats = assumptions(&plan);
            run
        }
    };
    plan.measured(options.get, options.put);
    run.ceilings = Some(plan.json());
    shared::store(options.out.as_deref(), &run)?;
    output.result(|| plan.json(), || text(&profile, &plan, output));
    Ok(())
}

fn unknown(name: &str) -> Failure {
    let names: Vec<String> = Profile::embedded().into_iter().map(|p| p.name).collect();
    Failure::usage(format!(
        "`{name}` is neither a file nor one of the shipped profiles ({})",
        names.join(", ")
    ))
}

/// Caveats that list the assumptions of the plan.
fn assumptions(plan: &Plan) -> Vec<Caveat> {
    let caveat = |text: &String| Caveat {
        severity: Severity::Note,
        code: "assumption".to_owned(),
        text: text.clone(),
    };
    plan.assumptions.iter().map(caveat).collect()
}

fn profile(options: &Options) -> Outcome<Profile> {
    let mut profile = if let Some(name) = &options.profile {
        match Profile::embedded_text(name) {
            Some(text) => Profile::parse(text).map_err(results::failed)?,
            None => {
                let text = fs::read_to_string(name).map_err(|e| match e.kind() {
                    std::io::ErrorKind::NotFound => unknown(name),
                    _ => Failure::usage(format!("{name}: {e}")),
                })?;
                Profile::parse(&text).map_err(results::failed)?
            }
        }
    } else if options.measure.is_empty() {
        return Err(Failure::usage(
            "the input of the plan is missing: give --profile, --measure, --list, --show or --published",
        ));
    } else {
        let (k, m) =
            options.code.ok_or_else(|| Failure::usage("--measure needs --code, for instance 12+4"))?;
        let runs: Vec<Run> = options.measure.iter().map(|p| results::open(p)).collect::<Outcome<_>>()?;
        if let Some(other) = runs.iter().find(|r| r.mode != "drive" && r.mode != "net") {
            return Err(Failure::usage(format!(
                "`{}` is a run of mode `{}`; --measure takes `drive` and `net`",
                other.name, other.mode
            )));
        }
        let of = |mode: &str| runs.iter().find(|r| r.mode == mode);
        let drive = of("drive").ok_or_else(|| Failure::usage("--measure needs a result of `bench drive`"))?;
        measured::profile(drive, of("net"), k, m).map_err(results::failed)?
    };
    if let Some((k, m)) = options.code {
        (profile.code.k, profile.code.m) = (k, m);
    }
    Ok(profile)
}

fn list(output: &Output) -> Outcome {
    for profile in Profile::embedded() {
        output.result(
            || json!({ "name": profile.name, "title": profile.title, "source": profile.source }),
            || format!("{:<20} {}", profile.name, profile.title),
        );
    }
    Ok(())
}

fn text(profile: &Profile, plan: &Plan, output: &Output) -> String {
    let mut text = format!(
        "{}\ncode {}+{}, {} drives, {} servers\n",
        if profile.title.is_empty() { &profile.name } else { &profile.title },
        profile.code.k,
        profile.code.m,
        profile.drives.count,
        profile.servers.count
    );
    for (name, side) in [("GET", &plan.get), ("PUT", &plan.put)] {
        text.push_str(&direction(name, side, output));
    }
    if !plan.random_4k.is_empty() {
        let mut table = shared::table(&["random 4 KiB", "pattern", "binding", "at most"], 3);
        for row in &plan.random_4k {
            let per_s = units::per_s(row.per_s);
            table.add_row([row.state.as_str(), row.pattern.as_str(), row.binding.as_str(), per_s.as_str()]);
        }
        text.push_str(&format!("\n{table}\n"));
    }
    if !plan.assumptions.is_empty() {
        text.push_str("\nassumed, not published or measured:\n");
        for line in &plan.assumptions {
            text.push_str(&format!("  {line}\n"));
        }
    }
    text.truncate(text.trim_end().len());
    text
}

fn direction(name: &str, side: &Direction, output: &Output) -> String {
    let title = format!("{name} at most");
    let mut table = shared::table(&["resource", "formula", "how", &title, "reached"], 3);
    for ceiling in &side.ceilings {
        let share = side.measured_bytes_per_s.map(|m| format!("{:.1} %", m / ceiling.bytes_per_s * 100.0));
        table.add_row([
            ceiling.resource.clone(),
            ceiling.formula.clone(),
            ceiling.how.clone(),
            units::bytes_per_s(ceiling.bytes_per_s),
            share.unwrap_or_default(),
        ]);
    }
    let binding = output.paint(Tone::Folder, &side.binding);
    let mut text = format!("\n{table}\n{name}: {binding} binds");
    if let (Some(measured), Some(percent)) = (side.measured_bytes_per_s, side.efficiency_percent) {
        text.push_str(&format!("; measured {}, efficiency {percent:.1} %", units::bytes_per_s(measured)));
        if percent > 100.0 {
            text.push_str(" (above 100 %: an input of the profile is too low, or caches helped)");
        }
    }
    text.push('\n');
    text
}

fn published(output: &Output) {
    let rows = published::table();
    let number = |v: f64| if v.abs() >= 100.0 { format!("{v:.1}") } else { format!("{v:.2}") };
    let json = || {
        let mix: serde_json::Map<String, serde_json::Value> = published::MIXES
            .iter()
            .map(|m| {
                (format!("{:.0}/{:.0}", m * 100.0, (1.0 - m) * 100.0), json!(published::mix_sensitivity(*m)))
            })
            .collect();
        json!({ "rows": rows, "mix_rms_error_percent": mix })
    };
    output.result(json, || {
        let mut table =
            shared::table(&["id", "quantity", "published", "formula", "predicted", "error", "label"], 2);
        for row in &rows {
            let error = row
                .error_percent
                .map_or_else(String::new, |e| format!("{:+.1} %", if e.abs() < 0.05 { 0.0 } else { e }));
            let published = row.published.map_or_else(|| "-".to_owned(), number);
            table.add_row([
                row.id.to_owned(),
                row.quantity.to_owned(),
                published,
                row.formula.to_owned(),
                format!("{} {}", number(row.predicted), row.unit),
                error,
                row.label.text().to_owned(),
            ]);
        }
        let mut text = table.to_string();
        text.push_str("\n\nnotes:\n");
        for Row { id, note, .. } in rows.iter().filter(|r| !r.note.is_empty()) {
            text.push_str(&format!("  {id}: {note}\n"));
        }
        text.push_str(
            "\nroot mean square error of P18 to P22 by the share of reads in \"mixed\" (assumed 70/30):\n ",
        );
        for mix in published::MIXES {
            let error = published::mix_sensitivity(mix);
            text.push_str(&format!(" {:.0}/{:.0}: {error:.1} %", mix * 100.0, (1.0 - mix) * 100.0));
        }
        text
    });
}
