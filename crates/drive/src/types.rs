//! The input and output types of a drive.
//!
//! Must not depend on: how operations are executed.

use ashlar_commit::bucket_fence::Deletion;
use ashlar_format::{Ballot, RegisterKey, WriteId};
use ashlar_machine::{BufferPool, Faults, Ring};
use bytes::Bytes;
use std::sync::Arc;
use std::time::Duration;

/// What kind of device a drive is on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum DriveKind {
    /// As measured: a hard disk if the kernel says that it rotates and it takes milliseconds to flush, or to read at another place.
    Auto,
    /// No place costs more than another one.
    #[default]
    Ssd,
    /// A hard disk: another place costs milliseconds, and so does a flush.
    Hdd,
}

/// The options of a drive. They are bounds; the defaults are meant to be kept.
#[derive(Clone)]
pub struct Options {
    /// Bytes of one extent segment; also the longest shard (32 KiB..=64 GiB).
    pub segment_bytes: u64,
    /// Bytes of one journal segment (64 KiB..=1 GiB). Bounds the longest record.
    pub journal_segment_bytes: u64,
    /// Free bytes that new data may not use: kept for deletes, heals and the journal itself.
    pub reserve_bytes: u64,
    /// Memory for recent index changes, in bytes; above it they are written to the index files.
    /// Also the limit of the blocks of index files that are kept for lists: those of 64 groups in eight files take 4 MiB.
    pub cache_bytes: usize,
    /// The pool of aligned buffers.
    pub pool: BufferPool,
    /// Failures injected by tests.
    pub faults: Option<Arc<Faults>>,
    /// True: answers wait for the flush to stable storage. False loses acknowledged writes on power
    /// loss and is only for measurements and throw-away data.
    pub strict: bool,
    /// True: writes bypass the page cache where the file system supports it.
    pub direct: bool,
    /// Threads for data of large shards and for reads that would block.
    pub io_threads: usize,
    /// What reads shards without threads that wait, where it can: see [`crate::start_ring`].
    pub ring: Option<Arc<Ring>>,
    /// The device below.
    pub kind: DriveKind,
    /// How often the label, free space and idle work are checked.
    pub tick: Duration,
}

impl Options {
    /// The default options with a buffer pool.
    #[must_use]
    pub fn new(pool: BufferPool) -> Options {
        Options {
            segment_bytes: 128 << 20,
            journal_segment_bytes: 16 << 20,
            reserve_bytes: 256 << 20,
            cache_bytes: 8 << 20,
            pool,
            faults: None,
            strict: true,
            direct: true,
            io_threads: 4,
            ring: None,
            kind: DriveKind::default(),
            tick: Duration::from_secs(1),
        }
    }
}

/// Whether the drive may vote in a placement group (docs/protocol.md 2.7).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// Counts towards majorities.
    Voter,
    /// Accepts writes but never counts: blank, or of a group that it was given later.
    Joining,
    /// As [`Role::Joining`], but it voted before: damaged, long absent, or older than it was.
    Distrusted,
}

/// Whether the drive works.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum State {
    /// Reads and writes.
    Online,
    /// Out of service until it joins again. The reason is for people, except `"emptied"`: the folder no
    /// longer holds the drive, so probe the path again.
    Fenced(String),
    /// Reads only.
    ReadOnly,
    /// Closed.
    Closed,
}

/// What a path holds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Probe {
    /// An empty folder, which may be formatted.
    Blank,
    /// A drive of this program.
    Ours(crate::Label),
    /// Something else: never formatted.
    Foreign(String),
    /// No such folder.
    Missing,
    /// The path or label could not be read: never formatted.
    Unreadable(String),
}

/// A record to be accepted.
#[derive(Clone, Debug)]
pub struct Accept {
    /// The register.
    pub key: RegisterKey,
    /// The ballot.
    pub ballot: Ballot,
    /// The layout epoch that the sender follows; a drive of a newer one refuses.
    pub epoch: u32,
    /// The encoded record.
    pub record: Bytes,
    /// At most 256 bytes that the index keeps for listings; not interpreted here.
    pub summary: Bytes,
    /// One-sync mode: the shard in the same journal record, so that one flush makes both durable. Its owner
    /// and ballot are those of the register.
    pub inline: Option<Inline>,
}

/// The shard inside an [`Accept`].
#[derive(Clone, Debug)]
pub struct Inline {
    /// The write.
    pub write_id: WriteId,
    /// Shard index.
    pub index: u8,
    /// The shard's bytes.
    pub data: Bytes,
}

/// A small shard, which is stored in the journal.
#[derive(Clone, Debug)]
pub struct InlineShard {
    /// The register that will name it; for the collector.
    pub owner: RegisterKey,
    /// The write.
    pub write_id: WriteId,
    /// Shard index.
    pub index: u8,
    /// Stage ballot (docs/protocol.md 2.6).
    pub ballot: Ballot,
    /// Like [`Accept::epoch`].
    pub epoch: u32,
    /// The shard's bytes.
    pub data: Bytes,
}

/// Registers of one placement group with `from <= key < to`, for a caller that follows the layout of `epoch`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Range {
    /// The first key, including the bytes of the group.
    pub from: Vec<u8>,
    /// The end of the range, exclusive.
    pub to: Vec<u8>,
    /// The layout epoch of the group.
    pub epoch: u32,
}

/// Which registers a folded scan leaves out: those of a common prefix that come after its first register with a summary.
///
/// The common prefix of a register is its key up to the end of the first `delimiter` at or after byte `prefix` of the key. A
/// register whose key has no delimiter there has no common prefix, and is never left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fold {
    /// Bytes at the beginning of the key in which no delimiter is looked for.
    pub prefix: usize,
    /// The delimiter; not empty.
    pub delimiter: Vec<u8>,
}

