//! Runs the checker on one world and reports the result.
//!
//! Must not depend on: the worlds.

use stateright::{Checker, HasDiscoveries, Model};
use std::fmt;
use std::hash::Hash;
use std::time::{Duration, Instant};

/// Limits of a run.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Threads of the checker.
    pub threads: usize,
    /// Transitions after which the run ends unfinished.
    pub transitions: usize,
}

/// The outcome of one run.
#[derive(Clone, Debug)]
pub struct Report {
    /// World and setting.
    pub name: String,
    /// Transitions taken.
    pub transitions: usize,
    /// Distinct states (slots being interchangeable).
    pub states: usize,
    /// Wall time.
    pub time: Duration,
    /// Whether all states of the scope were visited, or the run ended at a violation.
    pub complete: bool,
    /// Name of the violated property and the actions that lead to it; the shortest such sequence.
    pub violation: Option<(String, Vec<String>)>,
    /// Properties named "reached ..." that were not reached.
    pub unreached: Vec<String>,
}

impl Report {
    /// Whether the run was exhaustive, nothing was violated and every target was reached.
    #[must_use]
    pub fn clean(&self) -> bool {
        self.complete && self.violation.is_none() && self.unreached.is_empty()
    }

    /// The verdict as a short text.
    #[must_use]
    pub fn verdict(&self) -> String {
        match &self.violation {
            Some((what, steps)) => format!("violated in {} steps: {what}", steps.len()),
            None if !self.complete => "no violation, bounded".into(),
            None if !self.unreached.is_empty() => format!("never {}", self.unreached.join(", ")),
            None => "no violation, exhaustive".into(),
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (t, s) = (self.transitions, self.states);
        write!(f, "| {} | {s} | {t} | {:.1} | {} |", self.name, self.time.as_secs_f64(), self.verdict())
    }
}

/// Breadth first, until the first violation or the end of the scope.
pub fn check<M>(name: impl Into<String>, model: M, limits: Limits) -> Report
where
    M: Model + Clone + Send + Sync + 'static,
    M::State: Clone + PartialEq + Hash + fmt::Debug + Send + Sync,
    M::Action: Clone + PartialEq + fmt::Debug + Send + Sync,
{
    let begin = Instant::now();
    let goals: Vec<_> =
        model.properties().iter().filter(|p| !p.expectation.discovery_is_failure()).map(|p| p.name).collect();
    let checker = model
        .checker()
        .threads(limits.threads)
        .target_state_count(limits.transitions)
        .finish_when(HasDiscoveries::AnyFailures)
        .spawn_bfs()
        .join();
    let time = begin.elapsed();
    let mut violation: Option<(String, Vec<String>)> = None;
    let mut reached = Vec::new();
    for (what, path) in checker.discoveries() {
        if goals.contains(&what) {
            reached.push(what);
            continue;
        }
        let steps: Vec<_> = path.into_actions().iter().map(|a| format!("{a:?}")).collect();
        if violation.as_ref().is_none_or(|(_, s)| steps.len() < s.len()) {
            violation = Some((what.to_owned(), steps));
        }
    }
    let unreached = goals.iter().filter(|g| !reached.contains(g)).map(|g| (*g).to_owned());
    Report {
        name: name.into(),
        transitions: checker.state_count(),
        states: checker.unique_state_count(),
        time,
        complete: violation.is_some() || checker.state_count() < limits.transitions,
        unreached: if violation.is_some() { Vec::new() } else { unreached.collect() },
        violation,
    }
}
