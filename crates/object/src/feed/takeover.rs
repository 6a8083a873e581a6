//! A node takes over the change feed of a node that is gone: it records anew, in its own feed, the changes that the other
//! had recorded and some reader has not read, and what became of the intents of the other. Then its own readers, which are
//! those of every node, deliver them.
//!
//! A node that returns waits until nobody is at its feed. One that was taken for gone and runs delivers its changes too.
//!
//! Invariants: a segment is removed, and a reader is moved, only after everything in it is durable in the other feed. A
//! change may be recorded twice, none is left out. What was taken over completely is not taken over again.
//!
//! Must not depend on: which nodes are gone, who reads.

use std::collections::BTreeMap;

use futures::future::BoxFuture;

use super::background::{VersioningOf, outcome, segment};
use super::entry::{Entry, Intent};
use super::log::{self, SegmentRef};
use super::takeover_record::{self, Takeover, change, is_running};
use super::{Change, Shared};
use crate::{Error, Result, Store};

impl Store {
    /// Takes over the change feed of a node that is gone. Returns how many changes were recorded anew.
    ///
    /// # Errors
    /// `Unavailable`: to be called again later.
    pub fn take_over_feed(&self, node: u16) -> BoxFuture<'_, Result<u64>> {
        Box::pin(async move {
            let shared = &self.inner.feed.shared;
            if node == shared.node || !shared.state.lock().opened {
                return Ok(0);
            }
            let control = &shared.control;
            let before = takeover_record::read(control, node)?;
            let is_new = |last: &&SegmentRef| last.number > before.segment;
            if log::list(&shared.backend, node).await?.last().filter(is_new).is_none() {
                return Ok(0);
            }
            let me = shared.node;
            let claim = |now: Takeover| {
                let free = now.by.is_none_or(|by| by == me || !is_running(control, by));
                (free && !is_running(control, node)).then_some(Takeover { by: Some(me), ..now })
            };
            if !change(control, node, claim).await? {
                return Ok(0);
            }
            let taken = take_over(shared, &self.versioning_of(), node, before.segment).await;
            if taken.is_err() {
                let release = |now: Takeover| (now.by == Some(me)).then_some(Takeover { by: None, ..now });
                if let Err(error) = change(control, node, release).await {
                    tracing::debug!(node, %error, "the takeover of a change feed is released later");
                }
            }
            taken
        })
    }
}

/// Takes over what nobody has taken over yet: segments after number `before`.
async fn take_over(shared: &Shared, versioning_of: &VersioningOf, node: u16, before: u64) -> Result<u64> {
    let segments = log::list(&shared.backend, node).await?;
    let Some(last) = segments.last().copied() else { return Ok(0) };
    let readers = log::readers(&shared.control, node)?;
    // Without readers nobody misses anything.
    let (count, end) = match readers.iter().map(|(_, at)| *at).min() {
        Some(read) => record_anew(shared, versioning_of, &segments, (before, read)).await?,
        None => (0, last.first - 1),
    };
    let (control, me) = (&shared.control, shared.node);
    if is_running(control, node) {
        return Err(Error::Unavailable(format!("node {node} has returned")));
    }
    let moved: Vec<(String, u64)> = readers.into_iter().map(|(name, _)| (name, end)).collect();
    log::keep(control, node, &moved, &[]).await?;
    let done =
        |now: Takeover| (now.by == Some(me)).then_some(Takeover { by: None, segment: last.number, ..now });
    if !change(control, node, done).await? {
        return Err(Error::Unavailable("the takeover was ended by another node".to_owned()));
    }
    // The newest one stays: the feed continues after it if its node returns.
    for segment_ref in segments.iter().filter(|s| s.number < last.number) {
        log::remove(&shared.backend, *segment_ref).await?;
    }
    Ok(count)
}

/// Records in the own feed the changes after position `read`, and the outcomes of intents in segments after number
/// `before`. Returns their number, and the position of the last change in the feed of the other node.
async fn record_anew(
    shared: &Shared,
    versioning_of: &VersioningOf,
    segments: &[SegmentRef],
    (before, read): (u64, u64),
) -> Result<(u64, u64)> {
    let Some(last) = segments.last() else { return Ok((0, read)) };
    let newest = segment(shared, *last).await?;
    let unread = segments.partition_point(|s| s.first <= read + 1).saturating_sub(1);
    let with_intents = segments.partition_point(|s| s.number < newest.open_from);
    let (mut count, mut end) = (0, last.first - 1);
    let mut open: BTreeMap<u64, Intent> = BTreeMap::new();
    for segment_ref in &segments[unread.min(with_intents)..] {
        let mut changes = Vec::new();
        for entry in segment(shared, *segment_ref).await?.entries {
            match entry {
                Entry::Intent(intent) if segment_ref.number > before => {
                    open.insert(intent.id, intent);
                }
                Entry::Intent(_) => {}
                Entry::Change(id, change) => {
                    open.remove(&id);
                    end = end.max(change.position);
                    if change.position > read {
                        changes.push((*change).clone());
                    }
                }
                Entry::Void(id) => {
                    open.remove(&id);
                }
            }
        }
        count += changes.len() as u64;
        record(shared, changes).await?;
    }
    for intent in open.values() {
        let _turn = shared.turn(intent).await;
        if let Some(change) = outcome(versioning_of, shared, intent).await? {
            count += 1;
            record(shared, vec![change]).await?;
        }
    }
    Ok((count, end))
}

/// Records changes, and waits until they are durable.
async fn record(shared: &Shared, changes: Vec<Change>) -> Result<()> {
    if changes.is_empty() {
        return Ok(());
    }
    let queued = {
        let mut s = shared.state.lock();
        for change in changes {
            shared.push(&mut s, 0, change);
        }
        s.urgent = true;
        s.queued
    };
    shared.work.notify_one();
    shared.written(queued).await
}
