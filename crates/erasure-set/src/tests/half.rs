//! What half of the drives may answer (docs/protocol.md 2.13): 2 of 4, the others away.

use super::*;
use crate::EpochSource;
use futures::FutureExt;
use std::sync::atomic::{AtomicU32, Ordering};

/// Returns the newest epoch.
fn source(epoch: &Arc<AtomicU32>) -> EpochSource {
    let epoch = epoch.clone();
    Arc::new(move || {
        let now = epoch.load(Ordering::SeqCst);
        async move { if now == 0 { Err("the control store is away".into()) } else { Ok(now) } }.boxed()
    })
}

async fn listed(rig: &Rig) -> Result<Vec<String>> {
    let page = rig.sets.list(Space::Object, BUCKET, b"", b"", 100).await?;
    Ok(page.entries.iter().map(|e| String::from_utf8(e.key.to_vec()).unwrap()).collect())
}

/// The other half may have been declared dead and replaced: then this half cannot answer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn half_of_drives_answer_only_for_newest_layout() {
    let newest = Arc::new(AtomicU32::new(1));
    let rig = Rig::with(2, 2, 1, |o| {
        o.sole = false;
        o.epoch = Some(source(&newest));
    })
    .await;
    rig.put("x", b"known").await.unwrap();
    basic::quiet(&rig.sets).await;
    for slot in [2, 3] {
        rig.unplug(slot, 0).await;
    }
    assert_eq!(rig.get("x").await.unwrap().unwrap(), b"known");
    assert_eq!(rig.get("y").await.unwrap(), None);
    assert_eq!(listed(&rig).await.unwrap(), ["x"]);
    // 0: the control store does not answer.
    for epoch in [2, 0] {
        newest.store(epoch, Ordering::SeqCst);
        for name in ["x", "y"] {
            let got = rig.get(name).await;
            assert!(matches!(got, Err(Error::Unavailable(_))), "newest {epoch}, {name}: {got:?}");
        }
        let got = listed(&rig).await;
        assert!(matches!(got, Err(Error::Unavailable(_))), "newest {epoch}: {got:?}");
    }
    // With a majority, the fence of the drives is enough: the control store is not asked.
    rig.plug(2, 0).await;
    assert_eq!(rig.get("x").await.unwrap().unwrap(), b"known");
    assert_eq!(listed(&rig).await.unwrap(), ["x"]);
    rig.close().await;
}

/// Two drives agree on a record that was never chosen: it is neither read nor listed, and the key is not
/// absent.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn half_of_drives_without_hint_prove_nothing() {
    let rig = Rig::with(2, 2, 1, |o| o.sole = false).await;
    rig.put("before", b"").await.unwrap();
    basic::quiet(&rig.sets).await;
    rig.sets.inner.gate.set(Some((u64::MAX, 0b0011)));
    assert!(matches!(rig.put("x", b"").await, Err(Error::Unknown(_))));
    rig.sets.inner.gate.set(None);
    for slot in [0, 1] {
        let drive = rig.sets.drives().into_iter().find(|d| d.label().drive == drive_id(slot, 0)).unwrap();
        while drive.read(&rig.key("x"), false, u32::MAX).await.unwrap().accepted.is_none() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
    for slot in [2, 3] {
        rig.unplug(slot, 0).await;
    }
    let got = rig.sets.read_register(&rig.key("x")).await;
    assert!(matches!(got, Err(Error::Unavailable(_))), "{got:?}");
    let got = listed(&rig).await;
    assert!(matches!(got, Err(Error::Unavailable(_))), "{got:?}");
    assert!(rig.sets.read_register(&rig.key("before")).await.unwrap().is_some());
    // A third drive decides it.
    rig.plug(2, 0).await;
    assert!(rig.sets.read_register(&rig.key("x")).await.unwrap().is_some());
    assert_eq!(listed(&rig).await.unwrap(), ["before", "x"]);
    rig.close().await;
}

/// A drive that was fenced for a newer layout does not help readers of the old one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fenced_drive_refuses_readers_of_old_layout() {
    let rig = Rig::with(2, 2, 1, |o| o.sole = false).await;
    rig.put("x", b"old").await.unwrap();
    basic::quiet(&rig.sets).await;
    for d in rig.sets.drives().iter().take(2) {
        d.fence_epoch(GroupId::default(), 2).await.unwrap();
        let got = d.read(&rig.key("x"), false, 1).await;
        assert!(matches!(got, Err(ashlar_drive::Error::NewerLayout(2))), "{got:?}");
        assert!(d.read(&rig.key("x"), false, 2).await.unwrap().accepted.is_some());
        let got = d.scan(b"", &[0xff; 8], 10, 1).await;
        assert!(matches!(got, Err(ashlar_drive::Error::NewerLayout(2))), "{got:?}");
        let got = d.range_digest(b"", &[0xff; 8], 1).await;
        assert!(matches!(got, Err(ashlar_drive::Error::NewerLayout(2))), "{got:?}");
    }
    // A reader with the old layout has half of the drives, never a majority of the old layout.
    let view = rig.sets.inner.view(rig.key("x").group()).unwrap();
    let mut answers = 0;
    for (_, m) in view.members() {
        answers += u32::from(m.read(&rig.key("x"), true, view.epoch).await.is_ok());
    }
    assert_eq!(answers, 2);
    let layout = in_epoch(&rig.sets.layout(), 2);
    rig.sets.set_layout(layout).unwrap();
    assert_eq!(rig.get("x").await.unwrap().unwrap(), b"old");
    rig.close().await;
}
