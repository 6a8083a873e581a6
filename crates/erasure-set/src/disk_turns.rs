//! Bodies that are written to hard disks take turns.
//!
//! A hard disk writes a shard fast if it has all of it, or a long piece, before it begins (`write_order` of the drive). Bodies that
//! come all at once would share the memory so that no drive has a long piece of any. So only as many bodies are
//! accepted at a time as fit in memory as far as the drives take them; the others wait, in fair order, before they are received.
//!
//! A turn is for [`LONG`] bytes of each shard; a longer body takes several. What of it became rows is given back when the drives have
//! written them, so that the next body is received meanwhile. The rest is lost to a client that kept it waiting for [`IDLE`] in all and sent less than
//! [`RATE`], if others wait: the body then takes another turn.
//!
//! Invariants: the drives write what they have of a body that waits for a turn, however short; a wait ends at its deadline; a turn that
//! was lost costs nothing but another wait.
//!
//! Must not depend on: what is written.

use crate::budget::{Budget, Reclaim, Share};
use crate::memory::LATER;
use ashlar_drive::Unfinished;
use ashlar_environment::HashMap;
use ashlar_environment::time::Instant;
use ashlar_machine::BufferPool;
use bytes::Bytes;
use parking_lot::Mutex;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// How long a client may keep its turn waiting, whatever its rate.
const IDLE: Duration = Duration::from_secs(1);
/// Bytes of rows per second of that time below which it loses its turn.
const RATE: u64 = 2 << 20;
/// Most bytes of one shard that wait in memory for its drive.
const LONG: u64 = 8 << 20;

/// The turns of bodies.
pub(crate) struct DiskTurns {
    budget: Budget,
    holders: Holders,
}

/// The turn of one body.
#[derive(Default)]
pub(crate) struct DiskTurn {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    share: Option<Share>,
    /// Since when its client has been waited for, and how long before.
    since: Option<Instant>,
    waited: Duration,
    /// Bytes of rows.
    sent: u64,
    /// Its shards.
    shards: Vec<Unfinished>,
}

impl DiskTurn {
    /// Whether it has these bytes left.
    pub(crate) fn covers(&self, bytes: usize) -> bool {
        self.state.lock().share.as_ref().is_some_and(|s| s.bytes() >= bytes)
    }

    /// The rows of a stripe, which keep their part of the turn until the last drive has written its row.
    pub(crate) fn rows(&self, rows: Bytes) -> Bytes {
        let part = {
            let mut s = self.state.lock();
            s.sent += rows.len() as u64;
            s.share.as_mut().map(|share| share.split(rows.len()))
        };
        Bytes::from_owner(Held { rows, _part: part })
    }

    /// Whether the body waits for its client from now on.
    pub(crate) fn waits_for_client(&self, waits: bool) {
        let mut s = self.state.lock();
        if let Some(since) = s.since.take() {
            s.waited += since.elapsed();
        }
        s.since = waits.then(Instant::now);
    }

    /// Whether its client is too slow while others wait.
    fn is_slow(&self) -> bool {
        let s = self.state.lock();
        let waited = s.waited + s.since.map_or(Duration::ZERO, |t| t.elapsed());
        waited >= IDLE && s.sent.saturating_mul(1000) < RATE.saturating_mul(waited.as_millis() as u64)
    }
}

#[derive(Default)]
struct Holders {
    known: Mutex<HashMap<usize, Weak<DiskTurn>>>,
}

impl Reclaim for Holders {
    fn reclaim(&self, bytes: usize) {
        let mut known = Vec::new();
        self.known.lock().retain(|_, turn| {
            turn.upgrade().is_some_and(|turn| {
                known.push(turn);
                true
            })
        });
        let mut freed = 0;
        for turn in known.into_iter().filter(|t| t.is_slow()) {
            if freed >= bytes {
                return;
            }
            let mut s = turn.state.lock();
            let (share, shards) = (s.share.take(), std::mem::take(&mut s.shards));
            drop(s);
            // What it has is not kept in memory without a turn.
            shards.iter().for_each(|s| s.hurry(true));
            freed += share.map_or(0, |s| s.bytes());
        }
    }
}

impl DiskTurns {
    /// Three eighths of the pool: what bodies hold for drives is outside of the other shares (`memory`).
    pub(crate) fn new(pool: &BufferPool) -> DiskTurns {
        DiskTurns { budget: Budget::new(pool.ceiling() / 8 * 3), holders: Holders::default() }
    }

    /// Waits for a turn for the next `left` bytes of each of `n` shards, in rows of `row` bytes; `shards`: those that are written. False:
    /// none came in time.
    pub(crate) async fn take(
        &self,
        turn: &Arc<DiskTurn>,
        (left, row, n): (u64, u64, u8),
        shards: Vec<Unfinished>,
    ) -> bool {
        let bytes = left.min(LONG).next_multiple_of(row.max(1)).saturating_mul(n.into());
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        drop(turn.state.lock().share.take());
        shards.iter().for_each(|s| s.hurry(true));
        let Some(share) = self.budget.take(bytes, 0, LATER, &self.holders).await else { return false };
        shards.iter().for_each(|s| s.hurry(false));
        *turn.state.lock() = State { share: Some(share), shards, ..State::default() };
        self.holders.known.lock().insert(Arc::as_ptr(turn) as usize, Arc::downgrade(turn));
        true
    }

    /// The body of this turn has ended.
    pub(crate) fn forget(&self, turn: &Arc<DiskTurn>) {
        self.holders.known.lock().remove(&(Arc::as_ptr(turn) as usize));
    }
}

/// Rows with their part of a turn.
struct Held {
    rows: Bytes,
    _part: Option<Share>,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.rows
    }
}
