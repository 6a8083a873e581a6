//! Placement groups over the drives of several nodes, and over drives that fail together. Pure functions.
//!
//! As in `layout`, every drive gets a fixed number of slots in proportion to its weight. The slots of a node are
//! divided evenly over the groups: a node has in each group the same number of slots, or one more. So are those of each
//! failure domain of a node, and within a domain the drives that have most slots left come first (Havel, 1955, and
//! Hakimi, 1962, for bipartite graphs: this finds an assignment whenever there is one), equal ones in the order of
//! weighted rendezvous hashing. A drive without a domain is one of its own. Where a domain is on several nodes, `across` divides
//! the slots.
//!
//! Invariants: no node has more slots of a group than its share, rounded up, and no domain either; where no drives
//! share a domain, domains change nothing; where no drives of several nodes do, that domains are on a network changes nothing.
//!
//! Must not depend on: devices, the control store.

use std::collections::BTreeMap;

use ashlar_format::DriveId;

use crate::across;
use crate::domains::of_new;
use crate::layout::{CodeSpec, Plan, assign, equal, group_count, parts, quotas, score};
use crate::map::NewDrive;
use crate::{Error, Result};

/// A drive as input of [`spread`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Placed<'a> {
    pub(crate) id: DriveId,
    pub(crate) weight: u64,
    pub(crate) node: u16,
    /// What it fails with.
    pub(crate) domain: Option<&'a str>,
    /// Whether a domain of this name is the same one on other nodes.
    pub(crate) on_network: bool,
}

impl<'a> Placed<'a> {
    pub(crate) fn of(drives: &'a [NewDrive]) -> Vec<Placed<'a>> {
        let domains = of_new(drives);
        let place = |d: &'a NewDrive| {
            let domain = domains.get(&d.id);
            let on_network = domain.is_some_and(|domain| domain.node.is_none());
            Placed { id: d.id, weight: d.weight, node: d.node, domain: domain.map(|d| d.name), on_network }
        };
        drives.iter().map(place).collect()
    }
}

/// Drives of a node that fail together.
struct Domain {
    /// The drives, with the slots that they have left.
    drives: Vec<(DriveId, usize)>,
    /// Slots over all groups.
    total: usize,
}

