//! A device with arbitrary changes in its log, for the fuzzer.
//!
//! Must not depend on: the fuzzer.

use std::io::IoSlice;

use super::inode::Extent;
use super::layout::{BLOCK, Change, Place, Superblock, encode_batch};
use crate::{Folder, SimDisk};

/// Changes of stores.
#[must_use]
pub fn samples() -> Vec<Vec<u8>> {
    let extent = |start, count, written| Extent { start, count, written };
    let file = |id, len, extents: &[(u64, Extent)]| Change::File { id, len, extents: extents.to_vec() };
    let name = |name: &str, file| Change::Name { name: name.to_owned(), file };
    let samples = [
        vec![file(1, 9000, &[(0, extent(201, 3, true))]), name("a", Some(1))],
        vec![
            file(1, 4096, &[(0, extent(201, 1, true)), (5, extent(210, 2, false))]),
            file(2, 0, &[]),
            name("journal/1", Some(1)),
            name("label", Some(2)),
            name("label", None),
        ],
        vec![
            file(u64::MAX - 1, 1 << 40, &[(1 << 27, extent(300, 1, true))]),
            name("large", Some(u64::MAX - 1)),
        ],
    ];
    let encoded = |changes: &Vec<Change>| {
        let mut out = Vec::new();
        changes.iter().for_each(|c| c.encode(&mut out));
        out
    };
    // All in the checkpoint, and all in the batch behind it.
    samples
        .iter()
        .map(encoded)
        .flat_map(|bytes| [255, 0].map(|part| [&[part], &bytes[..]].concat()))
        .collect()
}

/// Opens a store whose log has these changes, with checksums that verify; what opens is read, changed, and found again. The first byte
/// says how much of them is in the checkpoint.
///
/// # Panics
/// If the store does not keep what it should.
pub fn run(input: &[u8]) {
    const SIZE: u64 = 2 << 20;
    let s = Superblock { store: [7; 16], blocks: SIZE / BLOCK, log: 100 };
    let Some((part, changes)) = input.split_first() else { return };
    let (first, more) = changes.split_at(changes.len() * usize::from(*part) / 255);
    let disk = SimDisk::new(1 << 30);
    let mut device = vec![0; SIZE as usize];
    let mut at = BLOCK as usize;
    device[..at].copy_from_slice(&s.encode());
    for (sequence, changes) in [(0, first), (1, more)] {
        let batch = encode_batch(Place { store: s.store, generation: 3, sequence }, changes);
        if at + batch.len() > (s.files_at() * BLOCK) as usize {
            return;
        }
        device[at..at + batch.len()].copy_from_slice(&batch);
        at += batch.len();
    }
    disk.put("device", Some(device));
    let Ok(folder) = Folder::simulated_device(&disk, SIZE, None) else { return };
    for name in folder.list().unwrap_or_default() {
        let _ = folder.read(&name, 1 << 20);
        let Ok(file) = folder.open(&name, true) else { continue };
        let _ = file.write_slices_at(&mut [IoSlice::new(b"text")], 5000);
        let _ = (file.punch_hole(100, 9000), file.set_len(7000), file.sync_all());
    }
    let made =
        folder.remove("new").is_ok() && folder.write_new("new", b"text").is_ok() && folder.sync().is_ok();
    let names = folder.list().unwrap_or_default();
    drop(folder);
    let Ok(again) = Folder::simulated_device(&disk, SIZE, None) else {
        panic!("what opened does not open again")
    };
    if made {
        assert_eq!(again.list().unwrap_or_default(), names);
        assert_eq!(again.read("new", 10).ok().as_deref(), Some(b"text".as_slice()));
    }
}
