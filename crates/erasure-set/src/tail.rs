//! The rest of a write after its caller was answered: drives that have not answered yet.
//!
//! Invariants: nothing here is needed for correctness; an entry that is dropped (queue full, too old) becomes
//! a heal of its key. Old data is dropped on a drive only after that drive accepted the record that no longer
//! names it (docs/protocol.md 2.6). Registers that a drive missed while it hung or was away are recorded and healed
//! when it answers again; above [`crate::tail_queue::MISSED`] all registers are checked.
//!
//! Must not depend on: what a version means beyond the data it names.

use crate::latency::compare;
use crate::sets::{Inner, Sets};
use crate::table::{Member, View};
use crate::tail_queue::{BOUND, Drops, Lacking, PendingPurge, Tail, Writes};
use ashlar_commit::SlotSet;
use ashlar_drive::{Tally, Unfinished};
use ashlar_environment::time::{self, Instant};
use ashlar_format::{Ballot, Data, DriveId, GroupId, RegisterKey, WriteId};
use smallvec::SmallVec;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// How long to wait for an answer.
const PATIENCE: Duration = Duration::from_secs(60);
/// Shards for a drive that has hung for this long are given up and made again later; at once if memory is
/// short.
const GIVE_UP: Duration = Duration::from_secs(5);
/// The same for shards without which their write fails.
const GIVE_UP_NEEDED: Duration = Duration::from_secs(15);
/// How often the entries are processed.
const TICK: Duration = Duration::from_millis(50);
/// How long the background task waits at most.
const IDLE: Duration = Duration::from_secs(1);
/// How long a tombstone waits before it is purged: longer than any older ballot can still be under way,
/// because a purge makes drives refuse older ballots for keys without a record.
const PURGE_AFTER: Duration = Duration::from_secs(2);

impl Sets {
    /// Drops data that no register names any more, for instance parts of an aborted upload.
    pub fn discard(&self, group: GroupId, data: &[Data]) {
        if let Ok(view) = self.inner.view(group) {
            self.inner.drop_on(&view, view.which(|_| true), data);
        }
    }
}

impl Inner {
    /// Follows the missing answers of `waiting`; when they arrive, `drops` are dropped on those slots too.
    #[allow(clippy::too_many_arguments)] // what is left of a write
    pub(crate) fn follow(
        &self,
        key: &RegisterKey,
        ballot: Ballot,
        view: &Arc<View>,
        tally: Arc<Tally>,
        waiting: SlotSet,
        drops: Drops,
        (writes, shards): (Writes, Vec<(u8, Unfinished)>),
    ) {
        let mut tails = self.tails.tails.lock();
        if tails.tails.len() >= BOUND {
            drop(tails);
            for (_, s) in shards {
                s.give_up();
            }
            self.heal_if_up(key, view, waiting);
            return;
        }
        let (key, view, since) = (key.clone(), view.clone(), Instant::now());
        tails.add(Tail { key, writes, shards, ballot, view, tally, waiting, drops, since });
        if tails.tails.len() == 1 {
            self.tails.work.notify_one();
        }
    }

    /// Whether answers to a change of this register are missing.
    pub(crate) fn is_followed(&self, hash: u64) -> bool {
        self.tails.tails.lock().keys.contains_key(&hash)
    }

    /// Whether shards of a write may still be being written.
    pub(crate) fn is_under_way(&self, write: WriteId) -> bool {
        self.writes_in_flight.lock().contains_key(&write)
            || self.tails.tails.lock().writes.contains_key(&write)
    }

    /// Slots missed a change. A drive that is out of service cannot be healed now: everything is checked when
    /// it returns. Neither can a drive that hangs or is away: what it missed is recorded.
    pub(crate) fn heal_if_up(&self, key: &RegisterKey, view: &View, slots: SlotSet) {
        let hung = view.hung(slots);
        for m in hung.iter().filter_map(|s| view.member(s)) {
            self.missed.note(m.id, key);
        }
        if !slots.without(hung).and(view.which(Member::is_up)).is_empty() {
            self.heals.push(key, false);
        }
    }

