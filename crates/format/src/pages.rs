//! Version pages: the older versions of a key whose list is too long for its record.
//!
//! The record of such a key holds its newest versions and a reference to the root of a tree of pages
//! ([`Below`]). A page is data of the register like the body of an object: immutable, written under a write
//! id of its own, named by the record or by another page. A leaf holds versions, a row holds references.
//! Invariants: within a page positions fall, and the references of a row cover ranges that do not overlap;
//! a page has one encoding. Byte layout: docs/formats.md, "Version page".
//!
//! Must not depend on: where pages are kept, when they are made (`ashlar_commit::version_list`).

use crate::codec::{Reader, Writer};
use crate::record::{get_data, get_version, put_data, put_version};
use crate::{Data, Error, Part, Version};

/// The page format written by this release.
const FORMAT: u8 = 1;
/// Bits of a filter per id.
const BITS: usize = 6;
/// Hash functions of a filter.
const HASHES: u64 = 4;
/// More levels than any list needs.
const MAX_LEVEL: u8 = 32;
/// Longest filter in bytes; a leaf with more ids has none.
const MAX_FILTER: usize = 512;

/// The versions below those in the record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Below {
    /// The position of the next version that moves from the record to a page; positions begin at 1.
    pub next: u64,
    /// The position of the null version, if it is in a page.
    pub null: Option<u64>,
    /// The root: a row.
    pub root: PageRef,
}

/// A reference to a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageRef {
    /// The page as a piece of data. Only `size` and `data` are kept.
    pub page: Part,
    /// 0: a leaf; else one more than the highest level among the references of the row.
    pub level: u8,
    /// Pages of one tier are joined when there are too many of them.
    pub tier: u8,
    /// Versions in the tree below, without delete markers.
    pub versions: u64,
    /// Delete markers in the tree below.
    pub markers: u64,
    /// Bytes of these versions as clients see them.
    pub bytes: u64,
    /// The highest position.
    pub newest: u64,
    /// The lowest position.
    pub oldest: u64,
    /// Of a leaf: which ids it may hold, of versions and of data. Empty: any.
    pub filter: Vec<u8>,
}

/// A version in a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its position in the list, which never changes: newer versions have higher positions.
    pub position: u64,
    /// The version.
    pub version: Version,
}

/// A version page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Page {
    /// Versions, newest first; never empty.
    Leaf(Vec<Entry>),
    /// References, newest first; never empty.
    Row(Vec<PageRef>),
}

impl Page {
    /// The bytes of the page.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut w = Writer::with_capacity(4096);
        w.u8(FORMAT);
        match self {
            Page::Leaf(entries) => {
                w.u8(0);
                w.list(entries, |w, e| {
                    w.var(e.position);
                    put_version(w, &e.version);
                });
            }
            Page::Row(refs) => {
                w.u8(1);
                w.list(refs, put_ref);
            }
        }
        w.into_vec()
    }

    /// The inverse of [`Page::encode`].
    ///
    /// # Errors
    /// [`Error::Version`] for a newer format, [`Error::Malformed`] for anything else.
    pub fn decode(bytes: &[u8]) -> Result<Page, Error> {
        let mut r = Reader::new(bytes);
        match r.u8()? {
            FORMAT => {}
            v => return Err(Error::Version { what: "version page", found: u32::from(v) }),
        }
        let page = match r.u8()? {
            0 => Page::Leaf(r.list(|r| Ok(Entry { position: r.var()?, version: get_version(r)? }))?),
            1 => Page::Row(r.list(get_ref)?),
            _ => return Err(Error::Malformed("kind of page")),
        };
        r.end()?;
        let ordered = match &page {
            Page::Leaf(l) => !l.is_empty() && l.is_sorted_by(|a, b| a.position > b.position),
            Page::Row(l) => !l.is_empty() && l.is_sorted_by(|a, b| a.oldest > b.newest),
        };
        if ordered { Ok(page) } else { Err(Error::Malformed("order of a page")) }
    }

    /// The data that the page itself names: that of its versions, or the pages of its references.
    pub fn data(&self) -> impl Iterator<Item = &Part> {
        let (entries, refs): (&[Entry], &[PageRef]) = match self {
            Page::Leaf(l) => (l, &[]),
            Page::Row(l) => (&[], l),
        };
        entries.iter().flat_map(|e| e.version.parts.iter()).chain(refs.iter().map(|r| &r.page))
    }

    /// A reference to this page, written as `data` with `size` bytes.
    #[must_use]
    pub fn reference(&self, tier: u8, data: Data, size: u64) -> PageRef {
        let page = Part { number: 0, size, md5: [0; 16], checksum: None, modified_ms: 0, data };
        let mut r = PageRef {
            page,
            level: 0,
            tier,
            versions: 0,
            markers: 0,
            bytes: 0,
            newest: 0,
            oldest: u64::MAX,
            filter: Vec::new(),
        };
        match self {
            Page::Leaf(entries) => {
                for e in entries {
                    let marker = e.version.delete_marker;
                    *(if marker { &mut r.markers } else { &mut r.versions }) += 1;
                    r.bytes = r.bytes.saturating_add(if marker { 0 } else { e.version.size });
                    r.newest = r.newest.max(e.position);
                    r.oldest = r.oldest.min(e.position);
                }
                r.filter = filter(entries);
            }
            Page::Row(refs) => {
                for below in refs {
                    r.level = r.level.max(below.level + 1);
                    r.versions = r.versions.saturating_add(below.versions);
                    r.markers = r.markers.saturating_add(below.markers);
                    r.bytes = r.bytes.saturating_add(below.bytes);
                    r.newest = r.newest.max(below.newest);
                    r.oldest = r.oldest.min(below.oldest);
                }
            }
        }
        r
    }
}

