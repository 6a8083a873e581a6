//! The audit record of one request.
//!
//! Invariant: values from a request's head come through [`headers_of`], which has a list of full names, not
//! prefixes: a header that is not on the list is not written. Lengths are bounded, so that a record has at
//! most about 8 KiB.

use std::net::IpAddr;

use http::HeaderMap;
use serde::Serialize;

/// Headers whose values may be recorded.
pub const HEADERS: [&str; 14] = [
    "host",
    "content-type",
    "content-length",
    "range",
    "if-match",
    "if-none-match",
    "referer",
    "x-amz-acl",
    "x-amz-bypass-governance-retention",
    "x-amz-copy-source",
    "x-amz-object-lock-mode",
    "x-amz-object-lock-retain-until-date",
    "x-amz-storage-class",
    "x-amz-tagging-directive",
];

/// Query parameters whose values may be recorded.
pub const QUERY: [&str; 7] =
    ["delimiter", "list-type", "marker", "max-keys", "partNumber", "prefix", "versionId"];

/// Longest value of a header or parameter.
const VALUE: usize = 256;

/// The API that a request belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ApiLayer {
    /// S3.
    S3,
    /// The security token service.
    Sts,
    /// Administration.
    Admin,
}

impl ApiLayer {
    /// Its name in records.
    pub fn name(self) -> &'static str {
        match self {
            ApiLayer::S3 => "s3",
            ApiLayer::Sts => "sts",
            ApiLayer::Admin => "admin",
        }
    }
}

/// One request.
#[derive(Clone, Debug, Serialize)]
pub struct Record {
    /// When it came, in milliseconds since 1970.
    #[serde(serialize_with = "iso")]
    pub time: i64,
    /// The request id in the answer.
    pub request_id: String,
    /// The API that it belongs to.
    #[serde(rename = "api")]
    pub api_layer: ApiLayer,
    /// What was asked for, `GetObject` for example.
    pub operation: &'static str,
    /// The HTTP method.
    pub method: String,
    /// The bucket.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub bucket: String,
    /// The key; for administration, the name of what the request is about.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub key: String,
    /// The version named in the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The HTTP status.
    pub status: u16,
    /// The error's code.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub error: &'static str,
    /// The client did not receive the whole answer.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub cut: bool,
    /// The access key that signed.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub access_key: String,
    /// The user behind it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub user: String,
    /// What kind of credential: `root`, `user`, `access-key`, `session`, `anonymous`; empty if the
    /// signature was not accepted.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub kind: &'static str,
    /// The user that the credential acts for, if its name is not the access key.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub parent: String,
    /// Where a session came from, if not from this server's own users.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub provider: String,
    /// The address of the client.
    pub ip: IpAddr,
    /// The request came over TLS.
    pub tls: bool,
    /// The client program (`User-Agent`).
    #[serde(skip_serializing_if = "String::is_empty")]
    pub user_agent: String,
    /// Bytes of the request's body.
    pub bytes_in: u64,
    /// Bytes of the answer's body.
    pub bytes_out: u64,
    /// Time until the end of the answer, or until its beginning when it is short, in microseconds.
    pub micros: u64,
    /// The action that was decided last.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub action: &'static str,
    /// The reason for the decision, in words.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub decided_by: String,
    /// The policy of the statement that decided.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub policy: String,
    /// The statement's number in it, from 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub statement: Option<u16>,
    /// The statement's `Sid`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sid: Option<String>,
    /// Headers of [`HEADERS`].
    #[serde(skip_serializing_if = "Vec::is_empty", serialize_with = "pairs")]
    pub headers: Vec<(&'static str, String)>,
    /// Query parameters of [`QUERY`].
    #[serde(skip_serializing_if = "Vec::is_empty", serialize_with = "pairs")]
    pub query: Vec<(&'static str, String)>,
}

impl Record {
    /// A record with only the time, the request id, the API and the address of the client.
    pub fn new(time: i64, request_id: &str, api_layer: ApiLayer, ip: IpAddr) -> Record {
        Record {
            time,
            request_id: request_id.to_owned(),
            api_layer,
            operation: "",
            method: String::new(),
            bucket: String::new(),
            key: String::new(),
            version: None,
            status: 0,
            error: "",
            cut: false,
            access_key: String::new(),
            user: String::new(),
            kind: "",
            parent: String::new(),
            provider: String::new(),
            ip,
            tls: false,
            user_agent: String::new(),
            bytes_in: 0,
            bytes_out: 0,
            micros: 0,
            action: "",
            decided_by: String::new(),
            policy: String::new(),
            statement: None,
            sid: None,
            headers: Vec::new(),
            query: Vec::new(),
        }
    }
}

/// The headers that may be recorded.
pub fn headers_of(headers: &HeaderMap) -> Vec<(&'static str, String)> {
    let value = |name: &'static str| Some((name, printable(headers.get(name)?.as_bytes())));
    HEADERS.iter().filter_map(|name| value(name)).collect()
}

/// Text from a client, cut to the longest length.
pub fn printable(bytes: &[u8]) -> String {
    String::from_utf8_lossy(&bytes[..bytes.len().min(VALUE)]).into_owned()
}

/// `2026-11-21T18:43:11.123Z`, from milliseconds since 1970.
pub(crate) fn time_text(ms: i64) -> String {
    use time::macros::format_description;
    let format = format_description!("[year]-[month]-[day]T[hour]:[minute]:[second].[subsecond digits:3]Z");
    let at = time::OffsetDateTime::from_unix_timestamp_nanos(i128::from(ms) * 1_000_000);
    at.ok().and_then(|t| t.format(&format).ok()).unwrap_or_default()
}

/// The inverse of [`time_text`].
pub(crate) fn parse_time(text: &str) -> Option<i64> {
    use time::format_description::well_known::Rfc3339;
    let at = time::OffsetDateTime::parse(text, &Rfc3339).ok()?;
    i64::try_from(at.unix_timestamp_nanos().div_euclid(1_000_000)).ok()
}

fn iso<S: serde::Serializer>(ms: &i64, out: S) -> Result<S::Ok, S::Error> {
    out.serialize_str(&time_text(*ms))
}

fn pairs<S: serde::Serializer>(all: &[(&'static str, String)], out: S) -> Result<S::Ok, S::Error> {
    out.collect_map(all.iter().map(|(name, value)| (name, value)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_listed_headers_and_parameters_are_recorded() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("authorization", "AWS4-HMAC-SHA256 Signature=planted"),
            ("x-amz-security-token", "planted"),
            ("x-amz-server-side-encryption-customer-key", "planted"),
            ("x-amz-copy-source-server-side-encryption-customer-key", "planted"),
            ("cookie", "planted"),
            ("x-amz-meta-password", "planted"),
            ("content-type", "text/plain"),
        ] {
            headers.insert(name, value.parse().unwrap());
        }
        assert_eq!(headers_of(&headers), [("content-type", "text/plain".to_owned())]);
        let mut record = Record::new(1_700_000_000_123, "ID", ApiLayer::S3, [127, 0, 0, 1].into());
        record.query = vec![("prefix", "a\"\n".into())];
        let text = serde_json::to_string(&record).unwrap();
        assert!(text.contains("\"time\":\"2023-11-14T22:13:20.123Z\""), "{text}");
        assert!(text.contains("{\"prefix\":\"a\\\"\\n\"}"), "{text}");
    }
}
