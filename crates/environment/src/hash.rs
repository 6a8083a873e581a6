//! Hash maps whose iteration order is repeatable in a simulation.
//!
//! Invariant: outside of a simulation, keys are hashed with a random state, as in std. Use these maps if the
//! order of an iteration decides what happens first; use those of std if entries are only looked up.
//!
//! Must not depend on: what the entries mean.

use std::hash::{BuildHasher, DefaultHasher, RandomState};

/// A map with [`State`]; make it with `HashMap::default()`.
pub type HashMap<K, V> = std::collections::HashMap<K, V, State>;
/// A set with [`State`]; make it with `HashSet::default()`.
pub type HashSet<K> = std::collections::HashSet<K, State>;

/// The state of a hasher: random, but the same for all maps of a simulation.
#[derive(Clone, Debug)]
pub struct State(Option<RandomState>);

impl Default for State {
    fn default() -> State {
        State((!crate::world::active()).then(RandomState::new))
    }
}

impl BuildHasher for State {
    type Hasher = DefaultHasher;

    #[inline]
    fn build_hasher(&self) -> DefaultHasher {
        match &self.0 {
            Some(random) => random.build_hasher(),
            None => DefaultHasher::new(),
        }
    }
}
