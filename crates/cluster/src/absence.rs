//! How long nodes have been away, as one node sees it. A pure state machine.
//!
//! Invariants: a node is *gone* only if it was seen away at every look for the whole time. A look that cannot be trusted,
//! or a gap between looks (this process stood still), begins the time again.
//!
//! Must not depend on: how it is found out who is away, clocks.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Longest time between two looks: in a longer one a node may have been back.
const GAP: Duration = Duration::from_secs(10);

/// The nodes that are away, and since when.
#[derive(Clone, Debug, Default)]
pub struct Absences {
    since: BTreeMap<u16, Duration>,
    last: Duration,
}

impl Absences {
    /// A look at `now`, time since some moment: these nodes are away. `None`: it cannot be told who is.
    pub fn look(&mut self, now: Duration, away: Option<&BTreeSet<u16>>) {
        let gap = now.saturating_sub(self.last) > GAP;
        self.last = now;
        match away {
            Some(away) if !gap => self.since.retain(|node, _| away.contains(node)),
            _ => self.since.clear(),
        }
        for node in away.into_iter().flatten() {
            self.since.entry(*node).or_insert(now);
        }
    }

    /// For how long each node has been away, as of the last look.
    #[must_use]
    pub fn away(&self) -> BTreeMap<u16, Duration> {
        self.since.iter().map(|(node, since)| (*node, self.last.saturating_sub(*since))).collect()
    }

    /// The nodes that have been away for at least this long, as of the last look.
    #[must_use]
    pub fn gone(&self, after: Duration) -> BTreeSet<u16> {
        self.away().into_iter().filter(|(_, time)| *time >= after).map(|(node, _)| node).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AFTER: Duration = Duration::from_secs(60);

    fn look(absences: &mut Absences, second: u64, away: &[u16]) -> Vec<u16> {
        absences.look(Duration::from_secs(second), Some(&away.iter().copied().collect()));
        absences.gone(AFTER).into_iter().collect()
    }

    #[test]
    fn a_node_is_gone_after_the_whole_time_without_a_break() {
        let mut absences = Absences::default();
        for second in 0..60 {
            assert!(look(&mut absences, second, &[3]).is_empty(), "{second}");
        }
        assert_eq!(look(&mut absences, 60, &[3, 4]), [3]);
        assert_eq!(absences.away()[&4], Duration::ZERO);
        assert!(look(&mut absences, 61, &[4]).is_empty(), "it is back");
        assert!(look(&mut absences, 62, &[3, 4]).is_empty(), "and away again");
        for second in 63..=121 {
            look(&mut absences, second, &[3, 4]);
        }
        assert_eq!(absences.gone(AFTER), BTreeSet::from([4]));
    }

    #[test]
    fn what_cannot_be_told_and_a_gap_begin_the_time_again() {
        let mut absences = Absences::default();
        for second in 0..=59 {
            look(&mut absences, second, &[3]);
        }
        absences.look(Duration::from_secs(60), None);
        assert!(absences.away().is_empty());
        for second in 61..=120 {
            assert!(look(&mut absences, second, &[3]).is_empty());
        }
        assert!(look(&mut absences, 131, &[3]).is_empty(), "this process stood still");
        for second in 132..=190 {
            assert!(look(&mut absences, second, &[3]).is_empty());
        }
        assert_eq!(look(&mut absences, 191, &[3]), [3]);
    }
}
