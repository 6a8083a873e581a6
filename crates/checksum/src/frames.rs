//! HighwayHash of several frames side by side.
//!
//! One HighwayHash leaves most of a processor's vector units idle, since each packet of 32 bytes
//! needs the state after the one before; four messages fill them. With AVX-512 two messages share a
//! register; elsewhere frames are hashed one after the other.
//!
//! Invariant: the result is that of [`crate::frame_hash`] over position and content, on every machine.
//!
//! Must not depend on: the content of frames.

#[cfg(target_arch = "x86_64")]
use highway::{HighwayHash, HighwayHasher, Key};

/// HighwayHash-256 under `key` of each place followed by its content, into `out`.
///
/// # Panics
/// If `out` and `items` differ in length.
pub fn frame_hashes(key: &[u64; 4], items: &[([u8; 32], &[u8])], out: &mut [[u8; 32]]) {
    assert_eq!(items.len(), out.len(), "one hash for each item");
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bw") {
        let mut at = 0;
        while items.len() - at >= 2 {
            let many = if items.len() - at >= 4 { 4 } else { 2 };
            // SAFETY: the features are there.
            unsafe {
                if many == 4 {
                    lanes::hash::<2>(key, &items[at..at + 4], &mut out[at..at + 4]);
                } else {
                    lanes::hash::<1>(key, &items[at..at + 2], &mut out[at..at + 2]);
                }
            }
            at += many;
        }
        return one_by_one(key, &items[at..], &mut out[at..]);
    }
    one_by_one(key, items, out);
}

fn one_by_one(key: &[u64; 4], items: &[([u8; 32], &[u8])], out: &mut [[u8; 32]]) {
    for ((place, content), out) in items.iter().zip(out) {
        *out = crate::frame_hash(key, &[place, content]);
    }
}

/// Continues from a state (v0, v1, mul0, mul1) with `rest`.
#[cfg(target_arch = "x86_64")]
fn finish(state: &[[u64; 4]; 4], rest: &[u8]) -> [u8; 32] {
    // As `HighwayHash::checkpoint` writes it: the state, an empty packet, its length.
    let mut checkpoint = [0; 164];
    for (bytes, word) in checkpoint.chunks_exact_mut(8).zip(state.iter().flatten()) {
        bytes.copy_from_slice(&word.to_le_bytes());
    }
    let mut hasher = HighwayHasher::from_checkpoint(checkpoint);
    hasher.append(rest);
    let mut out = [0; 32];
    for (bytes, word) in out.chunks_exact_mut(8).zip(hasher.finalize256()) {
        bytes.copy_from_slice(&word.to_le_bytes());
    }
    out
}

/// The state of an empty message.
#[cfg(target_arch = "x86_64")]
fn initial(key: &[u64; 4]) -> [[u64; 4]; 4] {
    let checkpoint = HighwayHasher::new(Key(*key)).checkpoint();
    let mut state = [[0; 4]; 4];
    for (word, bytes) in state.iter_mut().flatten().zip(checkpoint.chunks_exact(8)) {
        let mut le = [0; 8];
        le.copy_from_slice(bytes);
        *word = u64::from_le_bytes(le);
    }
    state
}

#[cfg(target_arch = "x86_64")]
mod lanes {
    use std::arch::x86_64::*;

    /// Bytes of a packet.
    const PACKET: usize = 32;

    /// Hashes twice `Z` items: as far as the shortest goes side by side, the rest one by one.
    #[target_feature(enable = "avx512f,avx512bw,avx2")]
    pub(super) fn hash<const Z: usize>(key: &[u64; 4], items: &[([u8; 32], &[u8])], out: &mut [[u8; 32]]) {
        assert!(items.len() == 2 * Z && out.len() == 2 * Z);
        let packets = items.iter().map(|(_, c)| c.len() / PACKET).min().unwrap_or(0);
        let start = super::initial(key);
        // SAFETY: four words each.
        let twice = |w: &[u64; 4]| _mm512_broadcast_i64x4(unsafe { _mm256_loadu_si256(w.as_ptr().cast()) });
        let (mut v0, mut v1) = ([twice(&start[0]); Z], [twice(&start[1]); Z]);
        let (mut mul0, mut mul1) = ([twice(&start[2]); Z], [twice(&start[3]); Z]);
        let zip = _mm512_broadcast_i32x4(_mm_set_epi64x(0x0708_0609_0d0a_040b, 0x000f_010e_0502_0c03));
        let mut update = |packet: [__m512i; Z]| {
            for z in 0..Z {
                v1[z] = _mm512_add_epi64(v1[z], _mm512_add_epi64(packet[z], mul0[z]));
                mul0[z] = _mm512_xor_si512(mul0[z], _mm512_mul_epu32(v1[z], _mm512_srli_epi64(v0[z], 32)));
                v0[z] = _mm512_add_epi64(v0[z], mul1[z]);
                mul1[z] = _mm512_xor_si512(mul1[z], _mm512_mul_epu32(v0[z], _mm512_srli_epi64(v1[z], 32)));
                v0[z] = _mm512_add_epi64(v0[z], _mm512_shuffle_epi8(v1[z], zip));
                v1[z] = _mm512_add_epi64(v1[z], _mm512_shuffle_epi8(v0[z], zip));
            }
        };
        let both = |a: *const u8, b: *const u8| {
            // SAFETY: each points to a packet.
            let (a, b) = unsafe { (_mm256_loadu_si256(a.cast()), _mm256_loadu_si256(b.cast())) };
            _mm512_inserti64x4(_mm512_castsi256_si512(a), b, 1)
        };
        update(std::array::from_fn(|z| both(items[2 * z].0.as_ptr(), items[2 * z + 1].0.as_ptr())));
        for p in 0..packets {
            let at = p * PACKET;
            // Pointers without bounds checks: `packets` is what the shortest content has.
            update(std::array::from_fn(|z| {
                both(items[2 * z].1.as_ptr().wrapping_add(at), items[2 * z + 1].1.as_ptr().wrapping_add(at))
            }));
        }
        for z in 0..Z {
            let mut words = [[0u64; 8]; 4];
            for (w, v) in words.iter_mut().zip([v0[z], v1[z], mul0[z], mul1[z]]) {
                // SAFETY: eight words.
                unsafe { _mm512_storeu_si512(w.as_mut_ptr().cast(), v) };
            }
            for half in 0..2 {
                let state = words.map(|w| std::array::from_fn(|i| w[4 * half + i]));
                let i = 2 * z + half;
                out[i] = super::finish(&state, &items[i].1[packets * PACKET..]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_the_reference() {
        let data: Vec<u8> = (0..40_000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        let key = [1, 2 << 40, 3 << 20, u64::MAX - 5];
        for count in 0..10 {
            for len in [0, 1, 31, 32, 33, 64, 100, 4096, 5001] {
                let items: Vec<([u8; 32], &[u8])> = (0..count)
                    .map(|i| {
                        let mut place = [i as u8; 32];
                        place[3] = 77;
                        // The last of several may be shorter.
                        let len = if i == 3 { len / 2 } else { len };
                        (place, &data[i * 1031..i * 1031 + len])
                    })
                    .collect();
                let mut out = vec![[0; 32]; count];
                frame_hashes(&key, &items, &mut out);
                for ((place, content), out) in items.iter().zip(&out) {
                    assert_eq!(*out, crate::frame_hash(&key, &[place, content]), "{count} of {len}");
                }
            }
        }
    }
}
