//! Counts of the content of a bucket, as a state machine without I/O.
//!
//! [`BucketTally`] keeps two counts of one bucket: the one that is shown, and the one that a scan builds.
//! Every change of a key is announced before it can take effect and ends as committed, as nothing, or as lost
//! (its outcome is unknown). A committed change adds its difference to each count that covers its key.
//!
//! If a difference is not enough, the key is *open*: it is outside of the sum, and counted with its last
//! known share until it has been read while no change of it was under way. Open keys are:
//!
//! - keys whose change was under way while a scan read their page: the page may show them before or after;
//! - keys whose change was lost. They stay open until a later change of the key is known or until they have
//!   been read [`MAX_READS`] times over about a quarter of an hour, because another operation may still
//!   complete a change without an answer.
//!
//! Where several nodes change a bucket, each also knows what its own changes made of it ([`BucketTally::own`]), whatever
//! is counted meanwhile; `usage_parts` puts those together.
//!
//! Invariants: the sum and the open keys together contain every key that a count covers exactly once; a count
//! that cannot guarantee that is marked `suspect` and made again.
//!
//! Must not depend on: registers, time other than as a number.

use ashlar_checksum::key_hash;
use ashlar_environment::HashMap;
use ashlar_format::{Body, Version};

/// Upper bounds of [`Usage::sizes`] in bytes, exclusive; larger ones are in the last class.
pub const SIZE_BOUNDS: [u64; 9] =
    [1 << 10, 64 << 10, 256 << 10, 512 << 10, 1 << 20, 10 << 20, 64 << 20, 128 << 20, 512 << 20];
/// Upper bounds of [`Usage::counts`] in versions, exclusive; larger ones are in the last class.
pub const COUNT_BOUNDS: [u64; 6] = [1, 2, 10, 100, 1000, 10_000];

/// How often an open key of a lost change is read.
const MAX_READS: u32 = 10;
/// Most open keys; with more, the bucket is counted again.
const MAX_OPEN_KEYS: usize = 10_000;

/// The content of a bucket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Bytes of all versions.
    pub bytes: u64,
    /// Versions, without delete markers.
    pub versions: u64,
    /// Delete markers.
    pub delete_markers: u64,
    /// Keys whose current version is no delete marker: the keys that a list shows.
    pub objects: u64,
    /// Bytes of the current versions.
    pub current_bytes: u64,
    /// Objects by the size of their current version, in classes by [`SIZE_BOUNDS`].
    pub sizes: [u64; SIZE_BOUNDS.len() + 1],
    /// Keys by their number of versions without delete markers, in classes by [`COUNT_BOUNDS`]; the first
    /// class are keys with nothing but delete markers.
    pub counts: [u64; COUNT_BOUNDS.len() + 1],
}

/// Number of numbers of a [`Usage`].
pub const NUMBERS: usize = 5 + SIZE_BOUNDS.len() + 1 + COUNT_BOUNDS.len() + 1;

/// The numbers of a [`Usage`] in their order, or differences of them.
pub type Numbers = [i64; NUMBERS];

impl Usage {
    /// From its numbers, in the order of its fields; none is below zero.
    #[must_use]
    pub fn from_numbers(numbers: &Numbers) -> Usage {
        let whole = |n: &i64| u64::try_from(*n).unwrap_or(0);
        let mut rest = numbers.iter().map(whole);
        let mut next = || rest.next().unwrap_or(0);
        Usage {
            bytes: next(),
            versions: next(),
            delete_markers: next(),
            objects: next(),
            current_bytes: next(),
            sizes: std::array::from_fn(|_| next()),
            counts: std::array::from_fn(|_| next()),
        }
    }
}

impl std::ops::AddAssign for Usage {
    fn add_assign(&mut self, o: Usage) {
        self.bytes += o.bytes;
        self.versions += o.versions;
        self.delete_markers += o.delete_markers;
        self.objects += o.objects;
        self.current_bytes += o.current_bytes;
        self.sizes.iter_mut().zip(o.sizes).for_each(|(a, b)| *a += b);
        self.counts.iter_mut().zip(o.counts).for_each(|(a, b)| *a += b);
    }
}

