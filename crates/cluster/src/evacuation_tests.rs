//! Tests of the plan: what must hold at every step over random maps, how even the result is, and what is stuck.

use proptest::prelude::*;

use super::*;
use crate::Accept;
use crate::map::NewDrive;
use ashlar_format::DeploymentId;
use std::collections::BTreeMap;

fn id(node: u16, n: u16) -> DriveId {
    let mut bytes = [3; 16];
    bytes[..2].copy_from_slice(&node.to_be_bytes());
    bytes[2..4].copy_from_slice(&n.to_be_bytes());
    DriveId(bytes)
}

fn drive(node: u16, n: u16, enclosure: Option<String>) -> NewDrive {
    NewDrive { id: id(node, n), path: format!("/n{node}/d{n}"), weight: 1 << 40, node, rack: None, enclosure }
}

/// A map over nodes numbered from 1 with so many drives each.
fn map(nodes: &[u16], code: CodeSpec, groups: Option<usize>) -> Map {
    let all: Vec<_> = (1u16..)
        .zip(nodes)
        .flat_map(|(node, count)| (0..*count).map(move |n| drive(node, n, None)))
        .collect();
    Map::first_over_nodes(
        DeploymentId([1; 16]),
        &all,
        Some(code),
        groups,
        Accept { node_loss: true, ..Accept::default() },
    )
    .unwrap()
}

fn code(text: &str) -> CodeSpec {
    CodeSpec::parse(text).unwrap()
}

fn takes(_: &Drive) -> Fitness {
    Fitness::Takes
}

fn node_of(map: &Map, drive: DriveId) -> u16 {
    map.drive(drive).unwrap().node
}

/// Every drive that joins a group on a node that is here has joined it.
fn all_joined(map: &Map, gone: &BTreeSet<u16>) -> Map {
    let mut out = map.clone();
    for drive in map.drives.iter().filter(|d| !gone.contains(&d.node)) {
        let joins = map.groups.iter().filter(|g| g.slot_of(drive.id).is_some_and(|s| s.joining));
        let joins: Vec<GroupId> = joins.map(|g| g.id).collect();
        out = out.joined(drive.id, &joins).unwrap();
    }
    out
}

/// Checks one step against the invariants, and returns the map after it.
fn step(map: &Map, gone: &BTreeSet<u16>, at_most: usize) -> (Evacuation, Map) {
    let out = plan(map, gone, takes, at_most);
    let mut moved: BTreeMap<GroupId, usize> = BTreeMap::new();
    for m in &out.moves {
        let group = map.groups.iter().find(|g| g.id == m.group).unwrap();
        assert!(gone.contains(&node_of(map, m.from)) && !gone.contains(&node_of(map, m.to)));
        let here = |d: DriveId| !gone.contains(&node_of(map, d));
        assert!(!group.slots.iter().any(|s| s.joining && here(s.drive)), "{group:?} waits");
        let left = group.slots.iter().filter(|s| !s.joining && here(s.drive)).count();
        let code = map.code();
        assert!(left > code.slots() / 2 && left >= usize::from(code.k), "{left} are left of {group:?}");
        *moved.entry(m.group).or_default() += 1;
    }
    assert!(moved.len() <= at_most);
    let next = map.move_slots(&out.moves).unwrap();
    for group in moved.keys() {
        let count = |map: &Map, node: u16| {
            let group = map.groups.iter().find(|g| g.id == *group).unwrap();
            group.slots.iter().filter(|s| node_of(map, s.drive) == node).count()
        };
        for node in map.drives.iter().map(|d| d.node).collect::<BTreeSet<_>>() {
            let (before, after) = (count(map, node), count(&next, node));
            assert!(
                after <= before || after <= usize::from(map.code().m),
                "node {node}: {before} -> {after}"
            );
        }
    }
    (out, next)
}

/// Steps until nothing moves any more; returns the last map and the number of steps.
fn evacuate(map: &Map, gone: &BTreeSet<u16>, at_most: usize) -> (Map, usize) {
    let (mut map, mut steps) = (map.clone(), 0);
    loop {
        let (out, next) = step(&map, gone, at_most);
        if out.moves.is_empty() {
            let stuck: BTreeSet<GroupId> = out.stuck.iter().map(|s| s.group).collect();
            let here = |d: DriveId| gone.contains(&node_of(&map, d));
            let rest = map.groups.iter().filter(|g| g.slots.iter().any(|s| here(s.drive)));
            assert_eq!(rest.map(|g| g.id).collect::<BTreeSet<_>>(), stuck, "what stays has a reason");
            return (map, steps);
        }
        // Until the drives have joined, no more groups move than may.
        let again = plan(&next, gone, takes, at_most);
        let groups = |moves: &[SlotMove]| moves.iter().map(|m| m.group).collect::<BTreeSet<_>>();
        let both = groups(&out.moves).union(&groups(&again.moves)).count();
        assert!(both <= at_most && groups(&out.moves).is_disjoint(&groups(&again.moves)), "{both} at once");
        map = all_joined(&next, gone);
        steps += 1;
        assert!(steps <= map.groups.len(), "it ends");
    }
}

