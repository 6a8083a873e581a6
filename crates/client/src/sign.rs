//! AWS Signature Version 4: headers, query (presigned) and the chain of chunk signatures.
//!
//! Source: "Authenticating Requests (AWS Signature Version 4)" of the Amazon S3 API reference; the tests
//! contain its examples.
//!
//! Invariants: all headers that the map contains at the time of signing are signed, except those that proxies
//! and HTTP libraries change; the time is a parameter.
//!
//! Must not depend on: connections, retries.

use std::fmt::Write;

use ashlar_checksum::sha256;
use http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use parking_lot::Mutex;

use crate::{
    config::Credentials,
    encode::{percent_encode, query_string},
    sigv4::{ALGORITHM, AmzDate, Signature, SigningKey, text},
};

pub(crate) const X_AMZ_DATE: HeaderName = HeaderName::from_static("x-amz-date");
pub(crate) const X_AMZ_CONTENT_SHA256: HeaderName = HeaderName::from_static("x-amz-content-sha256");
pub(crate) const X_AMZ_SECURITY_TOKEN: HeaderName = HeaderName::from_static("x-amz-security-token");

/// Signs requests with one pair of credentials. Caches the derived key of the last day and region.
pub struct Signer {
    credentials: Credentials,
    service: &'static str,
    /// The key of the last day and region.
    cache: Mutex<Option<SigningKey>>,
}

/// The result of a signature, the seed of the chain of chunk signatures.
pub(crate) struct Signed {
    pub(crate) signature: Signature,
    pub(crate) key: SigningKey,
    pub(crate) date: AmzDate,
}

impl Signer {
    /// A signer for S3 (and for the administration API, which uses the same signature).
    pub fn new(credentials: Credentials) -> Signer {
        Signer { credentials, service: "s3", cache: Mutex::new(None) }
    }

    fn key(&self, region: &str, day: &str) -> SigningKey {
        let mut cache = self.cache.lock();
        if let Some(key) = &*cache
            && key.is_of(day, region)
        {
            return key.clone();
        }
        let key = SigningKey::new(&self.credentials.secret_key, day, region, self.service);
        *cache = Some(key.clone());
        key
    }

    /// Signs by headers: adds `x-amz-date`, `x-amz-content-sha256`, the session token and `authorization` to
    /// `headers`, which must contain `host` and all other headers to be signed. `path` and `query` are
    /// encoded as they are sent; `payload` is the value of `x-amz-content-sha256`.
    #[allow(clippy::too_many_arguments)] // these are the inputs of a signature, no more
    pub(crate) fn sign(
        &self,
        region: &str,
        date: AmzDate,
        method: &Method,
        path: &str,
        query: &str,
        headers: &mut HeaderMap,
        payload: &HeaderValue,
    ) -> Signed {
        headers.insert(X_AMZ_DATE, HeaderValue::from_str(date.as_str()).expect("digits"));
        headers.insert(X_AMZ_CONTENT_SHA256, payload.clone());
        if let Some(token) = self.credentials.session_token.as_deref()
            && let Ok(token) = HeaderValue::from_str(token)
        {
            headers.insert(X_AMZ_SECURITY_TOKEN, token);
        }
        let (signed, names) = self.signature(region, date, method, path, query, headers, payload.as_bytes());
        let authorization = [
            ALGORITHM,
            " Credential=",
            &self.credentials.access_key,
            "/",
            signed.key.scope(),
            ", SignedHeaders=",
            &names,
            ", Signature=",
            text(&signed.signature),
        ]
        .concat();
        if let Ok(mut value) = HeaderValue::try_from(authorization) {
            value.set_sensitive(true);
            headers.insert(header::AUTHORIZATION, value);
        }
        signed
    }

    #[allow(clippy::too_many_arguments)]
    fn signature(
        &self,
        region: &str,
        date: AmzDate,
        method: &Method,
        path: &str,
        query: &str,
        headers: &HeaderMap,
        payload: &[u8],
    ) -> (Signed, String) {
        let (canonical, names) = canonical_request(method, path, query, headers, payload);
        let key = self.key(region, date.day());
        let signature = key.request(&mut Vec::with_capacity(192), date, &canonical);
        (Signed { signature, key, date }, names)
    }

