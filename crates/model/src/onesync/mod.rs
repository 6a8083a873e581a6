//! One-sync writes: the shard is part of the ACCEPT (docs/protocol.md 2.3 a; `ashlar_commit::OneSync`).
//!
//! Two writers, each with its own data, in either mode (one-sync or staged), whose attempts may overtake,
//! mend or block each other; crashes; reads. The value of the register is the list of writes, so every record
//! needs the data of all writes it names.
//!
//! Data is dropped as early as the protocol allows: a drive that holds a chosen record drops every shard that
//! the record does not name.
//!
//! Properties: those of the register; the data of a chosen record is on k' + f drives at that moment; what is
//! served or mended can be reconstructed from k' shards.
//!
//! * [`state`]: the state of the drives and of the operations under way,
//! * [`rounds`]: the actions of proposers,
//! * [`drives`]: replaced drives and reads,
//! * [`actions`]: the possible actions, and the properties.
//!
//! Must not depend on: other worlds.

pub mod actions;
mod drives;
mod rounds;
pub mod state;

pub use actions::Act;
pub use state::{Scope, World};
