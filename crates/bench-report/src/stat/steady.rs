//! Steady state of a measurement as SNIA's test specification defines it, and the cut of warm-up from a
//! finished series.

use super::describe::{line, mean};

/// Rounds that SNIA looks at.
pub const WINDOW: usize = 5;
/// Largest excursion within the window: (max - min) / mean.
pub const EXCURSION: f64 = 0.20;
/// Largest rise or fall of the fitted line over the window, as a share of the mean.
pub const SLOPE: f64 = 0.10;

/// The last [`WINDOW`] rounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Steady {
    /// Mean of the window.
    pub mean: f64,
    /// (max - min) / mean.
    pub excursion: f64,
    /// |rise of the fitted line from the first to the last round| / mean.
    pub slope: f64,
    /// Whether both are within the limits.
    pub steady: bool,
}

/// Evaluates the last [`WINDOW`] rounds as SNIA's Solid State Storage Performance Test Specification does
/// (section "Steady State": range within 20 % of the average, best linear fit within 10 %). `None` with fewer
/// rounds or a mean of zero.
pub fn steady_state(rounds: &[f64]) -> Option<Steady> {
    let window = &rounds[rounds.len().checked_sub(WINDOW)?..];
    let mean = mean(window)?;
    if mean == 0.0 {
        return None;
    }
    let most = window.iter().copied().fold(f64::MIN, f64::max);
    let least = window.iter().copied().fold(f64::MAX, f64::min);
    let points: Vec<(f64, f64)> = window.iter().enumerate().map(|(i, &v)| (i as f64, v)).collect();
    let excursion = (most - least) / mean.abs();
    let slope = (line(&points)?.slope * (WINDOW - 1) as f64 / mean).abs();
    Some(Steady { mean, excursion, slope, steady: excursion <= EXCURSION && slope <= SLOPE })
}

/// How many of the first values belong to warm-up: MSER-5 (White, Cobb, Spratt, "A comparison of
/// five steady-state truncation heuristics for simulation", Winter Simulation Conference 2000).
/// Values are averaged in fives, and the cut is where the standard error of what remains is
/// smallest. A cut in the second half would mean that the series never settled: then `None`.
/// Fewer than ten values: nothing is cut.
pub fn warmup_end(values: &[f64]) -> Option<usize> {
    const BATCH: usize = 5;
    let means: Vec<f64> = values.chunks_exact(BATCH).map(|c| c.iter().sum::<f64>() / BATCH as f64).collect();
    let n = means.len();
    if n < 2 {
        return Some(0);
    }
    // From the back, so that each suffix costs O(1) (Welford's update).
    let (mut count, mut mean, mut squares) = (0.0, 0.0, 0.0);
    let mut errors = vec![0.0; n];
    for (i, &v) in means.iter().enumerate().rev() {
        count += 1.0;
        let delta: f64 = v - mean;
        mean += delta / count;
        squares += delta * (v - mean);
        errors[i] = squares / (count * count);
    }
    // The last few suffixes are short enough to be even by chance: only the first three quarters are looked
    // at, and a smallest error beyond the half means that there is no steady part.
    let candidates = (n * 3 / 4).max(1);
    let cut = (0..candidates).min_by(|&a, &b| errors[a].total_cmp(&errors[b]))?;
    (cut <= n / 2).then_some(cut * BATCH)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn snia_steady_state_is_detected() {
        let s = steady_state(&[10.0, 95.0, 100.0, 105.0, 100.0, 100.0]).unwrap();
        assert!((s.mean - 100.0).abs() < 1e-9 && (s.excursion - 0.1).abs() < 1e-9);
        // Slope (2 * 5 + 5 ... ) by hand: sum((x - 2)(y - 100)) / 10 = (10 + 0 + 0 + 0 + 0) / 10 = 1.
        assert!((s.slope - 0.04).abs() < 1e-9 && s.steady, "{s:?}");
        // Excursion just within, but rising: 5 % a round.
        let rising = steady_state(&[90.0, 95.0, 100.0, 105.0, 110.0]).unwrap();
        assert!((rising.slope - 0.2).abs() < 1e-9 && (rising.excursion - 0.2).abs() < 1e-9 && !rising.steady);
        let wild = steady_state(&[100.0, 80.0, 120.0, 80.0, 100.0]).unwrap();
        assert!(!wild.steady && wild.slope < SLOPE, "{wild:?}");
        assert_eq!(steady_state(&[1.0; 4]), None);
        assert_eq!(steady_state(&[0.0; 5]), None);
    }

    /// The cuts were computed with numpy from the definition.
    #[test]
    fn warm_up_is_cut() {
        let noise = |i: i32| f64::from(i * 29 % 13) / 13.0;
        let settling: Vec<f64> = (0..200).map(|i| 10.0 * (-f64::from(i) / 12.0).exp() + noise(i)).collect();
        assert_eq!(warmup_end(&settling), Some(65));
        let flat: Vec<f64> = (0..200).map(|i| 5.0 + noise(i)).collect();
        assert_eq!(warmup_end(&flat), Some(0));
        assert_eq!(warmup_end(&[1.0; 9]), Some(0));
        let slow_start: Vec<f64> = (0..100).map(|i| if i < 20 { 3.0 } else { 9.0 } + noise(i)).collect();
        assert_eq!(warmup_end(&slow_start), Some(20));
    }

    #[test]
    fn series_without_steady_state_is_not_cut() {
        let rising: Vec<f64> = (0..200).map(|i| f64::from(i) * f64::from(i)).collect();
        assert_eq!(warmup_end(&rising), None);
    }
}
