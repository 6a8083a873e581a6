//! MD5 lanes for x86-64: SSE2 (four), AVX2 (eight), AVX-512VL (eight, with rotation and
//! three-input logic in one instruction each).
//!
//! AVX-512VL uses 256-bit registers: the dependency chain limits the speed, not the width, and narrow
//! registers do not lower the processor's clock. 512-bit registers, and two of them side by side for 32
//! messages, were measured and save too little (docs/decisions/0082-hash-lanes.md).
//!
//! A lone message is hashed in one lane of a vector register where a rotation takes one cycle (Intel): a step
//! is shorter by what the three-input logic saves. On Zen 4, where it takes two, plain registers are faster.
//!
//! Must not depend on: streams, scheduling.

use std::arch::x86_64::*;

use super::compress::Lane;

/// Four messages with SSE2, which every x86-64 has.
#[derive(Clone, Copy)]
pub(super) struct Sse2(__m128i);

/// Eight messages with AVX2.
#[derive(Clone, Copy)]
pub(super) struct Avx2(__m256i);

/// Eight messages with AVX-512VL on 256-bit registers.
#[derive(Clone, Copy)]
pub(super) struct Avx512(__m256i);

/// One message with AVX-512VL, in the lowest lane of a 128-bit register.
#[derive(Clone, Copy)]
pub(super) struct Avx512One(__m128i);

/// Whether [`Avx512One`] is faster than plain registers on this processor, which has AVX-512VL.
pub(super) fn rotates_in_one_cycle() -> bool {
    let vendor = __cpuid(0);
    [vendor.ebx, vendor.edx, vendor.ecx].map(u32::to_le_bytes).as_flattened() == b"GenuineIntel"
}

/// `d ^ (b & (c ^ d))`, as a table of three inputs for `vpternlogd`.
const F: i32 = 0xca;
/// `c ^ (d & (b ^ c))`.
const G: i32 = 0xe4;
/// `b ^ c ^ d`.
const H: i32 = 0x96;
/// `c ^ (b | !d)`.
const I: i32 = 0x39;

// SAFETY of every block of the implementations below: the intrinsics need the instruction set that
// the trait makes the caller promise; loads and stores are the unaligned ones, within the words
// that the trait makes the caller promise.

macro_rules! plain_logic {
    ($add:ident $and:ident $andnot:ident $or:ident $xor:ident $sll:ident $srl:ident $set1:ident) => {
        #[inline(always)]
        unsafe fn add(self, other: Self) -> Self {
            // SAFETY: see above.
            unsafe { Self($add(self.0, other.0)) }
        }

        #[inline(always)]
        unsafe fn rotate<const L: i32, const R: i32>(self) -> Self {
            // SAFETY: see above.
            unsafe { Self($or($sll::<L>(self.0), $srl::<R>(self.0))) }
        }

        #[inline(always)]
        unsafe fn add_f(acc: Self, b: Self, c: Self, d: Self) -> Self {
            // SAFETY: see above.
            unsafe { Self($add(acc.0, $xor(d.0, $and(b.0, $xor(c.0, d.0))))) }
        }

        #[inline(always)]
        unsafe fn add_g(acc: Self, b: Self, c: Self, d: Self) -> Self {
            // SAFETY: see above.
            unsafe { Self($add($add(acc.0, $andnot(d.0, c.0)), $and(b.0, d.0))) }
        }

        #[inline(always)]
        unsafe fn add_h(acc: Self, b: Self, c: Self, d: Self) -> Self {
            // SAFETY: see above.
            unsafe { Self($add(acc.0, $xor(b.0, $xor(c.0, d.0)))) }
        }

        #[inline(always)]
        unsafe fn add_i(acc: Self, b: Self, c: Self, d: Self) -> Self {
            // SAFETY: see above.
            unsafe { Self($add(acc.0, $xor(c.0, $or(b.0, $xor(d.0, $set1(-1)))))) }
        }
    };
}

