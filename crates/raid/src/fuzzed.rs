//! Entry points for the fuzzer: what is read from members. Checksums are set right first, so that what lies behind them is
//! reached.
//!
//! Must not depend on: devices.

use ashlar_checksum::frame_hash;

use crate::bitmap::Bitmap;
use crate::directory;
use crate::geometry::{BLOCK, Geometry, Level};
use crate::journal::{self, Change, Entry, Intent, Listed, Position};
use crate::layout::Layout;
use crate::reference::Reference;
use crate::sums::Page;
use crate::superblock::{
    self, Growth, Id, InSpare, MemberState, Policy, Settings, Slot, Superblock, ThinMap, Volume, VolumeLimits,
};
use crate::thin_map;

const GROUP: Id = *b"group identity..";
const AT: Position = Position { group: GROUP, slot: 2, epoch: 3, ordinal: 4 };

/// `body`, cut or filled up to `len` bytes, the last 32 of which are its hash.
fn sealed(body: &[u8], len: usize, key: &[u64; 4], behind: &[u8]) -> Vec<u8> {
    let mut out = body.to_vec();
    out.resize(len - 32, 0);
    let sum = frame_hash(key, &[&out, behind]);
    out.extend_from_slice(&sum);
    out
}

/// A superblock: it is read as it was written, and its areas fit together.
pub fn superblock(input: &[u8]) {
    let bytes = sealed(input, superblock::LEN, &superblock::KEY, &[]);
    let Ok((found, device, directory)) = Superblock::decode_with(&bytes) else { return };
    let again = found.encode_with(&device, directory.as_ref());
    assert_eq!(Superblock::decode_with(&again), Ok((found.clone(), device, directory)));
    let rows = found.geometry.rows();
    assert!(found.geometry.blocks() <= i64::MAX as u64 / BLOCK as u64);
    if let Some(layout) = Layout::existing(found.journal_blocks, found.directory, found.data_start, rows) {
        assert!(layout.page(0, 0) < layout.page(0, 1) || layout.pages == 0);
        assert!(layout.page(layout.pages, 1) <= layout.data_start);
    }
    // The place of the first and the last block.
    for shape in [Some(found.geometry), found.growth.map(|growth| growth.to)].into_iter().flatten() {
        assert!(shape.rows() == rows && shape.blocks() >= found.geometry.blocks());
        for block in [0, shape.blocks() - 1] {
            let place = shape.locate(block);
            assert!(
                shape.is_declustered() || shape.slot(place.set, place.row, place.role) < found.slots.len()
            );
            assert!(place.set < shape.sets && place.role < shape.k);
            assert!(place.row < rows);
        }
    }
}

/// A directory: it is read as it was written.
pub fn directory(input: &[u8]) {
    let Ok(found) = directory::decode(input) else { return };
    assert_eq!(directory::decode(&directory::encode(&found)), Ok(found));
}

/// The head of a journal.
pub fn journal_head(input: &[u8]) {
    let bytes = sealed(input, BLOCK, &journal::key(&GROUP), &[]);
    if let Some(epoch) = journal::decode_head(&GROUP, AT.slot, &bytes) {
        assert_eq!(
            journal::decode_head(&GROUP, AT.slot, &journal::encode_head(&GROUP, AT.slot, epoch)),
            Some(epoch)
        );
    }
}

/// A part of an entry of the journal: its block, and the content after it.
pub fn journal_entry(input: &[u8]) {
    let (head, content) = input.split_at(input.len().min(BLOCK - 32));
    let mut whole = head.to_vec();
    whole.resize(BLOCK - 32, 0);
    let Some(len) = journal::part_len(&AT, &whole) else { return };
    let mut own = content.to_vec();
    own.resize(len - BLOCK, 0);
    let mut bytes = sealed(head, BLOCK, &journal::key(&GROUP), &own);
    bytes.extend_from_slice(&own);
    let Some((listed, found)) = journal::decode(&AT, &bytes) else { return };
    assert_eq!(found, len);
    let mut again = match &listed {
        Listed::Entry(entry) => journal::encode(&AT, entry, &[&own]),
        Listed::Intent(intent) => journal::encode_intent(&AT, intent),
    };
    again.extend_from_slice(&own);
    assert_eq!(journal::decode(&AT, &again), Some((listed, len)));
    // Another member, epoch or order is not this one.
    for other in [Position { slot: 3, ..AT }, Position { epoch: 4, ..AT }, Position { ordinal: 5, ..AT }] {
        assert_eq!(journal::decode(&other, &bytes), None);
    }
}