/// What one key adds to the counts of a bucket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Share {
    bytes: u64,
    versions: u32,
    markers: u32,
    /// Size of the current version, if it is an object.
    current: Option<u64>,
}

impl Share {
    /// The share of a list of versions, newest first.
    pub fn of(list: &[Version]) -> Share {
        let mut share =
            Share { current: list.first().filter(|v| !v.delete_marker).map(|v| v.size), ..Share::default() };
        for v in list {
            if v.delete_marker {
                share.markers += 1;
            } else {
                share.versions += 1;
                share.bytes = share.bytes.saturating_add(v.size);
            }
        }
        share
    }

    /// The share of the versions of a key, those in pages included; of a held key those that it held.
    pub fn of_body(body: Option<&Body>) -> Share {
        let mut share = Share::of(body.map_or(&[], Body::newest));
        if let Some(root) = body.and_then(Body::below).map(|b| &b.root) {
            let most = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
            share.versions = share.versions.saturating_add(most(root.versions));
            share.markers = share.markers.saturating_add(most(root.markers));
            share.bytes = share.bytes.saturating_add(root.bytes);
        }
        share
    }

    /// Bytes of all its versions.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Of a key with one version.
    pub fn one(size: u64, delete_marker: bool) -> Share {
        if delete_marker {
            Share { markers: 1, ..Share::default() }
        } else {
            Share { bytes: size, versions: 1, markers: 0, current: Some(size) }
        }
    }
}

/// A sum of shares. Signed: a difference may be added before the share that it refers to.
#[derive(Clone, Debug, Default)]
struct Tally {
    bytes: i128,
    versions: i64,
    markers: i64,
    objects: i64,
    current_bytes: i128,
    sizes: [i64; SIZE_BOUNDS.len() + 1],
    counts: [i64; COUNT_BOUNDS.len() + 1],
}

impl Tally {
    fn add(&mut self, s: &Share, sign: i64) {
        if *s == Share::default() {
            return;
        }
        self.bytes += i128::from(sign) * i128::from(s.bytes);
        self.versions += sign * i64::from(s.versions);
        self.markers += sign * i64::from(s.markers);
        self.counts[class(&COUNT_BOUNDS, u64::from(s.versions))] += sign;
        if let Some(size) = s.current {
            self.objects += sign;
            self.current_bytes += i128::from(sign) * i128::from(size);
            self.sizes[class(&SIZE_BOUNDS, size)] += sign;
        }
    }
}

fn class(bounds: &[u64], n: u64) -> usize {
    bounds.iter().position(|b| n < *b).unwrap_or(bounds.len())
}

/// A key outside the sum.
#[derive(Clone, Debug)]
struct OpenKey {
    /// Its last known share.
    share: Share,
    /// Whether one read without a concurrent change is enough.
    sure: bool,
    /// Whether a change of it has ended or begun since it was last read.
    touched: bool,
    reads: u32,
    /// Milliseconds on the caller's clock: it is not read earlier.
    due_ms: i64,
}

impl OpenKey {
    fn new(share: Share, sure: bool) -> OpenKey {
        OpenKey { share, sure, touched: true, reads: 0, due_ms: 0 }
    }
}

#[derive(Clone, Debug, Default)]
struct Count {
    sum: Tally,
    open: HashMap<Box<[u8]>, OpenKey>,
    suspect: bool,
}

impl Count {
    fn open(&mut self, key: &[u8], share: Share, sure: bool) {
        if self.open.len() >= MAX_OPEN_KEYS {
            self.suspect = true;
            return;
        }
        self.open.insert(key.into(), OpenKey::new(share, sure));
    }

