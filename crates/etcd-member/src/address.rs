//! The members of the control store: who they are, and where they are reached.
//!
//! Invariant: a list has one, three or five members, each with its own host.
//!
//! Must not depend on: what runs there.

use std::fmt;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::{Error, Result};

/// Ports of etcd as registered with IANA: for clients, and for other members.
const PORTS: (u16, u16) = (2379, 2380);

/// Where one member is reached.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Address {
    /// The host: a name, an IPv4 address, or an IPv6 address in brackets.
    pub host: String,
    /// The port for clients.
    pub client: u16,
    /// The port for other members.
    pub peer: u16,
}

impl Address {
    /// Reads `HOST` or `HOST:CLIENT:PEER`.
    ///
    /// # Errors
    /// `Settings`.
    pub fn parse(text: &str) -> Result<Address> {
        let bad = |why: &str| Error::Settings(format!("{text:?}: {why}"));
        let form = || bad("expected HOST or HOST:CLIENT-PORT:PEER-PORT");
        let (host, ports) = match text.strip_prefix('[') {
            Some(rest) => {
                let (inside, ports) = rest.split_once(']').ok_or_else(form)?;
                inside.parse::<std::net::Ipv6Addr>().map_err(|_| bad("not an IPv6 address in brackets"))?;
                (format!("[{inside}]"), ports)
            }
            None => match text.find(':') {
                Some(at) => (text[..at].to_owned(), &text[at..]),
                None => (text.to_owned(), ""),
            },
        };
        let allowed = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'-' | b'.');
        if !host.starts_with('[') && (host.is_empty() || !host.bytes().all(allowed)) {
            return Err(form());
        }
        let (client, peer) = match ports.strip_prefix(':') {
            None if ports.is_empty() => PORTS,
            None => return Err(form()),
            Some(ports) => {
                let (client, peer) = ports.split_once(':').ok_or_else(form)?;
                let port = |text: &str| text.parse::<u16>().ok().filter(|p| *p > 0).ok_or_else(form);
                (port(client)?, port(peer)?)
            }
        };
        if client == peer {
            return Err(bad("the two ports must differ"));
        }
        let address = Address { host: host.to_ascii_lowercase(), client, peer };
        if address.ip().is_some_and(|ip| ip.is_unspecified()) {
            return Err(bad("not an address that others can reach"));
        }
        Ok(address)
    }

    /// The host as an IP address, if it is one.
    #[must_use]
    pub fn ip(&self) -> Option<IpAddr> {
        self.host.trim_start_matches('[').trim_end_matches(']').parse().ok()
    }

    /// Whether only processes of its own machine reach it.
    #[must_use]
    pub fn is_loopback(&self) -> bool {
        self.host == "localhost" || self.ip().is_some_and(|ip| ip.is_loopback())
    }

    /// The URL for clients.
    #[must_use]
    pub fn client_url(&self, scheme: &str) -> String {
        format!("{scheme}://{}:{}", self.host, self.client)
    }

    /// The URL for other members.
    #[must_use]
    pub fn peer_url(&self, scheme: &str) -> String {
        format!("{scheme}://{}:{}", self.host, self.peer)
    }

    /// The name that its etcd has: where others reach it.
    #[must_use]
    pub fn name(&self) -> String {
        format!("{}:{}", self.host, self.peer)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.client, self.peer) == PORTS {
            true => f.write_str(&self.host),
            false => write!(f, "{}:{}:{}", self.host, self.client, self.peer),
        }
    }
}

impl TryFrom<String> for Address {
    type Error = Error;
    fn try_from(text: String) -> Result<Address> {
        Address::parse(&text)
    }
}

impl From<Address> for String {
    fn from(address: Address) -> String {
        address.to_string()
    }
}

/// The members: one, three or five, in ascending order.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(try_from = "Vec<Address>", into = "Vec<Address>")]
pub struct Members(Vec<Address>);

impl Members {
    /// Reads addresses separated by commas.
    ///
    /// # Errors
    /// `Settings`.
    pub fn parse(text: &str) -> Result<Members> {
        let all: Result<Vec<Address>> = text.split(',').map(|one| Address::parse(one.trim())).collect();
        Members::try_from(all?)
    }

    /// All of them.
    #[must_use]
    pub fn all(&self) -> &[Address] {
        &self.0
    }

