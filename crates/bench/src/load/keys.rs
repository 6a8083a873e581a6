//! Names of objects and random numbers: a key is a number until it is sent.
//!
//! Invariants: different numbers have different names; names of a run are under its own prefix.

use std::fmt::Write;

use crate::{load::Order, wire::encode_into};

pub(crate) use ashlar_bench_report::random::{mix, splitmix};

/// A uniform number in 0..1 from 64 random bits.
pub(crate) fn unit(random: u64) -> f64 {
    (random >> 11) as f64 * (1.0 / (1_u64 << 53) as f64)
}

/// A small random generator, one per worker.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// A sequence of its own for each seed.
    pub fn new(seed: u64) -> Rng {
        Rng(mix(seed))
    }

    /// 64 random bits.
    pub fn next(&mut self) -> u64 {
        splitmix(&mut self.0)
    }

    /// Uniform in 0..n; 0 if `n` is 0.
    pub fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(n)) >> 64) as u64
    }

    /// Uniform in 0..1.
    pub fn unit(&mut self) -> f64 {
        unit(self.next())
    }
}

/// How numbers become names.
#[derive(Clone, Debug)]
pub struct Keys {
    prefix: String,
    /// The prefix as it stands in a path and in a query.
    path_prefix: String,
    query_prefix: String,
    depth: u32,
    fanout: u64,
    order: Order,
}

impl Keys {
    /// Names under `prefix` (which ends with a slash or is empty), `depth` folders deep with at most
    /// `fanout` entries in each.
    pub fn new(prefix: &str, depth: u32, fanout: u32, order: Order) -> Keys {
        let mut path_prefix = String::from("/");
        encode_into(&mut path_prefix, prefix, true);
        let mut query_prefix = String::new();
        encode_into(&mut query_prefix, prefix, false);
        Keys {
            prefix: prefix.into(),
            path_prefix,
            query_prefix,
            depth,
            fanout: u64::from(fanout.max(1)),
            order,
        }
    }

    /// The prefix of all names.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// The prefix as a query's value.
    pub fn query_prefix(&self) -> &str {
        &self.query_prefix
    }

    /// Writes the path of a key, encoded, after a slash.
    pub fn path(&self, number: u64, out: &mut String) {
        out.clear();
        out.push_str(&self.path_prefix);
        self.leaf(number, "/", out);
    }

    /// Writes the name of a key as it is.
    pub fn name(&self, number: u64, out: &mut String) {
        out.push_str(&self.prefix);
        self.leaf(number, "/", out);
    }

    /// Writes the name of a key as a query's value.
    pub fn query(&self, number: u64, out: &mut String) {
        out.push_str(&self.query_prefix);
        self.leaf(number, "%2F", out);
    }

    fn leaf(&self, number: u64, slash: &str, out: &mut String) {
        let scattered = mix(number ^ 0x6b_6579);
        let mut folders = match self.order {
            Order::Random => scattered,
            Order::Sequential => number / self.fanout,
        };
        for _ in 0..self.depth {
            let _ = write!(out, "{:03x}{slash}", folders % self.fanout);
            folders /= self.fanout;
        }
        // A bijection of the number, so never the same for two.
        let _ = match self.order {
            Order::Random => write!(out, "{scattered:016x}"),
            Order::Sequential => write!(out, "{number:012}"),
        };
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn names_are_distinct() {
        for order in [Order::Random, Order::Sequential] {
            let keys = Keys::new("a b/run/", 2, 16, order);
            let names: HashSet<String> = (0..10_000)
                .map(|n| {
                    let mut name = String::new();
                    keys.name(n, &mut name);
                    assert!(name.starts_with("a b/run/") && name.matches('/').count() == 4, "{name}");
                    name
                })
                .collect();
            assert_eq!(names.len(), 10_000);
        }
        let keys = Keys::new("a b/", 1, 16, Order::Sequential);
        let mut path = String::new();
        keys.path(35, &mut path);
        assert_eq!(path, "/a%20b/002/000000000035");
        let mut query = String::new();
        keys.query(35, &mut query);
        assert_eq!(query, "a%20b%2F002%2F000000000035");
    }
}
