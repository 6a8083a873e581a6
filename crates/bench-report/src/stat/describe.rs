//! Mean, deviation, quantiles, a straight line, and batch means with their confidence interval.

use crate::result::Estimate;

use super::distribution::t_quantile;

/// Fewest batches for which [`batched`] states a confidence interval: with fewer, Student's t is so
/// wide that the interval says nothing.
pub const MIN_BATCHES: usize = 5;

/// Arithmetic mean; `None` of nothing.
pub fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Standard deviation of a sample (divisor n - 1); `None` of fewer than two values.
pub fn stdev(values: &[f64]) -> Option<f64> {
    let mean = mean(values)?;
    let n = values.len();
    (n > 1).then(|| (values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (n - 1) as f64).sqrt())
}

/// Coefficient of variation: [`stdev`] / |[`mean`]|; `None` where the mean is zero.
pub fn cov(values: &[f64]) -> Option<f64> {
    let mean = mean(values)?;
    let stdev = stdev(values)?;
    (mean != 0.0).then(|| stdev / mean.abs())
}

/// The q-quantile (0 to 1), interpolated between neighbours (type 7 of Hyndman and Fan, as R and
/// NumPy do by default).
pub fn quantile(values: &[f64], q: f64) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    quantile_sorted(&sorted, q)
}

/// [`quantile`] of values that ascend already.
pub(super) fn quantile_sorted(sorted: &[f64], q: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    let at = q.clamp(0.0, 1.0) * last as f64;
    let (low, part) = (at.floor() as usize, at.fract());
    let high = (low + 1).min(last);
    Some(sorted[low] + (sorted[high] - sorted[low]) * part)
}

/// The middle value.
pub fn median(values: &[f64]) -> Option<f64> {
    quantile(values, 0.5)
}

/// A straight line through points, by least squares.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Line {
    /// Change of y per x.
    pub slope: f64,
    /// y at x = 0.
    pub intercept: f64,
    /// Share of the variance that the line explains, 0 to 1.
    pub r2: f64,
}

/// Fits a line through (x, y); `None` of fewer than two different x.
pub fn line(points: &[(f64, f64)]) -> Option<Line> {
    let n = points.len() as f64;
    let mx = points.iter().map(|p| p.0).sum::<f64>() / n;
    let my = points.iter().map(|p| p.1).sum::<f64>() / n;
    let sxx: f64 = points.iter().map(|p| (p.0 - mx).powi(2)).sum();
    let sxy: f64 = points.iter().map(|p| (p.0 - mx) * (p.1 - my)).sum();
    let syy: f64 = points.iter().map(|p| (p.1 - my).powi(2)).sum();
    (points.len() > 1 && sxx > 0.0).then(|| {
        let slope = sxy / sxx;
        Line { slope, intercept: my - slope * mx, r2: if syy > 0.0 { sxy * sxy / (sxx * syy) } else { 1.0 } }
    })
}

/// The estimate of a mean from independent values, for instance repetitions or batch means: from
/// two values on with the 95 % interval of Student's t. Of nothing: all zero.
pub fn estimate(values: &[f64]) -> Estimate {
    let Some(mean) = mean(values) else { return Estimate::default() };
    let n = values.len();
    let ci95 = stdev(values).map(|s| {
        let half = t_quantile(0.975, (n - 1) as f64) * s / (n as f64).sqrt();
        (mean - half, mean + half)
    });
    Estimate { mean, ci95, cov: cov(values) }
}

/// Means of consecutive values in at most `batches` batches of equal length. What is left over is
/// left out at the start, where warm-up may linger. Neighbouring values of a load are correlated;
/// batches long against that correlation are nearly independent (Law, Simulation Modeling and
/// Analysis, "batch means").
pub fn batch_means(values: &[f64], batches: usize) -> Vec<f64> {
    let length = values.len().div_ceil(batches.max(1)).max(1);
    let over = values.len() % length;
    values[over..].chunks_exact(length).map(|c| c.iter().sum::<f64>() / length as f64).collect()
}

/// The estimate of the mean of a time series of equal steps: the mean of all values, interval and
/// COV from at most `batches` [`batch_means`] (20 is usual), absent with fewer than
/// [`MIN_BATCHES`].
pub fn batched(values: &[f64], batches: usize) -> Estimate {
    let means = batch_means(values, batches);
    let Some(all) = mean(values) else { return Estimate::default() };
    if means.len() < MIN_BATCHES {
        return Estimate { mean: all, ci95: None, cov: None };
    }
    let of = estimate(&means);
    let shift = all - of.mean;
    Estimate { mean: all, ci95: of.ci95.map(|(l, h)| (l + shift, h + shift)), cov: of.cov }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Expected values: scipy 1.x (`stats.t.interval`, `stats.linregress`), numpy (`percentile`).
    const A: [f64; 10] = [12.1, 11.8, 12.5, 12.0, 11.9, 12.3, 12.7, 11.6, 12.2, 12.4];

    fn close(a: f64, b: f64) {
        assert!((a - b).abs() <= 1e-9 * b.abs().max(1.0), "{a} is not {b}");
    }

    #[test]
    fn mean_and_deviation_match_known_values() {
        close(mean(&A).unwrap(), 12.15);
        close(stdev(&A).unwrap(), 0.3374742788552763);
        close(cov(&A).unwrap(), 0.027775660811133848);
        let e = estimate(&A);
        let (low, high) = e.ci95.unwrap();
        close(low, 11.90858544403341);
        close(high, 12.391414555966595);
        let (low, high) = estimate(&[101.0, 99.0, 103.0]).ci95.unwrap();
        close(low, 96.03172457649934);
        close(high, 105.96827542350066);
    }

    #[test]
    fn quantiles_match_known_values() {
        close(quantile(&A, 0.25).unwrap(), 11.925);
        close(median(&A).unwrap(), 12.15);
        close(quantile(&A, 0.9).unwrap(), 12.52);
        close(quantile(&A, 1.0).unwrap(), 12.7);
    }

    #[test]
    fn too_few_values_give_no_answer() {
        assert_eq!(
            (mean(&[]), stdev(&[1.0]), cov(&[0.0, 0.0]), quantile(&[], 0.5)),
            (None, None, None, None)
        );
        assert_eq!(line(&[(1.0, 2.0), (1.0, 3.0)]), None);
        assert_eq!(estimate(&[7.0]), Estimate { mean: 7.0, ci95: None, cov: None });
        assert_eq!(batched(&[1.0, 2.0, 3.0], 20).ci95, None);
        assert_eq!(batched(&[], 20), Estimate::default());
    }

    #[test]
    fn line_fit_matches_known_values() {
        let y = [2.1, 3.9, 6.2, 7.8, 10.1, 12.2, 13.8];
        let points: Vec<_> = y.iter().zip(1..).map(|(&y, x)| (f64::from(x), y)).collect();
        let l = line(&points).unwrap();
        close(l.slope, 1.9857142857142858);
        close(l.intercept, 0.07142857142857117);
        close(l.r2, 0.9983465095850772);
    }

    #[test]
    fn batch_means_match_known_values() {
        let values: Vec<f64> = (0..103).map(f64::from).collect();
        let means = batch_means(&values, 20);
        assert_eq!((means.len(), means[0]), (17, 3.5), "18 do not fit: the first value is left out");
        assert_eq!(batch_means(&values[..100], 20).len(), 20);
        assert_eq!(batch_means(&[1.0, 3.0], 20), [1.0, 3.0]);
        close(batched(&values, 20).mean, 51.0);
    }
}
