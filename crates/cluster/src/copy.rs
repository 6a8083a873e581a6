//! One copy of the control store: its byte layout, and where it is on a drive.
//!
//! A drive keeps two slots and writes them in turn, so that the previous copy survives a torn write, and a log of
//! the changes behind the later one (`change_log`). After the first write, neither renames nor directory operations
//! are needed. Byte layout: see [`Copy::encode`].
//!
//! Invariants: the bytes are bound to deployment and drive, so that a file copied to another drive is not
//! accepted as its copy; a slot that does not verify counts as never written.
//!
//! Must not depend on: what the values mean.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use ashlar_checksum::frame_hash;
use ashlar_format::codec::{Reader, Writer};
use ashlar_format::{DeploymentId, DriveId};
use ashlar_machine::{DiskFile, Folder};
use bytes::Bytes;

use crate::control::Value;

/// Format number, the first byte. Format 1 had the same layout and no log.
const FORMAT: u8 = 2;
/// Largest copy, in bytes.
pub const MAX_BYTES: usize = 64 << 20;
/// Key of the checksum: "ashlar control store copy 1 ....". Never changes.
const KEY: [u64; 4] = [
    u64::from_le_bytes(*b"ashlar c"),
    u64::from_le_bytes(*b"ontrol s"),
    u64::from_le_bytes(*b"tore cop"),
    u64::from_le_bytes(*b"y 1 ...."),
];

/// The content of the store at one revision. Ordered by (term, revision).
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub(crate) struct Snapshot {
    /// The term of the writer that wrote it; each start has a higher one. 0: nothing was ever written.
    pub term: u64,
    /// Grows by one or more with each update.
    pub revision: u64,
    /// The member drives.
    pub members: Vec<DriveId>,
    /// The members of the snapshot that this one was made from: a change of members needs a majority of both.
    pub before: Vec<DriveId>,
    /// The values.
    pub entries: BTreeMap<String, Value>,
}

impl Snapshot {
    pub(crate) fn position(&self) -> (u64, u64) {
        (self.term, self.revision)
    }
}

/// What one drive stores.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub(crate) struct Copy {
    /// No writer below this term may write any more (promised in the first round of a start).
    pub promised: u64,
    /// The content.
    pub snapshot: Arc<Snapshot>,
}

impl Copy {
    /// Whether no content was ever written. Such a copy does not count in decisions about content.
    pub(crate) fn is_blank(&self) -> bool {
        self.snapshot.term == 0
    }

    /// Format u8 = 2, deployment 16, drive 16, promised u64, term u64, revision u64, members list of
    /// 16, before list of 16, entries list of (bytes key, u64 revision, bytes value) in order of key,
    /// then HighwayHash-256 of all that (key: "ashlar control store copy 1 ....").
    pub(crate) fn encode(&self, deployment: DeploymentId, drive: DriveId) -> Vec<u8> {
        let s = &self.snapshot;
        let size: usize = s.entries.iter().map(|(k, v)| k.len() + v.bytes.len() + 24).sum();
        let mut w = Writer::with_capacity(160 + 32 * s.members.len() + size);
        w.u8(FORMAT);
        w.raw(&deployment.0);
        w.raw(&drive.0);
        w.u64(self.promised);
        w.u64(s.term);
        w.u64(s.revision);
        w.list(&s.members, |w, d| w.raw(&d.0));
        w.list(&s.before, |w, d| w.raw(&d.0));
        encode_entries(&mut w, &s.entries);
        let mut out = w.into_vec();
        let hash = frame_hash(&KEY, &[&out]);
        out.extend_from_slice(&hash);
        out
    }

    /// Whether these are intact bytes of a newer release. Such a copy must not count as never written: an
    /// older release would start a new store over it.
    pub(crate) fn is_newer(bytes: &[u8]) -> bool {
        let Some((body, hash)) = bytes.len().checked_sub(32).and_then(|n| bytes.split_at_checked(n)) else {
            return false;
        };
        body.first().is_some_and(|f| *f > FORMAT) && frame_hash(&KEY, &[body]) == *hash
    }

