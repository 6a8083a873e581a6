//! Batches of a rebuild and of a check: the bytes that they write, and what they do when something is wrong.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ashlar_environment::random::Seeded;
use ashlar_erasure::Code;
use ashlar_machine::{Crash, Fault, Operation};

use super::rig::*;
use crate::{
    BLOCK, Batching, Coder, Cpu, Error, Group, GroupState, Level, MemberState, Memory, Part, Point, Policy,
    Repair, Wanted, choose, crossover, measure,
};

fn levels() -> [(Level, usize, u64); 8] {
    [
        (Level::Raid1, 3, 4096),
        (Level::Raid10, 4, 8192),
        (Level::Raid5, 4, 4096),
        (Level::Raid5, 5, 32 << 10),
        (Level::Raid6, 6, 16 << 10),
        (Level::Coded { k: 4, m: 3 }, 7, 8192),
        (Level::Coded { k: 1, m: 2 }, 3, 8192),
        (Level::Raid60 { sets: 2 }, 8, 8192),
    ]
}

/// Computes when the output is asked for, as late as a device can, and counts batches; fails from one batch on.
struct Late {
    batches: Arc<AtomicU64>,
    fails_at: u64,
    compute: fn(&Code, &Part, &[u8], &mut [u8]),
}

impl Late {
    fn new(fails_at: u64) -> Late {
        Late { batches: Arc::default(), fails_at, compute: by_the_code }
    }
}

fn by_the_code(code: &Code, part: &Part, rows: &[u8], made: &mut [u8]) {
    let present: Vec<(usize, &[u8])> =
        part.present.iter().copied().zip(rows.chunks_exact(part.row)).collect();
    code.reconstruct(&present, &[part.wanted], &mut [made]).unwrap();
}

impl Coder for Late {
    fn name(&self) -> String {
        "late".into()
    }

    fn under_way(&self) -> usize {
        3
    }

    fn memory(&self, code: &Code, input: usize, output: usize) -> Result<Box<dyn Memory>, Error> {
        Ok(Box::new(LateMemory {
            late: Late { batches: self.batches.clone(), ..*self },
            code: code.clone(),
            input: vec![0xEE; input],
            output: vec![0xEE; output],
            parts: None,
        }))
    }
}

struct LateMemory {
    late: Late,
    code: Code,
    input: Vec<u8>,
    output: Vec<u8>,
    parts: Option<Vec<Part>>,
}

impl Memory for LateMemory {
    fn input(&mut self) -> Result<&mut [u8], Error> {
        assert!(self.parts.is_none(), "the batch before was not taken");
        Ok(&mut self.input)
    }

    fn start(&mut self, parts: &[Part]) -> Result<(), Error> {
        self.parts = Some(parts.to_vec());
        Ok(())
    }

    fn output(&mut self) -> Result<&[u8], Error> {
        let (mut input, mut output) = (0, 0);
        for part in self.parts.take().expect("a batch was started") {
            for _ in 0..part.stripes {
                let len = part.row * self.code.k();
                let (rows, made) = (&self.input[input..input + len], &mut self.output[output..]);
                (self.late.compute)(&self.code, &part, rows, &mut made[..part.row]);
                (input, output) = (input + len, output + part.row);
            }
        }
        if self.late.batches.fetch_add(1, Ordering::Relaxed) >= self.late.fails_at {
            return Err(Error::Coder("broken".into()));
        }
        Ok(&self.output)
    }
}

/// A group in which some blocks were written, some rows not at all.
fn written(rig: &Rig, level: Level, members: usize, strip: u64, seed: u64) -> Group {
    let mut group = rig.create(level, strip, Policy::Journal, members);
    let mut random = Seeded::new(seed);
    let blocks = group.size() / B;
    for id in 1..blocks {
        // A third of the space stays as it is.
        let at = random.below(blocks * 2 / 3);
        group.write(at * B, &content(id)).unwrap();
    }
    group.checkpoint().unwrap();
    group
}

