//! Making every slot of one register whole: its record, and (in `shards`) the data it names.
//!
//! Invariants: a slot is only ever brought to the chosen record; a shard is made from verified
//! shards of the same write and its place stays in the group that the record says; data that a
//! register stopped naming while its shards were made is dropped again. Nothing here holds a key's
//! turn while it moves data.

use crate::damage::What;
use crate::heal_queue::{HealStats, Healed, Wanted};
use crate::register::Register;
use crate::sets::{Inner, Sets};
use crate::stored::Stored;
use crate::table::{GLANCE, View};
use crate::{Error, Result};
use ashlar_commit::SlotSet;
use ashlar_drive::{Accept, Error as DriveError, Inline, Outcome, Tally};
use ashlar_environment::time::{self, Instant};
use ashlar_format::{Ballot, Body, Part, RegisterKey};
use bytes::Bytes;
use futures::future::BoxFuture;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// How often a heal that failed is tried again before it is left to the scrub.
const TRIES: u8 = 4;
/// Wait between two tries, longer each time.
const RETRY: Duration = Duration::from_millis(500);
/// How long drives are waited for to take a record.
const PATIENCE: Duration = Duration::from_secs(20);

impl Sets {
    /// Puts a register on the heal queue (bounded, each key once).
    pub fn damage(&self, key: &RegisterKey) {
        self.inner.heals.push(key, true);
    }

    /// Makes every slot of a register whole now. `deep`: every shard is read and verified, not only
    /// looked for.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when too few drives answer. Data that is lost is not an error: it is
    /// counted.
    pub fn heal_register<'a>(&'a self, key: &'a RegisterKey, deep: bool) -> BoxFuture<'a, Result<Healed>> {
        Box::pin(async move {
            loop {
                let healed = self.inner.heal(key, deep).await?;
                if healed.later == 0 {
                    return Ok(healed);
                }
                self.inner.sweep_tails();
                time::sleep(Duration::from_millis(5)).await;
            }
        })
    }

    /// Counts of healing since the start.
    #[must_use]
    pub fn heal_stats(&self) -> HealStats {
        let h = &self.inner.heals;
        let get = |a: &AtomicU64| a.load(Ordering::Relaxed);
        HealStats {
            looked: get(&h.looked),
            records: get(&h.records),
            shards: get(&h.shards),
            lost: get(&h.lost),
            queued: h.open(),
        }
    }

    /// Heals everything in the queue, in this task; returns how many registers.
    pub fn heal_queued(&self) -> BoxFuture<'_, usize> {
        Box::pin(async move {
            let mut count = 0;
            while let Some(Wanted { key, deep, .. }) = self.inner.heals.pop() {
                count += 1;
                if let Err(e) = self.heal_register(&key, deep).await {
                    tracing::debug!(?key, "heal: {e}");
                }
                self.inner.heals.done();
            }
            count
        })
    }
}

impl Inner {
    pub(crate) async fn heal(self: &Arc<Self>, key: &RegisterKey, deep: bool) -> Result<Healed> {
        let hash = ashlar_checksum::key_hash(key.as_bytes());
        // An update that has the key's turn is not healed behind its back.
        drop(self.locks.lock(hash).await);
        // Nor are shards that may still be on their way taken for missing.
        let followed = self.is_followed(hash);
        self.heals.looked.fetch_add(1, Ordering::Relaxed);
        for (_, m) in self.view(key.group())?.members().filter(|(_, m)| m.is_hung()) {
            self.missed.note(m.id, key);
        }
        // That of a failed update is settled by this.
        let register = self.read(key, hash).await?;
        let records = self.heal_records(key, hash, register.as_ref(), deep).await?;
        let mut healed = Healed { records, ..Healed::default() };
        if followed {
            healed.later = 1;
        } else if let Some(r) = &register {
            let parts: Vec<Part> = r.record.data().cloned().collect();
            for part in parts {
                // The root of version pages has no number: it stays as it is.
                healed.add(self.heal_part(key, &part, deep, part.number > 0).await?);
            }
            // Rows are healed before what they name is read.
            let mut pages = self.walk_pages(r.record.body.below());
            loop {
                let parts = match pages.next(key).await {
                    Ok(Some(parts)) => parts,
                    Ok(None) => break,
                    // The list has changed, or the page is lost: it was counted as such.
                    Err(Error::Superseded) => {
                        healed.later = 1;
                        break;
                    }
                    Err(e) => {
                        tracing::warn!(?key, "a version page cannot be read: {e}");
                        healed.missing += 1;
                        break;
                    }
                };
                for part in parts {
                    healed.add(self.heal_part(key, &part, deep, false).await?);
                }
            }
        }
        let h = &self.heals;
        h.records.fetch_add(u64::from(healed.records), Ordering::Relaxed);
        h.shards.fetch_add(u64::from(healed.shards), Ordering::Relaxed);
        h.lost.fetch_add(u64::from(healed.lost), Ordering::Relaxed);
        Ok(healed)
    }

