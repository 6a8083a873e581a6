//! Searches in one step and in many, over files that are written and rotated meanwhile.

use std::collections::BTreeSet;

use super::*;
use crate::{ApiLayer, Audit, Config, FileConfig, Record, key_from};

const START: i64 = 1_700_000_000_000;

/// Request `n` came a second after the one before it, and took 2 s if `n` is even.
fn record(n: u64) -> Record {
    let time = START + n as i64 * 1000;
    let mut r = Record::new(time, &format!("ID{n}"), ApiLayer::S3, [10, 0, 0, (n % 4) as u8].into());
    r.operation = if n.is_multiple_of(3) { "PutObject" } else { "GetObject" };
    r.bucket = format!("b{}", n % 5);
    r.key = format!("folder/{n}");
    r.status = if n.is_multiple_of(7) { 403 } else { 200 };
    r.micros = if n.is_multiple_of(2) { 2_000_000 } else { 10 };
    r.user_agent = "x".repeat(100);
    r
}

async fn log(path: &Path, numbers: std::ops::Range<u64>) {
    let file = Some(FileConfig { path: path.to_owned(), max_size: 1 });
    let config = Config { key: key_from("s"), file, ..Config::default() };
    let audit = Audit::open(config).unwrap();
    write(&audit, numbers).await;
    audit.close();
}

async fn write(audit: &Audit, numbers: std::ops::Range<u64>) {
    for n in numbers {
        let permit = audit.reserve().await.unwrap();
        match n % 50 {
            // Files are rotated after a write.
            49 => audit.note_and_wait(permit, record(n)).await.unwrap(),
            _ => audit.note(permit, record(n)),
        }
    }
}

fn bounds(records: usize) -> Bounds {
    Bounds { records, bytes: 1 << 30, read: 1 << 30, time: Duration::from_secs(600) }
}

fn ids(found: &[Found]) -> Vec<String> {
    found.iter().map(|f| f.record["request_id"].as_str().unwrap().to_owned()).collect()
}

/// All that is found in steps with these bounds, and the number of steps.
fn in_steps(path: &Path, filter: &Filter, bounds: &Bounds) -> (Vec<String>, usize) {
    let (mut all, mut from, mut steps) = (Vec::new(), None, 0);
    loop {
        let hits = search(path, filter, from, bounds).unwrap();
        assert!(hits.found.len() <= bounds.records && !hits.refusals_only);
        all.extend(ids(&hits.found));
        steps += 1;
        if hits.next == Position::END {
            return (all, steps);
        }
        assert_ne!(from, Some(hits.next), "each step gets further");
        from = Some(hits.next);
    }
}

#[tokio::test]
async fn steps_of_any_size_find_each_record_once_newest_first() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.log");
    log(&path, 0..3000).await;
    assert!(rotated(&path).len() > 3, "several files");
    let expected = |wanted: &dyn Fn(u64) -> bool| {
        (0..3000).rev().filter(|n| wanted(*n)).map(|n| format!("ID{n}")).collect::<Vec<_>>()
    };
    assert_eq!(in_steps(&path, &Filter::default(), &bounds(5000)), (expected(&|_| true), 1));
    for size in [1000, 999, 7] {
        assert_eq!(in_steps(&path, &Filter::default(), &bounds(size)).0, expected(&|_| true), "{size}");
    }
    // A bound on what is read, in bytes or as time: many steps find nothing.
    let short = Bounds { read: 1, ..bounds(10) };
    let filter = Filter { request_id: "ID5".into(), ..Filter::default() };
    assert_eq!(in_steps(&path, &filter, &short).0, ["ID5"]);
    let hasty = Bounds { time: Duration::ZERO, ..bounds(5000) };
    let (found, steps) = in_steps(&path, &Filter::default(), &hasty);
    assert_eq!(found, expected(&|_| true));
    assert!(steps > 5, "{steps}");
    let fat = Bounds { bytes: 5000, ..bounds(5000) };
    assert_eq!(in_steps(&path, &Filter::default(), &fat).0, expected(&|_| true));

    let filter = Filter {
        bucket: "b2".into(),
        status: Some((400, 499)),
        prefix: "folder/".into(),
        ..Filter::default()
    };
    assert_eq!(in_steps(&path, &filter, &bounds(3)).0, expected(&|n| n % 5 == 2 && n % 7 == 0));
    let filter = Filter {
        since_ms: Some(START + 100_000),
        until_ms: Some(START + 200_000),
        operation: "PutObject".into(),
        ..Filter::default()
    };
    let in_range = |n: u64| (100..200).contains(&n) && n.is_multiple_of(3);
    assert_eq!(in_steps(&path, &filter, &bounds(9)).0, expected(&in_range));
}

