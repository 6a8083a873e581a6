//! Full passes over processes that end before the next pass is due. Time is virtual, drives are simulated.

use super::*;
use crate::{ScrubRecord, ScrubRecords};
use ashlar_duties::Duties;
use ashlar_environment::HashMap;
use ashlar_environment::simulation::{self, Simulation};
use ashlar_environment::spawn;
use ashlar_environment::task::JoinHandle;
use ashlar_environment::time::sleep;
use ashlar_machine::{Fault, Folder, Operation, SimDisk};
use futures::future::BoxFuture;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const HOUR: Duration = Duration::from_secs(3600);
const EVERY: Duration = Duration::from_secs(6 * 3600);

/// A store of records outside of the processes.
#[derive(Default)]
struct Store {
    of: Mutex<HashMap<GroupId, Arc<ScrubRecord>>>,
    is_away: AtomicBool,
    writes: AtomicU64,
}

impl Store {
    fn record(&self) -> Arc<ScrubRecord> {
        self.of.lock().get(&GroupId::new(0, 0)).cloned().unwrap_or_default()
    }
}

/// The store as processes have it.
struct Records(Arc<Store>);

impl ScrubRecords for Records {
    fn read(&self, group: GroupId) -> Option<Arc<ScrubRecord>> {
        self.0.of.lock().get(&group).cloned()
    }

    fn write(&self, group: GroupId, record: ScrubRecord) -> BoxFuture<'static, Result<ScrubRecord, String>> {
        let store = self.0.clone();
        Box::pin(async move {
            if store.is_away.load(Ordering::Relaxed) {
                sleep(HOUR).await;
                return Err("away".to_owned());
            }
            store.writes.fetch_add(1, Ordering::Relaxed);
            let mut of = store.of.lock();
            let stored = of.get(&group).map(|stored| (**stored).clone()).unwrap_or_default();
            let merged = record.merged(stored, ashlar_environment::time::wall_ms());
            of.insert(group, Arc::new(merged.clone()));
            Ok(merged)
        })
    }
}

/// Simulated drives without threads, and how processes open them.
struct Bench {
    layout: Layout,
    options: Options,
    drives: Vec<Drive>,
    store: Arc<Store>,
    faults: Arc<Faults>,
    pumps: Vec<JoinHandle<()>>,
}

impl Bench {
    /// Drives with `registers` registers in `groups` groups.
    async fn new(groups: u16, registers: u64) -> Bench {
        let slots: Vec<DriveId> = (0..4).map(|s| drive_id(s, 0)).collect();
        let groups: Vec<Group> =
            (0..groups).map(|id| Group { id: GroupId::new(0, id), epoch: 1, slots: slots.clone() }).collect();
        let layout = Layout { epoch: 1, code: Code { k: 2, m: 2 }, groups };
        let mut options = Options::new(BufferPool::new(64 << 20));
        (options.recheck, options.inline_shard) = (1, 2048);
        let store = Arc::<Store>::default();
        options.scrub_every = EVERY;
        options.scrub_records = Some(Arc::new(Records(store.clone())));
        let faults = Arc::new(Faults::new());
        let voters: Vec<_> = layout.groups.iter().map(|g| (g.id, Role::Voter)).collect();
        let drives: Vec<Drive> = slots.iter().map(|id| drive(*id, &voters, &faults)).collect();
        let pumps = drives.iter().map(|d| spawn("pump", pump(d.clone()))).collect();
        let bench = Bench { layout, options, drives, store, faults, pumps };
        let sets = bench.sets();
        let fill = (0..registers).map(|i| {
            let sets = sets.clone();
            async move { put(&sets, &format!("k{i:05}"), &noise(i, 3000)).await.unwrap() }
        });
        futures::StreamExt::collect::<Vec<_>>(futures::StreamExt::buffered(futures::stream::iter(fill), 16))
            .await;
        bench
    }

    /// Puts a new drive in the place of another, to be filled.
    fn add(&mut self, id: DriveId, of: usize) {
        self.drives[of] = drive(id, &[], &self.faults);
        self.pumps.push(spawn("pump", pump(self.drives[of].clone())));
    }

    fn sets(&self) -> Sets {
        Sets::new(self.layout.clone(), self.drives.clone(), self.options.clone()).unwrap()
    }

    /// Starts a process.
    fn open(&self) -> Sets {
        let sets = self.sets();
        sets.start();
        sets
    }

