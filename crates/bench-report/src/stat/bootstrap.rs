//! The percentile bootstrap (Efron and Tibshirani, An Introduction to the Bootstrap, chapter 13):
//! confidence of a difference or a ratio of means without assuming a distribution.

use super::describe::{mean, quantile_sorted};
use crate::random::Random;

/// Resamples that are drawn: the ends of a 95 % interval move by less than a tenth of its width.
pub const RESAMPLES: usize = 4000;

/// A number with its 95 % confidence interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// The number, from the values as they are.
    pub value: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

fn resampled_mean(values: &[f64], random: &mut Random) -> f64 {
    let n = values.len();
    (0..n).map(|_| values[random.below(n)]).sum::<f64>() / n as f64
}

fn bootstrap(a: &[f64], b: &[f64], seed: u64, of: impl Fn(f64, f64) -> f64) -> Option<Interval> {
    if a.len() < 2 || b.len() < 2 {
        return None;
    }
    let value = of(mean(a)?, mean(b)?);
    let mut random = Random(seed);
    let mut found: Vec<f64> = (0..RESAMPLES)
        .map(|_| of(resampled_mean(a, &mut random), resampled_mean(b, &mut random)))
        .filter(|v| v.is_finite())
        .collect();
    found.sort_by(f64::total_cmp);
    let (low, high) = (quantile_sorted(&found, 0.025)?, quantile_sorted(&found, 0.975)?);
    value.is_finite().then_some(Interval { value, low, high })
}

/// mean(b) - mean(a); `None` where either has fewer than two values.
pub fn difference(a: &[f64], b: &[f64], seed: u64) -> Option<Interval> {
    bootstrap(a, b, seed, |a, b| b - a)
}

/// mean(b) / mean(a); `None` where either has fewer than two values or a's mean is zero.
pub fn ratio(a: &[f64], b: &[f64], seed: u64) -> Option<Interval> {
    bootstrap(a, b, seed, |a, b| b / a)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Expected ends: 200,000 resamples with numpy.
    #[test]
    fn intervals_match_known_values() {
        let p = [100.0, 102.0, 98.0, 101.0, 99.0, 103.0, 97.0, 100.0, 101.0, 99.0];
        let q = p.map(|v| v - 10.0);
        for seed in 1..6 {
            let r = ratio(&p, &q, seed).unwrap();
            assert!((r.value - 0.9).abs() < 1e-12);
            assert!((r.low - 0.88568588).abs() < 0.001, "seed {seed}: {r:?}");
            assert!((r.high - 0.91457286).abs() < 0.001, "seed {seed}: {r:?}");
            let d = difference(&p, &q, seed).unwrap();
            assert!((d.low + 11.5).abs() < 0.11 && (d.high + 8.5).abs() < 0.11, "seed {seed}: {d:?}");
        }
        assert_eq!(ratio(&p, &q, 7), ratio(&p, &q, 7));
        assert_eq!(ratio(&p, &q[..1], 7), None);
        assert_eq!(ratio(&[0.0, 0.0], &q, 7), None);
    }
}
