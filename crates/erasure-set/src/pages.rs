//! Version pages (docs/protocol.md 2.16): reading them, and what a record names by them.
//!
//! A page is data of its register and never changes, so a page that was read is kept: under its write id, up
//! to [`BOUND`] bytes, the oldest first to go. Invariant: what cannot be read may name anything; nobody says
//! "not named" without having read every page that could tell.
//!
//! Must not depend on: what versions mean.

use crate::prefetch::Opening;
use crate::register::Register;
use crate::sets::{Inner, Sets};
use crate::{Error, Result};
use ashlar_commit::version_list::{Need, Pages, names_data};
use ashlar_format::{Below, Data, Page, PageRef, Part, Record, RegisterKey, WriteId};
use futures::future::BoxFuture;
use parking_lot::Mutex;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// Bytes of encoded pages that are kept.
const BOUND: usize = 8 << 20;
/// Pages of one search that are read at the same time.
const CONCURRENCY: usize = 8;

/// Pages that were read or written, oldest first.
#[derive(Default)]
pub(crate) struct PageCache(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    by_id: HashMap<WriteId, Arc<Page>>,
    order: VecDeque<(WriteId, usize)>,
    bytes: usize,
}

impl PageCache {
    fn get(&self, id: WriteId) -> Option<Arc<Page>> {
        self.0.lock().by_id.get(&id).cloned()
    }

    /// For tests: everything is read from the drives again.
    #[cfg(test)]
    pub(crate) fn forget(&self) {
        *self.0.lock() = Kept::default();
    }

    fn put(&self, id: WriteId, page: Arc<Page>, bytes: usize) {
        let mut kept = self.0.lock();
        if kept.by_id.insert(id, page).is_none() {
            kept.order.push_back((id, bytes));
            kept.bytes += bytes;
        }
        while kept.bytes > BOUND
            && let Some((old, bytes)) = kept.order.pop_front()
        {
            kept.by_id.remove(&old);
            kept.bytes -= bytes;
        }
    }
}

impl Sets {
    /// Reads a version page.
    ///
    /// # Errors
    /// [`Error::Superseded`]: the register names it no more, read the register again.
    pub fn read_page<'a>(&'a self, key: &'a RegisterKey, r: &'a PageRef) -> BoxFuture<'a, Result<Arc<Page>>> {
        self.inner.version_page(key, r)
    }

    /// Keeps a page that was just written, so that it need not be read.
    pub fn keep_page(&self, data: &Data, page: Arc<Page>, bytes: usize) {
        self.inner.pages.put(data.write_id, page, bytes);
    }
}

impl Inner {
    /// Reads a version page. Boxed: a read that fails looks whether the register still names the page.
    pub(crate) fn version_page<'a>(
        &'a self,
        key: &'a RegisterKey,
        r: &'a PageRef,
    ) -> BoxFuture<'a, Result<Arc<Page>>> {
        Box::pin(async move {
            let Part { data, size, .. } = r.page;
            if let Some(page) = self.pages.get(data.write_id) {
                return Ok(page);
            }
            let me = self.me.upgrade().ok_or_else(|| Error::Unavailable("stopping".into()))?;
            let mut reader = me.open(key, &data, size, 0..size, Opening::default()).await?;
            let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or(0).min(1 << 20));
            while let Some(piece) = reader.next().await {
                bytes.extend_from_slice(&piece?);
            }
            let page = Page::decode(&bytes)
                .map_err(|e| Error::Corrupt(format!("{key:?}, page {}: {e}", data.write_id)))?;
            let page = Arc::new(page);
            self.pages.put(data.write_id, page.clone(), bytes.len());
            Ok(page)
        })
    }

    /// Reads what a search needs.
    async fn fetch_pages(&self, key: &RegisterKey, pages: &mut Pages, need: Need) -> Result<()> {
        use futures::{StreamExt, TryStreamExt};
        let reads = need.0.into_iter().map(|r| async move {
            let page = self.version_page(key, &r).await?;
            Result::Ok((r.page.data.write_id, page))
        });
        let mut reads = futures::stream::iter(reads).buffer_unordered(CONCURRENCY);
        while let Some((id, page)) = reads.try_next().await? {
            pages.insert(id, page);
        }
        Ok(())
    }

    /// Whether a record names the data, itself or by its pages.
    pub(crate) async fn names(&self, key: &RegisterKey, record: &Record, id: WriteId) -> Result<bool> {
        if record.data().any(|p| p.data.write_id == id) {
            return Ok(true);
        }
        let Some(below) = record.body.below() else { return Ok(false) };
        let mut pages = Pages::default();
        loop {
            match names_data(below, &pages, id) {
                Ok(named) => return Ok(named),
                Err(need) => self.fetch_pages(key, &mut pages, need).await?,
            }
        }
    }

    /// Whether the register names the data now. Once more, if its list changes meanwhile.
    pub(crate) async fn named_now(&self, key: &RegisterKey, id: WriteId) -> Result<bool> {
        let hash = ashlar_checksum::key_hash(key.as_bytes());
        let mut last: Option<Register> = None;
        loop {
            let Some(now) = self.read_slowly(key, hash).await? else { return Ok(false) };
            match self.names(key, &now.record, id).await {
                Err(Error::Superseded) if last.is_none_or(|l| l.ballot != now.ballot) => last = Some(now),
                named => return named,
            }
        }
    }

    /// What the record names by its pages: one page after another, each with what it names itself.
    pub(crate) fn walk_pages(&self, below: Option<&Below>) -> PageWalk<'_> {
        PageWalk { inner: self, open: below.map(|b| b.root.clone()).into_iter().collect() }
    }
}

/// The pages of a record, in no order that matters.
pub(crate) struct PageWalk<'a> {
    inner: &'a Inner,
    open: Vec<PageRef>,
}

impl PageWalk<'_> {
    /// The data that the next page names; `None` after the last.
    pub(crate) async fn next(&mut self, key: &RegisterKey) -> Result<Option<Vec<Part>>> {
        let Some(r) = self.open.pop() else { return Ok(None) };
        let page = self.inner.version_page(key, &r).await?;
        if let Page::Row(refs) = &*page {
            self.open.extend(refs.iter().cloned());
        }
        Ok(Some(page.data().cloned().collect()))
    }
}
