//! Makes new inputs from known ones.
//!
//! Mutations: bit flips, byte changes, cuts, repeats, splices of two inputs, and tokens that the
//! target's language knows. Invariant: the same seed gives the same inputs. It must not depend on: the
//! targets.

/// SplitMix64: small, fast, and the same everywhere.
pub struct Random(pub u64);

impl Random {
    /// The next 64 bits.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `n`, or 0 when `n` is 0.
    pub fn below(&mut self, n: usize) -> usize {
        if n == 0 { 0 } else { (self.next() % n as u64) as usize }
    }
}

/// The longest input made.
const MAX: usize = 64 << 10;

/// A new input from the corpus.
pub fn mutate(random: &mut Random, corpus: &[Vec<u8>], tokens: &[&[u8]]) -> Vec<u8> {
    let mut out = corpus[random.below(corpus.len())].clone();
    for _ in 0..=random.below(4) {
        let at = random.below(out.len() + 1);
        match random.below(8) {
            0 if !out.is_empty() => {
                let i = random.below(out.len());
                out[i] ^= 1 << random.below(8);
            }
            1 if !out.is_empty() => {
                let i = random.below(out.len());
                out[i] = [0, 1, 0x7f, 0x80, 0xff, b'\r', b'\n', random.next() as u8][random.below(8)];
            }
            2 => out.truncate(at),
            3 => {
                let end = (at + random.below(16)).min(out.len());
                out.drain(at..end);
            }
            4 => {
                let end = (at + 1 + random.below(64)).min(out.len());
                let piece = out[at..end].to_vec();
                for _ in 0..=random.below(40) {
                    out.splice(at..at, piece.iter().copied());
                }
            }
            5 => {
                let other = &corpus[random.below(corpus.len())];
                out.truncate(at);
                out.extend_from_slice(&other[random.below(other.len() + 1)..]);
            }
            6 if !tokens.is_empty() => {
                let token = tokens[random.below(tokens.len())];
                out.splice(at..at, token.iter().copied());
            }
            _ => out.insert(at, random.next() as u8),
        }
    }
    out.truncate(MAX);
    out
}
