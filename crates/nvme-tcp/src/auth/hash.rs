//! Hash functions, and what the two ends calculate of secrets and challenges: Base 8.13.5.
//!
//! Must not depend on: messages.

use aws_lc_rs::{constant_time, digest, hmac};
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

/// What follows a name when a key is bound to it (Base 8.13.5.7).
const BOUND: &[u8] = b"NVMe-over-Fabrics";

/// A hash function.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Hash {
    /// SHA-256.
    Sha256 = 1,
    /// SHA-384.
    Sha384 = 2,
    /// SHA-512.
    Sha512 = 3,
}

impl Hash {
    /// All, by their identifiers.
    pub const ALL: [Hash; 3] = [Hash::Sha256, Hash::Sha384, Hash::Sha512];

    /// Its identifier (HashID).
    pub(crate) fn id(self) -> u8 {
        self as u8
    }

    pub(crate) fn of_id(id: u8) -> Option<Hash> {
        Hash::ALL.into_iter().find(|h| h.id() == id)
    }

    /// Its name: `sha256`, `sha384`, `sha512`.
    #[must_use]
    pub fn name(self) -> &'static str {
        ["sha256", "sha384", "sha512"][usize::from(self.id() - 1)]
    }

    /// Bytes of a digest.
    pub(crate) fn len(self) -> usize {
        [32, 48, 64][usize::from(self.id() - 1)]
    }

    pub(crate) fn digest(self, data: &[u8]) -> Zeroizing<Vec<u8>> {
        let algorithm = [&digest::SHA256, &digest::SHA384, &digest::SHA512][usize::from(self.id() - 1)];
        Zeroizing::new(digest::digest(algorithm, data).as_ref().to_vec())
    }

    pub(crate) fn hmac(self, key: &[u8], parts: &[&[u8]]) -> Zeroizing<Vec<u8>> {
        let algorithm = [hmac::HMAC_SHA256, hmac::HMAC_SHA384, hmac::HMAC_SHA512][usize::from(self.id() - 1)];
        let mut context = hmac::Context::with_key(&hmac::Key::new(algorithm, key));
        parts.iter().for_each(|p| context.update(p));
        Zeroizing::new(context.sign().as_ref().to_vec())
    }

    /// A key that is bound to the name of its owner.
    pub(crate) fn bind(self, key: &[u8], nqn: &str) -> Zeroizing<Vec<u8>> {
        self.hmac(key, &[nqn.as_bytes(), BOUND])
    }
}

impl std::fmt::Display for Hash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

impl std::str::FromStr for Hash {
    type Err = String;

    fn from_str(text: &str) -> Result<Hash, String> {
        let found = Hash::ALL.into_iter().find(|h| h.name() == text);
        found.ok_or_else(|| format!("{text:?} is none of sha256, sha384, sha512"))
    }
}

/// Whether two values are equal, in a time that does not depend on where they differ.
pub(crate) fn same(a: &[u8], b: &[u8]) -> bool {
    constant_time::verify_slices_are_equal(a, b).is_ok()
}

/// Who proves that it knows its secret.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Prover {
    Host,
    Controller,
}

/// What a response answers.
pub(crate) struct Asked<'a> {
    pub(crate) hash: Hash,
    /// As many bytes as the hash has.
    pub(crate) challenge: &'a [u8],
    /// The secret of the Diffie-Hellman exchange, if there was one.
    pub(crate) shared: Option<&'a [u8]>,
    pub(crate) sequence: u32,
    pub(crate) transaction: u16,
    pub(crate) host: &'a str,
    pub(crate) subsystem: &'a str,
}

impl Asked<'_> {
    /// The response of `prover`, whose key is `key`, bound to its name already (Base 8.13.5.4, 8.13.5.5).
    pub(crate) fn response(&self, prover: Prover, key: &[u8]) -> Zeroizing<Vec<u8>> {
        let augmented =
            self.shared.map(|shared| self.hash.hmac(&self.hash.digest(shared), &[self.challenge]));
        let challenge = augmented.as_ref().map_or(self.challenge, |a| &a[..]);
        let (label, first, second): (&[u8], _, _) = match prover {
            Prover::Host => (b"HostHost", self.host, self.subsystem),
            Prover::Controller => (b"Controller", self.subsystem, self.host),
        };
        self.hash.hmac(
            key,
            &[
                challenge,
                &self.sequence.to_le_bytes(),
                &self.transaction.to_le_bytes(),
                // No secure channel is built on it (SC_C).
                &[0],
                label,
                first.as_bytes(),
                &[0],
                second.as_bytes(),
            ],
        )
    }
}
