//! Kernel for x86-64 with AVX2: a product is the sum of two 16-entry table look-ups, one per nibble,
//! and `VPSHUFB` does 32 of them at once (Plank, Greenan and Miller, FAST 2013).
//!
//! Must not run on a CPU without AVX2; `kernel` checks that.

use std::arch::x86_64::*;

use crate::lane::{Ahead, INPUTS, Lane, Mode, NOTHING, Pass, by_rows, sweep};

/// 256-bit vectors; an operand is a vector's low and high nibbles, a factor their two tables.
struct Shuffle;

impl Lane for Shuffle {
    type Vector = __m256i;
    type Operand = (__m256i, __m256i);
    type Factor = (__m256i, __m256i);
    const BYTES: usize = 32;
    const WORDS: usize = 4;
    const PAIRS: bool = false;

    #[inline(always)]
    fn ahead(rows: usize, columns: usize) -> Ahead {
        match columns {
            4..=8 if rows >= 2 => INPUTS,
            9.. if rows >= 4 => INPUTS,
            _ => NOTHING,
        }
    }

    #[inline(always)]
    unsafe fn zero() -> __m256i {
        // SAFETY: the trait's contract: the CPU has AVX2.
        unsafe { _mm256_setzero_si256() }
    }

    #[inline(always)]
    unsafe fn load(from: *const u8) -> __m256i {
        // SAFETY: the trait's contract: 32 readable bytes.
        unsafe { _mm256_loadu_si256(from.cast()) }
    }

    #[inline(always)]
    unsafe fn store(to: *mut u8, v: __m256i) {
        // SAFETY: the trait's contract: 32 writable bytes.
        unsafe { _mm256_storeu_si256(to.cast(), v) }
    }

    #[inline(always)]
    unsafe fn load_part(from: *const u8, n: usize) -> __m256i {
        let mut buffer = [0u8; 32];
        // SAFETY: `n < 32` readable bytes go into a buffer of 32.
        unsafe {
            std::ptr::copy_nonoverlapping(from, buffer.as_mut_ptr(), n);
            Self::load(buffer.as_ptr())
        }
    }

    #[inline(always)]
    unsafe fn store_part(to: *mut u8, v: __m256i, n: usize) {
        let mut buffer = [0u8; 32];
        // SAFETY: `n < 32` bytes of the buffer go to `n` writable bytes.
        unsafe {
            Self::store(buffer.as_mut_ptr(), v);
            std::ptr::copy_nonoverlapping(buffer.as_ptr(), to, n);
        }
    }

    #[inline(always)]
    unsafe fn xor(a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: the CPU has AVX2.
        unsafe { _mm256_xor_si256(a, b) }
    }

    #[inline(always)]
    unsafe fn xor3(a: __m256i, b: __m256i, c: __m256i) -> __m256i {
        // SAFETY: as above.
        unsafe { Self::xor(Self::xor(a, b), c) }
    }

    #[inline(always)]
    unsafe fn operand(v: __m256i) -> (__m256i, __m256i) {
        // SAFETY: the CPU has AVX2.
        unsafe {
            let mask = _mm256_set1_epi8(15);
            (_mm256_and_si256(v, mask), _mm256_and_si256(_mm256_srli_epi64::<4>(v), mask))
        }
    }

    #[inline(always)]
    unsafe fn factor(table: *const u64) -> (__m256i, __m256i) {
        // SAFETY: the table has an entry of 32 bytes here.
        unsafe {
            (
                _mm256_broadcastsi128_si256(_mm_loadu_si128(table.cast())),
                _mm256_broadcastsi128_si256(_mm_loadu_si128(table.add(2).cast())),
            )
        }
    }

    #[inline(always)]
    unsafe fn mul(f: (__m256i, __m256i), x: (__m256i, __m256i)) -> __m256i {
        // SAFETY: the CPU has AVX2.
        unsafe { Self::xor(_mm256_shuffle_epi8(f.0, x.0), _mm256_shuffle_epi8(f.1, x.1)) }
    }

    #[inline(always)]
    unsafe fn mul_add(sum: __m256i, f: (__m256i, __m256i), x: (__m256i, __m256i)) -> __m256i {
        // SAFETY: as above.
        unsafe { Self::xor(sum, Self::mul(f, x)) }
    }

    #[inline(always)]
    unsafe fn mul_add2(
        sum: __m256i,
        (f, x): ((__m256i, __m256i), (__m256i, __m256i)),
        (g, y): ((__m256i, __m256i), (__m256i, __m256i)),
    ) -> __m256i {
        // SAFETY: as above.
        unsafe { Self::mul_add(Self::mul_add(sum, f, x), g, y) }
    }
}

/// Runs a pass.
///
/// # Safety
/// The CPU must have AVX2, and `pass` must keep its invariants.
pub(crate) unsafe fn run(pass: &Pass) {
    // SAFETY: passed on.
    unsafe { by_rows!(sweep_rows, pass, 1 x 4, 2 x 4, 3 x 2, 4 x 2) }
}

#[target_feature(enable = "avx2")]
unsafe fn sweep_rows<const R: usize, const C: usize, const MODE: Mode>(pass: &Pass) {
    // SAFETY: the contract of `run`; the feature is enabled here.
    unsafe { sweep::<Shuffle, R, C, MODE>(pass) }
}
