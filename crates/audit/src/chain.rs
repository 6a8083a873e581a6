//! Lines chained by hashes.
//!
//! A line is one JSON object: its content, then `,"hash":"H"}` where H is the SHA-256, in hexadecimal digits,
//! over the 32 bytes of the hash of the line before and the content's own bytes. A checkpoint's content ends
//! in `,"mac":"M"`, the HMAC-SHA-256 of the same bytes up to there, under a key that comes from root's
//! secret: without that secret, an attacker can compute the hashes again, but no checkpoint. `seq` numbers
//! the lines. docs/audit.md describes the format for users.

use ashlar_checksum::{hmac_sha256, sha256};

/// The bytes between content and hash.
pub const HASH: &[u8] = b",\"hash\":\"";
/// The bytes between a checkpoint's content and its message authentication code.
pub const MAC: &[u8] = b",\"mac\":\"";

/// The key that signs checkpoints, derived from root's secret.
pub fn key_from(root_secret: &str) -> [u8; 32] {
    hmac_sha256(root_secret.as_bytes(), b"ashlar audit checkpoint 1")
}

/// A name for a key that does not reveal it. A checkpoint names its key with it.
pub fn key_name(key: &[u8; 32]) -> String {
    hex::encode(&hmac_sha256(key, b"ashlar audit key name 1")[..8])
}

/// The end of a chain: the state from which the next line continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct End {
    /// Hash of the last line; zeros before the first.
    pub hash: [u8; 32],
    /// Number of the next line.
    pub next: u64,
}

impl End {
    /// Appends a line to `out`: `content` is an object without its closing brace, and without `seq`, which
    /// comes first: `"time":...`. With a key it is a checkpoint.
    pub fn append(&mut self, content: &[u8], key: Option<&[u8; 32]>, out: &mut Vec<u8>) {
        let mut bytes = Vec::with_capacity(content.len() + 256);
        bytes.extend_from_slice(&self.hash);
        bytes.extend_from_slice(b"{\"seq\":");
        bytes.extend_from_slice(self.next.to_string().as_bytes());
        bytes.push(b',');
        bytes.extend_from_slice(content);
        if let Some(key) = key {
            let mac = hmac_sha256(key, &bytes);
            bytes.extend_from_slice(MAC);
            bytes.extend_from_slice(hex::encode(mac).as_bytes());
            bytes.push(b'"');
        }
        self.hash = sha256(&bytes);
        self.next += 1;
        out.extend_from_slice(&bytes[32..]);
        out.extend_from_slice(HASH);
        out.extend_from_slice(hex::encode(self.hash).as_bytes());
        out.extend_from_slice(b"\"}\n");
    }
}

/// A parsed line.
pub struct Line<'a> {
    /// Everything before the hash.
    pub content: &'a [u8],
    /// The hash in the line.
    pub hash: [u8; 32],
}

/// Parses a line; `None` if it is not a line of an audit log.
pub fn split(line: &[u8]) -> Option<Line<'_>> {
    let body = line.strip_suffix(b"\"}")?;
    let (content, digits) = body.split_at_checked(body.len().checked_sub(64)?)?;
    let content = content.strip_suffix(HASH)?;
    let mut hash = [0; 32];
    hex::decode_to_slice(digits, &mut hash).ok()?;
    Some(Line { content, hash })
}

/// The hash that a line with this content must contain.
pub fn hash_of(before: &[u8; 32], content: &[u8]) -> [u8; 32] {
    sha256(&[before, content].concat())
}
