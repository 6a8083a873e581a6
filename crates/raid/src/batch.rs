//! A batch of a rebuild: what is read, what is computed of it, and what is written.
//!
//! A batch is a range of rows. Within a strip the roles of members do not change, so a batch is planned in
//! pieces of strips; pieces of which the same is computed are the parts that the coder gets. Members are read in runs as long as
//! they are needed without a gap, straight into the memory of the coder; those that wait at the same time.
//!
//! Invariants: only blocks that match their checksums are coded from; a row of which one does not is left out, and goes the
//! way of single rows. Nothing of the group changes here but blocks that are rebuilt.
//!
//! Must not depend on: who codes; the state of the group, once the batch is planned.

use std::io::{self, IoSliceMut};
use std::ops::Range;
use std::sync::Arc;

use ashlar_erasure::Code;

use crate::coder::{Memory, Part};
use crate::geometry::BLOCK;
use crate::group::Group;
use crate::io::{Ask, Reader, Writes};
use crate::layout::Layout;
use crate::member::Member;
use crate::pool::Pool;
use crate::progress::Progress;
use crate::sums::{Summer, UNKNOWN, UNWRITTEN};

/// Rows within a strip.
struct Piece {
    row: u64,
    count: usize,
    /// The member that is written.
    target: usize,
    /// The members that are read, in the order of the input rows.
    sources: Vec<usize>,
    /// Where its first input row begins; the next one is `count` blocks further.
    input: usize,
    /// Where its output row begins.
    output: usize,
}

/// See the module.
pub(crate) struct Batch {
    rows: Range<u64>,
    /// The first member that can be read.
    first: usize,
    /// The checksums of all rows, by member from the first on.
    sums: Vec<Vec<u64>>,
    /// In the order of rows.
    pieces: Vec<Piece>,
    parts: Vec<Part>,
    /// Rows of which no member in service has a block, and the members that have none either.
    pub(crate) unwritten: Vec<(u64, usize)>,
    /// Rows that too few members have.
    pub(crate) alone: Vec<u64>,
}

/// What became of a batch.
#[derive(Default)]
pub(crate) struct Outcome {
    /// The blocks that were written, by member and row, with their checksums.
    pub(crate) sums: Vec<(usize, u64, u64)>,
    /// The rows that were not.
    pub(crate) left: Vec<u64>,
    /// Members that failed, and at what.
    pub(crate) failed: Vec<(usize, &'static str, io::Error)>,
    /// The coder failed.
    pub(crate) coder: Option<crate::Error>,
    /// Blocks read and written.
    pub(crate) read: u64,
    pub(crate) written: u64,
}

/// What batches need of a group while they run.
#[derive(Clone, Copy)]
pub(crate) struct Site<'a> {
    pub(crate) members: &'a [Option<Member>],
    pub(crate) layout: &'a Layout,
    pub(crate) summer: &'a Summer,
    /// What reads and writes several members at the same time, if they wait.
    pub(crate) together: Option<(&'a Arc<Reader>, &'a Pool)>,
}

/// Blocks of a member that are read to one place.
struct Target<'a> {
    slot: usize,
    row: u64,
    to: &'a mut [u8],
}

impl Group {
    /// Plans the rebuild of rows of a member, without those whose block is in a distributed spare. They have one shape, and the member a role
    /// in it.
    pub(crate) fn plan(&mut self, work: &Progress, rows: Range<u64>) -> Batch {
        let g = *self.shape(rows.start);
        let members = g.members_of(g.part(work.slot));
        let first = members.start;
        let sums: Vec<Vec<u64>> = members.map(|s| self.sums(s, rows.clone())).collect();
        let mut batch = Batch {
            rows: rows.clone(),
            first,
            sums,
            pieces: Vec::new(),
            parts: Vec::new(),
            unwritten: Vec::new(),
            alone: Vec::new(),
        };
        let mut row = rows.start;
        while row < rows.end {
            let end = ((row / g.strip_blocks + 1) * g.strip_blocks).min(rows.end);
            self.plan_strip(work, row..end, &mut batch);
            row = end;
        }
        batch.group_parts(self.code(batch.rows.start));
        batch
    }

