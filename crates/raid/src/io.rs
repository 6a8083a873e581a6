//! Requests to members: blocks that lie one after another go together, and several members are asked at the same time.
//!
//! A thread is started for each further member only if the media say that a request mostly waits ([`crate::Medium::waits`]):
//! for a file in the cache of the kernel a thread costs more than the request.
//!
//! Invariants: one member gets its requests in the order of its blocks, and none after one that failed; all requests have
//! ended when a function returns.
//!
//! Must not depend on: what the blocks are, parity, the journal.

use std::collections::BTreeMap;
use std::io::{self, IoSliceMut};
use std::sync::Arc;

use crate::Error;
use crate::geometry::BLOCK;
use crate::group::Group;
use crate::medium::Medium;
use crate::member::Member;
use crate::sums::{Summer, UNWRITTEN};
use crate::threads::on_threads;

/// Slices of one request, at most.
const RUN: usize = 256;

/// Whole blocks that are to be read from a member.
pub(crate) struct Ask<'a> {
    pub(crate) slot: usize,
    pub(crate) row: u64,
    /// The checksums that the blocks have to have.
    pub(crate) sums: &'a [u64],
    pub(crate) to: &'a mut [u8],
}

/// What became of the blocks that a member was asked for.
pub(crate) struct Got {
    pub(crate) slot: usize,
    /// Rows whose block does not match its checksum or was not read, ascending.
    pub(crate) wrong: Vec<u64>,
    /// Why not all were read.
    pub(crate) failed: Option<io::Error>,
}

/// Reads and verifies blocks of members. It is independent of the group, so that it works also when the group does not wait.
pub(crate) struct Reader {
    pub(crate) media: BTreeMap<usize, Arc<dyn Medium>>,
    pub(crate) data_start: u64,
    pub(crate) summer: Summer,
}

/// Runs `work` with every state: at the same time, if that is worth threads.
fn at_once<S: Send, R: Send>(waits: bool, states: &mut [S], work: impl Fn(&mut S) -> R + Sync) -> Vec<R> {
    if waits { on_threads(states, work) } else { states.iter_mut().map(work).collect() }
}

impl Reader {
    /// Reads what is asked for. Blocks that were never written become zeros.
    pub(crate) fn read(&self, mut asks: Vec<Ask<'_>>) -> Vec<Got> {
        asks.sort_unstable_by_key(|a| (a.slot, a.row));
        let mut of: Vec<(usize, Vec<Ask<'_>>)> = Vec::new();
        for ask in asks {
            match of.last_mut() {
                Some((slot, list)) if *slot == ask.slot => list.push(ask),
                _ => of.push((ask.slot, vec![ask])),
            }
        }
        let waits = self.media.values().any(|m| m.waits());
        at_once(waits, &mut of, |(slot, asks)| self.read_member(*slot, asks))
    }

    fn read_member(&self, slot: usize, asks: &mut [Ask<'_>]) -> Got {
        let mut got = Got { slot, wrong: Vec::new(), failed: None };
        let mut rest = asks;
        while !rest.is_empty() {
            let next = |a: &Ask<'_>| a.row + a.sums.len() as u64;
            let count = 1 + rest.windows(2).take(RUN - 1).take_while(|w| next(&w[0]) == w[1].row).count();
            let read = self.read_run(slot, &mut rest[..count]);
            if let Err(e) = read {
                // It is not asked again.
                got.failed = Some(e);
                got.wrong.extend(rest.iter().flat_map(|a| a.row..a.row + a.sums.len() as u64));
                return got;
            }
            let (run, more) = rest.split_at_mut(count);
            rest = more;
            self.verify(run, &mut got.wrong);
        }
        got
    }

    fn read_run(&self, slot: usize, run: &mut [Ask<'_>]) -> io::Result<()> {
        let medium = self.media.get(&slot).ok_or(io::ErrorKind::NotFound)?;
        let at = |row: u64| (self.data_start + row) * BLOCK as u64;
        match run {
            [one] => medium.read_at(one.to, at(one.row)),
            many => {
                let first = many[0].row;
                let mut slices: Vec<_> = many.iter_mut().map(|a| IoSliceMut::new(a.to)).collect();
                medium.read_slices_at(&mut slices, at(first))
            }
        }
    }

    fn verify(&self, run: &mut [Ask<'_>], wrong: &mut Vec<u64>) {
        let mut blocks: Vec<(usize, u64, &[u8])> = Vec::new();
        let mut sums = Vec::new();
        for ask in run {
            let all = ask.to.chunks_exact_mut(BLOCK).zip(ask.sums).zip(ask.row..);
            for ((block, sum), row) in all {
                if *sum == UNWRITTEN {
                    block.fill(0);
                } else {
                    blocks.push((ask.slot, row, block));
                    sums.push(*sum);
                }
            }
        }
        // The reserved values are never found.
        let found = self.summer.of_blocks(&blocks).into_iter().zip(sums);
        wrong.extend(found.zip(&blocks).filter(|((found, sum), _)| found != sum).map(|(_, (_, row, _))| row));
    }
}

/// Blocks that are to be written to a member: its position, the first block, and the content.
pub(crate) type Put<'a> = (usize, u64, &'a [u8]);

/// Requests for one member: the first block and the slices of each.
type Runs<'a> = Vec<(u64, Vec<&'a [u8]>)>;

/// What is written, by member, adjacent blocks together.
fn runs<'a>(mut blocks: Vec<Put<'a>>) -> BTreeMap<usize, Runs<'a>> {
    blocks.sort_by_key(|(slot, block, _)| (*slot, *block));
    let mut out: BTreeMap<usize, Runs<'a>> = BTreeMap::new();
    let mut end = None;
    for (slot, block, content) in blocks {
        let runs = out.entry(slot).or_default();
        match runs.last_mut() {
            Some((_, slices)) if end == Some((slot, block)) && slices.len() < RUN => slices.push(content),
            _ => runs.push((block, vec![content])),
        }
        end = Some((slot, block + (content.len() / BLOCK) as u64));
    }
    out
}

