//! The list with pages against the plain list, under random operations; and how large things get.

use super::*;
use ashlar_format::{Body, Data, Entry, Part, Record, VersionId};
use proptest::prelude::*;
use std::collections::HashSet;

const SMALL: Bounds = Bounds { head: 3, head_bytes: 4 << 10, keep: 1, leaf: 6, page_bytes: 1 << 10, fan: 2 };

/// A register with pages, kept like the store keeps it, and the plain list beside it.
struct Rig {
    bounds: Bounds,
    body: Body,
    pages: Pages,
    plain: Vec<Version>,
    next: u128,
    /// Data that is there and not dropped.
    there: HashSet<WriteId>,
    written: u64,
    record: u64,
    /// Pages read by the last operation.
    read: usize,
    /// Encodings are checked.
    strict: bool,
}

fn data(n: u128) -> Data {
    let write_id = WriteId(n.to_be_bytes());
    Data { write_id, k: 2, m: 2, rotate: 0, stripe: 4096, durable: 0, inline: true }
}

impl Rig {
    fn new(bounds: Bounds) -> Rig {
        Rig {
            bounds,
            body: Body::Tombstone,
            pages: Pages::default(),
            plain: Vec::new(),
            next: 0,
            there: HashSet::new(),
            written: 0,
            record: 0,
            read: 0,
            strict: true,
        }
    }

    fn fresh(&mut self) -> u128 {
        self.next += 1;
        self.next
    }

    fn version(&mut self, null: bool) -> Version {
        let n = self.fresh();
        let d = data(n);
        self.there.insert(d.write_id);
        let part = Part { number: 1, size: 9, md5: [1; 16], checksum: None, modified_ms: 5, data: d };
        let id = if null { VersionId::ZERO } else { VersionId(n.to_be_bytes()) };
        let (mut meta, mut md5) = (Vec::new(), [0; 16]);
        meta.push(("content-type".to_owned(), "application/octet-stream".to_owned()));
        md5.copy_from_slice(&n.to_be_bytes());
        Version { id, modified_ms: n as i64, size: 9, md5, parts: vec![part], meta, ..Version::default() }
    }

    /// Asks until no page is missing; every page is read anew, so that needs are counted.
    fn ask<T>(&mut self, mut f: impl FnMut(&Rig, &Pages) -> Result<T, Need>) -> T {
        let mut pages = Pages::default();
        loop {
            match f(self, &pages) {
                Ok(t) => {
                    self.read = pages.0.len();
                    return t;
                }
                Err(Need(refs)) => {
                    assert!(!refs.is_empty());
                    for r in refs {
                        let id = r.page.data.write_id;
                        assert!(!pages.0.contains_key(&id), "a page is asked for twice");
                        let page = self.pages.get(&r).expect("a page that is not there").clone();
                        pages.insert(id, page);
                    }
                }
            }
        }
    }

    fn carry_out(&mut self, plan: &Plan) {
        let mut written = Vec::new();
        for i in 0..plan.pages() {
            let page = plan.page(i, &written);
            let bytes = page.encode();
            let n = self.fresh();
            let d = data(n);
            self.there.insert(d.write_id);
            self.written += bytes.len() as u64;
            if self.strict {
                assert_eq!(Page::decode(&bytes).as_ref(), Ok(&page));
            }
            self.pages.insert(d.write_id, Arc::new(page));
            written.push((d, bytes.len() as u64));
        }
        let body = plan.body(&written);
        for d in &plan.dropped {
            assert!(self.there.remove(&d.write_id), "dropped twice");
            self.pages.0.remove(&d.write_id);
        }
        self.set(body);
    }

    fn set(&mut self, body: Body) {
        let record = Record { seq: 1, parent: 0, nonce: 0, body };
        let bytes = record.encode();
        if self.strict {
            assert_eq!(Record::decode(&bytes).unwrap(), record);
        }
        self.record = bytes.len() as u64;
        self.written += self.record;
        self.body = record.body;
    }

    /// One operation: what is seen of the list becomes what `f` makes of it.
    fn operate(&mut self, ids: &[VersionId], f: impl Fn(&[Version]) -> Vec<Version>) {
        let bounds = self.bounds;
        let plan = self.ask(|rig, pages| {
            let window = Window::of(&rig.body, pages, ids)?;
            let new = f(window.versions());
            change(&rig.body, &window, new, pages, &bounds)
        });
        self.carry_out(&plan);
        let mut plain = f(&self.plain);
        plain.iter_mut().for_each(|v| v.meta.retain(|(k, _)| k != SHARED));
        self.plain = plain;
    }

    fn spill(&mut self) {
        let bounds = self.bounds;
        if let Some(plan) = self.ask(|rig, pages| spill(&rig.body, pages, &bounds)) {
            self.carry_out(&plan);
        }
    }

