//! Merges the keys of many placement groups into one page of a list.
//!
//! Invariants: keys leave in their order, each once; no key is taken while a group whose keys at hand are used up may
//! have an earlier one.
//!
//! Must not depend on: how the keys of a group are read.

use crate::list::{Listed, Page};
use crate::table::View;
use ashlar_format::RegisterKey;
use std::cmp::{Ordering, Reverse};
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;

/// The part of one group in a listing.
pub(crate) struct Cursor {
    pub(crate) view: Arc<View>,
    pub(crate) from: Option<Vec<u8>>,
    pub(crate) to: Vec<u8>,
    pub(crate) ready: VecDeque<Listed>,
    /// Whether some of it comes from half of the drives.
    pub(crate) half: bool,
}

/// Moves keys to the page, in order, while no exhausted cursor can have a key before the next one. True: the page is
/// finished. The cost of a key grows with the logarithm of the number of cursors.
pub(crate) fn take_ready(cursors: &mut [Cursor], page: &mut Page, limit: usize) -> bool {
    // Where a cursor goes on whose keys at hand are used up.
    let rest = |c: &Cursor| c.from.as_ref().map(|f| f[RegisterKey::PREFIX..].to_vec());
    let mut unread = cursors.iter().filter(|c| c.ready.is_empty()).filter_map(rest).min();
    let first =
        |(cursor, c): (usize, &mut Cursor)| Some(Reverse(Head { listed: c.ready.pop_front()?, cursor }));
    let mut heads: BinaryHeap<_> = cursors.iter_mut().enumerate().filter_map(first).collect();
    loop {
        let Some(Reverse(head)) = heads.pop() else { return unread.is_none() };
        let full = page.entries.len() == limit;
        if full || unread.as_ref().is_some_and(|from| from[..] <= head.listed.key[..]) {
            page.truncated |= full;
            heads.push(Reverse(head));
            heads.into_iter().for_each(|Reverse(h)| cursors[h.cursor].ready.push_front(h.listed));
            return full;
        }
        page.entries.push(head.listed);
        let cursor = &mut cursors[head.cursor];
        match cursor.ready.pop_front() {
            Some(listed) => heads.push(Reverse(Head { listed, cursor: head.cursor })),
            None => unread = unread.into_iter().chain(rest(cursor)).min(),
        }
    }
}

/// The next key of a cursor.
struct Head {
    listed: Listed,
    cursor: usize,
}

impl PartialEq for Head {
    fn eq(&self, other: &Head) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Head {}

impl PartialOrd for Head {
    fn partial_cmp(&self, other: &Head) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Head {
    fn cmp(&self, other: &Head) -> Ordering {
        (&self.listed.key, self.cursor).cmp(&(&other.listed.key, other.cursor))
    }
}
