//! Batches whose steps overlap, in an order that a seed chooses: one is staged while others are read for, journaled, and written in place, up
//! to the checkpoint, the rebuild or the flush that waits for all of them. Every read is compared with a model; power cuts are as in `crash`.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};

use ashlar_environment::random::Seeded;
use ashlar_machine::{Crash, Fault, Operation};

use super::crash::{Lived, Past, State, images, levels, subset};
use super::declustered_crash::half_done;
use super::rig::*;
use super::waiting::How;
use super::whole_rows::WRITTEN_ONCE;
use crate::content::Old;
use crate::group::Mutant;
use crate::pipeline::{Failures, Fits, Journaling, Putting};
use crate::prefetch::Places;
use crate::{Batching, Group, Level, Policy, Repair, Request};

const NEVER: usize = usize::MAX;

/// A life of a group.
pub(super) struct Life {
    pub(super) level: Level,
    pub(super) members: usize,
    pub(super) state: State,
    pub(super) policy: Policy,
    pub(super) mutant: Option<Mutant>,
    pub(super) seed: u64,
    pub(super) steps: usize,
    /// Members write blocks as a whole, and whole rows are written once.
    pub(super) once: bool,
}

pub(super) fn life(level: Level, members: usize, state: State, seed: u64) -> Life {
    let (policy, mutant) = (Policy::Journal, None);
    Life { level, members, state, policy, mutant, seed, steps: 100, once: false }
}

/// A range of blocks, with what is written to each; 0: zeros.
struct Range {
    at: u64,
    ids: Vec<u64>,
    zero: bool,
}

impl Range {
    fn blocks(&self) -> impl Iterator<Item = (usize, u64)> {
        (self.at as usize..).zip(self.ids.iter().copied())
    }
}

/// A batch for which blocks were read.
struct Prepared {
    ranges: Vec<Range>,
    data: Vec<Vec<u8>>,
    asked: usize,
    places: Places,
    old: Old,
}

impl Prepared {
    fn requests(&self) -> Vec<Request<'_>> {
        let both = self.ranges.iter().zip(&self.data);
        both.map(|(range, data)| match range.zero {
            true => Request::Zero { at: range.at * B, len: data.len() as u64 },
            false => Request::Write { at: range.at * B, data },
        })
        .collect()
    }
}

/// A request to the journals that is under way.
struct InJournal {
    journaling: Journaling,
    /// What the steps that were done failed at; none: that step was not done.
    written: Option<Failures>,
    flushed: Option<Failures>,
}

/// A group whose batches are driven step by step.
struct Driver {
    rig: Rig,
    group: Group,
    random: Seeded,
    next: u64,
    pasts: Vec<Past>,
    /// The batch of the newest content of each block.
    newest: Vec<u64>,
    prepared: VecDeque<Prepared>,
    in_journal: Option<InJournal>,
    puts: Vec<(Putting, Option<Failures>)>,
    /// Batches that are not answered, and the blocks that they change.
    open: VecDeque<(u64, Vec<(usize, u64)>)>,
    /// The most batches that were not answered at once.
    most: usize,
    /// Whole stripes are written, too; and how many batches had rows that were written once.
    once: bool,
    written_once: usize,
}

