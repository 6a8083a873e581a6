//! Differences between two results, and their statistical confidence.
//!
//! * Throughput: Mann-Whitney and a bootstrap interval of the ratio, over repetitions where both
//!   results have at least [`REPETITIONS`], else over batches of the timeline (at most [`BATCHES`],
//!   so that correlation between neighbours does not feign confidence).
//! * Percentiles: over repetitions likewise; of a single run from the order statistics of the
//!   histogram, an interval that says how well this run knows its own percentile.
//! * Errors: the normal test of two proportions.
//! * CPU cost: over repetitions; of single runs it is shown without a judgement.
//!
//! Invariants: a regression must be beyond the limit *and* significant at 5 %, over repetitions; a difference
//! beyond the limit that is not significant, or known only from single runs, is called uncertain: a run shows
//! its own variation, but not the variation between runs.

use serde::Serialize;

use crate::{
    merge::differences,
    result::{Histogram, Operation, Phase, Run, Severity},
    stat::{self, Interval, distribution::normal_tail},
};

/// Fewest repetitions in both results to compare these instead of the timeline: with four and four
/// the smallest possible p of Mann-Whitney is 0.029.
pub const REPETITIONS: usize = 4;
/// Most batches a timeline is cut into.
pub const BATCHES: usize = 20;
/// A difference with a smaller probability under "nothing changed" is significant.
pub const SIGNIFICANT: f64 = 0.05;
/// Growth of the share of failed operations that is a regression.
pub const ERRORS: f64 = 0.001;

/// The judgement of one number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Worse by more than the limit, significantly.
    Regression,
    /// Better by more than the limit, significantly.
    Improvement,
    /// Changed by no more than the limit.
    WithinLimit,
    /// Beyond the limit, but it may be chance, or comes from single runs.
    Uncertain,
}

/// One compared number.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// Which phase ([`Phase::key`]).
    pub phase: String,
    /// Which operation.
    pub operation: String,
    /// `bytes_per_s`, `rate_per_s`, `p50_ns`, `p99_ns`, `error_share`, `server_us_per_op` ...
    pub metric: String,
    /// Before.
    pub before: f64,
    /// After.
    pub after: f64,
    /// after / before with its 95 % interval, where it could be found.
    pub ratio: Option<(f64, f64, f64)>,
    /// Probability of such a difference by chance, where a test was done.
    pub p: Option<f64>,
    /// How it was tested, with the numbers of values.
    pub method: String,
    /// The judgement.
    pub verdict: Verdict,
}

/// A comparison.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Comparison {
    /// Names of both results.
    pub names: (String, String),
    /// The limit, as a share.
    pub limit: f64,
    /// Every number that both have.
    pub rows: Vec<Row>,
    /// Phases that only the first has.
    pub only_before: Vec<String>,
    /// Phases that only the second has.
    pub only_after: Vec<String>,
    /// In what the settings differ.
    pub setup: Vec<String>,
    /// Warnings of either result, in words.
    pub warnings: Vec<String>,
    /// Whether either result must not be used.
    pub invalid: bool,
}

impl Comparison {
    /// Numbers that are worse beyond the limit, significantly.
    pub fn regressions(&self) -> impl Iterator<Item = &Row> {
        self.rows.iter().filter(|r| r.verdict == Verdict::Regression)
    }
}

/// Compares two results; `limit` is the share by which a number may get worse (0.05 for 5 %). The
/// same results and seed give the same answer.
pub fn compare(before: &Run, after: &Run, limit: f64, seed: u64) -> Comparison {
    let mut to = Comparison {
        names: (before.name.clone(), after.name.clone()),
        limit,
        setup: differences(before, after),
        ..Comparison::default()
    };
    for (run, which) in [(before, "before"), (after, "after")] {
        let bad = run.caveats.iter().filter(|c| c.severity > Severity::Note);
        to.warnings.extend(bad.map(|c| format!("{which}: {}", c.text)));
        to.invalid |= run.caveats.iter().any(|c| c.severity == Severity::Invalid);
    }
    let (old, new) = (groups(before), groups(after));
    let mut used = vec![false; new.len()];
    for a in &old {
        let same = |b: &&(usize, &Group)| b.1.key == a.key;
        // A phase that is the only one of its name is compared even under another load.
        let alone = |g: &Group, all: &[Group]| all.iter().filter(|o| o.kind == g.kind).count() == 1;
        let alike = |b: &&(usize, &Group)| b.1.kind == a.kind && alone(a, &old) && alone(b.1, &new);
        let candidates: Vec<(usize, &Group)> = new.iter().enumerate().collect();
        match candidates.iter().find(same).or_else(|| candidates.iter().find(alike)) {
            Some(&(i, b)) => {
                used[i] = true;
                let name = if a.key == b.key { a.key.clone() } else { format!("{} → {}", a.key, b.key) };
                phases(
                    &name,
                    &a.phases,
                    &b.phases,
                    &mut Judge { limit, seed, single: false, rows: &mut to.rows },
                );
            }
            None => to.only_before.push(a.key.clone()),
        }
    }
    to.only_after = new.iter().zip(used).filter(|(_, used)| !used).map(|(g, _)| g.key.clone()).collect();
    to
}

