//! What a change writes: pages in an order in which each can name those before it, and the record.
//!
//! Must not depend on: what the change is.

use super::tree::{Content, Node};
use ashlar_format::{Below, Body, Data, Entry, Page, PageRef, Paged, Version};

/// A page that was made durable: where it is, and its bytes.
pub type Written = (Data, u64);

/// A link to a page: one that is there, or one that the plan writes.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Link {
    Kept(PageRef),
    New { draft: usize, tier: u8 },
}

/// A page to be written.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Draft {
    Leaf(Vec<Entry>),
    Row(Vec<Link>),
}

/// A change of a key's versions, ready to be written.
///
/// Write the pages 0..[`Plan::pages`] in this order, each with [`Plan::page`], make them durable, and only
/// then propose [`Plan::body`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Plan {
    head: Vec<Version>,
    next: u64,
    null: Option<u64>,
    drafts: Vec<Draft>,
    root: Option<Link>,
    /// Data that the record before names, itself or by its pages, and the next one does not.
    pub dropped: Vec<Data>,
}

impl Plan {
    pub(super) fn new(
        head: Vec<Version>,
        (next, null): (u64, Option<u64>),
        root: Option<Node>,
        dropped: Vec<Data>,
    ) -> Plan {
        let mut drafts = Vec::new();
        let root = root.map(|node| link(node, &mut drafts));
        Plan { head, next, null, drafts, root, dropped }
    }

    /// How many pages are to be written.
    #[must_use]
    pub fn pages(&self) -> usize {
        self.drafts.len()
    }

    /// The versions that stay in the record.
    #[must_use]
    pub fn head(&self) -> &[Version] {
        &self.head
    }

    /// Page `i`. `written`: what became of those before it.
    ///
    /// # Panics
    /// If one of those before it is missing.
    #[must_use]
    pub fn page(&self, i: usize, written: &[Written]) -> Page {
        match &self.drafts[i] {
            Draft::Leaf(entries) => Page::Leaf(entries.clone()),
            Draft::Row(links) => Page::Row(links.iter().map(|l| self.resolve(l, written)).collect()),
        }
    }

    /// The next record's body. `written`: what became of all pages.
    ///
    /// # Panics
    /// If one of them is missing.
    #[must_use]
    pub fn body(&self, written: &[Written]) -> Body {
        self.clone().into_body(written)
    }

    /// As [`Plan::body`], without a copy of the head.
    ///
    /// # Panics
    /// If one of the pages is missing.
    #[must_use]
    pub fn into_body(mut self, written: &[Written]) -> Body {
        assert_eq!(written.len(), self.drafts.len(), "a record is made when all of its pages are written");
        let head = std::mem::take(&mut self.head);
        let root = match self.root.take() {
            None if head.is_empty() => return Body::Tombstone,
            None => return Body::Versions(head),
            Some(Link::Kept(root)) => root,
            Some(root) => self.resolve(&root, written),
        };
        Body::Paged(Box::new(Paged { head, below: Below { next: self.next, null: self.null, root } }))
    }

    /// The same pages with another head: when only the head has changed since the pages were written.
    #[must_use]
    pub fn writes_the_same(&self, other: &Plan) -> bool {
        self.drafts == other.drafts && self.root == other.root
    }

    fn resolve(&self, link: &Link, written: &[Written]) -> PageRef {
        match link {
            Link::Kept(r) => r.clone(),
            Link::New { draft, tier } => {
                let (data, size) = written[*draft];
                self.page(*draft, written).reference(*tier, data, size)
            }
        }
    }
}

/// The pages of the tree below come first.
fn link(node: Node, drafts: &mut Vec<Draft>) -> Link {
    match node {
        Node::Kept(r) => Link::Kept(r),
        Node::Made(made) => {
            let draft = match made.content {
                Content::Leaf(entries) => Draft::Leaf(entries),
                Content::Row(nodes) => Draft::Row(nodes.into_iter().map(|n| link(n, drafts)).collect()),
            };
            drafts.push(draft);
            Link::New { draft: drafts.len() - 1, tier: made.tier }
        }
    }
}
