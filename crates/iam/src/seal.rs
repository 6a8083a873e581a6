//! Sealed bytes: what is stored or handed out cannot be read or changed without the key.
//!
//! AES-256-GCM with random nonces of 96 bits (NIST SP 800-38D), bound to where the bytes belong.
//! Invariants: a key seals at most 2^32 times by use (changes of configuration and tokens are far
//! fewer); what does not open gives no reason; keys are never printed.
//!
//! Must never know: what is sealed.

use argon2::{Algorithm, Argon2, Params, Version};
use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::hmac;

use crate::Secret;

const VERSION: u8 = 1;
/// First byte of what is sealed under a password.
const SLOW: u8 = 2;
/// Memory in KiB, passes, lanes of Argon2id: what OWASP's Password Storage Cheat Sheet asks for at least.
/// They stand in the sealed bytes, so that they can be raised.
const COST: [u32; 3] = [47_104, 1, 1];
/// No more of each is ever worked for.
const MOST: [u32; 3] = [1 << 20, 16, 16];
const SALT: usize = 16;
/// Bytes before those of [`Sealer::seal`].
const FRONT: usize = 1 + SALT + 3 * 4;

/// A key that seals.
pub struct Sealer(LessSafeKey);

impl Sealer {
    /// From 32 secret bytes.
    #[must_use]
    pub fn new(key: &[u8; 32]) -> Sealer {
        let key = UnboundKey::new(&AES_256_GCM, key).expect("32 bytes are a key of AES-256");
        Sealer(LessSafeKey::new(key))
    }

    /// A key made from a secret, a purpose and the deployment, so that two deployments with the same
    /// secret cannot read each other (HMAC-SHA-256 as the extract and expand steps of RFC 5869, one
    /// block).
    #[must_use]
    pub fn derive(secret: &[u8], deployment: &[u8; 16], purpose: &str) -> [u8; 32] {
        let extracted = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, deployment), secret);
        let key = hmac::Key::new(hmac::HMAC_SHA256, extracted.as_ref());
        let block = hmac::sign(&key, &[purpose.as_bytes(), &[1]].concat());
        let mut out = [0; 32];
        out.copy_from_slice(block.as_ref());
        out
    }

    /// Seals bytes for `place`.
    #[must_use]
    pub fn seal(&self, place: &str, bytes: &[u8]) -> Vec<u8> {
        let nonce: [u8; NONCE_LEN] = random();
        let mut body = bytes.to_vec();
        self.0
            .seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), Aad::from(place), &mut body)
            .expect("the length is within that of AES-GCM");
        [&[VERSION][..], &nonce, &body].concat()
    }

    /// Opens what was sealed for `place`; `None` when it was not, or not under this key.
    #[must_use]
    pub fn open(&self, place: &str, sealed: &[u8]) -> Option<Vec<u8>> {
        let (version, rest) = sealed.split_first()?;
        let (nonce, body) = rest.split_at_checked(NONCE_LEN)?;
        if *version != VERSION {
            return None;
        }
        let mut body = body.to_vec();
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let len = self.0.open_in_place(nonce, Aad::from(place), &mut body).ok()?.len();
        body.truncate(len);
        Some(body)
    }
}

/// Seals under root's secret, which may be a password that somebody made up: guessing costs Argon2id (RFC
/// 9106) with a random salt.
pub(crate) struct RootSealer {
    secret: Secret,
    deployment: [u8; 16],
}

impl RootSealer {
    pub fn new(secret: Secret, deployment: [u8; 16]) -> RootSealer {
        RootSealer { secret, deployment }
    }

    /// `front`: the salt and the cost. `None`: the cost is beyond reason.
    fn sealer(&self, place: &str, front: &[u8; FRONT]) -> Option<Sealer> {
        let number = |i: usize| u32::from_be_bytes([front[i], front[i + 1], front[i + 2], front[i + 3]]);
        let cost = [number(1 + SALT), number(5 + SALT), number(9 + SALT)];
        if cost.iter().zip(MOST).any(|(c, most)| *c > most) {
            return None;
        }
        let params = Params::new(cost[0], cost[1], cost[2], Some(32)).ok()?;
        let mut slow = [0; 32];
        Argon2::new(Algorithm::Argon2id, Version::V0x13, params)
            .hash_password_into(self.secret.expose().as_bytes(), &front[1..=SALT], &mut slow)
            .ok()?;
        Some(Sealer::new(&Sealer::derive(&slow, &self.deployment, place)))
    }

