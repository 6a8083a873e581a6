//! The ZIP format, as far as a download of objects needs it: entries that are not compressed, of any size and number, whose
//! bytes are not known when their header is written.
//!
//! Reference: PKWARE, APPNOTE.TXT 6.3.10. Bit 3 of the flags: checksum and sizes follow the bytes (4.3.9); bit 11: names
//! are UTF-8; ZIP64 (4.3.14, 4.5.3) only where a number needs it, because old programs do not read it.
//!
//! Invariants: [`length`] is the number of bytes that the functions of this file and the bytes of the entries make together;
//! no name leaves the folder into which it is extracted.
//!
//! Must not depend on: where bytes are from.

use std::collections::HashSet;

/// What a 32-bit field cannot say.
const LARGE: u64 = 0xffff_ffff;
/// What a 16-bit field cannot say.
const MANY: u64 = 0xffff;
/// Names in UTF-8; checksum and sizes after the bytes.
const FLAGS: u16 = 1 << 11 | 1 << 3;
/// 1980-01-01, the first day that an entry can have.
const FIRST_DAY: u16 = 0x21;

/// A file in the archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Its path.
    pub name: String,
    /// Bytes.
    pub size: u64,
    /// Milliseconds since 1970.
    pub modified_ms: i64,
}

/// An entry that was written.
pub(crate) struct Written {
    pub crc: u32,
    /// Of its header, in the archive.
    pub offset: u64,
}

impl Entry {
    fn is_large(&self) -> bool {
        self.size >= LARGE
    }

    fn version(&self, offset: u64) -> u16 {
        if self.is_large() || offset >= LARGE { 45 } else { 20 }
    }

    /// Time and day in the format of DOS, in UTC.
    fn dos_time(&self) -> (u16, u16) {
        // `YYYY-MM-DDTHH:MM:SS...`
        let text = ashlar_s3::date::format_iso(self.modified_ms);
        let number = |at: std::ops::Range<usize>| text.get(at).and_then(|t| t.parse::<u16>().ok());
        let parts =
            (number(0..4), number(5..7), number(8..10), number(11..13), number(14..16), number(17..19));
        match parts {
            (Some(year @ 1980..=2107), Some(month), Some(day), Some(hour), Some(minute), Some(second)) => {
                (hour << 11 | minute << 5 | (second / 2), (year - 1980) << 9 | month << 5 | day)
            }
            _ => (0, FIRST_DAY),
        }
    }

    /// The header before the bytes.
    pub(crate) fn header(&self) -> Vec<u8> {
        let (time, day) = self.dos_time();
        let extra = if self.is_large() { 20_u16 } else { 0 };
        let mut out = Vec::with_capacity(30 + self.name.len() + usize::from(extra));
        out.extend(0x0403_4b50_u32.to_le_bytes());
        for field in [self.version(0), FLAGS, 0, time, day] {
            out.extend(field.to_le_bytes());
        }
        // Checksum and sizes follow; in ZIP64 the extra field tells so.
        out.extend(0_u32.to_le_bytes());
        let later = if self.is_large() { u32::MAX } else { 0 };
        out.extend([later.to_le_bytes(), later.to_le_bytes()].concat());
        out.extend((self.name.len() as u16).to_le_bytes());
        out.extend(extra.to_le_bytes());
        out.extend(self.name.as_bytes());
        if extra > 0 {
            out.extend([1_u16.to_le_bytes(), 16_u16.to_le_bytes()].concat());
            out.extend([0; 16]);
        }
        out
    }

    /// What follows the bytes.
    pub(crate) fn descriptor(&self, crc: u32) -> Vec<u8> {
        let mut out = Vec::with_capacity(24);
        out.extend([0x0807_4b50_u32.to_le_bytes(), crc.to_le_bytes()].concat());
        for _ in 0..2 {
            match self.is_large() {
                true => out.extend(self.size.to_le_bytes()),
                false => out.extend((self.size as u32).to_le_bytes()),
            }
        }
        out
    }

