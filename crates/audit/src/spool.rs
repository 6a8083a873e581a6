//! A bounded queue of lines, in a folder or in memory.
//!
//! In a folder: segments `NUMBER.jsonl` that are only appended to, and the file `sent`, which stores the
//! position up to which the receiver has the lines. Invariants: a line that was put survives a crash of the
//! process, and a loss of power once it was flushed; a line is removed only after the receiver has it; after
//! a crash some lines may be sent again, none is left out; at most `limit` lines wait.

use std::collections::VecDeque;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use parking_lot::Mutex;

use crate::{Error, Result};

/// A segment is finished at this size.
const SEGMENT: u64 = 4 << 20;
/// Most bytes read at a time.
const READ: usize = 1 << 20;

/// Position up to which the receiver has the lines: segment and offset in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct ReadPosition {
    segment: u64,
    offset: u64,
}

/// The queue.
pub struct Spool {
    limit: u64,
    inner: Mutex<Inner>,
}

enum Inner {
    Memory(VecDeque<Bytes>),
    Folder(Folder),
}

struct Folder {
    path: PathBuf,
    /// The lock that keeps other processes from using the folder.
    _lock: fs::File,
    file: fs::File,
    /// Number and size of the segment that is appended to.
    segment: u64,
    size: u64,
    dirty: bool,
    waiting: u64,
    read: ReadPosition,
}

impl Spool {
    /// A queue in a folder, or in memory.
    ///
    /// # Errors
    /// The folder cannot be used.
    pub fn open(folder: Option<&Path>, limit: u64) -> Result<Spool> {
        let inner = match folder {
            None => Inner::Memory(VecDeque::new()),
            Some(path) => Inner::Folder(Folder::open(path)?),
        };
        Ok(Spool { limit, inner: Mutex::new(inner) })
    }

    /// Lines that wait.
    pub fn waiting(&self) -> u64 {
        match &*self.inner.lock() {
            Inner::Memory(lines) => lines.len() as u64,
            Inner::Folder(folder) => folder.waiting,
        }
    }

    /// Adds lines that end at `ends` of `text`, up to the limit of the queue. Returns how many were added.
    ///
    /// # Errors
    /// The folder cannot be written; no line was added.
    pub fn put(&self, text: &[u8], ends: &[usize], flush: bool) -> Result<usize> {
        let mut inner = self.inner.lock();
        let waiting = match &*inner {
            Inner::Memory(lines) => lines.len() as u64,
            Inner::Folder(folder) => folder.waiting,
        };
        let fit = ends.len().min(self.limit.saturating_sub(waiting) as usize);
        let Some(end) = fit.checked_sub(1).map(|last| ends[last]) else { return Ok(0) };
        match &mut *inner {
            Inner::Memory(lines) => {
                let mut from = 0;
                for end in &ends[..fit] {
                    lines.push_back(Bytes::copy_from_slice(&text[from..*end]));
                    from = *end;
                }
            }
            Inner::Folder(folder) => folder.put(&text[..end], fit as u64, flush)?,
        }
        Ok(fit)
    }

    /// The next lines, at most `count`. They stay until [`Spool::took`].
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn next(&self, count: usize) -> Result<Vec<Bytes>> {
        match &mut *self.inner.lock() {
            Inner::Memory(lines) => Ok(lines.iter().take(count).cloned().collect()),
            Inner::Folder(folder) => folder.next(count),
        }
    }

    /// Removes lines that the receiver has: the first ones that [`Spool::next`] returned.
    ///
    /// # Errors
    /// The position cannot be stored: after a crash the lines are sent again.
    pub fn took(&self, taken: &[Bytes]) -> Result<()> {
        match &mut *self.inner.lock() {
            Inner::Memory(lines) => {
                lines.drain(..taken.len().min(lines.len()));
                Ok(())
            }
            Inner::Folder(folder) => folder.took(taken),
        }
    }
}

fn name(path: &Path, segment: u64) -> PathBuf {
    path.join(format!("{segment:012}.jsonl"))
}

