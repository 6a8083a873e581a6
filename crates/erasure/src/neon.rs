//! Kernel for AArch64 with NEON: a product is the sum of two 16-entry table look-ups, one per nibble,
//! and `TBL` does 16 of them at once (Plank, Greenan and Miller, FAST 2013).
//!
//! Must not run on a CPU without NEON; `kernel` checks that.

use std::arch::aarch64::*;

use crate::lane::{Lane, Mode, Pass, by_rows, sweep};

/// 128-bit vectors; an operand is a vector's low and high nibbles, a factor their two tables.
struct Lookup;

impl Lane for Lookup {
    type Vector = uint8x16_t;
    type Operand = (uint8x16_t, uint8x16_t);
    type Factor = (uint8x16_t, uint8x16_t);
    const BYTES: usize = 16;
    const WORDS: usize = 4;
    const PAIRS: bool = false;

    #[inline(always)]
    unsafe fn zero() -> uint8x16_t {
        // SAFETY: the trait's contract: the CPU has NEON.
        unsafe { vdupq_n_u8(0) }
    }

    #[inline(always)]
    unsafe fn load(from: *const u8) -> uint8x16_t {
        // SAFETY: the trait's contract: 16 readable bytes.
        unsafe { vld1q_u8(from) }
    }

    #[inline(always)]
    unsafe fn store(to: *mut u8, v: uint8x16_t) {
        // SAFETY: the trait's contract: 16 writable bytes.
        unsafe { vst1q_u8(to, v) }
    }

    #[inline(always)]
    unsafe fn load_part(from: *const u8, n: usize) -> uint8x16_t {
        let mut buffer = [0u8; 16];
        // SAFETY: `n < 16` readable bytes go into a buffer of 16.
        unsafe {
            std::ptr::copy_nonoverlapping(from, buffer.as_mut_ptr(), n);
            Self::load(buffer.as_ptr())
        }
    }

    #[inline(always)]
    unsafe fn store_part(to: *mut u8, v: uint8x16_t, n: usize) {
        let mut buffer = [0u8; 16];
        // SAFETY: `n < 16` bytes of the buffer go to `n` writable bytes.
        unsafe {
            Self::store(buffer.as_mut_ptr(), v);
            std::ptr::copy_nonoverlapping(buffer.as_ptr(), to, n);
        }
    }

    #[inline(always)]
    unsafe fn xor(a: uint8x16_t, b: uint8x16_t) -> uint8x16_t {
        // SAFETY: the CPU has NEON.
        unsafe { veorq_u8(a, b) }
    }

    #[inline(always)]
    unsafe fn xor3(a: uint8x16_t, b: uint8x16_t, c: uint8x16_t) -> uint8x16_t {
        // SAFETY: as above.
        unsafe { Self::xor(Self::xor(a, b), c) }
    }

    #[inline(always)]
    unsafe fn operand(v: uint8x16_t) -> (uint8x16_t, uint8x16_t) {
        // SAFETY: the CPU has NEON.
        unsafe { (vandq_u8(v, vdupq_n_u8(15)), vshrq_n_u8::<4>(v)) }
    }

    #[inline(always)]
    unsafe fn factor(table: *const u64) -> (uint8x16_t, uint8x16_t) {
        // SAFETY: the table has an entry of 32 bytes here.
        unsafe { (vld1q_u8(table.cast()), vld1q_u8(table.add(2).cast())) }
    }

    #[inline(always)]
    unsafe fn mul(f: (uint8x16_t, uint8x16_t), x: (uint8x16_t, uint8x16_t)) -> uint8x16_t {
        // SAFETY: the CPU has NEON.
        unsafe { Self::xor(vqtbl1q_u8(f.0, x.0), vqtbl1q_u8(f.1, x.1)) }
    }

    #[inline(always)]
    unsafe fn mul_add(
        sum: uint8x16_t,
        f: (uint8x16_t, uint8x16_t),
        x: (uint8x16_t, uint8x16_t),
    ) -> uint8x16_t {
        // SAFETY: as above.
        unsafe { Self::xor(sum, Self::mul(f, x)) }
    }

    #[inline(always)]
    unsafe fn mul_add2(
        sum: uint8x16_t,
        (f, x): ((uint8x16_t, uint8x16_t), (uint8x16_t, uint8x16_t)),
        (g, y): ((uint8x16_t, uint8x16_t), (uint8x16_t, uint8x16_t)),
    ) -> uint8x16_t {
        // SAFETY: as above.
        unsafe { Self::mul_add(Self::mul_add(sum, f, x), g, y) }
    }
}

/// Runs a pass.
///
/// # Safety
/// The CPU must have NEON, and `pass` must keep its invariants.
pub(crate) unsafe fn run(pass: &Pass) {
    // SAFETY: passed on.
    unsafe { by_rows!(sweep_rows, pass, 1 x 4, 2 x 4, 3 x 2, 4 x 2) }
}

#[target_feature(enable = "neon")]
unsafe fn sweep_rows<const R: usize, const C: usize, const MODE: Mode>(pass: &Pass) {
    // SAFETY: the contract of `run`; the feature is enabled here.
    unsafe { sweep::<Lookup, R, C, MODE>(pass) }
}
