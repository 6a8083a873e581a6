//! Sign-in with a secret or a certificate: from an access key and its secret, a name and a password of a directory, or the
//! certificate that the browser showed in the TLS handshake, to the temporary credentials of a session.
//!
//! It is a request to the security token service of the same server (`AssumeRole`, `AssumeRoleWithLDAPIdentity`,
//! `AssumeRoleWithCertificate`), so that policies that deny it, the audit log, and the time that an unknown key costs are
//! those of every other client.
//!
//! Invariant: nothing of a failed sign-in tells whether the key or the user exists.
//!
//! Must not depend on: cookies.

use ashlar_checksum::sha256;
use ashlar_s3::{Arrival, Service, Source};
use http::header::{self, HeaderMap, HeaderValue};
use http::request::Parts;
use http::{Request, StatusCode};
use serde::Deserialize;

use crate::session::Session;
use crate::sign::Signer;

/// How long a session lasts, in seconds: a working day.
pub(crate) const DURATION_S: i64 = 8 * 3600;

/// A stored access key, a user's name or root's, and its secret.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct KeyPair {
    pub access_key: String,
    pub secret_key: String,
}

/// A name in a directory and its password.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct DirectoryLogin {
    ldap_user: String,
    ldap_password: String,
}

/// The certificate of the connection. A browser shows it by itself: that the person wants to sign in with it is said in the
/// document, and that the page asks is known by the header of the console.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CertificateLogin {
    certificate: bool,
}

/// Why it failed.
pub(crate) struct Refused {
    pub status: StatusCode,
    pub code: String,
    pub why: String,
}

/// A request to the token service, with what every one has.
fn form(action: &str, more: &[(&str, &str)]) -> String {
    let duration = DURATION_S.to_string();
    let common = [("Version", "2011-06-15"), ("Action", action), ("DurationSeconds", &duration)];
    let encoded = |text: &str| {
        let mut out = Vec::new();
        ashlar_s3::target::canonical_encode(&mut out, text, false);
        String::from_utf8(out).unwrap_or_default()
    };
    let pairs: Vec<_> = common.iter().chain(more).map(|(n, v)| format!("{n}={}", encoded(v))).collect();
    pairs.join("&")
}

/// Signs in with an access key. `from`: the headers of the browser's request.
pub(crate) async fn with_keys(
    service: &Service,
    with: &KeyPair,
    from: &HeaderMap,
    arrival: Arrival<'_>,
) -> Result<Session, Refused> {
    let role = [("RoleArn", "arn:aws:iam::000000000000:role/console"), ("RoleSessionName", "console")];
    let body = form("AssumeRole", &role);
    let mut parts = head(from, body.len());
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
    ask(service, parts, body, &with.access_key, arrival)
        .await
        .map_err(|(status, text)| refused(status, &text))
}

/// Signs in with a name of a directory. `from`: the headers of the browser's request.
pub(crate) async fn with_directory(
    service: &Service,
    with: &DirectoryLogin,
    from: &HeaderMap,
    arrival: Arrival<'_>,
) -> Result<Session, Refused> {
    let login = [("LDAPUsername", &*with.ldap_user), ("LDAPPassword", &*with.ldap_password)];
    let body = form("AssumeRoleWithLDAPIdentity", &login);
    let parts = head(from, body.len());
    ask(service, parts, body, "", arrival).await.map_err(|(status, text)| refused_directory(status, &text))
}

/// Signs in with the certificate of the connection. `from`: the headers of the browser's request.
pub(crate) async fn with_certificate(
    service: &Service,
    with: &CertificateLogin,
    from: &HeaderMap,
    arrival: Arrival<'_>,
) -> Result<Session, Refused> {
    if !with.certificate || arrival.certificates.is_empty() {
        return Err(Refused {
            status: StatusCode::FORBIDDEN,
            code: "NoCertificate".into(),
            why: "The browser showed no certificate. Install one in it, close it, and open this page again."
                .into(),
        });
    }
    let body = form("AssumeRoleWithCertificate", &[]);
    let parts = head(from, body.len());
    ask(service, parts, body, "", arrival).await.map_err(|(status, text)| refused_certificate(status, &text))
}

/// The head of a request to the token service.
fn head(from: &HeaderMap, length: usize) -> Parts {
    let mut parts = Request::post("/").body(()).expect("a constant request").into_parts().0;
    for name in [header::HOST, header::USER_AGENT] {
        if let Some(value) = from.get(&name) {
            parts.headers.insert(name, value.clone());
        }
    }
    let kind = HeaderValue::from_static("application/x-www-form-urlencoded");
    parts.headers.insert(header::CONTENT_TYPE, kind);
    parts.headers.insert(header::CONTENT_LENGTH, HeaderValue::from(length));
    parts
}

