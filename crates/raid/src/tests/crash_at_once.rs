//! Power cuts as in `crash`, with members that are asked at the same time, and with threads whose requests meet in batches.

use std::sync::atomic::{AtomicU64, Ordering};

use ashlar_environment::random::Seeded;
use ashlar_machine::{Crash, Fault, Operation};
use parking_lot::Mutex;

use super::crash::*;
use super::declustered::SIX;
use super::rig::*;
use super::waiting::How;
use crate::group::Mutant;
use crate::{Level, Policy, Shared, VirtualDrive};

#[test]
fn power_cut_while_optimal_and_submitted() {
    all(State::Optimal, How::Submitted);
}

#[test]
fn power_cut_while_optimal_on_threads() {
    all(State::Optimal, How::OnThreads);
}

#[test]
fn power_cut_while_degraded_and_submitted() {
    all(State::Degraded, How::Submitted);
}

#[test]
fn power_cut_while_rebuilding_and_submitted() {
    all(State::Rebuilding, How::Submitted);
}

#[test]
fn power_cut_while_rebuilding_on_threads() {
    all(State::Rebuilding, How::OnThreads);
}

#[test]
fn power_cut_while_a_submitted_member_fails() {
    all(State::Failing, How::Submitted);
}

#[test]
fn power_cut_while_a_member_fails_on_a_thread() {
    all(State::Failing, How::OnThreads);
}

#[test]
fn mutants_are_found_among_submitted_requests() {
    for (mutant, state, seeds) in [
        (Mutant::InPlaceBeforeJournal, State::Degraded, 4),
        (Mutant::AnsweredBeforeFlush, State::Optimal, 4),
        (Mutant::FailureNotRecorded, State::Failing, 8),
    ] {
        is_found(mutant, state, How::Submitted, seeds);
    }
}

/// Blocks that threads write one by one, side by side so that their requests are merged; stripes that they write and discard follow.
const SINGLE: u64 = 60;
const WRITERS: u64 = 6;
/// The content of a declustered group before.
const INITIAL: u64 = 1;
/// Blocks of a stripe: two rows of three blocks with data.
const STRIPE: u64 = 6;

/// What happens while threads write.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Meanwhile {
    Nothing,
    AMemberFails,
    AMemberIsRebuilt,
    /// Of a declustered group: into a spare, or back from it.
    BlocksGoToASpare,
    BlocksComeBack,
}

/// Threads that write blocks of their own, beside one that reads.
struct Threads<'a> {
    rig: &'a Rig,
    drive: VirtualDrive,
    pasts: &'a [Mutex<Past>],
    next: AtomicU64,
    left: AtomicU64,
    seed: u64,
    meanwhile: Meanwhile,
}

impl Threads<'_> {
    fn write(&self, writer: u64) {
        let mut random = Seeded::new(self.seed * 100 + writer);
        for turn in 0..12 {
            if self.meanwhile == Meanwhile::AMemberFails && writer == 0 && turn == 4 {
                let on = if self.seed.is_multiple_of(2) { Operation::Write } else { Operation::Sync };
                self.rig.faults[1].set_after(on, Fault::Error(libc::EIO), 3, u64::MAX);
            }
            let (at, len) = match random.below(4) {
                0 => (SINGLE + (random.below(2) * WRITERS + writer) * STRIPE, STRIPE),
                _ => (random.below(SINGLE / WRITERS) * WRITERS + writer, 1),
            };
            self.change(at, len, random.below(4) == 0);
        }
        self.left.fetch_sub(1, Ordering::Release);
    }

    fn change(&self, at: u64, len: u64, zero: bool) {
        let id = || if zero { 0 } else { self.next.fetch_add(1, Ordering::Relaxed) };
        let ids: Vec<u64> = (0..len).map(|_| id()).collect();
        let pasts = &self.pasts[at as usize..(at + len) as usize];
        for (past, id) in pasts.iter().zip(&ids) {
            past.lock().push((*id, self.rig.disk.position(), usize::MAX));
        }
        match zero {
            true => self.drive.zero(at * B, len * B).unwrap(),
            false => self.drive.write(at * B, ids.into_iter().flat_map(content).collect()).unwrap(),
        }
        for past in pasts {
            past.lock().last_mut().unwrap().2 = self.rig.disk.position();
        }
    }

    fn read(&self) {
        let mut random = Seeded::new(self.seed);
        let mut out = vec![0; 8 * B as usize];
        while self.left.load(Ordering::Acquire) > 0 {
            let at = random.below(self.pasts.len() as u64 - 8) * B;
            self.drive.read(at, &mut out).unwrap();
            let mixed = out.chunks_exact(B as usize).position(|b| identity(b).is_none());
            assert_eq!(mixed, None, "a mixture was read at {at}");
        }
    }
}

/// What is answered survives every power cut, and what is read is never a mixture.
fn threads(level: Level, members: usize, how: How, meanwhile: Meanwhile, seed: u64) {
    threads_over(level, members, (how, false), meanwhile, seed);
}

