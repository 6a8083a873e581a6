//! SHA-256 with the SHA extensions of x86, over one message or two side by side.
//!
//! A round needs the result of the one before, so a single message leaves the unit idle half of the
//! time; two messages fill it. Algorithm: FIPS 180-4; the order of instructions follows Gulley et
//! al., "Intel SHA Extensions" (2013).
//!
//! Must not depend on: streams, scheduling.

use std::arch::x86_64::*;

use super::kernel::{BLOCK, K};

/// Hashes `count` blocks at each of `from` into the state of the same position.
///
/// # Safety
/// The processor has SHA, SSSE3 and SSE4.1; each of `from` points to `count` blocks.
#[target_feature(enable = "sha,ssse3,sse4.1")]
pub(super) unsafe fn blocks<const N: usize>(
    states: &mut [[u32; 8]; N],
    mut from: [*const u8; N],
    count: usize,
) {
    let zero = _mm_setzero_si128();
    let swap = _mm_set_epi64x(0x0c0d_0e0f_0809_0a0b, 0x0405_0607_0001_0203);
    // The instructions want the words as ABEF and CDGH.
    let (mut abef, mut cdgh) = ([zero; N], [zero; N]);
    for i in 0..N {
        // SAFETY: a state is eight words, two vectors.
        let (low, high) = unsafe {
            let at = states[i].as_ptr().cast::<__m128i>();
            (_mm_loadu_si128(at), _mm_loadu_si128(at.add(1)))
        };
        let cdab = _mm_shuffle_epi32(low, 0xb1);
        let efgh = _mm_shuffle_epi32(high, 0x1b);
        abef[i] = _mm_alignr_epi8(cdab, efgh, 8);
        cdgh[i] = _mm_blend_epi16(efgh, cdab, 0xf0);
    }
    for _ in 0..count {
        let (abef_before, cdgh_before) = (abef, cdgh);
        let mut w = [[zero; 4]; N];
        for i in 0..N {
            for (j, word) in w[i].iter_mut().enumerate() {
                // SAFETY: the block has four times sixteen bytes.
                let raw = unsafe { _mm_loadu_si128(from[i].cast::<__m128i>().add(j)) };
                *word = _mm_shuffle_epi8(raw, swap);
            }
            // SAFETY: `count` blocks are there, so this is at most their end.
            from[i] = unsafe { from[i].add(BLOCK) };
        }
        // Four rounds, and the schedule of later ones, of all messages in turn.
        macro_rules! rounds {
            ($($g:literal)*) => {$(
                for i in 0..N {
                    // SAFETY: `K` has sixteen vectors of four words.
                    let k = unsafe { _mm_loadu_si128(K.as_ptr().cast::<__m128i>().add($g)) };
                    let wk = _mm_add_epi32(w[i][$g % 4], k);
                    cdgh[i] = _mm_sha256rnds2_epu32(cdgh[i], abef[i], wk);
                    if $g >= 3 && $g <= 14 {
                        let seven = _mm_alignr_epi8(w[i][$g % 4], w[i][($g + 3) % 4], 4);
                        let sum = _mm_add_epi32(w[i][($g + 1) % 4], seven);
                        w[i][($g + 1) % 4] = _mm_sha256msg2_epu32(sum, w[i][$g % 4]);
                    }
                    abef[i] = _mm_sha256rnds2_epu32(abef[i], cdgh[i], _mm_shuffle_epi32(wk, 0x0e));
                    if $g >= 1 && $g <= 12 {
                        w[i][($g + 3) % 4] = _mm_sha256msg1_epu32(w[i][($g + 3) % 4], w[i][$g % 4]);
                    }
                }
            )*};
        }
        rounds!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15);
        for i in 0..N {
            abef[i] = _mm_add_epi32(abef[i], abef_before[i]);
            cdgh[i] = _mm_add_epi32(cdgh[i], cdgh_before[i]);
        }
    }
    for i in 0..N {
        let feba = _mm_shuffle_epi32(abef[i], 0x1b);
        let dchg = _mm_shuffle_epi32(cdgh[i], 0xb1);
        let low = _mm_blend_epi16(feba, dchg, 0xf0);
        let high = _mm_alignr_epi8(dchg, feba, 8);
        // SAFETY: a state is eight words, two vectors.
        unsafe {
            let at = states[i].as_mut_ptr().cast::<__m128i>();
            _mm_storeu_si128(at, low);
            _mm_storeu_si128(at.add(1), high);
        }
    }
}
