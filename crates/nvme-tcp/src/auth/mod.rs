//! DH-HMAC-CHAP: a host proves to a controller that it knows its secret, and the controller to the host, if that wants it, before
//! anything else is executed on a queue (NVMe in-band authentication: Base 8.13.5, "DH-HMAC-CHAP Protocol").
//!
//! * [`Secret`]: a secret in its text form. [`Hash`], [`Group`]: hash functions and Diffie-Hellman groups.
//! * [`HostKeys`], [`Hosts`]: the secrets of hosts that a target knows, and the file that keeps them.
//!
//! Files: `secret`, `hash` (responses), `group`, `message` (bytes), `exchange` (the controller), `initiator` (the host), `hosts`.
//!
//! What it does not do: the data is neither encrypted nor protected from changes afterwards. That is what TLS is for.
//!
//! Must not depend on: connections.

pub(crate) mod exchange;
mod group;
pub(crate) mod hash;
pub(crate) mod hosts;
pub(crate) mod initiator;
pub(crate) mod message;
pub(crate) mod secret;

#[cfg(test)]
mod tests;

pub use group::Group;
pub use hash::Hash;
pub use hosts::{Admission, HostKeys, Hosts, Known, check_name};
pub use secret::Secret;
