//! Folded scans: which registers they show, and how many they go through.

use crate::common::*;
use ashlar_drive::{Accept, Drive, Entry, Fold, Range, Role, Tally};
use ashlar_format::{BucketId, GroupId, RegisterKey, Space};
use ashlar_machine::{Folder, SimDisk};
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};

fn named_in(group: GroupId, name: &str) -> RegisterKey {
    RegisterKey::new(group, Space::Object, BucketId([1; 16]), name.as_bytes())
}

fn named(name: &str) -> RegisterKey {
    named_in(GROUP, name)
}

fn accept(d: &Drive, key: RegisterKey, counter: u64, summary: &str) {
    let accept = Accept {
        key,
        ballot: ballot(counter),
        epoch: u32::MAX,
        record: Bytes::from_static(b"record"),
        summary: Bytes::copy_from_slice(summary.as_bytes()),
        inline: None,
    };
    d.accept(accept, Tally::new(1).completion(0));
}

/// The registers of a group that begin with a prefix.
fn range_in(group: GroupId, prefix: &str) -> Range {
    let from = named_in(group, prefix).as_bytes().to_vec();
    Range { to: [&from[..], &[0xff; 8]].concat(), from, epoch: u32::MAX }
}

fn range(prefix: &str) -> Range {
    range_in(GROUP, prefix)
}

fn fold(prefix: &str, delimiter: &str) -> Option<Fold> {
    Some(Fold { prefix: prefix.len(), delimiter: delimiter.as_bytes().to_vec() })
}

fn name(e: &Entry) -> String {
    String::from_utf8(e.key.key().to_vec()).unwrap()
}

/// A list of folders costs what it shows, in memory and in index files; a digest of it as well.
#[test]
fn folded_scan_goes_through_folders_and_not_keys() {
    const FOLDERS: u64 = 100;
    const KEYS: u64 = 1000;
    let mut o = small_options();
    o.cache_bytes = 16 << 20;
    let (_, _, d) = sim_drive(&o);
    for i in 0..FOLDERS * KEYS {
        accept(&d, named(&format!("folders/{:02}/{:04}", i % FOLDERS, i / FOLDERS)), i + 1, "s");
        if i % 256 == 0 {
            d.pump();
        }
    }
    d.pump();
    for place in ["in memory", "in index files"] {
        let before = d.scanned();
        let shown = run(&d, d.scan_many(vec![range("folders/")], fold("folders/", "/"), 1001)).unwrap();
        let names: Vec<String> = shown.iter().map(name).collect();
        assert_eq!(names, (0..FOLDERS).map(|f| format!("folders/{f:02}/0000")).collect::<Vec<_>>());
        let after = d.scanned();
        let digest = run(&d, d.digests(vec![range("folders/")], fold("folders/", "/"), true)).unwrap();
        assert_eq!(digest[0].0, FOLDERS);
        for (what, scanned) in [("list", after - before), ("digest", d.scanned() - after)] {
            assert!(scanned <= FOLDERS * 40, "{what} {place}: {scanned} registers of {}", FOLDERS * KEYS);
        }
        d.tidy().unwrap();
    }
}

/// What a folded scan has to show of these registers, in order.
fn model(all: &BTreeMap<String, bool>, prefix: &str, delimiter: &str) -> Vec<String> {
    let mut seen = BTreeSet::new();
    let mut show = |(name, summary): &(&String, &bool)| {
        let Some(rest) = name.strip_prefix(prefix) else { return false };
        let Some(at) = rest.find(delimiter) else { return true };
        let common = rest[..at].to_owned();
        !seen.contains(&common) && (!**summary || seen.insert(common))
    };
    all.iter().filter(|entry| show(entry)).map(|(name, _)| name.clone()).collect()
}

/// Names that have common prefixes with many delimiters.
fn random_name(rng: &mut Rng) -> String {
    let parts = ["a", "b", "a/", "b/", "/", "--", "c", "\u{e9}"];
    (0..1 + rng.below(5)).map(|_| parts[rng.below(8) as usize]).collect()
}