    /// `overlapped`: it is unknown whether the sum includes the key. `covers`: the sum includes its old
    /// share.
    fn committed(&mut self, key: &[u8], overlapped: bool, covers: bool, old: &Share, new: &Share) {
        if !self.open.is_empty()
            && let Some(open) = self.open.get_mut(key)
        {
            *open = OpenKey::new(*new, true);
        } else if overlapped {
            self.open(key, *new, true);
        } else if covers {
            self.sum.add(old, -1);
            self.sum.add(new, 1);
        }
    }

    fn lost(&mut self, key: &[u8], overlapped: bool, covers: bool, shared: bool, old: &Share) {
        if let Some(open) = self.open.get_mut(key) {
            *open = OpenKey::new(open.share, false);
        } else if overlapped || !covers {
            self.open(key, *old, false);
        } else if shared {
            // It is unknown which of several changes the sum includes.
            self.suspect = true;
        } else {
            self.sum.add(old, -1);
            self.open(key, *old, false);
        }
    }

    fn whole(&self) -> Tally {
        let mut t = self.sum.clone();
        self.open.values().for_each(|o| t.add(&o.share, 1));
        t
    }

    fn usage(&self) -> Usage {
        let t = self.whole();
        let whole = |n: i64| u64::try_from(n).unwrap_or(0);
        let wide = |n: i128| u64::try_from(n.max(0)).unwrap_or(u64::MAX);
        Usage {
            bytes: wide(t.bytes),
            versions: whole(t.versions),
            delete_markers: whole(t.markers),
            objects: whole(t.objects),
            current_bytes: wide(t.current_bytes),
            sizes: t.sizes.map(whole),
            counts: t.counts.map(whole),
        }
    }

    fn numbers(&self) -> Numbers {
        let t = self.whole();
        let narrow = |n: i128| i64::try_from(n).unwrap_or(if n < 0 { i64::MIN } else { i64::MAX });
        let first = [narrow(t.bytes), t.versions, t.markers, t.objects, narrow(t.current_bytes)];
        let mut all = first.into_iter().chain(t.sizes).chain(t.counts);
        std::array::from_fn(|_| all.next().unwrap_or(0))
    }
}

/// Changes under way, of keys with one hash.
#[derive(Clone, Copy, Debug, Default)]
struct InFlight {
    number: u32,
    /// Whether there was more than one at some time.
    shared: bool,
    /// Whether the shown count may have read the key before or after.
    overlaps_known: bool,
    /// The same for the scan.
    overlaps_scan: bool,
    /// The number of the scan that had read the key before the first of them began.
    covered_by: u64,
}

#[derive(Debug, Default)]
struct Scan {
    count: Count,
    /// Keys up to this one have been read; `None`: none.
    seen: Option<Box<[u8]>>,
    /// Whether a page is being read.
    reading: bool,
    /// The number of the scan, from 1.
    number: u64,
}

impl Scan {
    fn covers(&self, key: &[u8]) -> bool {
        self.seen.as_ref().is_some_and(|seen| key <= &**seen)
    }
}

/// The counts of a bucket.
#[derive(Debug, Default)]
pub(crate) struct BucketTally {
    known: Option<Count>,
    scan: Option<Scan>,
    /// Keys of lost changes from before the first count.
    lost_before_count: Count,
    flights: HashMap<u64, InFlight>,
    /// Number of scans begun.
    scans: u64,
    /// Milliseconds on the caller's clock when the shown count was made.
    counted_ms: i64,
    /// Bytes that bodies under way will add.
    pub reserved: u64,
    /// What the shown count had more than [`BucketTally::own`] when it was made.
    ahead: Numbers,
    /// Number of changes of unknown outcome.
    losses: u64,
    /// When it changed last, on a clock that counts changes. Kept only where there are other nodes.
    pub touched: u64,
}

impl BucketTally {
    /// Of a bucket that other nodes change too: what is counted are the changes of this node.
    pub fn of_own_changes() -> BucketTally {
        BucketTally { known: Some(Count::default()), ..BucketTally::default() }
    }

