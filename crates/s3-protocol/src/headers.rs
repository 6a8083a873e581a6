//! Headers of requests and answers as S3 means them: conditions, ranges, metadata, checksums.
//!
//! Invariants: headers that S3 ignores when invalid (dates, ranges) are ignored, headers that it refuses are
//! refused; a stored header value can be returned unchanged. Must not depend on: the operation.

use std::ops::Range;

use ashlar_checksum::{Algorithm, Digest};
use ashlar_iam::ACCOUNT;
use ashlar_object::{Checksum, Class, Conditions, Match, Pairs};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::{HeaderMap, HeaderName, HeaderValue};

use crate::date;
use crate::fault::{Code, Fault, Outcome};
use crate::request_body::RequestBody;
use crate::tags;

/// Most bytes of user metadata, names and values together.
pub const MAX_USER_META: usize = 2048;
/// Most bytes of one kept system header.
pub const MAX_SYSTEM_META: usize = 2048;

/// System headers that are kept with an object and sent with it.
pub const KEPT: [&str; 7] = [
    "cache-control",
    "content-disposition",
    "content-encoding",
    "content-language",
    "content-type",
    "expires",
    REDIRECT,
];

/// Where a website sends browsers that ask for an object.
pub const REDIRECT: &str = "x-amz-website-redirect-location";

/// Type of an object that was put without one.
pub const DEFAULT_TYPE: &str = "binary/octet-stream";

/// A header as text; bytes that are not UTF-8 are read as Latin-1.
pub fn text(headers: &HeaderMap, name: &str) -> Option<String> {
    headers.get(name).map(decode_value)
}

/// A header as ASCII text, trimmed; anything else counts as missing.
pub fn ascii<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|v| v.to_str().ok()).map(str::trim)
}

fn decode_value(value: &HeaderValue) -> String {
    match std::str::from_utf8(value.as_bytes()) {
        Ok(text) => text.trim().to_owned(),
        Err(_) => value.as_bytes().iter().map(|b| *b as char).collect::<String>().trim().to_owned(),
    }
}

/// A stored value as a header: ASCII as it is, anything else as an RFC 2047 word, as AWS does.
pub fn encode_value(text: &str) -> Option<HeaderValue> {
    if text.bytes().all(|b| (0x20..0x7f).contains(&b) || b == b'\t') {
        return HeaderValue::from_str(text).ok();
    }
    HeaderValue::from_str(&format!("=?UTF-8?B?{}?=", STANDARD.encode(text))).ok()
}

/// `If-*` headers, or those for the source of a copy with their prefix.
pub fn conditions(headers: &HeaderMap, prefix: &'static str) -> Outcome<Conditions> {
    let name = |suffix: &str| format!("{prefix}{suffix}");
    // Nearly every request has none.
    if prefix.is_empty() && !headers.keys().any(|n| n.as_str().starts_with("if-")) {
        return Ok(Conditions::NONE);
    }
    let tags = |suffix: &str| -> Outcome<Option<Match>> {
        match text(headers, &name(suffix)) {
            None => Ok(None),
            Some(value) if value.is_empty() => Ok(None),
            Some(value) => match Match::parse(&value) {
                Some(m) => Ok(Some(m)),
                None => Err(Fault::with(
                    Code::INVALID_ARGUMENT,
                    format!("The header {} is not a list of entity tags.", name(suffix)),
                )),
            },
        }
    };
    // Dates that cannot be read are ignored, as RFC 9110 says.
    let time = |suffix: &str| {
        text(headers, &name(suffix)).and_then(|v| date::parse_http(&v).or_else(|| date::parse_iso(&v)))
    };
    Ok(Conditions {
        if_match: tags("if-match")?,
        if_none_match: tags("if-none-match")?,
        if_modified_since: time("if-modified-since"),
        if_unmodified_since: time("if-unmodified-since"),
    })
}

/// Conditions of a write: of `If-None-Match`, AWS has `*` alone there.
///
/// # Errors
/// `NotImplemented` for another `If-None-Match`; as [`conditions`].
pub fn write_conditions(headers: &HeaderMap) -> Outcome<Conditions> {
    let conditions = conditions(headers, "")?;
    if conditions.if_none_match.as_ref().is_some_and(|m| *m != Match::Any) {
        return Err(Fault::not_implemented("If-None-Match with anything but * on a write"));
    }
    Ok(conditions)
}

