//! Changes of registers in memory: found by key, and in the order of keys.
//!
//! Every read asks each drive whether it has a recent change of its register, and most have none. A search of an ordered map
//! compares the key with some twenty others, which all begin alike and lie anywhere in memory: two microseconds a drive, a twelfth of
//! a small GET over four nodes. So keys are found by their hash, and the order serves lists and the writing of index files only.
//!
//! Invariants: both ways lead to the same changes; a change is replaced, and taken out only with all others.
//!
//! Must not depend on: what a change means.

use crate::overlay::Change;
use ashlar_environment::HashMap;
use ashlar_format::RegisterKey;
use std::collections::BTreeMap;
use std::collections::hash_map::Entry;
use std::ops::Bound;

/// Changes of the registers of one drive.
pub(crate) struct Changes<T> {
    all: Vec<Change<T>>,
    by_key: HashMap<RegisterKey, u32>,
    in_order: BTreeMap<RegisterKey, u32>,
}

impl<T> Default for Changes<T> {
    fn default() -> Changes<T> {
        Changes { all: Vec::new(), by_key: HashMap::default(), in_order: BTreeMap::new() }
    }
}

impl<T> Changes<T> {
    /// The number of registers.
    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Removes all and keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.all.clear();
        self.by_key.clear();
        self.in_order.clear();
    }

    pub(crate) fn get(&self, key: &RegisterKey) -> Option<&Change<T>> {
        self.by_key.get(key).map(|at| &self.all[*at as usize])
    }

    pub(crate) fn get_mut(&mut self, key: &RegisterKey) -> Option<&mut Change<T>> {
        self.by_key.get(key).map(|at| &mut self.all[*at as usize])
    }

    /// Puts a change in the place of an earlier one, if there is one.
    pub(crate) fn set(&mut self, key: RegisterKey, change: Change<T>) {
        match self.by_key.entry(key) {
            Entry::Occupied(place) => self.all[*place.get() as usize] = change,
            Entry::Vacant(place) => {
                let at = u32::try_from(self.all.len()).expect("a generation is written long before");
                self.in_order.insert(place.key().clone(), at);
                self.all.push(change);
                place.insert(at);
            }
        }
    }

    /// All, in the order of their keys.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&RegisterKey, &Change<T>)> {
        self.in_order.iter().map(|(key, at)| (key, &self.all[*at as usize]))
    }

    /// Those from a key on, in the order of their keys.
    pub(crate) fn from(&self, from: Bound<RegisterKey>) -> impl Iterator<Item = (&RegisterKey, &Change<T>)> {
        self.in_order.range((from, Bound::Unbounded)).map(|(key, at)| (key, &self.all[*at as usize]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ashlar_environment::random::Seeded;

    /// 300 keys of which many are the beginning of others.
    fn key(number: u64) -> RegisterKey {
        let name = "ab".repeat((number % 10) as usize) + &"c".repeat((number / 10) as usize);
        let mut bytes = vec![0; RegisterKey::PREFIX];
        bytes.extend_from_slice(name.as_bytes());
        RegisterKey::from_bytes(&bytes).unwrap()
    }

    #[test]
    fn found_by_key_and_in_order_as_in_an_ordered_map() {
        let mut random = Seeded::new(7);
        let (mut changes, mut model) = (Changes::default(), BTreeMap::new());
        for value in 0..2_000_u64 {
            let key = key(random.below(300));
            match random.below(4) {
                0 => {
                    let seen = changes.get_mut(&key).map(|change: &mut Change<u64>| {
                        change.resolved = true;
                        change.now
                    });
                    let expected = model.get_mut(&key).map(|change: &mut (Option<u64>, bool)| {
                        change.1 = true;
                        change.0
                    });
                    assert_eq!(seen, expected);
                }
                kind => {
                    let now = (kind != 1).then_some(value);
                    changes.set(key.clone(), Change { now, resolved: false });
                    model.insert(key, (now, false));
                }
            }
        }
        let shown =
            |(key, change): (&RegisterKey, &Change<u64>)| (key.clone(), (change.now, change.resolved));
        assert!(changes.iter().map(shown).eq(model.clone()));
        assert_eq!((changes.len(), changes.is_empty()), (model.len(), false));
        for number in 0..300 {
            let from = key(number);
            let expected = model.range(from.clone()..).map(|(k, v)| (k.clone(), *v));
            assert!(changes.from(Bound::Included(from.clone())).map(shown).eq(expected));
            assert_eq!(changes.get(&from).map(|c| (c.now, c.resolved)), model.get(&from).copied());
        }
        changes.clear();
        assert_eq!((changes.len(), changes.iter().count(), changes.get(&key(7)).is_none()), (0, 0, true));
    }
}
