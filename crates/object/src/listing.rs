//! Groups keys into pages: prefix, delimiter, markers, and skipping the keys under a common prefix.
//!
//! Keys are read in order of their bytes. If a key belongs to a common prefix, reading continues after
//! everything that begins with it (a byte 0xff, which no UTF-8 contains, sorts after it). Lists of keys are folded
//! ([`Backend::list_folded`]): the drives leave out what is behind the first keys of a common prefix, so a page costs what it
//! shows and not what it groups. Where none of these first keys is visible, for instance because they have delete
//! markers, the others are read until one is. A start that is itself a common prefix (as the previous page
//! returned it) means after all of it; a start inside of one shows the prefix again if there is more under
//! it.
//!
//! Invariants: items are in order, each once; a common prefix is shown only if something visible is under it.
//!
//! Must not depend on: what registers contain.

use ashlar_format::{BucketId, Space};
use bytes::Bytes;

use crate::Result;
use crate::backend::{Backend, Page};
use crate::held_keys;

/// Registers requested at a time when keys may be grouped: enough for most pages of folders.
const SMALL: usize = 64;
/// Most registers requested at a time.
const LARGE: usize = 1001;
/// The same of a folded list: each placement group shows a key of each common prefix. More would take a drive longer
/// than a list waits for it (200 ms), and an answer of another node too much of what may be in flight.
const FOLDED: usize = 2002;

/// The range of keys for a page.
pub(crate) struct Walk<'a> {
    pub space: Space,
    pub bucket: BucketId,
    pub prefix: &'a str,
    pub delimiter: &'a str,
    /// The first key bytes to read; see [`start`].
    pub from: Vec<u8>,
    /// Most items.
    pub max: usize,
}

/// One line of a page.
pub(crate) enum Item<T> {
    /// A visible register: its key bytes and what was parsed.
    Key(Bytes, T),
    /// A common prefix.
    Prefix(String),
}

/// The start of a scan that shows everything that sorts after `after` (empty: everything).
pub(crate) fn start(prefix: &str, delimiter: &str, after: &str) -> Vec<u8> {
    let mut from = after.as_bytes().to_vec();
    if group(after.as_bytes(), prefix.len(), delimiter).is_some_and(|end| end == after.len())
        && after.starts_with(prefix)
    {
        from.push(0xff);
    } else if !after.is_empty() {
        from.push(0);
    }
    from.max(prefix.as_bytes().to_vec())
}

/// The length of the common prefix to which `name` belongs.
pub(crate) fn group(name: &[u8], prefix: usize, delimiter: &str) -> Option<usize> {
    let (rest, d) = (name.get(prefix..)?, delimiter.as_bytes());
    if d.is_empty() || rest.len() < d.len() {
        return None;
    }
    let at = if d.len() == 1 {
        rest.iter().position(|b| *b == d[0])
    } else {
        rest.windows(d.len()).position(|w| w == d)
    };
    at.map(|at| prefix + at + d.len())
}

/// Scans; returns the items and whether there is at least one more. `parse` returns the length of the name
/// within the key bytes and further data, or `None` for registers that are not visible.
pub(crate) async fn walk<T>(
    backend: &Backend,
    walk: Walk<'_>,
    parse: impl Fn(&Bytes, &Bytes) -> Option<(usize, T)>,
) -> Result<(Vec<Item<T>>, bool)> {
    // A key of a folded list may have been removed while it was listed.
    let visible = |key: &Bytes, summary: &Bytes| if summary.is_empty() { None } else { parse(key, summary) };
    let folded = walk.folded();
    let (mut items, mut from, mut window) = (Vec::new(), walk.from.clone(), walk.window());
    loop {
        let page = walk.read(backend, &from, window).await?;
        let mut rest = &page.entries[..];
        let mut behind = None;
        while let Some(((key, summary), more)) = rest.split_first() {
            (rest, behind) = (more, None);
            let parsed = visible(key, summary);
            if parsed.is_none() && !folded {
                continue;
            }
            let length = parsed.as_ref().map_or(key.len(), |(length, _)| *length);
            let Some(end) = group(&key[..length], walk.prefix.len(), walk.delimiter) else {
                let Some((_, value)) = parsed else { continue };
                if items.len() == walk.max {
                    return Ok((items, true));
                }
                items.push(Item::Key(key.clone(), value));
                continue;
            };
            let (common, past) = (&key[..end], [&key[..end], &[0xff]].concat());
            let (within, after) = rest.split_at(rest.partition_point(|(k, _)| k[..] < past[..]));
            if parsed.is_some()
                || within.iter().any(|(k, s)| visible(k, s).is_some())
                || walk.any_visible(backend, common, key, &visible).await?
            {
                if items.len() == walk.max {
                    return Ok((items, true));
                }
                items.push(Item::Prefix(String::from_utf8_lossy(common).into_owned()));
            }
            (rest, behind) = (after, Some(past));
        }
        // More of a kind are expected: keys that are not visible, or common prefixes of a folded list.
        window = if folded || behind.is_none() { (window * 2).min(walk.largest_window()) } else { window };
        from = match (page.entries.last(), behind) {
            (Some(_), Some(past)) if page.truncated => past,
            (Some((last, _)), None) if page.truncated => [&last[..], &[0]].concat(),
            _ => return Ok((items, false)),
        };
        // Pages that are in memory are read without a wait.
        tokio::task::yield_now().await;
    }
}

