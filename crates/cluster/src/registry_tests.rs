//! Three nodes form a cluster in every order of their reads and updates, also if each is killed once at any point.
//!
//! A state is what the store holds, what each node is about to write, and which drives are voters. Two states count
//! as the same if they differ only in revisions: what a node is about to write is then either valid or not.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::Arc;

use super::*;
use crate::{Embedded, Medium, MemoryMedium};

const DEPLOYMENT: DeploymentId = DeploymentId([7; 16]);
const NODES: usize = 3;

fn record(node: u8) -> NodeRecord {
    let drive = |n: u8| NodeDrive {
        id: DriveId([node * 16 + n; 16]),
        path: format!("/d{n}"),
        capacity: 1 << 30,
        enclosure: None,
    };
    let drives = (0..2).map(drive).collect();
    NodeRecord::new(format!("node{node}:1"), "http://x".into(), "host".into(), "1".into(), drives)
}

fn media(medium: &Arc<MemoryMedium>) -> Vec<(DriveId, Arc<dyn Medium>)> {
    vec![(DriveId([99; 16]), medium.clone())]
}

#[derive(Clone)]
struct World {
    /// The drive of the store.
    files: [Option<Vec<u8>>; 3],
    /// What each node has decided and not written yet.
    pending: [Option<Update>; NODES],
    /// The drives of a node were made voters.
    voters: [bool; NODES],
    /// The node was killed and started again.
    restarted: [bool; NODES],
}

impl World {
    /// The store on a copy of the drive.
    async fn open(&self) -> (Arc<MemoryMedium>, Control) {
        let medium = Arc::new(MemoryMedium::default());
        medium.set_files(self.files.clone());
        let store = Embedded::open(DEPLOYMENT, media(&medium)).await.unwrap();
        (medium, store.control())
    }

    /// What tells this state from others.
    fn name(&self, control: &Control) -> String {
        let mut name = format!("{:?}{:?}", self.voters, self.restarted);
        for (key, value) in control.list("") {
            let _ = write!(name, "\n{key} {}", String::from_utf8_lossy(&value.bytes));
        }
        for pending in &self.pending {
            match pending {
                None => name.push_str("\n-"),
                Some(update) if !is_valid(update, control) => name.push_str("\nlate"),
                Some(update) => update.steps().for_each(|s| {
                    let _ = write!(name, "\n{} {:?}", s.key, s.action);
                }),
            }
        }
        name
    }

    /// The next step of a node, and the update that makes it.
    fn decide(&self, i: usize, control: &Control) -> (Step, Option<Update>) {
        let registry = Registry::read(control).unwrap().unwrap();
        let own = record(i as u8 + 1);
        let ids: Vec<DriveId> = own.drives.iter().map(|d| d.id).collect();
        let me = registry.find(&ids, None, &own.address).unwrap();
        let step = registry.step(me);
        let mut update = Update::new();
        match (&step, me) {
            (Step::Enrol, None) => drop(registry.enrol(&own, control, &mut update).unwrap()),
            (Step::Plan, Some(_)) => {
                let mut updates = registry.plan(control).unwrap();
                assert_eq!(updates.len(), 1);
                update = updates.remove(0);
            }
            (Step::Found, Some(me)) => registry.founded(me, &mut update),
            (Step::Form, Some(_)) => registry.form(&mut update),
            (Step::Wait { .. } | Step::WaitFor(_) | Step::Serve, Some(_)) => {}
            other => panic!("{other:?}"),
        }
        (step, update.changes_something().then_some(update))
    }
}

fn is_valid(update: &Update, control: &Control) -> bool {
    update.steps().all(|s| control.get(s.key).map(|v| v.revision) == s.seen.revision())
}

fn state(control: &Control) -> State {
    Registry::read(control).unwrap().unwrap().cluster.state
}

/// What has to hold after an update that was made.
fn check(before: State, control: &Control, voters: [bool; NODES], maps: &mut Vec<Map>) {
    let after = state(control);
    assert_ne!(before, State::Formed, "nothing changes in a cluster that is formed");
    assert_eq!(control.get(Map::KEY).is_some(), after != State::Forming);
    match after {
        State::Forming => assert_eq!(voters, [false; NODES], "no drive has changed yet"),
        State::Founding => {}
        State::Formed => {
            assert_eq!(voters, [true; NODES]);
            let map = Map::read(control).unwrap();
            if !maps.contains(&map) {
                maps.push(map);
            }
        }
    }
}