    /// Plans rows of one strip.
    fn plan_strip(&mut self, work: &Progress, rows: Range<u64>, batch: &mut Batch) {
        let (row, last, count) = (rows.start, rows.end - 1, (rows.end - rows.start) as usize);
        let g = *self.shape(row);
        let Some((set, lost)) = self.role_at(work.slot, row) else { return };
        let Some(target) = self.target(work, row) else { return };
        let slots = self.slots(set, row);
        if g.is_declustered() && self.up(slots[lost], row) {
            // It is copied.
            return;
        }
        // A member that is rebuilt too and has only some of these rows is no source.
        let up = |role: &usize| *role != lost && self.up(slots[*role], last);
        // Of a declustered group from another one on in each strip, so that all members are read equally often.
        let turn = if g.is_declustered() { lost + 1 } else { 0 };
        let mut all: Vec<usize> = (0..g.n()).map(|i| (i + turn) % g.n()).filter(up).collect();
        let before = batch.unwritten.len();
        for row in rows.clone() {
            if slots.iter().all(|s| !self.up(*s, row) || batch.sum(*s, row) == UNWRITTEN) {
                batch.unwritten.push((row, target));
            }
        }
        if batch.unwritten.len() - before == count {
            // Nothing is read or written.
        } else if all.len() < g.k {
            let alone: Vec<u64> = rows.filter(|row| !batch.is_unwritten(*row)).collect();
            batch.alone.extend(alone);
        } else {
            all.truncate(g.k);
            all.sort_unstable();
            let sources = all.iter().map(|role| slots[*role]).collect();
            batch.pieces.push(Piece { row, count, target, sources, input: 0, output: 0 });
            batch.parts.push(Part { present: all, wanted: lost, row: count * BLOCK, stripes: 1 });
        }
    }

    /// The checksums of consecutive blocks of a member; those of a member that is not attached are lost.
    pub(crate) fn sums(&mut self, slot: usize, rows: Range<u64>) -> Vec<u64> {
        let mut out = Vec::with_capacity((rows.end - rows.start) as usize);
        if self.members[slot].is_none() {
            out.resize((rows.end - rows.start) as usize, UNKNOWN);
            return out;
        }
        let mut row = rows.start;
        while row < rows.end {
            // It loads the page.
            out.push(self.sum(slot, row));
            let rest = self.pages.rest(slot, row);
            let more = rest.len().min((rows.end - row - 1) as usize);
            out.extend_from_slice(&rest[..more]);
            row += 1 + more as u64;
        }
        out
    }
}

impl Batch {
    fn sum(&self, slot: usize, row: u64) -> u64 {
        self.sums[slot - self.first][(row - self.rows.start) as usize]
    }

    fn is_unwritten(&self, row: u64) -> bool {
        self.unwritten.binary_search_by_key(&row, |(row, _)| *row).is_ok()
    }

    /// The members that it writes to.
    pub(crate) fn written_to(&self) -> impl Iterator<Item = usize> {
        self.pieces.iter().map(|piece| piece.target)
    }

    /// Puts pieces of which the same is computed together, and gives every piece its places.
    fn group_parts(&mut self, code: &Code) {
        let mut parts: Vec<(Vec<u8>, Part, Vec<usize>)> = Vec::new();
        for (at, part) in std::mem::take(&mut self.parts).into_iter().enumerate() {
            // Rows that are made with equal coefficients are made of their inputs in the same way, whatever their roles are.
            let found = code.decode_coefficients(&part.present, &[part.wanted]);
            let coefficients = found.map(|(_, c)| c).unwrap_or_default();
            match parts.iter_mut().find(|(c, p, _)| *c == coefficients && p.row == part.row) {
                Some((_, known, pieces)) => {
                    known.stripes += 1;
                    pieces.push(at);
                }
                None => parts.push((coefficients, part, vec![at])),
            }
        }
        let (mut input, mut output) = (0, 0);
        for (_, part, pieces) in parts {
            for at in pieces {
                (self.pieces[at].input, self.pieces[at].output) = (input, output);
                input += part.row * part.present.len();
                output += part.row;
            }
            self.parts.push(part);
        }
    }

