//! One SHA-256 message: its state, its partial block, the chunks to hash.
//!
//! Must not depend on: streams, scheduling.

use std::collections::VecDeque;

use bytes::{Buf, Bytes};

use super::kernel::{self, BLOCK, INITIAL};

/// A running SHA-256 and what is queued for it.
pub(super) struct Message {
    state: [u32; 8],
    /// Bytes hashed or in `edge`.
    len: u64,
    /// The first `len % 64` bytes are those after the last whole block.
    edge: [u8; BLOCK],
    /// To be hashed, in order.
    pub(super) chunks: VecDeque<Bytes>,
    /// Chunks that are done; dropped where no lock is held.
    done: Vec<Bytes>,
}

impl Message {
    pub(super) fn new() -> Message {
        Message { state: INITIAL, len: 0, edge: [0; BLOCK], chunks: VecDeque::new(), done: Vec::new() }
    }

    /// Bytes that wait.
    pub(super) fn queued(&self) -> usize {
        self.chunks.iter().map(Bytes::len).sum()
    }

    /// Whole blocks at the front of the first chunk; 0: nothing but a partial block was left, which
    /// is put aside.
    fn blocks(&mut self) -> usize {
        while let Some(chunk) = self.chunks.front_mut() {
            let partial = (self.len % BLOCK as u64) as usize;
            if partial == 0 && chunk.len() >= BLOCK {
                return chunk.len() / BLOCK;
            }
            let take = chunk.len().min(BLOCK - partial);
            self.edge[partial..partial + take].copy_from_slice(&chunk[..take]);
            chunk.advance(take);
            self.len += take as u64;
            if partial + take == BLOCK {
                kernel::one(&mut self.state, &self.edge);
            }
            if chunk.is_empty() {
                self.done.extend(self.chunks.pop_front());
            }
        }
        0
    }

    fn front(&self) -> &[u8] {
        self.chunks.front().map_or(&[], |c| c)
    }

    fn advance(&mut self, blocks: usize) {
        self.len += (blocks * BLOCK) as u64;
        if let Some(chunk) = self.chunks.front_mut() {
            chunk.advance(blocks * BLOCK);
            if chunk.is_empty() {
                self.done.extend(self.chunks.pop_front());
            }
        }
    }

    /// Hashes all that is queued, alone.
    pub(super) fn hash(&mut self) {
        loop {
            let blocks = self.blocks();
            if blocks == 0 {
                return;
            }
            let data = self.chunks.front().map_or(&[][..], |c| &c[..blocks * BLOCK]);
            kernel::one(&mut self.state, data);
            self.advance(blocks);
        }
    }

    /// Hashes both until one of them has nothing more.
    pub(super) fn hash_beside(&mut self, other: &mut Message) {
        loop {
            let blocks = self.blocks().min(other.blocks());
            if blocks == 0 {
                return;
            }
            let (mut a, mut b) = (self.state, other.state);
            kernel::two(&mut a, &mut b, [self.front(), other.front()], blocks);
            (self.state, other.state) = (a, b);
            self.advance(blocks);
            other.advance(blocks);
        }
    }

    /// Lets go of the chunks that are hashed.
    pub(super) fn take_done(&mut self) -> Vec<Bytes> {
        std::mem::take(&mut self.done)
    }

    /// The digest of everything; nothing is queued any more.
    pub(super) fn digest(&self) -> [u8; 32] {
        assert!(self.chunks.is_empty(), "all is hashed");
        let mut tail = [0; 2 * BLOCK];
        let partial = (self.len % BLOCK as u64) as usize;
        tail[..partial].copy_from_slice(&self.edge[..partial]);
        tail[partial] = 0x80;
        let end = if partial < BLOCK - 8 { BLOCK } else { 2 * BLOCK };
        tail[end - 8..end].copy_from_slice(&self.len.wrapping_mul(8).to_be_bytes());
        let mut state = self.state;
        kernel::one(&mut state, &tail[..end]);
        let mut out = [0; 32];
        for (bytes, word) in out.chunks_exact_mut(4).zip(state) {
            bytes.copy_from_slice(&word.to_be_bytes());
        }
        out
    }
}