#[tokio::test]
async fn a_search_of_recent_records_does_not_read_the_old_ones() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.log");
    log(&path, 0..3000).await;
    let filter = Filter { since_ms: Some(START + 2_900_000), ..Filter::default() };
    let hits = search(&path, &filter, None, &bounds(5000)).unwrap();
    assert_eq!((hits.found.len(), hits.next), (100, Position::END));
    let reached = hits.reached_ms.unwrap();
    let earliest = START + 2_900_000 - DISORDER;
    assert!(reached < earliest && reached > earliest - 10_000, "{reached}: it stopped there");
    // A request that came before and ended within the time is not in it; one that began within is.
    assert_eq!(ids(&hits.found).last().unwrap(), "ID2900");
    assert_eq!(hits.found[1].ended_ms, START + 2_998_000 + 2000);
}

#[tokio::test]
async fn what_is_written_and_rotated_during_a_search_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.log");
    log(&path, 0..100).await;
    let first = search(&path, &Filter::default(), None, &bounds(30)).unwrap();
    log(&path, 100..1000).await;
    assert!(!rotated(&path).is_empty());
    // From the first record found, that one is found again.
    let head = &first.found[10];
    let again = Position { line: head.at.line + 1, offset: head.end };
    let again = search(&path, &Filter::default(), Some(again), &bounds(1)).unwrap();
    assert_eq!(ids(&again.found), ids(&first.found[10..11]));
    let second = search(&path, &Filter::default(), Some(first.next), &bounds(30)).unwrap();
    // The offset is wrong, as in a file that was copied back from elsewhere.
    let odd = Position { offset: 17, ..second.next };
    let third = search(&path, &Filter::default(), Some(odd), &bounds(1000)).unwrap();
    let all: Vec<String> = [first, second, third].iter().flat_map(|hits| ids(&hits.found)).collect();
    assert_eq!(all, (0..100).rev().map(|n| format!("ID{n}")).collect::<Vec<_>>());
    // An old file was removed.
    let (_, oldest) = rotated(&path).pop().unwrap();
    std::fs::remove_file(oldest).unwrap();
    let (left, _) = in_steps(&path, &Filter::default(), &bounds(100));
    assert!(left.len() < 1000 && left[0] == "ID999");
    // The file was moved away: what was rotated is still found.
    std::fs::rename(&path, folder.path().join("elsewhere")).unwrap();
    assert!(!in_steps(&path, &Filter::default(), &bounds(100)).0.is_empty());
}

#[tokio::test]
async fn the_open_log_is_searched_and_without_a_file_the_last_refusals_are() {
    let folder = tempfile::tempdir().unwrap();
    let file = Some(FileConfig { path: folder.path().join("audit.log"), max_size: 1 << 20 });
    let audit = Audit::open(Config { key: key_from("s"), file, ..Config::default() }).unwrap();
    write(&audit, 0..50).await;
    audit.note_and_wait(audit.reserve().await.unwrap(), record(50)).await.unwrap();
    let hits = audit.search(Filter::default(), None, bounds(1000)).await.unwrap();
    assert_eq!((hits.found.len(), hits.refusals_only), (51, false));
    assert_eq!(hits.found[0].record["key"], "folder/50");
    audit.close();

    let off = Audit::off();
    for n in 0..5000 {
        off.refused(&record(n));
    }
    let filter = Filter { source: crate::parse_network("10.0.0.2"), ..Filter::default() };
    let (mut found, mut from) = (Vec::new(), None);
    loop {
        let hits = off.search(filter.clone(), from, bounds(100)).await.unwrap();
        assert!(hits.refusals_only);
        found.extend(ids(&hits.found));
        if hits.next == Position::END {
            break;
        }
        // New ones are not found by later steps.
        off.refused(&record(2));
        from = Some(hits.next);
    }
    // The last 4,096 are kept; a dozen of them made place for the new ones.
    assert_eq!(found[..2], ["ID4998", "ID4994"]);
    assert_eq!(found.iter().collect::<BTreeSet<_>>().len(), found.len());
    assert!(found.len() > 1000, "{}", found.len());
}

#[test]
fn times_are_read_and_written() {
    assert_eq!(parse_moment("2023-11-14T22:13:20.123Z"), Some(START + 123));
    assert_eq!(parse_moment("2023-11-14T23:13:20+01:00"), Some(START));
    assert_eq!(parse_moment("1970-01-02"), Some(86_400_000));
    assert!(["", "yesterday", "2023-11-14 22:13"].iter().all(|text| parse_moment(text).is_none()));
    assert_eq!(moment_text(START + 123), "2023-11-14T22:13:20.123Z");
    let line = br#"{"seq":7,"time":"2023-11-14T22:13:20.123Z","key":"\"micros\":9","micros":1500,"hash":""}"#;
    let time = time_of(line).unwrap();
    assert_eq!(ended(time, line), Some(START + 124));
    let cut = &line[..line.iter().position(|b| *b == b'Z').unwrap() + 1];
    assert_eq!((time_of(cut), time_of(b"")), (None, None));
    assert_eq!(time_of(br#"{"seq":8,"kind":"checkpoint","time":"2023-11-14T22:13:20.123Z"}"#), None);
}
