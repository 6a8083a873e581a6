//! Thin virtual drives against a model: requests, discards, growth, deletions, several threads, no room, damaged maps. Power cuts are in
//! `thin_crash`.

use std::collections::BTreeMap;
use std::sync::Arc;

use ashlar_environment::random::Seeded;

use super::rig::*;
use super::waiting::How;
use crate::thin_map::{ENTRIES, decode, encode, entry};
use crate::{
    BLOCK, Error, Group, Grow, Joining, Level, NewVolume, Policy, Repair, Shared, VirtualDrive, VolumeLimits,
};

/// Blocks of a piece in these tests, as a power of two.
pub(super) const PIECE_LOG: u8 = 2;
/// Bytes of a piece.
const PIECE: u64 = B << PIECE_LOG;

pub(super) fn thin(name: &str, bytes: u64) -> NewVolume {
    NewVolume { name: name.into(), bytes: Some(bytes), limits: VolumeLimits::default(), thin: true }
}

/// What none has reads as zeros, and every map is sound.
pub(super) fn is_consistent(group: &mut Group) -> Result<(), String> {
    for (start, len) in group.between(group.taken()) {
        let mut out = vec![1; len as usize * BLOCK];
        group.read(start * B, &mut out).map_err(|e| e.to_string())?;
        if let Some(at) = out.chunks_exact(BLOCK).position(|b| identity(b) != Some(0)) {
            return Err(format!("block {} is free and not zeros", start + at as u64));
        }
    }
    match group.thin_drives().into_iter().find_map(|t| t.damage) {
        Some(why) => Err(why),
        None => Ok(()),
    }
}

struct World {
    rig: Rig,
    members: usize,
    shared: Arc<Shared>,
    /// Content by name; whether it is thin.
    drives: BTreeMap<String, (VirtualDrive, Vec<u8>, bool)>,
    random: Seeded,
    refused: usize,
}

impl World {
    fn new(level: Level, members: usize, policy: Policy, how: How, seed: u64) -> World {
        let rig = Rig::new(members).asked(how, seed);
        let mut group = rig.create(level, 8192, policy, members);
        group.piece_log = PIECE_LOG;
        let shared = Shared::new(group);
        World { rig, members, shared, drives: BTreeMap::new(), random: Seeded::new(seed), refused: 0 }
    }

    fn any(&mut self) -> Option<String> {
        let at = self.random.below(self.drives.len().max(1) as u64) as usize;
        self.drives.keys().nth(at).cloned()
    }

    fn range(&mut self, size: u64) -> (u64, u64) {
        let (mut at, mut len) = (self.random.below(size), 1 + self.random.below((5 * PIECE).min(size)));
        match self.random.below(4) {
            0 => {}
            1 => (at, len) = (at / PIECE * PIECE, len.next_multiple_of(PIECE)),
            _ => (at, len) = (at / B * B, len.next_multiple_of(B)),
        }
        (at, len.min(size - at))
    }

    fn free(&self) -> u64 {
        self.shared.look(Group::free)
    }

    fn step(&mut self) {
        match self.random.below(24) {
            0..10 => self.write(),
            10..14 => self.zero(),
            14..17 => self.read(),
            17 => self.create(),
            18 if self.random.below(2) == 0 => self.delete(),
            19 | 20 => self.resize(),
            21 => self.status(),
            22 => self.shared.with(is_consistent).unwrap(),
            23 => self.reopen(),
            _ => {}
        }
    }

    fn write(&mut self) {
        let Some(name) = self.any() else { return };
        let size = self.drives[&name].0.size();
        let (at, len) = self.range(size);
        let mut data = vec![0; len as usize];
        self.random.fill(&mut data);
        let free: u64 =
            self.shared.look(|g| g.between(g.taken()).iter().map(|(_, len)| len >> PIECE_LOG).sum());
        let (drive, model, is_thin) = self.drives.get_mut(&name).unwrap();
        match drive.write(at, data.clone()) {
            Ok(()) => model[at as usize..(at + len) as usize].copy_from_slice(&data),
            Err(Error::NoSpace) => {
                let touched = (at + len).div_ceil(PIECE) - at / PIECE;
                assert!(*is_thin && free < touched, "{free} pieces are free");
                self.refused += 1;
            }
            Err(e) => panic!("{e}"),
        }
    }

