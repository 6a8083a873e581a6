//! One stripe in one buffer: k data rows, then m parity rows.
//!
//! Must not depend on: what the bytes are.

use crate::Error;
use ashlar_erasure::{Code, MAX_ROWS};

/// Bytes of each row that a recheck decodes at a time.
const PIECE: usize = 4096;

/// Fills the parity rows of `stripe`.
///
/// # Errors
/// [`Error::Code`] when `stripe` is not `n` rows of `row` bytes.
pub fn encode_stripe(code: &Code, stripe: &mut [u8], row: usize) -> Result<(), Error> {
    check(code, stripe.len(), row)?;
    if row == 0 || code.m() == 0 {
        return Ok(());
    }
    let (data, parity) = stripe.split_at_mut(code.k() * row);
    let mut from: [&[u8]; MAX_ROWS] = [&[]; MAX_ROWS];
    for (slot, r) in from.iter_mut().zip(data.chunks_exact(row)) {
        *slot = r;
    }
    let mut to: [&mut [u8]; MAX_ROWS] = std::array::from_fn(|_| &mut [][..]);
    for (slot, r) in to.iter_mut().zip(parity.chunks_exact_mut(row)) {
        *slot = r;
    }
    code.encode(&from[..code.k()], &mut to[..code.m()])?;
    Ok(())
}

/// Decodes `min(k, m)` data rows, selected by `turn`, from the other rows and compares.
///
/// # Errors
/// [`Error::Miscalculated`] when they differ; [`Error::Code`] for wrong shapes.
pub fn recheck_stripe(code: &Code, stripe: &[u8], row: usize, turn: u64) -> Result<(), Error> {
    check(code, stripe.len(), row)?;
    let (k, m) = (code.k(), code.m());
    let lost = k.min(m);
    if row == 0 || lost == 0 {
        return Ok(());
    }
    let first = (turn % k as u64) as usize;
    let is_lost = |r: usize| r < k && (r + k - first) % k < lost;
    let mut wanted: Vec<usize> = (0..k).filter(|r| is_lost(*r)).collect();
    wanted.sort_unstable();
    let mut made = vec![0u8; lost * PIECE.min(row)];
    for at in (0..row).step_by(PIECE) {
        let len = PIECE.min(row - at);
        let piece = |r: usize| &stripe[r * row + at..r * row + at + len];
        let present: Vec<(usize, &[u8])> =
            (0..code.n()).filter(|r| !is_lost(*r)).map(|r| (r, piece(r))).collect();
        let mut out: Vec<&mut [u8]> = made[..lost * len].chunks_exact_mut(len).collect();
        code.reconstruct(&present, &wanted, &mut out)?;
        if wanted.iter().zip(&out).any(|(r, o)| piece(*r) != &**o) {
            return Err(Error::Miscalculated { k, m });
        }
    }
    Ok(())
}

fn check(code: &Code, len: usize, row: usize) -> Result<(), Error> {
    if len == code.n() * row {
        return Ok(());
    }
    let n = code.n();
    let what = format!("a stripe of {n} rows of {row} bytes is expected, got {len} bytes");
    Err(Error::Code(ashlar_erasure::Error::Shape(what)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Engine;

    fn fill(seed: u64, out: &mut [u8]) {
        let mut x = seed | 1;
        for b in out {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            *b = x as u8;
        }
    }

    #[test]
    fn recheck_accepts_every_correct_stripe() {
        let e = Engine::with_sample(1);
        for (k, m) in [(1, 0), (1, 3), (2, 2), (4, 2), (12, 4), (3, 0), (5, 1)] {
            let code = e.code(k, m).unwrap();
            for row in [0, 1, 63, 4096, 4097, 10_000] {
                for turn in 0..3 {
                    let mut s = vec![0u8; code.n() * row];
                    fill(turn + 1, &mut s[..usize::from(k) * row]);
                    e.encode(&code, &mut s, row).unwrap();
                }
            }
        }
        assert_eq!(e.counts().0, e.counts().1);
    }

    #[test]
    fn recheck_detects_a_wrong_bit() {
        let e = Engine::new();
        let code = e.code(4, 2).unwrap();
        let row = 9000;
        let mut s = vec![0u8; 6 * row];
        fill(7, &mut s[..4 * row]);
        encode_stripe(&code, &mut s, row).unwrap();
        for (turn, at) in [(0u64, 5 * row + 17), (1, row * 4), (2, 8999), (3, 3 * row + 4096)] {
            s[at] ^= 1;
            assert_eq!(
                recheck_stripe(&code, &s, row, turn),
                Err(Error::Miscalculated { k: 4, m: 2 }),
                "byte {at}"
            );
            s[at] ^= 1;
            recheck_stripe(&code, &s, row, turn).unwrap();
        }
    }

    #[test]
    fn wrong_shapes_are_refused() {
        let e = Engine::new();
        let code = e.code(2, 2).unwrap();
        assert!(matches!(encode_stripe(&code, &mut [0; 7], 2), Err(Error::Code(_))));
        assert!(e.code(0, 2).is_err());
        assert!(e.code(40, 40).is_err());
    }
}
