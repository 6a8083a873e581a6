//! Which slots move away from nodes that are gone, and where to. Pure functions.
//!
//! A step takes few groups. The next one follows when their new drives have joined, so that most groups have all
//! their voters at any time, and a node that returns finds most of its slots. The step is computed from the map alone:
//! it does not matter which node computes it, nor what was planned before.
//!
//! Invariants:
//! - A slot moves only if the drives that are left without those of gone nodes, and answer, are a majority of the group
//!   that votes, and hold enough shards to make the others. Otherwise what only the gone node has could be needed, and
//!   it is found only in the slots that the node has.
//! - No node gets more slots of a group than its code can lose; a node that has more already gets none. So it is for failure domains,
//!   also for those that are on several nodes.
//! - A group with a slot that joins on a node that is not gone is left alone.
//!
//! Must not depend on: how it is found out which nodes are gone, and which drives work.

use std::collections::{BTreeSet, HashMap};
use std::fmt;

use ashlar_format::{DriveId, GroupId};

use crate::domains::{Domain, of_map};
use crate::layout::{CodeSpec, score};
use crate::map::{Drive, DriveState, Group, Map};
use crate::moves::SlotMove;

/// What a drive does now, as the planning node sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fitness {
    /// It does not answer, or is out of service.
    Away,
    /// It serves what it has, and takes no more: it is full, or read-only.
    Serves,
    /// It can take slots.
    Takes,
}

/// Why slots stay on a node that is gone.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Why {
    /// Too few drives of the group are left that vote, or hold shards.
    TooFewLeft {
        /// Drives that are left.
        left: usize,
        /// Drives that are needed.
        need: usize,
    },
    /// No drive can take the slot.
    NoDrive,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Why::TooFewLeft { left, need } => {
                write!(f, "{left} voting drives of the group are left and answer, {need} are needed")
            }
            Why::NoDrive => f.write_str(
                "no drive can take the slot: the others have a slot of the group, still have their old vote in it, are full or away, \
                 or their node or their disk has as many shards as may be lost",
            ),
        }
    }
}

/// A group of which slots stay on a node that is gone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stuck {
    /// The group.
    pub group: GroupId,
    /// How many of its slots.
    pub slots: usize,
    /// The reason.
    pub why: Why,
}

/// The next step.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Evacuation {
    /// The slots that move now, for [`Map::move_slots`].
    pub moves: Vec<SlotMove>,
    /// What cannot move.
    pub stuck: Vec<Stuck>,
}

/// Plans the next step for the nodes in `gone`, so that slots of at most `at_most` groups are moving. `fitness` tells what
/// a drive does; drives of gone nodes are not asked for.
#[must_use]
pub fn plan(
    map: &Map,
    gone: &BTreeSet<u16>,
    fitness: impl Fn(&Drive) -> Fitness,
    at_most: usize,
) -> Evacuation {
    let mut planner = Planner::new(map, gone, &fitness);
    let moving = map.groups.iter().filter(|g| !g.left.is_empty() && g.slots.iter().any(|s| s.joining));
    let mut room = at_most.saturating_sub(moving.filter(|g| !planner.is_abandoned(g)).count());
    let mut groups: Vec<&Group> = map.groups.iter().filter(|g| planner.lost(g) > 0).collect();
    // Those with the least redundancy first.
    groups.sort_by_key(|g| (std::cmp::Reverse(planner.lost(g)), g.id));
    let mut out = Evacuation::default();
    for group in groups {
        if planner.waits(group) {
            continue;
        }
        let (moves, stuck) = planner.group(group);
        out.stuck.extend(stuck);
        if room > 0 && !moves.is_empty() {
            room -= 1;
            moves.iter().for_each(|m| planner.take(m));
            out.moves.extend(moves);
        }
    }
    out
}

/// How many groups have a slot on a drive of a node.
#[must_use]
pub fn groups_on(map: &Map, node: u16) -> usize {
    let on: BTreeSet<DriveId> = map.drives.iter().filter(|d| d.node == node).map(|d| d.id).collect();
    map.groups.iter().filter(|g| g.slots.iter().any(|s| on.contains(&s.drive))).count()
}

struct Planner<'a> {
    map: &'a Map,
    drives: HashMap<DriveId, (&'a Drive, Fitness)>,
    domains: HashMap<DriveId, Domain<'a>>,
    /// Slots of each drive over all groups, the planned ones included.
    slots: HashMap<DriveId, u64>,
}

