//! Random operations, a crash at any point, recovery: everything acknowledged exists, and nothing exists in
//! part (docs/proof.md T3, I11).
//!
//! The drive runs over a simulated disk that logs every write and flush. The model records, for every
//! position of the log, the possible states of each register and shard. Images are made from the log in which
//! unflushed sectors are lost, kept and reordered arbitrarily; each is recovered and compared.

use crate::common::*;
use ashlar_commit::bucket_fence::Deletion;
use ashlar_drive::{Completion, Drive, DriveKind, Probe, Role, State, Tally, probe_folder};
use ashlar_machine::{Crash, Folder, SimDisk};
use bytes::Bytes;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The values of an item, with the log positions at which each was requested and acknowledged.
#[derive(Default)]
struct Past {
    /// (value, requested at, acknowledged at).
    values: Vec<(Option<u64>, usize, usize)>,
}

const NEVER: usize = usize::MAX;

impl Past {
    /// Whether the item may be `value` after a crash at `at`.
    fn allows(&self, value: Option<u64>, at: usize) -> bool {
        let last_acked = self.values.iter().rposition(|(_, _, acked)| *acked <= at);
        match last_acked {
            None => value.is_none() || self.values.iter().any(|(v, asked, _)| *v == value && *asked <= at),
            Some(i) => self.values[i..].iter().any(|(v, asked, _)| *v == value && *asked <= at),
        }
    }
}

struct History {
    disk: SimDisk,
    registers: BTreeMap<u64, Past>,
    shards: BTreeMap<u64, (Past, usize)>,
    /// Deletions that have fenced a bucket.
    fences: BTreeMap<u8, Past>,
    /// Records by value.
    records: BTreeMap<u64, Vec<u8>>,
    /// Number of extent segments that were reused.
    recycled: u64,
    /// The drive is on a block device.
    device: bool,
}

fn content(id: u64, len: usize) -> Vec<u8> {
    if id.is_multiple_of(5) {
        // Runs of zeros: sectors that are zero by content must not look torn.
        let mut v = vec![0; len];
        v[len / 2] = id as u8 | 1;
        return v;
    }
    Rng(id).bytes(len)
}

