//! The operations against one another (proptest), and refused arguments.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests run in real time")]

mod common;

use ashlar_erasure::{Code, Error, Kernel, MAX_ROWS, kernels};
use common::{Noise, check_loss, encoded, slices};
use proptest::prelude::*;

fn shape() -> impl Strategy<Value = (usize, usize)> {
    (1..=MAX_ROWS).prop_flat_map(|k| (Just(k), 0..=MAX_ROWS - k))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn any_loss_is_repaired((k, m) in shape(), len in 0usize..600, kernel in 0usize..6, seed: u64) {
        let all = kernels();
        let code = Code::new(k, m).unwrap().with_kernel(all[kernel % all.len()]).unwrap();
        let mut noise = Noise(seed);
        let rows = encoded(&code, noise.rows(k, len));
        let count = noise.below(m + 1);
        check_loss(&code, &rows, &noise.distinct(count, k + m));
    }

    #[test]
    fn update_equals_encoding_again(
        (k, m) in shape(), len in 1usize..600, kernel in 0usize..6, seed: u64, cut in (0usize..600, 0usize..600),
    ) {
        let all = kernels();
        let code = Code::new(k, m).unwrap().with_kernel(all[kernel % all.len()]).unwrap();
        let mut noise = Noise(seed);
        let mut rows = encoded(&code, noise.rows(k, len));
        // A partial write: some range of one data row.
        let (a, b) = (cut.0 % (len + 1), cut.1 % (len + 1));
        let range = a.min(b)..a.max(b);
        let index = noise.below(k);
        let old = rows[index][range.clone()].to_vec();
        let new = noise.bytes(range.len());
        rows[index][range.clone()].copy_from_slice(&new);
        let mut parity: Vec<&mut [u8]> = rows[k..].iter_mut().map(|row| &mut row[range.clone()]).collect();
        code.update(index, &old, &new, &mut parity).unwrap();
        prop_assert!(code.verify(&slices(&rows)).unwrap());
        prop_assert_eq!(&encoded(&code, rows[..k].to_vec()), &rows);
    }
}

#[test]
fn long_update_covers_all_its_blocks() {
    let code = Code::new(4, 3).unwrap();
    let mut noise = Noise(1);
    let mut rows = encoded(&code, noise.rows(4, 20_000));
    let old = std::mem::replace(&mut rows[2], noise.bytes(20_000));
    let (data, parity) = rows.split_at_mut(4);
    let mut parity: Vec<&mut [u8]> = parity.iter_mut().map(Vec::as_mut_slice).collect();
    code.update(2, &old, &data[2], &mut parity).unwrap();
    assert!(code.verify(&slices(&rows)).unwrap());
}

#[test]
fn verify_detects_each_single_damaged_byte() {
    for (k, m, len) in [(1, 1, 40), (1, 3, 40), (4, 1, 130), (5, 2, 130), (4, 4, 300), (3, 40, 300)] {
        for kernel in kernels() {
            let code = Code::new(k, m).unwrap().with_kernel(kernel).unwrap();
            let mut rows = encoded(&code, Noise(7).rows(k, len));
            assert!(code.verify(&slices(&rows)).unwrap());
            for row in 0..k + m {
                for at in 0..len {
                    let bit = 1 << ((row + at) % 8);
                    rows[row][at] ^= bit;
                    assert!(!code.verify(&slices(&rows)).unwrap(), "{code:?}: row {row}, byte {at}");
                    rows[row][at] ^= bit;
                }
            }
        }
    }
}

#[test]
fn verify_checks_all_blocks_of_long_rows() {
    let code = Code::new(3, 2).unwrap();
    let mut rows = encoded(&code, Noise(7).rows(3, 10_001));
    assert!(code.verify(&slices(&rows)).unwrap());
    for at in [0, 4095, 4096, 8191, 8192, 10_000] {
        rows[1][at] ^= 1;
        assert!(!code.verify(&slices(&rows)).unwrap());
        rows[1][at] ^= 1;
    }
}

#[test]
fn codes_without_parity_do_nothing() {
    let code = Code::new(64, 0).unwrap();
    let rows = Noise(1).rows(64, 10);
    code.encode(&slices(&rows), &mut []).unwrap();
    code.update(63, &rows[0], &rows[1], &mut []).unwrap();
    assert!(code.verify(&slices(&rows)).unwrap());
    let present: Vec<(usize, &[u8])> = rows.iter().enumerate().map(|(i, row)| (i, row.as_slice())).collect();
    let mut out = vec![0; 10];
    code.reconstruct(&present, &[63], &mut [&mut out]).unwrap();
    assert_eq!(out, rows[63]);
    assert_eq!(
        code.reconstruct(&present[1..], &[0], &mut [&mut out]),
        Err(Error::TooFewRows { have: 63, need: 64 })
    );
}

#[test]
fn impossible_codes_are_refused() {
    for (k, m) in [(0, 0), (0, 4), (65, 0), (64, 1), (33, 32), (1, usize::MAX), (usize::MAX, 1)] {
        let refused = Code::new(k, m).unwrap_err();
        assert_eq!(refused, Error::Parameters { k, m });
        assert!(refused.to_string().contains("k + m <= 64"));
    }
    let code = Code::new(3, 2).unwrap();
    assert_eq!((code.k(), code.m(), code.n()), (3, 2, 5));
}

