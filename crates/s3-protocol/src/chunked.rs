//! The `aws-chunked` encoding: chunks with sizes, optionally with signatures and a trailer.
//!
//! Invariants (docs/proof.md 2.1.5): a chunk header is at most [`MAX_HEADER`] bytes; a signed chunk at most
//! [`MAX_SIGNED_CHUNK`]; signatures are chained; the final chunk of length zero is required; the number of
//! decoded bytes must equal `x-amz-decoded-content-length`; the trailer contains exactly the declared names.
//! Data is passed on as it arrives, so memory does not grow with the chunk; the caller makes nothing visible
//! before [`Chunked::end`] succeeded. Must not depend on: sockets or objects.

use ashlar_checksum::Sha256;
use bytes::{Buf, Bytes};

use crate::auth::Chain;
use crate::fault::{Code, Fault, Outcome};

/// Longest chunk header.
pub const MAX_HEADER: usize = 1024;
/// Longest trailer.
pub const MAX_TRAILER: usize = 8 * 1024;
/// Longest chunk that carries a signature. Chunks without one may be as long as the body: Go's
/// SDK sends a body of known length as one chunk.
pub const MAX_SIGNED_CHUNK: u64 = 16 * 1024 * 1024;

/// A decoder: feed it bytes with [`Chunked::take`], then ask [`Chunked::end`].
pub struct Chunked {
    state: State,
    signer: Option<Signer>,
    /// Declared names of the trailer, lower case; `None`: no trailer may come.
    declared: Option<Vec<String>>,
    /// A trailer must be signed.
    trailer_signed: bool,
    /// Bytes of data still to come, over all chunks.
    left: u64,
    line: Vec<u8>,
    trailers: Vec<(String, String)>,
}

struct Signer {
    chain: Chain,
    hash: Sha256,
    signature: [u8; 64],
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// In a chunk header.
    Header,
    /// In the data of a chunk: so many bytes to come.
    Data(u64),
    /// In the line end after the data: so many bytes to come.
    DataEnd(u8),
    /// After the zero chunk: the trailer, up to the end of the body.
    Trailer,
    /// Checked.
    Done,
}

fn broken(why: &'static str) -> Fault {
    Fault::with(Code::INCOMPLETE_BODY, format!("The chunked body is not well-formed: {why}.")).closing()
}

impl Chunked {
    /// A decoder for `length` decoded bytes. `chain` for signed chunks, `declared` the names in
    /// `x-amz-trailer` when the payload mode has a trailer.
    pub fn new(length: u64, chain: Option<Chain>, declared: Option<Vec<String>>) -> Chunked {
        let trailer_signed = chain.is_some() && declared.is_some();
        Chunked {
            state: State::Header,
            signer: chain.map(|chain| Signer { chain, hash: Sha256::new(), signature: [0; 64] }),
            declared,
            trailer_signed,
            left: length,
            line: Vec::new(),
            trailers: Vec::new(),
        }
    }

    /// Consumes from `input` up to the next piece of data; `None` when `input` is used up.
    pub fn take(&mut self, input: &mut Bytes) -> Outcome<Option<Bytes>> {
        while !input.is_empty() {
            match self.state {
                State::Header => self.header(input)?,
                State::Data(left) => {
                    let n = usize::try_from(left).unwrap_or(usize::MAX).min(input.len());
                    let data = input.split_to(n);
                    if let Some(signer) = &mut self.signer {
                        signer.hash.update(&data);
                    }
                    self.left -= n as u64;
                    let rest = left - n as u64;
                    self.state = if rest == 0 { State::DataEnd(2) } else { State::Data(rest) };
                    if rest == 0 {
                        self.chunk_signature()?;
                    }
                    return Ok(Some(data));
                }
                State::DataEnd(n) => {
                    let want = if n == 2 { b'\r' } else { b'\n' };
                    if input.get_u8() != want {
                        return Err(broken("a chunk is longer than its header says"));
                    }
                    self.state = if n == 2 { State::DataEnd(1) } else { State::Header };
                }
                State::Trailer => {
                    if self.line.len() + input.len() > MAX_TRAILER {
                        return Err(Fault::new(Code::MALFORMED_TRAILER).closing());
                    }
                    self.line.extend_from_slice(input);
                    input.clear();
                }
                State::Done => return Err(broken("bytes follow its end")),
            }
        }
        Ok(None)
    }

