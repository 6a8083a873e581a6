//! Merges several results of one measurement: results of agents at the same time are added, results of other
//! times become further repetitions.
//!
//! Invariants: counts, bytes, errors and histograms are sums; a rate is computed only over the time in which
//! all took part (a sum of averages over different times is too high); a caveat states that time.

use crate::{
    error::Error,
    import::instant,
    result::{Caveat, Cost, Load, Operation, Phase, ProcessCost, Run, Severity, Timeline, settings},
    stat, units,
};

/// Settings that may differ between runs of one measurement.
const OWN: [&str; 9] =
    ["name", "out", "output", "agent", "agents", "seed", "prefix", "access-key", "credentials"];

/// Least share of the shorter phase that must lie within the longer for both to count as one.
const OVERLAP: f64 = 0.5;

/// Puts runs together. Different modes or settings are refused, or with `force` kept as a caveat.
pub fn merge(runs: &[Run], force: bool) -> Result<Run, Error> {
    let [first, rest @ ..] = runs else { return Err(Error::format("nothing to merge")) };
    if rest.is_empty() {
        return Err(Error::format("only one result: nothing to merge"));
    }
    let mut differ: Vec<String> = Vec::new();
    for run in rest {
        differ.extend(differences(first, run).into_iter().map(|d| format!("`{}`: {d}", run.name)));
    }
    if !differ.is_empty() && !force {
        return Err(Error::Different { what: format!("the results differ in {}", differ.join("; ")) });
    }
    let mut all = first.clone();
    if !differ.is_empty() {
        all.caveats.push(caveat(
            Severity::Warning,
            "merged-different",
            format!("Merged by force although {}.", differ.join("; ")),
        ));
    }
    let starts: Vec<Option<f64>> =
        runs.iter().map(|r| instant(&r.started).map(|ns| ns as f64 / 1e9)).collect();
    let mut groups: Vec<Group> = Vec::new();
    for (i, run) in runs.iter().enumerate() {
        // Without a start the overlap is unknown: each run is its own repetition.
        let start = starts[i].unwrap_or(i as f64 * 1e9);
        for phase in &run.phases {
            let at = start + phase.at_s;
            let fits = |g: &&mut Group| g.fits(i, phase, at);
            match groups.iter_mut().find(fits) {
                Some(group) => group.members.push((i, at, phase)),
                None => groups.push(Group { members: vec![(i, at, phase)] }),
            }
        }
        if i > 0 {
            all.environment
                .extend(run.environment.iter().filter(|h| !first.environment.contains(h)).cloned());
            let new = run.caveats.iter().filter(|c| !all.caveats.contains(c)).cloned().collect::<Vec<_>>();
            all.caveats.extend(new);
        }
    }
    let began = starts.iter().flatten().copied().fold(f64::MAX, f64::min);
    if let Some(i) = starts.iter().position(|s| *s == Some(began)) {
        runs[i].started.clone_into(&mut all.started);
    }
    groups.sort_by(|a, b| a.start().total_cmp(&b.start()));
    all.phases = Vec::new();
    for group in &groups {
        let (mut phase, said) = group.join();
        phase.at_s = if began < f64::MAX { (group.start() - began).max(0.0) } else { phase.at_s };
        phase.repetition = 1 + all.phases.iter().filter(|p: &&Phase| p.key() == phase.key()).count() as u32;
        all.phases.push(phase);
        all.caveats.extend(said);
    }
    all.name = format!("{} (merged from {})", first.name, runs.len());
    all.caveats.push(caveat(
        Severity::Note,
        "merged",
        format!(
            "Merged from {} results: {}.",
            runs.len(),
            runs.iter().map(|r| r.name.as_str()).collect::<Vec<_>>().join(", ")
        ),
    ));
    Ok(all)
}

fn caveat(severity: Severity, code: &str, text: String) -> Caveat {
    Caveat { severity, code: code.to_owned(), text }
}

/// The differences in mode and settings between two runs that should have the same ones, in words.
pub fn differences(a: &Run, b: &Run) -> Vec<String> {
    let mut differ = Vec::new();
    if a.mode != b.mode {
        differ.push(format!("mode {} and {}", a.mode, b.mode));
    }
    let mut names: Vec<&String> =
        a.setup.keys().chain(b.setup.keys()).filter(|n| !OWN.contains(&n.as_str())).collect();
    names.sort();
    names.dedup();
    let shown = |run: &Run, name: &String| {
        run.setup.get(name).map_or_else(|| "not set".to_owned(), |v| settings::value(name, v))
    };
    differ.extend(
        names
            .into_iter()
            .filter(|n| a.setup.get(*n) != b.setup.get(*n))
            .map(|n| format!("{n} {} and {}", shown(a, n), shown(b, n))),
    );
    differ
}

