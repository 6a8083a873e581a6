//! Drive groups: a virtual block address space over members, with parity, a journal and checksums.
//!
//! * [`Geometry`], [`Level`]: where a block lies. [`Superblock`]: what a member says about its group.
//! * [`Group`]: a group in service: [`Group::create`], [`Group::open`], [`Group::read`], [`Group::apply`],
//!   [`Group::rebuild`], [`Group::resync`], [`Group::check`], [`Group::grow`].
//! * [`Batching`], [`Coder`], [`choose`]: how rebuilds and checks read and code, and who codes.
//! * [`Device`], [`Medium`]: what becomes a member, and what it is made of; [`Command`], [`Pending`]: what it is asked without waiting for it.
//! * [`Shared`], [`VirtualDrive`]: a group that several threads use, and a part of it with a name; `thin`: one that has only the room that it needs.
//!
//! Invariants (policy `journal`): after a loss of power at any instant, in any state, every block outside of a request
//! that was not answered reads its last content; a block inside one reads its old or its new content, never a mixture.
//! No byte is read that was not verified. docs/array.md describes the format byte by byte.
//!
//! Must not depend on: exports, commands, S3.

#![forbid(unsafe_code)]
#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests run in real time")
)]

mod batch;
mod bitmap;
mod check;
mod choice;
mod coder;
mod commit;
mod content;
mod create;
mod directory;
mod distributed;
mod domain;
mod drive;
mod error;
mod flow;
pub mod fuzzed;
mod geometry;
#[cfg(feature = "gpu")]
mod gpu;
mod group;
mod growth;
mod io;
mod journal;
mod layout;
mod medium;
mod member;
mod merge;
mod once;
mod permutation;
mod pipeline;
mod pool;
mod prefetch;
mod progress;
mod properties;
mod queue;
mod read;
mod rebuild;
mod rebuild_rows;
mod recover;
mod reference;
mod resync;
mod shape;
mod signature;
mod submit;
mod sums;
mod superblock;
mod suspects;
mod thin;
mod thin_map;
mod thin_room;
mod thin_state;
mod threads;
mod under_way;
mod volumes;
mod write;

#[cfg(test)]
mod tests;

pub use check::{Checked, Mismatch, Repair};
pub use choice::{Point, Wanted, choose, crossover, measure};
pub use coder::{Batching, Coder, Cpu, Memory, Part};
pub use create::{MAX_MEMBERS, Plan};
pub use drive::{Shared, VirtualDrive};
pub use error::Error;
pub use geometry::{BLOCK, Geometry, Level, Place};
#[cfg(feature = "gpu")]
pub use gpu::Gpu;
pub use group::{Counters, Group, GroupState, MemberStatus};
pub use growth::{Grow, Joining, Moved};
pub use medium::{Command, Medium, Pending};
pub use member::Device;
pub use progress::Progress;
pub use resync::Resynced;
pub use superblock::{
    FORMAT, FORMAT_DECLUSTERED, FORMAT_DIRECTORY, FORMAT_GROWING, FORMAT_PROPERTIES, Growth, Id, InSpare,
    MAX_NAME, MAX_SPARES, MAX_VOLUMES, MemberState, Policy, Settings, Slot, Superblock, ThinMap, Volume,
    VolumeLimits,
};
pub use thin_state::ThinStatus;
pub use volumes::NewVolume;
pub use write::Request;
