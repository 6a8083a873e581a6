//! Folders and files on a simulated device, against a model, with losses of power at any write.

use std::collections::BTreeMap;
use std::io::{ErrorKind, IoSlice};
use std::sync::Arc;

use ashlar_environment::random::Seeded;

use super::device::RawDevice;
use super::layout::BLOCK;
use super::store::Store;
use crate::{Crash, Folder, SimDisk};

const SIZE: u64 = 4 << 20;
const SECTOR: usize = 512;
const NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

/// Numbers from a seed.
struct Random(Seeded);

impl Random {
    fn next(&mut self) -> u64 {
        self.0.next()
    }
    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
    fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.next() as u8 | 1).collect()
    }
}

/// What may be on the device after a loss of power.
#[derive(Clone, Default)]
struct Model {
    /// The contents that each file had since it was synced, the last one now.
    files: Vec<Vec<Vec<u8>>>,
    /// The names that there were since names were synced.
    names: Vec<BTreeMap<String, usize>>,
}

impl Model {
    fn new() -> Model {
        Model { files: Vec::new(), names: vec![BTreeMap::new()] }
    }
    fn names(&self) -> &BTreeMap<String, usize> {
        self.names.last().unwrap()
    }
    fn rename(&mut self, change: impl FnOnce(&mut BTreeMap<String, usize>)) {
        let mut next = self.names().clone();
        change(&mut next);
        self.names.push(next);
    }
    fn content(&self, file: usize) -> &Vec<u8> {
        self.files[file].last().unwrap()
    }
    fn edit(&mut self, file: usize, change: impl FnOnce(&mut Vec<u8>)) {
        let mut next = self.content(file).clone();
        change(&mut next);
        self.files[file].push(next);
    }

    /// Why what a folder holds cannot be after a loss of power.
    fn contradiction(&self, folder: &Folder) -> Option<String> {
        let listed = folder.list().unwrap();
        let fits = |names: &BTreeMap<String, usize>| {
            if !listed.iter().eq(names.keys()) {
                return Err(format!("{listed:?} for {:?}", names.keys()));
            }
            names.iter().try_for_each(|(name, file)| self.file_fits(folder, name, *file))
        };
        let why: Vec<String> = self.names.iter().map(fits).filter_map(Result::err).collect();
        (why.len() == self.names.len()).then(|| why.join("\n"))
    }

    fn file_fits(&self, folder: &Folder, name: &str, file: usize) -> Result<(), String> {
        let found = folder.read(name, SIZE).map_err(|e| format!("{name}: {e}"))?;
        let versions = &self.files[file];
        if !versions.iter().any(|v| v.len() == found.len()) {
            return Err(format!("{name} has {} bytes", found.len()));
        }
        for (n, sector) in found.chunks(SECTOR).enumerate() {
            let is = |v: &Vec<u8>| {
                let from = (n * SECTOR).min(v.len());
                let have = &v[from..(from + sector.len()).min(v.len())];
                sector.starts_with(have) && sector[have.len()..].iter().all(|b| *b == 0)
            };
            if !versions.iter().any(is) {
                return Err(format!("{name}, file {file}: sector {n} has something that was never there"));
            }
        }
        Ok(())
    }
}