/// Runs random operations and records when each is acknowledged.
fn live(seed: u64, steps: u64, large: bool, device: bool) -> History {
    let mut rng = Rng(seed);
    let mut o = small_options();
    o.cache_bytes = 16 << 10;
    // Every third drive with large shards is a hard disk.
    o.kind = if seed % 6 == 5 { DriveKind::Hdd } else { DriveKind::Ssd };
    // Small, so that segments fill up, become empty and are reused.
    o.segment_bytes = if large { 32 << 10 } else { o.segment_bytes };
    let (disk, _, drive) = sim_drive_on(device, &o);
    let mut h = History {
        device,
        disk: disk.clone(),
        registers: BTreeMap::new(),
        shards: BTreeMap::new(),
        fences: BTreeMap::new(),
        records: BTreeMap::new(),
        recycled: 0,
    };
    let mut counter = 1;
    let mut next_id = 1;
    #[allow(clippy::type_complexity)] // used here only
    let mut waiting: Vec<(Arc<Tally>, Vec<(bool, u64, usize)>)> = Vec::new();
    let mut discarding: Vec<(bool, u64, usize)> = Vec::new();
    for _ in 0..steps {
        let now = disk.position();
        match rng.below(100) {
            0..55 => {
                counter += 1 + rng.below(3);
                let k = rng.below(12);
                let record = Rng(counter).bytes(20 + rng.below(900) as usize);
                let mut a = accept_of(k, ballot(counter), &record);
                h.records.insert(counter, record);
                let mut named = vec![];
                if rng.below(3) == 0 {
                    let len = 1 + rng.below(3000) as usize;
                    a.inline = Some(inline(next_id, &content(next_id, len)));
                    let past = Past { values: vec![(Some(1), now, NEVER)] };
                    h.shards.insert(next_id, (past, len));
                    named.push((true, next_id, 0));
                    next_id += 1;
                }
                let values = &mut h.registers.entry(k).or_default().values;
                values.push((Some(counter), now, NEVER));
                named.push((false, k, values.len() - 1));
                let t = Tally::new(1);
                drive.accept(a, t.completion(0));
                waiting.push((t, named));
            }
            55..70 => {
                let len = 1 + rng.below(6000) as usize;
                let t = Tally::new(1);
                let s = stage_of(rng.below(12), next_id, &content(next_id, len));
                drive.stage(s, t.completion(0));
                h.shards.insert(next_id, (Past { values: vec![(Some(1), now, NEVER)] }, len));
                waiting.push((t, vec![(true, next_id, 0)]));
                next_id += 1;
            }
            70..76 if large => {
                let len = 1 + rng.below(20_000) as usize;
                let past = Past { values: vec![(Some(1), now, NEVER)] };
                h.shards.insert(next_id, (past, len));
                write_large(&drive, 1, next_id, &content(next_id, len), 4096).unwrap();
                if let Some((past, _)) = h.shards.get_mut(&next_id) {
                    past.values[0].2 = disk.position();
                }
                next_id += 1;
            }
            76..90 => {
                // Discards an old shard.
                let id = 1 + rng.below(next_id);
                if let Some((past, _)) = h.shards.get_mut(&id)
                    && past.values.len() == 1
                    && past.values[0].2 != NEVER
                {
                    drive.discard(GROUP, u32::MAX, &[(write_id(id), 3)]);
                    past.values.push((None, now, NEVER));
                    discarding.push((true, id, 1));
                }
            }
            90..93 => {
                let k = rng.below(12);
                if let Some(past) = h.registers.get_mut(&k)
                    && let Some((Some(b), _, acked)) = past.values.last().copied()
                    && acked != NEVER
                {
                    drive.purge(&key(k), ballot(b), u32::MAX);
                    past.values.push((None, now, NEVER));
                    discarding.push((false, k, past.values.len() - 1));
                }
            }
            93 => drive.hint(&key(rng.below(12)), ballot(counter), u32::MAX),
            94 => {
                let n = rng.below(4) as u8;
                let values = &mut h.fences.entry(n).or_default().values;
                let last = Deletion(values.len() as u64);
                if rng.below(3) == 0 {
                    run(&drive, drive.lift_fence(bucket(n), last)).unwrap();
                    values.push((None, now, disk.position()));
                } else {
                    let by = Deletion(last.0 + 1);
                    run(&drive, drive.fence_bucket(GROUP, bucket(n), by, 0)).unwrap();
                    values.push((Some(by.0), now, disk.position()));
                }
            }
            95 => drive.tidy().unwrap(),
            96..98 => drive.upkeep().unwrap(),
            _ => drive.tick(),
        }
        if rng.below(3) == 0 {
            drive.pump();
        }
        let at = disk.position();
        waiting.retain(|(t, named)| {
            let o = t.outcome();
            assert_eq!(o.failed, 0, "{:?}", t.error());
            if o.ok | o.refused == 0 {
                return true;
            }
            for (shard, id, i) in named {
                let values = if *shard {
                    &mut h.shards.get_mut(id).unwrap().0.values
                } else {
                    &mut h.registers.get_mut(id).unwrap().values
                };
                // Refused: it never happened, because of a purge horizon or a later ballot.
                values[*i].2 = if o.ok == 1 { at } else { NEVER };
                if o.refused == 1 {
                    values[*i].1 = NEVER;
                }
            }
            false
        });
        if rng.below(20) == 0 {
            drive.pump();
            run(&drive, drive.flush()).unwrap();
            // A flush does not journal what waits for a lookup.
            discarding.clear();
        }
    }
    drive.pump();
    h.recycled = drive.stats().recycled;
    h
}

