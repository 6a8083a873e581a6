//! Certificates of the members and of their clients.
//!
//! Every node derives the same authority from the secret ([`crate::Secret`]) and signs a certificate for itself, for both
//! ends of a connection. Nothing is asked of another node, so the first connection is protected.
//!
//! Invariants: the authority's certificate is the same on every node, to the byte; its private key is never written. All
//! members trust every certificate of this authority: whoever has the secret can be a member.
//!
//! Must not depend on: how etcd is run.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ashlar_environment::{random, time::wall_ms};
use rcgen::string::Ia5String;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, PKCS_ECDSA_P256_SHA256, PKCS_ED25519, SanType, SerialNumber,
};
use rustls_pki_types::PrivatePkcs8KeyDer;
use time::OffsetDateTime;
use zeroize::Zeroizing;

use crate::{Address, Error, Result, Secret};

/// Begin of all validity, in seconds since 1970: 2024-01-01. The clocks of machines differ.
const BEGIN: i64 = 1_704_067_200;
/// End of the authority's, in seconds since 1970: 2200-01-01.
const END: i64 = 7_258_118_400;
/// How long a certificate of a node is valid, in seconds: longer than a process runs, each of which makes one. There is
/// no revocation that a shorter time would bound.
const VALID: i64 = 20 * 365 * 86_400;
/// What precedes the seed in the PKCS #8 form of an Ed25519 key (RFC 8410, section 7).
const ED25519: [u8; 16] =
    [0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20];

/// What a node needs for TLS, in PEM.
#[derive(Clone)]
pub struct Certificates {
    /// The certificate of the authority.
    pub authority: String,
    /// The certificate of this node.
    pub own: String,
    /// Its private key.
    pub key: Zeroizing<String>,
}

impl std::fmt::Debug for Certificates {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Certificates")
    }
}

impl Certificates {
    /// Those of a node of a cluster, whose member is at `member` if it has one.
    ///
    /// # Errors
    /// `Certificate`.
    pub fn issue(secret: &Secret, cluster: &str, member: Option<&Address>) -> Result<Certificates> {
        let wrong = |e: rcgen::Error| Error::Certificate(e.to_string());
        let seed = secret.authority_seed(cluster);
        let pkcs8 = Zeroizing::new([&ED25519[..], &seed[..]].concat());
        let der = PrivatePkcs8KeyDer::from(pkcs8.as_slice());
        let key = KeyPair::from_pkcs8_der_and_sign_algo(&der, &PKCS_ED25519).map_err(wrong)?;
        let mut params = dated(END);
        params.distinguished_name.push(DnType::CommonName, format!("Ashlar etcd authority {cluster}"));
        params.serial_number = Some(SerialNumber::from(vec![1]));
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let authority = params.self_signed(&key).map_err(wrong)?.pem();
        let issuer = Issuer::new(params, key);

        let own_key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).map_err(wrong)?;
        let mut params = dated(wall_ms().div_euclid(1000).max(BEGIN) + VALID);
        let name = member.map_or("client".to_owned(), Address::name);
        params.distinguished_name.push(DnType::CommonName, format!("Ashlar etcd {name}"));
        params.serial_number = Some(serial()?);
        params.subject_alt_names = member.map(names).transpose()?.unwrap_or_default();
        params.is_ca = IsCa::ExplicitNoCa;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        // etcd's gateway is a client of its own server.
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        params.use_authority_key_identifier_extension = true;
        let own = params.signed_by(&own_key, &issuer).map_err(wrong)?.pem();
        Ok(Certificates { authority, own, key: Zeroizing::new(own_key.serialize_pem()) })
    }
}

fn dated(end: i64) -> CertificateParams {
    let at = |s: i64| OffsetDateTime::from_unix_timestamp(s).unwrap_or(OffsetDateTime::UNIX_EPOCH);
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.not_before = at(BEGIN);
    params.not_after = at(end);
    params
}

fn serial() -> Result<SerialNumber> {
    let mut bytes = [0; 16];
    random::fill(&mut bytes).map_err(|e| Error::Certificate(format!("no random bytes: {e}")))?;
    bytes[0] = bytes[0] & 0x7f | 0x40;
    Ok(SerialNumber::from(bytes.to_vec()))
}

/// The names under which a member is reached. Members on loopback reach each other from 127.0.0.1, whatever they listen
/// on, and older releases of etcd compare the name with where a connection comes from.
fn names(member: &Address) -> Result<Vec<SanType>> {
    let mut names = match member.ip() {
        Some(ip) => vec![SanType::IpAddress(ip)],
        None => {
            let name = Ia5String::try_from(member.host.clone());
            vec![SanType::DnsName(name.map_err(|e| Error::Certificate(e.to_string()))?)]
        }
    };
    if member.is_loopback() {
        let local = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];
        names.extend(local.into_iter().filter(|ip| Some(*ip) != member.ip()).map(SanType::IpAddress));
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret() -> Secret {
        Secret::parse("000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f").unwrap()
    }

    fn issue(secret: &Secret, cluster: &str, member: &str) -> Certificates {
        Certificates::issue(secret, cluster, Some(&Address::parse(member).unwrap())).unwrap()
    }

    #[test]
    fn authority_is_the_same_on_every_node_and_certificates_differ() {
        let (a, b) = (issue(&secret(), "prod", "10.0.0.4"), issue(&secret(), "prod", "node5"));
        assert_eq!(a.authority, b.authority);
        assert_ne!(a.own, b.own);
        assert_ne!(a.key, b.key);
        assert_ne!(issue(&secret(), "test", "10.0.0.4").authority, a.authority);
        assert_ne!(issue(&Secret::generate().unwrap(), "prod", "10.0.0.4").authority, a.authority);
    }

    #[test]
    fn a_client_trusts_the_servers_of_its_own_secret_only() {
        let (ours, own) = (issue(&secret(), "prod", "127.0.0.1"), issue(&secret(), "prod", "10.0.0.4"));
        let identity = ashlar_outbound::tls::Identity {
            certificates: own.own.clone().into_bytes(),
            key: own.key.as_bytes().to_vec(),
        };
        let config = ashlar_outbound::tls::config(&[ours.authority.clone().into_bytes()], false).unwrap();
        ashlar_outbound::tls::identified(&config, &identity).unwrap();
        assert_eq!(format!("{own:?}"), "Certificates");
    }
}
