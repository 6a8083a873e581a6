//! The census of the scrub: is there data that no record names?
//!
//! A scrub is a periodic check of everything. Its passes over the registers are in `scrub_pass`. The census reads the list
//! of shards of every drive to find orphans. It runs after full passes, soon after the start (a crash leaves orphans) and
//! once a day; what a write of this process may have left is recorded, and handled without a census.
//!
//! Invariants: an orphan is dropped only if [`ashlar_commit::Sweep`] has shown that no record naming it can
//! ever be chosen (docs/protocol.md 2.6); writes of this process in flight are not touched; the age of an
//! orphan never proves anything, it only avoids useless work; passes are paced.
//!
//! Must not depend on: what a version means beyond the data it names.

use crate::heal::answers;
use crate::key_turn::KeyTurn;
use crate::owners::Named;
use crate::scrub_state::{SUSPECTS, Scrubbed};
use crate::sets::Inner;
use crate::stored::{OneSyncRecord, Stored};
use crate::table::{Member, View};
use crate::{Error, Result};
use ashlar_commit::bucket_fence::Grant;
use ashlar_commit::{Sweep, SweepStep};
use ashlar_drive::{Prepared, ShardInfo, Tally};
use ashlar_duties::{Duty, Unit};
use ashlar_environment::time::Instant;
use ashlar_format::{Ballot, Record, RegisterKey, WriteId};
use bytes::Bytes;
use futures::future::join_all;
use std::sync::Arc;
use std::time::Duration;

/// See [`crate::sets::Options::orphan_age`]: long enough for the answers of slow drives.
const SOLE_AGE: Duration = Duration::from_secs(60);
/// Shards read per page.
const PAGE: usize = 1024;

impl Inner {
    /// How long data must be without a name before it is dropped.
    pub(crate) fn orphan_age(&self) -> Duration {
        if self.options.sole { self.options.orphan_age.min(SOLE_AGE) } else { self.options.orphan_age }
    }

    /// Whether every write in flight is one of this process: then a recorded orphan has no writer.
    pub(crate) fn none_in_flight(&self) -> bool {
        self.options.sole && self.scrub.started.elapsed() >= self.orphan_age()
    }

    /// Handles what writes of this process left, if it is old enough. Returns how many were dropped.
    pub(crate) async fn collect_abandoned(self: &Arc<Self>) -> usize {
        let age = self.orphan_age();
        let due: Vec<(WriteId, RegisterKey)> = {
            let abandoned = self.scrub.abandoned.lock();
            let old = abandoned.iter().filter(|(_, (_, since))| since.elapsed() >= age);
            old.map(|(id, (owner, _))| (*id, owner.clone())).collect()
        };
        let mut dropped = 0;
        for (write_id, owner) in due {
            let began = Instant::now();
            let shard = ShardInfo { write_id, index: 0, owner, ballot: Ballot::ZERO, len: 0, inline: false };
            let done = match self.check_shard(&shard).await {
                // It cannot be in flight again, since ids are used once: a record names it.
                Ok(None) => true,
                Ok(Some(now)) => {
                    dropped += usize::from(now);
                    now
                }
                Err(e) => {
                    tracing::debug!("an abandoned write: {e}");
                    false
                }
            };
            if done {
                self.scrub.abandoned.lock().remove(&write_id);
            }
            self.scrub_pacer.pace(0, began.elapsed()).await;
        }
        dropped
    }

    /// Whether the background task of this node scrubs a unit.
    pub(crate) fn scrubs(&self, unit: &Unit) -> bool {
        self.options.duties.mine(Duty::Scrub, unit)
    }

    /// The census of the drives that this node scrubs, or of all.
    pub(crate) async fn census_all(self: &Arc<Self>, all: bool, found: &mut Scrubbed) {
        for m in self.table.load_full().members.values() {
            if all || self.scrubs(&Unit::Drive(m.id.0)) {
                self.census(m, found).await;
            }
        }
    }

    /// Searches the shards of one drive for orphans.
    async fn census(self: &Arc<Self>, member: &Member, found: &mut Scrubbed) {
        let drive = &member.drive;
        let mut after = None;
        loop {
            let began = Instant::now();
            let page = match member.patiently(drive.shards(after, PAGE)).await {
                Ok(p) => p,
                Err(e) => {
                    tracing::warn!("census: {e}");
                    return;
                }
            };
            let Some(last) = page.last() else { return };
            after = Some((last.write_id, last.index));
            for shard in &page {
                found.shards += 1;
                match self.check_shard(shard).await {
                    Ok(None) => {}
                    Ok(Some(dropped)) => {
                        found.orphans += 1;
                        found.dropped += u64::from(dropped);
                    }
                    Err(e) => tracing::debug!("census: {e}"),
                }
            }
            self.scrub_pacer.pace(0, began.elapsed()).await;
        }
    }

