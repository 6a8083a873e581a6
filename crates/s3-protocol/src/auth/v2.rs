//! AWS Signature Version 2: header, query and form, for old tools that still use it.
//!
//! It signs every `x-amz-*` header and the sub-resources in the table of operations ([`SIGNED`]); it never
//! covers the body. Invariant: every query parameter that selects an operation is signed, so that none can be
//! added to a URL that was signed for another operation. Reference: AWS, "Signing and authenticating REST
//! requests (AWS signature version 2)".

use std::sync::Arc;

use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::HeaderMap;

use super::{Identity, MAX_SKEW, Payload, Request, Scheme, Verified, Verifier, unknown_key, wrong_signature};
use crate::date;
use crate::fault::{Code, Fault, Outcome};
use crate::operation::SIGNED;

pub(super) fn header(verifier: &Verifier, request: &Request<'_>, value: &str, now: i64) -> Outcome<Verified> {
    let bad = || {
        Fault::with(
            Code::INVALID_ARGUMENT,
            "AWS authorization header is malformed. Expected: AWS KEY:SIGNATURE",
        )
    };
    let (id, signature) =
        value.strip_prefix("AWS ").and_then(|r| r.trim().rsplit_once(':')).ok_or_else(bad)?;
    let text = |name: &str| request.headers.get(name).and_then(|v| v.to_str().ok());
    let stamp = text("x-amz-date").or_else(|| text("date"));
    let at = stamp.and_then(|s| date::parse_mail(s).or_else(|| date::parse_basic(s))).ok_or_else(|| {
        Fault::with(Code::ACCESS_DENIED, "AWS authentication requires a valid Date or x-amz-date header")
    })?;
    if (now - at).abs() > MAX_SKEW {
        return Err(Fault::new(Code::REQUEST_TIME_SKEWED)
            .element("RequestTime", stamp.unwrap_or_default())
            .element("ServerTime", date::format_iso_secs(now))
            .element("MaxAllowedSkewMilliseconds", (MAX_SKEW * 1000).to_string()));
    }
    let when = if request.headers.contains_key("x-amz-date") { "" } else { stamp.unwrap_or_default() };
    let token = text("x-amz-security-token");
    let identity = check_request(verifier, request, (id, token), signature, when)?;
    Ok(verified(identity, Scheme::HeaderV2))
}

pub(super) fn query(verifier: &Verifier, request: &Request<'_>, now: i64) -> Outcome<Verified> {
    let query = &request.target.query;
    let need = |name: &'static str| {
        query.filled(name).ok_or_else(|| {
            Fault::with(
                Code::ACCESS_DENIED,
                "Query-string authentication requires the Signature, Expires and AWSAccessKeyId parameters",
            )
        })
    };
    let (id, signature, expires) = (need("AWSAccessKeyId")?, need("Signature")?, need("Expires")?);
    let until: i64 = expires.parse().map_err(|_| {
        Fault::with(Code::ACCESS_DENIED, "Invalid date (should be seconds since epoch): Expires")
    })?;
    if now > until {
        return Err(Fault::with(Code::ACCESS_DENIED, "Request has expired")
            .element("Expires", date::format_iso_secs(until.max(0)))
            .element("ServerTime", date::format_iso_secs(now)));
    }
    let identity = check_request(verifier, request, (id, None), signature, expires)?;
    Ok(verified(identity, Scheme::QueryV2))
}

pub(super) fn form(
    verifier: &Verifier,
    fields: &crate::fields::Fields,
    signature: &str,
) -> Outcome<Verified> {
    let need = |name: &'static str| {
        fields.get(name).ok_or_else(|| Fault::argument(name, "", format!("Bucket POST must contain a field named '{name}'. If it is specified, please check the order of the fields.")))
    };
    let (id, policy) = (need("awsaccesskeyid")?, need("policy")?);
    let identity = check(verifier, id, fields.get("x-amz-security-token"), signature, policy)?;
    Ok(verified(identity, Scheme::Form))
}

fn verified(identity: Arc<Identity>, scheme: Scheme) -> Verified {
    Verified { identity, scheme, payload: Payload::Unsigned, chain: None }
}

/// Checks the signature of a request. Of a bucket, `/bucket` may be signed and `/bucket/` (botocore): they are
/// the same resource.
fn check_request(
    verifier: &Verifier,
    request: &Request<'_>,
    (id, token): (&str, Option<&str>),
    signature: &str,
    date: &str,
) -> Outcome<Arc<Identity>> {
    let path = request.uri.path();
    let bucket = !request.target.virtual_host && request.target.key.is_none() && path.len() > 1;
    let refused = match check(verifier, id, token, signature, &string_to_sign(request, path, date)) {
        Err(refused) if bucket && refused.code() == Code::SIGNATURE_MISMATCH => refused,
        checked => return checked,
    };
    let other = match path.strip_suffix('/') {
        Some(without) => without.to_owned(),
        None => format!("{path}/"),
    };
    check(verifier, id, token, signature, &string_to_sign(request, &other, date)).map_err(|_| refused)
}

fn check(
    verifier: &Verifier,
    id: &str,
    token: Option<&str>,
    signature: &str,
    to_sign: &str,
) -> Outcome<Arc<Identity>> {
    let (identity, known) = verifier.identity_of(id, token)?;
    let given = STANDARD.decode(signature).unwrap_or_default();
    let good = hmac::verify(&key(&identity), to_sign.as_bytes(), &given).is_ok();
    if !known {
        return Err(unknown_key(id));
    }
    if good {
        return Ok(identity);
    }
    Err(wrong_signature(id, signature, to_sign, None))
}

fn key(identity: &Identity) -> hmac::Key {
    hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, identity.secret.expose().as_bytes())
}

fn string_to_sign(request: &Request<'_>, path: &str, date: &str) -> String {
    let header = |name: &str| lossy(request.headers, name);
    let mut out =
        format!("{}\n{}\n{}\n{date}\n", request.method, header("content-md5"), header("content-type"));
    let mut names: Vec<&str> =
        request.headers.keys().map(|n| n.as_str()).filter(|n| n.starts_with("x-amz-")).collect();
    names.sort_unstable();
    for name in names {
        out.push_str(name);
        out.push(':');
        out.push_str(&lossy(request.headers, name));
        out.push('\n');
    }
    if request.target.virtual_host {
        out.push('/');
        out.push_str(request.target.bucket.as_deref().unwrap_or_default());
    }
    out.push_str(path);
    let mut separator = '?';
    for &name in SIGNED.iter() {
        if let Some(value) = request.target.query.get(name) {
            out.push(separator);
            out.push_str(name);
            if !value.is_empty() {
                out.push('=');
                out.push_str(value);
            }
            separator = '&';
        }
    }
    out
}

fn lossy(headers: &HeaderMap, name: &str) -> String {
    headers
        .get(name)
        .map(|v| String::from_utf8_lossy(v.as_bytes().trim_ascii()).into_owned())
        .unwrap_or_default()
}