/// Repetitions of one phase.
struct Group<'a> {
    key: String,
    kind: (String, Option<String>),
    phases: Vec<&'a Phase>,
}

fn groups(run: &Run) -> Vec<Group<'_>> {
    let mut all: Vec<Group> = Vec::new();
    for phase in &run.phases {
        let key = phase.key();
        match all.iter_mut().find(|g| g.key == key) {
            Some(group) => group.phases.push(phase),
            None => {
                all.push(Group { key, kind: (phase.name.clone(), phase.state.clone()), phases: vec![phase] })
            }
        }
    }
    all
}

fn phases(name: &str, a: &[&Phase], b: &[&Phase], judge: &mut Judge) {
    let mut operations: Vec<&str> = a.iter().flat_map(|p| &p.operations).map(|o| o.name.as_str()).collect();
    operations.sort_unstable();
    operations.dedup();
    for operation in operations {
        let of = |phases: &[&Phase]| -> Vec<(f64, Operation)> {
            let found = phases.iter().flat_map(|p| p.operations.iter().map(|o| (p.warmup_s, o.clone())));
            found.filter(|(_, o)| o.name == operation).collect()
        };
        let (x, y) = (of(a), of(b));
        if y.is_empty() {
            continue;
        }
        judge.operation(name, operation, &x, &y);
    }
    let cost = |phases: &[&Phase], of: fn(&crate::result::Cost) -> Option<f64>| -> Vec<f64> {
        phases.iter().filter_map(|p| p.cost.as_ref().and_then(of)).collect()
    };
    type Of = fn(&crate::result::Cost) -> Option<f64>;
    let costs: [(&str, Of); 3] = [
        ("server_s_per_gib", |c| c.server_s_per_gib),
        ("server_us_per_op", |c| c.server_us_per_op),
        ("client_us_per_op", |c| c.client_us_per_op),
    ];
    for (metric, of) in costs {
        let (x, y) = (cost(a, of), cost(b, of));
        if !x.is_empty() && !y.is_empty() {
            judge.samples([name, "all", metric], &x, &y, "repetitions", true);
        }
    }
}

struct Judge<'a> {
    limit: f64,
    seed: u64,
    /// The numbers in hand come from single runs.
    single: bool,
    rows: &'a mut Vec<Row>,
}

