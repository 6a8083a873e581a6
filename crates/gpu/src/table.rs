//! Multiplication by table look-ups: the arithmetic of the table kernel, and its twin.
//!
//! A byte `x` is split into its bits 0-2, 3-5 and 6-7; the product with `c` is the sum of three entries of tables of
//! 8, 8 and 4 bytes. One permutation instruction looks up four bytes at once, in a table of 8 bytes that is in two
//! registers, by indices that are in four nibbles. So the bytes of two words are split together: byte `i` of the
//! first goes to nibble `2 i`, byte `i` of the second to nibble `2 i + 1`. Sums of products stay in this order, and two
//! permutations per pair of words restore it at the end.
//!
//! Must not depend on: devices.
//!
//! Source: J. S. Plank et al., *Screaming Fast Galois Field Arithmetic Using Intel SIMD Instructions* (FAST 2013),
//! for look-ups by permutation; splitting by three bits suits the 8-byte tables of the instruction `prmt`.

use crate::Matrix;
use crate::doubling::permute;

/// Words per coefficient: two, two and one word of tables, padded so that 16 bytes can be read at once.
pub(crate) const ENTRY: usize = 8;

/// The functions `split` and `multiply` of the kernel. [`split`] and [`multiply`] are their twins, line by line.
pub(crate) const TEXT: &str = r#"
struct nibbles { u32 low[2], middle[2], high[2]; };
INLINE struct nibbles split(u32 x, u32 y) {
  const u32 low = ((x & 0x0f0f0f0fu) | ((y << 4) & 0xf0f0f0f0u)) & 0x77777777u;
  const u32 middle = (((x >> 3) & 0x0f0f0f0fu) | ((y << 1) & 0xf0f0f0f0u)) & 0x77777777u;
  const u32 high = (((x >> 6) & 0x0f0f0f0fu) | ((y >> 2) & 0xf0f0f0f0u)) & 0x33333333u;
  struct nibbles n;
  n.low[0] = low; n.low[1] = low >> 16;
  n.middle[0] = middle; n.middle[1] = middle >> 16;
  n.high[0] = high; n.high[1] = high >> 16;
  return n;
}
INLINE void multiply(u32 *sum, struct nibbles n, uint4 t, u32 high) {
  for (u32 h = 0; h < 2; h++) {
    sum[h] ^= permute(t.x, t.y, n.low[h]) ^ permute(t.z, t.w, n.middle[h]);
    sum[h] ^= permute(high, high, n.high[h]);
  }
}
"#;

/// The tables of a matrix for its table kernel: 8 words per coefficient, column by column.
pub fn tables(matrix: &Matrix) -> Vec<u32> {
    let columns = 0..matrix.inputs();
    columns.flat_map(|c| (0..matrix.outputs()).flat_map(move |r| entry(matrix.at(r, c)))).collect()
}

/// Products of a coefficient with 0..8, with 0..8 times 8, and with 0..4 times 64.
fn entry(coefficient: u8) -> [u32; ENTRY] {
    let times = |x: u8| -> u8 {
        let mut power = coefficient;
        (0..8).fold(0, |sum, bit| {
            let term = if x >> bit & 1 != 0 { power } else { 0 };
            power = power << 1 ^ if power >> 7 != 0 { 0x1D } else { 0 };
            sum ^ term
        })
    };
    let word =
        |first: u8, step: u8| u32::from_le_bytes(std::array::from_fn(|i| times((first + i as u8) * step)));
    [word(0, 1), word(4, 1), word(0, 8), word(4, 8), word(0, 64), 0, 0, 0]
}

/// The nibbles of two words, for the lower and the upper half of their bytes.
struct Nibbles {
    low: [u32; 2],
    middle: [u32; 2],
    high: [u32; 2],
}

fn split(x: u32, y: u32) -> Nibbles {
    let low = ((x & 0x0f0f0f0f) | ((y << 4) & 0xf0f0f0f0)) & 0x77777777;
    let middle = (((x >> 3) & 0x0f0f0f0f) | ((y << 1) & 0xf0f0f0f0)) & 0x77777777;
    let high = (((x >> 6) & 0x0f0f0f0f) | ((y >> 2) & 0xf0f0f0f0)) & 0x33333333;
    Nibbles { low: [low, low >> 16], middle: [middle, middle >> 16], high: [high, high >> 16] }
}

fn multiply(sum: &mut [u32; 2], n: &Nibbles, entry: &[u32]) {
    for (h, sum) in sum.iter_mut().enumerate() {
        *sum ^= permute(entry[0], entry[1], n.low[h]) ^ permute(entry[2], entry[3], n.middle[h]);
        *sum ^= permute(entry[4], entry[4], n.high[h]);
    }
}

/// What the table kernel computes of a pair of words of each input row: the twin of the kernel on the CPU.
///
/// Panics if there is not one pair per input row.
pub fn run_tables(matrix: &Matrix, words: &[[u32; 2]]) -> Vec<[u32; 2]> {
    assert_eq!(words.len(), matrix.inputs());
    let tables = tables(matrix);
    let mut sums = vec![[0u32; 2]; matrix.outputs()];
    for (column, &[x, y]) in tables.chunks(ENTRY * matrix.outputs()).zip(words) {
        let nibbles = split(x, y);
        for (sum, entry) in sums.iter_mut().zip(column.chunks(ENTRY)) {
            multiply(sum, &nibbles, entry);
        }
    }
    sums.iter().map(|&[a, b]| [permute(a, b, 0x6420), permute(a, b, 0x7531)]).collect()
}