    /// Checks which drives hang, and queues what drives that answer again have missed.
    pub(crate) fn check_hung_drives(&self) {
        let table = self.table.load();
        compare(table.members.values().map(|m| &m.latency));
        for m in table.members.values() {
            if m.responds() {
                if m.hang_reported.swap(false, Ordering::Relaxed) {
                    tracing::info!(drive = %m.drive.path().display(), "the drive answers again");
                    m.latency.reset();
                }
            } else if m.is_hung() && !m.hang_reported.swap(true, Ordering::Relaxed) {
                let (away, since) = (m.is_away(), m.drive.stalled());
                tracing::warn!(drive = %m.drive.path().display(), away, ?since,
                    "the drive does not answer: requests no longer wait for it");
            }
        }
        self.give_up_shards(table.members.values().filter(|m| self.is_given_up(m)));
        let back: Vec<Lacking> = {
            let mut of = self.missed.of.lock();
            let here = |d: &DriveId| table.members.get(d).is_none_or(|m| m.responds());
            let back: Vec<DriveId> = of.keys().copied().filter(here).collect();
            back.iter().filter_map(|d| of.remove(d)).collect()
        };
        for lacking in back {
            if lacking.more {
                self.scrub.owe_pass();
            }
            for key in lacking.keys {
                self.heals.push(&key, false);
            }
        }
    }

