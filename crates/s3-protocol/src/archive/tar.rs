//! Entries of tar archives (ustar, pax, GNU), from pieces.
//!
//! [`Reader::step`] consumes as much of a piece as it can and returns the next [`Item`]: an entry, bytes of
//! it, its end. The library `tar` parses the fields of headers. This file determines where entries begin and
//! end, because neither that library nor its asynchronous relatives limit the memory for extension headers,
//! and reading size and name twice from different places is how archives have smuggled entries past their
//! readers (CVE-2025-62518).
//!
//! Invariants: at most [`MAX_EXTENSION`] bytes of headers are kept; a size is used only after the checksum of
//! its header was verified; an ambiguous size, name or type is refused; only parts without content are
//! skipped.

use bytes::{Buf, Bytes};
use tar::{EntryType, Header};

use super::broken;
use super::name::shown;
use crate::fault::{Fault, Outcome};

/// Most bytes of one extension header: long names, metadata, extended attributes.
pub const MAX_EXTENSION: usize = 128 << 10;
/// Most zeros behind the last entry: writers pad archives to whole records, of at most 2,048 blocks with GNU tar's `-b`.
const MAX_TRAILER: u64 = 1 << 20;

const BLOCK: usize = 512;
/// What MinIO's clients put before names of headers in records of pax headers.
const METADATA: &str = "minio.metadata.";
const VERSION: &str = "minio.versionId";

/// The kind of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A file.
    File,
    /// A folder.
    Folder,
    /// A symbolic link, a device or a FIFO: a name without content.
    Special,
}

/// One entry.
#[derive(Debug)]
pub struct Entry {
    /// Its name as it stands in the archive.
    pub name: Vec<u8>,
    /// The kind of the entry.
    pub kind: Kind,
    /// Bytes.
    pub size: u64,
    /// Names and values of headers that MinIO's clients send with an entry.
    pub headers: Vec<(String, String)>,
    /// Why it cannot be stored, though the archive can be read.
    pub refused: Option<Fault>,
}

/// The next part of the archive.
#[derive(Debug)]
pub enum Item {
    /// An entry begins.
    Entry(Entry),
    /// Bytes of it.
    Data(Bytes),
    /// It has ended.
    Finished,
}

/// A reader of one archive.
#[derive(Default)]
pub struct Reader {
    state: State,
    /// A header as far as it came, or an extension.
    held: Vec<u8>,
    next: Extensions,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum State {
    /// Before or in a header.
    #[default]
    Header,
    /// In an extension header: its type, bytes to come, bytes of padding behind them.
    Extension(u8, u64, u64),
    /// In the data of an entry: bytes to come, bytes of padding behind them.
    Data(u64, u64),
    /// In padding.
    Padding(u64),
    /// Behind the end mark: so many bytes of it.
    Trailer(u64),
}

/// What extension headers say about the entry that follows.
#[derive(Default)]
struct Extensions {
    long_name: Option<Vec<u8>>,
    long_link: bool,
    pax: Option<Pax>,
}

/// Records of a pax header.
#[derive(Default)]
struct Pax {
    path: Option<Vec<u8>>,
    size: Option<u64>,
    headers: Vec<(String, String)>,
    sparse: bool,
    version: bool,
}

impl Reader {
    /// The next item in `input`; `None`: it is used up.
    ///
    /// # Errors
    /// The archive cannot be read.
    pub fn step(&mut self, input: &mut Bytes) -> Outcome<Option<Item>> {
        loop {
            // The end of an entry is known without further bytes.
            if let State::Data(0, padding) = self.state {
                self.state = State::Padding(padding);
                return Ok(Some(Item::Finished));
            }
            if input.is_empty() {
                return Ok(None);
            }
            match self.state {
                State::Header => {
                    if !self.collect(input, BLOCK) {
                        return Ok(None);
                    }
                    let held = std::mem::take(&mut self.held);
                    if let Some(entry) = self.header(&held)? {
                        return Ok(Some(Item::Entry(entry)));
                    }
                }
                State::Extension(kind, size, padding) => {
                    if !self.collect(input, size as usize) {
                        return Ok(None);
                    }
                    let held = std::mem::take(&mut self.held);
                    self.next.take(kind, &held)?;
                    self.state = State::Padding(padding);
                }
                State::Data(left, padding) => {
                    let n = usize::try_from(left).unwrap_or(usize::MAX).min(input.len());
                    self.state = State::Data(left - n as u64, padding);
                    return Ok(Some(Item::Data(input.split_to(n))));
                }
                State::Padding(left) => {
                    let n = (left as usize).min(input.len());
                    input.advance(n);
                    self.state =
                        if n as u64 == left { State::Header } else { State::Padding(left - n as u64) };
                }
                State::Trailer(seen) => {
                    let seen = seen + input.len() as u64;
                    if seen > MAX_TRAILER || input.iter().any(|b| *b != 0) {
                        return Err(broken("bytes follow its end"));
                    }
                    input.clear();
                    self.state = State::Trailer(seen);
                }
            }
        }
    }

