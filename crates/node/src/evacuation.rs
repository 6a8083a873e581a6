//! Moves the slots of nodes that are gone to drives of the others, a few groups at a time.
//!
//! Every node watches which others are away. One of them, by its duty, writes the moves into the map. The drives that
//! get slots join their groups like any drive that joins: a node whose duty it is tells them that they hold the groups,
//! and fills them (`erasure-set`, `rebuild`).
//!
//! Invariants:
//! - Nothing moves unless the node was away at every look for the whole time, the control store takes changes, this
//!   node is announced there, and the nodes that are not gone are a majority of those with drives. When the node is
//!   seen again, no further group moves; what was moved stays.
//! - A move is derived from the map in use and written only if the control store still holds that map: two nodes
//!   that act at once do no harm.
//!
//! Must not depend on: which slots move (`ashlar_cluster::evacuation`), how drives are filled.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use ashlar_cluster::evacuation::{Evacuation, Fitness, plan};
use ashlar_cluster::registry::Registry;
use ashlar_cluster::{Drive, DriveState, Map};
use ashlar_duties::{Duty, Unit};
use ashlar_environment::time::{self, Instant};
use futures::future::BoxFuture;

use super::drive_monitor::put_map;
use super::member::Member;
use super::node::Node;

/// Time between looks at the other nodes.
const LOOK: Duration = Duration::from_secs(1);
/// Groups that move at a time.
const AT_ONCE: usize = 8;
/// Room that a drive must have above its reserve to get a slot, in bytes.
const ROOM: u64 = 256 << 20;

/// Watches the other nodes, and moves slots of those that are gone; never returns on a node of a cluster.
pub fn run(node: Arc<Node>) -> BoxFuture<'static, ()> {
    Box::pin(async move {
        let Some(member) = node.member.clone() else { return };
        let began = Instant::now();
        let mut stopped: Option<String> = None;
        loop {
            time::sleep(LOOK).await;
            let away = away(&node);
            member.absences.lock().look(began.elapsed(), away.as_ref());
            if !node.duties.mine(Duty::Evacuate, &Unit::group(0)) {
                continue;
            }
            let done = step(&node, &member).await;
            // The same trouble is reported once.
            if let Err(why) = &done
                && stopped.as_ref() != Some(why)
            {
                tracing::warn!(why, "slots of a node that is gone do not move");
            }
            stopped = done.err();
        }
    })
}

/// The nodes with drives that are neither announced nor reached; `None`: it cannot be told.
fn away(node: &Node) -> Option<BTreeSet<u16>> {
    if !node.control.health().writable {
        return None;
    }
    let announced = node.control.announced().borrow().clone();
    let me = node.number();
    if !announced.contains(&me) {
        return None;
    }
    let map = node.map.load();
    let is_away = |number: &u16| {
        let mut drives = map.drives.iter().filter(|d| d.node == *number && d.state == DriveState::Active);
        *number != me && !announced.contains(number) && drives.all(|d| !node.sets.is_here(d.id, None))
    };
    Some(with_drives(&map).into_iter().filter(is_away).collect())
}

/// The nodes that have drives in the map.
fn with_drives(map: &Map) -> BTreeSet<u16> {
    map.drives.iter().filter(|d| d.state == DriveState::Active).map(|d| d.node).collect()
}

/// The nodes that are gone, if slots may move away from them.
///
/// # Errors
/// Why none may move.
fn gone(node: &Node, member: &Member, map: &Map) -> Result<BTreeSet<u16>, String> {
    let Some(after) = member.rebuild_after else { return Ok(BTreeSet::new()) };
    let gone = member.absences.lock().gone(after);
    if gone.is_empty() {
        return Ok(gone);
    }
    let registry = Registry::read(&node.control).map_err(|e| e.to_string())?;
    let registered = registry.map(|r| r.nodes).unwrap_or_default();
    let all: BTreeSet<u16> = with_drives(map).into_iter().filter(|n| registered.contains_key(n)).collect();
    let gone: BTreeSet<u16> = gone.intersection(&all).copied().collect();
    may_act(all.len(), gone.len()).map(|()| gone)
}

