//! A key with version pages (docs/protocol.md 2.16, `ashlar_commit::version_list`): the register of the key,
//! pages and data that are staged before it, writers, a reader, and the collector of what no record names.
//!
//! The register is taken as linearizable, which other worlds check, except that a record which was sent by a
//! writer that died stays undecided: it may still be chosen, unless a round with a higher ballot ends it.
//! A writer plans and writes with the code that ships, so records and pages here are those of the format.
//! Its steps: read the record, read the pages that the plan asks for, stage its pages, propose, decide, drop.

use crate::{Bad, Mutant};
use ashlar_commit::version_list::{
    Bounds, Need, Pages, Plan, Window, change, names_data, newest_to_spill, next_leaf, spill, spill_from,
};
use ashlar_format::{Body, Data, Page, Part, Record, Version, VersionId, WriteId};
use stateright::{Model, Property};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Writers at most.
const WRITERS: usize = 2;
/// Small lists that have pages of all kinds.
const BOUNDS: Bounds = Bounds { head: 1, head_bytes: 1 << 20, keep: 1, leaf: 2, page_bytes: 1 << 20, fan: 1 };

/// What a writer does.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Op {
    /// A new version.
    Put,
    /// The version with this number goes.
    Remove(u8),
    /// Versions move to pages, if the head is long.
    Spill,
}

/// What may happen.
#[derive(Clone, Copy, Debug)]
pub struct Scope {
    /// Versions at the beginning, numbers 1..=n, in pages as far as they go.
    pub versions: u8,
    /// What each writer does.
    pub writers: [&'static [Op]; WRITERS],
    /// Writers that may die.
    pub crashes: u8,
    /// Somebody lists the versions.
    pub reads: bool,
    /// The rule that is broken.
    pub mutant: Option<Mutant>,
}

/// The bytes of a record; empty: none.
type Bytes = Vec<u8>;

/// Where a writer is with its operation.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum At {
    Begin,
    /// It has read this record and these pages.
    Plan(Bytes, Vec<u8>),
    /// Of its plan so many pages are staged, under these ids.
    Stage(Bytes, Vec<u8>, Vec<u8>),
    /// It has sent its record (the second) for the base (the first), and drops this when it is chosen. Behind
    /// it: the pages it has read, and those it has staged.
    Sent(Bytes, Bytes, Vec<u8>, (Vec<u8>, Vec<u8>)),
    /// Chosen: this is still to be dropped.
    Drop(Vec<u8>),
    Dead,
}

/// One writer.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Writer {
    /// Operations begun or done.
    op: usize,
    at: At,
    /// Ids it has used.
    ids: u8,
    /// A record that it sent before it died.
    undecided: Option<(Bytes, Bytes)>,
}

/// The reader.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Reader {
    Begin,
    /// With this record and these pages.
    Look(Bytes, Vec<u8>),
    End,
}

/// Everything.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct World {
    record: Bytes,
    /// Every page ever written: what a page holds never changes.
    pages: BTreeMap<u8, Bytes>,
    /// Data and pages that are there.
    there: BTreeSet<u8>,
    writers: [Writer; WRITERS],
    crashes: u8,
    reader: Reader,
    /// The versions as the plain list has them.
    spec: Vec<u8>,
    /// What they were since the reader began.
    since: BTreeSet<Vec<u8>>,
    bad: Option<Bad>,
}

/// One thing that happens.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs)] // what they do is in `next_state`
pub enum Act {
    Step(u8),
    Crash(u8),
    /// The record of a dead writer is chosen after all.
    Complete(u8),
    /// The collector looks at a piece of data.
    Collect(u8),
    Read,
}

fn data(id: u8) -> Data {
    let write_id = WriteId([id; 16]);
    Data { write_id, k: 1, m: 0, rotate: 0, stripe: 1, durable: 1, inline: true }
}

