//! Writing, reading, changing, deleting, listing on healthy drives.

use super::*;
use crate::stripe_len;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bodies_of_all_sizes_round_trip() {
    for (k, m) in [(2, 2), (4, 2), (1, 1), (3, 0)] {
        let rig = Rig::new(k, m).await;
        let stripe = stripe_len(k) as usize;
        let inline = usize::from(k) * (128 << 10);
        let sizes = [1, 2, 1023, 1024, 4096, 65_537, inline - 1, inline, inline + 1];
        let sizes = sizes.into_iter().chain([stripe * 2, stripe * 2 + 1, stripe * 3 - 5]);
        for (i, size) in sizes.enumerate() {
            let want = noise(i as u64 + 1, size);
            let name = format!("o{size}");
            rig.put(&name, &want).await.unwrap();
            assert!(rig.get(&name).await.unwrap().unwrap() == want, "{k}+{m}: {size} bytes");
        }
        rig.put("empty", b"").await.unwrap();
        assert_eq!(rig.get("empty").await.unwrap(), Some(vec![]));
        assert_eq!(rig.get("nothing").await.unwrap(), None);
        rig.close().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ranges_are_exact() {
    let rig = Rig::new(2, 2).await;
    let mut dice = Dice::new(11);
    for size in [5000usize, 1_300_000] {
        let want = noise(3, size);
        let reg = rig.put("r", &want).await.unwrap();
        let part = reg.record.data().next().unwrap().clone();
        let key = rig.key("r");
        let mut ranges = vec![(0, 0), (0, 1), (size - 1, size), (0, size), (size, size)];
        for _ in 0..40 {
            let a = dice.roll(size as u64) as usize;
            ranges.push((a, a + dice.roll((size - a) as u64) as usize + 1));
        }
        for (a, b) in ranges {
            let mut r = rig.sets.read(&key, &part.data, part.size, a as u64..b as u64).await.unwrap();
            let mut got = Vec::new();
            while let Some(x) = r.next().await {
                got.extend_from_slice(&x.unwrap());
            }
            assert!(got == want[a..b], "{a}..{b} of {size}");
            assert_eq!(r.damage(), 0);
        }
        let outside = rig.sets.read(&key, &part.data, part.size, 0..part.size + 1).await;
        assert!(matches!(outside, Err(Error::Invalid(_))));
    }
    rig.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn overwrites_and_deletes_release_space() {
    let rig = Rig::new(2, 2).await;
    for round in 0..5u64 {
        for size in [3000usize, 700_000] {
            let name = format!("x{size}");
            rig.put(&name, &noise(round, size)).await.unwrap();
            // A shard that arrives after its body was replaced is removed by the orphan collector.
            quiet(&rig.sets).await;
            assert!(rig.get(&name).await.unwrap().unwrap() == noise(round, size));
        }
    }
    assert_eq!(census(&rig).await, 2 * 4, "one shard per drive and body is left");
    for name in ["x3000", "x700000"] {
        rig.delete(name).await.unwrap();
        assert_eq!(rig.get(name).await.unwrap(), None);
        let r = rig.sets.read_register(&rig.key(name)).await.unwrap().unwrap();
        assert_eq!(r.record.body, Body::Tombstone);
    }
    quiet(&rig.sets).await;
    rig.sets.heal_queued().await;
    assert_eq!(rig.sets.inner.purge_tombstones(Duration::ZERO), 0);
    assert_eq!(census(&rig).await, 0);
    for name in ["x3000", "x700000"] {
        assert!(rig.sets.read_register(&rig.key(name)).await.unwrap().is_none(), "purged");
    }
    // A key that was purged can be created again.
    rig.put("x3000", b"again").await.unwrap();
    assert_eq!(rig.get("x3000").await.unwrap().unwrap(), b"again");
    rig.close().await;
}

/// Waits for the drives that had not answered when their writes were acknowledged.
pub(crate) async fn quiet(sets: &Sets) {
    let began = std::time::Instant::now();
    while sets.inner.sweep_tails() > 0 {
        assert!(began.elapsed() < Duration::from_secs(20), "drives that never answer");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Shards on all drives, after everything lazy has been written.
pub(crate) async fn census(rig: &Rig) -> usize {
    quiet(&rig.sets).await;
    let mut count = 0;
    for d in rig.sets.drives() {
        // Entries of the index are dropped in the next round of the drive's upkeep.
        let of = d.clone();
        tokio::task::spawn_blocking(move || of.upkeep()).await.unwrap().unwrap();
        d.flush().await.unwrap();
        count += d.shards(None, 100_000).await.unwrap().len();
    }
    count
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn decisions_see_the_chosen_state() {
    let rig = Rig::new(2, 2).await;
    assert!(put_if(&rig.sets, "c", b"one", |r| r.is_none()).await.unwrap().is_some());
    assert!(put_if(&rig.sets, "c", b"two", |r| r.is_none()).await.unwrap().is_none());
    assert_eq!(rig.get("c").await.unwrap().unwrap(), b"one");
    let r1 = rig.sets.read_register(&rig.key("c")).await.unwrap().unwrap();
    let r2 = put(&rig.sets, "c", b"three").await.unwrap();
    assert_eq!((r1.record.seq, r2.record.seq), (1, 2));
    assert!(r2.ballot > r1.ballot);
    // Data staged for an update that was refused is dropped.
    assert_eq!(census(&rig).await, 4);
    rig.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn body_has_announced_length() {
    let rig = Rig::new(2, 2).await;
    let key = rig.key("short");
    for size in [1000u64, 900_000] {
        let mut w = rig.sets.write(&key, size).await.unwrap();
        w.write(vec![0; size as usize - 1]).await.unwrap();
        assert!(matches!(w.finish().await, Err(Error::Invalid(_))));
        let mut w = rig.sets.write(&key, size).await.unwrap();
        assert!(matches!(w.write(vec![0; size as usize + 1]).await, Err(Error::Invalid(_))));
    }
    assert!(matches!(rig.sets.write(&key, 0).await, Err(Error::Invalid(_))));
    assert_eq!(census(&rig).await, 0, "abandoned bodies leave nothing");
    rig.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn listings_are_ordered_and_complete() {
    for groups in [1, 3] {
        let rig = Rig::with(2, 2, groups, |_| {}).await;
        let mut want: Vec<String> = (0..300).map(|i| format!("k/{:03}", i * 7 % 300)).collect();
        want.extend(["a", "a/b", "a/b/c", "k", "l", "z\u{7f}"].map(String::from));
        for (i, name) in want.iter().enumerate() {
            rig.put(name, &vec![1; i % 3]).await.unwrap();
        }
        rig.put("k/gone", b"x").await.unwrap();
        rig.delete("k/gone").await.unwrap();
        want.sort();
        for (prefix, limit) in [("", 1000), ("k/", 7), ("k/", 300), ("a", 2), ("nothing", 5)] {
            let all: Vec<&String> = want.iter().filter(|n| n.starts_with(prefix)).collect();
            let mut got = Vec::new();
            let mut from = Vec::new();
            loop {
                let page = rig.sets.list(Space::Object, BUCKET, prefix.as_bytes(), &from, limit);
                let page = page.await.unwrap();
                assert!(page.entries.len() <= limit);
                assert!(page.entries.iter().all(|e| e.summary.len() == 8));
                got.extend(page.entries.iter().map(|e| String::from_utf8(e.key.to_vec()).unwrap()));
                if !page.truncated {
                    break;
                }
                from = page.entries.last().unwrap().key.to_vec();
                from.push(0);
            }
            assert_eq!(got, all.into_iter().cloned().collect::<Vec<_>>(), "{prefix:?} by {limit}");
        }
        // The digests of drives that agree are sufficient.
        let view = rig.sets.inner.view(GroupId::default()).unwrap();
        let (from, to) = crate::list::group_range(GroupId::default());
        let slots = crate::list::readers(&view).unwrap();
        let stretch = rig.sets.inner.stretch(&view, slots, &from, &to, 10_000).await.unwrap();
        assert!(stretch.keys.len() > 64);
        let entries = rig.sets.inner.scan(&view, 0, &from, &to, 10_000).await.unwrap();
        let all = (slots, slots.len());
        assert!(rig.sets.inner.compare(&view, all, 0, &from, &to, &entries).await.unwrap().1);
        assert!(!rig.sets.inner.compare(&view, all, 0, &from, &to, &entries[1..]).await.unwrap().1);
        let other = rig.sets.list(Space::Object, BucketId([8; 16]), b"", b"", 10).await.unwrap();
        assert_eq!(other, crate::Page::default());
        rig.close().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn restart_keeps_everything() {
    let mut rig = Rig::new(2, 2).await;
    for i in 0..50u64 {
        rig.put(&format!("n{i}"), &noise(i, 100 + 20_000 * (i as usize % 40))).await.unwrap();
    }
    rig.restart(|_| 0).await;
    for i in 0..50u64 {
        let got = rig.get(&format!("n{i}")).await.unwrap().unwrap();
        assert!(got == noise(i, 100 + 20_000 * (i as usize % 40)), "n{i}");
        // The first update after the restart reaches the floors.
        rig.put(&format!("n{i}"), b"new").await.unwrap();
    }
    rig.close().await;
}

#[test]
fn health_of_nothing() {
    let layout = Layout {
        epoch: 1,
        code: Code { k: 2, m: 2 },
        groups: vec![Group {
            id: GroupId::default(),
            epoch: 1,
            slots: (0..4).map(|s| drive_id(s, 0)).collect(),
        }],
    };
    let sets = Sets::new(layout, vec![], Options::new(BufferPool::new(8 << 20))).unwrap();
    let h = &sets.health()[0];
    assert_eq!((h.voters, h.readable, h.writable), (0, false, false));
    assert!(matches!(sets.check_room(GroupId::default(), 1), Err(Error::Unavailable(_))));
}