#[tokio::test]
async fn every_order_of_steps_forms_one_cluster() {
    let medium = Arc::new(MemoryMedium::default());
    let cluster =
        Cluster::forming(NODES as u16, CodeSpec::parse("4+2").ok(), Accept::default(), BTreeMap::new());
    drop(Embedded::create(DEPLOYMENT, media(&medium), vec![cluster.entry()]).await.unwrap());
    let first = World {
        files: medium.files(),
        pending: [const { None }; NODES],
        voters: [false; NODES],
        restarted: [false; NODES],
    };
    let (mut known, mut todo) = (HashMap::from([(first.name(&first.open().await.1), 0)]), vec![first]);
    let (mut from, mut ends, mut maps) = (vec![Vec::new()], Vec::new(), Vec::new());
    let mut at = 0;
    while at < todo.len() {
        let world = todo[at].clone();
        let (_, control) = world.open().await;
        let (mut next, mut serving) = (Vec::new(), 0);
        for i in 0..NODES {
            let mut one = world.clone();
            match &world.pending[i] {
                None => {
                    let (step, update) = world.decide(i, &control);
                    serving += usize::from(step == Step::Serve);
                    if update.is_some() {
                        // The drives come before the record that says so.
                        one.voters[i] |= step == Step::Found;
                        one.pending[i] = update;
                        next.push(one);
                    }
                }
                Some(update) if is_valid(update, &control) => {
                    let (medium, control) = world.open().await;
                    let before = state(&control);
                    control.update(update.clone()).await.unwrap();
                    check(before, &control, world.voters, &mut maps);
                    (one.files, one.pending[i]) = (medium.files(), None);
                    next.push(one);
                }
                Some(update) => {
                    assert!(matches!(control.update(update.clone()).await, Err(Error::Conflict(_))));
                    one.pending[i] = None;
                    next.push(one);
                }
            }
            if !world.restarted[i] {
                let mut killed = world.clone();
                (killed.pending[i], killed.restarted[i]) = (None, true);
                next.push(killed);
            }
        }
        if serving == NODES {
            ends.push(at);
        } else {
            assert!(next.iter().any(|n| n.restarted == world.restarted), "all wait for each other");
        }
        for one in next {
            let (_, control) = one.open().await;
            let name = one.name(&control);
            let to = *known.entry(name).or_insert_with(|| {
                todo.push(one);
                from.push(Vec::new());
                todo.len() - 1
            });
            from[to].push(at);
        }
        at += 1;
    }
    // From every state the cluster can still be formed. Nodes may get their numbers in any order.
    let mut reached = vec![false; todo.len()];
    while let Some(at) = ends.pop() {
        if !std::mem::replace(&mut reached[at], true) {
            ends.extend(&from[at]);
        }
    }
    assert!(reached.iter().all(|r| *r), "a state that leads nowhere");
    assert_eq!(maps.len(), 6, "one for each order of enrolment");
    assert!(todo.len() > 300, "only {} states", todo.len());
}

/// The control store of a cluster with these records.
async fn store(cluster: Cluster, nodes: &[(u16, NodeRecord)]) -> Control {
    let medium = Arc::new(MemoryMedium::default());
    let mut entries = vec![cluster.entry()];
    entries.extend(nodes.iter().map(|(number, node)| (node_key(*number), json(node))));
    Embedded::create(DEPLOYMENT, media(&medium), entries).await.unwrap().control()
}

#[tokio::test]
async fn a_node_is_known_by_its_drives_and_a_blank_one_by_its_address() {
    let forming = || Cluster::forming(2, None, Accept::default(), BTreeMap::new());
    let nodes = [(1, record(1)), (2, record(2))];
    let control = store(Cluster { state: State::Formed, ..forming() }, &nodes).await;
    let registry = Registry::read(&control).unwrap().unwrap();
    let of = |node: u8| record(node).drives[1].id;
    assert_eq!(registry.find(&[of(2)], None, "elsewhere:1").unwrap(), Some(2));
    assert_eq!(registry.find(&[], None, "node1:1").unwrap(), Some(1));
    assert_eq!(registry.find(&[], None, "elsewhere:1").unwrap(), None);
    assert_eq!(registry.find(&[of(3)], None, "node1:1").unwrap(), None, "its drives are of no node");
    let why = registry.find(&[of(1), of(2)], None, "node1:1").unwrap_err().to_string();
    assert!(why.contains("node 1 and of node 2"), "{why}");
    // The map knows drives that replaced others.
    let map = registry.first_map(DEPLOYMENT).unwrap();
    let map = map.replace(of(1), of(9), "/d", 1).unwrap();
    assert_eq!(registry.find(&[of(9)], Some(&map), "elsewhere:1").unwrap(), Some(1));
    // While it is formed, an address alone makes no node.
    let control = store(forming(), &nodes[..1]).await;
    assert_eq!(Registry::read(&control).unwrap().unwrap().find(&[], None, "node1:1").unwrap(), None);
}