    /// Checks one shard: `Some(dropped)` for an orphan.
    async fn check_shard(self: &Arc<Self>, shard: &ShardInfo) -> Result<Option<bool>> {
        if self.writes_in_flight.lock().contains_key(&shard.write_id) {
            return Ok(None);
        }
        match self.named(&shard.owner, shard.write_id).await? {
            Named::Yes | Named::Unknown => {
                self.scrub.suspects.lock().remove(&shard.write_id);
                return Ok(None);
            }
            Named::No => {}
        }
        let old = {
            let mut suspects = self.scrub.suspects.lock();
            if suspects.len() >= SUSPECTS && !suspects.contains_key(&shard.write_id) {
                return Ok(Some(false));
            }
            let since = *suspects.entry(shard.write_id).or_insert_with(Instant::now);
            since.elapsed() >= self.orphan_age() || self.none_in_flight()
        };
        if !old {
            return Ok(Some(false));
        }
        let dropped = self.collect(shard).await?;
        if dropped {
            self.scrub.suspects.lock().remove(&shard.write_id);
        }
        Ok(Some(dropped))
    }

    /// `None`: the register names the write. Else the root of its version pages, which do not name it: pages
    /// never change, so that is true of every record with this root.
    async fn clear_root(&self, key: &RegisterKey, hash: u64, id: WriteId) -> Result<Option<Option<WriteId>>> {
        let Some(r) = self.read_slowly(key, hash).await? else { return Ok(Some(None)) };
        let named = self.names(key, &r.record, id).await?;
        Ok((!named).then(|| r.record.body.below().map(|b| b.root.page.data.write_id)))
    }

    /// Drops the shards of a write on all drives, if nothing that names it can be chosen any more.
    async fn collect(self: &Arc<Self>, shard: &ShardInfo) -> Result<bool> {
        let key = &shard.owner;
        let hash = ashlar_checksum::key_hash(key.as_bytes());
        let view = self.view(key.group())?;
        let Some(clear) = self.clear_root(key, hash, shard.write_id).await? else { return Ok(false) };
        let ballot = {
            let mut turn = self.turn(hash).await;
            if self.writes_in_flight.lock().contains_key(&shard.write_id) {
                return Ok(false);
            }
            self.ballots.pass(shard.ballot, view.epoch)?;
            let mut won = None;
            for _ in 0..4 {
                match self.sweep(&view, key, shard.write_id, clear, &mut turn).await? {
                    Swept::Drop(b) => {
                        won = Some(b);
                        break;
                    }
                    Swept::Keep => return Ok(false),
                    Swept::Again => {}
                }
            }
            match won {
                Some(b) => b,
                None => return Ok(false),
            }
        };
        // The owner can no longer name it; a part may have moved on before.
        if !matches!(self.named(key, shard.write_id).await?, Named::No) {
            return Ok(false);
        }
        tracing::info!(?key, write = %shard.write_id, "dropping data that no record names");
        for (_, m) in view.members() {
            // A drive whose own record names it keeps it until it has the newer record.
            let own = match m.read(key, true, view.epoch).await {
                Ok(r) => r.accepted.and_then(|s| Some((s.record?, s.hint))),
                Err(_) => continue,
            };
            if own.is_some_and(|(b, chosen)| stored_names(&b, chosen, shard.write_id, clear)) {
                self.heals.push(key, false);
                continue;
            }
            for index in 0..view.n() {
                let dropped =
                    m.patiently(m.drive.drop_orphan(shard.write_id, index, ballot, view.epoch)).await;
                if let Err(e) = dropped {
                    tracing::debug!("an orphan stays for now: {e}");
                }
            }
        }
        Ok(true)
    }

