//! The part of a URL that a connection needs.
//!
//! Invariants: the scheme is http or https, there is a host, there are no credentials; the checked host is
//! the one that is connected to.

use http::{HeaderValue, Uri};

use crate::{Error, Result};

/// A parsed URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    /// Whether the scheme is https.
    pub https: bool,
    /// A name or an address, without brackets.
    pub host: String,
    /// The port.
    pub port: u16,
    /// The value of the `host` header: without a default port.
    pub authority: HeaderValue,
    /// Path and query, as they go on the wire.
    pub path: Uri,
}

impl Url {
    /// Parses a URL.
    ///
    /// # Errors
    /// It is not http or https, has no host, or contains credentials. The error does not contain the text,
    /// because a query may contain a secret.
    pub fn parse(text: &str) -> Result<Url> {
        let bad = |why: &str| Error::Invalid(format!("the URL {why}"));
        let text = text.split_once('#').map_or(text, |(before, _)| before);
        let uri: Uri = text.parse().map_err(|_| bad("is not understood"))?;
        let https = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return Err(bad("must begin with https:// or http://")),
        };
        let authority = uri.authority().ok_or_else(|| bad("has no host"))?;
        if authority.as_str().contains('@') {
            return Err(bad("has credentials in it"));
        }
        let name = authority.host();
        let host = name.trim_start_matches('[').trim_end_matches(']').to_ascii_lowercase();
        if host.is_empty() {
            return Err(bad("has no host"));
        }
        let usual = if https { 443 } else { 80 };
        let port = match authority.as_str().strip_prefix(name).map(|rest| rest.strip_prefix(':')) {
            Some(None) => usual,
            Some(Some(text)) => {
                text.parse().ok().filter(|p| *p > 0).ok_or_else(|| bad("has no valid port"))?
            }
            None => return Err(bad("has no valid host")),
        };
        let shown = if port == usual { name.to_owned() } else { format!("{name}:{port}") };
        let authority = HeaderValue::from_str(&shown).map_err(|_| bad("has no valid host"))?;
        let path = uri.path_and_query().map_or("/", |p| p.as_str());
        let path = path.parse().map_err(|_| bad("has no valid path"))?;
        Ok(Url { https, host, port, authority, path })
    }

    /// Scheme, host and port: the key of kept connections.
    pub fn origin(&self) -> String {
        format!("{}://{}:{}", if self.https { "https" } else { "http" }, self.host, self.port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_parsed() {
        let url = Url::parse("https://Example.org/a/b?c=d#e").unwrap();
        assert_eq!((url.https, url.host.as_str(), url.port), (true, "example.org", 443));
        assert_eq!(url.path.to_string(), "/a/b?c=d");
        let url = Url::parse("http://[::1]:8080").unwrap();
        assert_eq!(
            (url.host.as_str(), url.port, url.authority.to_str().unwrap()),
            ("::1", 8080, "[::1]:8080")
        );
        assert_eq!(url.path.to_string(), "/");
        for bad in [
            "",
            "example.org",
            "ftp://a/",
            "file:///etc/passwd",
            "http://",
            "http://u:p@h/",
            "http://h:0/",
            "http://h:99999/",
            "http://a b/",
        ] {
            assert!(Url::parse(bad).is_err(), "{bad}");
        }
    }
}