    /// The process runs for a while and ends.
    async fn run(&self, time: Duration) -> Sets {
        let sets = self.open();
        sleep(time).await;
        sets.stop().await;
        sets
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        self.pumps.iter().for_each(JoinHandle::abort);
    }
}

fn drive(id: DriveId, groups: &[(GroupId, Role)], faults: &Arc<Faults>) -> Drive {
    let folder = Folder::simulated(&SimDisk::new(1 << 40), Some(faults.clone()));
    let label = Label { deployment: deployment(), drive: id, created_ms: 1 };
    let mut options = DriveOptions::new(BufferPool::new(64 << 20));
    (options.segment_bytes, options.journal_segment_bytes) = (1 << 20, 1 << 20);
    (options.reserve_bytes, options.cache_bytes, options.direct) = (1 << 20, 1 << 20, false);
    ashlar_drive::format_folder(&folder, &label, groups, options.journal_segment_bytes).unwrap();
    Drive::open_folder(&folder, &options, false).unwrap()
}

/// Commits what was sent to a drive.
async fn pump(drive: Drive) {
    loop {
        drive.pump();
        sleep(Duration::from_millis(200)).await;
    }
}

/// A simulation of `story`.
fn told<F: Future<Output = ()> + 'static>(story: impl FnOnce() -> F + 'static) {
    Simulation::new(1).run(async move { story().await }).unwrap();
}

/// A server that is restarted more often than a full pass is due makes the pass.
#[test]
fn full_pass_is_made_over_restarts() {
    told(|| async {
        let bench = Bench::new(3, 20).await;
        let began = simulation::elapsed();
        for _ in 0..8 {
            if let Some(full) = bench.run(2 * HOUR).await.last_full_scrub() {
                assert_eq!((full.registers, full.deep), (20, true));
                assert!(simulation::elapsed() - began >= EVERY, "not before it is due");
                // What is shown survives the next start, and no other pass is due.
                let shown = bench.run(HOUR).await.last_full_scrub().unwrap();
                assert_eq!((shown.registers, shown.began_ms), (20, full.began_ms));
                assert_eq!(bench.store.writes.load(Ordering::Relaxed), 2 * 3, "seen first, and a pass");
                return;
            }
        }
        panic!("no full pass in {:?}", simulation::elapsed() - began);
    });
}

/// Reading takes so long that a pass takes minutes.
async fn slow_bench() -> Bench {
    let bench = Bench::new(1, 1100).await;
    bench.faults.set(Operation::Read, Fault::Delay(Duration::from_millis(50)));
    bench
}

/// Starts a process; returns when it has stored a part of a pass.
async fn in_a_pass(bench: &Bench) -> Sets {
    let sets = bench.open();
    let began = simulation::elapsed();
    while bench.store.record().current.is_none() {
        assert!(simulation::elapsed() - began < 2 * EVERY, "{:?}", bench.store.record());
        sleep(Duration::from_millis(100)).await;
    }
    sets
}

/// Runs a process until it has stored a part of a pass.
async fn part_of_pass(bench: &Bench) -> Sets {
    let sets = in_a_pass(bench).await;
    sets.stop().await;
    sets
}

/// What a drive missed without a note is looked for before the end of a full pass, which then goes on.
#[test]
fn owed_look_does_not_wait_for_the_end_of_a_pass() {
    told(|| async {
        let bench = slow_bench().await;
        let sets = in_a_pass(&bench).await;
        let part = bench.store.record().current.clone().unwrap();
        let scrub = &sets.inner.scrub;
        scrub.owe_pass();
        while scrub.owes_pass() {
            assert!(bench.store.record().last.is_none(), "the look waits for the pass");
            sleep(Duration::from_millis(100)).await;
        }
        sleep(HOUR).await;
        let whole = bench.store.record().last.clone().unwrap();
        assert_eq!((whole.began_ms, whole.counts.registers), (part.began_ms, 1100), "nothing twice");
        sets.stop().await;
    });
}

/// A pass that is interrupted goes on behind its last mark, also at another node; with other drives it begins anew.
#[test]
fn interrupted_pass_goes_on() {
    told(|| async {
        let mut bench = slow_bench().await;
        part_of_pass(&bench).await;
        let part = bench.store.record().current.clone().unwrap();
        assert!((500..=600).contains(&part.counts.registers), "{part:?}");
        (bench.options.node, bench.options.duties) = (2, Duties::alone(2));
        let looks = bench.run(HOUR).await.heal_stats().looked;
        let whole = bench.store.record().last.clone().unwrap();
        assert_eq!((whole.began_ms, whole.counts.registers), (part.began_ms, 1100), "nothing twice");
        assert_eq!(looks, 1100 + 1100 - part.counts.registers, "a look, and the rest of the pass");
        assert_eq!(bench.store.record().current, None);
    });
}

