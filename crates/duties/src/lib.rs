#![forbid(unsafe_code)]
//! Divides background work between the nodes of a deployment.
//!
//! A [`Duty`] on a [`Unit`] is work that one node does for all, for instance the scrub of a placement group
//! or the lifecycle rules of a bucket. [`Duties`] tells whether this node is the one that does it. The answer
//! is computed from the list of running nodes alone, by rendezvous hashing (Thaler and Ravishankar, 1998):
//! every node with the same list gives the same answer, all nodes get about the same number of units, and a
//! node that stops or starts moves only its own units. Nothing is stored for a unit.
//!
//! Invariants:
//! * A division only saves work. While nodes have different lists, a unit may have two owners or none. Two
//!   owners must do no harm: whatever they change is changed by the commit protocol, or by compare-and-set in
//!   the control store. A unit without an owner waits until the lists agree.
//! * A node that is not in the list owns nothing. There is always a list: a node that is alone owns all
//!   units.
//!
//! Must not depend on: where the list comes from, what the work is.

use std::sync::Arc;

use tokio::sync::watch;

/// Number of a node, as in ballots.
pub type NodeNumber = u16;

/// A kind of work that is divided.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Duty {
    /// Checks that all shards of a placement group exist and match their hashes.
    Scrub,
    /// Fills a joining drive.
    Rebuild,
    /// Removes what uploads leave behind in a bucket.
    Sweep,
    /// Applies the lifecycle rules of a bucket.
    Lifecycle,
    /// Takes over the change feed of a node that is gone.
    Feed,
    /// Moves slots away from nodes that are gone; of all groups together, named by the first.
    Evacuate,
    /// Gives the turns of a key: courtesy among nodes that write it.
    Turns,
    /// Counts the content of a bucket.
    Count,
}

impl Duty {
    /// Part of the hash input. A number never changes its meaning, because nodes of two releases must agree.
    fn number(self) -> u8 {
        match self {
            Duty::Scrub => 1,
            Duty::Rebuild => 2,
            Duty::Sweep => 3,
            Duty::Lifecycle => 4,
            Duty::Feed => 5,
            Duty::Evacuate => 6,
            Duty::Turns => 7,
            Duty::Count => 8,
        }
    }
}

/// The object of a duty.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unit {
    /// A placement group, by its number, big-endian.
    Group([u8; 4]),
    /// A bucket, by its id.
    Bucket([u8; 16]),
    /// A drive, by its id.
    Drive([u8; 16]),
    /// A node, by its number, big-endian.
    Node([u8; 2]),
    /// A key, by the hash of its register's key, big-endian.
    Key([u8; 8]),
}

impl Unit {
    /// The placement group of this number.
    #[must_use]
    pub fn group(number: u32) -> Unit {
        Unit::Group(number.to_be_bytes())
    }

    /// The node of this number.
    #[must_use]
    pub fn node(number: NodeNumber) -> Unit {
        Unit::Node(number.to_be_bytes())
    }

    /// The key whose register's key has this hash.
    #[must_use]
    pub fn key(hash: u64) -> Unit {
        Unit::Key(hash.to_be_bytes())
    }

    /// The hash input: a number for the kind, so that units of different kinds never have the same input, and
    /// the unit.
    fn bytes(&self) -> (u8, &[u8]) {
        match self {
            Unit::Group(number) => (1, number),
            Unit::Bucket(id) => (2, id),
            Unit::Drive(id) => (3, id),
            Unit::Node(number) => (4, number),
            Unit::Key(hash) => (5, hash),
        }
    }
}

/// Tells which work this node does. Cheap to clone: all clones share one list of nodes.
#[derive(Clone)]
pub struct Duties {
    me: NodeNumber,
    /// The running nodes, in ascending order, without duplicates.
    nodes: watch::Sender<Arc<Vec<NodeNumber>>>,
}

impl Duties {
    /// For node `me`, which is alone until [`Duties::set_nodes`] changes that.
    #[must_use]
    pub fn alone(me: NodeNumber) -> Duties {
        Duties { me, nodes: watch::Sender::new(Arc::new(vec![me])) }
    }

    /// The number of this node.
    #[must_use]
    pub fn node(&self) -> NodeNumber {
        self.me
    }

    /// Replaces the list of running nodes. Wakes those that wait on [`Duties::watch`] if the list changed.
    pub fn set_nodes(&self, nodes: impl IntoIterator<Item = NodeNumber>) {
        let mut nodes: Vec<NodeNumber> = nodes.into_iter().collect();
        nodes.sort_unstable();
        nodes.dedup();
        self.nodes.send_if_modified(|now| {
            let differs = **now != nodes;
            if differs {
                *now = Arc::new(nodes);
            }
            differs
        });
    }

    /// Notifies when the answers of [`Duties::mine`] may have changed.
    #[must_use]
    pub fn watch(&self) -> watch::Receiver<Arc<Vec<NodeNumber>>> {
        self.nodes.subscribe()
    }

