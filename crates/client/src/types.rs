//! Results of operations as plain values.
//!
//! Invariants: ETags are without quotes; keys are decoded; times are UTC; missing values are `None` or empty.
//!
//! Must not depend on: requests.

use std::collections::BTreeMap;

use http::HeaderMap;
use time::{OffsetDateTime, format_description::well_known::Rfc3339};

use crate::{answer::Answer, encode::percent_decode, error::Result, xml::Element};

/// A bucket in the list of buckets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bucket {
    /// Its name.
    pub name: String,
    /// When it was created.
    pub created: Option<OffsetDateTime>,
}

/// The versioning state of a bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Versioning {
    /// Never enabled.
    Off,
    /// Every write creates a version.
    Enabled,
    /// Suspended: writes replace the null version.
    Suspended,
}

/// Tags: names and values.
pub type Tags = BTreeMap<String, String>;

/// A key, or one version of it, in a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The key.
    pub key: String,
    /// Size in bytes; 0 for a delete marker.
    pub size: u64,
    /// Without quotes; empty for a delete marker.
    pub etag: String,
    /// When it was written.
    pub modified: Option<OffsetDateTime>,
    /// `STANDARD` by default.
    pub storage_class: String,
    /// Only in listings of versions; `null` is the version of an unversioned write.
    pub version_id: Option<String>,
    /// Whether it is the current version; always in listings of keys.
    pub is_latest: bool,
    /// Whether it is a delete marker.
    pub delete_marker: bool,
}

/// One page of a listing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListPage {
    /// Keys or versions in order.
    pub entries: Vec<Entry>,
    /// Common prefixes in order.
    pub prefixes: Vec<String>,
    /// The begin of the next page: the continuation token, or the key marker and the version marker. `None`
    /// on the last page.
    pub next: Option<(String, Option<String>)>,
}

/// The properties of an object, from HEAD and GET.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Head {
    /// Size of the object in bytes, also for a range.
    pub size: u64,
    /// Without quotes.
    pub etag: String,
    /// When it was written.
    pub modified: Option<OffsetDateTime>,
    /// The version, in buckets with versioning.
    pub version_id: Option<String>,
    /// The media type.
    pub content_type: Option<String>,
    /// User metadata, names without `x-amz-meta-`, in lower case.
    pub metadata: BTreeMap<String, String>,
    /// Standard headers, and storage class, checksums and others.
    pub headers: BTreeMap<String, String>,
    /// Number of parts of a multipart object, if the server reports it.
    pub parts: Option<u32>,
}

/// An object whose data is arriving.
pub struct ObjectData {
    /// Its properties.
    pub head: Head,
    /// Number of bytes of this answer (for a range fewer than the size of the object).
    pub length: u64,
    /// The data.
    pub body: Answer,
}

/// The result of a write.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PutOutcome {
    /// Without quotes.
    pub etag: String,
    /// The new version, in buckets with versioning.
    pub version_id: Option<String>,
}

/// The result of a delete.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeleteOutcome {
    /// The deleted version, or the new delete marker.
    pub version_id: Option<String>,
    /// Whether a delete marker was written or deleted.
    pub delete_marker: bool,
}

/// A key, or one version of it, to delete.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Identifier {
    /// The key.
    pub key: String,
    /// The version; `None`: the current one.
    pub version_id: Option<String>,
}

/// A key that a multi-delete could not delete.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeleteError {
    /// The key.
    pub object: Identifier,
    /// The S3 error code.
    pub code: String,
    /// The server's message.
    pub message: String,
}

/// The result of a multi-delete.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Deleted {
    /// Deleted keys, including those for which a delete marker was created.
    pub deleted: Vec<Identifier>,
    /// Keys that could not be deleted.
    pub errors: Vec<DeleteError>,
}

/// A part of a multipart upload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// 1 to 10,000.
    pub number: u32,
    /// Without quotes.
    pub etag: String,
    /// Size in bytes.
    pub size: u64,
    /// The checksum that the server stores, in base64.
    pub checksum: Option<(ashlar_checksum::Algorithm, String)>,
}

/// An incomplete multipart upload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Upload {
    /// Its key.
    pub key: String,
    /// Its id.
    pub upload_id: String,
    /// When it was begun.
    pub initiated: Option<OffsetDateTime>,
}

/// One page of incomplete uploads.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UploadPage {
    /// Uploads in order of key, then age.
    pub uploads: Vec<Upload>,
    /// Common prefixes in order.
    pub prefixes: Vec<String>,
    /// Key marker and upload id marker of the next page.
    pub next: Option<(String, String)>,
}

pub(crate) fn unquote(etag: &str) -> String {
    etag.trim().trim_start_matches("W/").trim_matches('"').to_owned()
}

/// Parses a time in the format of listings.
pub(crate) fn iso_time(text: &str) -> Option<OffsetDateTime> {
    OffsetDateTime::parse(text.trim(), &Rfc3339).ok()
}

fn http_time(text: &str) -> Option<OffsetDateTime> {
    httpdate::parse_http_date(text).ok().map(OffsetDateTime::from)
}

