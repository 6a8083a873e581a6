//! The last journal sequence of every drive of a deployment, as noted on all of its drives.
//!
//! A drive cannot detect by itself that it went back in time: an older image of it is a valid drive. Its
//! peers can. Each folder holds a small file with the journal sequence of every drive, written every few
//! seconds while anything changes. A process that opens a drive compares ([`Sequences::behind`]).
//!
//! Invariants: only what a drive has flushed is noted. A note decreases only after the drive that went back
//! has lost its vote ([`Sequences::begin_again`]); otherwise the drive would lose its vote at every start
//! until it reached the old sequence. A file that does not verify, or that belongs to another deployment,
//! counts as empty. Notes may be behind, or lost: they can prove that a drive went back, never that it did
//! not.
//!
//! Bytes of the file `sequences`: format u8 = 2, deployment 16, list of (drive 16, how often it began again
//! u32, sequence u64) in order of the drives, then HighwayHash-256 of all that (key: "ashlar journal
//! sequences 1 ......").
//!
//! Must not depend on: journals, what a sequence means.

use std::collections::BTreeMap;
use std::io;

use ashlar_checksum::frame_hash;
use ashlar_format::codec::{Reader, Writer};
use ashlar_format::{DeploymentId, DriveId};
use ashlar_machine::Folder;

/// Format number, the first byte.
const FORMAT: u8 = 2;
/// The file in the folder of a drive.
const FILE: &str = "sequences";
/// Longest file read, in bytes.
const MAX_BYTES: u64 = 1 << 20;
/// Key of the checksum. Never changes.
const KEY: [u64; 4] = [
    u64::from_le_bytes(*b"ashlar j"),
    u64::from_le_bytes(*b"ournal s"),
    u64::from_le_bytes(*b"equences"),
    u64::from_le_bytes(*b" 1 ....."),
];

/// The note about one drive; the greater of two is the later.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Noted {
    /// How often the drive went back and lost its vote because of that.
    again: u32,
    sequence: u64,
}

/// The highest sequence noted of each drive.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sequences(BTreeMap<DriveId, Noted>);

impl Sequences {
    /// Notes that the journal of a drive has reached this sequence; returns whether the notes changed.
    pub fn note(&mut self, drive: DriveId, sequence: u64) -> bool {
        let known = self.0.entry(drive).or_default();
        let news = sequence > known.sequence;
        known.sequence = sequence.max(known.sequence);
        news
    }

    /// Like [`Sequences::note`], for a drive that has lost its vote since it was opened, so that its sequence
    /// may be below its note.
    pub fn begin_again(&mut self, drive: DriveId, sequence: u64) -> bool {
        let known = self.0.entry(drive).or_default();
        if sequence >= known.sequence {
            return self.note(drive, sequence);
        }
        *known = Noted { again: known.again.saturating_add(1), sequence };
        true
    }

    /// Adds the notes of others.
    pub fn merge(&mut self, other: &Sequences) {
        for (drive, noted) in &other.0 {
            let known = self.0.entry(*drive).or_default();
            *known = (*known).max(*noted);
        }
    }

    /// By how many batches a drive with `sequence` is behind its note; 0 if it is not.
    #[must_use]
    pub fn behind(&self, drive: DriveId, sequence: u64) -> u64 {
        self.0.get(&drive).map_or(0, |noted| noted.sequence.saturating_sub(sequence))
    }

    /// The notes in the folder of a drive; empty if the file is missing or does not verify.
    #[must_use]
    pub fn read(folder: &Folder, deployment: DeploymentId) -> Sequences {
        let bytes = folder.read(FILE, MAX_BYTES).unwrap_or_default();
        Sequences::decode(&bytes, deployment).unwrap_or_default()
    }

    /// Writes the notes into the folder of a drive, durably. A torn file counts as empty; the other drives
    /// have the notes too.
    ///
    /// # Errors
    /// If the folder cannot be written.
    pub fn write(&self, folder: &Folder, deployment: DeploymentId) -> io::Result<()> {
        let bytes = self.encode(deployment);
        let (file, new) = match folder.open(FILE, false) {
            Ok(file) => (file, false),
            Err(e) if e.kind() == io::ErrorKind::NotFound => (folder.create(FILE, false)?, true),
            Err(e) => return Err(e),
        };
        file.set_len(bytes.len() as u64)?;
        file.write_at(&bytes, 0)?;
        file.sync_all()?;
        if new { folder.sync() } else { Ok(()) }
    }