    /// No input follows. MinIO's clients leave the end mark out, so the end of an entry may be the end.
    ///
    /// # Errors
    /// It ends in the middle of something.
    pub fn end(&self) -> Outcome<()> {
        let between = match self.state {
            State::Header => self.held.is_empty() && self.next.is_empty(),
            State::Trailer(_) => true,
            // The padding holds nothing.
            State::Padding(_) => self.next.is_empty(),
            State::Data(left, _) => left == 0,
            State::Extension(..) => false,
        };
        if between { Ok(()) } else { Err(broken("it breaks off in the middle of an entry")) }
    }

    /// Collects up to `want` bytes; false: more input is needed.
    fn collect(&mut self, input: &mut Bytes, want: usize) -> bool {
        let n = (want - self.held.len()).min(input.len());
        self.held.extend_from_slice(&input[..n]);
        input.advance(n);
        self.held.len() == want
    }

    fn header(&mut self, block: &[u8]) -> Outcome<Option<Entry>> {
        if block.iter().all(|b| *b == 0) {
            if !self.next.is_empty() {
                return Err(broken("an extension header has no entry behind it"));
            }
            self.state = State::Trailer(0);
            return Ok(None);
        }
        if !is_header(block) {
            return Err(broken("it is not a tar archive, or a header in it is damaged"));
        }
        let header = Header::from_byte_slice(block);
        let size =
            header.entry_size().map_err(|e| broken("the size of an entry is not a number").because(e))?;
        let padding = (BLOCK as u64 - size % BLOCK as u64) % BLOCK as u64;
        let kind = header.entry_type().as_byte();
        if matches!(kind, b'x' | b'g' | b'L' | b'K') {
            if size > MAX_EXTENSION as u64 {
                return Err(broken(format!("an extension header is longer than {MAX_EXTENSION} bytes")));
            }
            self.state = State::Extension(kind, size, padding);
            if size == 0 {
                self.next.take(kind, &[])?;
                self.state = State::Header;
            }
            return Ok(None);
        }
        let entry = std::mem::take(&mut self.next).describe(header, size)?;
        self.state = State::Data(size, padding);
        Ok(Some(entry))
    }
}

/// Whether these bytes begin with a header whose checksum matches, counted as bytes or, by old programs, as
/// `char`s.
pub(super) fn is_header(bytes: &[u8]) -> bool {
    let Some(block) = bytes.get(..BLOCK) else { return false };
    let sum = |value: fn(u8) -> i64| -> i64 {
        let at = |(i, b): (usize, &u8)| if (148..156).contains(&i) { value(b' ') } else { value(*b) };
        block.iter().enumerate().map(at).sum()
    };
    let stated = Header::from_byte_slice(block).cksum().ok().map(i64::from);
    stated.is_some_and(|stated| stated == sum(i64::from) || stated == sum(|b| i64::from(b as i8)))
}

impl Extensions {
    fn is_empty(&self) -> bool {
        self.long_name.is_none() && !self.long_link && self.pax.is_none()
    }

    /// Notes an extension header of this type.
    fn take(&mut self, kind: u8, content: &[u8]) -> Outcome<()> {
        let twice = match kind {
            b'x' => self.pax.replace(Pax::parse(content)?).is_some(),
            b'L' => {
                let end = content.iter().position(|b| *b == 0).unwrap_or(content.len());
                self.long_name.replace(content[..end].to_vec()).is_some()
            }
            b'K' => std::mem::replace(&mut self.long_link, true),
            _ => {
                // For all entries that follow. Comments (git writes one) mean nothing here.
                let pax = Pax::parse(content)?;
                if pax.path.is_some()
                    || pax.size.is_some()
                    || pax.sparse
                    || pax.version
                    || !pax.headers.is_empty()
                {
                    return Err(broken("a global header says something about every entry"));
                }
                false
            }
        };
        if twice { Err(broken("two extension headers describe the same entry")) } else { Ok(()) }
    }

