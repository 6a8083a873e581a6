//! Signature Version 4 for the requests and links that this crate makes itself.
//!
//! Reference: AWS, "Signature Version 4 for Amazon S3". The canonical form is made from the decoded request, as
//! the server's check does it (`ashlar_s3::auth`).
//!
//! Invariant: the host and every `x-amz-*` header are signed.
//!
//! Must not depend on: sessions, where a request goes.

use std::fmt::Write as _;

use ashlar_checksum::{hmac_sha256, sha256};
use ashlar_s3::auth::derived_key;
use ashlar_s3::date;
use ashlar_s3::fault::Outcome;
use ashlar_s3::target::{Target, canonical_encode};
use http::header::{self, HeaderMap, HeaderValue};
use http::request::Parts;
use http::{Method, Uri};

/// What signs.
pub(crate) struct Signer<'a> {
    pub access_key: &'a str,
    pub secret: &'a str,
    /// Of a session.
    pub token: Option<&'a str>,
    pub region: &'a str,
    /// In seconds since 1970.
    pub now_s: i64,
}

/// The payload of a request whose body the signature does not cover.
pub(crate) const UNSIGNED: &str = "UNSIGNED-PAYLOAD";

fn encoded(text: &str, keep_slash: bool) -> String {
    let mut out = Vec::with_capacity(text.len() + 8);
    canonical_encode(&mut out, text, keep_slash);
    String::from_utf8(out).unwrap_or_default()
}

impl Signer<'_> {
    /// Signs the head of a request. `payload`: [`UNSIGNED`], or the hash of the body. Replaces what the head has of
    /// another signature.
    ///
    /// # Errors
    /// The target cannot be decoded.
    pub fn sign(&self, parts: &mut Parts, service: &str, payload: &str) -> Outcome<()> {
        let stamp = date::format_basic(self.now_s);
        let headers = &mut parts.headers;
        headers.remove(header::AUTHORIZATION);
        headers.remove("x-amz-security-token");
        let mut put = |name: &'static str, value: &str| {
            if let Ok(value) = HeaderValue::from_str(value) {
                headers.insert(name, value);
            }
        };
        put("x-amz-date", &stamp);
        put("x-amz-content-sha256", payload);
        if let Some(token) = self.token {
            put("x-amz-security-token", token);
        }
        let mut names: Vec<String> = headers
            .keys()
            .map(|n| n.as_str().to_owned())
            .filter(|n| n == "host" || n.starts_with("x-amz-"))
            .collect();
        names.sort_unstable();
        let target = Target::parse(parts.uri.path(), parts.uri.query(), None)?;
        let pairs = target.query.iter().map(|(n, v)| (n.to_owned(), v.to_owned())).collect();
        let scope = self.scope(&stamp, service);
        let canonical =
            canonical(&parts.method, &target.path, &query(pairs), &parts.headers, &names, payload);
        let signature = self.signature(&stamp, &scope, service, &canonical);
        let value = format!(
            "AWS4-HMAC-SHA256 Credential={}/{scope}, SignedHeaders={}, Signature={signature}",
            self.access_key,
            names.join(";")
        );
        if let Ok(value) = HeaderValue::from_str(&value) {
            parts.headers.insert(header::AUTHORIZATION, value);
        }
        Ok(())
    }

    /// The path and query of a presigned GET of `path` (decoded) at `host`, valid for `seconds`.
    pub fn presign(&self, host: &str, path: &str, extra: &[(&str, &str)], seconds: i64) -> String {
        let stamp = date::format_basic(self.now_s);
        let scope = self.scope(&stamp, "s3");
        let mut pairs: Vec<(String, String)> = vec![
            ("X-Amz-Algorithm".into(), "AWS4-HMAC-SHA256".into()),
            ("X-Amz-Credential".into(), format!("{}/{scope}", self.access_key)),
            ("X-Amz-Date".into(), stamp.clone()),
            ("X-Amz-Expires".into(), seconds.to_string()),
            ("X-Amz-SignedHeaders".into(), "host".into()),
        ];
        pairs.extend(self.token.map(|t| ("X-Amz-Security-Token".to_owned(), t.to_owned())));
        pairs.extend(extra.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())));
        let query = query(pairs);
        let mut headers = HeaderMap::new();
        if let Ok(host) = HeaderValue::from_str(host) {
            headers.insert(header::HOST, host);
        }
        let canonical = canonical(&Method::GET, path, &query, &headers, &["host".to_owned()], UNSIGNED);
        let signature = self.signature(&stamp, &scope, "s3", &canonical);
        format!("{}?{query}&X-Amz-Signature={signature}", encoded(path, true))
    }

    fn scope(&self, stamp: &str, service: &str) -> String {
        format!("{}/{}/{service}/aws4_request", &stamp[..8], self.region)
    }

    fn signature(&self, stamp: &str, scope: &str, service: &str, canonical: &str) -> String {
        let text =
            format!("AWS4-HMAC-SHA256\n{stamp}\n{scope}\n{}", hex::encode(sha256(canonical.as_bytes())));
        let key = derived_key(self.secret, &stamp[..8], self.region, service);
        hex::encode(hmac_sha256(&key, text.as_bytes()))
    }
}

/// The canonical form of decoded parameters.
fn query(pairs: Vec<(String, String)>) -> String {
    let mut pairs: Vec<_> = pairs.iter().map(|(n, v)| (encoded(n, false), encoded(v, false))).collect();
    pairs.sort_unstable();
    let pairs: Vec<_> = pairs.into_iter().map(|(n, v)| format!("{n}={v}")).collect();
    pairs.join("&")
}

fn canonical(
    method: &Method,
    path: &str,
    query: &str,
    headers: &HeaderMap,
    names: &[String],
    payload: &str,
) -> String {
    let mut out = format!("{method}\n{}\n{query}\n", encoded(path, true));
    for name in names {
        let values: Vec<_> = headers
            .get_all(name)
            .iter()
            .map(|v| {
                let text = String::from_utf8_lossy(v.as_bytes()).into_owned();
                text.split_ascii_whitespace().collect::<Vec<_>>().join(" ")
            })
            .collect();
        let _ = writeln!(out, "{name}:{}", values.join(","));
    }
    let _ = write!(out, "\n{}\n{payload}", names.join(";"));
    out
}

/// A target below a path, as it came: neither decoded nor normalized.
pub(crate) fn below(uri: &Uri, prefix: &str, replacement: &str) -> Option<Uri> {
    let text = uri.path_and_query()?.as_str();
    let rest = text.strip_prefix(prefix)?;
    format!("{replacement}{rest}").parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// AWS's documented example of a presigned URL.
    #[test]
    fn presigned_url_is_that_of_the_reference() {
        let signer = Signer {
            access_key: "AKIAIOSFODNN7EXAMPLE",
            secret: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
            token: None,
            region: "us-east-1",
            now_s: 1_369_353_600,
        };
        let url = signer.presign("examplebucket.s3.amazonaws.com", "/test.txt", &[], 86_400);
        assert!(
            url.ends_with("X-Amz-Signature=aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404"),
            "{url}"
        );
    }

    #[test]
    fn targets_are_cut_as_they_came() {
        let cut = |from: &str| below(&from.parse().unwrap(), "/console/s3", "").map(|u| u.to_string());
        assert_eq!(cut("/console/s3/b/a%2Fb%20c?x=%2F").as_deref(), Some("/b/a%2Fb%20c?x=%2F"));
        assert_eq!(cut("/console/s3/").as_deref(), Some("/"));
        assert_eq!(cut("/other"), None);
    }
}
