//! The client certificate that a KES API key stands for.
//!
//! `kes:v1:` and base64 of a zero byte (Ed25519) and the 32 bytes of the private key (RFC 8032's seed). KES
//! uses only the public key of a client's certificate: its SHA-256, over the SubjectPublicKeyInfo, is the
//! identity in policies. So the certificate is self-signed and does not expire.
//!
//! Invariant: no error contains a part of the API key.

use ashlar_outbound::tls::Identity;
use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{
    CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair, KeyUsagePurpose, PublicKeyData as _,
};
use zeroize::Zeroizing;

use crate::{Error, Result};

/// The bytes before the seed in a PKCS #8 document of Ed25519 (RFC 8410, 7).
const PKCS8: [u8; 16] =
    [0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20];

/// The client certificate of an API key, and the identity (64 hexadecimal digits) that KES gives it.
///
/// # Errors
/// [`Error::Invalid`]: the text is not an API key.
pub fn kes_identity(api_key: &str) -> Result<(Identity, String)> {
    let bad = || Error::Invalid("KES: an API key must be kes:v1: and 44 characters of base64".to_owned());
    let text = api_key.trim();
    let bytes = STANDARD.decode(text.strip_prefix("kes:v1:").ok_or_else(bad)?).map_err(|_| bad())?;
    let bytes = Zeroizing::new(bytes);
    let [0, seed @ ..] = bytes.as_slice() else { return Err(bad()) };
    if seed.len() != 32 {
        return Err(bad());
    }
    let document = Zeroizing::new([&PKCS8[..], seed].concat());
    let unusable =
        |_: rcgen::Error| Error::Invalid("KES: no certificate can be made from the API key".to_owned());
    let key = KeyPair::try_from(document.as_slice()).map_err(unusable)?;
    let identity = hex::encode(digest(&SHA256, &key.subject_public_key_info()));
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, identity.as_str());
    // KES ignores certificates of authorities.
    params.is_ca = IsCa::ExplicitNoCa;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    let certificate = params.self_signed(&key).map_err(unusable)?;
    let key = key.serialize_pem().into_bytes();
    Ok((Identity { certificates: certificate.pem().into_bytes(), key }, identity))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The key of vector 1 of RFC 8032, 7.1, as an API key; the identity is the output of `kes identity of`.
    #[test]
    fn api_key_gives_the_identity_of_kes() {
        let seed = hex::decode("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60").unwrap();
        let text = format!("kes:v1:{}", STANDARD.encode([&[0][..], &seed].concat()));
        let (identity, name) = kes_identity(&text).ok().unwrap();
        assert_eq!(name, "06e3fd8fda29bb60ab59557de61edb0aecdb231134be30e75b455f8e1b792fa9");
        let again = kes_identity(&format!(" {text}\n")).ok().unwrap();
        assert_eq!(again.0.key, identity.key);
        assert!(identity.certificates.starts_with(b"-----BEGIN CERTIFICATE"));
        for bad in ["", "kes:v1:", "kes:v1:AAAA", &text[7..], &text[..40], "kes:v1:!", &format!("{text}AAAA")]
        {
            let Err(e) = kes_identity(bad) else { panic!("{bad}") };
            assert!(bad.len() < 9 || !e.to_string().contains(&bad[8..]));
        }
        let other = format!("kes:v1:{}", STANDARD.encode([&[1][..], &seed].concat()));
        assert!(kes_identity(&other).is_err(), "another kind of key");
    }
}