#[tokio::test]
async fn a_drive_and_an_address_belong_to_one_node() {
    let control =
        store(Cluster::forming(2, None, Accept::default(), BTreeMap::new()), &[(1, record(1))]).await;
    let registry = Registry::read(&control).unwrap().unwrap();
    let enrol = |node: &NodeRecord| registry.enrol(node, &control, &mut Update::new());
    let why = |node: NodeRecord| enrol(&node).unwrap_err().to_string();
    assert!(why(NodeRecord { address: "node1:1".into(), ..record(2) }).contains("--node-address"));
    assert!(why(NodeRecord { drives: record(1).drives, ..record(2) }).contains("same drive"));
    assert!(why(NodeRecord { drives: Vec::new(), ..record(2) }).contains("needs a drive"));
    assert_eq!(enrol(&record(2)).unwrap(), 2);
}

#[tokio::test]
async fn records_of_another_format_are_refused() {
    let medium = Arc::new(MemoryMedium::default());
    let entries = vec![(CLUSTER.to_owned(), bytes::Bytes::from_static(b"{\"format\":2,\"new\":true}"))];
    let control = Embedded::create(DEPLOYMENT, media(&medium), entries).await.unwrap().control();
    let why = Registry::read(&control).unwrap_err().to_string();
    assert!(why.contains("another release"), "{why}");
    let alone = Embedded::create(DEPLOYMENT, media(&Arc::default()), Vec::new()).await.unwrap().control();
    assert!(Registry::read(&alone).unwrap().is_none());
}

