//! Power cuts at every position of the log of writes and flushes while thin virtual drives get room, give it back, become smaller and are
//! deleted.
//!
//! Room is short, so that pieces go from one drive to another. After each power cut every block has its last answered content or one of a
//! request that was not answered, what is free is zeros, and no two maps name one piece.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use ashlar_environment::random::Seeded;
use ashlar_machine::{Crash, SimDisk};

use super::crash::{Past, allowed, subset};
use super::rig::*;
use super::thin::{PIECE_LOG, is_consistent, thin};
use super::waiting::How;
use crate::group::Mutant;
use crate::{BLOCK, Error, Group, Level, NewVolume, Policy, Repair, Shared};

const NEVER: usize = usize::MAX;
/// Blocks of a piece.
const PIECE: u64 = 1 << PIECE_LOG;

#[derive(Clone, Copy)]
struct Scenario {
    level: Level,
    members: usize,
    /// A member is out of service from the beginning.
    degraded: bool,
    policy: Policy,
    how: How,
    seed: u64,
    mutant: Option<Mutant>,
}

/// What the superblock says of a drive from a position of the log on, at its request and its answer: blocks; none: it is deleted.
type Sizes = Vec<(Option<u64>, usize, usize)>;

struct Lived {
    disk: SimDisk,
    devices: Vec<usize>,
    members: usize,
    policy: Policy,
    from: usize,
    /// By drive.
    pasts: BTreeMap<&'static str, Vec<Past>>,
    sizes: BTreeMap<&'static str, Sizes>,
}

struct Life {
    rig: Rig,
    shared: Arc<Shared>,
    random: Seeded,
    next: u64,
    pasts: BTreeMap<&'static str, Vec<Past>>,
    sizes: BTreeMap<&'static str, Sizes>,
}

/// Names and blocks; the last one is thick.
const DRIVES: [(&str, u64); 3] = [("t", 70), ("u", 50), ("k", 6)];

fn open(rig: &Rig, devices: &[usize]) -> Group {
    Group::open(rig.devices(devices.iter().copied()), false).unwrap_or_else(|e| panic!("not opened: {e}"))
}

impl Life {
    fn begin(s: &Scenario) -> (Life, Vec<usize>) {
        let rig = Rig::new(s.members).asked(s.how, s.seed);
        let mut random = Seeded::new(s.seed);
        let mut group = rig.create(s.level, 8192, s.policy, s.members);
        group.piece_log = PIECE_LOG;
        let mut pasts = BTreeMap::new();
        let mut sizes = BTreeMap::new();
        for (name, blocks) in DRIVES {
            let new = NewVolume { thin: name != "k", ..thin(name, blocks * B) };
            group.make_volume(&new).unwrap();
            pasts.insert(name, vec![Past::new(); blocks as usize]);
            sizes.insert(name, vec![(Some(blocks), 0, 0)]);
        }
        // So that room is short: the rest is of one that nobody uses.
        let rest = (group.free() / (PIECE * B)).saturating_sub(8);
        if rest > 0 {
            group.create_volume("rest", Some(rest * PIECE * B)).unwrap();
        }
        let mut devices: Vec<usize> = (0..s.members).collect();
        if s.degraded {
            let victim = random.below(s.members as u64) as usize;
            group.take_out(victim).unwrap();
            devices.retain(|d| *d != victim);
        }
        let shared = Shared::new(group);
        (Life { rig, shared, random, next: 1, pasts, sizes }, devices)
    }

    fn write(&mut self, name: &'static str, at: u64, len: u64, zero: bool) {
        let asked = self.rig.disk.position();
        let ids: Vec<u64> = (0..len)
            .map(|_| {
                self.next += 1;
                if zero { 0 } else { self.next }
            })
            .collect();
        let drive = self.shared.volume(name).unwrap();
        let done = match zero {
            true => drive.zero(at * B, len * B),
            false => drive.write(at * B, ids.iter().copied().flat_map(content).collect()),
        };
        match done {
            Ok(()) => {}
            // Nothing changes.
            Err(Error::NoSpace) => return,
            Err(e) => panic!("{e}"),
        }
        let answered = self.rig.disk.position();
        let pasts = &mut self.pasts.get_mut(name).unwrap()[at as usize..(at + len) as usize];
        pasts.iter_mut().zip(ids).for_each(|(past, id)| past.push((id, asked, answered)));
    }

