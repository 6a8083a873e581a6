//! Helpers for readers of phases: names, time series, totals.
//!
//! Invariant: nothing here changes measurements; merging steps keeps every count.

use super::{Load, Operation, Phase, Point, Timeline};

/// Operations that are steps of an `UPLOAD`.
const STEPS: [&str; 3] = ["CREATE-UPLOAD", "PUT-PART", "COMPLETE-UPLOAD"];

/// Marks a repetition that another one replaced: [`Phase::values`] holds 1 under this name.
pub const SET_ASIDE: &str = "set_aside";

/// The repetitions that count.
pub fn averaged(phases: &[Phase]) -> impl Iterator<Item = &Phase> {
    phases.iter().filter(|p| !p.values.contains_key(SET_ASIDE))
}

impl Load {
    /// In words: `16 in flight`, `500/s poisson`.
    pub fn text(&self) -> String {
        match self {
            Load::Closed { concurrency } => format!("{concurrency} in flight"),
            Load::Open { rate_per_s, arrivals, .. } => {
                format!("{}/s {arrivals}", crate::units::plain(*rate_per_s))
            }
        }
    }
}

impl Phase {
    /// What is measured, whatever the repetition: name, state and load.
    pub fn key(&self) -> String {
        match &self.state {
            Some(state) => format!("{state}: {}, {}", self.name, self.load.text()),
            None => format!("{}, {}", self.name, self.load.text()),
        }
    }

    /// Operations that are not steps of others, so that nothing counts twice.
    fn whole(&self) -> impl Iterator<Item = &Operation> {
        self.operations.iter().filter(|o| !STEPS.contains(&o.name.as_str()))
    }

    /// All operations together per second.
    pub fn rate_per_s(&self) -> f64 {
        self.whole().map(|o| o.rate_per_s.mean).sum()
    }

    /// All payload bytes together per second.
    pub fn bytes_per_s(&self) -> f64 {
        self.whole().map(|o| o.bytes_per_s.mean).sum()
    }

    /// Operations that ended well.
    pub fn count(&self) -> u64 {
        self.whole().map(|o| o.count).sum()
    }

    /// Operations that failed.
    pub fn errors(&self) -> u64 {
        self.whole().map(Operation::failed).sum()
    }
}

impl Operation {
    /// Operations that failed.
    pub fn failed(&self) -> u64 {
        self.errors.values().sum()
    }
}

impl Timeline {
    /// Joins neighbours until there are at most `most` steps.
    pub fn coarsen(&mut self, most: usize) {
        while self.points.len() > most.max(1) {
            self.double();
        }
    }

    /// Joins neighbours once.
    fn double(&mut self) {
        self.step_s *= 2.0;
        self.points = self.points.chunks(2).map(|c| c.iter().copied().fold(Point::default(), join)).collect();
    }

    /// The steps that lie wholly after the warm-up; the last is left out, since it may be cut off
    /// by the end of the phase, unless there are fewer than three.
    pub fn measured(&self, warmup_s: f64) -> &[Point] {
        let first = if self.step_s > 0.0 { (warmup_s / self.step_s).ceil() as usize } else { 0 };
        let end = if self.points.len() > first + 2 { self.points.len() - 1 } else { self.points.len() };
        self.points.get(first.min(end)..end).unwrap_or_default()
    }

    /// Operations per second in each of [`Timeline::measured`].
    pub fn rates_per_s(&self, warmup_s: f64) -> Vec<f64> {
        self.measured(warmup_s).iter().map(|p| p.count as f64 / self.step_s).collect()
    }

    /// Bytes per second in each of [`Timeline::measured`].
    pub fn bytes_per_s(&self, warmup_s: f64) -> Vec<f64> {
        self.measured(warmup_s).iter().map(|p| p.bytes as f64 / self.step_s).collect()
    }

