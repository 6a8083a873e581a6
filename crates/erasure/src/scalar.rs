//! The naive twin: one output row, one input row, one byte at a time. No tricks and no `unsafe`, so
//! that it can be believed by reading it. All other kernels are tested against it; it also serves
//! CPUs with no kernel of their own.

use crate::field::PRODUCT;

/// `out[r] = sum of matrix[r][c] * inputs[c]`, added to what is there if `accumulate`.
///
/// `matrix` holds one row of coefficients per output, one column per input. Rows must be equally
/// long.
pub(crate) fn run(matrix: &[u8], inputs: &[&[u8]], outputs: &mut [&mut [u8]], accumulate: bool) {
    for (row, out) in outputs.iter_mut().enumerate() {
        if !accumulate {
            out.fill(0);
        }
        for (column, input) in inputs.iter().enumerate() {
            let products = &PRODUCT[matrix[row * inputs.len() + column] as usize];
            for (to, &from) in out.iter_mut().zip(*input) {
                *to ^= products[from as usize];
            }
        }
    }
}
