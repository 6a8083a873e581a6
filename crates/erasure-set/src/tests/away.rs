//! Drives of other nodes that are silent or cannot be reached: nobody waits for them, and they get later what they
//! missed. Bounds are those of `hang`.

use super::hang::{SIZES, settled, soon, until, use_it};
use super::*;
use ashlar_drive::DriveHandle;
use ashlar_remote::{Call, Caller, Delivered, Failure, RemoteNode, Served, Transport, follow};
use bytes::BytesMut;
use futures::future::BoxFuture;
use std::sync::atomic::{AtomicUsize, Ordering};

pub(super) const ME: Caller = Caller { node: 1, process: 1 };

/// How a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Answers,
    /// Its release does not know folded lists.
    Older,
    /// What is sent to it is lost.
    Silent,
    Unreachable,
}

/// Carries calls to the node of one drive.
struct Wire {
    served: Served,
    fate: Mutex<Fate>,
    /// Calls that the node of an older release refused.
    refused: AtomicUsize,
}

/// The requests of folded lists (docs/formats.md), and one that no release knows.
const FOLDED: std::ops::RangeInclusive<u16> = 25..=26;
const UNKNOWN: u16 = 63;

impl Transport for Wire {
    fn call(&self, mut call: Call) -> BoxFuture<'static, Result<Delivered, Failure>> {
        match *self.fate.lock() {
            Fate::Answers => {}
            Fate::Older if FOLDED.contains(&call.method) => {
                call.method = UNKNOWN;
                self.refused.fetch_add(1, Ordering::Relaxed);
            }
            Fate::Older => {}
            Fate::Unreachable => return Box::pin(async { Err(Failure::NotSent) }),
            Fate::Silent => {
                return Box::pin(async move {
                    tokio::time::sleep(call.deadline).await;
                    Err(Failure::Unanswered)
                });
            }
        }
        execute(self.served.clone(), call)
    }

    fn tell(&self, call: Call) {
        drop(self.call(call));
    }

    fn is_connected(&self) -> bool {
        *self.fate.lock() != Fate::Unreachable
    }
}

/// Executes a call of this process at a node, also if nobody waits for the answer.
pub(super) fn execute(served: Served, call: Call) -> BoxFuture<'static, Result<Delivered, Failure>> {
    let executed = tokio::spawn(async move {
        let bulk = joined(&call.bulk);
        let out = served.call(ME, call.method, call.head, bulk, call.answer_limit).await?;
        Ok(Delivered { head: out.head.into_vec().into(), bulk: joined(&out.bulk) })
    });
    Box::pin(async move { executed.await.unwrap() })
}

fn joined(parts: &[Bytes]) -> Bytes {
    let mut whole = BytesMut::new();
    parts.iter().for_each(|part| whole.extend_from_slice(part));
    whole.freeze()
}

/// A drive of a rig that another node serves.
struct Elsewhere {
    drive: Drive,
    remote: DriveHandle,
    wire: Arc<Wire>,
    following: tokio::task::JoinHandle<()>,
}

impl Elsewhere {
    async fn new(rig: &Rig, slot: u8) -> Elsewhere {
        let drive = rig.sets.detach(drive_id(slot, 0)).unwrap();
        let served = Served::default();
        served.set([drive.clone()]);
        let wire = Arc::new(Wire { served, fate: Mutex::new(Fate::Answers), refused: AtomicUsize::new(0) });
        let node = RemoteNode::new(wire.clone());
        let remote = node.refresh().await.unwrap().remove(0);
        rig.sets.attach(remote.clone());
        Elsewhere { drive, remote, wire, following: tokio::spawn(follow(node)) }
    }

    /// Changes how its node is, and waits until that is known.
    async fn set(&self, fate: Fate) {
        *self.wire.fate.lock() = fate;
        let away = matches!(fate, Fate::Silent | Fate::Unreachable);
        until("it is known whether the drive is away", || self.remote.is_away() == away).await;
    }

    async fn close(self, rig: &Rig) {
        self.following.abort();
        self.wire.served.ended(ME);
        rig.sets.detach(self.drive.label().drive);
        shut(&self.drive).await;
    }
}

/// The voters of the only group, whether it can be read, and written.
fn health(rig: &Rig) -> (u8, bool, bool) {
    let health = rig.sets.health().remove(0);
    (health.voters, health.readable, health.writable)
}