impl Driver {
    fn new(life: &Life) -> (Driver, Vec<usize>) {
        let rig = Rig { atomic: life.once, ..Rig::new(life.members + 1).asked(How::Submitted, life.seed) };
        let mut random = Seeded::new(life.seed);
        let group = rig.create(life.level, 8192, life.policy, life.members);
        let blocks = (group.size() / B) as usize;
        let mut devices: Vec<usize> = (0..life.members).collect();
        let mut driver = Driver {
            rig,
            group,
            random: random.clone(),
            next: 1,
            pasts: vec![Vec::new(); blocks],
            newest: vec![0; blocks],
            prepared: VecDeque::new(),
            in_journal: None,
            puts: Vec::new(),
            open: VecDeque::new(),
            most: 0,
            once: life.once,
            written_once: 0,
        };
        driver.group.once_rows = 1;
        // What is written later is not fresh.
        let hot = driver.hot();
        let ids: Vec<u64> = (1..=hot).collect();
        driver.next += hot;
        let data: Vec<u8> = ids.iter().flat_map(|id| content(*id)).collect();
        driver.group.write(0, &data).unwrap();
        ids.iter().for_each(|id| driver.pasts[*id as usize - 1].push((*id, 0, 0)));
        driver.group.checkpoint().unwrap();
        let victim = random.below(life.members as u64) as usize;
        if matches!(life.state, State::Degraded | State::Rebuilding) {
            driver.group.take_out(victim).unwrap();
            devices.retain(|d| *d != victim);
        }
        if life.state == State::Rebuilding && driver.group.geometry().is_declustered() {
            devices.extend(half_done(&mut driver.group, &driver.rig, victim, life.seed));
        } else if life.state == State::Rebuilding {
            driver.group.replace(victim, driver.rig.device(life.members), false).unwrap();
            devices.push(life.members);
            driver.group.rebuild(2).unwrap();
            let bytes = 2 * driver.group.geometry().k * crate::BLOCK;
            driver.group.set_batching(Batching { bytes, ..Batching::default() });
        }
        driver.group.mutant = life.mutant;
        (driver, devices)
    }

    /// Blocks that are written again and again: those of two rows of all sets.
    fn hot(&self) -> u64 {
        let row = self.group.geometry().k as u64 * u64::from(self.group.geometry().sets);
        (if self.once { 6 } else { 2 } * row).min(self.pasts.len() as u64)
    }

    /// Reads for a batch.
    fn prepare(&mut self) {
        let (asked, hot) = (self.rig.disk.position(), self.hot());
        let (mut ranges, mut data) = (Vec::new(), Vec::new());
        for _ in 0..1 + self.random.below(2) {
            let stripe = hot / 3;
            let (at, len) = match self.random.below(4) {
                0 => (self.random.below(hot), 1 + self.random.below(5)),
                1 | 2 if self.once => (self.random.below(3) * stripe, (1 + self.random.below(2)) * stripe),
                _ => (self.random.below(hot), 1),
            };
            let zero = self.random.below(16) == 0;
            let count = len.min(hot - at);
            let ids: Vec<u64> = (0..count).map(|i| if zero { 0 } else { self.next + i }).collect();
            self.next += count;
            data.push(ids.iter().flat_map(|id| content(*id)).collect());
            ranges.push(Range { at, ids, zero });
        }
        let mut prepared = Prepared { ranges, data, asked, places: Places::new(), old: Old::new() };
        prepared.places = self.group.needed(&prepared.requests());
        self.read_for(&mut prepared);
        self.prepared.push_back(prepared);
    }

    fn read_for(&mut self, prepared: &mut Prepared) {
        let mut fetch = self.group.plan_fetch(&prepared.places, std::mem::take(&mut prepared.old));
        fetch.run(self.random.below(2) == 0);
        prepared.old = self.group.take_fetched(fetch);
    }

    /// Stages the oldest batch for which was read.
    fn stage(&mut self) {
        let Some(mut prepared) = self.prepared.pop_front() else { return };
        // What changed meanwhile is read again, or found to be another one.
        if self.random.below(2) == 0 {
            self.read_for(&mut prepared);
        }
        let mut fits = self.group.fits(&prepared.requests(), false);
        if !fits.is_staged() {
            self.drain();
            if fits == Fits::WithRoom {
                self.group.checkpoint().unwrap();
                fits = self.group.fits(&prepared.requests(), false);
            }
        }
        let batch = if fits.is_staged() {
            self.group.old = std::mem::take(&mut prepared.old);
            let number = self.group.open_batch();
            let results = self.group.stage_all(&prepared.requests());
            self.group.old.clear();
            self.group.close_batch();
            self.written_once += usize::from(self.group.under_way.once.contains_key(&number));
            results.into_iter().for_each(Result::unwrap);
            number
        } else {
            self.group.apply(&prepared.requests()).into_iter().for_each(Result::unwrap);
            0
        };
        let blocks: Vec<(usize, u64)> = prepared.ranges.iter().flat_map(Range::blocks).collect();
        for (block, id) in &blocks {
            self.pasts[*block].push((*id, prepared.asked, NEVER));
            self.newest[*block] = batch;
        }
        if batch == 0 {
            self.answer(&blocks)
        } else {
            self.open.push_back((batch, blocks))
        }
        self.answer_finished();
    }