    /// One round of [`Sweep`].
    async fn sweep(
        &self,
        view: &Arc<View>,
        key: &RegisterKey,
        id: WriteId,
        clear: Option<WriteId>,
        turn: &mut KeyTurn,
    ) -> Result<Swept> {
        let ballot = self.ballots.next(view.epoch);
        let mut sweep: Sweep<Bytes> = Sweep::new(view.quorum, ballot);
        let asks = (0..view.n()).map(|slot| async move {
            match view.member(slot) {
                Some(m) => (slot, Some(m.in_time(m.drive.prepare(key, ballot)).await)),
                None => (slot, None),
            }
        });
        let mut step = SweepStep::Wait;
        for (slot, reply) in join_all(asks).await {
            let new = match reply {
                Some(Ok(Prepared::Promised { accepted: None, horizon, .. })) => {
                    sweep.on_absent(slot, horizon)
                }
                Some(Ok(Prepared::Promised { accepted: Some(a), .. })) => {
                    match Stored::parse(&a.record).and_then(|s| Ok((s.decode()?, s.one_sync_record))) {
                        Ok((_, one_sync_record)) => {
                            let named = stored_names(&a.record, a.hint, id, clear);
                            let undecided = one_sync_record.is_some() && !a.hint;
                            sweep.on_promise(slot, Some((a.ballot, a.record)), named, undecided)
                        }
                        Err(_) => sweep.on_silent(slot),
                    }
                }
                Some(Ok(Prepared::Refused { highest })) => {
                    self.ballots.pass(highest, view.epoch)?;
                    sweep.on_refused(slot, highest)
                }
                _ => sweep.on_silent(slot),
            };
            if new != SweepStep::Wait {
                step = new;
            }
        }
        match step {
            SweepStep::Drop => Ok(Swept::Drop(ballot)),
            SweepStep::Keep => Ok(Swept::Keep),
            // An undecided one-sync record, a lost race, or a slot away: a separate round settles the present
            // state, and the next sweep finds it settled.
            SweepStep::Later { .. } => {
                let hash = ashlar_checksum::key_hash(key.as_bytes());
                self.renew(key, hash, turn).await?;
                Ok(Swept::Again)
            }
            SweepStep::Round(base) => self.sweep_round(view, key, sweep, base, ballot).await,
            SweepStep::Wait => Ok(Swept::Again),
        }
    }

    /// Proposes the base itself again under the ballot of the sweep.
    async fn sweep_round(
        &self,
        view: &Arc<View>,
        key: &RegisterKey,
        mut sweep: Sweep<Bytes>,
        base: Option<(Ballot, Bytes)>,
        ballot: Ballot,
    ) -> Result<Swept> {
        let tombstone = Record { seq: 1, parent: 0, nonce: 0, body: ashlar_format::Body::Tombstone };
        let grant = if base.is_none() { Grant::Empties } else { Grant::Plain };
        let (record, summary) = match base {
            None => (Bytes::from(tombstone.encode()), Bytes::new()),
            Some((b, stored)) => {
                let bad = |e| Error::Corrupt(format!("{key:?}: {e}"));
                let record = Stored::parse(&stored).map_err(bad)?.record;
                (record, self.summary(view, key, b).await.unwrap_or_default())
            }
        };
        sweep.propose();
        let _updating = self.cache.updating(ashlar_checksum::key_hash(key.as_bytes()));
        let members: Vec<_> = view.members().collect();
        let tally = Tally::new(members.len() as u8);
        for (slot, m) in &members {
            let (key, record, summary) = (key.clone(), record.clone(), summary.clone());
            let accept =
                ashlar_drive::Accept { key, ballot, epoch: view.epoch, record, summary, inline: None };
            m.drive.accept_with(accept, grant, tally.completion(*slot));
        }
        let o = answers(&tally, view, members.iter().map(|(s, _)| *s).collect()).await;
        let mut dropped = false;
        for slot in view.quorum.all().iter() {
            let step = if o.ok >> slot & 1 == 1 {
                sweep.on_accepted(slot)
            } else if o.refused >> slot & 1 == 1 {
                sweep.on_accept_refused(slot, o.highest)
            } else {
                sweep.on_accept_silent(slot)
            };
            dropped |= step == SweepStep::Drop;
        }
        Ok(if dropped { Swept::Drop(ballot) } else { Swept::Again })
    }
}

enum Swept {
    /// Under this ballot, nothing that names the data can be chosen any more.
    Drop(Ballot),
    Keep,
    Again,
}

/// Whether a record names the write. Version pages may name anything, except those below `clear`.
fn names(record: &Record, id: WriteId, clear: Option<WriteId>) -> bool {
    let below = record.body.below().map(|b| b.root.page.data.write_id);
    record.data().any(|p| p.data.write_id == id) || (below.is_some() && below != clear)
}

/// Whether the stored bytes, or the parent inside them, name the write. The parent of a record that is known to be
/// `chosen` counts no more: it cannot become the state again, and what only it names was dropped when the record was
/// chosen. Bytes that cannot be decoded may name anything.
fn stored_names(bytes: &Bytes, chosen: bool, id: WriteId, clear: Option<WriteId>) -> bool {
    let Ok(stored) = Stored::parse(bytes) else { return true };
    let says = |b: &[u8]| Record::decode(b).map_or(true, |r| names(&r, id, clear));
    let parent = |of: &OneSyncRecord| !of.parent.is_none() && says(&of.parent.bytes(&stored.record));
    says(&stored.record) || !chosen && stored.one_sync_record.as_ref().is_some_and(parent)
}