/// Slots of each drive of a node that is here.
fn loads(map: &Map, gone: &BTreeSet<u16>) -> Vec<usize> {
    let here = map.drives.iter().filter(|d| !gone.contains(&d.node));
    here.map(|d| map.groups_of(d.id).len()).collect()
}

#[test]
fn every_drive_that_can_takes_its_share() {
    for (nodes, text, lost) in [
        (&[2, 2, 2, 2, 2][..], "4+2", 1),
        (&[4; 8], "8+4", 3),
        (&[4; 6], "4+4", 6),
        (&[1; 9], "4+2", 2),
        (&[3; 7], "6+3", 5),
    ] {
        let (before, gone) = (map(nodes, code(text), None), BTreeSet::from([lost]));
        let (after, steps) = evacuate(&before, &gone, 8);
        assert_eq!(groups_on(&after, lost), 0, "{nodes:?} {text}");
        assert!(steps > 1 && groups_on(&before, lost) > 8, "{steps} steps");
        let loads = loads(&after, &gone);
        // Within one slot of its share.
        let (slots, drives) = (loads.iter().sum::<usize>(), loads.len());
        let share = slots / drives..=slots.div_ceil(drives);
        assert!(
            loads.iter().all(|l| l + 1 >= *share.start() && *l <= share.end() + 1),
            "{nodes:?} {text}: {loads:?}, {share:?}"
        );
    }
}

#[test]
fn heavier_drives_take_more() {
    let mut map = map(&[2; 8], code("4+2"), None);
    map.drives[0].weight *= 3;
    let gone = BTreeSet::from([8]);
    let (after, _) = evacuate(&map, &gone, 8);
    let more = |d: usize| after.groups_of(map.drives[d].id).len() - map.groups_of(map.drives[d].id).len();
    assert!(more(0) > 2 * more(2), "{} and {}", more(0), more(2));
}

#[test]
fn two_nodes_one_after_the_other_leave_what_is_needed() {
    let before = map(&[2; 5], code("4+2"), None);
    let (after, _) = evacuate(&before, &BTreeSet::from([1]), 8);
    let both = BTreeSet::from([1, 2]);
    let (last, _) = evacuate(&after, &both, 8);
    assert_eq!((groups_on(&last, 1), groups_on(&last, 2)), (0, 0));
    // Both at once: a group may have too few left.
    let out = plan(&before, &both, takes, usize::MAX);
    let few = out.stuck.iter().filter(|s| matches!(s.why, Why::TooFewLeft { need: 4, .. })).count();
    assert!(few > 0, "{:?}", out.stuck);
}

#[test]
fn what_cannot_move_says_why() {
    // Every other node has as many shards as may be lost.
    let full = plan(&map(&[2; 3], code("4+2"), Some(8)), &BTreeSet::from([2]), takes, 8);
    assert!(full.moves.is_empty() && full.stuck.iter().all(|s| s.why == Why::NoDrive), "{full:?}");
    // Half is left: a majority is needed.
    let half = plan(&map(&[4; 2], code("4+4"), Some(8)), &BTreeSet::from([2]), takes, 8);
    assert!(half.stuck.iter().all(|s| s.why == Why::TooFewLeft { left: 4, need: 5 }), "{half:?}");
    // A majority is left, and too few shards.
    let few = plan(&map(&[3; 6], code("14+4"), Some(8)), &BTreeSet::from([2, 3]), takes, 8);
    assert!(few.stuck.iter().all(|s| s.why == Why::TooFewLeft { left: 12, need: 14 }), "{few:?}");
    assert!(few.moves.is_empty() && !few.stuck.is_empty());
}

#[test]
fn only_drives_that_work_are_used() {
    let map = map(&[2; 6], code("4+2"), None);
    let gone = BTreeSet::from([6]);
    let bad = id(1, 0);
    let full = plan(&map, &gone, |d| if d.id == bad { Fitness::Serves } else { Fitness::Takes }, usize::MAX);
    assert!(!full.moves.is_empty() && full.moves.iter().all(|m| m.to != bad));
    // Drives that do not answer are not among those that are left.
    let away = plan(&map, &gone, |d| if d.node < 3 { Fitness::Away } else { Fitness::Takes }, usize::MAX);
    for m in &away.moves {
        let group = map.groups.iter().find(|g| g.id == m.group).unwrap();
        let left = group.slots.iter().filter(|s| (3..6).contains(&node_of(&map, s.drive))).count();
        assert!(left >= 4 && node_of(&map, m.to) >= 3, "{left}");
    }
    assert!(away.stuck.iter().any(|s| matches!(s.why, Why::TooFewLeft { .. })));
}

