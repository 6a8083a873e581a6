//! The built files of the console, as answers.
//!
//! Files are embedded compressed (gzip) and are sent so to browsers that accept it. Their names contain a hash of
//! their content, so browsers may keep them for ever; the page itself names the files and is asked for each time.
//! The page gets a fresh nonce, because the library of its dialogs adds one style element.
//!
//! Invariants: the policy in [`page`] permits no script and no connection except those of this origin, and no
//! frame around the page; a worker may open no connection at all; every answer forbids guessing another content type.
//!
//! Must not depend on: sessions, the services.

use std::io::Read as _;

use ashlar_s3::Body;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use flate2::read::GzDecoder;
use http::header::{self, HeaderMap, HeaderValue};
use http::{Response, StatusCode};

use crate::embedded;

/// A built file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Asset {
    /// The name below `assets/`, with a hash.
    pub name: &'static str,
    /// The content type.
    pub kind: &'static str,
    /// The content, compressed with gzip.
    pub gzip: &'static [u8],
}

/// What a worker may do: load code of this origin; open no connection, evaluate no text, compile no WebAssembly.
const WORKER_POLICY: &str = "default-src 'none'; script-src 'self'";

/// Where the page has the nonce.
const NONCE: &str = "@nonce@";

#[cfg(test)]
pub(crate) fn all() -> &'static [Asset] {
    embedded::FILES
}

pub(crate) fn find(name: &str) -> Option<&'static Asset> {
    embedded::FILES.iter().find(|a| a.name == name)
}

/// The answer with a built file.
pub(crate) fn file(asset: &'static Asset, headers: &HeaderMap) -> Response<Body> {
    let accepted = headers.get(header::ACCEPT_ENCODING).and_then(|v| v.to_str().ok()).unwrap_or_default();
    let mut response = if accepts_gzip(accepted) {
        let mut response = Response::new(Body::whole(Bytes::from_static(asset.gzip)));
        response.headers_mut().insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        response
    } else {
        let mut plain = Vec::new();
        match GzDecoder::new(asset.gzip).read_to_end(&mut plain) {
            Ok(_) => Response::new(Body::whole(plain)),
            // The table is generated and tested: this is a broken build.
            Err(_) => {
                let mut response = Response::new(Body::empty());
                *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
                response
            }
        }
    };
    let out = response.headers_mut();
    out.insert(header::CONTENT_TYPE, HeaderValue::from_static(asset.kind));
    out.insert(header::CACHE_CONTROL, HeaderValue::from_static("public, max-age=31536000, immutable"));
    out.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
    // A worker has the policy of its own file, not that of the page. The one of pdf.js reads untrusted documents.
    out.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(WORKER_POLICY));
    guarded(out);
    response
}

fn accepts_gzip(accepted: &str) -> bool {
    accepted.split(',').any(|one| {
        let mut parts = one.split(';').map(str::trim);
        parts.next() == Some("gzip") && !parts.any(|p| p == "q=0" || p == "q=0.0")
    })
}

/// The answer with the page.
pub(crate) fn page() -> Response<Body> {
    let mut random = [0u8; 16];
    ashlar_environment::random::fill(&mut random).expect("the operating system gives random bytes");
    let nonce = STANDARD.encode(random);
    let policy = format!(
        "default-src 'none'; script-src 'self'; style-src 'self' 'nonce-{nonce}'; img-src 'self' data: blob:; \
         media-src 'self'; font-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; \
         frame-ancestors 'none'"
    );
    let mut response = Response::new(Body::whole(embedded::PAGE.replace(NONCE, &nonce)));
    let out = response.headers_mut();
    out.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    out.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if let Ok(policy) = HeaderValue::from_str(&policy) {
        out.insert(header::CONTENT_SECURITY_POLICY, policy);
    }
    out.insert("cross-origin-opener-policy", HeaderValue::from_static("same-origin"));
    out.insert(header::X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
    guarded(out);
    response
}

fn guarded(headers: &mut HeaderMap) {
    headers.insert(header::SERVER, HeaderValue::from_static("Ashlar"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("same-origin"));
    headers.insert("cross-origin-resource-policy", HeaderValue::from_static("same-origin"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_opens_and_the_page_names_only_files_that_exist() {
        assert!(!all().is_empty());
        for asset in all() {
            let mut plain = Vec::new();
            GzDecoder::new(asset.gzip).read_to_end(&mut plain).unwrap();
            assert!(!plain.is_empty(), "{}", asset.name);
            assert!(asset.name.contains(['-', '.']) && !asset.name.contains('/'), "{}", asset.name);
        }
        let mut named = 0;
        for part in embedded::PAGE.split("./assets/").skip(1) {
            let name = part.split('"').next().unwrap();
            assert!(find(name).is_some(), "the page names {name}");
            named += 1;
        }
        assert!(named >= 2, "a script and a style sheet");
        assert!(embedded::PAGE.contains(NONCE));
        assert!(!embedded::PAGE.contains("=\"/"), "addresses are relative, for a path in front");
    }

    #[test]
    fn page_has_a_fresh_nonce_and_a_policy_without_foreign_sources() {
        let policy =
            |r: &Response<Body>| r.headers()[header::CONTENT_SECURITY_POLICY].to_str().unwrap().to_owned();
        let (a, b) = (policy(&page()), policy(&page()));
        assert_ne!(a, b);
        assert!(!a.contains("unsafe") && !a.contains("http"), "{a}");
        assert!(a.contains("default-src 'none'") && a.contains("frame-ancestors 'none'"), "{a}");
    }

    #[test]
    fn files_are_compressed_only_for_those_who_accept_it() {
        let asset = &all()[0];
        let of = |accept: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static(accept));
            let response = file(asset, &headers);
            assert!(response.headers()[header::CACHE_CONTROL].to_str().unwrap().contains("immutable"));
            assert_eq!(response.headers()[header::CONTENT_SECURITY_POLICY], WORKER_POLICY);
            (response.headers().contains_key(header::CONTENT_ENCODING), response.body().len())
        };
        assert_eq!(of("gzip, deflate, br"), (true, asset.gzip.len() as u64));
        for other in ["br", "identity", "gzip;q=0"] {
            let (packed, length) = of(other);
            assert!(!packed && length != asset.gzip.len() as u64, "{other}");
        }
    }
}
