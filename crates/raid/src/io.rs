//! Requests to members: blocks that lie one after another go together, and several members are asked at the same time.
//!
//! That is done only if the media say that a request mostly waits ([`crate::Medium::waits`]): for a file in the cache of the kernel another
//! thread costs more than the request. What a medium can begin without waiting ([`crate::Medium::submit`]) takes no thread; the rest does.
//!
//! Invariants: all requests have ended when a function returns; the requests of one call are in no order, also those of one member, so what
//! has to come before another has a call and a flush of its own; a member is asked nothing more after a request that failed was seen.
//!
//! Must not depend on: what the blocks are, parity, the journal.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, IoSlice, IoSliceMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::Error;
use crate::content::{Content, Put};
use crate::geometry::BLOCK;
use crate::group::Group;
use crate::medium::{Command, Medium};
use crate::member::Member;
use crate::pool::Pool;
use crate::submit::{self, Answer, Submission};
use crate::sums::{Summer, UNWRITTEN};

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

/// The places, member and row, that have to be found otherwise.
pub(crate) fn wrong_places(got: &[Got]) -> BTreeSet<(usize, u64)> {
    got.iter().flat_map(|g| g.wrong.iter().map(|row| (g.slot, *row))).collect()
}

/// Reads and verifies blocks of members. It is independent of the group, so that it works also when the group does not wait.
pub(crate) struct Reader {
    pub(crate) media: BTreeMap<usize, Arc<dyn Medium>>,
    pub(crate) data_start: u64,
    pub(crate) summer: Summer,
}

/// Blocks that are read by another thread, and copied from there.
struct Owned {
    row: u64,
    sums: Vec<u64>,
    to: Vec<u8>,
}

impl Owned {
    fn of(ask: &Ask<'_>) -> Owned {
        Owned { row: ask.row, sums: ask.sums.to_vec(), to: vec![0; ask.to.len()] }
    }

    fn ask(&mut self, slot: usize) -> Ask<'_> {
        Ask { slot, row: self.row, sums: &self.sums, to: &mut self.to }
    }
}

/// What a member is asked for, in the order of its rows.
type OfMember<'a> = (usize, Vec<Ask<'a>>);