    /// Gives up shards of writes in flight on drives that hang. What a write needs it keeps for a while longer: drives with
    /// much to write are slow one after another, and answer.
    fn give_up_shards<'a>(&self, hung: impl Iterator<Item = &'a Arc<Member>>) {
        let hung: Vec<(DriveId, bool)> = hung
            .map(|m| (m.id, m.is_away() || m.drive.stalled().is_some_and(|s| s >= GIVE_UP_NEEDED)))
            .collect();
        if hung.is_empty() {
            return;
        }
        for write in self.writes_in_flight.lock().values_mut() {
            let mut spare = write.shards.len().saturating_sub(write.needed);
            write.shards.retain(|(drive, shard)| {
                let Some((_, for_good)) = hung.iter().find(|(id, _)| id == drive) else { return true };
                if spare == 0 && !for_good {
                    return true;
                }
                spare = spare.saturating_sub(1);
                shard.give_up();
                false
            });
        }
    }

    /// Has a tombstone purged in a while, if all slots, all of them voters, answered that they accepted it. A slot that
    /// did not answer may hold an older record, which would come back.
    pub(crate) fn queue_purge(&self, key: &RegisterKey, ballot: Ballot, view: &Arc<View>, accepted: SlotSet) {
        if accepted != view.quorum.all() {
            return;
        }
        let mut pending_purges = self.tails.pending_purges.lock();
        // Beyond the bound the tombstone stays until the scrub finds it.
        if pending_purges.len() < BOUND {
            let (key, view, since) = (key.clone(), view.clone(), Instant::now());
            pending_purges.push(PendingPurge { key, ballot, view, since });
            if pending_purges.len() == 1 {
                self.tails.work.notify_one();
            }
        }
    }

    /// Drops the shards of `drops` on the given slots.
    pub(crate) fn drop_on(&self, view: &View, slots: SlotSet, drops: &[Data]) {
        if drops.is_empty() {
            return;
        }
        let epoch = self.epoch_now(view);
        for slot in slots.iter() {
            if let Some(m) = view.member(slot) {
                let ids: SmallVec<[(WriteId, u8); 4]> =
                    drops.iter().map(|d| (d.write_id, d.shard_of(slot))).collect();
                m.drive.discard(view.group, epoch, &ids);
            }
        }
    }

    /// Processes all tails once; returns the number of registers that still have some, including those that another caller
    /// processes now.
    pub(crate) fn sweep_tails(&self) -> usize {
        self.check_hung_drives();
        let mut tails = std::mem::take(&mut self.tails.tails.lock().tails);
        let ended: Vec<Tail> = tails.extract_if(.., |t| self.sweep_tail(t)).collect();
        let mut now = self.tails.tails.lock();
        for t in &ended {
            now.forget(t);
        }
        now.tails.append(&mut tails);
        now.keys.len()
    }

    /// Whether the drive has hung so long, or memory is so short, that its queued shards are given up.
    fn is_given_up(&self, m: &Member) -> bool {
        let pool = &self.options.pool;
        let short = pool.used() > pool.ceiling() / 2;
        m.is_hung() && (short || m.drive.stalled().is_some_and(|s| s >= GIVE_UP))
    }

    /// Processes one tail; returns true if nothing is left to wait for.
    fn sweep_tail(&self, t: &mut Tail) -> bool {
        let o = t.tally.outcome();
        let done = t.waiting.and(SlotSet(o.ok | o.uncounted));
        self.drop_on(&t.view, done, &t.drops);
        for m in done.iter().filter_map(|s| t.view.member(s)) {
            m.drive.hint(&t.key, t.ballot, self.epoch_now(&t.view));
        }
        t.waiting = t.waiting.without(done);
        let lost = t.waiting.and(SlotSet(o.failed | o.refused));
        let given_up = |s: &u8| t.view.member(*s).is_some_and(|m| self.is_given_up(m));
        let hung: SlotSet = t.waiting.iter().filter(given_up).collect();
        if !hung.is_empty() {
            // Their memory is needed elsewhere.
            for (_, s) in t.shards.iter().filter(|(s, _)| hung.contains(*s)) {
                s.give_up();
            }
        }
        if !lost.is_empty() || hung == t.waiting || t.since.elapsed() > PATIENCE {
            self.heal_if_up(&t.key, &t.view, t.waiting);
            return true;
        }
        false
    }

    /// Purges tombstones that have waited for `after`; returns how many are left.
    pub(crate) fn purge_tombstones(&self, after: Duration) -> usize {
        let ripe: Vec<PendingPurge> = {
            let mut pending_purges = self.tails.pending_purges.lock();
            let n = pending_purges.iter().take_while(|g| g.since.elapsed() >= after).count();
            pending_purges.drain(..n).collect()
        };
        for g in &ripe {
            self.purge(g);
        }
        self.tails.pending_purges.lock().len()
    }

    /// How long until the oldest tombstone that waits has waited for `after`; `None` if none waits.
    fn until_next_purge(&self, after: Duration) -> Option<Duration> {
        let pending_purges = self.tails.pending_purges.lock();
        pending_purges.first().map(|g| after.saturating_sub(g.since.elapsed()))
    }

    /// Purges a tombstone if all slots of the group are still voters.
    fn purge(&self, of: &PendingPurge) {
        let PendingPurge { key, ballot, view, .. } = of;
        let now = match self.view(view.group) {
            Ok(v) => v,
            Err(_) => return,
        };
        let same =
            now.epoch == view.epoch && now.members().zip(view.members()).all(|(a, b)| Arc::ptr_eq(a.1, b.1));
        let voters = now.voters();
        if same && ashlar_commit::may_purge(now.quorum, voters, view.quorum.all()) {
            for (_, m) in now.members() {
                m.drive.purge(key, *ballot, now.epoch);
            }
            self.cache.forget(ashlar_checksum::key_hash(key.as_bytes()));
        }
    }
}

/// The background task.
pub(crate) async fn run(of: Weak<Inner>) {
    loop {
        let Some(inner) = of.upgrade() else { return };
        let tails = inner.sweep_tails();
        inner.purge_tombstones(PURGE_AFTER);
        if tails > 0 {
            drop(inner);
            time::sleep(TICK).await;
        } else {
            // Wakes up regularly to check whether the sets still exist, and for the next purge.
            let next = inner.until_next_purge(PURGE_AFTER).map_or(IDLE, |until| until.clamp(TICK, IDLE));
            let _ = time::timeout(next, inner.tails.work.notified()).await;
        }
    }
}