    /// The inverse of [`Copy::encode`]; `None` for anything that is not an intact copy of this drive.
    pub(crate) fn decode(bytes: &[u8], deployment: DeploymentId, drive: DriveId) -> Option<Copy> {
        let (body, hash) = bytes.split_at_checked(bytes.len().checked_sub(32)?)?;
        if frame_hash(&KEY, &[body]) != *hash {
            return None;
        }
        let mut r = Reader::new(body);
        let format = r.u8().ok()?;
        if !(1..=FORMAT).contains(&format)
            || r.array::<16>().ok()? != deployment.0
            || r.array::<16>().ok()? != drive.0
        {
            return None;
        }
        let promised = r.u64().ok()?;
        let (term, revision) = (r.u64().ok()?, r.u64().ok()?);
        let members = r.list(|r| r.array().map(DriveId)).ok()?;
        let before = r.list(|r| r.array().map(DriveId)).ok()?;
        let entries = decode_entries(&mut r).ok()?;
        r.end().ok()?;
        let entries: BTreeMap<_, _> = entries.into_iter().collect();
        Some(Copy { promised, snapshot: Arc::new(Snapshot { term, revision, members, before, entries }) })
    }
}

/// Appends the content of a store: list of (key bytes, revision u64, value bytes) in order of key. For copies and for
/// snapshots of other drivers.
pub fn encode_entries(w: &mut Writer, entries: &BTreeMap<String, Value>) {
    w.var(entries.len() as u64);
    for (key, value) in entries {
        w.bytes(key.as_bytes());
        w.u64(value.revision);
        w.bytes(&value.bytes);
    }
}

/// The inverse of [`encode_entries`].
///
/// # Errors
/// Bytes that are no such list.
pub fn decode_entries(r: &mut Reader<'_>) -> std::result::Result<Vec<(String, Value)>, ashlar_format::Error> {
    r.list(|r| {
        let key = r.string()?;
        let revision = r.u64()?;
        Ok((key, Value { revision, bytes: Bytes::copy_from_slice(r.bytes()?) }))
    })
}

/// For the fuzzer: a copy without its hash. What decodes must encode to the same copy.
#[doc(hidden)]
pub fn fuzzed_copy(body: &[u8]) {
    let (deployment, drive) = (DeploymentId([9; 16]), DriveId([1; 16]));
    let sealed = [body, &frame_hash(&KEY, &[body])[..]].concat();
    let _ = Copy::is_newer(&sealed);
    if let Some(copy) = Copy::decode(&sealed, deployment, drive) {
        let again = Copy::decode(&copy.encode(deployment, drive), deployment, drive);
        assert!(again.is_some_and(|a| a == copy), "a copy that is not itself");
    }
}

/// The storage of the two slots of one drive, and of the log.
pub trait Medium: Send + Sync + 'static {
    /// The bytes of slot 0 or 1; `None` when it was never written.
    ///
    /// # Errors
    /// If the drive cannot be read. That does not mean that the slot is empty.
    fn read(&self, slot: usize) -> io::Result<Option<Vec<u8>>>;
    /// Replaces slot 0 or 1 durably. Afterwards the slot holds the old bytes, the new bytes, or invalid ones;
    /// the other slot is never touched.
    ///
    /// # Errors
    /// If it is not certain that the bytes are durable.
    fn write(&self, slot: usize, bytes: &[u8]) -> io::Result<()>;
    /// The bytes of the log; `None` when it was never written.
    ///
    /// # Errors
    /// Like [`Medium::read`].
    fn read_log(&self) -> io::Result<Option<Vec<u8>>>;
    /// Writes a record of the log durably, `at` bytes from its begin. Bytes before it are not touched, whatever
    /// happens; bytes behind it may stay from before.
    ///
    /// # Errors
    /// If it is not certain that the bytes are durable.
    fn write_log(&self, at: u64, bytes: &[u8]) -> io::Result<()>;
}

