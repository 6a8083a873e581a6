//! Sparse histograms for transfer and addition: only the non-empty buckets.
//!
//! Invariant: adding loses nothing, because all have the same buckets.

use std::collections::BTreeMap;

use ashlar_bench_report::result;
use serde::{Deserialize, Serialize};

/// A histogram of times in nanoseconds as it travels: (middle of a bucket, count), ascending.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sparse(pub Vec<(u64, u64)>);

impl Sparse {
    /// Adds what another holds.
    pub fn merge(&mut self, other: &Sparse) {
        if other.0.is_empty() {
            return;
        }
        let mut out = Vec::with_capacity(self.0.len() + other.0.len());
        let (mut a, mut b) = (self.0.iter().copied().peekable(), other.0.iter().copied().peekable());
        loop {
            let next = match (a.peek(), b.peek()) {
                (Some(x), Some(y)) if x.0 == y.0 => {
                    let sum = (x.0, x.1 + y.1);
                    b.next();
                    a.next();
                    Some(sum)
                }
                (Some(x), Some(y)) if x.0 < y.0 => a.next(),
                (Some(_), None) => a.next(),
                (_, Some(_)) => b.next(),
                (None, None) => None,
            };
            match next {
                Some(entry) => out.push(entry),
                None => break,
            }
        }
        self.0 = out;
    }

    /// How many values.
    pub fn count(&self) -> u64 {
        self.0.iter().map(|b| b.1).sum()
    }

    /// The value below which a share `q` of all values is; 0 if there are none.
    pub fn quantile(&self, q: f64) -> u64 {
        let wanted = ((self.count() as f64 * q).ceil() as u64).max(1);
        let mut seen = 0;
        for (value, count) in &self.0 {
            seen += count;
            if seen >= wanted {
                return *value;
            }
        }
        self.0.last().map_or(0, |b| b.0)
    }

    /// As the result document has it.
    pub fn to_result(&self) -> result::Histogram {
        let count = self.count();
        let n = (count as f64).max(1.0);
        let mean = self.0.iter().map(|(v, c)| *v as f64 * *c as f64).sum::<f64>() / n;
        let squares = self.0.iter().map(|(v, c)| (*v as f64 - mean).powi(2) * *c as f64).sum::<f64>();
        let names = [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999), ("p99.99", 0.9999)];
        result::Histogram {
            count,
            min_ns: self.0.first().map_or(0, |b| b.0),
            max_ns: self.0.last().map_or(0, |b| b.0),
            mean_ns: if count == 0 { 0.0 } else { mean },
            stdev_ns: (squares / n).sqrt(),
            percentiles_ns: if count == 0 {
                BTreeMap::new()
            } else {
                names.iter().map(|(name, q)| ((*name).to_owned(), self.quantile(*q))).collect()
            },
            buckets: self.0.clone(),
        }
    }
}
