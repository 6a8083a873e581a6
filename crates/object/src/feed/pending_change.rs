//! One change of a followed bucket while it is made: its intent, which is made durable first; the turn of its
//! key; its outcome.
//!
//! Invariants: if a change is dropped without an outcome (the caller was dropped, or the drives do not
//! answer), the outcome is determined later; while a turn is held, no other recorded change of the key is
//! made or recorded, so changes are recorded in the order in which they were made.
//!
//! Must not depend on: what a change means.

use ashlar_environment::time;
use futures::future::BoxFuture;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use ashlar_format::{Ballot, VersionId};
use tokio::sync::OwnedMutexGuard;

use super::change::SLACK_MS;
use super::entry::{Entry, Intent};
use super::{Cause, Change, Effect, Feed, Open, Shared, TURNS, check};
use crate::{Bucket, Error, Result};

/// An intended change of a key.
pub(crate) struct PendingChange {
    shared: Arc<Shared>,
    what: Delivery,
}

enum Delivery {
    /// Recorded; 0 once it has an outcome.
    Recorded(u64, Intent),
    /// Only for watchers.
    Watched(Intent),
}

impl Feed {
    /// Called before a change: `None` if nothing follows the bucket.
    pub(crate) async fn intend(
        &self,
        bucket: &Bucket,
        key: &[u8],
        version: Option<VersionId>,
        cause: Option<&Arc<Cause>>,
    ) -> Result<Option<PendingChange>> {
        if !self.wants(bucket) {
            return Ok(None);
        }
        let mut intent = Intent {
            id: 0,
            time_ms: self.shared.now_ms(),
            bucket_id: bucket.id,
            bucket: bucket.name.clone(),
            key: String::from_utf8_lossy(key).into_owned(),
            version,
            cause: cause.cloned().unwrap_or_default(),
        };
        if !self.records(bucket) {
            return Ok(Some(PendingChange { shared: self.shared.clone(), what: Delivery::Watched(intent) }));
        }
        let (pending_change, number) = {
            let mut s = self.shared.state.lock();
            check(&s)?;
            intent.id = s.next_intent;
            s.next_intent += 1;
            s.open.insert(intent.id, Open { segment: 0, intent: intent.clone() });
            s.queue(Entry::Intent(intent.clone()));
            s.urgent = true;
            let what = Delivery::Recorded(intent.id, intent);
            (PendingChange { shared: self.shared.clone(), what }, s.queued)
        };
        self.shared.work.notify_one();
        match pending_change.shared.written(number).await {
            Ok(()) => Ok(Some(pending_change)),
            Err(e) => {
                pending_change.cancel();
                Err(e)
            }
        }
    }
}

impl Shared {
    /// Waits until the entry of this number is durable.
    pub(super) async fn written(&self, number: u64) -> Result<()> {
        let mut durable = self.durable.subscribe();
        match time::timeout(self.limits.intent_timeout, durable.wait_for(|d| *d >= number)).await {
            Ok(Ok(_)) => Ok(()),
            _ => {
                let why =
                    self.state.lock().last_error.clone().unwrap_or_else(|| "it takes too long".to_owned());
                Err(Error::Unavailable(format!("the change feed cannot be written: {why}")))
            }
        }
    }

    /// The index of the turn of a key.
    fn turn_index(i: &Intent) -> usize {
        let hash = ashlar_checksum::key_hash(i.key.as_bytes()) ^ u64::from(i.bucket_id.0[0]);
        (hash % TURNS as u64) as usize
    }

    /// The turn of a key.
    pub(super) async fn turn(&self, i: &Intent) -> OwnedMutexGuard<()> {
        self.turns[Shared::turn_index(i)].clone().lock_owned().await
    }
}

impl PendingChange {
    fn intent(&self) -> &Intent {
        match &self.what {
            Delivery::Recorded(_, i) | Delivery::Watched(i) => i,
        }
    }

    /// The cause.
    pub fn cause(&self) -> &Cause {
        &self.intent().cause
    }

