//! SCRAM (RFC 5802, RFC 7677) as far as a client of Kafka needs it: no channel binding.

use std::num::NonZeroU32;

use aws_lc_rs::{digest, hmac, pbkdf2};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// Most rounds that a server may ask for: more would keep this one busy.
const ROUNDS: u32 = 1_000_000;

/// The hash function.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Hash {
    Sha256,
    Sha512,
}

impl Hash {
    fn hmac(self) -> hmac::Algorithm {
        if self == Hash::Sha256 { hmac::HMAC_SHA256 } else { hmac::HMAC_SHA512 }
    }

    fn digest(self) -> &'static digest::Algorithm {
        if self == Hash::Sha256 { &digest::SHA256 } else { &digest::SHA512 }
    }

    fn pbkdf2(self) -> pbkdf2::Algorithm {
        if self == Hash::Sha256 { pbkdf2::PBKDF2_HMAC_SHA256 } else { pbkdf2::PBKDF2_HMAC_SHA512 }
    }
}

/// A conversation.
pub struct Scram {
    hash: Hash,
    bare: String,
    nonce: String,
    /// What the server's last word must be.
    last: String,
}

impl Scram {
    /// Begins with a random nonce.
    pub fn new(hash: Hash, user: &str, nonce: &str) -> Scram {
        let user = user.replace('=', "=3D").replace(',', "=2C");
        Scram { hash, bare: format!("n={user},r={nonce}"), nonce: nonce.to_owned(), last: String::new() }
    }

    /// The first message.
    pub fn first(&self) -> String {
        format!("n,,{}", self.bare)
    }

    /// The second, in answer to the server's first. Nothing: that was none.
    pub fn second(&mut self, server: &str, password: &str) -> Option<String> {
        let field = |name: &str| server.split(',').find_map(|f| f.strip_prefix(name)?.strip_prefix('='));
        let (nonce, salt) = (field("r")?, STANDARD.decode(field("s")?).ok()?);
        let rounds = NonZeroU32::new(field("i")?.parse().ok()?).filter(|r| r.get() <= ROUNDS)?;
        if !nonce.starts_with(&self.nonce) || nonce.len() == self.nonce.len() {
            return None;
        }
        let mut salted = vec![0; self.hash.digest().output_len()];
        pbkdf2::derive(self.hash.pbkdf2(), rounds, &salt, password.as_bytes(), &mut salted);
        let sign = |key: &[u8], what: &[u8]| hmac::sign(&hmac::Key::new(self.hash.hmac(), key), what);
        let client = sign(&salted, b"Client Key");
        let stored = digest::digest(self.hash.digest(), client.as_ref());
        let bare = format!("c=biws,r={nonce}");
        let all = format!("{},{server},{bare}", self.bare);
        let signature = sign(stored.as_ref(), all.as_bytes());
        let proof: Vec<u8> = client.as_ref().iter().zip(signature.as_ref()).map(|(a, b)| a ^ b).collect();
        let server_key = sign(&salted, b"Server Key");
        self.last = format!("v={}", STANDARD.encode(sign(server_key.as_ref(), all.as_bytes())));
        Some(format!("{bare},p={}", STANDARD.encode(proof)))
    }

    /// Whether the server's last word shows that it knows the password too.
    pub fn ends(&self, server: &str) -> bool {
        !self.last.is_empty() && server.split(',').next() == Some(&self.last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scram_exchange_of_rfc_7677() {
        let mut s = Scram::new(Hash::Sha256, "user", "rOprNGfwEbeRWgbNEkqO");
        assert_eq!(s.first(), "n,,n=user,r=rOprNGfwEbeRWgbNEkqO");
        let server = "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";
        assert_eq!(
            s.second(server, "pencil").unwrap(),
            "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
        );
        assert!(s.ends("v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="));
        assert!(!s.ends("v=x") && s.second("r=other,s=,i=1", "p").is_none());
    }
}
