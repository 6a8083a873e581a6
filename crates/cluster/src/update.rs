//! What a change of the control store was derived from, and the change itself.
//!
//! Invariant: nothing is written that does not name what was read of its key. [`Seen`] has no public
//! constructor: it comes with an [`Entry`], and an entry comes from [`Control::read`]. So code that writes
//! without having read does not compile, and an update that was derived from an old state changes nothing.
//!
//! Must not depend on: drivers, and what values mean.
//!
//! [`Control::read`]: crate::Control::read

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::control::Value;
use crate::{Error, Result};

/// What was there when a key was read: the revision at which it was last written, or that it was absent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen(Option<u64>);

impl Seen {
    /// The revision at which the key was last written; `None`: it was absent.
    #[must_use]
    pub fn revision(self) -> Option<u64> {
        self.0
    }
}

/// A key as it was read: its value and revision, or that it was absent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    key: String,
    value: Option<Value>,
}

impl Entry {
    pub(crate) fn new(key: String, value: Option<Value>) -> Entry {
        Entry { key, value }
    }

    /// The key.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The bytes; `None`: it was absent.
    #[must_use]
    pub fn bytes(&self) -> Option<&Bytes> {
        self.value.as_ref().map(|v| &v.bytes)
    }

    /// The revision at which it was last written; `None`: it was absent.
    #[must_use]
    pub fn revision(&self) -> Option<u64> {
        self.seen().revision()
    }

    /// What an update compares.
    #[must_use]
    pub fn seen(&self) -> Seen {
        Seen(self.value.as_ref().map(|v| v.revision))
    }
}

/// What an update does to one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Nothing; the key must be as it was seen.
    Expect,
    /// Gives it this value.
    Set(Bytes),
    /// Removes it. A key that was seen absent stays so.
    Remove,
}

/// One key of an update, for drivers.
#[derive(Clone, Copy, Debug)]
pub struct Step<'a> {
    /// The key.
    pub key: &'a str,
    /// What must be there.
    pub seen: Seen,
    /// What is done.
    pub action: &'a Action,
}

/// A change of the store: when every key of it is as it was seen, all of it is made, else none.
///
/// A key is in it once: what is said last of a key counts, and an `expect` adds nothing to a change.
#[derive(Clone, Debug, Default)]
pub struct Update {
    steps: BTreeMap<String, (Seen, Action)>,
    /// A key that was given twice, seen in two states: no store is in both.
    torn: Option<String>,
}

impl Update {
    /// Most keys. etcd takes as many operations in one transaction.
    pub const MAX_KEYS: usize = 128;
    /// Longest value, in bytes.
    pub const MAX_VALUE: usize = 1 << 20;
    /// Largest update, in bytes of keys and values and [`Update::PER_KEY`] for each key: below the 1.5 MiB
    /// that etcd takes in one request.
    pub const MAX_BYTES: usize = 1280 << 10;
    /// What a key counts beside its bytes.
    pub const PER_KEY: usize = 128;

    /// Nothing yet.
    #[must_use]
    pub fn new() -> Update {
        Update::default()
    }

    /// Gives a key a value.
    pub fn set(&mut self, entry: &Entry, bytes: impl Into<Bytes>) {
        self.put(entry, Action::Set(bytes.into()));
    }

    /// Removes a key.
    pub fn remove(&mut self, entry: &Entry) {
        self.put(entry, Action::Remove);
    }

    /// Holds the update to a key that it does not change.
    pub fn expect(&mut self, entry: &Entry) {
        self.put(entry, Action::Expect);
    }

    fn put(&mut self, entry: &Entry, action: Action) {
        match self.steps.get_mut(entry.key()) {
            Some((seen, _)) if *seen != entry.seen() => self.torn = Some(entry.key().to_owned()),
            Some((_, before)) => {
                if action != Action::Expect {
                    *before = action;
                }
            }
            None => {
                self.steps.insert(entry.key().to_owned(), (entry.seen(), action));
            }
        }
    }

    /// Nothing is in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// How many keys are in it.
    #[must_use]
    pub fn len(&self) -> usize {
        self.steps.len()
    }

