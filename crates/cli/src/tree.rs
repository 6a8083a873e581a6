//! Trees of files, local or remote, as one ordered stream.
//!
//! Invariants: items come in the byte order of their relative paths, which is the order of S3 listings, so
//! that two trees can be compared while they are read; memory is limited to one page of a listing, or to the
//! folders above the current file.

use std::{
    fs,
    path::{Path, PathBuf},
    vec,
};

use ashlar_client::{Entry, ListOptions, ListVersionsOptions};
use futures::{Stream, StreamExt, TryStreamExt, stream, stream::BoxStream};
use time::OffsetDateTime;

use super::{
    failure::{Failure, Kind, Outcome, While},
    location::{Location, Remote},
};

/// A file of a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// Relative to the tree, with `/` between folders.
    pub path: String,
    /// In bytes.
    pub size: u64,
    /// When it was last changed.
    pub modified: Option<OffsetDateTime>,
    /// Without quotes; only for remote files.
    pub etag: Option<String>,
    /// The version; only if versions were requested.
    pub version_id: Option<String>,
}

impl Item {
    /// Whether it is a folder marker: an empty object whose key ends in a slash.
    pub fn is_folder_marker(&self) -> bool {
        self.path.ends_with('/') && self.size == 0
    }
}

/// Items in order. An error about one file is an item, and the stream continues after it.
pub type Items = BoxStream<'static, Outcome<Item>>;

/// All files below a location, taken as a folder. A local folder that does not exist has no items.
pub fn items(location: &Location) -> Items {
    match location {
        Location::Remote(remote) => remote_items(remote),
        Location::Local(folder) => stream::iter(FolderIterator::new(folder)).boxed(),
    }
}

fn remote_items(remote: &Remote) -> Items {
    let prefix = remote.folder();
    let shown = remote.to_string();
    let options = ListOptions { prefix: prefix.clone(), ..ListOptions::default() };
    let pages = remote.client.pages(&remote.bucket, options);
    let mut last = String::new();
    let entries = pages.map_ok(|page| stream::iter(page.entries.into_iter().map(Ok))).try_flatten();
    let items = entries.map(move |entry: Result<Entry, ashlar_client::Error>| {
        let entry = entry.when(|| format!("cannot list `{shown}`"))?;
        if entry.key <= last && !last.is_empty() {
            let cause = format!("the server lists {:?} after {last:?}; trees cannot be compared", entry.key);
            return Err(Failure::new(Kind::Failed, cause));
        }
        last.clone_from(&entry.key);
        let Some(path) = entry.key.strip_prefix(&prefix) else {
            let cause = format!("the server lists {:?}, which is not below `{shown}`", entry.key);
            return Err(Failure::new(Kind::Failed, cause));
        };
        Ok(Item {
            path: path.to_owned(),
            size: entry.size,
            modified: entry.modified,
            etag: Some(entry.etag),
            version_id: None,
        })
    });
    // The marker of the folder itself is not an item.
    items.filter(|item| std::future::ready(!matches!(item, Ok(i) if i.path.is_empty()))).boxed()
}

/// All versions and delete markers below a prefix, in the order of the listing.
pub fn versions(remote: &Remote, prefix: String) -> impl Stream<Item = Outcome<Entry>> + Send + use<> {
    let shown = remote.to_string();
    let options = ListVersionsOptions { prefix, ..ListVersionsOptions::default() };
    let pages = remote.client.version_pages(&remote.bucket, options);
    let entries = pages.map_ok(|page| stream::iter(page.entries.into_iter().map(Ok))).try_flatten();
    entries.map(move |entry: Result<Entry, ashlar_client::Error>| {
        entry.when(|| format!("cannot list versions of `{shown}`"))
    })
}

/// Iterates over a local folder in the byte order of relative paths.
pub struct FolderIterator {
    root: PathBuf,
    /// The remaining entries of each folder above the current file: name, and whether it is a folder.
    stack: Vec<(String, vec::IntoIter<(String, bool)>)>,
    problems: Vec<Failure>,
}

impl FolderIterator {
    /// An iterator over `root`.
    pub fn new(root: &Path) -> FolderIterator {
        let mut walk = FolderIterator { root: root.to_path_buf(), stack: Vec::new(), problems: Vec::new() };
        if root.exists() {
            walk.enter(String::new());
        }
        walk
    }

