//! Which pieces of the address space of a group are free.
//!
//! Invariants: a piece that was taken is not taken again before it is given back; the first free one is taken, so that what is written one after
//! another lies one after another.
//!
//! Must not depend on: groups, maps.

/// See the module.
#[derive(Debug)]
pub(crate) struct Room {
    /// A bit for each piece; those behind the last one are set.
    used: Vec<u64>,
    pieces: u64,
    free: u64,
    /// No word before this one has a free piece.
    first: usize,
}

impl Room {
    /// All of so many pieces are free.
    pub(crate) fn new(pieces: u64) -> Room {
        let mut used = vec![0; pieces.div_ceil(64) as usize];
        if let Some(last) = used.last_mut()
            && !pieces.is_multiple_of(64)
        {
            *last = u64::MAX << (pieces % 64);
        }
        Room { used, pieces, free: pieces, first: 0 }
    }

    /// Pieces in all.
    pub(crate) fn pieces(&self) -> u64 {
        self.pieces
    }

    /// Free pieces.
    pub(crate) fn free(&self) -> u64 {
        self.free
    }

    /// Takes a certain piece; false: it is taken already, or there is none.
    pub(crate) fn take(&mut self, piece: u64) -> bool {
        let bit = 1 << (piece % 64);
        match self.used.get_mut((piece / 64) as usize) {
            Some(word) if *word & bit == 0 => {
                *word |= bit;
                self.free -= 1;
                true
            }
            _ => false,
        }
    }

    /// Takes the first free piece.
    pub(crate) fn take_first(&mut self) -> Option<u64> {
        while let Some(word) = self.used.get(self.first) {
            if *word != u64::MAX {
                let piece = self.first as u64 * 64 + u64::from(word.trailing_ones());
                return self.take(piece).then_some(piece);
            }
            self.first += 1;
        }
        None
    }

    /// Gives a piece back that was taken.
    pub(crate) fn give(&mut self, piece: u64) {
        let at = (piece / 64) as usize;
        self.used[at] &= !(1 << (piece % 64));
        self.free += 1;
        self.first = self.first.min(at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_taken_once_and_given_back() {
        for pieces in [0, 1, 63, 64, 65, 200] {
            let mut room = Room::new(pieces);
            assert!(!room.take(pieces), "there is no such piece");
            if pieces > 3 {
                assert!(room.take(2) && !room.take(2));
            }
            let taken: Vec<u64> = std::iter::from_fn(|| room.take_first()).collect();
            let wanted: Vec<u64> = (0..pieces).filter(|p| *p != 2 || pieces <= 3).collect();
            assert_eq!((taken, room.free(), room.pieces()), (wanted, 0, pieces));
            if pieces > 64 {
                room.give(64);
                room.give(1);
                assert_eq!((room.free(), room.take_first(), room.take_first()), (2, Some(1), Some(64)));
            }
        }
    }
}