/// Rebuilds a member on a new device; what is then on it is what was on the old one.
fn same_bytes(level: Level, members: usize, strip: u64, batching: &Batching, seed: u64) {
    let rig = Rig::new(members + 2);
    let mut group = written(&rig, level, members, strip, seed);
    let before = identities(&mut group);
    let mut random = Seeded::new(seed ^ 77);
    let lost = random.below(members as u64) as usize;
    let slots: Vec<usize> = (0..members).collect();
    group.set_batching(batching.clone());
    group.take_out(lost).unwrap();
    // A second one is absent, where the level allows it.
    let other = (lost + 1) % members;
    let two = group.geometry().m > 1 && random.below(2) == 0 && group.take_out(other).is_ok();
    group.replace(lost, rig.device(members), false).unwrap();
    let rows = 1 + random.below(40);
    while group.rebuild(rows).unwrap().is_some() {}
    assert_eq!(group.members()[lost].state, MemberState::Online);
    let start = group.superblock().data_start;
    let dump = rig.disk.dump();
    let g = *group.geometry();
    for row in 0..g.rows() {
        let of = |name: usize| {
            let at = ((start + row) * B) as usize;
            &dump[&super::rig::name(name)][at..at + BLOCK]
        };
        // What a block that was never written holds does not matter.
        if group.sum(lost, row) != 0 {
            assert!(of(lost) == of(members), "{level} row {row}");
        }
    }
    if two {
        group.replace(other, rig.device(members + 1), false).unwrap();
        while group.rebuild(rows).unwrap().is_some() {}
    }
    assert_eq!(group.state(), GroupState::Optimal);
    assert_eq!(identities(&mut group), before);
    assert_eq!(group.check(0, u64::MAX, Repair::StopOnError).unwrap().mismatches, []);
    assert_eq!(group.counters().corrected, 0);
    assert_eq!(slots.len(), group.members().len());
}

#[test]
fn batches_make_the_bytes_that_were_lost() {
    let coders: [Arc<dyn Coder>; 2] = [Arc::new(Cpu::default()), Arc::new(Late::new(u64::MAX))];
    for coder in coders {
        for (bytes, threads) in [(1, 1), (100 << 10, 1), (100 << 10, 3), (4 << 20, 1), (64 << 10, 5)] {
            let batching = Batching { bytes, threads, coder: coder.clone() };
            for (level, members, strip) in levels() {
                for seed in 0..3 {
                    same_bytes(level, members, strip, &batching, seed);
                }
            }
        }
    }
}

/// The arithmetic of the GPU's kernel, on the CPU.
#[cfg(feature = "gpu")]
#[test]
fn the_twin_of_the_gpu_makes_the_bytes_that_were_lost() {
    fn by_tables(code: &Code, part: &Part, rows: &[u8], made: &mut [u8]) {
        let (used, matrix) = ashlar_gpu::Matrix::decode(code, &part.present, &[part.wanted]).unwrap();
        assert_eq!(used, part.present);
        let word = |bytes: &[u8]| u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        for (at, out) in made.chunks_exact_mut(8).enumerate() {
            let pair = |row: &[u8]| [word(&row[at * 8..]), word(&row[at * 8 + 4..])];
            let words: Vec<[u32; 2]> = rows.chunks_exact(part.row).map(pair).collect();
            let [[low, high]] = ashlar_gpu::run_tables(&matrix, &words)[..] else { unreachable!() };
            out[..4].copy_from_slice(&low.to_le_bytes());
            out[4..].copy_from_slice(&high.to_le_bytes());
        }
    }
    let twin = Late { compute: by_tables, ..Late::new(u64::MAX) };
    let batching = Batching { bytes: 200 << 10, threads: 1, coder: Arc::new(twin) };
    for (level, members, strip) in [(Level::Raid5, 4, 8192), (Level::Coded { k: 4, m: 3 }, 7, 8192)] {
        same_bytes(level, members, strip, &batching, 5);
    }
}

/// After the coder fails, the CPU does the rest, and says so.
#[test]
fn a_coder_that_fails_is_replaced_by_the_cpu() {
    for fails_at in [0, 1, 4] {
        let rig = Rig::new(6);
        let mut group = written(&rig, Level::Raid6, 5, 4096, 9);
        let before = identities(&mut group);
        group.set_batching(Batching {
            bytes: 3 * 4 * BLOCK,
            threads: 1,
            coder: Arc::new(Late::new(fails_at)),
        });
        group.take_out(3).unwrap();
        group.replace(3, rig.device(5), false).unwrap();
        while group.rebuild(1000).unwrap().is_some() {}
        let name = group.batching().coder.name();
        assert!(name.starts_with("CPU") && name.contains("late: the coder failed: broken"), "{name}");
        group.take_out(0).unwrap();
        assert_eq!(identities(&mut group), before);
    }
}

