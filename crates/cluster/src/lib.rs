#![forbid(unsafe_code)]
//! The map of drives and placement groups, and the control store that keeps it.
//!
//! | file | what it holds |
//! |---|---|
//! | `control` | the control store as its users see it, and the contract of its drivers |
//! | `update` | a change, and what it was derived from: the only write |
//! | `projection` | following the keys under a prefix, for components that keep them in memory |
//! | `history` | the last changes, for watchers of every driver |
//! | `progress` | how far the watchers have come |
//! | `announced` | the list of running nodes |
//! | `embedded` | the embedded driver: copies on the drives, one process |
//! | `establish` | how a process becomes the one writer: two rounds before the first answer |
//! | `copy` | the byte layout of one copy of the store, and where it is on a drive |
//! | `memory` | the same in memory: for tests |
//! | `map` | drives, states, code, placement groups, epochs |
//! | `moves` | the changes of the map that move slots, and end the votes of drives that left |
//! | `sequences` | the last journal sequence of each drive, noted on all drives: detects a drive that went back in time |
//! | `drive_monitor` | what a server does about its drives: a pure state machine |
//! | `layout` | which code and which groups a set of drives gets |
//! | `spread` | the same over the drives of several nodes |
//! | `across` | the same if drives of several nodes fail together |
//! | `domains` | drives that fail together: what a plan may lose with them |
//! | `evacuation` | which slots move away from nodes that are gone, and where to |
//! | `absence` | how long nodes have been away |
//! | `registry` | the nodes of a cluster, and what each does next while it is formed |
//! | `removal` | a node that is gone for good leaves the registry and the map |
//! | `levels`, `level_change` | what releases may write and say; the level in force and how it is raised |
//!
//! Invariants: a change of the store names what it was derived from; it is acknowledged only after a majority
//! of the member drives holds it durably, counted over members, never over "drives that are up"; an epoch
//! never decreases; a drive id that left the map never returns; no decision depends on time.
//!
//! Must not depend on: objects, buckets (their registry is opaque values here), requests.

#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests run in real time")
)]

mod absence;
mod across;
mod announced;
mod change_log;
mod control;
mod copy;
mod domains;
pub mod drive_monitor;
mod embedded;
mod error;
mod establish;
pub mod evacuation;
mod history;
mod layout;
mod level_change;
mod levels;
mod map;
mod memory;
mod moves;
mod progress;
mod projection;
pub mod registry;
mod removal;
mod sequences;
mod spread;
mod update;

pub use absence::Absences;
pub use announced::{Announced, Announcement, Nodes};
#[doc(hidden)]
pub use change_log::fuzzed_log_record;
pub use control::{Change, Control, ControlDriver, Follower, Health, Value, Watch, Watched};
#[doc(hidden)]
pub use copy::fuzzed_copy;
pub use copy::{FileMedium, MAX_BYTES, Medium, decode_entries, encode_entries};
pub use domains::{Accept, domain_name, domain_text};
pub use embedded::Embedded;
pub use error::{Error, Result};
pub use history::History;
pub use layout::{CodeSpec, Plan, default_code, default_parity, plan};
pub use levels::{BALLOTS_OF_CHANGES, FOLDED_LISTS, Levels, READ_WITH_SHARDS};
pub use map::{Drive, DriveState, FoundAt, Group, Map, NewDrive, Pool, Slot};
pub use memory::MemoryMedium;
pub use moves::SlotMove;
pub use progress::{Progress, Watchers};
pub use projection::{News, Projection};
pub use sequences::Sequences;
#[doc(hidden)]
pub use sequences::fuzzed_sequences;
pub use update::{Action, Entry, Seen, Step, Update};
