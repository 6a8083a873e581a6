//! A point and its encoding.
//!
//! A record is `length: u32`, `CRC-32C: u32` (little-endian), then so many bytes: the time in seconds since 1970, the
//! seconds that the point covers, the number of values, a bit for each value that is not zero, and those values. Numbers
//! are varints (LEB128).
//!
//! Invariants: a decoder never panics and allocates at most for [`MOST`] values; values are only ever appended to the
//! list of a program, so that a missing one is zero, and one too many is of a newer release and is ignored.
//!
//! Must not depend on: what the values mean.

use ashlar_checksum::{Algorithm, Hasher};

/// How the values of several points become one value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// How often, or how much, in the time that the point covers: added.
    Sum,
    /// How large at the end: that of the latest point.
    Gauge,
}

/// Most values of a point.
pub(crate) const MOST: usize = 256;
/// Longest record in bytes.
const LONGEST: usize = 8 + 20 + 4 + MOST / 8 + MOST * 10;

/// What was measured in the seconds before a time.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Point {
    /// Its end, in seconds since 1970.
    pub at_s: i64,
    /// How many seconds of measurements are in it.
    pub covered_s: u64,
    /// The values, in the order of the program's list of [`Kind`]s.
    pub values: Vec<u64>,
}

impl Point {
    /// Adds a later point of the same time span. `at_s` stays.
    pub(crate) fn add(&mut self, later: &Point, kinds: &[Kind]) {
        self.covered_s = self.covered_s.saturating_add(later.covered_s);
        self.values.resize(kinds.len(), 0);
        for (i, kind) in kinds.iter().enumerate() {
            let more = later.values.get(i).copied().unwrap_or(0);
            match kind {
                Kind::Sum => self.values[i] = self.values[i].saturating_add(more),
                Kind::Gauge => self.values[i] = more,
            }
        }
    }

    /// Appends its record.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let values = &self.values[..self.values.len().min(MOST)];
        let mut body = Vec::with_capacity(64);
        put(&mut body, u64::try_from(self.at_s).unwrap_or(0));
        put(&mut body, self.covered_s);
        put(&mut body, values.len() as u64);
        let mut bits = vec![0u8; values.len().div_ceil(8)];
        for (i, _) in values.iter().enumerate().filter(|(_, v)| **v != 0) {
            bits[i / 8] |= 1 << (i % 8);
        }
        body.extend_from_slice(&bits);
        values.iter().filter(|v| **v != 0).for_each(|v| put(&mut body, *v));
        out.extend_from_slice(&(body.len() as u32).to_le_bytes());
        out.extend_from_slice(&checksum(&body));
        out.extend_from_slice(&body);
    }

    /// The first record of `bytes`, and how many bytes it has. `None`: there is none that is whole.
    pub(crate) fn decode(bytes: &[u8]) -> Option<(Point, usize)> {
        let length = u32::from_le_bytes(bytes.get(..4)?.try_into().ok()?) as usize;
        if length > LONGEST {
            return None;
        }
        let body = bytes.get(8..8 + length)?;
        if bytes.get(4..8)? != checksum(body).as_slice() {
            return None;
        }
        let mut rest = body;
        let at_s = i64::try_from(take(&mut rest)?).ok()?;
        let covered_s = take(&mut rest)?;
        let count = usize::try_from(take(&mut rest)?).ok().filter(|n| *n <= MOST)?;
        let (bits, mut rest) = rest.split_at_checked(count.div_ceil(8))?;
        let mut values = vec![0; count];
        for (i, value) in values.iter_mut().enumerate() {
            if bits[i / 8] >> (i % 8) & 1 == 1 {
                *value = take(&mut rest)?;
            }
        }
        rest.is_empty().then_some((Point { at_s, covered_s, values }, 8 + length))
    }
}

fn checksum(body: &[u8]) -> [u8; 4] {
    let mut hasher = Hasher::new(Algorithm::Crc32c);
    hasher.update(body);
    let mut out = [0; 4];
    out.copy_from_slice(hasher.finish().as_bytes());
    // Little-endian, as the length.
    out.reverse();
    out
}

fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn take(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        let part = u64::from(byte & 0x7F);
        if shift == 63 && part > 1 {
            return None;
        }
        value |= part << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}