/// What a Range header asks of an object of `size` bytes.
#[derive(Debug, PartialEq, Eq)]
pub enum Ranged {
    /// Nothing that S3 understands: send everything.
    Whole,
    /// These bytes.
    Part(Range<u64>),
    /// Nothing of it exists.
    Unsatisfiable,
}

/// Reads `bytes=a-b`, `bytes=a-` or `bytes=-n`. Several ranges, and what is not a range, are
/// ignored, as S3 does.
pub fn range(value: &str, size: u64) -> Ranged {
    let Some((first, last)) = value.trim().strip_prefix("bytes=").and_then(|r| r.split_once('-')) else {
        return Ranged::Whole;
    };
    let digits = |t: &str| t.bytes().all(|b| b.is_ascii_digit());
    let (first, last) = (first.trim(), last.trim());
    if !digits(first) || !digits(last) {
        return Ranged::Whole;
    }
    let number = |t: &str| t.parse::<u64>().unwrap_or(u64::MAX);
    match (first.is_empty(), last.is_empty()) {
        (true, true) => Ranged::Whole,
        (true, false) => {
            let n = number(last).min(size);
            if n == 0 { Ranged::Unsatisfiable } else { Ranged::Part(size - n..size) }
        }
        (false, _) => {
            let from = number(first);
            let to = if last.is_empty() { size } else { number(last).saturating_add(1).min(size) };
            if !last.is_empty() && number(last) < from {
                return Ranged::Whole;
            }
            if from >= size { Ranged::Unsatisfiable } else { Ranged::Part(from..to) }
        }
    }
}

/// The headers to keep with an object: system headers, then user metadata, in order of name.
pub fn metadata(headers: &HeaderMap) -> Outcome<Pairs> {
    let mut meta = Pairs::new();
    let mut user = 0;
    for name in headers.keys() {
        let n = name.as_str();
        if let Some(short) = n.strip_prefix("x-amz-meta-") {
            if short.is_empty() {
                return Err(Fault::with(
                    Code::INVALID_ARGUMENT,
                    "A metadata header has no name after x-amz-meta-.",
                ));
            }
            let value = headers.get(name).map(decode_value).unwrap_or_default();
            user += short.len() + value.len();
            meta.push((n.to_owned(), value));
        } else if KEPT.contains(&n) {
            let value = headers.get(name).map(decode_value).unwrap_or_default();
            let value = if n == "content-encoding" { without_aws_chunked(&value) } else { value };
            if value.len() > MAX_SYSTEM_META {
                return Err(Fault::with(
                    Code::INVALID_ARGUMENT,
                    format!("The header {n} is longer than {MAX_SYSTEM_META} bytes."),
                ));
            }
            if n == REDIRECT && !["/", "http://", "https://"].iter().any(|p| value.starts_with(p)) {
                return Err(Fault::with(
                    Code::INVALID_REDIRECT,
                    "The website redirect location must have a prefix of 'http://' or 'https://' or '/'.",
                ));
            }
            if !value.is_empty() {
                meta.push((n.to_owned(), value));
            }
        }
    }
    if user > MAX_USER_META {
        return Err(Fault::new(Code::METADATA_TOO_LARGE)
            .element("Size", user.to_string())
            .element("MaxSizeAllowed", MAX_USER_META.to_string()));
    }
    meta.sort();
    Ok(meta)
}

/// A `Content-Encoding` as it is stored: without the encoding of the transfer, otherwise unchanged.
fn without_aws_chunked(value: &str) -> String {
    let travels = |e: &str| e.trim().eq_ignore_ascii_case("aws-chunked");
    if !value.split(',').any(travels) {
        return value.to_owned();
    }
    let rest: Vec<&str> = value.split(',').filter(|e| !travels(e) && !e.trim().is_empty()).collect();
    rest.join(",").trim().to_owned()
}