async fn not_waited_for(fate: Fate) {
    let rig = settled(2, 2).await;
    let there = Elsewhere::new(&rig, 3).await;
    assert_eq!(health(&rig), (4, true, true));
    there.set(fate).await;
    assert_eq!(health(&rig), (3, true, true));
    for round in 0..2 {
        use_it(&rig, round).await;
    }
    let id = drive_id(3, 0);
    let voters = |sets: &Sets| sets.voters().remove(0).1;
    assert!(!rig.sets.present().contains(&id) && !voters(&rig.sets).contains(&id));
    let lacking = || {
        rig.sets.inner.sweep_tails();
        rig.sets.lacking()
    };
    until("what the drive lacks is known", || lacking() == [id]).await;
    there.set(Fate::Answers).await;
    assert_eq!(health(&rig), (4, true, true));
    assert!(rig.sets.present().contains(&id) && voters(&rig.sets).contains(&id));
    // Tails that still wait for the drive end first.
    basic::quiet(&rig.sets).await;
    until("what the drive lacks is queued", || lacking().is_empty()).await;
    rig.sets.heal_queued().await;
    for round in 0..2 {
        for i in 0..SIZES.len() {
            let key = rig.key(&format!("new{round}.{i}"));
            let register = rig.sets.read_register(&key).await.unwrap().unwrap();
            let shown = there.drive.read(&key, false, u32::MAX).await.unwrap().accepted;
            assert_eq!(shown.map(|s| s.ballot), Some(register.ballot), "{key:?}");
        }
    }
    let found = rig.sets.scrub(false).await.unwrap();
    assert_eq!((found.healed.missing, found.healed.lost, found.healed.shards), (0, 0, 0), "{fate:?}");
    there.close(&rig).await;
    rig.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn drive_of_silent_node_is_not_waited_for_and_gets_what_it_missed() {
    not_waited_for(Fate::Silent).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn drive_of_unreachable_node_is_not_waited_for_and_gets_what_it_missed() {
    not_waited_for(Fate::Unreachable).await;
}

/// With half of the drives away nothing can be written: that is said soon, and nothing is reported as lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn too_many_drives_away_is_an_error_soon() {
    let rig = settled(2, 2).await;
    let (two, three) = (Elsewhere::new(&rig, 2).await, Elsewhere::new(&rig, 3).await);
    let body = noise(5, 12 << 20);
    let begun = rig.key("begun");
    let mut w = rig.sets.write(&begun, body.len() as u64).await.unwrap();
    w.write(&body[..3 << 20]).await.unwrap();
    *two.wire.fate.lock() = Fate::Silent;
    *three.wire.fate.lock() = Fate::Silent;
    let why = soon("a write under way", w.write(&body[3 << 20..])).await.unwrap_err();
    assert!(matches!(&why, Error::Unavailable(text) if text.contains("2 of 3 drives")), "{why}");
    drop(w);
    two.set(Fate::Silent).await;
    three.set(Fate::Silent).await;
    assert_eq!(health(&rig), (2, true, false));
    for (i, size) in SIZES.into_iter().enumerate() {
        let put = soon("PUT", rig.put(&format!("new{i}"), &noise(1, size))).await.unwrap_err();
        assert!(matches!(put, Error::Unavailable(_)), "{put}");
        let delete = soon("DELETE", rig.delete(&format!("gone{i}"))).await.unwrap_err();
        assert!(matches!(delete, Error::Unavailable(_)), "{delete}");
        match soon("GET", rig.get(&format!("old{i}"))).await {
            Ok(got) => assert!(got.unwrap() == noise(i as u64, size)),
            Err(e) => assert!(matches!(e, Error::Unavailable(_)), "{e}"),
        }
        let heal = soon("heal", rig.sets.heal_register(&rig.key(&format!("old{i}")), false)).await;
        assert!(heal.is_err() || heal.is_ok_and(|h| h.lost == 0));
    }
    let page = soon("LIST", rig.sets.list(Space::Object, BUCKET, b"", b"", 1000)).await;
    assert!(matches!(page, Err(Error::Unavailable(_))), "{page:?}");
    two.set(Fate::Answers).await;
    three.set(Fate::Answers).await;
    assert_eq!(health(&rig), (4, true, true));
    use_it(&rig, 0).await;
    two.close(&rig).await;
    three.close(&rig).await;
    rig.close().await;
}

/// A reader that finds too few drives answering while it reads says so soon.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reader_does_not_wait_for_drives_that_go_away() {
    let rig = settled(2, 2).await;
    let mut there = Vec::new();
    for slot in 1..4 {
        there.push(Elsewhere::new(&rig, slot).await);
    }
    let body = noise(6, 24 << 20);
    rig.put("read", &body).await.unwrap();
    let key = rig.key("read");
    let part = {
        let r = rig.sets.read_register(&key).await.unwrap().unwrap();
        r.record.data().next().unwrap().clone()
    };
    let mut r = rig.sets.read(&key, &part.data, part.size, 0..part.size).await.unwrap();
    let mut got = r.next().await.unwrap().unwrap().to_vec();
    for of in &there {
        *of.wire.fate.lock() = Fate::Silent;
    }
    let why = loop {
        match soon("a read under way", r.next()).await {
            Some(Ok(bytes)) => got.extend_from_slice(&bytes),
            Some(Err(e)) => break e,
            None => panic!("one drive has the whole body"),
        }
    };
    assert!(matches!(why, Error::Unavailable(_)), "{why}");
    assert!(body.starts_with(&got));
    for of in &there {
        of.set(Fate::Answers).await;
    }
    assert!(rig.get("read").await.unwrap().unwrap() == body);
    for of in there {
        of.close(&rig).await;
    }
    rig.close().await;
}