    fn answer(&mut self, blocks: &[(usize, u64)]) {
        let position = self.rig.disk.position();
        // Under the other policies nothing is promised before a flush.
        if self.group.journaled() {
            for (block, id) in blocks {
                let open = |(i, _, answered): &&mut (u64, usize, usize)| i == id && *answered == NEVER;
                if let Some(past) = self.pasts[*block].iter_mut().find(open) {
                    past.2 = position;
                }
            }
        }
    }

    fn answer_finished(&mut self) {
        self.most = self.most.max(self.open.len());
        for number in self.group.take_finished() {
            let at = self.open.iter().position(|(n, _)| *n == number).expect("it was staged");
            assert!(at == 0 || self.once || !self.group.journaled(), "answers are in the order of batches");
            let (_, blocks) = self.open.remove(at).unwrap();
            self.answer(&blocks);
        }
    }

    /// The next step of what is at the journals.
    fn journal(&mut self) {
        let Some(mut at) = self.in_journal.take() else {
            let begun = self.group.begin_journal();
            self.in_journal = begun.map(|journaling| InJournal { journaling, written: None, flushed: None });
            return;
        };
        match (&at.written, &at.flushed) {
            (None, _) => at.written = Some(at.journaling.write()),
            (Some(written), None) => at.flushed = Some(at.journaling.flush(written)),
            (Some(_), Some(_)) => {
                let failed = at.written.into_iter().chain(at.flushed).flatten().collect();
                self.group.end_journal(&at.journaling, failed).unwrap();
                return self.answer_finished();
            }
        }
        self.in_journal = Some(at);
    }

    fn begin_put(&mut self) {
        let slots = self.group.can_put();
        if slots.is_empty() {
            return;
        }
        let slot = slots[self.random.below(slots.len() as u64) as usize];
        self.puts.extend(self.group.begin_put(slot).map(|put| (put, None)));
        self.answer_finished();
    }

    /// Writes, or ends a request that has written.
    fn put(&mut self) {
        if self.puts.is_empty() {
            return;
        }
        let at = self.random.below(self.puts.len() as u64) as usize;
        if self.puts[at].1.is_none() {
            self.puts[at].1 = Some(self.puts[at].0.run());
            return;
        }
        let (putting, failed) = self.puts.swap_remove(at);
        self.group.end_put(&putting, failed.unwrap_or_default()).unwrap();
        self.answer_finished();
    }

    /// Until nothing is under way.
    fn drain(&mut self) {
        let mut turns = 0;
        while !self.group.is_idle() {
            self.journal();
            self.begin_put();
            self.put();
            turns += 1;
            assert!(turns < 10_000, "it does not end");
        }
    }

    /// Everything that was answered is durable.
    fn flush(&mut self) {
        self.drain();
        self.group.flush().unwrap();
        let position = self.rig.disk.position();
        for (_, _, answered) in self.pasts.iter_mut().flatten() {
            *answered = (*answered).min(position);
        }
    }