    fn zero(&mut self) {
        let Some(name) = self.any() else { return };
        let size = self.drives[&name].0.size();
        let (at, len) = if self.random.below(6) == 0 { (0, size) } else { self.range(size) };
        let before = self.free();
        let (drive, model, is_thin) = self.drives.get_mut(&name).unwrap();
        drive.zero(at, len).unwrap();
        model[at as usize..(at + len) as usize].fill(0);
        if *is_thin && (at, len) == (0, size) {
            assert_eq!(drive.given(), Some(0), "it has nothing any more");
            assert_eq!(drive.allocated(0, size, 9).unwrap(), [(size, false)]);
        }
        assert!(self.free() >= before);
    }

    fn read(&mut self) {
        let Some(name) = self.any() else { return };
        let size = self.drives[&name].0.size();
        let (at, len) = self.range(size);
        let (drive, model, _) = &self.drives[&name];
        let mut out = vec![1; len as usize];
        drive.read(at, &mut out).unwrap();
        assert!(out == model[at as usize..(at + len) as usize], "{name} at {at}");
    }

    /// What has no data reads as zeros.
    fn status(&mut self) {
        let Some(name) = self.any() else { return };
        let size = self.drives[&name].0.size();
        let (at, len) = self.range(size);
        let (drive, model, _) = &self.drives[&name];
        let most = 1 + self.random.below(4) as usize;
        let found = drive.allocated(at, len, most).unwrap();
        assert!((1..=most).contains(&found.len()), "{found:?}");
        let mut from = at;
        for (len, data) in found {
            assert!(data || model[from as usize..(from + len) as usize].iter().all(|b| *b == 0));
            from += len;
        }
        assert!(from <= at + len);
    }

    fn create(&mut self) {
        let name = format!("d{}", self.random.below(6));
        if self.drives.contains_key(&name) {
            return;
        }
        let is_thin = self.random.below(3) != 0;
        let blocks = 1 + self.random.below(if is_thin { 120 } else { 30 });
        let new = NewVolume { thin: is_thin, ..thin(&name, blocks * B) };
        match self.shared.with(|g| g.make_volume(&new)) {
            Ok(made) => {
                assert_eq!(made.blocks, blocks);
                let drive = self.shared.volume(&name).unwrap();
                self.drives.insert(name, (drive, vec![0; (blocks * B) as usize], is_thin));
            }
            Err(Error::State(why)) => assert!(why.contains("no free piece"), "{why}"),
            Err(e) => panic!("{e}"),
        }
    }

    fn delete(&mut self) {
        let Some(name) = self.any() else { return };
        self.shared.with(|g| g.delete_volume(&name)).unwrap();
        let (drive, ..) = self.drives.remove(&name).unwrap();
        assert!(matches!(drive.read(0, &mut [0; 1]), Err(Error::State(_))), "it is gone");
        assert!(matches!(drive.write(0, vec![0; 1]), Err(Error::State(_))));
    }

    fn resize(&mut self) {
        let Some(name) = self.any() else { return };
        let (drive, _, is_thin) = &self.drives[&name];
        let blocks = drive.size() / B;
        let wanted = 1 + self.random.below((2 * blocks + 20).min(300));
        let done = self.shared.with(|g| {
            if wanted < blocks {
                g.shrink_volume(&name, wanted * B)
            } else {
                g.grow_volume(&name, Some(wanted * B))
            }
        });
        match done {
            Ok(volume) => {
                assert_eq!(volume.blocks, wanted);
                let (drive, model, _) = self.drives.get_mut(&name).unwrap();
                *drive = self.shared.volume(&name).unwrap();
                model.resize((wanted * B) as usize, 0);
            }
            Err(Error::State(why)) => assert!(!is_thin && why.contains("is behind it"), "{why}"),
            Err(e) => panic!("{e}"),
        }
    }

    fn reopen(&mut self) {
        let names: Vec<String> = self.drives.keys().cloned().collect();
        let before = self.shared.with(|g| {
            g.close().unwrap();
            let found = (g.free(), g.thin_drives(), g.superblock().volumes.clone());
            g.stop();
            found
        });
        let mut group = Group::open(self.rig.devices(0..self.members), false).unwrap();
        group.piece_log = PIECE_LOG;
        assert_eq!((group.free(), group.thin_drives(), group.superblock().volumes.clone()), before);
        self.shared = Shared::new(group);
        for name in names {
            self.drives.get_mut(&name).unwrap().0 = self.shared.volume(&name).unwrap();
        }
    }