    fn put(&mut self, null: bool) {
        let v = self.version(null);
        let ids: &[VersionId] = if null { &[VersionId::ZERO] } else { &[] };
        self.operate(ids, |list| {
            let rest = list.iter().filter(|l| !(null && l.id == VersionId::ZERO));
            std::iter::once(v.clone()).chain(rest.cloned()).collect()
        });
        self.spill();
    }

    fn remove(&mut self, id: VersionId) {
        self.operate(&[id], |list| list.iter().filter(|v| v.id != id).cloned().collect());
    }

    /// All versions, as a list shows them.
    fn all(&mut self) -> Vec<Version> {
        let mut all = self.body.newest().to_vec();
        let mut before = self.body.below().map_or(0, |b| b.next);
        while let Some(leaf) = self.ask(|rig, pages| match rig.body.below() {
            Some(b) => next_leaf(b, pages, before),
            None => Ok(None),
        }) {
            before = leaf.last().map_or(0, |e: &Entry| e.position);
            all.extend(leaf.iter().map(|e| e.version.clone()));
        }
        all.iter_mut().for_each(|v| v.meta.retain(|(k, _)| k != SHARED));
        all
    }

    fn check(&mut self) {
        let all = self.all();
        assert_eq!(all, self.plain);
        assert_eq!(count(&self.body), all.len() as u64);
        assert_eq!(matches!(self.body, Body::Tombstone), all.is_empty());
        // What is there is what is named: by versions, or as a page.
        let mut named: HashSet<WriteId> =
            all.iter().flat_map(|v| v.parts.iter().map(|p| p.data.write_id)).collect();
        let mut refs: Vec<PageRef> = self.body.below().map(|b| b.root.clone()).into_iter().collect();
        while let Some(r) = refs.pop() {
            named.insert(r.page.data.write_id);
            if let Page::Row(below) = &**self.pages.get(&r).unwrap() {
                refs.extend(below.iter().cloned());
            }
        }
        assert_eq!(named, self.there, "data is lost, or left");
        let direct = Record { seq: 1, parent: 0, nonce: 0, body: self.body.clone() };
        let direct: HashSet<WriteId> = direct.data().map(|p| p.data.write_id).collect();
        let Some(below) = self.body.below().cloned() else { return };
        for id in named {
            let found = self.ask(|_, pages| names_data(&below, pages, id));
            assert!(found || direct.contains(&id), "{id:?} is not found");
        }
        assert!(!self.ask(|_, pages| names_data(&below, pages, WriteId([0xee; 16]))));
        for v in all.iter().skip(self.body.newest().len()) {
            let found = self.ask(|_, pages| find(&below, pages, v.id)).expect("a version");
            assert_eq!(found.version.md5, v.md5);
        }
        assert!(self.ask(|_, pages| find(&below, pages, VersionId([0xee; 16]))).is_none());
        let null = all.iter().skip(self.body.newest().len()).any(|v| v.id == VersionId::ZERO);
        assert_eq!(below.null.is_some(), null);
    }
}

#[derive(Clone, Debug)]
enum Op {
    Put,
    Null,
    Marker,
    /// By id: the so-many-th from the newest, or from the oldest.
    Remove(usize, bool),
    /// Tags of a version.
    Edit(usize),
    /// A new version over the data of another.
    Copy(usize),
    /// Several, as expiry does.
    Expire(usize, usize),
    Absent,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => Just(Op::Put),
        1 => Just(Op::Null),
        1 => Just(Op::Marker),
        3 => (0..40usize, any::<bool>()).prop_map(|(i, old)| Op::Remove(i, old)),
        1 => (0..40usize).prop_map(Op::Edit),
        2 => (0..40usize).prop_map(Op::Copy),
        1 => Just(Op::Copy(0)),
        1 => (0..40usize, 1..9usize).prop_map(|(i, n)| Op::Expire(i, n)),
        1 => Just(Op::Absent),
    ]
}

impl Rig {
    fn id(&self, i: usize) -> Option<VersionId> {
        (!self.plain.is_empty()).then(|| self.plain[i % self.plain.len()].id)
    }