    /// Whether there is nothing to compute.
    pub(crate) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// What the coder computes.
    pub(crate) fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// Everything is left to do, row by row.
    pub(crate) fn given_up(&self) -> Outcome {
        let rows = self.pieces.iter().flat_map(|p| p.row..p.row + p.count as u64);
        let left = rows.filter(|r| !self.is_unwritten(*r)).collect();
        Outcome { left, ..Outcome::default() }
    }

    /// Reads and verifies the input rows. What is wrong gets into `outcome`; false: a member could not be read.
    pub(crate) fn fill(&self, site: Site<'_>, input: &mut [u8], outcome: &mut Outcome) -> bool {
        let mut targets = self.targets(input);
        if let Some((reader, pool)) = site.together {
            return self.fill_together(reader, pool, targets, outcome);
        }
        targets.sort_unstable_by_key(|t| (t.slot, t.row));
        let mut rest = &mut targets[..];
        while !rest.is_empty() {
            let follows = |w: &[Target<'_>]| {
                w[0].slot == w[1].slot && w[0].row + (w[0].to.len() / BLOCK) as u64 == w[1].row
            };
            let count = 1 + rest.windows(2).take_while(|w| follows(w)).count();
            let (run, more) = rest.split_at_mut(count);
            rest = more;
            let (slot, row) = (run[0].slot, run[0].row);
            let read = match &site.members[slot] {
                None => Err(io::ErrorKind::NotFound.into()),
                Some(member) => {
                    let mut slices: Vec<_> = run.iter_mut().map(|t| IoSliceMut::new(t.to)).collect();
                    member.read_slices(site.layout.data_start + row, &mut slices)
                }
            };
            if let Err(e) = read {
                outcome.failed.push((slot, "read", e));
                return false;
            }
            // While the run is in the cache.
            self.verify(site, run, outcome);
        }
        outcome.left.sort_unstable();
        outcome.left.dedup();
        true
    }

    /// As [`Batch::fill`], of members that wait.
    fn fill_together(
        &self,
        reader: &Arc<Reader>,
        pool: &Pool,
        targets: Vec<Target<'_>>,
        outcome: &mut Outcome,
    ) -> bool {
        let asks = targets.into_iter().map(|Target { slot, row, to }| {
            let at = (row - self.rows.start) as usize;
            Ask { slot, row, sums: &self.sums[slot - self.first][at..at + to.len() / BLOCK], to }
        });
        let asks: Vec<Ask<'_>> = asks.collect();
        outcome.read += asks.iter().map(|ask| ask.sums.len() as u64).sum::<u64>();
        for got in reader.read(Some(pool), asks) {
            outcome.left.extend(got.wrong);
            outcome.failed.extend(got.failed.map(|e| (got.slot, "read", e)));
        }
        outcome.left.sort_unstable();
        outcome.left.dedup();
        outcome.failed.is_empty()
    }

