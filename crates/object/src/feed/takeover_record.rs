//! The records of takeovers: `feed-takeover/NODE` in the control store says which node is at the feed of a node that is
//! gone, and up to which segment everything has been taken over.
//!
//! Invariant: a running node that is at a feed is not replaced by another.
//!
//! Must not depend on: what a takeover does.

use ashlar_cluster::{Control, Update};
use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::{Error, Result};

/// First part of the keys of the records.
const PREFIX: &str = "feed-takeover/";
/// Format number of the record.
const FORMAT: u32 = 1;

/// The takeovers of one node's feed.
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Takeover {
    pub format: u32,
    /// The node that is at it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<u16>,
    /// Everything up to this segment has been taken over.
    pub segment: u64,
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

/// The record of the takeovers of a node's feed.
pub(super) fn read(control: &Control, node: u16) -> Result<Takeover> {
    decode(node, control.get(&key(node)).map(|v| v.bytes).as_ref())
}

/// Changes the record by `decide`, which answers `None` if nothing is to be changed.
pub(super) async fn change(
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

pub(super) fn is_running(control: &Control, node: u16) -> bool {
    control.announced().borrow().contains(&node)
}

/// This node returned: up to which segment others have taken over its feed.
///
/// # Errors
/// `Unavailable` while another node is at it.
pub(super) async fn returned(control: &Control, me: u16) -> Result<u64> {
    let record = read(control, me)?;
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