    /// Adds what `other` saw, whose first step began `later_s` seconds after the first of this.
    /// A step of `other` that overlaps two steps is divided in proportion.
    pub fn add(&mut self, other: &Timeline, later_s: f64) {
        if other.points.is_empty() || other.step_s <= 0.0 {
            return;
        }
        if self.points.is_empty() || self.step_s <= 0.0 {
            self.step_s = other.step_s;
        }
        // A file may contain any step: the allocation for both is limited first.
        let span_s = later_s + other.points.len() as f64 * other.step_s;
        while span_s / self.step_s > (64 * Timeline::MAX) as f64 {
            self.double();
        }
        for (i, point) in other.points.iter().enumerate() {
            let start = ((later_s + i as f64 * other.step_s) / self.step_s).max(0.0);
            let end = start + other.step_s / self.step_s;
            let (mut count, mut bytes, mut errors) = (point.count, point.bytes, point.errors);
            let mut slot = start.floor() as usize;
            while (slot as f64) < end - 1e-9 {
                let next = slot as f64 + 1.0;
                let part = (end.min(next) - start.max(slot as f64)) / (end - start);
                let last = next >= end - 1e-9;
                if slot >= self.points.len() {
                    self.points.resize(slot + 1, Point::default());
                }
                let take = |left: &mut u64, whole: u64| {
                    let n = if last { *left } else { ((whole as f64 * part).round() as u64).min(*left) };
                    *left -= n;
                    n
                };
                let to = &mut self.points[slot];
                to.count += take(&mut count, point.count);
                to.bytes += take(&mut bytes, point.bytes);
                to.errors += take(&mut errors, point.errors);
                to.max_ns = to.max_ns.max(point.max_ns);
                slot += 1;
            }
        }
        self.coarsen(Timeline::MAX);
    }
}

fn join(a: Point, b: Point) -> Point {
    Point {
        count: a.count + b.count,
        bytes: a.bytes + b.bytes,
        errors: a.errors + b.errors,
        max_ns: a.max_ns.max(b.max_ns),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timeline(step_s: f64, counts: &[u64]) -> Timeline {
        let points = counts.iter().map(|&count| Point { count, bytes: count * 10, errors: 0, max_ns: count });
        Timeline { step_s, points: points.collect() }
    }

    fn counts(t: &Timeline) -> Vec<u64> {
        t.points.iter().map(|p| p.count).collect()
    }

    #[test]
    fn merged_steps_keep_every_count() {
        let mut t = timeline(1.0, &[1, 2, 3, 4, 5]);
        t.coarsen(3);
        assert_eq!((t.step_s, counts(&t)), (2.0, vec![3, 7, 5]));
        assert_eq!(t.points[1].max_ns, 4);
        t.coarsen(1);
        assert_eq!((t.step_s, counts(&t)), (8.0, vec![15]));
    }

    #[test]
    fn timelines_are_added_at_their_times() {
        let mut t = timeline(1.0, &[10, 10, 10]);
        t.add(&timeline(1.0, &[4, 4]), 1.5);
        assert_eq!(counts(&t), [10, 12, 14, 2]);
        t.add(&timeline(2.0, &[8]), 0.0);
        assert_eq!(counts(&t), [14, 16, 14, 2]);
        let mut tiny = timeline(1e-9, &[1, 2]);
        tiny.add(&timeline(1.0, &[5, 5]), 3.0);
        assert!(tiny.points.len() <= Timeline::MAX && counts(&tiny).iter().sum::<u64>() == 13);
        let mut empty = Timeline::default();
        empty.add(&t, 0.0);
        assert_eq!(empty, t);
    }

    #[test]
    fn warm_up_and_the_partial_end_are_left_out() {
        let t = timeline(0.5, &[1, 2, 3, 4, 5]);
        assert_eq!(t.rates_per_s(0.6), [6.0, 8.0]);
        assert_eq!(t.rates_per_s(2.0), [10.0]);
        assert_eq!(t.rates_per_s(9.0), [0.0; 0]);
        assert_eq!(t.bytes_per_s(0.0).len(), 4);
        assert_eq!(Timeline::default().rates_per_s(0.0), [0.0; 0]);
    }
}
