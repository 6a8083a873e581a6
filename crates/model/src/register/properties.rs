//! The properties that must hold in every state, and the states that a scope must reach to be meaningful.
//!
//! Must not depend on: other worlds.

use super::state::{Kind, Scope, World};
use crate::Bad;
use stateright::Property;

/// The properties of a scope.
#[must_use]
pub fn properties<const N: usize>(scope: &Scope<N>) -> Vec<Property<Scope<N>>> {
    let mut all = vec![
        Property::always("no observed state is lost", |_, w: &World<N>| w.seen.bad != Some(Bad::Fork)),
        Property::always("nothing older than observed is answered", |_, w: &World<N>| {
            w.seen.bad != Some(Bad::Stale)
        }),
        Property::always("a refused write never appears", |_, w: &World<N>| w.seen.bad != Some(Bad::BothWon)),
        Property::always("after an acknowledged delete no earlier write appears", |_, w: &World<N>| {
            w.seen.bad != Some(Bad::Risen)
        }),
        Property::always("no change is made twice", |_, w: &World<N>| w.seen.bad != Some(Bad::Twice)),
        Property::always("answers are stable without writes", |_, w: &World<N>| {
            w.seen.bad != Some(Bad::Unstable)
        }),
        Property::sometimes("reached: every writer has its answer", |s: &Scope<N>, w: &World<N>| {
            w.answered | w.over == (1 << s.writers.len()) - 1
        }),
    ];
    if scope.reads > 0 {
        all.push(Property::sometimes("reached: a read shows a write", |_, w: &World<N>| {
            w.reads == 0 && w.read.is_none() && !w.seen.log.is_empty()
        }));
    }
    if scope.gives_up && scope.writers.contains(&Kind::Drop) {
        all.push(Property::sometimes("reached: a delete after a failed write", |_, w: &World<N>| {
            w.gone != 0
        }));
    }
    if scope.quiet {
        all.push(Property::sometimes("reached: two quiet reads", |_, w: &World<N>| {
            w.reads == 0 && w.read.is_none() && w.stable.is_some()
        }));
    }
    if scope.replaced > 0 || scope.dead || scope.detected || scope.fails > 0 || scope.salvage {
        all.push(Property::sometimes("reached: a blank drive votes", |_, w: &World<N>| {
            w.epoch > 1 && w.joining.is_empty()
        }));
    }
    if scope.looks > 0 {
        all.push(Property::sometimes("reached: a writer learns that it is passed", |_, w: &World<N>| {
            w.rounds.iter().any(|r| r.passed)
        }));
    }
    if scope.half && scope.hints {
        all.push(Property::sometimes("reached: half the drives serve", |_, w: &World<N>| w.served_half));
    }
    if scope.purge && scope.writers.contains(&Kind::Delete) {
        all.push(Property::sometimes("reached: a purged register", |_, w: &World<N>| {
            w.purged && w.drives.iter().all(|d| d.pair().is_none())
        }));
    }
    all
}
