//! Up to sixteen streams in lanes, hashed side by side.
//!
//! A batch is driven in rounds. In a round every lane hashes the same number of blocks: as many as the lane
//! with the shortest run of contiguous bytes has. Then each lane whose run ended gets its next one: further
//! blocks of a chunk, a block made of the ends of two chunks, or the padding. If its stream has no more
//! bytes, the stream leaves, and the last lane moves into its position.
//!
//! Invariants: lane `i` of `jobs` has its state in lane `i` of `states`; every lane has at least
//! one block before a round begins.
//!
//! Must not depend on: threads, waiting, how many streams there are.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::{Buf, Bytes};

use super::cell::{Cell, Refill};
use super::compress::BLOCK;
use super::kernel::{Kernel, LANES, States};
use super::state::{Md5, digest_bytes};

/// The most blocks of a round (32 KiB of each lane, some 50 us): how soon new streams join, dropped
/// ones leave.
const ROUND: usize = 512;

/// The streams that are being hashed by one thread.
pub(super) struct Batch {
    kernel: &'static Kernel,
    jobs: Vec<Job>,
    states: States,
    /// Blocks hashed in all lanes since the last count was taken.
    blocks: u64,
    /// Blocks that the fullest lane hashed: the cost of the rounds.
    steps: u64,
}

/// One stream in its lane.
struct Job {
    cell: Arc<Cell>,
    /// All but the state, which is in the lane.
    md5: Md5,
    /// The chunk that is being hashed, without what of it is done.
    chunk: Bytes,
    /// The length that it had.
    chunk_len: usize,
    /// The chunks after it.
    chunks: VecDeque<Bytes>,
    source: Source,
}

/// Where a lane's next blocks are.
enum Source {
    /// At the start of `chunk`, which holds at least one.
    Chunk,
    /// In `md5.edge`: one, put together.
    Edge,
    /// The last ones: the bytes, how many are hashed, and how many there are.
    Padding([u8; 2 * BLOCK], usize, usize),
}

/// The streams that left the lanes, for the scheduler.
#[derive(Default)]
pub(super) struct Left {
    /// Streams that have nothing queued, by id.
    pub(super) paused: Vec<u64>,
    /// Streams that were moved out for others, still scheduled.
    pub(super) yielded: Vec<Arc<Cell>>,
}

/// How a lane continues.
#[derive(PartialEq)]
enum Next {
    /// With blocks.
    Blocks,
    /// Not now: the stream has nothing queued.
    Pause,
    /// Later: other streams wait for a lane. The stream stays scheduled.
    Yield,
    /// Never: the stream is finished or dropped.
    End,
}

impl Batch {
    /// No streams.
    pub(super) fn new() -> Batch {
        Batch {
            kernel: Kernel::get(),
            jobs: Vec::with_capacity(LANES),
            states: States::new(),
            blocks: 0,
            steps: 0,
        }
    }

    /// How many lanes are taken.
    pub(super) fn len(&self) -> usize {
        self.jobs.len()
    }

    /// Whether a caller waits for one of the streams.
    pub(super) fn is_waited_for(&self) -> bool {
        self.jobs.iter().any(|job| job.cell.lock().waiter.is_some())
    }

    /// Takes up a scheduled stream; there must be a free lane.
    pub(super) fn admit(&mut self, cell: Arc<Cell>) {
        assert!(self.jobs.len() < LANES, "a lane is free");
        if cell.is_dropped() {
            return;
        }
        let mut chunks = VecDeque::new();
        let md5 = cell.claim(&mut chunks);
        let state = md5.state;
        let (chunk, chunk_len, source) = (Bytes::new(), 0, Source::Chunk);
        let mut job = Job { cell, md5, chunk, chunk_len, chunks, source };
        if job.next(state, false) == Next::Blocks {
            self.states.set(self.jobs.len(), state);
            self.jobs.push(job);
        }
    }

