//! TLS of NVMe/TCP: version 1.3 with pre-shared keys and ephemeral Diffie-Hellman, from the first byte of a connection (TCP 3.6).
//!
//! * [`TlsKey`]: a key in its text form. [`TlsMode`]: what a target demands.
//!
//! Files: `key`; `psk` (pre-shared keys and their names), `hello` (which of them a client has), `session` (the library, over memory),
//! `socket` (a connection), `handshake` (its begin, at both ends); `fuzzed`, `samples`.
//!
//! The protocol is that of the library s2n-tls: decision 0071.
//!
//! Invariants: a session has version 1.3 and a pre-shared key, and the names in that key's name are those of its peer; a peer that stops in
//! the handshake holds up only itself.
//!
//! Must not depend on: PDUs, how connections are served.

pub mod fuzzed;
mod handshake;
mod hello;
mod key;
mod psk;
mod samples;
mod session;
mod socket;

#[cfg(test)]
mod tests;

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

pub(crate) use handshake::{Peer, accept, connect};
pub use key::TlsKey;
pub(crate) use psk::{Derivation, Identity, Psk};

/// What a target demands of connections.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TlsMode {
    /// There is no TLS.
    #[default]
    Off,
    /// Hosts that have a key need TLS; others connect without.
    Allowed,
    /// Every connection needs TLS, those to the discovery subsystem too.
    Required,
}

impl TlsMode {
    /// Its name: `off`, `allowed`, `required`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            TlsMode::Off => "off",
            TlsMode::Allowed => "allowed",
            TlsMode::Required => "required",
        }
    }
}

impl fmt::Display for TlsMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for TlsMode {
    type Err = String;

    fn from_str(text: &str) -> Result<TlsMode, String> {
        let all = [TlsMode::Off, TlsMode::Allowed, TlsMode::Required];
        let found = all.into_iter().find(|m| m.name() == text);
        found.ok_or_else(|| format!("{text:?} is none of off, allowed, required"))
    }
}
