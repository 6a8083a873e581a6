//! Backoff after wrong passwords, per login name.
//!
//! The first [`FREE`] failures cause no wait. Each further failure doubles the time during which logins of
//! that name are refused, up to a minute: an attacker can try a name about sixty times an hour, and no user
//! is locked out for long. Names that do not exist are treated like others. Invariant: memory is bounded;
//! when it is full, the name with the fewest failures is removed, so that a flood of names does not reset the
//! attacked one.
//!
//! Must not depend on: passwords, clocks.

use std::collections::HashMap;

/// Failures that cause no wait.
const FREE: u32 = 5;
/// Longest wait, in milliseconds.
const LONGEST_MS: i64 = 60_000;
/// Time without failures after which a name is forgotten, in milliseconds.
const FORGET_MS: i64 = 15 * 60_000;
/// Most names.
const NAMES: usize = 10_000;

/// Failures by login name, ignoring case and spaces.
#[derive(Default)]
pub struct Backoff(HashMap<String, Failed>);

struct Failed {
    count: u32,
    last_ms: i64,
}

impl Failed {
    fn until_ms(&self) -> i64 {
        let doublings = self.count.saturating_sub(FREE).min(16);
        let wait = if doublings == 0 { 0 } else { (1000 << (doublings - 1)).min(LONGEST_MS) };
        self.last_ms.saturating_add(wait)
    }
}

fn key(name: &str) -> String {
    name.split_whitespace().flat_map(str::chars).flat_map(char::to_lowercase).collect()
}

impl Backoff {
    /// Whether a name has to wait.
    #[must_use]
    pub fn waits(&self, name: &str, now_ms: i64) -> bool {
        // A clock that was set back must not extend the wait.
        self.0.get(&key(name)).is_some_and(|f| (f.last_ms..f.until_ms()).contains(&now_ms))
    }

    /// Counts a failure: the name or the password was wrong.
    pub fn failed(&mut self, name: &str, now_ms: i64) {
        let key = key(name);
        if self.0.len() >= NAMES && !self.0.contains_key(&key) {
            self.0.retain(|_, f| now_ms - f.last_ms < FORGET_MS);
            let least = self.0.iter().min_by_key(|(_, f)| (f.count, f.last_ms)).map(|(n, _)| n.clone());
            if let Some(least) = least.filter(|_| self.0.len() >= NAMES) {
                self.0.remove(&least);
            }
        }
        let f = self.0.entry(key).or_insert(Failed { count: 0, last_ms: now_ms });
        if now_ms - f.last_ms >= FORGET_MS {
            f.count = 0;
        }
        f.count = f.count.saturating_add(1);
        f.last_ms = now_ms;
    }

    /// Removes the failures of a name: its password was right.
    pub fn passed(&mut self, name: &str) {
        self.0.remove(&key(name));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_expire_and_are_forgotten() {
        let mut b = Backoff::default();
        for _ in 0..FREE {
            assert!(!b.waits("alice", 0));
            b.failed("alice", 0);
        }
        assert!(!b.waits("alice", 0));
        let mut now = 0;
        for wait in [1000, 2000, 4000, 8000, 16_000, 32_000, 60_000, 60_000] {
            b.failed(" ALICE", now);
            assert!(b.waits("Alice ", now) && b.waits("alice", now + wait - 1));
            now += wait;
            assert!(!b.waits("alice", now), "{wait}");
        }
        assert!(!b.waits("bob", now) && !b.waits("alice", -5), "others, and a clock set back");
        b.failed("alice", now);
        b.failed("alice", now + FORGET_MS);
        assert!(!b.waits("alice", now + FORGET_MS), "long ago");
        b.passed("alice");
        assert!(b.0.is_empty());
    }

    #[test]
    fn flood_of_names_does_not_reset_the_attacked_name() {
        let mut b = Backoff::default();
        for i in 0..50 {
            b.failed("root", i);
        }
        for i in 0..NAMES + 100 {
            b.failed(&format!("n{i}"), 100);
        }
        assert_eq!(b.0.len(), NAMES);
        assert!(b.waits("root", 200));
    }
}
