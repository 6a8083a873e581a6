//! `ashlar bench report`: results as one HTML file.

use std::{path::PathBuf, process::ExitCode};

use ashlar_bench_report::{report, result::file};
use clap::Args;
use serde_json::json;

use super::results;
use crate::{Globals, failure::Outcome};

/// What to report.
#[derive(Args, Debug)]
pub struct Options {
    /// Results of `ashlar bench`, warp or fio, in the order of the report
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Where to write the report; `-` is the standard output
    #[arg(long, short, value_name = "FILE", default_value = "report.html")]
    out: PathBuf,
    /// The report's title
    #[arg(long)]
    title: Option<String>,
}

/// Writes a report: one file that needs no network and no script.
pub fn run(options: &Options, globals: &Globals) -> ExitCode {
    results::end(globals, |output| {
        let runs = options.files.iter().map(|f| results::open(f)).collect::<Outcome<Vec<_>>>()?;
        let html = report::html(&runs, options.title.as_deref());
        file::write(&options.out, html.as_bytes()).map_err(results::failed)?;
        if options.out.as_os_str() != "-" {
            output.done(
                || json!({ "out": options.out, "bytes": html.len() }),
                || format!("Written to {}.", options.out.display()),
            );
        }
        Ok(())
    })
}