    /// Brings slots that show another record, or none, to the chosen one; `deep`: those too whose record
    /// cannot be read.
    async fn heal_records(
        &self,
        key: &RegisterKey,
        hash: u64,
        want: Option<&Register>,
        deep: bool,
    ) -> Result<u32> {
        let view = self.view(key.group())?;
        let behind = self.behind(&view, key, want.map(|r| r.ballot), deep, false).await;
        if behind.is_empty() {
            if let Some(r) = want
                && matches!(r.record.body, Body::Tombstone)
            {
                self.bury(key, r.ballot, &view);
            }
            return Ok(0);
        }
        let _turn = self.locks.lock(hash).await;
        // It may have moved on while we waited for the turn.
        let now = match self.ask_all_again(key, hash).await? {
            Some(r) => r,
            None => return self.renew(key, hash).await.map(|()| behind.len().into()),
        };
        let behind = self.behind(&view, key, now.as_ref().map(|r| r.ballot), deep, true).await;
        let Some(now) = now else {
            // Nothing is chosen, yet a slot shows something: a tombstone whose purge it lost, or an
            // update that never came through. A round decides.
            if !behind.is_empty() {
                self.renew(key, hash).await?;
            }
            return Ok(behind.len().into());
        };
        let left = self.copy_record(&view, key, &now, behind, true).await?;
        if !left.is_empty() {
            // A promise made since stands in the way of the old ballot: a new one carries it.
            self.renew(key, hash).await?;
        }
        Ok(behind.len().into())
    }

    /// Slots with a drive that answers and does not show the record of `ballot`. `deep`: the record
    /// itself is read, not only what the index says of it. `told`: damage is noted.
    async fn behind(
        &self,
        view: &View,
        key: &RegisterKey,
        ballot: Option<Ballot>,
        deep: bool,
        told: bool,
    ) -> SlotSet {
        let mut behind = SlotSet::EMPTY;
        for (slot, m) in view.members() {
            if m.is_hung() {
                continue;
            }
            if deep && matches!(m.in_time(m.drive.verify_register(key)).await, Err(DriveError::Corrupt(_))) {
                if told {
                    self.damages.found(view, slot, key, What::Record, true);
                }
                behind.insert(slot);
                continue;
            }
            match m.read(key, false, view.epoch).await {
                Ok(r) if r.accepted.as_ref().map(|s| s.ballot) == ballot => {
                    // It is chosen: half the drives can be read only if they know.
                    if let Some(s) = r.accepted
                        && !s.hint
                    {
                        m.drive.hint(key, s.ballot, view.epoch);
                    }
                }
                Ok(_) | Err(DriveError::Corrupt(_)) => {
                    behind.insert(slot);
                }
                Err(_) => {}
            }
        }
        behind
    }

