//! Framing of requests: how each request declared its length, read from the bytes before the HTTP parser.
//!
//! hyper drops `Content-Length` if `Transfer-Encoding` is there too, so that a service cannot see the
//! conflict; a proxy in front that decides the other way could be deceived (request smuggling). The scanner
//! reads the heads of requests and records the framing (docs/proof.md 2.1.9). It is not a complete parser: a
//! head that it does not recognize is [`Framing::Unknown`], and then a request with a transfer encoding
//! closes the connection.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

/// What the scanner saw.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Framing {
    /// Not scanned.
    Unknown = 0,
    /// At most a length.
    Clean = 1,
    /// A transfer encoding and no length.
    Transfer = 2,
    /// Both: refuse.
    Both = 3,
    /// A line that ends without CR, or a CR inside a line: refuse.
    Bare = 4,
    /// Several lengths, alike or not: refuse. hyper lets the same length pass twice.
    Lengths = 5,
}

const ARMED: u8 = 16;

/// What a connection and its service share.
#[derive(Debug, Clone)]
pub struct Watch(Arc<Seen>);

#[derive(Debug)]
struct Seen {
    framing: AtomicU8,
    known: AtomicBool,
}

impl Default for Watch {
    fn default() -> Self {
        Watch(Arc::new(Seen { framing: AtomicU8::new(ARMED), known: AtomicBool::new(false) }))
    }
}

impl Watch {
    /// What is known about the request that was just parsed. Forgets it.
    pub fn take(&self) -> Framing {
        match self.0.framing.swap(Framing::Unknown as u8, Ordering::AcqRel) {
            1 => Framing::Clean,
            2 => Framing::Transfer,
            3 => Framing::Both,
            4 => Framing::Bare,
            5 => Framing::Lengths,
            _ => Framing::Unknown,
        }
    }

    /// The request has been read to its end: the next bytes are the head of another.
    pub fn arm(&self) {
        self.0.framing.store(ARMED, Ordering::Release);
    }

    /// A request of this connection was authorized: its client is authenticated.
    pub fn know(&self) {
        if !self.is_known() {
            self.0.known.store(true, Ordering::Relaxed);
        }
    }

    /// Whether a request of this connection was permitted before.
    pub fn is_known(&self) -> bool {
        self.0.known.load(Ordering::Relaxed)
    }
}

/// Longest line that is watched.
const MAX_LINE: usize = 64 * 1024;

/// Scans the bytes of one connection.
#[derive(Debug, Default)]
pub struct HeadScanner {
    watch: Watch,
    /// In a head: first line or later.
    inside: bool,
    first: bool,
    line: Vec<u8>,
    length: bool,
    lengths: bool,
    transfer: bool,
    bare: bool,
}

impl HeadScanner {
    /// A scanner that reports to `watch`.
    pub fn new(watch: Watch) -> HeadScanner {
        HeadScanner { watch, ..HeadScanner::default() }
    }

    /// Looks at bytes that were read, in order.
    pub fn feed(&mut self, mut bytes: &[u8]) {
        if !self.inside {
            if self.watch.0.framing.load(Ordering::Acquire) != ARMED {
                return;
            }
            *self = HeadScanner {
                inside: true,
                first: true,
                watch: self.watch.clone(),
                ..HeadScanner::default()
            };
        }
        while let Some(at) = memchr::memchr(b'\n', bytes) {
            let done = if self.line.is_empty() {
                self.end_of_line(&bytes[..at])
            } else {
                self.line.extend_from_slice(&bytes[..at]);
                let line = std::mem::take(&mut self.line);
                self.end_of_line(&line)
            };
            if let Some(framing) = done {
                self.inside = false;
                self.watch.0.framing.store(framing as u8, Ordering::Release);
                return;
            }
            bytes = &bytes[at + 1..];
        }
        self.line.extend_from_slice(bytes);
        if self.line.len() > MAX_LINE {
            self.inside = false;
            self.line = Vec::new();
            self.watch.0.framing.store(Framing::Unknown as u8, Ordering::Release);
        }
    }

