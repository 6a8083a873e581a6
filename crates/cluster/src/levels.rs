//! Feature levels: what the nodes of a cluster may write and say, while their releases differ.
//!
//! A release can do a range of levels. The cluster has one level in force, in its record. What a level adds to formats on
//! drives, to records and to messages between nodes is written only while that level, or a later one, is in force; so a
//! node of any release whose range has the level in force understands all that the others write. The level is raised by
//! an operator when all nodes can do the next one (`ashlar cluster upgrade`), and never lowered.
//!
//! | level | adds |
//! |---|---|
//! | 1 | what the first release has |
//! | 2 | nodes ask each other's drives for a register and for shards with one message ([`READ_WITH_SHARDS`]), and for folded lists ([`FOLDED_LISTS`]) |
//! | 3 | changes of followed buckets are recorded with their ballots ([`BALLOTS_OF_CHANGES`]) |
//!
//! Invariants: a node that cannot do the level in force does not serve. The level, and what a node can do, change only in
//! updates that write the record of the cluster: of two at once, one is made anew from what the other one wrote.
//!
//! Must not depend on: how nodes are started, connections.

use std::fmt;
use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

/// The levels that a release can do.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Levels {
    /// The oldest one.
    pub oldest: u32,
    /// The newest one.
    pub newest: u32,
}

impl Levels {
    /// Those of this release.
    pub const OURS: Levels = Levels { oldest: FIRST, newest: BALLOTS_OF_CHANGES };

    /// From `OLDEST-NEWEST`.
    ///
    /// # Errors
    /// A message for the operator.
    pub fn parse(text: &str) -> Result<Levels, String> {
        let bad = || format!("{text:?} is no range of feature levels: OLDEST-NEWEST, from 1");
        let (oldest, newest) = text.split_once('-').ok_or_else(bad)?;
        let levels =
            Levels { oldest: oldest.parse().map_err(|_| bad())?, newest: newest.parse().map_err(|_| bad())? };
        if levels.oldest == 0 || levels.oldest > levels.newest { Err(bad()) } else { Ok(levels) }
    }

    /// Whether a level is one of them.
    #[must_use]
    pub fn can(self, level: u32) -> bool {
        (self.oldest..=self.newest).contains(&level)
    }

    /// From the oldest to the newest.
    #[must_use]
    pub fn range(self) -> RangeInclusive<u32> {
        self.oldest..=self.newest
    }
}

impl Default for Levels {
    /// Those of a node that was stored before nodes had ranges.
    fn default() -> Levels {
        Levels { oldest: FIRST, newest: FIRST }
    }
}

impl fmt::Display for Levels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.oldest == self.newest {
            true => write!(f, "{}", self.oldest),
            false => write!(f, "{} to {}", self.oldest, self.newest),
        }
    }
}

/// From this level on, a READ may ask for shards as well: method 73 of the calls of drives (docs/formats.md).
pub const READ_WITH_SHARDS: u32 = 2;
/// From this level on, lists of drives may be folded: methods 25 and 26 of the calls of drives (docs/formats.md).
pub const FOLDED_LISTS: u32 = 2;
/// From this level on, the change feed may hold entries of kind 4, a change with its ballot (docs/formats.md, "Change feed").
pub const BALLOTS_OF_CHANGES: u32 = 3;

/// The first level.
pub(crate) const FIRST: u32 = 1;

/// The level of a cluster that was stored before clusters had one.
pub(crate) const fn first() -> u32 {
    FIRST
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges() {
        let levels = Levels::parse("2-4").unwrap();
        assert_eq!([1, 2, 4, 5].map(|level| levels.can(level)), [false, true, true, false]);
        assert_eq!((levels.to_string(), Levels::default().to_string()), ("2 to 4".into(), "1".into()));
        assert!(Levels::OURS.can(FIRST), "what the first release wrote can be read");
        for bad in ["", "1", "0-1", "2-1", "a-b", "1-2-3"] {
            assert!(Levels::parse(bad).is_err(), "{bad}");
        }
    }
}
