//! The head of an HTTP/1.1 answer: only the parts that a load needs.
//!
//! Invariants: pure; a head that is not complete is `None`, one that is malformed an error; never
//! panics, whatever the bytes.
//!
//! Must not depend on: sockets.

use memchr::{memchr, memmem};

/// How the length of a body is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// So many bytes.
    Length(u64),
    /// `transfer-encoding: chunked`.
    Chunked,
    /// Until the connection is closed.
    Close,
}

/// The parsed head. Ranges are positions within the bytes that were parsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// The status code.
    pub status: u16,
    /// Bytes of the head including the empty line.
    pub len: usize,
    /// How the body ends (for a request other than HEAD).
    pub framing: Framing,
    /// Whether the server closes the connection after this answer.
    pub close: bool,
    /// Where the entity tag stands, with its quotes.
    pub etag: Option<(usize, usize)>,
    /// Where the version id stands.
    pub version: Option<(usize, usize)>,
}

/// Parses a head; `None` if more bytes are needed.
///
/// # Errors
/// In words, if it is no HTTP/1.x answer.
pub fn parse(bytes: &[u8]) -> Result<Option<Head>, &'static str> {
    let Some(end) = memmem::find(bytes, b"\r\n\r\n") else { return Ok(None) };
    let line = memchr(b'\n', bytes).expect("the empty line was found") + 1;
    let first = &bytes[..line];
    if !first.starts_with(b"HTTP/1.") || first.len() < 14 {
        return Err("not an HTTP/1 answer");
    }
    let digits = &first[9..12];
    if first[8] != b' ' || !digits.iter().all(u8::is_ascii_digit) {
        return Err("no status code");
    }
    let status = digits.iter().fold(0, |n, d| n * 10 + u16::from(d - b'0'));
    let mut head = Head {
        status,
        len: end + 4,
        framing: Framing::Close,
        close: first[7] == b'0',
        etag: None,
        version: None,
    };
    let mut at = line;
    while at < end + 2 {
        let stop = at + memchr(b'\r', &bytes[at..]).ok_or("a header without end")?;
        field(&bytes[..stop], at, &mut head)?;
        at = stop + 2;
    }
    Ok(Some(head))
}

/// Reads one header; `bytes` ends where its line ends.
fn field(bytes: &[u8], at: usize, head: &mut Head) -> Result<(), &'static str> {
    let colon = at + memchr(b':', &bytes[at..]).ok_or("a header without colon")?;
    let name = &bytes[at..colon];
    let mut from = colon + 1;
    while bytes.get(from).is_some_and(|b| *b == b' ' || *b == b'\t') {
        from += 1;
    }
    let value = bytes[from..].trim_ascii_end();
    let place = Some((from, from + value.len()));
    match name.len() {
        4 if name.eq_ignore_ascii_case(b"etag") => head.etag = place,
        10 if name.eq_ignore_ascii_case(b"connection") => {
            head.close = value.eq_ignore_ascii_case(b"close");
        }
        14 if name.eq_ignore_ascii_case(b"content-length") => {
            let text = std::str::from_utf8(value).map_err(|_| "a bad content-length")?;
            // Chunked encoding wins over a length (RFC 9112, 6.3).
            let length = text.parse().map_err(|_| "a bad content-length")?;
            if head.framing != Framing::Chunked {
                head.framing = Framing::Length(length);
            }
        }
        16 if name.eq_ignore_ascii_case(b"x-amz-version-id") => head.version = place,
        17 if name.eq_ignore_ascii_case(b"transfer-encoding") => head.framing = Framing::Chunked,
        _ => {}
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_are_parsed() {
        let text =
            b"HTTP/1.1 200 OK\r\nETag: \"ab\"\r\nContent-Length: 12\r\nx-amz-version-id:v1 \r\n\r\nbody";
        let head = parse(text).unwrap().unwrap();
        assert_eq!((head.status, head.framing, head.close), (200, Framing::Length(12), false));
        let at = |place: Option<(usize, usize)>| place.map(|(a, b)| &text[a..b]);
        assert_eq!(at(head.etag), Some(&b"\"ab\""[..]));
        assert_eq!(at(head.version), Some(&b"v1"[..]));
        assert_eq!(&text[head.len..], b"body");
        let chunked = b"HTTP/1.1 404 Not Found\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n";
        let head = parse(chunked).unwrap().unwrap();
        assert_eq!((head.status, head.framing, head.close), (404, Framing::Chunked, true));
        assert_eq!(parse(b"HTTP/1.1 200 OK\r\nEtag: x\r\n").unwrap(), None);
        assert!(parse(b"HTTP/1.0 204 \r\n\r\n").unwrap().unwrap().close);
    }

    #[test]
    fn invalid_heads_never_panic() {
        for bad in [
            "HTTP/2 200\r\n\r\n",
            "x\r\n\r\n",
            "\r\n\r\n",
            "HTTP/1.1 2x0 OK\r\n\r\n",
            "HTTP/1.1 200 OK\r\nnocolon\r\n\r\n",
        ] {
            assert!(parse(bad.as_bytes()).is_err(), "{bad:?}");
        }
        let mut state = 7_u64;
        for _ in 0..20_000 {
            let mut text = b"HTTP/1.1 200 OK\r\ncontent-length: 12\r\n\r\n".to_vec();
            for _ in 0..3 {
                state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                let at = (state >> 33) as usize % text.len();
                text[at] = (state >> 20) as u8;
            }
            let _ = parse(&text);
        }
    }
}
