//! Lines of a file from its end towards its beginning.
//!
//! Invariant: at most [`LONGEST`] bytes and a block are in memory. Must not depend on: what lines hold.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};

/// Bytes that are read at a time.
const BLOCK: u64 = 1 << 20;
/// Longest line. Records have at most about 8 KiB.
const LONGEST: usize = 1 << 20;

/// Reads a file backwards, line by line.
pub struct Backwards {
    file: File,
    /// The offset of `buffer` in the file.
    start: u64,
    buffer: Vec<u8>,
    /// Where the lines that are still to come end in `buffer`.
    end: usize,
    /// Bytes that were read.
    pub read: u64,
}

impl Backwards {
    /// Begins before the offset `end`, or before the end of the file. What follows the last end of a line is left out.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn new(file: File, end: u64) -> io::Result<Backwards> {
        let end = end.min(file.metadata()?.len());
        let mut this = Backwards { file, start: end, buffer: Vec::new(), end: 0, read: 0 };
        // The writer may be in the middle of the last line.
        this.end = loop {
            if let Some(at) = memchr::memrchr(b'\n', &this.buffer) {
                break at + 1;
            }
            if !this.more(this.buffer.len())? {
                break 0;
            }
        };
        Ok(this)
    }

    /// The line before those that were returned, without its end, and its offset in the file. `None`: there is none.
    ///
    /// # Errors
    /// The file cannot be read, or a line is too long.
    pub fn next(&mut self) -> io::Result<Option<(u64, &[u8])>> {
        let Some(last) = self.end.checked_sub(1) else {
            return if self.start > 0 && self.more(0)? { self.next() } else { Ok(None) };
        };
        let begin = match memchr::memrchr(b'\n', &self.buffer[..last]) {
            Some(at) => at + 1,
            None if self.more(self.end)? => return self.next(),
            None => 0,
        };
        self.end = begin;
        Ok(Some((self.start + begin as u64, &self.buffer[begin..last])))
    }

    /// Puts the block before `start` in front of the first `keep` bytes of the buffer; false: there is none.
    fn more(&mut self, keep: usize) -> io::Result<bool> {
        if self.start == 0 {
            return Ok(false);
        }
        if keep > LONGEST {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "a line is too long for an audit file"));
        }
        let len = self.start.min(BLOCK);
        let mut block = Vec::with_capacity(len as usize + keep);
        self.file.seek(SeekFrom::Start(self.start - len))?;
        (&self.file).take(len).read_to_end(&mut block)?;
        if block.len() as u64 != len {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the file became shorter"));
        }
        block.extend_from_slice(&self.buffer[..keep]);
        (self.start, self.buffer, self.end) = (self.start - len, block, len as usize + keep);
        self.read += len;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn lines(text: &[u8], end: u64) -> Vec<(u64, Vec<u8>)> {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(text).unwrap();
        let mut lines = Backwards::new(file, end).unwrap();
        let mut all = Vec::new();
        while let Some((offset, line)) = lines.next().unwrap() {
            all.push((offset, line.to_vec()));
        }
        all
    }

    #[test]
    fn lines_come_from_the_end_with_their_offsets() {
        let of = |pairs: &[(u64, &str)]| {
            pairs.iter().map(|(o, l)| (*o, l.as_bytes().to_vec())).collect::<Vec<_>>()
        };
        assert_eq!(lines(b"a\nbc\n\nd\n", u64::MAX), of(&[(6, "d"), (5, ""), (2, "bc"), (0, "a")]));
        assert_eq!(lines(b"a\nbc\nhalf", u64::MAX), of(&[(2, "bc"), (0, "a")]));
        assert_eq!(lines(b"a\nbc\nd\n", 5), of(&[(2, "bc"), (0, "a")]));
        assert_eq!(lines(b"a\nbc\nd\n", 4), of(&[(0, "a")]), "an offset within a line");
        assert!(lines(b"", u64::MAX).is_empty() && lines(b"half", u64::MAX).is_empty());
        assert!(lines(b"a\n", 0).is_empty());
    }

    #[test]
    fn lines_at_the_borders_of_blocks_are_whole() {
        let mut text = Vec::new();
        let mut expected = Vec::new();
        for n in 0..5000 {
            let line = format!("{n}").repeat(1 + n % 300);
            expected.push((text.len() as u64, line.clone().into_bytes()));
            text.extend_from_slice(line.as_bytes());
            text.push(b'\n');
        }
        assert!(text.len() as u64 > 2 * BLOCK);
        expected.reverse();
        assert_eq!(lines(&text, u64::MAX), expected);
        // One that ends exactly where a block does.
        let mut text = vec![b'x'; 2 * BLOCK as usize - 1];
        text[BLOCK as usize - 1] = b'\n';
        text.push(b'\n');
        let found = lines(&text, u64::MAX);
        assert_eq!(
            found.iter().map(|(o, l)| (*o, l.len())).collect::<Vec<_>>(),
            [(BLOCK, BLOCK as usize - 1), (0, BLOCK as usize - 1)]
        );
    }

    #[test]
    fn a_line_that_is_too_long_is_an_error() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&vec![b'x'; 3 << 20]).unwrap();
        file.write_all(b"\n").unwrap();
        let refused = Backwards::new(file, u64::MAX).and_then(|mut lines| lines.next().map(|_| ()));
        assert!(refused.unwrap_err().to_string().contains("too long"));
    }
}