/// Files in the folder of a drive: `control.0`, `control.1` and `control.log` for the embedded store.
pub struct FileMedium {
    folder: Folder,
    slots: [&'static str; 2],
}

const SLOTS: [&str; 2] = ["control.0", "control.1"];
const LOG: &str = "control.log";

impl FileMedium {
    /// The files of the embedded store in the folder of a formatted drive.
    #[must_use]
    pub fn new(folder: Folder) -> FileMedium {
        FileMedium { folder, slots: SLOTS }
    }

    /// The files with other names, for the snapshots of a store that is elsewhere. They have no log.
    #[must_use]
    pub fn named(folder: Folder, slots: [&'static str; 2]) -> FileMedium {
        FileMedium { folder, slots }
    }
}

impl FileMedium {
    fn log(&self) -> io::Result<&'static str> {
        let has = self.slots == SLOTS;
        has.then_some(LOG)
            .ok_or_else(|| io::Error::other("snapshots of a store that is elsewhere have no log"))
    }

    fn read_file(&self, name: &str) -> io::Result<Option<Vec<u8>>> {
        match self.folder.read(name, MAX_BYTES as u64) {
            Ok(bytes) => Ok(Some(bytes)),
            // This program never wrote it: handled like a torn slot.
            Err(e) if e.kind() == io::ErrorKind::FileTooLarge => Ok(Some(Vec::new())),
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                // A missing folder is not an empty slot.
                self.folder.list()?;
                Ok(None)
            }
            Err(e) => Err(e),
        }
    }

    /// The file, and whether it is new, so that the folder has to be flushed too.
    fn open(&self, name: &str) -> io::Result<(DiskFile, bool)> {
        match self.folder.open(name, false) {
            Ok(file) => Ok((file, false)),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok((self.folder.create(name, false)?, true)),
            Err(e) => Err(e),
        }
    }
}

impl Medium for FileMedium {
    fn read(&self, slot: usize) -> io::Result<Option<Vec<u8>>> {
        self.read_file(self.slots[slot])
    }

    fn write(&self, slot: usize, bytes: &[u8]) -> io::Result<()> {
        let (file, new) = self.open(self.slots[slot])?;
        file.set_len(bytes.len() as u64)?;
        file.write_at(bytes, 0)?;
        file.sync_all()?;
        if new { self.folder.sync() } else { Ok(()) }
    }

    fn read_log(&self) -> io::Result<Option<Vec<u8>>> {
        self.read_file(self.log()?)
    }

    fn write_log(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        let (file, new) = self.open(self.log()?)?;
        file.write_at(bytes, at)?;
        file.sync_all()?;
        if new { self.folder.sync() } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Copy {
        let mut entries = BTreeMap::new();
        entries.insert("map".to_owned(), Value { revision: 7, bytes: Bytes::from_static(b"{}") });
        Copy {
            promised: 3,
            snapshot: Arc::new(Snapshot {
                term: 2,
                revision: 9,
                members: vec![DriveId([1; 16]), DriveId([2; 16])],
                before: vec![DriveId([1; 16])],
                entries,
            }),
        }
    }

    #[test]
    fn golden_and_identity() {
        let (deployment, drive) = (DeploymentId([9; 16]), DriveId([1; 16]));
        let bytes = sample().encode(deployment, drive);
        let hex: String = bytes.iter().map(|b| format!("{b:02x}")).collect();
        assert_eq!(hex, include_str!("../tests/control-copy-2.hex").trim());
        assert_eq!(Copy::decode(&bytes, deployment, drive), Some(sample()));
        assert_eq!(Copy::decode(&bytes, deployment, DriveId([2; 16])), None);
        assert_eq!(Copy::decode(&bytes, DeploymentId([8; 16]), drive), None);
        for i in 0..bytes.len() {
            let mut bad = bytes.clone();
            bad[i] ^= 1;
            assert_eq!(Copy::decode(&bad, deployment, drive), None, "byte {i}");
            assert_eq!(Copy::decode(&bytes[..i], deployment, drive), None, "cut at {i}");
        }
    }

    /// Format 1, without a log, is read as it is.
    #[test]
    fn copies_of_format_1_are_read() {
        let digits = include_str!("../tests/control-copy-1.hex").trim();
        let byte = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).unwrap();
        let bytes: Vec<u8> = (0..digits.len()).step_by(2).map(byte).collect();
        assert_eq!(bytes[0], 1);
        assert_eq!(Copy::decode(&bytes, DeploymentId([9; 16]), DriveId([1; 16])), Some(sample()));
    }