/// A change of a random kind, in the model and in the folder. True: what must be durable then is in `then`.
fn act(folder: &Folder, model: &mut Model, random: &mut Random) -> Option<Model> {
    let name = NAMES[random.below(NAMES.len() as u64) as usize];
    let file = model.names().get(name).copied();
    let Some(file) = file else {
        let number = model.files.len();
        model.rename(|n| {
            n.insert(name.to_owned(), number);
        });
        model.files.push(vec![Vec::new()]);
        folder.create(name, true).unwrap();
        return None;
    };
    let open = || folder.open(name, true).unwrap();
    let aligned = random.below(2) == 0;
    let unit = if aligned { BLOCK } else { 1 };
    let (at, len) =
        (random.below(40 * BLOCK) / unit * unit, ((1 + random.below(9 * BLOCK)) / unit * unit).max(unit));
    match random.below(12) {
        0..=3 => {
            let bytes = random.bytes(len as usize);
            model.edit(file, |c| {
                let end = (at + len) as usize;
                c.resize(c.len().max(end), 0);
                c[at as usize..end].copy_from_slice(&bytes);
            });
            let cut = random.below(len + 1) as usize;
            let mut slices = [IoSlice::new(&bytes[..cut]), IoSlice::new(&bytes[cut..])];
            open().write_slices_at(&mut slices, at).unwrap();
        }
        4 => {
            model.edit(file, |c| c.resize(c.len().max((at + len) as usize), 0));
            open().allocate(at + len).unwrap();
        }
        5 => {
            model.edit(file, |c| c.resize(at as usize, 0));
            open().set_len(at).unwrap();
        }
        6 => {
            model.edit(file, |c| {
                let end = c.len().min((at + len) as usize);
                c.get_mut(at as usize..end).into_iter().for_each(|s| s.fill(0));
            });
            assert!(open().punch_hole(at, len).unwrap());
        }
        7 => {
            model.rename(|n| {
                n.remove(name);
            });
            folder.remove(name).unwrap();
        }
        8 => {
            let to = NAMES[random.below(NAMES.len() as u64) as usize];
            model.rename(|n| {
                n.remove(name);
                n.insert(to.to_owned(), file);
            });
            folder.rename(name, to).unwrap();
        }
        9 => {
            let mut then = model.clone();
            then.names = vec![model.names().clone()];
            folder.sync().unwrap();
            return Some(then);
        }
        _ => {
            let mut then = model.clone();
            then.files[file] = vec![model.content(file).clone()];
            if aligned { open().sync_data() } else { open().sync_all() }.unwrap();
            return Some(then);
        }
    }
    None
}

fn equal(folder: &Folder, model: &Model) {
    let now = Model {
        files: model.files.iter().map(|f| vec![f.last().unwrap().clone()]).collect(),
        names: vec![model.names().clone()],
    };
    assert_eq!(now.contradiction(folder), None);
}

/// A device that reads as anything between its ends.
fn used_before(disk: &SimDisk, random: &mut Random) {
    let file = disk.create("device").unwrap();
    file.set_len(SIZE).unwrap();
    file.write_at(&random.bytes(2 << 20), 1 << 20).unwrap();
    file.sync().unwrap();
    disk.sync_names("");
}

/// At every write and flush, over two checkpoints.
#[test]
fn power_cuts_at_checkpoints_lose_nothing() {
    let (disk, mut random) = (SimDisk::new(1 << 30), Random(Seeded::new(3)));
    let folder = Folder::simulated_device(&disk, SIZE, None).unwrap();
    let mut synced = Vec::new();
    folder.write_new("0", b"text").unwrap();
    // So that a checkpoint has several sectors.
    let others = folder.sub("others");
    (0..30).for_each(|n| others.write_new(&n.to_string(), b"text").unwrap());
    folder.sync().unwrap();
    synced.push(disk.position());
    for n in 1..140 {
        folder.rename(&(n - 1).to_string(), &n.to_string()).unwrap();
        folder.sync().unwrap();
        synced.push(disk.position());
    }
    let mut crash = Crash::new(&disk);
    for cut in synced[0]..=synced[139] {
        crash.advance(cut);
        let last = synced.partition_point(|at| *at <= cut) - 1;
        for _ in 0..10 {
            let image = Folder::simulated_device(&crash.image(|| random.next()), SIZE, None).unwrap();
            let [name, other] = &image.list().unwrap()[..] else { panic!("one file, and the others") };
            assert!(other == "others" && image.sub(other).list().unwrap().len() == 30);
            let number: usize = name.parse().unwrap();
            assert!(number == last || number == last + 1, "{number} at {cut}, after {last}");
            assert_eq!(image.read(name, 10).unwrap(), b"text");
        }
    }
}

