//! Removal of a node that is gone for good: its record leaves the registry, its drives are dead in the map.
//!
//! What remains is a record of the removal ([`RemovedNode`]): the number is not given again, and no certificate for it
//! is accepted. A node with many drives needs several updates; all but the last one only retire drives that have no slot,
//! so a removal that is interrupted can be repeated.
//!
//! Invariants: no node is removed that has a slot of a placement group; the update that removes it writes the record of the
//! cluster and compares the head of the map, so that it succeeds only if nobody enrolled and no slot moved meanwhile.
//!
//! Must not depend on: whether the node runs.

use ashlar_format::DriveId;

use crate::control::Control;
use crate::map::{DriveState, Map};
use crate::registry::{REMOVED, Registry, RemovedNode, State, json};
use crate::update::Update;
use crate::{Error, Result};

/// Most drives that one update retires, and most groups that it changes: each may be a key.
const AT_ONCE: (usize, usize) = (40, 70);

impl Registry {
    /// The next update that removes a node, and whether it is the last one. `map`: the map in the control store.
    ///
    /// # Errors
    /// `Refused`, with the reason: there is no such node, it has slots, or it is the only one.
    pub fn remove(&self, number: u16, map: &Map, control: &Control, now_ms: i64) -> Result<(Update, bool)> {
        let refused = |why: String| Err(Error::Refused(why));
        let (Some(record), Some(entry)) = (self.nodes.get(&number), self.entries.get(&number)) else {
            return refused(match self.removed.contains_key(&number) {
                true => format!("node {number} was removed already"),
                false => format!("there is no node {number}"),
            });
        };
        if self.cluster.state != State::Formed {
            return refused("the cluster is not formed yet".to_owned());
        }
        if self.nodes.len() < 2 {
            return refused(format!("node {number} is the only node of the cluster"));
        }
        let active = map.drives.iter().filter(|d| d.node == number && d.state == DriveState::Active);
        let drives: Vec<DriveId> = active.map(|d| d.id).collect();
        let groups = map.groups.iter().filter(|g| drives.iter().any(|d| g.slot_of(*d).is_some())).count();
        if groups > 0 {
            return refused(format!(
                "{groups} placement groups have slots on drives of node {number}: they move to other nodes while it is \
                 away for longer than --rebuild-after, and `ashlar cluster status` shows how many are left; slots of a \
                 node that runs cannot be moved away yet"
            ));
        }
        let joining = map.groups.iter().filter(|g| {
            let left = g.left.iter().any(|d| drives.contains(d));
            left && g.slots.iter().any(|s| s.joining)
        });
        let joining = joining.count();
        if joining > 0 {
            return refused(format!(
                "{joining} placement groups that left node {number} are not complete on other nodes yet: what it has may \
                 still be needed"
            ));
        }
        let some = &drives[..drives.len().min(AT_ONCE.0)];
        let next = map.retire(some)?.without_dead(AT_ONCE.1);
        let last = some.len() == drives.len() && next == next.without_dead(usize::MAX);
        let mut update = next.update(map, control)?;
        if last {
            update.remove(entry);
            update.set(&self.cluster_entry, json(&self.cluster));
            let removed = RemovedNode::new(record, now_ms);
            update.set(&control.read(&format!("{REMOVED}{number:05}")), json(&removed));
        } else {
            update.expect(entry);
            update.expect(&self.cluster_entry);
        }
        Ok((update, last))
    }