/// Damaged blocks of the sources are corrected on the way, and counted.
#[test]
fn a_rebuild_does_not_use_damaged_blocks() {
    let rig = Rig::new(6);
    let mut group = written(&rig, Level::Raid6, 5, 8192, 3);
    let before = identities(&mut group);
    group.take_out(2).unwrap();
    let start = group.superblock().data_start;
    for row in [0, 5, 6, 17] {
        rig.disk.flip("m1", (start + row) * B + 77, 3);
    }
    let wrong = [0, 5, 6, 17].iter().filter(|row| group.sum(1, **row) != 0).count() as u64;
    assert!(wrong > 1, "blocks that count are damaged");
    group.replace(2, rig.device(5), false).unwrap();
    while group.rebuild(1000).unwrap().is_some() {}
    assert!(group.counters().corrected > 0);
    group.check(0, u64::MAX, Repair::AutoFix).unwrap();
    assert_eq!(group.counters().corrected, wrong);
    assert_eq!(identities(&mut group), before);
    group.take_out(0).unwrap();
    assert_eq!(identities(&mut group), before);
}

/// A source whose read fails is out of service; the others suffice.
#[test]
fn a_source_that_fails_is_done_without() {
    let rig = Rig::new(6);
    let mut group = written(&rig, Level::Raid6, 5, 4096, 4);
    let before = identities(&mut group);
    group.take_out(2).unwrap();
    group.replace(2, rig.device(5), false).unwrap();
    group.set_batching(Batching { bytes: 9 * BLOCK, ..Batching::default() });
    rig.faults[1].set_after(Operation::Read, Fault::Error(libc::EIO), 2, u64::MAX);
    while group.rebuild(1000).unwrap().is_some() {}
    assert_eq!(group.members()[1].state, MemberState::Failed);
    assert_eq!(group.members()[2].state, MemberState::Online);
    assert_eq!(identities(&mut group), before);
}

/// A new member that cannot be written is out of service again, and nothing else changes.
#[test]
fn a_new_member_that_fails_is_given_up() {
    let rig = Rig::new(6);
    let mut group = written(&rig, Level::Raid6, 5, 4096, 4);
    let before = identities(&mut group);
    group.take_out(2).unwrap();
    group.replace(2, rig.device(5), false).unwrap();
    rig.faults[5].set_after(Operation::Write, Fault::Error(libc::EIO), 1, u64::MAX);
    let mut calls = 0;
    while group.rebuild(20).unwrap().is_some() {
        calls += 1;
        assert!(calls < 100, "it ends");
    }
    assert_eq!(group.members()[2].state, MemberState::Failed);
    assert_eq!(identities(&mut group), before);
}

/// Without redundancy left, a damaged block ends the rebuild where it is, and only its row is lost.
#[test]
fn a_rebuild_that_cannot_go_on_stays_where_it_is() {
    let rig = Rig::new(5);
    let mut group = written(&rig, Level::Raid5, 4, 4096, 8);
    group.take_out(2).unwrap();
    let start = group.superblock().data_start;
    let row = (5..30).find(|row| group.sum(1, *row) != 0).unwrap();
    rig.disk.flip("m1", (start + row) * B + 5, 1);
    group.replace(2, rig.device(4), false).unwrap();
    group.rebuild(2).unwrap();
    let below = |g: &Group| g.members()[2].state;
    assert_eq!(below(&group), MemberState::Rebuild { done: 2 });
    assert!(matches!(group.rebuild(1000), Err(Error::Lost { row: r, .. }) if r == row));
    assert_eq!(below(&group), MemberState::Rebuild { done: 2 });
}

