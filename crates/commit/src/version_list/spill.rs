//! Moving versions from the head to pages, and joining pages. The list stays as it is.
//!
//! Must not depend on: why the head is long.

use super::tree::{Tree, row_of, size_of};
use super::{Bounds, Need, Pages, Plan, mark_shared, share};
use ashlar_format::{Body, Entry, Version, VersionId};

/// The head is to be made shorter.
#[must_use]
pub fn is_long(body: &Body, bounds: &Bounds) -> bool {
    if !matches!(body, Body::Versions(_) | Body::Paged(_)) {
        return false;
    }
    let head = body.newest();
    let bytes = || head.iter().map(size_of).sum::<u64>() as usize;
    head.len() > bounds.head || (head.len() > bounds.keep + 1 && bytes() > bounds.head_bytes)
}

/// The plan that makes the head short. `None`: it is short.
///
/// # Errors
/// [`Need`].
pub fn spill(body: &Body, pages: &Pages, bounds: &Bounds) -> Result<Option<Plan>, Need> {
    match newest_to_spill(body, bounds) {
        Some(id) => spill_from(body, pages, bounds, id),
        None => Ok(None),
    }
}

/// The newest of the versions that [`spill`] moves. `None`: the head is short.
#[must_use]
pub fn newest_to_spill(body: &Body, bounds: &Bounds) -> Option<VersionId> {
    is_long(body, bounds).then(|| body.newest()[bounds.keep.max(1)].id)
}

/// The plan that moves this version and those of the head below it. Versions that were added since it was
/// made do not change its pages. `None`: the version is the newest of all, or not in the head.
///
/// # Errors
/// [`Need`].
pub fn spill_from(
    body: &Body,
    pages: &Pages,
    bounds: &Bounds,
    newest: VersionId,
) -> Result<Option<Plan>, Need> {
    let mut head = match body {
        Body::Versions(_) | Body::Paged(_) => body.newest().to_vec(),
        _ => return Ok(None),
    };
    let Some(at) = head.iter().position(|v| v.id == newest).filter(|at| *at > 0) else { return Ok(None) };
    let alike: Vec<bool> =
        (0..head.len()).map(|i| (0..head.len()).any(|j| i != j && share(&head[i], &head[j]))).collect();
    for (v, _) in head.iter_mut().zip(alike).filter(|(_, alike)| *alike) {
        mark_shared(v);
    }
    let older = head.split_off(at);
    let (mut next, mut null) = body.below().map_or((1, None), |b| (b.next, b.null));
    let mut tree = Tree { pages, bounds, dropped: Vec::new() };
    let mut row = match body.below() {
        Some(b) => tree.open_row(super::tree::Node::Kept(b.root.clone()))?,
        None => Vec::new(),
    };
    for leaf in leaves(older, bounds) {
        let mut entries = Vec::with_capacity(leaf.len());
        for version in leaf {
            if version.id == VersionId::ZERO {
                null = Some(next);
            }
            entries.push(Entry { position: next, version });
            next += 1;
        }
        entries.reverse();
        tree.push(&mut row, entries)?;
    }
    let root = row_of(row, 0);
    Ok(Some(Plan::new(head, (next, null), Some(root), tree.dropped)))
}

/// Cuts versions, newest first, into leaves: the oldest leaf first, in each the oldest version first.
fn leaves(versions: Vec<Version>, bounds: &Bounds) -> Vec<Vec<Version>> {
    let mut out: Vec<Vec<Version>> = Vec::new();
    let mut bytes = 0;
    for v in versions.into_iter().rev() {
        let size = size_of(&v);
        match out.last_mut() {
            Some(leaf) if (leaf.len() as u64) < bounds.leaf && bytes + size <= bounds.page_bytes => {
                leaf.push(v);
                bytes += size;
            }
            _ => {
                out.push(vec![v]);
                bytes = size;
            }
        }
    }
    out
}