/// The version with this number; its data has the same.
fn version(id: u8) -> Version {
    let part = Part { number: 1, size: 1, md5: [0; 16], checksum: None, modified_ms: 0, data: data(id) };
    Version { id: VersionId([id; 16]), size: 1, parts: vec![part], ..Version::default() }
}

fn encode(body: Body) -> Bytes {
    match body {
        Body::Tombstone => Bytes::new(),
        body => Record { seq: 1, parent: 0, nonce: 0, body }.encode(),
    }
}

fn decode(record: &Bytes) -> Body {
    if record.is_empty() {
        return Body::Tombstone;
    }
    match Record::decode(record) {
        Ok(r) => r.body,
        Err(e) => unreachable!("a record of this world: {e}"),
    }
}

fn numbers(data: &[Data]) -> Vec<u8> {
    data.iter().map(|d| d.write_id.0[0]).collect()
}

impl World {
    fn load(&self, ids: &[u8]) -> Pages {
        let mut pages = Pages::default();
        for id in ids {
            match Page::decode(&self.pages[id]) {
                Ok(page) => pages.insert(WriteId([*id; 16]), Arc::new(page)),
                Err(e) => unreachable!("a page of this world: {e}"),
            }
        }
        pages
    }

    /// Where staged pages are, and their bytes.
    fn written(&self, ids: &[u8]) -> Vec<(Data, u64)> {
        ids.iter().map(|id| (data(*id), self.pages[id].len() as u64)).collect()
    }

    /// Reads the pages that are needed. False: one is gone.
    fn fetch(&self, have: &mut Vec<u8>, need: &Need) -> bool {
        let ids = need.0.iter().map(|r| r.page.data.write_id.0[0]);
        have.extend(ids);
        have.sort_unstable();
        have.iter().all(|id| self.there.contains(id))
    }

    /// All versions of a record, from the pages in `have`.
    fn list(&self, record: &Bytes, have: &[u8]) -> Result<Vec<u8>, Need> {
        let (body, pages) = (decode(record), self.load(have));
        let mut all: Vec<u8> = body.newest().iter().map(|v| v.id.0[0]).collect();
        let Some(below) = body.below() else { return Ok(all) };
        let mut before = below.next;
        while let Some(leaf) = next_leaf(below, &pages, before)? {
            before = leaf.last().map_or(0, |e| e.position);
            all.extend(leaf.iter().map(|e| e.version.id.0[0]));
        }
        Ok(all)
    }

    /// Whether a record names the data, itself or by its pages. With a page that is gone it cannot be told.
    fn names(&self, record: &Bytes, id: u8) -> bool {
        let record = Record { seq: 1, parent: 0, nonce: 0, body: decode(record) };
        if record.data().any(|p| p.data.write_id.0[0] == id) {
            return true;
        }
        let Some(below) = record.body.below() else { return false };
        let mut have = Vec::new();
        loop {
            match names_data(below, &self.load(&have), WriteId([id; 16])) {
                Ok(named) => return named,
                Err(need) if self.fetch(&mut have, &need) => {}
                Err(_) => return true,
            }
        }
    }

    /// Data and pages go.
    fn lose(&mut self, ids: &[u8]) {
        self.there.retain(|id| !ids.contains(id));
    }

    /// A record is chosen.
    fn choose(&mut self, record: Bytes, op: Op, put: u8) {
        self.record = record;
        match op {
            Op::Put => self.spec.insert(0, put),
            Op::Remove(id) => self.spec.retain(|v| *v != id),
            Op::Spill => {}
        }
        if self.reader != Reader::Begin {
            self.since.insert(self.spec.clone());
        }
    }

    /// What whoever looks at everything at once sees.
    fn judge(&mut self) {
        let mut have = Vec::new();
        let seen = loop {
            match self.list(&self.record, &have) {
                Ok(seen) => break seen,
                Err(need) if self.fetch(&mut have, &need) => {}
                Err(_) => {
                    self.bad = self.bad.or(Some(Bad::Thin));
                    return;
                }
            }
        };
        if seen != self.spec {
            self.bad = self.bad.or(Some(Bad::Fork));
        } else if seen.iter().any(|id| !self.there.contains(id)) {
            self.bad = self.bad.or(Some(Bad::Thin));
        }
    }
}

