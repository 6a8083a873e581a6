//! A batch of a rebuild: what is read, what is computed of it, and what is written.
//!
//! A batch is a range of rows of one set. Within a strip the roles of members do not change, so a batch is planned in
//! pieces of strips; pieces of which the same is computed are the parts that the coder gets. Members are read in runs as long as
//! they are needed without a gap, straight into the memory of the coder.
//!
//! Invariants: only blocks that match their checksums are coded from; a row of which one does not is left out, and goes the
//! way of single rows. Nothing of the group changes here but blocks of the member that is rebuilt.
//!
//! Must not depend on: who codes; the state of the group, once the batch is planned.

use std::io::{self, IoSliceMut};
use std::ops::Range;

use ashlar_erasure::Code;

use crate::coder::{Memory, Part};
use crate::geometry::BLOCK;
use crate::group::Group;
use crate::layout::Layout;
use crate::member::Member;
use crate::sums::{Summer, UNKNOWN, UNWRITTEN};

/// Rows within a strip.
struct Piece {
    row: u64,
    count: usize,
    /// The members that are read, in the order of the input rows.
    sources: Vec<usize>,
    /// Where its first input row begins; the next one is `count` blocks further.
    input: usize,
    /// Where its output row begins.
    output: usize,
}

/// See the module.
pub(crate) struct Batch {
    /// The member that is rebuilt.
    slot: usize,
    rows: Range<u64>,
    /// The first member of the set.
    first: usize,
    /// The checksums of all rows, by member of the set.
    sums: Vec<Vec<u64>>,
    /// In the order of rows.
    pieces: Vec<Piece>,
    parts: Vec<Part>,
    /// Rows of which no member in service has a block.
    pub(crate) unwritten: Vec<u64>,
    /// Rows that too few members have.
    pub(crate) alone: Vec<u64>,
}

/// What became of a batch.
#[derive(Default)]
pub(crate) struct Outcome {
    /// The rows that were written, with their checksums.
    pub(crate) sums: Vec<(u64, u64)>,
    /// The rows that were not.
    pub(crate) left: Vec<u64>,
    /// A member that failed, and at what.
    pub(crate) failed: Option<(usize, &'static str, io::Error)>,
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
}

/// Blocks of a member that are read to one place.
struct Target<'a> {
    slot: usize,
    row: u64,
    to: &'a mut [u8],
}

impl Group {
    /// Plans the rebuild of rows of a member. They have one shape, and the member a role in it.
    pub(crate) fn plan(&mut self, slot: usize, rows: Range<u64>) -> Batch {
        let g = *self.shape(rows.start);
        let set = g.set(slot);
        let first = set as usize * g.n();
        let members = first..first + g.n();
        let sums: Vec<Vec<u64>> = members.map(|s| self.sums(s, rows.clone())).collect();
        let mut batch = Batch {
            slot,
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
            let (count, last) = ((end - row) as usize, end - 1);
            let lost = g.role(slot, row);
            // A member that is rebuilt too and has only some of these rows is no source.
            let all: Vec<usize> =
                (0..g.n()).filter(|r| *r != lost && self.up(g.slot(set, last, *r), last)).collect();
            let before = batch.unwritten.len();
            for row in row..end {
                if (0..g.n()).all(|r| {
                    let s = g.slot(set, row, r);
                    !self.up(s, row) || batch.sum(s, row) == UNWRITTEN
                }) {
                    batch.unwritten.push(row);
                }
            }
            if batch.unwritten.len() - before == count {
                // Nothing is read or written.
            } else if all.len() < g.k {
                let holds = |r: &u64| batch.unwritten.binary_search(r).is_err();
                batch.alone.extend((row..end).filter(holds));
            } else {
                let present = all[..g.k].to_vec();
                let sources = present.iter().map(|r| g.slot(set, row, *r)).collect();
                batch.pieces.push(Piece { row, count, sources, input: 0, output: 0 });
                batch.parts.push(Part { present, wanted: lost, row: count * BLOCK, stripes: 1 });
            }
            row = end;
        }
        batch.group_parts(self.code(batch.rows.start));
        batch
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
        let left = rows.filter(|r| self.unwritten.binary_search(r).is_err()).collect();
        Outcome { left, ..Outcome::default() }
    }

    /// Reads and verifies the input rows. What is wrong gets into `outcome`; false: a member could not be read.
    pub(crate) fn fill(&self, site: Site<'_>, input: &mut [u8], outcome: &mut Outcome) -> bool {
        let mut targets = self.targets(input);
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
                outcome.failed = Some((slot, "read", e));
                return false;
            }
            // While the run is in the cache.
            self.verify(site, run, outcome);
        }
        outcome.left.sort_unstable();
        outcome.left.dedup();
        true
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
        let skip =
            |row: &u64| self.unwritten.binary_search(row).is_ok() || outcome.left.binary_search(row).is_ok();
        let mut blocks: Vec<(usize, u64, &[u8])> = Vec::new();
        for piece in &self.pieces {
            let made = output[piece.output..piece.output + piece.count * BLOCK].chunks_exact(BLOCK);
            let rows = (piece.row..).zip(made).filter(|(row, _)| !skip(row));
            blocks.extend(rows.map(|(row, block)| (self.slot, row, block)));
        }
        let sums = site.summer.of_blocks(&blocks);
        let mut rest = &blocks[..];
        while let Some((_, row, _)) = rest.first() {
            let count = 1 + rest.windows(2).take_while(|w| w[0].1 + 1 == w[1].1).count();
            let slices: Vec<&[u8]> = rest[..count].iter().map(|(.., block)| *block).collect();
            let Some(member) = &site.members[self.slot] else { return };
            if let Err(e) = member.write_marked(site.layout.data_start + row, &slices) {
                outcome.failed = Some((self.slot, "rebuild", e));
                return;
            }
            outcome.written += count as u64;
            rest = &rest[count..];
        }
        outcome.sums = blocks.iter().map(|(_, row, _)| *row).zip(sums).collect();
    }

    /// The coder did not make the rows.
    pub(crate) fn give_up(&self, outcome: &mut Outcome, error: crate::Error) {
        outcome.left = self.given_up().left;
        outcome.coder = Some(error);
    }
}
