//! A design that fails: a commit by n independent renames, and readers that count versions (MinIO,
//! docs/protocol.md 4, F2). Kept as a mutant of the whole design: the checker must find the state in which
//! neither version of an acknowledged object is on k drives, and the reader answers 404.
//!
//! Must not depend on: other worlds.

use crate::{Bad, Mutant, Seen};
use stateright::{Model, Property};

/// k of n drives make an object readable.
#[derive(Clone, Copy, Debug)]
pub struct Scope {
    /// Drives.
    pub n: u8,
    /// Data shards.
    pub k: u8,
    /// The removed rule: [`Mutant::CountRenames`]. Without it, a decision record determines which version
    /// counts, as the register does.
    pub mutant: Option<Mutant>,
}

/// How many drives have the old and the new version; drives are interchangeable.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct World {
    renamed: u8,
    /// The coordinator has undone (or not done) its renames on a missed quorum.
    coordinator: bool,
    decided: bool,
    seen: Seen,
}

/// One action.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Act {
    /// One drive renames.
    Rename,
    /// The decision is recorded.
    Decide,
    /// The coordinator crashes.
    Die,
    /// A client reads.
    Read,
}

impl Model for Scope {
    type State = World;
    type Action = Act;

    fn init_states(&self) -> Vec<World> {
        vec![World { renamed: 0, coordinator: true, decided: false, seen: Seen::default() }]
    }

    fn actions(&self, w: &World, acts: &mut Vec<Act>) {
        if w.seen.bad.is_some() {
            return;
        }
        if w.coordinator {
            if w.renamed < self.n {
                acts.push(Act::Rename);
            }
            if !w.decided {
                acts.push(Act::Decide);
            }
            acts.push(Act::Die);
        }
        acts.push(Act::Read);
    }

    fn next_state(&self, last: &World, act: Act) -> Option<World> {
        let mut w = *last;
        match act {
            Act::Rename => w.renamed += 1,
            Act::Decide => w.decided = true,
            Act::Die => w.coordinator = false,
            Act::Read => {
                // Staged shards exist in either case; the difference is what counts.
                let counted = self.mutant == Some(Mutant::CountRenames);
                let (old, new) = (self.n - w.renamed, w.renamed);
                if counted && !w.coordinator && old < self.k && new < self.k {
                    w.seen.fail(Bad::Vanished);
                }
            }
        }
        Some(w)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![Property::always("an acknowledged object is never 404", |_, w: &World| w.seen.bad.is_none())]
    }
}
