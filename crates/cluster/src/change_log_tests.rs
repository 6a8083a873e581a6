//! The log of changes: its bytes, what a torn or damaged one still holds, and which changes a drive gets that is behind.

use super::*;

fn change(from: u64, keys: &[(&str, Option<&str>)]) -> LoggedChange {
    let keys = keys.iter().map(|(k, v)| ((*k).to_owned(), v.map(|v| Bytes::copy_from_slice(v.as_bytes()))));
    LoggedChange { term: 2, from, revision: from + 1, keys: keys.collect() }
}

/// A copy as its bytes, its content at revision 9, and a log of three records behind it.
fn sample() -> (Vec<u8>, Snapshot, Vec<u8>) {
    let copy = [[1; 40], [9; 40]].concat();
    let snapshot = Snapshot { term: 2, revision: 9, ..Snapshot::default() };
    let (mut end, mut log) = (LogEnd::behind(&copy), Vec::new());
    let records = [
        vec![change(9, &[("a", Some("1"))])],
        vec![change(10, &[("b", Some("2")), ("c", Some("3"))]), change(11, &[("a", None)])],
        vec![change(12, &[("d", Some("4"))])],
    ];
    for changes in records {
        let changes: Vec<_> = changes.into_iter().map(Arc::new).collect();
        let (bytes, next) = end.record(&changes).unwrap();
        assert_eq!((end.at() as usize, bytes.len() % BLOCK), (log.len(), 0));
        log.extend(bytes);
        end = next;
    }
    (copy, snapshot, log)
}

fn keys(s: &Snapshot) -> String {
    s.entries.iter().map(|(k, v)| format!("{k}{}", v.revision)).collect::<Vec<_>>().join(" ")
}

#[test]
fn golden_log_record() {
    let (_, _, log) = sample();
    let used = log.iter().take(BLOCK).rposition(|b| *b != 0).unwrap() + 1;
    let hex: String = log[..used].iter().map(|b| format!("{b:02x}")).collect();
    assert_eq!(hex, include_str!("../tests/control-log-1.hex").trim());
}

#[test]
fn log_is_applied_in_order() {
    let (copy, mut snapshot, log) = sample();
    replay(&copy, &mut snapshot, &log).unwrap();
    assert_eq!((snapshot.position(), keys(&snapshot)), ((2, 13), "b11 c11 d13".to_owned()));
}

/// Wherever a write is torn, and whichever bit is wrong: what comes before it is there, and nothing behind it.
#[test]
fn damaged_log_ends_before_the_damage() {
    let (copy, first, log) = sample();
    let revision = |log: &[u8]| {
        let mut snapshot = first.clone();
        replay(&copy, &mut snapshot, log).unwrap();
        snapshot.revision
    };
    let complete = |bytes: usize| [9, 10, 12, 13][bytes / BLOCK];
    let used: Vec<usize> =
        (0..3).map(|i| log[i * BLOCK..][..BLOCK].iter().rposition(|b| *b != 0).unwrap() + 1).collect();
    for cut in 0..log.len() {
        // The padding of a record means nothing.
        let whole = cut / BLOCK + usize::from(cut % BLOCK >= used[cut / BLOCK]);
        assert_eq!(revision(&log[..cut]), complete(whole * BLOCK), "cut at {cut}");
    }
    for (record, used) in used.iter().enumerate() {
        for bit in 0..used * 8 {
            let mut bad = log.clone();
            bad[record * BLOCK + bit / 8] ^= 1 << (bit % 8);
            assert_eq!(revision(&bad), complete(record * BLOCK), "record {record} bit {bit}");
        }
    }
    let mut swapped = log.clone();
    swapped.copy_within(2 * BLOCK.., BLOCK);
    assert_eq!(revision(&swapped), 10, "a record in another place");
}

#[test]
fn log_of_another_copy_is_not_applied() {
    let (mut copy, mut snapshot, log) = sample();
    *copy.last_mut().unwrap() ^= 1;
    replay(&copy, &mut snapshot, &log).unwrap();
    assert_eq!(snapshot.revision, 9);
}

#[test]
fn log_of_a_newer_release_is_refused() {
    let (copy, mut snapshot, _) = sample();
    let mut w = Writer::default();
    w.u8(FORMAT + 1);
    let body = w.into_vec();
    let hash = frame_hash(&KEY, &[&LogEnd::behind(&copy).hash, &body]);
    let log = [&(body.len() as u32).to_le_bytes()[..], &body, &hash].concat();
    assert!(replay(&copy, &mut snapshot, &log).is_err());
    assert_eq!(snapshot.revision, 9);
}

#[test]
fn limit_grows_with_the_copy() {
    let changes = [Arc::new(change(9, &[("k", Some("v"))]))];
    for (copy, records) in [(100, LEAST_LIMIT / BLOCK), (3 * LEAST_LIMIT, 3 * LEAST_LIMIT / BLOCK)] {
        let (mut end, mut count) = (LogEnd::behind(&vec![1; copy]), 0);
        while let Some((_, next)) = end.record(&changes) {
            (end, count) = (next, count + 1);
        }
        assert_eq!(count, records);
    }
}

#[test]
fn paths_leave_out_changes_that_failed() {
    let mut recent = RecentChanges::default();
    let add = |recent: &mut RecentChanges, from, revision| {
        recent.add(LoggedChange { term: 1, from, revision, keys: Vec::new() });
    };
    // Revision 3 failed: revision 4 was made from 2.
    for (from, revision) in [(1, 2), (2, 3), (2, 4), (4, 5)] {
        add(&mut recent, from, revision);
    }
    let path = |from, to| {
        let found = recent.path((1, from), (1, to));
        found.map(|p| p.iter().map(|c| c.revision).collect::<Vec<_>>())
    };
    assert_eq!(path(1, 5), Some(vec![2, 4, 5]));
    assert_eq!(path(2, 4), Some(vec![4]));
    assert_eq!(path(3, 5), None, "a drive that has what failed");
    assert_eq!(path(0, 5), None);
    assert_eq!(path(5, 5), None);
    assert_eq!(recent.path((2, 4), (1, 5)), None, "of another term");
    // Only so many are kept.
    for n in 5..50_000 {
        add(&mut recent, n, n + 1);
    }
    assert!(recent.bytes <= KEPT_BYTES && recent.path((1, 5), (1, 50_000)).is_none());
    assert_eq!(recent.path((1, 49_998), (1, 50_000)).map(|p| p.len()), Some(2));
}
