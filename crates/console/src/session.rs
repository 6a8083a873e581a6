//! The session of a person who signed in: temporary credentials, in a cookie that this deployment sealed.
//!
//! Nothing is stored at the server. The session ends when its token does (see `ashlar_iam`): at its expiry, when
//! the sessions of the user are revoked, when the user or the key that it was made with is gone.
//!
//! Invariants: the key that seals the cookie is the one function [`Session::seal`], and every node of a cluster has it; the
//! fields are the same in every release, because nodes of two releases read the cookies of each other during an upgrade.
//!
//! Must not depend on: requests other than their headers.

use std::sync::Arc;

use ashlar_iam::{Iam, Identity};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::header::HeaderMap;
use serde::{Deserialize, Serialize};

use crate::cookie;

/// The name of the cookie.
const COOKIE: &str = "ashlar-console";
/// What cookies are sealed for.
const PLACE: &str = "console-session";
/// Longest cookie, in bytes: browsers keep 4096 with the name and the attributes.
const LONGEST: usize = 3900;

/// A session.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub(crate) struct Session {
    /// The access key of the temporary credentials.
    pub access_key: String,
    /// Their token.
    pub token: String,
    /// The stored key that the person signed in with; empty: an identity provider vouched for the person. It signs
    /// links that outlive the session.
    pub signer: String,
    /// The end, in milliseconds since 1970.
    pub expires_ms: i64,
}

impl Session {
    /// The text of the cookie; `None`: it would be too long for browsers.
    fn seal(&self, iam: &Iam) -> Option<String> {
        let plain = serde_json::to_vec(self).ok()?;
        let text = URL_SAFE_NO_PAD.encode(iam.seal(PLACE, &plain));
        (text.len() <= LONGEST).then_some(text)
    }

    /// The session of a request's cookie.
    pub fn of(headers: &HeaderMap, iam: &Iam) -> Option<Session> {
        let text = cookie::find(headers, COOKIE)?;
        let sealed = URL_SAFE_NO_PAD.decode(text).ok()?;
        serde_json::from_slice(&iam.unseal(PLACE, &sealed)?).ok()
    }

    /// Who it is for; an error if the session has ended.
    pub fn identity(&self, iam: &Iam) -> ashlar_iam::Result<Arc<Identity>> {
        iam.session(&self.access_key, &self.token)
    }

    /// The header that gives the cookie to the browser. `secure`: it came over TLS.
    pub fn cookie(&self, iam: &Iam, now_ms: i64, secure: bool) -> Option<String> {
        let seconds = (self.expires_ms - now_ms).div_euclid(1000).max(0);
        Some(cookie::given(COOKIE, &self.seal(iam)?, seconds, secure))
    }
}

/// The header that takes the cookie from the browser.
pub(crate) fn forgotten(secure: bool) -> String {
    cookie::taken(COOKIE, secure)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nodes of different releases read each other's cookies while a cluster is upgraded, and refuse unknown fields. What is
    /// new goes into a cookie of its own.
    #[test]
    fn cookie_has_what_every_release_reads() {
        let session = Session {
            access_key: "A".into(),
            token: "T".into(),
            signer: String::new(),
            expires_ms: 3_600_000,
        };
        let text = serde_json::to_string(&session).unwrap();
        assert_eq!(text, r#"{"access_key":"A","token":"T","signer":"","expires_ms":3600000}"#);
        assert_eq!(serde_json::from_str::<Session>(&text).unwrap(), session);
    }
}
