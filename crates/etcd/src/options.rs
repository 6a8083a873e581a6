//! Where etcd is, and how it is spoken to.
//!
//! Invariant: what [`Options::check`] accepts makes valid URLs and keys.
//!
//! Must not depend on: requests.

use ashlar_outbound::tls::Identity;

use crate::{Error, Result};

/// Longest name of a cluster.
const MAX_NAME: usize = 64;
/// Most endpoints.
const MAX_ENDPOINTS: usize = 16;

/// Where etcd is, and how it is spoken to.
#[derive(Clone)]
pub struct Options {
    /// The client URLs of members: `http://HOST:PORT` or `https://HOST:PORT`.
    pub endpoints: Vec<String>,
    /// The name of the cluster: everything is under `/ashlar/NAME/`.
    pub cluster: String,
    /// Certificate authorities of the endpoints, in PEM; none: the system's.
    pub authorities: Vec<Vec<u8>>,
    /// The client certificate, if etcd requires one.
    pub certificate: Option<Identity>,
    /// User and password, if etcd has authentication enabled.
    pub user: Option<(String, String)>,
}

impl std::fmt::Debug for Options {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let user = self.user.as_ref().map(|(name, _)| name);
        f.debug_struct("Options")
            .field("endpoints", &self.endpoints)
            .field("cluster", &self.cluster)
            .field("user", &user)
            .finish_non_exhaustive()
    }
}

impl Options {
    /// The endpoints of `etcd://HOST:PORT,HOST:PORT`, or with TLS `etcds://...`. The port is 2379 if it is
    /// left out.
    ///
    /// # Errors
    /// `Settings`.
    pub fn parse(control: &str, cluster: &str) -> Result<Options> {
        let bad = |why: &str| Error::Settings(format!("{control:?}: {why}"));
        let (scheme, hosts) = match control.split_once("://") {
            Some(("etcd", hosts)) => ("http", hosts),
            Some(("etcds", hosts)) => ("https", hosts),
            _ => return Err(bad("must begin with etcd:// or, with TLS, etcds://")),
        };
        let endpoint = |host: &str| {
            let has_port = host.rsplit_once(':').is_some_and(|(_, port)| !port.ends_with(']'));
            format!("{scheme}://{host}{}", if has_port { "" } else { ":2379" })
        };
        let options = Options {
            endpoints: hosts.trim_end_matches('/').split(',').map(endpoint).collect(),
            cluster: cluster.to_owned(),
            authorities: Vec::new(),
            certificate: None,
            user: None,
        };
        options.check()?;
        Ok(options)
    }

    /// Checks names and URLs.
    ///
    /// # Errors
    /// `Settings`.
    pub fn check(&self) -> Result<()> {
        let name = &self.cluster;
        let allowed = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'-' | b'_' | b'.');
        if name.is_empty() || name.len() > MAX_NAME || !name.bytes().all(allowed) {
            return Err(Error::Settings(format!(
                "{name:?} is no name of a cluster: 1 to {MAX_NAME} letters, digits, '-', '_' and '.'"
            )));
        }
        if self.endpoints.is_empty() || self.endpoints.len() > MAX_ENDPOINTS {
            return Err(Error::Settings(format!("1 to {MAX_ENDPOINTS} endpoints are needed")));
        }
        for endpoint in &self.endpoints {
            let url = ashlar_outbound::Url::parse(endpoint)
                .map_err(|e| Error::Settings(format!("{endpoint:?}: {e}")))?;
            if url.path.path() != "/" || url.path.query().is_some() {
                return Err(Error::Settings(format!("{endpoint:?}: an endpoint has no path")));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_are_parsed() {
        let parsed = |control: &str| Options::parse(control, "prod").map(|o| o.endpoints);
        assert_eq!(
            parsed("etcd://10.0.0.1:2379,e2,[::1],[::1]:5").unwrap(),
            ["http://10.0.0.1:2379", "http://e2:2379", "http://[::1]:2379", "http://[::1]:5"]
        );
        assert_eq!(parsed("etcds://e1/").unwrap(), ["https://e1:2379"]);
        for bad in ["", "etcd://", "http://a", "etcd://a,,b", "etcd://u:p@a", "etcd://a/path", "etcd://a:0"] {
            assert!(matches!(parsed(bad), Err(Error::Settings(_))), "{bad}");
        }
        for bad in ["", "a/b", "a b", "\u{e9}", &"x".repeat(65)] {
            assert!(matches!(Options::parse("etcd://a", bad), Err(Error::Settings(_))), "{bad}");
        }
    }
}