macro_rules! ternary_logic {
    ($add:ident $rol:ident $ternary:ident) => {
        #[inline(always)]
        unsafe fn add(self, other: Self) -> Self {
            // SAFETY: see above.
            unsafe { Self($add(self.0, other.0)) }
        }

        #[inline(always)]
        unsafe fn rotate<const L: i32, const R: i32>(self) -> Self {
            // SAFETY: see above.
            unsafe { Self($rol::<L>(self.0)) }
        }

        #[inline(always)]
        unsafe fn add_f(acc: Self, b: Self, c: Self, d: Self) -> Self {
            // SAFETY: see above.
            unsafe { Self($add(acc.0, $ternary::<F>(b.0, c.0, d.0))) }
        }

        #[inline(always)]
        unsafe fn add_g(acc: Self, b: Self, c: Self, d: Self) -> Self {
            // SAFETY: see above.
            unsafe { Self($add(acc.0, $ternary::<G>(b.0, c.0, d.0))) }
        }

        #[inline(always)]
        unsafe fn add_h(acc: Self, b: Self, c: Self, d: Self) -> Self {
            // SAFETY: see above.
            unsafe { Self($add(acc.0, $ternary::<H>(b.0, c.0, d.0))) }
        }

        #[inline(always)]
        unsafe fn add_i(acc: Self, b: Self, c: Self, d: Self) -> Self {
            // SAFETY: see above.
            unsafe { Self($add(acc.0, $ternary::<I>(b.0, c.0, d.0))) }
        }
    };
}

macro_rules! eight_wide {
    () => {
        const WIDTH: usize = 8;

        #[inline(always)]
        unsafe fn splat(value: u32) -> Self {
            // SAFETY: see above.
            unsafe { Self(_mm256_set1_epi32(value as i32)) }
        }

        #[inline(always)]
        unsafe fn load(from: *const u32) -> Self {
            // SAFETY: see above.
            unsafe { Self(_mm256_loadu_si256(from.cast())) }
        }

        #[inline(always)]
        unsafe fn store(self, to: *mut u32) {
            // SAFETY: see above.
            unsafe { _mm256_storeu_si256(to.cast(), self.0) }
        }

        #[inline(always)]
        unsafe fn words(from: *const *const u8, offset: usize) -> [Self; 16] {
            // SAFETY: see above.
            let (low, high) = unsafe { (transpose8(from, offset), transpose8(from, offset + 32)) };
            std::array::from_fn(|i| Self(if i < 8 { low[i] } else { high[i - 8] }))
        }
    };
}

impl Lane for Avx2 {
    eight_wide!();
    plain_logic!(_mm256_add_epi32 _mm256_and_si256 _mm256_andnot_si256 _mm256_or_si256
        _mm256_xor_si256 _mm256_slli_epi32 _mm256_srli_epi32 _mm256_set1_epi32);
}

impl Lane for Avx512 {
    eight_wide!();
    ternary_logic!(_mm256_add_epi32 _mm256_rol_epi32 _mm256_ternarylogic_epi32);
}

impl Lane for Avx512One {
    const WIDTH: usize = 1;

    #[inline(always)]
    unsafe fn splat(value: u32) -> Self {
        // SAFETY: see above.
        unsafe { Self(_mm_set1_epi32(value as i32)) }
    }

    #[inline(always)]
    unsafe fn load(from: *const u32) -> Self {
        // SAFETY: see above.
        unsafe { Self::splat(from.read_unaligned()) }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u32) {
        // SAFETY: see above.
        unsafe { to.write_unaligned(_mm_cvtsi128_si32(self.0) as u32) }
    }

    ternary_logic!(_mm_add_epi32 _mm_rol_epi32 _mm_ternarylogic_epi32);

    #[inline(always)]
    unsafe fn words(from: *const *const u8, offset: usize) -> [Self; 16] {
        // SAFETY: see above. A loop, because a closure would not have the instruction set. Each word becomes
        // a broadcast operand of its addition.
        unsafe {
            let block = (*from).add(offset).cast::<u32>();
            let mut words = [Self::splat(0); 16];
            for (i, word) in words.iter_mut().enumerate() {
                *word = Self::load(block.add(i));
            }
            words
        }
    }
}

impl Lane for Sse2 {
    const WIDTH: usize = 4;

    #[inline(always)]
    unsafe fn splat(value: u32) -> Self {
        // SAFETY: see above.
        unsafe { Self(_mm_set1_epi32(value as i32)) }
    }

    #[inline(always)]
    unsafe fn load(from: *const u32) -> Self {
        // SAFETY: see above.
        unsafe { Self(_mm_loadu_si128(from.cast())) }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u32) {
        // SAFETY: see above.
        unsafe { _mm_storeu_si128(to.cast(), self.0) }
    }