    /// One round. With `contended`, a stream whose queued bytes are used up gives its lane away, so that a
    /// few streams that are fed continuously cannot keep all lanes.
    pub(super) fn round(&mut self, contended: bool, left: &mut Left) {
        let mut lanes: [&[u8]; LANES] = [&[]; LANES];
        let mut blocks = ROUND;
        for (lane, job) in lanes.iter_mut().zip(&self.jobs) {
            *lane = job.bytes();
            blocks = blocks.min(lane.len() / BLOCK);
        }
        assert!(blocks > 0, "every lane has a block");
        self.kernel.hash_lanes(&mut self.states, &lanes[..self.jobs.len()], blocks);
        self.blocks += (blocks * self.jobs.len()) as u64;
        self.steps += blocks as u64;
        // Backwards, so that the lane that moves into a gap has already been processed.
        for lane in (0..self.jobs.len()).rev() {
            let state = self.states.get(lane);
            let next = self.jobs[lane].advance(blocks, state, contended);
            if next == Next::Blocks {
                continue;
            }
            let job = self.jobs.swap_remove(lane);
            self.states.set(lane, self.states.get(self.jobs.len()));
            match next {
                Next::Pause => left.paused.push(job.cell.id),
                Next::Yield => left.yielded.push(job.cell),
                Next::Blocks | Next::End => {}
            }
        }
    }

    /// Gives all streams back, still scheduled, for another batch to take up.
    pub(super) fn give_back(&mut self, mut to: impl FnMut(Arc<Cell>)) {
        for (lane, job) in self.jobs.drain(..).enumerate() {
            if let Some(cell) = job.give_back(self.states.get(lane)) {
                to(cell);
            }
        }
    }

    /// Blocks hashed and blocks paid for since the last call.
    pub(super) fn take_counts(&mut self) -> (u64, u64) {
        (std::mem::take(&mut self.blocks), std::mem::take(&mut self.steps))
    }
}

impl Job {
    /// The contiguous bytes that come next; whole blocks, at least one.
    fn bytes(&self) -> &[u8] {
        match &self.source {
            Source::Chunk => &self.chunk,
            Source::Edge => &self.md5.edge,
            Source::Padding(bytes, start, end) => &bytes[*start..*end],
        }
    }

    /// `blocks` of `bytes` are hashed, up to `state`: finds the next run of bytes.
    fn advance(&mut self, blocks: usize, state: [u32; 4], contended: bool) -> Next {
        if self.cell.is_dropped() {
            return Next::End;
        }
        match &mut self.source {
            Source::Chunk => {
                self.md5.len += (blocks * BLOCK) as u64;
                self.chunk.advance(blocks * BLOCK);
                if self.cell.is_dropped() {
                    return Next::End;
                }
            }
            Source::Edge => {}
            Source::Padding(_, start, end) => {
                *start += blocks * BLOCK;
                if start < end {
                    return Next::Blocks;
                }
                self.cell.finished(digest_bytes(state));
                return Next::End;
            }
        }
        self.next(state, contended)
    }

    /// Finds the next blocks; `state` is that of the lane, for the cell if the stream leaves.
    fn next(&mut self, state: [u32; 4], contended: bool) -> Next {
        loop {
            let partial = self.md5.partial();
            if partial == 0 && self.chunk.len() >= BLOCK {
                self.source = Source::Chunk;
                return Next::Blocks;
            }
            let take = self.chunk.len().min(BLOCK - partial);
            if take > 0 {
                self.chunk.copy_to_slice(&mut self.md5.edge[partial..partial + take]);
                self.md5.len += take as u64;
                if partial + take == BLOCK {
                    self.source = Source::Edge;
                    return Next::Blocks;
                }
            }
            if let Some(chunk) = self.chunks.pop_front() {
                self.chunk = chunk;
                let hashed = std::mem::replace(&mut self.chunk_len, self.chunk.len());
                self.cell.hashed(hashed);
                continue;
            }
            self.chunk = Bytes::new();
            self.md5.state = state;
            let hashed = std::mem::take(&mut self.chunk_len);
            match self.cell.refill(hashed, &mut self.chunks, &self.md5, contended) {
                Refill::More => {}
                Refill::Idle => return Next::Pause,
                Refill::Later => return Next::Yield,
                Refill::Finish => {
                    let (bytes, end) = self.md5.padding();
                    self.source = Source::Padding(bytes, 0, end);
                    return Next::Blocks;
                }
            }
        }
    }

