//! The commit protocol of Ashlar as pure state machines: one ballot register per key on the n
//! drives of a placement group (CASPaxos family; docs/protocol.md 2).
//!
//! Every state machine takes answers as input and returns the next step. The caller sends the messages,
//! flushes the drives, measures time and draws the random numbers.
//!
//! | Machine | Runs | Does |
//! |---|---|---|
//! | [`Acceptor`] | beside each drive | answers PREPARE and ACCEPT, keeps the promises |
//! | [`Proposer`] | at the coordinator, one per attempt | one write, or one identity round |
//! | [`Reader`] | at the coordinator, one per read | decides what a read may answer |
//! | [`Resync`] | at the process that fills a blank drive | decides what the new drive may copy |
//! | [`Sweep`] | at the collector | decides when staged data that nothing names may go |
//! | [`attempt`] | at the coordinator | changes that span registers: renames, completed uploads |
//! | [`upload`] | at the coordinator | the states of a multipart upload |
//! | [`bucket_fence`] | at drives and coordinators | the deletion of a bucket |
//! | [`version_list`] | at the coordinator | lists of versions, the older ones in pages |
//! | [`quota_share`] | at coordinators, over the control store | the shares of a quota |
//!
//! Invariants are checked by `assert!`, also in release builds: a promise only grows (I2), nothing is
//! accepted below a promise or an epoch (I3), a record is sent only after its data is durable (I4), a joining
//! drive never votes (I6), resync reads only fenced drives (I7), only an irrevocable state is served without
//! a round (I8), absence needs explicit answers (I9).
//!
//! The same code runs in the model checker (`crates/model`), in the simulator and in production.
//!
//! Must not depend on: files, sockets, clocks, threads, what a record contains, except in [`version_list`].
#![forbid(unsafe_code)]

mod acceptor;
pub mod attempt;
pub mod bucket_fence;
mod promises;
mod proposer;
mod quorum;
pub mod quota_share;
mod reader;
mod recover;
mod resync;
mod sweep;
pub mod upload;
pub mod version_list;

pub use acceptor::{AcceptAnswer, Acceptor, ConfirmAnswer, HEADROOM, PrepareAnswer, Role};
pub use ashlar_format::Ballot;
pub use promises::{OnePromise, PromiseState, PromiseTable, Promises};
pub use proposer::{Proposer, Step};
pub use quorum::{MAX_SLOTS, Quorum, Slot, SlotSet, ballot_above, durable_needed, lower_k, may_purge, spare};
pub use reader::{Proof, ReadStep, Reader};
pub use recover::{Footing, OneSync, Recovery};
pub use resync::{Copy, Resync};
pub use sweep::{Sweep, SweepStep};