/// A page of checksums, with and without its other copy.
pub fn checksum_page(input: &[u8]) {
    let mut bytes = input.to_vec();
    bytes.resize(BLOCK, 0);
    let sum = crate::sums::page_hash(&GROUP, 1, 7, &bytes[8..]);
    let torn = [&bytes[..8], &bytes[8..]].concat();
    bytes[..8].copy_from_slice(&sum);
    let (one, lost) = Page::decode(&GROUP, 1, 7, [&bytes, &torn]);
    assert!(!lost, "one good copy suffices");
    let (other, _) = Page::decode(&GROUP, 1, 7, [&torn, &bytes]);
    let zeros = bytes[8..].iter().all(|b| *b == 0) && torn[..8].iter().all(|b| *b == 0);
    assert!(one.sums == other.sums || zeros);
    let (_, lost) = Page::decode(&GROUP, 1, 8, [&bytes, &bytes]);
    assert!(lost, "the page of another place is not this one");
}

/// A block of the map of a thin virtual drive.
pub fn thin_map(input: &[u8]) {
    let mut bytes = input.to_vec();
    bytes.resize(BLOCK, 0);
    let found = thin_map::decode(&bytes);
    let mut map = thin_map::Map::new(2);
    map.set(1, found.clone());
    assert!(thin_map::encode(&map.entries(1)) == bytes);
    let all: Vec<(u64, u64)> = map.all().collect();
    assert!(found.is_some() != all.is_empty() && all.len() as u64 == map.given());
    for (index, piece) in all {
        assert!(map.get(index) == Some(piece) && thin_map::Map::place(index).0 == 1);
        let bytes = &bytes[index as usize % thin_map::ENTRIES * 4..][..4];
        assert_eq!(thin_map::entry(piece).map(u32::to_le_bytes).as_ref().map(|e| &e[..]), Some(bytes));
    }
}

/// A bitmap.
pub fn bitmap(input: &[u8]) {
    let bytes = sealed(input, BLOCK, &crate::bitmap::KEY, &[]);
    if let Some(found) = Bitmap::decode(&GROUP, &bytes) {
        assert_eq!(found.encode(&GROUP)[..BLOCK - 32], bytes[..BLOCK - 32]);
    }
}

fn without_hash(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes.truncate(bytes.len() - 32);
    bytes
}

