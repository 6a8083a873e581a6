//! MD5 lanes for AArch64: NEON, four messages, which every AArch64 has.
//!
//! Must not depend on: streams, scheduling.

use std::arch::aarch64::*;

use super::compress::Lane;

/// Four messages with NEON.
#[derive(Clone, Copy)]
pub(super) struct Neon(uint32x4_t);

// SAFETY of every block below: NEON is part of the AArch64 baseline; loads and stores need no
// alignment and stay within the words that the trait makes the caller promise.
impl Lane for Neon {
    const WIDTH: usize = 4;

    #[inline(always)]
    unsafe fn splat(value: u32) -> Self {
        // SAFETY: see above.
        unsafe { Self(vdupq_n_u32(value)) }
    }

    #[inline(always)]
    unsafe fn load(from: *const u32) -> Self {
        // SAFETY: see above.
        unsafe { Self(vld1q_u32(from)) }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u32) {
        // SAFETY: see above.
        unsafe { vst1q_u32(to, self.0) }
    }

    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        // SAFETY: see above.
        unsafe { Self(vaddq_u32(self.0, other.0)) }
    }

    #[inline(always)]
    unsafe fn rotate<const L: i32, const R: i32>(self) -> Self {
        // SAFETY: see above. Shift right, then insert what a shift left leaves above it.
        unsafe { Self(vsliq_n_u32::<L>(vshrq_n_u32::<R>(self.0), self.0)) }
    }

    #[inline(always)]
    unsafe fn add_f(acc: Self, b: Self, c: Self, d: Self) -> Self {
        // SAFETY: see above. A bitwise select is the function itself.
        unsafe { Self(vaddq_u32(acc.0, vbslq_u32(b.0, c.0, d.0))) }
    }

    #[inline(always)]
    unsafe fn add_g(acc: Self, b: Self, c: Self, d: Self) -> Self {
        // SAFETY: see above.
        unsafe { Self(vaddq_u32(acc.0, vbslq_u32(d.0, b.0, c.0))) }
    }

    #[inline(always)]
    unsafe fn add_h(acc: Self, b: Self, c: Self, d: Self) -> Self {
        // SAFETY: see above.
        unsafe { Self(vaddq_u32(acc.0, veorq_u32(b.0, veorq_u32(c.0, d.0)))) }
    }

    #[inline(always)]
    unsafe fn add_i(acc: Self, b: Self, c: Self, d: Self) -> Self {
        // SAFETY: see above.
        unsafe { Self(vaddq_u32(acc.0, veorq_u32(c.0, vornq_u32(b.0, d.0)))) }
    }

    #[inline(always)]
    unsafe fn words(from: *const *const u8, offset: usize) -> [Self; 16] {
        // SAFETY: see above; four times four words of each of four blocks.
        let quads = unsafe {
            [
                transpose4(from, offset),
                transpose4(from, offset + 16),
                transpose4(from, offset + 32),
                transpose4(from, offset + 48),
            ]
        };
        std::array::from_fn(|i| Self(quads[i / 4][i % 4]))
    }
}

/// Word `i` of four messages in vector `i`: four words of each, from `offset`.
///
/// # Safety
/// Four pointers are readable, and 16 bytes from `offset` of each.
#[inline(always)]
unsafe fn transpose4(from: *const *const u8, offset: usize) -> [uint32x4_t; 4] {
    // SAFETY: as promised by the caller; loads of bytes need no alignment.
    unsafe {
        let r0 = vreinterpretq_u32_u8(vld1q_u8((*from).add(offset)));
        let r1 = vreinterpretq_u32_u8(vld1q_u8((*from.add(1)).add(offset)));
        let r2 = vreinterpretq_u32_u8(vld1q_u8((*from.add(2)).add(offset)));
        let r3 = vreinterpretq_u32_u8(vld1q_u8((*from.add(3)).add(offset)));
        let even01 = vreinterpretq_u64_u32(vtrn1q_u32(r0, r1));
        let odd01 = vreinterpretq_u64_u32(vtrn2q_u32(r0, r1));
        let even23 = vreinterpretq_u64_u32(vtrn1q_u32(r2, r3));
        let odd23 = vreinterpretq_u64_u32(vtrn2q_u32(r2, r3));
        [
            vreinterpretq_u32_u64(vtrn1q_u64(even01, even23)),
            vreinterpretq_u32_u64(vtrn1q_u64(odd01, odd23)),
            vreinterpretq_u32_u64(vtrn2q_u64(even01, even23)),
            vreinterpretq_u32_u64(vtrn2q_u64(odd01, odd23)),
        ]
    }
}
