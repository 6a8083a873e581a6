//! A host (initiator) of NVMe/TCP in this process: namespaces of targets as block devices, without the kernel's host.
//!
//! * [`RemoteNamespace`]: a namespace at an [`Address`]: read, write, flush, zero, discard. [`Pending`]: one of several requests under way.
//! * [`discover`], [`list`]: what a target has.
//!
//! Files: `address`; `options`; `pdu` (bytes of PDUs), `request` (commands), `facts` and `health` (Identify structures, log pages); `call`,
//! `authenticate` (DH-HMAC-CHAP); `slots` and `queue` (one connection: commands on their way, who waits for them); `controller` (admin queue and I/O queues, from Connect
//! to shutdown); `device` (the paths of a namespace, and which one is taken), `policy`; `path` (connecting again, Keep Alive, events);
//! `ranges` (what is being changed), `unflushed` (what a restart of the target could lose); `pieces`, `remote` (requests), `pending`
//! (requests that a caller waits for later).
//!
//! Invariants: whatever a target sends, memory is bounded by what callers have asked for; a PDU that breaks the protocol ends its
//! controller, and the request that waits is repeated a bounded number of times, on another path if there is one; a namespace is known by its UUID, NGUID or EUI64, and
//! nothing is sent to another one that is found at its address after a new connection.
//!
//! Must not depend on: the target of this crate, beside the numbers and bytes of the protocol.

mod address;
mod authenticate;
mod call;
mod controller;
mod device;
mod facts;
pub mod fuzzed;
mod health;
mod options;
mod path;
pub(crate) mod pdu;
mod pending;
mod pieces;
mod policy;
mod queue;
mod ranges;
mod remote;
mod request;
mod slots;
mod unflushed;

#[cfg(test)]
mod tests;

pub use address::{Address, DISCOVERY_SCHEME, MAX_PORTALS, Portal, SCHEME, is_address};
pub use controller::{Listed, discover, list};
pub use device::PathStatus;
pub use facts::{DiscoveryEntry, Identity, NamespaceFacts};
pub use health::Health;
pub use options::HostOptions;
pub use pending::Pending;
pub use policy::IoPolicy;
pub use remote::RemoteNamespace;
