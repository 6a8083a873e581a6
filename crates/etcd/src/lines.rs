//! Splits the answer to a watch into lines: each line is one JSON document.
//!
//! Invariants: the lines do not depend on how the bytes were divided; at most [`LONGEST`] bytes are kept.
//!
//! Must not depend on: what the lines mean.

use bytes::{Bytes, BytesMut};

/// Longest line: etcd sends fragments of about its largest request, 1.5 MiB, and base64 adds a third. An
/// operator may have raised the limit of requests.
pub const LONGEST: usize = 16 << 20;

/// A line is longer than [`LONGEST`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLong;

/// What was received and not yet taken.
#[derive(Default)]
pub struct Lines {
    kept: BytesMut,
    /// How many of the first bytes contain no line end.
    searched: usize,
}

impl Lines {
    /// Adds received bytes.
    pub fn push(&mut self, piece: &[u8]) {
        self.kept.extend_from_slice(piece);
    }

    /// The next complete line, without its end. Empty lines are left out.
    ///
    /// # Errors
    /// The line is too long.
    pub fn next(&mut self) -> Result<Option<Bytes>, TooLong> {
        loop {
            let Some(end) = self.kept[self.searched..].iter().position(|b| *b == b'\n') else {
                self.searched = self.kept.len();
                return if self.kept.len() > LONGEST { Err(TooLong) } else { Ok(None) };
            };
            let line = self.kept.split_to(self.searched + end + 1).freeze();
            self.searched = 0;
            if line.len() > LONGEST {
                return Err(TooLong);
            }
            if line.len() > 1 {
                return Ok(Some(line.slice(..line.len() - 1)));
            }
        }
    }
}

/// For the fuzzer: the answer to a watch gives the same messages in whatever pieces it arrives.
#[doc(hidden)]
pub fn fuzzed_watch(answer: &[u8]) {
    let taken = |piece: usize| {
        let (mut lines, mut all) = (Lines::default(), Vec::new());
        for piece in answer.chunks(piece.max(1)) {
            lines.push(piece);
            while let Ok(Some(line)) = lines.next() {
                let message = serde_json::from_slice::<crate::wire::Line>(&line);
                all.push(format!("{:?}", message.ok()));
            }
        }
        all
    };
    assert_eq!(taken(answer.len()), taken(7));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_do_not_matter() {
        let text = b"one\n\ntwo\n{\"three\":3}\nrest";
        for size in 1..text.len() {
            let (mut lines, mut got) = (Lines::default(), Vec::new());
            for piece in text.chunks(size) {
                lines.push(piece);
                while let Some(line) = lines.next().unwrap() {
                    got.push(line);
                }
            }
            assert_eq!(got, ["one", "two", "{\"three\":3}"], "pieces of {size}");
        }
    }

    #[test]
    fn lines_are_bounded() {
        let mut lines = Lines::default();
        lines.push(&vec![b'x'; LONGEST]);
        assert_eq!(lines.next(), Ok(None));
        lines.push(b"x");
        assert_eq!(lines.next(), Err(TooLong));
    }

    #[test]
    fn damaged_answers_do_not_depend_on_pieces() {
        let text = br#"{"result":{"events":[{"type":"DELETE","kv":{"key":"YQ==","mod_revision":"3"}}]}}"#;
        let text = [&text[..], b"\n", &text[..], b"\n"].concat();
        for at in 0..text.len() {
            for byte in [0, b'\n', b'"', b'}', 0xff] {
                let mut damaged = text.clone();
                damaged[at] = byte;
                fuzzed_watch(&damaged);
            }
        }
    }
}
