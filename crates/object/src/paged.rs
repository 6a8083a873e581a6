//! Reading the versions of a key that are in pages (`ashlar_commit::version_list`).
//!
//! Invariants: only the pages are read that an operation asks for; a page that is gone means that the list
//! has changed, and the record is read again.
//!
//! Must not depend on: how pages come about.

use std::sync::Arc;

use ashlar_commit::version_list::{Need, Pages, Window, find, next_leaf};
use ashlar_format::{Below, Body, Entry, Record, RegisterKey, Version, VersionId};
use futures::{StreamExt, TryStreamExt};

use crate::backend::Backend;
use crate::held_keys;
use crate::{Error, Result, versions};

/// Pages read at the same time.
const CONCURRENCY: usize = 8;
/// Times that a list is looked at which changes all the time.
const MAX_READS: usize = 16;

/// Asks until no page is missing.
async fn ask<T>(
    backend: &Backend,
    key: &RegisterKey,
    pages: &mut Pages,
    question: impl Fn(&Pages) -> std::result::Result<T, Need>,
) -> Result<T> {
    loop {
        match question(pages) {
            Ok(answer) => return Ok(answer),
            Err(need) => read(backend, key, pages, need).await?,
        }
    }
}

/// Reads pages.
///
/// # Errors
/// `Changed`: the list is another now.
pub(crate) async fn read(
    backend: &Backend,
    key: &RegisterKey,
    pages: &mut Pages,
    Need(need): Need,
) -> Result<()> {
    let reads = need.into_iter().map(|r| async move {
        let page = backend.version_page(key, &r).await?;
        Result::Ok((r.page.data.write_id, page))
    });
    let mut reads = futures::stream::iter(reads).buffer_unordered(CONCURRENCY);
    while let Some((id, page)) = reads.try_next().await? {
        pages.insert(id, page);
    }
    Ok(())
}

/// All versions of a key, newest first, and the record that has them.
///
/// # Errors
/// `Busy`: the list changes all the time.
pub(crate) async fn all(backend: &Backend, key: &RegisterKey) -> Result<(Option<Arc<Record>>, Vec<Version>)> {
    for _ in 0..MAX_READS {
        let record = held_keys::read(backend, key).await?;
        let mut list = versions::of(record.as_ref().map(|r| &r.body)).to_vec();
        let Some(below) = record.as_ref().and_then(|r| r.body.below()) else { return Ok((record, list)) };
        let mut older = Older::of(backend, key, below);
        let done = loop {
            match older.next().await {
                Ok(Some(leaf)) => list.extend(leaf.iter().map(|e| e.version.clone())),
                Ok(None) => break Ok(()),
                Err(e) => break Err(e),
            }
        };
        match done {
            Ok(()) => return Ok((record, list)),
            Err(Error::Changed) => {}
            Err(e) => return Err(e),
        }
    }
    Err(Error::Busy)
}

/// The record with the version of this id in its list, if it is in a page: behind the newest ones.
pub(crate) async fn with(
    backend: &Backend,
    key: &RegisterKey,
    mut record: Option<Arc<Record>>,
    id: Option<VersionId>,
) -> Result<Option<Arc<Record>>> {
    let Some(id) = id else { return Ok(record) };
    for _ in 0..MAX_READS {
        let Some(found) = record.clone().filter(|r| r.body.below().is_some()) else { return Ok(record) };
        let mut pages = Pages::default();
        match ask(backend, key, &mut pages, |pages| Window::of(&found.body, pages, &[id])).await {
            Ok(window) => {
                let body = Body::Versions(window.versions().to_vec());
                return Ok(Some(Arc::new(Record {
                    seq: found.seq,
                    parent: found.parent,
                    nonce: found.nonce,
                    body,
                })));
            }
            Err(Error::Changed) => record = held_keys::read(backend, key).await?,
            Err(e) => return Err(e),
        }
    }
    Err(Error::Busy)
}

/// The versions of a key in pages, one leaf after another, newest first.
pub(crate) struct Older<'a> {
    backend: &'a Backend,
    key: &'a RegisterKey,
    below: &'a Below,
    pages: Pages,
    before: u64,
}

impl<'a> Older<'a> {
    /// All of them.
    pub(crate) fn of(backend: &'a Backend, key: &'a RegisterKey, below: &'a Below) -> Older<'a> {
        Older { backend, key, below, pages: Pages::default(), before: below.next }
    }

    /// Goes behind the version with this id. False: it is in no page.
    pub(crate) async fn skip_to(&mut self, id: VersionId) -> Result<bool> {
        let below = self.below;
        let entry = ask(self.backend, self.key, &mut self.pages, |pages| find(below, pages, id)).await?;
        if let Some(e) = &entry {
            self.before = e.position;
        }
        Ok(entry.is_some())
    }

    /// The next ones; `None` after the last.
    ///
    /// # Errors
    /// `Changed`: the list is another now.
    pub(crate) async fn next(&mut self) -> Result<Option<Arc<[Entry]>>> {
        let (below, before) = (self.below, self.before);
        let leaf =
            ask(self.backend, self.key, &mut self.pages, |pages| next_leaf(below, pages, before)).await?;
        let Some(leaf) = leaf else { return Ok(None) };
        if let Some(last) = leaf.last() {
            self.before = last.position;
        }
        // The null version of a page that the list does not show any more (`held_keys::record_of`).
        let gone = |e: &&Entry| e.version.id == VersionId::ZERO && below.null != Some(e.position);
        if leaf.iter().any(|e| gone(&e)) {
            return Ok(Some(leaf.iter().filter(|e| !gone(e)).cloned().collect()));
        }
        Ok(Some(leaf))
    }
}
