//! Content of blocks on its way to members and from them.
//!
//! Must not depend on: anything of a group.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::journal::Change;

/// The content of a block. What waits to be written to several places, or by another thread, shares it; it may be a part of the data of a request.
pub(crate) type Content = Bytes;

/// A change with its content; none: it only sets the checksum. The checksum of content is set when the change is appended.
pub(crate) type Staged = (Change, Option<Content>);

/// Blocks that are to be written to a member: its position, the first block, and the content.
pub(crate) type Put = (usize, u64, Content);

/// The part of an entry of the journal on one member: its position, its first block, and its content by block.
pub(crate) type JournalPart = (usize, u64, Vec<Content>);

/// Blocks of members by position and row that were read before they are needed, with the checksums with which they were verified.
pub(crate) type Old = BTreeMap<(usize, u64), (u64, Content)>;

/// Content that is not in place yet, or whose entry of the journal waits.
pub(crate) struct Block {
    pub(crate) content: Content,
    /// It is in place already.
    pub(crate) in_place: bool,
    /// The batch that has it; 0: the one that is executed with the group in hand.
    pub(crate) batch: u64,
    /// An older content of it, or this one, is being written in place.
    pub(crate) writing: bool,
    /// It is written once, in place: the journals have its checksum, not its content.
    pub(crate) once: bool,
}

/// Blocks on their way in place, by member and row: always their newest content.
pub(crate) type Overlay = BTreeMap<(usize, u64), Block>;
