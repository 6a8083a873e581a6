//! Multiplication by 2 of the four bytes of a word, in three sequences of instructions, and their twins.
//!
//! Doubling shifts each byte by one bit and adds 0x1D to those whose highest bit was set. The sequences differ in
//! how they spread that bit to 0x1D, and so in which units of the GPU they use.
//!
//! Must not depend on: programs, devices.

/// A sequence of instructions that doubles the four bytes of a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Doubling {
    /// A byte permutation with sign replication makes a mask of the highest bits: two logical operations, one
    /// permutation, one shift, and one more word is added for nothing.
    Permute,
    /// The upper half of a product with `0x1D << 25` puts 0x1D where the highest bits were: two logical
    /// operations, one product, one shift. The product uses the unit for multiplication, which is idle otherwise.
    HighProduct,
    /// A shift to the right and the lower half of a product.
    ShiftProduct,
}

impl Doubling {
    /// All of them.
    pub const ALL: [Doubling; 3] = [Doubling::Permute, Doubling::HighProduct, Doubling::ShiftProduct];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Doubling::Permute => "permute",
            Doubling::HighProduct => "high-product",
            Doubling::ShiftProduct => "shift-product",
        }
    }

    /// Whether one more word can be added without a further instruction.
    pub(crate) fn adds(self) -> bool {
        self == Doubling::Permute
    }

    /// The function `u32 twice(u32 a)`, which returns `2 * a`, and where it costs no more
    /// `u32 twice_add(u32 a, u32 b)`, which returns `2 * a + b`.
    pub(crate) fn text(self) -> &'static str {
        match self {
            Doubling::Permute => {
                "INLINE u32 twice_add(u32 a, u32 b) {
  return and_xor(a + a, 0xfefefefeu, and_xor(permute(a, a, 0xba98u), 0x1d1d1d1du, b));
}
INLINE u32 twice(u32 a) { return twice_add(a, 0); }
"
            }
            Doubling::HighProduct => {
                "INLINE u32 twice(u32 a) {
  return and_xor(a + a, 0xfefefefeu, high_product(a & 0x80808080u, 0x3a000000u));
}
"
            }
            Doubling::ShiftProduct => {
                "INLINE u32 twice(u32 a) {
  return and_xor(a + a, 0xfefefefeu, ((a >> 7) & 0x01010101u) * 0x1du);
}
"
            }
        }
    }

    /// The same arithmetic here: the twin of `twice`.
    pub(crate) fn apply(self, a: u32) -> u32 {
        let carried = match self {
            Doubling::Permute => permute(a, a, 0xba98) & 0x1d1d1d1d,
            Doubling::HighProduct => ((u64::from(a & 0x80808080) * 0x3a000000) >> 32) as u32,
            Doubling::ShiftProduct => ((a >> 7) & 0x01010101) * 0x1d,
        };
        (a.wrapping_add(a) & 0xfefefefe) ^ carried
    }
}

/// The instruction `prmt.b32` of PTX in its default mode: each of the four lowest nibbles of `select` picks a byte
/// of `a` (0 to 3) or `b` (4 to 7); with its highest bit it picks eight copies of the sign of that byte.
pub(crate) fn permute(a: u32, b: u32, select: u32) -> u32 {
    let bytes = u64::from(b) << 32 | u64::from(a);
    (0..4).fold(0, |out, i| {
        let nibble = select >> (4 * i) & 15;
        let byte = (bytes >> (8 * (nibble & 7))) as u8;
        let picked = if nibble & 8 == 0 { byte } else { ((byte as i8) >> 7) as u8 };
        out | u32::from(picked) << (8 * i)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_sequence_doubles_every_byte_in_every_place() {
        let twice = |x: u8| x << 1 ^ if x >> 7 != 0 { 0x1D } else { 0 };
        for doubling in Doubling::ALL {
            for value in 0..=255u8 {
                for other in [0u8, 0x7F, 0x80, 0xFF] {
                    for place in 0..4 {
                        let mut bytes = [other; 4];
                        bytes[place] = value;
                        let made = doubling.apply(u32::from_le_bytes(bytes)).to_le_bytes();
                        assert_eq!(made, bytes.map(twice), "{doubling:?} {bytes:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn permutation_picks_bytes_and_signs() {
        assert_eq!(permute(0x33221100, 0x77665544, 0x7250), 0x77225500);
        assert_eq!(permute(0x00FF807F, 0, 0xba98), 0x00FFFF00);
    }
}