#[test]
fn wrong_shapes_are_refused_before_writing() {
    let code = Code::new(2, 1).unwrap();
    let (a, b, short) = ([1u8; 8], [2u8; 8], [3u8; 7]);
    let mut out = [9u8; 8];
    let mut other = [9u8; 7];
    let refuse = |result: Result<(), Error>, part: &str| {
        let text = result.unwrap_err().to_string();
        assert!(text.contains(part), "{text:?} should say {part:?}");
    };
    refuse(code.encode(&[&a], &mut [&mut out]), "2 data rows are expected, got 1");
    refuse(code.encode(&[&a, &b], &mut []), "1 parity rows are expected, got 0");
    refuse(code.encode(&[&a, &short], &mut [&mut out]), "equally long");
    refuse(code.encode(&[&a, &b], &mut [&mut other]), "equally long");
    refuse(code.update(2, &a, &b, &mut [&mut out]), "not one of the 2 data rows");
    refuse(code.update(0, &a, &short, &mut [&mut out]), "equally long");
    refuse(code.update(0, &a, &b, &mut [&mut other]), "equally long");
    refuse(code.update(0, &a, &b, &mut []), "parity rows");
    refuse(code.reconstruct(&[(0, &a), (3, &b)], &[1], &mut [&mut out]), "present row 3");
    refuse(code.reconstruct(&[(0, &a), (2, &b)], &[3], &mut [&mut out]), "wanted row 3");
    refuse(code.reconstruct(&[(0, &a), (2, &short)], &[1], &mut [&mut out]), "equally long");
    refuse(code.reconstruct(&[(0, &a), (2, &b)], &[1], &mut [&mut other]), "equally long");
    refuse(code.reconstruct(&[(0, &a), (2, &b)], &[1], &mut []), "1 output rows are expected, got 0");
    let twice = &mut [&mut out[..], &mut [0; 8]];
    refuse(code.reconstruct(&[(0, &a), (2, &b)], &[1, 1], twice), "wanted twice");
    assert!(code.verify(&[&a, &b]).unwrap_err().to_string().contains("3 rows are expected"));
    assert!(code.verify(&[&a, &b, &short]).is_err());
    assert_eq!(out, [9; 8]);
}

#[test]
fn kernels_of_other_machines_are_refused() {
    let code = Code::new(2, 1).unwrap();
    for kernel in Kernel::ALL.into_iter().filter(|kernel| !kernel.is_usable()) {
        assert!(matches!(code.with_kernel(kernel), Err(Error::KernelUnavailable { .. })));
    }
}

#[test]
fn codes_can_be_shared() {
    fn shared<T: Clone + Send + Sync + 'static>(_: &T) {}
    let code = Code::new(4, 2).unwrap();
    shared(&code);
    assert!(format!("{code:?}").starts_with("Code(4+2, "));
}

/// Multiplies bit by bit, as the polynomial says.
fn product(a: u8, b: u8) -> u8 {
    let mut sum = 0;
    let mut power = a;
    for bit in 0..8 {
        sum ^= if b >> bit & 1 != 0 { power } else { 0 };
        power = power << 1 ^ if power >> 7 != 0 { 0x1D } else { 0 };
    }
    sum
}

#[test]
fn coefficients_give_the_rows_that_the_operations_give() {
    let mut noise = Noise(47);
    for (k, m) in [(1, 2), (4, 0), (7, 1), (8, 4), (20, 10)] {
        let code = Code::new(k, m).unwrap();
        let data = noise.rows(k, 9);
        let rows = encoded(&code, data);
        let sum = |coefficients: &[u8], inputs: &[usize], at: usize| {
            let terms = coefficients.iter().zip(inputs).map(|(&c, &row)| product(c, rows[row][at]));
            terms.fold(0, |sum, term| sum ^ term)
        };
        let all: Vec<usize> = (0..k).collect();
        for (i, coefficients) in code.parity_coefficients().chunks(k).enumerate() {
            assert!((0..9).all(|at| sum(coefficients, &all, at) == rows[k + i][at]));
        }
        let lost = noise.distinct(m, k + m);
        let present: Vec<usize> = (0..k + m).filter(|row| !lost.contains(row)).collect();
        let (used, matrix) = code.decode_coefficients(&present, &lost).unwrap();
        for (row, coefficients) in lost.iter().zip(matrix.chunks(k)) {
            assert!((0..9).all(|at| sum(coefficients, &used, at) == rows[*row][at]));
        }
    }
    let code = Code::new(4, 2).unwrap();
    assert!(matches!(code.decode_coefficients(&[0, 1, 1, 2], &[3]), Err(Error::TooFewRows { .. })));
    assert!(matches!(code.decode_coefficients(&[0, 1, 2, 4], &[2]), Err(Error::Shape(_))));
    assert!(matches!(code.decode_coefficients(&[0, 1, 2, 4], &[3, 3]), Err(Error::Shape(_))));
    assert!(matches!(code.decode_coefficients(&[0, 1, 2, 6], &[3]), Err(Error::Shape(_))));
}