/// Random registers, some without a summary, in memory and in several index files: pages of any length show what is
/// left of all registers, and the digest is that of what they show.
#[test]
fn folded_scan_shows_the_first_of_each_common_prefix() {
    let o = small_options();
    let (_, _, d) = sim_drive(&o);
    let mut rng = Rng(11);
    let mut all = BTreeMap::new();
    for i in 0..4000u64 {
        let name = random_name(&mut rng);
        let summary = rng.below(4) > 0;
        accept(&d, named(&name), i + 1, if summary { "s" } else { "" });
        all.insert(name, summary);
        if i % 64 == 0 {
            d.pump();
        }
        if i % 900 == 0 {
            d.tidy().unwrap();
        }
    }
    d.pump();
    for prefix in ["", "a/", "a", "b/a", "--"] {
        for delimiter in ["/", "--", "a", "b/", "\u{e9}", "/a"] {
            let (whole, folded) = (range(prefix), fold(prefix, delimiter));
            let what = format!("{prefix:?} {delimiter:?}");
            let shown = run(&d, d.scan_many(vec![whole.clone()], folded.clone(), 10_000)).unwrap();
            let want = model(&all, prefix, delimiter);
            assert_eq!(shown.iter().map(name).collect::<Vec<_>>(), want, "{what}");
            let (count, digest) = run(&d, d.digests(vec![whole.clone()], folded.clone(), false)).unwrap()[0];
            assert_eq!(count as usize, want.len(), "{what}");
            let few = run(&d, d.digests(vec![whole.clone()], folded.clone(), true)).unwrap();
            assert_eq!(few, [(count, digest)], "{what}");
            // A page that begins within a common prefix may show the prefix again, and shows no other more often.
            let (mut from, mut pages) = (whole.from.clone(), Vec::new());
            loop {
                let page = Range { from: from.clone(), ..whole.clone() };
                let limit = 1 + rng.below(9) as usize;
                let page = run(&d, d.scan_many(vec![page], folded.clone(), limit)).unwrap();
                let Some(last) = page.last() else { break };
                from = [last.key.as_bytes(), &[0]].concat();
                pages.extend(page.iter().map(name));
            }
            assert!(pages.is_sorted() && want.iter().all(|name| pages.contains(name)), "{what}");
        }
    }
}

/// A page over several groups is read in sections: it shows the same of each group as a scan of this group, and another
/// drive computes the same digest up to its end.
#[test]
fn folded_page_of_several_groups_is_that_of_each_group() {
    const GROUPS: u16 = 5;
    let groups: Vec<GroupId> = (0..GROUPS).map(|n| GroupId::new(0, n)).collect();
    let roles: Vec<(GroupId, Role)> = groups.iter().map(|g| (*g, Role::Voter)).collect();
    let disk = SimDisk::new(256 << 20);
    let o = small_options();
    let folder = Folder::simulated(&disk, o.faults.clone());
    ashlar_drive::format_folder(&folder, &label(1), &roles, 64 << 10).unwrap();
    let d = Drive::open_folder(&folder, &o, false).unwrap();
    d.pump();
    let mut rng = Rng(5);
    for i in 0..6000u64 {
        let group = groups[rng.below(u64::from(GROUPS)) as usize];
        // Many common prefixes, of several registers each.
        let name = format!("{:03}/{}", rng.below(250), random_name(&mut rng));
        accept(&d, named_in(group, &name), i + 1, if rng.below(5) > 0 { "s" } else { "" });
        if i % 64 == 0 {
            d.pump();
        }
        if i == 3000 {
            d.tidy().unwrap();
        }
    }
    d.pump();
    for limit in [1, 7, 40, 300, 10_000] {
        let ranges: Vec<Range> = groups.iter().map(|g| range_in(*g, "")).collect();
        let page = run(&d, d.scan_many(ranges.clone(), fold("", "/"), limit)).unwrap();
        assert!(page.len() <= limit);
        let last = page.last().filter(|_| page.len() == limit).map(|e| (e.key.group(), e.key.key().to_vec()));
        let mut covered = ranges.clone();
        for (range, group) in covered.iter_mut().zip(&groups) {
            if let Some((of, last)) = &last {
                let bytes = named_in(*group, std::str::from_utf8(last).unwrap()).as_bytes().to_vec();
                range.to = if of == group { [&bytes[..], &[0]].concat() } else { bytes };
            }
        }
        let digests = run(&d, d.digests(covered.clone(), fold("", "/"), false)).unwrap();
        for ((range, group), digest) in covered.into_iter().zip(&groups).zip(digests) {
            let of_page: Vec<Entry> = page.iter().filter(|e| e.key.group() == *group).cloned().collect();
            let alone = run(&d, d.scan_many(vec![range], fold("", "/"), 10_000)).unwrap();
            // A range that ends inside a page may end before an entry of another group with the same key.
            let same = |e: &Entry| last.as_ref().is_none_or(|(_, last)| e.key.key() < &last[..]);
            let names = |of: &[Entry]| of.iter().filter(|e| same(e)).map(name).collect::<Vec<_>>();
            assert_eq!(names(&of_page), names(&alone), "{group} in a page of {limit}");
            assert_eq!(digest.0 as usize, alone.len(), "{group} in a page of {limit}");
        }
    }
}
