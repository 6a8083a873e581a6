//! Heals one register on every slot: its record, and (in `shards`) the data it names.
//!
//! Invariants: a slot only ever gets the chosen record; a shard is made from verified shards of the same
//! write and stays in the group that the record names; if a register stops naming data while its shards are
//! being made, these are dropped again. Nothing here holds a key's turn while it moves data.
//!
//! Must not depend on: what a version means beyond the data it names.

use crate::damage::What;
use crate::heal_queue::{Depth, HealStats, Healed, Wanted};
use crate::register::Register;
use crate::sets::{Inner, Sets};
use crate::stored::Stored;
use crate::table::{HANG_CHECK_INTERVAL, View};
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

/// How often a failed heal is repeated before it is left to the scrub.
const TRIES: u8 = 4;
/// Pause between two attempts; it grows.
const RETRY: Duration = Duration::from_millis(500);
/// How long to wait for drives to accept a record.
const PATIENCE: Duration = Duration::from_secs(20);

impl Sets {
    /// Queues a register for heal (bounded, each key once).
    pub fn damage(&self, key: &RegisterKey) {
        self.inner.heals.push(key, true);
    }

    /// Heals a register on every slot now. `deep`: every shard is read and verified, not only looked up.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if too few drives answer. Lost data is not an error: it is counted.
    pub fn heal_register<'a>(&'a self, key: &'a RegisterKey, deep: bool) -> BoxFuture<'a, Result<Healed>> {
        Box::pin(async move {
            loop {
                let healed = self.inner.heal(key, Depth::of(deep)).await?;
                if healed.later == 0 {
                    return Ok(healed);
                }
                self.inner.sweep_tails();
                time::sleep(Duration::from_millis(5)).await;
            }
        })
    }

    /// Counters of heal since the start.
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

/// What the slots of a group show of one register. Those that hang are in no set.
struct Seen {
    /// They show another record, or none.
    behind: SlotSet,
    /// Voters that show the record.
    alike: SlotSet,
    /// They did not answer, and were not known to hang before.
    unheard: SlotSet,
}

/// The slots that did not take a record.
pub(crate) struct Copied {
    refused: SlotSet,
    /// They failed, or did not answer in time.
    unheard: SlotSet,
}

impl Inner {
    pub(crate) async fn heal(self: &Arc<Self>, key: &RegisterKey, depth: Depth) -> Result<Healed> {
        let hash = ashlar_checksum::key_hash(key.as_bytes());
        // Waits for an update that has the key's turn.
        drop(self.locks.lock(hash).await);
        // Shards that may still be written are not treated as missing.
        let followed = self.is_followed(hash);
        self.heals.looked.fetch_add(1, Ordering::Relaxed);
        self.note_missed(key)?;
        // This settles the register of a failed update.
        let register = self.read(key, hash, None).await?;
        let (records, unheard) = self.heal_records(key, hash, register.as_ref(), depth.is_deep()).await?;
        if let (Depth::Scrubbed, Some(r)) = (depth, &register) {
            let slots = self.view(key.group())?.members().count();
            self.scrub_pacer.charge((r.record.encode().len() * slots) as u64);
        }
        let mut healed = Healed { records, unheard, ..Healed::default() };
        if followed {
            healed.later = 1;
        } else if let Some(r) = &register {
            let parts: Vec<Part> = r.record.data().cloned().collect();
            for part in parts {
                // The root of version pages has no number: it stays as it is.
                healed.add(self.heal_paced(key, &r.record.body, &part, depth, part.number > 0).await?);
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
                    healed.add(self.heal_paced(key, &r.record.body, &part, depth, false).await?);
                }
            }
        }
        // A drive that stopped answering meanwhile was passed over.
        self.note_missed(key)?;
        let h = &self.heals;
        h.records.fetch_add(u64::from(healed.records), Ordering::Relaxed);
        h.shards.fetch_add(u64::from(healed.shards), Ordering::Relaxed);
        h.lost.fetch_add(u64::from(healed.lost), Ordering::Relaxed);
        Ok(healed)
    }

    /// Heals one piece of data. A scrub pauses afterwards for what it read: what it found is of no use any more then,
    /// so that it does not grow old. Under a rate limit the pieces come one after the other; else all that are looked
    /// at together would be read at once before the first pause.
    async fn heal_paced(
        self: &Arc<Self>,
        key: &RegisterKey,
        body: &Body,
        part: &Part,
        depth: Depth,
        direct: bool,
    ) -> Result<Healed> {
        if depth != Depth::Scrubbed {
            return self.heal_part(key, body, part, depth, direct).await;
        }
        let _alone = match self.scrub_pacer.limits().per_second {
            Some(_) => Some(self.scrub_turn.lock().await),
            None => None,
        };
        let began = Instant::now();
        let healed = self.heal_part(key, body, part, depth, direct).await;
        self.scrub_pacer.pace(0, began.elapsed()).await;
        healed
    }

    /// Records a register that is being healed as missed by the drives that hang or are away.
    fn note_missed(&self, key: &RegisterKey) -> Result<()> {
        for (_, m) in self.view(key.group())?.members().filter(|(_, m)| m.is_hung()) {
            self.missed.note(m.id, key);
        }
        Ok(())
    }

