//! Placement groups over the drives of several nodes. Pure functions.
//!
//! As in `layout`, every drive gets a fixed number of slots in proportion to its weight. The slots of a node are
//! divided evenly over the groups: a node has in each group the same number of slots, or one more. Within a node,
//! the drives that have most slots left come first (Havel, 1955, and Hakimi, 1962, for bipartite graphs: this
//! finds an assignment whenever there is one), equal ones in the order of weighted rendezvous hashing.
//!
//! Invariant: no node has more slots of a group than its share, rounded up.
//!
//! Must not depend on: devices, the control store.

use std::collections::BTreeMap;

use ashlar_format::DriveId;

use crate::layout::{CodeSpec, Plan, assign, equal, group_count, parts, quotas, score};
use crate::{Error, Result};

/// A drive as input of [`spread`]: id, weight, node.
pub type Placed = (DriveId, u64, u16);

/// Computes placement groups over the drives of several nodes; see [`crate::plan`] for `code` and `least`.
/// With `accept_node_loss`, the loss of a node may cost a group more shards than its code can lose.
///
/// # Errors
/// `Layout`, with a message for the operator.
pub fn spread(
    drives: &[Placed],
    code: Option<CodeSpec>,
    least: Option<usize>,
    accept_node_loss: bool,
) -> Result<Plan> {
    // The order in which nodes came does not matter.
    let mut drives = drives.to_vec();
    drives.sort_unstable_by_key(|(id, _, node)| (*node, *id));
    let weights: Vec<(DriveId, u64)> = drives.iter().map(|(id, weight, _)| (*id, *weight)).collect();
    let (code, n) = parts(&weights, code)?;
    let groups = group_count(drives.len(), n, least);
    let quotas = quotas(&weights, groups, n, equal(&weights));
    let mut nodes: BTreeMap<u16, Vec<(DriveId, usize)>> = BTreeMap::new();
    for ((id, _, node), quota) in drives.iter().zip(quotas) {
        nodes.entry(*node).or_default().push((*id, quota));
    }
    let totals: Vec<usize> = nodes.values().map(|d| d.iter().map(|(_, quota)| quota).sum()).collect();
    check(code, groups, nodes.keys().copied().zip(totals.iter().copied()), accept_node_loss)?;
    // What each node has in every group, and in which groups it has one more.
    let rest: Vec<usize> = totals.iter().map(|total| total % groups).collect();
    let each: usize = totals.iter().map(|total| total / groups).sum();
    let named: Vec<(DriveId, u64)> = nodes.keys().map(|node| (number_as_id(*node), 1)).collect();
    let more = assign(&named, rest, groups, n - each);
    let mut out = Vec::with_capacity(groups);
    for (group, more) in more.iter().enumerate() {
        let mut slots = Vec::with_capacity(n);
        for ((node, drives), total) in nodes.iter_mut().zip(&totals) {
            let count = total / groups + usize::from(more.contains(&number_as_id(*node)));
            take(drives, group, count, &mut slots);
        }
        // The order of slots differs in every group: no drive has more of the parity than the others.
        slots.sort_by(|a, b| score(group, *b, 1).total_cmp(&score(group, *a, 1)).then(a.cmp(b)));
        out.push(slots);
    }
    Ok(Plan { code, groups: out })
}

/// Takes the `count` drives of a node that have most slots left.
fn take(drives: &mut [(DriveId, usize)], group: usize, count: usize, slots: &mut Vec<DriveId>) {
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

    fn drives(nodes: &[usize]) -> Vec<Placed> {
        let of = |(node, count): (usize, &usize)| {
            (0..*count).map(move |i| {
                let mut id = [0; 16];
                (id[0], id[1]) = (node as u8 + 1, i as u8);
                (DriveId(id), 1000, node as u16 + 1)
            })
        };
        nodes.iter().enumerate().flat_map(of).collect()
    }

    fn code(text: &str) -> Option<CodeSpec> {
        Some(CodeSpec::parse(text).unwrap())
    }

    /// The least and the most slots that a node has in a group, and a drive over all groups.
    fn extremes(drives: &[Placed], plan: &Plan) -> ((usize, usize), (usize, usize)) {
        let mut nodes: BTreeMap<(usize, u16), usize> = BTreeMap::new();
        let mut uses: BTreeMap<DriveId, usize> = BTreeMap::new();
        for (i, group) in plan.groups.iter().enumerate() {
            assert_eq!(group.len(), plan.code.slots());
            for (id, _, node) in drives {
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
        drives[0].1 = 2_000;
        drives[16].1 = 300;
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
}