    /// What the changes of this process have made of the bucket, and how many had an unknown outcome. Such a change is
    /// added when it is known. What other nodes made of the same key meanwhile may then be added too.
    pub fn own(&self) -> (Numbers, u64) {
        let shown = self.known.as_ref().map_or([0; NUMBERS], Count::numbers);
        (std::array::from_fn(|i| shown[i].wrapping_sub(self.ahead[i])), self.losses)
    }

    /// The numbers of the shown count; zero before the first.
    pub fn numbers(&self) -> Numbers {
        self.known.as_ref().map_or([0; NUMBERS], Count::numbers)
    }

    /// Starts the count of a new bucket, which is known to be empty.
    pub fn start_empty(&mut self, now_ms: i64) {
        self.known = Some(Count::default());
        self.ahead = [0; NUMBERS];
        self.counted_ms = now_ms;
    }

    /// The usage; `None` before the first count.
    pub fn usage(&self) -> Option<Usage> {
        self.known.as_ref().map(Count::usage)
    }

    /// What a scan under way has found so far.
    pub fn scanned(&self) -> Option<Usage> {
        self.scan.as_ref().map(|s| s.count.usage())
    }

    /// Bytes of all versions, like [`BucketTally::usage`].
    pub fn bytes(&self) -> Option<u64> {
        let known = self.known.as_ref()?;
        let open: i128 = known.open.values().map(|o| i128::from(o.share.bytes)).sum();
        Some(u64::try_from((known.sum.bytes + open).max(0)).unwrap_or(u64::MAX))
    }

    /// Number of keys whose present state the shown count may not include.
    pub fn unsettled(&self) -> usize {
        self.known.as_ref().map_or(0, |k| k.open.len())
    }

    /// When the shown count was made.
    pub fn counted_ms(&self) -> i64 {
        self.counted_ms
    }

    /// Whether it was never counted, or the count is not reliable.
    pub fn wants_scan(&self) -> bool {
        self.known.as_ref().is_none_or(|k| k.suspect)
    }

    /// A change of a key may take effect from now on. Returns the value with which the change is ended.
    pub fn begin(&mut self, key: &[u8]) -> u64 {
        let hash = key_hash(key);
        let flight = self.flights.entry(hash).or_default();
        flight.number += 1;
        flight.shared |= flight.number > 1;
        if let Some(scan) = &mut self.scan {
            let covers = scan.covers(key);
            if covers && flight.number == 1 {
                flight.covered_by = scan.number;
            }
            flight.overlaps_scan |= scan.reading && !covers;
            if let Some(open) = scan.count.open.get_mut(key) {
                open.touched = true;
            }
        }
        if let Some(known) = &mut self.known
            && !known.open.is_empty()
            && let Some(open) = known.open.get_mut(key)
        {
            open.touched = true;
        }
        hash
    }

    fn land(&mut self, hash: u64) -> InFlight {
        let Some(flight) = self.flights.get_mut(&hash) else { return InFlight::default() };
        let was = *flight;
        flight.number -= 1;
        if flight.number == 0 {
            self.flights.remove(&hash);
        }
        was
    }

    /// A change changed nothing.
    pub fn nothing(&mut self, hash: u64) {
        self.land(hash);
    }

    /// A change took effect.
    pub fn committed(&mut self, hash: u64, key: &[u8], old: &Share, new: &Share) {
        let flight = self.land(hash);
        if let Some(known) = &mut self.known {
            known.committed(key, flight.overlaps_known, true, old, new);
        }
        if let Some(scan) = &mut self.scan {
            let covers = scan.covers(key);
            scan.count.committed(key, flight.overlaps_scan, covers, old, new);
        }
    }