#[test]
fn power_cuts_leave_what_was_synced() {
    for seed in 0..160 {
        let mut random = Random(Seeded::new(seed));
        let mut disk = SimDisk::new(1 << 30);
        let mut model = Model::new();
        used_before(&disk, &mut random);
        // A device that lost power goes back into service, several times.
        for _ in 0..3 {
            let folder = Folder::simulated_device(&disk, SIZE, None).unwrap();
            // Some are long enough for several checkpoints.
            let steps = 1 + random.below(if seed % 8 == 0 { 400 } else { 50 });
            let mut cut = disk.position();
            let mut during = model.clone();
            for step in 0..steps {
                let before = disk.position();
                let then = act(&folder, &mut model, &mut random);
                during = model.clone();
                if let Some(then) = then {
                    model = then;
                }
                if step + 1 == steps {
                    let after = disk.position();
                    cut = before + random.below((after - before) as u64 + 1) as usize;
                    if cut == after {
                        during = model.clone();
                    }
                }
            }
            equal(&folder, &model);
            drop(folder);
            let mut crash = Crash::new(&disk);
            crash.advance(cut);
            for _ in 0..3 {
                let image = crash.image(|| random.next());
                let folder = Folder::simulated_device(&image, SIZE, None).unwrap();
                assert_eq!(during.contradiction(&folder), None, "seed {seed}");
            }
            disk = crash.image(|| random.next());
            disk.resume();
            let folder = Folder::simulated_device(&disk, SIZE, None).unwrap();
            assert_eq!(during.contradiction(&folder), None, "seed {seed}");
            // What is there now is what there was.
            let names = folder.list().unwrap();
            let files: Vec<Vec<Vec<u8>>> =
                names.iter().map(|n| vec![folder.read(n, SIZE).unwrap()]).collect();
            model = Model { files, names: vec![names.into_iter().zip(0..).collect()] };
        }
    }
}

/// Without losses of power, for longer: checkpoints, space that is used again, and what a new start finds.
#[test]
fn many_changes_are_found_again() {
    let mut random = Random(Seeded::new(7));
    let disk = SimDisk::new(1 << 30);
    let mut model = Model::new();
    for _ in 0..8 {
        let folder = Folder::simulated_device(&disk, SIZE, None).unwrap();
        for _ in 0..400 {
            if let Some(then) = act(&folder, &mut model, &mut random) {
                model = then;
            }
        }
        equal(&folder, &model);
        folder.sync().unwrap();
        let free = folder.space().unwrap().free;
        drop(folder);
        let folder = Folder::simulated_device(&disk, SIZE, None).unwrap();
        equal(&folder, &model);
        assert_eq!(folder.space().unwrap().free, free);
    }
    let folder = Folder::simulated_device(&disk, SIZE, None).unwrap();
    for name in folder.list().unwrap() {
        folder.remove(&name).unwrap();
    }
    let space = folder.space().unwrap();
    assert_eq!(space.free, space.total);
}

#[test]
fn open_files_outlive_their_names() {
    let disk = SimDisk::new(1 << 30);
    let folder = Folder::simulated_device(&disk, SIZE, None).unwrap();
    let free = |f: &Folder| f.space().unwrap().free;
    let a = folder.create("a", true).unwrap();
    a.write_at(&[1; 8192], 0).unwrap();
    let whole = free(&folder);
    folder.remove("a").unwrap();
    assert!(!a.linked().unwrap() && free(&folder) == whole);
    // Another file of this name.
    let b = folder.create("a", true).unwrap();
    assert!(b.identity().unwrap() != a.identity().unwrap());
    assert_eq!(folder.identity("a").unwrap(), b.identity().unwrap());
    a.write_at(&[2; 4096], 8192).unwrap();
    let mut bytes = [0; 12288];
    a.read_at(&mut bytes, 0).unwrap();
    assert!(bytes[..8192] == [1; 8192] && bytes[8192..] == [2; 4096]);
    a.sync_data().unwrap();
    drop(a);
    assert_eq!(free(&folder), whole + 8192);
    // One that was open when the power was lost is gone at the next start.
    b.write_at(&[3; 4096], 0).unwrap();
    folder.sync().unwrap();
    folder.remove("a").unwrap();
    folder.sync().unwrap();
    let mut crash = Crash::new(&disk);
    crash.advance(disk.position());
    let image = Folder::simulated_device(&crash.image(|| 0), SIZE, None).unwrap();
    assert!(image.list().unwrap().is_empty());
    let space = image.space().unwrap();
    assert_eq!(space.free, space.total);
}

