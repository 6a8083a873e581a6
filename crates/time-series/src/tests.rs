//! Random points against a plain list of them; restarts, power cuts and damage.

use ashlar_machine::{Crash, Folder, SimDisk};

use crate::point::{Kind, Point};
use crate::{Change, Files, History, JUMP_S, RESOLUTIONS};

const KINDS: &[Kind] = &[Kind::Sum, Kind::Gauge, Kind::Sum];

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
}

fn point(at_s: i64, values: [u64; 3]) -> Point {
    Point { at_s, covered_s: 10, values: values.to_vec() }
}

/// What the list says about one step.
fn expected(list: &[Point], from_s: i64, to_s: i64) -> Option<(u64, u64, u64)> {
    let after = |time: i64| list.partition_point(|p| p.at_s <= time);
    let within = &list[after(from_s)..after(to_s)];
    let last = within.last()?;
    Some((within.iter().map(|p| p.values[0]).sum(), last.values[1], within.iter().map(|p| p.covered_s).sum()))
}

/// All steps of a range are what the list says.
fn agree(history: &History, list: &[Point], from_s: i64, step_s: i64, count: usize) {
    let steps = history.steps(from_s, step_s, count);
    assert_eq!((steps.from_s, steps.points.len()), (from_s, count));
    for (i, step) in steps.points.iter().enumerate() {
        let begin = from_s + step_s * i as i64;
        let want = expected(list, begin, begin + step_s);
        let got = step.as_ref().map(|p| (p.values[0], p.values[1], p.covered_s));
        assert_eq!(got, want, "step {i} of {step_s} s from {from_s}");
    }
}

/// The last days in steps of every resolution that goes back so far.
fn agree_everywhere(history: &History, list: &[Point]) {
    let Some(last) = list.last() else { return };
    for resolution in RESOLUTIONS {
        for step_s in [resolution.step_s, 4 * resolution.step_s] {
            let end = last.at_s.div_euclid(900) * 900 + 900;
            let count = (resolution.keep_s - 900) / step_s;
            let from_s = (end - count * step_s).div_euclid(900) * 900;
            agree(history, list, from_s, step_s, usize::try_from((end - from_s) / step_s).unwrap());
        }
    }
}

fn folder(disk: &SimDisk) -> Folder {
    Folder::simulated(disk, None)
}

fn disk() -> SimDisk {
    SimDisk::new(1 << 30)
}

#[test]
fn steps_are_the_sums_of_their_points_in_every_resolution() {
    for seed in 0..20 {
        let mut random = Random(seed);
        let mut history = History::new(KINDS);
        let (mut list, mut at_s) = (Vec::new(), 1_764_000_000 + random.below(100) as i64 * 10);
        while list.len() < 6000 {
            // Mostly the next step; now and then the server was off, for up to three days.
            at_s += 10
                * match random.below(400) {
                    0 => 1 + random.below(26_000) as i64,
                    1..9 => 1 + random.below(20) as i64,
                    _ => 1,
                };
            let p = point(at_s, [random.below(5), random.next() >> random.below(64), 0]);
            assert!(history.push(&p).is_some());
            list.push(p);
        }
        agree_everywhere(&history, &list);
    }
}

#[test]
fn old_points_are_dropped_and_the_size_is_bounded() {
    let mut history = History::new(KINDS);
    let mut files = std::collections::BTreeSet::new();
    let start = 1_764_000_000;
    // Every minute one point, for 500 days.
    for i in 1..=500 * 1440i64 {
        for change in history.push(&point(start + i * 60, [1, 1 << 40, 1 << 20])).unwrap() {
            match change {
                Change::Append { step_s, start_s, at, .. } => {
                    assert_eq!(files.insert((step_s, start_s)), at == 0);
                }
                Change::Remove { step_s, start_s } => assert!(files.remove(&(step_s, start_s))),
                Change::Replace { .. } => panic!("nothing is written again"),
            }
        }
    }
    let whole = history.whole();
    assert_eq!(whole.len(), files.len());
    assert!(files.len() <= 9 + 15 + 21, "{} files", files.len());
    let bytes: usize =
        whole.iter().map(|c| if let Change::Replace { bytes, .. } = c { bytes.len() } else { 0 }).sum();
    assert!(bytes < 3 << 20, "{bytes} bytes");
    let end = start + 500 * 86_400;
    let from = (end - 399 * 86_400) / 900 * 900;
    let steps = history.steps(from, 86_400, 399);
    assert!(steps.points.iter().all(|p| p.as_ref().is_some_and(|p| p.values[0] == 1440)));
    assert!(history.first_s().unwrap() > start + 75 * 86_400, "nothing is kept for ever");
}