#[test]
fn golden() {
    let text = |bytes: bytes::Bytes| String::from_utf8(bytes.to_vec()).unwrap();
    let cluster = Cluster::forming(
        2,
        CodeSpec::parse("4+2").ok(),
        Accept::default(),
        BTreeMap::from([("a".into(), "b".into())]),
    );
    assert_eq!(
        text(cluster.at_level(3).entry().1),
        r#"{"format":1,"state":"forming","nodes":2,"code":{"k":4,"m":2},"accept_node_loss":false,"settings":{"a":"b"},"enrolled":0,"level":3}"#
    );
    let node = NodeRecord { drives: record(1).drives[..1].to_vec(), ..record(1) }.with_levels(levels(1, 3));
    let drive = r#"{"id":"10101010101010101010101010101010","path":"/d0","capacity":1073741824}"#;
    assert_eq!(
        text(json(&node)),
        format!(
            r#"{{"format":1,"address":"node1:1","endpoint":"http://x","host":"host","version":"1","drives":[{drive}],"founded":false,"levels":{{"oldest":1,"newest":3}}}}"#
        )
    );
    let accept = Accept { node_loss: false, shared_drive: true };
    let shared = Cluster::forming(2, None, accept, BTreeMap::new());
    let stored = text(shared.clone().entry().1);
    assert!(stored.contains(r#""accept_node_loss":false,"allow_shared_drive":true,"settings""#), "{stored}");
    assert_eq!(Cluster::decode(stored.as_bytes()).unwrap(), shared);
    // Before there were levels.
    let old = text(json(&node)).replace(r#","levels":{"oldest":1,"newest":3}"#, "");
    assert_eq!(decode::<NodeRecord>("n", old.as_bytes()).unwrap().levels, levels(1, 1));
    let old = Cluster::forming(1, None, Accept::default(), BTreeMap::new()).at_level(1);
    let old = text(old.entry().1).replace(r#","level":1"#, "");
    assert_eq!(Cluster::decode(old.as_bytes()).unwrap().level, 1);
}

fn levels(oldest: u32, newest: u32) -> Levels {
    Levels { oldest, newest }
}

/// A formed cluster at a level, of nodes with these ranges.
async fn at_level(level: u32, ranges: &[Levels]) -> Control {
    let cluster =
        Cluster { state: State::Formed, ..Cluster::forming(2, None, Accept::default(), BTreeMap::new()) };
    let nodes = (1..).zip(ranges).map(|(n, l)| (u16::from(n), record(n).with_levels(*l))).collect::<Vec<_>>();
    store(cluster.at_level(level), &nodes).await
}

#[tokio::test]
async fn a_level_is_raised_when_all_nodes_can_do_it() {
    let control = at_level(1, &[levels(1, 2), levels(1, 1), levels(1, 2)]).await;
    let read = || Registry::read(&control).unwrap().unwrap();
    let raise = |registry: &Registry| {
        let mut update = Update::new();
        registry.raise_level(&mut update).map(|()| update)
    };
    assert_eq!(read().next_level(), (2, vec![2]));
    let why = raise(&read()).unwrap_err().to_string();
    assert!(why.contains("node 2 (host) ran release 1 last, which can do feature level 1, not 2"), "{why}");
    // Node 2 is started with a newer release, while somebody else looks.
    let before = read();
    let mut update = Update::new();
    before.moved(2, &record(2).with_levels(levels(2, 3)), &mut update).unwrap();
    control.update(update).await.unwrap();
    assert_eq!(read().next_level(), (3, vec![1, 3]), "two nodes have the release between");
    let mut update = Update::new();
    read().moved(2, &record(2).with_levels(levels(1, 2)), &mut update).unwrap();
    control.update(update).await.unwrap();
    let ready = read();
    control.update(raise(&ready).unwrap()).await.unwrap();
    assert_eq!((read().cluster.level, read().next_level()), (2, (2, Vec::new())));
    assert!(raise(&read()).unwrap().is_empty(), "it is in force");
    // A cluster that is not formed.
    let forming =
        store(Cluster::forming(2, None, Accept::default(), BTreeMap::new()).at_level(1), &[(1, record(1))])
            .await;
    let forming = Registry::read(&forming).unwrap().unwrap();
    assert!(raise(&forming).unwrap_err().to_string().contains("not formed"));
}

/// Of a node that goes back to an older release and an operator who raises the level at once, the later one finds out.
#[tokio::test]
async fn the_level_and_what_nodes_can_do_change_one_after_the_other() {
    for raised_first in [true, false] {
        let control = at_level(1, &[levels(1, 2), levels(1, 2)]).await;
        let registry = Registry::read(&control).unwrap().unwrap();
        let (mut raise, mut back) = (Update::new(), Update::new());
        registry.raise_level(&mut raise).unwrap();
        registry.moved(2, &record(2).with_levels(levels(1, 1)), &mut back).unwrap();
        let (first, second) = if raised_first { (raise, back) } else { (back, raise) };
        control.update(first).await.unwrap();
        assert!(matches!(control.update(second).await, Err(Error::Conflict(_))));
        let registry = Registry::read(&control).unwrap().unwrap();
        match raised_first {
            true => {
                let why = registry.check_level(levels(1, 1)).unwrap_err().to_string();
                assert!(why.contains("level 2 is in force") && why.contains("a newer release"), "{why}");
            }
            false => assert_eq!(registry.next_level(), (2, vec![2])),
        }
    }
}

#[tokio::test]
async fn a_release_needs_the_level_in_force() {
    let control = at_level(2, &[levels(1, 2), levels(2, 3)]).await;
    let registry = Registry::read(&control).unwrap().unwrap();
    for can in [levels(1, 2), levels(2, 2), levels(2, 5)] {
        registry.check_level(can).unwrap();
    }
    let why = |can| registry.check_level(can).unwrap_err().to_string();
    assert!(why(levels(1, 1)).contains("can do 1 only: start a newer release"));
    assert!(why(levels(3, 4)).contains("can do 3 to 4 only: start an older release"));
    // A start at the same place writes nothing; at another one, only if the level is still the same.
    let mut update = Update::new();
    registry.moved(2, &record(2).with_levels(levels(2, 3)), &mut update).unwrap();
    assert!(update.is_empty());
    let elsewhere = NodeRecord { address: "elsewhere:1".into(), ..record(2) }.with_levels(levels(2, 3));
    registry.moved(2, &elsewhere, &mut update).unwrap();
    control.update(update).await.unwrap();
}