    /// Whether no byte was given out that a signature has still to cover.
    pub fn is_covered(&self) -> bool {
        self.signer.is_none() || !matches!(self.state, State::Data(_))
    }

    /// The body has ended: checks the end and returns the trailer.
    pub fn end(&mut self) -> Outcome<()> {
        match self.state {
            State::Done => return Ok(()),
            State::Trailer => {}
            State::Header | State::Data(_) | State::DataEnd(_) => {
                return Err(broken("it ends before the final chunk of size zero"));
            }
        }
        if self.left != 0 {
            return Err(broken("it holds fewer bytes than x-amz-decoded-content-length says"));
        }
        self.trailer()?;
        self.state = State::Done;
        Ok(())
    }

    /// The trailer, by lower-case name; empty before [`Chunked::end`].
    pub fn trailers(&self) -> &[(String, String)] {
        &self.trailers
    }

    fn header(&mut self, input: &mut Bytes) -> Outcome<()> {
        let end = memchr::memchr(b'\n', input);
        let n = end.map_or(input.len(), |i| i + 1);
        if self.line.len() + n > MAX_HEADER {
            return Err(broken("a chunk header is longer than 1024 bytes"));
        }
        self.line.extend_from_slice(&input[..n]);
        input.advance(n);
        if end.is_none() {
            return Ok(());
        }
        let line = std::mem::take(&mut self.line);
        let result = self.parse_header(&line);
        self.line = line;
        self.line.clear();
        result
    }

    fn parse_header(&mut self, line: &[u8]) -> Outcome<()> {
        let line =
            line.strip_suffix(b"\r\n").ok_or_else(|| broken("a chunk header does not end in CR LF"))?;
        let (size, extension) = match memchr::memchr(b';', line) {
            Some(i) => (&line[..i], Some(&line[i + 1..])),
            None => (line, None),
        };
        let size = parse_size(size)?;
        match (&mut self.signer, extension.map(|e| e.strip_prefix(b"chunk-signature="))) {
            (Some(signer), Some(Some(signature))) => {
                signer.signature =
                    signature.try_into().map_err(|_| broken("a chunk signature has the wrong length"))?;
                if size > MAX_SIGNED_CHUNK {
                    return Err(broken("a signed chunk is longer than 16 MiB"));
                }
            }
            (Some(_), _) => return Err(broken("a chunk has no signature")),
            (None, None) => {}
            (None, Some(_)) => return Err(broken("a chunk header has an extension where none belongs")),
        }
        if size > self.left {
            return Err(broken("it holds more bytes than x-amz-decoded-content-length says"));
        }
        if size > 0 {
            self.state = State::Data(size);
            return Ok(());
        }
        self.chunk_signature()?;
        self.state = State::Trailer;
        Ok(())
    }

    /// The chunk is complete: its signature must fit.
    fn chunk_signature(&mut self) -> Outcome<()> {
        let Some(signer) = &mut self.signer else { return Ok(()) };
        let hash = std::mem::take(&mut signer.hash).finish();
        if signer.chain.check_chunk(&signer.signature, &hash) {
            return Ok(());
        }
        Err(Fault::with(
            Code::SIGNATURE_MISMATCH,
            "The signature of a chunk does not match. Check your secret key and the signing method.",
        )
        .closing())
    }