#[test]
fn restarts_change_nothing() {
    for seed in 0..10 {
        let mut random = Random(seed);
        let home = disk();
        let mut loaded = Files::load(folder(&home), KINDS).unwrap();
        let (mut list, mut at_s) = (Vec::new(), 1_764_000_000);
        for _ in 0..2500 {
            at_s += 10 * if random.below(100) == 0 { 1 + random.below(500) as i64 } else { 1 };
            let p = point(at_s, [random.below(9), random.next(), 3]);
            let changes = loaded.history.push(&p).unwrap();
            loaded.files.apply(&changes).unwrap();
            list.push(p);
            if random.below(150) == 0 {
                loaded = Files::load(folder(&home), KINDS).unwrap();
                assert_eq!(loaded.problems, Vec::<String>::new());
            }
        }
        agree_everywhere(&loaded.history, &list);
    }
}

#[test]
fn power_cut_loses_only_what_was_not_flushed() {
    for seed in 0..30 {
        let mut random = Random(seed);
        let home = disk();
        let mut loaded = Files::load(folder(&home), KINDS).unwrap();
        let (mut list, mut pending) = (Vec::new(), Vec::new());
        // How far the disk's log went, and how many points were flushed then.
        let mut flushed = vec![(home.position(), 0)];
        for i in 1..=400 {
            // Across the beginning of a segment.
            let p = point(1_764_007_200 + i * 10, [random.below(9), i as u64, 0]);
            pending.extend(loaded.history.push(&p).unwrap());
            list.push(p);
            if i % 6 == 0 {
                loaded.files.apply(&pending).unwrap();
                pending.clear();
                flushed.push((home.position(), list.len()));
            }
        }
        let mut crash = Crash::new(&home);
        let mut cuts: Vec<usize> = (0..12).map(|_| random.below(home.position() as u64) as usize).collect();
        cuts.sort_unstable();
        for cut in cuts {
            crash.advance(cut);
            let image = crash.image(|| random.next());
            image.resume();
            let mut again = Files::load(folder(&image), KINDS).unwrap();
            assert_eq!(again.problems, Vec::<String>::new());
            let safe = flushed.iter().rfind(|(position, _)| *position <= cut).unwrap().1;
            let end = again.history.last_s().unwrap_or(1_764_007_200);
            let mut kept: Vec<Point> = list.iter().filter(|p| p.at_s <= end).cloned().collect();
            assert!(kept.len() >= safe, "seed {seed}, cut {cut}: {} of {safe} points", kept.len());
            agree(&again.history, &kept, 1_764_007_200, 10, 400);
            agree(&again.history, &kept, 1_764_007_200, 60, 70);
            // It goes on, also after another restart.
            let p = point(end + 10, [1, 2, 3]);
            let changes = again.history.push(&p).unwrap();
            again.files.apply(&changes).unwrap();
            kept.push(p);
            let again = Files::load(folder(&image), KINDS).unwrap();
            agree(&again.history, &kept, 1_764_007_200, 10, 410);
        }
    }
}

#[test]
fn damaged_files_are_set_aside_and_others_are_read() {
    let home = disk();
    let mut loaded = Files::load(folder(&home), KINDS).unwrap();
    // Two segments of the finest ring.
    for i in 1..=2000 {
        let changes = loaded.history.push(&point(1_764_000_000 + i * 10, [1, 1, 1])).unwrap();
        loaded.files.apply(&changes).unwrap();
    }
    let names: Vec<String> = folder(&home).list().unwrap();
    let finest: Vec<&String> = names.iter().filter(|n| n.starts_with("10-")).collect();
    // In the middle: what is before it stays.
    home.flip(finest[1], home.dump()[finest[1]].len() as u64 / 2, 3);
    home.put(finest[0], Some(b"something else entirely".to_vec()));
    home.put("notes.txt", Some(b"of a person".to_vec()));
    let again = Files::load(folder(&home), KINDS).unwrap();
    assert_eq!(again.problems.len(), 2, "{:?}", again.problems);
    assert!(again.problems.iter().all(|p| p.contains(".damaged")), "{:?}", again.problems);
    for name in &finest[..2] {
        assert!(home.dump().contains_key(&format!("{name}.damaged")));
    }
    let kept = again.history.steps(1_764_000_000, 10, 2000).points.iter().flatten().count();
    assert!(kept > 300 && kept < 1500, "{kept} points");
    // The coarser rings have all of it.
    let from = 1_764_000_000 - 13 * 86_400;
    let minutes = again.history.steps(from, 60, 13 * 1440 + 400);
    assert_eq!(minutes.points.iter().flatten().map(|p| p.values[0]).sum::<u64>(), 2000);
    // Once: the next start has nothing to say.
    assert_eq!(Files::load(folder(&home), KINDS).unwrap().problems, Vec::<String>::new());
}

