//! What a writer finds out about the records that it sent, by reads between its attempts (docs/protocol.md 2.3, "Unknown
//! outcome").
//!
//! Must not depend on: other worlds.

use super::actions::Act;
use super::state::{Kind, Scope, World};
use crate::{Log, Mutant};
use ashlar_commit::Role;

impl<const N: usize> World<N> {
    /// Whether the writer has sent a record of which it does not know that it is passed.
    pub(super) fn has_open(&self, who: u8) -> bool {
        self.rounds.iter().any(|r| r.who == who && r.proposed && !r.only_base && !r.passed)
    }
}

/// Reads of writers between attempts.
impl<const N: usize> Scope<N> {
    pub(super) fn look_actions(&self, w: &World<N>, acts: &mut Vec<Act>) {
        if w.looks == 0 {
            return;
        }
        for who in 0..self.writers.len() as u8 {
            if w.has_ended(who) || !w.has_open(who) {
                continue;
            }
            for (r, round) in w.rounds.iter().enumerate() {
                if round.proposed && !round.ended && self.is_shown(w, r) {
                    acts.push(Act::Look { who, r: r as u8 });
                }
            }
        }
    }

    /// Whether enough drives show the record of this round.
    fn is_shown(&self, w: &World<N>, r: usize) -> bool {
        let (ballot, epoch) = (w.rounds[r].prop.ballot(), w.rounds[r].epoch);
        let drives = (0..N).map(|i| w.drive_at(i, epoch));
        let showing = drives.filter(|d| d.acc.role() == Role::Voter && d.accepted == ballot).count();
        let needed = if self.broken(Mutant::PassedByUndecided) { 1 } else { self.quorum().majority() };
        showing >= usize::from(needed)
    }

    /// The writer reads the record of a round, which is chosen.
    pub(super) fn look(&self, w: &mut World<N>, who: u8, r: usize) {
        w.looks -= 1;
        let log = w.rounds[r].log;
        let delete = matches!(self.writers[who as usize], Kind::Delete | Kind::Drop);
        let mark = if delete { (who + 1) | Log::DELETE } else { who + 1 };
        if log.contains(mark) {
            w.observe(log, Log::default());
            w.answered |= 1 << who;
            return;
        }
        for mine in w.rounds.iter_mut().filter(|mine| mine.who == who && mine.proposed && !mine.only_base) {
            // A shorter one proves nothing: the record may be chosen after it.
            mine.passed |= log.len() >= mine.log.len();
        }
    }
}
