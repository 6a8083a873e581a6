//! The secret that the nodes share, from which the authority of etcd's certificates is derived.
//!
//! The members of a new cluster must recognise each other before there is a store that could hold an authority. So every
//! node derives the same authority from a secret that the operator gives to all.
//!
//! Derivation: HKDF-SHA-256 (RFC 5869) without salt, `info` = `ashlar etcd authority 1`, a zero byte, and the name of the
//! cluster; 32 bytes, which are the seed of an Ed25519 key (RFC 8032). The secret has 256 random bits: the public key of
//! the authority, which whoever connects is shown, does not allow to guess it. A password would not do.
//!
//! Invariant: no secret is shown by `Debug`.
//!
//! Must not depend on: certificates.

use std::fmt;

use ashlar_environment::random;
use aws_lc_rs::hkdf::{HKDF_SHA256, KeyType, Salt};
use zeroize::Zeroizing;

use crate::{Error, Result};

/// Bytes of a secret, and of a key.
const BYTES: usize = 32;

/// A secret of 256 bits.
#[derive(Clone)]
pub struct Secret(Zeroizing<[u8; BYTES]>);

impl Secret {
    /// A new one.
    ///
    /// # Errors
    /// `Certificate` if the system has no random bytes.
    pub fn generate() -> Result<Secret> {
        let mut bytes = Zeroizing::new([0; BYTES]);
        random::fill(&mut *bytes).map_err(|e| Error::Certificate(format!("no random bytes: {e}")))?;
        Ok(Secret(bytes))
    }

    /// Reads 64 hexadecimal digits.
    ///
    /// # Errors
    /// `Settings`.
    pub fn parse(text: &str) -> Result<Secret> {
        let bad = || {
            Error::Settings(
                "the secret must have 64 hexadecimal digits: `ashlar cluster secret` makes one".to_owned(),
            )
        };
        let text = text.trim().as_bytes();
        if text.len() != 2 * BYTES {
            return Err(bad());
        }
        let mut bytes = Zeroizing::new([0; BYTES]);
        for (byte, digits) in bytes.iter_mut().zip(text.chunks(2)) {
            let digit = |d: u8| char::from(d).to_digit(16).and_then(|d| u8::try_from(d).ok());
            let (Some(high), Some(low)) = (digit(digits[0]), digit(digits[1])) else { return Err(bad()) };
            *byte = high << 4 | low;
        }
        if bytes.iter().all(|b| *b == bytes[0]) {
            return Err(Error::Settings(
                "the secret is not random: `ashlar cluster secret` makes one".to_owned(),
            ));
        }
        Ok(Secret(bytes))
    }

    /// The form that [`Secret::parse`] reads.
    #[must_use]
    pub fn to_hex(&self) -> Zeroizing<String> {
        Zeroizing::new(self.0.iter().map(|b| format!("{b:02x}")).collect())
    }

    /// The seed of the authority's key for the cluster of this name.
    #[must_use]
    pub fn authority_seed(&self, cluster: &str) -> Zeroizing<[u8; BYTES]> {
        let info: [&[u8]; 2] = [b"ashlar etcd authority 1\0", cluster.as_bytes()];
        let mut seed = Zeroizing::new([0; BYTES]);
        Salt::new(HKDF_SHA256, &[])
            .extract(&*self.0)
            .expand(&info, Bytes32)
            .and_then(|okm| okm.fill(&mut *seed))
            .expect("32 bytes are within what HKDF-SHA-256 gives");
        seed
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

struct Bytes32;

impl KeyType for Bytes32 {
    fn len(&self) -> usize {
        BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|b| format!("{b:02x}")).collect()
    }

    #[test]
    fn derivation_never_changes() {
        let secret = Secret::parse(TEXT).unwrap();
        // By Python: hmac(hmac(32 zero bytes, secret), b"ashlar etcd authority 1\0prod\x01"), SHA-256.
        assert_eq!(
            hex(&*secret.authority_seed("prod")),
            "153fe742c702fcc5f9cd277052d1013a45fc1f52f4d23594fcabf9b30386e67e"
        );
        assert_ne!(hex(&*secret.authority_seed("prod2")), hex(&*secret.authority_seed("prod")));
    }

    #[test]
    fn secrets_are_read_as_they_are_printed() {
        let secret = Secret::parse(&format!("  {}\n", TEXT.to_uppercase())).unwrap();
        assert_eq!(secret.to_hex().as_str(), TEXT);
        let made = Secret::generate().unwrap();
        assert_eq!(Secret::parse(&made.to_hex()).unwrap().to_hex(), made.to_hex());
        assert_eq!(format!("{made:?}"), "Secret");
        for bad in ["", "00", &TEXT[1..], &format!("{TEXT}0"), &TEXT.replace('a', "g"), &"00".repeat(32)] {
            assert!(Secret::parse(bad).is_err(), "{bad}");
        }
    }
}
