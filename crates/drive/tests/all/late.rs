//! Late drops and reused segments (see `recycle`): a drop, the end of a reader or the end of a writer that
//! comes arbitrarily late never affects a shard that was stored later; counts of bytes in use stay exact; and
//! a journal that is replayed from its beginning restores nothing that was dropped.

use crate::common::*;
use ashlar_drive::{Check, Drive, Options, ShardReader, ShardWriter};
use ashlar_machine::{Crash, Folder, SimDisk};
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};

fn options() -> Options {
    let mut o = small_options();
    o.cache_bytes = 16 << 10;
    // A segment has space for two or three shards, so that segments become empty all the time.
    o.segment_bytes = 64 << 10;
    o
}

fn content(id: u64) -> Vec<u8> {
    Rng(id).bytes(9_000 + (id % 7) as usize * 2_000)
}

/// What must exist after a crash at a position of the log, and what may exist.
#[derive(Clone, Default)]
struct Model {
    alive: BTreeSet<u64>,
    /// Dropped, but the request was not sent yet, or is not durable.
    going: BTreeSet<u64>,
}

struct World {
    d: Drive,
    m: Model,
    next: u64,
    /// Drops that were decided and are delayed.
    late: Vec<u64>,
    /// All names that were ever dropped: requested again at random, long after their segments were reused.
    past: Vec<u64>,
    readers: Vec<(u64, ShardReader)>,
    writers: Vec<ShardWriter>,
}

impl World {
    fn step(&mut self, rng: &mut Rng) {
        match rng.below(100) {
            0..40 => {
                let id = self.next;
                self.next += 1;
                write_large(&self.d, id % 50, id, &content(id), 4096).unwrap();
                self.m.alive.insert(id);
            }
            // Decided now, executed later.
            40..70 => {
                let n = rng.below(self.m.alive.len() as u64) as usize;
                if let Some(id) = self.m.alive.iter().nth(n).copied() {
                    self.m.alive.remove(&id);
                    self.m.going.insert(id);
                    self.late.push(id);
                }
            }
            70..80 => {
                for _ in 0..rng.below(8) {
                    if !self.late.is_empty() {
                        let id = self.late.swap_remove(rng.below(self.late.len() as u64) as usize);
                        self.d.discard(GROUP, u32::MAX, &[(write_id(id), 3)]);
                        self.past.push(id);
                    }
                }
            }
            // Again, long after it was dropped.
            80..84 if !self.past.is_empty() => {
                let id = self.past[rng.below(self.past.len() as u64) as usize];
                self.d.discard(GROUP, u32::MAX, &[(write_id(id), 3)]);
            }
            84..87 => {
                let n = rng.below(self.m.alive.len() as u64) as usize;
                if let Some(id) = self.m.alive.iter().nth(n).copied() {
                    let r = run(&self.d, self.d.open_shard(write_id(id), 3)).unwrap();
                    self.readers.push((id, r));
                }
            }
            87..89 if !self.readers.is_empty() => {
                let (id, r) = self.readers.swap_remove(rng.below(self.readers.len() as u64) as usize);
                assert!(reads(&self.d, &r) == content(id), "{id} was taken from its reader");
            }
            // A writer that gives up, now or much later.
            89..91 => {
                let id = self.next;
                self.next += 1;
                let w =
                    self.d.begin_shard(&key(1), write_id(id), 3, ballot(1), u32::MAX, 9_000, 4096).unwrap();
                self.writers.push(w);
            }
            91..93 if !self.writers.is_empty() => {
                let mut w = self.writers.swap_remove(rng.below(self.writers.len() as u64) as usize);
                if rng.below(2) == 0 {
                    let _ = run(&self.d, w.write(Bytes::from(vec![0xee; 4096])));
                }
            }
            93 => self.d.tidy().unwrap(),
            94..98 => self.d.upkeep().unwrap(),
            _ => self.d.tick(),
        }
        if rng.below(3) == 0 {
            self.d.pump();
        }
        if rng.below(40) == 0 {
            self.d.pump();
            run(&self.d, self.d.flush()).unwrap();
        }
    }
}

fn reads(d: &Drive, r: &ShardReader) -> Vec<u8> {
    let mut out = Vec::new();
    for n in 0..r.frames() {
        out.extend_from_slice(&run(d, r.read(n, Check::Drive)).unwrap());
    }
    out
}

