//! Histograms: conversion between the recorder and the document, merging, percentiles.
//!
//! Invariants: a bucket's value is the largest that falls into it (so a percentile is never too
//! small, by at most 0.1 %); merging keeps count, smallest, largest, mean and standard deviation
//! exact.

use std::collections::BTreeMap;

use hdrhistogram::Histogram as Recorder;

use super::Histogram;

/// Largest distinguished time: one hour in nanoseconds.
pub const MOST_NS: u64 = 3_600_000_000_000;

/// The percentiles that every histogram of the document names.
pub const PERCENTILES: [(&str, f64); 5] =
    [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999), ("p99.99", 0.9999)];

/// An empty recorder of times: three significant digits from 1 ns to 1 h, about 260 KiB. Record
/// with `saturating_record`.
pub fn recorder() -> Recorder<u64> {
    Recorder::new_with_bounds(1, MOST_NS, 3).unwrap_or_else(|e| unreachable!("fixed bounds: {e}"))
}

impl From<&Recorder<u64>> for Histogram {
    fn from(from: &Recorder<u64>) -> Histogram {
        if from.is_empty() {
            return Histogram::default();
        }
        let buckets: Vec<(u64, u64)> =
            from.iter_recorded().map(|b| (b.value_iterated_to(), b.count_at_value())).collect();
        let mut to = Histogram {
            count: from.len(),
            min_ns: from.min(),
            max_ns: from.max(),
            mean_ns: from.mean(),
            stdev_ns: from.stdev(),
            percentiles_ns: BTreeMap::new(),
            buckets,
        };
        to.name_percentiles();
        to
    }
}

impl From<&Histogram> for Recorder<u64> {
    fn from(from: &Histogram) -> Recorder<u64> {
        let mut to = recorder();
        for &(value, count) in &from.buckets {
            to.saturating_record_n(value, count);
        }
        to
    }
}

impl Histogram {
    /// From single times, for imports and tests: as if each had been recorded.
    pub fn of(times_ns: impl IntoIterator<Item = u64>) -> Histogram {
        let mut recorder = recorder();
        times_ns.into_iter().for_each(|t| recorder.saturating_record(t));
        Histogram::from(&recorder)
    }

    /// From (value, count) pairs of another tool, in any order.
    pub fn from_buckets(pairs: impl IntoIterator<Item = (u64, u64)>) -> Histogram {
        let mut map = BTreeMap::new();
        pairs.into_iter().filter(|p| p.1 > 0).for_each(|(v, n)| *map.entry(v).or_insert(0u64) += n);
        let count: u64 = map.values().sum();
        let (Some((&min_ns, _)), Some((&max_ns, _))) = (map.first_key_value(), map.last_key_value()) else {
            return Histogram::default();
        };
        let over = |f: &dyn Fn(f64) -> f64| {
            map.iter().map(|(&v, &n)| f(v as f64) * n as f64).sum::<f64>() / count as f64
        };
        let mean_ns = over(&|v| v);
        let stdev_ns = over(&|v| (v - mean_ns).powi(2)).sqrt();
        let mut to = Histogram {
            count,
            min_ns,
            max_ns,
            mean_ns,
            stdev_ns,
            percentiles_ns: BTreeMap::new(),
            buckets: map.into_iter().collect(),
        };
        to.name_percentiles();
        to
    }

