//! The error type of the crate. Its variants follow what the caller can do.
//!
//! Must not depend on: other files of this crate.

/// Why an operation on a drive group failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The level, the number of members, the strip or the sizes do not fit together: choose others.
    #[error("{0}")]
    Layout(String),
    /// The device has data of something else: name another one, or force it.
    #[error("{device} has the signature of {found}; force it to overwrite that")]
    Signature {
        /// The device.
        device: String,
        /// What its signature belongs to.
        found: &'static str,
    },
    /// Two members of a set would fail together: name another device, or permit it.
    #[error("{device} and {other} fail together, as both are on {domain}; use another one, or permit it")]
    Domain {
        /// The device.
        device: String,
        /// The other one.
        other: String,
        /// What they share.
        domain: String,
    },
    /// The device has no readable superblock.
    #[error("{device} is not a member of a drive group: {why}")]
    NoMember {
        /// The device.
        device: String,
        /// What is wrong with it.
        why: String,
    },
    /// Devices do not belong together, or two parts of a group have gone on separately: name other devices.
    #[error("{0}")]
    Conflict(String),
    /// Members are absent that the superblock does not call failed. They may have newer data: attach them, or
    /// permit the start without them.
    #[error("members {slots:?} of the group are missing; attach them, or permit the start without them")]
    Missing {
        /// The positions of the members that are absent.
        slots: Vec<usize>,
    },
    /// More members of a set are out of service than the level tolerates: the group cannot be used.
    #[error("the group has failed: set {set} has {down} members out of service, and tolerates {tolerated}")]
    Failed {
        /// The set of members.
        set: u32,
        /// Members out of service.
        down: usize,
        /// How many may be.
        tolerated: usize,
    },
    /// Blocks cannot be read or reconstructed: restore them from a copy. Other blocks are not affected.
    #[error("row {row} of set {set} cannot be reconstructed: {why}")]
    Lost {
        /// The set of members.
        set: u32,
        /// The row.
        row: u64,
        /// What is wrong.
        why: &'static str,
    },
    /// The range is outside of the drive.
    #[error("the range {at}+{len} is outside of the {size} bytes of the drive")]
    Range {
        /// First byte.
        at: u64,
        /// Bytes.
        len: u64,
        /// Size of the drive.
        size: u64,
    },
    /// The thin virtual drive needs room, and there is none in its group: add drives, or delete or discard something. Nothing changed.
    #[error("there is no free room in the group for what is written")]
    NoSpace,
    /// The map of a thin virtual drive is damaged: restore it from a copy.
    #[error("{0}")]
    Damaged(String),
    /// The request does not fit the state of the group (a position that is not failed, a name that is taken).
    #[error("{0}")]
    State(String),
    /// A coder of batches failed: use another one. Nothing of the group changed.
    #[error("the coder failed: {0}")]
    Coder(String),
    /// The system failed an operation that belongs to no member.
    #[error("{op}: {error}")]
    Io {
        /// The operation.
        op: &'static str,
        /// The message of the system.
        error: String,
    },
}
