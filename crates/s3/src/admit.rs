//! Admission of a request: parses its head, authenticates it, and determines its operation.
//!
//! Invariants: this file uses only the names of buckets and keys and looks none of them up; a [`Call`] that
//! leaves this file has a verified signature or is anonymous. Must not depend on: objects.

use http::Method;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::request::Parts;

use crate::auth::{self, Scheme, Verified};
use crate::document_cache::Origin;
use crate::fault::{Code, Fault, Outcome};
use crate::form;
use crate::framing::Framing;
use crate::headers;
use crate::operation::{Operation, classify};
use crate::ops::{Call, bucket_policy, lock};
use crate::request_body::{RequestBody, Source};
use crate::service::{Arrival, Seen, Service};
use crate::target::{Target, is_bucket_name};

/// Longest header block.
pub const MAX_HEADERS: usize = 64 * 1024;

/// The head of a request, read once.
pub(crate) struct Head {
    pub target: Target,
    pub host: String,
}

impl Service {
    /// Checks of the head that do not need the caller's identity.
    pub(crate) fn head(&self, parts: &mut Parts, framing: Framing) -> Outcome<Head> {
        match framing {
            Framing::Both => {
                return Err(Fault::with(
                    Code::INVALID_REQUEST,
                    "Content-Length and Transfer-Encoding were both sent. Send one of them.",
                )
                .closing());
            }
            Framing::Lengths => {
                return Err(
                    Fault::with(Code::INVALID_REQUEST, "Content-Length was sent more than once.").closing()
                );
            }
            Framing::Bare => {
                return Err(Fault::with(
                    Code::INVALID_REQUEST,
                    "A line of the request head does not end in CR LF.",
                )
                .closing());
            }
            Framing::Unknown | Framing::Clean | Framing::Transfer => {}
        }
        let size: usize = parts.headers.iter().map(|(n, v)| n.as_str().len() + v.len() + 4).sum();
        if size > MAX_HEADERS {
            return Err(Fault::with(Code::HEADERS_TOO_LARGE, Code::HEADERS_TOO_LARGE.text)
                .element("MaxSizeAllowed", MAX_HEADERS.to_string())
                .closing());
        }
        auth::join_repeated(&mut parts.headers)?;
        let host = parts.headers.get(header::HOST).and_then(|h| h.to_str().ok()).filter(|h| !h.is_empty());
        let host =
            host.ok_or_else(|| Fault::with(Code::INVALID_REQUEST, "The request has no Host header."))?;
        if parts.uri.authority().is_some_and(|a| !a.as_str().eq_ignore_ascii_case(host)) {
            return Err(Fault::with(
                Code::INVALID_REQUEST,
                "The host of the request target is not the host of the Host header.",
            )
            .closing());
        }
        let target = Target::parse(parts.uri.path(), parts.uri.query(), self.bucket_of(host))?;
        Ok(Head { target, host: host.to_owned() })
    }

    /// Whether the Host header names a bucket.
    pub fn is_virtual_host(&self, headers: &HeaderMap) -> bool {
        let host = headers.get(header::HOST).and_then(|h| h.to_str().ok());
        host.is_some_and(|h| self.bucket_of(h).is_some())
    }