/// Superblocks, without their hashes.
#[must_use]
pub fn superblocks() -> Vec<Vec<u8>> {
    let grown = |from: Level, members: usize, to: Level, more: usize| {
        let shape = |level, members| Geometry::new(level, members, 64 << 10, 4096).ok();
        Some((shape(from, members)?, Some(Growth { to: shape(to, members + more)?, moved: 48 })))
    };
    let of = |level, members: usize, policy| {
        let shape = Geometry::new(level, members, 64 << 10, 4096).ok()?;
        Some((shape, None, policy))
    };
    let whole = |(geometry, growth, policy): (Geometry, Option<Growth>, Policy)| {
        let members = growth.map_or(geometry, |growth| growth.to).members();
        let state = |i: usize| match i {
            1 => MemberState::Failed,
            2 => MemberState::Rebuild { done: 16 },
            _ => MemberState::Online,
        };
        let spare = |i: usize| match i {
            1 if geometry.spares > 0 => Some(InSpare { index: 0, below: 4096 }),
            2 if geometry.spares > 1 => Some(InSpare { index: 1, below: 4080 }),
            _ => None,
        };
        // Some of them have properties.
        let thin = (members % 2 == 0).then_some(ThinMap { blocks: 256, piece_log: 8 });
        let limits = VolumeLimits { iops: (members as u32 % 2) * 500, bandwidth: (members as u64 % 3) << 20 };
        let whole = Superblock {
            group: GROUP,
            generation: 7,
            name: "tank".into(),
            geometry,
            policy,
            intents: policy == Policy::Journal && growth.is_none(),
            journal_blocks: 8192,
            data_start: 9000,
            clean: true,
            slots: (0..members)
                .map(|i| Slot { device: [i as u8; 16], state: state(i), spare: spare(i) })
                .collect(),
            spares: vec![[99; 16]],
            volumes: vec![
                Volume { name: "v1".into(), start: 256, blocks: 1000, ..Volume::default() },
                Volume { name: "v2".into(), start: 2048, blocks: 8, limits, thin: None },
                Volume { name: "v3".into(), start: 4096, blocks: 1 << 20, thin, ..Volume::default() },
            ],
            settings: Settings { offline: [1].into(), check_interval_s: 3600, ..Settings::default() },
            directory: members == 8,
            growth,
        };
        let reference = whole.directory.then(|| Reference::to(1, &directory::encode(&whole.volumes)));
        without_hash(whole.encode_with(&[3; 16], reference.as_ref()))
    };
    let all = [
        of(Level::Raid5, 5, Policy::Journal),
        of(Level::Coded { k: 8, m: 3 }, 11, Policy::Bitmap),
        of(Level::Raid60 { sets: 2 }, 8, Policy::None),
        of(Level::Raid1, 2, Policy::Journal),
        of(Level::Declustered { k: 3, m: 2, spares: 2 }, 12, Policy::Journal),
        of(Level::Declustered { k: 5, m: 1, spares: 1 }, 13, Policy::Bitmap),
        grown(Level::Raid5, 4, Level::Raid6, 2).map(|(g, growth)| (g, growth, Policy::Journal)),
        grown(Level::Coded { k: 8, m: 2 }, 10, Level::Coded { k: 9, m: 3 }, 2)
            .map(|(g, growth)| (g, growth, Policy::Journal)),
    ];
    all.into_iter().flatten().map(whole).collect()
}

/// Directories.
#[must_use]
pub fn directories() -> Vec<Vec<u8>> {
    let thin = Some(ThinMap { blocks: 256, piece_log: 8 });
    let limits = VolumeLimits { iops: 5, bandwidth: 1 << 20 };
    let plain = Volume { name: "v1".into(), start: 256, blocks: 1000, ..Volume::default() };
    let with = Volume { name: "v2".into(), start: 4096, blocks: 1 << 20, thin, limits };
    vec![directory::encode(std::slice::from_ref(&plain)), directory::encode(&[plain, with])]
}

/// Heads of journals, without their hashes.
#[must_use]
pub fn journal_heads() -> Vec<Vec<u8>> {
    vec![without_hash(journal::encode_head(&GROUP, AT.slot, 3))]
}

/// Parts of entries, without their hashes.
#[must_use]
pub fn journal_entries() -> Vec<Vec<u8>> {
    let change = |slot, row| Change { slot, row, sum: 7 };
    let entry = |content| Entry {
        sequence: 5,
        content,
        moved: 8,
        changes: vec![change(2, 6), change(4, 6), change(2, 7)],
    };
    let content = vec![9; 2 * BLOCK];
    let with = without_hash(journal::encode(&AT, &entry(true), &[&content]));
    let intent = Intent { sequence: 6, set: 1, runs: vec![(3, 2), (9, 1)], sums: vec![7, 8, 9] };
    vec![
        [with, content].concat(),
        without_hash(journal::encode(&AT, &entry(false), &[])),
        without_hash(journal::encode_intent(&AT, &intent)),
    ]
}

/// Pages of checksums.
#[must_use]
pub fn checksum_pages() -> Vec<Vec<u8>> {
    vec![vec![0; BLOCK], (0..BLOCK).map(|i| (i * 7) as u8).collect(), vec![0xff; BLOCK]]
}

/// Blocks of maps.
#[must_use]
pub fn thin_maps() -> Vec<Vec<u8>> {
    let entries =
        |of: fn(u32) -> u32| (0..thin_map::ENTRIES as u32).flat_map(|i| of(i).to_le_bytes()).collect();
    vec![vec![0; BLOCK], entries(|i| i + 1), entries(|i| if i % 7 == 0 { 900 - i } else { 0 })]
}

/// Bitmaps, without their hashes.
#[must_use]
pub fn bitmaps() -> Vec<Vec<u8>> {
    let mut some = Bitmap::default();
    [0, 9, 31_743].into_iter().for_each(|region| some.set(region));
    vec![without_hash(some.encode(&GROUP))]
}
