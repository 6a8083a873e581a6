//! The target of a request: bucket, key and query, decoded once from the raw target.
//!
//! Invariant (docs/proof.md 2.1.1): there is one decoding. The canonical path of signatures is made from the
//! same decoded bytes that the operation gets as its key, so that the authorized key and the used key cannot
//! differ. Must not depend on: identities.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::fault::{Code, Fault, Outcome};

/// Longest request target (path and query) taken.
pub const MAX_TARGET: usize = 16 * 1024;
/// Longest key, in bytes of UTF-8.
pub const MAX_KEY: usize = 1024;
/// Most query parameters.
pub const MAX_PARAMETERS: usize = 128;

/// The decoded target.
#[derive(Debug, Clone, Default)]
pub struct Target {
    /// The decoded path, beginning with a slash, without the bucket of a virtual host.
    pub path: String,
    /// The bucket, from the host or the first path segment.
    pub bucket: Option<String>,
    /// The key; never empty.
    pub key: Option<String>,
    /// The decoded query.
    pub query: Query,
    /// True: the bucket came from the host name.
    pub virtual_host: bool,
}

impl Target {
    /// Decodes `path` and `query` as they came on the wire; `host` is the bucket that the Host
    /// header names, if any.
    pub fn parse(path: &str, query: Option<&str>, host: Option<&str>) -> Outcome<Target> {
        if path.len() + query.map_or(0, str::len) > MAX_TARGET {
            return Err(Fault::new(Code::URI_TOO_LONG));
        }
        if !path.starts_with('/') {
            return Err(Fault::new(Code::INVALID_URI));
        }
        let path = decode(path, false)?;
        let query = Query::parse(query.unwrap_or(""))?;
        let mut target = Target { path, bucket: None, key: None, query, virtual_host: host.is_some() };
        let rest = match host {
            Some(bucket) => {
                target.bucket = Some(bucket.to_owned());
                &target.path[1..]
            }
            None => {
                let (bucket, rest) = target.path[1..].split_once('/').unwrap_or((&target.path[1..], ""));
                target.bucket = (!bucket.is_empty()).then(|| bucket.to_owned());
                if bucket.is_empty() && !rest.is_empty() {
                    return Err(Fault::new(Code::INVALID_BUCKET_NAME));
                }
                rest
            }
        };
        if !rest.is_empty() {
            check_key(rest)?;
            target.key = Some(rest.to_owned());
        }
        Ok(target)
    }
}

/// Refuses keys that S3 does not take.
pub fn check_key(key: &str) -> Outcome<()> {
    if key.len() > MAX_KEY {
        return Err(Fault::new(Code::KEY_TOO_LONG)
            .element("Size", key.len().to_string())
            .element("MaxSizeAllowed", MAX_KEY.to_string()));
    }
    if key.contains('\0') {
        return Err(Fault::with(Code::INVALID_URI, "A key may not contain a zero byte."));
    }
    Ok(())
}

/// How the names begin of buckets that the server makes for itself. Only root changes what is in them.
pub const RESERVED_PREFIX: &str = "ashlar-";

/// Whether `name` is a legal bucket name (AWS's general purpose bucket rules).
pub fn is_bucket_name(name: &str) -> bool {
    let b = name.as_bytes();
    let edge = |c: &u8| c.is_ascii_lowercase() || c.is_ascii_digit();
    (3..=63).contains(&b.len())
        && b.iter().all(|c| edge(c) || matches!(c, b'-' | b'.'))
        && b.first().is_some_and(edge)
        && b.last().is_some_and(edge)
        && !name.contains("..")
        && !name.contains(".-")
        && !name.contains("-.")
        && name.parse::<std::net::Ipv4Addr>().is_err()
        && !name.starts_with("xn--")
        && !name.starts_with("sthree-")
        && !name.ends_with("-s3alias")
        && !name.ends_with("--ol-s3")
}

/// Decoded query parameters, in the order sent.
#[derive(Debug, Clone, Default)]
pub struct Query(Vec<(String, String)>);

impl Query {
    /// Decodes a raw query string.
    pub fn parse(raw: &str) -> Outcome<Query> {
        let mut out = Vec::new();
        for pair in raw.split('&').filter(|p| !p.is_empty()) {
            if out.len() == MAX_PARAMETERS {
                return Err(Fault::with(Code::INVALID_URI, "The request has too many query parameters."));
            }
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            out.push((decode(name, true)?, decode(value, true)?));
        }
        Ok(Query(out))
    }

