//! The embedded driver of the control store: whatever state a crash or a failing drive leaves, every
//! acknowledged change is still there, and nothing older is ever shown. `conformance.rs` tests the contract
//! of all drivers.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests run in real time")]

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ashlar_cluster::{ControlDriver, Embedded, Error, FileMedium, Medium, MemoryMedium, Update, Watched};
use ashlar_format::{DeploymentId, DriveId};
use ashlar_machine::Folder;
use bytes::Bytes;
use parking_lot::Mutex;

const DEPLOYMENT: DeploymentId = DeploymentId([5; 16]);

fn id(n: u8) -> DriveId {
    DriveId([n; 16])
}

/// When the writes of a drive begin to fail.
#[derive(Default)]
struct Limit {
    /// How many more writes succeed.
    budget: u64,
    /// What the failing write leaves: 0 nothing, 1 a torn slot, 2 the complete slot.
    last: u8,
}

#[derive(Clone, Default)]
struct Fake {
    slots: Arc<MemoryMedium>,
    limit: Arc<Mutex<Limit>>,
    /// Bytes that were to be written.
    written: Arc<AtomicU64>,
}

impl Fake {
    /// Writes as the limit says; a torn write ends after `torn` bytes.
    fn limited(&self, bytes: &[u8], torn: usize, write: impl Fn(&[u8]) -> io::Result<()>) -> io::Result<()> {
        self.written.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        let mut limit = self.limit.lock();
        if limit.budget > 0 {
            limit.budget -= 1;
            return write(bytes);
        }
        match limit.last {
            0 => {}
            1 => write(&bytes[..torn])?,
            _ => write(bytes)?,
        }
        // Only the first failing write reaches the drive.
        limit.last = 0;
        Err(io::ErrorKind::Other.into())
    }

    fn allow(&self, budget: u64, last: u8) {
        *self.limit.lock() = Limit { budget, last };
    }
}

impl Medium for Fake {
    fn read(&self, slot: usize) -> io::Result<Option<Vec<u8>>> {
        self.slots.read(slot)
    }
    fn write(&self, slot: usize, bytes: &[u8]) -> io::Result<()> {
        self.limited(bytes, bytes.len() / 2, |bytes| self.slots.write(slot, bytes))
    }

    fn read_log(&self) -> io::Result<Option<Vec<u8>>> {
        self.slots.read_log()
    }

    fn write_log(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        // Behind its middle, a record is padding.
        let end = bytes.iter().rposition(|b| *b != 0).unwrap_or(0);
        self.limited(bytes, end / 2, |bytes| self.slots.write_log(at, bytes))
    }
}

struct Rng(u64);
impl Rng {
    fn next(&mut self, below: u64) -> u64 {
        // xorshift64*
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) % below
    }
}

fn media(drives: &BTreeMap<u8, Fake>, present: impl Fn(u8) -> bool) -> Vec<(DriveId, Arc<dyn Medium>)> {
    drives
        .iter()
        .filter(|(n, _)| present(**n))
        .map(|(n, f)| (id(*n), Arc::new(f.clone()) as Arc<dyn Medium>))
        .collect()
}

fn value(n: u64) -> Bytes {
    Bytes::from(n.to_string())
}

fn read(c: &Embedded) -> u64 {
    String::from_utf8(c.get("v").unwrap().bytes.to_vec()).unwrap().parse().unwrap()
}

/// Sets "v", whatever was read of it.
fn put(c: &Embedded, n: u64) -> Update {
    let mut update = Update::new();
    update.set(&c.control().read("v"), value(n));
    update
}