/// What a check finds does not depend on batches.
#[test]
fn a_check_finds_the_same_in_batches() {
    for (bytes, threads) in [(1, 1), (300 << 10, 1), (100 << 10, 4), (4 << 20, 2)] {
        let rig = Rig::new(8);
        let mut group = written(&rig, Level::Raid60 { sets: 2 }, 8, 8192, 6);
        group.set_batching(Batching { bytes, threads, ..Batching::default() });
        let start = group.superblock().data_start;
        let mut expected = Vec::new();
        for (slot, row) in [(1, 2), (6, 2), (3, 9), (0, 30), (5, 31)] {
            if group.sum(slot, row) != 0 {
                rig.disk.flip(&name(slot), (start + row) * B + 9, 2);
                expected.push((row, (slot / 4) as u32, vec![slot]));
            }
        }
        assert!(expected.len() > 2);
        let found = |group: &mut Group, mode| {
            let checked = group.check(0, u64::MAX, mode).unwrap();
            assert_eq!(checked.next, None);
            let all = checked.mismatches.into_iter();
            all.map(|m| (m.row, m.set, m.members)).collect::<Vec<_>>()
        };
        assert_eq!(found(&mut group, Repair::StopOnError), expected[..1]);
        assert_eq!(found(&mut group, Repair::AutoFix), expected);
        assert_eq!(found(&mut group, Repair::AutoFix), []);
    }
}

#[test]
fn the_device_must_win_at_every_larger_size() {
    let point = |bytes, cpu, device| Point { bytes, cpu, device };
    let points = [point(1, 1.0, 0.5), point(2, 1.0, 2.0), point(4, 1.0, 0.9), point(8, 1.0, 0.2)];
    assert_eq!(crossover(&points), Some(4));
    assert_eq!(crossover(&points[..2]), None);
    let points = measure(&Code::new(4, 2).unwrap(), &Cpu::default(), 2, 3 << 20).unwrap();
    assert!(points.len() == 6 && points.iter().all(|p| p.cpu > 0.0 && p.device > 0.0));
}

/// Without a device it is the CPU, and its name says why.
#[test]
fn without_a_gpu_the_cpu_codes() {
    let batching = Batching::default();
    let name = |m, wanted| choose(4, m, wanted, &batching).unwrap().coder.name();
    assert!(!name(2, Wanted::Cpu).contains(';'));
    assert!(!name(0, Wanted::Auto).contains(';'));
    let gpu = name(2, Wanted::Gpu);
    assert!(gpu.contains("CPU") && gpu.contains("GPU") || gpu.contains("feature `gpu`"), "{gpu}");
    if cfg!(not(feature = "gpu")) {
        assert_eq!(name(2, Wanted::Auto), name(2, Wanted::Cpu));
    }
    assert!(matches!(choose(0, 2, Wanted::Auto, &batching), Err(Error::Layout(_))));
}

/// The new device has a superblock before another member says that it is a member: at no instant the group needs a member that
/// cannot be recognised.
#[test]
fn power_cut_while_a_member_is_replaced() {
    let rig = Rig::new(5);
    let mut group = rig.create(Level::Raid5, 8192, Policy::Journal, 4);
    let blocks = group.size() / B;
    for block in (0..blocks).step_by(3) {
        group.write(block * B, &content(block + 1)).unwrap();
    }
    group.take_out(1).unwrap();
    let from = rig.disk.position();
    group.replace(1, rig.device(4), false).unwrap();
    group.checkpoint().unwrap();
    let written = identities(&mut group);
    let mut crash = Crash::new(&rig.disk);
    for position in from..=rig.disk.position() {
        crash.advance(position);
        for kept in [0, 1] {
            let image = Rig::of(crash.image(|| kept), 5);
            let known = [0, 2, 3, 4].into_iter().filter(|i| Group::examine(image.device(*i)).is_ok());
            let devices: Vec<usize> = known.collect();
            let opened = Group::open(image.devices(devices.iter().copied()), false);
            let mut group = opened.unwrap_or_else(|e| panic!("at {position}, {kept}, of {devices:?}: {e}"));
            assert_eq!(identities(&mut group), written, "at {position}, {kept}");
            // It is rebuilt, whether it was in the place already or is a hot spare.
            if devices.contains(&4) {
                let _ = group.use_spare().unwrap();
                while group.rebuild(16).unwrap().is_some_and(|p| p.done < p.rows) {}
                assert_eq!(group.superblock().slots[1].state, MemberState::Online, "at {position}, {kept}");
            }
        }
    }
}
