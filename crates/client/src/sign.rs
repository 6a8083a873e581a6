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

use ashlar_checksum::{hmac_sha256, sha256};
use http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use parking_lot::Mutex;
use time::OffsetDateTime;

use crate::{
    config::Credentials,
    encode::{percent_encode, query_string},
};

const ALGORITHM: &str = "AWS4-HMAC-SHA256";
/// SHA-256 of no bytes, in hexadecimal.
pub(crate) const EMPTY_SHA256: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
pub(crate) const X_AMZ_DATE: HeaderName = HeaderName::from_static("x-amz-date");
pub(crate) const X_AMZ_CONTENT_SHA256: HeaderName = HeaderName::from_static("x-amz-content-sha256");
pub(crate) const X_AMZ_SECURITY_TOKEN: HeaderName = HeaderName::from_static("x-amz-security-token");

/// A time in the format of signatures: `YYYYMMDDTHHMMSSZ`, always UTC.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AmzDate([u8; 16]);

impl AmzDate {
    /// Formats a time; years outside 0..=9999 cannot be represented and become year 0.
    pub fn new(at: OffsetDateTime) -> AmzDate {
        let at = at.to_offset(time::UtcOffset::UTC);
        let mut out = *b"00000000T000000Z";
        let mut put = |from: usize, digits: usize, mut value: u32| {
            for at in (from..from + digits).rev() {
                out[at] = b'0' + (value % 10) as u8;
                value /= 10;
            }
        };
        put(0, 4, u32::try_from(at.year()).ok().filter(|y| *y < 10_000).unwrap_or(0));
        put(4, 2, u32::from(u8::from(at.month())));
        put(6, 2, u32::from(at.day()));
        put(9, 2, u32::from(at.hour()));
        put(11, 2, u32::from(at.minute()));
        put(13, 2, u32::from(at.second()));
        AmzDate(out)
    }

    /// Date and time, 16 characters.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).expect("only digits, T and Z")
    }

    /// The day, 8 characters.
    pub fn day(&self) -> &str {
        &self.as_str()[..8]
    }
}

/// Signs requests with one pair of credentials. Caches the derived key of the last day and region.
pub struct Signer {
    credentials: Credentials,
    service: &'static str,
    cache: Mutex<Option<DerivedKey>>,
}

struct DerivedKey {
    day: String,
    region: String,
    key: [u8; 32],
}

/// The result of a signature, the seed of the chain of chunk signatures.
pub(crate) struct Signed {
    pub(crate) signature: String,
    pub(crate) key: [u8; 32],
    pub(crate) scope: String,
    pub(crate) date: AmzDate,
}

impl Signer {
    /// A signer for S3 (and for the administration API, which uses the same signature).
    pub fn new(credentials: Credentials) -> Signer {
        Signer { credentials, service: "s3", cache: Mutex::new(None) }
    }

    fn key(&self, region: &str, day: &str) -> [u8; 32] {
        let mut cache = self.cache.lock();
        if let Some(derived) = &*cache
            && derived.day == day
            && derived.region == region
        {
            return derived.key;
        }
        let first = format!("AWS4{}", self.credentials.secret_key);
        let key = [day, region, self.service, "aws4_request"]
            .iter()
            .fold(None, |key: Option<[u8; 32]>, step| {
                Some(match key {
                    None => hmac_sha256(first.as_bytes(), step.as_bytes()),
                    Some(key) => hmac_sha256(&key, step.as_bytes()),
                })
            })
            .expect("the chain has four steps");
        *cache = Some(DerivedKey { day: day.into(), region: region.into(), key });
        key
    }

    fn scope(&self, region: &str, day: &str) -> String {
        [day, "/", region, "/", self.service, "/aws4_request"].concat()
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
            &signed.scope,
            ", SignedHeaders=",
            &names,
            ", Signature=",
            &signed.signature,
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
        let scope = self.scope(region, date.day());
        let key = self.key(region, date.day());
        let to_sign =
            [ALGORITHM, "\n", date.as_str(), "\n", &scope, "\n", &hex::encode(sha256(&canonical))].concat();
        let signature = hex::encode(hmac_sha256(&key, to_sign.as_bytes()));
        (Signed { signature, key, scope, date }, names)
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
        let scope = self.scope(region, date.day());
        let credential = format!("{}/{scope}", self.credentials.access_key);
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
        let _ = write!(out, "&X-Amz-Signature={}", percent_encode(&signed.signature, false));
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
    key: [u8; 32],
    previous: String,
    /// `date \n scope \n`, constant in all strings to sign.
    middle: String,
}

impl ChunkSigner {
    /// Continues from the signature of the request's head.
    pub(crate) fn new(seed: Signed) -> ChunkSigner {
        let middle = format!("{}\n{}\n", seed.date.as_str(), seed.scope);
        ChunkSigner { key: seed.key, previous: seed.signature, middle }
    }

    /// The signature of the next chunk.
    pub(crate) fn chunk(&mut self, data: &[u8]) -> &str {
        let hash = hex::encode(sha256(data));
        self.next(
            &["AWS4-HMAC-SHA256-PAYLOAD\n", &self.middle, &self.previous, "\n", EMPTY_SHA256, "\n", &hash]
                .concat(),
        )
    }

    /// The signature of the trailing headers, each line ended by a line feed.
    pub(crate) fn trailer(&mut self, lines: &str) -> &str {
        let hash = hex::encode(sha256(lines.as_bytes()));
        self.next(&["AWS4-HMAC-SHA256-TRAILER\n", &self.middle, &self.previous, "\n", &hash].concat())
    }

    fn next(&mut self, to_sign: &str) -> &str {
        self.previous = hex::encode(hmac_sha256(&self.key, to_sign.as_bytes()));
        &self.previous
    }
}

#[cfg(test)]
#[path = "sign_tests.rs"]
mod tests;
