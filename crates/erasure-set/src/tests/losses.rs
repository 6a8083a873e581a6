//! T7: every pattern of lost drives up to m is read; more is an error, never wrong bytes.

use super::*;

async fn all_patterns(k: u8, m: u8, sizes: &[usize]) -> usize {
    let rig = Rig::new(k, m).await;
    let n = k + m;
    for (i, size) in sizes.iter().enumerate() {
        rig.put(&format!("o{i}"), &noise(i as u64, *size)).await.unwrap();
    }
    // Half of the drives serve a record only if one has the hint that it is chosen; hints are sent after the answer.
    basic::quiet(&rig.sets).await;
    let drives: Vec<Drive> = rig.sets.drives();
    let by_slot = |s: u8| drives.iter().find(|d| d.label().drive == drive_id(s, 0)).unwrap().clone();
    let mut patterns = 0;
    for lost in 0u32..1 << n {
        let count = lost.count_ones();
        if count > u32::from(m) + u32::from(n <= 8) {
            continue;
        }
        for s in (0..n).filter(|s| lost >> s & 1 == 1) {
            rig.sets.detach(drive_id(s, 0));
        }
        for (i, size) in sizes.iter().enumerate() {
            let got = rig.get(&format!("o{i}")).await;
            if count <= u32::from(m) {
                assert!(got.unwrap().unwrap() == noise(i as u64, *size), "{k}+{m} lost {lost:b}");
            } else {
                match got {
                    Ok(Some(b)) => assert!(b == noise(i as u64, *size), "narrow bodies survive more"),
                    Err(Error::Unavailable(_)) => {}
                    other => panic!("{k}+{m} lost {lost:b}: {other:?}"),
                }
            }
        }
        patterns += usize::from(count <= u32::from(m) && count > 0);
        for s in (0..n).filter(|s| lost >> s & 1 == 1) {
            rig.sets.attach(by_slot(s));
        }
    }
    rig.close().await;
    patterns
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_and_two() {
    assert_eq!(all_patterns(2, 2, &[10, 5000, 1_100_000]).await, 4 + 6);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn four_and_two() {
    assert_eq!(all_patterns(4, 2, &[10, 50_000, 2_200_000]).await, 6 + 15);
}

/// 16 + 120 + 560 + 1820 patterns, at the level of this crate, with a small body of full width and
/// a tiny one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twelve_and_four() {
    assert_eq!(all_patterns(12, 4, &[30_000, 100]).await + 1, 2517);
}
