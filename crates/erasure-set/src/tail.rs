//! What is left of a write after its caller was answered: drives that had not answered yet.
//!
//! Invariants: nothing here is needed for correctness; an entry that is dropped (queue full, too
//! old) becomes a heal of its key. Old data is dropped on a drive only after that drive accepted
//! the record that no longer names it (PROTOCOL.md 2.6).

use crate::sets::Inner;
use crate::table::View;
use ashlar_commit::SlotSet;
use ashlar_drive::Tally;
use ashlar_format::{Ballot, Data, RegisterKey, WriteId};
use parking_lot::Mutex;
use smallvec::SmallVec;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// Most entries kept; beyond it they become heals.
const BOUND: usize = 16_384;
/// How long an answer is waited for.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often the entries are looked at.
const TICK: Duration = Duration::from_millis(50);
/// How long a tombstone waits before it is purged: longer than any ballot older than it can still
/// be under way, because a purge makes drives refuse older ballots for keys without a record.
const PURGE_AFTER: Duration = Duration::from_secs(2);

/// Data that a record names no longer.
pub(crate) type Drops = SmallVec<[Data; 1]>;

struct Tail {
    key: RegisterKey,
    ballot: Ballot,
    view: Arc<View>,
    tally: Arc<Tally>,
    /// Slots whose answer is still out.
    waiting: SlotSet,
    drops: Drops,
    since: Instant,
}

struct Grave {
    key: RegisterKey,
    ballot: Ballot,
    view: Arc<View>,
    since: Instant,
}

pub(crate) struct Tails {
    tails: Mutex<Vec<Tail>>,
    graves: Mutex<Vec<Grave>>,
    work: Notify,
}

impl Tails {
    pub(crate) fn new() -> Tails {
        Tails { tails: Mutex::default(), graves: Mutex::default(), work: Notify::new() }
    }
}

impl crate::sets::Sets {
    /// Drops data that no register names any more: parts of an aborted upload, for instance.
    pub fn discard(&self, group: u16, data: &[Data]) {
        if let Ok(view) = self.inner.view(group) {
            self.inner.drop_on(&view, view.which(|_| true), data);
        }
    }
}

impl Inner {
    /// Answers of `waiting` are out; when they come, `drops` go on those slots too.
    pub(crate) fn follow(
        &self,
        key: &RegisterKey,
        ballot: Ballot,
        view: &Arc<View>,
        tally: Arc<Tally>,
        waiting: SlotSet,
        drops: Drops,
    ) {
        let mut tails = self.tails.tails.lock();
        if tails.len() >= BOUND {
            drop(tails);
            self.heals.push(key, false);
            return;
        }
        let (key, view, since) = (key.clone(), view.clone(), Instant::now());
        tails.push(Tail { key, ballot, view, tally, waiting, drops, since });
        if tails.len() == 1 {
            self.tails.work.notify_one();
        }
    }

    /// Slots missed something. A drive that is out of service cannot be healed now; everything is
    /// looked at when it comes back.
    pub(crate) fn heal_if_up(&self, key: &RegisterKey, view: &View, slots: SlotSet) {
        if !slots.and(view.which(crate::table::Member::is_up)).is_empty() {
            self.heals.push(key, false);
        }
    }

    /// A tombstone that all slots, all of them voters, have accepted: purged in a while.
    pub(crate) fn bury(&self, key: &RegisterKey, ballot: Ballot, view: &Arc<View>) {
        let mut graves = self.tails.graves.lock();
        // Beyond the bound the tombstone stays until the scrub comes by.
        if graves.len() < BOUND {
            let (key, view, since) = (key.clone(), view.clone(), Instant::now());
            graves.push(Grave { key, ballot, view, since });
            if graves.len() == 1 {
                self.tails.work.notify_one();
            }
        }
    }

    /// Drops the shards of `drops` on the given slots.
    pub(crate) fn drop_on(&self, view: &View, slots: SlotSet, drops: &[Data]) {
        if drops.is_empty() {
            return;
        }
        for slot in slots.iter() {
            if let Some(m) = view.member(slot) {
                let ids: SmallVec<[(WriteId, u8); 4]> =
                    drops.iter().map(|d| (d.write_id, d.shard_of(slot))).collect();
                m.drive.discard(&ids);
            }
        }
    }

    /// Looks at all tails once; returns how many are left.
    pub(crate) fn sweep_tails(&self) -> usize {
        let mut tails = std::mem::take(&mut *self.tails.tails.lock());
        tails.retain_mut(|t| {
            let o = t.tally.outcome();
            let done = t.waiting.and(SlotSet(o.ok | o.uncounted));
            self.drop_on(&t.view, done, &t.drops);
            for m in done.iter().filter_map(|s| t.view.member(s)) {
                m.drive.hint(&t.key, t.ballot);
            }
            t.waiting = t.waiting.without(done);
            let lost = t.waiting.and(SlotSet(o.failed | o.refused));
            if !lost.is_empty() || t.since.elapsed() > PATIENCE {
                self.heal_if_up(&t.key, &t.view, t.waiting);
                return false;
            }
            !t.waiting.is_empty()
        });
        let mut now = self.tails.tails.lock();
        now.append(&mut tails);
        now.len()
    }

    /// Purges tombstones that have waited `after`; returns how many are left.
    pub(crate) fn purge_graves(&self, after: Duration) -> usize {
        let ripe: Vec<Grave> = {
            let mut graves = self.tails.graves.lock();
            let n = graves.iter().take_while(|g| g.since.elapsed() >= after).count();
            graves.drain(..n).collect()
        };
        for g in &ripe {
            self.purge(&g.key, g.ballot, &g.view);
        }
        self.tails.graves.lock().len()
    }

    /// Purges a tombstone if all slots of the group are voters now too.
    fn purge(&self, key: &RegisterKey, ballot: Ballot, view: &View) {
        let now = match self.view(view.group) {
            Ok(v) => v,
            Err(_) => return,
        };
        let same =
            now.epoch == view.epoch && now.members().zip(view.members()).all(|(a, b)| Arc::ptr_eq(a.1, b.1));
        let voters = now.which(crate::table::Member::is_voter);
        if same && ashlar_commit::may_purge(now.quorum, voters, now.quorum.all()) {
            for (_, m) in now.members() {
                m.drive.purge(key, ballot);
            }
            self.cache.forget(ashlar_checksum::key_hash(key.as_bytes()));
        }
    }
}

/// The background task.
pub(crate) async fn run(of: Weak<Inner>) {
    loop {
        let Some(inner) = of.upgrade() else { return };
        let left = inner.sweep_tails() + inner.purge_graves(PURGE_AFTER);
        if left > 0 {
            drop(inner);
            tokio::time::sleep(TICK).await;
        } else {
            // Wakes up now and then to see whether the sets are gone.
            let wait = tokio::time::timeout(Duration::from_secs(1), inner.tails.work.notified());
            let _ = wait.await;
        }
    }
}
