//! The spec sheet of arrays: for each phase in each state what was published, what the model predicts, and what was measured, all at 1:1.
//!
//! Published figures are those of the white paper that the process is from (rows P12 to P28 of docs/bench-plan.md): a GPU RAID 5 of 7+1 in
//! each of six servers on an OpenFlex Data24. Predicted is what the drives and ports of that enclosure allow an array of this shape, without
//! limits of any engine (formulas M1 to M4).
//!
//! Invariants: a published figure stands only beside a set-up of the published shape; a figure that nobody has published or that no formula
//! gives is absent.
//!
//! Must not depend on: how phases were measured.

use serde::Serialize;

use crate::{
    plan::{Plan, Profile, Random4k},
    result::{Phase, averaged},
    stat,
};

/// Members of a published group, groups and drives.
const PUBLISHED_SHAPE: (usize, usize, usize) = (8, 6, 24);
/// Published: (state, phase, per second; bytes for sequential phases).
const PUBLISHED: [(&str, &str, f64); 13] = [
    ("baseline", "seq-read", 71.5e9),
    // 1.65 GB/s for each of 24 drives.
    ("baseline", "seq-write", 39.6e9),
    ("baseline", "rand-read", 15.3e6),
    ("baseline", "rand-mixed", 12.0e6),
    ("baseline", "rand-write", 6.26e6),
    ("nominal", "seq-read", 61.4e9),
    ("nominal", "seq-write", 30.3e9),
    ("nominal", "rand-read", 15.3e6),
    ("nominal", "rand-mixed", 6.17e6),
    ("nominal", "rand-write", 2.60e6),
    ("down", "rand-read", 8.57e6),
    ("down", "rand-mixed", 4.56e6),
    ("down", "rand-write", 2.38e6),
];
/// Published: a namespace of 1.6 TB rebuilt in 85 minutes, most of them under load.
const PUBLISHED_REBUILD: f64 = 1.6e12 / (85.0 * 60.0);

/// What the arrays are.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// N of the scale 1:N, by which measured rates are multiplied.
    pub scale: f64,
    /// Drives.
    pub drives: usize,
    /// Ports that are used.
    pub ports: usize,
    /// Groups.
    pub groups: usize,
    /// Members of a group.
    pub members: usize,
    /// Of those, how many may fail.
    pub parity: usize,
    /// The drives and ports have the rates of the published enclosure.
    pub published_rates: bool,
}

/// A line of the sheet.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Row {
    /// `baseline`, `nominal`, `down`, `rebuild`, `after`.
    pub state: String,
    /// The phase; `rebuild` for the rate of the rebuild itself.
    pub phase: String,
    /// Figures are bytes per second; else operations per second.
    pub bytes: bool,
    /// Published, at 1:1.
    pub published: Option<f64>,
    /// Predicted, at 1:1.
    pub predicted: Option<f64>,
    /// Measured, multiplied by the scale: the mean of the repetitions.
    pub measured: f64,
    /// The coefficient of variation of the repetitions.
    pub cov: Option<f64>,
    /// Measured over that of the baseline.
    pub of_baseline: Option<f64>,
    /// Operations per second and per cent of one core of client and arrays together, not multiplied by the scale.
    pub per_cpu_percent: Option<f64>,
    /// Reads of drives per operation.
    pub drive_reads: Option<f64>,
    /// Writes of drives per operation.
    pub drive_writes: Option<f64>,
}

