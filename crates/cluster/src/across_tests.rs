//! Tests of plans over disks of which several nodes have parts: shares of nodes, domains, parts and drives, and how drives meet in groups.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::layout::{CodeSpec, Plan};
use crate::spread::spread;

/// Where a drive is: its node, and the disk that it is a part of, if that is known, and whether that is on the network.
type Place = (u16, Option<(u8, bool)>);

fn drives<'a>(places: &[Place], names: &'a [String]) -> Vec<Placed<'a>> {
    let drive = |(i, (node, disk)): (usize, &Place)| {
        let mut id = [0; 16];
        (id[0], id[1], id[2]) = (*node as u8, i as u8, 9);
        let domain = disk.map(|(disk, _)| names[usize::from(disk)].as_str());
        let on_network = disk.is_some_and(|(_, on_network)| on_network);
        Placed { id: DriveId(id), weight: 1000, node: *node, domain, on_network }
    };
    places.iter().enumerate().map(drive).collect()
}

fn names() -> Vec<String> {
    (0..64).map(|n| format!("the disk {n}")).collect()
}

fn code(text: &str) -> CodeSpec {
    CodeSpec::parse(text).unwrap()
}

/// Six servers with eight namespaces each of 24 drives that have two: both of a drive are at different servers, in different pairs.
fn data24() -> [Vec<Place>; 3] {
    let half = |n: u16| (n / 8 + 1, Some(((n % 24) as u8, true)));
    let dealt = |n: u16| (n % 6 + 1, Some(((n / 2) as u8, true)));
    let next = |n: u16| {
        let server = n / 8 + 1;
        // The first namespaces of four drives, and the second ones of the four of the next server.
        let drive = if n % 8 < 4 { 4 * (server - 1) + n % 4 } else { 4 * (server % 6) + n % 4 };
        (server, Some((drive as u8, true)))
    };
    [(0..48).map(half).collect(), (0..48).map(dealt).collect(), (0..48).map(next).collect()]
}