    /// It is unknown whether a change took effect, or will.
    pub fn lost(&mut self, hash: u64, key: &[u8], old: &Share) {
        let flight = self.land(hash);
        self.losses += 1;
        match &mut self.known {
            Some(known) => known.lost(key, flight.overlaps_known, true, flight.shared, old),
            None => self.lost_before_count.lost(key, false, false, flight.shared, old),
        }
        if let Some(scan) = &mut self.scan {
            let covers = scan.covers(key);
            scan.count.lost(key, flight.overlaps_scan, covers, flight.shared, old);
        }
    }

    /// Begins a scan, replacing one that was given up.
    pub fn scan(&mut self) {
        self.scans += 1;
        let mut scan = Scan { number: self.scans, ..Scan::default() };
        // A lost change from before may still take effect after the scan has read its key.
        let before = self.known.as_ref().unwrap_or(&self.lost_before_count);
        let unsure = before.open.iter().filter(|(_, open)| !open.sure);
        scan.count.open = unsure.map(|(key, open)| (key.clone(), open.clone())).collect();
        scan.count.suspect = self.known.is_none() && self.lost_before_count.suspect;
        self.scan = Some(scan);
        self.flights.values_mut().for_each(|f| f.overlaps_scan = false);
    }

    /// The scan is given up.
    pub fn give_up(&mut self) {
        self.scan = None;
    }

    /// The scan begins to read a page after the keys that it has read.
    pub fn read_page(&mut self) {
        if let Some(scan) = &mut self.scan {
            scan.reading = true;
            let behind = self.flights.values_mut().filter(|f| f.covered_by != scan.number);
            behind.for_each(|f| f.overlaps_scan = true);
        }
    }

