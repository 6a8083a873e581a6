//! Power cuts at every position of the log of writes and flushes, in every state.
//!
//! All members are files of one simulated disk, so a position of its log is an instant of the whole group. At each
//! position images are made: nothing unflushed is kept, everything is, every subset of 4 KiB blocks while there are few
//! of them, else random subsets of blocks and of 512-byte sectors. Each image is opened; every block must have its last
//! answered content, or one of a request that was not answered. Then a member is taken out: the same must be read again.

use std::panic::{AssertUnwindSafe, catch_unwind};

use ashlar_environment::random::Seeded;
use ashlar_machine::{Crash, Fault, Operation, SimDisk};

use super::rig::*;
use super::waiting::How;
use crate::group::Mutant;
use crate::{BLOCK, Batching, Error, Group, GroupState, Level, MemberState, Policy, Repair, Request};

const NEVER: usize = usize::MAX;
/// Every subset is tried up to this many blocks.
const EXHAUSTIVE: u32 = 3;

/// The contents of a block: identity, and the positions of the log at its request and its answer.
pub(super) type Past = Vec<(u64, usize, usize)>;

pub(super) fn allowed(past: &Past, position: usize) -> Vec<u64> {
    let last = past.iter().rposition(|(_, _, answered)| *answered <= position);
    let initial = last.is_none().then_some(0);
    let later = past[last.unwrap_or(0)..].iter().filter(|(_, asked, _)| *asked <= position);
    initial.into_iter().chain(later.map(|(id, ..)| *id)).collect()
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum State {
    Optimal,
    Degraded,
    Rebuilding,
    /// A member fails while requests are executed.
    Failing,
}

pub(super) struct Scenario {
    pub(super) level: Level,
    pub(super) members: usize,
    pub(super) state: State,
    pub(super) policy: Policy,
    pub(super) mutant: Option<Mutant>,
    pub(super) seed: u64,
    pub(super) steps: usize,
    pub(super) how: How,
}

pub(super) struct Lived {
    pub(super) disk: SimDisk,
    pub(super) devices: Vec<usize>,
    pub(super) count: usize,
    pub(super) from: usize,
    pub(super) pasts: Vec<Past>,
    /// No image has a part of a block.
    pub(super) atomic: bool,
}

pub(super) fn live(s: &Scenario) -> Lived {
    let count = s.members + 1;
    let rig = Rig::new(count).asked(s.how, s.seed);
    let mut random = Seeded::new(s.seed);
    let mut group = rig.create(s.level, 8192, s.policy, s.members);
    let mut pasts: Vec<Past> = vec![Vec::new(); (group.size() / B) as usize];
    let mut next = 1;
    let mut devices: Vec<usize> = (0..s.members).collect();
    for _ in 0..3 {
        batch(&mut group, &rig, &mut random, &mut pasts, &mut next);
    }
    let victim = random.below(s.members as u64) as usize;
    if matches!(s.state, State::Degraded | State::Rebuilding) {
        group.take_out(victim).unwrap();
        devices.retain(|d| *d != victim);
    }
    if s.state == State::Rebuilding {
        group.replace(victim, rig.device(s.members), false).unwrap();
        devices.push(s.members);
        // Requests concern the first 8 rows: most of these are left.
        group.rebuild(2).unwrap();
        if s.seed.is_multiple_of(2) {
            group.set_batching(Batching { bytes: 2 * group.geometry().k * BLOCK, ..Batching::default() });
        }
    }
    group.mutant = s.mutant;
    let from = rig.disk.position();
    for step in 0..s.steps {
        if s.state == State::Failing && step == s.steps / 3 {
            let on = if random.below(2) == 0 { Operation::Write } else { Operation::Sync };
            rig.faults[victim].set_after(on, Fault::Error(libc::EIO), random.below(3), u64::MAX);
        }
        batch(&mut group, &rig, &mut random, &mut pasts, &mut next);
        match random.below(8) {
            0 => group.checkpoint().unwrap(),
            1..3 => drop(group.rebuild(4).unwrap()),
            _ => {}
        }
    }
    Lived { disk: rig.disk.clone(), devices, count, from, pasts, atomic: false }
}

pub(super) fn batch(group: &mut Group, rig: &Rig, random: &mut Seeded, pasts: &mut [Past], next: &mut u64) {
    let row = group.geometry().k as u64 * u64::from(group.geometry().sets);
    let blocks = pasts.len() as u64;
    let mut ranges: Vec<(u64, u64, bool)> = Vec::new();
    for _ in 0..1 + random.below(3) {
        // Few rows, so that they are written again and again.
        let hot = (8 * row).min(blocks);
        let (at, len) = match random.below(5) {
            0 => (random.below(4) * 2 * row, 2 * row),
            1 => (random.below(hot), 1 + random.below(5)),
            _ => (random.below(hot), 1),
        };
        let zero = random.below(6) == 0;
        let at = at.min(blocks - 1);
        ranges.push((at, len.min(blocks - at), zero));
    }
    let asked = rig.disk.position();
    let mut data = Vec::new();
    for (at, len, zero) in &ranges {
        let mut bytes = Vec::new();
        for block in *at..at + len {
            let id = if *zero { 0 } else { *next };
            *next += 1;
            bytes.extend(content(id));
            pasts[block as usize].push((id, asked, NEVER));
        }
        data.push(bytes);
    }
    let requests: Vec<Request<'_>> = ranges
        .iter()
        .zip(&data)
        .map(|((at, len, zero), data)| match zero {
            true => Request::Zero { at: at * B, len: len * B },
            false => Request::Write { at: at * B, data },
        })
        .collect();
    for result in group.apply(&requests) {
        result.unwrap();
    }
    let answered = rig.disk.position();
    for (at, len, _) in &ranges {
        for past in &mut pasts[*at as usize..(at + len) as usize] {
            past.iter_mut().filter(|(_, _, a)| *a == NEVER).for_each(|(_, _, a)| *a = answered);
        }
    }
}

/// Opens an image with the members that can be.
fn open(rig: &Rig, which: &[usize]) -> Group {
    match Group::open(rig.devices(which.iter().copied()), false) {
        Ok(group) => group,
        Err(e) => panic!("not opened: {e}"),
    }
}

pub(super) fn judge(lived: &Lived, position: usize, image: SimDisk, random: &mut Seeded) {
    let rig = Rig::of(image, lived.count);
    let twice = random.below(40) == 0;
    if twice {
        rig.disk.resume();
    }
    let recovery = rig.disk.position();
    let mut group = open(&rig, &lived.devices);
    let found = identities(&mut group);
    for (block, (id, past)) in found.iter().zip(&lived.pasts).enumerate() {
        let allowed = allowed(past, position);
        assert!(
            id.is_some_and(|id| allowed.contains(&id)),
            "block {block} reads {id:?} after a crash at {position}, allowed are {allowed:?}"
        );
    }
    assert_eq!(group.counters().corrected, 0, "nothing is wrong after a recovery");
    let checked = group.check(0, u64::MAX, Repair::StopOnError).unwrap();
    assert_eq!(checked.mismatches, [], "after a crash at {position}");
    // Whatever is read with all members is read without one.
    let slot = random.below(group.members().len() as u64) as usize;
    if group.members()[slot].state == MemberState::Online && group.take_out(slot).is_ok() {
        assert_eq!(identities(&mut group), found, "without member {slot} after a crash at {position}");
    }
    if twice {
        crash_again(lived, &rig, recovery, position, &found, random);
    }
}

/// Crashes while the crash is recovered from.
fn crash_again(
    lived: &Lived,
    first: &Rig,
    from: usize,
    position: usize,
    found: &[Option<u64>],
    random: &mut Seeded,
) {
    let mut crash = Crash::new(&first.disk);
    for again in from..=first.disk.position() {
        crash.advance(again);
        let rig = Rig::of(lived.image(&crash, random), lived.count);
        // The last steps took a member out: it may be absent from then on, not before.
        let mut group = open(&rig, &lived.devices);
        assert_eq!(identities(&mut group), found, "crash at {again} of the recovery from {position}");
    }
}

/// The number of images judged.
pub(super) fn enumerate(s: &Scenario) -> usize {
    images(&live(s), s.seed, 1)
}

/// The number of images judged of a life, at one position of `share`.
pub(super) fn images(lived: &Lived, seed: u64, share: u64) -> usize {
    let mut crash = Crash::new(&lived.disk);
    let mut random = Seeded::new(seed ^ 0xabcd);
    let mut images = 0;
    for position in lived.from..=lived.disk.position() {
        crash.advance(position);
        if share > 1 && random.below(share) != 0 {
            continue;
        }
        let mut calls = 0u32;
        let whole = crash.image(|| {
            calls += 1;
            1
        });
        // The first number chooses how much is kept; then there is one for each sector.
        let blocks = (calls - 1).div_ceil(8);
        judge(lived, position, whole, &mut random);
        images += 1;
        if blocks == 0 {
            continue;
        }
        let subsets: Vec<Option<u64>> = if blocks <= EXHAUSTIVE {
            (0..(1 << blocks) - 1).map(Some).collect()
        } else {
            (0..3).map(|i| Some(if i == 0 { 0 } else { random.next() })).collect()
        };
        for kept in subsets.into_iter().chain([lived.atomic.then(|| random.next())]) {
            judge(lived, position, subset(&crash, kept, &mut random), &mut random);
            images += 1;
        }
    }
    images
}

impl Lived {
    /// Any image.
    pub(super) fn image(&self, crash: &Crash, random: &mut Seeded) -> SimDisk {
        if self.atomic {
            return subset(crash, Some(random.next()), random);
        }
        crash.image(|| random.next())
    }
}

/// An image with the unflushed blocks whose bit is set; none: with random sectors of them.
pub(super) fn subset(crash: &Crash, kept: Option<u64>, random: &mut Seeded) -> SimDisk {
    let mut call = 0u64;
    crash.image(|| {
        call += 1;
        match (call, kept) {
            (1, _) => 2,
            (_, None) => random.next(),
            (_, Some(bits)) => {
                if bits >> ((call - 2) / 8 % 64) & 1 != 0 {
                    0
                } else {
                    255
                }
            }
        }
    })
}

pub(super) fn levels() -> [(Level, usize); 4] {
    [(Level::Raid1, 2), (Level::Raid5, 4), (Level::Raid6, 5), (Level::Coded { k: 3, m: 3 }, 6)]
}

/// A scenario of groups with a journal.
pub(super) fn scenario(level: Level, members: usize, state: State, seed: u64) -> Scenario {
    let (policy, mutant, how) = (Policy::Journal, None, How::InTurn);
    Scenario { level, members, state, policy, mutant, seed, steps: 3, how }
}

pub(super) fn all(state: State, how: How) {
    let mut images = 0;
    for (level, members) in levels() {
        images += enumerate(&Scenario { how, ..scenario(level, members, state, 1) });
    }
    assert!(images > 200, "{images} images");
}

#[test]
fn power_cut_while_optimal() {
    all(State::Optimal, How::InTurn);
}

#[test]
fn power_cut_while_degraded() {
    all(State::Degraded, How::InTurn);
}

#[test]
fn power_cut_while_rebuilding() {
    all(State::Rebuilding, How::InTurn);
}

/// As above, with several batches in each step of the rebuild.
#[test]
fn power_cut_while_rebuilding_in_small_batches() {
    enumerate(&Scenario { steps: 4, ..scenario(Level::Raid6, 5, State::Rebuilding, 2) });
}

#[test]
fn power_cut_while_a_member_fails() {
    all(State::Failing, How::InTurn);
}

#[test]
fn power_cut_of_stripes_without_parity() {
    enumerate(&scenario(Level::Raid0, 3, State::Optimal, 2));
}

/// Some scenario finds the mutant.
pub(super) fn is_found(mutant: Mutant, state: State, how: How, seeds: u64) {
    let found = (1..=seeds).find(|&seed| {
        let s = Scenario { mutant: Some(mutant), how, ..scenario(Level::Raid5, 4, state, seed) };
        catch_unwind(AssertUnwindSafe(|| enumerate(&s))).is_err()
    });
    println!("{mutant:?} {state:?} {how:?}: found by seed {found:?}");
    assert!(found.is_some(), "{mutant:?} was not found in state {state:?}");
}

#[test]
fn blocks_written_before_the_journal_are_found() {
    is_found(Mutant::InPlaceBeforeJournal, State::Degraded, How::InTurn, 4);
}

#[test]
fn answers_before_the_flush_are_found() {
    is_found(Mutant::AnsweredBeforeFlush, State::Optimal, How::InTurn, 4);
}

#[test]
fn a_journal_that_is_reused_too_soon_is_found() {
    is_found(Mutant::JournalReusedTooSoon, State::Optimal, How::InTurn, 40);
}

#[test]
fn failures_that_are_not_recorded_are_found() {
    is_found(Mutant::FailureNotRecorded, State::Failing, How::InTurn, 4);
}

#[test]
fn progress_before_the_blocks_is_found() {
    is_found(Mutant::ProgressBeforeBlocks, State::Rebuilding, How::InTurn, 40);
}

/// Under `bitmap` and `none`: after a flush, an optimal group has what was flushed, and its parity is right.
#[test]
fn without_a_journal_flushed_blocks_stay_and_parity_is_made_anew() {
    for policy in [Policy::Bitmap, Policy::None] {
        let rig = Rig::new(4);
        let mut group = rig.create(Level::Raid5, 8192, policy, 4);
        for block in 0..48 {
            group.write(block * B, &content(block + 1)).unwrap();
        }
        group.flush().unwrap();
        let from = rig.disk.position();
        // Written after the flush: old or new or, without a journal, a mixture; nothing else changes.
        for block in [3, 9, 20] {
            group.write(block * B, &content(1000 + block)).unwrap();
        }
        let mut crash = Crash::new(&rig.disk);
        let mut random = Seeded::new(5);
        for position in from..=rig.disk.position() {
            crash.advance(position);
            for _ in 0..10 {
                let image = Rig::of(crash.image(|| random.next()), 4);
                let mut group = open(&image, &[0, 1, 2, 3]);
                // In service at once, whatever is asked for first; also stopped again in the middle, orderly or not.
                if random.below(2) == 0 {
                    group.write(40 * B, &content(41)).unwrap();
                    group.resync(random.below(16)).unwrap();
                    if random.below(2) == 0 {
                        group.close().unwrap();
                    }
                    drop(group);
                    group = open(&image, &[0, 1, 2, 3]);
                }
                let found = identities(&mut group);
                for (block, id) in found.iter().enumerate().take(48) {
                    if ![3, 9, 20].contains(&block) {
                        assert_eq!(*id, Some(block as u64 + 1), "{policy:?} at {position}");
                    }
                }
                if group.resyncing().is_some() {
                    assert_eq!(group.state(), GroupState::Resync);
                    assert!(matches!(group.take_out(0), Err(Error::State(_))));
                }
                while group.resync(random.below(8)).unwrap().is_some() {}
                assert_eq!(group.state(), GroupState::Optimal);
                assert_eq!(group.check(0, u64::MAX, Repair::StopOnError).unwrap().mismatches, []);
                let mut before = vec![0; group.size() as usize];
                group.read(0, &mut before).unwrap();
                group.take_out(random.below(4) as usize).unwrap();
                let mut after = vec![0; before.len()];
                group.read(0, &mut after).unwrap();
                assert!(before == after, "{policy:?} at {position}");
            }
        }
    }
}

/// What `bitmap` does not protect is counted, not hidden.
#[test]
fn degraded_without_a_journal_says_so() {
    let rig = Rig::new(4);
    let mut group = rig.create(Level::Raid5, 8192, Policy::Bitmap, 4);
    group.write(0, &vec![7; 24 * BLOCK_BYTES]).unwrap();
    group.flush().unwrap();
    group.take_out(1).unwrap();
    group.write(0, &content(1)).unwrap();
    drop(group);
    let mut group = Group::open(rig.devices([0, 2, 3]), false).unwrap();
    assert_eq!(group.state(), GroupState::Degraded);
    while group.resync(1).unwrap().is_some() {}
    assert!(group.counters().unprotected > 0);
}

const BLOCK_BYTES: usize = crate::BLOCK;

/// Two entries of one batch change the same row, so that the parity of the second has the data of the first: if the entry of
/// the first is not whole, that of the second does not count either.
#[test]
fn an_entry_after_one_that_is_not_whole_does_not_count() {
    let rig = Rig::new(4);
    let mut group = rig.create(Level::Raid5, 4096, Policy::Journal, 4);
    let mut pasts: Vec<Past> = vec![Vec::new(); (group.size() / B) as usize];
    for block in 0..3 {
        group.write(block * B, &content(block + 1)).unwrap();
        pasts[block as usize].push((block + 1, 0, 0));
    }
    group.checkpoint().unwrap();
    let from = rig.disk.position();
    let (first, second) = (content(11), content(12));
    let requests = [Request::Write { at: 0, data: &first }, Request::Write { at: B, data: &second }];
    for request in &requests {
        assert_eq!(group.stage_all(&[*request]), [Ok(())]);
        group.seal();
    }
    group.commit().unwrap();
    let answered = rig.disk.position();
    pasts[0].push((11, from, answered));
    pasts[1].push((12, from, answered));
    let lived =
        Lived { disk: rig.disk.clone(), devices: (0..4).collect(), count: 4, from, pasts, atomic: false };
    let (mut crash, mut random) = (Crash::new(&rig.disk), Seeded::new(3));
    let mut most = 0;
    for position in from..=answered {
        crash.advance(position);
        let mut calls = 0u32;
        crash.image(|| {
            calls += 1;
            1
        });
        let blocks = (calls - 1).div_ceil(8);
        most = most.max(blocks);
        for kept in 0..1 << blocks.min(8) {
            judge(&lived, position, subset(&crash, Some(kept), &mut random), &mut random);
        }
    }
    assert_eq!(most, 8, "a list and a block for each of two members, twice");
}

/// The blocks of a row that is written for the first time count together, also where a batch has several entries.
#[test]
fn a_row_is_not_in_two_entries() {
    let rig = Rig::new(5);
    let mut group = rig.create(Level::Raid5, 4096, Policy::Journal, 5);
    let mut pasts: Vec<Past> = vec![Vec::new(); (group.size() / B) as usize];
    let from = rig.disk.position();
    // 40 rows of 5 blocks: more than an entry has, and its 192 are no multiple of 5.
    let data: Vec<u8> = (0..160).flat_map(|i| content(i + 1)).collect();
    group.write(0, &data).unwrap();
    let answered = rig.disk.position();
    pasts.iter_mut().zip(1..=160).for_each(|(past, id)| past.push((id, from, answered)));
    let lived =
        Lived { disk: rig.disk.clone(), devices: (0..5).collect(), count: 5, from, pasts, atomic: false };
    let (mut crash, mut random) = (Crash::new(&rig.disk), Seeded::new(3));
    for position in answered - 12..=answered {
        crash.advance(position);
        for _ in 0..20 {
            let kept = random.next();
            judge(&lived, position, subset(&crash, Some(kept), &mut random), &mut random);
        }
    }
}

/// A member that was absent from a time on does not come back with old data.
#[test]
fn stale_member_is_not_used() {
    let rig = Rig::new(3);
    let mut group = rig.create(Level::Raid5, 4096, Policy::Journal, 3);
    group.write(0, &content(1)).unwrap();
    let old = rig.disk.dump()["m1"].clone();
    for i in 0..3 {
        group.write(0, &content(2 + i)).unwrap();
        group.checkpoint().unwrap();
    }
    drop(group);
    rig.disk.put("m1", Some(old));
    let mut group = Group::open(rig.devices(0..3), false).unwrap();
    assert_eq!(group.members()[1].state, MemberState::Failed);
    assert_eq!(identities(&mut group)[0], Some(4));
    assert!(matches!(group.take_out(0), Err(Error::State(_))));
}
