//! Whether a node of a cluster can be stopped without an effect on clients.
//!
//! Invariants: the answer is yes only if every placement group keeps enough voting drives on other nodes to take reads and
//! writes, nothing waits to be healed, no drive is being filled, and every other node that runs has said so. It says
//! nothing about later, or about two nodes at once. What a node noted and forgot in a crash is not waited for: the next
//! pass over everything finds it.
//!
//! Must not depend on: requests, how a node is stopped.

use std::collections::{BTreeSet, HashMap, HashSet};

use ashlar_cluster::{CodeSpec, Map};
use ashlar_erasure_set::tolerance;
use ashlar_format::{DriveId, GroupId};
use ashlar_node::Node;
use ashlar_node::questions::NoAnswer;

use super::api::cluster::MayStop;
use super::api::state::NodeState;
use super::everywhere::{self, Answers};
use super::question::Question;

/// Whether node `number` can be stopped. `own`: the state of this node.
pub async fn may_stop(node: &Node, own: &NodeState, number: u16) -> MayStop {
    if node.member.is_none() {
        let why = "this machine is alone: without it nothing is served".to_owned();
        return MayStop { node: number, may_stop: false, reasons: vec![why] };
    }
    let answers = everywhere::ask(node, &Question::State {}).await;
    let voters = node.sets.voters();
    let votes =
        |group: GroupId, drive: DriveId| voters.iter().any(|(g, v)| *g == group && v.contains(&drive));
    let map = node.map.load();
    let mut reasons: Vec<String> = too_few(&slots(&map, &votes), map.code(), number).into_iter().collect();
    let present: HashSet<_> = node.sets.present().iter().map(|id| id.to_hex()).collect();
    reasons.extend(unfinished(node.number(), own, &answers, number, &present));
    MayStop { node: number, may_stop: reasons.is_empty(), reasons }
}

/// For each group the node of each slot, and whether its drive votes now.
fn slots(map: &Map, votes: &dyn Fn(GroupId, DriveId) -> bool) -> Vec<Vec<(u16, bool)>> {
    let nodes: HashMap<_, _> = map.drives.iter().map(|d| (d.id, d.node)).collect();
    let node = |id| nodes.get(&id).copied().unwrap_or_default();
    let of = |group: &ashlar_cluster::Group| {
        let slots = group.slots.iter();
        slots.map(|s| (node(s.drive), !s.joining && votes(group.id, s.drive))).collect()
    };
    map.groups.iter().map(of).collect()
}

/// Why the groups would not all take reads and writes without a node.
fn too_few(groups: &[Vec<(u16, bool)>], code: CodeSpec, without: u16) -> Option<String> {
    let tolerance = tolerance(code.k, code.m);
    let spare = usize::from(tolerance.reads.min(tolerance.writes));
    let left = |slots: &Vec<(u16, bool)>| slots.iter().filter(|(n, votes)| *votes && *n != without).count();
    let short: Vec<_> = groups.iter().filter(|slots| left(slots) + spare < slots.len()).collect();
    let worst = short.iter().min_by_key(|slots| left(slots))?;
    Some(format!(
        "{} of {} placement groups would not serve: one would have {} of its {} drives, and needs {}",
        short.len(),
        groups.len(),
        left(worst),
        worst.len(),
        worst.len() - spare
    ))
}

/// Why the data is not all there yet, or may not be. `present`: ids of the drives that answer. What others lack is
/// healed when they do, and until then they do not count in their groups.
fn unfinished(
    me: u16,
    own: &NodeState,
    answers: &Answers<NodeState>,
    without: u16,
    present: &HashSet<String>,
) -> Vec<String> {
    let mut reasons = Vec::new();
    let (mut filled, mut lacking) = (BTreeSet::new(), BTreeSet::new());
    let states = answers.iter().map(|(number, answer)| (*number, answer.as_ref()));
    for (number, answer) in std::iter::once((me, Ok(own))).chain(states) {
        match answer {
            Ok(state) => {
                let heal = &state.heal.heal;
                if heal.queued > 0 {
                    reasons.push(format!("node {number} has {} records to heal", heal.queued));
                }
                if state.owes_pass {
                    reasons.push(format!("node {number} looks for what drives missed while they were away"));
                }
                let open = heal.rebuilds.iter().filter(|r| r.phase != "done");
                filled.extend(open.map(|r| short(&r.drive)));
                lacking.extend(state.lacking.iter().filter(|id| present.contains(*id)).map(|id| short(id)));
            }
            // What its drives lack is seen at the groups.
            Err(NoAnswer::NotRunning) => {}
            Err(_) if number == without => {}
            Err(no) => reasons.push(format!("node {number} {no}")),
        }
    }
    reasons.extend(lacking.into_iter().map(|drive| format!("the drive {drive} lacks what it missed")));
    reasons.extend(filled.into_iter().map(|drive| format!("the drive {drive} is being filled")));
    reasons
}

