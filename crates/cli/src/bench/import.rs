//! `ashlar bench import`: converts results of warp and fio to our format.

use std::{path::PathBuf, process::ExitCode};

use ashlar_bench_report::{import, result::file};
use clap::Args;
use serde_json::json;

use super::results;
use crate::Globals;

/// What to import.
#[derive(Args, Debug)]
pub struct Options {
    /// A result of warp (`.json.zst`, `.csv.zst`, `analyze --json`) or fio (`--output-format=json`, `json+`)
    file: PathBuf,
    /// Where to write the result; `-` is the standard output
    #[arg(long, short, value_name = "FILE")]
    out: PathBuf,
    /// The name of the result [default: the file's]
    #[arg(long)]
    name: Option<String>,
}

/// Imports a result.
pub fn run(options: &Options, globals: &Globals) -> ExitCode {
    results::end(globals, |output| {
        let mut run = import::load(&options.file).map_err(results::failed)?;
        if let Some(name) = &options.name {
            run.name.clone_from(name);
        }
        file::store(&options.out, &run).map_err(results::failed)?;
        if options.out.as_os_str() != "-" {
            output.done(
                || json!({ "out": options.out, "name": run.name, "caveats": run.caveats }),
                || {
                    let lines: Vec<String> =
                        run.caveats.iter().map(|c| results::caveat_text(output, c)).collect();
                    format!("{}\nWritten to {}.", lines.join("\n"), options.out.display())
                },
            );
        }
        Ok(())
    })
}