    fn all(&mut self) {
        for (name, (drive, model, _)) in &self.drives {
            let mut out = vec![1; model.len()];
            drive.read(0, &mut out).unwrap();
            assert!(out == *model, "{name}");
        }
        self.shared.with(is_consistent).unwrap();
    }
}

/// `THIN_SEEDS=300 cargo test` takes minutes.
#[test]
fn thin_and_thick_drives_read_what_was_written() {
    let seeds = std::env::var("THIN_SEEDS").map_or(3, |s| s.parse().unwrap());
    let mut refused = 0;
    for policy in [Policy::Journal, Policy::Bitmap, Policy::None] {
        for (level, members) in [(Level::Raid1, 2), (Level::Raid5, 4), (Level::Raid6, 5)] {
            for how in [How::InTurn, How::Submitted] {
                for seed in 0..seeds {
                    let mut world = World::new(level, members, policy, how, seed);
                    for _ in 0..120 {
                        world.step();
                    }
                    world.all();
                    world.reopen();
                    world.all();
                    let checked = world.shared.with(|g| g.check(0, u64::MAX, Repair::StopOnError)).unwrap();
                    assert_eq!(checked.mismatches, [], "{level} {policy} {seed}");
                    refused += world.refused;
                }
            }
        }
    }
    assert!(refused > 50, "there was no room for {refused} writes only");
}

/// A thin drive for each thread, which share the room.
#[test]
fn threads_write_and_discard_side_by_side() {
    const THREADS: u64 = 4;
    for (seed, how) in [(1, How::InTurn), (2, How::Submitted), (3, How::OnThreads)] {
        let rig = Rig::with(4, MEMBER + 100).asked(how, seed);
        let mut group = rig.create(Level::Raid5, 8192, Policy::Journal, 4);
        group.piece_log = PIECE_LOG;
        // Not all of what they could have.
        for i in 0..THREADS {
            group.make_volume(&thin(&format!("t{i}"), 120 * B)).unwrap();
        }
        let shared = Shared::new(group);
        let refused = std::sync::atomic::AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for i in 0..THREADS {
                let (drive, refused) = (shared.volume(&format!("t{i}")).unwrap(), &refused);
                scope.spawn(move || {
                    let mut random = Seeded::new(seed * 100 + i);
                    let mut model = vec![0u64; 120];
                    for turn in 0..150 {
                        let (at, len) = (random.below(120), 1 + random.below(12));
                        let len = len.min(120 - at);
                        let range = at as usize..(at + len) as usize;
                        match random.below(8) {
                            0..4 => {
                                let id = i << 32 | (turn + 1) << 8;
                                let ids: Vec<u64> = (0..len).map(|n| id + n).collect();
                                match drive.write(at * B, ids.iter().copied().flat_map(content).collect()) {
                                    Ok(()) => model[range].copy_from_slice(&ids),
                                    Err(Error::NoSpace) => {
                                        _ = refused.fetch_add(1, std::sync::atomic::Ordering::Relaxed)
                                    }
                                    Err(e) => panic!("{e}"),
                                }
                            }
                            4 | 5 => {
                                drive.zero(at * B, len * B).unwrap();
                                model[range].fill(0);
                            }
                            _ => {
                                let mut out = vec![1; len as usize * BLOCK];
                                drive.read(at * B, &mut out).unwrap();
                                let found: Vec<Option<u64>> = out.chunks_exact(BLOCK).map(identity).collect();
                                let wanted: Vec<Option<u64>> =
                                    model[range].iter().copied().map(Some).collect();
                                assert_eq!(found, wanted, "thread {i}, turn {turn}");
                            }
                        }
                    }
                    let mut out = vec![1; 120 * BLOCK];
                    drive.read(0, &mut out).unwrap();
                    assert!(out.chunks_exact(BLOCK).map(identity).eq(model.into_iter().map(Some)));
                });
            }
        });
        shared.with(is_consistent).unwrap();
    }
}

fn group(rig: &Rig) -> Group {
    let mut group = rig.create(Level::Raid5, 8192, Policy::Journal, 4);
    group.piece_log = PIECE_LOG;
    group
}

