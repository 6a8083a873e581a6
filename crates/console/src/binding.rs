//! Binds a sign-in with an OpenID Connect provider to the browser that began it.
//!
//! Somebody could begin a sign-in of their own and send the address, to which the provider returns them, to another
//! person, who would then work in an account that is not theirs (login CSRF). So the browser that begins gets a cookie
//! that names the `state`, and a code is exchanged only with that cookie.
//!
//! Invariants: the cookie has a hash of the `state`, not the `state` itself; it is taken away with the first try to
//! complete, so that a `state` is good for one try of one browser.
//!
//! Must not depend on: providers.

use ashlar_checksum::sha256;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::Uri;
use http::header::HeaderMap;

use crate::cookie;

/// The name of the cookie.
const COOKIE: &str = "ashlar-console-sign-in";
/// How long it is kept, in seconds: as long as a `state` is good.
const LIFE_S: i64 = 600;

fn value(state: &str) -> String {
    URL_SAFE_NO_PAD.encode(sha256(state.as_bytes()))
}

/// The `state` in the address of a provider to which a browser is sent.
fn state_of(url: &str) -> Option<String> {
    let uri: Uri = url.parse().ok()?;
    let state = uri.query()?.split('&').find_map(|p| p.strip_prefix("state="))?;
    // It is sealed and in the alphabet of base64 for addresses: nothing in it is encoded.
    Some(state.to_owned())
}

/// The header that binds the sign-in that begins at `url` to the browser.
pub(crate) fn bind(url: &str, secure: bool) -> Option<String> {
    Some(cookie::given(COOKIE, &value(&state_of(url)?), LIFE_S, secure))
}

/// Whether the browser of these headers began the sign-in with this `state`.
pub(crate) fn is_bound(headers: &HeaderMap, state: &str) -> bool {
    !state.is_empty() && cookie::find(headers, COOKIE) == Some(&*value(state))
}

/// The header that ends the binding.
pub(crate) fn released(secure: bool) -> String {
    cookie::taken(COOKIE, secure)
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::header;

    #[test]
    fn only_the_browser_that_began_is_bound() {
        let given = bind("https://id.example/auth?client_id=a&state=Ab_-9&nonce=n", true).unwrap();
        assert!(given.contains("HttpOnly; SameSite=Strict; Secure") && !given.contains("Ab_-9"));
        let mut headers = HeaderMap::new();
        assert!(!is_bound(&headers, "Ab_-9"));
        headers.insert(header::COOKIE, given.split(';').next().unwrap().parse().unwrap());
        assert!(is_bound(&headers, "Ab_-9"));
        for other in ["", "Ab_-8", "Ab_-9&"] {
            assert!(!is_bound(&headers, other), "{other}");
        }
        headers.insert(header::COOKIE, "ashlar-console-sign-in=".parse().unwrap());
        assert!(!is_bound(&headers, ""));
        assert_eq!(bind("https://id.example/auth?client_id=a", true), None);
    }
}
