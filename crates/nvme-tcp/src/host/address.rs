//! Where a namespace is: `nvme-tcp://HOST:PORT[,HOST:PORT...]/NQN/NSID`, or `nvme-tcp+discovery://...` with the addresses of discovery
//! controllers, which know the ports of the subsystem.
//!
//! Must not depend on: connections.

use std::fmt;
use std::str::FromStr;

use crate::error::Error;

/// How an address of a namespace begins.
pub const SCHEME: &str = "nvme-tcp://";
/// How an address begins whose ports are found by discovery.
pub const DISCOVERY_SCHEME: &str = "nvme-tcp+discovery://";
/// Bytes of an NQN, at most (Base 4.5).
const MAX_NQN: usize = 223;
/// Ports of an address, at most.
pub const MAX_PORTALS: usize = 16;

/// A TCP address.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Portal {
    /// A name or an IP address; one of version 6 is in brackets.
    pub host: String,
    /// The TCP port.
    pub port: u16,
}

/// A namespace at a target. It says how to get there, not what the namespace is: that is its NGUID, UUID or EUI64.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Address {
    /// Ports of the subsystem, or of discovery controllers: 1 to 16, each once.
    pub portals: Vec<Portal>,
    /// The portals are those of discovery controllers.
    pub discovery: bool,
    /// The name of the subsystem.
    pub nqn: String,
    /// The number of the namespace in it, 1 to 0xffff_fffe.
    pub nsid: u32,
}

/// Whether a text is meant as an address of a namespace.
#[must_use]
pub fn is_address(text: &str) -> bool {
    text.starts_with(SCHEME) || text.starts_with(DISCOVERY_SCHEME)
}

impl fmt::Display for Portal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

impl FromStr for Portal {
    type Err = &'static str;

    /// Reads `HOST:PORT`.
    fn from_str(text: &str) -> Result<Portal, &'static str> {
        let (host, port) = text.rsplit_once(':').ok_or("it has no port")?;
        let port: u16 = port.parse().map_err(|_| "its port is not a number up to 65535")?;
        let bare = host.strip_prefix('[').and_then(|h| h.strip_suffix(']')).unwrap_or(host);
        if bare.is_empty() || bare.contains(['[', ']']) || (bare.contains(':') && bare.len() == host.len()) {
            return Err("its host is no name, and no IP address (one of version 6 is in brackets)");
        }
        if port == 0 {
            return Err("its port is 0");
        }
        Ok(Portal { host: host.to_owned(), port })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.discovery { DISCOVERY_SCHEME } else { SCHEME })?;
        for (i, portal) in self.portals.iter().enumerate() {
            write!(f, "{}{portal}", if i > 0 { "," } else { "" })?;
        }
        write!(f, "/{}/{}", self.nqn, self.nsid)
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
        let (discovery, rest) = match (text.strip_prefix(SCHEME), text.strip_prefix(DISCOVERY_SCHEME)) {
            (Some(rest), _) => (false, rest),
            (None, Some(rest)) => (true, rest),
            _ => return Err(wrong("it does not begin with nvme-tcp:// or nvme-tcp+discovery://")),
        };
        let (ports, name) = rest.split_once('/').ok_or_else(|| wrong("it has no NQN"))?;
        let mut portals: Vec<Portal> = Vec::new();
        for text in ports.split(',') {
            let portal = text.parse().map_err(wrong)?;
            if portals.contains(&portal) {
                return Err(wrong("it has a port twice"));
            }
            portals.push(portal);
        }
        if portals.len() > MAX_PORTALS {
            return Err(wrong("it has more than 16 ports"));
        }
        // An NQN may have slashes in it.
        let (nqn, nsid) =
            name.rsplit_once('/').ok_or_else(|| wrong("it has no number of a namespace after its NQN"))?;
        let nsid: u32 = nsid.parse().map_err(|_| wrong("what follows its last slash is not a number"))?;
        if nsid == 0 || nsid == u32::MAX {
            return Err(wrong("the number of its namespace is 0, or the number that means all"));
        }
        if !nqn.starts_with("nqn.") || nqn.len() > MAX_NQN || nqn.bytes().any(|b| b.is_ascii_control()) {
            return Err(wrong("its NQN does not begin with \"nqn.\", or is longer than 223 bytes"));
        }
        Ok(Address { portals, discovery, nqn: nqn.to_owned(), nsid })
    }
}