    plain_logic!(_mm_add_epi32 _mm_and_si128 _mm_andnot_si128 _mm_or_si128
        _mm_xor_si128 _mm_slli_epi32 _mm_srli_epi32 _mm_set1_epi32);

    #[inline(always)]
    unsafe fn words(from: *const *const u8, offset: usize) -> [Self; 16] {
        // SAFETY: see above; four times four words of each block.
        unsafe {
            let quarters = [
                transpose4(from, offset),
                transpose4(from, offset + 16),
                transpose4(from, offset + 32),
                transpose4(from, offset + 48),
            ];
            std::array::from_fn(|i| Self(quarters[i / 4][i % 4]))
        }
    }
}

/// Word `i` of eight messages in vector `i`: eight words of each, from `offset`.
///
/// # Safety
/// AVX2 is enabled; eight pointers are readable, and 32 bytes from `offset` of each.
#[inline(always)]
unsafe fn transpose8(from: *const *const u8, offset: usize) -> [__m256i; 8] {
    // SAFETY: as promised by the caller.
    unsafe {
        let (near, far) = (transpose8_half(from, offset), transpose8_half(from, offset + 16));
        [near[0], near[1], near[2], near[3], far[0], far[1], far[2], far[3]]
    }
}

/// Word `i` of eight messages in vector `i`: four words of each, from `offset`.
///
/// # Safety
/// AVX2 is enabled; eight pointers are readable, and 16 bytes from `offset` of each.
#[inline(always)]
unsafe fn transpose8_half(from: *const *const u8, offset: usize) -> [__m256i; 4] {
    // SAFETY: as promised by the caller.
    unsafe {
        let (r0, r1) = (rows8(from, 0, offset), rows8(from, 1, offset));
        let (r2, r3) = (rows8(from, 2, offset), rows8(from, 3, offset));
        let low01 = _mm256_unpacklo_epi32(r0, r1);
        let high01 = _mm256_unpackhi_epi32(r0, r1);
        let low23 = _mm256_unpacklo_epi32(r2, r3);
        let high23 = _mm256_unpackhi_epi32(r2, r3);
        [
            _mm256_unpacklo_epi64(low01, low23),
            _mm256_unpackhi_epi64(low01, low23),
            _mm256_unpacklo_epi64(high01, high23),
            _mm256_unpackhi_epi64(high01, high23),
        ]
    }
}

/// Four words of message `row` in the low half, of message `row + 4` in the high half.
///
/// Both sit in one register from the start: the second load and its insertion is one instruction
/// on the load ports, and saves a permutation on the busier shuffle ports.
///
/// # Safety
/// AVX2 is enabled; eight pointers are readable, and 16 bytes from `offset` of each; `row < 4`.
#[inline(always)]
unsafe fn rows8(from: *const *const u8, row: usize, offset: usize) -> __m256i {
    // SAFETY: as promised by the caller.
    unsafe {
        let left = _mm_loadu_si128((*from.add(row)).add(offset).cast());
        let right = _mm_loadu_si128((*from.add(row + 4)).add(offset).cast());
        _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(left), right)
    }
}

/// Word `i` of four messages in vector `i`: four words of each, from `offset`.
///
/// # Safety
/// Four pointers are readable, and 16 bytes from `offset` of each.
#[inline(always)]
unsafe fn transpose4(from: *const *const u8, offset: usize) -> [__m128i; 4] {
    // SAFETY: as promised by the caller.
    unsafe {
        let r0 = _mm_loadu_si128((*from).add(offset).cast());
        let r1 = _mm_loadu_si128((*from.add(1)).add(offset).cast());
        let r2 = _mm_loadu_si128((*from.add(2)).add(offset).cast());
        let r3 = _mm_loadu_si128((*from.add(3)).add(offset).cast());
        let low01 = _mm_unpacklo_epi32(r0, r1);
        let high01 = _mm_unpackhi_epi32(r0, r1);
        let low23 = _mm_unpacklo_epi32(r2, r3);
        let high23 = _mm_unpackhi_epi32(r2, r3);
        [
            _mm_unpacklo_epi64(low01, low23),
            _mm_unpackhi_epi64(low01, low23),
            _mm_unpacklo_epi64(high01, high23),
            _mm_unpackhi_epi64(high01, high23),
        ]
    }
}
