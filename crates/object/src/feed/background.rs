//! The background work of the feed: writes entries, settles intents without an outcome, stores positions of
//! readers, removes segments that all readers have.
//!
//! Invariants: one segment is written at a time, repeated until it is stored; a segment is removed only if
//! every reader is done with it and no open intent is in it, or if the feed is over its limit.
//!
//! Must not depend on: what a change means.

use ashlar_environment::time;
use futures::future::BoxFuture;
use std::sync::Arc;
use std::time::Duration;

use ashlar_format::{Ballot, RegisterKey, Space, Version, VersionId};
use bytes::Bytes;

use super::change::SLACK_MS;
use super::entry::{self, Entry, Intent};
use super::log::{self, SegmentRef};
use super::pending_change::change;
use super::{Change, Cursor, Effect, Feed, Kind, Open, Shared, State, takeover_record};
use crate::types::Pairs;
use crate::{Error, Result, Store, Versioning, versions};

/// How long entries without a waiting caller are collected.
const LAZY: Duration = Duration::from_millis(100);
/// Minimum interval between two rounds of storing positions and removing segments.
const MAINTENANCE_INTERVAL: Duration = Duration::from_millis(500);
/// Approximate bytes of a segment.
const SEGMENT: usize = 1 << 20;
/// Longest pause between attempts.
const PAUSE: Duration = Duration::from_secs(5);
/// How long closing waits.
const CLOSING: Duration = Duration::from_secs(10);

impl Store {
    /// Opens the change feed: reads its segments and starts writing. Until then, changes of followed buckets
    /// are refused. To be called once, in a runtime.
    ///
    /// # Errors
    /// `Unavailable`; `Internal` if it cannot be decoded.
    pub fn open_feed(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            let shared = &self.inner.feed.shared;
            recover(shared).await?;
            ashlar_environment::spawn("feed-writer", write_loop(shared.clone()));
            ashlar_environment::spawn("feed-maintenance", maintenance(self.versioning_of(), shared.clone()));
            shared.maintenance.notify_one();
            Ok(())
        })
    }

    /// What tells whether the bucket of an intent still exists. Does not keep the store alive.
    pub(super) fn versioning_of(&self) -> VersioningOf {
        let inner = Arc::downgrade(&self.inner);
        Box::new(move |i: &Intent| {
            let bucket = inner.upgrade()?.registry.handle(&i.bucket).ok()?.bucket();
            (bucket.id == i.bucket_id).then_some(bucket.versioning)
        })
    }

    /// Writes what is waiting, stores positions of readers, and ends the work of the feed.
    pub fn close_feed(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let shared = &self.inner.feed.shared;
            let (opened, queued) = {
                let mut s = shared.state.lock();
                s.urgent = true;
                (s.opened, s.queued)
            };
            if opened {
                shared.work.notify_one();
                let _ = time::timeout(CLOSING, shared.written(queued)).await;
                if let Err(error) = save_positions(shared).await {
                    tracing::warn!(%error, "positions of readers of the change feed were not stored");
                }
            }
            shared.stop.store(true, std::sync::atomic::Ordering::SeqCst);
            shared.work.notify_one();
            shared.maintenance.notify_one();
        })
    }
}

