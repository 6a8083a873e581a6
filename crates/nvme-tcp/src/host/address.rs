//! Where a namespace is: `nvme-tcp://HOST:PORT/NQN/NSID`.
//!
//! Must not depend on: connections.

use std::fmt;
use std::str::FromStr;

use crate::error::Error;

/// How an address of a namespace begins.
pub const SCHEME: &str = "nvme-tcp://";
/// Bytes of an NQN, at most (Base 4.5).
const MAX_NQN: usize = 223;

/// A namespace at a target. It says how to get there, not what the namespace is: that is its NGUID, UUID or EUI64.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Address {
    /// A name or an IP address; one of version 6 is in brackets.
    pub host: String,
    /// The TCP port.
    pub port: u16,
    /// The name of the subsystem.
    pub nqn: String,
    /// The number of the namespace in it, 1 to 0xffff_fffe.
    pub nsid: u32,
}

impl Address {
    /// `HOST:PORT`.
    #[must_use]
    pub fn portal(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SCHEME}{}:{}/{}/{}", self.host, self.port, self.nqn, self.nsid)
    }
}

impl FromStr for Address {
    type Err = Error;

    /// Reads an address. Its canonical form is that of `Display`.
    ///
    /// # Errors
    /// [`Error::Address`].
    fn from_str(text: &str) -> Result<Address, Error> {
        let wrong = |what| Error::Address { text: text.to_owned(), what };
        let rest = text.strip_prefix(SCHEME).ok_or_else(|| wrong("it does not begin with nvme-tcp://"))?;
        let (portal, name) = rest.split_once('/').ok_or_else(|| wrong("it has no NQN"))?;
        let (host, port) = portal.rsplit_once(':').ok_or_else(|| wrong("it has no port"))?;
        let port: u16 = port.parse().map_err(|_| wrong("its port is not a number up to 65535"))?;
        // An NQN may have slashes in it.
        let (nqn, nsid) =
            name.rsplit_once('/').ok_or_else(|| wrong("it has no number of a namespace after its NQN"))?;
        let nsid: u32 = nsid.parse().map_err(|_| wrong("what follows its last slash is not a number"))?;
        let bare = host.strip_prefix('[').and_then(|h| h.strip_suffix(']')).unwrap_or(host);
        if bare.is_empty() || bare.contains(['[', ']']) || (bare.contains(':') && bare.len() == host.len()) {
            return Err(wrong("its host is no name, and no IP address (one of version 6 is in brackets)"));
        }
        if port == 0 || nsid == 0 || nsid == u32::MAX {
            return Err(wrong(
                "its port and the number of its namespace are not 0, nor the number that means all",
            ));
        }
        if !nqn.starts_with("nqn.") || nqn.len() > MAX_NQN || nqn.bytes().any(|b| b.is_ascii_control()) {
            return Err(wrong("its NQN does not begin with \"nqn.\", or is longer than 223 bytes"));
        }
        Ok(Address { host: host.to_owned(), port, nqn: nqn.to_owned(), nsid })
    }
}
