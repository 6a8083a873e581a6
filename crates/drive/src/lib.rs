#![forbid(unsafe_code)]
//! One drive: label, journal, extents, index, health.
//!
//! A drive is a folder on its own file system. It keeps registers (per key a record with a ballot,
//! docs/protocol.md 2) and shards (bytes identified by write id and shard index), and reports its health.
//!
//! Invariants: nothing is acknowledged before a successful flush covers it (I11); a failed flush or write
//! fences the drive (I12); every byte read is checked against a checksum that binds its identity (I13),
//! unless a reader takes over the check; a joining drive never votes (I6); a corrupt or unreadable register
//! is an error, never "absent"; the index is a cache that can be deleted.
//!
//! Layers, each of which uses only those before it: the content of the medium (`entry`, `run`, `index`, `op`,
//! `place`); rows and counts (`space`, `counters`); queues and memory (`overlay`, `queue`, `tally`, `head`,
//! `maintenance_state`); regions without a journal record (`unnamed`); the groups that the drive holds (`groups`); the state of a drive (`core`);
//! operations on it (`impl` blocks of `Core` and `Shared`, in the file of the operation); the drive
//! (`drive`); requests to a remote drive (`remote`); the handle of either (`handle`, `shard_handle`). `probe`
//! opens a drive.
//!
//! Must not depend on: S3, objects, erasure codes, other drives.

#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests run in real time")
)]

mod account;
mod apply;
mod block;
mod changes;
mod compact;
mod core;
mod counters;
mod drain;
mod drive;
mod entry;
mod error;
mod extent;
mod fence_table;
mod fences;
mod files;
mod found;
mod frames;
#[doc(hidden)]
pub mod fuzzed;
mod groups;
mod handle;
mod hard_disk;
mod head;
mod index;
mod journal;
mod maintenance;
mod maintenance_state;
mod op;
mod overlay;
mod place;
mod probe;
mod queue;
mod read_order;
mod read_queue;
mod reader;
mod recycle;
mod registers;
mod remote;
mod replay;
mod ring;
mod run;
mod scan;
mod search;
mod seek_times;
mod segment;
mod settle;
mod shard_handle;
mod shards;
#[cfg(test)]
mod simulated;
mod space;
mod tally;
mod types;
mod unnamed;
mod vote;
mod window;
mod write_order;
mod write_queue;

pub use ashlar_format::label::Label;
pub use drive::{Drive, MAX_SUMMARY};
pub use error::{Error, Result};
pub use extent::{ShardWriter, Unfinished};
pub use frames::{Check, Frames, ShardReader};
pub use handle::DriveHandle;
pub use probe::{format, probe};
#[doc(hidden)]
pub use probe::{format_folder, probe_folder};
pub use remote::{
    Answer, Later, ReadWithShard, Remote, RemoteReader, RemoteWriter, Request, Status, WantedShards,
};
pub use ring::start_ring;
pub use shard_handle::{ReaderHandle, WriterHandle};
pub use tally::{Completion, Outcome, Tally};
pub use types::{
    Accept, Accepted, DriveKind, Entry, FenceAnswer, Fold, Inline, InlineShard, Known, Options, Prepared,
    Probe, Range, ReadReply, Role, Seen, ShardInfo, State, Stats,
};