/// Refuses headers whose meaning this server does not have, and checks those it has.
pub fn refuse_unsupported(headers: &HeaderMap, owner: &str) -> Outcome<()> {
    for name in headers.keys() {
        let n = name.as_str();
        let Some(rest) = n.strip_prefix("x-amz-") else { continue };
        if rest.starts_with("server-side-encryption")
            || rest.starts_with("copy-source-server-side-encryption")
        {
            return Err(Fault::not_implemented(&format!("Server-side encryption here (header {n})")));
        }
    }
    refuse_others(headers, owner)
}

/// As [`refuse_unsupported`]; headers of encryption are looked at by `sse`.
pub fn refuse_others(headers: &HeaderMap, owner: &str) -> Outcome<()> {
    for name in headers.keys() {
        let n = name.as_str();
        let Some(rest) = n.strip_prefix("x-amz-") else { continue };
        let what = match rest {
            "write-offset-bytes" => "Appending to objects",
            "rename-source" => "Renaming objects without ?renameObject",
            "if-match-last-modified-time" | "if-match-size" => "Conditions of directory buckets",
            "storage-class" => {
                class(headers)?;
                continue;
            }
            "expected-bucket-owner" | "source-expected-bucket-owner" => {
                let given = ascii(headers, n);
                if given != Some(owner) && given != Some(ACCOUNT.to_string().as_str()) {
                    return Err(Fault::with(
                        Code::ACCESS_DENIED,
                        format!("Access Denied: the bucket belongs to another owner than {n} says."),
                    ));
                }
                continue;
            }
            _ => continue,
        };
        return Err(Fault::not_implemented(&format!("{what} (header {n})")));
    }
    Ok(())
}

/// `x-amz-storage-class`.
pub fn class(headers: &HeaderMap) -> Outcome<Class> {
    match ascii(headers, "x-amz-storage-class") {
        None | Some("" | "STANDARD") => Ok(Class::Standard),
        Some("REDUCED_REDUNDANCY") => Ok(Class::Reduced),
        Some(_) => Err(Fault::new(Code::INVALID_STORAGE_CLASS)),
    }
}

/// `Content-MD5`.
pub fn content_md5(headers: &HeaderMap) -> Outcome<Option<[u8; 16]>> {
    let Some(value) = headers.get("content-md5") else { return Ok(None) };
    let mut sum = [0u8; 18];
    match STANDARD.decode_slice(value.as_bytes(), &mut sum) {
        Ok(16) => {
            let mut md5 = [0; 16];
            md5.copy_from_slice(&sum[..16]);
            Ok(Some(md5))
        }
        _ => Err(Fault::new(Code::INVALID_DIGEST)),
    }
}

/// Name of the header and trailer of a checksum.
pub fn checksum_header(algorithm: Algorithm) -> HeaderName {
    HeaderName::from_static(algorithm.header())
}

/// What a client states about the checksum of its body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeclaredChecksums {
    /// Nothing.
    Nothing,
    /// This, in the head.
    Value(Digest),
    /// It follows in the trailer.
    Trailer(Algorithm),
}