    /// Where the blocks of members go that are to be read. Those that were never written are zeros.
    fn targets<'a>(&self, input: &'a mut [u8]) -> Vec<Target<'a>> {
        let mut places: Vec<(usize, usize, u64, usize)> = Vec::new();
        for piece in &self.pieces {
            let len = piece.count * BLOCK;
            let of = piece.sources.iter().enumerate();
            places.extend(of.map(|(i, slot)| (piece.input + i * len, *slot, piece.row, len)));
        }
        places.sort_unstable();
        let (mut out, mut rest, mut at) = (Vec::with_capacity(places.len()), input, 0);
        for (from, slot, row, len) in places {
            let (to, more) = std::mem::take(&mut rest)[from - at..].split_at_mut(len);
            (rest, at) = (more, from + len);
            let rows = row..row + (len / BLOCK) as u64;
            if rows.clone().all(|r| self.sum(slot, r) == UNWRITTEN) {
                to.fill(0);
            } else {
                out.push(Target { slot, row, to });
            }
        }
        out
    }

    fn verify(&self, site: Site<'_>, run: &mut [Target<'_>], outcome: &mut Outcome) {
        let mut blocks: Vec<(usize, u64, &[u8])> = Vec::new();
        for target in run {
            for (row, block) in (target.row..).zip(target.to.chunks_exact_mut(BLOCK)) {
                if self.sum(target.slot, row) == UNWRITTEN {
                    block.fill(0);
                } else {
                    blocks.push((target.slot, row, block));
                }
            }
        }
        outcome.read += blocks.len() as u64;
        for ((slot, row, _), found) in blocks.iter().zip(site.summer.of_blocks(&blocks)) {
            // The reserved values are never found.
            if self.sum(*slot, *row) != found {
                outcome.left.push(*row);
            }
        }
    }

    /// Writes what the coder made, without the rows that are left.
    pub(crate) fn finish(&self, site: Site<'_>, memory: &mut dyn Memory, outcome: &mut Outcome) {
        let output = match memory.output() {
            Ok(output) => output,
            Err(e) => return self.give_up(outcome, e),
        };
        let skip = |row: &u64| self.is_unwritten(*row) || outcome.left.binary_search(row).is_ok();
        let mut blocks: Vec<(usize, u64, &[u8])> = Vec::new();
        for piece in &self.pieces {
            let made = output[piece.output..piece.output + piece.count * BLOCK].chunks_exact(BLOCK);
            let rows = (piece.row..).zip(made).filter(|(row, _)| !skip(row));
            blocks.extend(rows.map(|(row, block)| (piece.target, row, block)));
        }
        blocks.sort_unstable_by_key(|(slot, row, _)| (*slot, *row));
        let sums = site.summer.of_blocks(&blocks);
        outcome.failed.extend(write(site, &blocks).into_iter().map(|(slot, e)| (slot, "rebuild", e)));
        let failed = |slot: &usize| outcome.failed.iter().any(|(s, ..)| s == slot);
        let mut left = Vec::new();
        for ((slot, row, _), sum) in blocks.iter().zip(sums) {
            if failed(slot) {
                // It may have another place without the member that failed.
                left.push(*row);
            } else {
                outcome.sums.push((*slot, *row, sum));
            }
        }
        outcome.written += outcome.sums.len() as u64;
        outcome.left.extend(left);
    }

    /// The coder did not make the rows.
    pub(crate) fn give_up(&self, outcome: &mut Outcome, error: crate::Error) {
        outcome.left = self.given_up().left;
        outcome.coder = Some(error);
    }
}

/// Writes blocks, which are in the order of members and rows: members that could not be written.
fn write(site: Site<'_>, blocks: &[(usize, u64, &[u8])]) -> Vec<(usize, io::Error)> {
    type Block<'a> = (usize, u64, &'a [u8]);
    let follows = |a: &Block<'_>, b: &Block<'_>| a.0 == b.0 && a.1 + 1 == b.1;
    let one = blocks.first().zip(blocks.last()).is_some_and(|(a, b)| a.0 == b.0);
    if let Some((_, pool)) = site.together.filter(|_| !one) {
        let runs = blocks.chunk_by(follows);
        let run = |run: &[(usize, u64, &[u8])]| {
            let content: Vec<u8> = run.iter().flat_map(|(.., block)| block.iter().copied()).collect();
            (run[0].0, site.layout.data_start + run[0].1, content.into())
        };
        let done = Writes::to(site.members, runs.map(run).collect()).run(pool);
        return done.into_iter().filter_map(|(slot, done)| Some((slot, done.err()?))).collect();
    }
    let mut failed: Vec<(usize, io::Error)> = Vec::new();
    for run in blocks.chunk_by(follows) {
        let (slot, row, _) = run[0];
        let slices: Vec<&[u8]> = run.iter().map(|(.., block)| *block).collect();
        let Some(member) = site.members[slot].as_ref().filter(|_| failed.iter().all(|(s, _)| *s != slot))
        else {
            continue;
        };
        if let Err(e) = member.write_marked(site.layout.data_start + row, &slices) {
            failed.push((slot, e));
        }
    }
    failed
}
