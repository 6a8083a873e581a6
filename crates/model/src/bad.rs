//! What can go wrong in a world, as clients see it.
//!
//! Depends on no other file of this crate.

/// What went wrong in a world.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Bad {
    /// Two observed states contradict each other: an acknowledged write is lost.
    Fork,
    /// An operation saw less than what was observed before it began.
    Stale,
    /// A record is decided or served whose data is not (or not sufficiently) there.
    Thin,
    /// Nothing can be read although enough drives answer: a spurious 404.
    Vanished,
    /// A write shows after a delete that was acknowledged after it had ended.
    Risen,
    /// Two answers differ although nobody wrote.
    Unstable,
    /// Both of two exclusive answers were given.
    BothWon,
}
