//! A change of the control store, and what it was derived from.
//!
//! Invariant: every write names what was read of its key. [`Seen`] has no public constructor: it is part of
//! an [`Entry`], which only [`Control::read`] returns. So code that writes without having read does not
//! compile, and an update that was derived from an old state changes nothing.
//!
//! Must not depend on: drivers, and what values mean.
//!
//! [`Control::read`]: crate::Control::read

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::control::Value;
use crate::{Error, Result};

/// The state of a key when it was read: the revision at which it was last written, or that it was absent.
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

    /// The state that an update compares with.
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
    /// Sets this value.
    Set(Bytes),
    /// Removes the key. A key that was seen absent stays absent.
    Remove,
}

/// One key of an update, for drivers.
#[derive(Clone, Copy, Debug)]
pub struct Step<'a> {
    /// The key.
    pub key: &'a str,
    /// The state that the key must be in.
    pub seen: Seen,
    /// The action.
    pub action: &'a Action,
}

/// A change of the store: if every key of it is as it was seen, all of it is made, otherwise none.
///
/// An update contains a key once: the last action on a key counts, and an `expect` does not replace another
/// action.
#[derive(Clone, Debug, Default)]
pub struct Update {
    steps: BTreeMap<String, (Seen, Action)>,
    /// A key that was added twice, seen in two states. The update then cannot succeed.
    torn: Option<String>,
}

impl Update {
    /// Largest number of keys. etcd accepts 128 operations in one transaction, and its driver needs some of
    /// its own.
    pub const MAX_KEYS: usize = 120;
    /// Longest value, in bytes.
    pub const MAX_VALUE: usize = 1 << 20;
    /// Largest update, in bytes of values, of keys, which count twice (an update compares and writes them),
    /// and [`Update::PER_KEY`] for each key: below the 1.5 MiB that etcd accepts in one request.
    pub const MAX_BYTES: usize = 1280 << 10;
    /// Bytes that a key counts in addition to its own.
    pub const PER_KEY: usize = 128;

    /// An empty update.
    #[must_use]
    pub fn new() -> Update {
        Update::default()
    }

    /// Sets the value of a key.
    pub fn set(&mut self, entry: &Entry, bytes: impl Into<Bytes>) {
        self.put(entry, Action::Set(bytes.into()));
    }

    /// Removes a key.
    pub fn remove(&mut self, entry: &Entry) {
        self.put(entry, Action::Remove);
    }

    /// Makes the update depend on a key that it does not change.
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

    /// Whether it contains no key.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// Number of keys in it.
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

    /// Whether it writes anything when it succeeds.
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

    /// Checks the limits that hold for every driver.
    pub(crate) fn check(&self) -> Result<()> {
        if let Some(key) = &self.torn {
            return Err(Error::Conflict(key.clone()));
        }
        if self.len() > Update::MAX_KEYS {
            return Err(Error::TooLarge("a change of more than 120 keys at once"));
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
    2 * key.len() + bytes + Update::PER_KEY
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(key: &str, revision: Option<u64>) -> Entry {
        Entry::new(key.to_owned(), revision.map(|revision| Value { revision, bytes: Bytes::new() }))
    }

    #[test]
    fn last_action_on_key_counts() {
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
    fn one_key_in_two_states_conflicts() {
        let mut u = Update::new();
        u.set(&entry("a", Some(3)), "1");
        u.expect(&entry("a", Some(4)));
        assert!(matches!(u.check(), Err(Error::Conflict(k)) if k == "a"));
    }

    #[test]
    fn update_that_changes_nothing() {
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
        assert!(full(120, 1).check().is_ok());
        assert!(matches!(full(121, 1).check(), Err(Error::TooLarge(_))));
        assert!(full(1, 1 << 20).check().is_ok());
        assert!(matches!(full(1, (1 << 20) + 1).check(), Err(Error::TooLarge(_))));
        assert!(matches!(full(2, 1 << 20).check(), Err(Error::TooLarge(_))));
        // What `has_room` accepts is never refused.
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