/// The segments of a folder, oldest first.
fn segments(path: &Path) -> Result<Vec<u64>> {
    let mut all = Vec::new();
    for entry in fs::read_dir(path).map_err(|e| Error::io(path, e))? {
        let file = entry.map_err(|e| Error::io(path, e))?.file_name();
        let number = file.to_str().and_then(|n| n.strip_suffix(".jsonl")).and_then(|n| n.parse::<u64>().ok());
        all.extend(number);
    }
    all.sort_unstable();
    Ok(all)
}

fn create(path: &Path) -> std::io::Result<fs::File> {
    fs::OpenOptions::new().append(true).create(true).mode(0o600).open(path)
}

impl Folder {
    fn open(path: &Path) -> Result<Folder> {
        let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(path);
        made.map_err(|e| Error::io(path, e))?;
        let at = path.join("lock");
        let lock = create(&at).map_err(|e| Error::io(&at, e))?;
        if lock.try_lock().is_err() {
            return Err(Error::Invalid(format!("{}: another queue uses this folder", path.display())));
        }
        let sent = fs::read_to_string(path.join("sent")).unwrap_or_default();
        let mut numbers = sent.split_whitespace().map(|n| n.parse::<u64>().unwrap_or(0));
        let mut read =
            ReadPosition { segment: numbers.next().unwrap_or(0), offset: numbers.next().unwrap_or(0) };
        let old = segments(path)?;
        let mut waiting = 0;
        for segment in &old {
            if *segment < read.segment {
                let _ = fs::remove_file(name(path, *segment));
            } else {
                let from = if *segment == read.segment { read.offset } else { 0 };
                waiting += count(&name(path, *segment), from)?;
            }
        }
        // An incomplete line stays at the end of its segment. Readers skip it.
        let segment = old.last().map_or(read.segment, |last| last + 1).max(read.segment + 1);
        if !old.contains(&read.segment) {
            read = ReadPosition {
                segment: old.iter().copied().find(|s| *s > read.segment).unwrap_or(segment),
                offset: 0,
            };
        }
        let at = name(path, segment);
        let file = create(&at).map_err(|e| Error::io(&at, e))?;
        Ok(Folder { path: path.to_owned(), _lock: lock, file, segment, size: 0, dirty: false, waiting, read })
    }

    fn put(&mut self, text: &[u8], lines: u64, flush: bool) -> Result<()> {
        if self.size >= SEGMENT {
            if self.dirty {
                let _ = self.file.sync_data();
            }
            let at = name(&self.path, self.segment + 1);
            self.file = create(&at).map_err(|e| Error::io(&at, e))?;
            (self.segment, self.size) = (self.segment + 1, 0);
        }
        let at = || name(&self.path, self.segment);
        if let Err(error) = self.file.write_all(text) {
            let _ = self.file.set_len(self.size);
            return Err(Error::io(&at(), error));
        }
        self.size += text.len() as u64;
        self.waiting += lines;
        self.dirty = true;
        if flush {
            self.file.sync_data().map_err(|e| Error::io(&at(), e))?;
            self.dirty = false;
        }
        Ok(())
    }

    fn next(&mut self, count: usize) -> Result<Vec<Bytes>> {
        loop {
            let at = name(&self.path, self.read.segment);
            let mut bytes = Vec::new();
            if let Ok(mut file) = fs::File::open(&at) {
                let from = SeekFrom::Start(self.read.offset);
                let read = file.seek(from).and_then(|_| file.take(READ as u64).read_to_end(&mut bytes));
                read.map_err(|e| Error::io(&at, e))?;
            }
            let (mut lines, mut from) = (Vec::new(), 0);
            let bytes = Bytes::from(bytes);
            while lines.len() < count
                && let Some(end) = memchr::memchr(b'\n', &bytes[from..])
            {
                lines.push(bytes.slice(from..=from + end));
                from += end + 1;
            }
            if !lines.is_empty() || self.read.segment >= self.segment {
                return Ok(lines);
            }
            // The receiver has the whole segment.
            let _ = fs::remove_file(&at);
            self.read = ReadPosition { segment: self.read.segment + 1, offset: 0 };
        }
    }