/// Reads the stored segments and positions.
async fn recover(shared: &Shared) -> Result<()> {
    // Another node may have taken over what this one left behind.
    let taken = takeover_record::returned(&shared.control, shared.node).await?;
    let places = log::list(&shared.backend, shared.node).await?;
    let readers = log::readers(&shared.control, shared.node)?;
    let mut found: Vec<(u64, Vec<Entry>)> = Vec::new();
    let mut position = 0;
    if let Some(last) = places.last() {
        let newest = segment(shared, *last).await?;
        let changes = newest.entries.iter().filter(|e| matches!(e, Entry::Change(..))).count() as u64;
        position = last.first - 1 + changes;
        for segment_ref in places.iter().filter(|p| p.number >= newest.open_from && p.number < last.number) {
            found.push((segment_ref.number, segment(shared, *segment_ref).await?.entries));
        }
        found.push((last.number, newest.entries));
    }
    let mut s = shared.state.lock();
    s.next = position + 1;
    s.durable = position;
    s.next_segment = places.last().map_or(1, |p| p.number + 1);
    for (number, entries) in found {
        for entry in entries {
            match entry {
                Entry::Intent(intent) => {
                    s.next_intent = s.next_intent.max(intent.id + 1);
                    if number > taken {
                        s.open.insert(intent.id, Open { segment: number, intent });
                    }
                }
                Entry::Change(id, _) | Entry::Void(id) => {
                    s.open.remove(&id);
                }
            }
        }
    }
    s.unsure = s.open.keys().copied().collect();
    s.bytes = places.iter().map(|p| p.bytes).sum();
    s.segments = places.into();
    // A position beyond the end is impossible: it would skip changes.
    let cursor = |at: u64| Cursor { done: at.min(position), saved: at.min(position) };
    s.readers = readers.into_iter().map(|(name, at)| (name, cursor(at))).collect();
    s.opened = true;
    shared.newest.send_replace(position);
    Ok(())
}

/// Reads a segment that must exist.
pub(super) async fn segment(shared: &Shared, segment_ref: SegmentRef) -> Result<entry::Segment> {
    let bytes = log::read(&shared.backend, segment_ref).await?.ok_or(Error::Changed)?;
    entry::decode(&bytes)
        .map_err(|e| Error::Internal(format!("segment {} of the change feed: {e}", segment_ref.number)))
}

/// Writes waiting entries, until the end.
async fn write_loop(shared: Arc<Shared>) {
    loop {
        let (any, urgent) = {
            let s = shared.state.lock();
            (!s.pending.is_empty(), s.urgent)
        };
        if !any {
            if shared.stopped() {
                return;
            }
            shared.work.notified().await;
            continue;
        }
        if !urgent {
            // No caller waits: entries that arrive soon are included.
            let hurried = async {
                while !shared.state.lock().urgent && !shared.stopped() {
                    shared.work.notified().await;
                }
            };
            let _ = time::timeout(LAZY, hurried).await;
        }
        if !write_one(&shared).await {
            return;
        }
    }
}

/// Writes one segment; returns false if the end came first.
async fn write_one(shared: &Arc<Shared>) -> bool {
    let (segment_ref, bytes, batch, upto) = {
        let mut s = shared.state.lock();
        take(&mut s, shared.node)
    };
    let mut pause = Duration::from_millis(10);
    loop {
        match log::write(&shared.backend, segment_ref, bytes.clone(), shared.now_ms()).await {
            Ok(()) => break,
            Err(error) => {
                if shared.state.lock().last_error.replace(error.to_string()).is_none() {
                    tracing::warn!(%error, "the change feed cannot be written");
                }
            }
        }
        if shared.stopped() {
            return false;
        }
        time::sleep(pause).await;
        pause = (pause * 2).min(PAUSE);
    }
    let mut s = shared.state.lock();
    if s.last_error.take().is_some() {
        tracing::info!("the change feed is written again");
    }
    for e in &batch {
        match e {
            Entry::Intent(i) => {
                if let Some(open) = s.open.get_mut(&i.id) {
                    open.segment = segment_ref.number;
                }
            }
            Entry::Change(id, c) => {
                s.open.remove(id);
                s.durable = c.position;
            }
            Entry::Void(id) => {
                s.open.remove(id);
            }
        }
    }
    s.segments.push_back(segment_ref);
    s.bytes += segment_ref.bytes;
    s.trim_tail();
    drop(s);
    shared.durable.send_replace(upto);
    shared.maintenance.notify_one();
    true
}

