//! Searches the records that a server has: its audit files from the newest line backwards, or, without an audit file, the
//! last refusals in memory.
//!
//! Order: as written, the last one first; a record is written when its request has ended. A search does a bounded amount
//! of work and returns where it stopped, from where another one goes on.
//!
//! Invariants: a record is found once, in any number of steps, whatever is written and rotated meanwhile; what was written
//! after the first step is not found by later ones.
//!
//! Must not depend on: who may search, other servers.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ashlar_environment::time::Instant;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::backwards::Backwards;
use crate::file::number;
use crate::filter::{Filter, Needles};
use crate::find::rotated;
use crate::record::{parse_time, time_text};
use crate::{Error, Result};

/// A search ends at a line whose request ended so long before the earliest time that is asked for: lines may be out of
/// order by the time that requests wait for the writer, and a clock may be set back.
const DISORDER: i64 = 600_000;
/// After how many lines a search looks at the clock.
const PAUSE: u64 = 256;

/// Where a search goes on: before the line with this number. 0: at the end of the search.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Position {
    /// The number of a line.
    pub line: u64,
    /// Its offset in its file, if that still is as it was.
    pub offset: u64,
}

impl Position {
    /// Nothing is left.
    pub const END: Position = Position { line: 0, offset: 0 };
}

/// How much one search does.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Most records found.
    pub records: usize,
    /// Most bytes of found records.
    pub bytes: usize,
    /// Most bytes read.
    pub read: u64,
    /// Longest time.
    pub time: Duration,
}

/// A record that was found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Found {
    /// Where it is.
    pub at: Position,
    /// The offset behind it in its file.
    pub end: u64,
    /// When its request ended, in milliseconds since 1970.
    pub ended_ms: i64,
    /// The record, as `find` returns it.
    pub record: Value,
}

/// What a search found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Hits {
    /// The records, the last one written first.
    pub found: Vec<Found>,
    /// Where the next search goes on.
    pub next: Position,
    /// When the request of the last line ended that was looked at, if something is left.
    pub reached_ms: Option<i64>,
    /// Only the last refusals were searched: there is no audit file.
    pub refusals_only: bool,
}

/// Searches the file and its rotated predecessors, from a position or from the end.
///
/// # Errors
/// A file cannot be read.
pub(crate) fn search(path: &Path, filter: &Filter, from: Option<Position>, bounds: &Bounds) -> Result<Hits> {
    let hits = Hits { found: Vec::new(), next: Position::END, reached_ms: None, refusals_only: false };
    let mut search =
        Search { filter, needles: filter.needles(), bounds, began: Instant::now(), hits, size: 0 };
    let before = from.map_or(u64::MAX, |p| p.line);
    let files = Files::open(path, before)?;
    let mut line = before;
    let mut read = 0;
    for (i, (path, file)) in files.enumerate() {
        let failed = |e| Error::io(&path, e);
        let Some(file) = file.map_err(failed)? else { continue };
        let whole = file.try_clone().map_err(failed)?;
        let hint = from.filter(|_| i == 0).map(|p| p.offset);
        let lines = starting(file, hint, before).map_err(failed)?;
        let mut lines = match lines {
            Some(lines) => lines,
            // The offset is not that of the line any more.
            None => Backwards::new(whole, u64::MAX).map_err(failed)?,
        };
        while let Some((offset, text)) = lines.next().map_err(failed)? {
            let Some(n) = number(text).filter(|n| *n < line) else { continue };
            line = n;
            // Lines without a record, such as checkpoints, are not looked at.
            let Some(time) = time_of(text) else { continue };
            let last = search.look(Position { line: n, offset }, time, text);
            let full = search.is_full();
            let pause = last || full || n.is_multiple_of(PAUSE);
            let reached_ms = pause.then(|| ended(time, text)).flatten();
            if last || full || pause && search.is_late(read + lines.read) {
                search.hits.next = if last { Position::END } else { Position { line: n, offset } };
                search.hits.reached_ms = reached_ms;
                return Ok(search.hits);
            }
        }
        read += lines.read;
    }
    Ok(search.hits)
}

/// The lines before an offset, if the last of them is the one before `before`.
fn starting(file: fs::File, offset: Option<u64>, before: u64) -> io::Result<Option<Backwards>> {
    let Some(offset) = offset else { return Backwards::new(file, u64::MAX).map(Some) };
    let mut probe = Backwards::new(file.try_clone()?, offset)?;
    let fits = probe.next()?.and_then(|(_, line)| number(line)).is_some_and(|n| n + 1 == before);
    if fits { Backwards::new(file, offset).map(Some) } else { Ok(None) }
}

/// The files that may have lines before a number, newest first.
struct Files {
    first: Option<fs::File>,
    paths: std::vec::IntoIter<PathBuf>,
}

impl Files {
    fn open(path: &Path, before: u64) -> Result<Files> {
        // The open file first: when it is rotated now, it is in the list too, and its lines are passed over.
        let first = match fs::File::open(path) {
            // It was moved away, and the writer has not begun another one.
            Err(e) if e.kind() == io::ErrorKind::NotFound => None,
            file => Some(file.map_err(|e| Error::io(path, e))?),
        };
        let rotated = rotated(path);
        // A file has only lines below the number in its name, and a newer one only lines from there on.
        let at = rotated.iter().rposition(|(number, _)| *number >= before);
        let skipped = at.unwrap_or(0);
        let paths = rotated.into_iter().skip(skipped).map(|(_, path)| path);
        let first = first.filter(|_| at.is_none());
        let current = first.is_some().then(|| path.to_owned());
        let paths: Vec<PathBuf> = current.into_iter().chain(paths).collect();
        Ok(Files { first, paths: paths.into_iter() })
    }
}

