//! What a signature covers of the body: the value of `x-amz-content-sha256`.
//!
//! Invariant: every use matches all arms; there is no default arm anywhere (docs/proof.md 2.1.3).

use crate::fault::{Code, Fault, Outcome};

/// Payload mode of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Payload {
    /// The body has this SHA-256, which is part of the signature.
    Single([u8; 32]),
    /// The signature does not cover the body.
    Unsigned,
    /// Chunks, each signed.
    Signed,
    /// Chunks, each signed, and a signed trailer.
    SignedTrailer,
    /// Chunks and a trailer, not signed.
    UnsignedTrailer,
    /// A mode that AWS has and this server has not.
    Reserved(&'static str),
}

impl Payload {
    /// Parses the header value.
    pub fn parse(value: &str) -> Outcome<Payload> {
        Ok(match value {
            "UNSIGNED-PAYLOAD" => Payload::Unsigned,
            "STREAMING-AWS4-HMAC-SHA256-PAYLOAD" => Payload::Signed,
            "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER" => Payload::SignedTrailer,
            "STREAMING-UNSIGNED-PAYLOAD-TRAILER" => Payload::UnsignedTrailer,
            "STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD" => {
                Payload::Reserved("The payload mode STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD")
            }
            "STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD-TRAILER" => {
                Payload::Reserved("The payload mode STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD-TRAILER")
            }
            hash => {
                let mut sum = [0; 32];
                let lower = hash.len() == 64 && !hash.bytes().any(|b| b.is_ascii_uppercase());
                if !lower || hex::decode_to_slice(hash, &mut sum).is_err() {
                    return Err(Fault::argument(
                        "x-amz-content-sha256",
                        hash,
                        "x-amz-content-sha256 must be UNSIGNED-PAYLOAD, STREAMING-UNSIGNED-PAYLOAD-TRAILER, STREAMING-AWS4-HMAC-SHA256-PAYLOAD, STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER, or a valid sha256 value.",
                    ));
                }
                Payload::Single(sum)
            }
        })
    }

    /// Whether the body is in `aws-chunked` form.
    pub fn is_chunked(&self) -> bool {
        match self {
            Payload::Signed | Payload::SignedTrailer | Payload::UnsignedTrailer => true,
            Payload::Single(_) | Payload::Unsigned | Payload::Reserved(_) => false,
        }
    }
}

/// The header is missing though the scheme needs it.
pub fn missing() -> Fault {
    Fault::with(Code::INVALID_REQUEST, "Missing required header for this request: x-amz-content-sha256")
}
