//! The rank sum test of Mann and Whitney (1947): do values of one sample tend to be larger than
//! those of another? No distribution is assumed.

use super::distribution::normal_tail;

/// Up to this many values in both samples together the distribution of the rank sum is counted
/// exactly, ties included; beyond, the normal approximation is good to three digits.
pub const EXACT_UP_TO: usize = 40;

/// What the test found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MannWhitney {
    /// Pairs (a, b) with a > b, ties counted as a half.
    pub u: f64,
    /// Two-sided probability of a U at least as far off if both samples were alike.
    pub p: f64,
    /// Probability that a value of `b` is larger than one of `a`, ties shared: 0.5 is alike.
    pub superiority: f64,
    /// Whether `p` was counted and not approximated.
    pub exact: bool,
}

/// Compares two samples; `None` if one is empty.
pub fn mann_whitney(a: &[f64], b: &[f64]) -> Option<MannWhitney> {
    let (n, m) = (a.len(), b.len());
    if n == 0 || m == 0 {
        return None;
    }
    let mut all: Vec<(f64, bool)> =
        a.iter().map(|&v| (v, true)).chain(b.iter().map(|&v| (v, false))).collect();
    all.sort_by(|x, y| x.0.total_cmp(&y.0));
    // Ranks are kept doubled, so that the mean rank of ties stays an integer.
    let mut doubled = vec![0u64; n + m];
    let mut ties = 0.0;
    let mut start = 0;
    while start < all.len() {
        let end = start + all[start..].iter().take_while(|v| v.0 == all[start].0).count();
        doubled[start..end].fill((start + 1 + end) as u64);
        let t = (end - start) as f64;
        ties += t * t * t - t;
        start = end;
    }
    let sum: u64 = doubled.iter().zip(&all).filter(|(_, v)| v.1).map(|(r, _)| r).sum();
    let (nf, mf) = (n as f64, m as f64);
    let u = sum as f64 / 2.0 - nf * (nf + 1.0) / 2.0;
    let exact = n + m <= EXACT_UP_TO;
    let p = if exact { exact_p(&doubled, n, sum) } else { approximate_p(u, nf, mf, ties) };
    Some(MannWhitney { u, p, superiority: 1.0 - u / (nf * mf), exact })
}

/// Counts in how many of the ways to choose `n` of the ranks the sum is at most, and at least, what
/// was found.
fn exact_p(doubled: &[u64], n: usize, found: u64) -> f64 {
    let most: usize = doubled.iter().sum::<u64>() as usize;
    // ways[k][s]: choices of k ranks with doubled sum s.
    let mut ways = vec![vec![0.0f64; most + 1]; n + 1];
    ways[0][0] = 1.0;
    for &rank in doubled {
        let rank = rank as usize;
        for k in (1..=n).rev() {
            let (less, this) = ways.split_at_mut(k);
            for (to, from) in this[0][rank..].iter_mut().zip(&less[k - 1]) {
                *to += from;
            }
        }
    }
    let total: f64 = ways[n].iter().sum();
    let below: f64 = ways[n][..=found as usize].iter().sum();
    let above: f64 = ways[n][found as usize..].iter().sum();
    (2.0 * below.min(above) / total).min(1.0)
}

/// Normal approximation with the correction for ties and for continuity.
fn approximate_p(u: f64, n: f64, m: f64, ties: f64) -> f64 {
    let all = n + m;
    let variance = n * m / 12.0 * (all + 1.0 - ties / (all * (all - 1.0)));
    if variance <= 0.0 {
        return 1.0;
    }
    let off = ((u - n * m / 2.0).abs() - 0.5).max(0.0);
    (2.0 * normal_tail(off / variance.sqrt())).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Expected values: scipy's `mannwhitneyu`, and for exact ties all 1716 choices counted.
    #[test]
    fn p_values_match_scipy() {
        let x = [1.1, 2.3, 2.9, 4.8, 5.1, 6.0];
        let y = [3.0, 3.2, 4.9, 5.5, 7.0, 8.1, 9.4];
        let t = mann_whitney(&x, &y).unwrap();
        assert!(t.u == 9.0 && t.exact && (t.p - 0.10139860139860139).abs() < 1e-12, "{t:?}");
        assert!((t.superiority - 33.0 / 42.0).abs() < 1e-12);
        assert!((approximate_p(9.0, 6.0, 7.0, 0.0) - 0.10041249398610284).abs() < 1e-10);
        let back = mann_whitney(&y, &x).unwrap();
        assert!((back.p - t.p).abs() < 1e-12 && back.u == 33.0);
    }

    #[test]
    fn ties_are_averaged() {
        let x = [1.0, 2.0, 2.0, 3.0, 5.0, 5.0];
        let y = [2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 7.0];
        let t = mann_whitney(&x, &y).unwrap();
        assert!(t.u == 9.5 && (t.p - 0.11655011655011654).abs() < 1e-12, "{t:?}");
        // Ties: three 2, two 3, three 5, two 7.
        let ties = 24.0 + 6.0 + 24.0 + 6.0;
        assert!((approximate_p(9.5, 6.0, 7.0, ties) - 0.11105494577590766).abs() < 1e-10);
        assert_eq!(mann_whitney(&[4.0; 30], &[4.0; 30]).unwrap().p, 1.0);
        assert_eq!(mann_whitney(&[4.0; 3], &[4.0; 3]).unwrap().p, 1.0);
        assert_eq!(mann_whitney(&[], &[1.0]), None);
    }

    #[test]
    fn large_samples_use_the_normal_approximation() {
        let x: Vec<f64> = (0..60).map(|i| f64::from(i * 37 % 101) + 0.5 * f64::from(i % 7)).collect();
        let y: Vec<f64> = (0..45).map(|i| f64::from(i * 53 % 97 + 12) + 0.25 * f64::from(i % 5)).collect();
        let t = mann_whitney(&x, &y).unwrap();
        assert!(t.u == 1179.5 && !t.exact && (t.p - 0.2709393433955135).abs() < 1e-9, "{t:?}");
    }
}
