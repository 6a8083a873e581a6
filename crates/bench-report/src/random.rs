//! SplitMix64 (Steele, Lea, Flood 2014): random numbers of loads, bodies and statistics, the same for
//! the same seed.
//!
//! Loads draw with every request from here: all of it is inlined, so that it is compiled with the optimisation of the
//! crate that draws.
//!
//! Must not depend on: the use of the numbers.

/// The next of a sequence.
#[inline]
pub fn splitmix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mix(*state)
}

/// The finalizer of SplitMix64: a bijection that scatters.
#[inline]
pub fn mix(mut z: u64) -> u64 {
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

/// A sequence from a seed: small, and good enough to draw with.
#[derive(Clone, Debug)]
pub struct Random(pub u64);

impl Random {
    /// The next 64 bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        splitmix(&mut self.0)
    }

    /// A number below `n`; its bias (n / 2^64) does not matter here.
    #[inline]
    pub fn below(&mut self, n: usize) -> usize {
        ((u128::from(self.next_u64()) * n as u128) >> 64) as usize
    }
}
