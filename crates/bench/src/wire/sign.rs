//! AWS Signature Version 4 without allocation: the derived key and the date are kept per worker, the
//! canonical request is appended to a reused buffer. Keys and strings to sign are those of the `client` crate.
//!
//! Source: "Authenticating Requests (AWS Signature Version 4)" of the Amazon S3 API reference,
//! whose worked examples are the tests below.
//!
//! Invariant: headers are signed in the given order, which must be that of their names.
//!
//! Must not depend on: connections.

use std::time::SystemTime;

use ashlar_client::{AmzDate, SigningKey};
use time::OffsetDateTime;

pub(crate) use ashlar_client::EMPTY_SHA256;

/// An access key with its secret, and the region they are used in.
#[derive(Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Keys {
    /// The access key id.
    pub access: String,
    /// The secret; never printed.
    pub secret: String,
    /// The token of temporary credentials.
    pub token: Option<String>,
    /// The region that signatures name.
    pub region: String,
}

impl std::fmt::Debug for Keys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Keys").field("access", &self.access).finish_non_exhaustive()
    }
}

/// Signs the requests of one worker.
pub struct Signer {
    keys: Keys,
    /// The second that `date` is of, since 1970.
    second: i64,
    date: AmzDate,
    /// The key of the day of `date`.
    key: SigningKey,
    canonical: Vec<u8>,
    to_sign: Vec<u8>,
}

impl Signer {
    /// A signer for S3, at the beginning of 1970.
    pub fn new(keys: Keys) -> Signer {
        let date = AmzDate::new(OffsetDateTime::UNIX_EPOCH);
        Signer {
            second: 0,
            key: SigningKey::new(&keys.secret, date.day(), &keys.region, "s3"),
            date,
            keys,
            canonical: Vec::with_capacity(1024),
            to_sign: Vec::with_capacity(256),
        }
    }

    /// The token of temporary credentials, which is a signed header.
    pub fn token(&self) -> Option<&str> {
        self.keys.token.as_deref()
    }

    /// Moves the signer's clock; costs something only when the second or the day has changed.
    pub fn at(&mut self, now: SystemTime) {
        let now = OffsetDateTime::from(now);
        if now.unix_timestamp() == self.second {
            return;
        }
        self.second = now.unix_timestamp();
        self.date = AmzDate::new(now);
        if !self.key.is_of(self.date.day(), &self.keys.region) {
            self.key = SigningKey::new(&self.keys.secret, self.date.day(), &self.keys.region, "s3");
        }
    }

    /// The moment as signatures write it; call [`Signer::at`] before.
    pub fn date(&self) -> &str {
        self.date.as_str()
    }

    /// Appends the value of the `authorization` header to `out` and returns the signature.
    /// `headers` are all that is signed, in the order of their names; `payload` is the value of
    /// `x-amz-content-sha256`.
    pub fn authorize(
        &mut self,
        out: &mut Vec<u8>,
        method: &str,
        path: &str,
        query: &str,
        headers: &[(&str, &str)],
        payload: &str,
    ) -> [u8; 64] {
        let canonical = &mut self.canonical;
        canonical.clear();
        for piece in [method, "\n", path, "\n", query, "\n"] {
            canonical.extend_from_slice(piece.as_bytes());
        }
        for (name, value) in headers {
            canonical.extend_from_slice(name.as_bytes());
            canonical.push(b':');
            canonical.extend_from_slice(value.as_bytes());
            canonical.push(b'\n');
        }
        canonical.push(b'\n');
        let names = canonical.len();
        for (i, (name, _)) in headers.iter().enumerate() {
            if i > 0 {
                canonical.push(b';');
            }
            canonical.extend_from_slice(name.as_bytes());
        }
        out.extend_from_slice(b"AWS4-HMAC-SHA256 Credential=");
        out.extend_from_slice(self.keys.access.as_bytes());
        out.push(b'/');
        out.extend_from_slice(self.key.scope().as_bytes());
        out.extend_from_slice(b", SignedHeaders=");
        out.extend_from_slice(&canonical[names..]);
        canonical.push(b'\n');
        canonical.extend_from_slice(payload.as_bytes());
        let signature = self.key.request(&mut self.to_sign, self.date, canonical);
        out.extend_from_slice(b", Signature=");
        out.extend_from_slice(&signature);
        signature
    }

    /// The signature of a chunk of a signed stream, from that before it and the SHA-256 of its data.
    pub fn chunk(&mut self, previous: &[u8; 64], hash: &[u8; 32]) -> [u8; 64] {
        self.key.chunk(&mut self.to_sign, self.date, previous, hash)
    }

