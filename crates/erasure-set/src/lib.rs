#![forbid(unsafe_code)]
//! Spreads versions over the drives of a placement group.
//!
//! A placement group is `n` slots with one drive each. The register of a key (its record) is replicated on
//! all of them and changed by the commit protocol (docs/protocol.md); the bytes of a version are erasure
//! coded into `n` shards, one per slot.
//!
//! | file | what it holds |
//! |---|---|
//! | `layout` | key -> group -> slots -> drives; stripe and row sizes |
//! | `table`, `latency` | which drive is in which slot now, and how quick it is |
//! | `sets` | the shared state: table, caches, queues, options |
//! | `register`, `ask` | reading a register |
//! | `turns`, `key_turn` | a courtesy between nodes that propose for one register |
//! | `update`, `propose`, `settle` | changing a register: prepare, decide, stage, accept |
//! | `sent_records`, `outcome` | what became of records that an update has sent |
//! | `bucket_fence` | fences of deleted buckets |
//! | `undecided_registers` | which registers may be undecided |
//! | `stored` | the bytes that a drive stores as the record of a register |
//! | `write`, `disk_turns` | bytes -> stripes -> shards |
//! | `read`, `fetch`, `long_reads` | shards -> stripes -> bytes, around damage and slow drives |
//! | `prefetch` | shards that come with the answers to READ |
//! | `list` | ordered, linearizable listing |
//! | `tail` | the rest of a write after its caller was answered |
//! | `ahead`, `budget`, `memory` | the memory of bodies under way |
//! | `heal`, `heal_group`, `shards`, `rebuild`, `scrub_pass`, `salvage` | bringing every slot back to full width |
//! | `scrub` | data that no record names |
//! | `scrub_schedule`, `scrub_records`, `scrub_store` | when the next full pass of a group is due, and what is recorded of it |
//! | `release` | what a drive holds of groups in which it has no slot any more |
//! | `heal_queue`, `progress`, `scrub_state`, `tail_queue` | the state of heal, rebuild, scrub and tails |
//! | `background` | starts and stops the background work |
//! | `damage` | the damage that was found, by name |
//! | `invariants` | the assertions about the protocol in release builds |
//! | `health`, `placement` | what a group can still do; where the shards of a body are |
//!
//! Layers, each of which uses only those before it: types (`error`, `layout`, `stored`), parts of the shared
//! state (`table`, `ballots`, `cache`, `undecided_registers`, `damage`, `memory`, the queues), the shared state (`sets`),
//! operations on it (`register`, `update`, `read`, `write`, `list`, `tail`, `heal` and what follows),
//! `background`. Operations are `impl` blocks of `Inner` and `Sets`, in the file of the operation.
//!
//! Invariants: if fewer drives answer than a protocol step needs, the result is [`Error::Unavailable`], never
//! "absent"; a record that names data is sent only after enough shards are durable (I4); bytes that a reader
//! returns were verified and belong to the requested write; every queue, cache and wait is bounded.
//!
//! Must not depend on: S3, HTTP, what a version means beyond the data it names.

#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests run in real time")
)]

mod ahead;
mod ask;
mod background;
mod ballots;
mod bucket_fence;
mod budget;
mod cache;
mod damage;
mod disk_turns;
mod error;
mod fetch;
mod heal;
mod heal_group;
mod heal_queue;
mod health;
mod invariants;
mod key_turn;
mod keylock;
mod latency;
mod layout;
mod list;
mod list_batch;
mod list_merge;
mod long_reads;
mod memory;
mod outcome;
mod outdated;
mod owners;
mod pages;
mod placement;
mod prefetch;
mod progress;
mod propose;
mod read;
mod rebuild;
mod register;
mod release;
mod salvage;
mod scrub;
mod scrub_pass;
mod scrub_records;
mod scrub_schedule;
mod scrub_state;
mod scrub_store;
mod sent_records;
mod sets;
mod settle;
mod shards;
mod stage;
mod stored;
mod table;
mod tail;
mod tail_queue;
#[cfg(test)]
mod tests;
mod turns;
mod undecided_registers;
mod update;
mod write;

pub use bucket_fence::{FencedBucket, fence_right, with_fence_right};
pub use budget::as_tenant;
pub use damage::{Damage, What};
pub use error::{Error, Result};
pub use heal_queue::{HealStats, Healed};
pub use health::{GroupHealth, Tolerance, tolerance};
pub use layout::{Code, Group, Layout, MAX_ROW, MAX_STRIPE, stripe_len};
pub use list::{Listed, MAX_PAGE, Page};
pub use memory::{Limits as MemoryLimits, MemoryStats};
pub use placement::{PlacedShard, ShardState};
pub use prefetch::{BodyRange, Choice, Prefetched};
pub use progress::{Phase, Progress};
pub use read::ObjectReader;
pub use register::Register;
pub use salvage::{MAX_NAMED, Salvaged, Showing, Uncertain};
pub use scrub_schedule::{MARK_BYTES, MARKS, ScrubCounts, ScrubMark, ScrubPass, ScrubRecord, ScrubRecords};
pub use scrub_state::Scrubbed;
pub use sets::{CopyPermit, DecoderMemory, EpochSource, Options, Sets};
#[doc(hidden)]
pub use stored::{fuzzed_stored, fuzzed_stored_seeds};
pub use turns::{Others, Turn, TurnCalls, TurnQueues};
pub use update::{Decision, UpdateError, Updated};
pub use write::{DataWriter, Staged};