    /// Whether one more key with a value of `bytes` bytes fits. For work that has to be split.
    #[must_use]
    pub fn has_room(&self, key: &str, bytes: usize) -> bool {
        self.len() < Update::MAX_KEYS && self.bytes() + cost(key, bytes) <= Update::MAX_BYTES
    }

    fn bytes(&self) -> usize {
        let value = |a: &Action| if let Action::Set(bytes) = a { bytes.len() } else { 0 };
        self.steps.iter().map(|(k, (_, a))| cost(k, value(a))).sum()
    }

    /// Whether it writes anything when it goes through.
    #[must_use]
    pub fn changes_something(&self) -> bool {
        self.steps.values().any(|(seen, a)| match a {
            Action::Expect => false,
            Action::Set(_) => true,
            Action::Remove => seen.0.is_some(),
        })
    }

    /// Its keys in order, for drivers.
    pub fn steps(&self) -> impl Iterator<Item = Step<'_>> {
        self.steps.iter().map(|(key, (seen, action))| Step { key, seen: *seen, action })
    }

    /// What holds for every driver.
    pub(crate) fn check(&self) -> Result<()> {
        if let Some(key) = &self.torn {
            return Err(Error::Conflict(key.clone()));
        }
        if self.len() > Update::MAX_KEYS {
            return Err(Error::TooLarge("a change of more than 128 keys at once"));
        }
        let long = |(_, a): &(Seen, Action)| matches!(a, Action::Set(b) if b.len() > Update::MAX_VALUE);
        if self.steps.values().any(long) {
            return Err(Error::TooLarge("a value of more than 1 MiB"));
        }
        if self.bytes() > Update::MAX_BYTES {
            return Err(Error::TooLarge("a change of more than 1.25 MiB at once"));
        }
        Ok(())
    }
}

fn cost(key: &str, bytes: usize) -> usize {
    key.len() + bytes + Update::PER_KEY
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(key: &str, revision: Option<u64>) -> Entry {
        Entry::new(key.to_owned(), revision.map(|revision| Value { revision, bytes: Bytes::new() }))
    }

    #[test]
    fn the_last_word_on_a_key_counts() {
        let mut u = Update::new();
        let (a, b) = (entry("a", Some(3)), entry("b", None));
        u.expect(&a);
        u.set(&a, "1");
        u.expect(&a);
        u.set(&b, "2");
        u.remove(&b);
        let steps: Vec<_> = u.steps().map(|s| (s.key, s.seen.revision(), s.action.clone())).collect();
        let set = Action::Set(Bytes::from_static(b"1"));
        assert_eq!(steps, [("a", Some(3), set), ("b", None, Action::Remove)]);
        assert!(u.check().is_ok() && u.changes_something());
    }

    #[test]
    fn one_key_in_two_states_is_a_conflict() {
        let mut u = Update::new();
        u.set(&entry("a", Some(3)), "1");
        u.expect(&entry("a", Some(4)));
        assert!(matches!(u.check(), Err(Error::Conflict(k)) if k == "a"));
    }

    #[test]
    fn what_changes_nothing() {
        let mut u = Update::new();
        u.expect(&entry("a", Some(3)));
        u.remove(&entry("b", None));
        assert!(!u.changes_something());
        u.remove(&entry("c", Some(1)));
        assert!(u.changes_something());
    }

    #[test]
    fn bounds() {
        let full = |keys: usize, bytes: usize| {
            let mut u = Update::new();
            for i in 0..keys {
                u.set(&entry(&format!("{i:03}"), None), vec![0; bytes]);
            }
            u
        };
        assert!(full(128, 1).check().is_ok());
        assert!(matches!(full(129, 1).check(), Err(Error::TooLarge(_))));
        assert!(full(1, 1 << 20).check().is_ok());
        assert!(matches!(full(1, (1 << 20) + 1).check(), Err(Error::TooLarge(_))));
        assert!(matches!(full(2, 1 << 20).check(), Err(Error::TooLarge(_))));
        // What there is room for is never refused.
        let mut u = Update::new();
        for i in 0.. {
            let key = format!("{i}");
            if !u.has_room(&key, 20_000) {
                break;
            }
            u.set(&entry(&key, None), vec![0; 20_000]);
        }
        assert!(u.check().is_ok() && u.len() > 60);
    }
}