    /// The signature of the trailing headers, each of whose lines ends with a line feed.
    pub fn trailer(&mut self, previous: &[u8; 64], lines: &[u8]) -> [u8; 64] {
        self.key.trailer(&mut self.to_sign, self.date, previous, lines)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use ashlar_checksum::sha256;

    use super::*;

    fn signer() -> Signer {
        let mut signer = Signer::new(Keys {
            access: "AKIAIOSFODNN7EXAMPLE".into(),
            secret: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY".into(),
            token: None,
            region: "us-east-1".into(),
        });
        // 2013-05-24 00:00:00 UTC, the moment of the examples.
        signer.at(SystemTime::UNIX_EPOCH + Duration::from_secs(1_369_353_600));
        signer
    }

    fn text(signature: &[u8]) -> &str {
        std::str::from_utf8(signature).unwrap()
    }

    #[test]
    fn dates_are_formatted() {
        let mut signer = signer();
        assert_eq!(signer.date(), "20130524T000000Z");
        signer.at(SystemTime::UNIX_EPOCH + Duration::from_secs(951_825_599));
        assert_eq!(signer.date(), "20000229T115959Z");
        assert!(signer.key.scope().starts_with("20000229/"));
    }

    /// The S3 API reference's examples: GET with range, PUT, GET of a lifecycle, listing.
    #[test]
    fn headers_match_the_examples_of_aws() {
        let host = "examplebucket.s3.amazonaws.com";
        let date = ("x-amz-date", "20130524T000000Z");
        let empty = ("x-amz-content-sha256", EMPTY_SHA256);
        let mut out = Vec::new();
        let signed = signer().authorize(
            &mut out,
            "GET",
            "/test.txt",
            "",
            &[("host", host), ("range", "bytes=0-9"), empty, date],
            EMPTY_SHA256,
        );
        assert_eq!(text(&signed), "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41");
        assert_eq!(
            text(&out),
            "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request, \
             SignedHeaders=host;range;x-amz-content-sha256;x-amz-date, \
             Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"
        );
        let payload = "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072";
        let put = [
            ("date", "Fri, 24 May 2013 00:00:00 GMT"),
            ("host", host),
            ("x-amz-content-sha256", payload),
            date,
            ("x-amz-storage-class", "REDUCED_REDUNDANCY"),
        ];
        let signed = signer().authorize(&mut out, "PUT", "/test%24file.text", "", &put, payload);
        assert_eq!(text(&signed), "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd");
        let plain = [("host", host), empty, date];
        let signed = signer().authorize(&mut out, "GET", "/", "lifecycle=", &plain, EMPTY_SHA256);
        assert_eq!(text(&signed), "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543");
        let signed = signer().authorize(&mut out, "GET", "/", "max-keys=2&prefix=J", &plain, EMPTY_SHA256);
        assert_eq!(text(&signed), "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7");
    }

    /// The S3 API reference's example of a signed stream with a trailing checksum.
    #[test]
    fn chunks_and_trailer_match_the_examples_of_aws() {
        let mut signer = signer();
        let mode = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER";
        let headers = [
            ("content-encoding", "aws-chunked"),
            ("host", "s3.amazonaws.com"),
            ("x-amz-content-sha256", mode),
            ("x-amz-date", "20130524T000000Z"),
            ("x-amz-decoded-content-length", "66560"),
            ("x-amz-storage-class", "REDUCED_REDUNDANCY"),
            ("x-amz-trailer", "x-amz-checksum-crc32c"),
        ];
        let mut out = Vec::new();
        let seed = signer.authorize(&mut out, "PUT", "/examplebucket/chunkObject.txt", "", &headers, mode);
        assert_eq!(text(&seed), "106e2a8a18243abcf37539882f36619c00e2dfc72633413f02d3b74544bfeb8e");
        let one = signer.chunk(&seed, &sha256(&[b'a'; 65536]));
        assert_eq!(text(&one), "b474d8862b1487a5145d686f57f013e54db672cee1c953b3010fb58501ef5aa2");
        let two = signer.chunk(&one, &sha256(&[b'a'; 1024]));
        assert_eq!(text(&two), "1c1344b170168f8e65b41376b44b20fe354e373826ccbbe2c1d40a8cae51e5c7");
        let end = signer.chunk(&two, &sha256(b""));
        assert_eq!(text(&end), "2ca2aba2005185cf7159c6277faf83795951dd77a3a99e6e65d5c9f85863f992");
        let trailer = signer.trailer(&end, b"x-amz-checksum-crc32c:sOO8/Q==\n");
        assert_eq!(text(&trailer), "d81f82fc3505edab99d459891051a732e8730629a2e4a59689829ca17fe2e435");
    }
}