impl Fold {
    /// The smallest bytes above every register with the same common prefix as the one of these bytes; they begin like the register up to
    /// its key. `None`: it has no common prefix, or only keys that cannot be UTF-8 are above.
    #[must_use]
    pub fn end(&self, key: &[u8]) -> Option<Vec<u8>> {
        let rest = key.get(RegisterKey::PREFIX + self.prefix..)?;
        let length = self.delimiter.len();
        if length == 0 {
            return None;
        }
        let at = rest.windows(length).position(|w| w == self.delimiter)?;
        let common = &key[..RegisterKey::PREFIX + self.prefix + at + length];
        let keep = common.iter().rposition(|b| *b != 0xff).filter(|at| *at >= RegisterKey::PREFIX)?;
        let mut end = common[..=keep].to_vec();
        end[keep] += 1;
        Some(end)
    }
}

/// The answer to a prepare.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Prepared {
    /// The drive promises to refuse lower ballots for this key.
    Promised {
        /// The record that it accepted last.
        accepted: Option<Accepted>,
        /// If there is no record: none is accepted up to this ballot, the purge horizon.
        horizon: Ballot,
        /// The purge horizon of the group, with a record or without: tombstones up to it may have been purged.
        purged: Ballot,
        /// The fence of the bucket: an ACCEPT that the fence does not admit would be refused.
        fence: Deletion,
    },
    /// A ballot at least this high was promised or accepted before.
    Refused {
        /// The proposer must use a ballot above this one.
        highest: Ballot,
    },
    /// The drive is joining, or does not hold the group.
    NotVoter,
}

/// The answer to a fence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FenceAnswer {
    /// The fence is durable; that of a joining drive does not count.
    Fenced {
        /// Whether the drive votes.
        counted: bool,
    },
    /// A later deletion has fenced the bucket.
    Later(Deletion),
}

/// An accepted record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accepted {
    /// The ballot under which it was accepted.
    pub ballot: Ballot,
    /// Known chosen.
    pub hint: bool,
    /// It came with its shard (one-sync mode), which is on this drive.
    pub with_shard: bool,
    /// The encoded record.
    pub record: Bytes,
}

/// A record that the sender of a prepare has: a drive that accepted it last does not read it.
#[derive(Clone, Debug)]
pub struct Known {
    /// The ballot under which drives accepted it.
    pub ballot: Ballot,
    /// [`ashlar_format::Record::digest`] of `record`.
    pub digest: u64,
    /// The encoded record.
    pub record: Bytes,
}

/// The answer to a read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadReply {
    /// The drive counts towards majorities.
    pub voter: bool,
    /// The record that it accepted last; `None` is an explicit "no record".
    pub accepted: Option<Seen>,
    /// If there is no record: none is accepted up to this ballot, the purge horizon.
    pub horizon: Ballot,
}

/// An accepted record as a reader sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Under which ballot it was accepted.
    pub ballot: Ballot,
    /// Known chosen.
    pub hint: bool,
    /// It came with its shard (one-sync mode), which is on this drive.
    pub with_shard: bool,
    /// [`ashlar_format::Record::digest`] of the record.
    pub digest: u64,
    /// The encoded record, when asked for.
    pub record: Option<Bytes>,
}

/// One register in a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The register.
    pub key: RegisterKey,
    /// Accepted ballot.
    pub ballot: Ballot,
    /// Known chosen.
    pub hint: bool,
    /// Digest of the record.
    pub digest: u64,
    /// The summary given with the accept.
    pub summary: Bytes,
}

/// One shard in a census.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardInfo {
    /// The write.
    pub write_id: WriteId,
    /// Shard index.
    pub index: u8,
    /// The register that names it, or that was meant to.
    pub owner: RegisterKey,
    /// Stage ballot.
    pub ballot: Ballot,
    /// Bytes.
    pub len: u64,
    /// True: in the journal.
    pub inline: bool,
}

/// Counters of a drive since it was opened; sizes as of the last check of the file system.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Bytes of the file system.
    pub capacity: u64,
    /// Bytes free for this program.
    pub free: u64,
    /// Bytes that the files of this drive take on its file system: the journal; extents, whether in use,
    /// prepared or not given back yet; the index.
    pub used: u64,
    /// Live bytes in the journal.
    pub journal_live: u64,
    /// Bytes of all journal segments.
    pub journal_bytes: u64,
    /// Bytes of live shards in extents, with header, padding and hash table.
    pub extent_live: u64,
    /// Bytes of all extent segments not yet freed.
    pub extent_bytes: u64,
    /// Number of wrong counts of bytes in use: 0 unless there is a defect.
    pub miscounts: u64,
    /// Bytes of the index files.
    pub index_bytes: u64,
    /// Index changes held in memory, bytes.
    pub overlay_bytes: u64,
    /// Reads from the device or its cache.
    pub reads: u64,
    /// Writes to the device.
    pub writes: u64,
    /// Flushes.
    pub syncs: u64,
    /// Journal records written.
    pub records: u64,
    /// Group commits.
    pub batches: u64,
    /// Microseconds from laying out a batch until it is durable: sum over batches.
    pub commit_us: u64,
    /// The longest of them.
    pub commit_us_max: u64,
    /// Journal bytes rewritten by compaction.
    pub compacted: u64,
    /// Extent segments that were reused for other shards.
    pub recycled: u64,
    /// Reads that failed or did not verify.
    pub read_errors: u64,
    /// Damage found when the drive was opened: journal batches that could not be read.
    pub journal_damage: u64,
    /// Index files that had to be rebuilt when the drive was opened (0 or 1).
    pub index_rebuilt: u64,
}