#[test]
fn write_without_room_changes_nothing_and_a_discard_makes_room() {
    let rig = Rig::new(4);
    let mut group = group(&rig);
    let pieces = group.free() / PIECE;
    group.make_volume(&thin("a", 500 * B)).unwrap();
    group.make_volume(&thin("b", 500 * B)).unwrap();
    let shared = Shared::new(group);
    let (a, b) = (shared.volume("a").unwrap(), shared.volume("b").unwrap());
    // A piece each for the maps.
    let room = pieces - 2;
    for piece in 0..room {
        a.write(piece * PIECE + B, content(piece + 1)).unwrap();
    }
    assert_eq!((a.given(), b.given(), shared.look(Group::free)), (Some(room * PIECE), Some(0), 0));
    assert_eq!(b.write(0, content(7)), Err(Error::NoSpace));
    // Into what is there, and beyond.
    assert_eq!(a.write((room - 1) * PIECE, vec![7; 2 * PIECE as usize]), Err(Error::NoSpace));
    let mut out = vec![1; 2 * PIECE as usize];
    a.read((room - 1) * PIECE, &mut out).unwrap();
    let found: Vec<Option<u64>> = out.chunks_exact(BLOCK).map(identity).collect();
    assert_eq!(found, [0, room, 0, 0, 0, 0, 0, 0].map(Some), "nothing of it is there");
    // Others go on.
    a.write(2 * B, content(50)).unwrap();
    b.zero(0, 500 * B).unwrap();
    b.read(0, &mut out).unwrap();
    assert!(out.iter().all(|b| *b == 0));
    // In part: it keeps its room.
    a.zero(PIECE, PIECE - B).unwrap();
    assert_eq!(b.write(0, content(7)), Err(Error::NoSpace));
    a.zero(PIECE - B, PIECE + 2 * B).unwrap();
    assert_eq!(a.given(), Some((room - 1) * PIECE));
    b.write(0, content(7)).unwrap();
    b.read(0, &mut out).unwrap();
    let found: Vec<Option<u64>> = out.chunks_exact(BLOCK).map(identity).collect();
    assert_eq!(found, [7, 0, 0, 0, 0, 0, 0, 0].map(Some));
    let thick = shared.with(|g| g.create_volume("c", Some(B)));
    assert!(matches!(thick, Err(Error::State(why)) if why.contains("no free piece")));
    // Deleting makes room, too.
    shared.with(|g| g.delete_volume("a").unwrap());
    assert_eq!(
        shared.look(Group::free),
        (pieces - 2) * PIECE,
        "but for the map and the piece of the other one"
    );
    shared.with(is_consistent).unwrap();
}

#[test]
fn one_batch_of_requests_for_the_last_pieces() {
    let rig = Rig::new(4);
    let mut group = group(&rig);
    group.make_volume(&thin("a", 500 * B)).unwrap();
    let shared = Shared::new(group);
    let a = shared.volume("a").unwrap();
    let room = shared.look(Group::free) / PIECE;
    for piece in 0..room - 2 {
        a.write(piece * PIECE, content(piece + 1)).unwrap();
    }
    // Five at once, two of them into one piece: while the group is in hand they wait.
    let done = std::thread::scope(|scope| {
        let (go, wait) = std::sync::mpsc::channel::<()>();
        let (has, had) = std::sync::mpsc::channel::<()>();
        let holder = scope.spawn({
            let shared = shared.clone();
            move || {
                shared.with(|_| {
                    has.send(()).unwrap();
                    wait.recv().unwrap();
                })
            }
        });
        had.recv().unwrap();
        let writers: Vec<_> = [100, 100, 101, 102, 103]
            .into_iter()
            .enumerate()
            .map(|(n, piece)| {
                let a = a.clone();
                scope.spawn(move || a.write(piece * PIECE + n as u64 % 4 * B, content(n as u64 + 1)))
            })
            .collect();
        while shared.waiting() < 5 {
            std::thread::yield_now();
        }
        go.send(()).unwrap();
        holder.join().unwrap();
        writers.into_iter().map(|w| w.join().unwrap()).collect::<Vec<_>>()
    });
    let refused = done.iter().filter(|d| **d == Err(Error::NoSpace)).count();
    assert!((2..=3).contains(&refused), "{done:?}");
    assert_eq!(shared.look(Group::free), 0);
    for (n, piece) in [100u64, 100, 101, 102, 103].into_iter().enumerate() {
        let mut out = content(0);
        a.read(piece * PIECE + n as u64 % 4 * B, &mut out).unwrap();
        let wanted = if done[n].is_ok() { n as u64 + 1 } else { 0 };
        assert_eq!(identity(&out), Some(wanted), "{n}");
    }
}

