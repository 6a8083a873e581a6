//! A device with arbitrary changes in its log, for the fuzzer.
//!
//! Must not depend on: the fuzzer.

use std::collections::BTreeMap;
use std::io::{self, IoSlice};
use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;

use super::device::RawDevice;
use super::inode::Extent;
use super::layout::{BLOCK, Change, Place, Superblock, encode_batch};
use crate::Folder;

/// Bytes of the device.
const SIZE: u64 = 2 << 20;

/// A device that keeps only blocks that were written.
#[derive(Clone, Default)]
struct Sparse(Arc<Mutex<BTreeMap<u64, Vec<u8>>>>);

impl RawDevice for Sparse {
    fn size(&self) -> u64 {
        SIZE
    }

    fn read(&self, buf: &mut [u8], at: u64) -> io::Result<()> {
        let blocks = self.0.lock();
        for (n, out) in (at / BLOCK..).zip(buf.chunks_mut(BLOCK as usize)) {
            match blocks.get(&n) {
                Some(block) => out.copy_from_slice(block),
                None => out.fill(0),
            }
        }
        Ok(())
    }

    fn write(&self, slices: &mut [IoSlice<'_>], at: u64) -> io::Result<()> {
        let bytes = slices.iter().map(|s| &**s).collect::<Vec<_>>().concat();
        assert!(at + bytes.len() as u64 <= SIZE, "a write beyond the end");
        let blocks = bytes.chunks(BLOCK as usize).map(<[u8]>::to_vec);
        self.0.lock().extend((at / BLOCK..).zip(blocks));
        Ok(())
    }

    fn flush(&self) -> io::Result<()> {
        Ok(())
    }

    fn discard(&self, _: u64, _: u64) {}
}

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
    let s = Superblock { store: [7; 16], blocks: SIZE / BLOCK, log: 100 };
    let Some((part, changes)) = input.split_first() else { return };
    let (first, more) = changes.split_at(changes.len() * usize::from(*part) / 255);
    let device = Sparse::default();
    let write = |bytes: &[u8], at: u64| device.write(&mut [IoSlice::new(bytes)], at * BLOCK).is_ok();
    let mut at = u64::from(write(&s.encode(), 0));
    for (sequence, changes) in [(0, first), (1, more)] {
        let batch = encode_batch(Place { store: s.store, generation: 3, sequence }, changes);
        let blocks = batch.len() as u64 / BLOCK;
        if at + blocks > s.files_at() {
            return;
        }
        write(&batch, at);
        at += blocks;
    }
    let open = || Folder::on_device(Box::new(device.clone()), Path::new("device"), None);
    let Ok(folder) = open() else { return };
    for name in folder.list().unwrap_or_default() {
        let _ = folder.read(&name, 1 << 12);
        let Ok(file) = folder.open(&name, true) else { continue };
        let _ = file.write_slices_at(&mut [IoSlice::new(b"text")], 5000);
        let _ = (file.punch_hole(100, 9000), file.set_len(7000), file.sync_all());
    }
    let made =
        folder.remove("new").is_ok() && folder.write_new("new", b"text").is_ok() && folder.sync().is_ok();
    let names = folder.list().unwrap_or_default();
    drop(folder);
    let Ok(again) = open() else { panic!("what opened does not open again") };
    if made {
        assert_eq!(again.list().unwrap_or_default(), names);
        assert_eq!(again.read("new", 10).ok().as_deref(), Some(b"text".as_slice()));
    }
}