impl ListPage {
    /// Parses both versions of key listings, and listings of versions.
    pub(crate) fn parse(root: &Element) -> Result<ListPage> {
        let decode = |text: &str| decode_key(root, text);
        let mut page = ListPage::default();
        for element in &root.children {
            match element.name.as_str() {
                "Contents" | "Version" | "DeleteMarker" => page.entries.push(Entry {
                    key: decode(element.text_of("Key")),
                    size: element.number("Size").unwrap_or(0),
                    etag: unquote(element.text_of("ETag")),
                    modified: iso_time(element.text_of("LastModified")),
                    storage_class: element.some_text("StorageClass").unwrap_or("STANDARD".into()),
                    version_id: element.some_text("VersionId"),
                    is_latest: element.name == "Contents" || element.is_true("IsLatest"),
                    delete_marker: element.name == "DeleteMarker",
                }),
                "CommonPrefixes" => page.prefixes.push(decode(element.text_of("Prefix"))),
                _ => {}
            }
        }
        if root.is_true("IsTruncated") {
            page.next = root
                .some_text("NextContinuationToken")
                .map(|token| (token, None))
                .or_else(|| {
                    Some((decode(&root.some_text("NextKeyMarker")?), root.some_text("NextVersionIdMarker")))
                })
                .or_else(|| Some((decode(&root.some_text("NextMarker")?), None)));
            if page.next.is_none() {
                let what = "a truncated listing without a marker for the next page";
                return Err(crate::Error::Unexpected(what.into()));
            }
        }
        Ok(page)
    }
}

impl UploadPage {
    pub(crate) fn parse(root: &Element) -> UploadPage {
        let uploads = root.all("Upload").map(|u| Upload {
            key: decode_key(root, u.text_of("Key")),
            upload_id: u.text_of("UploadId").to_owned(),
            initiated: iso_time(u.text_of("Initiated")),
        });
        let prefixes = root.all("CommonPrefixes").map(|p| decode_key(root, p.text_of("Prefix")));
        let next = root.is_true("IsTruncated").then(|| {
            let key = decode_key(root, root.text_of("NextKeyMarker"));
            (key, root.text_of("NextUploadIdMarker").to_owned())
        });
        UploadPage { uploads: uploads.collect(), prefixes: prefixes.collect(), next }
    }
}

fn decode_key(root: &Element, text: &str) -> String {
    if root.text_of("EncodingType") == "url" {
        percent_decode(text, true).unwrap_or_else(|| text.to_owned())
    } else {
        text.to_owned()
    }
}

impl Head {
    pub(crate) fn parse(headers: &HeaderMap) -> Head {
        let text = |name: &str| headers.get(name).and_then(|v| std::str::from_utf8(v.as_bytes()).ok());
        let mut head = Head {
            etag: text("etag").map(unquote).unwrap_or_default(),
            modified: text("last-modified").and_then(http_time),
            version_id: text("x-amz-version-id").map(str::to_owned),
            content_type: text("content-type").map(str::to_owned),
            parts: text("x-amz-mp-parts-count").and_then(|v| v.parse().ok()),
            ..Head::default()
        };
        let length = text("content-length").and_then(|v| v.parse().ok()).unwrap_or(0);
        // The answer for a range has the size of the object after the slash.
        let whole = text("content-range").and_then(|v| v.rsplit('/').next()?.parse().ok());
        head.size = whole.unwrap_or(length);
        for (name, value) in headers {
            let value = String::from_utf8_lossy(value.as_bytes()).into_owned();
            match name.as_str() {
                "x-amz-request-id" | "x-amz-id-2" | "x-amz-version-id" | "x-amz-mp-parts-count" => {}
                name if name.starts_with("x-amz-meta-") => {
                    head.metadata.insert(name["x-amz-meta-".len()..].to_owned(), decode_words(&value));
                }
                "cache-control"
                | "content-disposition"
                | "content-encoding"
                | "content-language"
                | "expires" => {
                    head.headers.insert(name.as_str().to_owned(), value);
                }
                name if name.starts_with("x-amz-") => {
                    head.headers.insert(name.to_owned(), value);
                }
                _ => {}
            }
        }
        head
    }
}

/// Decodes RFC 2047 encoded words, which S3 uses for metadata that is not ASCII. Other text is unchanged.
fn decode_words(value: &str) -> String {
    use base64::{Engine, engine::general_purpose::STANDARD};
    let decode = |word: &str| -> Option<String> {
        let inner = word.strip_prefix("=?")?.strip_suffix("?=")?;
        let mut fields = inner.splitn(3, '?');
        let (charset, coding, text) = (fields.next()?, fields.next()?, fields.next()?);
        if !charset.eq_ignore_ascii_case("utf-8") {
            return None;
        }
        match coding {
            "B" | "b" => String::from_utf8(STANDARD.decode(text).ok()?).ok(),
            "Q" | "q" => percent_decode(&text.replace('_', " ").replace('%', "%25").replace('=', "%"), false),
            _ => None,
        }
    };
    let words: Option<Vec<String>> = value.split(' ').map(decode).collect();
    words.map_or_else(|| value.to_owned(), |words| words.concat())
}

#[cfg(test)]
#[path = "types_tests.rs"]
mod tests;

/// A notification rule of a bucket.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Notice {
    /// The rule's name.
    pub id: String,
    /// The element of the rule: `QueueConfiguration`, ...
    pub shape: String,
    /// The target.
    pub arn: String,
    /// Names of events.
    pub events: Vec<String>,
    /// Only keys with this prefix.
    pub prefix: String,
    /// Only keys with this suffix.
    pub suffix: String,
}