/// Computes placement groups over the drives of several nodes; see [`crate::plan`] for `code` and `least`.
/// With `accept_node_loss`, the loss of a node may cost a group more shards than its code can lose.
///
/// # Errors
/// `Layout`, with a message for the operator.
pub(crate) fn spread(
    drives: &[Placed<'_>],
    code: Option<CodeSpec>,
    least: Option<usize>,
    accept_node_loss: bool,
) -> Result<Plan> {
    // The order in which nodes came does not matter.
    let mut drives = drives.to_vec();
    drives.sort_unstable_by_key(|d| (d.node, d.id));
    let weights: Vec<(DriveId, u64)> = drives.iter().map(|d| (d.id, d.weight)).collect();
    let (code, n) = parts(&weights, code)?;
    let groups = group_count(drives.len(), n, least);
    let quotas = quotas(&weights, groups, n, equal(&weights));
    let nodes = domains(&drives, &quotas);
    let totals: Vec<usize> = nodes.values().map(|node| node.iter().map(|d| d.total).sum()).collect();
    check(code, groups, nodes.keys().copied().zip(totals.iter().copied()), accept_node_loss)?;
    let groups = match across::spans_nodes(&drives) {
        true => across::assign(&drives, &quotas, groups, n),
        false => within_nodes(nodes, &totals, groups, n),
    };
    Ok(Plan { code, groups })
}

/// Fills `groups` groups of `n` slots if every domain is on one node. `totals`: slots of each node over all groups.
fn within_nodes(
    mut nodes: BTreeMap<u16, Vec<Domain>>,
    totals: &[usize],
    groups: usize,
    n: usize,
) -> Vec<Vec<DriveId>> {
    // What each node has in every group, and in which groups it has one more.
    let rest: Vec<usize> = totals.iter().map(|total| total % groups).collect();
    let each: usize = totals.iter().map(|total| total / groups).sum();
    let named: Vec<(DriveId, u64)> = nodes.keys().map(|node| (number_as_id(*node), 1)).collect();
    let more = assign(&named, rest, groups, n - each);
    // How often each domain has one more than its share, rounded down. It is named by its first drive.
    let odd = |d: &Domain| (d.drives[0].0, d.total % groups);
    let mut odd: BTreeMap<u16, Vec<(DriveId, usize)>> =
        nodes.iter().map(|(node, domains)| (*node, domains.iter().map(odd).collect())).collect();
    let mut out = Vec::with_capacity(groups);
    for (group, more) in more.iter().enumerate() {
        let mut slots = Vec::with_capacity(n);
        for (((node, domains), odd), total) in nodes.iter_mut().zip(odd.values_mut()).zip(totals) {
            let count = total / groups + usize::from(more.contains(&number_as_id(*node)));
            let each: usize = domains.iter().map(|d| d.total / groups).sum();
            let mut with_more = Vec::new();
            take(odd, group, count - each, &mut with_more);
            for Domain { drives, total } in domains {
                let first = drives.iter().any(|(id, _)| with_more.contains(id));
                take(drives, group, *total / groups + usize::from(first), &mut slots);
            }
        }
        in_order(group, &mut slots);
        out.push(slots);
    }
    out
}

/// Puts the drives of a group in an order that differs in every group: no drive has more of the parity than the others.
pub(crate) fn in_order(group: usize, slots: &mut [DriveId]) {
    slots.sort_by(|a, b| score(group, *b, 1).total_cmp(&score(group, *a, 1)).then(a.cmp(b)));
}

/// The domains of each node, in the order of their first drives.
fn domains(drives: &[Placed<'_>], quotas: &[usize]) -> BTreeMap<u16, Vec<Domain>> {
    let mut nodes: BTreeMap<u16, Vec<Domain>> = BTreeMap::new();
    let mut places: BTreeMap<(u16, &str), usize> = BTreeMap::new();
    for (d, quota) in drives.iter().zip(quotas) {
        let node = nodes.entry(d.node).or_default();
        let new = node.len();
        let place = d.domain.map_or(new, |domain| *places.entry((d.node, domain)).or_insert(new));
        if place == new {
            node.push(Domain { drives: Vec::new(), total: 0 });
        }
        node[place].drives.push((d.id, *quota));
        node[place].total += quota;
    }
    nodes
}

/// Takes the `count` drives of a domain, or domains of a node, that have most slots left.
pub(crate) fn take(drives: &mut [(DriveId, usize)], group: usize, count: usize, slots: &mut Vec<DriveId>) {
    drives.sort_by(|a, b| {
        let by_score = score(group, b.0, 1).total_cmp(&score(group, a.0, 1));
        b.1.cmp(&a.1).then(by_score).then(a.0.cmp(&b.0))
    });
    for (id, left) in drives.iter_mut().take(count) {
        assert!(*left > 0, "quotas leave every group enough drives");
        *left -= 1;
        slots.push(*id);
    }
}

/// Refuses a layout in which one node's loss costs a group more shards than its code can lose.
fn check(
    code: CodeSpec,
    groups: usize,
    totals: impl Iterator<Item = (u16, usize)>,
    accept_node_loss: bool,
) -> Result<()> {
    let of = totals.map(|(node, total)| (total.div_ceil(groups), node));
    let Some((most, node)) = of.max_by_key(|(most, node)| (*most, u16::MAX - node)) else { return Ok(()) };
    if accept_node_loss || most <= usize::from(code.m) {
        return Ok(());
    }
    Err(Error::Layout(format!(
        "code {code}: node {node} has up to {most} shards of an object, and {} may be lost: the loss of this node would \
         lose objects. Choose a code with more parity, spread the drives over more nodes, or accept it with \
         --accept-node-loss",
        code.m
    )))
}

fn number_as_id(node: u16) -> DriveId {
    let mut id = [0; 16];
    id[..2].copy_from_slice(&node.to_be_bytes());
    DriveId(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drives(nodes: &[usize]) -> Vec<Placed<'static>> {
        let of = |(node, count): (usize, &usize)| {
            (0..*count).map(move |i| {
                let mut id = [0; 16];
                (id[0], id[1]) = (node as u8 + 1, i as u8);
                Placed {
                    id: DriveId(id),
                    weight: 1000,
                    node: node as u16 + 1,
                    domain: None,
                    on_network: false,
                }
            })
        };
        nodes.iter().enumerate().flat_map(of).collect()
    }

    /// The same where each `width` drives of a node are parts of one disk. Disks have the same names on all nodes.
    fn parts(nodes: &[usize], width: usize) -> Vec<Placed<'static>> {
        const NAMES: [&str; 12] = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"];
        let mut drives = drives(nodes);
        for d in &mut drives {
            d.domain = Some(NAMES[usize::from(d.id.0[1]) / width]);
        }
        drives
    }

    fn code(text: &str) -> Option<CodeSpec> {
        Some(CodeSpec::parse(text).unwrap())
    }

    /// The least and the most slots that a node has in a group, and a drive over all groups.
    fn extremes(drives: &[Placed<'_>], plan: &Plan) -> ((usize, usize), (usize, usize)) {
        let mut nodes: BTreeMap<(usize, u16), usize> = BTreeMap::new();
        let mut uses: BTreeMap<DriveId, usize> = BTreeMap::new();
        for (i, group) in plan.groups.iter().enumerate() {
            assert_eq!(group.len(), plan.code.slots());
            for Placed { id, node, .. } in drives {
                let count = group.iter().filter(|d| *d == id).count();
                assert!(count <= 1, "no drive twice in a group");
                *nodes.entry((i, *node)).or_default() += count;
                *uses.entry(*id).or_default() += count;
            }
        }
        let range = |v: Vec<usize>| (*v.iter().min().unwrap(), *v.iter().max().unwrap());
        (range(nodes.into_values().collect()), range(uses.into_values().collect()))
    }

    #[test]
    fn nodes_and_drives_are_used_evenly() {
        for (nodes, text, of_node) in [
            (&[4, 4, 4, 4][..], "12+4", (4, 4)),
            (&[4, 4, 4, 4], "4+4", (2, 2)),
            (&[4, 4, 4], "4+2", (2, 2)),
            (&[4, 4], "4+4", (4, 4)),
            (&[1; 18], "14+4", (1, 1)),
            (&[4; 5], "4+4", (1, 2)),
            (&[2; 9], "14+4", (2, 2)),
            (&[1; 4], "2+2", (1, 1)),
            (&[12; 6], "12+4", (2, 3)),
        ] {
            let drives = drives(nodes);
            let plan = spread(&drives, code(text), None, false).unwrap();
            let (node, drive) = extremes(&drives, &plan);
            assert_eq!(node, of_node, "{nodes:?} {text}");
            assert_eq!(drive.0, drive.1, "{nodes:?} {text}: equal drives");
        }
    }

    #[test]
    fn loss_of_a_node_is_survived_or_accepted_by_name() {
        for (nodes, text) in [(&[4, 4][..], "6+2"), (&[8, 2, 2], "8+4"), (&[4], "2+2")] {
            let drives = drives(nodes);
            let why = spread(&drives, code(text), None, false).unwrap_err().to_string();
            assert!(why.contains("--accept-node-loss") && why.contains("node 1"), "{why}");
            spread(&drives, code(text), None, true).unwrap();
        }
    }

    #[test]
    fn uneven_nodes_get_slots_by_weight() {
        let mut drives = drives(&[4, 3, 4, 2, 4]);
        drives[0].weight = 2_000;
        drives[16].weight = 300;
        let plan = spread(&drives, code("4+4"), None, true).unwrap();
        let (node, drive) = extremes(&drives, &plan);
        assert!(node.1 <= 3, "{node:?}");
        assert!(drive.0 * 2 < drive.1, "{drive:?}");
        // Whatever order the drives come in.
        drives.reverse();
        assert_eq!(spread(&drives, code("4+4"), None, true).unwrap(), plan);
    }

    #[test]
    fn any_shape_that_a_code_fits_is_planned() {
        for nodes in [&[1, 2, 3][..], &[5, 1], &[7, 3, 2, 1], &[2, 2, 2, 2, 2, 2, 2]] {
            let drives = drives(nodes);
            for n in 2..=drives.len().min(18) {
                let code = CodeSpec { k: (n - 1) as u8, m: 1 };
                let plan = spread(&drives, Some(code), None, true).unwrap();
                let (_, drive) = extremes(&drives, &plan);
                assert_eq!(drive.0, drive.1, "{nodes:?} {code}");
            }
        }
    }

    /// The plans of earlier releases, by a hash over all slots: they stay what they are where no drives share a domain, as a map that
    /// is planned by two nodes must be the same.
    #[test]
    fn plans_without_shared_domains_are_as_before() {
        const WAS: [u64; 16] = [
            0x1dd1_ab77_e1b4_d9e3,
            0x1dd1_ab77_e1b4_d9e3,
            0x2542_3568_cc50_d210,
            0x89b4_9036_cbdd_81f4,
            0x66a0_1cf6_ad23_62a5,
            0x66a0_1cf6_ad23_62a5,
            0x8de5_340f_01b7_e7ee,
            0x0970_c8e7_8a93_3174,
            0xf7a7_5cc9_9af5_b434,
            0x032b_8342_6666_4b82,
            0xd6c4_f12d_d007_67c7,
            0x7055_b60a_0a11_54f5,
            0xb9c6_f589_4764_a230,
            0xb9c6_f589_4764_a230,
            0x0e90_8242_cb85_6b1b,
            0x0e90_8242_cb85_6b1b,
        ];
        let hash = |plan: &Plan| {
            let bytes: Vec<u8> = plan.groups.iter().flatten().flat_map(|d| d.0).collect();
            ashlar_checksum::key_hash(&bytes)
        };
        let mut got = Vec::new();
        for (nodes, text) in [
            (&[4, 4, 4, 4][..], "12+4"),
            (&[4; 5], "4+4"),
            (&[2; 9], "14+4"),
            (&[12; 6], "12+4"),
            (&[5, 1], "3+1"),
            (&[7, 3, 2, 1], "6+5"),
            (&[8], "6+2"),
            (&[3, 3], "4+2"),
        ] {
            let (mut drives, mut alone) = (drives(nodes), parts(nodes, 1));
            let names: Vec<String> = drives.iter().map(|d| format!("{} {}", d.node, d.id)).collect();
            for weights in [(1_000, 1_000), (5_000, 300)] {
                (drives[0].weight, drives[2].weight) = weights;
                (alone[0].weight, alone[2].weight) = weights;
                let plan = spread(&drives, code(text), None, true).unwrap();
                assert_eq!(spread(&alone, code(text), None, true).unwrap(), plan, "{nodes:?} {text}");
                // Disks on the network of which each is on one node.
                let far = alone.iter().zip(&names).map(|(d, name)| Placed {
                    domain: Some(name),
                    on_network: true,
                    ..*d
                });
                assert_eq!(spread(&far.collect::<Vec<_>>(), code(text), None, true).unwrap(), plan);
                got.push(hash(&plan));
            }
        }
        assert_eq!(got, WAS);
    }

    /// For each drive of a plan: the domain's most slots in a group, checked to be its share, rounded up or down.
    fn check_domains(drives: &[Placed<'_>], plan: &Plan) -> usize {
        let mut of: BTreeMap<(u16, Option<&str>, DriveId), Vec<DriveId>> = BTreeMap::new();
        for d in drives {
            // Without a domain, a drive is one of its own.
            let alone = if d.domain.is_none() { d.id } else { DriveId([0; 16]) };
            of.entry((d.node, d.domain, alone)).or_default().push(d.id);
        }
        let mut most = 0;
        for (domain, ids) in of {
            let counts = plan.groups.iter().map(|g| g.iter().filter(|d| ids.contains(d)).count());
            let counts: Vec<usize> = counts.collect();
            let (total, groups) = (counts.iter().sum::<usize>(), counts.len());
            let (low, high) = (counts.iter().min().unwrap(), counts.iter().max().unwrap());
            assert!(*low >= total / groups && *high <= total.div_ceil(groups), "{domain:?}: {low} to {high}");
            most = most.max(*high);
        }
        most
    }

    #[test]
    fn domains_are_used_evenly() {
        for (nodes, width, text, of_node, of_domain) in [
            // Both namespaces of four drives at each of six servers; one server with four and with eight such drives.
            (&[8; 6][..], 2, "12+4", (2, 3), 1),
            (&[8], 2, "6+2", (8, 8), 2),
            (&[8], 2, "2+2", (4, 4), 1),
            (&[16], 2, "6+2", (8, 8), 1),
            (&[16], 2, "12+4", (16, 16), 2),
            (&[16], 4, "4+4", (8, 8), 2),
            (&[6, 6, 6], 3, "4+2", (2, 2), 1),
            (&[6, 6], 2, "4+4", (4, 4), 2),
        ] {
            let drives = parts(nodes, width);
            let plan = spread(&drives, code(text), None, true).unwrap();
            assert_eq!(check_domains(&drives, &plan), of_domain, "{nodes:?} {text}");
            let (node, drive) = extremes(&drives, &plan);
            assert_eq!(node, of_node, "{nodes:?} {text}");
            assert_eq!(drive.0, drive.1, "{nodes:?} {text}: equal drives");
        }
    }

    #[test]
    fn any_shape_with_domains_is_planned() {
        for (nodes, width) in [(&[1, 2, 3][..], 2), (&[5, 1], 3), (&[7, 3, 2, 1], 2), (&[9], 4), (&[2; 7], 2)]
        {
            for uneven in [false, true] {
                let mut drives = parts(nodes, width);
                // Some are known to share a disk, some are not; some are larger.
                drives.iter_mut().step_by(4).for_each(|d| d.domain = None);
                if uneven {
                    drives.iter_mut().step_by(3).for_each(|d| d.weight = 2_700);
                }
                for n in 2..=drives.len().min(18) {
                    let code = CodeSpec { k: (n - 1) as u8, m: 1 };
                    let plan = spread(&drives, Some(code), None, true).unwrap();
                    check_domains(&drives, &plan);
                    let (_, drive) = extremes(&drives, &plan);
                    assert!(uneven || drive.0 == drive.1, "{nodes:?} {code}");
                    // Whatever order the drives come in.
                    let mut other = drives.clone();
                    other.reverse();
                    assert_eq!(spread(&other, Some(code), None, true).unwrap(), plan);
                }
            }
        }
    }
}
