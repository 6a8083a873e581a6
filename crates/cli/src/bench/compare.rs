//! `ashlar bench compare`: compares two results, with confidence intervals, and reports regressions.

use std::{path::PathBuf, process::ExitCode};

use ashlar_bench_report::{
    compare::{self, Comparison, Row, Verdict},
    result::title,
    units,
};
use clap::Args;
use comfy_table::CellAlignment;

use super::results;
use crate::{
    Globals,
    failure::{Failure, Kind, Outcome},
    output::{Output, Tone, empty_table},
};

/// What to compare.
#[derive(Args, Debug)]
#[command(after_help = "\
Exit codes: 0 no regression, 7 a regression: worse by more than the limit and significant at 5 %; \
others as for every command. A difference beyond the limit that may be chance is `uncertain`, not a regression.")]
pub struct Options {
    /// The earlier result, of `ashlar bench`, warp or fio
    before: PathBuf,
    /// The later result
    after: PathBuf,
    /// How much worse a number may become
    #[arg(long, default_value = "5%", value_parser = share)]
    limit: f64,
    /// Compare results that are marked invalid
    #[arg(long)]
    force: bool,
    /// Seed of the bootstrap
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

fn share(text: &str) -> Result<f64, String> {
    let (number, by) = text.strip_suffix('%').map_or((text, 1.0), |n| (n, 100.0));
    match number.trim().parse::<f64>() {
        Ok(v) if v >= 0.0 && v / by < 1.0 => Ok(v / by),
        _ => Err("write for instance 5% or 0.05".to_owned()),
    }
}

/// Compares two results.
pub fn run(options: &Options, globals: &Globals) -> ExitCode {
    results::end(globals, |output| {
        let (before, after) = (results::open(&options.before)?, results::open(&options.after)?);
        let mut both = [before, after];
        title::tell_apart(&mut both);
        let comparison = compare::compare(&both[0], &both[1], options.limit, options.seed);
        if comparison.invalid && !options.force {
            let why = comparison.warnings.join("; ");
            return Err(Failure::new(
                Kind::Failed,
                format!("a result must not be used: {why} (--force compares it anyway)"),
            ));
        }
        if comparison.rows.is_empty() {
            return Err(Failure::new(Kind::Failed, "the results have no phase and operation in common"));
        }
        output.result(|| serde_json::to_value(&comparison).unwrap_or_default(), || text(output, &comparison));
        match comparison.regressions().count() {
            0 => Outcome::Ok(()),
            n => Err(Failure::new(
                Kind::Regression,
                format!("{n} worse than {} allow", units::percent(options.limit)),
            )),
        }
    })
}

fn text(output: &Output, c: &Comparison) -> String {
    let mut lines = vec![format!("before: {}\nafter:  {}", c.names.0, c.names.1)];
    lines.extend(c.setup.iter().map(|d| format!("{} {d}", output.paint(Tone::Bad, "settings differ:"))));
    lines.extend(c.warnings.iter().map(|w| format!("{} {w}", output.paint(Tone::Bad, "warning:"))));
    let mut phases: Vec<&str> = c.rows.iter().map(|r| r.phase.as_str()).collect();
    phases.dedup();
    for phase in phases {
        lines.push(output.paint(Tone::Folder, phase));
        let mut table = empty_table();
        let header =
            ["Operation", "Number", "Before", "After", "Change", "95 % interval", "p", "Verdict", "By"];
        table.set_header(header);
        for (i, column) in table.column_iter_mut().enumerate() {
            if (2..7).contains(&i) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        c.rows.iter().filter(|r| r.phase == phase).for_each(|r| {
            table.add_row(row(output, r));
        });
        lines.push(table.to_string());
    }
    lines.extend(c.only_before.iter().map(|p| format!("only before: {p}")));
    lines.extend(c.only_after.iter().map(|p| format!("only after: {p}")));
    lines.join("\n")
}

fn row(output: &Output, r: &Row) -> Vec<String> {
    let (name, show): (&str, fn(f64) -> String) = match r.metric.as_str() {
        "bytes_per_s" => ("throughput", units::bytes_per_s),
        "rate_per_s" => ("rate", units::per_s),
        "error_share" => ("errors", units::percent),
        m if m.ends_with("_ns") => (m.trim_end_matches("_ns"), units::ns),
        "server_us_per_op" => ("server CPU per operation", |us| units::ns(us * 1e3)),
        "client_us_per_op" => ("client CPU per operation", |us| units::ns(us * 1e3)),
        "server_s_per_gib" => ("server CPU per GB", |s| units::seconds(units::per_gb(s))),
        other => (other, units::number),
    };
    let (verdict, tone) = match r.verdict {
        Verdict::Regression => ("regression", Some(Tone::Bad)),
        Verdict::Improvement => ("improvement", Some(Tone::Good)),
        Verdict::WithinLimit => ("within limit", None),
        Verdict::Uncertain => ("uncertain", Some(Tone::Size)),
    };
    vec![
        r.operation.clone(),
        name.to_owned(),
        show(r.before),
        show(r.after),
        if r.metric == "error_share" { String::new() } else { units::change(r.after / r.before) },
        r.ratio.map(|(_, l, h)| format!("{} to {}", units::change(l), units::change(h))).unwrap_or_default(),
        r.p.map(|p| if p < 0.0001 { "<0.0001".to_owned() } else { format!("{p:.4}") }).unwrap_or_default(),
        tone.map_or_else(|| verdict.to_owned(), |t| output.paint(t, verdict)),
        r.method.clone(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits() {
        assert_eq!(["5%", "0.05", "0", "12.5 %"].map(share), [Ok(0.05), Ok(0.05), Ok(0.0), Ok(0.125)]);
        assert!(["", "x", "-1%", "100%", "1", "NaN"].iter().all(|t| share(t).is_err()));
    }
}