    /// The entry that these and its own header describe.
    fn describe(self, header: &Header, size: u64) -> Outcome<Entry> {
        let pax = self.pax.unwrap_or_default();
        if pax.size.is_some_and(|stated| stated != size) {
            return Err(broken("two sizes are stated for an entry"));
        }
        if pax.path.is_some() && self.long_name.is_some() {
            return Err(broken("two names are stated for an entry"));
        }
        let name = pax.path.or(self.long_name).unwrap_or_else(|| header.path_bytes().into_owned());
        let kind = header.entry_type();
        let missing = |what: &str| {
            let fault = Fault::not_implemented(what);
            Some(fault.element("Key", shown(&String::from_utf8_lossy(&name))))
        };
        let (kind, refused) = match kind {
            _ if pax.sparse => (Kind::File, missing("Unpacking sparse files")),
            EntryType::GNUSparse => {
                // Its map may go on in blocks that its size does not count.
                return Err(Fault::not_implemented("Unpacking sparse files in GNU's old format"));
            }
            EntryType::Regular | EntryType::Continuous if name.ends_with(b"/") && size == 0 => {
                (Kind::Folder, None)
            }
            EntryType::Regular | EntryType::Continuous if name.ends_with(b"/") => {
                (Kind::File, missing("Unpacking a folder with content"))
            }
            EntryType::Regular | EntryType::Continuous => (Kind::File, None),
            EntryType::Directory => (Kind::Folder, None),
            EntryType::Symlink | EntryType::Char | EntryType::Block | EntryType::Fifo => {
                (Kind::Special, None)
            }
            EntryType::Link => (Kind::Special, missing("Unpacking hard links")),
            other => {
                let letter = char::from(other.as_byte()).escape_default();
                (Kind::File, missing(&format!("Unpacking an entry of type '{letter}'")))
            }
        };
        if kind != Kind::File && size != 0 {
            return Err(broken("an entry that has no content states a size"));
        }
        let version = || missing("Unpacking an entry under a version id of its own (minio.versionId)");
        let refused = refused.or_else(|| if pax.version { version() } else { None });
        Ok(Entry { name, kind, size, headers: pax.headers, refused })
    }
}

impl Pax {
    /// Reads records: `LENGTH KEY=VALUE\n`. The length counts, so that values may hold line ends.
    fn parse(mut rest: &[u8]) -> Outcome<Pax> {
        let bad = || broken("an extension header is not well-formed");
        let mut pax = Pax::default();
        // Some writers pad the last record with zeros.
        while rest.first().is_some_and(|b| *b != 0) {
            let space = rest.iter().take(20).position(|b| *b == b' ').ok_or_else(bad)?;
            let digits = std::str::from_utf8(&rest[..space]).ok();
            let length = digits
                .filter(|d| d.bytes().all(|b| b.is_ascii_digit()))
                .and_then(|d| d.parse::<usize>().ok());
            let length = length.filter(|n| (space + 3..=rest.len()).contains(n)).ok_or_else(bad)?;
            let (record, after) = rest.split_at(length);
            let record = record[space + 1..].strip_suffix(b"\n").ok_or_else(bad)?;
            let equals = record.iter().position(|b| *b == b'=').ok_or_else(bad)?;
            let key = std::str::from_utf8(&record[..equals]).map_err(|_| bad())?;
            pax.note(key, &record[equals + 1..])?;
            rest = after;
        }
        Ok(pax)
    }

    fn note(&mut self, key: &str, value: &[u8]) -> Outcome<()> {
        let bad = || broken("a record of an extension header cannot be read");
        let text = || std::str::from_utf8(value).map_err(|_| bad());
        let twice = match key {
            // An empty value removes the value of an earlier header, and there is none.
            "path" | "size" if value.is_empty() => false,
            "path" => self.path.replace(value.to_vec()).is_some(),
            "size" => {
                let size = text()?.parse().map_err(|_| bad())?;
                self.size.replace(size).is_some()
            }
            VERSION => std::mem::replace(&mut self.version, true),
            _ => {
                self.sparse |= key.starts_with("GNU.sparse.");
                if let Some(name) = key.strip_prefix(METADATA) {
                    let name = name.to_ascii_lowercase();
                    let same = self.headers.iter().any(|(n, _)| *n == name);
                    self.headers.push((name, text()?.to_owned()));
                    same
                } else {
                    false
                }
            }
        };
        if twice { Err(broken("an extension header says something twice")) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests;