impl Scope {
    fn broken(&self, mutant: Mutant) -> bool {
        self.mutant == Some(mutant)
    }

    fn op(&self, w: &World, i: usize) -> Op {
        self.writers[i][w.writers[i].op]
    }

    /// Ids that a writer makes.
    fn id(i: usize, n: u8) -> u8 {
        0x40 * (i as u8 + 1) + n
    }

    /// The id of the version that the present operation puts.
    fn put(w: &World, i: usize) -> u8 {
        Scope::id(i, 0x30 + w.writers[i].op as u8)
    }

    /// The plan of an operation, from a record and the pages that were read.
    fn plan(&self, w: &World, i: usize, record: &Bytes, have: &[u8]) -> Result<Option<Plan>, Need> {
        self.plan_of(w, i, record, have, newest_to_spill(&decode(record), &BOUNDS))
    }

    /// As [`Scope::plan`]; a spill moves this version and what is below it.
    fn plan_of(
        &self,
        w: &World,
        i: usize,
        record: &Bytes,
        have: &[u8],
        newest: Option<VersionId>,
    ) -> Result<Option<Plan>, Need> {
        let (body, pages) = (decode(record), w.load(have));
        let ids: &[VersionId] = match self.op(w, i) {
            Op::Spill => return newest.map_or(Ok(None), |id| spill_from(&body, &pages, &BOUNDS, id)),
            Op::Put => &[],
            Op::Remove(id) => &[VersionId([id; 16])],
        };
        let window = Window::of(&body, &pages, ids)?;
        let mut new = window.versions().to_vec();
        match self.op(w, i) {
            Op::Put => new.insert(0, version(Scope::put(w, i))),
            _ => new.retain(|v| !ids.contains(&v.id)),
        }
        if new.len() == window.versions().len() {
            return Ok(None);
        }
        change(&body, &window, new, &pages, &BOUNDS).map(Some)
    }

    fn step(&self, w: &mut World, i: usize) {
        let next = match w.writers[i].at.clone() {
            At::Begin => {
                if self.op(w, i) == Op::Put {
                    w.there.insert(Scope::put(w, i));
                }
                At::Plan(w.record.clone(), Vec::new())
            }
            At::Plan(base, mut have) => match self.plan(w, i, &base, &have) {
                Ok(Some(_)) => At::Stage(base, have, Vec::new()),
                Ok(None) => self.over(w, i),
                // A page is gone: somebody has changed the list.
                Err(need) if w.fetch(&mut have, &need) => At::Plan(base, have),
                Err(_) => At::Begin,
            },
            At::Stage(base, have, staged) => match self.plan(w, i, &base, &have) {
                Ok(Some(plan)) => self.stage(w, i, &plan, (base, have), staged),
                _ => unreachable!("a plan of the same record and pages"),
            },
            At::Sent(base, record, dropped, (have, staged)) => {
                if self.broken(Mutant::PageDroppedFirst) {
                    w.lose(&dropped);
                }
                // The spill that writes what it has planned, whatever is there meanwhile.
                let blind = self.broken(Mutant::SpillWithoutBase) && self.op(w, i) == Op::Spill;
                if w.record == base || blind {
                    let (op, put) = (self.op(w, i), Scope::put(w, i));
                    w.choose(record, op, put);
                    At::Drop(dropped)
                } else {
                    self.again(w, i, (base, have), staged)
                }
            }
            At::Drop(dropped) => {
                w.lose(&dropped);
                self.over(w, i)
            }
            At::Dead => At::Dead,
        };
        w.writers[i].at = next;
    }

