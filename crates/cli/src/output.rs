//! Everything that commands print: one line of text or one JSON object per result.
//!
//! Invariants: results go to the standard output, everything else to the standard error; with
//! `--json` the standard output holds nothing but JSON, an object per line; a reader that went
//! away ends the program quietly.

use std::{
    io::{self, BufWriter, IsTerminal, Write},
    process::ExitCode,
    sync::Mutex,
};

use comfy_table::{ContentArrangement, Table, presets::UTF8_FULL_CONDENSED};
use owo_colors::{OwoColorize, Style};
use serde_json::{Value, json};
use time::{OffsetDateTime, format_description::well_known::Rfc3339, macros::format_description};

use super::{
    failure::{Failure, Outcome},
    globals::Globals,
};

/// A table as all commands show them: lines between columns, cells wrapped to the width of the terminal.
pub fn empty_table() -> Table {
    let mut table = Table::new();
    table.load_preset(UTF8_FULL_CONDENSED).set_content_arrangement(ContentArrangement::Dynamic);
    table
}

/// Where a command prints.
pub struct Output {
    /// JSON instead of text.
    pub json: bool,
    /// No progress, no notes.
    pub quiet: bool,
    color: bool,
    terminal: bool,
    out: Mutex<BufWriter<io::Stdout>>,
}

/// What a piece of text is, which decides its colour.
#[derive(Clone, Copy)]
pub enum Tone {
    /// A folder, a bucket, a heading.
    Folder,
    /// A date.
    Time,
    /// A size.
    Size,
    /// Fine.
    Good,
    /// Needs attention.
    Bad,
}

impl Output {
    /// As the flags, the environment and the terminal want it.
    pub fn new(globals: &Globals) -> Output {
        let terminal = io::stdout().is_terminal();
        let no_color = globals.no_color
            || ashlar_environment::process::variable_os("NO_COLOR").is_some_and(|v| !v.is_empty());
        Output {
            json: globals.json,
            quiet: globals.quiet,
            color: terminal && !no_color && !globals.json,
            terminal,
            out: Mutex::new(BufWriter::with_capacity(64 << 10, io::stdout())),
        }
    }

    /// Whether progress bars make sense.
    pub fn wants_progress(&self) -> bool {
        !self.json && !self.quiet && io::stderr().is_terminal()
    }

    /// Prints a result. `object` gets `"status": "success"` unless it has a status.
    pub fn result(&self, object: impl FnOnce() -> Value, text: impl FnOnce() -> String) {
        if self.json {
            let mut object = object();
            if let Value::Object(map) = &mut object {
                map.entry("status").or_insert_with(|| json!("success"));
            }
            self.line(&object.to_string());
        } else if self.terminal {
            self.line(&for_terminal(&text()));
        } else {
            self.line(&text());
        }
    }

    /// Prints a result that is worth a line only if nothing else is shown: not with `--quiet`.
    pub fn done(&self, object: impl FnOnce() -> Value, text: impl FnOnce() -> String) {
        if self.json || !self.quiet {
            self.result(object, text);
        }
    }

    fn line(&self, text: &str) {
        let mut out = self.out.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let written = writeln!(out, "{text}").and_then(|()| if self.terminal { out.flush() } else { Ok(()) });
        written.unwrap_or_else(|e| reader_gone(&e));
    }

    /// Writes bytes as they are (`cat`).
    pub fn bytes(&self, bytes: &[u8]) {
        let mut out = self.out.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        out.write_all(bytes).unwrap_or_else(|e| reader_gone(&e));
    }

    /// Hands everything printed so far to the reader.
    pub fn flush(&self) {
        let mut out = self.out.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        out.flush().unwrap_or_else(|e| reader_gone(&e));
    }

    /// Prints something that is neither result nor error.
    pub fn note(&self, text: &str) {
        if !self.json && !self.quiet {
            eprintln!("{text}");
        }
    }

    /// Prints a failure: text to the standard error, or an object as `mc` prints it.
    pub fn failure(&self, failure: &Failure) {
        if !self.json {
            let label = "ashlar:";
            let said = failure.to_string();
            let said = if io::stderr().is_terminal() { for_terminal(&said) } else { said };
            if io::stderr().is_terminal() && self.color {
                eprintln!("{} {said}", label.red().bold());
            } else {
                eprintln!("{label} {said}");
            }
            return;
        }
        let (code, request_id) = failure.server.clone().unwrap_or_default();
        self.line(
            &json!({
                "status": "error",
                "error": {
                    "message": failure.what,
                    "cause": { "message": failure.cause, "error": { "Code": code, "RequestId": request_id } },
                    "type": "error",
                    "exitCode": failure.kind as u8,
                }
            })
            .to_string(),
        );
    }

