//! Multiplication by 2 of the four bytes of a word, and its twin.
//!
//! Doubling shifts each byte by one bit and adds 0x1D to those whose highest bit was set. A byte permutation with sign
//! replication makes a mask of the highest bits: two logical operations, one permutation, one shift, and one more word is
//! added for nothing. Two other sequences, which make 0x1D of that bit with a product, were as fast or slower
//! (docs/benchmarks/gpu.md).
//!
//! Must not depend on: programs, devices.

/// The functions `u32 twice(u32 a)`, which returns `2 * a`, and `u32 twice_add(u32 a, u32 b)`, which returns
/// `2 * a + b`. [`double`] is the twin of both.
pub(crate) const TEXT: &str = "INLINE u32 twice_add(u32 a, u32 b) {
  return and_xor(a + a, 0xfefefefeu, and_xor(permute(a, a, 0xba98u), 0x1d1d1d1du, b));
}
INLINE u32 twice(u32 a) { return twice_add(a, 0); }
";

/// Each byte of `a` times 2.
pub(crate) fn double(a: u32) -> u32 {
    (a.wrapping_add(a) & 0xfefefefe) ^ (permute(a, a, 0xba98) & 0x1d1d1d1d)
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
    fn every_byte_is_doubled_in_every_place() {
        let twice = |x: u8| x << 1 ^ if x >> 7 != 0 { 0x1D } else { 0 };
        for value in 0..=255u8 {
            for other in [0u8, 0x7F, 0x80, 0xFF] {
                for place in 0..4 {
                    let mut bytes = [other; 4];
                    bytes[place] = value;
                    let made = double(u32::from_le_bytes(bytes)).to_le_bytes();
                    assert_eq!(made, bytes.map(twice), "{bytes:?}");
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
