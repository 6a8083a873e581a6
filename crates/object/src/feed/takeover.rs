//! A node takes over the change feed of a node that is gone: it records anew, in its own feed, the changes that the other
//! had recorded and some reader has not read, and what became of the intents of the other. Then its own readers, which are
//! those of every node, deliver them.
//!
//! The record `feed-takeover/NODE` in the control store says which node is at it, and up to which segment everything has
//! been taken over. A node that returns waits until nobody is at its feed. One that was taken for gone and runs delivers
//! its changes too.
//!
//! Invariants: a segment is removed, and a reader is moved, only after everything in it is durable in the other feed. A
//! change may be recorded twice, none is left out. What was taken over completely is not taken over again.
//!
//! Must not depend on: which nodes are gone, who reads.

use std::collections::BTreeMap;

use ashlar_cluster::{Control, Update};
use bytes::Bytes;
use futures::future::BoxFuture;
use serde::{Deserialize, Serialize};

use super::background::{VersioningOf, outcome, segment};
use super::entry::{Entry, Intent};
use super::log::{self, SegmentRef};
use super::{Change, Shared};
use crate::{Error, Result, Store};

/// First part of the keys of the records.
const PREFIX: &str = "feed-takeover/";
/// Format number of the record.
const FORMAT: u32 = 1;

/// The record of the takeovers of one node's feed.
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Takeover {
    format: u32,
    /// The node that is at it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    by: Option<u16>,
    /// Everything up to this segment has been taken over.
    segment: u64,
}

fn key(node: u16) -> String {
    format!("{PREFIX}{node:05}")
}

fn decode(node: u16, bytes: Option<&Bytes>) -> Result<Takeover> {
    let Some(bytes) = bytes else { return Ok(Takeover { format: FORMAT, ..Takeover::default() }) };
    match serde_json::from_slice::<Takeover>(bytes) {
        Ok(record) if record.format == FORMAT => Ok(record),
        Ok(record) => Err(Error::Internal(format!("{}: format {}", key(node), record.format))),
        Err(e) => Err(Error::Internal(format!("{}: {e}", key(node)))),
    }
}

/// Changes the record by `decide`, which answers `None` if nothing is to be changed.
async fn change(
    control: &Control,
    node: u16,
    decide: impl Fn(Takeover) -> Option<Takeover> + Send + Sync,
) -> Result<bool> {
    let fill = |update: &mut Update| -> Result<bool> {
        let entry = control.read(&key(node));
        let Some(next) = decide(decode(node, entry.bytes())?) else { return Ok(false) };
        let bytes = serde_json::to_vec(&next).map_err(|e| Error::Internal(format!("{}: {e}", key(node))))?;
        update.set(&entry, bytes);
        Ok(true)
    };
    control.change(fill).await
}

fn is_running(control: &Control, node: u16) -> bool {
    control.announced().borrow().contains(&node)
}

/// This node returned: up to which segment others have taken over its feed.
///
/// # Errors
/// `Unavailable` while another node is at it.
pub(super) async fn returned(shared: &Shared) -> Result<u64> {
    let (control, me) = (&shared.control, shared.node);
    let record = decode(me, control.get(&key(me)).map(|v| v.bytes).as_ref())?;
    match record.by {
        None => return Ok(record.segment),
        Some(by) if is_running(control, by) => {
            return Err(Error::Unavailable(format!("node {by} is taking over the change feed of this node")));
        }
        Some(_) => {}
    }
    // The node that was at it is gone too, and does not finish.
    change(control, me, |now| (now.by == record.by).then_some(Takeover { by: None, ..now })).await?;
    Err(Error::Unavailable("the takeover of the change feed of this node ends".to_owned()))
}

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
            let before = decode(node, control.get(&key(node)).map(|v| v.bytes).as_ref())?;
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
