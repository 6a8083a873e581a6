//! Shows a run while it lasts: one line that is rewritten on a terminal, plain lines elsewhere.
//!
//! Invariants: all output goes to standard error; where it is off nothing is printed; a closed terminal does
//! not stop the run.

use std::{
    io::{IsTerminal, Write},
    time::{Duration, Instant},
};

use ashlar_bench_report::units;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::load::{Console, Snapshot};

/// Seconds between plain lines.
const PLAIN: u64 = 5;

/// The live view.
pub struct Live {
    on: bool,
    terminal: bool,
    color: bool,
    bar: Option<ProgressBar>,
    /// Whether a line stands that must be ended.
    open: bool,
    shown: Option<Instant>,
}

impl Live {
    /// On unless `quiet`; coloured unless `color` is false.
    pub fn new(quiet: bool, color: bool) -> Live {
        let terminal = std::io::stderr().is_terminal();
        Live { on: !quiet, terminal, color: color && terminal, bar: None, open: false, shown: None }
    }
}

/// A number as people read it: `12.3 k`.
pub fn short(value: f64) -> String {
    match value {
        v if v >= 1e9 => format!("{:.1} G", v / 1e9),
        v if v >= 1e6 => format!("{:.1} M", v / 1e6),
        v if v >= 1e4 => format!("{:.1} k", v / 1e3),
        v if v >= 100.0 => format!("{v:.0}"),
        v => format!("{v:.1}"),
    }
}

fn line(snapshot: &Snapshot, color: bool) -> String {
    let done = snapshot.done.map_or(String::new(), |d| format!(" {:>3.0} %", d * 100.0));
    let errors = match snapshot.errors {
        0 => String::new(),
        n if color => format!("  \x1b[31merrors {n}\x1b[0m"),
        n => format!("  errors {n}"),
    };
    let bytes = if snapshot.bytes > 0.0 {
        format!("  {}", units::bytes_per_s(snapshot.bytes))
    } else {
        String::new()
    };
    format!(
        "{} {:>5.0} s{done}  {}/s{bytes}  p50 {}  p99 {}{errors}",
        snapshot.name,
        snapshot.at_s,
        short(snapshot.rate),
        units::ns(snapshot.p50 as f64),
        units::ns(snapshot.p99 as f64),
    )
}

impl Console for Live {
    fn begin(&mut self, what: &str, total: u64) {
        if !self.on {
            return;
        }
        if !self.terminal {
            let _ = writeln!(std::io::stderr(), "{what} ...");
            return;
        }
        let bar = if total > 0 { ProgressBar::new(total) } else { ProgressBar::no_length() };
        bar.set_draw_target(ProgressDrawTarget::stderr_with_hz(8));
        let template = match total {
            0 => "{spinner} {msg} {pos}  {per_sec}",
            _ => "{msg} {bar:30} {pos}/{len}  {per_sec}  ETA {eta}",
        };
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.set_message(what.to_owned());
        bar.enable_steady_tick(Duration::from_millis(250));
        self.bar = Some(bar);
    }

    fn progress(&mut self, done: u64) {
        if let Some(bar) = &self.bar {
            bar.set_position(done);
        }
    }

    fn end(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
        if std::mem::take(&mut self.open) {
            let _ = writeln!(std::io::stderr());
        }
        self.shown = None;
    }

    fn note(&mut self, text: &str) {
        if self.on {
            let open = std::mem::take(&mut self.open);
            let _ = writeln!(std::io::stderr(), "{}{text}", if open { "\n" } else { "" });
        }
    }

    fn snapshot(&mut self, snapshot: &Snapshot) {
        if !self.on {
            return;
        }
        let text = line(snapshot, self.color);
        if self.terminal {
            let _ = write!(std::io::stderr(), "\r\x1b[K{text}");
            let _ = std::io::stderr().flush();
            self.open = true;
        } else if self.shown.is_none_or(|at| at.elapsed().as_secs() >= PLAIN) {
            let _ = writeln!(std::io::stderr(), "{text}");
            self.shown = Some(Instant::now());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_lines_are_formatted() {
        let snapshot = Snapshot {
            name: "get x8".into(),
            at_s: 3.2,
            done: Some(0.321),
            rate: 12_345.0,
            bytes: 50e6,
            p50: 650_000,
            p99: 2_340_000,
            errors: 0,
        };
        assert_eq!(
            line(&snapshot, true),
            "get x8     3 s  32 %  12.3 k/s  50.0 MB/s  p50 650 µs  p99 2.34 ms"
        );
        let bad = Snapshot { errors: 3, bytes: 0.0, done: None, ..snapshot };
        assert!(line(&bad, false).ends_with("errors 3"));
        assert_eq!(short(9.94), "9.9");
    }
}