    /// Whether this node does `duty` for `unit` now.
    #[must_use]
    pub fn mine(&self, duty: Duty, unit: &Unit) -> bool {
        let nodes = self.nodes.borrow();
        // The usual case of a single node costs no hash.
        ***nodes == [self.me] || owner(&nodes, duty, unit) == Some(self.me)
    }

    /// The node that does `duty` for `unit` now; `None`: no node is known to run.
    #[must_use]
    pub fn owner(&self, duty: Duty, unit: &Unit) -> Option<NodeNumber> {
        owner(&self.nodes.borrow(), duty, unit)
    }
}

/// The running node that does `duty` for `unit`.
fn owner(nodes: &[NodeNumber], duty: Duty, unit: &Unit) -> Option<NodeNumber> {
    nodes.iter().copied().max_by_key(|node| (score(*node, duty, unit), *node))
}

fn score(node: NodeNumber, duty: Duty, unit: &Unit) -> u64 {
    let (kind, unit) = unit.bytes();
    let mut bytes = [0; 20];
    bytes[0] = duty.number();
    bytes[1..3].copy_from_slice(&node.to_be_bytes());
    bytes[3] = kind;
    bytes[4..4 + unit.len()].copy_from_slice(unit);
    ashlar_checksum::key_hash(&bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DUTIES: [Duty; 8] = [
        Duty::Scrub,
        Duty::Rebuild,
        Duty::Sweep,
        Duty::Lifecycle,
        Duty::Feed,
        Duty::Evacuate,
        Duty::Turns,
        Duty::Count,
    ];

    fn nodes(all: &[NodeNumber]) -> Vec<Duties> {
        let of = |me: &NodeNumber| {
            let d = Duties::alone(*me);
            d.set_nodes(all.iter().rev().copied());
            d
        };
        all.iter().map(of).collect()
    }

    fn units() -> Vec<(Duty, Unit)> {
        let groups = (0..256).map(Unit::group);
        let buckets = (0..=255u8).map(|b| Unit::Bucket([b; 16]));
        let keys = (0..256).map(|k: u64| Unit::key(ashlar_checksum::key_hash(&k.to_be_bytes())));
        groups.chain(buckets).chain(keys).flat_map(|u| DUTIES.map(|d| (d, u))).collect()
    }

    fn owners(duties: &[Duties], duty: Duty, unit: &Unit) -> Vec<NodeNumber> {
        duties.iter().filter(|d| d.mine(duty, unit)).map(|d| d.me).collect()
    }

    #[test]
    fn every_unit_has_one_owner_and_nodes_share_evenly() {
        let duties = nodes(&[3, 7, 8, 900]);
        let mut count = std::collections::BTreeMap::<NodeNumber, usize>::new();
        for (duty, unit) in units() {
            let owners = owners(&duties, duty, &unit);
            assert_eq!(owners.len(), 1, "{duty:?} of {unit:?}: {owners:?}");
            assert!(duties.iter().all(|d| d.owner(duty, &unit) == Some(owners[0])));
            *count.entry(owners[0]).or_default() += 1;
        }
        let fair = units().len() / 4;
        for (node, n) in &count {
            assert!(n.abs_diff(fair) < fair / 5, "node {node} has {n} of {fair}");
        }
        assert_eq!(count.len(), 4);
    }

    #[test]
    fn duties_of_one_unit_are_spread() {
        let duties = nodes(&[1, 2, 3, 4]);
        let unit = Unit::group(5);
        let all = |unit: &Unit| DUTIES.map(|d| owners(&duties, d, unit)[0]);
        assert!((0..64).map(Unit::group).any(|u| all(&u).iter().any(|o| *o != all(&u)[0])));
        assert_eq!(all(&unit), all(&unit));
    }

    #[test]
    fn stopped_node_moves_only_its_own_units() {
        let (before, after) = (nodes(&[1, 2, 3, 4]), nodes(&[1, 2, 4]));
        for (duty, unit) in units() {
            let (was, is) = (owners(&before, duty, &unit)[0], owners(&after, duty, &unit)[0]);
            assert!(was == is || was == 3, "{duty:?} of {unit:?} moved from {was} to {is}");
        }
    }

    #[test]
    fn node_alone_owns_all_and_unlisted_node_none() {
        let alone = Duties::alone(4);
        assert!(units().iter().all(|(d, u)| alone.mine(*d, u)));
        alone.set_nodes([1, 2]);
        assert!(units().iter().all(|(d, u)| !alone.mine(*d, u)));
    }

    #[tokio::test]
    async fn watchers_are_woken_only_by_changes() {
        let duties = Duties::alone(1);
        let mut watch = duties.watch();
        duties.clone().set_nodes([1, 1]);
        assert!(!watch.has_changed().unwrap(), "the list is the same");
        duties.clone().set_nodes([2, 1]);
        watch.changed().await.unwrap();
    }
}
