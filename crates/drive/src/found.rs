//! Entries of index files that a PREPARE has found, for the ACCEPT that usually follows it.
//!
//! Invariants: an entry is valid only in the generation of the index in which it was found, and only while
//! the overlay has none of the same register; at most [`MOST`] are kept.
//!
//! Must not depend on: what an entry means.

use crate::entry::Register;
use ashlar_environment::HashMap;

/// Above this number all are dropped: ACCEPTs did not follow.
const MOST: usize = 256;

/// The entries, by the names that the acceptor uses.
#[derive(Default)]
pub(crate) struct Found {
    generation: u64,
    entries: HashMap<u128, Register>,
}

impl Found {
    /// Keeps an entry that was found in a generation of the index.
    pub fn put(&mut self, hash: u128, entry: &Register, generation: u64) {
        if self.generation != generation || self.entries.len() >= MOST {
            self.entries.clear();
            self.generation = generation;
        }
        self.entries.insert(hash, entry.clone());
    }

    /// The entry of a register, if it is known in this generation.
    pub fn get(&self, hash: u128, generation: u64) -> Option<&Register> {
        self.entries.get(&hash).filter(|_| self.generation == generation)
    }

    /// Drops the entry of a register, which has changed.
    pub fn forget(&mut self, hash: u128) {
        if !self.entries.is_empty() {
            self.entries.remove(&hash);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::Loc;
    use ashlar_format::Ballot;

    fn entry(counter: u64) -> Register {
        let ballot = Ballot { counter, ..Ballot::ZERO };
        let loc = Loc::default();
        Register { ballot, digest: 0, loc, record_len: 0, flags: 0, oldest: 0, summary: Box::default() }
    }

    #[test]
    fn entries_end_with_their_generation_and_are_bounded() {
        let mut found = Found::default();
        found.put(1, &entry(5), 3);
        assert_eq!(found.get(1, 3), Some(&entry(5)));
        assert_eq!(found.get(1, 4), None, "the index files have changed");
        found.put(2, &entry(6), 4);
        assert_eq!(found.get(1, 4), None, "an entry of the generation before");
        found.forget(2);
        assert_eq!(found.get(2, 4), None);
        for i in 0..10 * MOST {
            found.put(i as u128, &entry(1), 4);
            assert!(found.entries.len() <= MOST);
        }
    }
}
