//! The audit file: append-only, chained by hashes, rotated by size.
//!
//! Invariants: the file has only whole lines, even after a failed write; the next start removes a line that a
//! crash left incomplete, and writes a line that says so; at most [`RECORDS`] records follow each other
//! without a checkpoint; after a failed flush the file is not written again, and a new file continues the
//! chain. `PATH.head` stores the last checkpoint, so that `verify` detects a truncated file.

use ashlar_environment::time::{self, Instant};
use std::fs;
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ashlar_checksum::{ct_eq, hmac_sha256};
use serde::{Deserialize, Serialize};

use crate::chain::{self, End};
use crate::record::time_text;
use crate::{Error, Record, Result};

/// Most records between two checkpoints.
pub const RECORDS: u64 = 1000;
/// Time between checkpoints, if there are records.
const OFTEN: Duration = Duration::from_secs(60);
/// Longest time between a write and its flush.
const FLUSH: Duration = Duration::from_secs(1);
/// How many bytes at the end of a file are searched for its last whole line.
const TAIL: u64 = 1 << 20;

/// The path and the largest size of the file.
#[derive(Clone, Debug)]
pub struct FileConfig {
    /// The file.
    pub path: PathBuf,
    /// Size in bytes after which the file is rotated.
    pub max_size: u64,
}

/// The last checkpoint, kept beside the file.
#[derive(Serialize, Deserialize, Debug)]
pub struct Head {
    /// Number of the line after it.
    pub next: u64,
    /// Its hash.
    pub hash: String,
    /// The message authentication code over both.
    pub mac: String,
}

impl Head {
    fn code(key: &[u8; 32], next: u64, hash: &str) -> String {
        hex::encode(hmac_sha256(key, format!("ashlar audit head 1 {next} {hash}").as_bytes()))
    }

    /// Reads `PATH.head` of an audit file.
    pub fn read(path: &Path) -> Option<Head> {
        serde_json::from_slice(&fs::read(beside(path)).ok()?).ok()
    }

    /// Whether it was signed with this key.
    pub fn is_by(&self, key: &[u8; 32]) -> bool {
        ct_eq(Head::code(key, self.next, &self.hash).as_bytes(), self.mac.as_bytes())
    }
}

/// The path of `PATH.head`.
pub fn beside(path: &Path) -> PathBuf {
    with_suffix(path, "head")
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(suffix);
    name.into()
}

/// The open file.
pub struct File {
    path: PathBuf,
    max_size: u64,
    deployment: String,
    key: [u8; 32],
    file: fs::File,
    /// Bytes of whole lines in it.
    size: u64,
    end: End,
    /// Lines that are not written yet.
    buffer: Vec<u8>,
    content: Vec<u8>,
    /// Records since the last checkpoint.
    records: u64,
    checked: Instant,
    flushed: Instant,
    dirty: bool,
}

fn open(path: &Path) -> Result<fs::File> {
    let file = fs::OpenOptions::new().append(true).read(true).create(true).mode(0o600).open(path);
    let file = file.map_err(|e| Error::io(path, e))?;
    if file.try_lock().is_err() {
        return Err(Error::Invalid(format!("{}: another server writes this audit file", path.display())));
    }
    Ok(file)
}

/// The end of the chain in a file, and the offset at which its last whole line ends. `None`: there is no
/// line.
fn tail(file: &mut fs::File, path: &Path) -> Result<Option<(End, u64)>> {
    let length = file.metadata().map_err(|e| Error::io(path, e))?.len();
    let from = length.saturating_sub(TAIL);
    let mut bytes = Vec::new();
    let read = file.seek(SeekFrom::Start(from)).and_then(|_| file.read_to_end(&mut bytes));
    read.map_err(|e| Error::io(path, e))?;
    let mut end = bytes.len();
    while let Some(at) = memchr::memrchr(b'\n', &bytes[..end]) {
        let begin = memchr::memrchr(b'\n', &bytes[..at]).map_or(0, |b| b + 1);
        if let Some(line) = chain::split(&bytes[begin..at])
            && let Some(next) = number(line.content).and_then(|seq| seq.checked_add(1))
        {
            return Ok(Some((End { hash: line.hash, next }, from + at as u64 + 1)));
        }
        end = at;
    }
    // Without a whole line the file may hold only an incomplete first line. Anything longer is not an audit
    // file.
    if length > 64 * 1024 || bytes.contains(&b'\n') {
        return Err(Error::Invalid(format!(
            "{}: this is not an audit file; name another file",
            path.display()
        )));
    }
    Ok(None)
}

/// The number of a line, from its content.
pub fn number(content: &[u8]) -> Option<u64> {
    let rest = content.strip_prefix(b"{\"seq\":")?;
    let digits = rest.split(|b| *b == b',').next()?;
    std::str::from_utf8(digits).ok()?.parse().ok()
}

