//! The identity of a node: its private key, its certificate, and the name in the certificate.
//!
//! A node makes its key itself. Only a certificate request leaves it ([`NodeKey::request`]), and the cluster's
//! authority answers with a certificate for a node number ([`crate::Authority::sign`]).
//!
//! Invariants: a certificate names one node of one cluster, in one way: the URI
//! `ashlar://CLUSTER/node/NUMBER`, cluster in hexadecimal. No private key is shown by `Debug`.
//!
//! Must not depend on: connections.

use std::fmt;
use std::sync::Arc;

use ashlar_format::DeploymentId;
use rcgen::{CertificateParams, KeyPair, PKCS_ECDSA_P256_SHA256};
use rustls::crypto::aws_lc_rs;
use rustls::sign::CertifiedKey;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use webpki::EndEntityCert;
use x509_cert::Certificate;
use x509_cert::der::Decode as _;
use x509_cert::time::Time;
use zeroize::Zeroizing;

use crate::error::{Error, Result};

/// The name of a node in its certificate.
pub(crate) fn name(cluster: DeploymentId, node: u16) -> String {
    format!("ashlar://{}/node/{node}", cluster.to_hex())
}

/// The node that a certificate of this cluster names. Verifies nothing else.
///
/// # Errors
/// [`Error::Unauthorized`] if it names no node, several, or one of another cluster.
pub(crate) fn node_of(certificate: &CertificateDer<'_>, cluster: DeploymentId) -> Result<u16> {
    let unauthorized = |why: &str| Error::Unauthorized(why.to_owned());
    let parsed =
        EndEntityCert::try_from(certificate).map_err(|e| Error::Unauthorized(format!("certificate: {e}")))?;
    let mut names = parsed.valid_uri_names();
    let (Some(found), None) = (names.next(), names.next()) else {
        return Err(unauthorized("the certificate does not name exactly one node"));
    };
    let node = found.rsplit('/').next().and_then(|number| number.parse::<u16>().ok());
    match node {
        Some(node) if found == name(cluster, node) => Ok(node),
        Some(node) if found.ends_with(&format!("/node/{node}")) => {
            Err(unauthorized("the certificate names a node of another cluster"))
        }
        _ => Err(unauthorized("the certificate does not name a node")),
    }
}

/// When a certificate becomes and ceases to be valid, in seconds since 1970.
pub(crate) fn validity(certificate: &CertificateDer<'_>) -> Result<(i64, i64)> {
    let parsed = Certificate::from_der(certificate).map_err(|e| Error::identity("certificate", e))?;
    let validity = parsed.tbs_certificate().validity();
    let seconds = |t: Time| i64::try_from(t.to_unix_duration().as_secs()).unwrap_or(i64::MAX);
    Ok((seconds(validity.not_before), seconds(validity.not_after)))
}

/// The private key of a node.
pub struct NodeKey {
    pub(crate) pair: KeyPair,
}

impl NodeKey {
    /// A new key.
    ///
    /// # Errors
    /// [`Error::Identity`] if the system has no random bytes.
    pub fn generate() -> Result<NodeKey> {
        let pair =
            KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).map_err(|e| Error::identity("new key", e))?;
        Ok(NodeKey { pair })
    }

    /// A key that was kept.
    ///
    /// # Errors
    /// [`Error::Identity`] if these are not the bytes of such a key.
    pub fn from_pkcs8(bytes: &[u8]) -> Result<NodeKey> {
        let der = PrivatePkcs8KeyDer::from(bytes);
        let pair = KeyPair::from_pkcs8_der_and_sign_algo(&der, &PKCS_ECDSA_P256_SHA256)
            .map_err(|e| Error::identity("stored key", e))?;
        Ok(NodeKey { pair })
    }

    /// The bytes to keep (PKCS #8, DER). Secret.
    #[must_use]
    pub fn to_pkcs8(&self) -> Zeroizing<Vec<u8>> {
        Zeroizing::new(self.pair.serialize_der())
    }

    /// A certificate request (PKCS #10, DER): proves that this node has the key. It names nothing; the
    /// authority decides for which node it signs.
    ///
    /// # Errors
    /// [`Error::Identity`].
    pub fn request(&self) -> Result<Vec<u8>> {
        let mut params = CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        let request = params.serialize_request(&self.pair).map_err(|e| Error::identity("request", e))?;
        Ok(request.der().to_vec())
    }
}

impl fmt::Debug for NodeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("NodeKey")
    }
}

/// A node's certificate with its key.
#[derive(Clone)]
pub struct Identity {
    cluster: DeploymentId,
    node: u16,
    valid: (i64, i64),
    certified: Arc<CertifiedKey>,
}

impl Identity {
    /// The identity that a certificate gives to a node.
    ///
    /// # Errors
    /// [`Error::Identity`] if the certificate is not for this key; [`Error::Unauthorized`] if it names no node
    /// of this cluster.
    pub fn new(cluster: DeploymentId, certificate: &[u8], key: &NodeKey) -> Result<Identity> {
        let certificate = CertificateDer::from(certificate.to_vec());
        let node = node_of(&certificate, cluster)?;
        let valid = validity(&certificate)?;
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.pair.serialize_der()));
        let certified = CertifiedKey::from_der(vec![certificate], key, &aws_lc_rs::default_provider())
            .map_err(|e| Error::identity("certificate and key", e))?;
        Ok(Identity { cluster, node, valid, certified: Arc::new(certified) })
    }

    /// The cluster.
    #[must_use]
    pub fn cluster(&self) -> DeploymentId {
        self.cluster
    }

    /// The number of the node.
    #[must_use]
    pub fn node(&self) -> u16 {
        self.node
    }

    /// When the certificate begins and ceases to be valid, in seconds since 1970.
    #[must_use]
    pub fn validity(&self) -> (i64, i64) {
        self.valid
    }

    /// Whether it is time to ask for a new certificate: two thirds of the validity have passed.
    #[must_use]
    pub fn is_due(&self, now_s: i64) -> bool {
        let (from, until) = self.valid;
        now_s >= from.saturating_add(until.saturating_sub(from) / 3 * 2)
    }

    pub(crate) fn certified(&self) -> Arc<CertifiedKey> {
        self.certified.clone()
    }

    pub(crate) fn certificate(&self) -> Option<&CertificateDer<'static>> {
        self.certified.cert.first()
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Identity({})", name(self.cluster, self.node))
    }
}