/// Sends a request to the token service; an error is its status and its document.
async fn ask(
    service: &Service,
    parts: Parts,
    body: String,
    signer: &str,
    arrival: Arrival<'_>,
) -> Result<Session, (StatusCode, String)> {
    let failed = |why: &str| {
        let why = format!("Signing in failed: {why}. The server's log may say more.");
        (StatusCode::INTERNAL_SERVER_ERROR, format!("<Code>InternalError</Code><Message>{why}</Message>"))
    };
    let answer = service.answer(parts, Source::memory(body), arrival).await;
    let status = answer.status();
    let text = answer.into_body().collect().await.map_err(|e| failed(&e.to_string()))?;
    let text = String::from_utf8_lossy(&text).into_owned();
    if !status.is_success() {
        return Err((status, text));
    }
    let leaf = |name| leaf(&text, name).ok_or_else(|| failed("the answer of the token service has no keys"));
    let ends = leaf("Expiration")?;
    let ends_s = ashlar_s3::date::parse_iso(&ends).ok_or_else(|| failed("the session has no end"))?;
    let (access_key, token) = (leaf("AccessKeyId")?, leaf("SessionToken")?);
    Ok(Session { access_key, token, signer: signer.to_owned(), expires_ms: ends_s * 1000 })
}

fn wrong_keys() -> Refused {
    Refused {
        status: StatusCode::UNAUTHORIZED,
        code: "WrongKeys".into(),
        why: "The access key or the secret key is wrong, or the key is disabled or has expired.".into(),
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

/// The directory's answer is the same for an unknown name and a wrong password; only a user without policies is told so,
/// after the right password.
fn refused_directory(status: StatusCode, text: &str) -> Refused {
    let code = leaf(text, "Code").unwrap_or_default();
    let why = leaf(text, "Message").unwrap_or_default();
    match code.as_str() {
        "AccessDenied" if why.starts_with("No policy") => {
            Refused { status, code, why: format!("{why} Ask an administrator to attach one.") }
        }
        "AccessDenied" => Refused {
            status: StatusCode::UNAUTHORIZED,
            code: "WrongPassword".into(),
            why: "The directory does not know this name with this password.".into(),
        },
        _ => Refused { status, code, why },
    }
}

/// The log says what is wrong with a certificate; that its name has no policy is told to its owner too.
fn refused_certificate(status: StatusCode, text: &str) -> Refused {
    let code = leaf(text, "Code").unwrap_or_default();
    let why = leaf(text, "Message").unwrap_or_default();
    let why = match code.as_str() {
        "AccessDenied" if why.starts_with("No policy") => {
            format!("{why} The common name of a certificate has to be the name of a policy.")
        }
        "AccessDenied" => "The server does not accept this certificate. Its log says why.".into(),
        _ => why,
    };
    Refused { status, code, why }
}

/// The text of an element of a document that this server made.
pub(crate) fn leaf(xml: &str, name: &str) -> Option<String> {
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
        let sent = form("SignIn", &[("A", "x&y=z"), ("B", "ü +")]);
        let start = "Version=2011-06-15&Action=SignIn&DurationSeconds=";
        assert!(sent.starts_with(start) && sent.ends_with("&A=x%26y%3Dz&B=%C3%BC%20%2B"), "{sent}");
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

    #[test]
    fn directory_without_policy_is_told_apart_from_wrong_password() {
        let of = |why: &str| {
            let text = format!("<Code>AccessDenied</Code><Message>{why}</Message>");
            refused_directory(StatusCode::FORBIDDEN, &text)
        };
        assert_eq!(of("The identity provider did not authenticate the caller.").code, "WrongPassword");
        let without = of("No policy is attached to uid=a, nor to its groups.");
        assert_eq!((without.code.as_str(), without.status), ("AccessDenied", StatusCode::FORBIDDEN));
        assert!(without.why.contains("uid=a"), "{}", without.why);
    }

    #[test]
    fn certificate_without_policy_is_told_apart_from_one_that_is_not_accepted() {
        let of = |why: &str| {
            let text = format!("<Code>AccessDenied</Code><Message>{why}</Message>");
            refused_certificate(StatusCode::FORBIDDEN, &text).why
        };
        let without = of("No policy is attached to certificate/a, nor to its groups.");
        assert!(without.contains("certificate/a") && without.contains("name of a policy"), "{without}");
        assert!(of("The identity provider did not authenticate the caller.").contains("does not accept"));
    }
}
