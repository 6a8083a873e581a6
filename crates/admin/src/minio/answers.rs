//! Answers and errors in the form that MinIO's clients read.
//!
//! Invariants: an error is a JSON object with `Code` and `Message`; the code is MinIO's if MinIO has one,
//! because clients check it; the message is ours.
//!
//! Must not depend on: the calls.

use ashlar_s3::Body;
use bytes::Bytes;
use http::header::{self, HeaderName, HeaderValue};
use http::{Response, StatusCode};
use serde_json::{Value, json};

use crate::admin_request::Refusal;
use crate::responses::plain;

/// Header that says that a changed setting is already in effect.
pub const APPLIED: HeaderName = HeaderName::from_static("x-minio-config-applied");

/// The answer of a call.
pub struct Answer {
    /// The HTTP status.
    pub status: StatusCode,
    /// The body, before it is encrypted.
    pub body: Vec<u8>,
    /// Its content type.
    pub kind: &'static str,
    /// Whether a changed setting is already in effect.
    pub applied: bool,
    /// A stream that is sent instead of the body.
    pub stream: Option<Body>,
}

/// The result of a call.
pub type CallResult = Result<Answer, Refusal>;

/// An answer with a JSON document.
pub fn document(value: &Value) -> CallResult {
    Ok(Answer {
        status: StatusCode::OK,
        body: value.to_string().into(),
        kind: "application/json",
        applied: false,
        stream: None,
    })
}

/// An answer with a stream of JSON documents, one per line.
pub fn stream(body: Body) -> CallResult {
    let (status, kind) = (StatusCode::OK, "application/json");
    Ok(Answer { status, body: Vec::new(), kind, applied: false, stream: Some(body) })
}

/// 32 hexadecimal digits formatted as a UUID.
pub fn uuid(hex: &str) -> String {
    match (hex.get(..8), hex.get(8..12), hex.get(12..16), hex.get(16..20), hex.get(20..)) {
        (Some(a), Some(b), Some(c), Some(d), Some(e)) => format!("{a}-{b}-{c}-{d}-{e}"),
        _ => hex.to_owned(),
    }
}

/// An answer with text.
pub fn text(text: String) -> CallResult {
    Ok(Answer {
        status: StatusCode::OK,
        body: text.into(),
        kind: "text/plain; charset=utf-8",
        applied: false,
        stream: None,
    })
}

/// An empty answer.
pub fn done() -> CallResult {
    Ok(Answer {
        status: StatusCode::OK,
        body: Vec::new(),
        kind: "application/json",
        applied: false,
        stream: None,
    })
}

/// An empty answer with status 204.
pub fn no_content() -> CallResult {
    Ok(Answer {
        status: StatusCode::NO_CONTENT,
        body: Vec::new(),
        kind: "application/json",
        applied: false,
        stream: None,
    })
}

/// An empty answer after a change of a setting that is already in effect.
pub fn applied() -> CallResult {
    Ok(Answer {
        status: StatusCode::OK,
        body: Vec::new(),
        kind: "application/json",
        applied: true,
        stream: None,
    })
}

/// 400: the client has to change the request.
pub fn invalid(why: impl Into<String>) -> Refusal {
    Refusal { status: StatusCode::BAD_REQUEST, code: "XMinioAdminInvalidArgument", why: why.into() }
}

/// 501: this server does not implement `what`.
pub fn unsupported(what: &str) -> Refusal {
    let why = format!("{what} is not implemented by this server");
    Refusal { status: StatusCode::NOT_IMPLEMENTED, code: "NotImplemented", why }
}

/// Milliseconds since 1970 in MinIO's time format.
pub fn time(ms: i64) -> String {
    let at = time::OffsetDateTime::from_unix_timestamp_nanos(i128::from(ms) * 1_000_000);
    let at = at.unwrap_or(time::OffsetDateTime::UNIX_EPOCH);
    at.format(&time::format_description::well_known::Rfc3339).unwrap_or_default()
}

/// Parses a time in MinIO's format; 1970 and the year 1 mean none.
///
/// # Errors
/// The text is not a time.
pub fn parse_time(text: &str) -> Result<Option<i64>, Refusal> {
    let at = time::OffsetDateTime::parse(text, &time::format_description::well_known::Rfc3339)
        .map_err(|_| invalid(format!("\"{text}\" is no time")))?;
    let ms = i64::try_from(at.unix_timestamp_nanos() / 1_000_000).unwrap_or(0);
    Ok(Some(ms).filter(|ms| *ms > 0))
}