/// The lines, in the order of the phases.
#[must_use]
pub fn rows(phases: &[Phase], shape: &Shape) -> Vec<Row> {
    let plan = shape.published_rates.then(|| plan(shape)).flatten();
    let of_published = shape.published_rates
        && (shape.members, shape.groups, shape.drives) == PUBLISHED_SHAPE
        && shape.parity == 1;
    let mut out: Vec<Row> = Vec::new();
    for phase in averaged(phases) {
        let state = phase.state.clone().unwrap_or_default();
        if out.iter().any(|r| r.state == state && r.phase == phase.name) {
            continue;
        }
        let same: Vec<&Phase> =
            averaged(phases).filter(|p| p.state == phase.state && p.name == phase.name).collect();
        let mean = |of: &dyn Fn(&Phase) -> Option<f64>| {
            stat::mean(&same.iter().filter_map(|p| of(p)).collect::<Vec<f64>>())
        };
        let bytes = phase.name.starts_with("seq");
        let rate = |p: &Phase| if bytes { p.bytes_per_s() } else { p.rate_per_s() };
        let rates: Vec<f64> = same.iter().map(|p| rate(p)).collect();
        let measured = stat::mean(&rates).unwrap_or(0.0) * shape.scale;
        let baseline =
            out.iter().find(|r| r.state == "baseline" && r.phase == phase.name).map(|r| r.measured);
        out.push(Row {
            published: published(&state, &phase.name).filter(|_| of_published),
            predicted: plan.as_ref().and_then(|p| predicted(p, shape, &state, &phase.name)),
            measured,
            cov: stat::cov(&rates),
            of_baseline: baseline.filter(|b| *b > 0.0 && state != "baseline").map(|b| measured / b),
            per_cpu_percent: mean(&per_cpu_percent),
            drive_reads: mean(&|p| p.values.get("drive_reads_per_operation").copied()),
            drive_writes: mean(&|p| p.values.get("drive_writes_per_operation").copied()),
            phase: phase.name.clone(),
            state,
            bytes,
        });
    }
    out.extend(rebuild(phases, shape, of_published));
    out
}

fn published(state: &str, phase: &str) -> Option<f64> {
    let row = PUBLISHED.iter().find(|(s, p, _)| *s == state && phase.starts_with(p));
    row.map(|(_, _, figure)| *figure)
}

/// The published profile with the shape of these arrays, without what limits the published engine.
fn plan(shape: &Shape) -> Option<Plan> {
    let mut profile = Profile::parse(Profile::embedded_text("data24-supremeraid")?).ok()?;
    profile.drives.count = shape.drives as u32;
    // What its reads of 4 KiB allow: the published rate of sequential reads is that of the ports.
    profile.drives.read = profile.drives.random.as_ref().map(|r| 4096.0 * 1e6 / r.read_us)?;
    if let Some(ports) = &mut profile.ports {
        ports.count = shape.ports as u32;
    }
    profile.code.k = (shape.members - shape.parity) as u32;
    profile.code.m = shape.parity as u32;
    (profile.code.pipeline_4k, profile.code.write_efficiency) = (false, None);
    Some(Plan::of(&profile))
}

fn predicted(plan: &Plan, shape: &Shape, state: &str, phase: &str) -> Option<f64> {
    let lowest = |side: &crate::plan::Direction| side.ceilings.first().map(|c| c.bytes_per_s);
    let data = (shape.members - shape.parity) as f64 / shape.members as f64;
    let random = |state: &str, pattern: &str| {
        let is = |r: &&Random4k| r.state == state && r.pattern == pattern;
        plan.random_4k.iter().find(is).map(|r| r.per_s)
    };
    let of_random = ["read", "mixed", "write"].into_iter().find(|p| phase.starts_with(&format!("rand-{p}")));
    match (state, phase, of_random) {
        ("baseline", p, _) if p.starts_with("seq-write") => lowest(&plan.put).map(|rate| rate / data),
        ("baseline" | "nominal" | "after", p, _) if p.starts_with("seq-read") => lowest(&plan.get),
        ("nominal" | "after", p, _) if p.starts_with("seq-write") => lowest(&plan.put),
        ("baseline", _, Some(pattern)) => random("no parity", pattern),
        ("nominal" | "after", _, Some(pattern)) => random("nominal", pattern),
        ("down", _, Some(pattern)) => random("one down", pattern),
        _ => None,
    }
}

/// Operations per second and per cent of one core, of client and arrays.
fn per_cpu_percent(phase: &Phase) -> Option<f64> {
    let cost = phase.cost.as_ref()?;
    let all = [&cost.client, &cost.server].into_iter().flatten();
    let used: f64 = all.map(|c| c.user_s + c.system_s).sum();
    let work = phase.rate_per_s() / (used / phase.seconds * 100.0);
    work.is_finite().then_some(work)
}

