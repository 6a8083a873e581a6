//! Detection of the steady state: the warm-up cut and the confidence of a mean, both from counts per step.
//!
//! * Warm-up: MSER (K. P. White, "An effective truncation heuristic for bias reduction in simulation
//!   output", Simulation 69(6), 1997; batches of five as in White, Cobb and Spratt, "A comparison of
//!   five steady-state truncation heuristics for simulation", WSC 2000). Of all cuts the one is taken
//!   that makes the squared standard error of what remains smallest; only cuts in the first half are
//!   looked at, and the last of them being the best means that no steady state was reached.
//! * Confidence: batch means (Law and Kelton, "Simulation Modeling and Analysis", 9.5.3): the series
//!   is divided into 20 batches whose means are taken as independent; Student's t gives the
//!   interval. Batches must be longer than the correlation in the series, which with 20 batches of a
//!   measurement of many seconds they are.
//!
//! Invariants: pure; never NaN.

/// Batches a confidence interval is made from.
pub const BATCHES: usize = 20;

/// What a truncation test found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// So many steps at the start do not belong to the rest.
    At(usize),
    /// The series still changes in its second half.
    NotSteady,
    /// There are too few steps to say anything.
    TooShort,
}

/// MSER over batches of up to five steps; at least 20 batches are needed.
pub fn warmup(steps: &[f64]) -> Cut {
    let size = (steps.len() / 40).clamp(1, 5);
    let batches: Vec<f64> = steps.chunks_exact(size).map(|c| c.iter().sum::<f64>() / size as f64).collect();
    if batches.len() < 20 {
        return Cut::TooShort;
    }
    // From the end backwards, sums of what remains after each cut.
    let (mut sum, mut squares) = (0.0, 0.0);
    let mut best = (f64::INFINITY, 0);
    for (cut, value) in batches.iter().enumerate().rev() {
        sum += value;
        squares += value * value;
        let n = (batches.len() - cut) as f64;
        if cut > batches.len() / 2 {
            continue;
        }
        let error = ((squares - sum * sum / n).max(0.0)) / (n * n);
        if error <= best.0 {
            best = (error, cut);
        }
    }
    if best.1 == batches.len() / 2 { Cut::NotSteady } else { Cut::At(best.1 * size) }
}

/// A mean per step with its 95 % interval and the coefficient of variation of the batches.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// The mean of the batches.
    pub mean: f64,
    /// Half the width of the interval.
    pub half: f64,
    /// Standard deviation of the batches over their mean.
    pub cov: f64,
}

impl Interval {
    /// Half the width as a share of the mean.
    pub fn relative(&self) -> f64 {
        if self.mean > 0.0 { self.half / self.mean } else { f64::INFINITY }
    }
}

/// Batch means over up to [`BATCHES`] batches; `None` with fewer than 10 steps.
pub fn batch_means(steps: &[f64]) -> Option<Interval> {
    let count = BATCHES.min(steps.len());
    if count < 10 {
        return None;
    }
    // Batches differ by at most one step in length; each has its own mean per step.
    let bounds = |i: usize| i * steps.len() / count;
    let means: Vec<f64> = (0..count)
        .map(|i| {
            let part = &steps[bounds(i)..bounds(i + 1)];
            part.iter().sum::<f64>() / part.len() as f64
        })
        .collect();
    let n = count as f64;
    let mean = means.iter().sum::<f64>() / n;
    let variance = means.iter().map(|m| (m - mean).powi(2)).sum::<f64>() / (n - 1.0);
    let deviation = variance.sqrt();
    let half = T[count - 10] * deviation / n.sqrt();
    Some(Interval { mean, half, cov: if mean > 0.0 { deviation / mean } else { 0.0 } })
}

/// Student's t, 97.5 %, for 9 to 19 degrees of freedom.
const T: [f64; 11] = [2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::keys::Rng;

    fn noise(rng: &mut Rng, mean: f64) -> f64 {
        // The sum of 12 uniform numbers is close to normal, with variance 1.
        mean + (0..12).map(|_| rng.unit()).sum::<f64>() - 6.0
    }

    #[test]
    fn ramp_is_cut_and_constant_is_not() {
        let mut rng = Rng::new(4);
        let mut steps: Vec<f64> = (0..60).map(|i| f64::from(i) * 100.0 / 60.0).collect();
        steps.extend((0..340).map(|_| noise(&mut rng, 100.0)));
        let Cut::At(cut) = warmup(&steps) else { panic!("steady") };
        assert!((50..=75).contains(&cut), "{cut}");
        assert_eq!(warmup(&[5.0; 100]), Cut::At(0));
        let rising: Vec<f64> = (0..400).map(f64::from).collect();
        assert_eq!(warmup(&rising), Cut::NotSteady);
        assert_eq!(warmup(&[1.0; 10]), Cut::TooShort);
    }

    #[test]
    fn interval_matches_known_values() {
        // Means 1..=10, each batch one step: mean 5.5, deviation 3.02765, t(9) = 2.262.
        let steps: Vec<f64> = (1..=10).map(f64::from).collect();
        let interval = batch_means(&steps).unwrap();
        assert!((interval.mean - 5.5).abs() < 1e-12);
        assert!((interval.half - 2.262 * 3.027_650_354 / 10_f64.sqrt()).abs() < 1e-6);
        assert!(batch_means(&[1.0; 9]).is_none());
    }

    /// About 95 % of the intervals contain the true mean.
    #[test]
    fn intervals_have_the_stated_coverage() {
        let mut rng = Rng::new(11);
        let hits = (0..1000)
            .filter(|_| {
                let steps: Vec<f64> = (0..100).map(|_| noise(&mut rng, 50.0)).collect();
                let interval = batch_means(&steps).unwrap();
                (interval.mean - 50.0).abs() <= interval.half
            })
            .count();
        assert!((925..=975).contains(&hits), "{hits}");
    }
}