#[test]
fn file_of_a_newer_release_stays() {
    let home = disk();
    let mut loaded = Files::load(folder(&home), KINDS).unwrap();
    let changes = loaded.history.push(&point(1_764_000_010, [1, 1, 1])).unwrap();
    loaded.files.apply(&changes).unwrap();
    let name = folder(&home).list().unwrap().remove(0);
    let mut bytes = home.dump()[&name].clone();
    bytes[8] = 2;
    home.put(&name, Some(bytes.clone()));
    let refused = Files::load(folder(&home), KINDS).map(drop).unwrap_err();
    assert!(refused.to_string().contains("newer release"), "{refused}");
    assert_eq!(home.dump()[&name], bytes);
}

#[test]
fn clock_that_goes_back_a_little_is_waited_for_and_far_ahead_is_forgotten() {
    let home = disk();
    let mut loaded = Files::load(folder(&home), KINDS).unwrap();
    let push = |loaded: &mut crate::Loaded, at_s| {
        let changes = loaded.history.push(&point(at_s, [1, 1, 1]));
        if let Some(changes) = &changes {
            loaded.files.apply(changes).unwrap();
        }
        changes.is_some()
    };
    let start = 1_764_000_000;
    for i in 1..=300 {
        assert!(push(&mut loaded, start + i * 10));
    }
    assert!(!push(&mut loaded, start + 3000));
    assert!(!push(&mut loaded, start + 3000 - JUMP_S + 10));
    // A year ahead for a while, then right again.
    for i in 1..=100 {
        assert!(push(&mut loaded, start + 365 * 86_400 + i * 10));
    }
    assert!(push(&mut loaded, start + 3010));
    let check = |history: &History| {
        assert_eq!(history.last_s(), Some(start + 3010));
        let ahead = history.steps(start + 364 * 86_400, 900, 200);
        assert_eq!(ahead.points.iter().flatten().count(), 0);
        assert!(history.steps(start, 10, 301).points[300].is_some());
    };
    check(&loaded.history);
    check(&Files::load(folder(&home), KINDS).unwrap().history);
}

#[test]
fn points_of_older_and_newer_releases_have_other_numbers_of_values() {
    let mut history = History::new(KINDS);
    history.push(&Point { at_s: 1_764_000_010, covered_s: 10, values: vec![7] });
    history.push(&Point { at_s: 1_764_000_020, covered_s: 10, values: vec![1, 2, 3, 4, 5] });
    let steps = history.steps(1_764_000_000, 60, 1);
    assert_eq!(steps.points[0].as_ref().unwrap().values, [8, 2, 3]);
}

/// The bytes of docs/formats.md. They change only with a new format.
#[test]
fn golden_segment() {
    let mut history = History::new(KINDS);
    let changes = history.push(&point(1_764_007_210, [7, 0, 300])).unwrap();
    let Change::Append { step_s: 10, start_s: 1_764_007_200, at: 0, bytes } = &changes[0] else {
        panic!("{changes:?}")
    };
    let hex: String = bytes.iter().map(|b| format!("{b:02x}")).collect();
    let head = "41534854494d4553010000000a000000";
    assert_eq!(hex, format!("{head}0b000000a6f3fab4aaba92c9060a030507ac02"));
}

#[test]
fn records_come_back_and_other_bytes_do_not_panic() {
    let mut random = Random(7);
    for _ in 0..2000 {
        let values = (0..random.below(40)).map(|_| random.next() >> random.below(64)).collect();
        let p = Point { at_s: (random.next() >> 20) as i64, covered_s: random.below(20), values };
        let mut bytes = Vec::new();
        p.encode(&mut bytes);
        assert_eq!(Point::decode(&bytes), Some((p, bytes.len())));
        let at = random.below(bytes.len() as u64) as usize;
        bytes[at] ^= 1 << random.below(8);
        assert_eq!(Point::decode(&bytes), None, "a flipped bit");
    }
    for seed in crate::fuzzed_seeds() {
        for _ in 0..2000 {
            let mut bytes = seed.clone();
            let at = random.below(bytes.len() as u64) as usize;
            bytes[at] = random.next() as u8;
            crate::fuzzed(&bytes);
        }
        crate::fuzzed(&seed);
    }
}