impl Group {
    /// Reads blocks of these members.
    pub(crate) fn reader(&self, slots: impl IntoIterator<Item = usize>) -> Reader {
        let media = slots.into_iter().filter_map(|s| Some((s, self.members[s].as_ref()?.medium().clone())));
        Reader { media: media.collect(), data_start: self.layout.data_start, summer: self.summer.clone() }
    }

    /// Takes members out of service that could not be read, as far as their sets can do without them; the others have blocks that
    /// can be read.
    pub(crate) fn judge(&mut self, got: &mut [Got]) {
        for got in got {
            if let Some(e) = got.failed.take()
                && self.spareable(got.slot)
            {
                self.fail(got.slot, "read", &e);
            }
        }
    }

    /// Writes blocks to members, each of which fails if it cannot.
    pub(crate) fn write_all(&mut self, blocks: Vec<Put<'_>>, op: &str) {
        let mut runs = runs(blocks);
        let failed = on_members(
            &mut self.members,
            |slot, member| Some((member, runs.remove(&slot)?)),
            |(member, runs)| runs.iter().try_for_each(|(block, slices)| member.write_slices(*block, slices)),
        );
        self.fail_all(op, failed);
    }

    /// Flushes every member that was written. Those that cannot fail.
    pub(crate) fn flush_members(&mut self) -> Result<(), Error> {
        let failed = on_members(
            &mut self.members,
            |_, member| member.dirty.then_some(member),
            |member| member.flush(),
        );
        self.fail_all("flush", failed);
        self.running()
    }

    fn fail_all(&mut self, op: &str, failed: Vec<(usize, io::Error)>) {
        for (slot, e) in failed {
            self.fail(slot, op, &e);
        }
    }
}

/// Lets the members that `choose` takes work at the same time. The positions of those that cannot, ascending.
fn on_members<'a, S: Send>(
    members: &'a mut [Option<Member>],
    mut choose: impl FnMut(usize, &'a mut Member) -> Option<S>,
    work: impl Fn(&mut S) -> io::Result<()> + Sync,
) -> Vec<(usize, io::Error)> {
    let waits = members.iter().flatten().any(|m| m.medium().waits());
    let all = members.iter_mut().enumerate();
    let (slots, mut states): (Vec<usize>, Vec<S>) =
        all.filter_map(|(slot, m)| Some((slot, choose(slot, m.as_mut()?)?))).unzip();
    let done = at_once(waits, &mut states, work);
    slots.into_iter().zip(done).filter_map(|(slot, done)| Some((slot, done.err()?))).collect()
}
