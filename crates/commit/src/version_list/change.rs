//! Changing the list: what an operation sees of it, and what follows from what it makes of that.
//!
//! An operation gets a *window*: the head, and behind it those older versions that it names. It answers with
//! the window as it should be. Invariant: what is not in the window stays as it is, and in its place.
//!
//! Must not depend on: what operations there are.

use super::find::{find, names_data_besides};
use super::tree::{Edits, Node, Tree, row_of};
use super::{Bounds, Need, Pages, Plan, is_shared, mark_shared, names, share};
use ashlar_format::{Body, Data, Entry, PageRef, Version, VersionId};
use std::borrow::Cow;

/// What an operation sees of a list.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Window<'a> {
    /// The head itself where no older version is seen: so most changes copy no version.
    versions: Cow<'a, [Version]>,
    /// How many of them are the head's.
    head: usize,
    /// The positions of the others.
    positions: Vec<u64>,
}

impl<'a> Window<'a> {
    /// The head, and the older versions with these ids, as far as they are there.
    ///
    /// # Errors
    /// [`Need`].
    pub fn of(body: &'a Body, pages: &Pages, ids: &[VersionId]) -> Result<Window<'a>, Need> {
        let head = body.newest();
        let mut older: Vec<Entry> = Vec::new();
        let mut need: Vec<PageRef> = Vec::new();
        if let Some(below) = body.below() {
            for id in ids.iter().filter(|id| !head.iter().any(|v| v.id == **id)) {
                match find(below, pages, *id) {
                    Ok(found) => older.extend(found),
                    Err(Need(more)) => {
                        let new = more.into_iter().filter(|r| !need.contains(r)).collect::<Vec<_>>();
                        need.extend(new);
                    }
                }
            }
        }
        if !need.is_empty() {
            return Err(Need(need));
        }
        older.sort_by_key(|e| std::cmp::Reverse(e.position));
        older.dedup_by_key(|e| e.position);
        let positions = older.iter().map(|e| e.position).collect();
        let versions = match older.is_empty() {
            true => Cow::Borrowed(head),
            false => head.iter().cloned().chain(older.into_iter().map(|e| e.version)).collect(),
        };
        Ok(Window { versions, head: head.len(), positions })
    }

    /// The versions that are seen, newest first.
    #[must_use]
    pub fn versions(&self) -> &[Version] {
        &self.versions
    }

    /// What becomes of the older versions, if the window becomes `new`; the rest of `new` is the head.
    fn split(&self, mut new: Vec<Version>) -> (Vec<Version>, Edits) {
        let mut edits = Edits::new();
        for (old, position) in self.versions[self.head..].iter().zip(&self.positions).rev() {
            match new.last() {
                Some(v) if v.id == old.id => {
                    if let Some(v) = new.pop()
                        && v != *old
                    {
                        edits.insert(*position, Some(v));
                    }
                }
                _ => {
                    edits.insert(*position, None);
                }
            }
        }
        (new, edits)
    }
}

/// The plan by which the window becomes `new`: with versions added before all others, changed, or removed.
///
/// # Errors
/// [`Need`].
pub fn change(
    body: &Body,
    window: &Window<'_>,
    new: Vec<Version>,
    pages: &Pages,
    bounds: &Bounds,
) -> Result<Plan, Need> {
    let (mut head, mut edits) = window.split(new);
    mark(window, &mut head, &mut edits);
    let mut dropped = gone(body, window, &head, &edits, pages)?;
    let Some(below) = body.below() else {
        return Ok(Plan::new(head, (1, None), None, dropped));
    };
    let mut null = below.null.filter(|at| !matches!(edits.get(at), Some(None)));
    let mut tree = Tree { pages, bounds, dropped: Vec::new() };
    if edits.is_empty() && !head.is_empty() {
        let root = Node::Kept(below.root.clone());
        return Ok(Plan::new(head, (below.next, null), Some(root), dropped));
    }
    let row = tree.open_row(Node::Kept(below.root.clone()))?;
    let mut row = tree.edit(row, &edits)?;
    if head.is_empty() {
        let newest = tree.take_newest(&mut row, (bounds.head / 2).max(1))?;
        null = null.filter(|at| !newest.iter().any(|e| e.position == *at));
        head = newest.into_iter().map(|e| e.version).collect();
    }
    dropped.append(&mut tree.dropped);
    let root = (!row.is_empty()).then(|| row_of(row, 0));
    Ok(Plan::new(head, (below.next, null), root, dropped))
}

/// Marks what a new version and an older one share.
fn mark(window: &Window<'_>, head: &mut [Version], edits: &mut Edits) {
    let older = &window.versions[window.head..];
    for v in head.iter_mut() {
        for (old, position) in older.iter().zip(&window.positions) {
            if share(v, old) && !(is_shared(v) && is_shared(old)) {
                mark_shared(v);
                let kept = edits.entry(*position).or_insert_with(|| Some(old.clone()));
                kept.iter_mut().for_each(mark_shared);
            }
        }
    }
    // What shares with a marked version of the head may share with one in a page that is not seen.
    let marked: Vec<Version> = head.iter().filter(|v| is_shared(v)).cloned().collect();
    for v in head.iter_mut().filter(|v| !is_shared(v)) {
        if marked.iter().any(|m| share(m, v)) {
            mark_shared(v);
        }
    }
}

/// Data that the window named and that nothing names any more.
fn gone(
    body: &Body,
    window: &Window<'_>,
    head: &[Version],
    edits: &Edits,
    pages: &Pages,
) -> Result<Vec<Data>, Need> {
    let changed: Vec<&Version> = edits.values().flatten().collect();
    let kept = window.positions.iter().zip(&window.versions[window.head..]);
    let kept: Vec<&Version> = kept.filter(|(at, _)| !edits.contains_key(at)).map(|(_, v)| v).collect();
    let mut out: Vec<Data> = Vec::new();
    for v in window.versions.iter() {
        for data in v.parts.iter().map(|p| p.data) {
            let id = data.write_id;
            let named = |v: &Version| names(v, id);
            let still = head.iter().any(named)
                || changed.iter().any(|v| named(v))
                || kept.iter().any(|v| named(v))
                || out.iter().any(|d| d.write_id == id);
            if still {
                continue;
            }
            let elsewhere = match body.below() {
                Some(below) if is_shared(v) => {
                    names_data_besides(below, pages, id, |at| window.positions.contains(&at))?
                }
                _ => false,
            };
            if !elsewhere {
                out.push(data);
            }
        }
    }
    Ok(out)
}
