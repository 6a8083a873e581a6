//! One MD5 message on one lane: its state, its partial block and its padding.
//!
//! Invariant: `state` covers all bytes but the last `len % 64`, which are in `edge`.
//!
//! Must not depend on: lanes, queues.

use super::compress::{BLOCK, INITIAL};
use super::kernel::Kernel;

/// A running MD5.
#[derive(Clone)]
pub(super) struct Md5 {
    /// The state after the last whole block.
    pub(super) state: [u32; 4],
    /// All bytes so far; RFC 1321 counts bits modulo 2^64.
    pub(super) len: u64,
    /// The first `len % 64` bytes are those after the last whole block.
    pub(super) edge: [u8; BLOCK],
}

impl Md5 {
    /// No bytes yet.
    pub(super) fn new() -> Md5 {
        Md5 { state: INITIAL, len: 0, edge: [0; BLOCK] }
    }

    /// How many bytes wait for the rest of their block.
    pub(super) fn partial(&self) -> usize {
        (self.len % BLOCK as u64) as usize
    }

    /// Appends `data`.
    pub(super) fn update(&mut self, mut data: &[u8]) {
        let kernel = Kernel::get();
        let partial = self.partial();
        self.len = self.len.wrapping_add(data.len() as u64);
        if partial > 0 {
            let take = data.len().min(BLOCK - partial);
            self.edge[partial..partial + take].copy_from_slice(&data[..take]);
            if partial + take < BLOCK {
                return;
            }
            kernel.hash_one(&mut self.state, &self.edge);
            data = &data[take..];
        }
        let (whole, rest) = data.split_at(data.len() / BLOCK * BLOCK);
        if !whole.is_empty() {
            kernel.hash_one(&mut self.state, whole);
        }
        self.edge[..rest.len()].copy_from_slice(rest);
    }

    /// The last one or two blocks: the partial block, padding and length. The second value is how
    /// many bytes of the first are meant.
    pub(super) fn padding(&self) -> ([u8; 2 * BLOCK], usize) {
        let mut tail = [0; 2 * BLOCK];
        let partial = self.partial();
        tail[..partial].copy_from_slice(&self.edge[..partial]);
        tail[partial] = 0x80;
        let end = if partial < BLOCK - 8 { BLOCK } else { 2 * BLOCK };
        tail[end - 8..end].copy_from_slice(&self.len.wrapping_mul(8).to_le_bytes());
        (tail, end)
    }

    /// The digest of everything appended.
    pub(super) fn finish(mut self) -> [u8; 16] {
        let (tail, end) = self.padding();
        Kernel::get().hash_one(&mut self.state, &tail[..end]);
        digest_bytes(self.state)
    }
}

/// A state as the sixteen bytes of a digest.
pub(super) fn digest_bytes(state: [u32; 4]) -> [u8; 16] {
    let mut digest = [0; 16];
    for (bytes, word) in digest.chunks_exact_mut(4).zip(state) {
        bytes.copy_from_slice(&word.to_le_bytes());
    }
    digest
}

#[cfg(test)]
mod tests {
    use md5::Digest;

    use super::*;

    /// Every length around the edges of blocks, in one piece and in two, against the `md-5` crate.
    #[test]
    fn agrees_with_the_reference() {
        let data: Vec<u8> = (0..300).map(|i| (i * 7 + 3) as u8).collect();
        for len in 0..data.len() {
            let expected: [u8; 16] = md5::Md5::digest(&data[..len]).into();
            for cut in [0, 1, len / 3, len / 2, len.saturating_sub(1)] {
                let cut = cut.min(len);
                let mut md5 = Md5::new();
                md5.update(&data[..cut]);
                md5.update(&data[cut..len]);
                assert_eq!(md5.finish(), expected, "{len} bytes cut at {cut}");
            }
        }
    }
}