#[test]
fn thin_drives_grow_and_become_smaller() {
    let rig = Rig::new(4);
    let mut group = group(&rig);
    let refused = |result: Result<crate::Volume, Error>, part: &str| {
        assert!(matches!(&result, Err(Error::State(why)) if why.contains(part)), "{result:?}");
    };
    refused(group.make_volume(&NewVolume { bytes: None, ..thin("a", 0) }), "needs a size");
    refused(group.make_volume(&thin("a", u64::MAX)), "at most");
    group.make_volume(&thin("a", 10 * B)).unwrap();
    refused(group.grow_volume("a", None), "size that is named");
    refused(group.grow_volume("a", Some(1 << 50)), "its map has no room for more");
    // A map of four blocks has 4,096 entries of pieces of four blocks.
    let most = 4 * 1024 * PIECE;
    assert_eq!(group.grow_volume("a", Some(most)).unwrap().blocks, most / B);
    refused(group.grow_volume("a", Some(most + 1)), "its map has no room for more");
    let shared = Shared::new(group);
    let a = shared.volume("a").unwrap();
    a.write(most - B, content(9)).unwrap();
    a.write(10 * B, content(10)).unwrap();
    shared.with(|g| {
        assert_eq!(g.shrink_volume("a", most - 1).unwrap().blocks, most / B);
        assert_eq!(g.thin_drives()[0].allocated, 2 * PIECE);
        g.shrink_volume("a", most - B).unwrap();
        assert_eq!(g.thin_drives()[0].allocated, 2 * PIECE, "the other blocks of the piece are still there");
        g.shrink_volume("a", 11 * B).unwrap();
        assert_eq!(g.thin_drives()[0].allocated, PIECE);
        g.grow_volume("a", Some(most)).unwrap();
        is_consistent(g).unwrap();
    });
    let mut out = content(1);
    for (at, wanted) in [(most - B, 0), (10 * B, 10)] {
        shared.volume("a").unwrap().read(at, &mut out).unwrap();
        assert_eq!(identity(&out), Some(wanted));
    }
    assert!(matches!(a.read(most - B, &mut out), Ok(())), "it has the size that it had");
}

#[test]
fn room_of_a_group_that_grows_is_given_out() {
    let rig = Rig::new(5);
    let mut group = group(&rig);
    group.make_volume(&thin("a", 500 * B)).unwrap();
    let shared = Shared::new(group);
    let a = shared.volume("a").unwrap();
    let mut written = 0;
    while a.write(written * PIECE, content(written + 1)).is_ok() {
        written += 1;
    }
    shared.with(|g| g.grow(&Grow::default(), vec![Joining::Device(rig.device(4))])).unwrap();
    while shared.with(|g| g.move_rows(7)).unwrap().is_some_and(|m| m.done < m.rows) {
        // It stays as it is until the growth ends.
        assert_eq!(a.write(written * PIECE, content(1)), Err(Error::NoSpace));
        a.write(B, content(999)).unwrap();
    }
    let before = written;
    while a.write(written * PIECE, content(written + 1)).is_ok() {
        written += 1;
    }
    assert!(written >= before + 10, "{before}, then {written}");
    for piece in 0..written {
        let mut out = content(0);
        a.read(piece * PIECE, &mut out).unwrap();
        assert_eq!(identity(&out), Some(piece + 1));
    }
    shared.with(is_consistent).unwrap();
    drop(a);
    drop(shared);
    let mut group = Group::open(rig.devices(0..5), false).unwrap();
    is_consistent(&mut group).unwrap();
    assert_eq!(group.thin_drives()[0].allocated, written * PIECE);
}

/// Two thin drives with a piece each, and one without.
fn three(rig: &Rig) -> (Group, [u64; 3]) {
    let mut group = group(rig);
    let starts = ["a", "b", "c"].map(|name| group.make_volume(&thin(name, 40 * B)).unwrap().start);
    let shared = Shared::new(group);
    shared.volume("a").unwrap().write(0, content(1)).unwrap();
    shared.volume("b").unwrap().write(PIECE, content(2)).unwrap();
    shared.with(Group::close).unwrap();
    drop(shared);
    (Group::open(rig.devices(0..4), false).unwrap(), starts)
}

/// Writes an entry into the map at `start`, as something that is broken would.
fn forge(rig: &Rig, mut group: Group, start: u64, index: usize, piece: u64) -> Group {
    let mut block = vec![0; BLOCK];
    group.read(start * B, &mut block).unwrap();
    let mut entries = decode(&block).unwrap_or_else(|| Box::new([0; ENTRIES]));
    entries[index] = entry(piece).unwrap();
    group.write(start * B, &encode(&entries)).unwrap();
    group.close().unwrap();
    drop(group);
    Group::open(rig.devices(0..4), false).unwrap()
}

