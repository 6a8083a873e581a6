//! The pages while a change is being planned: those that are kept, and those that are made.
//!
//! Invariant: a page that was opened is replaced, so it is noted as dropped, once.
//!
//! Must not depend on: which change it is.

use super::{Bounds, Need, Pages};
use ashlar_format::{Data, Entry, Page, PageRef, Version};
use std::collections::BTreeMap;

/// Small leaves have at most one part in so many of [`Bounds::leaf`] versions.
const SMALL: u64 = 4;

/// A page.
#[derive(Clone, Debug)]
pub(super) enum Node {
    /// As it is.
    Kept(PageRef),
    /// To be written.
    Made(Box<Made>),
}

/// A page to be written.
#[derive(Clone, Debug)]
pub(super) struct Made {
    pub tier: u8,
    /// About its bytes.
    pub bytes: u64,
    pub content: Content,
}

/// What is in a page to be written.
#[derive(Clone, Debug)]
pub(super) enum Content {
    Leaf(Vec<Entry>),
    Row(Vec<Node>),
}

/// What becomes of the versions at some positions: another version, or nothing.
pub(super) type Edits = BTreeMap<u64, Option<Version>>;

impl Node {
    pub fn tier(&self) -> u8 {
        match self {
            Node::Kept(r) => r.tier,
            Node::Made(m) => m.tier,
        }
    }

    pub fn set_tier(&mut self, tier: u8) {
        match self {
            Node::Kept(r) => r.tier = tier,
            Node::Made(m) => m.tier = tier,
        }
    }

    fn level(&self) -> u8 {
        match self {
            Node::Kept(r) => r.level,
            Node::Made(m) => match &m.content {
                Content::Leaf(_) => 0,
                Content::Row(nodes) => nodes.iter().map(Node::level).max().unwrap_or(0) + 1,
            },
        }
    }

    fn bytes(&self) -> u64 {
        match self {
            Node::Kept(r) => r.page.size,
            Node::Made(m) => m.bytes,
        }
    }

    /// Versions of a leaf.
    fn entries(&self) -> u64 {
        match self {
            Node::Kept(r) => r.count(),
            Node::Made(m) => match &m.content {
                Content::Leaf(l) => l.len() as u64,
                Content::Row(_) => u64::MAX,
            },
        }
    }

    /// Lowest and highest position; of made pages those of their content.
    fn range(&self) -> (u64, u64) {
        match self {
            Node::Kept(r) => (r.oldest, r.newest),
            Node::Made(m) => match &m.content {
                Content::Leaf(l) => (l.last().map_or(0, |e| e.position), l.first().map_or(0, |e| e.position)),
                Content::Row(n) => {
                    (n.last().map_or(0, |n| n.range().0), n.first().map_or(0, |n| n.range().1))
                }
            },
        }
    }
}

/// The tree, and what is replaced in it.
pub(super) struct Tree<'a> {
    pub pages: &'a Pages,
    pub bounds: &'a Bounds,
    pub dropped: Vec<Data>,
}