impl DeclaredChecksums {
    /// Reads the head of a request.
    pub fn read(headers: &HeaderMap) -> Outcome<DeclaredChecksums> {
        let mut found = None;
        let mut multiple = false;
        for algorithm in Algorithm::ALL {
            let name = checksum_header(algorithm);
            let Some(value) = headers.get(&name) else { continue };
            let digest = value.to_str().ok().and_then(|v| Digest::from_base64(algorithm, v.trim()));
            let digest = digest.ok_or_else(|| {
                Fault::with(Code::INVALID_REQUEST, format!("Value for {name} header is invalid."))
            })?;
            multiple |= found.replace(DeclaredChecksums::Value(digest)).is_some();
        }
        if let Some(trailer) = ascii(headers, "x-amz-trailer") {
            for name in trailer.split(',').map(str::trim).filter(|n| !n.is_empty()) {
                let algorithm = Algorithm::ALL
                    .into_iter()
                    .find(|a| checksum_header(*a).as_str().eq_ignore_ascii_case(name));
                let algorithm = algorithm.ok_or_else(|| {
                    Fault::with(
                        Code::INVALID_REQUEST,
                        "The value specified in the x-amz-trailer header is not supported",
                    )
                })?;
                multiple |= found.replace(DeclaredChecksums::Trailer(algorithm)).is_some();
            }
        }
        if multiple {
            return Err(Fault::with(
                Code::INVALID_REQUEST,
                "Expecting a single x-amz-checksum- header. Multiple checksum Types are not allowed.",
            ));
        }
        if let Some(name) = ascii(headers, "x-amz-sdk-checksum-algorithm").filter(|n| !n.is_empty()) {
            let algorithm = Algorithm::parse(name).ok_or_else(unknown_algorithm)?;
            match found {
                None => {
                    return Err(Fault::with(
                        Code::INVALID_REQUEST,
                        "x-amz-sdk-checksum-algorithm specified, but no corresponding x-amz-checksum-* or x-amz-trailer headers were found.",
                    ));
                }
                Some(stated) if stated.algorithm() != Some(algorithm) => {
                    return Err(Fault::with(
                        Code::INVALID_REQUEST,
                        "Value for x-amz-sdk-checksum-algorithm header is invalid.",
                    ));
                }
                Some(_) => {}
            }
        }
        Ok(found.unwrap_or(DeclaredChecksums::Nothing))
    }

    /// The algorithm, if any.
    pub fn algorithm(self) -> Option<Algorithm> {
        match self {
            DeclaredChecksums::Nothing => None,
            DeclaredChecksums::Value(digest) => Some(digest.algorithm()),
            DeclaredChecksums::Trailer(algorithm) => Some(algorithm),
        }
    }

    /// Compares with what was computed, once the body has ended.
    pub fn check(self, computed: Option<&Digest>, request_body: &RequestBody) -> Outcome<()> {
        let stated = match self {
            DeclaredChecksums::Nothing => return Ok(()),
            DeclaredChecksums::Value(digest) => digest,
            DeclaredChecksums::Trailer(algorithm) => {
                let name = checksum_header(algorithm);
                let value =
                    request_body.trailer(name.as_str()).ok_or_else(|| Fault::new(Code::MALFORMED_TRAILER))?;
                Digest::from_base64(algorithm, value).ok_or_else(|| {
                    Fault::with(
                        Code::INVALID_REQUEST,
                        format!("Value for {name} trailing header is invalid."),
                    )
                })?
            }
        };
        if computed == Some(&stated) {
            return Ok(());
        }
        Err(Fault::with(
            Code::BAD_DIGEST,
            format!("The {} you specified did not match the calculated checksum.", stated.algorithm()),
        ))
    }
}

/// An unknown algorithm.
pub fn unknown_algorithm() -> Fault {
    Fault::with(
        Code::INVALID_REQUEST,
        "Checksum algorithm provided is unsupported. Please try again with any of the valid types: [CRC32, CRC32C, CRC64NVME, SHA1, SHA256, SHA512, MD5, XXHASH64, XXHASH3, XXHASH128]",
    )
}

/// A stored checksum: its algorithm and its text, with `-N` when composite.
pub fn checksum_text(checksum: &Checksum, parts: u16) -> Option<(Algorithm, String)> {
    let algorithm = ashlar_object::digest_of(checksum)?.algorithm();
    let mut text = STANDARD.encode(&checksum.value);
    if checksum.composite {
        text.push_str(&format!("-{parts}"));
    }
    Some((algorithm, text))
}

/// `COMPOSITE` or `FULL_OBJECT`.
pub fn checksum_type(composite: bool) -> &'static str {
    if composite { "COMPOSITE" } else { "FULL_OBJECT" }
}