#[test]
fn damaged_maps_are_not_served_and_nothing_is_given_out() {
    // The same piece twice, the map of another one, one that is not there, one of an entry behind the end.
    type Wrong = fn([u64; 3]) -> (usize, u64);
    let piece_of = |start: u64| start >> PIECE_LOG;
    let cases: [(&str, Wrong, bool); 4] = [
        ("two entries name it", |s| (3, (s[2] >> PIECE_LOG) + 1), true),
        ("something else has it", |s| (3, s[2] >> PIECE_LOG), false),
        ("there is none", |_| (3, 4000), false),
        ("it is behind the end", |s| (30, (s[2] >> PIECE_LOG) + 3), false),
    ];
    for (part, wrong, both) in cases {
        let rig = Rig::new(4);
        let (group, starts) = three(&rig);
        assert_eq!(piece_of(starts[2]), piece_of(starts[0]) + 2);
        // The first piece that was given out, which `a` has, follows the map of `c`.
        let (index, piece) = wrong(starts);
        let group = forge(&rig, group, starts[1], index, piece);
        let found = group.thin_drives();
        assert!(found[1].damage.as_ref().is_some_and(|why| why.contains(part)), "{found:?}");
        assert_eq!(found[0].damage.is_some(), both, "{found:?}");
        let shared = Shared::new(group);
        let [a, b, c] = ["a", "b", "c"].map(|name| shared.volume(name).unwrap());
        let mut out = content(0);
        assert!(matches!(b.read(PIECE, &mut out), Err(Error::Damaged(_))));
        assert!(matches!(b.write(PIECE, content(1)), Err(Error::Damaged(_))));
        assert!(matches!(b.zero(0, 40 * B), Err(Error::Damaged(_))));
        assert!(matches!(b.allocated(0, B, 1), Err(Error::Damaged(_))));
        // Others are served, but for what needs room.
        if !both {
            a.write(B, content(3)).unwrap();
            a.read(B, &mut out).unwrap();
            assert_eq!(identity(&out), Some(3));
        }
        c.read(0, &mut out).unwrap();
        let refused = |why: &str| why.contains("\"b\"") || both && why.contains("\"a\"");
        assert!(matches!(c.write(0, content(1)), Err(Error::State(why)) if refused(&why)));
        shared.with(|g| {
            for new in [thin("d", B), NewVolume { thin: false, ..thin("d", B) }] {
                assert!(matches!(g.make_volume(&new), Err(Error::State(why)) if refused(&why)));
            }
            g.delete_volume("b").unwrap();
            assert!(g.thin_drives().iter().all(|t| t.damage.is_none()));
            is_consistent(g).unwrap();
        });
        c.write(0, content(4)).unwrap();
        for (drive, wanted) in [(&a, 1), (&c, 4)] {
            drive.read(0, &mut out).unwrap();
            assert_eq!(identity(&out), Some(wanted), "{part}");
        }
    }
}

#[test]
fn map_that_cannot_be_read_is_not_written_over() {
    let rig = Rig::new(4);
    let (mut group, starts) = three(&rig);
    let place = group.locate(starts[1]);
    let slots = group.slots(place.set, place.row);
    let at = (group.layout.data_start + place.row) * B;
    group.close().unwrap();
    drop(group);
    // It and the parity of its row.
    for role in [place.role, 3] {
        rig.file(slots[role]).write_at(&[9; BLOCK], at).unwrap();
    }
    let group = Group::open(rig.devices(0..4), false).unwrap();
    let found = group.thin_drives();
    assert!(found[1].damage.as_ref().is_some_and(|why| why.contains("cannot be read")), "{found:?}");
    let shared = Shared::new(group);
    let mut out = content(0);
    assert!(matches!(shared.volume("b").unwrap().read(0, &mut out), Err(Error::Damaged(_))));
    assert!(matches!(shared.volume("c").unwrap().write(0, content(1)), Err(Error::State(_))));
    shared.volume("a").unwrap().read(0, &mut out).unwrap();
    assert_eq!(identity(&out), Some(1));
    shared.with(|g| {
        g.delete_volume("b").unwrap();
        is_consistent(g).unwrap();
    });
    shared.volume("c").unwrap().write(0, content(3)).unwrap();
    shared.volume("a").unwrap().read(0, &mut out).unwrap();
    assert_eq!(identity(&out), Some(1));
}