impl Judge<'_> {
    fn operation(&mut self, phase: &str, name: &str, a: &[(f64, Operation)], b: &[(f64, Operation)]) {
        let repeated = a.len() >= REPETITIONS && b.len() >= REPETITIONS;
        self.single = !repeated;
        let moves_bytes = a.iter().chain(b).all(|(_, o)| o.bytes_per_s.mean > 0.0);
        for metric in if moves_bytes { &["bytes_per_s", "rate_per_s"][..] } else { &["rate_per_s"][..] } {
            let bytes = *metric == "bytes_per_s";
            let means = |all: &[(f64, Operation)]| -> Vec<f64> {
                all.iter().map(|(_, o)| if bytes { o.bytes_per_s.mean } else { o.rate_per_s.mean }).collect()
            };
            let steps = |all: &[(f64, Operation)]| -> Vec<f64> {
                let each = BATCHES.div_ceil(all.len());
                all.iter()
                    .flat_map(|(warmup, o)| {
                        let steps = if bytes {
                            o.timeline.bytes_per_s(*warmup)
                        } else {
                            o.timeline.rates_per_s(*warmup)
                        };
                        stat::batch_means(&steps, each)
                    })
                    .collect()
            };
            let (x, y) = (means(a), means(b));
            let (s, t) = (steps(a), steps(b));
            if repeated || s.len() < REPETITIONS || t.len() < REPETITIONS {
                self.samples([phase, name, metric], &x, &y, "repetitions", false);
            } else {
                self.rated([phase, name, metric], (&x, &y), (&s, &t));
            }
        }
        for (metric, q) in [("p50_ns", 0.5), ("p99_ns", 0.99), ("p99.9_ns", 0.999)] {
            let times = |all: &[(f64, Operation)]| -> Vec<Histogram> {
                all.iter().map(|(_, o)| o.response.as_ref().unwrap_or(&o.service).clone()).collect()
            };
            let (x, y) = (times(a), times(b));
            if repeated {
                let of = |all: &[Histogram]| all.iter().map(|h| h.quantile(q) as f64).collect::<Vec<_>>();
                self.samples([phase, name, metric], &of(&x), &of(&y), "repetitions", true);
            } else {
                self.percentile([phase, name, metric], &x, &y, q);
            }
        }
        self.errors(phase, name, a, b);
    }

    /// Compares values that are independent of each other.
    fn samples(&mut self, names: [&str; 3], a: &[f64], b: &[f64], what: &str, less_is_better: bool) {
        let (Some(before), Some(after)) = (stat::mean(a), stat::mean(b)) else { return };
        let test =
            (a.len() >= REPETITIONS && b.len() >= REPETITIONS).then(|| stat::mann_whitney(a, b)).flatten();
        let ratio = test.and_then(|_| stat::ratio(a, b, self.seed));
        let method = match test {
            Some(_) => format!("Mann-Whitney, {} and {} {what}", a.len(), b.len()),
            None => format!("{} and {} {what}: too few to test", a.len(), b.len()),
        };
        self.push(names, (before, after), ratio, test.map(|t| t.p), method, less_is_better);
    }

    /// Compares means of phases by batches of their timelines.
    fn rated(&mut self, names: [&str; 3], means: (&[f64], &[f64]), steps: (&[f64], &[f64])) {
        let (Some(before), Some(after)) = (stat::mean(means.0), stat::mean(means.1)) else { return };
        let test = stat::mann_whitney(steps.0, steps.1);
        // The interval is that of the batches, laid around the ratio of the means shown.
        let ratio = stat::ratio(steps.0, steps.1, self.seed).filter(|_| before > 0.0).map(|r| {
            let value = after / before;
            Interval { value, low: r.low / r.value * value, high: r.high / r.value * value }
        });
        let method = format!("Mann-Whitney, {} and {} batches of the timeline", steps.0.len(), steps.1.len());
        self.push(names, (before, after), ratio, test.map(|t| t.p), method, false);
    }

    fn percentile(&mut self, names: [&str; 3], a: &[Histogram], b: &[Histogram], q: f64) {
        let all = |list: &[Histogram]| {
            let mut sum = Histogram::default();
            list.iter().for_each(|h| sum.merge(h));
            sum
        };
        let (x, y) = (all(a), all(b));
        let (before, after) = (x.quantile(q) as f64, y.quantile(q) as f64);
        if before <= 0.0 || after <= 0.0 {
            return;
        }
        let (ratio, p, method) = match (quantile_log(&x, q), quantile_log(&y, q)) {
            (Some(s), Some(t)) => {
                // Normal in the logarithm, so that intervals of a ratio stay positive.
                let error = s.hypot(t);
                let value = after / before;
                let spread = (1.96 * error).exp();
                let z = if error > 0.0 {
                    value.ln().abs() / error
                } else if value == 1.0 {
                    0.0
                } else {
                    40.0
                };
                let interval = Interval { value, low: value / spread, high: value * spread };
                (
                    Some(interval),
                    Some((2.0 * normal_tail(z)).min(1.0)),
                    "order statistics of single runs".to_owned(),
                )
            }
            _ => (None, None, "too few values to test".to_owned()),
        };
        self.push(names, (before, after), ratio, p, method, true);
    }

    fn errors(&mut self, phase: &str, name: &str, a: &[(f64, Operation)], b: &[(f64, Operation)]) {
        let sums = |all: &[(f64, Operation)]| {
            let failed: u64 = all.iter().map(|(_, o)| o.failed()).sum();
            (failed as f64, all.iter().map(|(_, o)| o.count).sum::<u64>() as f64 + failed as f64)
        };
        let ((f, n), (g, m)) = (sums(a), sums(b));
        if f + g == 0.0 || n == 0.0 || m == 0.0 {
            return;
        }
        let (before, after) = (f / n, g / m);
        let pooled = (f + g) / (n + m);
        let error = (pooled * (1.0 - pooled) * (1.0 / n + 1.0 / m)).sqrt();
        let p = if error > 0.0 { 2.0 * normal_tail((after - before).abs() / error) } else { 1.0 };
        let verdict = match (after - before, p < SIGNIFICANT) {
            (d, true) if d > ERRORS => Verdict::Regression,
            (d, true) if d < -ERRORS => Verdict::Improvement,
            (d, false) if d.abs() > ERRORS => Verdict::Uncertain,
            _ => Verdict::WithinLimit,
        };
        self.rows.push(Row {
            phase: phase.to_owned(),
            operation: name.to_owned(),
            metric: "error_share".to_owned(),
            before,
            after,
            ratio: None,
            p: Some(p),
            method: "two proportions".to_owned(),
            verdict,
        });
    }

    fn push(
        &mut self,
        [phase, operation, metric]: [&str; 3],
        (before, after): (f64, f64),
        ratio: Option<Interval>,
        p: Option<f64>,
        method: String,
        less_is_better: bool,
    ) {
        // How much of the old is left of what is good: 0.9 is 10 % worse, for times too.
        let kept = if less_is_better { before / after } else { after / before };
        let p = p.filter(|_| !self.single);
        let significant = p.is_some_and(|p| p < SIGNIFICANT);
        let method = if self.single { format!("{method}; single runs") } else { method };
        let verdict = if !kept.is_finite() {
            Verdict::Uncertain
        } else if kept < 1.0 - self.limit {
            if significant { Verdict::Regression } else { Verdict::Uncertain }
        } else if kept > 1.0 / (1.0 - self.limit) {
            if significant { Verdict::Improvement } else { Verdict::Uncertain }
        } else {
            Verdict::WithinLimit
        };
        self.rows.push(Row {
            phase: phase.to_owned(),
            operation: operation.to_owned(),
            metric: metric.to_owned(),
            before,
            after,
            ratio: ratio.map(|r| (r.value, r.low, r.high)),
            p,
            method,
            verdict,
        });
    }
}