    /// Stages the next page, or sends the record.
    fn stage(
        &self,
        w: &mut World,
        i: usize,
        plan: &Plan,
        (base, have): (Bytes, Vec<u8>),
        mut staged: Vec<u8>,
    ) -> At {
        let early = self.broken(Mutant::RecordBeforePage);
        while staged.len() < plan.pages() {
            let page = plan.page(staged.len(), &w.written(&staged)).encode();
            let id = Scope::id(i, w.writers[i].ids);
            w.writers[i].ids += 1;
            w.pages.insert(id, page);
            staged.push(id);
            if !early {
                w.there.insert(id);
                return At::Stage(base, have, staged);
            }
        }
        let record = encode(plan.body(&w.written(&staged)));
        let mut dropped = numbers(&plan.dropped);
        dropped.sort_unstable();
        At::Sent(base, record, dropped, (have, staged))
    }

    /// The record is another than the one planned on: what was staged is used if the plan of the present one
    /// writes the same.
    fn again(&self, w: &World, i: usize, (base, have): (Bytes, Vec<u8>), staged: Vec<u8>) -> At {
        let newest = newest_to_spill(&decode(&base), &BOUNDS);
        let before = self.plan_of(w, i, &base, &have, newest);
        match (before, self.plan_of(w, i, &w.record, &have, newest)) {
            (Ok(Some(before)), Ok(Some(now))) if now.writes_the_same(&before) => {
                let record = encode(now.body(&w.written(&staged)));
                let mut dropped = numbers(&now.dropped);
                dropped.sort_unstable();
                At::Sent(w.record.clone(), record, dropped, (have, staged))
            }
            _ => At::Begin,
        }
    }

    /// The operation is over.
    fn over(&self, w: &mut World, i: usize) -> At {
        w.writers[i].op += 1;
        At::Begin
    }

    fn crash(&self, w: &mut World, i: usize) {
        let writer = &mut w.writers[i];
        if let At::Sent(base, record, ..) = &writer.at {
            writer.undecided = Some((base.clone(), record.clone()));
        }
        writer.at = At::Dead;
        w.crashes += 1;
    }

    /// Drops what dead writers left, if no record names it.
    fn collect(&self, w: &mut World, id: u8) {
        if !self.broken(Mutant::PageSweptUndecided) {
            // The collector's round: what was not chosen before never will be.
            w.writers.iter_mut().for_each(|writer| writer.undecided = None);
        }
        let named = if self.broken(Mutant::SweepPassesPages) {
            let record = Record { seq: 1, parent: 0, nonce: 0, body: decode(&w.record) };
            record.data().any(|p| p.data.write_id.0[0] == id)
        } else {
            w.names(&w.record, id)
        };
        if !named {
            w.there.remove(&id);
        }
    }

    fn read(&self, w: &mut World) {
        w.reader = match w.reader.clone() {
            Reader::Begin => {
                w.since.insert(w.spec.clone());
                Reader::Look(w.record.clone(), Vec::new())
            }
            Reader::Look(record, mut have) => match w.list(&record, &have) {
                Ok(seen) => self.answer(w, seen),
                Err(need) if w.fetch(&mut have, &need) => Reader::Look(record, have),
                Err(_) if self.broken(Mutant::PageGoneIsAbsent) => {
                    let newest = decode(&record).newest().iter().map(|v| v.id.0[0]).collect();
                    self.answer(w, newest)
                }
                Err(_) if record == w.record => {
                    w.bad = Some(Bad::Vanished);
                    Reader::End
                }
                // The list has changed: once more.
                Err(_) => Reader::Look(w.record.clone(), Vec::new()),
            },
            Reader::End => Reader::End,
        };
    }

    fn answer(&self, w: &mut World, seen: Vec<u8>) -> Reader {
        if !w.since.contains(&seen) {
            w.bad = Some(Bad::Stale);
        }
        Reader::End
    }
}