    /// The page that was read: all keys after those read before, in order. `None` for keys that must be read
    /// separately.
    pub fn page<'a>(&mut self, keys: impl Iterator<Item = (&'a [u8], Option<Share>)>) {
        let Some(scan) = &mut self.scan else { return };
        scan.reading = false;
        let mut last = None;
        for (key, share) in keys {
            last = Some(key);
            if scan.count.open.contains_key(key) {
                continue;
            }
            let overlapped = self.flights.get(&key_hash(key)).is_some_and(|f| f.overlaps_scan);
            match share {
                Some(share) if !overlapped => scan.count.sum.add(&share, 1),
                share => scan.count.open(key, share.unwrap_or_default(), true),
            }
        }
        if let Some(last) = last {
            scan.seen = Some(last.into());
        }
    }

    /// The scan has read the last page: its count is shown from now on.
    pub fn finish(&mut self, now_ms: i64) {
        let Some(scan) = self.scan.take() else { return };
        let (own, _) = self.own();
        let counted = scan.count.numbers();
        self.ahead = std::array::from_fn(|i| counted[i].wrapping_sub(own[i]));
        self.known = Some(scan.count);
        self.lost_before_count = Count::default();
        self.counted_ms = now_ms;
        for f in self.flights.values_mut() {
            (f.overlaps_known, f.overlaps_scan) = (f.overlaps_scan, false);
        }
    }

    /// Up to `most` open keys that should be read now.
    pub fn due(&mut self, now_ms: i64, most: usize) -> Vec<Box<[u8]>> {
        let Some(known) = &mut self.known else { return Vec::new() };
        let due = known.open.iter_mut().filter(|(_, o)| o.due_ms <= now_ms).take(most);
        due.map(|(key, open)| {
            open.touched = false;
            key.clone()
        })
        .collect()
    }

    /// An open key was read after [`BucketTally::due`] returned it; `None`: the read failed.
    pub fn read(&mut self, key: &[u8], share: Option<Share>, now_ms: i64) {
        let flies = self.flights.contains_key(&key_hash(key));
        let Some(known) = &mut self.known else { return };
        let Some(open) = known.open.get_mut(key) else { return };
        let Some(share) = share.filter(|_| !open.touched && !flies) else { return };
        open.share = share;
        open.reads += 1;
        if open.sure || open.reads >= MAX_READS {
            known.open.remove(key);
            known.sum.add(&share, 1);
        } else {
            open.due_ms = now_ms + (1000 << open.reads);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::tests::Rng;

    #[test]
    fn size_classes_match_their_bounds() {
        let at = |n| class(&SIZE_BOUNDS, n);
        assert_eq!(
            [at(0), at(1023), at(1024), at((1 << 20) - 1), at(1 << 20), at(u64::MAX)],
            [0, 0, 1, 4, 5, 9]
        );
        let at = |n| class(&COUNT_BOUNDS, n);
        assert_eq!([at(0), at(1), at(2), at(9), at(10), at(10_000)], [0, 1, 2, 2, 3, 6]);
    }

    /// A change on its way: when it began, the old share once it took effect.
    struct Change {
        key: u8,
        hash: u64,
        new: Share,
        done: Option<Share>,
    }

    fn truth(keys: &BTreeMap<u8, Share>) -> Usage {
        let mut t = Count::default();
        keys.values().for_each(|s| t.sum.add(s, 1));
        t.usage()
    }

    #[test]
    fn own_changes_are_the_same_before_and_after_a_count() {
        let mut b = BucketTally::of_own_changes();
        let commit = |b: &mut BucketTally, key: u8, old: Share, new: Share| {
            let hash = b.begin(&[key]);
            b.committed(hash, &[key], &old, &new);
        };
        // Another node wrote the key 1 with 500 bytes: what this one removes of it is below zero.
        commit(&mut b, 1, Share::one(500, false), Share::default());
        commit(&mut b, 2, Share::default(), Share::one(2000, false));
        let own = |b: &BucketTally| {
            let (numbers, losses) = b.own();
            (numbers[0], numbers[1], numbers[3], losses)
        };
        assert_eq!(own(&b), (1500, 0, 0, 0));
        // It counts 3000 bytes that others wrote.
        b.scan();
        b.read_page();
        let lost = b.begin(&[9]);
        let found = [([2u8], Share::one(2000, false)), ([5u8], Share::one(3000, false))];
        b.page(found.iter().map(|(k, s)| (&k[..], Some(*s))));
        b.finish(1);
        assert_eq!((own(&b), b.numbers()[0]), ((1500, 0, 0, 0), 5000));
        commit(&mut b, 5, Share::one(3000, false), Share::one(10, false));
        assert_eq!((own(&b), b.numbers()[0]), ((-1490, 0, 0, 0), 2010));
        b.lost(lost, &[9], &Share::default());
        assert_eq!(own(&b), (-1490, 0, 0, 1));
        // It did take effect: it is added when the key has been read.
        for at in 0..i64::from(MAX_READS) {
            assert_eq!(b.due(at << 20, 9).len(), 1, "{at}");
            b.read(&[9], Some(Share::one(7, false)), at << 20);
        }
        assert_eq!((own(&b), b.unsettled()), ((-1483, 1, 1, 1), 0));
        let shown = Usage::from_numbers(&b.numbers());
        assert_eq!(shown, b.usage().unwrap());
        assert_eq!(Usage::from_numbers(&[-1; NUMBERS]), Usage::default());
    }

    /// Changes in every order against scans whose pages are read at any time between begin and end, with
    /// several changes of one key on their way, lost answers and changes that take effect after they
    /// were lost. When everything is quiet, the count is the truth.
    #[test]
    fn counts_are_exact_under_random_changes() {
        for seed in 1..3000u64 {
            let mut rng = Rng(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
            let (mut keys, mut b) = (BTreeMap::<u8, Share>::new(), BucketTally::default());
            for k in 0..rng.below(6) as u8 {
                keys.insert(k, Share::one(rng.below(3000), false));
            }
            let mut flying: Vec<Change> = Vec::new();
            let mut late: Vec<(u8, Share)> = Vec::new();
            let mut page: Option<(Vec<(u8, Share)>, bool)> = None;
            let (mut scanning, mut from) = (false, 0u8);
            for _ in 0..80 {
                match rng.below(10) {
                    0..=2 => {
                        let key = rng.below(8) as u8;
                        let new = if rng.chance(3) {
                            Share::default()
                        } else {
                            Share::one(rng.below(3000), rng.chance(5))
                        };
                        flying.push(Change { key, hash: b.begin(&[key]), new, done: None });
                    }
                    3..=4 if !flying.is_empty() => {
                        let i = rng.below(flying.len() as u64) as usize;
                        if flying[i].done.is_none() {
                            let c = &mut flying[i];
                            c.done = Some(keys.insert(c.key, c.new).unwrap_or_default());
                            let moved = c.key;
                            late.retain(|(k, _)| *k != moved);
                        }
                    }
                    5..=6 if !flying.is_empty() => {
                        let i = rng.below(flying.len() as u64) as usize;
                        let c = flying.swap_remove(i);
                        match c.done {
                            Some(old) if rng.chance(6) => b.lost(c.hash, &[c.key], &old),
                            Some(old) => b.committed(c.hash, &[c.key], &old, &c.new),
                            None if rng.chance(3) => {
                                let old = keys.get(&c.key).copied().unwrap_or_default();
                                b.lost(c.hash, &[c.key], &old);
                                // Nobody else is at this key, as with a register that has one undecided round.
                                if rng.chance(2) && !flying.iter().any(|f| f.key == c.key) {
                                    late.push((c.key, c.new));
                                }
                            }
                            None => b.nothing(c.hash),
                        }
                    }
                    7 if !scanning => {
                        (scanning, from) = (true, 0);
                        b.scan();
                    }
                    7 if rng.chance(20) => {
                        (scanning, page) = (false, None);
                        b.give_up();
                    }
                    8 if scanning && page.is_none() => {
                        b.read_page();
                        page = Some((Vec::new(), false));
                    }
                    8 if scanning => {
                        let (read, was) = page.as_mut().unwrap();
                        if !*was {
                            // The page shows this moment, somewhere between its begin and its end.
                            let n = 1 + rng.below(3) as usize;
                            let some = |s: &Share| *s != Share::default();
                            *read = keys
                                .range(from..)
                                .filter(|(_, s)| some(s))
                                .take(n)
                                .map(|(k, s)| (*k, *s))
                                .collect();
                            *was = true;
                            continue;
                        }
                        let (read, _) = page.take().unwrap();
                        let names: Vec<[u8; 1]> = read.iter().map(|(k, _)| [*k]).collect();
                        b.page(names.iter().map(|k| &k[..]).zip(read.iter().map(|(_, s)| Some(*s))));
                        match read.last() {
                            Some((k, _)) => from = k + 1,
                            None => {
                                b.finish(0);
                                scanning = false;
                            }
                        }
                    }
                    9 => {
                        // A round that nobody waits for is completed, if the key has not moved on.
                        if let Some((key, new)) = late.pop()
                            && !flying.iter().any(|f| f.key == key)
                        {
                            keys.insert(key, new);
                        }
                    }
                    _ => {}
                }
            }
            for c in flying.drain(..) {
                match c.done {
                    Some(old) => b.committed(c.hash, &[c.key], &old, &c.new),
                    None => b.nothing(c.hash),
                }
            }
            b.give_up();
            if b.wants_scan() {
                b.scan();
                b.read_page();
                let names: Vec<([u8; 1], Share)> = keys.iter().map(|(k, s)| ([*k], *s)).collect();
                b.page(names.iter().map(|(k, s)| (&k[..], Some(*s))));
                b.finish(0);
            }
            for now in 0..2 * i64::from(MAX_READS) {
                for key in b.due(now * 10_000_000, 100) {
                    let share = keys.get(&key[0]).copied().unwrap_or_default();
                    b.read(&key, Some(share), now * 10_000_000);
                }
            }
            assert_eq!((b.usage(), b.unsettled()), (Some(truth(&keys)), 0), "seed {seed}");
            assert!(b.flights.is_empty());
        }
    }
}