fn check(h: &History, image: &SimDisk, at: usize, full: bool, what: &str) {
    let mut o = small_options();
    o.cache_bytes = 16 << 10;
    let folder = root_of(image, h.device, &o);
    let d = Drive::open_folder(&folder, &o, false).unwrap_or_else(|e| panic!("{what}: {e}"));
    assert_eq!(d.state(), State::Online, "{what}");
    assert_eq!(d.damage(), [""; 0], "{what}");
    assert_eq!(role(&d), Role::Voter, "{what}");
    compare(h, &d, at, what);
    if full {
        // It continues to work, and a second restart sees the same.
        let t = Tally::new(1);
        let after = accept_of(500, ashlar_format::Ballot { counter: 1 << 50, ..ballot(0) }, b"after");
        d.accept(after, t.completion(0));
        d.pump();
        assert_eq!(t.outcome().ok, 1, "{what}: {:?}", t.error());
        d.tidy().unwrap();
        compare(h, &d, at, what);
        drop(d);
        let d = Drive::open_folder(&folder, &o, false).unwrap();
        assert_eq!(d.damage(), [""; 0], "{what}");
        compare(h, &d, at, what);
        assert_eq!(read_now(&d, 500), Some(b"after".to_vec()), "{what}");
        drop(d);
        // The same holds for a rebuilt index.
        let index = folder.sub("index");
        index.list().unwrap().iter().for_each(|name| index.remove(name).unwrap());
        let d = Drive::open_folder(&folder, &o, false).unwrap();
        assert_eq!(d.damage(), [""; 0], "{what}");
        compare(h, &d, at, what);
    }
}

fn read_now(d: &Drive, k: u64) -> Option<Vec<u8>> {
    run(d, d.read(&key(k), true, u32::MAX)).unwrap().accepted.map(|s| s.record.unwrap().to_vec())
}

fn compare(h: &History, d: &Drive, at: usize, what: &str) {
    assert_eq!((d.audit().unwrap(), d.stats().miscounts), (vec![], 0), "{what}");
    for (k, past) in &h.registers {
        let r = run(d, d.read(&key(*k), true, u32::MAX)).unwrap_or_else(|e| panic!("{what}: {k}: {e}"));
        let value = r.accepted.as_ref().map(|s| s.ballot.counter);
        assert!(past.allows(value, at), "{what}: register {k} is {value:?}, {:?}", past.values);
        if let Some(s) = r.accepted {
            assert_eq!(s.record.unwrap(), h.records[&s.ballot.counter], "{what}: register {k}");
        }
    }
    for (n, past) in &h.fences {
        let value = Some(fence_of(d, *n)).filter(|d| *d > 0);
        assert!(past.allows(value, at), "{what}: fence of {n} is {value:?}, {:?}", past.values);
    }
    for (id, (past, len)) in &h.shards {
        match run(d, d.open_shard(write_id(*id), 3)) {
            Err(ashlar_drive::Error::Missing) => {
                assert!(past.allows(None, at), "{what}: shard {id} is gone, {:?}", past.values);
            }
            Err(e) => panic!("{what}: shard {id}: {e}"),
            Ok(r) => {
                assert!(past.allows(Some(1), at), "{what}: shard {id}, {:?}", past.values);
                let mut got = Vec::new();
                for n in 0..r.frames() {
                    let f = run(d, r.read(n, ashlar_drive::Check::Drive));
                    got.extend_from_slice(&f.unwrap_or_else(|e| panic!("{what}: shard {id}: {e}")));
                }
                assert!(got == content(*id, *len), "{what}: shard {id} has other bytes");
            }
        }
    }
}

/// Returns how many extent segments were reused.
fn campaign(seed: u64, steps: u64, images: u64, full_every: u64, large: bool, device: bool) -> u64 {
    let h = live(seed, steps, large, device);
    let mut crash = Crash::new(&h.disk);
    let end = h.disk.position();
    let mut rng = Rng(seed ^ 0xdead);
    // Positions in ascending order, so that the log is read once.
    let mut positions: Vec<usize> = (0..images).map(|_| rng.below(end as u64 + 1) as usize).collect();
    positions.sort_unstable();
    // The format itself is not interrupted here: a drive whose format did not finish is blank.
    let formatted = first_open(&h);
    for (i, at) in positions.into_iter().enumerate() {
        let at = at.max(formatted);
        crash.advance(at);
        let image = crash.image(|| rng.next());
        let what = format!("seed {seed} image {i} position {at} of {end}");
        check(&h, &image, at, (i as u64).is_multiple_of(full_every), &what);
    }
    h.recycled
}

