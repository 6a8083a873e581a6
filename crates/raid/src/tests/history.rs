//! Random histories against a model, at every level and policy, with members that fail, are replaced and rebuilt.

use ashlar_environment::random::Seeded;

use super::rig::*;
use crate::{Error, Group, GroupState, Level, MemberState, Policy, Repair, Request};

fn levels() -> Vec<(Level, usize)> {
    vec![
        (Level::Raid0, 3),
        (Level::Raid1, 2),
        (Level::Raid1, 3),
        (Level::Raid10, 4),
        (Level::Raid5, 3),
        (Level::Raid5, 5),
        (Level::Raid6, 6),
        (Level::Coded { k: 4, m: 3 }, 7),
        (Level::Coded { k: 3, m: 0 }, 3),
        (Level::Raid50 { sets: 2 }, 6),
        (Level::Raid60 { sets: 2 }, 8),
        (Level::Declustered { k: 2, m: 1, spares: 1 }, 7),
        (Level::Declustered { k: 2, m: 1, spares: 2 }, 8),
        (Level::Declustered { k: 3, m: 2, spares: 1 }, 6),
    ]
}

struct History {
    rig: Rig,
    group: Group,
    model: Vec<u8>,
    random: Seeded,
    /// The device at each position, and those that are free.
    at: Vec<usize>,
    free: Vec<usize>,
}

impl History {
    fn new(level: Level, members: usize, policy: Policy, seed: u64) -> History {
        let mut random = Seeded::new(seed);
        let rig = Rig::new(members + 3);
        let strip = 4096 << random.below(4);
        let group = rig.create(level, strip, policy, members);
        let model = vec![0; group.size() as usize];
        History {
            rig,
            group,
            model,
            random,
            at: (0..members).collect(),
            free: (members..members + 3).collect(),
        }
    }

    fn range(&mut self) -> (usize, usize) {
        let size = self.model.len() as u64;
        let (mut at, mut len) = (self.random.below(size), 1 + self.random.below(60_000.min(size)));
        if self.random.below(3) != 0 {
            (at, len) = (at / B * B, len.next_multiple_of(B));
        }
        (at as usize, len.min(size - at) as usize)
    }

    fn step(&mut self) {
        let more = self.group.geometry().is_declustered() && self.random.below(4) == 0;
        match if more { 17 + self.random.below(2) } else { self.random.below(20) } {
            0..10 => {
                let ranges: Vec<_> = (0..1 + self.random.below(4)).map(|_| self.range()).collect();
                let mut data: Vec<Vec<u8>> = Vec::new();
                for (at, len) in &ranges {
                    let mut bytes = vec![0; *len];
                    self.random.fill(&mut bytes);
                    self.model[*at..at + len].copy_from_slice(&bytes);
                    data.push(bytes);
                }
                let requests: Vec<Request<'_>> = ranges
                    .iter()
                    .zip(&data)
                    .map(|((at, _), data)| Request::Write { at: *at as u64, data })
                    .collect();
                for result in self.group.apply(&requests) {
                    result.unwrap();
                }
            }
            10..13 => {
                let (at, len) = self.range();
                self.model[at..at + len].fill(0);
                self.group.zero(at as u64, len as u64).unwrap();
            }
            13..16 => {
                let (at, len) = self.range();
                let mut out = vec![1; len];
                self.group.read(at as u64, &mut out).unwrap();
                assert!(out == self.model[at..at + len]);
            }
            16 => self.group.flush().unwrap(),
            17 => self.members(),
            18 => drop(self.group.rebuild(1 + self.random.below(20)).unwrap()),
            _ => self.reopen(),
        }
    }

    /// Takes a member out, or replaces one.
    fn members(&mut self) {
        let slot = self.random.below(self.at.len() as u64) as usize;
        match self.group.members()[slot].state {
            MemberState::Failed if self.random.below(2) == 0 => drop(self.group.use_spare().unwrap()),
            MemberState::Failed if !self.free.is_empty() => {
                let device = self.free.remove(0);
                // It may have been a member before.
                self.group.replace(slot, self.rig.device(device), true).unwrap();
                self.free.push(std::mem::replace(&mut self.at[slot], device));
            }
            MemberState::Failed => {}
            _ => match self.group.take_out(slot) {
                Ok(()) => {}
                Err(Error::State(_)) => {
                    assert!(self.group.state() != GroupState::Optimal || self.group.geometry().m == 0)
                }
                Err(e) => panic!("{e}"),
            },
        }
    }

    fn reopen(&mut self) {
        self.group.close().unwrap();
        let slots = self.at.iter().enumerate();
        let here = slots.filter(|(s, _)| self.group.members()[*s].device.is_some()).map(|(_, d)| *d);
        self.group = Group::open(self.rig.devices(here.collect::<Vec<_>>()), false).unwrap();
    }

    fn all(&mut self) {
        let mut out = vec![1; self.model.len()];
        self.group.read(0, &mut out).unwrap();
        assert!(out == self.model);
    }
}

/// `HISTORY_SEEDS=300 cargo test` takes minutes.
#[test]
fn reads_return_what_was_written() {
    let seeds = std::env::var("HISTORY_SEEDS").map_or(6, |s| s.parse().unwrap());
    for policy in [Policy::Journal, Policy::Bitmap, Policy::None] {
        for (level, members) in levels() {
            for seed in 0..seeds {
                let mut h = History::new(level, members, policy, seed);
                for _ in 0..80 {
                    h.step();
                }
                h.all();
                while h.group.rebuild(1000).unwrap().is_some() {}
                h.all();
                let checked = h.group.check(0, u64::MAX, Repair::StopOnError).unwrap();
                assert_eq!((checked.next, checked.mismatches), (None, vec![]), "{level} {policy:?} {seed}");
                h.reopen();
                h.all();
                assert_eq!(h.group.counters().corrected, 0, "{level}");
            }
        }
    }
}

#[test]
fn partial_writes_read_the_least() {
    let rig = Rig::new(8);
    let mut group = rig.create(Level::Raid5, 4096, Policy::Journal, 8);
    let row = 7 * 4096;
    group.write(0, &vec![1; row]).unwrap();
    let reads = |group: &mut Group, at: u64, len: usize| {
        let before = group.counters().blocks_read;
        group.write(at, &vec![2; len]).unwrap();
        group.counters().blocks_read - before
    };
    // Read-modify-write: the old block and parity. Reconstruct-write: the others. Whole: nothing.
    assert_eq!(reads(&mut group, 4096, 4096), 2);
    assert_eq!(reads(&mut group, 0, 5 * 4096), 2);
    assert_eq!(reads(&mut group, 0, row), 0);
    // A row that holds nothing is read for nothing, and written once.
    let before = group.counters().blocks_written;
    assert_eq!(reads(&mut group, row as u64, row), 0);
    assert_eq!(group.counters().blocks_written - before, 8);
    assert_eq!(reads(&mut group, 2 * row as u64, 4096), 0);
}
