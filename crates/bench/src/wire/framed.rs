//! Parts of a request: headers in order, numbers, hashes, and the length of framed bodies.
//!
//! Must not depend on: connections.

use ashlar_checksum::{Algorithm, Hasher, Sha256};

use super::{Payload, content::Slice, hex_into};

/// Bytes of a signed chunk, as minio-go and the AWS SDKs choose it.
pub(super) const SIGNED_CHUNK: u64 = 64 << 10;
/// Bytes of an unsigned chunk, as botocore chooses it.
pub(super) const UNSIGNED_CHUNK: u64 = 1 << 20;
/// The most headers that are signed.
const HEADERS: usize = 16;

/// Headers in the order of their names.
pub(super) struct List<'a> {
    items: [(&'a str, &'a str); HEADERS],
    len: usize,
}

impl<'a> List<'a> {
    /// No headers yet.
    pub(super) fn new() -> List<'a> {
        List { items: [("", ""); HEADERS], len: 0 }
    }

    pub(super) fn add(&mut self, name: &'a str, value: &'a str) {
        assert!(self.len < HEADERS, "requests have few headers");
        let mut at = self.len;
        while at > 0 && self.items[at - 1].0 > name {
            self.items[at] = self.items[at - 1];
            at -= 1;
        }
        self.items[at] = (name, value);
        self.len += 1;
    }

    pub(super) fn items(&self) -> &[(&'a str, &'a str)] {
        &self.items[..self.len]
    }

    pub(super) fn write(&self, out: &mut Vec<u8>) {
        for (name, value) in self.items() {
            out.extend_from_slice(name.as_bytes());
            out.extend_from_slice(b": ");
            out.extend_from_slice(value.as_bytes());
            out.extend_from_slice(b"\r\n");
        }
    }
}

pub(super) fn decimal(buffer: &mut [u8; 20], mut value: u64) -> &str {
    let mut at = buffer.len();
    loop {
        at -= 1;
        buffer[at] = b'0' + (value % 10) as u8;
        value /= 10;
        if value == 0 {
            return std::str::from_utf8(&buffer[at..]).expect("digits");
        }
    }
}

pub(super) fn sha256_hex(body: &Slice<'_>) -> [u8; 64] {
    let mut hash = Sha256::new();
    body.each(0, body.len(), |piece| hash.update(piece));
    let mut hex = Vec::with_capacity(64);
    hex_into(&mut hex, &hash.finish());
    hex.try_into().expect("32 bytes are 64 digits")
}

pub(super) fn checksum_of(algorithm: Algorithm, body: &Slice<'_>) -> String {
    let mut hasher = Hasher::new(algorithm);
    body.each(0, body.len(), |piece| hasher.update(piece));
    hasher.finish().base64()
}

/// Bytes of a body of `len` once it is framed.
pub(super) fn encoded_len(len: u64, payload: Payload, trailer: Option<Algorithm>) -> u64 {
    let signed = payload != Payload::Trailer;
    let chunk = if signed { SIGNED_CHUNK } else { UNSIGNED_CHUNK };
    let signature = if signed { 17 + 64 } else { 0 };
    let digits = |n: u64| u64::from((64 - n.leading_zeros()).div_ceil(4).max(1));
    let framed = |n: u64| digits(n) + signature + 2 + n + 2;
    let mut total = len / chunk * framed(chunk);
    if !len.is_multiple_of(chunk) {
        total += framed(len % chunk);
    }
    total += 1 + signature + 2 + 2;
    if let Some(algorithm) = trailer {
        let value = algorithm.digest_len().div_ceil(3) * 4;
        total += (algorithm.header().len() + 1 + value + 2) as u64;
        total += if signed { 24 + 64 + 2 } else { 0 };
    }
    total
}