impl File {
    /// Opens the file and continues its chain.
    ///
    /// # Errors
    /// The file cannot be written, another server has it open, or it is not an audit file.
    pub fn open(config: &FileConfig, deployment: &str, key: [u8; 32]) -> Result<File> {
        let path = config.path.clone();
        let mut file = open(&path)?;
        let found = tail(&mut file, &path)?;
        let length = file.metadata().map_err(|e| Error::io(&path, e))?.len();
        let size = found.map_or(0, |(_, size)| size);
        if length > size {
            file.set_len(size).map_err(|e| Error::io(&path, e))?;
        }
        let head = Head::read(&path).filter(|h| h.is_by(&key));
        let ours = found.map_or(0, |(end, _)| end.next);
        let known = head.as_ref().map_or(0, |h| h.next);
        let mut end = found.map_or(End::default(), |(end, _)| end);
        if let Some(head) = head.filter(|h| found.is_none() && h.next > 0) {
            // The file was moved away: the new file continues its chain.
            end.next = head.next;
            if hex::decode_to_slice(&head.hash, &mut end.hash).is_err() {
                end.hash = [0; 32];
            }
        }
        let missing = if found.is_some() { known.saturating_sub(ours) } else { 0 };
        if missing > 0 {
            tracing::error!(path = %path.display(), missing, "lines at the end of the audit file are missing");
            // Their numbers are not used again.
            end.next = known;
        }
        let now = Instant::now();
        let mut this = File {
            path,
            max_size: config.max_size.max(64 * 1024),
            deployment: deployment.to_owned(),
            key,
            file,
            size,
            end,
            buffer: Vec::new(),
            content: Vec::new(),
            records: 0,
            checked: now,
            flushed: now,
            dirty: false,
        };
        let cut = length - size;
        let mut more = format!(",\"prev\":\"{}\"", hex::encode(this.end.hash));
        if cut > 0 {
            more.push_str(&format!(",\"cut\":{cut}"));
        }
        if missing > 0 {
            more.push_str(&format!(",\"missing\":{missing}"));
        }
        this.mark("start", &more);
        this.write(true)?;
        this.remember();
        Ok(this)
    }

    /// Adds a record; [`File::write`] writes it.
    pub fn add(&mut self, record: &Record) {
        self.content.clear();
        if serde_json::to_writer(&mut self.content, record).is_err() || self.content.len() < 2 {
            tracing::error!(request_id = record.request_id, "an audit record cannot be written as JSON");
            return;
        }
        // Without its braces.
        let inner = &self.content[1..self.content.len() - 1];
        self.end.append(inner, None, &mut self.buffer);
        self.records += 1;
        if self.records >= RECORDS {
            self.mark("checkpoint", "");
        }
    }

    /// Adds a checkpoint.
    fn mark(&mut self, kind: &str, more: &str) {
        let now_ms = time::wall_ms().max(0);
        let content = format!(
            "\"kind\":\"{kind}\",\"time\":\"{}\",\"deployment\":\"{}\",\"key\":\"{}\"{more}",
            time_text(now_ms),
            self.deployment,
            chain::key_name(&self.key),
        );
        self.end.append(content.as_bytes(), Some(&self.key), &mut self.buffer);
        self.records = 0;
        self.checked = Instant::now();
    }

    /// Writes the added lines; flushes them when a flush is due, or if `flush`.
    ///
    /// # Errors
    /// The file is unchanged, and the lines stay in the buffer for the next attempt.
    pub fn write(&mut self, flush: bool) -> Result<()> {
        let due = self.records > 0 && self.checked.elapsed() >= OFTEN;
        if due {
            self.mark("checkpoint", "");
        }
        self.out()?;
        if self.dirty && (flush || due || self.flushed.elapsed() >= FLUSH) {
            self.sync()?;
        }
        if due {
            self.remember();
        }
        if self.size >= self.max_size {
            self.rotate()?;
        }
        Ok(())
    }

    fn out(&mut self) -> Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        if let Err(error) = self.file.write_all(&self.buffer) {
            // The failed write may have left part of a line in the file.
            let _ = self.file.set_len(self.size);
            return Err(Error::io(&self.path, error));
        }
        self.size += self.buffer.len() as u64;
        self.dirty = true;
        self.buffer.clear();
        Ok(())
    }

    fn sync(&mut self) -> Result<()> {
        self.flushed = Instant::now();
        if let Err(error) = self.file.sync_data() {
            tracing::error!(path = %self.path.display(), %error, "the audit file could not be flushed; a new one is started");
            self.begin_another()?;
            return Err(Error::io(&self.path, error));
        }
        self.dirty = false;
        Ok(())
    }

    fn rotate(&mut self) -> Result<()> {
        self.mark("rotate", "");
        self.out()?;
        self.sync()?;
        self.remember();
        self.begin_another()
    }

    /// Rotates: renames the file, with the number of the next line in the name, and begins a new one.
    fn begin_another(&mut self) -> Result<()> {
        let away = with_suffix(&self.path, &format!("{:012}", self.end.next));
        fs::rename(&self.path, &away).map_err(|e| Error::io(&away, e))?;
        self.file = open(&self.path)?;
        self.size = 0;
        let more = format!(",\"prev\":\"{}\"", hex::encode(self.end.hash));
        self.mark("start", &more);
        self.out()?;
        self.dirty = true;
        if let Some(folder) = self.path.parent().filter(|p| !p.as_os_str().is_empty()) {
            let _ = fs::File::open(folder).and_then(|f| f.sync_all());
        }
        Ok(())
    }

    /// Stores the number and hash of the last line in `PATH.head`.
    fn remember(&self) {
        let hash = hex::encode(self.end.hash);
        let mac = Head::code(&self.key, self.end.next, &hash);
        let head = Head { next: self.end.next, hash, mac };
        let (path, new) = (beside(&self.path), with_suffix(&self.path, "head.new"));
        let text = serde_json::to_vec(&head).unwrap_or_default();
        let written = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new);
        let written = written.and_then(|mut f| f.write_all(&text)).and_then(|()| fs::rename(&new, &path));
        if let Err(error) = written {
            tracing::warn!(path = %path.display(), %error, "the end of the audit file could not be recorded");
        }
    }

    /// Writes a last checkpoint and closes the file.
    ///
    /// # Errors
    /// The last lines may not be in the file.
    pub fn end(&mut self) -> Result<()> {
        self.mark("stop", "");
        self.out()?;
        self.sync()?;
        self.remember();
        Ok(())
    }
}