impl PageRef {
    /// False: neither a version nor a piece of data with this id is in the tree below.
    #[must_use]
    pub fn may_hold(&self, id: &[u8; 16]) -> bool {
        let bits = self.filter.len() as u64 * 8;
        bits == 0 || places(id, bits).all(|at| self.filter[(at / 8) as usize] >> (at % 8) & 1 == 1)
    }

    /// Versions and delete markers in the tree below.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.versions.saturating_add(self.markers)
    }
}

/// Which bits of a filter an id sets.
fn places(id: &[u8; 16], bits: u64) -> impl Iterator<Item = u64> {
    use highway::{HighwayHash, HighwayHasher, Key};
    let key = Key([0x6173_686c, 0x6172_2070, 0x6167_6520, 0x6964_7631]);
    let h = HighwayHasher::new(key).hash64(id);
    (0..HASHES).map(move |i| h.wrapping_add(i.wrapping_mul(h.rotate_left(32) | 1)) % bits)
}

fn filter(entries: &[Entry]) -> Vec<u8> {
    let ids = |e: &Entry| 1 + e.version.parts.len();
    let len = (entries.iter().map(ids).sum::<usize>() * BITS).div_ceil(8);
    if len > MAX_FILTER {
        return Vec::new();
    }
    let mut filter = vec![0; len];
    let mut set = |id: &[u8; 16]| {
        for at in places(id, len as u64 * 8) {
            filter[(at / 8) as usize] |= 1 << (at % 8);
        }
    };
    for e in entries {
        set(&e.version.id.0);
        e.version.parts.iter().for_each(|p| set(&p.data.write_id.0));
    }
    filter
}

fn put_ref(w: &mut Writer, r: &PageRef) {
    w.var(r.page.size);
    put_data(w, &r.page.data);
    w.u8(r.level);
    w.u8(r.tier);
    w.var(r.versions);
    w.var(r.markers);
    w.var(r.bytes);
    w.var(r.newest);
    w.var(r.oldest);
    w.bytes(&r.filter);
}

fn get_ref(r: &mut Reader<'_>) -> Result<PageRef, Error> {
    let size = r.var()?;
    let data = get_data(r)?;
    let page = Part { number: 0, size, md5: [0; 16], checksum: None, modified_ms: 0, data };
    let of = PageRef {
        page,
        level: r.u8()?,
        tier: r.u8()?,
        versions: r.var()?,
        markers: r.var()?,
        bytes: r.var()?,
        newest: r.var()?,
        oldest: r.var()?,
        filter: r.bytes()?.to_vec(),
    };
    let range = of.oldest > 0 && of.oldest <= of.newest;
    let sound = range && of.level <= MAX_LEVEL && of.filter.len() <= MAX_FILTER;
    if sound { Ok(of) } else { Err(Error::Malformed("page reference")) }
}

pub(crate) fn put_below(w: &mut Writer, b: &Below) {
    w.var(b.next);
    w.option(b.null.as_ref(), |w, p| w.var(*p));
    put_ref(w, &b.root);
}

pub(crate) fn get_below(r: &mut Reader<'_>) -> Result<Below, Error> {
    let b = Below { next: r.var()?, null: r.option(|r| r.var())?, root: get_ref(r)? };
    let within = |p: u64| p >= b.root.oldest && p <= b.root.newest;
    if b.next > b.root.newest && b.root.level > 0 && b.null.is_none_or(within) {
        Ok(b)
    } else {
        Err(Error::Malformed("root of pages"))
    }
}
