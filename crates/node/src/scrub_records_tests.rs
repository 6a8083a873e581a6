//! Records of full scrubs in a control store in memory.

use super::*;
use ashlar_cluster::{Embedded, MemoryMedium};
use ashlar_format::DeploymentId;

const GROUP: GroupId = GroupId::new(0, 7);

async fn store() -> Control {
    let deployment = DeploymentId([7; 16]);
    Embedded::create(deployment, MemoryMedium::one_drive(), Vec::new()).await.unwrap().control()
}

fn pass(began_ms: i64, ended_ms: Option<i64>) -> ScrubPass {
    ScrubPass {
        began_ms,
        ended_ms,
        drives: vec![DriveId([1; 16]), DriveId([2; 16])],
        position: if ended_ms.is_some() { Vec::new() } else { b"position".to_vec() },
        marks: vec![ScrubMark { position: b"a mark".to_vec(), at_ms: began_ms + 5, whole: true }],
        marked_ms: began_ms + 5,
        interval_ms: 60_000,
        whole: false,
        counts: ScrubCounts {
            took_ms: 1,
            registers: 2,
            damaged: 3,
            records: 4,
            shards: 5,
            missing: 6,
            lost: 7,
            bytes: 8,
        },
    }
}

#[test]
fn golden() {
    let (last, current) = (Some(pass(1000, Some(2000))), Some(pass(3000, None)));
    let record = ScrubRecord { seen_ms: 500, last, current };
    let text = r#"{"format":1,"seen_ms":500,"last":{"began_ms":1000,"ended_ms":2000,"drives":["01010101010101010101010101010101","02020202020202020202020202020202"],"marks":[["YSBtYXJr",1005,true]],"marked_ms":1005,"interval_ms":60000,"whole":false,"counts":{"took_ms":1,"registers":2,"damaged":3,"records":4,"shards":5,"missing":6,"lost":7,"bytes":8}},"current":{"began_ms":3000,"drives":["01010101010101010101010101010101","02020202020202020202020202020202"],"position":"cG9zaXRpb24=","marks":[["YSBtYXJr",3005,true]],"marked_ms":3005,"interval_ms":60000,"whole":false,"counts":{"took_ms":1,"registers":2,"damaged":3,"records":4,"shards":5,"missing":6,"lost":7,"bytes":8}}}"#;
    assert_eq!(encode(&record), text);
    assert_eq!(decode(text.as_bytes()), Some(record));
    assert_eq!(decode(br#"{"format":1,"seen_ms":500}"#).map(|r| r.seen_ms), Some(500));
    for bad in [
        "",
        "{}",
        r#"{"format":2,"seen_ms":500}"#,
        &text.replace("YSBtYXJr", "?"),
        &text.replace("0101", "x"),
    ] {
        assert_eq!(decode(bad.as_bytes()), None, "{bad}");
    }
}

#[test]
fn record_is_bounded() {
    let mark = |i: usize| ScrubMark { position: vec![i as u8; MARK_BYTES], at_ms: i64::MAX, whole: false };
    let full = ScrubPass {
        drives: vec![DriveId([1; 16]); 64],
        position: vec![255; RegisterKey::MAX + 1],
        marks: (0..MARKS).map(mark).collect(),
        ..pass(i64::MAX, Some(i64::MAX))
    };
    let record = ScrubRecord { seen_ms: 1, last: Some(full.clone()), current: Some(full) };
    let bytes = encode(&record);
    assert!(bytes.len() < 24 << 10, "{} bytes", bytes.len());
    assert_eq!(decode(&bytes), Some(record));
}

/// Two nodes write: the later pass of each kind stays, whoever writes last.
#[tokio::test]
async fn later_pass_stays() {
    let control = store().await;
    let (one, two) = (StoredScrubs::new(control.clone()), StoredScrubs::new(control.clone()));
    assert_eq!(one.read(GROUP), None);
    let old = ScrubRecord { seen_ms: 500, last: Some(pass(1000, Some(2000))), current: None };
    let new = ScrubRecord { seen_ms: 600, last: Some(pass(5000, Some(6000))), current: None };
    assert_eq!(two.write(GROUP, new.clone()).await, Ok(new.clone()));
    let merged = ScrubRecord { seen_ms: 500, ..new };
    assert_eq!(one.write(GROUP, old.clone()).await, Ok(merged.clone()));
    assert_eq!(one.read(GROUP).as_deref(), Some(&merged));
    assert_eq!(two.read(GROUP).as_deref(), Some(&merged));
    // What changes nothing is not written.
    let revision = control.revision();
    assert_eq!(two.write(GROUP, old).await, Ok(merged.clone()));
    assert_eq!(control.revision(), revision);
    // It is decoded once.
    assert!(Arc::ptr_eq(&one.read(GROUP).unwrap(), &one.read(GROUP).unwrap()));
    // A value of another format counts as absent, and is replaced.
    let mut update = Update::new();
    update.set(&control.read("scrub/7"), "{\"format\":9}");
    control.update(update).await.unwrap();
    assert_eq!(one.read(GROUP), None);
    one.write(GROUP, merged.clone()).await.unwrap();
    assert_eq!(two.read(GROUP).as_deref(), Some(&merged));
}

/// A store that takes no change is an error, not a wait.
#[tokio::test]
async fn closed_store_is_an_error() {
    let control = store().await;
    control.close().await;
    let record = ScrubRecord { seen_ms: 500, ..ScrubRecord::default() };
    StoredScrubs::new(control).write(GROUP, record).await.unwrap_err();
}