impl<'a> Planner<'a> {
    fn new(map: &'a Map, gone: &BTreeSet<u16>, fitness: &dyn Fn(&Drive) -> Fitness) -> Planner<'a> {
        // Only drives of nodes that are not gone are in the table.
        let here = map.drives.iter().filter(|d| d.state == DriveState::Active && !gone.contains(&d.node));
        let drives = here.map(|d| (d.id, (d, fitness(d)))).collect();
        let mut slots: HashMap<DriveId, u64> = HashMap::new();
        for slot in map.groups.iter().flat_map(|g| &g.slots) {
            *slots.entry(slot.drive).or_default() += 1;
        }
        Planner { map, drives, domains: of_map(map), slots }
    }

    /// The slots of a group on gone nodes.
    fn lost(&self, group: &Group) -> usize {
        group.slots.iter().filter(|s| !self.drives.contains_key(&s.drive)).count()
    }

    /// Whether a drive that is here joins the group.
    fn waits(&self, group: &Group) -> bool {
        group.slots.iter().any(|s| s.joining && self.drives.contains_key(&s.drive))
    }

    /// Whether all drives that join the group are gone: nothing is moving there.
    fn is_abandoned(&self, group: &Group) -> bool {
        !self.waits(group)
    }

    fn code(&self, group: &Group) -> CodeSpec {
        let pool = self.map.pools.iter().find(|p| p.id == group.id.pool);
        pool.map_or_else(|| self.map.code(), |p| p.code)
    }

    /// The moves of one group, and what of it cannot move.
    fn group(&self, group: &Group) -> (Vec<SlotMove>, Option<Stuck>) {
        let code = self.code(group);
        let votes = |id: &DriveId| self.drives.get(id).is_some_and(|(_, f)| *f != Fitness::Away);
        let left = group.slots.iter().filter(|s| !s.joining && votes(&s.drive)).count();
        let need = (code.slots() / 2 + 1).max(usize::from(code.k));
        let lost = self.lost(group);
        if left < need {
            let why = Why::TooFewLeft { left, need };
            return (Vec::new(), Some(Stuck { group: group.id, slots: lost, why }));
        }
        // Slots of the group on each node that is here.
        let mut on_node: HashMap<u16, usize> = HashMap::new();
        for (drive, _) in group.slots.iter().filter_map(|s| self.drives.get(&s.drive)) {
            *on_node.entry(drive.node).or_default() += 1;
        }
        let mut moves: Vec<SlotMove> = Vec::new();
        let gone = group.slots.iter().filter(|s| !self.drives.contains_key(&s.drive));
        for from in gone.map(|s| s.drive) {
            let Some(to) = self.target(group, &moves, &on_node, usize::from(code.m)) else { break };
            *on_node.entry(to.node).or_default() += 1;
            moves.push(SlotMove { group: group.id, from, to: to.id });
        }
        let slots = lost - moves.len();
        let stuck = (slots > 0).then_some(Stuck { group: group.id, slots, why: Why::NoDrive });
        (moves, stuck)
    }

    /// The drive that takes one more slot of a group: of those with which fewest slots of the group are lost, as they are parts of the same
    /// disk, one on the node that has fewest slots of it, there the one that has fewest slots for its weight.
    fn target(
        &self,
        group: &Group,
        moves: &[SlotMove],
        on_node: &HashMap<u16, usize>,
        most: usize,
    ) -> Option<&'a Drive> {
        let of_node = |d: &Drive| on_node.get(&d.node).copied().unwrap_or(0);
        // Slots of the group in each domain. Those on gone nodes do not count, as in `on_node`.
        let held = group.slots.iter().map(|s| s.drive).filter(|id| self.drives.contains_key(id));
        let mut in_domain: HashMap<Domain<'_>, usize> = HashMap::new();
        for domain in held.chain(moves.iter().map(|m| m.to)).filter_map(|id| self.domains.get(&id)) {
            *in_domain.entry(*domain).or_default() += 1;
        }
        let lost_with = |d: &Drive| {
            self.domains.get(&d.id).and_then(|domain| in_domain.get(domain)).copied().unwrap_or(0)
        };
        let fits = |d: &Drive| {
            d.distrusted.is_none()
                && group.slot_of(d.id).is_none()
                && !group.left.contains(&d.id)
                && !moves.iter().any(|m| m.to == d.id)
                && of_node(d) < most
                && lost_with(d) < most
        };
        let able = self.drives.values().filter(|(d, f)| *f == Fitness::Takes && fits(d));
        let load = |d: &Drive| u128::from(self.slots.get(&d.id).copied().unwrap_or(0) + 1);
        let place = usize::from(group.id.group);
        let by_load = |a: &Drive, b: &Drive| {
            let (wa, wb) = (u128::from(a.weight.max(1)), u128::from(b.weight.max(1)));
            (load(a) * wb).cmp(&(load(b) * wa))
        };
        able.map(|(d, _)| *d).min_by(|a, b| {
            let by_score = score(place, b.id, 1).total_cmp(&score(place, a.id, 1));
            lost_with(a)
                .cmp(&lost_with(b))
                .then(of_node(a).cmp(&of_node(b)))
                .then(by_load(a, b))
                .then(by_score)
                .then(a.id.cmp(&b.id))
        })
    }

    fn take(&mut self, m: &SlotMove) {
        *self.slots.entry(m.to).or_default() += 1;
    }
}

#[cfg(test)]
#[path = "evacuation_tests.rs"]
mod tests;