/// As [`threads`]; `atomic`: whole stripes are written once.
fn threads_over(level: Level, members: usize, (how, atomic): (How, bool), meanwhile: Meanwhile, seed: u64) {
    let rig = Rig { atomic, ..Rig::new(members + 1).asked(how, seed) };
    let mut group = rig.create(level, 8192, Policy::Journal, members);
    assert_eq!(group.create_volume("v", None).unwrap().start, 0);
    group.once_rows = 1;
    let mut devices: Vec<usize> = (0..members).collect();
    if meanwhile == Meanwhile::AMemberIsRebuilt {
        group.take_out(1).unwrap();
        group.replace(1, rig.device(members), false).unwrap();
        devices = (0..=members).filter(|i| *i != 1).collect();
    }
    if matches!(meanwhile, Meanwhile::BlocksGoToASpare | Meanwhile::BlocksComeBack) {
        let data: Vec<u8> = (0..group.size() / B).flat_map(|_| content(INITIAL)).collect();
        group.write(0, &data).unwrap();
        group.take_out(1).unwrap();
        assert_eq!(group.use_spare().unwrap(), Some(1));
        devices = (0..members).filter(|i| *i != 1).collect();
    }
    if meanwhile == Meanwhile::BlocksComeBack {
        while group.rebuild(1000).unwrap().is_some() {}
        group.replace(1, rig.device(members), false).unwrap();
        devices.push(members);
    }
    let initial = if group.geometry().is_declustered() { vec![(INITIAL, 0, 0)] } else { Past::new() };
    let pasts: Vec<Mutex<Past>> = (0..group.size() / B).map(|_| Mutex::new(initial.clone())).collect();
    let shared = Shared::new(group);
    let from = rig.disk.position();
    let all = Threads {
        rig: &rig,
        drive: shared.volume("v").unwrap(),
        pasts: &pasts,
        next: AtomicU64::new(INITIAL + 1),
        left: AtomicU64::new(WRITERS),
        seed,
        meanwhile,
    };
    std::thread::scope(|scope| {
        let all = &all;
        for writer in 0..WRITERS {
            scope.spawn(move || all.write(writer));
        }
        scope.spawn(move || all.read());
        // It ends at the last row.
        while shared.with(|g| g.rebuild(2)).unwrap().is_some_and(|p| p.done < p.rows) {
            std::thread::yield_now();
        }
    });
    shared.with(|_| assert!(rig.traffic.is_empty(), "nothing is under way"));
    let pasts = pasts.into_iter().map(Mutex::into_inner).collect();
    let lived = Lived { disk: rig.disk.clone(), devices, count: members + 1, from, pasts, atomic };
    let (mut crash, mut random) = (Crash::new(&rig.disk), Seeded::new(seed));
    for position in from..=rig.disk.position() {
        crash.advance(position);
        // A few of them, and images with random sectors of what was not flushed.
        let share = if initial.is_empty() { 6 } else { 24 };
        if random.below(share) == 0 || position == rig.disk.position() {
            let mut seeded = Seeded::new(random.next());
            judge(&lived, position, lived.image(&crash, &mut seeded), &mut random);
        }
    }
}

#[test]
fn power_cut_while_threads_write() {
    for (seed, how) in [(1, How::InTurn), (2, How::Submitted), (3, How::OnThreads)] {
        threads(Level::Raid5, 4, how, Meanwhile::Nothing, seed);
    }
    threads(Level::Raid6, 5, How::Submitted, Meanwhile::Nothing, 11);
}

#[test]
fn power_cut_while_threads_write_and_a_member_fails() {
    for (seed, how) in [(4, How::InTurn), (5, How::Submitted), (6, How::Submitted), (7, How::OnThreads)] {
        threads(Level::Raid5, 4, how, Meanwhile::AMemberFails, seed);
    }
}

#[test]
fn power_cut_while_threads_write_and_a_member_is_rebuilt() {
    for (seed, how) in [(8, How::Submitted), (9, How::OnThreads)] {
        threads(Level::Raid5, 4, how, Meanwhile::AMemberIsRebuilt, seed);
    }
}

#[test]
fn power_cut_while_threads_write_and_blocks_go_to_a_spare_and_back() {
    for (seed, how) in [(12, How::Submitted), (13, How::OnThreads)] {
        threads(SIX, 7, how, Meanwhile::BlocksGoToASpare, seed);
        threads(SIX, 7, how, Meanwhile::BlocksComeBack, seed + 2);
    }
}

#[test]
fn power_cut_while_threads_write_whole_stripes_once() {
    for (seed, how) in [
        (21, How::Submitted),
        (22, How::OnThreads),
        (23, How::Submitted),
        (31, How::InTurn),
        (32, How::InTurn),
    ] {
        threads_over(Level::Raid5, 4, (how, true), Meanwhile::Nothing, seed);
    }
    for (seed, how) in [
        (24, How::Submitted),
        (25, How::Submitted),
        (26, How::OnThreads),
        (27, How::OnThreads),
        (33, How::InTurn),
        (34, How::InTurn),
    ] {
        threads_over(Level::Raid5, 4, (how, true), Meanwhile::AMemberFails, seed);
    }
    threads_over(Level::Raid5, 4, (How::Submitted, true), Meanwhile::AMemberIsRebuilt, 28);
    threads_over(Level::Raid5, 4, (How::InTurn, true), Meanwhile::AMemberIsRebuilt, 35);
    threads_over(SIX, 7, (How::Submitted, true), Meanwhile::BlocksGoToASpare, 29);
    threads_over(SIX, 7, (How::OnThreads, true), Meanwhile::BlocksComeBack, 30);
}