#[test]
fn full_devices_refuse_and_change_nothing() {
    let disk = SimDisk::new(1 << 30);
    let folder = Folder::simulated_device(&disk, SIZE, None).unwrap();
    let a = folder.create("a", true).unwrap();
    let space = folder.space().unwrap();
    assert_eq!(a.allocate(space.total + 1).unwrap_err().kind(), ErrorKind::StorageFull);
    assert_eq!((a.len().unwrap(), folder.space().unwrap().free), (0, space.total));
    a.allocate(space.total).unwrap();
    folder.sync().unwrap();
    let b = folder.create("b", true).unwrap();
    assert_eq!(b.write_at(&[1; 4096], 0).unwrap_err().kind(), ErrorKind::StorageFull);
    // Space comes back once the removal is durable: the write sees to that.
    drop(a);
    folder.remove("a").unwrap();
    b.write_at(&[1; 4096], 0).unwrap();
    b.sync_all().unwrap();
    // Names below a folder are its own.
    let sub = folder.sub("x");
    sub.make().unwrap();
    assert!(sub.list().unwrap().is_empty());
    sub.write_new("b", b"text").unwrap();
    assert_eq!(
        (folder.list().unwrap(), sub.list().unwrap()),
        (vec!["b".into(), "x".into()], vec!["b".into()])
    );
    folder.remove_folder("x").unwrap();
    assert_eq!(folder.list().unwrap(), ["b"]);
    let held = folder.lock("b").unwrap();
    assert!(held.is_some() && folder.lock("b").unwrap().is_none());
    drop(held);
    assert!(folder.lock("b").unwrap().is_some());
}

/// A punched file is in many pieces; the store gives no more back when a checkpoint would not fit, and goes on.
#[test]
fn pieces_are_limited_by_the_log() {
    let disk = SimDisk::new(1 << 40);
    let folder = Folder::simulated_device(&disk, 256 << 20, None).unwrap();
    let a = folder.create("a", true).unwrap();
    a.allocate(200 << 20).unwrap();
    let mut refused = 0;
    for n in 0..25_000 {
        if !a.punch_hole(n * 2 * BLOCK, BLOCK).unwrap() {
            refused += 1;
        }
    }
    assert!(refused > 0 && refused < 24_000, "{refused}");
    a.sync_all().unwrap();
    a.write_at(&[5; 4096], BLOCK).unwrap();
    a.sync_all().unwrap();
    folder.sync().unwrap();
    let again = Folder::simulated_device(&disk, 256 << 20, None).unwrap();
    let mut bytes = [0; 4096];
    again.open("a", true).unwrap().read_at(&mut bytes, BLOCK).unwrap();
    assert_eq!(bytes, [5; 4096]);
}

/// Fails every flush from the second one on.
struct Failing(crate::sim::SimFile, std::sync::atomic::AtomicU32);