    fn took(&mut self, taken: &[Bytes]) -> Result<()> {
        self.read.offset += taken.iter().map(|l| l.len() as u64).sum::<u64>();
        self.waiting = self.waiting.saturating_sub(taken.len() as u64);
        let place = self.read;
        let (new, sent) = (self.path.join("sent.new"), self.path.join("sent"));
        let text = format!("{} {}\n", place.segment, place.offset);
        fs::write(&new, text).and_then(|()| fs::rename(&new, &sent)).map_err(|e| Error::io(&sent, e))
    }
}

fn count(path: &Path, from: u64) -> Result<u64> {
    let mut file = fs::File::open(path).map_err(|e| Error::io(path, e))?;
    file.seek(SeekFrom::Start(from)).map_err(|e| Error::io(path, e))?;
    let (mut lines, mut reader, mut line) = (0, BufReader::with_capacity(1 << 16, file), Vec::new());
    loop {
        line.clear();
        reader.read_until(b'\n', &mut line).map_err(|e| Error::io(path, e))?;
        match line.last() {
            Some(b'\n') => lines += 1,
            _ => return Ok(lines),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(spool: &Spool, from: u32, to: u32) -> usize {
        let (mut text, mut ends) = (Vec::new(), Vec::new());
        for i in from..to {
            text.extend_from_slice(format!("{{\"n\":{i}}}\n").as_bytes());
            ends.push(text.len());
        }
        spool.put(&text, &ends, false).unwrap()
    }

    fn take(spool: &Spool, count: usize) -> Vec<String> {
        let lines = spool.next(count).unwrap();
        spool.took(&lines).unwrap();
        lines.iter().map(|l| String::from_utf8_lossy(l).trim().to_owned()).collect()
    }

    #[test]
    fn queue_survives_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let spool = Spool::open(Some(folder.path()), 1000).unwrap();
        assert_eq!(put(&spool, 0, 10), 10);
        assert_eq!(take(&spool, 4).last().unwrap(), "{\"n\":3}");
        // Read but not taken: the next start returns it again.
        assert_eq!(spool.next(2).unwrap().len(), 2);
        assert!(Spool::open(Some(folder.path()), 1000).is_err(), "two at once");
        drop(spool);
        // A crash in the middle of a line.
        let last = segments(folder.path()).unwrap().pop().unwrap();
        create(&name(folder.path(), last)).unwrap().write_all(b"{\"n\":").unwrap();
        let spool = Spool::open(Some(folder.path()), 1000).unwrap();
        assert_eq!(spool.waiting(), 6);
        put(&spool, 10, 12);
        let all: Vec<String> =
            std::iter::from_fn(|| Some(take(&spool, 3)).filter(|l| !l.is_empty())).flatten().collect();
        assert_eq!(all, (4..12).map(|i| format!("{{\"n\":{i}}}")).collect::<Vec<_>>());
        assert_eq!(spool.waiting(), 0);
    }

    #[test]
    fn queue_is_bounded_and_removes_sent_segments() {
        for folder in [None, Some(tempfile::tempdir().unwrap())] {
            let path = folder.as_ref().map(|f| f.path());
            let spool = Spool::open(path, 5).unwrap();
            assert_eq!(put(&spool, 0, 4), 4);
            assert_eq!(put(&spool, 4, 8), 1);
            assert_eq!(put(&spool, 8, 9), 0);
            assert_eq!(take(&spool, 100).len(), 5);
            assert_eq!(put(&spool, 9, 10), 1);
        }
        let folder = tempfile::tempdir().unwrap();
        let spool = Spool::open(Some(folder.path()), 1 << 30).unwrap();
        let line = format!("{{\"x\":\"{}\"}}\n", "y".repeat(1 << 20));
        for _ in 0..10 {
            spool.put(line.as_bytes(), &[line.len()], false).unwrap();
        }
        assert!(segments(folder.path()).unwrap().len() > 2);
    }
}
