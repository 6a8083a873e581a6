//! The reference kernel: one output row, one input row, one byte at a time, without `unsafe`, so that it can
//! be verified by reading. All other kernels are tested against it; it also serves CPUs without a kernel of
//! their own.
//!
//! Must not depend on: instruction sets.

use crate::field::PRODUCT;

/// `to += factor * from`, byte by byte. Rows must be equally long.
pub(crate) fn mul_add(to: &mut [u8], factor: u8, from: &[u8]) {
    assert_eq!(to.len(), from.len());
    let products = &PRODUCT[factor as usize];
    for (to, &from) in to.iter_mut().zip(from) {
        *to ^= products[from as usize];
    }
}
