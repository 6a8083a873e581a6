//! What the commands about drives, networks and plans share: results to files, failures, tables.

use std::{
    path::Path,
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use ashlar_bench::{
    Error, quantity,
    result::{Run, Severity, file},
};
use comfy_table::{CellAlignment, Table, presets::UTF8_FULL_CONDENSED};

use crate::client::{
    Globals,
    failure::{Failure, Kind, Outcome},
    output::{Output, Tone},
};

/// A failure of the bench room, by what the user can do.
pub fn failed(error: Error) -> Failure {
    let kind = match &error {
        Error::Usage(_) => Kind::Usage,
        Error::Io { source, .. } if source.kind() == std::io::ErrorKind::NotFound => Kind::NotFound,
        Error::Io { source, .. } if source.kind() == std::io::ErrorKind::PermissionDenied => Kind::Denied,
        _ => Kind::Failed,
    };
    Failure::new(kind, error.to_string())
}

/// Prints a failure, or nothing.
pub fn finish(globals: &Globals, outcome: Outcome) -> ExitCode {
    let Err(failure) = outcome else { return ExitCode::SUCCESS };
    let output = Output::new(globals);
    output.failure(&failure);
    output.flush();
    ExitCode::from(failure.kind as u8)
}

/// Reads a result.
pub fn load(path: &Path) -> Outcome<Run> {
    file::load(path).map_err(|e| Failure::new(Kind::Failed, e.to_string()))
}

/// Writes a result where `--out` says.
pub fn store(out: Option<&Path>, run: &Run) -> Outcome {
    let Some(path) = out else { return Ok(()) };
    file::store(path, run).map_err(|e| Failure::new(Kind::Failed, e.to_string()))
}

/// The command line as the result keeps it; the value of a token is left out.
pub fn command() -> Vec<String> {
    let mut secret = false;
    std::env::args_os()
        .map(|a| a.to_string_lossy().into_owned())
        .map(|arg| {
            let hidden = std::mem::replace(&mut secret, arg == "--token");
            if hidden {
                "***".to_owned()
            } else if arg.starts_with("--token=") {
                "--token=***".to_owned()
            } else {
                arg
            }
        })
        .collect()
}

/// A table; the first `left` columns are text, the others numbers.
pub fn table(header: &[&str], left: usize) -> Table {
    let mut table = Table::new();
    table.load_preset(UTF8_FULL_CONDENSED).set_header(header.iter().copied());
    for (i, column) in table.column_iter_mut().enumerate() {
        if i >= left {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

/// Prints what a reader must know before believing the numbers.
pub fn caveats(output: &Output, run: &Run) {
    for caveat in &run.caveats {
        let (word, tone) = match caveat.severity {
            Severity::Note => ("note", Tone::Time),
            Severity::Warning => ("warning", Tone::Bad),
            Severity::Invalid => ("INVALID", Tone::Bad),
        };
        output
            .result(|| serde_json::Value::Null, || format!("{}: {}", output.paint(tone, word), caveat.text));
    }
}

/// A size on the command line.
pub fn size(text: &str) -> Result<u64, String> {
    quantity::parse_size(text).map_err(|e| e.to_string())
}

/// A rate on the command line.
pub fn rate(text: &str) -> Result<f64, String> {
    quantity::parse_rate(text).map_err(|e| e.to_string())
}

/// Seconds on the command line: `10`, `10s`, `2m`, `500ms`.
pub fn seconds(text: &str) -> Result<f64, String> {
    let split = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let factor = match unit {
        "" | "s" => 1.0,
        "ms" => 1e-3,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => return Err("write for instance 10s, 2m or 500ms".to_owned()),
    };
    let value: f64 = number.parse().map_err(|_| "write for instance 10s, 2m or 500ms".to_owned())?;
    if value * factor <= 86_400.0 { Ok(value * factor) } else { Err("at most a day".to_owned()) }
}

/// Set when the user presses Ctrl-C; the second time ends the program at once.
pub fn interrupted() -> Arc<AtomicBool> {
    let flag = Arc::new(AtomicBool::new(false));
    let set = flag.clone();
    // Where no signal can be waited for, Ctrl-C ends the program; nothing is left behind then either.
    let _ = std::thread::Builder::new().name("interrupt".into()).spawn(move || {
        let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return };
        runtime.block_on(async {
            let Ok(mut terminate) = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())
            else {
                return;
            };
            loop {
                tokio::select! {
                    pressed = tokio::signal::ctrl_c() => if pressed.is_err() { return },
                    _ = terminate.recv() => {}
                }
                if set.swap(true, Ordering::SeqCst) {
                    std::process::exit(i32::from(Kind::Interrupted as u8));
                }
            }
        });
    });
    flag
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans() {
        for (text, want) in [("10", 10.0), ("10s", 10.0), ("2m", 120.0), ("500ms", 0.5), ("1.5h", 5400.0)] {
            assert_eq!(seconds(text), Ok(want), "{text}");
        }
        for bad in ["", "s", "10d", "-1", "99h", "1..2"] {
            assert!(seconds(bad).is_err(), "{bad}");
        }
    }
}