/// Phases that were one measurement, at one time.
struct Group<'a> {
    /// Number of the run, its start (seconds since 1970), and the phase.
    members: Vec<(usize, f64, &'a Phase)>,
}

impl Group<'_> {
    fn start(&self) -> f64 {
        self.members.iter().map(|m| m.1).fold(f64::MAX, f64::min)
    }

    /// Whether a phase of run `run` that began at `at` belongs to the group.
    fn fits(&self, run: usize, phase: &Phase, at: f64) -> bool {
        let kind = |p: &Phase| (p.name.clone(), p.state.clone(), std::mem::discriminant(&p.load));
        self.members.iter().all(|&(other, start, p)| {
            let (end, other_end) = (at + whole(phase), start + whole(p));
            let shared = end.min(other_end) - at.max(start);
            other != run && kind(p) == kind(phase) && shared >= OVERLAP * whole(phase).min(whole(p))
        })
    }

    fn join(&self) -> (Phase, Option<Caveat>) {
        let (_, first_at, first) = self.members[0];
        let mut phase = first.clone();
        if self.members.len() == 1 {
            return (phase, None);
        }
        let start = self.start();
        // When all had warmed up, and until the first one ended; from `start`.
        let from = self.members.iter().map(|m| m.1 + m.2.warmup_s - start).fold(0.0, f64::max);
        let until = self.members.iter().map(|m| m.1 + whole(m.2) - start).fold(f64::MAX, f64::min);
        for operation in &mut phase.operations {
            let own = std::mem::take(&mut operation.timeline);
            operation.timeline.add(&own, first_at - start);
        }
        for &(_, at, other) in &self.members[1..] {
            phase.load = both(&phase.load, &other.load);
            phase.cost = cost(phase.cost.take(), other.cost.as_ref());
            for operation in &other.operations {
                match phase.operations.iter_mut().find(|o| o.name == operation.name) {
                    Some(to) => add(to, operation, at - start),
                    None => {
                        let mut new = operation.clone();
                        new.timeline = Timeline::default();
                        new.timeline.add(&operation.timeline, at - start);
                        phase.operations.push(new);
                    }
                }
            }
            for (name, value) in &other.values {
                phase.values.entry(name.clone()).or_insert(*value);
            }
        }
        phase.warmup_s = from;
        phase.seconds = (until - from).max(0.0);
        for operation in &mut phase.operations {
            rates(operation, from, until);
        }
        let longest = self.members.iter().map(|m| m.2.seconds).fold(0.0, f64::max);
        let said = format!(
            "`{}`: {} results at the same time, all of them during {} of {}; rates are of that time, counts and times of all.",
            phase.name,
            self.members.len(),
            units::seconds(phase.seconds),
            units::seconds(longest),
        );
        (phase, Some(caveat(Severity::Note, "overlap", said)))
    }
}

fn whole(phase: &Phase) -> f64 {
    phase.warmup_s + phase.seconds
}

fn both(a: &Load, b: &Load) -> Load {
    match (a, b) {
        (Load::Closed { concurrency: x }, Load::Closed { concurrency: y }) => {
            Load::Closed { concurrency: x + y }
        }
        (Load::Open { rate_per_s: x, arrivals, limit: l }, Load::Open { rate_per_s: y, limit: m, .. }) => {
            Load::Open { rate_per_s: x + y, arrivals: arrivals.clone(), limit: l + m }
        }
        _ => a.clone(),
    }
}

fn add(to: &mut Operation, from: &Operation, later_s: f64) {
    to.count += from.count;
    to.bytes += from.bytes;
    to.verified_bytes += from.verified_bytes;
    for (kind, n) in &from.errors {
        *to.errors.entry(kind.clone()).or_insert(0) += n;
    }
    to.service.merge(&from.service);
    for (mine, other) in [(&mut to.response, &from.response), (&mut to.first_byte, &from.first_byte)] {
        match (mine.as_mut(), other) {
            (Some(mine), Some(other)) => mine.merge(other),
            (None, Some(other)) => *mine = Some(other.clone()),
            _ => {}
        }
    }
    to.timeline.add(&from.timeline, later_s);
    to.rate_per_s.mean += from.rate_per_s.mean;
    to.bytes_per_s.mean += from.bytes_per_s.mean;
    for (name, share) in &from.by {
        let mine = to.by.entry(name.clone()).or_default();
        mine.count += share.count;
        mine.bytes += share.bytes;
        mine.errors += share.errors;
        mine.service.merge(&share.service);
    }
}