    fn step(&mut self) {
        let name = ["t", "t", "t", "u", "u", "k"][self.random.below(6) as usize];
        let blocks = self.size(name);
        let at = self.random.below(blocks);
        let (at, len, zero) = match self.random.below(8) {
            0 => (at / PIECE * PIECE, 2 * PIECE, false),
            1 | 2 => (at, 1 + self.random.below(3), false),
            3 | 4 => (at, 1, false),
            5 => (at / PIECE * PIECE, PIECE, true),
            6 => (at / (3 * PIECE) * 3 * PIECE, 9 * PIECE, true),
            _ => (at, 1 + self.random.below(3), true),
        };
        self.write(name, at, len.min(blocks - at), zero);
        if self.random.below(8) == 0 {
            self.shared.with(Group::checkpoint).unwrap();
        }
    }

    fn size(&self, name: &str) -> u64 {
        self.shared.volume(name).map_or(0, |drive| drive.size() / B)
    }

    fn change(&mut self, name: &'static str, to: Option<u64>, work: impl FnOnce(&mut Group)) {
        let asked = self.rig.disk.position();
        self.shared.with(work);
        self.sizes.get_mut(name).unwrap().push((to, asked, self.rig.disk.position()));
    }

    /// What was cut off reads as zeros while it is done, and afterwards.
    fn cut(&mut self, name: &'static str, from: u64) {
        let (asked, pasts) =
            (self.rig.disk.position(), &mut self.pasts.get_mut(name).unwrap()[from as usize..]);
        pasts.iter_mut().for_each(|past| past.push((0, asked, NEVER)));
    }

    fn was_cut(&mut self, name: &'static str) {
        let now = self.rig.disk.position();
        for past in self.pasts.get_mut(name).unwrap() {
            past.iter_mut().filter(|p| p.2 == NEVER).for_each(|p| p.2 = now);
        }
    }

    fn end(self, s: &Scenario, devices: Vec<usize>, from: usize) -> Lived {
        let Life { rig, shared, pasts, sizes, .. } = self;
        drop(shared);
        Lived { disk: rig.disk.clone(), devices, members: s.members, policy: s.policy, from, pasts, sizes }
    }
}

impl Lived {
    fn judge(&self, position: usize, image: SimDisk, random: &mut Seeded) {
        let rig = Rig::of(image, self.members);
        let mut group = open(&rig, &self.devices);
        if let Err(why) = is_consistent(&mut group) {
            panic!("{why}, after a crash at {position}");
        }
        if self.policy != Policy::Journal {
            return;
        }
        let checked = group.check(0, u64::MAX, Repair::StopOnError).unwrap();
        assert_eq!(checked.mismatches, [], "after a crash at {position}");
        let volumes = group.superblock().volumes.clone();
        for (name, sizes) in &self.sizes {
            let found = volumes.iter().find(|v| v.name == *name).map(|v| v.blocks);
            let last = sizes.iter().rposition(|(.., answered)| *answered <= position).unwrap();
            let may = |(size, asked, _): &(Option<u64>, usize, usize)| *size == found && *asked <= position;
            assert!(sizes[last..].iter().any(may), "{name} has {found:?} blocks after a crash at {position}");
        }
        // It goes on.
        let shared = Shared::new(group);
        for (name, pasts) in &self.pasts {
            let Some(drive) = shared.volume(name) else { continue };
            let mut out = vec![1; drive.size() as usize];
            drive.read(0, &mut out).unwrap();
            for (block, (content, past)) in out.chunks_exact(BLOCK).zip(pasts).enumerate() {
                let (id, allowed) = (identity(content), allowed(past, position));
                assert!(
                    id.is_some_and(|id| allowed.contains(&id)),
                    "block {block} of {name} reads {id:?} after a crash at {position}, allowed are {allowed:?}"
                );
            }
            if random.below(4) == 0 && *name != "k" {
                let block = random.below(drive.size() / B);
                match drive.write(block * B, content(1 << 40)) {
                    Ok(()) | Err(Error::NoSpace) => {}
                    Err(e) => panic!("{e}"),
                }
                shared.with(is_consistent).unwrap();
            }
        }
    }

