//! The generator matrix and its inverses. **Part of the on-drive format.**
//!
//! Row `i < k` of the code is data row `i`; row `k + i` is parity row `i`, the sum over `j` of
//! `coefficient(i, j)` times data row `j`:
//!
//! - parity row 0: all ones, so plain XOR (RAID 5, mirrors for `k = 1`);
//! - parity row 1: `2^j` (the Q of RAID 6);
//! - parity row `i >= 2`: `(1 + z) t / (t + z)` with `t = 2^j` and `z = 2^-(i-1)`.
//!
//! The first column is all ones too. A coefficient depends on `i` and `j` alone, so a code with
//! fewer rows is a corner of every larger one.
//!
//! **Why any k rows suffice (MDS).** Give data row `j` the point `t_j = 2^j`, parity row 0 the point
//! 0, row 1 the point infinity and row `i` the point `z_i`. With `k + m <= 64` these are distinct
//! points of the projective line (exponents 0..=62 and -62..=-1 of 255). A projective map
//! that sends the unused point `w` to infinity, `p -> 1 / (p + w)`, makes them finite points `X_i`
//! and `Y_j`, and the matrix above is the Cauchy matrix `1 / (X_i + Y_j)` with its rows and columns
//! scaled by non-zero factors. Every square submatrix of a Cauchy matrix is invertible (Blömer et
//! al.), scaling does not change that, and it is exactly the MDS condition. The scaling is the one
//! that makes the first row and column ones. A test checks this construction entry by entry.
//!
//! Must not depend on: kernels, instruction sets.

use crate::MAX_ROWS;
use crate::field::{inverse, mul, power_of_two};

/// Factor of data row `j` in parity row `i`. Never 0. Both must be below [`MAX_ROWS`] - 1.
pub(crate) fn coefficient(i: usize, j: usize) -> u8 {
    assert!(i < MAX_ROWS - 1 && j < MAX_ROWS - 1);
    let t = power_of_two(j as i32);
    match i {
        0 => 1,
        1 => t,
        _ => {
            let z = power_of_two(-(i as i32 - 1));
            mul(mul(1 ^ z, t), inverse(t ^ z))
        }
    }
}

/// The `m` x `k` parity matrix, row by row.
pub(crate) fn parity_matrix(k: usize, m: usize) -> Vec<u8> {
    let rows = (0..m).flat_map(|i| (0..k).map(move |j| coefficient(i, j)));
    rows.collect()
}

/// The matrix that makes the `wanted` rows out of the `used` rows, one row per wanted row, one
/// column per used row.
///
/// `used` holds exactly `k` distinct row indices in ascending order, data rows before parity rows;
/// `wanted` any indices below `k + m`, none of them among `used`.
///
/// Only the lost data rows are solved for: with L the lost data rows, S the used parity rows and A
/// the parity matrix, `S = A[S][present] * present + A[S][L] * L`, so inverting the square
/// `A[S][L]` is enough (Plank's decoding, restricted to the unknowns). A lost parity row is then its
/// own row of A with the lost data substituted.
pub(crate) fn decode_matrix(k: usize, used: &[usize], wanted: &[usize]) -> Vec<u8> {
    assert!(used.len() == k && used.is_sorted());
    let present = used.iter().take_while(|&&row| row < k).count();
    let parity = &used[present..];
    let lost: Vec<usize> = (0..k).filter(|row| !used[..present].contains(row)).collect();
    assert_eq!(parity.len(), lost.len());

    let square = parity.iter().flat_map(|&row| lost.iter().map(move |&j| coefficient(row - k, j)));
    let inverted = invert(square.collect(), lost.len());

    // solved[l][c]: lost data row l as a combination of the used rows.
    let solved: Vec<Vec<u8>> = inverted
        .chunks(lost.len().max(1))
        .map(|row| {
            let from_data = used[..present].iter().map(|&j| {
                let terms = parity.iter().zip(row).map(|(&s, &f)| mul(f, coefficient(s - k, j)));
                terms.fold(0, |sum, term| sum ^ term)
            });
            from_data.chain(row.iter().copied()).collect()
        })
        .collect();

    let mut matrix = Vec::with_capacity(wanted.len() * k);
    for &row in wanted {
        if row < k {
            let at = lost.iter().position(|&l| l == row).expect("a wanted data row is lost");
            matrix.extend_from_slice(&solved[at]);
        } else {
            matrix.extend((0..k).map(|c| {
                let direct = if c < present { coefficient(row - k, used[c]) } else { 0 };
                let through = lost.iter().zip(&solved).map(|(&l, s)| mul(coefficient(row - k, l), s[c]));
                through.fold(direct, |sum, term| sum ^ term)
            }));
        }
    }
    matrix
}

