//! A range of a local file as a source of uploads.
//!
//! Invariants: at most two pieces of 256 KiB are in memory per reading; a file that became shorter
//! fails the upload instead of padding it.
//!
//! Must never know: requests.

use std::{fs::File, io, os::unix::fs::FileExt, sync::Arc};

use bytes::Bytes;

use crate::body::{PieceStream, Source};

const PIECE: u64 = 256 << 10;

/// Bytes `offset..offset + len` of an open file; can be read again and in parallel with others.
pub struct FileRange {
    file: Arc<File>,
    offset: u64,
    len: u64,
    progress: Option<Progress>,
}

/// Called with the number of bytes each time a piece was read.
type Progress = Arc<dyn Fn(u64) + Send + Sync>;

impl FileRange {
    /// A range of `file`, which should reach at least to its end.
    pub fn new(file: Arc<File>, offset: u64, len: u64) -> FileRange {
        FileRange { file, offset, len, progress: None }
    }

    /// Calls `progress` with the number of bytes of each piece as it is read. A repeated upload
    /// reads, and reports, again.
    pub fn with_progress(mut self, progress: Arc<dyn Fn(u64) + Send + Sync>) -> FileRange {
        self.progress = Some(progress);
        self
    }
}

impl Source for FileRange {
    fn len(&self) -> u64 {
        self.len
    }

    fn open(&self) -> PieceStream {
        let end = self.offset + self.len;
        let state = (self.file.clone(), self.offset, self.progress.clone());
        Box::pin(futures::stream::unfold(Some(state), move |state| async move {
            let (file, at, progress) = state?;
            let n = (end - at).min(PIECE);
            if n == 0 {
                return None;
            }
            let reader = file.clone();
            // File reads block; the blocking pool keeps them from the connections.
            let read =
                ashlar_environment::spawn_blocking("read-file", move || read_piece(&reader, at, n)).await;
            match read.map_err(io::Error::other).flatten() {
                Ok(piece) => {
                    if let Some(progress) = &progress {
                        progress(n);
                    }
                    Some((Ok(piece), Some((file, at + n, progress))))
                }
                Err(error) => Some((Err(error), None)),
            }
        }))
    }
}

fn read_piece(file: &File, at: u64, len: u64) -> io::Result<Bytes> {
    let mut piece = vec![0; len as usize];
    file.read_exact_at(&mut piece, at)?;
    Ok(piece.into())
}
