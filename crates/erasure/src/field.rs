//! The field GF(2^8) with polynomial x^8 + x^4 + x^3 + x^2 + 1 (0x11D), generator 2, as tables
//! built at compile time.
//!
//! Invariant: all tables here follow from `EXP`, which follows from the polynomial alone; the tests
//! check each of them against multiplication done bit by bit.
//!
//! Must not depend on: kernels, instruction sets.

/// The reduction polynomial, that of RAID 6 and of most storage Reed-Solomon codes.
pub(crate) const POLYNOMIAL: u16 = 0x11D;

/// Powers of the generator 2, twice over so that a sum of two logarithms needs no reduction.
const EXP: [u8; 510] = {
    let mut table = [0u8; 510];
    let mut value = 1u16;
    let mut i = 0;
    while i < 510 {
        table[i] = value as u8;
        value <<= 1;
        if value & 0x100 != 0 {
            value ^= POLYNOMIAL;
        }
        i += 1;
    }
    table
};

/// Logarithms to base 2; the entry for 0 means nothing and is never used.
const LOG: [u8; 256] = {
    let mut table = [0u8; 256];
    let mut i = 0;
    while i < 255 {
        table[EXP[i] as usize] = i as u8;
        i += 1;
    }
    table
};

/// Product of two field elements.
pub(crate) const fn mul(a: u8, b: u8) -> u8 {
    if a == 0 || b == 0 { 0 } else { EXP[LOG[a as usize] as usize + LOG[b as usize] as usize] }
}

/// Multiplicative inverse. Panics on 0, which has none.
pub(crate) const fn inverse(a: u8) -> u8 {
    assert!(a != 0, "0 has no inverse");
    EXP[255 - LOG[a as usize] as usize]
}

/// 2 to the power of `exponent`; negative exponents count from the inverse of 2.
pub(crate) const fn power_of_two(exponent: i32) -> u8 {
    EXP[exponent.rem_euclid(255) as usize]
}

/// `PRODUCT[a][b] = a * b`: the whole multiplication table, 64 KiB.
pub(crate) static PRODUCT: [[u8; 256]; 256] = {
    let mut table = [[0u8; 256]; 256];
    let mut a = 1;
    while a < 256 {
        let mut b = 1;
        while b < 256 {
            table[a][b] = EXP[LOG[a] as usize + LOG[b] as usize];
            b += 1;
        }
        a += 1;
    }
    table
};

/// For a factor `c`, 32 bytes for the byte-shuffle kernels: `c * x` for the 16 low nibbles `x`,
/// then `c * 16x` for the 16 high ones.
pub(crate) const fn nibble_tables(c: u8) -> [u8; 32] {
    let mut table = [0u8; 32];
    let mut x = 0;
    while x < 16 {
        table[x] = mul(c, x as u8);
        table[16 + x] = mul(c, (x as u8) << 4);
        x += 1;
    }
    table
}

/// The 8x8 bit matrix of "multiply by `c`" as `GF2P8AFFINEQB` wants it: byte `7 - i` is the row that makes
/// bit `i` of the result, and bit `j` of that row tells whether bit `j` of the operand takes part, which is
/// bit `i` of `c * 2^j`.
pub(crate) const fn affine_matrix(c: u8) -> u64 {
    let mut matrix = 0u64;
    let mut j = 0;
    while j < 8 {
        let column = mul(c, 1 << j);
        let mut i = 0;
        while i < 8 {
            if column >> i & 1 != 0 {
                matrix |= 1 << (8 * (7 - i) + j);
            }
            i += 1;
        }
        j += 1;
    }
    matrix
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Carry-less multiplication and reduction, bit by bit: the definition.
    fn slow(a: u8, b: u8) -> u8 {
        let mut product = 0u16;
        for bit in 0..8 {
            if b >> bit & 1 != 0 {
                product ^= u16::from(a) << bit;
            }
        }
        for bit in (8..16).rev() {
            if product >> bit & 1 != 0 {
                product ^= POLYNOMIAL << (bit - 8);
            }
        }
        product as u8
    }

    fn affine(matrix: u64, x: u8) -> u8 {
        (0..8).fold(0, |out, i| {
            let row = (matrix >> (8 * (7 - i))) as u8;
            out | (((row & x).count_ones() as u8 & 1) << i)
        })
    }

    #[test]
    fn every_table_follows_the_definition() {
        for a in 0..=255u8 {
            let (nibbles, matrix) = (nibble_tables(a), affine_matrix(a));
            for b in 0..=255u8 {
                let want = slow(a, b);
                assert_eq!(mul(a, b), want);
                assert_eq!(PRODUCT[a as usize][b as usize], want);
                let (low, high) = ((b & 15) as usize, (b >> 4) as usize);
                assert_eq!(nibbles[low] ^ nibbles[16 + high], want);
                assert_eq!(affine(matrix, b), want);
            }
            if a != 0 {
                assert_eq!(slow(a, inverse(a)), 1);
            }
        }
    }

    #[test]
    fn powers_of_two_run_through_the_whole_field() {
        let mut seen = [false; 256];
        for e in 0..255 {
            assert!(!std::mem::replace(&mut seen[power_of_two(e) as usize], true));
        }
        assert!(!seen[0]);
        assert_eq!(power_of_two(-1), inverse(2));
        assert_eq!(power_of_two(8), 0x1D);
    }
}