    /// Pushes the sorted entries of a folder on the stack; `prefix` is empty or ends in a slash.
    fn enter(&mut self, prefix: String) {
        let folder = self.root.join(&prefix);
        let listed = fs::read_dir(&folder).and_then(|entries| entries.collect::<Result<Vec<_>, _>>());
        let listed = match listed.when(|| format!("cannot read {}", folder.display())) {
            Ok(listed) => listed,
            Err(failure) => return self.problems.push(failure),
        };
        let mut names = Vec::with_capacity(listed.len());
        for entry in listed {
            let path = entry.path();
            let Some(name) = entry.file_name().to_str().map(str::to_owned) else {
                let cause = format!("{}: the name is not UTF-8, which keys must be", path.display());
                self.problems.push(Failure::new(Kind::Failed, cause));
                continue;
            };
            // Links to files are followed; links to folders are not, because they may form cycles.
            let own = entry.file_type();
            let followed = fs::metadata(&path);
            match (own, followed) {
                (Ok(own), Ok(target)) if target.is_dir() && own.is_symlink() => {}
                (Ok(_), Ok(target)) if target.is_dir() => names.push((name, true)),
                (Ok(_), Ok(target)) if target.is_file() => names.push((name, false)),
                (Ok(_), Ok(_)) => {} // sockets, pipes, devices
                (Err(error), _) | (_, Err(error)) => {
                    let failure: Outcome = Err(error).when(|| format!("cannot read {}", path.display()));
                    self.problems.extend(failure.err());
                }
            }
        }
        // The files of a folder sort as if its name ended in a slash.
        let key = |(name, folder): &(String, bool)| if *folder { format!("{name}/") } else { name.clone() };
        names.sort_by_cached_key(key);
        self.stack.push((prefix, names.into_iter()));
    }
}

impl Iterator for FolderIterator {
    type Item = Outcome<Item>;

    fn next(&mut self) -> Option<Outcome<Item>> {
        loop {
            if let Some(problem) = self.problems.pop() {
                return Some(Err(problem));
            }
            let (prefix, rest) = self.stack.last_mut()?;
            let Some((name, is_folder)) = rest.next() else {
                self.stack.pop();
                continue;
            };
            let path = format!("{prefix}{name}");
            if is_folder {
                self.enter(format!("{path}/"));
                continue;
            }
            let found = fs::metadata(self.root.join(&path));
            return Some(found.when(|| format!("cannot read {path}")).map(|m| Item {
                path,
                size: m.len(),
                modified: m.modified().ok().map(OffsetDateTime::from),
                etag: None,
                version_id: None,
            }));
        }
    }
}

/// Whether `text` matches a pattern; `*` matches any text, `?` one character.
pub fn matches(pattern: &str, text: &str) -> bool {
    let (pattern, text): (Vec<char>, Vec<char>) = (pattern.chars().collect(), text.chars().collect());
    let (mut p, mut t) = (0, 0);
    // Position to continue from after the last star, one character further each time: linear in practice,
    // quadratic at worst, never exponential.
    let mut star = None;
    while t < text.len() {
        match pattern.get(p) {
            Some('*') => {
                star = Some((p, t));
                p += 1;
            }
            Some(&c) if c == '?' || c == text[t] => {
                p += 1;
                t += 1;
            }
            _ => match star {
                Some((at, from)) => {
                    star = Some((at, from + 1));
                    p = at + 1;
                    t = from + 1;
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|c| *c == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_tree_is_in_key_order() {
        let home = tempfile::tempdir().unwrap();
        for file in ["a/x", "a.txt", "a-b/y", "a/b/z", "ab", "ü", "B"] {
            let path = home.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, file).unwrap();
        }
        fs::create_dir(home.path().join("empty")).unwrap();
        std::os::unix::fs::symlink(home.path(), home.path().join("circle")).unwrap();
        std::os::unix::fs::symlink(home.path().join("ab"), home.path().join("link")).unwrap();
        std::os::unix::fs::symlink("nowhere", home.path().join("broken")).unwrap();
        let (found, failed): (Vec<_>, Vec<_>) = FolderIterator::new(home.path()).partition(Result::is_ok);
        let paths: Vec<_> = found.into_iter().map(|i| i.unwrap().path).collect();
        let mut sorted = paths.clone();
        sorted.sort();
        assert_eq!(paths, sorted);
        assert_eq!(paths, ["B", "a-b/y", "a.txt", "a/b/z", "a/x", "ab", "link", "ü"]);
        assert_eq!(failed.len(), 1);
        assert_eq!(FolderIterator::new(&home.path().join("nothing")).count(), 0);
    }

    #[test]
    fn patterns() {
        for (pattern, text, expected) in [
            ("*.tmp", "a/b.tmp", true),
            ("*.tmp", "a.tmp/b", false),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("*", "", true),
            ("", "a", false),
            ("*a*b*", "xxaxxbxx", true),
            ("ü*", "über", true),
        ] {
            assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
        }
        assert!(!matches(&"*a".repeat(40), &"a".repeat(39)));
    }
}
