//! Every kernel of this CPU against the reference kernel: all four operations, every shape up to 24 rows and
//! samples up to 64, many lengths and alignments.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests run in real time")]

mod common;

use ashlar_erasure::{Code, Kernel, kernels};
use common::{Fenced, Noise, encoded, fast, naive, slices};

/// Lengths around the vector widths, the tile widths and a page.
const LENGTHS: [usize; 26] = [
    0, 1, 2, 7, 15, 16, 17, 31, 32, 33, 63, 64, 65, 96, 127, 128, 129, 191, 255, 256, 257, 300, 511, 512,
    517, 1100,
];

/// Encodes the first `len` bytes with `code` and compares with the reference kernel's `rows`. A prefix of
/// the rows has the prefix of the parity, so one naive encoding serves all lengths.
fn check_encode(code: &Code, rows: &[Vec<u8>], from: usize, len: usize) {
    let data: Vec<&[u8]> = rows[..code.k()].iter().map(|row| &row[from..from + len]).collect();
    let mut parity = Fenced::new(code.m(), len, from + len);
    code.encode(&data, &mut parity.rows()).unwrap();
    for (i, made) in parity.checked().into_iter().enumerate() {
        let want = &rows[code.k() + i][from..from + len];
        assert!(made == want, "{code:?}: parity row {i} differs at length {len}, offset {from}");
    }
}

/// Rebuilds some lost rows of a prefix and compares.
fn check_reconstruct(code: &Code, rows: &[Vec<u8>], lost: &[usize], from: usize, len: usize) {
    let part = |row: usize| &rows[row][from..from + len];
    let present: Vec<(usize, &[u8])> =
        (0..code.n()).filter(|row| !lost.contains(row)).map(|row| (row, part(row))).collect();
    let mut out = Fenced::new(lost.len(), len, from);
    code.reconstruct(&present, lost, &mut out.rows()).unwrap();
    for (made, &row) in out.checked().into_iter().zip(lost) {
        assert!(
            made == part(row),
            "{code:?}: row {row} of lost {lost:?} differs at length {len}, offset {from}"
        );
    }
}

fn check_update(code: &Code, rows: &[Vec<u8>], noise: &mut Noise, len: usize) {
    let index = noise.below(code.k());
    let new = noise.bytes(len);
    let mut changed: Vec<Vec<u8>> = rows[..code.k()].iter().map(|row| row[..len].to_vec()).collect();
    changed[index].clone_from(&new);
    let want = encoded(&naive(code), changed);
    let mut parity = Fenced::new(code.m(), len, len);
    for (to, from) in parity.rows().into_iter().zip(&rows[code.k()..]) {
        to.copy_from_slice(&from[..len]);
    }
    code.update(index, &rows[index][..len], &new, &mut parity.rows()).unwrap();
    assert!(parity.checked() == slices(&want[code.k()..]), "{code:?}: update of {index}, length {len}");
}

fn check_operations(k: usize, m: usize, lengths: impl Iterator<Item = usize> + Clone, seed: u64) {
    let mut noise = Noise(seed);
    let twin = naive(&Code::new(k, m).unwrap());
    let longest = lengths.clone().max().unwrap();
    let rows = encoded(&twin, noise.rows(k, longest + 64));
    for code in fast(&twin) {
        for len in lengths.clone() {
            check_encode(&code, &rows, noise.below(64), len);
            let lost = noise.below(m + 1);
            let lost = noise.distinct(lost, k + m);
            check_reconstruct(&code, &rows, &lost, noise.below(64), len);
            // All data rows that may go, with the XOR parity kept: the folded case.
            let data: Vec<usize> = (0..k.min(m)).collect();
            check_reconstruct(&code, &rows, &data, noise.below(64), len);
        }
        check_update(&code, &rows, &mut noise, longest);
        let whole: Vec<&[u8]> = rows.iter().map(|row| &row[..longest]).collect();
        assert!(code.verify(&whole).unwrap(), "{code:?}: verify");
    }
}

#[test]
fn every_shape_up_to_24_rows() {
    for n in 1..=24 {
        for k in 1..=n {
            check_operations(k, n - k, LENGTHS.into_iter(), (n * 100 + k) as u64);
        }
    }
}

#[test]
fn shapes_up_to_64_rows() {
    let shapes = [
        (24, 1),
        (30, 2),
        (26, 7),
        (32, 32),
        (48, 16),
        (60, 4),
        (63, 1),
        (1, 63),
        (2, 62),
        (64, 0),
        (57, 6),
        (17, 47),
    ];
    for (k, m) in shapes {
        check_operations(k, m, [0, 1, 63, 257, 1100].into_iter(), (k * 100 + m) as u64);
    }
}

#[test]
fn every_length_up_to_300_and_around_a_page() {
    // Every number of rows that a pass can have, with odd and even numbers of columns.
    for (k, m) in [(1, 2), (2, 1), (2, 2), (3, 2), (4, 3), (5, 4), (6, 4), (5, 5), (8, 6), (3, 7), (4, 12)] {
        check_operations(k, m, (0..=300).chain(4090..=4100), (k * 100 + m) as u64);
    }
}

#[test]
fn every_offset_of_a_row() {
    let twin = naive(&Code::new(5, 3).unwrap());
    let rows = encoded(&twin, Noise(5).rows(5, 1000));
    for code in fast(&twin) {
        for from in 0..64 {
            for len in [1, 64, 100, 513] {
                check_encode(&code, &rows, from, len);
                check_reconstruct(&code, &rows, &[6, 1, 3], from, len);
            }
        }
    }
}

#[test]
fn rows_longer_than_any_block() {
    for (k, m) in [(3, 9), (12, 4), (20, 20)] {
        check_operations(k, m, [70_000, 70_001].into_iter(), (k * 100 + m) as u64);
    }
}

#[test]
fn rows_long_enough_for_requests_ahead() {
    // Both sides of every bound of `Lane::ahead`, around its least length, with every rest of a tile's end.
    let lengths = [16_383, 16_384, 16_385, 16_500, 16_640, 16_895];
    for (k, m) in [(1, 2), (2, 1), (2, 2), (3, 6), (4, 2), (5, 3), (8, 2), (8, 4), (9, 3), (12, 5), (13, 4)] {
        check_operations(k, m, lengths.into_iter(), (k * 100 + m) as u64);
    }
}

#[test]
fn kernels_are_listed_and_chosen() {
    let usable = kernels();
    assert_eq!(usable[0], Kernel::Scalar);
    assert!(usable.iter().all(|kernel| kernel.is_usable()));
    let code = Code::new(4, 2).unwrap();
    assert!(usable.contains(&code.kernel()));
    for kernel in usable {
        assert_eq!(code.with_kernel(kernel).unwrap().kernel(), kernel);
    }
}