/// Standard error of ln(q-quantile): half the distance of the order statistics one standard
/// deviation of the rank apart (David and Nagaraja, Order Statistics, 7.1). `None` without buckets
/// or with fewer than ten values beyond the quantile.
fn quantile_log(h: &Histogram, q: f64) -> Option<f64> {
    let n = h.count as f64;
    let beyond = n * (1.0 - q);
    if h.buckets.is_empty() || beyond < 10.0 || n * q < 10.0 {
        return None;
    }
    let spread = (q * (1.0 - q) / n).sqrt();
    let (low, high) = (h.quantile(q - spread) as f64, h.quantile(q + spread) as f64);
    // A bucket is 0.1 % wide: less is not known.
    (low > 0.0).then(|| ((high / low).ln() / 2.0).max(0.0005))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    fn row<'a>(c: &'a Comparison, metric: &str) -> &'a Row {
        c.rows.iter().find(|r| r.metric == metric).unwrap_or_else(|| panic!("{metric}: {c:?}"))
    }

    #[test]
    fn equal_results_are_within_the_limit() {
        let a = fixture::noisy("a", 1000.0, 1_000_000, 1, 1);
        let b = fixture::noisy("b", 1000.0, 1_000_000, 1, 2);
        let c = compare(&a, &b, 0.05, 1);
        assert!(c.rows.iter().all(|r| r.verdict == Verdict::WithinLimit), "{:#?}", c.rows);
        assert_eq!(
            row(&c, "rate_per_s").method,
            "Mann-Whitney, 19 and 19 batches of the timeline; single runs"
        );
        assert_eq!(c, compare(&a, &b, 0.05, 1), "the same seed gives the same answer");
    }

    #[test]
    fn slower_result_is_a_regression() {
        let a = fixture::noisy("a", 1000.0, 1_000_000, 5, 1);
        let b = fixture::noisy("b", 900.0, 1_200_000, 5, 2);
        let c = compare(&a, &b, 0.05, 1);
        let rate = row(&c, "rate_per_s");
        assert_eq!(rate.verdict, Verdict::Regression);
        let (value, low, high) = rate.ratio.unwrap();
        assert!(
            low < 0.9 + 0.01 && high > 0.9 - 0.01 && high < 0.95 && (value - 0.9).abs() < 0.02,
            "{rate:?}"
        );
        assert!(rate.p.unwrap() < 0.01);
        assert_eq!(row(&c, "p50_ns").verdict, Verdict::Regression);
        assert_eq!(row(&compare(&b, &a, 0.05, 1), "rate_per_s").verdict, Verdict::Improvement);
        // The same difference within a wider limit.
        assert_eq!(row(&compare(&a, &b, 0.2, 1), "rate_per_s").verdict, Verdict::WithinLimit);
        assert!(c.regressions().count() >= 3);
    }

    #[test]
    fn single_runs_are_always_uncertain() {
        let a = fixture::noisy("a", 1000.0, 1_000_000, 1, 1);
        let b = fixture::noisy("b", 500.0, 2_000_000, 1, 2);
        for (before, after) in [(&a, &b), (&b, &a)] {
            let c = compare(before, after, 0.05, 1);
            assert!(c.rows.iter().all(|r| r.verdict == Verdict::Uncertain && r.p.is_none()), "{:#?}", c.rows);
            assert!(row(&c, "rate_per_s").method.ends_with("single runs"));
        }
    }

    #[test]
    fn repetitions_are_compared_when_there_are_enough() {
        let a = fixture::noisy("a", 1000.0, 1_000_000, 5, 1);
        let b = fixture::noisy("b", 880.0, 1_000_000, 5, 2);
        let c = compare(&a, &b, 0.05, 1);
        let rate = row(&c, "rate_per_s");
        assert_eq!(rate.method, "Mann-Whitney, 5 and 5 repetitions");
        assert!(
            rate.verdict == Verdict::Regression && (rate.p.unwrap() - 2.0 / 252.0).abs() < 1e-9,
            "{rate:?}"
        );
    }

    #[test]
    fn too_few_samples_are_uncertain() {
        let mut a = fixture::run("a", "2026-01-01T00:00:00Z", 100, 3);
        let mut b = fixture::run("b", "2026-01-01T00:00:00Z", 80, 3);
        let c = compare(&a, &b, 0.05, 1);
        assert_eq!(row(&c, "rate_per_s").verdict, Verdict::Uncertain);
        assert_eq!(c.regressions().count(), 0);
        // Other phases and settings are named.
        b.phases[0].name = "put".into();
        b.setup.insert("size".into(), "4KiB".into());
        a.caveats.push(crate::result::Caveat {
            severity: Severity::Invalid,
            code: "errors".into(),
            text: "half of it failed".into(),
        });
        let c = compare(&a, &b, 0.05, 1);
        assert_eq!((c.only_before.len(), c.only_after.len(), c.rows.len()), (1, 1, 0));
        assert!(c.invalid && c.setup[0].contains("size") && c.warnings[0].contains("before: half"));
    }

    #[test]
    fn different_load_is_compared_if_it_is_the_only_one() {
        let a = fixture::run("a", "2026-01-01T00:00:00Z", 100, 30);
        let mut b = a.clone();
        b.phases[0].load = crate::result::Load::Closed { concurrency: 99 };
        let c = compare(&a, &b, 0.05, 1);
        assert!(row(&c, "rate_per_s").phase.contains("→ get, 99 in flight"), "{:?}", c.rows);
    }

    #[test]
    fn more_errors_are_a_regression() {
        let a = fixture::run("a", "2026-01-01T00:00:00Z", 100, 30);
        let mut b = a.clone();
        b.phases[0].operations[0].errors.insert("SlowDown".into(), 60);
        assert_eq!(row(&compare(&a, &b, 0.05, 1), "error_share").verdict, Verdict::Regression);
        assert_eq!(row(&compare(&b, &a, 0.05, 1), "error_share").verdict, Verdict::Improvement);
        b.phases[0].operations[0].errors.insert("SlowDown".into(), 1);
        assert_eq!(row(&compare(&a, &b, 0.05, 1), "error_share").verdict, Verdict::WithinLimit);
    }
}
