//! # ashlar-remote: drives that other nodes serve
//!
//! | file | what it holds |
//! |---|---|
//! | `wire` | messages as bytes |
//! | `transport` | how calls reach another node: an interface, so that the simulator uses the code above it |
//! | `node` | one other node: its drives and their states, the numbers of sessions |
//! | `contact` | when a node answered last, and whether it is silent |
//! | `unanswered` | since when a drive owes an answer |
//! | `drive` | a drive of another node, as [`ashlar_drive::Remote`] |
//! | `many` | calls for several drives of one node, at both ends |
//! | `shard` | shards that are written to and read from such a drive |
//! | `serve`, `sessions` | the other end: executes calls on the drives of this process; open shards of callers |
//!
//! Invariants: no call is sent twice. A call without an answer is *unknown* ([`ashlar_drive::Error::Unanswered`])
//! unless it was certainly not sent. What a caller left open on a drive ends with its process, or ten minutes after its
//! last use.
//!
//! Must not depend on: how messages travel, placement groups, the commit protocol.

#![forbid(unsafe_code)]
#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests run in real time")
)]

mod contact;
mod drive;
#[doc(hidden)]
pub mod fuzzed;
mod many;
mod node;
mod serve;
mod sessions;
mod shard;
#[cfg(test)]
mod tests;
mod transport;
mod unanswered;
pub mod wire;

pub use contact::SILENCE;
pub use node::{RemoteNode, follow};
pub use serve::{Caller, Served};
pub use transport::{Call, Delivered, Failure, LONGEST, Transport, method};
