//! The arithmetic of the kernels on the CPU against `ashlar_erasure`: every byte, for the codes of the measurements
//! and for random codes and losses.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests run in real time")]

mod common;

use ashlar_gpu::{Matrix, Program, run_tables};
use common::{CODES, Case, Noise, decoding, encoding};

/// Bytes of a row in these tests.
const LEN: usize = 64;

fn word(row: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(row[at..at + 4].try_into().unwrap())
}

fn check_program(case: &Case) {
    let program = Program::new(&case.matrix);
    for at in (0..LEN).step_by(4) {
        let words: Vec<u32> = case.inputs.iter().map(|row| word(row, at)).collect();
        let expected: Vec<u32> = case.outputs.iter().map(|row| word(row, at)).collect();
        assert_eq!(program.run(&words), expected, "{}", case.name);
    }
}

fn check_tables(case: &Case) {
    for at in (0..LEN).step_by(8) {
        let pair = |row: &Vec<u8>| [word(row, at), word(row, at + 4)];
        let words: Vec<[u32; 2]> = case.inputs.iter().map(pair).collect();
        let expected: Vec<[u32; 2]> = case.outputs.iter().map(pair).collect();
        assert_eq!(run_tables(&case.matrix, &words), expected, "{}", case.name);
    }
}

#[test]
fn twins_encode_and_reconstruct_the_measured_codes() {
    let mut noise = Noise(1);
    for (k, m) in CODES {
        let mut cases = vec![encoding(k, m, LEN, &mut noise)];
        cases.extend((1..=m).map(|lost| decoding(k, m, lost, LEN, &mut noise)));
        for case in &cases {
            check_program(case);
            check_tables(case);
        }
    }
}

#[test]
fn twins_encode_and_reconstruct_random_codes() {
    let mut noise = Noise(2);
    for _ in 0..300 {
        let k = 1 + noise.below(48);
        let m = 1 + noise.below(64 - k).min(20);
        let lost = 1 + noise.below(m);
        for case in [encoding(k, m, LEN, &mut noise), decoding(k, m, lost, LEN, &mut noise)] {
            check_program(&case);
            check_tables(&case);
        }
    }
}

#[test]
fn rows_of_zeros_and_ones_are_programs_too() {
    let matrix = Matrix::new(3, 2, vec![0, 0, 1, 0, 0, 0x80]).unwrap();
    let made = Program::new(&matrix).run(&[0x01020304, 0x01000002]);
    assert_eq!(made, [0, 0x01020304, 0x80000000 | 0x1D]);
    let made = run_tables(&matrix, &[[0x01020304, 5], [0x01000002, 1]]);
    assert_eq!(made, [[0, 0], [0x01020304, 5], [0x80000000 | 0x1D, 0x80]]);
}

#[test]
fn impossible_matrices_are_refused() {
    for (outputs, inputs, count) in [(0, 4, 0), (1, 0, 0), (2, 2, 3), (65, 1, 65), (1, 65, 65)] {
        assert!(Matrix::new(outputs, inputs, vec![1; count]).is_err(), "{outputs} x {inputs}");
    }
    let code = ashlar_erasure::Code::new(4, 2).unwrap();
    assert!(Matrix::decode(&code, &[0, 1, 2], &[3]).is_err());
    assert!(Matrix::encode(&ashlar_erasure::Code::new(4, 0).unwrap()).is_err());
}