    /// `line` without its LF. `Some` at the end of the head.
    fn end_of_line(&mut self, line: &[u8]) -> Option<Framing> {
        let text = match line.split_last() {
            Some((b'\r', text)) => text,
            _ => {
                self.bare = true;
                line
            }
        };
        self.bare |= memchr::memchr(b'\r', text).is_some();
        if self.first {
            // An empty line before a request is allowed.
            if text.is_empty() {
                return None;
            }
            self.first = false;
            return if is_request_line(text) { None } else { Some(Framing::Unknown) };
        }
        if text.is_empty() {
            return Some(match (self.bare, self.length, self.transfer) {
                (true, ..) => Framing::Bare,
                _ if self.lengths => Framing::Lengths,
                (_, true, true) => Framing::Both,
                (_, false, true) => Framing::Transfer,
                (_, _, false) => Framing::Clean,
            });
        }
        if starts_with(text, b"content-length") {
            // A list of lengths in one line is refused by hyper.
            self.lengths |= self.length;
            self.length = true;
        }
        self.transfer |= starts_with(text, b"transfer-encoding");
        None
    }
}

fn starts_with(line: &[u8], name: &[u8]) -> bool {
    line.len() > name.len()
        && line[..name.len()].eq_ignore_ascii_case(name)
        && matches!(line[name.len()], b':' | b' ' | b'\t')
}

fn is_request_line(line: &[u8]) -> bool {
    let method = line.iter().take_while(|b| b.is_ascii_uppercase()).count();
    method > 0
        && line.get(method) == Some(&b' ')
        && matches!(line.get(method + 1), Some(b'/' | b'h' | b'H' | b'*'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scan(bytes: &[u8], step: usize) -> Framing {
        let watch = Watch::default();
        let mut scanner = HeadScanner::new(watch.clone());
        for piece in bytes.chunks(step) {
            scanner.feed(piece);
        }
        watch.take()
    }

    #[test]
    fn conflicting_framing_is_detected() {
        for (head, want) in [
            (&b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"[..], Framing::Clean),
            (b"\r\nPUT /b/k HTTP/1.1\r\nContent-Length: 1\r\n\r\nx", Framing::Clean),
            (b"PUT /b/k HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", Framing::Transfer),
            (b"PUT /b/k HTTP/1.1\r\ncontent-LENGTH: 4\r\nTransfer-Encoding: chunked\r\n\r\n", Framing::Both),
            (b"PUT /b/k HTTP/1.1\r\nTransfer-Encoding: chunked\r\nContent-Length : 4\r\n\r\n", Framing::Both),
            (b"PUT /b/k HTTP/1.1\r\nContent-Length: 4\r\ncontent-length: 4\r\n\r\n", Framing::Lengths),
            (b"GET / HTTP/1.1\nHost: a\r\n\r\n", Framing::Bare),
            (b"GET / HTTP/1.1\r\nHost: a\rb\r\n\r\n", Framing::Bare),
            (b"Transfer-Encoding: chunked\r\n\r\n", Framing::Unknown),
            (b"5\r\nhello\r\n", Framing::Unknown),
        ] {
            for step in 1..head.len() {
                assert_eq!(scan(head, step), want, "{:?} by {step}", String::from_utf8_lossy(head));
            }
        }
    }

    #[test]
    fn heads_are_scanned_only_when_armed() {
        let watch = Watch::default();
        let mut scanner = HeadScanner::new(watch.clone());
        scanner.feed(b"GET / HTTP/1.1\r\n\r\n");
        assert_eq!(watch.take(), Framing::Clean);
        scanner.feed(b"GET / HTTP/1.1\r\n\r\n");
        assert_eq!(watch.take(), Framing::Unknown);
        watch.arm();
        scanner.feed(b"GET / HTTP/1.1\r\nTransfer-Encoding: x\r\n\r\n");
        assert_eq!(watch.take(), Framing::Transfer);
    }
}
