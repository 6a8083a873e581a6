//! The turn of a key, which whoever proposes for its register holds: first in this process, then, if proposals of several
//! nodes met there a short time ago, among the nodes.
//!
//! Invariants: as of `keylock` and `turns`: turns only save duels. A proposal that lost is made again a bounded number of times.
//!
//! Must not depend on: what is proposed.

use crate::keylock::KeyGuard;
use crate::sets::Inner;
use crate::turns::Held;
use ashlar_environment::time::{self, Instant};
use std::time::Duration;

/// Proposals before an update gives up, if this process is the only one that proposes. Usually one is enough, two after a drive
/// returned.
pub(crate) const ATTEMPTS: u32 = 8;
/// The most proposals where other nodes propose too, and for how long an update may lose against them.
const MOST_ATTEMPTS: u32 = 64;
const CONTEST: Duration = Duration::from_secs(15);

/// The turn of a key: in this process, and among the nodes where their proposals meet.
pub(crate) struct KeyTurn {
    /// Ended first: the next proposal of this process asks again, so that other nodes come before it.
    among_nodes: Option<Held>,
    _here: KeyGuard,
}

impl Inner {
    /// Waits for the turn of a key.
    pub(crate) async fn turn(&self, hash: u64) -> KeyTurn {
        let here = self.locks.lock(hash).await;
        let mut turn = KeyTurn { among_nodes: None, _here: here };
        if self.turns.is_contended(hash) {
            turn.among_nodes = self.turns.take(hash).await;
        }
        turn
    }

    /// A proposal of this process met another one: the next one is made with a turn among the nodes, if there is one to be
    /// had, and after a pause otherwise. `round`: the number of proposals so far.
    pub(crate) async fn met(&self, turn: &mut KeyTurn, hash: u64, round: u32) {
        self.turns.met(hash);
        if turn.among_nodes.is_none() {
            turn.among_nodes = self.turns.take(hash).await;
        }
        // The first loss is usually because of a floor: propose again at once.
        if round == 1 {
            return;
        }
        let most = if turn.among_nodes.is_some() { round.min(3) } else { round.min(7) };
        time::sleep(Duration::from_micros(self.ballots.jitter() % ((1 << most) * 1000))).await;
    }

    /// Whether to propose again after `round` proposals that met others, the first of them at `began`.
    pub(crate) fn may_propose_again(&self, round: u32, began: Instant) -> bool {
        round < ATTEMPTS || !self.options.sole && round < MOST_ATTEMPTS && began.elapsed() < CONTEST
    }
}
