//! Secrets in their text form, `DHHC-1:HH:BASE64:` (Base 8.13.5.8), as `nvme gen-dhchap-key` makes them.
//!
//! HH says with which hash function the key is bound to the name of its owner: 00 it is not, 01 SHA-256, 02 SHA-384, 03 SHA-512. The
//! text in base 64 is the key, of 32, 48 or 64 bytes, and its CRC-32.
//!
//! Invariants: a secret is in no output for people and in no error; it is wiped when it is dropped, and compared in constant time.
//!
//! Must not depend on: messages.

use std::fmt;
use std::str::FromStr;

use ashlar_checksum::{Algorithm, Hasher};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use super::hash::{Hash, same};
use crate::error::Error;

/// How a secret begins.
const PREFIX: &str = "DHHC-1:";
/// Bytes of the checksum.
pub(crate) const SUM: usize = 4;

/// A secret of a host, or of a subsystem.
#[derive(Clone, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Secret {
    /// With which hash function it is bound to the name of its owner.
    bound: Option<Hash>,
    key: Zeroizing<Vec<u8>>,
}

/// CRC-32 of IEEE 802.3, least significant byte first.
pub(crate) fn checksum(key: &[u8]) -> [u8; SUM] {
    let mut hasher = Hasher::new(Algorithm::Crc32);
    hasher.update(key);
    let mut out = [0; SUM];
    // Of S3, where the most significant byte is the first.
    out.iter_mut().zip(hasher.finish().as_bytes().iter().rev()).for_each(|(to, from)| *to = *from);
    out
}

impl Secret {
    /// The key of its owner, whose name is `nqn`.
    pub(crate) fn key(&self, nqn: &str) -> Zeroizing<Vec<u8>> {
        match self.bound {
            Some(hash) => hash.bind(&self.key, nqn),
            None => self.key.clone(),
        }
    }

    /// Its text form: whoever has it can pretend to be its owner.
    #[must_use]
    pub fn expose(&self) -> Zeroizing<String> {
        let mut bytes = Zeroizing::new(Vec::with_capacity(self.key.len() + SUM));
        bytes.extend_from_slice(&self.key);
        bytes.extend_from_slice(&checksum(&self.key));
        let id = self.bound.map_or(0, Hash::id);
        let text = Zeroizing::new(STANDARD.encode(&bytes[..]));
        Zeroizing::new(format!("{PREFIX}{id:02}:{}:", text.as_str()))
    }
}

impl FromStr for Secret {
    type Err = Error;

    /// Reads a secret; white space around it does not matter.
    ///
    /// # Errors
    /// [`Error::Secret`], which does not have the text in it.
    fn from_str(text: &str) -> Result<Secret, Error> {
        let wrong = |what| Error::Secret { what };
        let rest = text.trim().strip_prefix(PREFIX).ok_or(wrong("it does not begin with DHHC-1:"))?;
        let (id, rest) = rest.split_once(':').ok_or(wrong("it has no key"))?;
        let encoded = rest.strip_suffix(':').ok_or(wrong("it does not end with a colon"))?;
        let bound = match id {
            "00" => None,
            "01" => Some(Hash::Sha256),
            "02" => Some(Hash::Sha384),
            "03" => Some(Hash::Sha512),
            _ => return Err(wrong("what follows DHHC-1: is none of 00, 01, 02 and 03")),
        };
        let bytes = Zeroizing::new(STANDARD.decode(encoded).map_err(|_| wrong("its key is not in base 64"))?);
        let Some((key, sum)) = bytes.split_last_chunk::<SUM>() else {
            return Err(wrong("its key is too short"));
        };
        if !Hash::ALL.iter().any(|h| h.len() == key.len()) {
            return Err(wrong("its key has none of 32, 48 and 64 bytes"));
        }
        if !same(sum, &checksum(key)) {
            return Err(wrong("its checksum is wrong"));
        }
        if bound.is_some_and(|h| h.len() != key.len()) {
            return Err(wrong("its key is not as long as the digests of its hash function"));
        }
        Ok(Secret { bound, key: Zeroizing::new(key.to_vec()) })
    }
}

impl TryFrom<String> for Secret {
    type Error = Error;

    fn try_from(text: String) -> Result<Secret, Error> {
        Zeroizing::new(text).parse()
    }
}

impl From<Secret> for String {
    fn from(secret: Secret) -> String {
        secret.expose().to_string()
    }
}

impl PartialEq for Secret {
    fn eq(&self, other: &Secret) -> bool {
        same(&self.key, &other.key) && self.bound == other.bound
    }
}

impl Eq for Secret {}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(...)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The key 00 01 02 ... and zlib's CRC-32 of it.
    const PLAIN: &str = "DHHC-1:00:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh+KfiaR:";

    #[test]
    fn the_text_form_is_that_of_the_specification() {
        let key: Vec<u8> = (0..32).collect();
        let secret: Secret = format!(" {PLAIN}\n").parse().unwrap();
        assert_eq!(secret.key[..], key);
        assert_eq!(secret.expose().as_str(), PLAIN);
        assert_eq!(secret.key("nqn.x")[..], key);
        let bound: Secret = PLAIN.replace(":00:", ":01:").parse().unwrap();
        assert_ne!(bound, secret);
        assert_ne!(bound.key("nqn.x")[..], key);
        assert_ne!(bound.key("nqn.x"), bound.key("nqn.y"));
    }

    #[test]
    fn what_is_no_secret_is_refused_and_not_repeated() {
        let cases = [
            "",
            "DHHC-1:",
            "DHHC-2:00:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh+KfiaR:",
            "DHHC-1:04:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh+KfiaR:",
            "DHHC-1:02:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh+KfiaR:",
            "DHHC-1:00:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh+KfiaS:",
            "DHHC-1:00:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh+KfiaR",
            "DHHC-1:00:AAEC:",
            "DHHC-1:00:AA:",
        ];
        for text in cases {
            let error = text.parse::<Secret>().unwrap_err();
            assert!(!error.to_string().contains("AA"), "{error}");
        }
    }

    #[test]
    fn no_output_has_the_key() {
        let secret: Secret = PLAIN.parse().unwrap();
        assert_eq!(format!("{secret:?}"), "Secret(...)");
    }
}