fn by_member(mut asks: Vec<Ask<'_>>) -> Vec<OfMember<'_>> {
    asks.sort_unstable_by_key(|a| (a.slot, a.row));
    let mut of: Vec<OfMember<'_>> = Vec::new();
    for ask in asks {
        match of.last_mut() {
            Some((slot, list)) if *slot == ask.slot => list.push(ask),
            _ => of.push((ask.slot, vec![ask])),
        }
    }
    of
}

/// How many of these lie one after another, from the first on.
fn run_len(asks: &[Ask<'_>]) -> usize {
    let next = |a: &Ask<'_>| a.row + a.sums.len() as u64;
    1 + asks.windows(2).take(RUN - 1).take_while(|w| next(&w[0]) == w[1].row).count()
}

fn rows_of<'a>(asks: &'a [Ask<'_>]) -> impl Iterator<Item = u64> + 'a {
    asks.iter().flat_map(|a| a.row..a.row + a.sums.len() as u64)
}

impl Reader {
    /// Reads what is asked for: of members that wait at the same time, on threads only if there is a pool. Blocks that were never written
    /// become zeros. What became of a member may be told in several parts.
    pub(crate) fn read(self: &Arc<Self>, pool: Option<&Pool>, asks: Vec<Ask<'_>>) -> Vec<Got> {
        let mut of = by_member(asks);
        let waits = self.media.values().any(|m| m.waits());
        let mut out = if waits { self.read_submitted(&mut of) } else { Vec::new() };
        match pool.filter(|_| waits && of.len() > 1) {
            Some(pool) => out.extend(self.read_on_threads(pool, &mut of)),
            None => out.extend(of.iter_mut().map(|(slot, asks)| self.read_member(*slot, asks))),
        }
        out
    }

    /// As [`Reader::read`], beside others who do the same: each member gets the requests of all in the order in which they came, so that those
    /// who came first do not wait for the others.
    pub(crate) fn read_in_turn(self: &Arc<Self>, pool: &Pool, asks: Vec<Ask<'_>>) -> Vec<Got> {
        let mut of = by_member(asks);
        let mut out = self.read_submitted(&mut of);
        let mut runs = Vec::new();
        for (slot, asks) in &of {
            let failed = Arc::new(AtomicBool::new(false));
            let mut rest = &asks[..];
            while !rest.is_empty() {
                let (run, more) = rest.split_at(run_len(rest));
                runs.push((*slot, (*slot, run.iter().map(Owned::of).collect::<Vec<_>>(), failed.clone())));
                rest = more;
            }
        }
        let me = self.clone();
        let done = pool.run_in_lanes(runs, move |(slot, mut owned, failed)| {
            let mut asks: Vec<Ask<'_>> = owned.iter_mut().map(|o| o.ask(slot)).collect();
            let got = if failed.load(Ordering::Acquire) {
                // It is not asked again.
                Got { slot, wrong: rows_of(&asks).collect(), failed: None }
            } else {
                me.read_member(slot, &mut asks)
            };
            failed.fetch_or(got.failed.is_some(), Ordering::Release);
            (got, owned)
        });
        let asks = of.iter_mut().flat_map(|(_, asks)| asks);
        let owned = done.iter().flat_map(|(_, owned)| owned);
        asks.zip(owned).for_each(|(ask, o)| ask.to.copy_from_slice(&o.to));
        out.extend(done.into_iter().map(|(got, _)| got));
        out
    }

    /// Reads what members can be asked without waiting; `of` keeps the rest.
    fn read_submitted(&self, of: &mut Vec<OfMember<'_>>) -> Vec<Got> {
        let mut submissions = Vec::new();
        // How many of the asks of a member go with each of its submissions.
        let mut counts: Vec<Vec<usize>> = vec![Vec::new(); of.len()];
        for ((slot, asks), counts) in of.iter().zip(&mut counts) {
            let Some(medium) = self.media.get(slot).filter(|m| m.waits()) else { continue };
            let mut rest = &asks[..];
            while !rest.is_empty() {
                let (run, more) = rest.split_at(run_len(rest));
                let (at, len) = (self.position(run[0].row), run.iter().map(|a| a.to.len()).sum());
                submissions.push(Submission {
                    slot: *slot,
                    medium: &**medium,
                    command: Command::Read { at, len },
                });
                counts.push(run.len());
                rest = more;
            }
        }
        // One alone is waited for anyway.
        if submissions.len() < 2 {
            return Vec::new();
        }
        let mut answers = submit::execute(&submissions).into_iter();
        let mut out = Vec::new();
        for ((slot, asks), counts) in of.iter_mut().zip(counts) {
            let answers = counts.into_iter().zip(answers.by_ref());
            out.push(self.take_in(*slot, asks, answers.collect()));
        }
        of.retain(|(_, asks)| !asks.is_empty());
        out
    }

    /// Takes what a member has answered, and leaves what it was not asked.
    fn take_in(&self, slot: usize, asks: &mut Vec<Ask<'_>>, answers: Vec<(usize, Answer)>) -> Got {
        let mut got = Got { slot, wrong: Vec::new(), failed: None };
        let mut all = std::mem::take(asks).into_iter();
        for (count, answer) in answers {
            let mut run: Vec<Ask<'_>> = all.by_ref().take(count).collect();
            match answer {
                None => asks.extend(run),
                Some(Ok(data)) => {
                    let mut from = &data[..];
                    for ask in &mut run {
                        let (mine, more) = from.split_at(ask.to.len());
                        ask.to.copy_from_slice(mine);
                        from = more;
                    }
                    self.verify(&mut run, &mut got.wrong);
                }
                Some(Err(e)) => {
                    got.failed = Some(e);
                    got.wrong.extend(rows_of(&run));
                }
            }
        }
        asks.extend(all);
        if got.failed.is_some() {
            // It is not asked again.
            got.wrong.extend(rows_of(asks));
            asks.clear();
        }
        got.wrong.sort_unstable();
        got
    }

    fn read_on_threads(self: &Arc<Self>, pool: &Pool, of: &mut [OfMember<'_>]) -> Vec<Got> {
        let owned = of.iter().map(|(slot, asks)| (*slot, asks.iter().map(Owned::of).collect::<Vec<_>>()));
        let me = self.clone();
        let done = pool.run(owned.collect(), move |(slot, mut owned)| {
            let mut asks: Vec<Ask<'_>> = owned.iter_mut().map(|o| o.ask(slot)).collect();
            (me.read_member(slot, &mut asks), owned)
        });
        for ((_, asks), (_, owned)) in of.iter_mut().zip(&done) {
            asks.iter_mut().zip(owned).for_each(|(ask, o)| ask.to.copy_from_slice(&o.to));
        }
        done.into_iter().map(|(got, _)| got).collect()
    }

    /// The first byte of a row.
    fn position(&self, row: u64) -> u64 {
        (self.data_start + row) * BLOCK as u64
    }

    fn read_member(&self, slot: usize, asks: &mut [Ask<'_>]) -> Got {
        let mut got = Got { slot, wrong: Vec::new(), failed: None };
        let mut rest = asks;
        while !rest.is_empty() {
            let count = run_len(rest);
            let read = self.read_run(slot, &mut rest[..count]);
            if let Err(e) = read {
                // It is not asked again.
                got.failed = Some(e);
                got.wrong.extend(rows_of(rest));
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
        match run {
            [one] => medium.read_at(one.to, self.position(one.row)),
            many => {
                let at = self.position(many[0].row);
                let mut slices: Vec<_> = many.iter_mut().map(|a| IoSliceMut::new(a.to)).collect();
                medium.read_slices_at(&mut slices, at)
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

/// Requests for one member: the first block and the content of each.
type Runs = Vec<(u64, Vec<Content>)>;

/// What is written, by member, adjacent blocks together.
fn runs(mut blocks: Vec<Put>) -> BTreeMap<usize, Runs> {
    blocks.sort_by_key(|(slot, block, _)| (*slot, *block));
    let mut out: BTreeMap<usize, Runs> = BTreeMap::new();
    let mut end = None;
    for (slot, block, content) in blocks {
        let runs = out.entry(slot).or_default();
        let next = Some((slot, block + (content.len() / BLOCK) as u64));
        match runs.last_mut() {
            Some((_, slices)) if end == Some((slot, block)) && slices.len() < RUN => slices.push(content),
            _ => runs.push((block, vec![content])),
        }
        end = next;
    }
    out
}

fn write_runs(medium: &dyn Medium, runs: &Runs) -> io::Result<()> {
    runs.iter().try_for_each(|(block, contents)| {
        let mut slices: Vec<IoSlice<'_>> = contents.iter().map(|c| IoSlice::new(c)).collect();
        medium.write_slices_at(&mut slices, block * BLOCK as u64)
    })
}

/// Work for members: position, medium, and what it needs.
type Jobs<S> = Vec<(usize, Arc<dyn Medium>, S)>;

/// What became of the work of a member.
pub(crate) type Done = Vec<(usize, io::Result<()>)>;

/// Members that are to be flushed.
pub(crate) type Flushes = Jobs<()>;

/// Blocks that are to be written to members, without the group.
#[derive(Default)]
pub(crate) struct Writes {
    jobs: Jobs<Runs>,
}

impl Writes {
    /// Blocks for members that are marked.
    pub(crate) fn to(members: &[Option<Member>], blocks: Vec<Put>) -> Writes {
        let medium = |slot: usize| members[slot].as_ref().map(|m| m.medium().clone());
        let jobs = runs(blocks).into_iter().filter_map(|(slot, runs)| Some((slot, medium(slot)?, runs)));
        Writes { jobs: jobs.collect() }
    }

    /// Writes them.
    pub(crate) fn run(mut self, pool: &Pool) -> Done {
        let mut done = submit_writes(&mut self.jobs);
        done.extend(together(pool, self.jobs, write_runs));
        done
    }

    /// What makes them durable.
    pub(crate) fn flushes(&self) -> Flushes {
        self.jobs.iter().map(|(slot, medium, _)| (*slot, medium.clone(), ())).collect()
    }
}

/// Flushes members.
pub(crate) fn flush(pool: &Pool, mut jobs: Flushes) -> Done {
    let mut done = submit_flushes(&mut jobs);
    done.extend(together(pool, jobs, |medium, ()| medium.flush()));
    done
}

/// Lets members work at the same time on threads, if that is worth it. The positions are in the order of the jobs.
fn together<S: Send + 'static>(
    pool: &Pool,
    jobs: Jobs<S>,
    work: fn(&dyn Medium, &S) -> io::Result<()>,
) -> Done {
    let waits = jobs.len() > 1 && jobs.iter().any(|(_, m, _)| m.waits());
    let work = move |(slot, medium, what): (usize, Arc<dyn Medium>, S)| (slot, work(&*medium, &what));
    if waits { pool.run(jobs, work) } else { jobs.into_iter().map(work).collect() }
}

/// Writes what members can be asked without waiting. The jobs keep the rest, without members that failed.
fn submit_writes(jobs: &mut Jobs<Runs>) -> Done {
    let several = jobs.iter().map(|(.., runs)| runs.len()).sum::<usize>() > 1;
    let waits = |job: &(usize, Arc<dyn Medium>, Runs)| several && job.1.waits();
    let all = jobs.iter().filter(|job| waits(job)).flat_map(|(slot, medium, runs)| {
        runs.iter().map(move |(block, contents)| {
            let data = contents.iter().map(|c| &c[..]).collect();
            let command = Command::Write { at: block * BLOCK as u64, data };
            Submission { slot: *slot, medium: &**medium, command }
        })
    });
    let mut answers = submit::execute(&all.collect::<Vec<_>>()).into_iter();
    let mut done = Vec::new();
    for (slot, _, runs) in jobs.iter_mut().filter(|job| waits(job)) {
        let mut failed = None;
        runs.retain(|_| match answers.next().flatten() {
            None => true,
            Some(answer) => {
                failed = failed.take().or(answer.err());
                false
            }
        });
        if let Some(e) = failed {
            runs.clear();
            done.push((*slot, Err(e)));
        }
    }
    jobs.retain(|(.., runs)| !runs.is_empty());
    done
}

/// Flushes members that can be asked without waiting. The jobs keep the others.
fn submit_flushes(jobs: &mut Jobs<()>) -> Done {
    if jobs.len() < 2 || !jobs.iter().any(|(_, m, ())| m.waits()) {
        return Vec::new();
    }
    let all = jobs.iter().map(|(slot, medium, ())| Submission {
        slot: *slot,
        medium: &**medium,
        command: Command::Flush,
    });
    let answers = submit::execute(&all.collect::<Vec<_>>());
    let mut done = Vec::new();
    let mut answers = answers.into_iter();
    jobs.retain(|(slot, ..)| match answers.next().flatten() {
        None => true,
        Some(answer) => {
            done.push((*slot, answer.map(drop)));
            false
        }
    });
    done
}

impl Group {
    /// Reads blocks of these members.
    pub(crate) fn reader(&self, slots: impl IntoIterator<Item = usize>) -> Arc<Reader> {
        let media = slots.into_iter().filter_map(|s| Some((s, self.members[s].as_ref()?.medium().clone())));
        Arc::new(Reader {
            media: media.collect(),
            data_start: self.layout.data_start,
            summer: self.summer.clone(),
        })
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

    /// Whether a member is still the one that was read.
    pub(crate) fn is_of(&self, reader: &Reader, slot: usize) -> bool {
        let present = self.members[slot].as_ref().map(|m| m.medium());
        present.zip(reader.media.get(&slot)).is_some_and(|(a, b)| Arc::ptr_eq(a, b))
    }

    /// Plans to write blocks to members, as far as they are in service.
    pub(crate) fn writes(&mut self, blocks: Vec<Put>) -> Writes {
        let writes = Writes::to(&self.members, blocks);
        for (slot, ..) in &writes.jobs {
            if let Some(member) = &mut self.members[*slot] {
                member.mark();
            }
        }
        writes
    }

    /// Writes blocks to members, each of which fails if it cannot.
    pub(crate) fn write_all(&mut self, blocks: Vec<Put>, op: &str) {
        for (slot, done) in self.writes(blocks).run(&self.pool) {
            if let Err(e) = done {
                self.fail(slot, op, &e);
            }
        }
    }

    /// What makes everything durable that members have written.
    pub(crate) fn dirty_flushes(&self) -> Flushes {
        let members = self.members.iter().enumerate();
        let written = members.filter_map(|(slot, m)| Some((slot, m.as_ref().filter(|m| m.dirty)?)));
        written.map(|(slot, m)| (slot, m.medium().clone(), ())).collect()
    }

    /// Flushes every member that was written. Those that cannot fail.
    pub(crate) fn flush_members(&mut self) -> Result<(), Error> {
        for (slot, done) in flush(&self.pool, self.dirty_flushes()) {
            match (done, &mut self.members[slot]) {
                (Err(e), _) => self.fail(slot, "flush", &e),
                (Ok(()), Some(member)) => member.dirty = false,
                (Ok(()), None) => {}
            }
        }
        self.running()
    }
}
