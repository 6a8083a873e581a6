//! How the members of a new cluster agree to found it, and how a member that has nothing finds out that there is one.
//!
//! etcd derives the numbers of the founding members from their addresses and a token. If a member lost its data and was
//! started as a founding one again, it would vote a second time under its old number, with nothing of what it had
//! acknowledged before: two such votes can lose a decided change. So the token is a hash of the *incarnations* of all
//! members, random numbers that are lost together with the data. A member that lost its data has another incarnation, and
//! whatever it founds with that has other numbers, to which the members of the first cluster do not listen.
//!
//! | state of a member | what it does |
//! |---|---|
//! | blank | tells the others its incarnation. If all are blank and plan nothing else: writes down the plan. If an etcd runs somewhere: is added to it. If it remembers members that the control store named: only that |
//! | planned | tells the others the plan. If all have the same one, or one of them runs etcd already: starts etcd with it |
//! | started | runs etcd; if its data is lost: is blank, with a new incarnation |
//!
//! Invariants: a plan is on disk before others are told; a plan that is given up is given up together with its
//! incarnation; a member is started as a founding one only with a plan that has its present incarnation, once.
//!
//! Must not depend on: how others are asked.

use std::collections::BTreeMap;

use ashlar_checksum::sha256;

use crate::access::Peer;
use crate::state::{Origin, Plan, State};

/// What a member does next.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Step {
    /// Waits: the reason.
    Wait(String),
    /// Writes down a plan.
    Plan(Plan),
    /// Gives up its plan and its incarnation.
    GiveUp(String),
    /// Starts etcd as a founding member. `if_alone`: only if no etcd with a quorum runs elsewhere; then as `Join`.
    Found {
        /// The plan.
        plan: Plan,
        /// Whether an etcd runs elsewhere.
        if_alone: bool,
    },
    /// Is added to the etcd that runs elsewhere.
    Join,
}

/// What comes next for a member whose etcd was not started yet. `own`: its name; `others`: the other members by name.
#[must_use]
pub fn next(state: &State, own: &str, others: &BTreeMap<String, Peer>) -> Step {
    let silent = || {
        let of = |(name, peer): (&String, &Peer)| match peer {
            Peer::Silent(why) => Some(format!("{name} ({why})")),
            _ => None,
        };
        others.iter().filter_map(of).collect::<Vec<_>>()
    };
    let runs = others.values().any(|peer| *peer == Peer::Etcd);
    match &state.origin {
        Origin::Planned(plan) => {
            let named = plan.keys().filter(|name| *name != own);
            if !named.eq(others.keys()) || plan.get(own) != Some(&state.incarnation) {
                return Step::GiveUp("the list of members changed".to_owned());
            }
            if runs {
                return Step::Found { plan: plan.clone(), if_alone: true };
            }
            let mut waits = silent();
            for (name, peer) in others {
                let Peer::Blank(greeting) = peer else { continue };
                if plan.get(name) != Some(&greeting.incarnation) {
                    return Step::GiveUp(format!("{name} began anew"));
                }
                if greeting.plan.as_ref() != Some(plan) {
                    waits.push(format!("{name} (has not agreed yet)"));
                }
            }
            match waits.is_empty() {
                true => Step::Found { plan: plan.clone(), if_alone: false },
                false => Step::Wait(waits.join(", ")),
            }
        }
        _ if runs => Step::Join,
        // A second cluster beside the one that had told.
        _ if state.members.is_some() => Step::Wait(match others.is_empty() {
            true => "there are none, and what this one had is lost: restore it (docs/cluster.md)".to_owned(),
            false => {
                "none runs etcd, and there was one: if it is lost, restore it (docs/cluster.md)".to_owned()
            }
        }),
        _ => {
            let mut waits = silent();
            let mut plan = Plan::from([(own.to_owned(), state.incarnation.clone())]);
            for (name, peer) in others {
                if let Peer::Blank(greeting) = peer {
                    if greeting.cluster != state.cluster {
                        waits.push(format!("{name} (is of the cluster {})", greeting.cluster));
                    }
                    plan.insert(name.clone(), greeting.incarnation.clone());
                }
            }
            for (name, peer) in others {
                let Peer::Blank(greeting) = peer else { continue };
                if waits.is_empty() && greeting.plan.as_ref().is_some_and(|other| *other != plan) {
                    waits.push(format!("{name} (planned with other members)"));
                }
            }
            match waits.is_empty() {
                true => Step::Plan(plan),
                false => Step::Wait(waits.join(", ")),
            }
        }
    }
}

/// The token of the cluster that a plan founds.
#[must_use]
pub fn token(cluster: &str, plan: &Plan) -> String {
    let mut text = format!("ashlar etcd members 1\n{cluster}\n");
    for (name, incarnation) in plan {
        text.push_str(&format!("{name} {incarnation}\n"));
    }
    sha256(text.as_bytes()).iter().map(|b| format!("{b:02x}")).collect()
}

#[cfg(test)]
#[path = "founding_tests.rs"]
mod tests;
