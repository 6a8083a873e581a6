//! Bodies without their own memory: a stamp that names the object, then a part of a pool of bytes that is
//! made once.
//!
//! An object's bytes are a function of (seed, object number, version, offset): the first 16 bytes
//! are the number and the version mixed with the seed; the rest is read from the pool, cyclically,
//! from a place that depends on the same. The pool's length is odd and far from powers of two, so
//! that two stretches of one object that are a whole number of stripes apart never hold the same
//! bytes. Bytes of another object, another version or another offset are therefore noticed.
//!
//! Invariant: nothing here allocates after the pool is made.
//!
//! Must not depend on: requests.

use ashlar_bench_report::random::{mix, splitmix};

/// This many first bytes distinguish one object from another.
pub const STAMP: u64 = 16;
/// Bytes of the pool: about 8 MiB, a prime, so in step with no stripe, frame or page size.
const POOL: usize = 8_388_617;
/// Compressible data repeats its pattern of noise and zeros in blocks of this size.
const BLOCK: usize = 4096;

/// What data looks like.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub enum Shape {
    /// Every byte of every object is zero: no stamp, no noise.
    Constant,
    /// Noise, which no compressor makes smaller.
    Random,
    /// Noise and zeros so that a compressor with a window of 4 KiB or more reaches this ratio
    /// (2 means half the size), at least 1.
    Compressible(f64),
}

/// Parses `constant`, `random` or `compressible:RATIO`.
impl std::str::FromStr for Shape {
    type Err = String;

    fn from_str(text: &str) -> Result<Shape, String> {
        match text.split_once(':') {
            None if text == "constant" => Ok(Shape::Constant),
            None if text == "random" => Ok(Shape::Random),
            Some(("compressible", ratio)) => {
                let ratio: f64 = ratio.parse().map_err(|_| format!("`{ratio}` is not a ratio"))?;
                if (1.0..=4096.0).contains(&ratio) {
                    Ok(Shape::Compressible(ratio))
                } else {
                    Err("the ratio must be 1 to 4096 (2 means that data shrinks to a half)".into())
                }
            }
            _ => Err(format!("`{text}`: expected constant, random or compressible:RATIO")),
        }
    }
}

/// The bytes all bodies are cut from.
pub struct Pool {
    shape: Shape,
    seed: u64,
    bytes: Box<[u8]>,
}

impl Pool {
    /// Makes the pool; 8 MiB, or a page of zeros' worth for constant data.
    pub fn new(shape: Shape, seed: u64) -> Pool {
        let mut bytes = vec![0_u8; POOL];
        let noise = match shape {
            Shape::Constant => 0,
            Shape::Random => BLOCK,
            Shape::Compressible(ratio) => ((BLOCK as f64 / ratio) as usize).max(1),
        };
        let mut state = mix(seed ^ 0x6173_686c_6172);
        for block in bytes.chunks_mut(BLOCK) {
            let len = noise.min(block.len());
            for word in block[..len].chunks_mut(8) {
                let random = splitmix(&mut state).to_le_bytes();
                word.copy_from_slice(&random[..word.len()]);
            }
        }
        Pool { shape, seed, bytes: bytes.into_boxed_slice() }
    }

    /// The bytes of version `version` of object `number`, `len` of them.
    pub fn content(&self, number: u64, version: u64, len: u64) -> Content<'_> {
        if self.shape == Shape::Constant {
            return Content { pool: &self.bytes, at: 0, len, stamp: [0; 16], plain: true };
        }
        let id = mix(self.seed ^ mix(number.wrapping_mul(2).wrapping_add(mix(version))));
        let mut stamp = [0; 16];
        stamp[..8].copy_from_slice(&number.to_le_bytes());
        stamp[8..].copy_from_slice(&id.to_le_bytes());
        Content { pool: &self.bytes, at: id % POOL as u64, len, stamp, plain: false }
    }
}

/// The bytes of one object or message.
#[derive(Clone, Copy)]
pub struct Content<'a> {
    pool: &'a [u8],
    at: u64,
    len: u64,
    stamp: [u8; 16],
    plain: bool,
}

impl<'a> Content<'a> {
    /// Exactly these bytes.
    pub fn of(bytes: &'a [u8]) -> Content<'a> {
        Content { pool: bytes, at: 0, len: bytes.len() as u64, stamp: [0; 16], plain: true }
    }

    /// How many there are.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether all objects of this length are the same, so that their hash need not be made anew.
    pub fn is_shared(&self) -> bool {
        self.plain
    }

    /// A stretch of the bytes as an object of its own would be sent: for parts of uploads.
    pub fn slice(&self, from: u64, len: u64) -> Slice<'a> {
        assert!(from + len <= self.len, "a part lies within its object");
        Slice { whole: *self, from, len }
    }

