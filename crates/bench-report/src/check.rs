//! Checks that invalidate or weaken numbers. Published reports failed each of these.
//!
//! | code | when | how bad |
//! |---|---|---|
//! | `cached-data` | phases read no more data than there is memory, and caches are not known to be bypassed | invalid if they are known not to be, else a warning |
//! | `errors` | operations failed | invalid above 1 %, else a warning |
//! | `client-throttled` | the client used more than 90 % of its CPU | invalid |
//! | `units` | rate, bytes and counts contradict each other (GB taken for GiB is 7 % off) | invalid |
//!
//! Must not depend on: how phases were measured.

use crate::{
    result::{Caveat, Phase, Severity},
    units,
};

/// What the numbers have to be judged against.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Facts {
    /// Bytes that phases read from.
    pub data_bytes: Option<u64>,
    /// Memory of the machines that serve them.
    pub memory_bytes: Option<u64>,
    /// Whether reads are known to pass by every cache (`true`) or not to (`false`).
    pub caches_bypassed: Option<bool>,
}

/// Share of failed operations above which a result must not be used.
pub const ERRORS: f64 = 0.01;
/// Share of the client's CPU above which it is the bottleneck.
pub const CLIENT: f64 = 0.9;
/// How far bytes per second, operations per second and bytes per operation may contradict. They
/// come from the same steps, so what is left is rounding; GB for GiB would be 7 %.
pub const UNITS: f64 = 0.03;

/// Looks at every phase. Each code is reported once, with the worst case.
pub fn check(phases: &[Phase], facts: &Facts) -> Vec<Caveat> {
    [cached(phases, facts), errors(phases), throttled(phases), contradiction(phases)]
        .into_iter()
        .flatten()
        .collect()
}

fn caveat(severity: Severity, code: &str, text: String) -> Option<Caveat> {
    Some(Caveat { severity, code: code.to_owned(), text })
}

fn cached(phases: &[Phase], facts: &Facts) -> Option<Caveat> {
    let reads = phases.iter().flat_map(|p| &p.operations).any(|o| ["GET", "read"].contains(&o.name.as_str()));
    let (data, memory) = (facts.data_bytes?, facts.memory_bytes?);
    if !reads || data > memory || facts.caches_bypassed == Some(true) {
        return None;
    }
    let severity = if facts.caches_bypassed == Some(false) { Severity::Invalid } else { Severity::Warning };
    let text = format!(
        "The data set ({}) is no larger than the memory that can cache it ({}), so reads may not have come from drives.",
        units::size(data as f64),
        units::size(memory as f64)
    );
    caveat(severity, "cached-data", text)
}

fn errors(phases: &[Phase]) -> Option<Caveat> {
    let share = |p: &Phase| p.errors() as f64 / (p.errors() + p.count()).max(1) as f64;
    let worst = phases.iter().max_by(|a, b| share(a).total_cmp(&share(b))).filter(|p| p.errors() > 0)?;
    let severity = if share(worst) > ERRORS { Severity::Invalid } else { Severity::Warning };
    let total: u64 = phases.iter().map(Phase::errors).sum();
    let text = format!(
        "{} operations failed, most of them in `{}`: {} there.",
        units::count(total as i64),
        worst.key(),
        units::percent(share(worst))
    );
    caveat(severity, "errors", text)
}

fn throttled(phases: &[Phase]) -> Option<Caveat> {
    let share = |p: &Phase| p.cost.as_ref().and_then(|c| c.client.as_ref()).map_or(0.0, |c| c.cpu_share);
    let worst = phases.iter().max_by(|a, b| share(a).total_cmp(&share(b))).filter(|p| share(p) > CLIENT)?;
    let text = format!(
        "The client used {} of its CPU in `{}`: the client limited the rate, not the server.",
        units::percent(share(worst)),
        worst.key()
    );
    caveat(Severity::Invalid, "client-throttled", text)
}

fn contradiction(phases: &[Phase]) -> Option<Caveat> {
    for phase in phases {
        for o in phase.operations.iter().filter(|o| o.count > 0 && o.bytes > 0 && o.rate_per_s.mean > 0.0) {
            let size = o.bytes as f64 / o.count as f64;
            let shown = o.bytes_per_s.mean / o.rate_per_s.mean;
            if (shown / size - 1.0).abs() > UNITS {
                let text = format!(
                    "{} of `{}`: {} and {} give {} for each operation, but {} were moved: units are mixed up.",
                    o.name,
                    phase.key(),
                    units::bytes_per_s(o.bytes_per_s.mean),
                    units::per_s(o.rate_per_s.mean),
                    units::size(shown),
                    units::size(size)
                );
                return caveat(Severity::Invalid, "units", text);
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    fn codes(phases: &[Phase], facts: &Facts) -> Vec<(String, Severity)> {
        check(phases, facts).into_iter().map(|c| (c.code, c.severity)).collect()
    }

    #[test]
    fn each_check_is_triggered() {
        let run = fixture::run("a", "2026-01-01T00:00:00Z", 100, 20);
        let facts = Facts { data_bytes: Some(1 << 30), memory_bytes: Some(8 << 30), caches_bypassed: None };
        assert_eq!(codes(&run.phases, &Facts::default()), []);
        assert_eq!(codes(&run.phases, &facts), [("cached-data".to_owned(), Severity::Warning)]);
        let known = Facts { caches_bypassed: Some(false), ..facts };
        assert_eq!(codes(&run.phases, &known), [("cached-data".to_owned(), Severity::Invalid)]);
        assert_eq!(codes(&run.phases, &Facts { caches_bypassed: Some(true), ..facts }), []);
        assert_eq!(codes(&run.phases, &Facts { data_bytes: Some(9 << 30), ..facts }), []);

        let mut failing = run.clone();
        failing.phases[0].operations[0].errors.insert("SlowDown".into(), 1);
        assert_eq!(codes(&failing.phases, &Facts::default()), [("errors".to_owned(), Severity::Warning)]);
        failing.phases[0].operations[0].errors.insert("SlowDown".into(), 500);
        assert_eq!(codes(&failing.phases, &Facts::default()), [("errors".to_owned(), Severity::Invalid)]);

        let mut mixed = run;
        // GiB/s written where GB/s belong.
        mixed.phases[0].operations[0].bytes_per_s.mean /= 1.0737;
        assert_eq!(codes(&mixed.phases, &Facts::default()), [("units".to_owned(), Severity::Invalid)]);
    }
}