    /// Copies the chosen record to slots that show another record, or none; `deep`: also to those whose
    /// record cannot be read. Returns how many were behind, and how many drives in service did not answer.
    async fn heal_records(
        &self,
        key: &RegisterKey,
        hash: u64,
        want: Option<&Register>,
        deep: bool,
    ) -> Result<(u32, u32)> {
        let view = self.view(key.group())?;
        let Seen { behind, alike, unheard } =
            self.seen(&view, key, want.map(|r| r.ballot), deep, false).await;
        if behind.is_empty() {
            if let Some(r) = want
                && matches!(r.record.body, Body::Tombstone)
            {
                self.queue_purge(key, r.ballot, &view, alike);
            }
            return Ok((0, view.in_service(unheard)));
        }
        let mut turn = self.turn(hash).await;
        // The register may have changed while this task waited for the turn.
        let now = match self.ask_all_again(key, hash).await? {
            Some(r) => r,
            None => return self.renew(key, hash, &mut turn).await.map(|()| (behind.len().into(), 0)),
        };
        let Seen { behind, unheard, .. } =
            self.seen(&view, key, now.as_ref().map(|r| r.ballot), deep, true).await;
        let Some(now) = now else {
            // Nothing is chosen, but a slot shows something: a tombstone whose purge it lost, or an update
            // that failed. A round decides.
            if !behind.is_empty() {
                self.renew(key, hash, &mut turn).await?;
            }
            return Ok((behind.len().into(), view.in_service(unheard)));
        };
        let copied = self.copy_record(&view, key, &now, behind, true).await?;
        if !copied.refused.is_empty() {
            // A later promise refuses the old ballot: a new ballot is needed.
            self.renew(key, hash, &mut turn).await?;
        }
        Ok((behind.len().into(), view.in_service(unheard.or(copied.unheard))))
    }

    /// Which slots show the record of `ballot`, and which show something else. `deep`: the record itself is
    /// read, not
    /// only its index entry. `told`: damage is recorded.
    async fn seen(
        &self,
        view: &View,
        key: &RegisterKey,
        ballot: Option<Ballot>,
        deep: bool,
        told: bool,
    ) -> Seen {
        let mut seen = Seen { behind: SlotSet::EMPTY, alike: SlotSet::EMPTY, unheard: SlotSet::EMPTY };
        for (slot, m) in view.members() {
            if m.is_hung() {
                continue;
            }
            if deep && matches!(m.in_time(m.drive.verify_register(key)).await, Err(DriveError::Corrupt(_))) {
                if told {
                    self.damages.found(view, slot, key, What::Record, true);
                }
                seen.behind.insert(slot);
                continue;
            }
            match m.read(key, false, view.epoch).await {
                Ok(r) if r.accepted.as_ref().map(|s| s.ballot) == ballot => {
                    if r.voter {
                        seen.alike.insert(slot);
                    }
                    // It is chosen. Half of the drives can serve it only if they have the hint.
                    if let Some(s) = r.accepted
                        && !s.hint
                    {
                        m.drive.hint(key, s.ballot, view.epoch);
                    }
                }
                Ok(_) | Err(DriveError::Corrupt(_)) => {
                    seen.behind.insert(slot);
                }
                Err(_) => {
                    seen.unheard.insert(slot);
                }
            }
        }
        seen
    }

    /// Sends a record, under its own ballot, to slots that lack it. `hint`: it is known to be chosen. Callers may hold
    /// the key's turn, so its bytes are only charged here.
    pub(crate) async fn copy_record(
        &self,
        view: &View,
        key: &RegisterKey,
        want: &Register,
        to: SlotSet,
        hint: bool,
    ) -> Result<Copied> {
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
            let inline_len = inline.as_ref().map_or(0, |i| i.data.len());
            self.heal_pacer.charge((record.len() + summary.len() + inline_len) as u64);
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
        // A drive that failed keeps its state; only a refusal requires another ballot.
        let refused = asked.and(SlotSet(o.refused)).without(took);
        Ok(Copied { refused, unheard: asked.without(took).without(refused) })
    }

    /// The shard that belongs in the same ACCEPT as a one-sync record.
    async fn inline_for(&self, view: &View, key: &RegisterKey, record: &Bytes, slot: u8) -> Option<Inline> {
        if !Stored::is_one_sync(record) {
            return None;
        }
        let stored = Stored::parse(record).ok()?;
        let one_sync_record = stored.one_sync_record.as_ref()?;
        let decoded = stored.decode().ok()?;
        let part = decoded.data().find(|p| p.data.write_id == one_sync_record.write_id)?;
        let index = part.data.shard_of(slot);
        let only: SlotSet = [slot].into_iter().collect();
        let rows = self.rows_of(view, key, &part.data, part.size, only).await.ok()?;
        let data = rows.into_iter().find(|(s, _)| *s == slot)?.1;
        Some(Inline { write_id: one_sync_record.write_id, index, data })
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

/// Waits until every slot that was asked has answered, hangs or is away, up to a time limit.
pub(crate) async fn answers(tally: &Tally, view: &View, asked: SlotSet) -> Outcome {
    let began = Instant::now();
    loop {
        let o = match time::timeout(HANG_CHECK_INTERVAL, tally.wait_all()).await {
            Ok(o) => return o,
            Err(_) => tally.outcome(),
        };
        let open = asked.without(SlotSet(o.ok | o.uncounted | o.failed | o.refused));
        if open.without(view.hung(open)).is_empty() || began.elapsed() > PATIENCE {
            return o;
        }
    }
}

/// The background task: heals the queued registers, with pacing.
pub(crate) async fn run(of: Weak<Inner>) {
    loop {
        let Some(inner) = of.upgrade() else { return };
        let Some(mut wanted) = inner.heals.pop() else {
            let wait = time::timeout(Duration::from_secs(1), inner.heals.work.notified());
            let _ = wait.await;
            continue;
        };
        let began = Instant::now();
        match inner.heal(&wanted.key, Depth::of(wanted.deep)).await {
            Ok(h) if !h.is_unfinished() => inner.heals.done(),
            other => {
                // A register that waits for the end of a write was not tried.
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
        inner.heal_pacer.pace(0, began.elapsed()).await;
    }
}
