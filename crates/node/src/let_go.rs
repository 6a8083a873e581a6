//! Ends what the drives of this node believe of groups in which they have no slot any more: their slots moved while they
//! were away.
//!
//! A drive first loses its vote there, durably and in the present epoch of the group. What it holds of the group is
//! dropped when every slot of it votes and nothing is missing there. Then the map says that it has let go, and it may
//! get a slot of the group again.
//!
//! Invariants: that a drive has let go is written only after the loss of its vote is durable; nothing is done by a map that
//! may be old. Any step may be repeated.
//!
//! Must not depend on: why slots moved.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use ashlar_cluster::Map;
use ashlar_drive::{Drive, Role, State};
use ashlar_environment::time;
use ashlar_format::{DriveId, GroupId};
use futures::future::BoxFuture;

use super::drive_monitor::put_map;
use super::node::Node;

/// Time between looks.
const LOOK: Duration = Duration::from_secs(2);
/// Time limit for a drive to write its role.
const ROLE: Duration = Duration::from_secs(30);
/// Groups that a drive releases at a time.
const AT_ONCE: usize = 16;

/// Lets go of groups whenever the map says that drives of this node left some; never returns.
pub fn run(node: Arc<Node>) -> BoxFuture<'static, ()> {
    Box::pin(async move {
        loop {
            time::sleep(LOOK).await;
            if !node.control.health().writable {
                continue;
            }
            let drives: Vec<Drive> = node.folders.lock().iter().filter_map(|s| s.drive.clone()).collect();
            for drive in drives.iter().filter(|d| d.state() == State::Online) {
                let left = node.map.load().left_by(drive.label().drive);
                if !left.is_empty()
                    && let Err(why) = let_go(&node, drive, &left).await
                {
                    tracing::debug!(drive = %drive.path().display(), why, "the drive does not let go yet; retrying");
                }
            }
        }
    })
}

async fn let_go(node: &Node, drive: &Drive, left: &[(GroupId, u32)]) -> Result<(), String> {
    lose_votes(drive, left).await?;
    let id = drive.label().drive;
    // The groups of which the map says that every drive has joined.
    let map = node.map.load_full();
    let settled: BTreeSet<GroupId> =
        map.groups.iter().filter(|g| !g.slots.iter().any(|s| s.joining)).map(|g| g.id).collect();
    let some: Vec<GroupId> =
        left.iter().map(|(g, _)| *g).filter(|g| settled.contains(g)).take(AT_ONCE).collect();
    let done = node.sets.release(id, &some).await.map_err(|e| e.to_string())?;
    if done.is_empty() {
        return Ok(());
    }
    write(node, id, &done).await?;
    tracing::info!(drive = %drive.path().display(), groups = done.len(), "the drive let go of groups that moved away");
    Ok(())
}

/// The drive durably loses its vote in these groups, each as of an epoch.
async fn lose_votes(drive: &Drive, left: &[(GroupId, u32)]) -> Result<(), String> {
    let votes = |group: &GroupId| drive.role(*group) == Some(Role::Voter);
    let voting: Vec<(GroupId, u32)> = left.iter().filter(|(g, _)| votes(g)).copied().collect();
    if voting.is_empty() {
        return Ok(());
    }
    let lose = async {
        // Who follows an older map is refused from now on.
        for (group, epoch) in &voting {
            drive.fence_epoch(*group, *epoch).await?;
        }
        drive.set_joining(&voting).await
    };
    match time::timeout(ROLE, lose).await {
        Ok(done) => done.map_err(|e| e.to_string())?,
        Err(_) => return Err("it does not answer".to_owned()),
    }
    match left.iter().find(|(g, _)| votes(g)) {
        Some((group, _)) => Err(format!("it still votes in group {group}")),
        None => Ok(()),
    }
}

async fn write(node: &Node, id: DriveId, groups: &[GroupId]) -> Result<(), String> {
    let _one = node.changes.lock().await;
    let map: Arc<Map> = node.map.load_full();
    match map.let_go(id, groups) {
        Some(next) => put_map(node, &map, next).await,
        None => Ok(()),
    }
}