    /// Adds another histogram.
    pub fn merge(&mut self, other: &Histogram) {
        if other.count == 0 {
            return;
        }
        if self.count == 0 {
            *self = other.clone();
            return;
        }
        let (n, m) = (self.count as f64, other.count as f64);
        let mean = (self.mean_ns * n + other.mean_ns * m) / (n + m);
        // Pooled: the variances within, and how far the means are from the common one.
        let part = |h: &Histogram, n: f64| n * (h.stdev_ns.powi(2) + (h.mean_ns - mean).powi(2));
        self.stdev_ns = ((part(self, n) + part(other, m)) / (n + m)).sqrt();
        self.mean_ns = mean;
        self.min_ns = self.min_ns.min(other.min_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
        self.count += other.count;
        let mut map: BTreeMap<u64, u64> = self.buckets.iter().copied().collect();
        for &(value, count) in &other.buckets {
            *map.entry(value).or_insert(0) += count;
        }
        self.buckets = map.into_iter().collect();
        self.name_percentiles();
    }

    /// The time that the share `q` (0 to 1) of all values does not exceed; 0 when empty. From the
    /// buckets; where there are none (an import of a summary), from the named percentiles.
    pub fn quantile(&self, q: f64) -> u64 {
        let rank = (q.clamp(0.0, 1.0) * self.count as f64).ceil().max(1.0) as u64;
        let mut seen = 0;
        for &(value, count) in &self.buckets {
            seen += count;
            if seen >= rank {
                return value.min(self.max_ns);
            }
        }
        if q >= 1.0 {
            return self.max_ns;
        }
        PERCENTILES
            .iter()
            .find(|p| (p.1 - q).abs() < 1e-12)
            .and_then(|p| self.percentiles_ns.get(p.0).copied())
            .unwrap_or(0)
    }

    fn name_percentiles(&mut self) {
        self.percentiles_ns =
            PERCENTILES.iter().map(|&(name, q)| (name.to_owned(), self.quantile(q))).collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(seed: u64, n: usize) -> Vec<u64> {
        let mut random = crate::random::Random(seed);
        // Spread over six decades.
        (0..n)
            .map(|_| 10f64.powf(3.0 + 6.0 * (random.next_u64() >> 11) as f64 / 2f64.powi(53)) as u64)
            .collect()
    }

    #[test]
    fn histograms_round_trip() {
        let mut recorder = recorder();
        times(1, 20_000).into_iter().for_each(|t| recorder.saturating_record(t));
        let document = Histogram::from(&recorder);
        let back: Recorder<u64> = (&document).into();
        assert_eq!(back.len(), recorder.len());
        for q in [0.0, 0.1, 0.5, 0.9, 0.99, 0.999, 1.0] {
            assert_eq!(back.value_at_quantile(q), recorder.value_at_quantile(q), "q {q}");
            if q > 0.0 {
                assert_eq!(document.quantile(q), recorder.value_at_quantile(q), "q {q}");
            }
        }
        let again = Histogram::from(&back);
        assert_eq!(again.buckets, document.buckets);
        assert_eq!(again.percentiles_ns, document.percentiles_ns);
    }

    #[test]
    fn percentiles_are_within_a_thousandth() {
        let mut all = times(2, 50_000);
        let h = Histogram::of(all.iter().copied());
        all.sort_unstable();
        for (name, q) in PERCENTILES {
            let exact = all[(q * all.len() as f64).ceil() as usize - 1] as f64;
            let found = h.percentiles_ns[name] as f64;
            assert!(found >= exact && found <= exact * 1.001 + 1.0, "{name}: {found}, not {exact}");
        }
    }

    #[test]
    fn merged_equals_recorded_together() {
        let (a, b) = (times(3, 5000), times(4, 777));
        let together = Histogram::of(a.iter().chain(&b).copied());
        let mut merged = Histogram::of(a);
        merged.merge(&Histogram::of(b));
        assert_eq!(merged.buckets, together.buckets);
        assert_eq!(
            (merged.count, merged.min_ns, merged.max_ns),
            (together.count, together.min_ns, together.max_ns)
        );
        assert!((merged.mean_ns / together.mean_ns - 1.0).abs() < 1e-9);
        assert!((merged.stdev_ns / together.stdev_ns - 1.0).abs() < 1e-9);
        assert_eq!(merged.percentiles_ns, together.percentiles_ns);
        let mut empty = Histogram::default();
        empty.merge(&together);
        assert_eq!(empty, together);
        empty.merge(&Histogram::default());
        assert_eq!(empty, together);
    }

    #[test]
    fn empty_histogram_has_no_percentiles() {
        let empty = Histogram::from(&recorder());
        assert_eq!(empty, Histogram::default());
        assert_eq!(empty.quantile(0.5), 0);
        assert_eq!(Histogram::from_buckets([(5, 0)]), Histogram::default());
    }
}