impl Tree<'_> {
    /// The content of a page, which is replaced.
    pub fn open(&mut self, node: Node) -> Result<Made, Need> {
        let r = match node {
            Node::Made(made) => return Ok(*made),
            Node::Kept(r) => r,
        };
        let content = match &**self.pages.get(&r)? {
            Page::Leaf(entries) => Content::Leaf(entries.clone()),
            Page::Row(refs) => Content::Row(refs.iter().cloned().map(Node::Kept).collect()),
        };
        self.dropped.push(r.page.data);
        Ok(Made { tier: r.tier, bytes: r.page.size, content })
    }

    /// The references in a row, which is replaced.
    pub fn open_row(&mut self, node: Node) -> Result<Vec<Node>, Need> {
        match self.open(node)?.content {
            Content::Row(nodes) => Ok(nodes),
            Content::Leaf(entries) => Ok(vec![leaf(entries, 0)]),
        }
    }

    /// Puts a leaf before all others, and joins the pages of tiers that are full.
    pub fn push(&mut self, row: &mut Vec<Node>, entries: Vec<Entry>) -> Result<(), Need> {
        row.insert(0, leaf(entries, 0));
        let mut at = 0;
        let mut tier = 0;
        while at < row.len() {
            let end = at + row[at..].iter().take_while(|n| n.tier() <= tier).count();
            if end - at > self.bounds.fan {
                let joined = self.join(row.drain(at..end).collect(), tier + 1)?;
                row.insert(at, joined);
            } else {
                at = end;
            }
            tier += 1;
        }
        Ok(())
    }

    /// Several pages in one: their content if it fits, else a row of them.
    fn join(&mut self, nodes: Vec<Node>, tier: u8) -> Result<Node, Need> {
        let level = nodes[0].level();
        let same = nodes.iter().all(|n| n.level() == level);
        let bytes: u64 = nodes.iter().map(Node::bytes).sum();
        let few = level > 0 || nodes.iter().map(Node::entries).sum::<u64>() <= self.bounds.leaf;
        if !same || !few || bytes > self.bounds.page_bytes {
            return Ok(row_of(nodes, tier));
        }
        let kept = nodes.iter().filter_map(|n| match n {
            Node::Kept(r) => Some(r),
            Node::Made(_) => None,
        });
        self.pages.missing(kept)?;
        if level > 0 {
            let mut all = Vec::new();
            for n in nodes {
                all.extend(self.open_row(n)?);
            }
            return Ok(row_of(all, tier));
        }
        let mut all = Vec::new();
        for n in nodes {
            if let Content::Leaf(l) = self.open(n)?.content {
                all.extend(l);
            }
        }
        Ok(leaf(all, tier))
    }

    /// Carries out edits in a row: pages without an edit stay as they are. Empty: nothing is left.
    pub fn edit(&mut self, row: Vec<Node>, edits: &Edits) -> Result<Vec<Node>, Need> {
        let touched = |n: &Node| {
            let (low, high) = n.range();
            edits.range(low..=high).next().is_some()
        };
        let kept = row.iter().filter(|n| touched(n)).filter_map(|n| match n {
            Node::Kept(r) => Some(r),
            Node::Made(_) => None,
        });
        self.pages.missing(kept)?;
        let mut out = Vec::with_capacity(row.len());
        // Where a leaf became small.
        let mut small = Vec::new();
        for node in row {
            if !touched(&node) {
                out.push(node);
                continue;
            }
            let made = self.open(node)?;
            match made.content {
                Content::Leaf(entries) => {
                    let rest: Vec<Entry> = entries.into_iter().filter_map(|e| edited(e, edits)).collect();
                    if rest.is_empty() {
                        continue;
                    }
                    if (rest.len() as u64) * SMALL <= self.bounds.leaf {
                        small.push(out.len());
                    }
                    out.push(leaf(rest, made.tier));
                }
                Content::Row(nodes) => {
                    let mut rest = self.edit(nodes, edits)?;
                    match rest.len() {
                        0 => {}
                        1 => {
                            let mut only = rest.remove(0);
                            only.set_tier(made.tier);
                            out.push(only);
                        }
                        _ => out.push(row_of(rest, made.tier)),
                    }
                }
            }
        }
        for at in small.into_iter().rev() {
            self.join_small(&mut out, at)?;
        }
        Ok(out)
    }

    /// Joins a small leaf with a leaf beside it, if one has room.
    fn join_small(&mut self, row: &mut Vec<Node>, at: usize) -> Result<(), Need> {
        let fits = |a: &Node, b: &Node| {
            a.level() == 0
                && b.level() == 0
                && a.entries() + b.entries() <= self.bounds.leaf / 2
                && a.bytes() + b.bytes() <= self.bounds.page_bytes
        };
        for first in [at, at.wrapping_sub(1)] {
            if first < row.len() && first + 1 < row.len() && fits(&row[first], &row[first + 1]) {
                let tier = row[first].tier().max(row[first + 1].tier());
                let joined = self.join(row.drain(first..first + 2).collect(), tier)?;
                row.insert(first, joined);
                return Ok(());
            }
        }
        Ok(())
    }

    /// Takes up to `most` of the newest versions out of a row.
    pub fn take_newest(&mut self, row: &mut Vec<Node>, most: usize) -> Result<Vec<Entry>, Need> {
        if row.is_empty() {
            return Ok(Vec::new());
        }
        let first = row.remove(0);
        let made = self.open(first)?;
        match made.content {
            Content::Leaf(mut entries) => {
                let rest = entries.split_off(most.min(entries.len()));
                if !rest.is_empty() {
                    row.insert(0, leaf(rest, made.tier));
                }
                Ok(entries)
            }
            Content::Row(mut nodes) => {
                let taken = self.take_newest(&mut nodes, most)?;
                match nodes.len() {
                    0 => {}
                    1 => {
                        let mut only = nodes.remove(0);
                        only.set_tier(made.tier);
                        row.insert(0, only);
                    }
                    _ => row.insert(0, row_of(nodes, made.tier)),
                }
                Ok(taken)
            }
        }
    }
}

fn edited(e: Entry, edits: &Edits) -> Option<Entry> {
    match edits.get(&e.position) {
        None => Some(e),
        Some(to) => to.clone().map(|version| Entry { version, ..e }),
    }
}

fn leaf(entries: Vec<Entry>, tier: u8) -> Node {
    let bytes = entries.iter().map(|e| size_of(&e.version)).sum();
    Node::Made(Box::new(Made { tier, bytes, content: Content::Leaf(entries) }))
}

pub(super) fn row_of(nodes: Vec<Node>, tier: u8) -> Node {
    // A reference with its filter is about as long as a version.
    let bytes = nodes.len() as u64 * 150;
    Node::Made(Box::new(Made { tier, bytes, content: Content::Row(nodes) }))
}

/// About the bytes of a version in a record or page.
pub(super) fn size_of(v: &Version) -> u64 {
    let pairs = |l: &[(String, String)]| l.iter().map(|(k, v)| k.len() + v.len() + 2).sum::<usize>();
    (56 + v.parts.len() * 96 + pairs(&v.meta) + pairs(&v.tags) + v.acl.len()) as u64
}
