//! Percent-encoding for signatures: every byte except `A-Za-z0-9-._~` is written as `%XX`.
//!
//! Invariant: the signed path and query are byte for byte the ones that are sent, because both are encoded
//! here.
//!
//! Must not depend on: what is encoded.

use std::borrow::Cow;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// All characters except those that RFC 3986 calls unreserved.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
/// The same for keys in paths.
const RESERVED_IN_KEYS: &AsciiSet = &RESERVED.remove(b'/');

/// Appends `text` to `out` with everything but unreserved characters percent-encoded; `/` stays if
/// `keep_slash`.
pub fn percent_encode_into(out: &mut String, text: &str, keep_slash: bool) {
    out.extend(utf8_percent_encode(text, if keep_slash { RESERVED_IN_KEYS } else { RESERVED }));
}

/// `text` with everything but unreserved characters percent-encoded; `/` stays if `keep_slash`.
pub fn percent_encode(text: &str, keep_slash: bool) -> String {
    let mut out = String::with_capacity(text.len() + 16);
    percent_encode_into(&mut out, text, keep_slash);
    out
}

/// Decodes percent-encoding; `+` becomes a space if `plus` (as in forms and `encoding-type=url`).
/// Invalid escapes stay as they are. `None` if the result is not UTF-8.
pub fn percent_decode(text: &str, plus: bool) -> Option<String> {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let escape = (bytes[at] == b'%').then(|| bytes.get(at + 1..at + 3)).flatten();
        match escape.and_then(|pair| Some(hex_digit(pair[0])? << 4 | hex_digit(pair[1])?)) {
            Some(byte) => {
                out.push(byte);
                at += 3;
            }
            None => {
                out.push(if plus && bytes[at] == b'+' { b' ' } else { bytes[at] });
                at += 1;
            }
        }
    }
    String::from_utf8(out).ok()
}

fn hex_digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).map(|d| d as u8)
}

/// The canonical query string: names and values encoded, sorted, joined. The same string is sent.
pub(crate) fn query_string(pairs: &[(Cow<'_, str>, Cow<'_, str>)]) -> String {
    if pairs.is_empty() {
        return String::new();
    }
    let mut encoded: Vec<(String, String)> = pairs
        .iter()
        .map(|(name, value)| (percent_encode(name, false), percent_encode(value, false)))
        .collect();
    encoded.sort();
    let mut out = String::with_capacity(64);
    for (name, value) in encoded {
        if !out.is_empty() {
            out.push('&');
        }
        out.push_str(&name);
        out.push('=');
        out.push_str(&value);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn encodes_as_the_signature_rules_say() {
        assert_eq!(percent_encode("a b/c+~ü", false), "a%20b%2Fc%2B~%C3%BC");
        assert_eq!(percent_encode("../a//b", true), "../a//b");
        assert_eq!(percent_decode("a+b%2Bc%zz%4", true).unwrap(), "a b+c%zz%4");
        assert_eq!(percent_decode("%ff", false), None);
        let pairs = [("b".into(), "2".into()), ("a-".into(), "".into()), ("a".into(), "&".into())];
        assert_eq!(query_string(&pairs), "a=%26&a-=&b=2");
    }

    #[test]
    fn every_byte_is_encoded_as_the_signature_rules_say() {
        for byte in 0..=u8::MAX {
            let unreserved = byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
            for (set, plain) in [(RESERVED, unreserved), (RESERVED_IN_KEYS, unreserved || byte == b'/')] {
                let expected = if plain { char::from(byte).to_string() } else { format!("%{byte:02X}") };
                assert_eq!(percent_encoding::percent_encode(&[byte], set).to_string(), expected);
            }
        }
        assert_eq!((percent_encode("/", false), percent_encode("/", true)), ("%2F".into(), "/".into()));
    }

    proptest! {
        #[test]
        fn decoding_undoes_encoding(text in any::<String>(), slash in any::<bool>()) {
            prop_assert_eq!(percent_decode(&percent_encode(&text, slash), true).unwrap(), text);
        }
    }
}
