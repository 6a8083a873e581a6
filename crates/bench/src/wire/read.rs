//! Reading a body: by length, in chunks, or to the end of the connection.
//!
//! Invariant: exactly the body is consumed from the buffer.
//!
//! Must not depend on: requests.

use std::{io::ErrorKind, time::Instant};

use memchr::{memchr, memmem};

use super::{Buffer, Fault, Framing, Head, Line, Sink};

/// The text between two marks.
pub(crate) fn between<'a>(bytes: &'a [u8], open: &[u8], close: &[u8]) -> Option<&'a str> {
    let from = memmem::find(bytes, open)? + open.len();
    let len = memmem::find(&bytes[from..], close)?;
    std::str::from_utf8(&bytes[from..from + len]).ok()
}

/// Takes in a body.
pub(super) struct Reader<'a> {
    pub(super) sink: Sink<'a>,
    pub(super) kept: &'a mut Vec<u8>,
    pub(super) bytes: u64,
    pub(super) wrong: bool,
}

impl Reader<'_> {
    fn data(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        match self.sink {
            Sink::Discard => {}
            // Read on after a mismatch, so that the connection stays usable and the time is whole.
            Sink::Compare(expected) => self.wrong |= !expected.equals(self.bytes, bytes),
            Sink::Keep(limit) => {
                if self.kept.len() + bytes.len() > limit {
                    return Err(Fault::Malformed("too long an answer"));
                }
                self.kept.extend_from_slice(bytes);
            }
        }
        self.bytes += bytes.len() as u64;
        Ok(())
    }
}

/// Reads a body to its end; returns when its last byte was there, and sets when its first was.
pub(super) fn body(
    line: &mut Line,
    buffer: &mut Buffer,
    head: &Head,
    reader: &mut Reader<'_>,
    mut now: Instant,
    first: &mut Option<Instant>,
) -> Result<Instant, Fault> {
    let mut left = match head.framing {
        Framing::Length(n) => n,
        Framing::Close | Framing::Chunked => 0,
    };
    let mut last_chunk = false;
    loop {
        let held = buffer.held();
        if !held.is_empty() && first.is_none() {
            *first = Some(now);
        }
        match head.framing {
            Framing::Length(_) | Framing::Close => {
                let all = held.len();
                let n = if head.framing == Framing::Close {
                    all
                } else {
                    all.min(usize::try_from(left).unwrap_or(all))
                };
                reader.data(&held[..n])?;
                buffer.take(n);
                left = left.saturating_sub(n as u64);
                if left == 0 && head.framing != Framing::Close {
                    return Ok(now);
                }
            }
            Framing::Chunked => {
                if chunks(buffer, reader, &mut left, &mut last_chunk)? {
                    return Ok(now);
                }
            }
        }
        let n = buffer.receive(line)?;
        now = Instant::now();
        if n == 0 {
            return match head.framing {
                Framing::Close => Ok(now),
                _ => Err(Fault::Connection(ErrorKind::UnexpectedEof)),
            };
        }
    }
}

/// Takes what is held of a chunked body; `true` at its end. `left` counts the bytes of the chunk
/// that is being read and its line end.
fn chunks(
    buffer: &mut Buffer,
    reader: &mut Reader<'_>,
    left: &mut u64,
    last: &mut bool,
) -> Result<bool, Fault> {
    loop {
        let held = buffer.held();
        if *left > 0 {
            if held.is_empty() {
                return Ok(false);
            }
            let n = held.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
            // The two last bytes are the line end.
            let data = left.saturating_sub(2).min(n as u64) as usize;
            reader.data(&held[..data])?;
            *left -= n as u64;
            buffer.take(n);
            continue;
        }
        let Some(end) = memchr(b'\n', held) else { return Ok(false) };
        let text = held[..end].trim_ascii();
        if *last {
            // Trailing headers, then an empty line.
            let done = text.is_empty();
            buffer.take(end + 1);
            if done {
                return Ok(true);
            }
            continue;
        }
        let digits = text.split(|b| *b == b';').next().unwrap_or_default().trim_ascii();
        let size = std::str::from_utf8(digits).ok().and_then(|t| u64::from_str_radix(t, 16).ok());
        let size = size.filter(|s| *s <= 1 << 40).ok_or(Fault::Malformed("a bad chunk"))?;
        buffer.take(end + 1);
        *last = size == 0;
        *left = if size == 0 { 0 } else { size + 2 };
    }
}