    /// The turn of its key, if one is needed; hold it while the change is made and until it is recorded.
    pub fn turn(&self) -> BoxFuture<'_, Option<OwnedMutexGuard<()>>> {
        Box::pin(async move {
            match &self.what {
                Delivery::Watched(_) => None,
                Delivery::Recorded(_, intent) => Some(self.shared.turn(intent).await),
            }
        })
    }

    /// The turns of the keys of two changes that are made together.
    pub fn turns<'a>(
        a: Option<&'a PendingChange>,
        b: Option<&'a PendingChange>,
    ) -> BoxFuture<'a, Vec<OwnedMutexGuard<()>>> {
        Box::pin(async move {
            let recorded = |t: &PendingChange| match &t.what {
                Delivery::Watched(_) => None,
                Delivery::Recorded(_, intent) => Some((Shared::turn_index(intent), t.shared.clone())),
            };
            let mut places: Vec<_> = [a, b].into_iter().flatten().filter_map(recorded).collect();
            // In the same order for all callers, and each once.
            places.sort_by_key(|(place, _)| *place);
            places.dedup_by_key(|(place, _)| *place);
            let mut turns = Vec::with_capacity(2);
            for (place, shared) in places {
                turns.push(shared.turns[place].clone().lock_owned().await);
            }
            turns
        })
    }

    /// The change was made.
    fn record_effect(mut self, effect: Effect, ballot: Ballot) {
        let i = self.intent();
        let change = change(i, effect, self.shared.told(ballot));
        match &mut self.what {
            Delivery::Watched(_) => self.shared.notify_watchers(Arc::new(change)),
            Delivery::Recorded(id, _) => {
                let id = std::mem::take(id);
                self.shared.settle(id, Some(change));
            }
        }
    }

    /// The outcome is known: an effect under a ballot, or `None`: nothing happened.
    pub fn finish(self, effect: Option<(Effect, Ballot)>) {
        match effect {
            Some((effect, ballot)) => self.record_effect(effect, ballot),
            None => self.cancel(),
        }
    }

    /// The change was certainly not made.
    fn cancel(mut self) {
        if let Delivery::Recorded(id, _) = &mut self.what {
            let id = std::mem::take(id);
            self.shared.settle(id, None);
        }
    }
}

impl Drop for PendingChange {
    fn drop(&mut self) {
        if let Delivery::Recorded(id @ 1.., _) = &self.what {
            self.shared.state.lock().unsure.push(*id);
            self.shared.maintenance.notify_one();
        }
    }
}

/// The change for an intent with this effect.
pub(super) fn change(i: &Intent, effect: Effect, ballot: Ballot) -> Change {
    Change {
        position: 0,
        ballot,
        time_ms: i.time_ms.max(effect.modified_ms),
        bucket: i.bucket.clone(),
        key: i.key.clone(),
        kind: effect.kind,
        version_id: effect.version_id,
        size: effect.size,
        etag: effect.etag,
        meta: effect.meta,
        cause: i.cause.clone(),
    }
}

impl Shared {
    /// Whether changes are recorded with their ballots.
    pub(super) fn tells_ballots(&self) -> bool {
        self.tells_ballots.load(Ordering::Relaxed)
    }

    /// The ballot that a change is recorded with.
    pub(super) fn told(&self, ballot: Ballot) -> Ballot {
        if self.tells_ballots() { ballot } else { Ballot::ZERO }
    }

    /// The time of a change: not earlier than that of the change of the same key that was recorded before, unless the clock
    /// was set back by more than a little.
    fn not_before(&self, change: &Change) -> i64 {
        let slot = ashlar_checksum::key_hash(change.key.as_bytes()) % TURNS as u64;
        let before = self.latest[slot as usize].fetch_max(change.time_ms, Ordering::Relaxed);
        if before <= change.time_ms.saturating_add(SLACK_MS) {
            before.max(change.time_ms)
        } else {
            change.time_ms
        }
    }

    /// Records the outcome of an intent.
    pub(super) fn settle(&self, intent: u64, change: Option<Change>) {
        let mut s = self.state.lock();
        match change {
            Some(mut change) => {
                change.time_ms = self.not_before(&change);
                self.push(&mut s, intent, change);
            }
            None => s.queue(Entry::Void(intent)),
        }
        drop(s);
        self.work.notify_one();
    }
}
