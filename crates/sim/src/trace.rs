//! The events of a run as text.
//!
//! Invariant: if the trace is not kept, a line costs only a check of a flag. Must not depend on: the content
//! of the lines.

use std::fmt::Display;

use ashlar_environment::simulation;
use parking_lot::Mutex;

/// Lines with the virtual times at which they were noted.
#[derive(Default)]
pub struct Trace {
    lines: Option<Mutex<Vec<String>>>,
}

impl Trace {
    /// A trace that keeps its lines, or none.
    #[must_use]
    pub fn new(kept: bool) -> Trace {
        Trace { lines: kept.then(Mutex::default) }
    }

    /// Whether lines are kept.
    #[must_use]
    pub fn is_kept(&self) -> bool {
        self.lines.is_some()
    }

    /// Adds a line.
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