/// With other drives in the group a pass begins anew.
#[test]
fn pass_with_other_drives_begins_anew() {
    told(|| async {
        let mut bench = slow_bench().await;
        part_of_pass(&bench).await;
        let part = bench.store.record().current.clone().unwrap();
        let new = drive_id(3, 1);
        bench.layout = in_epoch(&bench.layout, 2);
        bench.layout.groups[0].slots[3] = new;
        bench.add(new, 3);
        bench.run(2 * HOUR).await;
        let last = bench.store.record().last.clone().unwrap();
        assert!(last.began_ms > part.began_ms && last.drives[3] == new, "{last:?}");
        assert_eq!(last.counts.registers, 1100);
    });
}

/// Without its store a pass goes on; the record is written when the store is back.
#[test]
fn record_is_stored_later_if_the_store_is_away() {
    told(|| async {
        let bench = slow_bench().await;
        bench.store.is_away.store(true, Ordering::Relaxed);
        let sets = bench.open();
        sleep(2 * EVERY - HOUR).await;
        let full = sets.last_full_scrub().expect("the pass was made");
        assert_eq!((full.registers, bench.store.record().last.is_some()), (1100, false));
        bench.store.is_away.store(false, Ordering::Relaxed);
        sleep(Duration::from_secs(300)).await;
        assert_eq!(bench.store.record().last.as_ref().unwrap().began_ms as u64, full.began_ms);
        sets.stop().await;
    });
}

/// A pass that somebody started counts for the groups of all nodes.
#[test]
fn manual_pass_counts() {
    told(|| async {
        let mut bench = Bench::new(2, 10).await;
        // Another node scrubs all groups.
        let duties = Duties::alone(2);
        duties.set_nodes([1]);
        (bench.options.node, bench.options.duties) = (2, duties);
        let sets = bench.open();
        sleep(HOUR).await;
        assert_eq!(bench.store.writes.load(Ordering::Relaxed), 0, "it is not its work");
        let found = sets.scrub(true).await.unwrap();
        sets.stop().await;
        (bench.options.node, bench.options.duties) = (1, Duties::alone(1));
        let full = bench.sets().last_full_scrub().unwrap();
        assert_eq!((full.began_ms, full.registers), (found.began_ms, 10));
        bench.run(EVERY - HOUR).await;
        assert_eq!(bench.sets().last_full_scrub().unwrap().began_ms, found.began_ms, "no other is due");
        bench.run(2 * HOUR).await;
        assert!(bench.sets().last_full_scrub().unwrap().began_ms > found.began_ms);
    });
}

/// The wall clock jumps ahead and back: there is no pass after the other, and passes do not stop.
#[test]
fn clock_jumps_neither_repeat_nor_stop_passes() {
    told(|| async {
        let bench = Bench::new(1, 10).await;
        let passes = || async {
            let (mut count, mut last) = (0, bench.store.record().last.clone());
            let sets = bench.open();
            for _ in 0..4 * 60 {
                sleep(EVERY / 60).await;
                let now = bench.store.record().last.clone();
                count += u64::from(now != last);
                last = now;
            }
            sets.stop().await;
            count
        };
        let days = |days: i64| simulation::set_wall_ahead(simulation::process(), days * 86_400_000);
        assert!((3..=4).contains(&passes().await));
        days(1000);
        assert!((3..=5).contains(&passes().await), "one more at most");
        days(0);
        assert!((3..=4).contains(&passes().await), "times of the future delay nothing");
        days(-1000);
        assert!((3..=4).contains(&passes().await));
    });
}

/// A shard counts as verified once a pass that began after its write has passed it.
#[test]
fn verified_time_is_that_of_the_pass() {
    told(|| async {
        let bench = slow_bench().await;
        let sets = part_of_pass(&bench).await;
        let part = bench.store.record().current.clone().unwrap();
        let at = |name: &str, written| sets.verified_ms(&key(&sets, name), drive_id(1, 0), written);
        assert_eq!(at("k00000", 0), Some(part.marks[0].at_ms));
        assert_eq!((at("k01099", 0), at("k00000", part.began_ms)), (None, None));
        assert_eq!(sets.verified_ms(&key(&sets, "k00000"), drive_id(1, 1), 0), None, "another drive");
    });
}