    /// As [`Sealer::seal`].
    pub fn seal(&self, place: &str, bytes: &[u8]) -> Vec<u8> {
        let mut front = [SLOW; FRONT];
        front[1..=SALT].copy_from_slice(&random::<SALT>());
        for (at, number) in front[1 + SALT..].chunks_exact_mut(4).zip(COST) {
            at.copy_from_slice(&number.to_be_bytes());
        }
        let sealer = self.sealer(place, &front).expect("our own cost is within reason");
        [&front[..], &sealer.seal(place, bytes)].concat()
    }

    /// As [`Sealer::open`]; also what earlier releases sealed under the secret without Argon2id.
    pub fn open(&self, place: &str, sealed: &[u8]) -> Option<Vec<u8>> {
        if RootSealer::is_fast(sealed) {
            let key = Sealer::derive(self.secret.expose().as_bytes(), &self.deployment, place);
            return Sealer::new(&key).open(place, sealed);
        }
        let (front, rest) = sealed.split_first_chunk::<FRONT>()?;
        if front[0] != SLOW {
            return None;
        }
        self.sealer(place, front)?.open(place, rest)
    }

    /// Whether bytes were sealed without Argon2id, and should be sealed anew.
    pub fn is_fast(sealed: &[u8]) -> bool {
        sealed.first() == Some(&VERSION)
    }
}

/// Random bytes of the operating system.
#[must_use]
pub fn random<const N: usize>() -> [u8; N] {
    let mut out = [0; N];
    ashlar_environment::random::fill(&mut out).expect("the operating system gives random bytes");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_same_key_and_place_open_it_and_every_changed_byte_is_noticed() {
        let sealer = Sealer::new(&[7; 32]);
        let sealed = sealer.seal("iam/users/a", b"secret");
        assert_eq!(sealed.len(), 6 + 1 + NONCE_LEN + 16);
        assert_eq!(sealer.open("iam/users/a", &sealed).unwrap(), b"secret");
        assert!(sealer.open("iam/users/b", &sealed).is_none());
        assert!(Sealer::new(&[8; 32]).open("iam/users/a", &sealed).is_none());
        for at in 0..sealed.len() {
            let mut bad = sealed.clone();
            bad[at] ^= 1;
            assert!(sealer.open("iam/users/a", &bad).is_none(), "byte {at}");
            assert!(sealer.open("iam/users/a", &sealed[..at]).is_none(), "cut at {at}");
        }
        assert_ne!(sealer.seal("p", b"x"), sealer.seal("p", b"x"), "a nonce is used once");
    }

    #[test]
    fn guessing_the_root_secret_costs_argon2id() {
        let sealer = |secret: &str, deployment| RootSealer::new(Secret::new(secret), [deployment; 16]);
        let sealed = sealer("root-secret", 1).seal("iam/seal", b"key");
        assert_eq!(sealed[0], SLOW);
        assert_eq!(sealed[1 + SALT..FRONT], COST.map(u32::to_be_bytes).concat()[..]);
        assert!(COST[0] >= 47_104, "at least what OWASP asks for");
        assert_eq!(sealer("root-secret", 1).open("iam/seal", &sealed).unwrap(), b"key");
        assert!(sealer("other-secret", 1).open("iam/seal", &sealed).is_none());
        assert!(sealer("root-secret", 2).open("iam/seal", &sealed).is_none());
        assert!(sealer("root-secret", 1).open("iam/root", &sealed).is_none());
        // Every byte counts, and a cost that somebody wrote there stops nobody.
        for at in [0, 1, SALT, 1 + SALT, FRONT - 1, FRONT, sealed.len() - 1] {
            let mut bad = sealed.clone();
            bad[at] ^= 0x80;
            assert!(sealer("root-secret", 1).open("iam/seal", &bad).is_none(), "byte {at}");
            assert!(sealer("root-secret", 1).open("iam/seal", &sealed[..at]).is_none(), "cut at {at}");
        }
        // What an earlier release sealed opens, and is to be sealed anew.
        let old = Sealer::new(&Sealer::derive(b"root-secret", &[1; 16], "iam/seal")).seal("iam/seal", b"key");
        assert!(RootSealer::is_fast(&old) && !RootSealer::is_fast(&sealed));
        assert_eq!(sealer("root-secret", 1).open("iam/seal", &old).unwrap(), b"key");
    }

    #[test]
    fn deployments_and_purposes_have_other_keys() {
        let key = |secret: &[u8], d: u8, p| Sealer::derive(secret, &[d; 16], p);
        let all = [key(b"s", 1, "a"), key(b"s", 2, "a"), key(b"s", 1, "b"), key(b"t", 1, "a")];
        for (i, a) in all.iter().enumerate() {
            assert!(all[..i].iter().all(|b| a != b));
        }
    }
}
