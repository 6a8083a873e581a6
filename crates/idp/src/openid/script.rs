//! Reads bytes in place of a provider's tokens and keys: for the fuzzer.
//!
//! Nothing but the fuzzer calls this; it is part of every build, as `ashlar_events::script` explains.

use super::keys::Keys;
use super::token;

/// The public key of RFC 7515, appendix A.3.
pub const KEYS: &str = r#"{"keys":[{"kty":"EC","crv":"P-256","alg":"ES256","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}]}"#;
/// The token of RFC 7515, appendix A.3, whose signature is right.
pub const TOKEN: &str = "eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ.DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q";

/// Whether a token is signed by the key of the RFC.
///
/// # Panics
/// Another token than the RFC's is.
#[must_use]
pub fn token(text: &str) -> bool {
    let Ok(outside) = token::outside(text) else { return false };
    let keys = Keys::parse(KEYS.as_bytes()).expect("the key of the RFC");
    let signed = token::verify(text, &outside, &keys).is_ok();
    let said = |token: &str| token.rsplit_once('.').map(|(said, _)| said.to_owned());
    assert!(!signed || said(text) == said(TOKEN), "nobody can sign without the key");
    signed
}

/// A set of keys; whether any can be used.
#[must_use]
pub fn keys(json: &[u8]) -> bool {
    Keys::parse(json).is_ok()
}
