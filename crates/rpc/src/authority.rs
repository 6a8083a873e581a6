//! The certificate authority of a cluster.
//!
//! Its certificate and key are kept in the control store by the crates above. There may be several authorities
//! at once, so that one can be replaced: every node trusts the new one first ([`crate::Trust`]), then all
//! nodes get certificates of the new one, then the old one is no longer trusted.
//!
//! Invariants: a certificate is issued only for a key whose owner proved to have it, and names what the
//! authority was told, never what the request says. An authority issues no certificates of other authorities.
//!
//! Must not depend on: where it is kept, connections.

use std::fmt;
use std::time::Duration;

use ashlar_environment::{random, time::wall_ms};
use ashlar_format::DeploymentId;
use rcgen::string::Ia5String;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, PKCS_ECDSA_P256_SHA256, PublicKeyData, SanType, SerialNumber,
    SignatureAlgorithm,
};
use rustls_pki_types::CertificateDer;
use time::OffsetDateTime;
use x509_cert::Certificate;
use x509_cert::der::asn1::{ObjectIdentifier, Utf8StringRef};
use x509_cert::der::oid::db::rfc5912::{ECDSA_WITH_SHA_256, ID_EC_PUBLIC_KEY, SECP_256_R_1};
use x509_cert::der::{Decode as _, Encode as _};
use x509_cert::request::CertReq;
use zeroize::Zeroizing;

use crate::error::{Error, Result};
use crate::identity::{NodeKey, name, validity};

/// Validity begins earlier than now by this much, because the clocks of machines differ.
const BACKDATED: i64 = 3600;
/// The common name in the name of a subject.
const COMMON_NAME: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.3");
/// Longest certificate request.
const LONGEST_REQUEST: usize = 4096;

/// A certificate authority of one cluster.
pub struct Authority {
    cluster: DeploymentId,
    certificate: CertificateDer<'static>,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    /// A new authority, valid from now.
    ///
    /// # Errors
    /// [`Error::Identity`] if the system has no random bytes.
    pub fn create(cluster: DeploymentId, valid: Duration) -> Result<Authority> {
        let key = NodeKey::generate()?.pair;
        let mut params = own(cluster, valid);
        params.serial_number = Some(serial()?);
        let certificate = params.self_signed(&key).map_err(|e| Error::identity("authority", e))?;
        let certificate = certificate.der().clone();
        Ok(Authority { cluster, certificate, issuer: Issuer::new(params, key) })
    }

    /// An authority that was kept.
    ///
    /// # Errors
    /// [`Error::Identity`] if the key is none, or not that of the certificate.
    pub fn restore(cluster: DeploymentId, certificate: &[u8], key: &[u8]) -> Result<Authority> {
        let key = NodeKey::from_pkcs8(key)?.pair;
        let certificate = CertificateDer::from(certificate.to_vec());
        let wrong = |e: &dyn fmt::Display| Error::identity("certificate of the authority", e);
        let parsed = Certificate::from_der(&certificate).map_err(|e| wrong(&e))?;
        let parsed = parsed.tbs_certificate();
        if parsed.subject_public_key_info().subject_public_key.as_bytes() != Some(key.public_key_raw()) {
            return Err(wrong(&"the key does not belong to it"));
        }
        let named = parsed.subject().by_oid::<Utf8StringRef<'_>>(COMMON_NAME).ok().flatten();
        if named.is_none_or(|n| n.as_str() != subject(cluster)) {
            return Err(wrong(&"it is not of this cluster"));
        }
        validity(&certificate)?;
        let issuer = Issuer::new(own(cluster, Duration::ZERO), key);
        Ok(Authority { cluster, certificate, issuer })
    }

    /// The certificate (DER), which every node trusts.
    #[must_use]
    pub fn certificate(&self) -> &[u8] {
        &self.certificate
    }

    /// The private key (PKCS #8, DER). Secret.
    #[must_use]
    pub fn to_pkcs8(&self) -> Zeroizing<Vec<u8>> {
        Zeroizing::new(self.issuer.key().serialize_der())
    }