    /// Sends a record, under its own ballot, to slots that lack it. `hint`: it is known chosen.
    /// Returns the slots that refused it.
    pub(crate) async fn copy_record(
        &self,
        view: &View,
        key: &RegisterKey,
        want: &Register,
        to: SlotSet,
        hint: bool,
    ) -> Result<SlotSet> {
        let missing = || Error::Unavailable("no drive shows the record to copy".into());
        let record = self.stored(view, key, want.ballot).await.ok_or_else(missing)?;
        let summary = match want.record.body {
            Body::Tombstone => Bytes::new(),
            _ => self.summary(view, key, want.ballot).await.ok_or_else(missing)?,
        };
        let (tally, mut asked) = (Tally::new(to.len()), SlotSet::EMPTY);
        for slot in to.iter() {
            let Some(m) = view.member(slot) else { continue };
            asked.insert(slot);
            let inline = self.inline_for(view, key, &record, slot).await;
            let (key, record, summary) = (key.clone(), record.clone(), summary.clone());
            let (ballot, epoch) = (want.ballot, view.epoch);
            let accept = Accept { key, ballot, epoch, record, summary, inline };
            let done = tally.completion(slot);
            if m.is_voter(view.group) {
                m.drive.accept(accept, done)
            } else {
                m.drive.copy(accept, hint, done)
            }
        }
        let o = answers(&tally, view, asked).await;
        let took = SlotSet(o.ok | o.uncounted);
        // A drive that failed keeps what it has; only a refusal calls for another ballot.
        Ok(asked.and(SlotSet(o.refused)).without(took))
    }

    /// The shard that belongs into the same ACCEPT as a one-sync record.
    async fn inline_for(&self, view: &View, key: &RegisterKey, record: &Bytes, slot: u8) -> Option<Inline> {
        if !Stored::is_light(record) {
            return None;
        }
        let stored = Stored::parse(record).ok()?;
        let light = stored.light.as_ref()?;
        let decoded = stored.decode().ok()?;
        let part = decoded.data().find(|p| p.data.write_id == light.write_id)?;
        let index = part.data.shard_of(slot);
        let only: SlotSet = [slot].into_iter().collect();
        let rows = self.rows_of(view, key, &part.data, part.size, only).await.ok()?;
        let data = rows.into_iter().find(|(s, _)| *s == slot)?.1;
        Some(Inline { write_id: light.write_id, index, data })
    }

    /// The stored bytes of the record of `ballot`, from a slot that shows it.
    async fn stored(&self, view: &View, key: &RegisterKey, ballot: Ballot) -> Option<Bytes> {
        for (_, m) in view.prompt_first() {
            if let Ok(r) = m.read(key, true, view.epoch).await
                && let Some(s) = r.accepted
                && s.ballot == ballot
                && s.record.is_some()
            {
                return s.record;
            }
        }
        None
    }
}

/// Waits until every slot asked has answered, or hangs; not for ever.
pub(crate) async fn answers(tally: &Tally, view: &View, asked: SlotSet) -> Outcome {
    let began = Instant::now();
    loop {
        let o = match time::timeout(GLANCE, tally.wait_all()).await {
            Ok(o) => return o,
            Err(_) => tally.outcome(),
        };
        let open = asked.without(SlotSet(o.ok | o.uncounted | o.failed | o.refused));
        if open.without(view.hung(open)).is_empty() || began.elapsed() > PATIENCE {
            return o;
        }
    }
}

/// The background task: heals what is queued, paced.
pub(crate) async fn run(of: Weak<Inner>) {
    loop {
        let Some(inner) = of.upgrade() else { return };
        let Some(mut wanted) = inner.heals.pop() else {
            let wait = time::timeout(Duration::from_secs(1), inner.heals.work.notified());
            let _ = wait.await;
            continue;
        };
        let began = Instant::now();
        match inner.heal(&wanted.key, wanted.deep).await {
            Ok(h) if h.later == 0 && (h.missing == 0 || h.lost > 0) => inner.heals.done(),
            other => {
                // One that waits for a write to end was not tried.
                let tried = !matches!(&other, Ok(h) if h.later > 0);
                if let Err(e) = &other {
                    tracing::debug!(key = ?wanted.key, "heal: {e}");
                }
                wanted.tries += u8::from(tried);
                if wanted.tries <= TRIES {
                    let inner = inner.clone();
                    ashlar_environment::spawn("heal-retry", async move {
                        time::sleep(RETRY * (1 << wanted.tries)).await;
                        inner.heals.put(wanted);
                        inner.heals.done();
                    });
                } else {
                    inner.heals.done();
                }
            }
        }
        inner.pacer.pace(0, began.elapsed()).await;
    }
}