    /// The member of a node with this host.
    #[must_use]
    pub fn of_host(&self, host: &str) -> Option<&Address> {
        let host = host.to_ascii_lowercase();
        self.0.iter().find(|address| address.host == host)
    }

    /// Whether all are on this machine.
    #[must_use]
    pub fn are_loopback(&self) -> bool {
        self.0.iter().all(Address::is_loopback)
    }

    /// The URLs for clients, in the order in which a node asks them: those on other machines first, so that its clock is
    /// compared with another one.
    #[must_use]
    pub fn endpoints(&self, scheme: &str, own: Option<&Address>) -> Vec<String> {
        let others = self.0.iter().filter(|a| Some(*a) != own);
        let own = self.0.iter().filter(|a| Some(*a) == own);
        others.chain(own).map(|a| a.client_url(scheme)).collect()
    }
}

impl TryFrom<Vec<Address>> for Members {
    type Error = Error;
    fn try_from(mut all: Vec<Address>) -> Result<Members> {
        if !matches!(all.len(), 1 | 3 | 5) {
            return Err(Error::Settings(format!(
                "{} members: one, three or five are needed, because a majority of them decides",
                all.len()
            )));
        }
        all.sort();
        match all.windows(2).find(|pair| pair[0].host == pair[1].host) {
            Some(pair) => Err(Error::Settings(format!(
                "{} is named twice: each member is on a node of its own",
                pair[0].host
            ))),
            None => Ok(Members(all)),
        }
    }
}

impl From<Members> for Vec<Address> {
    fn from(members: Members) -> Vec<Address> {
        members.0
    }
}

impl fmt::Display for Members {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        f.write_str(&all.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_parsed() {
        let list = Members::parse("10.0.0.6, 10.0.0.4:4001:4002,[::1]").unwrap();
        assert_eq!(list.to_string(), "10.0.0.4:4001:4002,10.0.0.6,[::1]");
        assert_eq!(Members::parse(&list.to_string()).unwrap(), list);
        let own = list.of_host("10.0.0.4").unwrap().clone();
        assert_eq!((own.client, own.peer, own.name().as_str()), (4001, 4002, "10.0.0.4:4002"));
        assert_eq!(
            list.endpoints("https", Some(&own)),
            ["https://10.0.0.6:2379", "https://[::1]:2379", "https://10.0.0.4:4001"]
        );
        assert_eq!(list.of_host("10.0.0.5"), None);
        assert_eq!(
            Members::parse("NODE1").unwrap().of_host("node1").unwrap().peer_url("http"),
            "http://node1:2380"
        );
        let stored = serde_json::to_string(&list).unwrap();
        assert_eq!(stored, r#"["10.0.0.4:4001:4002","10.0.0.6","[::1]"]"#);
        assert_eq!(serde_json::from_str::<Members>(&stored).unwrap(), list);
    }

    #[test]
    fn bad_lists_are_refused() {
        for (bad, why) in [
            ("", "expected HOST"),
            ("a,b", "2 members: one, three or five"),
            ("a,b,c,d", "4 members"),
            ("a,b,c,d,e,f,g", "7 members"),
            ("a,b,a", "a is named twice"),
            ("A,b,a:1:2", "a is named twice"),
            ("a:2379", "HOST:CLIENT-PORT:PEER-PORT"),
            ("a:1:1", "must differ"),
            ("a:0:1", "expected HOST"),
            ("a:1:2:3", "expected HOST"),
            ("http://a", "expected HOST"),
            ("::1", "expected HOST"),
            ("[::x]", "IPv6"),
            ("[::1", "expected HOST"),
            ("[::1]5", "expected HOST"),
            ("0.0.0.0", "others can reach"),
            ("[::]", "others can reach"),
            ("a b", "expected HOST"),
        ] {
            let said = Members::parse(bad).unwrap_err().to_string();
            assert!(said.contains(why), "{bad}: {said}");
        }
    }

    #[test]
    fn loopback_is_recognised() {
        for (text, loopback) in
            [("127.0.0.9", true), ("[::1]", true), ("localhost", true), ("10.0.0.1", false), ("node1", false)]
        {
            assert_eq!(Members::parse(text).unwrap().are_loopback(), loopback, "{text}");
        }
        assert!(!Members::parse("127.0.0.1,127.0.0.2,10.0.0.1").unwrap().are_loopback());
    }
}