/// MinIO's HTTP status and code for an error of our API.
fn translated(no: &Refusal) -> (StatusCode, &'static str) {
    let bad = StatusCode::BAD_REQUEST;
    match (no.code, missing(&no.why)) {
        ("NoSuchEntity", "user") => (no.status, "XMinioAdminNoSuchUser"),
        ("NoSuchEntity", "group") => (no.status, "XMinioAdminNoSuchGroup"),
        ("NoSuchEntity", "policy") => (no.status, "XMinioAdminNoSuchPolicy"),
        ("NoSuchEntity", "access key") => (no.status, "XMinioInvalidIAMCredentials"),
        ("NoSuchEntity", "setting") => (bad, "XMinioAdminNoSuchConfigTarget"),
        ("DeleteConflict", _) if no.why.starts_with("the group") => (bad, "XMinioAdminGroupNotEmpty"),
        ("DeleteConflict", _) => (bad, "XMinioIAMPolicyInUse"),
        ("EntityAlreadyExists", _) => (no.status, "XMinioInvalidIAMCredentials"),
        ("MalformedPolicyDocument", _) => (bad, "XMinioMalformedIAMPolicy"),
        ("InvalidRequest", _) if no.why.starts_with("a secret key has") => {
            (bad, "XMinioAdminInvalidSecretKey")
        }
        ("InvalidRequest", _) if no.why.starts_with("nothing to do") => {
            (bad, "XMinioAdminPolicyChangeAlreadyApplied")
        }
        ("InvalidRequest", _) => (bad, "XMinioAdminInvalidArgument"),
        (code, _) => (no.status, code),
    }
}

/// What is missing, in an error `there is no WHAT context "..."`.
fn missing(why: &str) -> &str {
    why.strip_prefix("there is no ").and_then(|w| w.split(" called ").next()).unwrap_or_default()
}

/// The response for an error.
pub fn refused(no: &Refusal, path: &str, id: &str) -> Response<Body> {
    let (status, code) = translated(no);
    let body = json!({ "Code": code, "Message": no.why, "Resource": path, "RequestId": id, "HostId": "" });
    complete(status, body.to_string(), "application/json")
}

/// A response with a complete body.
pub fn complete(status: StatusCode, body: impl Into<Bytes>, kind: &'static str) -> Response<Body> {
    let mut response = plain(status, "");
    *response.body_mut() = Body::whole(body.into());
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use ashlar_iam::Error;

    #[test]
    fn errors_have_the_codes_that_clients_look_for() {
        let no = |what| Refusal::from(Error::Missing { what, name: "x called y".into() });
        let used = |what| Refusal::from(Error::InUse { what, name: "x".into(), by: "y".into() });
        for (refusal, want) in [
            (no("user"), (404, "XMinioAdminNoSuchUser")),
            (no("group"), (404, "XMinioAdminNoSuchGroup")),
            (no("policy"), (404, "XMinioAdminNoSuchPolicy")),
            (no("access key"), (404, "XMinioInvalidIAMCredentials")),
            (no("setting"), (400, "XMinioAdminNoSuchConfigTarget")),
            (used("policy"), (400, "XMinioIAMPolicyInUse")),
            (used("group"), (400, "XMinioAdminGroupNotEmpty")),
            (Refusal::from(Error::Invalid("x".into())), (400, "XMinioAdminInvalidArgument")),
            (unsupported("x"), (501, "NotImplemented")),
        ] {
            let (status, code) = translated(&refusal);
            assert_eq!((status.as_u16(), code), want, "{}", refusal.why);
        }
    }

    #[test]
    fn minio_times_round_trip() {
        assert_eq!(time(0), "1970-01-01T00:00:00Z");
        assert_eq!(parse_time("1970-01-01T00:00:00Z").unwrap(), None);
        assert_eq!(parse_time("0001-01-01T00:00:00Z").unwrap(), None);
        assert_eq!(parse_time(&time(1_700_000_000_123)).unwrap(), Some(1_700_000_000_123));
        assert_eq!(parse_time("2026-11-21T18:54:39.468312206+01:00").unwrap(), Some(1_795_283_679_468));
        assert!(parse_time("tomorrow").is_err());
    }
}