    /// The value of `name`; the first one if there are several.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_str())
    }

    /// Whether `name` is there, with or without a value.
    pub fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(n, _)| n == name)
    }

    /// The value of `name` unless it is empty.
    pub fn filled(&self, name: &str) -> Option<&str> {
        self.get(name).filter(|v| !v.is_empty())
    }

    /// A name that occurs more than once.
    pub fn duplicate(&self) -> Option<&str> {
        let names = &self.0;
        (1..names.len())
            .find(|&i| names[..i].iter().any(|(n, _)| *n == names[i].0))
            .map(|i| names[i].0.as_str())
    }

    /// All pairs, in the order sent.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(n, v)| (n.as_str(), v.as_str()))
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Percent-decodes; `+` is a space in queries only. Refuses broken escapes and what is not UTF-8
/// (overlong forms and surrogates included).
pub fn decode(raw: &str, plus: bool) -> Outcome<String> {
    if !raw.bytes().any(|b| b == b'%' || (plus && b == b'+')) {
        return Ok(raw.to_owned());
    }
    let hex = |b: Option<&u8>| b.and_then(|b| (*b as char).to_digit(16)).map(|d| d as u8);
    let b = raw.as_bytes();
    let mut out = Vec::with_capacity(b.len());
    let mut i = 0;
    while i < b.len() {
        match b[i] {
            b'%' => {
                let (Some(hi), Some(lo)) = (hex(b.get(i + 1)), hex(b.get(i + 2))) else {
                    return Err(Fault::with(
                        Code::INVALID_URI,
                        "Couldn't parse the specified URI: a percent sign must be followed by two hexadecimal digits.",
                    ));
                };
                out.push(hi << 4 | lo);
                i += 3;
            }
            b'+' if plus => {
                out.push(b' ');
                i += 1;
            }
            c => {
                out.push(c);
                i += 1;
            }
        }
    }
    String::from_utf8(out).map_err(|_| {
        Fault::with(
            Code::INVALID_URI,
            "Couldn't parse the specified URI: it is not UTF-8 after percent-decoding.",
        )
    })
}

/// What signatures escape: everything but `A-Za-z0-9-._~`.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
/// The same, except that `/` is not escaped.
const RESERVED_IN_PATHS: &AsciiSet = &RESERVED.remove(b'/');

/// Appends `text` as signatures want it: everything but `A-Za-z0-9-._~` (and `/` when `keep_slash`)
/// as `%XX` in upper case.
pub fn canonical_encode(out: &mut Vec<u8>, text: &str, keep_slash: bool) {
    let set = if keep_slash { RESERVED_IN_PATHS } else { RESERVED };
    for piece in utf8_percent_encode(text, set) {
        out.extend_from_slice(piece.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(path: &str) -> Option<String> {
        Target::parse(path, None, None).unwrap().key
    }

    #[test]
    fn bytes_are_encoded_as_signatures_require() {
        for byte in 0..=u8::MAX {
            let unreserved = byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
            for (set, plain) in [(RESERVED, unreserved), (RESERVED_IN_PATHS, unreserved || byte == b'/')] {
                let expected = if plain { char::from(byte).to_string() } else { format!("%{byte:02X}") };
                assert_eq!(percent_encoding::percent_encode(&[byte], set).to_string(), expected);
            }
        }
        let mut out = Vec::new();
        canonical_encode(&mut out, "/ü", false);
        canonical_encode(&mut out, "/ü", true);
        assert_eq!(out, b"%2F%C3%BC/%C3%BC");
    }

    #[test]
    fn keys_are_not_normalized() {
        assert_eq!(key("/b"), None);
        assert_eq!(key("/b/"), None);
        for (path, want) in [
            ("/b/a", "a"),
            ("/b/a/", "a/"),
            ("/b//a", "/a"),
            ("/b/a//b", "a//b"),
            ("/b/./../a", "./../a"),
            ("/b/a%2Fb", "a/b"),
            ("/b/a%252Fb", "a%2Fb"),
            ("/b/a+b", "a+b"),
            ("/b/a;b=c", "a;b=c"),
            ("/b/%E4%BD%A0", "你"),
            ("/b/%20", " "),
        ] {
            assert_eq!(key(path).as_deref(), Some(want), "{path}");
        }
    }

    #[test]
    fn ambiguous_targets_are_refused() {
        for bad in ["/b/%", "/b/%4", "/b/%zz", "/b/%C0%AF", "/b/%ED%A0%80", "/b/%FF", "/b/a%00b", "b/a"] {
            assert_eq!(Target::parse(bad, None, None).unwrap_err().code(), Code::INVALID_URI, "{bad}");
        }
        let long = format!("/b/{}", "a".repeat(1025));
        assert_eq!(Target::parse(&long, None, None).unwrap_err().code(), Code::KEY_TOO_LONG);
        assert!(Target::parse(&long[..1027], None, None).is_ok());
        assert_eq!(Target::parse("//a", None, None).unwrap_err().code(), Code::INVALID_BUCKET_NAME);
        let many = "a&".repeat(129);
        assert!(Query::parse(&many).is_err());
    }

    #[test]
    fn virtual_hosts_name_the_bucket() {
        let t = Target::parse("/a/b", Some("x=1&y&x=%202+3"), Some("bucket")).unwrap();
        assert_eq!((t.bucket.as_deref(), t.key.as_deref()), (Some("bucket"), Some("a/b")));
        assert_eq!(t.query.get("x"), Some("1"));
        assert_eq!(t.query.duplicate(), Some("x"));
        assert!(t.query.has("y") && t.query.filled("y").is_none());
        assert_eq!(t.query.iter().last(), Some(("x", " 2 3")));
        let t = Target::parse("/", None, Some("bucket")).unwrap();
        assert_eq!((t.bucket.as_deref(), t.key), (Some("bucket"), None));
    }

    #[test]
    fn bucket_names_are_validated() {
        for good in ["abc", "my.bucket-1", "0ab"] {
            assert!(is_bucket_name(good), "{good}");
        }
        let long = "a".repeat(64);
        for bad in
            ["ab", "Abc", "a_b", "-ab", "ab-", "a..b", "1.2.3.4", "xn--a", "a.-b", long.as_str(), "a/b"]
        {
            assert!(!is_bucket_name(bad), "{bad}");
        }
    }
}
