//! Verification of tokens: signed claims of a provider about a user (RFC 7519, OpenID Connect Core 1.0).
//!
//! Invariants: no claim of a token is used before its signature was verified with a key that the provider's
//! own set names for that algorithm; parameters of the token about keys (`jku`, `jwk`, `x5u`, `x5c`) are
//! ignored; a token with extensions (`crit`) is refused; a token must have an expiry; only the clock of this
//! server is used.
//!
//! Must not depend on: how keys are fetched, what a claim permits.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::{Algorithm, Validation};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::keys::{Keys, algorithm};

/// Longest token, in bytes (AWS: 20,000).
pub const LIMIT: usize = 20_000;
/// Tolerated difference between clocks, in seconds.
pub const LEEWAY_S: i64 = 30;
/// Longest subject, in bytes (OpenID Connect Core 1.0, section 2).
const SUBJECT: usize = 255;

/// The claims of a token.
pub type Claims = Map<String, Value>;

/// Why a token is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wrong {
    /// It is invalid. The text is for the log.
    Invalid(&'static str),
    /// It has expired.
    Expired,
}

/// The unverified parts of a token that determine its provider and key.
#[derive(Debug)]
pub struct Outside {
    /// The algorithm.
    pub algorithm: Algorithm,
    /// The id of the key.
    pub key: Option<String>,
    /// The unverified issuer.
    pub issuer: String,
    /// The unverified audience.
    pub audience: Vec<String>,
}

#[derive(Deserialize)]
struct Header {
    alg: String,
    kid: Option<String>,
    crit: Option<Value>,
}

fn part<T: serde::de::DeserializeOwned>(text: &str) -> Option<T> {
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(text).ok()?).ok()
}

/// The strings of a claim that is a string or an array.
pub fn strings(value: Option<&Value>) -> Vec<String> {
    match value {
        Some(Value::String(one)) => vec![one.clone()],
        Some(Value::Array(many)) => many.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        _ => Vec::new(),
    }
}

/// Reads the unverified parts of a token.
///
/// # Errors
/// The token has a form that cannot be verified.
pub fn outside(token: &str) -> Result<Outside, Wrong> {
    if token.len() > LIMIT {
        return Err(Wrong::Invalid("the token is too long"));
    }
    let mut parts = token.split('.');
    let (Some(head), Some(body), Some(_), None) = (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return Err(Wrong::Invalid("it is not a signed token"));
    };
    let header: Header = part(head).ok_or(Wrong::Invalid("the header is not understood"))?;
    if header.crit.is_some() {
        return Err(Wrong::Invalid("it asks for extensions (crit)"));
    }
    let algorithm = algorithm(&header.alg).ok_or(Wrong::Invalid("its algorithm is not accepted"))?;
    let claims: Claims = part(body).ok_or(Wrong::Invalid("the claims are not understood"))?;
    let issuer = claims.get("iss").and_then(Value::as_str).unwrap_or_default().to_owned();
    Ok(Outside { algorithm, key: header.kid, issuer, audience: strings(claims.get("aud")) })
}

/// Verifies the signature and returns the claims.
///
/// # Errors
/// No key matches, or the signature is wrong.
pub fn verify(token: &str, outside: &Outside, keys: &Keys) -> Result<Claims, Wrong> {
    let mut how = Validation::new(outside.algorithm);
    // `judge` checks the claims, with this server's clock.
    how.required_spec_claims.clear();
    (how.validate_exp, how.validate_nbf, how.validate_aud) = (false, false, false);
    let fitting = keys.fitting(outside.key.as_deref(), outside.algorithm);
    if fitting.is_empty() {
        return Err(Wrong::Invalid("the provider has no key with this id for this algorithm"));
    }
    let opened = fitting.iter().find_map(|key| jsonwebtoken::decode::<Claims>(token, key, &how).ok());
    opened.map(|data| data.claims).ok_or(Wrong::Invalid("the signature is wrong"))
}

/// A time in seconds, an integer or a fraction.
fn seconds(claims: &Claims, name: &'static str) -> Result<Option<i64>, Wrong> {
    match claims.get(name) {
        None => Ok(None),
        Some(v) => {
            let time = v.as_f64().filter(|t| (0.0..1e12).contains(t));
            time.map(|t| Some(t as i64)).ok_or(Wrong::Invalid("a time in it is not valid"))
        }
    }
}

/// Checks that verified claims are for `client`, from `issuer`, and valid at `now_s`.
///
/// # Errors
/// They are not, or have expired.
pub fn judge(claims: &Claims, issuer: &str, client: &str, now_s: i64) -> Result<(), Wrong> {
    if claims.get("iss").and_then(Value::as_str) != Some(issuer) {
        return Err(Wrong::Invalid("it was made by another issuer"));
    }
    let audience = strings(claims.get("aud"));
    if !audience.iter().any(|a| a == client) {
        return Err(Wrong::Invalid("it was made for another client (aud)"));
    }
    let party = claims.get("azp");
    if audience.len() > 1 && party.is_some_and(|p| p.as_str() != Some(client)) {
        return Err(Wrong::Invalid("it was made for another party (azp)"));
    }
    let subject = claims.get("sub").and_then(Value::as_str).unwrap_or_default();
    if subject.is_empty() || subject.len() > SUBJECT {
        return Err(Wrong::Invalid("the token has no subject (sub), or one that is too long"));
    }
    let end = seconds(claims, "exp")?.ok_or(Wrong::Invalid("it has no expiry (exp)"))?;
    for name in ["nbf", "iat"] {
        if seconds(claims, name)?.is_some_and(|t| t > now_s + LEEWAY_S) {
            return Err(Wrong::Invalid("it is not valid yet (nbf, iat)"));
        }
    }
    if now_s >= end + LEEWAY_S {
        return Err(Wrong::Expired);
    }
    Ok(())
}
