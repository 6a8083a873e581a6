//! Reads a file from front to back in large pieces.
//!
//! Invariant: memory is bounded by the longest single piece requested, or [`WINDOW`].
//!
//! Must not depend on: what the bytes mean.

use ashlar_machine::DiskFile;
use std::sync::Arc;

/// Bytes read at a time.
pub(crate) const WINDOW: usize = 256 << 10;

/// Reads a file from front to back through a window.
pub(crate) struct Window {
    file: Arc<DiskFile>,
    pub bytes: u64,
    buf: Vec<u8>,
    start: u64,
}

impl Window {
    pub fn new(file: Arc<DiskFile>, bytes: u64) -> Window {
        Window { file, bytes, buf: Vec::new(), start: 0 }
    }

    /// `len` bytes at `at`; fewer at the end of the file.
    pub fn get(&mut self, at: u64, len: usize) -> std::io::Result<&[u8]> {
        if at >= self.bytes {
            return Ok(&[]);
        }
        let end = (at + len as u64).min(self.bytes);
        let len = end.saturating_sub(at) as usize;
        let have = self.start + self.buf.len() as u64;
        if at < self.start || end > have {
            let want = (self.bytes.saturating_sub(at)).min(len.max(WINDOW) as u64) as usize;
            self.buf.resize(want, 0);
            self.start = at;
            let r = self.file.read_at(&mut self.buf, at);
            if r.is_err() {
                self.buf.clear();
            }
            r?;
        }
        let from = (at - self.start) as usize;
        Ok(&self.buf[from..from + len])
    }
}
