//! When the drives of a node count as away. Time is virtual.

use std::sync::Arc;
use std::time::Duration;

use ashlar_drive::{DriveHandle, State, Stats, Status};
use ashlar_environment::simulation::Simulation;
use ashlar_environment::time::{Instant, sleep};
use ashlar_format::Ballot;
use futures::future::BoxFuture;
use parking_lot::Mutex;

use super::{key, label, write_id};
use crate::wire::{Heard, encode_heard};
use crate::{Call, Delivered, Failure, RemoteNode, Transport, follow, method};

/// How a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Answers,
    /// It answers only when it is asked for its drives.
    OnlyDrives,
    Silent,
    Unreachable,
}

struct Wire(Mutex<Fate>);

impl Wire {
    fn set(&self, fate: Fate) {
        *self.0.lock() = fate;
    }
}

impl Transport for Wire {
    fn call(&self, call: Call) -> BoxFuture<'static, Result<Delivered, Failure>> {
        let fate = *self.0.lock();
        Box::pin(async move {
            let drives = call.method == method::DRIVES;
            match fate {
                Fate::Unreachable => return Err(Failure::NotSent),
                Fate::Answers => {}
                Fate::OnlyDrives if drives => {}
                Fate::Silent | Fate::OnlyDrives => {
                    sleep(call.deadline).await;
                    return Err(Failure::Unanswered);
                }
            }
            sleep(MILLISECOND).await;
            if !drives {
                return Err(Failure::Refused("an answer like any other".to_owned()));
            }
            let out = encode_heard(&[heard()]);
            Ok(Delivered { head: out.head.into_vec().into(), bulk: out.bulk.concat().into() })
        })
    }

    fn tell(&self, _: Call) {}

    fn is_connected(&self) -> bool {
        *self.0.lock() != Fate::Unreachable
    }
}

const MILLISECOND: Duration = Duration::from_millis(1);

fn heard() -> Heard {
    let status = Status {
        state: State::Online,
        held: Vec::new().into(),
        floor: Ballot::ZERO,
        stats: Stats { free: 1 << 30, ..Stats::default() },
    };
    Heard { label: label(1), path: "there".to_owned(), status, oldest: Duration::ZERO }
}

/// Runs `story` with a drive whose node answers.
fn told<F: Future<Output = ()> + 'static>(
    story: impl FnOnce(Arc<Wire>, Arc<RemoteNode>, DriveHandle) -> F + 'static,
) {
    let main = async move {
        let wire = Arc::new(Wire(Mutex::new(Fate::Answers)));
        let node = RemoteNode::new(wire.clone());
        let drive = node.know(&heard());
        story(wire, node, drive).await;
    };
    Simulation::new(1).run(main).unwrap();
}

/// Sends a call for whose answer somebody waits.
fn read(drive: &DriveHandle) {
    let drive = drive.clone();
    let asked = async move { drop(drive.read(&key(1), true, 1).await) };
    drop(ashlar_environment::spawn("read", asked));
}

async fn millis(n: u64) {
    sleep(MILLISECOND * n as u32).await;
}

#[test]
fn silent_node_is_away_after_1500_ms_until_one_answer() {
    told(|wire, node, drive| async move {
        wire.set(Fate::Silent);
        millis(10_000).await;
        assert!(!drive.is_away(), "nothing was sent to it");
        read(&drive);
        millis(1_400).await;
        assert!(!drive.is_away());
        millis(200).await;
        assert!(drive.is_away());
        // Also after the call ended without an answer.
        millis(10_000).await;
        assert!(drive.is_away());
        wire.set(Fate::Answers);
        assert!(drive.is_away());
        node.refresh().await.unwrap();
        assert!(!drive.is_away());
    });
}

#[test]
fn any_answer_brings_a_node_back() {
    told(|wire, _, drive| async move {
        wire.set(Fate::Silent);
        read(&drive);
        millis(2_000).await;
        assert!(drive.is_away());
        wire.set(Fate::Answers);
        assert!(drive.read(&key(1), true, 1).await.is_err(), "it is refused");
        assert!(!drive.is_away());
    });
}

#[test]
fn unreachable_node_is_away_at_once() {
    told(|wire, node, drive| async move {
        wire.set(Fate::Unreachable);
        assert!(drive.is_away());
        assert!(node.refresh().await.is_err());
        millis(5_000).await;
        wire.set(Fate::Answers);
        assert!(drive.is_away(), "it has not said anything yet");
        node.refresh().await.unwrap();
        assert!(!drive.is_away());
    });
}

#[test]
fn long_call_says_nothing_while_the_node_answers_others() {
    told(|wire, node, drive| async move {
        wire.set(Fate::OnlyDrives);
        let verified = drive.clone();
        let verify = async move { verified.verify_shard(write_id(1), 0).await };
        let long = ashlar_environment::spawn("verify", verify);
        for _ in 0..20 {
            node.refresh().await.unwrap();
            millis(1_000).await;
            assert!(!drive.is_away());
        }
        assert!(!long.is_finished());
        millis(600).await;
        assert!(drive.is_away(), "nobody asked anything else, and that is not answered");
    });
}

#[test]
fn call_that_is_dropped_owes_nothing_unless_the_node_was_silent() {
    told(|wire, _, drive| async move {
        wire.set(Fate::Silent);
        let key = key(1);
        let soon = ashlar_environment::time::timeout(MILLISECOND * 500, drive.read(&key, true, 1));
        assert!(soon.await.is_err());
        millis(10_000).await;
        assert!(!drive.is_away());
        let late = ashlar_environment::time::timeout(MILLISECOND * 1_600, drive.read(&key, true, 1));
        assert!(late.await.is_err());
        assert!(drive.is_away());
    });
}

#[test]
fn follower_finds_out_without_requests() {
    told(|wire, node, drive| async move {
        drop(ashlar_environment::spawn("follow", follow(node)));
        millis(3_300).await;
        for fate in [Fate::Silent, Fate::Unreachable] {
            let began = Instant::now();
            wire.set(fate);
            while !drive.is_away() {
                millis(10).await;
            }
            assert!(began.elapsed() <= Duration::from_millis(2_600), "{fate:?}: {:?}", began.elapsed());
            for _ in 0..500 {
                millis(10).await;
                assert!(drive.is_away(), "{fate:?}");
            }
            let back = Instant::now();
            wire.set(Fate::Answers);
            while drive.is_away() {
                millis(10).await;
            }
            assert!(back.elapsed() <= Duration::from_millis(1_800), "{fate:?}: {:?}", back.elapsed());
            millis(5_000).await;
            assert!(!drive.is_away());
        }
    });
}
