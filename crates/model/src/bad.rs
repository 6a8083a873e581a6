//! The violations that clients of a world can observe.
//!
//! Must not depend on: other files of this crate.

/// A violation in a world.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Bad {
    /// Two observed states contradict each other: an acknowledged write is lost.
    Fork,
    /// An operation returned an older state than was observed before it began.
    Stale,
    /// A record is decided or served although its data is missing, or on too few drives.
    Thin,
    /// Nothing can be read although enough drives answer: a spurious 404.
    Vanished,
    /// A write appears after a delete that was acknowledged after the write had ended.
    Risen,
    /// Two answers differ although nothing was written.
    Unstable,
    /// Both of two exclusive answers were given.
    BothWon,
    /// A change was made twice.
    Twice,
}