    /// The bucket that a Host header names, if it is below one of our domains.
    pub(crate) fn bucket_of<'h>(&self, host: &'h str) -> Option<&'h str> {
        below(&self.domains, host)
    }

    /// Verifies the signature, finds the operation, and prepares the body.
    #[allow(clippy::result_large_err)]
    pub(crate) fn admit(
        &self,
        parts: &mut Parts,
        source: Source,
        head: Head,
        arrival: &Arrival<'_>,
        seen: &mut Seen,
        id: &str,
    ) -> Result<(Call, Operation), (Fault, Option<Source>)> {
        let Head { target, host } = head;
        let admitted = self.verify(parts, &target, seen);
        let (mut verified, op, headers) = match admitted {
            Ok(admitted) => admitted,
            Err(fault) => return Err((fault, Some(source))),
        };
        seen.op = op;
        // Errors in the body of an unsigned request are reported only if a policy may allow the request.
        let bucket = target.bucket.as_deref().unwrap_or_default();
        let hidden = verified.scheme() == Scheme::Anonymous && !bucket_policy::exists(&seen.buckets, bucket);
        let tell = |fault: Fault| match (hidden, fault.closes()) {
            (false, _) => fault,
            (true, false) => Fault::new(Code::ACCESS_DENIED),
            (true, true) => Fault::new(Code::ACCESS_DENIED).closing(),
        };
        let request_body = match RequestBody::new(source, &headers, &mut verified) {
            Ok(mut request_body) => {
                if seen.traced {
                    request_body.measure();
                }
                request_body
            }
            Err((fault, source)) => {
                let fault = tell(fault);
                seen.audit_context.verified = Some(verified);
                return Err((fault, Some(source)));
            }
        };
        let call = Call {
            method: parts.method.clone(),
            bucket: target.bucket.unwrap_or_default(),
            buckets: seen.buckets.clone(),
            key: target.key.unwrap_or_default(),
            query: target.query,
            headers,
            request_body,
            verified,
            host,
            tls: arrival.tls,
            origin: Origin { ip: arrival.peer.ip(), document_cache: self.document_cache.clone() },
            authz_decision: Default::default(),
            id: id.to_owned(),
        };
        Ok((call, op))
    }

    fn verify(
        &self,
        parts: &mut Parts,
        target: &Target,
        seen: &mut Seen,
    ) -> Outcome<(Verified, Operation, HeaderMap)> {
        let now = (self.context.clock)().div_euclid(1000);
        let request =
            auth::Request { method: &parts.method, uri: &parts.uri, target, headers: &parts.headers };
        let verified = self.verifier.verify(&request, now)?;
        let anonymous = verified.scheme() == Scheme::Anonymous;
        seen.verified = !anonymous;
        // An anonymous caller learns nothing, not even which features are missing.
        let hidden = |fault| if anonymous { Fault::new(Code::ACCESS_DENIED) } else { fault };
        // A presigned request may have its headers in the query.
        let in_query = verified.scheme() == Scheme::QueryV4
            && target.query.iter().any(|(name, _)| name.eq_ignore_ascii_case(COPY_SOURCE));
        let copy = in_query || parts.headers.contains_key(COPY_SOURCE);
        let op = classify(&parts.method, target, copy, false).map_err(hidden)?;
        if let Some(bucket) = target.bucket.as_deref().filter(|b| !is_bucket_name(b)) {
            return Err(hidden(
                Fault::new(Code::INVALID_BUCKET_NAME)
                    .element("BucketName", bucket.chars().take(128).collect::<String>()),
            ));
        }
        let mut headers = std::mem::take(&mut parts.headers);
        if verified.scheme() == Scheme::QueryV4 {
            hoist(target, &mut headers)?;
        }
        forget_foreign(op, &mut headers);
        Ok((verified, op, headers))
    }
}

const COPY_SOURCE: &str = "x-amz-copy-source";

/// Takes out tags and locks that the operation does not store, so that they are no facts for a decision.
fn forget_foreign(op: Operation, headers: &mut HeaderMap) {
    use Operation as Op;
    let makes = matches!(op, Op::PutObject | Op::CopyObject | Op::CreateMultipartUpload);
    let copies_tags = op == Op::CopyObject
        && headers::ascii(headers, "x-amz-tagging-directive").is_none_or(|d| d != "REPLACE");
    if !makes || copies_tags {
        headers.remove("x-amz-tagging");
    }
    if !makes {
        for name in lock::HEADERS {
            headers.remove(name);
        }
    }
}

/// What stands before one of `domains` in a Host header.
pub(crate) fn below<'h>(domains: &[String], host: &'h str) -> Option<&'h str> {
    if domains.is_empty() {
        return None;
    }
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) => name,
        _ => host,
    };
    domains.iter().find_map(|domain| {
        let cut = name.len().checked_sub(domain.len() + 1)?;
        let (bucket, rest) = (name.get(..cut)?, name.get(cut..)?);
        (rest.starts_with('.') && rest[1..].eq_ignore_ascii_case(domain) && !bucket.is_empty())
            .then_some(bucket)
    })
}

/// The boundary, if this is a form posted to a bucket.
pub(crate) fn posted_form(parts: &Parts, target: &Target) -> Option<String> {
    let at_bucket = target.bucket.is_some() && target.key.is_none() && !target.query.has("delete");
    (parts.method == Method::POST && at_bucket).then(|| form::boundary(&parts.headers)).flatten()
}

/// SDKs move `x-amz-*` headers of presigned requests into the query; they are signed there. A header of the
/// same name must not have another value.
fn hoist(target: &Target, headers: &mut HeaderMap) -> Outcome<()> {
    const OF_THE_SIGNATURE: [&str; 8] = [
        "x-amz-algorithm",
        "x-amz-credential",
        "x-amz-date",
        "x-amz-expires",
        "x-amz-signedheaders",
        "x-amz-signature",
        "x-amz-content-sha256",
        "x-amz-user-agent",
    ];
    for (name, value) in target.query.iter() {
        let lower = name.to_ascii_lowercase();
        if !lower.starts_with("x-amz-") || OF_THE_SIGNATURE.contains(&lower.as_str()) {
            continue;
        }
        let bad = || {
            Fault::with(
                Code::INVALID_ARGUMENT,
                format!("The query parameter {lower} cannot stand for a header."),
            )
        };
        let name = HeaderName::from_bytes(lower.as_bytes()).map_err(|_| bad())?;
        let value = HeaderValue::from_bytes(value.as_bytes()).map_err(|_| bad())?;
        if headers.get(&name).is_some_and(|v| *v != value) {
            return Err(bad());
        }
        headers.insert(name, value);
    }
    Ok(())
}