    /// Its row in the directory at the end.
    fn row(&self, written: &Written) -> Vec<u8> {
        let (time, day) = self.dos_time();
        let mut extra = Vec::new();
        if self.is_large() {
            extra.extend([self.size.to_le_bytes(), self.size.to_le_bytes()].concat());
        }
        if written.offset >= LARGE {
            extra.extend(written.offset.to_le_bytes());
        }
        let version = self.version(written.offset);
        let mut out = Vec::with_capacity(46 + self.name.len() + 28);
        out.extend(0x0201_4b50_u32.to_le_bytes());
        // Made on Unix, so that the attributes below are those of Unix.
        for field in [3 << 8 | 45, version, FLAGS, 0, time, day] {
            out.extend(field.to_le_bytes());
        }
        out.extend(written.crc.to_le_bytes());
        let size = self.size.min(LARGE) as u32;
        out.extend([size.to_le_bytes(), size.to_le_bytes()].concat());
        out.extend((self.name.len() as u16).to_le_bytes());
        let length = if extra.is_empty() { 0 } else { extra.len() as u16 + 4 };
        out.extend(length.to_le_bytes());
        // No comment, the first disk, no internal attributes.
        out.extend([0; 6]);
        let mode: u32 = if self.name.ends_with('/') { 0o040_755 << 16 | 0x10 } else { 0o100_644 << 16 };
        out.extend(mode.to_le_bytes());
        out.extend((written.offset.min(LARGE) as u32).to_le_bytes());
        out.extend(self.name.as_bytes());
        if !extra.is_empty() {
            out.extend([1_u16.to_le_bytes(), (extra.len() as u16).to_le_bytes()].concat());
            out.extend(extra);
        }
        out
    }

    /// Bytes of header, content and descriptor.
    fn whole(&self) -> u64 {
        let fixed = if self.is_large() { 30 + 20 + 24 } else { 30 + 16 };
        fixed + self.name.len() as u64 + self.size
    }
}

/// The directory and the end of an archive. `at`: the number of bytes before.
pub(crate) fn directory(entries: &[Entry], written: &[Written], at: u64) -> Vec<u8> {
    let mut out: Vec<u8> = entries.iter().zip(written).flat_map(|(e, w)| e.row(w)).collect();
    let (count, size) = (entries.len() as u64, out.len() as u64);
    if count >= MANY || at >= LARGE || size >= LARGE {
        let end = at + size;
        out.extend(0x0606_4b50_u32.to_le_bytes());
        out.extend(44_u64.to_le_bytes());
        out.extend([(3_u16 << 8 | 45).to_le_bytes(), 45_u16.to_le_bytes()].concat());
        out.extend([0; 8]);
        for field in [count, count, size, at] {
            out.extend(field.to_le_bytes());
        }
        out.extend([0x0706_4b50_u32.to_le_bytes(), 0_u32.to_le_bytes()].concat());
        out.extend(end.to_le_bytes());
        out.extend(1_u32.to_le_bytes());
    }
    out.extend(0x0605_4b50_u32.to_le_bytes());
    out.extend([0; 4]);
    let few = count.min(MANY) as u16;
    out.extend([few.to_le_bytes(), few.to_le_bytes()].concat());
    out.extend([(size.min(LARGE) as u32).to_le_bytes(), (at.min(LARGE) as u32).to_le_bytes()].concat());
    out.extend([0; 2]);
    out
}

/// Bytes of an archive of these entries.
pub(crate) fn length(entries: &[Entry]) -> u64 {
    let mut at = 0;
    let mut rows = 0;
    for entry in entries {
        rows += 46 + entry.name.len() as u64;
        let extra = if entry.is_large() { 16 } else { 0 } + if at >= LARGE { 8 } else { 0 };
        rows += if extra > 0 { 4 + extra } else { 0 };
        at += entry.whole();
    }
    let large = entries.len() as u64 >= MANY || at >= LARGE || rows >= LARGE;
    at + rows + 22 + if large { 56 + 20 } else { 0 }
}

/// Gives names for keys below a folder, such that no name leaves the folder of the archive, and none occurs twice.
pub(crate) struct Names {
    folder: String,
    given: HashSet<String>,
}