fn may_act(all: usize, gone: usize) -> Result<(), String> {
    match (all - gone) * 2 > all {
        true => Ok(()),
        false => Err(format!("{gone} of {all} nodes are gone: a majority must be left")),
    }
}

fn fitness(node: &Node, drive: &Drive) -> Fitness {
    match (node.sets.is_here(drive.id, None), node.sets.is_here(drive.id, Some(ROOM))) {
        (false, _) => Fitness::Away,
        (true, false) => Fitness::Serves,
        (true, true) => Fitness::Takes,
    }
}

/// Moves the slots of the next groups, if there are any.
async fn step(node: &Node, member: &Member) -> Result<(), String> {
    if gone(node, member, &node.map.load())?.is_empty() {
        return Ok(());
    }
    let _one = node.changes.lock().await;
    let map = node.map.load_full();
    // The wait may have taken long: a node that is back meanwhile is not gone.
    let back = |away: BTreeSet<u16>| {
        gone(node, member, &map).map(|gone| gone.intersection(&away).copied().collect())
    };
    let gone: BTreeSet<u16> = match away(node) {
        Some(away) => back(away)?,
        None => return Ok(()),
    };
    let Evacuation { moves, .. } = plan(&map, &gone, |d| fitness(node, d), AT_ONCE);
    if moves.is_empty() {
        return Ok(());
    }
    let next = map.move_slots(&moves).map_err(|e| e.to_string())?;
    let epoch = next.epoch;
    put_map(node, &map, next).await?;
    tracing::warn!(nodes = ?gone, slots = moves.len(), epoch, "slots of nodes that are gone move to other drives");
    Ok(())
}

/// What is to be known about a node that is away.
pub struct Absence {
    /// For how long, as this node sees it.
    pub since: Duration,
    /// After how long its slots move; `None`: never.
    pub moves_after: Option<Duration>,
    /// Groups that have slots on it.
    pub groups: usize,
    /// Groups of which slots cannot move now, with the reasons, the most frequent first.
    pub stuck: Vec<(String, usize)>,
}

/// A node as this node sees it; `None`: it is not away.
#[must_use]
pub fn absence(node: &Node, number: u16) -> Option<Absence> {
    let member = node.member.as_ref()?;
    let since = *member.absences.lock().away().get(&number)?;
    let map = node.map.load();
    let mut gone: BTreeSet<u16> =
        member.rebuild_after.map(|after| member.absences.lock().gone(after)).unwrap_or_default();
    gone.insert(number);
    let on: BTreeSet<_> = map.drives.iter().filter(|d| d.node == number).map(|d| d.id).collect();
    let here: BTreeSet<_> =
        map.groups.iter().filter(|g| g.slots.iter().any(|s| on.contains(&s.drive))).map(|g| g.id).collect();
    let planned = plan(&map, &gone, |d| fitness(node, d), AT_ONCE);
    let mut reasons = std::collections::BTreeMap::<String, usize>::new();
    for stuck in planned.stuck.iter().filter(|s| here.contains(&s.group)) {
        *reasons.entry(stuck.why.to_string()).or_default() += 1;
    }
    let mut stuck: Vec<_> = reasons.into_iter().collect();
    stuck.sort_by_key(|(_, groups)| std::cmp::Reverse(*groups));
    Some(Absence { since, moves_after: member.rebuild_after, groups: here.len(), stuck })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_majority_of_the_nodes_must_be_left() {
        assert!(may_act(5, 2).is_ok() && may_act(3, 1).is_ok() && may_act(1, 0).is_ok());
        assert!(may_act(2, 1).is_err() && may_act(4, 2).unwrap_err().contains("2 of 4"));
    }
}
