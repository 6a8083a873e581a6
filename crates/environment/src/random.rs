//! Random bytes: from the system, or in a simulation from its seed.
//!
//! Invariant: outside of a simulation every byte comes from the system's generator and may be used for keys.
//!
//! Must not depend on: what the bytes are for.

pub use getrandom::Error as Unavailable;

/// Fills `bytes`.
///
/// # Errors
/// If the system has no random bytes.
pub fn fill(bytes: &mut [u8]) -> Result<(), Unavailable> {
    match crate::world::with(|world| world.random.borrow_mut().fill(bytes)) {
        None => getrandom::fill(bytes),
        Some(()) => Ok(()),
    }
}

/// A random number.
///
/// # Errors
/// If the system has no random bytes.
pub fn u64() -> Result<u64, Unavailable> {
    let mut bytes = [0; 8];
    fill(&mut bytes)?;
    Ok(u64::from_le_bytes(bytes))
}

/// A repeatable sequence of numbers: for simulations, tests and layouts, not for keys. SplitMix64: Steele, Lea and Flood, "Fast splittable
/// pseudorandom number generators" (2014). Declustered drive groups are laid out by it, so the numbers do not change.
#[derive(Clone, Debug)]
pub struct Seeded(u64);

impl Seeded {
    /// The sequence of `seed`.
    #[must_use]
    pub const fn new(seed: u64) -> Seeded {
        Seeded(seed)
    }

    /// The next number.
    pub const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `limit`, which is not 0.
    pub const fn below(&mut self, limit: u64) -> u64 {
        ((self.next() as u128 * limit as u128) >> 64) as u64
    }

    /// Fills `bytes`.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        for piece in bytes.chunks_mut(8) {
            piece.copy_from_slice(&self.next().to_le_bytes()[..piece.len()]);
        }
    }
}