    fn run(&mut self, op: &Op) {
        match *op {
            Op::Put => self.put(false),
            Op::Null => self.put(true),
            Op::Marker => {
                let n = self.fresh();
                let id = VersionId(n.to_be_bytes());
                let v = Version { id, delete_marker: true, modified_ms: n as i64, ..Version::default() };
                self.operate(&[], |list| std::iter::once(v.clone()).chain(list.iter().cloned()).collect());
                self.spill();
            }
            Op::Remove(i, old) => {
                let i = if old { self.plain.len().wrapping_sub(i + 1) } else { i };
                if let Some(id) = self.id(i) {
                    self.remove(id);
                }
            }
            Op::Edit(i) => {
                let Some(id) = self.id(i) else { return };
                let tag = self.fresh().to_string();
                self.operate(&[id], |list| {
                    let mut list = list.to_vec();
                    for v in list.iter_mut().filter(|v| v.id == id) {
                        v.tags = vec![("tag".into(), tag.clone())];
                    }
                    list
                });
            }
            Op::Copy(i) => {
                let Some(id) = self.id(i) else { return };
                let n = self.fresh();
                self.operate(&[id], |list| {
                    let from = list.iter().find(|v| v.id == id).unwrap();
                    let mut v = Version { id: VersionId(n.to_be_bytes()), ..from.clone() };
                    v.md5.copy_from_slice(&n.to_be_bytes());
                    // What is copied is the object, not what the list notes of it.
                    v.meta.retain(|(k, _)| k != SHARED);
                    std::iter::once(v).chain(list.iter().cloned()).collect()
                });
                self.spill();
            }
            Op::Expire(i, n) => {
                let ids: Vec<VersionId> = (i..i + n).filter_map(|i| self.id(i)).collect();
                self.operate(&ids, |list| list.iter().filter(|v| !ids.contains(&v.id)).cloned().collect());
            }
            Op::Absent => self.remove(VersionId([0xdd; 16])),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn equals_the_plain_list(ops in proptest::collection::vec(op(), 1..100), standard in any::<bool>()) {
        let mut rig = Rig::new(if standard { Bounds::STANDARD } else { SMALL });
        for op in &ops {
            rig.run(op);
            rig.check();
        }
    }
}

/// Lists that were written before there were pages go to pages at once.
#[test]
fn long_list_without_pages_is_spilled() {
    let mut rig = Rig::new(Bounds::STANDARD);
    rig.plain = (0..5000).map(|_| rig.version(false)).collect();
    rig.plain.reverse();
    rig.set(Body::Versions(rig.plain.clone()));
    rig.put(true);
    assert!(rig.record < 1000, "{} bytes", rig.record);
    assert_eq!(rig.all(), rig.plain);
    for i in [0, 7, 4999, 17, 300] {
        rig.run(&Op::Remove(i, false));
    }
    assert_eq!(rig.all(), rig.plain);
}

/// A list within the bounds is written as it always was.
#[test]
fn few_versions_have_no_pages() {
    let mut rig = Rig::new(Bounds::STANDARD);
    for _ in 0..Bounds::STANDARD.head {
        rig.put(false);
    }
    assert!(matches!(rig.body, Body::Versions(_)));
    // One version of many parts stays what it is.
    let mut rig = Rig::new(Bounds::STANDARD);
    let mut v = rig.version(false);
    v.parts = vec![v.parts[0].clone(); 10_000];
    rig.set(Body::Versions(vec![v]));
    assert!(!is_long(&rig.body, &Bounds::STANDARD));
}

/// What a PUT costs does not grow: bytes of records and pages, and pages read.
#[test]
fn list_of_100_000_versions() {
    let mut rig = Rig { strict: false, ..Rig::new(Bounds::STANDARD) };
    let (mut most_record, mut most_read, mut at) = (0, 0, Vec::new());
    let mut put = |rig: &mut Rig| {
        rig.put(false);
        most_record = most_record.max(rig.record);
        most_read = most_read.max(rig.read);
    };
    for n in 1..=100_000u32 {
        put(&mut rig);
        // The plain list beside it is another test's matter.
        rig.plain.clear();
        if [1_000, 2_000, 99_000, 100_000].contains(&n) {
            at.push(rig.written);
        }
    }
    let (early, late) = ((at[1] - at[0]) / 1000, (at[3] - at[2]) / 1000);
    assert_eq!(count(&rig.body), 100_000);
    assert!(most_record < 3000, "a record of {most_record} bytes");
    assert!(late < early * 3 / 2, "{early} bytes per PUT, then {late}");
    assert!(most_read < 64, "{most_read} pages read for one PUT");
    // An old version is found, changed and removed without reading all.
    let old = VersionId(5u128.to_be_bytes());
    let below = rig.body.below().unwrap().clone();
    let found = rig.ask(|_, pages| find(&below, pages, VersionId([0xaa; 16])));
    assert!(found.is_none());
    let rows = rig.read;
    let before = rig.written;
    rig.remove(old);
    assert!(rows < 100 && rig.read < 100 && rig.written - before < 100 << 10);
}

/// A delete of all versions one after another, from either end, costs the same for each.
#[test]
fn deletes_are_not_quadratic() {
    for oldest_first in [false, true] {
        let mut rig = Rig::new(Bounds::STANDARD);
        for _ in 0..1500 {
            rig.put(false);
        }
        rig.written = 0;
        while !rig.plain.is_empty() {
            rig.run(&Op::Remove(0, oldest_first));
            if rig.plain.len() == 700 {
                rig.check();
            }
        }
        rig.check();
        let each = rig.written / 1500;
        assert!(each < 16 << 10, "{each} bytes per delete");
        assert_eq!(rig.body, Body::Tombstone);
    }
}
