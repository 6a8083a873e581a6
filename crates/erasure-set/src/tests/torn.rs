//! T6, and flaw F2 of docs/protocol.md 4: an update stops after any set of drives got STAGE and any set got
//! ACCEPT, the coordinator crashes, the drives restart: the state is old or new, never absent, never mixed.

use super::*;

/// An update that reaches only some drives, by a coordinator that then disappears.
async fn torn_put(rig: &Rig, name: &str, bytes: &[u8], stages: u64, accepts: u64) -> bool {
    let key = rig.key(name);
    let size = bytes.len() as u64;
    let mut w = rig.sets.write(&key, size).await.unwrap();
    w.write(bytes).await.unwrap();
    let staged = w.finish().await.unwrap();
    rig.sets.inner.gate.set(Some((stages, accepts)));
    let done = rig
        .sets
        .update_register::<(), ()>(&key, &[&staged], |_| {
            let body = body(size, Some(staged.data()));
            Decision::Write { body, summary: summary(size), moved: false, out: () }
        })
        .await;
    rig.sets.inner.gate.set(None);
    // A crashed coordinator drops nothing.
    staged.keep();
    done.is_ok()
}

struct Case {
    name: String,
    old: Option<Vec<u8>>,
    new: Vec<u8>,
    acknowledged: bool,
}

/// `splits`: the slots that get STAGE, and those that get ACCEPT.
async fn all_splits(k: u8, m: u8, one_sync: bool, size: usize, splits: &[(u64, u64)]) {
    let mut rig = Rig::with(k, m, 1, |o| o.one_sync = one_sync).await;
    let mut cases = Vec::new();
    for (i, (stages, accepts)) in splits.iter().enumerate() {
        let seed = i as u64 * 2;
        let name = format!("{stages:x}-{accepts:x}");
        let old = (i % 4 != 3).then(|| noise(seed, size));
        if let Some(old) = &old {
            rig.put(&name, old).await.unwrap();
        }
        let new = noise(seed + 1, size + 1);
        let acknowledged = torn_put(&rig, &name, &new, *stages, *accepts).await;
        cases.push(Case { name, old, new, acknowledged });
    }
    rig.restart(|_| 0).await;
    let n = k + m;
    let mut newer = 0;
    for (i, c) in cases.iter().enumerate() {
        let first = rig.get(&c.name).await.unwrap();
        let is_new = first.as_ref() == Some(&c.new);
        assert!(is_new || first == c.old, "{}: neither old nor new", c.name);
        assert!(is_new || !c.acknowledged, "{}: acknowledged and lost", c.name);
        newer += usize::from(is_new);
        // What was decided stays, whichever drive is away. An update that was not acknowledged and that the
        // first read did not see may still succeed, once.
        let slot = (i % usize::from(n)) as u8;
        let d = rig.sets.detach(drive_id(slot, 0)).unwrap();
        let second = rig.get(&c.name).await.unwrap();
        assert!(second == first || !is_new && second.as_ref() == Some(&c.new), "{}", c.name);
        rig.sets.attach(d);
        let third = rig.get(&c.name).await.unwrap();
        assert!(third == second || third.as_ref() == Some(&c.new), "{}: back again", c.name);
        let page = rig.sets.list(Space::Object, BUCKET, c.name.as_bytes(), b"", 1).await.unwrap();
        // Listing decides what is undecided, as reading does.
        let fourth = rig.get(&c.name).await.unwrap();
        assert!(fourth == third || fourth.as_ref() == Some(&c.new), "{}: back again", c.name);
        let listed = page.entries.first().is_some_and(|e| e.key == c.name.as_bytes());
        assert_eq!(listed, fourth.is_some(), "{}: listed or not", c.name);
        // The key can be changed.
        rig.put(&c.name, b"next").await.unwrap();
        assert_eq!(rig.get(&c.name).await.unwrap().unwrap(), b"next");
    }
    assert!(newer > 0 && newer < cases.len());
    rig.close().await;
}

/// Every set of stages, and with enough of them every set of accepts.
fn splits(n: u32, needed: u32) -> Vec<(u64, u64)> {
    let mut all = Vec::new();
    for stages in 0..1u64 << n {
        if stages.count_ones() < needed {
            all.push((stages, u64::MAX));
        } else {
            all.extend((0..1u64 << n).map(|accepts| (stages, accepts)));
        }
    }
    all
}

fn accepts(n: u32) -> Vec<(u64, u64)> {
    (0..1u64 << n).map(|a| (u64::MAX, a)).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_and_two_in_two_steps() {
    all_splits(2, 2, false, 3000, &splits(4, 3)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_and_two_in_one_step() {
    all_splits(2, 2, true, 3000, &accepts(4)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn four_and_two_in_two_steps() {
    all_splits(4, 2, false, 5000, &splits(6, 5)).await;
}

/// With 4+2 only narrow bodies go in one step.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn four_and_two_in_one_step() {
    all_splits(4, 2, true, 2000, &accepts(6)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_bodies() {
    all_splits(2, 2, true, 300_000, &accepts(4)).await;
    all_splits(4, 2, true, 600_000, &accepts(6).into_iter().step_by(5).collect::<Vec<_>>()).await;
}
