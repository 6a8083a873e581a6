//! Confirmation by the secret: for a few minutes, calls about access keys are signed with the key that the person signed
//! in with, instead of the session's temporary credentials, which can make no lasting ones.
//!
//! Whoever finds a browser in which somebody is signed in, or runs a script in it, does not know the secret, and so makes
//! no key that outlives the session. For the same reason, calls that destroy what cannot be had back ([`is_needed`]) are
//! refused until the person confirmed: a user with its keys, a bucket, the content of a drive. Who has no secret here, because
//! a directory or a provider vouched for them, confirms by a sign-in that is not older than a confirmation would be.
//!
//! Invariants: the confirmation is sealed, for one session and one key, and ends after [`LIFE_S`]; the key that is confirmed
//! signs nothing but calls whose path is `keys`.
//!
//! Must not depend on: how the secret is checked.

use ashlar_iam::Iam;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::header::HeaderMap;
use http::{Method, Uri};
use serde::{Deserialize, Serialize};

use crate::cookie;
use crate::session::Session;

/// The name of the cookie.
const COOKIE: &str = "ashlar-console-confirmed";
/// What it is sealed for.
const PLACE: &str = "console-confirmed";
/// How long it is good, in seconds.
pub(crate) const LIFE_S: i64 = 300;

#[derive(Serialize, Deserialize)]
struct Confirmed {
    session: String,
    signer: String,
    expires_ms: i64,
}

/// The header that tells the browser that the person of a session has confirmed.
pub(crate) fn given(iam: &Iam, session: &Session, now_ms: i64, secure: bool) -> String {
    let confirmed = Confirmed {
        session: session.access_key.clone(),
        signer: session.signer.clone(),
        expires_ms: now_ms + LIFE_S * 1000,
    };
    let plain = serde_json::to_vec(&confirmed).unwrap_or_default();
    cookie::given(COOKIE, &URL_SAFE_NO_PAD.encode(iam.seal(PLACE, &plain)), LIFE_S, secure)
}

/// Whether the person of a session has confirmed.
pub(crate) fn is_given(iam: &Iam, session: &Session, headers: &HeaderMap, now_ms: i64) -> bool {
    let open = || -> Option<Confirmed> {
        let sealed = URL_SAFE_NO_PAD.decode(cookie::find(headers, COOKIE)?).ok()?;
        serde_json::from_slice(&iam.unseal(PLACE, &sealed)?).ok()
    };
    open().is_some_and(|c| {
        c.session == session.access_key && c.signer == session.signer && now_ms < c.expires_ms
    })
}

/// Whether a call is about access keys and changes something; `uri`: as the administration API gets it.
pub(crate) fn concerns(method: &Method, uri: &Uri) -> bool {
    let what = uri.path().strip_prefix("/ashlar/api/v1/keys");
    *method != Method::GET && what.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Whether a call destroys what cannot be had back; `uri`: as S3 and the administration API get it.
pub(crate) fn is_needed(method: &Method, uri: &Uri) -> bool {
    let names: Vec<&str> = uri.path().split('/').filter(|name| !name.is_empty()).collect();
    match names.as_slice() {
        ["ashlar", "api", "v1", "users", _] => *method == Method::DELETE,
        ["ashlar", "api", "v1", "drives", "replace"] => *method == Method::POST,
        // A query names a part of the bucket's settings.
        [_bucket] => *method == Method::DELETE && uri.query().is_none_or(str::is_empty),
        _ => false,
    }
}

/// Whether somebody without a secret signed in a moment ago.
pub(crate) fn is_fresh(session: &Session, now_ms: i64) -> bool {
    now_ms < session.begun_ms + LIFE_S * 1000
}

/// The header that ends the confirmation.
pub(crate) fn ended(secure: bool) -> String {
    cookie::taken(COOKIE, secure)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_had_back_needs_a_confirmation() {
        for (method, uri, wanted) in [
            (Method::DELETE, "/ashlar/api/v1/users/anna", true),
            (Method::DELETE, "/ashlar/api/v1//users/an%2Fna/", true),
            (Method::PUT, "/ashlar/api/v1/users/anna", false),
            (Method::POST, "/ashlar/api/v1/users/anna/disable", false),
            (Method::POST, "/ashlar/api/v1/drives/replace", true),
            (Method::POST, "/ashlar/api/v1/drives/offline", false),
            (Method::DELETE, "/bucket", true),
            (Method::DELETE, "/bucket/", true),
            (Method::DELETE, "/bucket?", true),
            (Method::DELETE, "/bucket?policy", false),
            (Method::DELETE, "/bucket/key", false),
            (Method::PUT, "/bucket", false),
        ] {
            assert_eq!(is_needed(&method, &uri.parse().unwrap()), wanted, "{method} {uri}");
        }
    }

    #[test]
    fn a_sign_in_is_fresh_as_long_as_a_confirmation_is_good() {
        let session = Session {
            access_key: "A".into(),
            token: "T".into(),
            signer: String::new(),
            begun_ms: 1000,
            expires_ms: 3_600_000,
        };
        assert!(is_fresh(&session, 1000) && is_fresh(&session, 1000 + LIFE_S * 1000 - 1));
        assert!(!is_fresh(&session, 1000 + LIFE_S * 1000));
    }

    #[test]
    fn only_changes_of_keys_are_concerned() {
        for (method, path, wanted) in [
            (Method::POST, "keys", true),
            (Method::PATCH, "keys/AKIA", true),
            (Method::DELETE, "keys/AKIA", true),
            (Method::GET, "keys", false),
            (Method::POST, "keysmith", false),
            (Method::PUT, "users/keys", false),
            (Method::POST, "kms/keys/a/rotate", false),
        ] {
            let uri = format!("/ashlar/api/v1/{path}").parse().unwrap();
            assert_eq!(concerns(&method, &uri), wanted, "{method} {path}");
        }
    }
}
