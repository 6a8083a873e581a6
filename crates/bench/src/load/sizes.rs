//! Sizes of objects: fixed, log2-random, or weighted classes.
//!
//! Invariant: the size of an object is a function of the seed and its number, so that readers need no list.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::load::keys::{mix, unit};
use crate::wire::Content;

/// A distribution of sizes in bytes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Sizes {
    /// All the same.
    Fixed(u64),
    /// As warp's `randsize`: the binary logarithm of the size is uniform between 0 and that of the
    /// largest, so small sizes are frequent; the mean is 0.18 of the largest for 10 MiB.
    Random(u64),
    /// (size, weight), at most 1,000 of them.
    Weighted(Vec<(u64, u64)>),
}

/// The largest object S3 knows.
const MAX: u64 = 5 << 40;

impl Sizes {
    /// The size of object `number`.
    pub fn of(&self, seed: u64, number: u64) -> u64 {
        let random = mix(seed ^ mix(number ^ 0x73_697a_6573));
        match self {
            Sizes::Fixed(size) => *size,
            Sizes::Random(max) => {
                // warp: exp2(uniform * log2(max))-shaped; truncation keeps 1..=max.
                let exponent = unit(random) * (*max as f64).log2();
                (exponent.exp2() as u64).clamp(1, *max)
            }
            Sizes::Weighted(classes) => {
                let total: u64 = classes.iter().map(|c| c.1).sum();
                let mut at = ((u128::from(random) * u128::from(total)) >> 64) as u64;
                for (size, weight) in classes {
                    if at < *weight {
                        return *size;
                    }
                    at -= weight;
                }
                classes.last().map_or(0, |c| c.0)
            }
        }
    }

    /// The mean size.
    pub fn mean(&self) -> f64 {
        match self {
            Sizes::Fixed(size) => *size as f64,
            // The mean of 2^u over u uniform in 0..log2(max).
            Sizes::Random(max) if *max > 1 => (*max as f64 - 1.0) / (*max as f64).ln(),
            Sizes::Random(_) => 1.0,
            Sizes::Weighted(classes) => {
                let total: f64 = classes.iter().map(|c| c.1 as f64).sum();
                classes.iter().map(|c| c.0 as f64 * c.1 as f64).sum::<f64>() / total
            }
        }
    }

    /// The largest size.
    pub fn max(&self) -> u64 {
        match self {
            Sizes::Fixed(size) | Sizes::Random(size) => *size,
            Sizes::Weighted(classes) => classes.iter().map(|c| c.0).max().unwrap_or(0),
        }
    }

    /// The content of object `number`, version `version`.
    pub(crate) fn content<'a>(
        &self,
        pool: &'a crate::wire::Pool,
        seed: u64,
        number: u64,
        version: u64,
    ) -> Content<'a> {
        pool.content(number, version, self.of(seed, number))
    }
}

/// Reads a size: digits and perhaps `K`, `M`, `G`, `T` or `KiB` ... (binary) or `KB` ... (decimal).
///
/// # Errors
/// In words.
pub fn bytes(text: &str) -> Result<u64, String> {
    let bad = || format!("`{text}` is not a size; write 4096, 4KiB, 10MiB or 1MB");
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let (unit, value): (&str, f64) = (&text[digits.len()..], digits.parse().map_err(|_| bad())?);
    let scale = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1.0,
        "k" | "kib" | "ki" => 1024.0,
        "m" | "mib" | "mi" => 1024_f64.powi(2),
        "g" | "gib" | "gi" => 1024_f64.powi(3),
        "t" | "tib" | "ti" => 1024_f64.powi(4),
        "kb" => 1e3,
        "mb" => 1e6,
        "gb" => 1e9,
        "tb" => 1e12,
        _ => return Err(bad()),
    };
    let size = value * scale;
    if size.is_finite() && (0.0..=MAX as f64).contains(&size) { Ok(size as u64) } else { Err(bad()) }
}

impl FromStr for Sizes {
    type Err = String;

    fn from_str(text: &str) -> Result<Sizes, String> {
        if let Some(max) = text.strip_prefix("random:") {
            return match bytes(max)? {
                0 => Err("random sizes need a largest size above 0".into()),
                max => Ok(Sizes::Random(max)),
            };
        }
        if !text.contains(':') {
            return bytes(text).map(Sizes::Fixed);
        }
        let mut classes = Vec::new();
        for class in text.split(',') {
            let (size, weight) = class.split_once(':').ok_or(format!("`{class}`: expected SIZE:WEIGHT"))?;
            let weight: u32 = weight.parse().map_err(|_| format!("`{weight}` is not a weight"))?;
            classes.push((bytes(size)?, u64::from(weight)));
        }
        if classes.len() > 1000 || classes.iter().all(|c| c.1 == 0) {
            return Err("weighted sizes need 1 to 1000 classes, one of them with a weight above 0".into());
        }
        Ok(Sizes::Weighted(classes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_parsed() {
        assert_eq!("4KiB".parse(), Ok(Sizes::Fixed(4096)));
        assert_eq!("1.5MB".parse(), Ok(Sizes::Fixed(1_500_000)));
        assert_eq!("random:10MiB".parse(), Ok(Sizes::Random(10 << 20)));
        assert_eq!("4096:3,8K:1".parse(), Ok(Sizes::Weighted(vec![(4096, 3), (8192, 1)])));
        for bad in ["", "x", "4096:", "random:", "random:0", "1QiB", "-1", "4096:0", "6TB", "4096:1,8192"] {
            assert!(bad.parse::<Sizes>().is_err(), "{bad}");
        }
    }

    #[test]
    fn weights_come_out_within_three_standard_deviations() {
        let sizes = Sizes::Weighted(vec![(1, 7), (2, 2), (3, 1)]);
        let n = 100_000;
        let mut counts = [0_f64; 4];
        (0..n).for_each(|i| counts[sizes.of(9, i) as usize] += 1.0);
        for (size, share) in [(1, 0.7), (2, 0.2), (3, 0.1)] {
            let sd = (n as f64 * share * (1.0 - share)).sqrt();
            assert!((counts[size] - n as f64 * share).abs() < 3.0 * sd, "{counts:?}");
        }
        assert!((sizes.mean() - 1.4).abs() < 1e-9);
    }

    /// The share below a size is its logarithm's share, and the mean is (max - 1) / ln max.
    #[test]
    fn random_sizes_are_uniform_in_their_logarithm() {
        let (n, max) = (200_000, 10 << 20);
        let sizes = Sizes::Random(max);
        let (mut below, mut sum) = (0_u64, 0_f64);
        for i in 0..n {
            let size = sizes.of(3, i);
            assert!((1..=max).contains(&size));
            below += u64::from(size < 3238); // about the square root of the largest
            sum += size as f64;
        }
        assert!((below as f64 / n as f64 - 0.5).abs() < 0.005, "{below}");
        let mean = sum / n as f64;
        assert!((mean / sizes.mean() - 1.0).abs() < 0.02, "{mean} against {}", sizes.mean());
    }
}
