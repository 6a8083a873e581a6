//! The entries of an archive from a request's body.
//!
//! Invariants: bytes of a signed chunk are passed on only after the whole chunk arrived and its signature was
//! verified; the end is reported only after the whole body has passed its checks; the time for storing
//! entries does not count against the client's minimum rate.

use ashlar_environment::time::Instant;
use std::collections::VecDeque;

use ashlar_checksum::{Algorithm, Digest, Hasher};
use ashlar_object::DecoderMemory;
use bytes::{Bytes, BytesMut};

use crate::archive::{DETECT, Decoder, Format, Item, Reader};
use crate::fault::{Code, Fault, Outcome};
use crate::ops::new_object::DeclaredBody;
use crate::ops::{Context, fault};
use crate::request_body::RequestBody;

/// Longest signed chunk: it is held until its signature is verified. Clients send 64 or 128 KiB.
const MAX_CHUNK: usize = 1 << 20;

/// See the module.
pub struct Source<'a> {
    cx: &'a Context,
    request_body: &'a mut RequestBody,
    /// Bytes of the body.
    size: u64,
    md5: Hasher,
    stated: Option<Hasher>,
    /// Pieces of a chunk whose signature is still to come, or that are to go on.
    held: VecDeque<Bytes>,
    held_bytes: usize,
    /// Once the format is known.
    decoder: Option<Decoder>,
    is_plain: bool,
    _room: Option<DecoderMemory>,
    reader: Reader,
    /// Plain text that was not looked at yet.
    plain: Bytes,
    /// When the last piece came.
    since: Option<Instant>,
}

impl<'a> Source<'a> {
    /// The body of a request with this head.
    pub fn new(cx: &'a Context, request_body: &'a mut RequestBody, promise: &DeclaredBody) -> Source<'a> {
        Source {
            cx,
            request_body,
            size: promise.size,
            md5: Hasher::new(Algorithm::Md5),
            stated: promise.stated.algorithm().map(Hasher::new),
            held: VecDeque::new(),
            held_bytes: 0,
            decoder: None,
            is_plain: false,
            _room: None,
            reader: Reader::default(),
            plain: Bytes::new(),
            since: None,
        }
    }

    /// The next entry or piece; `None` when the archive and the body have ended.
    pub async fn next(&mut self) -> Outcome<Option<Item>> {
        loop {
            if let Some(item) = self.reader.step(&mut self.plain)? {
                return Ok(Some(item));
            }
            let Some(decoder) = &mut self.decoder else {
                self.begin().await?;
                continue;
            };
            if let Some(plain) = decoder.step()? {
                self.plain = plain;
                continue;
            }
            if decoder.is_ended() {
                self.reader.end()?;
                return Ok(None);
            }
            let piece = self.pull().await?;
            if let Some(decoder) = &mut self.decoder {
                match piece {
                    Some(piece) => decoder.push(piece),
                    None => decoder.end(),
                }
            }
        }
    }

    /// Refuses an entry that is longer than the rest of the body can be, before memory is reserved for it.
    pub fn check_size(&self, size: u64) -> Outcome<()> {
        if self.is_plain && size > self.size {
            return Err(Fault::with(
                Code::BAD_ARCHIVE,
                "The archive cannot be read: an entry is longer than the archive.",
            ));
        }
        Ok(())
    }

    /// MD5 of the body so far, and the checksum of the kind that was stated.
    pub fn sums(self) -> ([u8; 16], Option<Digest>) {
        let mut md5 = [0; 16];
        md5.copy_from_slice(self.md5.finish().as_bytes());
        (md5, self.stated.map(Hasher::finish))
    }

    /// Detects the format, and reserves memory for its decoder.
    async fn begin(&mut self) -> Outcome<()> {
        let mut first = BytesMut::new();
        while first.len() < DETECT {
            let Some(piece) = self.pull().await? else { break };
            first.extend_from_slice(&piece);
        }
        let format = Format::detect(&first)?;
        self.is_plain = format == Format::Plain;
        if format.memory() > 0 {
            let room = self.cx.store.reserve_decoder_memory(format.memory()).await;
            self._room = Some(room.map_err(|e| fault(e, "", ""))?);
        }
        let mut decoder = Decoder::new(format);
        decoder.push(first.freeze());
        self.decoder = Some(decoder);
        Ok(())
    }

    /// The next piece of the body that may be used.
    async fn pull(&mut self) -> Outcome<Option<Bytes>> {
        loop {
            if self.request_body.is_covered()
                && let Some(piece) = self.held.pop_front()
            {
                self.held_bytes -= piece.len();
                return Ok(Some(piece));
            }
            if let Some(since) = self.since {
                self.request_body.excuse(since.elapsed());
            }
            let piece = self.request_body.next().await?;
            self.since = Some(Instant::now());
            let Some(piece) = piece else { return Ok(None) };
            self.md5.update(&piece);
            if let Some(hasher) = &mut self.stated {
                hasher.update(&piece);
            }
            self.held_bytes += piece.len();
            if self.held_bytes > MAX_CHUNK && !self.request_body.is_covered() {
                return Err(Fault::not_implemented(
                    "Unpacking an archive that is sent in signed chunks of more than 1 MiB",
                )
                .closing());
            }
            self.held.push_back(piece);
        }
    }
}
