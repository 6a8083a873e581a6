//! `aws-chunked`: a payload in chunks, signed or not, with or without a trailing checksum.
//!
//! Invariants: the encoded length is known before the first byte and is exact; every chunk except the last
//! has the full size; at most one chunk is buffered, and only if chunks are signed and the pieces of the
//! source do not match them.
//!
//! Must not depend on: the source of the bytes.

use std::{
    collections::VecDeque,
    io,
    task::{Context, Poll, ready},
};

use ashlar_checksum::{Algorithm, Hasher};
use bytes::{Bytes, BytesMut};

use crate::{body::Input, sign::ChunkSigner};

/// The size of signed chunks, as in minio-go and the AWS SDKs.
const SIGNED_CHUNK: u64 = 64 << 10;
/// The size of unsigned chunks, as in botocore.
const UNSIGNED_CHUNK: u64 = 1 << 20;
/// `;chunk-signature=` and 64 digits.
const SIGNATURE_LEN: u64 = 17 + 64;
/// `x-amz-trailer-signature:`, 64 digits and the line end.
const TRAILER_SIGNATURE_LEN: u64 = 24 + 64 + 2;

/// The trailer's header name for an algorithm.
pub(crate) fn trailer_name(algorithm: Algorithm) -> &'static str {
    algorithm.header()
}

/// Frames one payload.
pub(crate) struct Chunked {
    input: Input,
    /// Read from the input, not framed yet.
    held: Bytes,
    /// A signed chunk that is assembled from several pieces.
    gathered: BytesMut,
    /// Framed bytes to be returned: at most a header, a chunk and the end.
    queue: VecDeque<Bytes>,
    chunk: u64,
    /// Payload bytes not framed yet, and those of them that belong to the current chunk.
    left: u64,
    left_in_chunk: u64,
    /// Encoded bytes not returned yet.
    left_encoded: u64,
    begun: bool,
    ended: bool,
    signer: Option<ChunkSigner>,
    trailer: Option<Hasher>,
}

impl Chunked {
    /// Frames `input`. Chunks are signed if there is a signer; a checksum follows if there is an
    /// algorithm.
    pub(crate) fn new(input: Input, signer: Option<ChunkSigner>, trailer: Option<Algorithm>) -> Chunked {
        let left = input.left();
        let chunk = if signer.is_some() { SIGNED_CHUNK } else { UNSIGNED_CHUNK };
        Chunked {
            input,
            held: Bytes::new(),
            gathered: BytesMut::new(),
            queue: VecDeque::with_capacity(3),
            chunk,
            left,
            left_in_chunk: 0,
            left_encoded: encoded_len(left, chunk, signer.is_some(), trailer),
            begun: false,
            ended: false,
            signer,
            trailer: trailer.map(Hasher::new),
        }
    }

    /// Encoded bytes not returned yet.
    pub(crate) fn encoded_left(&self) -> u64 {
        self.left_encoded
    }

    pub(crate) fn into_input(self) -> Input {
        self.input
    }

    /// The next encoded piece; `None` at the end.
    pub(crate) fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        loop {
            if let Some(piece) = self.queue.pop_front() {
                self.left_encoded = self
                    .left_encoded
                    .checked_sub(piece.len() as u64)
                    .expect("the encoded length was computed from the same sizes");
                return Poll::Ready(Some(Ok(piece)));
            }
            if self.ended {
                assert!(self.left_encoded == 0, "encoded length off by {}", self.left_encoded);
                return Poll::Ready(None);
            }
            if self.held.is_empty() && self.left > self.gathered.len() as u64 {
                match ready!(self.input.poll_piece(cx)) {
                    Some(Ok(piece)) => self.held = piece,
                    Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                    None => unreachable!("the input checks its own length"),
                }
            }
            if self.left == 0 {
                self.end();
            } else if self.signer.is_some() {
                self.signed_step();
            } else {
                self.unsigned_step();
            }
        }
    }

    fn unsigned_step(&mut self) {
        if self.left_in_chunk == 0 {
            self.left_in_chunk = self.left.min(self.chunk);
            let start = self.line_start();
            self.queue.push_back(format!("{start}{:x}\r\n", self.left_in_chunk).into());
        }
        let n = self.left_in_chunk.min(self.held.len() as u64);
        let piece = self.held.split_to(n as usize);
        if let Some(hasher) = &mut self.trailer {
            hasher.update(&piece);
        }
        self.left -= n;
        self.left_in_chunk -= n;
        self.queue.push_back(piece);
    }

    fn signed_step(&mut self) {
        let want = self.left.min(self.chunk) as usize;
        let data = if self.gathered.is_empty() && self.held.len() >= want {
            self.held.split_to(want)
        } else {
            let n = self.held.len().min(want - self.gathered.len());
            self.gathered.extend_from_slice(&self.held.split_to(n));
            if self.gathered.len() < want {
                return;
            }
            self.gathered.split().freeze()
        };
        if let Some(hasher) = &mut self.trailer {
            hasher.update(&data);
        }
        self.left -= want as u64;
        let start = self.line_start();
        let signer = self.signer.as_mut().expect("only signed payloads come here");
        let signature = signer.chunk(&data);
        self.queue.push_back(format!("{start}{want:x};chunk-signature={signature}\r\n").into());
        self.queue.push_back(data);
    }

    fn end(&mut self) {
        let mut out = self.line_start().to_owned();
        out.push('0');
        if let Some(signer) = &mut self.signer {
            out.push_str(";chunk-signature=");
            out.push_str(signer.chunk(&[]));
        }
        out.push_str("\r\n");
        if let Some(hasher) = self.trailer.take() {
            let name = trailer_name(hasher.algorithm());
            let value = hasher.finish().base64();
            out.push_str(&format!("{name}:{value}\r\n"));
            if let Some(signer) = &mut self.signer {
                let signature = signer.trailer(&format!("{name}:{value}\n"));
                out.push_str(&format!("x-amz-trailer-signature:{signature}\r\n"));
            }
        }
        out.push_str("\r\n");
        self.queue.push_back(out.into());
        self.ended = true;
    }

    /// The line end of the previous chunk, which is sent with the next header.
    fn line_start(&mut self) -> &'static str {
        if std::mem::replace(&mut self.begun, true) { "\r\n" } else { "" }
    }
}

fn encoded_len(len: u64, chunk: u64, signed: bool, trailer: Option<Algorithm>) -> u64 {
    let signature = if signed { SIGNATURE_LEN } else { 0 };
    let framed = |size: u64| hex_len(size) + signature + 2 + size + 2;
    let mut total = len / chunk * framed(chunk);
    if !len.is_multiple_of(chunk) {
        total += framed(len % chunk);
    }
    total += 1 + signature + 2 + 2;
    if let Some(algorithm) = trailer {
        let value = algorithm.digest_len().div_ceil(3) * 4;
        total += (trailer_name(algorithm).len() + 1 + value + 2) as u64;
        total += if signed { TRAILER_SIGNATURE_LEN } else { 0 };
    }
    total
}

fn hex_len(value: u64) -> u64 {
    u64::from((64 - value.leading_zeros()).div_ceil(4).max(1))
}

#[cfg(test)]
#[path = "chunked_tests.rs"]
mod tests;
