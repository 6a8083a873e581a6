//! A host (initiator) of NVMe/TCP in this process: namespaces of targets as block devices, without the kernel's host.
//!
//! * [`RemoteNamespace`]: a namespace at an [`Address`]: read, write, flush, zero, discard.
//! * [`discover`], [`list`]: what a target has.
//!
//! Files: `address`; `options`; `pdu` (bytes of PDUs), `request` (commands), `facts` (Identify structures, log pages); `call`, `slots` and
//! `queue` (one connection: commands on their way, who waits for them); `controller` (admin queue and I/O queues, from Connect to
//! shutdown); `path` (connecting again, Keep Alive, events); `unflushed` (what a restart of the target could lose); `pieces`, `remote`
//! (requests).
//!
//! Invariants: whatever a target sends, memory is bounded by what callers have asked for; a PDU that breaks the protocol ends its
//! controller, and the request that waits is repeated a bounded number of times; a namespace is known by its UUID, NGUID or EUI64, and
//! nothing is sent to another one that is found at its address after a new connection.
//!
//! Must not depend on: the target of this crate, beside the numbers and bytes of the protocol.

mod address;
mod call;
mod controller;
mod facts;
pub mod fuzzed;
mod options;
mod path;
pub(crate) mod pdu;
mod pieces;
mod queue;
mod remote;
mod request;
mod slots;
mod unflushed;

#[cfg(test)]
mod tests;

pub use address::{Address, SCHEME};
pub use controller::{Listed, discover, list};
pub use facts::{DiscoveryEntry, Identity, NamespaceFacts};
pub use options::HostOptions;
pub use remote::RemoteNamespace;