/// Changes the list before anything else happens.
fn grow(w: &mut World, plan: impl Fn(&Body, &Pages) -> Result<Option<Plan>, Need>) {
    let mut have = Vec::new();
    loop {
        match plan(&decode(&w.record), &w.load(&have)) {
            Ok(None) => return,
            Ok(Some(plan)) => {
                let mut written: Vec<(Data, u64)> = Vec::new();
                for i in 0..plan.pages() {
                    let page = plan.page(i, &written).encode();
                    let id = 0x20 + w.pages.len() as u8;
                    written.push((data(id), page.len() as u64));
                    w.pages.insert(id, page);
                    w.there.insert(id);
                }
                w.record = encode(plan.body(&written));
                w.lose(&numbers(&plan.dropped));
                return;
            }
            Err(need) => assert!(w.fetch(&mut have, &need), "a page is gone"),
        }
    }
}

impl Model for Scope {
    type State = World;
    type Action = Act;

    fn init_states(&self) -> Vec<World> {
        let writer = Writer { op: 0, at: At::Begin, ids: 0, undecided: None };
        let mut w = World {
            record: Bytes::new(),
            pages: BTreeMap::new(),
            there: BTreeSet::new(),
            writers: [writer.clone(), writer],
            crashes: 0,
            reader: Reader::Begin,
            spec: Vec::new(),
            since: BTreeSet::new(),
            bad: None,
        };
        for id in 1..=self.versions {
            w.there.insert(id);
            grow(&mut w, |body, pages| {
                let window = Window::of(body, pages, &[])?;
                let new = std::iter::once(version(id)).chain(window.versions().iter().cloned()).collect();
                change(body, &window, new, pages, &BOUNDS).map(Some)
            });
            grow(&mut w, |body, pages| spill(body, pages, &BOUNDS));
            w.spec.insert(0, id);
        }
        vec![w]
    }

    fn actions(&self, w: &World, acts: &mut Vec<Act>) {
        if w.bad.is_some() {
            return;
        }
        for i in 0..WRITERS {
            let writer = &w.writers[i];
            if writer.at == At::Dead {
                if writer.undecided.as_ref().is_some_and(|(base, _)| *base == w.record) {
                    acts.push(Act::Complete(i as u8));
                }
                let mine = |id: &&u8| (*id >> 6) as usize == i + 1;
                acts.extend(w.there.iter().filter(mine).map(|id| Act::Collect(*id)));
                continue;
            }
            if writer.op < self.writers[i].len() {
                acts.push(Act::Step(i as u8));
                if w.crashes < self.crashes && writer.at != At::Begin {
                    acts.push(Act::Crash(i as u8));
                }
            }
        }
        if self.reads && w.reader != Reader::End {
            acts.push(Act::Read);
        }
    }

    fn next_state(&self, last: &World, act: Act) -> Option<World> {
        let mut w = last.clone();
        match act {
            Act::Step(i) => self.step(&mut w, i.into()),
            Act::Crash(i) => self.crash(&mut w, i.into()),
            Act::Complete(i) => {
                let i = usize::from(i);
                if let Some((_, record)) = w.writers[i].undecided.take() {
                    let (op, put) = (self.op(&w, i), Scope::put(&w, i));
                    w.choose(record, op, put);
                }
            }
            Act::Collect(id) => self.collect(&mut w, id),
            Act::Read => self.read(&mut w),
        }
        w.judge();
        (w != *last).then_some(w)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("no version is lost, doubled or brought back", |_, w: &World| {
                w.bad != Some(Bad::Fork)
            }),
            Property::always("every version of the chosen record can be read", |_, w: &World| {
                w.bad != Some(Bad::Thin)
            }),
            Property::always("a reader sees what the list was meanwhile", |_, w: &World| {
                !matches!(w.bad, Some(Bad::Stale | Bad::Vanished))
            }),
            Property::sometimes("reached: all is done, and nothing is left", |s: &Scope, w: &World| {
                let done = (0..WRITERS).all(|i| w.writers[i].op == s.writers[i].len());
                let all = w.there.iter().all(|id| w.names(&w.record, *id));
                done && all
            }),
        ]
    }
}