    /// Whatever is read is the newest content, and it is told which batch has it.
    fn read(&mut self) {
        let blocks = self.hot();
        let at = self.random.below(blocks);
        let len = (1 + self.random.below(8)).min(blocks - at);
        let mut out = vec![0; (len * B) as usize];
        let plan = self.group.plan_read(at * B, out.len()).unwrap();
        let done = plan.run(&mut out);
        let after = match done.is_whole() {
            true => plan.after,
            false => self.group.finish_read(&plan, done, &mut out).unwrap(),
        };
        for (block, found) in (at as usize..).zip(out.chunks_exact(B as usize)) {
            let newest = self.pasts[block].last().map_or(0, |(id, ..)| *id);
            assert_eq!(identity(found), Some(newest), "block {block}");
            let batch = self.newest[block];
            assert!(self.group.counts(batch) || batch <= after, "block {block} may be lost again");
        }
    }

    fn step(&mut self) {
        match self.random.below(16) {
            0..4 if self.prepared.len() < 3 => self.prepare(),
            4..7 => self.stage(),
            0..11 => self.journal(),
            11..13 => self.begin_put(),
            13 => self.put(),
            14 => self.read(),
            _ => match self.random.below(8) {
                0 => {
                    self.drain();
                    self.group.checkpoint().unwrap();
                }
                1 => {
                    self.drain();
                    let _ = self.group.rebuild(2).unwrap();
                }
                2 => self.flush(),
                _ => {}
            },
        }
    }
}

/// The life, and the most batches that were not answered at once.
pub(super) fn live(life: &Life) -> (Lived, usize) {
    let (mut driver, devices) = Driver::new(life);
    let from = driver.rig.disk.position();
    for step in 0..life.steps {
        if life.state == State::Failing && step == life.steps / 3 {
            let on = if driver.random.below(2) == 0 { Operation::Write } else { Operation::Sync };
            let victim = driver.random.below(life.members as u64) as usize;
            driver.rig.faults[victim].set_after(on, Fault::Error(libc::EIO), step as u64 % 3, u64::MAX);
        }
        driver.step();
    }
    driver.drain();
    driver.read();
    let most = driver.most;
    driver.group.checkpoint().unwrap();
    let found = identities(&mut driver.group);
    for (found, past) in found.iter().zip(&driver.pasts) {
        assert_eq!(*found, Some(past.last().map_or(0, |(id, ..)| *id)));
    }
    assert_eq!(driver.group.counters().corrected, 0, "no block is wrong");
    assert_eq!(driver.group.check(0, u64::MAX, Repair::StopOnError).unwrap().mismatches, []);
    let disk = driver.rig.disk.clone();
    let (count, pasts, atomic) = (life.members + 1, driver.pasts, life.once);
    WRITTEN_ONCE.set(WRITTEN_ONCE.get() + driver.written_once);
    (Lived { disk, devices, count, from, pasts, atomic }, most)
}

pub(super) fn enumerate(life: &Life, share: u64) {
    images(&live(life).0, life.seed, share);
}

fn all(state: State) {
    let (mut count, mut most) = (0, 0);
    for (seed, (level, members)) in (1..).zip(levels()) {
        let (lived, together) = live(&life(level, members, state, seed));
        most = most.max(together);
        count += images(&lived, seed, 2);
    }
    println!("{state:?}: {count} images, up to {most} batches at once");
    assert!(count > 200 && most > 3, "{count} images, {most} batches at once");
}

#[test]
fn power_cut_while_batches_are_under_way() {
    all(State::Optimal);
}

#[test]
fn power_cut_while_degraded_batches_are_under_way() {
    all(State::Degraded);
}

#[test]
fn power_cut_while_batches_are_under_way_and_rebuilt() {
    all(State::Rebuilding);
}

#[test]
fn power_cut_while_batches_are_under_way_and_a_member_fails() {
    all(State::Failing);
    for seed in 10..20 {
        enumerate(&life(Level::Raid5, 4, State::Failing, seed), 4);
    }
}

#[test]
fn power_cut_of_batches_without_parity() {
    enumerate(&life(Level::Raid0, 3, State::Optimal, 2), 1);
}

