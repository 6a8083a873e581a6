//! The value of the model's register: the list of changes made to it, in order.
//!
//! A list shows more than the last value would: every state that a client observes must be a prefix of every
//! later one, so a lost write, a fork and a stale read are all visible.
//!
//! Must not depend on: the worlds.

use std::fmt;

/// At most this many changes fit.
const MAX: usize = 6;

/// A list of marks, one per change; a mark is never 0.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Log([u8; MAX]);

impl Log {
    /// Marks with this bit are deletes: clients see nothing of the earlier changes.
    pub const DELETE: u8 = 0x80;

    /// Number of changes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.iter().take_while(|m| **m != 0).count()
    }

    /// Whether there is no change.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0[0] == 0
    }

    /// The marks.
    #[must_use]
    pub fn marks(&self) -> &[u8] {
        &self.0[..self.len()]
    }

    /// The list with one more change at the end.
    ///
    /// # Panics
    /// If the list is full: the scope is too large for it.
    #[must_use]
    pub fn with(mut self, mark: u8) -> Log {
        let len = self.len();
        assert!(mark != 0 && len < MAX, "log full");
        self.0[len] = mark;
        self
    }

    /// Whether it contains this change.
    #[must_use]
    pub fn contains(&self, mark: u8) -> bool {
        self.0.contains(&mark)
    }

    /// Whether a change is there twice.
    #[must_use]
    pub fn repeats(&self) -> bool {
        self.marks().iter().enumerate().any(|(i, mark)| self.0[..i].contains(mark))
    }

    /// Whether the last change is a delete.
    #[must_use]
    pub fn deleted(&self) -> bool {
        self.marks().last().is_some_and(|m| m & Log::DELETE != 0)
    }

    /// Whether this list is a prefix of `other`.
    #[must_use]
    pub fn begins(&self, other: &Log) -> bool {
        other.marks().starts_with(self.marks())
    }

    /// The longer of two.
    #[must_use]
    pub fn longer(self, other: Log) -> Log {
        if other.len() > self.len() { other } else { self }
    }
}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.marks()).finish()
    }
}

/// What clients have observed of a register so far.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct Seen {
    /// The longest state observed.
    pub log: Log,
    /// The first violation.
    pub bad: Option<crate::Bad>,
}

impl Seen {
    /// A client observes `log` in an operation that began when `min` had been observed.
    pub fn observe(&mut self, log: Log, min: Log) {
        if !log.begins(&self.log) && !self.log.begins(&log) {
            self.fail(crate::Bad::Fork);
        } else if !min.begins(&log) {
            self.fail(crate::Bad::Stale);
        }
        self.log = self.log.longer(log);
    }

    /// Records a violation; only the first one is kept.
    pub fn fail(&mut self, bad: crate::Bad) {
        self.bad = self.bad.or(Some(bad));
    }
}