fn sound(d: &Drive, m: &Model, what: &str) {
    assert_eq!((d.audit().unwrap(), d.stats().miscounts), (vec![], 0), "{what}");
    let s = d.stats();
    assert!(s.extent_live <= s.extent_bytes, "{what}: more in use than there is: {s:?}");
    for id in &m.alive {
        let got = read_shard(d, *id).unwrap_or_else(|e| panic!("{what}: shard {id}: {e}"));
        assert!(got == content(*id), "{what}: shard {id} holds other bytes");
    }
    for s in run(d, d.shards(None, 100_000)).unwrap() {
        let id = u64::from_le_bytes(s.write_id.0[8..].try_into().unwrap());
        assert!(m.alive.contains(&id) || m.going.contains(&id), "{what}: shard {id} came back");
    }
}

fn reopen(image: &SimDisk, without_index: bool) -> Drive {
    if without_index {
        for n in image.dump().keys().filter(|n| n.starts_with("index/")) {
            image.put(n, None);
        }
    }
    Drive::open_folder(&Folder::simulated(image, None), &options(), false).unwrap()
}

#[test]
fn late_drops_do_not_affect_reused_segments() {
    let runs: u64 = std::env::var("ASHLAR_LATE_RUNS").ok().and_then(|s| s.parse().ok()).unwrap_or(24);
    let (mut recycled, mut compacted) = (0, 0);
    for seed in 0..runs {
        let mut rng = Rng(seed);
        let (disk, _, d) = sim_drive(&options());
        let mut w = World {
            d,
            m: Model::default(),
            next: 1,
            late: Vec::new(),
            past: Vec::new(),
            readers: Vec::new(),
            writers: Vec::new(),
        };
        // The state at positions of the log at which everything requested was durable.
        let mut known: BTreeMap<usize, Model> = BTreeMap::new();
        for i in 0..600 {
            w.step(&mut rng);
            if i % 60 == 59 {
                w.d.pump();
                run(&w.d, w.d.flush()).unwrap();
                sound(&w.d, &w.m, &format!("seed {seed} step {i}"));
                known.insert(disk.position(), w.m.clone());
            }
        }
        let s = w.d.stats();
        (recycled, compacted) = (recycled + s.recycled, compacted + s.compacted);
        let mut crash = Crash::new(&disk);
        for (at, m) in &known {
            crash.advance(*at);
            let what = format!("seed {seed} position {at}");
            let image = crash.image(|| rng.next());
            let d = reopen(&image, false);
            sound(&d, m, &what);
            d.tidy().unwrap();
            sound(&d, m, &format!("{what}, tidied"));
            drop(d);
            let d = reopen(&image, true);
            sound(&d, m, &format!("{what}, without its index"));
            // It continues to work, and old operations do not interfere.
            let mut m = m.clone();
            for id in 1_000_000..1_000_012 {
                write_large(&d, 1, id, &content(id), 4096).unwrap();
                m.alive.insert(id);
            }
            for id in std::mem::take(&mut m.going) {
                d.discard(GROUP, u32::MAX, &[(write_id(id), 3)]);
            }
            run(&d, d.flush()).unwrap();
            d.tidy().unwrap();
            sound(&d, &m, &format!("{what}, gone on"));
        }
    }
    assert!(recycled > 5 * runs && compacted > 1000 * runs, "{recycled} used again, {compacted} bytes moved");
}

/// Compaction moves the record of a shard that only the index files contain. The shard is still counted once.
#[test]
fn bytes_in_use_are_counted_once_when_records_move() {
    let mut o = options();
    o.segment_bytes = 1 << 20;
    let (disk, folder, d) = sim_drive(&o);
    for id in 0..20 {
        write_large(&d, id, id, &content(id), 4096).unwrap();
    }
    run(&d, d.flush()).unwrap();
    d.tidy().unwrap();
    let live = d.stats().extent_live;
    for round in 0..12u64 {
        // Garbage, so that the segments with the records of the shards are compacted.
        for n in 0..60 {
            let id = 1000 + round * 60 + n;
            one(&d, |d, c| d.stage(stage_of(n, id, &Rng(id).bytes(3000)), c));
        }
        let gone: Vec<_> = (0..60).map(|n| (write_id(1000 + round * 60 + n), 3)).collect();
        run(&d, d.flush()).unwrap();
        d.discard(GROUP, u32::MAX, &gone);
        run(&d, d.flush()).unwrap();
        d.tidy().unwrap();
    }
    let s = d.stats();
    assert!(s.compacted > 1000, "{s:?}");
    assert_eq!((s.extent_live, s.miscounts, d.audit().unwrap()), (live, 0, vec![]), "{s:?}");
    drop(d);
    for without_index in [false, true] {
        if without_index {
            disk.dump().keys().filter(|n| n.starts_with("index/")).for_each(|n| disk.put(n, None));
        }
        let d = Drive::open_folder(&folder, &o, false).unwrap();
        d.tidy().unwrap();
        assert_eq!((d.stats().extent_live, d.audit().unwrap()), (live, vec![]));
    }
}