impl RawDevice for Failing {
    fn size(&self) -> u64 {
        RawDevice::size(&self.0)
    }
    fn read(&self, buf: &mut [u8], at: u64) -> std::io::Result<()> {
        self.0.read(buf, at)
    }
    fn write(&self, slices: &mut [IoSlice<'_>], at: u64) -> std::io::Result<()> {
        self.0.write(slices, at)
    }
    fn flush(&self) -> std::io::Result<()> {
        let left = self.1.load(std::sync::atomic::Ordering::Relaxed);
        self.1.store(left.saturating_sub(1), std::sync::atomic::Ordering::Relaxed);
        if left == 0 { Err(ErrorKind::TimedOut.into()) } else { self.0.flush() }
    }
    fn discard(&self, _: u64, _: u64) {}
}

#[test]
fn after_a_failed_flush_nothing_is_promised() {
    let disk = SimDisk::new(1 << 30);
    let file = disk.create("device").unwrap();
    file.set_len(SIZE).unwrap();
    let store = Store::open(Box::new(Failing(file, 4.into()))).unwrap();
    let a = super::RawFile::create(&store, "a").unwrap();
    a.write_at(&[IoSlice::new(&[1; 4096])], 0).unwrap();
    // Two flushes made the store, two this.
    a.sync().unwrap();
    a.write_at(&[IoSlice::new(&[1; 4096])], 4096).unwrap();
    assert!(a.sync().is_err());
    // The device works again, but what became of that change is not known.
    assert!(a.sync().is_err() && store.commit().is_err());
}

#[test]
fn devices_with_something_on_them_are_refused() {
    let open = |bytes: &[(usize, &[u8])], size: u64| {
        let disk = SimDisk::new(1 << 30);
        let file = disk.create("device").unwrap();
        file.set_len(size).unwrap();
        for (at, b) in bytes {
            file.write_at(b, *at as u64).unwrap();
        }
        Store::open(Box::new(file)).map(|s: Arc<Store>| s.list("")).map_err(|e| e.kind())
    };
    assert_eq!(open(&[], SIZE), Ok(vec![]));
    assert_eq!(open(&[(1080, &[0x53, 0xef])], SIZE), Err(ErrorKind::AlreadyExists));
    assert_eq!(open(&[(SIZE as usize - 512, b"EFI PART")], SIZE), Err(ErrorKind::AlreadyExists));
    assert_eq!(open(&[], 1 << 19), Err(ErrorKind::Unsupported));
}

/// Every state that a loss of power in the midst of the first file leaves is a blank device, or a store.
#[test]
fn a_format_that_loses_power_can_be_repeated() {
    let mut random = Random(Seeded::new(1));
    for _ in 0..300 {
        let disk = SimDisk::new(1 << 30);
        let folder = Folder::simulated_device(&disk, SIZE, None).unwrap();
        let before = disk.position();
        folder.write_new("a", b"text").unwrap();
        folder.sync().unwrap();
        let mut crash = Crash::new(&disk);
        crash.advance(before + random.below((disk.position() - before) as u64) as usize);
        let image = crash.image(|| random.next());
        let folder = Folder::simulated_device(&image, SIZE, None).unwrap();
        folder.remove("a").unwrap();
        folder.write_new("a", b"again").unwrap();
        folder.sync().unwrap();
        let folder = Folder::simulated_device(&image, SIZE, None).unwrap();
        assert_eq!(folder.read("a", 10).unwrap(), b"again");
    }
}

/// One copy of the superblock is enough, and a damaged batch ends the log.
#[test]
fn damage_is_survived_or_seen() {
    let disk = SimDisk::new(1 << 30);
    let folder = Folder::simulated_device(&disk, SIZE, None).unwrap();
    folder.write_new("a", b"text").unwrap();
    folder.sync().unwrap();
    disk.flip("device", 3, 1);
    let folder = Folder::simulated_device(&disk, SIZE, None).unwrap();
    assert_eq!(folder.read("a", 10).unwrap(), b"text");
    // The checkpoint of the only log.
    disk.flip("device", BLOCK + 9, 1);
    let refused = Folder::simulated_device(&disk, SIZE, None).map(drop).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidData);
}

/// What the fuzzer begins with.
#[test]
fn samples_of_the_fuzzer_and_their_neighbours_do_no_harm() {
    let mut random = Random(Seeded::new(11));
    for sample in super::fuzzed::samples() {
        super::fuzzed::run(&sample);
        for _ in 0..400 {
            let mut bytes = sample.clone();
            for _ in 0..1 + random.below(3) {
                let at = random.below(bytes.len() as u64) as usize;
                bytes[at] = random.next() as u8;
            }
            super::fuzzed::run(&bytes);
        }
    }
}
