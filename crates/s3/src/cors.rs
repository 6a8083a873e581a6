//! Cross-origin requests from browsers.
//!
//! Invariant: no answer allows credentials, so a page of another origin can read only what it could request
//! itself; reflected header names contain only token characters.

use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Method, StatusCode};

use crate::answer::Answer;
use crate::fault::{Code, Fault, Outcome};

const METHODS: &str = "GET, PUT, POST, DELETE, HEAD";
const EXPOSED: &str = "ETag, Content-Length, Content-Range, Accept-Ranges, Last-Modified, x-amz-request-id, x-amz-id-2, x-amz-version-id, x-amz-delete-marker, x-amz-checksum-crc32, x-amz-checksum-crc32c, x-amz-checksum-crc64nvme, x-amz-checksum-sha1, x-amz-checksum-sha256, x-amz-checksum-sha512, x-amz-checksum-md5, x-amz-checksum-xxhash64, x-amz-checksum-xxhash3, x-amz-checksum-xxhash128, x-amz-checksum-type, x-amz-mp-parts-count, x-amz-tagging-count";

/// Which origins may ask.
#[derive(Debug, Clone)]
pub struct Origins(Vec<String>);

impl Default for Origins {
    fn default() -> Self {
        Origins(vec!["*".to_owned()])
    }
}

impl Origins {
    /// `*`, or a list of origins, each as browsers send it (`https://example.org`).
    pub fn new(list: impl IntoIterator<Item = String>) -> Origins {
        Origins(list.into_iter().collect())
    }

    /// The value to answer to `origin`, if it may ask.
    fn allowed(&self, origin: &HeaderValue) -> Option<HeaderValue> {
        if self.0.iter().any(|o| o == "*") {
            return Some(HeaderValue::from_static("*"));
        }
        self.0.iter().any(|o| o.as_bytes() == origin.as_bytes()).then(|| origin.clone())
    }

    /// Answers `OPTIONS`.
    pub fn preflight(&self, headers: &HeaderMap) -> Outcome<Answer> {
        let Some(origin) = headers.get(header::ORIGIN) else {
            return Err(Fault::with(
                Code::INVALID_REQUEST,
                "Insufficient information. Origin request header needed.",
            ));
        };
        let method = headers.get(header::ACCESS_CONTROL_REQUEST_METHOD).and_then(|m| m.to_str().ok());
        let method = method.and_then(|m| m.parse::<Method>().ok());
        let served = |m: &Method| {
            matches!(*m, Method::GET | Method::PUT | Method::POST | Method::DELETE | Method::HEAD)
        };
        let Some(allowed) = self.allowed(origin).filter(|_| method.as_ref().is_some_and(served)) else {
            return Err(Fault::new(Code::CORS_FORBIDDEN));
        };
        let mut answer = Answer::new(StatusCode::OK);
        let out = &mut answer.headers;
        out.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, allowed);
        out.insert(header::ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static(METHODS));
        if let Some(names) = headers.get(header::ACCESS_CONTROL_REQUEST_HEADERS).and_then(|v| v.to_str().ok())
        {
            let token = |n: &&str| {
                !n.is_empty() && n.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
            };
            let names: Vec<String> =
                names.split(',').map(str::trim).filter(token).map(str::to_ascii_lowercase).collect();
            if let Ok(value) = HeaderValue::from_str(&names.join(", ")) {
                out.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, value);
            }
        }
        out.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(EXPOSED));
        out.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("3000"));
        out.insert(
            header::VARY,
            HeaderValue::from_static("Origin, Access-Control-Request-Headers, Access-Control-Request-Method"),
        );
        Ok(answer)
    }

    /// Adds to an answer what lets a page read it.
    pub fn decorate(&self, request: Option<&HeaderValue>, answer: &mut HeaderMap) {
        let Some(allowed) = request.and_then(|origin| self.allowed(origin)) else { return };
        if answer.contains_key(header::ACCESS_CONTROL_ALLOW_ORIGIN) {
            return;
        }
        answer.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, allowed);
        answer.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(EXPOSED));
        answer.append(header::VARY, HeaderValue::from_static("Origin"));
    }
}

/// The names a page may read, for documentation and tests.
pub fn exposed() -> impl Iterator<Item = Result<HeaderName, http::header::InvalidHeaderName>> {
    EXPOSED.split(", ").map(|n| HeaderName::from_bytes(n.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn preflight_never_allows_credentials() {
        let mut headers = HeaderMap::new();
        assert!(Origins::default().preflight(&headers).is_err());
        headers.insert(header::ORIGIN, HeaderValue::from_static("https://a.example"));
        assert!(Origins::default().preflight(&headers).is_err());
        headers.insert(header::ACCESS_CONTROL_REQUEST_METHOD, HeaderValue::from_static("PUT"));
        headers.insert(
            header::ACCESS_CONTROL_REQUEST_HEADERS,
            HeaderValue::from_static("X-Amz-Date, bad name, ok"),
        );
        let answer = Origins::default().preflight(&headers).unwrap();
        assert_eq!(answer.headers[header::ACCESS_CONTROL_ALLOW_ORIGIN], "*");
        assert_eq!(answer.headers[header::ACCESS_CONTROL_ALLOW_HEADERS], "x-amz-date, ok");
        assert!(!answer.headers.contains_key(header::ACCESS_CONTROL_ALLOW_CREDENTIALS));
        let listed = Origins::new(["https://b.example".to_owned()]);
        assert_eq!(listed.preflight(&headers).err().unwrap().code(), Code::CORS_FORBIDDEN);
        assert!(exposed().all(|n| n.is_ok()));
    }
}
