//! What a node proves itself with and whom it trusts, replaceable while connections exist.
//!
//! Invariants: TLS 1.3 only, a certificate is required of both ends, no session is resumed, no data is sent
//! before the handshake ends. Both ends take all of their configuration from one state, so that a change of
//! identity and trust is never seen in halves.
//!
//! Must not depend on: sockets.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use ashlar_environment::time::wall_ms;
use rustls::client::Resumption;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::server::NoServerSessionStorage;
use rustls::sign::SingleCertAndKey;
use rustls::time_provider::TimeProvider;
use rustls::{ClientConfig, ServerConfig};
use rustls_pki_types::{CertificateDer, UnixTime};
use tokio::sync::watch;
use webpki::KeyUsage;

use crate::error::{Error, Result};
use crate::identity::Identity;
use crate::trust::{Trust, Verifier};

/// The protocol that both ends name in the handshake, so that no other server or client is mistaken for a node.
const PROTOCOL: &[u8] = b"ashlar-node";

struct State {
    identity: Identity,
    trust: Arc<Trust>,
    server: Arc<ServerConfig>,
}

/// The identity and the trust of a node.
pub struct Credentials {
    state: ArcSwap<State>,
    changes: watch::Sender<u64>,
}

impl Credentials {
    /// The credentials of a node.
    ///
    /// # Errors
    /// [`Error::Identity`] if identity and trust are of different clusters, or the node would not trust its
    /// own certificate.
    pub fn new(identity: Identity, trust: Trust) -> Result<Arc<Credentials>> {
        let state = State::new(identity, trust)?;
        Ok(Arc::new(Credentials { state: ArcSwap::from_pointee(state), changes: watch::Sender::new(0) }))
    }

    /// Replaces both. New connections use them at once. Connections of peers that are no longer trusted are
    /// closed; connections that a [`crate::Peer`] made with another certificate are replaced by new ones.
    ///
    /// # Errors
    /// As for [`Credentials::new`], and if the identity is of another node or cluster.
    pub fn replace(&self, identity: Identity, trust: Trust) -> Result<()> {
        let now = self.identity();
        if (now.cluster(), now.node()) != (identity.cluster(), identity.node()) {
            return Err(Error::Identity("the new certificate is of another node".into()));
        }
        self.state.store(Arc::new(State::new(identity, trust)?));
        self.changes.send_modify(|n| *n += 1);
        Ok(())
    }

    /// The present identity.
    #[must_use]
    pub fn identity(&self) -> Identity {
        self.state.load().identity.clone()
    }

    /// Changes whenever the credentials are replaced.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// The configuration of a server.
    pub(crate) fn server(&self) -> Arc<ServerConfig> {
        self.state.load().server.clone()
    }

    /// The configuration of a client that dials a node.
    pub(crate) fn client(&self, node: u16) -> Result<Arc<ClientConfig>> {
        self.client_with(node, provider()).map(Arc::new)
    }

    pub(crate) fn client_with(&self, node: u16, provider: Arc<CryptoProvider>) -> Result<ClientConfig> {
        let state = self.state.load();
        let wrong = |e: rustls::Error| Error::identity("TLS", e);
        let verifier =
            Verifier { trust: state.trust.clone(), provider: provider.clone(), expected: Some(node) };
        let mut config = ClientConfig::builder_with_details(provider, Arc::new(Clock))
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(wrong)?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier))
            .with_client_cert_resolver(Arc::new(SingleCertAndKey::from(state.identity.certified())));
        config.resumption = Resumption::disabled();
        config.enable_sni = false;
        config.alpn_protocols = vec![PROTOCOL.to_vec()];
        Ok(config)
    }

    /// The configuration of a server with another provider.
    #[cfg(test)]
    pub(crate) fn server_with(&self, provider: Arc<CryptoProvider>) -> Result<ServerConfig> {
        let state = self.state.load();
        server_config(&state.identity, &state.trust, provider)
    }

    /// The node of a certificate, if it is trusted now.
    pub(crate) fn verify(&self, certificate: &CertificateDer<'_>, usage: KeyUsage) -> Result<u16> {
        self.state.load().trust.verify(certificate, &[], usage, now())
    }
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Credentials({:?})", self.identity())
    }
}

impl State {
    fn new(identity: Identity, trust: Trust) -> Result<State> {
        if identity.cluster() != trust.cluster() {
            return Err(Error::Identity("the certificate is of another cluster".into()));
        }
        let Some(own) = identity.certificate() else {
            return Err(Error::Identity("no certificate".into()));
        };
        trust
            .verify(own, &[], KeyUsage::server_auth(), now())
            .map_err(|e| Error::identity("the node's own certificate is not trusted", e))?;
        let trust = Arc::new(trust);
        let server = Arc::new(server_config(&identity, &trust, provider())?);
        Ok(State { identity, trust, server })
    }
}

fn server_config(
    identity: &Identity,
    trust: &Arc<Trust>,
    provider: Arc<CryptoProvider>,
) -> Result<ServerConfig> {
    let verifier = Verifier { trust: trust.clone(), provider: provider.clone(), expected: None };
    let mut server = ServerConfig::builder_with_details(provider, Arc::new(Clock))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(|e| Error::identity("TLS", e))?
        .with_client_cert_verifier(Arc::new(verifier))
        .with_cert_resolver(Arc::new(SingleCertAndKey::from(identity.certified())));
    server.session_storage = Arc::new(NoServerSessionStorage {});
    server.send_tls13_tickets = 0;
    server.alpn_protocols = vec![PROTOCOL.to_vec()];
    Ok(server)
}

/// AES-128-GCM first: it takes a quarter less time per byte than AES-256-GCM.
fn provider() -> Arc<CryptoProvider> {
    use aws_lc_rs::cipher_suite as suite;
    Arc::new(CryptoProvider {
        cipher_suites: vec![
            suite::TLS13_AES_128_GCM_SHA256,
            suite::TLS13_AES_256_GCM_SHA384,
            suite::TLS13_CHACHA20_POLY1305_SHA256,
        ],
        ..aws_lc_rs::default_provider()
    })
}

fn now() -> UnixTime {
    UnixTime::since_unix_epoch(Duration::from_millis(wall_ms().max(0).unsigned_abs()))
}

/// The clock that certificates are judged by.
#[derive(Debug)]
struct Clock;

impl TimeProvider for Clock {
    fn current_time(&self) -> Option<UnixTime> {
        Some(now())
    }
}
