//! SplitMix64 (Steele, Lea, Flood 2014): random numbers of loads, bodies and statistics, the same for
//! the same seed.
//!
//! Must not depend on: the use of the numbers.

/// The next of a sequence.
pub(crate) fn splitmix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mix(*state)
}

/// The finalizer of SplitMix64: a bijection that scatters.
pub(crate) fn mix(mut z: u64) -> u64 {
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}
