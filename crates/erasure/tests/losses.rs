//! T7: every pattern of up to m lost rows is decoded, one more is an error and never wrong bytes.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests run in real time")]

mod common;

use ashlar_erasure::{Code, Error, kernels};
use common::{Noise, check_loss, encoded};

/// Calls `see` with every set of up to `most` of `n` rows; returns how many there were.
fn each_loss(n: usize, most: usize, mut see: impl FnMut(&[usize])) -> usize {
    fn walk(n: usize, most: usize, lost: &mut Vec<usize>, see: &mut impl FnMut(&[usize])) -> usize {
        see(lost);
        let mut count = 1;
        if lost.len() < most {
            for row in lost.last().map_or(0, |last| last + 1)..n {
                lost.push(row);
                count += walk(n, most, lost, see);
                lost.pop();
            }
        }
        count
    }
    walk(n, most, &mut Vec::new(), &mut see)
}

fn code(k: usize, m: usize, seed: u64, len: usize) -> (Code, Vec<Vec<u8>>) {
    let code = Code::new(k, m).unwrap();
    let rows = encoded(&code, Noise(seed).rows(k, len));
    (code, rows)
}

#[test]
fn all_2517_patterns_of_12_4_on_every_kernel() {
    let (code, rows) = code(12, 4, 124, 67);
    for kernel in kernels() {
        let code = code.with_kernel(kernel).unwrap();
        assert_eq!(each_loss(16, 4, |lost| check_loss(&code, &rows, lost)), 2517);
    }
}

#[test]
fn all_4048_patterns_of_14_4() {
    let (code, rows) = code(14, 4, 144, 67);
    assert_eq!(each_loss(18, 4, |lost| check_loss(&code, &rows, lost)), 4048);
}

#[test]
fn all_39203_patterns_of_8_8() {
    let (code, rows) = code(8, 8, 88, 67);
    assert_eq!(each_loss(16, 8, |lost| check_loss(&code, &rows, lost)), 39_203);
}

#[test]
fn all_patterns_of_small_codes() {
    for k in 1..=5 {
        for m in 0..=5 {
            let (code, rows) = code(k, m, 1, 33);
            each_loss(k + m, m, |lost| check_loss(&code, &rows, lost));
        }
    }
}

#[test]
fn samples_of_the_widest_codes() {
    for (k, m) in [(32, 32), (60, 4), (16, 48), (1, 63), (63, 1), (64, 0), (2, 62)] {
        let (code, rows) = code(k, m, 64, 35);
        let mut noise = Noise(k as u64);
        for _ in 0..100 {
            let count = noise.below(m + 1);
            check_loss(&code, &rows, &noise.distinct(count, k + m));
            check_loss(&code, &rows, &noise.distinct(m, k + m));
        }
    }
}

#[test]
fn excess_loss_is_an_error_and_leaves_output_unchanged() {
    let (code, rows) = code(12, 4, 5, 40);
    let mut noise = Noise(6);
    for _ in 0..200 {
        let lost = noise.distinct(5, 16);
        let kept: Vec<(usize, &[u8])> =
            (0..16).filter(|row| !lost.contains(row)).map(|row| (row, rows[row].as_slice())).collect();
        // The same row handed over twice does not count twice.
        let doubled: Vec<(usize, &[u8])> = kept.iter().chain(&kept).copied().collect();
        for present in [kept, doubled] {
            let mut out = vec![0x55; 40];
            let refused = code.reconstruct(&present, &lost[..1], &mut [&mut out]);
            assert_eq!(refused, Err(Error::TooFewRows { have: 11, need: 12 }));
            assert!(out.iter().all(|&b| b == 0x55));
        }
    }
}

#[test]
fn parity_in_any_order_and_surplus_rows() {
    let (code, rows) = code(6, 5, 11, 50);
    let mut noise = Noise(12);
    for _ in 0..300 {
        let count = 6 + noise.below(6);
        let present: Vec<(usize, &[u8])> =
            noise.distinct(count, 11).into_iter().map(|row| (row, rows[row].as_slice())).collect();
        // All rows, present or not, in any order.
        let wanted = noise.distinct(11, 11);
        let mut out = vec![vec![0u8; 50]; 11];
        let mut slots: Vec<&mut [u8]> = out.iter_mut().map(Vec::as_mut_slice).collect();
        code.reconstruct(&present, &wanted, &mut slots).unwrap();
        for (made, row) in out.iter().zip(wanted) {
            assert_eq!(made, &rows[row]);
        }
    }
}

#[test]
fn only_the_first_k_rows_are_used() {
    let (code, rows) = code(3, 3, 9, 20);
    let junk = vec![0xEE; 20];
    // Data rows first, then parity in the order given: rows 0, 2 and 4. Row 5 is surplus.
    let present: [(usize, &[u8]); 4] = [(4, &rows[4]), (5, &junk), (2, &rows[2]), (0, &rows[0])];
    let mut out = vec![0; 20];
    code.reconstruct(&present, &[1], &mut [&mut out]).unwrap();
    assert_eq!(out, rows[1]);
}

#[test]
fn clones_share_the_cache_across_threads() {
    let (code, rows) = code(8, 8, 3, 64);
    std::thread::scope(|scope| {
        for seed in 0..4 {
            let (code, rows) = (code.clone(), &rows);
            scope.spawn(move || {
                let mut noise = Noise(seed);
                // More patterns than the cache holds, and some over and over.
                for i in 0..400 {
                    let lost = if i % 2 == 0 { noise.distinct(8, 16) } else { vec![i % 5, 9] };
                    check_loss(&code, rows, &lost);
                }
            });
        }
    });
}