    /// The number of images judged.
    fn enumerate(&self, seed: u64) -> usize {
        let (mut crash, mut random) = (Crash::new(&self.disk), Seeded::new(seed ^ 0xabcd));
        let mut images = 0;
        for position in self.from..=self.disk.position() {
            crash.advance(position);
            self.judge(position, crash.image(|| 1), &mut random);
            self.judge(position, crash.image(|| 0), &mut random);
            for kept in [Some(random.next()), None] {
                self.judge(position, subset(&crash, kept, &mut random), &mut random);
            }
            images += 4;
        }
        images
    }
}

/// Writes and discards.
fn requests(s: &Scenario) -> usize {
    let (mut life, devices) = Life::begin(s);
    for _ in 0..6 {
        life.step();
    }
    life.shared.with(|g| g.mutant = s.mutant);
    let from = life.rig.disk.position();
    for _ in 0..14 {
        life.step();
    }
    life.end(s, devices, from).enumerate(s.seed)
}

/// A drive is deleted, and its room is another one's; then that becomes smaller, and its room is a thick one's.
fn changes(s: &Scenario) -> usize {
    let (mut life, devices) = Life::begin(s);
    life.write("t", 0, 3 * PIECE, false);
    life.write("u", 4, 3 * PIECE, false);
    life.write("t", 60, 3, false);
    life.shared.with(|g| g.mutant = s.mutant);
    let from = life.rig.disk.position();
    life.cut("t", 0);
    life.change("t", None, |g| g.delete_volume("t").unwrap());
    life.was_cut("t");
    life.write("u", 30, 5 * PIECE, false);
    life.cut("u", 33);
    life.change("u", Some(33), |g| drop(g.shrink_volume("u", 33 * B).unwrap()));
    life.was_cut("u");
    life.write("u", 32, 1, false);
    life.write("k", 0, 6, false);
    life.shared.with(|g| drop(g.create_volume("new", Some(PIECE * B)).unwrap()));
    life.shared.volume("new").unwrap().write(0, content(1 << 41)).unwrap();
    life.change("u", Some(50), |g| drop(g.grow_volume("u", Some(50 * B)).unwrap()));
    life.write("u", 40, 2, false);
    life.end(s, devices, from).enumerate(s.seed)
}

fn scenario(level: Level, members: usize, seed: u64) -> Scenario {
    let (policy, how) = (Policy::Journal, How::InTurn);
    Scenario { level, members, degraded: false, policy, how, seed, mutant: None }
}

/// `THIN_SEEDS=20 cargo test` takes minutes.
fn seeds() -> u64 {
    std::env::var("THIN_SEEDS").map_or(1, |s| s.parse().unwrap())
}

fn all(work: fn(&Scenario) -> usize) {
    let mut images = 0;
    for seed in 0..seeds() {
        for (level, members) in [(Level::Raid5, 4), (Level::Raid6, 5), (Level::Raid1, 2)] {
            for (degraded, how) in [(false, How::InTurn), (true, How::InTurn), (false, How::Submitted)] {
                images += work(&Scenario { degraded, how, ..scenario(level, members, seed) });
            }
        }
    }
    assert!(images > 500, "{images} images");
}

#[test]
fn power_cut_while_pieces_are_given_and_taken_back() {
    all(requests);
}

#[test]
fn power_cut_while_thin_drives_are_deleted_and_become_smaller() {
    all(changes);
}

/// Without a journal, what is free is zeros and maps are sound after a power cut all the same.
#[test]
fn power_cut_without_a_journal_keeps_maps_and_free_room() {
    for policy in [Policy::Bitmap, Policy::None] {
        let s = Scenario { policy, ..scenario(Level::Raid5, 4, 3) };
        requests(&s);
        changes(&s);
    }
}

#[test]
fn mutants_of_thin_drives_are_found() {
    for mutant in [Mutant::MappedTooLate, Mutant::GivenUpUncleared, Mutant::FreeTooSoon] {
        let found = (0..10).any(|seed| {
            let s = Scenario { mutant: Some(mutant), ..scenario(Level::Raid5, 4, seed) };
            catch_unwind(AssertUnwindSafe(|| requests(&s) + changes(&s))).is_err()
        });
        assert!(found, "{mutant:?} is not found");
    }
}