/// The least and the most slots of a group that the drives have that `same` puts together, with their share.
fn range<K: Ord + std::fmt::Debug>(
    drives: &[Placed<'_>],
    plan: &Plan,
    key: impl Fn(&Placed<'_>) -> K,
) -> BTreeMap<K, (usize, usize, f64)> {
    let mut of: BTreeMap<K, BTreeSet<DriveId>> = BTreeMap::new();
    for d in drives {
        of.entry(key(d)).or_default().insert(d.id);
    }
    let counts = |ids: BTreeSet<DriveId>| {
        let counts = plan.groups.iter().map(|g| g.iter().filter(|d| ids.contains(*d)).count());
        let counts: Vec<usize> = counts.collect();
        let share = counts.iter().sum::<usize>() as f64 / counts.len() as f64;
        (*counts.iter().min().unwrap(), *counts.iter().max().unwrap(), share)
    };
    of.into_iter().map(|(key, ids)| (key, counts(ids))).collect()
}

/// Checks that all have in every group their share, rounded up or down; returns the most slots that one domain has.
fn check(drives: &[Placed<'_>], plan: &Plan) -> usize {
    fn even<K: Ord + std::fmt::Debug>(of: &BTreeMap<K, (usize, usize, f64)>) {
        for (key, (low, high, share)) in of {
            assert!(
                *low as f64 >= share.floor() && *high as f64 <= share.ceil(),
                "{key:?}: {low} to {high}, {share}"
            );
        }
    }
    for group in &plan.groups {
        assert_eq!(
            group.iter().collect::<BTreeSet<_>>().len(),
            plan.code.slots(),
            "no drive twice in a group"
        );
    }
    even(&range(drives, plan, |d| d.node));
    let alone = |d: &Placed<'_>| d.domain.is_none().then_some(d.id);
    even(&range(drives, plan, |d| (d.node, d.domain.map(str::to_owned), alone(d))));
    let of_domain =
        range(drives, plan, |d| ((!d.on_network).then_some(d.node), d.domain.map(str::to_owned), alone(d)));
    even(&of_domain);
    of_domain.values().map(|(_, most, _)| *most).max().unwrap()
}

/// Slots of each drive.
fn uses(plan: &Plan) -> BTreeMap<DriveId, usize> {
    let mut uses = BTreeMap::new();
    plan.groups.iter().flatten().for_each(|d| *uses.entry(*d).or_default() += 1);
    uses
}

#[test]
fn no_group_has_both_namespaces_of_a_drive_on_two_servers() {
    let names = names();
    for places in data24() {
        let drives = drives(&places, &names);
        // The last one needs every drive in every group.
        for text in ["4+2", "6+2", "8+4", "12+4", "14+4", "20+4"] {
            let plan = spread(&drives, Some(code(text)), None, true).unwrap();
            assert_eq!(check(&drives, &plan), 1, "{text}");
            let uses = uses(&plan);
            assert_eq!(uses.len(), 48);
            assert!(uses.values().all(|n| n * 48 == plan.groups.len() * plan.code.slots()), "equal drives");
            // Without the domains many groups would have both.
            let plain: Vec<_> =
                drives.iter().map(|d| Placed { domain: None, on_network: false, ..*d }).collect();
            let before = spread(&plain, Some(code(text)), None, true).unwrap();
            let of = range(&drives, &before, |d| d.domain.map(str::to_owned));
            assert_eq!(of.values().map(|(_, most, _)| *most).max(), Some(2), "{text}");
        }
    }
}

#[test]
fn drives_meet_all_others_that_do_not_fail_with_them() {
    let names = names();
    for places in data24() {
        let drives = drives(&places, &names);
        let plan = spread(&drives, Some(code("8+4")), None, true).unwrap();
        let together = |a: &Placed<'_>, b: &Placed<'_>| {
            plan.groups.iter().filter(|g| g.contains(&a.id) && g.contains(&b.id)).count()
        };
        for (i, a) in drives.iter().enumerate() {
            for b in &drives[..i] {
                let (met, same) = (together(a, b), a.domain == b.domain);
                // 64 groups of 12 slots: about 15 with each drive of the other servers, 9 with those of the same.
                assert!(if same { met == 0 } else { (1..=40).contains(&met) }, "{a:?} {b:?}: {met}");
            }
        }
    }
}

#[test]
fn more_of_a_disk_than_parity_is_chosen_only_where_nothing_else_is_left() {
    let names = names();
    for (nodes, disks, text, most) in [
        (4, 4, "2+2", 1),
        (4, 4, "6+2", 2),
        (4, 3, "4+2", 2),
        (3, 5, "4+1", 1),
        (3, 5, "7+2", 2),
        (2, 9, "7+2", 1),
        (6, 2, "9+3", 6),
    ] {
        let places: Vec<Place> =
            (1..=nodes).flat_map(|node| (0..disks).map(move |disk| (node, Some((disk, true))))).collect();
        let drives = drives(&places, &names);
        let plan = spread(&drives, Some(code(text)), None, true).unwrap();
        assert_eq!(check(&drives, &plan), most, "{nodes} {disks} {text}");
    }
}

#[test]
fn a_large_cluster_is_planned() {
    let names: Vec<String> = (0..512).map(|n| format!("the disk {n}")).collect();
    let place = |n: usize| {
        let mut id = [0; 16];
        id[..4].copy_from_slice(&(n as u32).to_be_bytes());
        let domain = Some(names[n % 512].as_str());
        Placed {
            id: DriveId(id),
            weight: 1000 + (n % 7) as u64 * 100,
            node: (n / 16) as u16,
            domain,
            on_network: true,
        }
    };
    let drives: Vec<Placed<'_>> = (0..1024).map(place).collect();
    let plan = spread(&drives, Some(code("12+4")), None, true).unwrap();
    assert_eq!((plan.groups.len(), check(&drives, &plan)), (4096, 1));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn shares_are_even_over_random_arrangements(
        places in prop::collection::vec((1u16..7, prop::option::weighted(0.8, (0u8..12, any::<bool>()))), 3..40),
        heavy in prop::collection::vec(1u64..30, 40),
        width in 2usize..20,
        uneven in any::<bool>(),
        turn in 0usize..40,
    ) {
        let names = names();
        let mut placed = drives(&places, &names);
        // A disk of a node is on the network or is not, as what of_new tells.
        let far: BTreeSet<_> = placed.iter().filter(|d| d.on_network).map(|d| (d.node, d.domain)).collect();
        for (d, heavy) in placed.iter_mut().zip(heavy) {
            d.on_network = far.contains(&(d.node, d.domain));
            d.weight = if uneven { heavy * 100 } else { 1000 };
        }
        let n = width.min(placed.len());
        let code = CodeSpec { k: n as u8 - 1, m: 1 };
        let plan = spread(&placed, Some(code), Some(16), true).unwrap();
        check(&placed, &plan);
        // Each drive has as many slots as without domains.
        let plain: Vec<_> = placed.iter().map(|d| Placed { domain: None, on_network: false, ..*d }).collect();
        prop_assert_eq!(uses(&plan), uses(&spread(&plain, Some(code), Some(16), true).unwrap()));
        let turn = turn % placed.len();
        placed.rotate_left(turn);
        prop_assert_eq!(plan, spread(&placed, Some(code), Some(16), true).unwrap());
    }
}
