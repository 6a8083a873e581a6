//! Kernels for x86-64 with GFNI: `GF2P8AFFINEQB` multiplies a vector by a constant in one
//! instruction, once with 256-bit vectors (AVX2) and once with 512-bit ones (AVX-512 F and BW).
//!
//! Must not run on a CPU without those features; `kernel` checks that.

use std::arch::x86_64::*;

use crate::lane::{Ahead, INPUTS, Lane, Mode, NOTHING, OUTPUTS, Pass, by_rows, sweep};

/// 512-bit vectors.
struct Wide;

impl Lane for Wide {
    type Vector = __m512i;
    type Operand = __m512i;
    type Factor = __m512i;
    const BYTES: usize = 64;
    const WORDS: usize = 1;
    const PAIRS: bool = true;

    #[inline(always)]
    fn ahead(rows: usize, columns: usize) -> Ahead {
        match columns {
            2..=4 if rows >= 2 => OUTPUTS,
            8..=12 if rows >= 4 => INPUTS,
            _ => NOTHING,
        }
    }

    #[inline(always)]
    unsafe fn zero() -> __m512i {
        // SAFETY: the trait's contract: the CPU has AVX-512.
        unsafe { _mm512_setzero_si512() }
    }

    #[inline(always)]
    unsafe fn load(from: *const u8) -> __m512i {
        // SAFETY: the trait's contract: 64 readable bytes.
        unsafe { _mm512_loadu_si512(from.cast()) }
    }

    #[inline(always)]
    unsafe fn store(to: *mut u8, v: __m512i) {
        // SAFETY: the trait's contract: 64 writable bytes.
        unsafe { _mm512_storeu_si512(to.cast(), v) }
    }

    #[inline(always)]
    unsafe fn load_part(from: *const u8, n: usize) -> __m512i {
        // SAFETY: the mask keeps the load within `n` readable bytes.
        unsafe { _mm512_maskz_loadu_epi8((1 << n) - 1, from.cast()) }
    }

    #[inline(always)]
    unsafe fn store_part(to: *mut u8, v: __m512i, n: usize) {
        // SAFETY: the mask keeps the store within `n` writable bytes.
        unsafe { _mm512_mask_storeu_epi8(to.cast(), (1 << n) - 1, v) }
    }

    #[inline(always)]
    unsafe fn xor(a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: the CPU has AVX-512.
        unsafe { _mm512_xor_si512(a, b) }
    }

    #[inline(always)]
    unsafe fn xor3(a: __m512i, b: __m512i, c: __m512i) -> __m512i {
        // SAFETY: the CPU has AVX-512. 0x96 is the truth table of a three-way XOR.
        unsafe { _mm512_ternarylogic_epi64::<0x96>(a, b, c) }
    }

    #[inline(always)]
    unsafe fn operand(v: __m512i) -> __m512i {
        v
    }

    #[inline(always)]
    unsafe fn factor(table: *const u64) -> __m512i {
        // SAFETY: the table has an entry here.
        unsafe { _mm512_set1_epi64(*table as i64) }
    }

    #[inline(always)]
    unsafe fn mul(f: __m512i, x: __m512i) -> __m512i {
        // SAFETY: the CPU has GFNI and AVX-512.
        unsafe { _mm512_gf2p8affine_epi64_epi8::<0>(x, f) }
    }

    #[inline(always)]
    unsafe fn mul_add(sum: __m512i, f: __m512i, x: __m512i) -> __m512i {
        // SAFETY: as above.
        unsafe { Self::xor(sum, Self::mul(f, x)) }
    }

    #[inline(always)]
    unsafe fn mul_add2(sum: __m512i, (f, x): (__m512i, __m512i), (g, y): (__m512i, __m512i)) -> __m512i {
        // SAFETY: as above.
        unsafe { Self::xor3(sum, Self::mul(f, x), Self::mul(g, y)) }
    }
}

/// Runs a pass with 512-bit vectors.
///
/// # Safety
/// The CPU must have GFNI, AVX-512 F and AVX-512 BW, and `pass` must keep its invariants.
pub(crate) unsafe fn run_512(pass: &Pass) {
    // SAFETY: passed on.
    unsafe { by_rows!(sweep_512, pass, 1 x 4, 2 x 4, 3 x 4, 4 x 4, 5 x 2, 6 x 2) }
}

#[target_feature(enable = "gfni,avx512f,avx512bw")]
unsafe fn sweep_512<const R: usize, const C: usize, const MODE: Mode>(pass: &Pass) {
    // SAFETY: the contract of `run_512`; the features are enabled here.
    unsafe { sweep::<Wide, R, C, MODE>(pass) }
}

/// 256-bit vectors.
struct Narrow;

impl Lane for Narrow {
    type Vector = __m256i;
    type Operand = __m256i;
    type Factor = __m256i;
    const BYTES: usize = 32;
    const WORDS: usize = 1;
    const PAIRS: bool = false;

    #[inline(always)]
    fn ahead(rows: usize, columns: usize) -> Ahead {
        match columns {
            4..=8 if rows >= 2 => INPUTS,
            9..=12 if rows >= 4 => INPUTS,
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
    unsafe fn operand(v: __m256i) -> __m256i {
        v
    }

    #[inline(always)]
    unsafe fn factor(table: *const u64) -> __m256i {
        // SAFETY: the table has an entry here.
        unsafe { _mm256_set1_epi64x(*table as i64) }
    }

    #[inline(always)]
    unsafe fn mul(f: __m256i, x: __m256i) -> __m256i {
        // SAFETY: the CPU has GFNI and AVX.
        unsafe { _mm256_gf2p8affine_epi64_epi8::<0>(x, f) }
    }

    #[inline(always)]
    unsafe fn mul_add(sum: __m256i, f: __m256i, x: __m256i) -> __m256i {
        // SAFETY: as above.
        unsafe { Self::xor(sum, Self::mul(f, x)) }
    }

    #[inline(always)]
    unsafe fn mul_add2(sum: __m256i, (f, x): (__m256i, __m256i), (g, y): (__m256i, __m256i)) -> __m256i {
        // SAFETY: as above.
        unsafe { Self::mul_add(Self::mul_add(sum, f, x), g, y) }
    }
}

/// Runs a pass with 256-bit vectors.
///
/// # Safety
/// The CPU must have GFNI and AVX2, and `pass` must keep its invariants.
pub(crate) unsafe fn run_256(pass: &Pass) {
    // SAFETY: passed on.
    unsafe { by_rows!(sweep_256, pass, 1 x 4, 2 x 4, 3 x 2, 4 x 2) }
}

#[target_feature(enable = "gfni,avx2")]
unsafe fn sweep_256<const R: usize, const C: usize, const MODE: Mode>(pass: &Pass) {
    // SAFETY: the contract of `run_256`; the features are enabled here.
    unsafe { sweep::<Narrow, R, C, MODE>(pass) }
}