impl Walk<'_> {
    /// Whether the drives leave out keys behind the first ones of a common prefix. They do not in other spaces, where names are
    /// shorter than keys, and a delimiter behind the name means nothing.
    fn folded(&self) -> bool {
        self.space == Space::Object && !self.delimiter.is_empty()
    }

    /// Registers requested first.
    fn window(&self) -> usize {
        match self.delimiter.is_empty() {
            true => (self.max + 1).clamp(16, LARGE),
            // Several of a common prefix: of a folded list, one of each placement group.
            false => (self.max + 16).min(if self.folded() { LARGE } else { SMALL }),
        }
    }

    fn largest_window(&self) -> usize {
        if self.folded() { FOLDED } else { LARGE }
    }

    async fn read(&self, backend: &Backend, from: &[u8], window: usize) -> Result<Page> {
        let prefix = self.prefix.as_bytes();
        if !self.folded() {
            return held_keys::list(backend, self.space, self.bucket, prefix, from, window).await;
        }
        let grouped = (prefix, self.delimiter.as_bytes());
        held_keys::list_folded(backend, self.space, self.bucket, grouped, from, window).await
    }

    /// Whether there is a visible key with this common prefix behind `after`.
    async fn any_visible<T>(
        &self,
        backend: &Backend,
        common: &[u8],
        after: &[u8],
        visible: &impl Fn(&Bytes, &Bytes) -> Option<T>,
    ) -> Result<bool> {
        let (mut from, mut window) = ([after, &[0]].concat(), SMALL);
        loop {
            let page = held_keys::list(backend, self.space, self.bucket, common, &from, window).await?;
            if page.entries.iter().any(|(key, summary)| visible(key, summary).is_some()) {
                return Ok(true);
            }
            match page.entries.last() {
                Some((last, _)) if page.truncated => from = [&last[..], &[0]].concat(),
                _ => return Ok(false),
            }
            window = (window * 4).min(LARGE);
            tokio::task::yield_now().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups() {
        assert_eq!(group(b"a/b/c", 0, "/"), Some(2));
        assert_eq!(group(b"a/b/c", 2, "/"), Some(4));
        assert_eq!(group(b"a/b/c", 4, "/"), None);
        assert_eq!(group(b"a", 0, "/"), None);
        assert_eq!(group(b"/", 0, "/"), Some(1));
        assert_eq!(group(b"a--b", 0, "--"), Some(3));
        assert_eq!(group(b"a-b", 0, "--"), None);
        assert_eq!(group(b"ab", 0, ""), None);
        assert_eq!(group(b"a", 5, "/"), None);
    }

    #[test]
    fn starts() {
        assert_eq!(start("", "/", ""), b"");
        assert_eq!(start("p/", "/", ""), b"p/");
        assert_eq!(start("", "/", "a/"), b"a/\xff");
        assert_eq!(start("", "", "a/"), b"a/\0");
        assert_eq!(start("", "/", "a/b"), b"a/b\0");
        assert_eq!(start("a/", "/", "a/"), b"a/\0");
        assert_eq!(start("a/", "/", "a/b/"), b"a/b/\xff");
        assert_eq!(start("m", "/", "a"), b"m");
    }
}