/// The journals begin again several times.
#[test]
fn power_cut_where_the_journals_begin_again() {
    let long = Life { steps: 1200, ..life(Level::Raid5, 4, State::Optimal, 3) };
    let (mut driver, devices) = Driver::new(&long);
    let from = driver.rig.disk.position();
    let epoch = driver.group.epoch;
    for _ in 0..long.steps {
        driver.step();
    }
    driver.drain();
    assert!(driver.group.epoch > epoch + 3, "{} epochs", driver.group.epoch - epoch);
    let disk = driver.rig.disk.clone();
    let lived =
        Lived { disk, devices, count: long.members + 1, from, pasts: driver.pasts, atomic: long.once };
    images(&lived, 3, 40);
}

/// Without a journal: what was flushed stays, everything else is old or new or a mixture, and the parity is right.
#[test]
fn without_a_journal_batches_under_way_lose_nothing_that_was_flushed() {
    for (policy, seed) in [(Policy::Bitmap, 1), (Policy::None, 2), (Policy::Bitmap, 3), (Policy::None, 4)] {
        let life = Life { policy, steps: 120, ..life(Level::Raid5, 4, State::Optimal, seed) };
        let (lived, most) = live(&life);
        assert!(most > 2, "{most} batches at once");
        let (mut crash, mut random) = (Crash::new(&lived.disk), Seeded::new(seed));
        for position in lived.from..=lived.disk.position() {
            crash.advance(position);
            if random.below(4) != 0 {
                continue;
            }
            let kept = random.next();
            let rig = Rig::of(subset(&crash, Some(kept), &mut random), lived.count);
            let mut group = Group::open(rig.devices(lived.devices.clone()), false).unwrap();
            let found = identities(&mut group);
            for (block, (found, past)) in found.iter().zip(&lived.pasts).enumerate() {
                let mut begun = past.iter().filter(|(_, asked, _)| *asked <= position);
                let Some((id, _, flushed)) = begun.next_back() else { continue };
                let whole = *flushed <= position;
                assert!(
                    !whole || *found == Some(*id),
                    "{policy:?}: block {block} is {found:?} at {position}"
                );
            }
            assert_eq!(group.check(0, u64::MAX, Repair::StopOnError).unwrap().mismatches, []);
        }
    }
}

/// Some life finds the mutant.
fn is_found(mutant: Mutant, state: State, seeds: u64) {
    is_found_in(mutant, state, seeds, false);
}

pub(super) fn is_found_in(mutant: Mutant, state: State, seeds: u64, once: bool) {
    let found = (1..=seeds).find(|&seed| {
        let life = Life { mutant: Some(mutant), once, ..life(Level::Raid5, 4, state, seed) };
        catch_unwind(AssertUnwindSafe(|| enumerate(&life, 3))).is_err()
    });
    println!("{mutant:?} {state:?}: found by seed {found:?}");
    assert!(found.is_some(), "{mutant:?} was not found in state {state:?}");
}

#[test]
fn batches_that_count_too_early_are_found() {
    is_found(Mutant::DurableAtStaging, State::Optimal, 20);
    is_found(Mutant::AnsweredBeforeFlush, State::Optimal, 10);
}

#[test]
fn blocks_in_place_too_early_are_found() {
    is_found(Mutant::InPlaceBeforeJournal, State::Degraded, 20);
}

#[test]
fn blocks_in_place_in_another_order_are_found() {
    is_found(Mutant::PutsOutOfOrder, State::Optimal, 60);
}

#[test]
fn blocks_that_leave_the_overlay_too_early_are_found() {
    is_found(Mutant::LeavesWithOlder, State::Optimal, 20);
}

#[test]
fn a_checkpoint_before_blocks_are_in_place_is_found() {
    is_found(Mutant::CheckpointBeforeInPlace, State::Optimal, 60);
}

#[test]
fn failures_of_batches_under_way_that_are_not_recorded_are_found() {
    is_found(Mutant::FailureNotRecorded, State::Failing, 20);
}
