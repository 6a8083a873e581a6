//! Whom a node trusts: the authorities of its cluster, without the certificates that were withdrawn.
//!
//! Invariants: a certificate is accepted only if an authority of the cluster signed it, it is in its period of
//! validity, it is for the required usage, it names one node of this cluster, and it was not withdrawn. No
//! certificate between it and the authority is accepted. Only TLS 1.3 signatures are.
//!
//! Must not depend on: connections.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ashlar_format::DeploymentId;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls13_signature};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, PeerIncompatible, SignatureScheme};
use rustls_pki_types::{CertificateDer, ServerName, TrustAnchor, UnixTime};
use webpki::{EndEntityCert, KeyUsage};

use crate::error::{Error, Result};
use crate::identity::{node_of, validity};

/// Most authorities at once.
const AUTHORITIES: usize = 16;

/// The authorities that a node trusts, and the certificates that it does not.
#[derive(Clone, Debug)]
pub struct Trust {
    cluster: DeploymentId,
    anchors: Vec<TrustAnchor<'static>>,
    serials: BTreeSet<Vec<u8>>,
    earliest: BTreeMap<u16, i64>,
    removed: BTreeSet<u16>,
}

impl Trust {
    /// Trusts these authorities (certificates in DER).
    ///
    /// # Errors
    /// [`Error::Identity`] if there are none, more than 16, or one cannot be used.
    pub fn new<'a>(cluster: DeploymentId, authorities: impl IntoIterator<Item = &'a [u8]>) -> Result<Trust> {
        let mut anchors = Vec::new();
        for certificate in authorities {
            let certificate = CertificateDer::from(certificate);
            let anchor = webpki::anchor_from_trusted_cert(&certificate)
                .map_err(|e| Error::identity("certificate of an authority", e))?;
            anchors.push(anchor.to_owned());
        }
        if anchors.is_empty() || anchors.len() > AUTHORITIES {
            return Err(Error::Identity(format!(
                "a cluster has 1 to {AUTHORITIES} authorities, not {}",
                anchors.len()
            )));
        }
        Ok(Trust {
            cluster,
            anchors,
            serials: BTreeSet::new(),
            earliest: BTreeMap::new(),
            removed: BTreeSet::new(),
        })
    }

    /// Withdraws the certificate with this serial number.
    #[must_use]
    pub fn without_serial(mut self, serial: &[u8]) -> Trust {
        self.serials.insert(serial.to_vec());
        self
    }

    /// Withdraws every certificate of a node that became valid before a time, in seconds since 1970.
    #[must_use]
    pub fn without_before(mut self, node: u16, not_before: i64) -> Trust {
        self.earliest.insert(node, not_before);
        self
    }

    /// Withdraws every certificate of a node, whenever it was issued: the node was removed from the cluster.
    #[must_use]
    pub fn without_node(mut self, node: u16) -> Trust {
        self.removed.insert(node);
        self
    }

    /// The cluster.
    #[must_use]
    pub fn cluster(&self) -> DeploymentId {
        self.cluster
    }

    /// The node that a certificate names, if it is trusted.
    pub(crate) fn verify(
        &self,
        certificate: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        usage: KeyUsage,
        now: UnixTime,
    ) -> Result<u16> {
        let refused = |e: &dyn std::fmt::Display| Error::Unauthorized(format!("certificate: {e}"));
        if !between.is_empty() {
            return Err(refused(&"an authority of the cluster must have signed it itself"));
        }
        let parsed = EndEntityCert::try_from(certificate).map_err(|e| refused(&e))?;
        let algorithms = webpki::ALL_VERIFICATION_ALGS;
        parsed
            .verify_for_usage(algorithms, &self.anchors, &[], now, usage, None, None)
            .map_err(|e| refused(&e))?;
        let node = node_of(certificate, self.cluster)?;
        if self.removed.contains(&node) {
            return Err(refused(&format!("node {node} was removed from the cluster")));
        }
        if self.serials.contains(parsed.serial()) {
            return Err(refused(&"withdrawn"));
        }
        if let Some(earliest) = self.earliest.get(&node)
            && validity(certificate)?.0 < *earliest
        {
            return Err(refused(&"withdrawn, because the node has a newer one"));
        }
        Ok(node)
    }
}

/// The serial number of a certificate, for [`Trust::without_serial`].
///
/// # Errors
/// [`Error::Identity`] if it is no certificate.
pub fn serial_of(certificate: &[u8]) -> Result<Vec<u8>> {
    let certificate = CertificateDer::from(certificate);
    let parsed = EndEntityCert::try_from(&certificate).map_err(|e| Error::identity("certificate", e))?;
    Ok(parsed.serial().to_vec())
}

/// The rustls verifier of either end of a connection.
#[derive(Debug)]
pub(crate) struct Verifier {
    pub(crate) trust: Arc<Trust>,
    pub(crate) provider: Arc<CryptoProvider>,
    /// The node that was dialled; none at the server, which learns it.
    pub(crate) expected: Option<u16>,
}

impl Verifier {
    fn verify(
        &self,
        certificate: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        usage: KeyUsage,
        now: UnixTime,
    ) -> Result<(), rustls::Error> {
        let refused = |e: Error| {
            rustls::Error::InvalidCertificate(CertificateError::Other(rustls::OtherError(Arc::new(e))))
        };
        let node = self.trust.verify(certificate, between, usage, now).map_err(refused)?;
        match self.expected {
            Some(expected) if expected != node => Err(refused(Error::Unauthorized(format!(
                "the certificate is of node {node}, not of node {expected}"
            )))),
            _ => Ok(()),
        }
    }

    fn signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

const NO_TLS12: rustls::Error = rustls::Error::PeerIncompatible(PeerIncompatible::Tls12NotOffered);

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        self.verify(certificate, between, KeyUsage::server_auth(), now)?;
        Ok(ServerCertVerified::assertion())
    }
    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(NO_TLS12)
    }
    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.signature(message, certificate, signed)
    }
    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.schemes()
    }
}

impl ClientCertVerifier for Verifier {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }
    fn verify_client_cert(
        &self,
        certificate: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        self.verify(certificate, between, KeyUsage::client_auth(), now)?;
        Ok(ClientCertVerified::assertion())
    }
    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(NO_TLS12)
    }
    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.signature(message, certificate, signed)
    }
    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.schemes()
    }
}
