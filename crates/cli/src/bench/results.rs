//! Shared functions of commands on results: reading, errors, exit codes, caveats.

use std::{path::Path, process::ExitCode};

use ashlar_bench_report::{
    Error, import,
    result::{Caveat, Run, Severity},
};

use crate::{
    Globals,
    failure::{Failure, Kind, Outcome},
    output::{Output, Tone},
};

/// Runs a command, prints its error and returns the exit code.
pub fn end(globals: &Globals, command: impl FnOnce(&Output) -> Outcome) -> ExitCode {
    let output = Output::new(globals);
    let code = match command(&output) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            output.failure(&failure);
            ExitCode::from(failure.kind as u8)
        }
    };
    output.flush();
    code
}

/// Reads a result of this program, warp or fio.
pub fn open(path: &Path) -> Outcome<Run> {
    import::open(path).map_err(failed)
}

/// The failure for an error of the crate `bench-report`.
pub fn failed(error: Error) -> Failure {
    let text = error.to_string();
    match error {
        Error::File { source, .. } => Failure { cause: text, ..Failure::from(source) },
        Error::Usage(_) => Failure::usage(text),
        Error::Different { .. } => Failure::usage(format!("{text} (--force merges them anyway)")),
        Error::Format { .. } | Error::Newer { .. } => Failure::new(Kind::Failed, text),
    }
}

/// A caveat as a line.
pub fn caveat_text(output: &Output, caveat: &Caveat) -> String {
    let (word, tone) = match caveat.severity {
        Severity::Note => ("note:", Tone::Time),
        Severity::Warning => ("warning:", Tone::Bad),
        Severity::Invalid => ("INVALID:", Tone::Bad),
    };
    format!("{} {}", output.paint(tone, word), caveat.text)
}

/// A caveat.
pub fn caveat(severity: Severity, code: &str, text: String) -> Caveat {
    Caveat { severity, code: code.to_owned(), text }
}
