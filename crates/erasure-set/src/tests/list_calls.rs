//! Lists over many placement groups: what they show, and how many requests each drive gets.

use super::*;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;

/// Calls to each drive since the last query, in descending order.
fn calls(rig: &Rig) -> Vec<u64> {
    let table = rig.sets.inner.table.load();
    let mut calls: Vec<u64> =
        table.members.values().map(|m| m.list_calls.swap(0, Ordering::Relaxed)).collect();
    calls.sort_unstable_by(|a, b| b.cmp(a));
    calls
}

async fn page(rig: &Rig, prefix: &str, from: &str, limit: usize) -> (Vec<String>, bool) {
    let page = rig.sets.list(Space::Object, BUCKET, prefix.as_bytes(), from.as_bytes(), limit).await.unwrap();
    let name = |e: &crate::Listed| String::from_utf8(e.key.to_vec()).unwrap();
    (page.entries.iter().map(name).collect(), page.truncated)
}

async fn filled(groups: u16, keys: usize) -> (Rig, Vec<String>) {
    let rig = Rig::with(2, 2, groups, |_| {}).await;
    let mut names: Vec<String> =
        (0..keys).map(|i| format!("{}/{:04}", ["a", "b"][i % 2], i * 7919 % 10_000)).collect();
    for name in &names {
        rig.put(name, b"x").await.unwrap();
    }
    basic::quiet(&rig.sets).await;
    names.sort();
    (rig, names)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn page_asks_each_drive_once() {
    let (rig, names) = filled(64, 300).await;
    calls(&rig);
    for limit in [1, 7, 100, 299, 300, 1000] {
        let want: Vec<String> = names.iter().take(limit).cloned().collect();
        assert_eq!(page(&rig, "", "", limit).await, (want, limit < 300), "{limit}");
        // One drive returns the page; the others that are needed confirm that they show the same.
        let asked = calls(&rig);
        assert!(asked[0] == 1 && asked.iter().sum::<u64>() >= 3, "{limit}: {asked:?}");
    }
    let of_b: Vec<String> = names.iter().filter(|n| n.starts_with('b')).cloned().collect();
    assert_eq!(page(&rig, "b/", "", 1000).await, (of_b, false));
    assert_eq!(calls(&rig)[0], 1);
    // The same with one drive away.
    rig.unplug(2, 0).await;
    assert_eq!(page(&rig, "", "", 1000).await, (names.clone(), false));
    assert_eq!(calls(&rig)[0], 1);
    rig.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_of_any_length_are_complete() {
    let (rig, names) = filled(5, 120).await;
    for limit in [1, 3, 50, 119] {
        let (mut all, mut from) = (Vec::new(), String::new());
        loop {
            let (some, truncated) = page(&rig, "", &from, limit).await;
            assert!(some.len() == limit || !truncated);
            from = format!("{}\0", some.last().cloned().unwrap_or_default());
            all.extend(some);
            if !truncated {
                break;
            }
        }
        assert_eq!(all, names, "pages of {limit}");
    }
    rig.close().await;
}

/// A group on which the drives differ is requested separately, and the page is still right.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn groups_on_which_drives_differ_are_resolved() {
    let (rig, names) = filled(16, 80).await;
    // One drive misses some changes.
    rig.unplug(1, 0).await;
    let mut want: BTreeMap<String, ()> = names.iter().map(|n| (n.clone(), ())).collect();
    for i in 0..6 {
        rig.put(&format!("c/{i}"), b"later").await.unwrap();
        want.insert(format!("c/{i}"), ());
    }
    rig.plug(1, 0).await;
    let want: Vec<String> = want.into_keys().collect();
    assert_eq!(page(&rig, "", "", 1000).await, (want.clone(), false));
    assert_eq!(page(&rig, "", "", 83).await, (want[..83].to_vec(), true));
    rig.close().await;
}

/// The common prefixes and keys of a folded list, in pages of `limit` entries, as a caller that groups them sees it.
pub(super) async fn grouped(rig: &Rig, prefix: &str, limit: usize) -> (Vec<String>, usize) {
    let (mut lines, mut entries, mut from) = (Vec::new(), 0, Vec::new());
    loop {
        let both = (prefix.as_bytes(), b"/".as_slice());
        let page = rig.sets.list_folded(Space::Object, BUCKET, both, &from, limit).await.unwrap();
        assert!(page.entries.len() == limit || !page.truncated);
        for e in &page.entries {
            let name = std::str::from_utf8(&e.key).unwrap();
            let end = name[prefix.len()..].find('/').map_or(name.len(), |at| prefix.len() + at + 1);
            lines.push(name[..end].to_owned());
        }
        lines.dedup();
        entries += page.entries.len();
        match page.entries.last() {
            Some(last) if page.truncated => from = [&last.key[..], &[0]].concat(),
            _ => return (lines, entries),
        }
    }
}

/// A folded list shows each common prefix, and each group one key of it, whether the drives agree or not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn folded_pages_show_every_common_prefix() {
    const GROUPS: u16 = 8;
    for groups in [1, GROUPS] {
        let rig = Rig::with(2, 2, groups, |_| {}).await;
        let mut want: BTreeSet<String> = ["p/x".to_owned(), "p/y".to_owned()].into();
        for name in &want {
            rig.put(name, b"x").await.unwrap();
        }
        for i in 0..400 {
            rig.put(&format!("p/{:02}/{i:04}", i % 10), b"x").await.unwrap();
            want.insert(format!("p/{:02}/", i % 10));
        }
        basic::quiet(&rig.sets).await;
        shows(&rig, &want, groups, "the drives agree").await;
        // One drive misses some changes: the groups concerned are requested separately.
        rig.unplug(1, 0).await;
        for i in 0..6 {
            rig.put(&format!("p/{i}-later/{i}"), b"x").await.unwrap();
            want.insert(format!("p/{i}-later/"));
        }
        shows(&rig, &want, groups, "a drive is away").await;
        rig.plug(1, 0).await;
        shows(&rig, &want, groups, "a drive is behind").await;
        rig.close().await;
    }
}

async fn shows(rig: &Rig, want: &BTreeSet<String>, groups: u16, what: &str) {
    for limit in [1, 3, 7, 50, 1000] {
        let (lines, entries) = grouped(rig, "p/", limit).await;
        let what = format!("{groups} groups, pages of {limit}, {what}");
        assert_eq!(lines, want.iter().cloned().collect::<Vec<_>>(), "{what}");
        // A page that begins within a common prefix shows it again.
        assert!(limit < 1000 || entries <= want.len() * usize::from(groups), "{entries} entries of {what}");
    }
}

/// The layout changes while a page is read: the attempt ends, however long its drives would take to refuse.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn page_of_replaced_layout_ends_at_once() {
    let (rig, names) = filled(1, 10).await;
    let inner = &rig.sets.inner;
    let old = inner.view(GroupId::default()).unwrap();
    rig.sets.set_layout(in_epoch(&rig.layout, old.epoch + 1)).unwrap();
    for drive in rig.sets.drives() {
        drive.fence_epoch(old.group, old.epoch + 1).await.unwrap();
    }
    calls(&rig);
    let (from, to) = crate::list::group_range(old.group);
    let read = inner.any_stretch(&old, &from, &to, 100, false).await;
    assert!(matches!(read, Err(Error::Unavailable(_))));
    assert_eq!(calls(&rig).iter().sum::<u64>(), 0, "every drive would have refused, in each attempt");
    assert_eq!(page(&rig, "", "", 100).await, (names, false));
    rig.close().await;
}
