//! Kernel for x86-64 with SSSE3: a product is the sum of two 16-entry table look-ups, one per nibble,
//! and `PSHUFB` does 16 of them at once (Plank, Greenan and Miller, FAST 2013).
//!
//! Must not run on a CPU without SSSE3; `kernel` checks that.

use std::arch::x86_64::*;

use crate::lane::{Lane, Mode, Pass, by_rows, sweep};

/// 128-bit vectors; an operand is a vector's low and high nibbles, a factor their two tables.
struct Shuffle;

impl Lane for Shuffle {
    type Vector = __m128i;
    type Operand = (__m128i, __m128i);
    type Factor = (__m128i, __m128i);
    const BYTES: usize = 16;
    const WORDS: usize = 4;
    const PAIRS: bool = false;

    #[inline(always)]
    unsafe fn zero() -> __m128i {
        // SAFETY: the trait's contract: the CPU has SSSE3.
        unsafe { _mm_setzero_si128() }
    }

    #[inline(always)]
    unsafe fn load(from: *const u8) -> __m128i {
        // SAFETY: the trait's contract: 16 readable bytes.
        unsafe { _mm_loadu_si128(from.cast()) }
    }

    #[inline(always)]
    unsafe fn store(to: *mut u8, v: __m128i) {
        // SAFETY: the trait's contract: 16 writable bytes.
        unsafe { _mm_storeu_si128(to.cast(), v) }
    }

    #[inline(always)]
    unsafe fn load_part(from: *const u8, n: usize) -> __m128i {
        let mut buffer = [0u8; 16];
        // SAFETY: `n < 16` readable bytes go into a buffer of 16.
        unsafe {
            std::ptr::copy_nonoverlapping(from, buffer.as_mut_ptr(), n);
            Self::load(buffer.as_ptr())
        }
    }

    #[inline(always)]
    unsafe fn store_part(to: *mut u8, v: __m128i, n: usize) {
        let mut buffer = [0u8; 16];
        // SAFETY: `n < 16` bytes of the buffer go to `n` writable bytes.
        unsafe {
            Self::store(buffer.as_mut_ptr(), v);
            std::ptr::copy_nonoverlapping(buffer.as_ptr(), to, n);
        }
    }

    #[inline(always)]
    unsafe fn xor(a: __m128i, b: __m128i) -> __m128i {
        // SAFETY: the CPU has SSSE3.
        unsafe { _mm_xor_si128(a, b) }
    }

    #[inline(always)]
    unsafe fn xor3(a: __m128i, b: __m128i, c: __m128i) -> __m128i {
        // SAFETY: as above.
        unsafe { Self::xor(Self::xor(a, b), c) }
    }

    #[inline(always)]
    unsafe fn operand(v: __m128i) -> (__m128i, __m128i) {
        // SAFETY: the CPU has SSSE3.
        unsafe {
            let mask = _mm_set1_epi8(15);
            (_mm_and_si128(v, mask), _mm_and_si128(_mm_srli_epi64::<4>(v), mask))
        }
    }

    #[inline(always)]
    unsafe fn factor(table: *const u64) -> (__m128i, __m128i) {
        // SAFETY: the table has an entry of 32 bytes here.
        unsafe { (_mm_loadu_si128(table.cast()), _mm_loadu_si128(table.add(2).cast())) }
    }

    #[inline(always)]
    unsafe fn mul(f: (__m128i, __m128i), x: (__m128i, __m128i)) -> __m128i {
        // SAFETY: the CPU has SSSE3.
        unsafe { Self::xor(_mm_shuffle_epi8(f.0, x.0), _mm_shuffle_epi8(f.1, x.1)) }
    }

    #[inline(always)]
    unsafe fn mul_add(sum: __m128i, f: (__m128i, __m128i), x: (__m128i, __m128i)) -> __m128i {
        // SAFETY: as above.
        unsafe { Self::xor(sum, Self::mul(f, x)) }
    }

    #[inline(always)]
    unsafe fn mul_add2(
        sum: __m128i,
        (f, x): ((__m128i, __m128i), (__m128i, __m128i)),
        (g, y): ((__m128i, __m128i), (__m128i, __m128i)),
    ) -> __m128i {
        // SAFETY: as above.
        unsafe { Self::mul_add(Self::mul_add(sum, f, x), g, y) }
    }
}

/// Runs a pass.
///
/// # Safety
/// The CPU must have SSSE3, and `pass` must keep its invariants.
pub(crate) unsafe fn run(pass: &Pass) {
    // SAFETY: passed on.
    unsafe { by_rows!(sweep_rows, pass, 1 x 4, 2 x 4, 3 x 2, 4 x 2) }
}

#[target_feature(enable = "ssse3")]
unsafe fn sweep_rows<const R: usize, const C: usize, const MODE: Mode>(pass: &Pass) {
    // SAFETY: the contract of `run`; the feature is enabled here.
    unsafe { sweep::<Shuffle, R, C, MODE>(pass) }
}