    fn trailer(&mut self) -> Outcome<()> {
        let bad = || Fault::new(Code::MALFORMED_TRAILER).closing();
        let text = std::mem::take(&mut self.line);
        let mut canonical = Vec::new();
        let mut signature = None;
        for line in text.split(|b| *b == b'\n') {
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            if line.is_empty() {
                continue;
            }
            if line.iter().any(|b| !(0x20..0x7f).contains(b)) {
                return Err(bad());
            }
            let line = std::str::from_utf8(line).map_err(|_| bad())?;
            let (name, value) = line.split_once(':').ok_or_else(bad)?;
            let (name, value) = (name.trim().to_ascii_lowercase(), value.trim().to_owned());
            if name == "x-amz-trailer-signature" {
                if signature.replace(value).is_some() {
                    return Err(bad());
                }
                continue;
            }
            canonical.extend_from_slice(format!("{name}:{value}\n").as_bytes());
            if self.trailers.iter().any(|(n, _)| *n == name) {
                return Err(bad());
            }
            self.trailers.push((name, value));
        }
        let declared = self.declared.as_deref().unwrap_or_default();
        let same = declared.len() == self.trailers.len()
            && self.trailers.iter().all(|(name, _)| declared.contains(name));
        if !same {
            return Err(bad());
        }
        match (&mut self.signer, signature) {
            (Some(signer), Some(signature)) if self.trailer_signed => {
                if signer.chain.check_trailer(signature.as_bytes(), &canonical) {
                    return Ok(());
                }
                Err(Fault::with(Code::SIGNATURE_MISMATCH, "The signature of the trailer does not match. Check your secret key and the signing method.").closing())
            }
            (Some(_), None) if self.trailer_signed => Err(bad()),
            (_, Some(_)) => Err(bad()),
            (_, None) => Ok(()),
        }
    }
}

fn parse_size(text: &[u8]) -> Outcome<u64> {
    if text.is_empty() || text.len() > 16 {
        return Err(broken("a chunk size is not a hexadecimal number"));
    }
    text.iter().try_fold(0u64, |n, b| {
        let digit =
            (*b as char).to_digit(16).ok_or_else(|| broken("a chunk size is not a hexadecimal number"))?;
        Ok(n << 4 | u64::from(digit))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[allow(clippy::type_complexity)] // a test helper
    fn decode(
        body: &[u8],
        step: usize,
        length: u64,
        declared: Option<Vec<String>>,
    ) -> Outcome<(Vec<u8>, Vec<(String, String)>)> {
        let mut chunked = Chunked::new(length, None, declared);
        let mut out = Vec::new();
        for piece in body.chunks(step) {
            let mut input = Bytes::copy_from_slice(piece);
            while let Some(data) = chunked.take(&mut input)? {
                out.extend_from_slice(&data);
            }
        }
        chunked.end()?;
        Ok((out, chunked.trailers().to_vec()))
    }

    const GOOD: &[u8] = b"5\r\nhello\r\n6\r\n world\r\n0\r\nx-amz-checksum-crc32:AAAAAA==\r\n\r\n";

    fn crc() -> Option<Vec<String>> {
        Some(vec!["x-amz-checksum-crc32".into()])
    }

    #[test]
    fn decodes_pieces_of_any_size() {
        for step in 1..GOOD.len() {
            let (data, trailers) = decode(GOOD, step, 11, crc()).unwrap();
            assert_eq!(data, b"hello world");
            assert_eq!(trailers, [("x-amz-checksum-crc32".to_owned(), "AAAAAA==".to_owned())]);
        }
    }

    #[test]
    fn every_inconsistency_is_detected() {
        let none = Some(vec![]);
        for (body, length, declared) in [
            (GOOD, 10, crc()),
            (GOOD, 12, crc()),
            (GOOD, 11, none.clone()),
            (GOOD, 11, None),
            (GOOD, 11, Some(vec!["x-amz-checksum-sha1".into()])),
            (&GOOD[..26], 11, None),
            (b"5\r\nhello\r\n", 5, None),
            (b"5\r\nhello", 5, None),
            (b"5\r\nhelloX\n0\r\n\r\n", 5, None),
            (b"5\nhello\r\n0\r\n\r\n", 5, None),
            (b"-5\r\nhello\r\n0\r\n\r\n", 5, None),
            (b"fffffffffffffffff\r\n", 5, None),
            (b"5;chunk-signature=00\r\nhello\r\n0\r\n\r\n", 5, None),
            (b"", 0, None),
        ] {
            let got = decode(body, 3, length, declared);
            assert!(got.is_err(), "{:?} {length}", String::from_utf8_lossy(body));
        }
        let long = vec![b'1'; 2000];
        assert!(decode(&long, 100, 1, None).is_err());
        let mut long = b"0\r\n".to_vec();
        long.extend(vec![b'a'; 10_000]);
        assert!(decode(&long, 100, 0, crc()).is_err());
        assert!(decode(b"0\r\n\r\n", 1, 0, None).is_ok());
    }
}