/// Takes the entries of the next segment of a node: its name, its bytes, and the number of its last entry.
fn take(s: &mut State, node: u16) -> (SegmentRef, Bytes, Vec<Entry>, u64) {
    let mut weight = 0;
    let mut count = 0;
    for e in &s.pending {
        if count > 0 && weight + e.weight() > SEGMENT {
            break;
        }
        weight += e.weight();
        count += 1;
    }
    let rest = s.pending.split_off(count);
    let batch = std::mem::replace(&mut s.pending, rest);
    s.pending_bytes -= weight;
    if s.pending.is_empty() {
        s.urgent = false;
    }
    let number = s.next_segment;
    s.next_segment += 1;
    let bytes = Bytes::from(entry::encode(s.open_from().unwrap_or(number), &batch));
    let segment_ref = SegmentRef { node, number, first: s.durable + 1, bytes: bytes.len() as u64 };
    (segment_ref, bytes, batch, s.queued - s.pending.len() as u64)
}

/// Returns whether the bucket of an intent still exists, and whether it keeps versions.
pub(super) type VersioningOf = Box<dyn Fn(&Intent) -> Option<Versioning> + Send + Sync>;

/// All other work, until the end.
async fn maintenance(versioning_of: VersioningOf, shared: Arc<Shared>) {
    loop {
        shared.maintenance.notified().await;
        if shared.stopped() {
            return;
        }
        let unsure = std::mem::take(&mut shared.state.lock().unsure);
        let mut again = Vec::new();
        for id in unsure {
            if let Err(error) = settle_intent(&versioning_of, &shared, id).await {
                tracing::debug!(%error, "the outcome of a change is not known yet");
                again.push(id);
            }
        }
        let retry = !again.is_empty();
        shared.state.lock().unsure.append(&mut again);
        if let Err(error) = save_positions(&shared).await {
            tracing::warn!(%error, "positions of readers of the change feed were not stored");
        }
        trim(&shared).await;
        time::sleep(MAINTENANCE_INTERVAL).await;
        if retry {
            shared.maintenance.notify_one();
        }
    }
}

/// Settles an intent by the present state of its key.
async fn settle_intent(versioning_of: &VersioningOf, shared: &Shared, id: u64) -> Result<()> {
    let Some(intent) = shared.state.lock().open.get(&id).map(|o| o.intent.clone()) else { return Ok(()) };
    let _turn = shared.turn(&intent).await;
    let change = outcome(versioning_of, shared, &intent).await?;
    shared.settle(id, change);
    Ok(())
}

/// What became of an intent, by the present state of its key. The caller has the turn of the key.
pub(super) async fn outcome(
    versioning_of: &VersioningOf,
    shared: &Shared,
    intent: &Intent,
) -> Result<Option<Change>> {
    let Some(versioning) = versioning_of(intent) else { return Ok(None) };
    let group = shared.backend.group_of(intent.bucket_id, intent.key.as_bytes());
    let key = RegisterKey::new(group, Space::Object, intent.bucket_id, intent.key.as_bytes());
    // Before the state is read: what is told is never older than its place in the order.
    let ballot =
        if shared.tells_ballots() { shared.backend.present_ballot(&key).await? } else { Ballot::ZERO };
    let record = crate::held_keys::read(&shared.backend, &key).await?;
    let record = crate::paged::with(&shared.backend, &key, record, intent.version).await?;
    let list = versions::of(record.as_ref().map(|r| &r.body));
    Ok(effect(intent, list, versioning).map(|e| change(intent, e, ballot)))
}