    /// All of them.
    pub fn whole(&self) -> Slice<'a> {
        self.slice(0, self.len)
    }

    /// The longest contiguous piece from `offset`, at most `most` bytes.
    fn piece(&self, offset: u64, most: u64) -> &[u8] {
        let most = most.min(self.len - offset);
        let stamp = if self.plain { 0 } else { STAMP };
        if offset < stamp {
            let to = stamp.min(offset + most);
            return &self.stamp[offset as usize..to as usize];
        }
        let period = self.pool.len().max(1) as u64;
        let at = (self.at + offset) % period;
        &self.pool[at as usize..(at + most.min(period - at)) as usize]
    }
}

/// A stretch of a [`Content`].
#[derive(Clone, Copy)]
pub struct Slice<'a> {
    whole: Content<'a>,
    from: u64,
    len: u64,
}

impl Slice<'_> {
    /// How many bytes.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether the bytes are the same for every object of this length.
    pub fn is_shared(&self) -> bool {
        self.whole.plain
    }

    /// The longest contiguous piece from `offset`, at most `most` bytes; empty only at the end.
    pub fn piece(&self, offset: u64, most: u64) -> &[u8] {
        self.whole.piece(self.from + offset, most.min(self.len - offset))
    }

    /// Calls `f` with the pieces of `from..to` in order.
    pub fn each(&self, from: u64, to: u64, mut f: impl FnMut(&[u8])) {
        let mut at = from;
        while at < to {
            let piece = self.piece(at, to - at);
            f(piece);
            at += piece.len() as u64;
        }
    }

    /// Whether `bytes` are those from `offset`.
    pub fn equals(&self, offset: u64, bytes: &[u8]) -> bool {
        if offset + bytes.len() as u64 > self.len {
            return false;
        }
        let mut rest = bytes;
        let mut at = offset;
        while !rest.is_empty() {
            let piece = self.piece(at, rest.len() as u64);
            if rest[..piece.len()] != *piece {
                return false;
            }
            at += piece.len() as u64;
            rest = &rest[piece.len()..];
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(slice: Slice<'_>) -> Vec<u8> {
        let mut out = Vec::new();
        slice.each(0, slice.len(), |piece| out.extend_from_slice(piece));
        out
    }

    #[test]
    fn objects_differ_and_are_reproducible() {
        let pool = Pool::new(Shape::Random, 1);
        let (a, b, c) = (pool.content(1, 0, 5000), pool.content(2, 0, 5000), pool.content(1, 1, 5000));
        assert_eq!(bytes(a.whole()), bytes(pool.content(1, 0, 5000).whole()));
        assert_ne!(bytes(a.whole()), bytes(b.whole()));
        assert_ne!(bytes(a.whole()), bytes(c.whole()));
        assert_ne!(bytes(a.whole())[..16], bytes(c.whole())[..16]);
        assert_eq!(bytes(a.slice(10, 100)), bytes(a.whole())[10..110]);
        let other = Pool::new(Shape::Random, 2);
        assert_ne!(bytes(a.whole()), bytes(other.content(1, 0, 5000).whole()));
    }

    #[test]
    fn changed_byte_or_moved_stripe_is_detected() {
        let pool = Pool::new(Shape::Random, 3);
        let content = pool.content(7, 0, 40 << 20);
        let whole = content.whole();
        let stripe = bytes(content.slice(9 << 20, 1 << 20));
        assert!(whole.equals(9 << 20, &stripe));
        for other in (0..39).filter(|s| *s != 9) {
            assert!(!whole.equals(other << 20, &stripe), "stripe {other}");
        }
        let mut flipped = stripe.clone();
        flipped[77_777] ^= 1;
        assert!(!whole.equals(9 << 20, &flipped));
        assert!(!whole.equals(40 << 20, &[0]), "more than there is");
    }

    #[test]
    fn bodies_have_the_requested_length() {
        assert_eq!("compressible:2".parse(), Ok(Shape::Compressible(2.0)));
        for bad in ["", "compressible", "compressible:0.5", "random:1", "compressible:x"] {
            assert!(bad.parse::<Shape>().is_err(), "{bad}");
        }
        let zeros = |shape| {
            let pool = Pool::new(shape, 5);
            let all = bytes(pool.content(3, 0, 4 << 20).whole());
            all.iter().filter(|b| **b == 0).count() as f64 / all.len() as f64
        };
        assert!(zeros(Shape::Random) < 0.01);
        assert_eq!(zeros(Shape::Constant), 1.0);
        assert!((zeros(Shape::Compressible(4.0)) - 0.75).abs() < 0.01);
    }
}
