//! Groups keys into pages: prefix, delimiter, markers, and skipping the keys under a common prefix.
//!
//! Keys are read in order of their bytes. If a key belongs to a common prefix, reading continues after
//! everything that begins with it (a byte 0xff, which no UTF-8 contains, sorts after it), so a page costs
//! what it shows and not what it groups. A start that is itself a common prefix (as the previous page
//! returned it) means after all of it; a start inside of one shows the prefix again if there is more under
//! it.
//!
//! Invariants: items are in order, each once; a common prefix is shown only if something visible is under it.
//!
//! Must not depend on: what registers contain.

use ashlar_format::{BucketId, Space};
use bytes::Bytes;

use crate::Result;
use crate::backend::Backend;
use crate::held_keys;

/// Registers requested at a time when keys may be grouped: enough for most pages of folders.
const SMALL: usize = 64;
/// Most registers requested at a time.
const LARGE: usize = 1001;

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
    let mut items = Vec::new();
    let mut from = walk.from;
    let prefix = walk.prefix.as_bytes();
    let mut window =
        if walk.delimiter.is_empty() { (walk.max + 1).clamp(16, LARGE) } else { SMALL.min(walk.max + 16) };
    loop {
        let page = held_keys::list(backend, walk.space, walk.bucket, prefix, &from, window).await?;
        let mut rest = &page.entries[..];
        let mut behind = None;
        while let Some(((key, summary), more)) = rest.split_first() {
            rest = more;
            behind = None;
            let Some((len, value)) = parse(key, summary) else { continue };
            if items.len() == walk.max {
                return Ok((items, true));
            }
            match group(&key[..len], prefix.len(), walk.delimiter) {
                None => items.push(Item::Key(key.clone(), value)),
                Some(end) => {
                    let mut past = key[..end].to_vec();
                    items.push(Item::Prefix(String::from_utf8_lossy(&past).into_owned()));
                    past.push(0xff);
                    rest = &rest[rest.partition_point(|(k, _)| k[..] < past[..])..];
                    behind = Some(past);
                }
            }
        }
        match (page.entries.last(), behind) {
            (Some(_), Some(past)) if page.truncated => from = past,
            (Some((last, _)), None) if page.truncated => {
                from = last.to_vec();
                from.push(0);
                window = (window * 2).min(LARGE);
            }
            _ => return Ok((items, false)),
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
