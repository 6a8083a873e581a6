//! Slow clients do not prevent others from getting memory.

use super::*;
use crate::MemoryLimits;
use crate::read::ObjectReader;

/// Far more than any of these tests takes, on any busy machine.
const LONG: Duration = Duration::from_secs(60);

async fn rig(tune: impl FnOnce(&mut MemoryLimits)) -> Rig {
    Rig::with(2, 2, 1, |o| {
        o.pool = BufferPool::new(16 << 20);
        o.memory.patience = LONG;
        tune(&mut o.memory);
    })
    .await
}

async fn open(rig: &Rig, name: &str) -> ObjectReader {
    let r = rig.sets.read_register(&rig.key(name)).await.unwrap().unwrap();
    let Body::Versions(v) = &r.record.body else { panic!("a body") };
    let part = &v[0].parts[0];
    rig.sets.read(&rig.key(name), &part.data, part.size, 0..part.size).await.unwrap()
}

/// Many clients take the first piece of an answer and then stop. Others can read, and the stopped clients
/// continue at their position with the right bytes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stalled_readers_do_not_block_others() {
    let rig = rig(|_| {}).await;
    let wanted = noise(1, 5 << 20);
    rig.put("wanted", &wanted).await.unwrap();
    let mut stuck = Vec::new();
    for _ in 0..30 {
        let mut reader = open(&rig, "wanted").await;
        let first =
            tokio::time::timeout(LONG, reader.next()).await.expect("it is its turn").unwrap().unwrap();
        stuck.push((reader, first));
    }
    let stats = rig.sets.memory();
    assert!(stats.reclaimed_reads > 10, "{stats:?}");
    assert!(stats.lent <= 2 << 20 && stats.reading <= 4 << 20, "{stats:?}");
    assert!(rig.sets.is_crowded());
    let pieces: Vec<usize> = stuck.iter().map(|(_, first)| first.len()).collect();
    assert!(pieces.iter().filter(|p| **p <= 32 << 10).count() > 15, "the later hold little: {pieces:?}");
    let got = tokio::time::timeout(LONG, rig.get("wanted")).await.expect("others read");
    assert!(got.unwrap().unwrap() == wanted);
    for (mut reader, first) in stuck {
        let mut all = first.to_vec();
        drop(first);
        while let Some(piece) = tokio::time::timeout(LONG, reader.next()).await.expect("it goes on") {
            all.extend_from_slice(&piece.unwrap());
        }
        assert!(all == wanted);
    }
    let stats = rig.sets.memory();
    assert_eq!((stats.lent, stats.reading, stats.refused_reads), (0, 0, 0));
    rig.close().await;
}

/// A wait for memory ends: readers that are not idle hold all of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn read_without_memory_is_refused() {
    let rig = rig(|l| l.patience = Duration::from_millis(50)).await;
    rig.put("wanted", &noise(1, 5 << 20)).await.unwrap();
    let all = rig.sets.inner.memory.readers.try_take(usize::MAX, 0).unwrap();
    let mut reader = open(&rig, "wanted").await;
    let refused = tokio::time::timeout(LONG, reader.next()).await.unwrap().unwrap();
    assert!(matches!(refused, Err(Error::Busy(_))), "{refused:?}");
    assert_eq!(rig.sets.memory().refused_reads, 1);
    drop(all);
    rig.close().await;
}

/// Writers that send little hold little. Small bodies and large ones of others succeed, and writers that were
/// too slow get an error.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn trickling_writers_do_not_block_others() {
    let rig = rig(|l| l.grace = Duration::from_millis(300)).await;
    let mut slow = Vec::new();
    for i in 0..120 {
        let mut w = rig.sets.write(&rig.key(&format!("slow{i}")), 8 << 20).await.unwrap();
        tokio::time::timeout(LONG, w.write(noise(i, 20_000))).await.expect("room for what was sent").unwrap();
        slow.push(w);
    }
    let stats = rig.sets.memory();
    assert!(stats.collecting + stats.writing <= 8 << 20, "{stats:?}");
    let body = noise(7, 5 << 20);
    for (name, body) in [("tiny", &body[..1]), ("small", &body[..100_000]), ("large", &body[..])] {
        tokio::time::timeout(LONG, rig.put(name, body)).await.expect("others write").unwrap();
        assert!(rig.get(name).await.unwrap().unwrap() == body);
    }
    // All of them continue. There is not enough memory for that, so the slowest fail.
    let going: Vec<_> = slow
        .into_iter()
        .map(|mut w| {
            tokio::spawn(async move {
                for _ in 0..3 {
                    w.write(noise(3, 20_000)).await?;
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
                Ok::<_, Error>(w)
            })
        })
        .collect();
    let mut lost = 0;
    for g in going {
        match tokio::time::timeout(LONG, g).await.expect("nobody waits for ever").unwrap() {
            Ok(_) => {}
            Err(Error::Busy(_)) => lost += 1,
            Err(e) => panic!("{e}"),
        }
    }
    assert!(lost > 0 && rig.sets.memory().evicted_writes > 0, "{lost} {:?}", rig.sets.memory());
    let stats = rig.sets.memory();
    assert_eq!((stats.collecting, stats.writing), (0, 0), "{stats:?}");
    rig.close().await;
}

/// Bytes that are collected in pieces while memory is short are stored correctly, whatever the sizes of the
/// pieces.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bodies_collected_in_pieces_are_complete() {
    let rig = rig(|_| {}).await;
    // So much memory is held that no writer gets a whole stripe at the beginning.
    let writers = &rig.sets.inner.memory.writers;
    let _most = writers.try_take(writers.total() / 8 * 5, 0).unwrap();
    for (i, step) in [1000, 16 << 10, 77_777, 300_000].into_iter().enumerate() {
        for size in [1, 20_000, 131_072, 700_001, (2 << 20) + 5] {
            let (name, body) = (format!("o{i}-{size}"), noise(size as u64, size));
            let key = rig.key(&name);
            let mut w = rig.sets.write(&key, size as u64).await.unwrap();
            for piece in body.chunks(step) {
                w.write(piece).await.unwrap();
                tokio::task::yield_now().await;
            }
            let staged = w.finish().await.unwrap();
            let data = staged.data();
            let refs = [&staged];
            let kept = rig.sets.update_register::<(), ()>(&key, &refs, |_| Decision::Write {
                body: super::body(size as u64, Some(data)),
                summary: summary(size as u64),
                moved: false,
                out: (),
            });
            assert!(kept.await.is_ok());
            assert!(rig.get(&name).await.unwrap().unwrap() == body, "{size} bytes by {step}");
        }
    }
    rig.close().await;
}

/// Decoders of compressed bodies share their own part of the memory.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn decoders_do_not_delay_bodies() {
    let rig = rig(|m| m.patience = Duration::from_millis(50)).await;
    let all = rig.sets.reserve_decoder_memory(1 << 30).await.expect("more than there is counts as all");
    assert!(matches!(rig.sets.reserve_decoder_memory(1).await, Err(Error::Busy(_))));
    assert_eq!(rig.sets.memory().refused_writes, 1);
    let body = noise(2, 3 << 20);
    rig.put("k", &body).await.unwrap();
    drop(all);
    let (one, other) =
        (rig.sets.reserve_decoder_memory(1 << 20).await, rig.sets.reserve_decoder_memory(1 << 20).await);
    assert!(one.is_ok() && other.is_ok());
    rig.close().await;
}