    /// A name from a server as it is safe to print: on a terminal, control characters would move the cursor or
    /// change what is shown, so they are escaped there (`\u{1b}`).
    pub fn printable(&self, name: &str) -> String {
        if self.terminal && name.chars().any(char::is_control) {
            name.chars()
                .flat_map(|c| if c.is_control() { c.escape_default().collect() } else { vec![c] })
                .collect()
        } else {
            name.to_owned()
        }
    }

    /// Text in its colour, or as it is.
    pub fn paint(&self, tone: Tone, text: impl std::fmt::Display) -> String {
        if !self.color {
            return text.to_string();
        }
        let style = match tone {
            Tone::Folder => Style::new().cyan().bold(),
            Tone::Time => Style::new().green(),
            Tone::Size => Style::new().yellow(),
            Tone::Good => Style::new().green().bold(),
            Tone::Bad => Style::new().red().bold(),
        };
        text.style(style).to_string()
    }
}

/// Text as it is safe to print on a terminal, whatever names of others are in it: control characters but line
/// ends, tabs and colours are escaped. Names themselves go through [`Output::printable`], colours too.
fn for_terminal(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let colour = rest.strip_prefix("\x1b[").and_then(|after| {
            let end = after.find(|c: char| !c.is_ascii_digit() && c != ';')?;
            after[end..].starts_with('m').then_some(2 + end + 1)
        });
        let length = match colour {
            Some(length) => {
                out.push_str(&rest[..length]);
                length
            }
            None => {
                match c {
                    '\n' | '\t' => out.push(c),
                    c if c.is_control() => out.extend(c.escape_default()),
                    c => out.push(c),
                }
                c.len_utf8()
            }
        };
        rest = &rest[length..];
    }
    out
}

/// Nobody reads any more (`| head`): what a shell expects is silence. Other errors are told.
fn reader_gone(error: &io::Error) {
    if error.kind() != io::ErrorKind::BrokenPipe {
        eprintln!("ashlar: standard output: {error}");
        std::process::exit(1);
    }
    std::process::exit(0);
}

/// A size as people read it: `5.0 MiB`.
pub fn size_text(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1024.0;
    let mut unit = 0;
    // 1023.95 would be shown as 1024.0 of the smaller unit.
    while value >= 1023.95 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

/// A span of seconds as people read it: `2d 4h`, `3m 20s`.
pub fn span_text(seconds: u64) -> String {
    let (days, hours, minutes) = (seconds / 86400, seconds / 3600 % 24, seconds / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds}s"),
        (0, 0, m) => format!("{m}m {}s", seconds % 60),
        (0, h, m) => format!("{h}h {m}m"),
        (d, h, _) => format!("{d}d {h}h"),
    }
}

/// A time as listings show it.
pub fn time_text(at: Option<OffsetDateTime>) -> String {
    let format = format_description!("[year]-[month]-[day] [hour]:[minute]:[second] UTC");
    at.and_then(|t| t.to_offset(time::UtcOffset::UTC).format(&format).ok()).unwrap_or_else(|| " ".repeat(23))
}

/// A time as JSON carries it; null if unknown.
pub fn time_json(at: Option<OffsetDateTime>) -> Value {
    at.and_then(|t| t.format(&Rfc3339).ok()).map_or(Value::Null, Value::String)
}

/// Says what went wrong; the exit code.
pub fn finish(output: &Output, outcome: Outcome) -> ExitCode {
    let code = match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            output.failure(&failure);
            ExitCode::from(failure.kind as u8)
        }
    };
    output.flush();
    code
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A key can hold what moves the cursor, sets the title or fills the clipboard.
    #[test]
    fn a_terminal_is_told_nothing_by_names() {
        let shown = for_terminal("a\x1b]0;title\x07\x1b[2J\x1b[1A\u{9b}31m\rb\n\tc\x7f");
        assert_eq!(shown, "a\\u{1b}]0;title\\u{7}\\u{1b}[2J\\u{1b}[1A\\u{9b}31m\\rb\n\tc\\u{7f}");
        let painted = "\x1b[36;1mfolder/\x1b[0m \u{fc}";
        assert_eq!(for_terminal(painted), painted, "our own colours, and letters of the world");
        assert_eq!(for_terminal("\x1b[12"), "\\u{1b}[12");
    }

    #[test]
    fn sizes_spans_times() {
        let sizes = [0, 1023, 1024, 1536, 1048575, 5 << 20, u64::MAX];
        assert_eq!(
            sizes.map(size_text),
            ["0 B", "1023 B", "1.0 KiB", "1.5 KiB", "1.0 MiB", "5.0 MiB", "16.0 EiB"]
        );
        assert_eq!([59, 60, 3600, 90061].map(span_text), ["59s", "1m 0s", "1h 0m", "1d 1h"]);
        assert_eq!(time_text(Some(OffsetDateTime::UNIX_EPOCH)), "1970-01-01 00:00:00 UTC");
        assert_eq!(time_json(Some(OffsetDateTime::UNIX_EPOCH)), "1970-01-01T00:00:00Z");
    }
}