/// The rebuild itself: bytes of one drive per second.
fn rebuild(phases: &[Phase], shape: &Shape, of_published: bool) -> Option<Row> {
    let of = |name: &str| phases.iter().filter_map(|p| p.values.get(name).copied()).reduce(f64::max);
    let (bytes, seconds) = (of("rebuild_bytes")?, of("rebuild_seconds")?);
    Some(Row {
        state: "rebuild".to_owned(),
        phase: "rebuild".to_owned(),
        bytes: true,
        published: of_published.then_some(PUBLISHED_REBUILD),
        measured: bytes / shape.groups.max(1) as f64 / seconds.max(1e-9) * shape.scale,
        ..Row::default()
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::result::{Cost, Estimate, Load, Operation, ProcessCost};

    fn phase(state: &str, name: &str, rate: f64) -> Phase {
        let size = if name.starts_with("seq") { 131_072.0 } else { 4096.0 };
        let operation = Operation {
            name: "read".into(),
            rate_per_s: Estimate { mean: rate, ..Estimate::default() },
            bytes_per_s: Estimate { mean: rate * size, ..Estimate::default() },
            ..Operation::default()
        };
        let used = |user_s| Some(ProcessCost { user_s, ..ProcessCost::default() });
        Phase {
            name: name.into(),
            state: Some(state.into()),
            repetition: 1,
            load: Load::Closed { concurrency: 1 },
            at_s: 0.0,
            warmup_s: 0.0,
            seconds: 10.0,
            stopped_by: "time".into(),
            operations: vec![operation],
            cost: Some(Cost { client: used(1.0), server: used(4.0), ..Cost::default() }),
            values: BTreeMap::from([("drive_reads_per_operation".to_owned(), 2.0)]),
        }
    }

    const SHAPE: Shape = Shape {
        scale: 1000.0,
        drives: 24,
        ports: 6,
        groups: 6,
        members: 8,
        parity: 1,
        published_rates: true,
    };

    #[test]
    fn published_predicted_and_measured_stand_side_by_side() {
        let mut phases = vec![
            phase("baseline", "rand-write-4KiB", 6000.0),
            phase("nominal", "rand-write-4KiB", 1900.0),
            phase("nominal", "rand-write-4KiB", 2100.0),
            phase("down", "rand-mixed-70-4KiB", 4000.0),
            phase("nominal", "seq-write-128KiB", 200.0),
            phase("rebuild", "seq-read-128KiB", 100.0),
        ];
        phases[5].values.extend([("rebuild_bytes".to_owned(), 6e8), ("rebuild_seconds".to_owned(), 500.0)]);
        let rows = rows(&phases, &SHAPE);
        let nominal = &rows[1];
        assert_eq!((nominal.published, nominal.measured), (Some(2.6e6), 2e6));
        assert!((nominal.predicted.unwrap() / 2.377e6 - 1.0).abs() < 0.001);
        assert!((nominal.of_baseline.unwrap() - 1.0 / 3.0).abs() < 1e-9 && nominal.cov.unwrap() > 0.05);
        // Half a core, so 50 %.
        assert_eq!((nominal.per_cpu_percent, nominal.drive_reads), (Some(40.0), Some(2.0)));
        assert_eq!((rows[2].published, rows[2].of_baseline), (Some(4.56e6), None));
        let written = &rows[3];
        assert_eq!((written.published, written.bytes), (Some(30.3e9), true));
        assert!((written.predicted.unwrap() / 34.65e9 - 1.0).abs() < 0.001, "{written:?}");
        assert_eq!((rows[4].published, rows[4].predicted), (None, None));
        let rebuilt = rows.last().unwrap();
        assert_eq!((rebuilt.phase.as_str(), rebuilt.measured), ("rebuild", 2e8));
        assert!((rebuilt.published.unwrap() / 313.7e6 - 1.0).abs() < 0.001);
    }

    #[test]
    fn figures_of_another_shape_are_not_published() {
        let shape = Shape { members: 4, groups: 1, drives: 4, ports: 2, parity: 2, ..SHAPE };
        let phases = [phase("nominal", "rand-read-4KiB", 1.0), phase("down", "rand-read-4KiB", 1.0)];
        let found = rows(&phases, &shape);
        assert_eq!((found[0].published, found[1].published), (None, None));
        assert!(found[0].predicted.is_some() && found[1].predicted.is_none());
        let other = Shape { published_rates: false, ..SHAPE };
        assert!(rows(&phases, &other).iter().all(|r| r.predicted.is_none() && r.published.is_none()));
    }
}