    fn encode(&self, deployment: DeploymentId) -> Vec<u8> {
        let mut w = Writer::with_capacity(64 + 28 * self.0.len());
        w.u8(FORMAT);
        w.raw(&deployment.0);
        w.var(self.0.len() as u64);
        for (drive, noted) in &self.0 {
            w.raw(&drive.0);
            w.u32(noted.again);
            w.u64(noted.sequence);
        }
        let mut out = w.into_vec();
        let hash = frame_hash(&KEY, &[&out]);
        out.extend_from_slice(&hash);
        out
    }

    /// The inverse of `encode`; `None` for anything that does not verify.
    #[must_use]
    pub fn decode(bytes: &[u8], deployment: DeploymentId) -> Option<Sequences> {
        let (body, hash) = bytes.split_at_checked(bytes.len().checked_sub(32)?)?;
        if frame_hash(&KEY, &[body]) != *hash {
            return None;
        }
        let mut r = Reader::new(body);
        if r.u8().ok()? != FORMAT || r.array::<16>().ok()? != deployment.0 {
            return None;
        }
        let list =
            r.list(|r| Ok((DriveId(r.array()?), Noted { again: r.u32()?, sequence: r.u64()? }))).ok()?;
        r.end().ok()?;
        Some(Sequences(list.into_iter().collect()))
    }
}

/// For the fuzzer: a file without its hash. What decodes must encode to the same bytes.
#[doc(hidden)]
pub fn fuzzed_sequences(body: &[u8]) {
    let deployment = DeploymentId([9; 16]);
    let sealed = [body, &frame_hash(&KEY, &[body])[..]].concat();
    if let Some(all) = Sequences::decode(&sealed, deployment) {
        let bytes = all.encode(deployment);
        assert!(bytes.len() <= sealed.len(), "sequences that grow");
        assert_eq!(
            Sequences::decode(&bytes, deployment).as_ref(),
            Some(&all),
            "sequences that are not themselves"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequences_are_bound_to_deployment() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::real(dir.path(), None);
        let (ours, drive) = (DeploymentId([9; 16]), DriveId([1; 16]));
        assert_eq!(Sequences::read(&folder, ours), Sequences::default());
        let mut s = Sequences::default();
        assert!(s.note(drive, 7) && s.note(DriveId([2; 16]), 1));
        assert!(!s.note(drive, 6), "a note never goes down");
        s.write(&folder, ours).unwrap();
        assert_eq!(Sequences::read(&folder, ours), s);
        assert_eq!(Sequences::read(&folder, DeploymentId([8; 16])), Sequences::default());
        assert_eq!((s.behind(drive, 7), s.behind(drive, 9), s.behind(drive, 5)), (0, 0, 2));
        assert_eq!(s.behind(DriveId([3; 16]), 0), 0, "nothing is known of it");
        let mut other = Sequences::default();
        other.note(drive, 9);
        s.merge(&other);
        assert_eq!(s.behind(drive, 7), 2);
    }

    #[test]
    fn sequence_restarts_after_rollback() {
        let drive = DriveId([1; 16]);
        let (mut s, mut stale) = (Sequences::default(), Sequences::default());
        s.note(drive, 900);
        stale.note(drive, 900);
        assert!(s.begin_again(drive, 40), "it is news");
        assert!(s.begin_again(drive, 41) && !s.begin_again(drive, 41));
        // The old notes of a drive that was away count no more.
        s.merge(&stale);
        stale.merge(&s);
        for s in [&s, &stale] {
            assert_eq!((s.behind(drive, 41), s.behind(drive, 40)), (0, 1));
        }
    }

    #[test]
    fn golden_and_every_flipped_bit() {
        let mut s = Sequences::default();
        s.note(DriveId([1; 16]), 0x0102);
        let ours = DeploymentId([9; 16]);
        let bytes = s.encode(ours);
        assert_eq!(bytes.len(), 1 + 16 + 1 + 28 + 32);
        assert_eq!(bytes[..18], [&[2][..], &[9; 16], &[1]].concat());
        assert_eq!(bytes[34..46], [0, 0, 0, 0, 2, 1, 0, 0, 0, 0, 0, 0]);
        assert_eq!(Sequences::decode(&bytes, ours), Some(s));
        for i in 0..bytes.len() {
            let mut bad = bytes.clone();
            bad[i] ^= 1;
            assert_eq!(Sequences::decode(&bad, ours), None, "byte {i}");
            assert_eq!(Sequences::decode(&bytes[..i], ours), None, "cut at {i}");
        }
    }
}