impl Iterator for Files {
    type Item = (PathBuf, io::Result<Option<fs::File>>);

    fn next(&mut self) -> Option<Self::Item> {
        let path = self.paths.next()?;
        let file = match self.first.take() {
            Some(file) => Ok(Some(file)),
            None => match fs::File::open(&path) {
                // It was deleted meanwhile.
                Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
                file => file.map(Some),
            },
        };
        Some((path, file))
    }
}

struct Search<'a> {
    filter: &'a Filter,
    needles: Needles,
    bounds: &'a Bounds,
    began: Instant,
    hits: Hits,
    /// Bytes of found records.
    size: usize,
}

impl Search<'_> {
    /// Looks at the line of a record; true: no earlier one can be asked for.
    fn look(&mut self, at: Position, time: &str, line: &[u8]) -> bool {
        if let Some(since) = self.filter.since_ms
            && self.needles.is_before(time)
            && ended(time, line).is_some_and(|ended| ended < since.saturating_sub(DISORDER))
        {
            return true;
        }
        if self.needles.may_match(time, line)
            && let Ok(record) = serde_json::from_slice::<Value>(line)
            && self.filter.matches(&record)
        {
            self.size += line.len();
            let end = at.offset + line.len() as u64 + 1;
            self.hits.found.push(Found { at, end, ended_ms: ended(time, line).unwrap_or(0), record });
        }
        false
    }

    /// Whether enough was found.
    fn is_full(&self) -> bool {
        self.hits.found.len() >= self.bounds.records || self.size >= self.bounds.bytes
    }

    /// Whether enough was done.
    fn is_late(&self, read: u64) -> bool {
        read > self.bounds.read || self.began.elapsed() >= self.bounds.time
    }
}

/// The time of a record's line; `None`: it has no record.
fn time_of(line: &[u8]) -> Option<&str> {
    let rest = line.strip_prefix(b"{\"seq\":")?;
    let comma = memchr::memchr(b',', rest)?;
    let time = rest[comma..].strip_prefix(b",\"time\":\"")?;
    std::str::from_utf8(time.get(..24)?).ok().filter(|_| time.get(24) == Some(&b'"'))
}

/// When the request of a line ended.
fn ended(time: &str, line: &[u8]) -> Option<i64> {
    let name = b"\"micros\":";
    // No text of a record can look like this: its quotes are escaped.
    let digits = &line[memchr::memmem::find(line, name)? + name.len()..];
    let len = digits.iter().take_while(|b| b.is_ascii_digit()).count();
    let micros: i64 = std::str::from_utf8(&digits[..len]).ok()?.parse().ok()?;
    parse_time(time)?.checked_add(micros / 1000)
}

/// Looks at any bytes as a line: for the fuzzer.
pub fn fuzzed_search(line: &[u8]) {
    let hits = Hits { found: Vec::new(), next: Position::END, reached_ms: None, refusals_only: false };
    let bounds = Bounds { records: 10, bytes: 1 << 20, read: 1 << 20, time: Duration::ZERO };
    let filter = Filter { since_ms: Some(1), user: "a".into(), prefix: "k".into(), ..Filter::default() };
    let (needles, began) = (filter.needles(), Instant::now());
    let mut search = Search { filter: &filter, needles, bounds: &bounds, began, hits, size: 0 };
    let Some(time) = time_of(line) else { return };
    search.look(Position { line: 1, offset: 0 }, time, line);
    if let Some(found) = search.hits.found.first() {
        assert!(filter.matches(&found.record));
    }
}

/// Searches records in memory, newest first, each with its number.
pub(crate) fn search_refusals<'a>(
    records: impl Iterator<Item = (u64, &'a crate::Record)>,
    filter: &Filter,
    from: Option<Position>,
    bounds: &Bounds,
) -> Hits {
    let mut hits = Hits { found: Vec::new(), next: Position::END, reached_ms: None, refusals_only: true };
    let mut size = 0;
    for (line, record) in records.filter(|(n, _)| from.is_none_or(|p| *n < p.line)) {
        let ended_ms = record.time.saturating_add(i64::try_from(record.micros / 1000).unwrap_or(i64::MAX));
        hits.reached_ms = Some(ended_ms);
        let Ok(value) = serde_json::to_value(record) else { continue };
        if !filter.matches(&value) {
            continue;
        }
        let at = Position { line, offset: 0 };
        size += value.to_string().len();
        hits.found.push(Found { at, end: 0, ended_ms, record: value });
        if hits.found.len() >= bounds.records || size >= bounds.bytes {
            hits.next = at;
            break;
        }
    }
    hits
}

/// A time as records have it, for those who make filters: RFC 3339, or only a date. In milliseconds since 1970.
#[must_use]
pub fn parse_moment(text: &str) -> Option<i64> {
    match text.len() {
        10 => parse_time(&format!("{text}T00:00:00Z")),
        _ => parse_time(text),
    }
}

/// A time as records have it.
#[must_use]
pub fn moment_text(ms: i64) -> String {
    time_text(ms)
}

#[cfg(test)]
#[path = "search_tests.rs"]
mod tests;
