//! TLS settings: the rules of the `client` crate (system roots, own authorities, or no check).
//!
//! Must not depend on: connections.

use std::sync::Arc;

use crate::{Error, Result};

/// The configuration for all connections: `insecure` accepts any certificate, `authority` is PEM
/// that replaces the system's roots.
///
/// # Errors
/// [`Error::Usage`] if the authority is no certificate.
pub fn client_config(insecure: bool, authority: Option<&str>) -> Result<Arc<rustls::ClientConfig>> {
    let authorities = authority.iter().map(|pem| pem.as_bytes().to_vec()).collect();
    ashlar_client::tls_config(&ashlar_client::Tls { insecure, authorities })
        .map_err(|e| Error::usage(e.to_string()))
}