    /// Puts everything that is not hashed back into the cell, which is returned unless its stream was
    /// dropped. A lane at an edge or at the padding hashes that here, since it is little.
    fn give_back(mut self, mut state: [u32; 4]) -> Option<Arc<Cell>> {
        let kernel = Kernel::get();
        match &self.source {
            Source::Chunk => {}
            Source::Edge => kernel.hash_one(&mut state, &self.md5.edge),
            Source::Padding(bytes, start, end) => {
                kernel.hash_one(&mut state, &bytes[*start..*end]);
                self.cell.finished(digest_bytes(state));
                return None;
            }
        }
        self.md5.state = state;
        // The hashed front of the chunk is counted now; its rest becomes a chunk of its own.
        let hashed = self.chunk_len - self.chunk.len();
        if !self.chunk.is_empty() {
            self.chunks.push_front(std::mem::take(&mut self.chunk));
        }
        self.cell.give_back(hashed, &self.md5, self.chunks);
        (!self.cell.is_dropped()).then_some(self.cell)
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use md5::Digest;

    use super::super::cell::Until;
    use super::*;

    /// A scheduled cell that ends behind `chunks`.
    fn cell(id: u64, chunks: Vec<Bytes>) -> Arc<Cell> {
        let cell = Arc::new(Cell::new(id));
        let mut inner = cell.lock();
        inner.queued = chunks.iter().map(Bytes::len).sum();
        inner.queue = chunks.into();
        inner.scheduled = true;
        inner.waiter = Some((Until::Digest, Waker::noop().clone()));
        drop(inner);
        cell
    }

    /// Streams that change their lane after every so many rounds: in the middle of a chunk, at an
    /// edge between chunks, within the padding.
    #[test]
    fn streams_move_between_lanes() {
        let data: Vec<u8> = (0..90_000u32).map(|i| (i.wrapping_mul(40_503) >> 7) as u8).collect();
        let data = Bytes::from(data);
        for rounds in 1..6 {
            let mut expected = Vec::new();
            let mut cells = VecDeque::new();
            for i in 0..21 {
                let mut hash = md5::Md5::new();
                let lens = [i * 13, 64 - i, 70_000 - 3000 * i, i, 120 + i];
                let chunks = lens.map(|len| data.slice(i..i + len)).to_vec();
                chunks.iter().for_each(|chunk| hash.update(chunk));
                expected.push((cell(i as u64, chunks), <[u8; 16]>::from(hash.finalize())));
            }
            cells.extend(expected.iter().map(|(cell, _)| cell.clone()));
            let (mut batch, mut left) = (Batch::new(), Left::default());
            let mut moves = 0;
            while !cells.is_empty() {
                moves += 1;
                assert!(moves < 10_000, "the streams do not advance");
                while batch.len() < LANES
                    && let Some(cell) = cells.pop_front()
                {
                    batch.admit(cell);
                }
                for _ in 0..rounds {
                    if batch.len() > 0 {
                        batch.round(true, &mut left);
                    }
                }
                batch.give_back(|cell| cells.push_back(cell));
                cells.extend(left.yielded.drain(..));
            }
            for (cell, digest) in expected {
                let inner = cell.lock();
                assert_eq!(inner.digest, Some(digest), "stream {}, {rounds} rounds", cell.id);
                assert!(!inner.scheduled && inner.queued == 0 && inner.waiter.is_none());
            }
            assert!(left.paused.is_empty());
        }
    }
}
