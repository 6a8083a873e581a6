//! One-sync writes: the shard travels inside ACCEPT (docs/protocol.md 2.3 a; `ashlar_commit::OneSync`).
//!
//! Two writers, each with its own data, in either way (one-sync or staged), whose attempts may
//! overtake, mend or be blocked by each other; crashes; reads. The register's value is the list of
//! writes, so every record needs the data of all writes it names.
//!
//! Data is thrown away as early as the protocol allows: a drive that holds a chosen record drops
//! every shard that the record does not name.
//!
//! What is checked: the register's properties; a chosen record's data is on k' + f drives at that
//! moment; what is served or mended can be put together from k' shards.

//!
//! * [`state`]: what the drives hold and what is under way,
//! * [`rounds`]: what proposers do,
//! * [`drives`]: replaced drives and reads,
//! * [`actions`]: what may happen next, and what must always hold.

pub mod actions;
mod drives;
mod rounds;
pub mod state;

pub use actions::Act;
pub use state::{Scope, World};
