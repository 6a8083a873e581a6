//! Sign-in: from an access key and its secret to the temporary credentials of a session.
//!
//! It is a request to the security token service of the same server (`AssumeRole`), so that policies that deny it,
//! the audit log, and the time that an unknown key costs are those of every other client.
//!
//! Invariant: nothing of a failed sign-in tells whether the key or the user exists.
//!
//! Must not depend on: cookies.

use ashlar_checksum::sha256;
use ashlar_s3::{Arrival, Service, Source};
use http::header::{self, HeaderMap, HeaderValue};
use http::{Request, StatusCode};
use serde::Deserialize;

use crate::session::Session;
use crate::sign::Signer;

/// How long a session lasts, in seconds: a working day.
pub(crate) const DURATION_S: i64 = 8 * 3600;

/// What a person signs in with: a stored access key, a user's name or root's.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SignIn {
    access_key: String,
    secret_key: String,
}

/// Why it failed.
pub(crate) struct Refused {
    pub status: StatusCode,
    pub code: String,
    pub why: String,
}

fn form(pairs: &[(&str, &str)]) -> String {
    let encoded = |text: &str| {
        let mut out = Vec::new();
        ashlar_s3::target::canonical_encode(&mut out, text, false);
        String::from_utf8(out).unwrap_or_default()
    };
    let pairs: Vec<_> = pairs.iter().map(|(n, v)| format!("{n}={}", encoded(v))).collect();
    pairs.join("&")
}

/// Signs in. `from`: the headers of the browser's request.
pub(crate) async fn sign_in(
    service: &Service,
    with: &SignIn,
    from: &HeaderMap,
    arrival: Arrival<'_>,
) -> Result<Session, Refused> {
    let duration = DURATION_S.to_string();
    let body = form(&[
        ("Version", "2011-06-15"),
        ("Action", "AssumeRole"),
        ("DurationSeconds", &duration),
        ("RoleArn", "arn:aws:iam::000000000000:role/console"),
        ("RoleSessionName", "console"),
    ]);
    let mut parts = Request::post("/").body(()).expect("a constant request").into_parts().0;
    for name in [header::HOST, header::USER_AGENT] {
        if let Some(value) = from.get(&name) {
            parts.headers.insert(name, value.clone());
        }
    }
    let kind = HeaderValue::from_static("application/x-www-form-urlencoded");
    parts.headers.insert(header::CONTENT_TYPE, kind);
    parts.headers.insert(header::CONTENT_LENGTH, HeaderValue::from(body.len()));
    let context = service.context();
    let signer = Signer {
        access_key: &with.access_key,
        secret: &with.secret_key,
        token: None,
        region: &context.region,
        now_s: (context.clock)().div_euclid(1000),
    };
    let hash = hex::encode(sha256(body.as_bytes()));
    signer.sign(&mut parts, "sts", &hash).map_err(|_| wrong_keys())?;
    let answer = service.answer(parts, Source::memory(body), arrival).await;
    let status = answer.status();
    let text = answer.into_body().collect().await.map_err(|e| failed(&e.to_string()))?;
    let text = String::from_utf8_lossy(&text).into_owned();
    if !status.is_success() {
        return Err(refused(status, &text));
    }
    let leaf = |name| leaf(&text, name).ok_or_else(|| failed("the answer of the token service has no keys"));
    let ends = leaf("Expiration")?;
    let ends_s = ashlar_s3::date::parse_iso(&ends).ok_or_else(|| failed("the session has no end"))?;
    let expires_ms = ends_s * 1000;
    let signer = with.access_key.clone();
    Ok(Session { access_key: leaf("AccessKeyId")?, token: leaf("SessionToken")?, signer, expires_ms })
}

fn wrong_keys() -> Refused {
    Refused {
        status: StatusCode::UNAUTHORIZED,
        code: "WrongKeys".into(),
        why: "The access key or the secret key is wrong, or the key is disabled or has expired.".into(),
    }
}

fn failed(why: &str) -> Refused {
    Refused {
        status: StatusCode::INTERNAL_SERVER_ERROR,
        code: "InternalError".into(),
        why: format!("Signing in failed: {why}. The server's log may say more."),
    }
}

fn refused(status: StatusCode, text: &str) -> Refused {
    let code = leaf(text, "Code").unwrap_or_default();
    let message = leaf(text, "Message").unwrap_or_default();
    match code.as_str() {
        "InvalidClientTokenId" | "SignatureDoesNotMatch" => wrong_keys(),
        "AccessDenied" => Refused {
            status: StatusCode::FORBIDDEN,
            code,
            why: "A policy denies this user sts:AssumeRole, which signing in needs.".into(),
        },
        _ => Refused { status, code, why: message },
    }
}

/// The text of an element of a document that this server made.
fn leaf(xml: &str, name: &str) -> Option<String> {
    let (open, close) = (format!("<{name}>"), format!("</{name}>"));
    let rest = xml.split_once(&open)?.1;
    let text = rest.split_once(&close)?.0;
    let plain = [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&apos;", "'"), ("&amp;", "&")];
    Some(plain.iter().fold(text.to_owned(), |text, (from, to)| text.replace(from, to)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn form_and_elements_are_encoded_both_ways() {
        assert_eq!(form(&[("A", "x&y=z"), ("B", "ü +")]), "A=x%26y%3Dz&B=%C3%BC%20%2B");
        let xml = "<R><Message>a &lt;b&gt; &amp;amp;</Message></R>";
        assert_eq!(leaf(xml, "Message").as_deref(), Some("a <b> &amp;"));
        assert_eq!(leaf(xml, "Code"), None);
    }

    #[test]
    fn wrong_key_and_wrong_secret_are_told_in_the_same_words() {
        let of = |code: &str| {
            let text = format!("<Code>{code}</Code><Message>detail</Message>");
            let no = refused(StatusCode::FORBIDDEN, &text);
            (no.status, no.code, no.why)
        };
        assert_eq!(of("InvalidClientTokenId"), of("SignatureDoesNotMatch"));
        assert_eq!(of("AccessDenied").0, StatusCode::FORBIDDEN);
    }
}