fn fresh(n: u8) -> BTreeMap<u8, Fake> {
    let drives: BTreeMap<u8, Fake> = (1..=n).map(|i| (i, Fake::default())).collect();
    for f in drives.values() {
        f.allow(u64::MAX, 0);
    }
    drives
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

/// Never answers.
struct Hung;

impl Medium for Hung {
    fn read(&self, _: usize) -> io::Result<Option<Vec<u8>>> {
        loop {
            std::thread::park();
        }
    }
    fn write(&self, _: usize, _: &[u8]) -> io::Result<()> {
        unreachable!("it was never read")
    }
    fn read_log(&self) -> io::Result<Option<Vec<u8>>> {
        self.read(0).map(|_| None)
    }
    fn write_log(&self, _: u64, _: &[u8]) -> io::Result<()> {
        unreachable!("it was never read")
    }
}

/// The store opens, and accepts changes while a drive that hangs is attached. It waits 20 s for a drive only
/// if the others are too few.
#[test]
fn hung_drive_blocks_neither_start_nor_changes() {
    let drives = fresh(4);
    runtime().block_on(async {
        let entries = vec![("v".to_owned(), value(1))];
        Embedded::create(DEPLOYMENT, media(&drives, |_| true), entries).await.unwrap().close().await;
        let mut some = media(&drives, |n| n != 3);
        some.push((id(3), Arc::new(Hung)));
        let began = std::time::Instant::now();
        let control = Embedded::open(DEPLOYMENT, some).await.unwrap();
        assert!(began.elapsed() < std::time::Duration::from_secs(15), "{:?}", began.elapsed());
        let attaching = tokio::spawn({
            let control = control.clone();
            async move { control.attach(id(3), Arc::new(Hung)).await }
        });
        tokio::task::yield_now().await;
        control.update(put(&control, 2)).await.unwrap();
        assert!(!attaching.is_finished(), "the change did not wait for it");
        attaching.abort();
    });
}

/// Every combination of "drive i stops after b_i writes, its last one lost, torn or complete" during a start
/// and two changes. Then every sufficient subset of drives starts again.
#[test]
fn crash_between_any_two_steps() {
    runtime().block_on(async {
        const N: u8 = 3;
        // A stride that is coprime to 15 covers every value of every digit; ASHLAR_LONG=1 runs all
        // combinations.
        let stride = if std::env::var_os("ASHLAR_LONG").is_some() { 1 } else { 4 };
        for code in (0..15u64.pow(u32::from(N))).step_by(stride) {
            let drives = fresh(N);
            Embedded::create(DEPLOYMENT, media(&drives, |_| true), vec![("v".into(), value(0))])
                .await
                .unwrap()
                .close()
                .await;
            let mut rest = code;
            for f in drives.values() {
                // Start: 2 writes; changes: 2.
                f.allow(rest % 5, (rest / 5 % 3) as u8);
                rest /= 15;
            }
            let mut acked = 0;
            if let Ok(c) = Embedded::open(DEPLOYMENT, media(&drives, |_| true)).await {
                for n in 1..=2 {
                    if c.update(put(&c, n)).await.is_ok() {
                        assert_eq!(read(&c), n);
                        acked = n;
                    }
                }
                c.close().await;
            }
            for f in drives.values() {
                f.allow(u64::MAX, 0);
            }
            // The two drives of the next start, and then the two others: what the first start shows must
            // stay.
            let out = 1 + (code % u64::from(N)) as u8;
            let c = Embedded::open(DEPLOYMENT, media(&drives, |n| n != out)).await.unwrap();
            c.barrier().await.unwrap();
            let seen = read(&c);
            assert!((acked..=2).contains(&seen), "{code}: {acked} was answered, {seen} is there");
            c.close().await;
            let c = Embedded::open(DEPLOYMENT, media(&drives, |n| n != out % N + 1)).await.unwrap();
            assert_eq!(read(&c), seen, "{code}: what was read stays");
        }
    });
}

/// Random schedules: drives come and go, stop in the middle, are erased, are replaced by blank ones.
#[test]
fn random_schedules() {
    let seed: u64 = 0x5eed_0001;
    let mut rng = Rng(seed);
    runtime().block_on(async {
        for life in 0..60 {
            let n = 2 + rng.next(5) as u8;
            let mut drives = fresh(n);
            let first = vec![("v".to_owned(), value(0))];
            let mut members: Vec<u8> = drives.keys().copied().collect();
            Embedded::create(DEPLOYMENT, media(&drives, |_| true), first).await.unwrap().close().await;
            let (mut decided, mut tried, mut next_id) = (0, 0, 100u8);
            for start in 0..12 {
                let at = || format!("seed {seed:#x} life {life} start {start}");
                for f in drives.values() {
                    if rng.next(3) == 0 {
                        f.allow(rng.next(6), rng.next(3) as u8);
                    }
                }
                let here: Vec<u8> = drives.keys().copied().filter(|_| rng.next(4) > 0).collect();
                let opened = Embedded::open(DEPLOYMENT, media(&drives, |n| here.contains(&n))).await;
                let alive = members.iter().filter(|m| here.contains(m)).count();
                match opened {
                    Ok(c) => {
                        let seen = read(&c);
                        assert!((decided..=tried).contains(&seen), "{}: {decided} {seen} {tried}", at());
                        if c.barrier().await.is_ok() {
                            assert!(alive > members.len() / 2, "{}", at());
                            decided = seen;
                        }
                        for _ in 0..rng.next(4) {
                            tried += 1;
                            let update = put(&c, tried);
                            let mut members = None;
                            if rng.next(5) == 0 {
                                // A blank drive replaces a member.
                                let fake = Fake::default();
                                fake.allow(u64::MAX, 0);
                                c.attach(id(next_id), Arc::new(fake.clone())).await.unwrap();
                                drives.insert(next_id, fake);
                                let mut m: Vec<DriveId> = c.members();
                                let i = rng.next(m.len() as u64) as usize;
                                m[i] = id(next_id);
                                next_id += 1;
                                members = Some(m);
                            }
                            let done = match members {
                                Some(members) => c.change_members(update, members).await,
                                None => c.update(update).await,
                            };
                            if done.is_ok() {
                                decided = tried;
                                assert_eq!(read(&c), tried, "{}", at());
                            } else {
                                assert!(read(&c) < tried, "{}", at());
                            }
                        }
                        c.close().await;
                        members = c.members().iter().map(|d| d.0[0]).collect();
                    }
                    Err(Error::Unavailable(_)) => {}
                    Err(e) => panic!("{}: {e}", at()),
                }
                for f in drives.values() {
                    f.allow(u64::MAX, 0);
                }
            }
            let c = Embedded::open(DEPLOYMENT, media(&drives, |_| true)).await.unwrap();
            assert!((decided..=tried).contains(&read(&c)), "seed {seed:#x} life {life}");
        }
    });
}

/// A store of `entries` keys over three drives, and the bytes that the first one writes for each of 300 changes.
async fn cost_of_changes(entries: usize) -> u64 {
    let drives = fresh(3);
    let all = (0..entries).map(|i| (format!("key/{i:05}"), Bytes::from_static(&[7; 200])));
    let all = all.chain([("v".to_owned(), value(0))]).collect();
    let c = Embedded::create(DEPLOYMENT, media(&drives, |_| true), all).await.unwrap();
    let before = drives[&1].written.load(Ordering::Relaxed);
    for n in 1..=300 {
        c.update(put(&c, n)).await.unwrap();
    }
    c.close().await;
    let c = Embedded::open(DEPLOYMENT, media(&drives, |_| true)).await.unwrap();
    assert_eq!((read(&c), c.list("key/").len()), (300, entries));
    (drives[&1].written.load(Ordering::Relaxed) - before) / 300
}

/// Full copies would write megabytes for each change of a store with 10,000 keys.
#[test]
fn change_writes_little_whatever_the_store_holds() {
    runtime().block_on(async {
        let (few, many) = (cost_of_changes(10).await, cost_of_changes(10_000).await);
        // The start after the changes writes two full copies.
        assert!(
            few < 16 << 10 && many < few + (64 << 10),
            "bytes for a change: {few} with few keys, {many} with many"
        );
    });
}

/// Many changes in one life, so that logs are full and begin anew, and a crash of all drives after any of them.
#[test]
fn crash_while_logs_begin_anew() {
    let mut rng = Rng(0x5eed_0002);
    runtime().block_on(async {
        // Values of this length fill a log within some changes.
        let long = |n: u64| Bytes::from(format!("{n}{}", " ".repeat(100 << 10)));
        for life in 0..40 {
            let drives = fresh(3);
            let first = vec![("v".to_owned(), long(0))];
            Embedded::create(DEPLOYMENT, media(&drives, |_| true), first).await.unwrap().close().await;
            let mut acked = 0;
            for start in 0..3 {
                let c = Embedded::open(DEPLOYMENT, media(&drives, |_| true)).await.unwrap();
                for f in drives.values() {
                    f.allow(rng.next(40), rng.next(3) as u8);
                }
                let tried = loop {
                    let n = acked + 1;
                    let mut update = Update::new();
                    update.set(&c.control().read("v"), long(n));
                    match c.update(update).await {
                        Ok(_) => acked = n,
                        Err(_) => break n,
                    }
                };
                c.close().await;
                for f in drives.values() {
                    f.allow(u64::MAX, 0);
                }
                let out = 1 + rng.next(3) as u8;
                let c = Embedded::open(DEPLOYMENT, media(&drives, |n| n != out)).await.unwrap();
                let text = String::from_utf8(c.get("v").unwrap().bytes.to_vec()).unwrap();
                let seen = text.trim_end().parse().unwrap();
                assert!((acked..=tried).contains(&seen), "life {life} start {start}: {acked} {seen} {tried}");
                acked = seen;
                c.close().await;
            }
        }
    });
}

#[test]
fn half_of_drives_are_read_only() {
    runtime().block_on(async {
        let drives = fresh(4);
        let c = Embedded::create(DEPLOYMENT, media(&drives, |_| true), vec![("v".into(), value(7))])
            .await
            .unwrap();
        c.close().await;
        assert!(matches!(
            Embedded::open(DEPLOYMENT, media(&drives, |n| n == 1)).await,
            Err(Error::Unavailable(_))
        ));
        let c = Embedded::open(DEPLOYMENT, media(&drives, |n| n <= 2)).await.unwrap();
        assert_eq!(read(&c), 7);
        assert!(!c.health().writable);
        assert!(matches!(c.update(put(&c, 8)).await, Err(Error::Unavailable(_))));
        assert!(matches!(c.barrier().await, Err(Error::Unavailable(_))));
        // A third drive comes back: changes go on.
        c.attach(id(3), Arc::new(drives[&3].clone())).await.unwrap();
        assert!(c.health().writable);
        c.update(put(&c, 8)).await.unwrap();
        // The fourth has an old copy; it is brought up to date.
        c.attach(id(4), Arc::new(drives[&4].clone())).await.unwrap();
        c.update(put(&c, 9)).await.unwrap();
        c.close().await;
        let c = Embedded::open(DEPLOYMENT, media(&drives, |n| n >= 3)).await.unwrap();
        assert_eq!(read(&c), 9);
    });
}

#[test]
fn blank_copies_do_not_count() {
    runtime().block_on(async {
        let drives = fresh(4);
        assert!(matches!(Embedded::open(DEPLOYMENT, media(&drives, |_| true)).await, Err(Error::NotCreated)));
        Embedded::create(DEPLOYMENT, media(&drives, |_| true), vec![("v".into(), value(1))])
            .await
            .unwrap()
            .close()
            .await;
        // The copies of two drives are erased by hand, and one more drive is missing: one copy of four is too
        // few.
        for n in [1, 2] {
            drives[&n].slots.set_slots([None, None]);
        }
        assert!(matches!(
            Embedded::open(DEPLOYMENT, media(&drives, |n| n != 4)).await,
            Err(Error::Unavailable(_))
        ));
        let c = Embedded::open(DEPLOYMENT, media(&drives, |_| true)).await.unwrap();
        assert_eq!(read(&c), 1);
        c.close().await;
        assert!(matches!(
            Embedded::create(DEPLOYMENT, media(&drives, |_| true), vec![]).await,
            Err(Error::Exists)
        ));
        // The copy of another drive does not count.
        drives[&4].slots.set_files(drives[&3].slots.files());
        let c = Embedded::open(DEPLOYMENT, media(&drives, |_| true)).await.unwrap();
        c.close().await;
        assert_eq!(c.health().current, 4, "repaired");
    });
}

#[test]
fn interrupted_creation_is_repeated() {
    runtime().block_on(async {
        for stop in 0..3 {
            for last in 0..3 {
                let drives = fresh(3);
                drives[&2].allow(stop, last);
                let first = || vec![("v".to_owned(), value(3))];
                let done = Embedded::create(DEPLOYMENT, media(&drives, |_| true), first()).await.is_ok();
                drives[&2].allow(u64::MAX, 0);
                let c = match Embedded::open(DEPLOYMENT, media(&drives, |_| true)).await {
                    Ok(c) => c,
                    Err(e) => {
                        assert!(!done, "{e}");
                        Embedded::create(DEPLOYMENT, media(&drives, |_| true), first()).await.unwrap()
                    }
                };
                assert_eq!(read(&c), 3);
                assert!(c.health().writable);
            }
        }
    });
}

#[test]
fn updates_and_watches() {
    runtime().block_on(async {
        let dir = tempfile::tempdir().unwrap();
        let mut media: Vec<(DriveId, Arc<dyn Medium>)> = Vec::new();
        for n in 1..=3 {
            let folder = Folder::real(&dir.path().join(n.to_string()), None);
            folder.make().unwrap();
            media.push((id(n), Arc::new(FileMedium::new(folder))));
        }
        let c = Embedded::create(DEPLOYMENT, media.clone(), vec![("a/1".into(), value(1))]).await.unwrap();
        let control = c.control();
        let mut watch = control.watch(control.revision());
        let absent = control.read("a/2");
        let make = |e| {
            let mut update = Update::new();
            update.set(e, value(2));
            update
        };
        let r = control.update(make(&absent)).await.unwrap();
        assert!(matches!(control.update(make(&absent)).await, Err(Error::Conflict(k)) if k == "a/2"));
        assert_eq!(control.list("a/").len(), 2);
        assert_eq!(control.list("b").len(), 0);
        let mut update = Update::new();
        update.remove(&control.read("a/1"));
        control.update(update).await.unwrap();
        let Watched::Changes(changes) = watch.next().await else { panic!() };
        assert_eq!(changes.len(), 2);
        assert_eq!((changes[0].key.as_str(), changes[0].revision), ("a/2", r));
        assert_eq!(changes[1].value, None);
        assert!(matches!(control.watch(0).next().await, Watched::Reset(_)));
        // Members change together with keys, or not at all.
        let (before, stale) = (c.members(), make(&absent));
        assert!(matches!(c.change_members(stale, vec![id(1)]).await, Err(Error::Conflict(_))));
        assert_eq!(c.members(), before);
        let same = c.change_members(Update::new(), before.clone()).await.unwrap();
        assert!(same > r, "a change of members is one even without keys");
        c.close().await;
        drop((watch, control));
        let c = Embedded::open(DEPLOYMENT, media).await.unwrap();
        assert_eq!(c.list("").len(), 1);
        assert_eq!(c.get("a/2").unwrap().revision, r);
    });
}