/// Rates from the steps in which all took part. Without a timeline the sums of [`add`] stay.
fn rates(operation: &mut Operation, from: f64, until: f64) {
    let step = operation.timeline.step_s;
    if step <= 0.0 || operation.timeline.points.is_empty() {
        operation.rate_per_s = stat::estimate(&[operation.rate_per_s.mean]);
        operation.bytes_per_s = stat::estimate(&[operation.bytes_per_s.mean]);
        return;
    }
    let points = &operation.timeline.points;
    let first = ((from / step - 1e-9).ceil().max(0.0) as usize).min(points.len());
    let end = ((until / step + 1e-9).floor().max(0.0) as usize).clamp(first, points.len());
    let within = &points[first..end];
    if within.is_empty() {
        return;
    }
    let per_s =
        |of: fn(&crate::result::Point) -> u64| within.iter().map(|p| of(p) as f64 / step).collect::<Vec<_>>();
    operation.rate_per_s = stat::batched(&per_s(|p| p.count), 20);
    operation.bytes_per_s = stat::batched(&per_s(|p| p.bytes), 20);
}

fn cost(a: Option<Cost>, b: Option<&Cost>) -> Option<Cost> {
    let (Some(a), Some(b)) = (a.clone(), b) else { return a.or_else(|| b.cloned()) };
    let sum = |x: Option<ProcessCost>, y: &Option<ProcessCost>| match (x, y) {
        (Some(x), Some(y)) => Some(ProcessCost {
            user_s: x.user_s + y.user_s,
            system_s: x.system_s + y.system_s,
            cpu_share: x.cpu_share.max(y.cpu_share),
            peak_bytes: x.peak_bytes.max(y.peak_bytes),
        }),
        (x, y) => x.or_else(|| y.clone()),
    };
    // All looked at the same server: its cost is one, and no ratio of one agent's work holds.
    Some(Cost { client: sum(a.client, &b.client), server: a.server, ..Cost::default() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn concurrent_agents_are_added() {
        let a = fixture::run("a", "2026-01-01T00:00:00Z", 100, 20);
        let b = fixture::run("b", "2026-01-01T00:00:05Z", 50, 20);
        let all = merge(&[a.clone(), b.clone()], false).unwrap();
        let [phase] = &all.phases[..] else { panic!("{} phases", all.phases.len()) };
        assert_eq!((phase.load.text(), phase.seconds), ("16 in flight".to_owned(), 15.0));
        let get = &phase.operations[0];
        assert_eq!(get.count, 100 * 20 + 50 * 20);
        assert_eq!(
            get.service.count,
            a.phases[0].operations[0].service.count + b.phases[0].operations[0].service.count
        );
        assert_eq!(get.timeline.points.len(), 25);
        assert!((get.rate_per_s.mean - 150.0).abs() < 1e-9, "{:?}", get.rate_per_s);
        let said = all.caveats.iter().find(|c| c.code == "overlap").unwrap();
        assert!(said.text.contains("15 s of 20 s"), "{}", said.text);
    }

    #[test]
    fn runs_at_other_times_become_repetitions() {
        let a = fixture::run("a", "2026-01-01T00:00:00Z", 100, 20);
        let b = fixture::run("b", "2026-01-01T00:10:00Z", 50, 20);
        let all = merge(&[b, a], false).unwrap();
        assert_eq!(
            all.phases.iter().map(|p| (p.repetition, p.at_s)).collect::<Vec<_>>(),
            [(1, 0.0), (2, 600.0)]
        );
        assert_eq!(all.phases[0].operations[0].rate_per_s.mean, 100.0);
        assert_eq!(all.started, "2026-01-01T00:00:00Z");
    }

    #[test]
    fn different_measurements_are_refused() {
        let a = fixture::run("a", "2026-01-01T00:00:00Z", 100, 20);
        let mut b = a.clone();
        b.setup.insert("size".into(), "4KiB".into());
        b.setup.insert("seed".into(), 7.into());
        let error = merge(&[a.clone(), b.clone()], false).unwrap_err().to_string();
        assert!(error.contains("size 1MiB and 4KiB") && !error.contains("seed"), "{error}");
        let forced = merge(&[a.clone(), b], true).unwrap();
        assert!(
            forced.caveats.iter().any(|c| c.code == "merged-different" && c.severity == Severity::Warning)
        );
        assert!(merge(&[a], false).is_err() && merge(&[], false).is_err());
    }
}
