//! Signatures of what a device may already hold: file systems, partition tables, other arrays.
//!
//! Invariant: only reads.
//!
//! Must not depend on: the format of this crate's own groups, except its magic number.

/// Bytes at the head of a device that [`find`] looks at.
pub(crate) const HEAD: usize = 132 << 10;

/// Owner, position, bytes.
const SIGNATURES: [(&str, usize, &[u8]); 21] = [
    ("an Ashlar drive group", 0, b"ASHLRAID"),
    ("an XFS file system", 0, b"XFSB"),
    ("an ext file system", 0x438, &[0x53, 0xef]),
    ("a Btrfs file system", 0x1_0040, b"_BHRfS_M"),
    ("an F2FS file system", 0x400, &[0x10, 0x20, 0xf5, 0xf2]),
    ("an NTFS file system", 3, b"NTFS    "),
    ("an exFAT file system", 3, b"EXFAT   "),
    ("an ISO 9660 file system", 0x8001, b"CD001"),
    ("a ZFS pool", 0x2_0000, &[0x0c, 0xb1, 0xba, 0, 0, 0, 0, 0]),
    ("a bcache device", 0x1018, &[0xc6, 0x85, 0x73, 0xf6, 0x4e, 0x1a, 0x45, 0xca]),
    ("a LUKS volume", 0, b"LUKS\xba\xbe"),
    ("an LVM physical volume", 0x200, b"LABELONE"),
    ("an LVM physical volume", 0, b"LABELONE"),
    ("an md RAID member", 0x1000, &[0xfc, 0x4e, 0x2b, 0xa9]),
    ("an md RAID member", 0, &[0xfc, 0x4e, 0x2b, 0xa9]),
    ("swap space", 4086, b"SWAPSPACE2"),
    ("a squashfs file system", 0, b"hsqs"),
    ("an EROFS file system", 0x400, &[0xe2, 0xe1, 0xf5, 0xe0]),
    ("a GPT partition table", 0x200, b"EFI PART"),
    ("a GPT partition table", 0x1000, b"EFI PART"),
    ("an MBR partition table or a FAT file system", 510, &[0x55, 0xaa]),
];

/// What the head of a device belongs to, if a signature is known. An md superblock of format 0.90 or 1.0, at the end
/// of a device, is found by `tail`, its last 128 KiB.
pub(crate) fn find(head: &[u8], tail: &[u8]) -> Option<&'static str> {
    let at = |from: usize, bytes: &[u8]| head.get(from..from + bytes.len()) == Some(bytes);
    if let Some((owner, ..)) = SIGNATURES.iter().find(|(_, from, bytes)| at(*from, bytes)) {
        return Some(owner);
    }
    const MD: [u8; 4] = [0xfc, 0x4e, 0x2b, 0xa9];
    tail.chunks_exact(4096).any(|block| block.starts_with(&MD)).then_some("an md RAID member")
}
