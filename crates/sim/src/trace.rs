//! What happened in a run, in words.
//!
//! Invariant: without lines kept a note costs no more than a look. Must not depend on: what is noted.

use std::fmt::Display;

use ashlar_environment::simulation;
use parking_lot::Mutex;

/// Lines with the virtual times at which they were noted.
#[derive(Default)]
pub struct Trace {
    lines: Option<Mutex<Vec<String>>>,
}

impl Trace {
    /// Keeps lines, or nothing.
    #[must_use]
    pub fn new(kept: bool) -> Trace {
        Trace { lines: kept.then(Mutex::default) }
    }

    /// Whether lines are kept.
    #[must_use]
    pub fn is_kept(&self) -> bool {
        self.lines.is_some()
    }

    /// Notes a line.
    pub fn note<T: Display>(&self, line: impl FnOnce() -> T) {
        if let Some(lines) = &self.lines {
            let at = simulation::elapsed();
            lines.lock().push(format!("{:>10.6} {}", at.as_secs_f64(), line()));
        }
    }

    /// The lines so far.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        self.lines.as_ref().map(|l| l.lock().clone()).unwrap_or_default()
    }
}