/// The effect of an intent, as far as the list of its key shows it. A change may be recorded twice, but never
/// a removal of something that exists.
fn effect(i: &Intent, list: &[Version], versioning: Versioning) -> Option<Effect> {
    let kind = i.cause.kind;
    let newest = list.first();
    let fresh = |v: &&Version| v.modified_ms.saturating_add(SLACK_MS) >= i.time_ms;
    let gone = |version_id: Option<VersionId>, kind: Kind| Effect {
        kind,
        modified_ms: 0,
        version_id,
        size: 0,
        etag: None,
        meta: Pairs::new(),
    };
    match kind {
        Kind::Delete | Kind::Mark | Kind::Expire | Kind::ExpireMark => {
            let expired = matches!(kind, Kind::Expire | Kind::ExpireMark);
            let (removed, marked) =
                if expired { (Kind::Expire, Kind::ExpireMark) } else { (Kind::Delete, Kind::Mark) };
            match (i.version, newest) {
                (Some(id), _) if !list.iter().any(|v| v.id == id) => {
                    Some(gone(versions::shown(versioning, id), removed))
                }
                (Some(_), _) => None,
                (None, None) => Some(gone(None, removed)),
                (None, Some(v)) if v.delete_marker && fresh(&v) => Some(Effect::of(marked, v, versioning)),
                (None, Some(_)) => None,
            }
        }
        Kind::TagsPut | Kind::TagsDelete | Kind::AclPut | Kind::RetentionPut | Kind::LegalHoldPut => {
            let meant = match i.version {
                Some(id) => list.iter().find(|v| v.id == id),
                None => newest,
            };
            meant.filter(|v| !v.delete_marker).map(|v| Effect::of(kind, v, versioning))
        }
        // A renamed object keeps its time.
        Kind::Rename => newest.filter(|v| !v.delete_marker).map(|v| Effect::of(kind, v, versioning)),
        _ => newest.filter(|v| !v.delete_marker).filter(fresh).map(|v| Effect::of(kind, v, versioning)),
    }
}

/// Stores positions that changed; never ahead of what is durable.
async fn save_positions(shared: &Shared) -> Result<()> {
    let (moved, gone) = {
        let s = shared.state.lock();
        let moved: Vec<(String, u64)> = s
            .readers
            .iter()
            .filter(|(_, c)| c.done.min(s.durable) > c.saved)
            .map(|(n, c)| (n.clone(), c.done.min(s.durable)))
            .collect();
        (moved, s.gone.clone())
    };
    if moved.is_empty() && gone.is_empty() {
        return Ok(());
    }
    log::keep(&shared.control, shared.node, &moved, &gone).await?;
    let mut s = shared.state.lock();
    for (name, at) in moved {
        if let Some(cursor) = s.readers.get_mut(&name) {
            cursor.saved = at;
        }
    }
    s.gone.retain(|name| !gone.contains(name));
    Ok(())
}

/// Removes segments that are no longer needed, and the oldest while there are too many.
async fn trim(shared: &Shared) {
    let to_remove = {
        let mut s = shared.state.lock();
        select_to_remove(&mut s, shared.limits);
        std::mem::take(&mut s.to_remove)
    };
    for (i, segment_ref) in to_remove.iter().enumerate() {
        if let Err(error) = log::remove(&shared.backend, *segment_ref).await {
            tracing::debug!(%error, "a segment of the change feed is removed later");
            shared.state.lock().to_remove.extend(&to_remove[i..]);
            return;
        }
    }
}

/// Chooses the segments to remove. The newest segment always stays: it contains the position from which the
/// feed continues.
fn select_to_remove(s: &mut State, limits: super::Limits) {
    let least = s.lowest_position();
    let open = s.open_from().unwrap_or(u64::MAX);
    while s.segments.len() > 1 && s.segments[0].number < open {
        let next = s.segments[1].first;
        let done = next - 1 <= least;
        let over = s.bytes > limits.bytes || s.segments.len() > limits.segments;
        if !done && !over {
            return;
        }
        if let Some(segment_ref) = s.segments.pop_front() {
            s.bytes -= segment_ref.bytes;
            if !done {
                let lost = next - segment_ref.first.max(least + 1);
                if s.lost == 0 {
                    tracing::error!(
                        "the change feed is full: the oldest changes are dropped before all readers received them"
                    );
                }
                s.lost += lost;
            }
            s.to_remove.push(segment_ref);
        }
    }
}

impl Feed {
    /// Like [`Shared::written`], for everything queued so far; for tests and for stopping.
    #[cfg(test)]
    pub(crate) async fn flush(&self) -> Result<()> {
        let queued = {
            let mut s = self.shared.state.lock();
            s.urgent = true;
            s.queued
        };
        self.shared.work.notify_one();
        self.shared.written(queued).await
    }
}