    #[test]
    fn copies_of_newer_releases_are_detected() {
        let mut bytes = sample().encode(DeploymentId([9; 16]), DriveId([1; 16]));
        assert!(!Copy::is_newer(&bytes));
        bytes[0] = FORMAT + 1;
        assert!(!Copy::is_newer(&bytes), "damage");
        let n = bytes.len() - 32;
        let sum = frame_hash(&KEY, &[&bytes[..n]]);
        bytes[n..].copy_from_slice(&sum);
        assert!(Copy::is_newer(&bytes));
        for cut in [0, 1, 31, 32, 33] {
            assert!(!Copy::is_newer(&bytes[..cut]));
        }
    }

    #[test]
    fn files_keep_two_slots() {
        let dir = tempfile::tempdir().unwrap();
        let m = FileMedium::new(Folder::real(dir.path(), None));
        assert_eq!(m.read(0).unwrap(), None);
        m.write(0, b"first").unwrap();
        m.write(1, b"second, longer").unwrap();
        m.write(0, b"3rd").unwrap();
        assert_eq!(m.read(0).unwrap().unwrap(), b"3rd");
        assert_eq!(m.read(1).unwrap().unwrap(), b"second, longer");
        assert_eq!(m.read_log().unwrap(), None);
        m.write_log(0, b"a record").unwrap();
        m.write_log(4, b"corder").unwrap();
        assert_eq!(m.read_log().unwrap().unwrap(), b"a recorder");
        let gone = FileMedium::new(Folder::real(&dir.path().join("gone"), None));
        assert!(gone.read(0).is_err() && gone.read_log().is_err() && gone.write_log(0, b"").is_err());
        assert!(FileMedium::named(Folder::real(dir.path(), None), ["a", "b"]).read_log().is_err());
    }

    /// A slot that is not a regular file is neither read nor written, and no call blocks.
    #[test]
    fn slots_must_be_regular_files() {
        let home = tempfile::tempdir().unwrap();
        let (outside, folder) = (home.path().join("outside"), home.path().join("folder"));
        std::fs::write(&outside, b"theirs").unwrap();
        std::fs::create_dir(&folder).unwrap();
        for kind in ["FIFO", "link", "link to a folder", "folder", "socket"] {
            let dir = tempfile::tempdir().unwrap();
            let at = dir.path().join("control.0");
            match kind {
                "FIFO" => assert!(std::process::Command::new("mkfifo").arg(&at).status().unwrap().success()),
                "link" => std::os::unix::fs::symlink(&outside, &at).unwrap(),
                "link to a folder" => std::os::unix::fs::symlink(&folder, &at).unwrap(),
                "folder" => std::fs::create_dir(&at).unwrap(),
                _ => drop(std::os::unix::net::UnixListener::bind(&at).unwrap()),
            }
            let m = FileMedium::new(Folder::real(dir.path(), None));
            for e in [m.read(0).unwrap_err(), m.write(0, b"ours").unwrap_err()] {
                assert!(e.to_string().contains("control.0 is a"), "{kind}: {e}");
            }
            m.write(1, b"ours").unwrap();
            assert_eq!(std::fs::read(&outside).unwrap(), b"theirs", "{kind}");
            assert_eq!(folder.read_dir().unwrap().count(), 0, "{kind}");
        }
    }
}
