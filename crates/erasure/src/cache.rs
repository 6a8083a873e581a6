//! A small cache of prepared decode matrices, most recently used first.
//!
//! Invariant: never more than its bound of entries. A degraded array asks for the same few patterns
//! over and over, so the front of a short list is where the answer nearly always is, and a linear
//! search of 16-byte keys costs less than hashing.
//!
//! Must not depend on: what the rows contain.

use std::sync::{Arc, Mutex, PoisonError};

use crate::plan::Plan;

/// Which rows are used and which are wanted, as bit sets of row indices.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Pattern {
    pub used: u64,
    pub wanted: u64,
}

/// A bounded list of plans; see the module.
pub(crate) struct Cache {
    bound: usize,
    entries: Mutex<Vec<(Pattern, Arc<Plan>)>>,
}

impl Cache {
    /// An empty cache that will hold at most `bound` plans.
    pub fn new(bound: usize) -> Cache {
        Cache { bound, entries: Mutex::new(Vec::new()) }
    }

    /// The plan for `pattern`, created by `make` if it is absent. `make` runs outside of the lock; if two
    /// threads miss at the same time, both create it and one copy is kept.
    pub fn get(&self, pattern: Pattern, make: impl FnOnce() -> Plan) -> Arc<Plan> {
        if let Some(plan) = self.find(pattern) {
            return plan;
        }
        let plan = Arc::new(make());
        // A poisoned lock is harmless: the list is consistent between any two of its operations.
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        if !entries.iter().any(|(known, _)| *known == pattern) {
            entries.truncate(self.bound.saturating_sub(1));
            entries.insert(0, (pattern, Arc::clone(&plan)));
        }
        plan
    }

    fn find(&self, pattern: Pattern) -> Option<Arc<Plan>> {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let at = entries.iter().position(|(known, _)| *known == pattern)?;
        entries[..=at].rotate_right(1);
        Some(Arc::clone(&entries[0].1))
    }

    #[cfg(test)]
    fn patterns(&self) -> Vec<Pattern> {
        self.entries.lock().unwrap().iter().map(|(pattern, _)| *pattern).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Kernel;

    #[test]
    fn cache_keeps_most_recent_within_bound() {
        let cache = Cache::new(3);
        let pattern = |used| Pattern { used, wanted: 1 };
        let made = std::cell::Cell::new(0);
        let ask = |used| {
            cache.get(pattern(used), || {
                made.set(made.get() + 1);
                Plan::new(Kernel::Scalar, vec![1], 1, 1, false)
            })
        };
        for used in [1, 2, 3, 1, 4, 1, 3, 2] {
            ask(used);
        }
        // 2 was the oldest when 4 came, so it had to be made again.
        assert_eq!(made.get(), 5);
        assert_eq!(cache.patterns(), [2, 3, 1].map(pattern));
    }
}
