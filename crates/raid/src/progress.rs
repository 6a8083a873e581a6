//! How far a rebuild is, for whoever plans, executes and watches it.
//!
//! Must not depend on: groups.

/// How far the rebuild of a member is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Progress {
    /// The member.
    pub slot: usize,
    /// Its blocks go to a distributed spare, not to a device at its position.
    pub to_spare: bool,
    /// Rows done.
    pub done: u64,
    /// Rows in all.
    pub rows: u64,
}