    /// That a node was removed, for the operator of its machine.
    ///
    /// # Errors
    /// `Refused`.
    pub fn check_not_removed(&self, number: u16) -> Result<()> {
        match self.removed.get(&number) {
            None => Ok(()),
            Some(node) => Err(Error::Refused(format!(
                "this was node {number} ({}), which was removed from the cluster: nothing on its drives is needed any \
                 more. To join the cluster as a new node, empty the folders and start with --join TOKEN (`ashlar cluster \
                 token` makes one)",
                node.host
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use ashlar_format::DeploymentId;

    use super::*;
    use crate::registry::{Cluster, NodeDrive, NodeRecord, Token};
    use crate::{Accept, CodeSpec, Embedded, Medium, MemoryMedium, SlotMove};

    const DEPLOYMENT: DeploymentId = DeploymentId([7; 16]);

    fn record(node: u8, drives: u8) -> NodeRecord {
        let drive = |n: u8| NodeDrive {
            id: DriveId([[node, n]; 8].concat().try_into().unwrap()),
            path: format!("/d{n}"),
            capacity: 1 << 30,
            enclosure: None,
        };
        let drives = (0..drives).map(drive).collect();
        NodeRecord::new(format!("node{node}:1"), "http://x".into(), "host".into(), "1".into(), drives)
    }

    /// A formed cluster of three nodes with so many drives each, code 1+1.
    async fn formed(drives: u8) -> Control {
        let medium: Arc<dyn Medium> = Arc::new(MemoryMedium::default());
        let code = Some(CodeSpec { k: 1, m: 1 });
        let cluster =
            Cluster::forming(3, code, Accept { node_loss: true, shared_drive: false }, BTreeMap::new());
        let media = vec![(DriveId([99; 16]), medium)];
        let control = Embedded::create(DEPLOYMENT, media, vec![cluster.entry()]).await.unwrap().control();
        for node in 1..=3 {
            let mut update = Update::new();
            read(&control).enrol(&record(node, drives), &control, &mut update).unwrap();
            control.update(update).await.unwrap();
        }
        for update in read(&control).plan(&control).unwrap() {
            control.update(update).await.unwrap();
        }
        let mut update = Update::new();
        read(&control).form(&mut update);
        control.update(update).await.unwrap();
        control
    }

    fn read(control: &Control) -> Registry {
        Registry::read(control).unwrap().unwrap()
    }

    fn map(control: &Control) -> Map {
        Map::read(control).unwrap()
    }

    /// Writes a map, a group at a time, so that each update is small enough.
    async fn put(control: &Control, next: &Map) {
        while map(control) != *next {
            let mut some = map(control);
            let differ = |(a, b): &(&mut crate::Group, &crate::Group)| **a != **b;
            for (a, b) in some.groups.iter_mut().zip(&next.groups).filter(differ).take(70) {
                a.clone_from(b);
            }
            some.epoch = next.epoch;
            control.update(some.update(&map(control), control).unwrap()).await.unwrap();
        }
    }

    /// Moves all slots of a node to drives of the others, which join and, if `complete`, vote.
    async fn evacuate(control: &Control, number: u16, complete: bool) {
        let before = map(control);
        let mut moves = Vec::new();
        for group in &before.groups {
            let of = |id| before.drive(id).unwrap().node;
            let gone = group.slots.iter().map(|s| s.drive).filter(|id| of(*id) == number);
            let mut free = before.drives.iter().filter(|d| d.node != number && group.slot_of(d.id).is_none());
            moves.extend(gone.map(|from| SlotMove { group: group.id, from, to: free.next().unwrap().id }));
        }
        let mut next = before.move_slots(&moves).unwrap();
        put(control, &next).await;
        if complete {
            let joining = |g: &crate::Group| {
                let slots = g.slots.iter().filter(|s| s.joining);
                slots.map(|s| (g.id, s.drive)).collect::<Vec<_>>()
            };
            for (group, drive) in next.clone().groups.iter().flat_map(joining) {
                next = next.joined(drive, &[group]).unwrap();
            }
            put(control, &next).await;
        }
    }

    /// Makes all updates of a removal but the last one.
    async fn nearly(control: &Control, number: u16) -> Result<Update> {
        loop {
            match read(control).remove(number, &map(control), control, 77)? {
                (update, true) => return Ok(update),
                (update, false) => control.update(update).await?,
            };
            assert!(read(control).nodes.contains_key(&number), "it is a node until the last step");
        }
    }

    async fn remove(control: &Control, number: u16) -> Result<()> {
        control.update(nearly(control, number).await?).await.map(drop)
    }

    #[tokio::test]
    async fn a_node_without_slots_is_removed_and_never_returns() {
        let control = formed(2).await;
        let why = remove(&control, 2).await.unwrap_err().to_string();
        assert!(why.contains("placement groups have slots on drives of node 2"), "{why}");
        evacuate(&control, 2, false).await;
        let why = remove(&control, 2).await.unwrap_err().to_string();
        assert!(why.contains("not complete on other nodes"), "{why}");
        evacuate(&control, 3, true).await;
        remove(&control, 3).await.unwrap();
        let now = read(&control);
        assert_eq!(now.nodes.keys().copied().collect::<Vec<_>>(), [1, 2]);
        assert_eq!((now.removed[&3].host.as_str(), now.removed[&3].removed_ms), ("host", 77));
        let drives: Vec<DriveId> = record(3, 2).drives.iter().map(|d| d.id).collect();
        assert!(drives.iter().all(|id| map(&control).drive(*id).unwrap().state == DriveState::Dead));
        assert!(map(&control).groups.iter().all(|g| !g.left.iter().any(|d| drives.contains(d))));
        assert!(remove(&control, 3).await.unwrap_err().to_string().contains("removed already"));
        assert!(remove(&control, 9).await.unwrap_err().to_string().contains("there is no node 9"));
        // Its drives still tell which node it was, and it is told that it is none any more.
        assert_eq!(now.find(&drives, Some(&map(&control)), "elsewhere:1").unwrap(), Some(3));
        assert!(now.check_not_removed(3).unwrap_err().to_string().contains("was removed from the cluster"));
        assert!(now.check_not_removed(2).is_ok());
        // A new node at its address gets another number.
        let (key, value) = Token::new("hash".to_owned(), 1000).entry("t");
        let mut update = Update::new();
        update.set(&control.read(&key), value);
        control.update(update).await.unwrap();
        let mut new = record(4, 2);
        new.address = "node3:1".into();
        let number = read(&control).join(&new, ("t", "hash"), 5, &control, &mut Update::new()).unwrap();
        assert_eq!(number, 4);
    }

    #[tokio::test]
    async fn a_removal_and_a_change_of_the_cluster_do_not_both_succeed() {
        let control = formed(2).await;
        evacuate(&control, 3, true).await;
        let removal = nearly(&control, 3).await.unwrap();
        // The node is back with other levels, or a new one enrols: both write the record of the cluster.
        let mut update = Update::new();
        let back =
            record(3, 2).with_levels(crate::Levels { oldest: 1, newest: crate::Levels::OURS.newest + 1 });
        read(&control).moved(3, &back, &mut update).unwrap();
        control.update(update).await.unwrap();
        assert!(matches!(control.update(removal).await, Err(Error::Conflict(_))));
        // A slot moves meanwhile.
        let removal = nearly(&control, 3).await.unwrap();
        put(&control, &map(&control).next_epoch().unwrap()).await;
        assert!(matches!(control.update(removal).await, Err(Error::Conflict(_))));
        remove(&control, 3).await.unwrap();
    }

    #[tokio::test]
    async fn a_node_with_many_drives_is_removed_in_steps_that_can_be_repeated() {
        let control = formed(60).await;
        evacuate(&control, 1, true).await;
        let (update, last) = read(&control).remove(1, &map(&control), &control, 1).unwrap();
        assert!(!last);
        control.update(update).await.unwrap();
        remove(&control, 1).await.unwrap();
        assert!(map(&control).drives.iter().all(|d| (d.node == 1) == (d.state == DriveState::Dead)));
    }
}
