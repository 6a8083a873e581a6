//! The TLS configuration of a client: the system's authorities, other authorities, or no check.
//!
//! Must not depend on: connections, requests.

use std::sync::Arc;

use rustls::ClientConfig;
use tokio_rustls::TlsConnector;

use crate::{
    config::Tls,
    error::{Error, Result},
};

/// The connector for these settings. Fails if an authority is not a certificate or the TLS library is set up
/// wrongly.
pub(crate) fn connector(tls: &Tls) -> Result<TlsConnector> {
    Ok(TlsConnector::from(tls_config(tls)?))
}

/// Its configuration, for callers that open their own connections.
pub fn tls_config(tls: &Tls) -> Result<Arc<ClientConfig>> {
    ashlar_outbound::tls::config(&tls.authorities, tls.insecure).map_err(|e| Error::Invalid(e.to_string()))
}
