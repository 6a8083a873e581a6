//! Drives whose shards are read by io_uring, where the machine permits it. Each test does the same with threads: what differs is only who waits.

use crate::common::*;
use ashlar_drive::{Check, Drive, Error, Options, Probe, Tally, start_ring};
use ashlar_machine::{Fault, Operation};
use bytes::Bytes;
use std::path::Path;
use std::sync::Arc;

const FRAME: usize = 65_536;
const BYTES: usize = 300_000;

fn open(home: &Path, options: &Options) -> Drive {
    if ashlar_drive::probe(home) == Probe::Blank {
        let folder = ashlar_machine::Folder::real(home, None);
        ashlar_drive::format_folder(&folder, &label(1), VOTER, 64 << 10).unwrap();
    }
    Drive::open(home, options).unwrap()
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

/// Options with the ring of a runtime, and without.
fn both(runtime: &tokio::runtime::Runtime, test: impl Fn(Options)) {
    test(small_options());
    let _entered = runtime.enter();
    match start_ring() {
        Ok(ring) => {
            let mut o = small_options();
            o.ring = Some(ring);
            test(o);
        }
        Err(e) => eprintln!("not tested: no io_uring: {e}"),
    }
}

async fn write_shard(d: &Drive, o: &Options, id: u64) {
    let mut w =
        d.begin_shard(&key(id), write_id(id), 3, ballot(1), u32::MAX, BYTES as u64, FRAME as u32).unwrap();
    let mut buf = o.pool.get(BYTES).await;
    buf.copy_from_slice(&Rng(id).bytes(BYTES));
    let frozen = buf.freeze();
    for at in (0..BYTES).step_by(FRAME) {
        w.write(frozen.slice(at..(at + FRAME).min(BYTES))).await.unwrap();
    }
    let t = Tally::new(1);
    w.finish(t.completion(0));
    assert_eq!(t.wait_all().await.ok, 1, "{:?}", t.error());
}

async fn read_first(d: &Drive, id: u64) -> ashlar_drive::Result<Bytes> {
    d.open_shard(write_id(id), 3).await?.read(0, Check::Drive).await
}

#[test]
fn readers_that_stop_waiting_leave_others_their_bytes() {
    const SHARDS: u64 = 12;
    let runtime = runtime();
    both(&runtime, |o| {
        let home = tempfile::tempdir().unwrap();
        let d = open(home.path(), &o);
        runtime.block_on(async {
            for id in 0..SHARDS {
                write_shard(&d, &o, id).await;
            }
            let tasks: Vec<_> = (0..4u64)
                .map(|t| {
                    let d = d.clone();
                    tokio::spawn(async move {
                        let mut kept: Vec<(u64, u32, Vec<Bytes>)> = Vec::new();
                        for n in 0..250u64 {
                            let id = (n * 7 + t) % SHARDS;
                            let r = Arc::new(d.open_shard(write_id(id), 3).await.unwrap());
                            let (first, count) = ((n % 4) as u32, 1 + (n % 2) as u32);
                            let check = if n % 3 == 0 { Check::Reader } else { Check::Drive };
                            if n % 4 == 1 {
                                // Polled once, then dropped.
                                let read = r.read_run(first, count, check);
                                let _ = futures::FutureExt::now_or_never(read);
                                continue;
                            }
                            let frames = r.read_run(first, count, check).await.unwrap();
                            kept.push((id, first, frames.into_iter().collect()));
                            if kept.len() > 6 {
                                for (id, first, frames) in kept.drain(..) {
                                    let whole = Rng(id).bytes(BYTES);
                                    for (n, frame) in (first as usize..).zip(frames) {
                                        let end = ((n + 1) * FRAME).min(whole.len());
                                        assert!(frame == whole[n * FRAME..end], "shard {id}, frame {n}");
                                    }
                                }
                            }
                        }
                    })
                })
                .collect();
            for task in tasks {
                task.await.unwrap();
            }
            d.close().await;
        });
        drop(d);
        if let Some(ring) = &o.ring {
            assert_eq!(ring.under_way(), 0);
        }
    });
}

#[test]
fn damage_and_errors_are_found() {
    let runtime = runtime();
    both(&runtime, |mut o| {
        let faults = Arc::new(ashlar_machine::Faults::new());
        o.faults = Some(faults.clone());
        let home = tempfile::tempdir().unwrap();
        let d = open(home.path(), &o);
        runtime.block_on(async {
            write_shard(&d, &o, 1).await;
            assert!(read_first(&d, 1).await.is_ok());
            for (fault, corrupt) in [(Fault::Error(5), false), (Fault::Corrupt, true)] {
                faults.set(Operation::Read, fault);
                let e = read_first(&d, 1).await.unwrap_err();
                assert_eq!(matches!(e, Error::Corrupt(_)), corrupt, "{e}");
                faults.clear();
                assert!(read_first(&d, 1).await.is_ok());
            }
            // On the medium, behind the drive's back: a bit of the frame.
            damage(&home.path().join("extents"), &Rng(1).bytes(BYTES)[..64]);
            assert!(matches!(read_first(&d, 1).await, Err(Error::Corrupt(_))));
            d.close().await;
        });
    });
}

/// Flips a bit of these bytes in the only file of a folder that has them.
fn damage(folder: &Path, bytes: &[u8]) {
    use std::os::unix::fs::FileExt as _;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let content = std::fs::read(&path).unwrap();
        if let Some(at) = content.chunks(4096).position(|page| page.starts_with(bytes)) {
            let file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
            file.write_all_at(&[bytes[0] ^ 1], at as u64 * 4096).unwrap();
            return file.sync_all().unwrap();
        }
    }
    panic!("the bytes are nowhere");
}

#[test]
fn drive_that_hangs_is_seen_and_keeps_no_other_waiting() {
    let runtime = runtime();
    both(&runtime, |mut o| {
        let others = o.clone();
        let faults = Arc::new(ashlar_machine::Faults::new());
        o.faults = Some(faults.clone());
        let homes = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let (hangs, works) = (open(homes[0].path(), &o), open(homes[1].path(), &others));
        runtime.block_on(async {
            write_shard(&hangs, &o, 1).await;
            write_shard(&works, &o, 2).await;
            faults.hang();
            let hanging = hangs.clone();
            let read = tokio::spawn(async move { read_first(&hanging, 1).await.map(|b| b.len()) });
            while hangs.stalled().is_none() {
                tokio::time::sleep(std::time::Duration::from_millis(50)).await;
                assert!(read_first(&works, 2).await.is_ok());
            }
            assert!(!read.is_finished());
            faults.clear();
            assert_eq!(read.await.unwrap().unwrap(), FRAME);
            hangs.close().await;
            works.close().await;
        });
    });
}
