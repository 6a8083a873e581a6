//! Checks whether a raw device may be overwritten, and clears it afterwards.
//!
//! Invariants: a mounted or otherwise used device is never written, even if forced; a device with data at its
//! ends, where file systems, volume managers and partition tables have their signatures, is written only if
//! forced. Afterwards its ends are blank.

use std::{
    fs::{self, File},
    io::{self, Read, Seek, SeekFrom},
    os::unix::fs::FileExt,
    path::Path,
};

use ashlar_machine::BufferPool;

use crate::error::{Error, Result};

/// Bytes at either end that are looked at and blanked.
const ENDS: u64 = 1 << 20;

/// Known signatures: offset from the start, bytes, name.
const SIGNATURES: [(usize, &[u8], &str); 12] = [
    (512, b"EFI PART", "a GPT partition table"),
    (0, b"XFSB", "an XFS file system"),
    (0x438, &[0x53, 0xef], "an ext file system"),
    (0x1_0040, b"_BHRfS_M", "a btrfs file system"),
    (0, b"LUKS\xba\xbe", "a LUKS volume"),
    (512, b"LABELONE", "an LVM volume"),
    (4096, &[0xfc, 0x4e, 0x2b, 0xa9], "a software RAID member"),
    (0, &[0xfc, 0x4e, 0x2b, 0xa9], "a software RAID member"),
    (4086, b"SWAPSPACE2", "swap space"),
    (3, b"NTFS    ", "an NTFS file system"),
    (0x1018, &[0xc6, 0x85, 0x73, 0xf6], "a bcache device"),
    (510, &[0x55, 0xaa], "a boot sector or partition table"),
];

/// Says no, with the reason, or nothing.
///
/// # Errors
/// [`Error::Setup`] with what is on the device; [`Error::Io`] when it cannot be read.
pub fn may_be_overwritten(path: &Path, force: bool) -> Result<()> {
    let refuse = |why: &str| Err(Error::setup(format!("{} {why}: refused", path.display())));
    let real = fs::canonicalize(path).map_err(Error::io(path.display().to_string()))?;
    let name = real.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    let mut names = vec![name.clone()];
    let partitions = partitions(&name);
    names.extend(partitions.iter().cloned());
    for list in ["/proc/self/mounts", "/proc/swaps"] {
        let text = fs::read_to_string(list).unwrap_or_default();
        let used = text.lines().filter_map(|l| l.split_whitespace().next()).any(|source| {
            fs::canonicalize(source)
                .is_ok_and(|p| p.file_name().is_some_and(|n| names.iter().any(|own| n == own.as_str())))
        });
        if used {
            return refuse("is mounted or used as swap");
        }
    }
    for name in &names {
        let holders = fs::read_dir(format!("/sys/class/block/{name}/holders"));
        if holders.is_ok_and(|mut h| h.next().is_some()) {
            return refuse("belongs to a volume group, array or mapping");
        }
    }
    if force {
        return Ok(());
    }
    if !partitions.is_empty() {
        return refuse("has partitions; --force overwrites them");
    }
    match contents(&real).map_err(Error::io(format!("cannot read {}", path.display())))? {
        None => Ok(()),
        Some(what) => refuse(&format!("holds {what}; --force overwrites it")),
    }
}

fn partitions(name: &str) -> Vec<String> {
    let Ok(entries) = fs::read_dir(format!("/sys/class/block/{name}")) else { return Vec::new() };
    let parts = entries.flatten().filter(|e| e.path().join("partition").exists());
    parts.map(|e| e.file_name().to_string_lossy().into_owned()).collect()
}

/// What is at the ends of a device; nothing if both are blank.
fn contents(path: &Path) -> io::Result<Option<&'static str>> {
    let mut file = File::open(path)?;
    let length = file.seek(SeekFrom::End(0))?;
    file.seek(SeekFrom::Start(0))?;
    let mut head = Vec::new();
    (&file).take(ENDS).read_to_end(&mut head)?;
    let mut tail = Vec::new();
    file.seek(SeekFrom::Start(length.saturating_sub(ENDS)))?;
    (&file).take(ENDS).read_to_end(&mut tail)?;
    Ok(signature(&head, &tail))
}

fn signature(head: &[u8], tail: &[u8]) -> Option<&'static str> {
    for (at, bytes, name) in SIGNATURES {
        if head.get(at..at + bytes.len()) == Some(bytes) {
            return Some(name);
        }
    }
    let blank = |bytes: &[u8]| bytes.iter().all(|b| *b == 0) || bytes.iter().all(|b| *b == 0xff);
    if blank(head) && blank(tail) { None } else { Some("data that is not known") }
}

/// Zeroes both ends.
///
/// # Errors
/// The error of writing.
pub fn blank_ends(file: &File) -> io::Result<()> {
    let length = (&*file).seek(SeekFrom::End(0))?;
    let mut zeros = BufferPool::new(0).get_reserved(ENDS.min(length) as usize);
    zeros.fill(0);
    file.write_all_at(&zeros, 0)?;
    // Direct writes begin at a multiple of the block size.
    let start = length.saturating_sub(ENDS) & !4095;
    file.write_all_at(&zeros[..(length - start).min(ENDS) as usize & !511], start)?;
    file.sync_data()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signatures_are_recognized() {
        let blank = vec![0_u8; 1 << 20];
        assert_eq!(signature(&blank, &blank), None);
        assert_eq!(signature(&[0xff; 4096], &blank), None);
        for (at, bytes, name) in SIGNATURES {
            let mut head = blank.clone();
            head[at..at + bytes.len()].copy_from_slice(bytes);
            assert_eq!(signature(&head, &blank), Some(name));
        }
        let mut tail = blank.clone();
        tail[1 << 19] = 1;
        assert_eq!(signature(&blank, &tail), Some("data that is not known"));
        assert_eq!(signature(&[], &[]), None);
    }
}