    /// A certificate (DER) for the key of a request, valid from now. The caller has decided that whoever sent
    /// the request is this node.
    ///
    /// # Errors
    /// [`Error::Identity`] if the request is none, or was not made with its key.
    pub fn sign(&self, request: &[u8], node: u16, valid: Duration) -> Result<Vec<u8>> {
        let key = subject_key(request)?;
        let name = Ia5String::try_from(name(self.cluster, node)).map_err(|e| Error::identity("name", e))?;
        let mut params = dated(valid);
        params.serial_number = Some(serial()?);
        params.subject_alt_names = vec![SanType::URI(name)];
        params.distinguished_name.push(DnType::CommonName, format!("Ashlar node {node}"));
        params.is_ca = IsCa::ExplicitNoCa;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ClientAuth, ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        let signed = params.signed_by(&key, &self.issuer).map_err(|e| Error::identity("certificate", e))?;
        Ok(signed.der().to_vec())
    }
}

impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Authority({})", self.cluster)
    }
}

fn subject(cluster: DeploymentId) -> String {
    format!("Ashlar authority {}", cluster.to_hex())
}

fn dated(valid: Duration) -> CertificateParams {
    let now = wall_ms().div_euclid(1000);
    let at = |s: i64| OffsetDateTime::from_unix_timestamp(s).unwrap_or(OffsetDateTime::UNIX_EPOCH);
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.not_before = at(now.saturating_sub(BACKDATED));
    params.not_after = at(now.saturating_add(i64::try_from(valid.as_secs()).unwrap_or(i64::MAX)));
    params
}

/// What the certificate of an authority says.
fn own(cluster: DeploymentId, valid: Duration) -> CertificateParams {
    let mut params = dated(valid);
    params.distinguished_name.push(DnType::CommonName, subject(cluster));
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params
}

/// A random serial number of 127 bits.
fn serial() -> Result<SerialNumber> {
    let mut bytes = [0; 16];
    random::fill(&mut bytes).map_err(|e| Error::identity("serial number", e))?;
    bytes[0] = bytes[0] & 0x7f | 0x40;
    Ok(SerialNumber::from(bytes.to_vec()))
}

/// A public key on the curve P-256.
struct SubjectKey(Vec<u8>);

impl PublicKeyData for SubjectKey {
    fn der_bytes(&self) -> &[u8] {
        &self.0
    }
    fn algorithm(&self) -> &'static SignatureAlgorithm {
        &PKCS_ECDSA_P256_SHA256
    }
}

/// The key of a certificate request that was made with it.
fn subject_key(request: &[u8]) -> Result<SubjectKey> {
    let wrong = |e: &dyn fmt::Display| Error::identity("certificate request", e);
    if request.len() > LONGEST_REQUEST {
        return Err(wrong(&"too long"));
    }
    // Refuses bytes that follow it.
    let parsed = CertReq::from_der(request).map_err(|e| wrong(&e))?;
    let key = &parsed.info.public_key;
    let curve = key.algorithm.parameters.as_ref().and_then(|p| p.decode_as::<ObjectIdentifier>().ok());
    if key.algorithm.oid != ID_EC_PUBLIC_KEY
        || curve != Some(SECP_256_R_1)
        || parsed.algorithm.oid != ECDSA_WITH_SHA_256
    {
        return Err(wrong(&"the key is not on the curve P-256"));
    }
    // `None` where the number of bits is not one of bytes.
    let (Some(key), Some(signature)) = (key.subject_public_key.as_bytes(), parsed.signature.as_bytes())
    else {
        return Err(wrong(&"its key or signature is not a byte string"));
    };
    // DER has one encoding: these are the bytes that were signed, or the signature does not fit.
    let signed = parsed.info.to_der().map_err(|e| wrong(&e))?;
    webpki::aws_lc_rs::ECDSA_P256_SHA256
        .verify_signature(key, &signed, signature)
        .map_err(|_| wrong(&"it was not signed with its key"))?;
    Ok(SubjectKey(key.to_vec()))
}
