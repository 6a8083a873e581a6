//! A provider's keys (RFC 7517), and which algorithms each may be used with.
//!
//! Invariants: the key, not only the token, determines the algorithm: a key for RSA verifies no HMAC, and a
//! key that names its algorithm verifies no other; keys for encryption, symmetric keys, and unknown kinds of
//! keys are left out; at most [`LIMIT`] are kept.
//!
//! Must not depend on: tokens' contents.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::{Algorithm, DecodingKey};
use serde::Deserialize;

/// Most keys of one provider.
const LIMIT: usize = 64;

/// One key.
pub struct Key {
    id: Option<String>,
    algorithms: &'static [Algorithm],
    key: DecodingKey,
}

/// The keys of a provider.
#[derive(Default)]
pub struct Keys(Vec<Key>);

#[derive(Deserialize)]
struct Set {
    keys: Vec<serde_json::Value>,
}

#[derive(Deserialize)]
struct Jwk {
    kty: String,
    #[serde(rename = "use")]
    usage: Option<String>,
    key_ops: Option<Vec<String>>,
    kid: Option<String>,
    alg: Option<String>,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
}

const RSA: [Algorithm; 6] = [
    Algorithm::RS256,
    Algorithm::RS384,
    Algorithm::RS512,
    Algorithm::PS256,
    Algorithm::PS384,
    Algorithm::PS512,
];

/// The algorithm of a name; `None` for algorithms with a shared secret or without a signature.
pub fn algorithm(name: &str) -> Option<Algorithm> {
    Some(match name {
        "RS256" => Algorithm::RS256,
        "RS384" => Algorithm::RS384,
        "RS512" => Algorithm::RS512,
        "PS256" => Algorithm::PS256,
        "PS384" => Algorithm::PS384,
        "PS512" => Algorithm::PS512,
        "ES256" => Algorithm::ES256,
        "ES384" => Algorithm::ES384,
        "EdDSA" => Algorithm::EdDSA,
        _ => return None,
    })
}

/// The length in bytes of a value in base64url; 0 if it is invalid.
fn length(text: &str) -> usize {
    URL_SAFE_NO_PAD.decode(text).map_or(0, |b| b.iter().skip_while(|b| **b == 0).count())
}

fn usable(jwk: Jwk) -> Option<Key> {
    let signs = jwk.usage.as_deref().is_none_or(|u| u == "sig")
        && jwk.key_ops.as_ref().is_none_or(|ops| ops.iter().any(|op| op == "verify"));
    if !signs {
        return None;
    }
    let (all, key): (&'static [Algorithm], _) = match (jwk.kty.as_str(), jwk.crv.as_deref()) {
        ("RSA", _) => {
            let (n, e) = (jwk.n?, jwk.e?);
            // 2048 to 8192 bits, as the library verifies.
            if !(256..=1024).contains(&length(&n)) {
                return None;
            }
            (&RSA, DecodingKey::from_rsa_components(&n, &e))
        }
        ("EC", Some("P-256")) => (&[Algorithm::ES256], DecodingKey::from_ec_components(&jwk.x?, &jwk.y?)),
        ("EC", Some("P-384")) => (&[Algorithm::ES384], DecodingKey::from_ec_components(&jwk.x?, &jwk.y?)),
        ("OKP", Some("Ed25519")) => (&[Algorithm::EdDSA], DecodingKey::from_ed_components(&jwk.x?)),
        _ => return None,
    };
    let algorithms = match jwk.alg {
        None => all,
        Some(name) => {
            let one = algorithm(if name == "Ed25519" { "EdDSA" } else { &name })?;
            let at = all.iter().position(|a| *a == one)?;
            &all[at..=at]
        }
    };
    Some(Key { id: jwk.kid, algorithms, key: key.ok()? })
}

impl Keys {
    /// Parses a set of keys; those that cannot be used are left out.
    ///
    /// # Errors
    /// It is not a set of keys, or none of them can be used.
    pub fn parse(json: &[u8]) -> Result<Keys, String> {
        let set: Set =
            serde_json::from_slice(json).map_err(|e| format!("the keys are not understood: {e}"))?;
        let read = |v| serde_json::from_value::<Jwk>(v).ok().and_then(usable);
        let keys: Vec<Key> = set.keys.into_iter().take(LIMIT).filter_map(read).collect();
        if keys.is_empty() {
            return Err("none of the provider's keys can be used".into());
        }
        Ok(Keys(keys))
    }

    /// The keys that may verify a token with this key id and algorithm. Without an id, only one key may
    /// match.
    pub fn fitting(&self, id: Option<&str>, algorithm: Algorithm) -> Vec<&DecodingKey> {
        let able = self.0.iter().filter(|k| k.algorithms.contains(&algorithm));
        match id {
            Some(id) => able.filter(|k| k.id.as_deref() == Some(id)).map(|k| &k.key).take(4).collect(),
            None => {
                let all: Vec<_> = able.map(|k| &k.key).collect();
                if all.len() == 1 { all } else { Vec::new() }
            }
        }
    }
}