    /// The query string of a presigned request: `query` (not encoded) with the parameters of the signature,
    /// encoded and signed. Of the headers only `host` is signed. `seconds`: validity, 1 to 604,800.
    #[allow(clippy::too_many_arguments)]
    pub fn presign(
        &self,
        region: &str,
        date: AmzDate,
        method: &Method,
        host: &str,
        path: &str,
        query: &[(&str, &str)],
        seconds: u32,
    ) -> String {
        let credential = format!("{}/{}", self.credentials.access_key, self.key(region, date.day()).scope());
        let seconds = seconds.to_string();
        let mut pairs: Vec<_> = query.iter().map(|&(n, v)| (n.into(), v.into())).collect();
        let mut add = |name: &'static str, value: &str| {
            pairs.push((name.into(), std::borrow::Cow::Owned(value.to_owned())));
        };
        add("X-Amz-Algorithm", ALGORITHM);
        add("X-Amz-Credential", &credential);
        add("X-Amz-Date", date.as_str());
        add("X-Amz-Expires", &seconds);
        add("X-Amz-SignedHeaders", "host");
        if let Some(token) = &self.credentials.session_token {
            add("X-Amz-Security-Token", token);
        }
        let mut out = query_string(&pairs);
        let mut headers = HeaderMap::with_capacity(1);
        if let Ok(host) = HeaderValue::from_str(host) {
            headers.insert(header::HOST, host);
        }
        let (signed, _) = self.signature(region, date, method, path, &out, &headers, b"UNSIGNED-PAYLOAD");
        let _ = write!(out, "&X-Amz-Signature={}", percent_encode(text(&signed.signature), false));
        out
    }
}

/// Whether a header is not signed: HTTP libraries or proxies change it, or it belongs to the connection.
fn unsigned(name: &HeaderName) -> bool {
    [
        header::AUTHORIZATION,
        header::USER_AGENT,
        header::CONNECTION,
        header::EXPECT,
        header::ACCEPT_ENCODING,
        header::TRANSFER_ENCODING,
    ]
    .contains(name)
}

/// The canonical request and the list of signed header names.
fn canonical_request(
    method: &Method,
    path: &str,
    query: &str,
    headers: &HeaderMap,
    payload: &[u8],
) -> (Vec<u8>, String) {
    let mut signed: Vec<(&HeaderName, &HeaderValue)> =
        headers.iter().filter(|(name, _)| !unsigned(name)).collect();
    // Stable, so that several values of one name keep their order.
    signed.sort_by(|a, b| a.0.as_str().cmp(b.0.as_str()));
    let mut out = Vec::with_capacity(768);
    for piece in [method.as_str(), "\n", if path.is_empty() { "/" } else { path }, "\n", query, "\n"] {
        out.extend_from_slice(piece.as_bytes());
    }
    let mut names = String::with_capacity(128);
    let mut last: Option<&HeaderName> = None;
    for (name, value) in signed {
        if last == Some(name) {
            out.pop();
            out.push(b',');
        } else {
            if last.is_some() {
                names.push(';');
            }
            names.push_str(name.as_str());
            out.extend_from_slice(name.as_str().as_bytes());
            out.push(b':');
        }
        trimmed_into(&mut out, value.as_bytes());
        out.push(b'\n');
        last = Some(name);
    }
    out.push(b'\n');
    out.extend_from_slice(names.as_bytes());
    out.push(b'\n');
    out.extend_from_slice(payload);
    (out, names)
}

/// Appends a header value without outer spaces, and with inner runs of spaces reduced to one.
fn trimmed_into(out: &mut Vec<u8>, value: &[u8]) {
    let mut space = false;
    for &byte in value.trim_ascii() {
        if byte == b' ' && space {
            continue;
        }
        space = byte == b' ';
        out.push(byte);
    }
}

/// The chain of chunk signatures of a signed streaming upload.
pub(crate) struct ChunkSigner {
    key: SigningKey,
    date: AmzDate,
    previous: Signature,
    buffer: Vec<u8>,
}

impl ChunkSigner {
    /// Continues from the signature of the request's head.
    pub(crate) fn new(seed: Signed) -> ChunkSigner {
        ChunkSigner { key: seed.key, date: seed.date, previous: seed.signature, buffer: Vec::new() }
    }

    /// The signature of the next chunk.
    pub(crate) fn chunk(&mut self, data: &[u8]) -> &str {
        self.previous = self.key.chunk(&mut self.buffer, self.date, &self.previous, &sha256(data));
        text(&self.previous)
    }

    /// The signature of the trailing headers, each line ended by a line feed.
    pub(crate) fn trailer(&mut self, lines: &str) -> &str {
        self.previous = self.key.trailer(&mut self.buffer, self.date, &self.previous, lines.as_bytes());
        text(&self.previous)
    }
}

#[cfg(test)]
#[path = "sign_tests.rs"]
mod tests;
