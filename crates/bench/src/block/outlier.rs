//! Drives that differ from the others.
//!
//! Invariant: a drive is compared with the median of all, so that a few bad ones do not shift the reference;
//! of two drives, the slower is compared with the faster.

use ashlar_bench_report::stat::median;

/// Normal consistency of the median absolute deviation (Iglewicz and Hoaglin 1993, who also give the
/// limit of 3.5).
const MAD_SCALE: f64 = 0.6745;
/// Robust z-score from which a value is an outlier.
pub const Z_LIMIT: f64 = 3.5;
/// Deviation that is never called an outlier, however alike the others are, per cent.
const NEGLIGIBLE: f64 = 3.0;

/// A drive that differs.
#[derive(Clone, Debug, PartialEq)]
pub struct Outlier {
    /// Its place in the list that was given.
    pub index: usize,
    /// From the median of all (of two: from the faster), per cent; below zero is slower.
    pub percent: f64,
    /// Robust z-score; absent with fewer than five drives, or when most are equal.
    pub z: Option<f64>,
}

/// Those that are more than `limit` per cent from the median, or (from five drives on) that are
/// more than [`Z_LIMIT`] robust standard deviations from it.
pub fn outliers(rates: &[f64], limit: f64) -> Vec<Outlier> {
    let reference = if rates.len() == 2 { rates.iter().copied().reduce(f64::max) } else { median(rates) };
    let Some(middle) = reference.filter(|m| *m > 0.0 && rates.len() > 1) else { return Vec::new() };
    let deviations: Vec<f64> = rates.iter().map(|r| (r - middle).abs()).collect();
    let mad = median(&deviations).unwrap_or(0.0);
    let judge = |(index, rate): (usize, &f64)| {
        let percent = (rate / middle - 1.0) * 100.0;
        let z = (rates.len() >= 5 && mad > 0.0).then(|| MAD_SCALE * (rate - middle) / mad);
        let strange = z.is_some_and(|z| z.abs() > Z_LIMIT) && percent.abs() > NEGLIGIBLE;
        (percent.abs() > limit || strange).then_some(Outlier { index, percent, z })
    };
    rates.iter().enumerate().filter_map(judge).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outliers_are_named() {
        let found = |rates: &[f64]| outliers(rates, 10.0).iter().map(|o| o.index).collect::<Vec<_>>();
        assert_eq!(found(&[]), [] as [usize; 0]);
        assert_eq!(found(&[5.0]), [] as [usize; 0]);
        assert_eq!(found(&[80.0, 100.0]), [0]);
        assert_eq!(found(&[100.0, 95.0, 105.0]), [] as [usize; 0]);
        assert_eq!(found(&[100.0, 101.0, 80.0, 99.0]), [2]);
        // Within ten per cent, but far from the others' small spread.
        assert_eq!(found(&[100.0, 100.5, 99.5, 100.2, 99.8, 93.0]), [5]);
        // Far in standard deviations, but not worth a word.
        assert_eq!(found(&[100.0, 100.01, 99.99, 100.0, 100.02, 99.0]), [] as [usize; 0]);
        assert!(outliers(&[100.0, 100.0, 100.0, 100.0, 50.0], 10.0)[0].z.is_none());
    }
}
