//! The generator matrix is part of the on-drive format. If one of these tests fails, every object
//! written before is lost: do not change the expected bytes, undo what changed the code.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests run in real time")]

mod common;

use ashlar_erasure::Code;
use common::{Noise, encoded};

/// The parity matrix, read off by encoding the unit vectors: column j of row i is byte j.
fn matrix(k: usize, m: usize) -> Vec<Vec<u8>> {
    let code = Code::new(k, m).unwrap();
    let units = (0..k).map(|j| (0..k).map(|c| u8::from(c == j)).collect()).collect();
    encoded(&code, units).split_off(k)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// FNV-1a, 64 bits: enough to notice any change.
fn digest(rows: &[Vec<u8>]) -> u64 {
    rows.iter()
        .flatten()
        .fold(0xcbf2_9ce4_8422_2325, |h, &b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3))
}

#[test]
fn fault_matrix_sample() {
    let want: [&str; 8] = [
        "01010101010101010101010101010101",
        "01020408102040801d3a74e8cd871326",
        "01f5d2c49a71f17ffc87c1c6192f4055",
        "01bba6d7c707ce824a2fa59bb660f1ad",
        "01977f9c7c18bda2581ada7470a3e547",
        "012b3fcf732cd6edcb7415788ac117c9",
        "01e018c8eaec392d23ab7c10d33fb9ce",
        "01fd1b89f1535e86f47e5dda2b8163c8",
    ];
    let rows: Vec<String> = matrix(16, 8).iter().map(|row| hex(row)).collect();
    assert_eq!(rows, want);
}

#[test]
fn full_fault_matrix() {
    let shapes = [
        (32, 32, 0xa980_74fe_42d7_13dc),
        (63, 1, 0x0ece_284e_fcc2_2986),
        (1, 63, 0x0ece_284e_fcc2_2986),
        (62, 2, 0x3a88_00e2_1653_90ed),
        (60, 4, 0xf6a1_458a_60ab_13fc),
        (48, 16, 0x06ed_7662_b3fa_09c8),
        (16, 48, 0xc95d_22ef_cd75_e5dd),
        (12, 4, 0xc19c_61dd_0e33_5718),
    ];
    for (k, m, want) in shapes {
        let got = digest(&matrix(k, m));
        assert_eq!(got, want, "{k}+{m}: {got:#x}");
    }
}

#[test]
fn smaller_codes_are_corners_of_larger_ones() {
    let large = matrix(32, 32);
    for (k, m) in [(1, 1), (2, 2), (4, 2), (12, 4), (14, 4), (8, 8), (32, 1), (1, 32), (31, 31)] {
        for (i, row) in matrix(k, m).iter().enumerate() {
            assert_eq!(row[..], large[i][..k]);
        }
    }
}

#[test]
fn parity_of_known_data() {
    let code = Code::new(4, 3).unwrap();
    let data = (0..4).map(|j| (0..8).map(|b| (16 * j + b) as u8).collect()).collect();
    let parity: Vec<String> = encoded(&code, data)[4..].iter().map(|row| hex(row)).collect();
    assert_eq!(parity, ["0000000000000000", "3d32232c010e1f10", "cd2f14f66280bb59"]);

    let code = Code::new(12, 4).unwrap();
    assert_eq!(digest(&encoded(&code, Noise(2024).rows(12, 1000))), 0x9db0_3df0_b323_5700);
}
