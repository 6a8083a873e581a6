//! `ashlar bench merge`: merges results of agents or repetitions.

use std::{path::PathBuf, process::ExitCode};

use ashlar_bench_report::{merge, result::file};
use clap::Args;
use serde_json::json;

use super::results;
use crate::{Globals, failure::Outcome};

/// What to merge.
#[derive(Args, Debug)]
pub struct Options {
    /// Results of one measurement: results from the same time are added, others are repetitions
    #[arg(required = true, num_args = 2.., value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Where to write the result; `-` is the standard output
    #[arg(long, short, value_name = "FILE")]
    out: PathBuf,
    /// Merge results whose settings differ, with a warning in the result
    #[arg(long)]
    force: bool,
}

/// Merges results.
pub fn run(options: &Options, globals: &Globals) -> ExitCode {
    results::end(globals, |output| {
        let runs = options.files.iter().map(|f| results::open(f)).collect::<Outcome<Vec<_>>>()?;
        let all = merge::merge(&runs, options.force).map_err(results::failed)?;
        file::store(&options.out, &all).map_err(results::failed)?;
        if options.out.as_os_str() == "-" {
            return Ok(());
        }
        let said = || {
            all.caveats
                .iter()
                .filter(|c| ["overlap", "merged", "merged-different"].contains(&c.code.as_str()))
        };
        output.done(
            || json!({ "out": options.out, "phases": all.phases.len(), "caveats": said().collect::<Vec<_>>() }),
            || {
                let lines: Vec<String> = said().map(|c| results::caveat_text(output, c)).collect();
                format!("{}\nWritten to {}.", lines.join("\n"), options.out.display())
            },
        );
        Ok(())
    })
}
