//! The versions of a key that has many: the newest in its record (the *head*), the others in pages.
//!
//! A pure machine over the head, the reference to the root of the pages, and the pages that were read. It
//! says which page is to be read for an operation ([`Need`]: read it, put it into [`Pages`], ask again),
//! which pages are to be written, and what the next record is and no longer names ([`Plan`]). It serves the
//! store, the drives' housekeeping and the model alike.
//!
//! * Versions move from the head to pages when the head is long ([`spill`]), in a change of its own that
//!   leaves the list as it is. So most changes write no page.
//! * A spill makes a small leaf. More than [`Bounds::fan`] pages of one tier are joined to one of the next
//!   tier: small ones are copied into one, large ones get a row above them. So each version is copied a
//!   number of times that grows with the logarithm of their number, and a row is read in steps.
//! * A change of an old version ([`change`]) rewrites its page and those above it. Pages without versions
//!   disappear, small neighbours are joined, a row of one page gives way to the page.
//!
//! Invariants: a list and its pages say the same as the plain list, in the same order; a page is never
//! changed, only replaced; what a plan drops, its record does not name; the head of a key with versions is
//! never empty; data that several versions may name is marked ([`SHARED`]) on all of them once one of them
//! is in a page.
//!
//! Must not depend on: where pages are kept, how they are read, what versions mean.

mod change;
mod find;
mod plan;
mod spill;
#[cfg(test)]
mod tests;
mod tree;

pub use change::{Window, change};
pub use find::{find, names_data, next_leaf};
pub use plan::{Plan, Written};
pub use spill::{is_long, newest_to_spill, spill, spill_from};

use ashlar_format::{Body, Page, PageRef, Version, WriteId};
use std::collections::HashMap;
use std::sync::Arc;

/// In the metadata of a version whose data another version of the key may name too.
pub const SHARED: &str = ":shared";

/// How long things may get.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bounds {
    /// Most versions of a head.
    pub head: usize,
    /// Most bytes of a head with more than [`Bounds::keep`] versions.
    pub head_bytes: usize,
    /// Versions that a spill leaves in the head.
    pub keep: usize,
    /// Most versions of a leaf.
    pub leaf: u64,
    /// Most bytes of a page, unless it is of one version.
    pub page_bytes: u64,
    /// Most pages of one tier in the root.
    pub fan: usize,
}

impl Bounds {
    /// Those in use. The longer a head, the fewer spills; but every change writes the whole head
    /// (docs/decisions/0023-version-pages.md).
    pub const STANDARD: Bounds =
        Bounds { head: 11, head_bytes: 4 << 10, keep: 2, leaf: 96, page_bytes: 32 << 10, fan: 8 };
}

/// These pages are to be read first.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Need(pub Vec<PageRef>);

/// Pages that were read.
#[derive(Clone, Debug, Default)]
pub struct Pages(HashMap<WriteId, Arc<Page>>);

impl Pages {
    /// Takes a page that was read.
    pub fn insert(&mut self, id: WriteId, page: Arc<Page>) {
        self.0.insert(id, page);
    }

    /// A page, or that it is to be read.
    ///
    /// # Errors
    /// [`Need`]: this page.
    pub fn get(&self, r: &PageRef) -> Result<&Arc<Page>, Need> {
        self.0.get(&r.page.data.write_id).ok_or_else(|| Need(vec![r.clone()]))
    }

    /// Those of `refs` that are to be read.
    fn missing<'a>(&self, refs: impl IntoIterator<Item = &'a PageRef>) -> Result<(), Need> {
        let unread = |r: &&PageRef| !self.0.contains_key(&r.page.data.write_id);
        let need: Vec<PageRef> = refs.into_iter().filter(unread).cloned().collect();
        if need.is_empty() { Ok(()) } else { Err(Need(need)) }
    }
}

/// Versions and delete markers of a key, those in pages included.
#[must_use]
pub fn count(body: &Body) -> u64 {
    body.newest().len() as u64 + body.below().map_or(0, |b| b.root.count())
}

/// The version may share its data with others.
#[must_use]
pub fn is_shared(v: &Version) -> bool {
    v.meta.iter().any(|(k, _)| k == SHARED)
}

/// Marks the version as one that may share its data.
fn mark_shared(v: &mut Version) {
    if !is_shared(v) {
        v.meta.push((SHARED.to_owned(), String::new()));
    }
}

/// Whether two versions name a piece of data in common.
fn share(a: &Version, b: &Version) -> bool {
    a.parts.iter().any(|p| names(b, p.data.write_id))
}

/// Whether the version names the data.
fn names(v: &Version, id: WriteId) -> bool {
    v.parts.iter().any(|p| p.data.write_id == id)
}
