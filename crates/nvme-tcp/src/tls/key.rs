//! Keys of TLS in their text form, `NVMeTLSkey-1:HH:BASE64:` (PSK interchange format, TCP 3.6.1.5), as `nvme gen-tls-key` makes them.
//!
//! HH says with which hash function the key becomes a retained key, which is bound to the name of the host: 00 it is one already, 01 SHA-256,
//! 02 SHA-384. The text in base 64 is the key, of 32 or 48 bytes, and its CRC-32.
//!
//! Invariants: a key is in no output for people and in no error; it is wiped when it is dropped, and compared in constant time.
//!
//! Must not depend on: connections.

use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use crate::auth::hash::{Hash, same};
use crate::auth::secret::{SUM, checksum};
use crate::error::Error;

/// How a key begins.
const PREFIX: &str = "NVMeTLSkey-1:";

/// A key that a host and the targets that it uses have in common.
#[derive(Clone, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TlsKey {
    /// With which hash function it becomes a retained key. None: it is one.
    pub(super) bound: Option<Hash>,
    pub(super) key: Zeroizing<Vec<u8>>,
}

impl TlsKey {
    /// The hash function of the cipher suite and of the names of its keys: that of the text, else the one whose digests are as long.
    pub(super) fn hash(&self) -> Hash {
        self.bound.unwrap_or(if self.key.len() == Hash::Sha384.len() { Hash::Sha384 } else { Hash::Sha256 })
    }

    /// Its text form: whoever has it can pretend to be the host, and a target of it.
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

impl FromStr for TlsKey {
    type Err = Error;

    /// Reads a key; white space around it does not matter.
    ///
    /// # Errors
    /// [`Error::TlsKey`], which does not have the text in it.
    fn from_str(text: &str) -> Result<TlsKey, Error> {
        let wrong = |what| Error::TlsKey { what };
        let text = text.trim();
        let Some(rest) = text.strip_prefix(PREFIX) else {
            let other = text.starts_with("NVMeTLSkey-");
            return Err(wrong(if other {
                "its version is not 1"
            } else {
                "it does not begin with NVMeTLSkey-1:"
            }));
        };
        let (id, rest) = rest.split_once(':').ok_or(wrong("it has no key"))?;
        let encoded = rest.strip_suffix(':').ok_or(wrong("it does not end with a colon"))?;
        let bound = match id {
            "00" => None,
            "01" => Some(Hash::Sha256),
            "02" => Some(Hash::Sha384),
            _ => return Err(wrong("what follows NVMeTLSkey-1: is none of 00, 01 and 02")),
        };
        let bytes = Zeroizing::new(STANDARD.decode(encoded).map_err(|_| wrong("its key is not in base 64"))?);
        let Some((key, sum)) = bytes.split_last_chunk::<SUM>() else {
            return Err(wrong("its key is too short"));
        };
        if ![Hash::Sha256.len(), Hash::Sha384.len()].contains(&key.len()) {
            return Err(wrong("its key has neither 32 nor 48 bytes"));
        }
        if !same(sum, &checksum(key)) {
            return Err(wrong("its checksum is wrong"));
        }
        if bound.is_some_and(|h| h.len() != key.len()) {
            return Err(wrong("its key is not as long as the digests of its hash function"));
        }
        Ok(TlsKey { bound, key: Zeroizing::new(key.to_vec()) })
    }
}

impl TryFrom<String> for TlsKey {
    type Error = Error;

    fn try_from(text: String) -> Result<TlsKey, Error> {
        Zeroizing::new(text).parse()
    }
}

impl From<TlsKey> for String {
    fn from(key: TlsKey) -> String {
        key.expose().to_string()
    }
}

impl PartialEq for TlsKey {
    fn eq(&self, other: &TlsKey) -> bool {
        same(&self.key, &other.key) && self.bound == other.bound
    }
}

impl Eq for TlsKey {}

impl fmt::Debug for TlsKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TlsKey(...)")
    }
}