/// `x-amz-tagging`: `a=1&b=2`, URL-encoded.
pub fn tagging(headers: &HeaderMap) -> Outcome<Option<Pairs>> {
    let Some(value) = headers.get("x-amz-tagging") else { return Ok(None) };
    let bad = || {
        Fault::argument(
            "x-amz-tagging",
            "",
            "The header 'x-amz-tagging' shall be encoded as UTF-8 then URLEncoded URL query parameters without tag name duplicates.",
        )
    };
    let value = value.to_str().map_err(|_| bad())?;
    let mut pairs = Pairs::new();
    for pair in value.split('&').filter(|p| !p.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let decode = |t| crate::target::decode(t, true).map_err(|_| bad());
        pairs.push((decode(name)?, decode(value)?));
    }
    tags::validate(&pairs, tags::OBJECT_TAGS)?;
    Ok(Some(pairs))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_parsed_as_s3_does() {
        for (value, size, want) in [
            ("bytes=0-0", 10, Ranged::Part(0..1)),
            ("bytes=0-", 10, Ranged::Part(0..10)),
            ("bytes=5-100", 10, Ranged::Part(5..10)),
            ("bytes=-3", 10, Ranged::Part(7..10)),
            ("bytes=-30", 10, Ranged::Part(0..10)),
            ("bytes=-0", 10, Ranged::Unsatisfiable),
            ("bytes=10-", 10, Ranged::Unsatisfiable),
            ("bytes=0-", 0, Ranged::Unsatisfiable),
            ("bytes=-1", 0, Ranged::Unsatisfiable),
            ("bytes=3-2", 10, Ranged::Whole),
            ("bytes=-", 10, Ranged::Whole),
            ("bytes=a-b", 10, Ranged::Whole),
            ("bytes=0-1,3-4", 10, Ranged::Whole),
            ("octets=0-1", 10, Ranged::Whole),
            ("bytes=0-99999999999999999999", 10, Ranged::Part(0..10)),
            ("bytes=99999999999999999999-", 10, Ranged::Unsatisfiable),
        ] {
            assert_eq!(range(value, size), want, "{value} of {size}");
        }
    }

    #[test]
    fn metadata_is_stored_and_bounded() {
        let mut headers = HeaderMap::new();
        headers.insert("x-amz-meta-b", HeaderValue::from_bytes("ä".as_bytes()).unwrap());
        headers.insert("x-amz-meta-a", HeaderValue::from_static(" 1 "));
        headers.insert("content-encoding", HeaderValue::from_static("aws-chunked, gzip"));
        headers.insert("content-type", HeaderValue::from_static("text/plain"));
        headers.insert("x-amz-date", HeaderValue::from_static("no"));
        let meta = metadata(&headers).unwrap();
        let want = [
            ("content-encoding", "gzip"),
            ("content-type", "text/plain"),
            ("x-amz-meta-a", "1"),
            ("x-amz-meta-b", "ä"),
        ];
        assert!(meta.iter().map(|(a, b)| (a.as_str(), b.as_str())).eq(want), "{meta:?}");
        assert_eq!(encode_value("ä").unwrap(), "=?UTF-8?B?w6Q=?=");
        assert_eq!(encode_value("a b").unwrap(), "a b");
        headers.insert("x-amz-meta-big", HeaderValue::from_str(&"x".repeat(2048)).unwrap());
        assert_eq!(metadata(&headers).unwrap_err().code(), Code::METADATA_TOO_LARGE);
    }

    #[test]
    fn exactly_one_valid_checksum_is_accepted() {
        let mut headers = HeaderMap::new();
        headers.insert("x-amz-checksum-crc32", HeaderValue::from_static("AAAAAA=="));
        assert_eq!(DeclaredChecksums::read(&headers).unwrap().algorithm(), Some(Algorithm::Crc32));
        headers.insert("x-amz-checksum-sha1", HeaderValue::from_static("AAAAAA=="));
        assert!(DeclaredChecksums::read(&headers).is_err());
        headers.remove("x-amz-checksum-sha1");
        headers.insert("x-amz-trailer", HeaderValue::from_static("x-amz-checksum-crc32c"));
        assert!(DeclaredChecksums::read(&headers).is_err());
        headers.remove("x-amz-checksum-crc32");
        assert_eq!(DeclaredChecksums::read(&headers).unwrap(), DeclaredChecksums::Trailer(Algorithm::Crc32c));
        headers.insert("x-amz-sdk-checksum-algorithm", HeaderValue::from_static("CRC32"));
        assert!(DeclaredChecksums::read(&headers).is_err());
    }
}