/// Inverse of a `size` x `size` matrix by Gauss-Jordan elimination.
///
/// Panics if there is none, which the MDS property rules out for the matrices of this file.
fn invert(mut a: Vec<u8>, size: usize) -> Vec<u8> {
    let mut out = vec![0u8; size * size];
    for i in 0..size {
        out[i * size + i] = 1;
    }
    for column in 0..size {
        let pivot = (column..size).find(|&row| a[row * size + column] != 0);
        let pivot = pivot.expect("a submatrix of a Cauchy matrix is invertible");
        for c in 0..size {
            a.swap(pivot * size + c, column * size + c);
            out.swap(pivot * size + c, column * size + c);
        }
        let factor = inverse(a[column * size + column]);
        for c in 0..size {
            a[column * size + c] = mul(a[column * size + c], factor);
            out[column * size + c] = mul(out[column * size + c], factor);
        }
        for row in (0..size).filter(|&row| row != column) {
            let factor = a[row * size + column];
            for c in 0..size {
                a[row * size + c] ^= mul(factor, a[column * size + c]);
                out[row * size + c] ^= mul(factor, out[column * size + c]);
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The proof in the module comment, entry by entry, for every pair of data and parity rows that any code
    /// may have.
    #[test]
    fn matrix_is_scaled_cauchy() {
        let w = power_of_two(100);
        let finite = |point: Option<u8>| point.map_or(0, |p| inverse(p ^ w));
        let x = |i: usize| match i {
            0 => finite(Some(0)),
            1 => finite(None),
            _ => finite(Some(power_of_two(-(i as i32 - 1)))),
        };
        let y = |j: usize| finite(Some(power_of_two(j as i32)));
        let points = (0..63).map(x).chain((0..63).map(y));
        let mut seen = std::collections::HashSet::new();
        for point in points {
            assert!(seen.insert(point), "points must be distinct");
        }
        // Scaled Cauchy: what is left after dividing by 1 / (X_i + Y_j) is a product of a row factor
        // and a column factor, none of them 0.
        let scale = |i: usize, j: usize| mul(coefficient(i, j), x(i) ^ y(j));
        for i in 0..63 {
            for j in 0..63 {
                assert_ne!(scale(i, j), 0);
                assert_eq!(mul(scale(i, j), scale(0, 0)), mul(scale(i, 0), scale(0, j)));
            }
        }
    }

    #[test]
    fn first_rows_are_raid() {
        for j in 0..63 {
            assert_eq!(coefficient(0, j), 1);
            assert_eq!(coefficient(1, j), power_of_two(j as i32));
            assert_eq!(coefficient(j, 0), 1);
        }
    }

    #[test]
    fn inverse_times_matrix_is_identity() {
        for size in 0..=32 {
            let a: Vec<u8> = (0..size * size)
                .map(|at| coefficient(31 - at / size.max(1) % 32, at % size.max(1)))
                .collect();
            let b = invert(a.clone(), size);
            for r in 0..size {
                for c in 0..size {
                    let sum = (0..size).fold(0, |s, i| s ^ mul(a[r * size + i], b[i * size + c]));
                    assert_eq!(sum, u8::from(r == c));
                }
            }
        }
    }
}