/// The beginning of an id, as commands show it.
fn short(id: &str) -> &str {
    id.get(..8).unwrap_or(id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::state::{Heal, Rebuild};

    const CODE: CodeSpec = CodeSpec { k: 4, m: 4 };

    /// Groups over four nodes with two drives each; `away` do not vote.
    fn groups(away: &[(u16, usize)]) -> Vec<Vec<(u16, bool)>> {
        let slots = (1..=4u16).flat_map(|n| (0..2).map(move |i| (n, i)));
        vec![slots.map(|(n, i)| (n, !away.contains(&(n, i)))).collect(); 3]
    }

    #[test]
    fn a_node_may_stop_while_every_group_keeps_enough_votes() {
        assert_eq!(too_few(&groups(&[]), CODE, 2), None);
        assert_eq!(too_few(&groups(&[(1, 0)]), CODE, 2), None, "three of eight may be missing");
        assert_eq!(too_few(&groups(&[(2, 0), (2, 1), (1, 0)]), CODE, 2), None, "its own count once");
        let why = too_few(&groups(&[(1, 0), (1, 1)]), CODE, 2).unwrap();
        assert!(why.contains("3 of 3") && why.contains("4 of its 8 drives, and needs 5"), "{why}");
        let mut one = groups(&[]);
        one[1] = groups(&[(3, 0), (4, 1)]).remove(0);
        assert!(too_few(&one, CODE, 2).unwrap().contains("1 of 3"));
        // With two nodes the half that is left cannot write.
        let two = vec![vec![(1, true), (1, true), (2, true), (2, true)]];
        assert!(too_few(&two, CodeSpec { k: 2, m: 2 }, 1).is_some());
    }

    fn state(queued: u64, phases: &[&str]) -> NodeState {
        let rebuild = |phase: &&str| {
            let value = serde_json::json!({ "drive": "abcdef0123", "phase": phase, "registers": 0, "looked": 0,
                "copied": 0, "shards": 0, "bytes": 0, "missing": 0, "rate": 0.0, "eta_s": null, "why": null,
                "done_bytes": 0, "total_bytes": 0, "began_ms": 0, "ended_ms": null });
            serde_json::from_value::<Rebuild>(value).unwrap()
        };
        let mut state = NodeState::default();
        state.heal.heal = Heal { queued, rebuilds: phases.iter().map(rebuild).collect(), ..Heal::default() };
        state
    }

    #[test]
    fn a_node_may_not_stop_before_everything_is_healed_and_everybody_has_said_so() {
        let present = HashSet::from(["cccccccc01".to_owned()]);
        let of = |answers: Answers<NodeState>| unfinished(1, &state(0, &["done"]), &answers, 2, &present);
        assert!(of(vec![(2, Ok(state(0, &[]))), (3, Ok(state(0, &["done"])))]).is_empty());
        assert!(of(vec![(2, Err(NoAnswer::Silent)), (3, Err(NoAnswer::NotRunning))]).is_empty());
        let silent = of(vec![(2, Ok(state(0, &[]))), (3, Err(NoAnswer::Silent))]);
        assert_eq!(silent, ["node 3 does not answer"]);
        let busy = of(vec![(2, Ok(state(7, &["shards"]))), (3, Ok(state(0, &["records"])))]);
        assert_eq!(busy, ["node 2 has 7 records to heal", "the drive abcdef01 is being filled"]);
        assert_eq!(unfinished(1, &state(1, &[]), &Vec::new(), 1, &present), ["node 1 has 1 records to heal"]);
        // What a drive that is away lacks is no reason: the drive does not count in its groups.
        let lacking = |id: &str| NodeState { lacking: vec![id.to_owned()], ..state(0, &[]) };
        assert!(of(vec![(2, Ok(lacking("dddddddd01")))]).is_empty());
        let back = of(vec![(2, Ok(lacking("cccccccc01"))), (3, Ok(lacking("cccccccc01")))]);
        assert_eq!(back, ["the drive cccccccc lacks what it missed"]);
        let pass = NodeState { owes_pass: true, ..state(0, &[]) };
        assert_eq!(of(vec![(3, Ok(pass))]), ["node 3 looks for what drives missed while they were away"]);
    }
}