impl Names {
    /// For keys that begin with `prefix`; names begin with its last folder.
    pub(crate) fn new(prefix: &str) -> Names {
        let before = prefix.strip_suffix('/').unwrap_or(prefix).rfind('/').map_or(0, |at| at + 1);
        Names { folder: prefix[..before].to_owned(), given: HashSet::new() }
    }

    /// The name of a key.
    pub(crate) fn of(&mut self, key: &str) -> String {
        let below = key.strip_prefix(&self.folder).unwrap_or(key);
        let (body, end) = below.strip_suffix('/').map_or((below, ""), |body| (body, "/"));
        let safe = |part: &str| match part {
            "" | "." | ".." => "_".to_owned(),
            // What Windows takes for a separator, a drive or the end of a name.
            _ => part.chars().map(|c| if matches!(c, '\\' | ':' | '\0') { '_' } else { c }).collect(),
        };
        let mut name: String = body.split('/').map(safe).collect::<Vec<_>>().join("/");
        // A name is at most 65,535 bytes long, and a key at most 1,024.
        let first = name.clone();
        let mut number = 1;
        while !self.given.insert(format!("{name}{end}")) {
            number += 1;
            name = format!("{first} ({number})");
        }
        name + end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: &str, size: u64) -> Entry {
        Entry { name: name.to_owned(), size, modified_ms: 1_790_000_000_000 }
    }

    /// The directory of an archive of these entries, and the length of the whole.
    fn archive(entries: &[Entry]) -> (Vec<u8>, u64) {
        let (mut at, mut written) = (0, Vec::new());
        for e in entries {
            written.push(Written { crc: 7, offset: at });
            at += e.header().len() as u64 + e.size + e.descriptor(7).len() as u64;
        }
        let end = directory(entries, &written, at);
        let length = at + end.len() as u64;
        (end, length)
    }

    #[test]
    fn length_is_that_of_the_archive() {
        let many: Vec<Entry> = (0..70_000).map(|i| entry(&format!("many/{i}"), 3)).collect();
        let cases = [
            vec![],
            vec![entry("a", 0)],
            vec![entry("a/b.txt", 10), entry("ü/", 0)],
            vec![entry("large", LARGE), entry("after", 1)],
            vec![entry("small", LARGE - 1), entry("after", 1)],
            many,
        ];
        for entries in cases {
            assert_eq!(archive(&entries).1, length(&entries), "{} entries", entries.len());
        }
    }

    #[test]
    fn numbers_that_do_not_fit_are_in_zip64() {
        let (end, _) = archive(&[entry("large", LARGE + 5), entry("after", 1)]);
        let found = |needle: &[u8]| end.windows(needle.len()).any(|w| w == needle);
        assert!(found(&(LARGE + 5).to_le_bytes()) && found(&0x0606_4b50_u32.to_le_bytes()));
        assert!(!archive(&[entry("a", 1)]).0.windows(4).any(|w| w == 0x0606_4b50_u32.to_le_bytes()));
    }

    #[test]
    fn times_are_those_of_dos() {
        // 2026-09-21T14:13:20Z
        assert_eq!(entry("a", 0).dos_time(), (14 << 11 | 13 << 5 | 10, (2026 - 1980) << 9 | 9 << 5 | 21));
        assert_eq!(Entry { modified_ms: 0, ..entry("a", 0) }.dos_time(), (0, FIRST_DAY));
    }

    #[test]
    fn names_stay_in_their_folder() {
        let mut names = Names::new("team/2026/");
        for (key, name) in [
            ("team/2026/a.txt", "2026/a.txt"),
            ("team/2026/../../etc/passwd", "2026/_/_/etc/passwd"),
            ("team/2026//x", "2026/_/x"),
            ("team/2026/_/x", "2026/_/x (2)"),
            ("team/2026/C:\\x", "2026/C__x"),
            ("team/2026/sub/", "2026/sub/"),
            ("team/2026/", "2026/"),
        ] {
            assert_eq!(names.of(key), name, "{key}");
        }
        assert_eq!(Names::new("").of("/root"), "_/root");
        assert_eq!(Names::new("pre").of("prefix.txt"), "prefix.txt");
    }
}
