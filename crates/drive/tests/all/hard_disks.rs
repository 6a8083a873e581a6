//! Drives that are told to be hard disks: shards one after the other, flushes for several of them, long reads in order.

use crate::common::*;
use ashlar_drive::{Check, Drive, DriveKind, Options, ShardWriter, Tally};
use ashlar_machine::{Fault, Faults, Operation};
use bytes::Bytes;
use std::sync::Arc;
use std::time::Duration;

const FRAME: u32 = 256 << 10;

fn options() -> Options {
    let mut o = small_options();
    (o.kind, o.segment_bytes) = (DriveKind::Hdd, 64 << 20);
    o
}

fn content(id: u64) -> Vec<u8> {
    Rng(id).bytes(1_000_000 + id as usize * 1000)
}

fn begin(d: &Drive, id: u64) -> ShardWriter {
    let len = content(id).len() as u64;
    d.begin_shard(&key(1), write_id(id), 3, ballot(1), u32::MAX, len, FRAME).unwrap()
}

#[test]
fn shards_that_come_together_are_written_whole_and_share_a_flush() {
    let (_, _, d) = sim_drive(&options());
    // From here on the journal notes the segment.
    write_large(&d, 1, 100, &content(100), FRAME).unwrap();
    let before = d.stats();
    let mut writers: Vec<_> = (0..5).map(|id| (begin(&d, id), content(id))).collect();
    // The frames of all come in turn.
    for at in 0..4 {
        for (w, data) in &mut writers {
            let frame = data.chunks(FRAME as usize).nth(at).unwrap();
            run(&d, w.write(Bytes::copy_from_slice(frame))).unwrap();
        }
    }
    let t = Tally::new(5);
    for (n, (w, _)) in writers.into_iter().enumerate() {
        w.finish(t.completion(n as u8));
    }
    assert_eq!(t.outcome().ok, 0, "nothing is flushed");
    d.pump();
    assert_eq!(t.outcome().ok, 0b11111, "{:?}", t.error());
    // Their records are one more, and need not be.
    let after = d.stats();
    let batches = after.batches - before.batches;
    assert!(batches <= 1);
    assert_eq!((after.writes - before.writes, after.syncs - before.syncs), (5 + batches, 1 + batches));
    for id in 0..5 {
        assert!(read_shard(&d, id).unwrap() == content(id));
    }
}

#[test]
fn shard_longer_than_may_wait_is_written_in_long_pieces() {
    let (_, _, d) = sim_drive(&options());
    write_large(&d, 1, 100, &content(100), FRAME).unwrap();
    let before = d.stats();
    let data = Rng(1).bytes(20 << 20);
    write_large(&d, 1, 1, &data, FRAME).unwrap();
    let pieces = d.stats().writes - before.writes;
    assert!((3..=5).contains(&pieces), "{pieces}");
    assert!(read_shard(&d, 1).unwrap() == data);
}

#[test]
fn given_up_shards_leave_no_space_and_hold_up_no_others() {
    let (_, _, d) = sim_drive(&options());
    write_large(&d, 1, 100, &content(100), FRAME).unwrap();
    let live = d.stats().extent_live;
    for id in 0..20 {
        let mut w = begin(&d, id);
        let data = content(id);
        for c in data.chunks(FRAME as usize).take(id as usize % 5) {
            run(&d, w.write(Bytes::copy_from_slice(c))).unwrap();
        }
        drop(w);
    }
    write_large(&d, 1, 101, &content(101), FRAME).unwrap();
    d.tidy().unwrap();
    assert!(read_shard(&d, 101).unwrap() == content(101));
    assert!(d.stats().extent_live < live + 2 * content(101).len() as u64);
    assert_eq!((d.audit().unwrap(), d.stats().miscounts), (vec![], 0));
}

#[test]
fn failed_flush_fails_all_shards_that_share_it() {
    let faults = Arc::new(Faults::new());
    let mut o = options();
    o.faults = Some(faults.clone());
    let (_, _, d) = sim_drive(&o);
    write_large(&d, 1, 100, &content(100), FRAME).unwrap();
    let t = Tally::new(3);
    for id in 0..3u8 {
        let mut w = begin(&d, id.into());
        for c in content(id.into()).chunks(FRAME as usize) {
            run(&d, w.write(Bytes::copy_from_slice(c))).unwrap();
        }
        w.finish(t.completion(id));
    }
    faults.set(Operation::Sync, Fault::Error(5));
    d.pump();
    assert_eq!((t.outcome().ok, t.outcome().failed), (0, 0b111));
    assert!(matches!(d.state(), ashlar_drive::State::Fenced(_)));
}

/// On a file system, with threads: many writers and readers at once, with slow calls.
#[test]
fn many_shards_at_once_are_written_and_read_with_threads() {
    let dir = tempfile::tempdir().unwrap();
    ashlar_drive::format(dir.path(), &label(1), VOTER).unwrap();
    let faults = Arc::new(Faults::new());
    let mut o = options();
    o.faults = Some(faults.clone());
    let d = Drive::open(dir.path(), &o).unwrap();
    for on in [Operation::Read, Operation::Write, Operation::Sync] {
        faults.set(on, Fault::Delay(Duration::from_millis(1)));
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let each = (0..40u64).map(|id| {
            let d = d.clone();
            tokio::spawn(async move {
                let data = content(id);
                let mut w = begin(&d, id);
                for c in data.chunks(FRAME as usize) {
                    w.write(Bytes::copy_from_slice(c)).await.unwrap();
                }
                let t = Tally::new(1);
                w.finish(t.completion(0));
                assert_eq!(t.wait_all().await.ok, 1, "{:?}", t.error());
                let r = d.open_shard(write_id(id), 3).await.unwrap();
                let got = r.read_run(0, r.frames(), Check::Drive).await.unwrap();
                assert!(got.concat() == data);
            })
        });
        for one in each.collect::<Vec<_>>() {
            one.await.unwrap();
        }
        d.close().await;
    });
}
