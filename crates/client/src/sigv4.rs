//! What every signature of AWS Signature Version 4 needs, whoever builds the request: the date, the key of a day, the strings to
//! sign. [`Signer`](crate::Signer) uses it for requests of this crate, the load generator for those that it writes itself.
//!
//! Source: "Authenticating Requests (AWS Signature Version 4)" of the Amazon S3 API reference; the tests of its users contain its
//! examples.
//!
//! Invariants: the time is a parameter; no call allocates once the buffer that it gets has grown.
//!
//! Must not depend on: requests, headers, connections.

use ashlar_checksum::{hmac_sha256, sha256};
use aws_lc_rs::hmac;
use time::OffsetDateTime;

/// The name of the algorithm, as requests name it.
pub(crate) const ALGORITHM: &str = "AWS4-HMAC-SHA256";

/// SHA-256 of no bytes, in hexadecimal.
pub const EMPTY_SHA256: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

/// A signature in hexadecimal.
pub type Signature = [u8; 64];

/// A signature as text.
pub(crate) fn text(signature: &Signature) -> &str {
    std::str::from_utf8(signature).expect("hexadecimal digits")
}

/// A time in the format of signatures: `YYYYMMDDTHHMMSSZ`, always UTC.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AmzDate([u8; 16]);

impl AmzDate {
    /// Formats a time; years outside 0..=9999 cannot be represented and become year 0.
    pub fn new(at: OffsetDateTime) -> AmzDate {
        let at = at.to_offset(time::UtcOffset::UTC);
        let mut out = *b"00000000T000000Z";
        let mut put = |from: usize, digits: usize, mut value: u32| {
            for at in (from..from + digits).rev() {
                out[at] = b'0' + (value % 10) as u8;
                value /= 10;
            }
        };
        put(0, 4, u32::try_from(at.year()).ok().filter(|y| *y < 10_000).unwrap_or(0));
        put(4, 2, u32::from(u8::from(at.month())));
        put(6, 2, u32::from(at.day()));
        put(9, 2, u32::from(at.hour()));
        put(11, 2, u32::from(at.minute()));
        put(13, 2, u32::from(at.second()));
        AmzDate(out)
    }

    /// Date and time, 16 characters.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).expect("only digits, T and Z")
    }

    /// The day, 8 characters.
    pub fn day(&self) -> &str {
        &self.as_str()[..8]
    }
}

/// The key derived from a secret for one day, region and service.
#[derive(Clone)]
pub struct SigningKey {
    scope: String,
    key: hmac::Key,
}

impl SigningKey {
    /// Derives the key. `day`: `YYYYMMDD`.
    pub fn new(secret: &str, day: &str, region: &str, service: &str) -> SigningKey {
        let first = format!("AWS4{secret}");
        let key = hmac_sha256(first.as_bytes(), day.as_bytes());
        let key = hmac_sha256(&key, region.as_bytes());
        let key = hmac_sha256(&key, service.as_bytes());
        let key = hmac_sha256(&key, b"aws4_request");
        let scope = [day, "/", region, "/", service, "/aws4_request"].concat();
        SigningKey { scope, key: hmac::Key::new(hmac::HMAC_SHA256, &key) }
    }

    /// `YYYYMMDD/region/service/aws4_request`.
    pub fn scope(&self) -> &str {
        &self.scope
    }

    /// Whether the key is that of `day` and `region`.
    pub fn is_of(&self, day: &str, region: &str) -> bool {
        let mut parts = self.scope.split('/');
        parts.next() == Some(day) && parts.next() == Some(region)
    }

    /// The signature of a request. `buffer`: scratch memory, as in all calls below.
    pub fn request(&self, buffer: &mut Vec<u8>, date: AmzDate, canonical_request: &[u8]) -> Signature {
        self.begin(buffer, "", date);
        hex_into(buffer, &sha256(canonical_request));
        self.sign(buffer)
    }

    /// The signature of a chunk of a signed stream, from that before it and the SHA-256 of its data.
    pub fn chunk(
        &self,
        buffer: &mut Vec<u8>,
        date: AmzDate,
        previous: &Signature,
        hash: &[u8; 32],
    ) -> Signature {
        self.begin(buffer, "-PAYLOAD", date);
        buffer.extend_from_slice(previous);
        buffer.push(b'\n');
        buffer.extend_from_slice(EMPTY_SHA256.as_bytes());
        buffer.push(b'\n');
        hex_into(buffer, hash);
        self.sign(buffer)
    }

    /// The signature of the trailing headers, each of whose lines ends with a line feed.
    pub fn trailer(
        &self,
        buffer: &mut Vec<u8>,
        date: AmzDate,
        previous: &Signature,
        lines: &[u8],
    ) -> Signature {
        self.begin(buffer, "-TRAILER", date);
        buffer.extend_from_slice(previous);
        buffer.push(b'\n');
        hex_into(buffer, &sha256(lines));
        self.sign(buffer)
    }

    fn begin(&self, buffer: &mut Vec<u8>, kind: &str, date: AmzDate) {
        buffer.clear();
        for piece in [ALGORITHM, kind, "\n", date.as_str(), "\n", &self.scope, "\n"] {
            buffer.extend_from_slice(piece.as_bytes());
        }
    }

    fn sign(&self, text: &[u8]) -> Signature {
        let mut out = [0; 64];
        hex::encode_to_slice(hmac::sign(&self.key, text).as_ref(), &mut out).expect("32 bytes are 64 digits");
        out
    }
}

/// Appends `bytes` in lower-case hexadecimal.
pub fn hex_into(out: &mut Vec<u8>, bytes: &[u8]) {
    let from = out.len();
    out.resize(from + bytes.len() * 2, 0);
    hex::encode_to_slice(bytes, &mut out[from..]).expect("two digits for each byte");
}