/// A drive that is away does not make one that hangs indispensable.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hanging_drives_are_not_waited_for_while_another_is_away() {
    let rig = settled(4, 2).await;
    let there = Elsewhere::new(&rig, 5).await;
    rig.faults[0].hang();
    rig.faults[1].hang();
    let drives = rig.sets.drives();
    let known = || drives.iter().filter(|d| d.stalled().is_some()).count() == 2;
    let began = std::time::Instant::now();
    while !known() {
        assert!(began.elapsed() < Duration::from_secs(30), "they hang");
        drop(soon("PUT", rig.put("begun", &noise(1, 20_000))).await);
    }
    there.set(Fate::Silent).await;
    let put = soon("PUT", rig.put("new", b"x")).await.unwrap_err();
    assert!(matches!(put, Error::Unavailable(_)), "{put}");
    let page = soon("LIST", rig.sets.list(Space::Object, BUCKET, b"", b"", 1000)).await;
    assert!(matches!(page, Err(Error::Unavailable(_))), "{page:?}");
    for f in &rig.faults {
        f.clear();
    }
    there.set(Fate::Answers).await;
    until("the drives answer again", || drives.iter().all(|d| d.stalled().is_none())).await;
    rig.put("new", b"x").await.unwrap();
    there.close(&rig).await;
    rig.close().await;
}

/// Nodes whose release does not know folded lists are not asked for them before that is allowed; lists are complete. So they are
/// if a node refuses all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn folded_list_is_complete_beside_nodes_of_an_older_release() {
    // With all nodes but one, the leader or a drive that compares refuses, whichever drives are asked.
    for older in [&[3][..], &[1, 2, 3], &[0, 1, 2, 3]] {
        let rig = Rig::with(2, 2, 3, |o| o.sole = false).await;
        let mut want = Vec::new();
        for i in 0..60 {
            rig.put(&format!("folder-{}/{i:02}", i % 5), b"x").await.unwrap();
            want.push(format!("folder-{}/", i % 5));
        }
        rig.put("key", b"x").await.unwrap();
        want.push("key".to_owned());
        want.sort();
        want.dedup();
        basic::quiet(&rig.sets).await;
        let mut there = Vec::new();
        for slot in older {
            let one = Elsewhere::new(&rig, *slot).await;
            one.set(Fate::Older).await;
            there.push(one);
        }
        for allowed in [false, true] {
            rig.sets.fold_lists(allowed);
            for limit in [2, 1000] {
                assert_eq!(list_calls::grouped(&rig, "", limit).await.0, want, "{older:?}, pages of {limit}");
            }
            let refused: usize = there.iter().map(|one| one.wire.refused.load(Ordering::Relaxed)).sum();
            // One of four drives may be needed neither as leader nor to compare.
            assert!(allowed || refused == 0, "{older:?}: a folded list was requested");
            assert!(!allowed || refused > 0 || older.len() == 1, "{older:?}: no folded list was refused");
        }
        for one in there {
            one.close(&rig).await;
        }
        rig.close().await;
    }
}