#[test]
fn a_drive_that_left_is_no_target_and_a_target_that_is_gone_is_left_too() {
    let before = map(&[2; 6], code("4+2"), Some(12));
    let gone = BTreeSet::from([1]);
    let (out, next) = step(&before, &gone, 1);
    let first = out.moves[0];
    // The node of the new drive goes too, before the drive has joined.
    let both = BTreeSet::from([1, node_of(&before, first.to)]);
    let more = plan(&next, &both, takes, usize::MAX);
    assert!(more.moves.iter().any(|m| m.group == first.group && m.from == first.to), "{more:?}");
    // The first node is back, and has not let go: its drives take other groups only.
    let second = BTreeSet::from([node_of(&before, first.to)]);
    let more = plan(&next, &second, takes, usize::MAX);
    assert!(more.moves.iter().all(|m| m.group != first.group || m.to != first.from), "{more:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn steps_over_random_maps_keep_invariants_and_end(
        nodes in prop::collection::vec(1u16..4, 3..8),
        parity in 1u8..4,
        width in 2usize..10,
        lost in prop::collection::btree_set(1u16..8, 1..3),
        at_most in 1usize..10,
    ) {
        let count: usize = nodes.iter().map(|n| usize::from(*n)).sum();
        let n = width.min(count).max(usize::from(parity) + 1);
        prop_assume!(n <= count);
        let code = CodeSpec { k: n as u8 - parity, m: parity };
        let mut map = map(&nodes, code, Some(16));
        // One after the other, and drives that returned meanwhile have not let go.
        for node in lost {
            map = evacuate(&map, &BTreeSet::from([node]), at_most).0;
        }
    }
}

/// The most slots that a group of a map has in one domain.
fn most_in_a_domain(map: &Map) -> usize {
    let domains = of_map(map);
    let of = |g: &Group| {
        let mut count: HashMap<Domain<'_>, usize> = HashMap::new();
        g.slots.iter().filter_map(|s| domains.get(&s.drive)).for_each(|d| *count.entry(*d).or_default() += 1);
        count.into_values().max().unwrap_or(0)
    };
    map.groups.iter().map(of).max().unwrap()
}

/// Two drives of each node are parts of one disk: what a group had on one disk before is on two afterwards.
#[test]
fn slots_move_to_disks_that_the_group_does_not_have() {
    let mut map = map(&[4; 4], code("2+2"), None);
    for drive in &mut map.drives {
        drive.enclosure = Some(format!("the disk {}", drive.id.0[3] / 2));
    }
    let gone = BTreeSet::from([4]);
    let (out, next) = step(&map, &gone, usize::MAX);
    assert!(!out.moves.is_empty() && out.stuck.is_empty());
    assert_eq!(most_in_a_domain(&next), 1);
}

/// A map of nodes that have a namespace each of as many disks.
fn halves(nodes: u16, disks: u16, text: &str, on_network: bool) -> Map {
    let disk = |n| Some(crate::domain_text(&format!("the subsystem {n}"), on_network));
    let all: Vec<_> = (1..=nodes).flat_map(|node| (0..disks).map(move |n| drive(node, n, disk(n)))).collect();
    let accept = Accept { node_loss: true, shared_drive: false };
    Map::first_over_nodes(DeploymentId([1; 16]), &all, Some(code(text)), None, accept).unwrap()
}

/// Nodes have a namespace each of the same disks: slots go to disks that the group has at no node, although others have fewer slots.
#[test]
fn slots_move_to_disks_that_the_group_has_at_no_node() {
    for (nodes, disks, text) in [(5, 7, "3+2"), (6, 8, "4+2"), (6, 8, "6+2"), (6, 12, "8+4"), (3, 9, "3+3")] {
        let before = halves(nodes, disks, text, true);
        assert_eq!(most_in_a_domain(&before), 1, "{nodes} {disks} {text}");
        for lost in [1, nodes] {
            let gone = BTreeSet::from([lost]);
            let (after, _) = evacuate(&before, &gone, 8);
            assert_eq!(groups_on(&after, lost), 0, "{nodes} {disks} {text}");
            assert_eq!(most_in_a_domain(&after), 1, "{nodes} {disks} {text}");
        }
    }
}

#[test]
fn a_disk_gets_no_more_slots_than_may_be_lost() {
    // Six slots on three disks, and each disk may have two.
    let (before, gone) = (halves(6, 3, "4+2", true), BTreeSet::from([2]));
    assert_eq!(most_in_a_domain(&before), 2);
    let (after, _) = evacuate(&before, &gone, 8);
    assert_eq!((groups_on(&after, 2), most_in_a_domain(&after)), (0, 2));
    // A disk that takes nothing: what was on it stays.
    let full = |d: &Drive| if d.path.ends_with("/d0") { Fitness::Serves } else { Fitness::Takes };
    let out = plan(&before, &gone, full, usize::MAX);
    let on_it =
        before.groups.iter().filter(|g| g.slot_of(id(2, 0)).is_some()).map(|g| g.id).collect::<BTreeSet<_>>();
    assert_eq!(out.stuck.iter().map(|s| s.group).collect::<BTreeSet<_>>(), on_it);
    assert!(out.stuck.iter().all(|s| s.why == Why::NoDrive) && !on_it.is_empty() && !out.moves.is_empty());
    // Disks of the nodes themselves are different ones, whatever they are called.
    assert_eq!(plan(&halves(6, 3, "4+2", false), &gone, full, usize::MAX).stuck, []);
}
