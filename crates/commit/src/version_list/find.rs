//! Looking into pages: by id, by data, by place.
//!
//! Must not depend on: how pages come about.

use super::{Need, Pages, names};
use ashlar_format::{Below, Entry, Page, PageRef, VersionId, WriteId};
use std::sync::Arc;

/// The version with this id, if it is in a page.
///
/// # Errors
/// [`Need`].
pub fn find(below: &Below, pages: &Pages, id: VersionId) -> Result<Option<Entry>, Need> {
    if id == VersionId::ZERO {
        // Filters need not be asked: the record knows.
        return below.null.map_or(Ok(None), |at| entry(below, pages, at));
    }
    search(below, pages, &id.0, |e| e.version.id == id)
}

/// Whether a version in a page names this data, or it is a page of the tree itself.
///
/// # Errors
/// [`Need`].
pub fn names_data(below: &Below, pages: &Pages, id: WriteId) -> Result<bool, Need> {
    names_data_besides(below, pages, id, |_| false)
}

/// As [`names_data`]; versions at the positions `besides` do not count.
pub(super) fn names_data_besides(
    below: &Below,
    pages: &Pages,
    id: WriteId,
    besides: impl Fn(u64) -> bool,
) -> Result<bool, Need> {
    if below.root.page.data.write_id == id {
        return Ok(true);
    }
    let mut rows = vec![&below.root];
    while !rows.is_empty() {
        pages.missing(rows.iter().copied())?;
        let mut next = Vec::new();
        for r in rows {
            let Page::Row(refs) = &**pages.get(r)? else { continue };
            if refs.iter().any(|r| r.page.data.write_id == id) {
                return Ok(true);
            }
            next.extend(refs.iter().filter(|r| r.level > 0));
        }
        rows = next;
    }
    Ok(search(below, pages, &id.0, |e| names(&e.version, id) && !besides(e.position))?.is_some())
}

/// The first entry that is `wanted`, of the leaves whose filter lets the id through. The pages of a level
/// are asked for together.
fn search(
    below: &Below,
    pages: &Pages,
    id: &[u8; 16],
    wanted: impl Fn(&Entry) -> bool,
) -> Result<Option<Entry>, Need> {
    let mut level = vec![&below.root];
    while !level.is_empty() {
        pages.missing(level.iter().copied())?;
        let mut next = Vec::new();
        for r in level {
            match &**pages.get(r)? {
                Page::Leaf(entries) => {
                    if let Some(e) = entries.iter().find(|e| wanted(e)) {
                        return Ok(Some(e.clone()));
                    }
                }
                Page::Row(refs) => next.extend(refs.iter().filter(|r| r.may_hold(id))),
            }
        }
        level = next;
    }
    Ok(None)
}

/// The entry at a position.
fn entry(below: &Below, pages: &Pages, position: u64) -> Result<Option<Entry>, Need> {
    let leaf = next_leaf(below, pages, position.saturating_add(1))?;
    Ok(leaf.and_then(|l| l.iter().find(|e| e.position == position).cloned()))
}

/// The versions of one leaf below a position, newest first: the next ones of a list. `None`: there are
/// none. Begin with [`Below::next`], go on with the position of the last one.
///
/// # Errors
/// [`Need`].
pub fn next_leaf(below: &Below, pages: &Pages, before: u64) -> Result<Option<Arc<[Entry]>>, Need> {
    let holds = |r: &&PageRef| r.oldest < before;
    let Some(mut r) = Some(&below.root).filter(holds) else { return Ok(None) };
    loop {
        match &**pages.get(r)? {
            Page::Row(refs) => match refs.iter().find(holds) {
                Some(next) => r = next,
                None => return Ok(None),
            },
            Page::Leaf(entries) => {
                let rest = entries.iter().filter(|e| e.position < before).cloned().collect();
                return Ok(Some(rest));
            }
        }
    }
}
