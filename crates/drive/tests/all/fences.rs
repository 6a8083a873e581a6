//! Fences of buckets: what they refuse, and that they survive restarts, compaction and the loss of the index.

use crate::common::*;
use ashlar_commit::bucket_fence::{Deletion, Grant};
use ashlar_drive::{Drive, Error, FenceAnswer, Prepared};
use ashlar_format::{BucketId, GroupId};

const BUCKET: BucketId = BucketId([1; 16]);

fn fence(d: &Drive, by: u64) -> FenceAnswer {
    run(d, d.fence_bucket(GROUP, BUCKET, Deletion(by), 0)).unwrap()
}

fn accept(d: &Drive, k: u64, counter: u64, grant: Grant) -> Result<(), Error> {
    let (o, e) = one(d, |d, c| d.accept_with(accept_of(k, ballot(counter), b"record"), grant, c));
    if o.ok == 1 { Ok(()) } else { Err(e.unwrap()) }
}

#[test]
fn fence_refuses_additions_to_bucket() {
    let o = small_options();
    let (_, folder, d) = sim_drive(&o);
    accept(&d, 1, 5, Grant::Plain).unwrap();
    assert_eq!(fence(&d, 2), FenceAnswer::Fenced { counted: true });
    assert_eq!(fence(&d, 2), FenceAnswer::Fenced { counted: true }, "again");
    assert_eq!(fence(&d, 1), FenceAnswer::Later(Deletion(2)));
    let refused = Err(Error::BucketFenced(Deletion(2)));
    assert_eq!(accept(&d, 2, 6, Grant::Plain), refused);
    assert_eq!(accept(&d, 2, 6, Grant::Of(Deletion(1))), refused, "an older deletion");
    assert_eq!(accept(&d, 1, 5, Grant::Plain), Ok(()), "accepted before the fence");
    accept(&d, 2, 6, Grant::Empties).unwrap();
    accept(&d, 2, 7, Grant::Of(Deletion(2))).unwrap();
    let p = run(&d, d.prepare(&key(1), ballot(9))).unwrap();
    assert!(matches!(p, Prepared::Promised { accepted: Some(_), fence: Deletion(2), .. }), "{p:?}");
    // Other groups and buckets are not fenced.
    let other = GroupId::new(1, 0);
    run(&d, d.join(&[(other, 0)])).unwrap();
    run(&d, d.fence_bucket(other, BUCKET, Deletion(2), 0)).unwrap();
    run(&d, d.lift_fence(BUCKET, Deletion(1))).unwrap();
    assert_eq!(d.fences().len(), 2, "an older deletion lifts nothing");
    drop(d);
    let d = Drive::open_folder(&folder, &o, false).unwrap();
    assert_eq!(accept(&d, 3, 8 << 20, Grant::Plain), refused, "after a restart");
    run(&d, d.lift_fence(BUCKET, Deletion(2))).unwrap();
    assert_eq!(d.fences(), []);
    accept(&d, 3, 9 << 20, Grant::Plain).unwrap();
    drop(d);
    let d = Drive::open_folder(&folder, &o, false).unwrap();
    assert_eq!(d.fences(), []);
}

#[test]
fn fences_require_current_layout() {
    let o = small_options();
    let (_, _, d) = sim_drive(&o);
    run(&d, d.fence_epoch(GROUP, 3)).unwrap();
    let old = run(&d, d.fence_bucket(GROUP, BUCKET, Deletion(1), 2));
    assert_eq!(old, Err(Error::NewerLayout(3)));
    let now = run(&d, d.fence_bucket(GROUP, BUCKET, Deletion(1), 3)).unwrap();
    assert_eq!(now, FenceAnswer::Fenced { counted: true });
    run(&d, d.set_joining(&[(GROUP, 3)])).unwrap();
    let joining = run(&d, d.fence_bucket(GROUP, BUCKET, Deletion(2), 3)).unwrap();
    assert_eq!(joining, FenceAnswer::Fenced { counted: false });
}

/// A drive answers about groups that it holds only; the epoch is checked in the group of the request alone.
#[test]
fn fence_requires_held_group() {
    let o = small_options();
    let (_, folder, d) = sim_drive(&o);
    let other = GroupId::new(1, 7);
    let ask = |d: &Drive, group, epoch| run(d, d.fence_bucket(group, BUCKET, Deletion(1), epoch));
    assert_eq!(ask(&d, other, 9), Err(Error::NotHeld(other)));
    assert_eq!(d.fences(), []);
    run(&d, d.join(&[(other, 5)])).unwrap();
    assert_eq!(ask(&d, other, 4), Err(Error::NewerLayout(5)));
    assert_eq!(ask(&d, other, 5), Ok(FenceAnswer::Fenced { counted: false }), "it joins");
    run(&d, d.joined(other, 5)).unwrap();
    assert_eq!(ask(&d, other, 5), Ok(FenceAnswer::Fenced { counted: true }));
    // In the other group nothing is fenced, and the epoch is lower.
    accept(&d, 1, 5, Grant::Plain).unwrap();
    assert_eq!(ask(&d, GROUP, 0), Ok(FenceAnswer::Fenced { counted: true }));
    drop(d);
    let d = Drive::open_folder(&folder, &o, false).unwrap();
    assert_eq!(d.fences(), [(GROUP, BUCKET, Deletion(1)), (other, BUCKET, Deletion(1))]);
}

/// The journal is rewritten several times: fences stay, lifted ones do not return.
#[test]
fn fences_survive_compaction_and_index_loss() {
    let o = small_options();
    let (disk, folder, mut d) = sim_drive(&o);
    let mut rng = Rng(7);
    let mut now = [0u64; 5];
    let mut counter = 10;
    for round in 0..12 {
        for _ in 0..8 {
            let n = rng.below(5) as u8;
            let (by, have) = (Deletion(round * 10 + 1 + rng.below(9)), &mut now[usize::from(n)]);
            if rng.below(3) == 0 {
                run(&d, d.lift_fence(bucket(n), by)).unwrap();
                *have = if *have <= by.0 { 0 } else { *have };
            } else {
                run(&d, d.fence_bucket(GROUP, bucket(n), by, 0)).unwrap();
                *have = by.0.max(*have);
            }
        }
        for k in 0..60 {
            counter += 1;
            let (o, e) = one(&d, |d, c| d.accept(accept_of(k, ballot(counter), &rng.bytes(900)), c));
            assert_eq!(o.ok, 1, "{e:?}");
        }
        d.tidy().unwrap();
        let check = |d: &Drive, what: &str| {
            let is: Vec<u64> = (0..5).map(|n| fence_of(d, n)).collect();
            assert_eq!(is, now, "round {round}, {what}");
            assert_eq!((d.audit().unwrap(), d.stats().miscounts), (vec![], 0), "round {round}, {what}");
        };
        check(&d, "after compaction");
        drop(d);
        d = Drive::open_folder(&folder, &o, false).unwrap();
        check(&d, "after a restart");
        drop(d);
        for name in disk.dump().keys().filter(|n| n.starts_with("index/")) {
            disk.put(name, None);
        }
        d = Drive::open_folder(&folder, &o, false).unwrap();
        check(&d, "with a new index");
        counter += 8 << 20;
    }
}