/// The first position of the log at which the label is durable.
fn first_open(h: &History) -> usize {
    let mut crash = Crash::new(&h.disk);
    for at in 0..h.disk.position() {
        crash.advance(at);
        let image = crash.image(|| 0);
        let there = || h.device && !image.dump().is_empty();
        let formatted = image.dump().contains_key("label")
            || there() && matches!(probe_folder(&root_of(&image, true, &small_options())), Probe::Ours(_));
        if formatted {
            return at;
        }
    }
    panic!("never formatted")
}

/// `ASHLAR_CRASH_IMAGES` sets the number for a longer run, `ASHLAR_SEED` selects one seed.
fn campaigns(default: u64, each: u64, device: bool) {
    let images: u64 =
        std::env::var("ASHLAR_CRASH_IMAGES").ok().and_then(|s| s.parse().ok()).unwrap_or(default);
    let seed: Option<u64> = std::env::var("ASHLAR_SEED").ok().and_then(|s| s.parse().ok());
    let seeds: Vec<u64> = seed.map_or((0..images.div_ceil(each)).collect(), |s| vec![s]);
    let next = std::sync::atomic::AtomicUsize::new(0);
    let recycled = std::sync::atomic::AtomicU64::new(0);
    std::thread::scope(|s| {
        for _ in 0..std::thread::available_parallelism().map_or(2, |n| n.get().min(8)) {
            s.spawn(|| {
                loop {
                    let i = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    let Some(seed) = seeds.get(i) else { break };
                    let n = campaign(*seed, 150, each, 50, seed % 2 == 1, device);
                    recycled.fetch_add(n, std::sync::atomic::Ordering::Relaxed);
                }
            });
        }
    });
    let recycled = recycled.into_inner();
    assert!(
        recycled > seeds.len() as u64 / 4 || seeds.len() < 10,
        "only {recycled} segments were used again"
    );
}

#[test]
fn every_acknowledged_operation_survives_a_crash() {
    campaigns(100_000, 2000, false);
}

/// The same without a file system below.
#[test]
fn every_acknowledged_operation_survives_a_crash_on_a_block_device() {
    campaigns(9000, 1000, true);
}

#[test]
fn interrupted_format_is_blank() {
    let disk = SimDisk::new(64 << 20);
    let folder = Folder::simulated(&disk, None);
    ashlar_drive::format_folder(&folder, &label(1), VOTER, 64 << 10).unwrap();
    let mut crash = Crash::new(&disk);
    let mut rng = Rng(5);
    let (mut blank, mut whole) = (0, 0);
    for at in 0..=disk.position() {
        crash.advance(at);
        for _ in 0..20 {
            let image = crash.image(|| rng.next());
            let f = Folder::simulated(&image, None);
            match ashlar_drive::probe_folder(&f) {
                ashlar_drive::Probe::Blank => {
                    blank += 1;
                    ashlar_drive::format_folder(&f, &label(2), VOTER, 64 << 10).unwrap();
                }
                ashlar_drive::Probe::Ours(_) => whole += 1,
                p => panic!("{at}: {p:?}"),
            }
            let d = Drive::open_folder(&f, &small_options(), false).unwrap();
            assert_eq!((role(&d), d.stats().journal_damage), (Role::Voter, 0));
            d.stage(stage_of(1, 1, b"x"), Completion::ignored());
            d.pump();
            assert_eq!(read_shard(&d, 1).unwrap(), Bytes::from_static(b"x"));
        }
    }
    assert!(blank > 20 && whole > 20, "{blank} {whole}");
}
