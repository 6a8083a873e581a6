//! Destinations of requests: endpoints, their ranges and addresses.
//!
//! Must not depend on: requests.

use std::net::{SocketAddr, ToSocketAddrs};

use crate::{Error, Result};

/// The most hosts a list may stand for.
pub const MAX: usize = 1024;

/// One endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// Whether TLS is spoken.
    pub tls: bool,
    /// The name without port.
    pub name: String,
    /// The value of the `host` header: the port is left out if it is the scheme's own.
    pub authority: String,
    /// Its addresses, tried in order.
    pub addresses: Vec<SocketAddr>,
}

impl Host {
    /// Parses `http://host[:port]`, `https://...` or `host[:port]` (plain HTTP) and resolves it.
    ///
    /// # Errors
    /// [`Error::Usage`] if it is no endpoint, [`Error::Setup`] if the name has no address.
    pub fn parse(text: &str) -> Result<Host> {
        let bad = |why: &str| Error::usage(format!("endpoint `{text}`: {why}"));
        let (tls, rest) = match text.split_once("://") {
            Some(("http", rest)) => (false, rest),
            Some(("https", rest)) => (true, rest),
            Some(_) => return Err(bad("must begin with http:// or https://")),
            None => (false, text),
        };
        let rest = rest.trim_end_matches('/');
        if rest.is_empty() || rest.contains(['/', '?', '#', '@', ' ']) {
            return Err(bad("expected http(s)://HOST[:PORT] and nothing after it"));
        }
        let default = if tls { 443 } else { 80 };
        // A colon after the last bracket parts the port; `[::1]:9000` is an address of version 6.
        let colon = rest.rfind(':').filter(|at| rest.rfind(']').is_none_or(|bracket| *at > bracket));
        let (name, port) = match colon {
            Some(at) => (&rest[..at], rest[at + 1..].parse().map_err(|_| bad("the port is not a number"))?),
            None => (rest, default),
        };
        if name.is_empty() {
            return Err(bad("the host is missing"));
        }
        let authority = if port == default { name.to_owned() } else { format!("{name}:{port}") };
        let bare = name.trim_start_matches('[').trim_end_matches(']');
        let addresses: Vec<SocketAddr> = (bare, port)
            .to_socket_addrs()
            .map_err(|e| Error::setup(format!("endpoint `{text}`: {e}")))?
            .collect();
        if addresses.is_empty() {
            return Err(Error::setup(format!("endpoint `{text}`: the name has no address")));
        }
        Ok(Host { tls, name: bare.to_owned(), authority, addresses })
    }

    /// The endpoint as a URL.
    pub fn url(&self) -> String {
        format!("{}://{}", if self.tls { "https" } else { "http" }, self.authority)
    }
}

/// Expands a comma-separated list with ranges: `http://h{1...2}:9000,x` is three endpoints. The
/// leftmost range counts slowest; `{01...10}` keeps its width.
///
/// # Errors
/// [`Error::Usage`] for ranges that make no sense, double names, or more than [`MAX`].
pub fn expand(list: &str) -> Result<Vec<String>> {
    let mut out = Vec::new();
    for item in list.split(',').map(str::trim).filter(|item| !item.is_empty()) {
        expand_one(item, &mut out)?;
    }
    for (i, name) in out.iter().enumerate() {
        if out[..i].contains(name) {
            return Err(Error::usage(format!("`{name}` is named twice")));
        }
    }
    if out.is_empty() {
        return Err(Error::usage("the list of hosts is empty"));
    }
    Ok(out)
}

fn expand_one(text: &str, out: &mut Vec<String>) -> Result<()> {
    let bad = || Error::usage(format!("`{text}`: a range looks like {{1...4}}, the lower number first"));
    let Some(open) = text.find('{') else {
        if text.contains('}') {
            return Err(bad());
        }
        if out.len() == MAX {
            return Err(Error::usage(format!("more than {MAX} hosts are named")));
        }
        out.push(text.to_owned());
        return Ok(());
    };
    let close = text[open..].find('}').map(|i| open + i).ok_or_else(bad)?;
    let (first, last) = text[open + 1..close].split_once("...").ok_or_else(bad)?;
    let number = |digits: &str| -> Result<u64> {
        let plain = !digits.is_empty() && digits.len() < 10 && digits.bytes().all(|b| b.is_ascii_digit());
        digits.parse().ok().filter(|_| plain).ok_or_else(bad)
    };
    let (from, to) = (number(first)?, number(last)?);
    if from > to || to - from >= MAX as u64 {
        return Err(bad());
    }
    let width = if first.starts_with('0') { first.len() } else { 0 };
    for n in from..=to {
        expand_one(&format!("{}{n:0width$}{}", &text[..open], &text[close + 1..]), out)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_and_ranges_are_expanded() {
        assert_eq!(expand("a{1...2}:9,b").unwrap(), ["a1:9", "a2:9", "b"]);
        assert_eq!(expand("h{08...10}").unwrap(), ["h08", "h09", "h10"]);
        assert_eq!(expand("r{1...2}n{1...2}").unwrap(), ["r1n1", "r1n2", "r2n1", "r2n2"]);
        for bad in ["", "a{1..2}", "a{2...1}", "a{1...2", "a}", "a,a", "a{1...9999}"] {
            assert!(expand(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn endpoints_are_parsed() {
        let host = Host::parse("http://127.0.0.1:9000/").unwrap();
        assert_eq!((host.tls, host.authority.as_str()), (false, "127.0.0.1:9000"));
        assert_eq!(host.addresses, ["127.0.0.1:9000".parse().unwrap()]);
        assert_eq!(Host::parse("https://127.0.0.1:443").unwrap().authority, "127.0.0.1");
        let six = Host::parse("[::1]:9000").unwrap();
        assert_eq!((six.name.as_str(), six.authority.as_str()), ("::1", "[::1]:9000"));
        for bad in ["ftp://x", "http://", "http://a/b", "http://a:x", "http://u@h", ":80"] {
            assert!(Host::parse(bad).is_err(), "{bad}");
        }
    }
}
