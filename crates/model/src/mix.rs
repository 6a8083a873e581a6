//! Hashes of states in which slots are interchangeable.
//!
//! The checker distinguishes states by their hash alone. Where the protocol does not depend on *which* slot
//! answers, states that differ by a permutation of slots behave the same, so they get the same hash: every
//! slot is hashed with all its bits, and the hashes of the slots are sorted. That divides the number of
//! states by up to n!.
//!
//! Must not depend on: the worlds.

use std::hash::{Hash, Hasher};

/// A fast hasher with a full 64 x 64 -> 128 bit multiplication per word.
#[derive(Clone, Copy)]
pub struct Mix(u64);

impl Default for Mix {
    fn default() -> Mix {
        Mix(0x243f_6a88_85a3_08d3)
    }
}

impl Hasher for Mix {
    fn finish(&self) -> u64 {
        fold(self.0, 0xa409_3822_299f_31d1)
    }
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(u64::from_le_bytes(word));
        }
    }
    fn write_u8(&mut self, x: u8) {
        self.write_u64(u64::from(x));
    }
    fn write_u16(&mut self, x: u16) {
        self.write_u64(u64::from(x));
    }
    fn write_u32(&mut self, x: u32) {
        self.write_u64(u64::from(x));
    }
    fn write_u64(&mut self, x: u64) {
        self.0 = fold(self.0 ^ x, 0x9e37_79b9_7f4a_7c15).rotate_left(23) ^ self.0.rotate_left(7);
    }
    fn write_usize(&mut self, x: usize) {
        self.write_u64(x as u64);
    }
}

fn fold(a: u64, b: u64) -> u64 {
    let p = u128::from(a ^ 0x1319_8a2e_0370_7344) * u128::from(b);
    p as u64 ^ (p >> 64) as u64
}

/// Hashes N slots as a multiset. `one` hashes everything that concerns one slot.
pub fn hash_slots<const N: usize, H: Hasher>(state: &mut H, one: impl Fn(usize, &mut Mix)) {
    let mut slots = [0u64; N];
    for (i, slot) in slots.iter_mut().enumerate() {
        let mut mix = Mix::default();
        one(i, &mut mix);
        *slot = mix.finish();
    }
    slots.sort_unstable();
    slots.hash(state);
}
