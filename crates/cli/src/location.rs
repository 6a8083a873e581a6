//! A location on the command line: `ALIAS/BUCKET/KEY` or a local path.
//!
//! Invariants: a key is taken literally (`//`, `..` and `.` are ordinary keys); a path is remote only if its
//! first segment is a known alias, so `./x` is always local.

use std::{
    fmt,
    path::{Component, Path, PathBuf},
};

use ashlar_client::Client;

use super::{
    aliases::Aliases,
    failure::{Failure, Kind, Outcome},
};

/// A source or target of a command.
#[derive(Clone)]
pub enum Location {
    /// On the server of an alias.
    Remote(Remote),
    /// In the file system.
    Local(PathBuf),
}

/// A location on the server of an alias.
#[derive(Clone)]
pub struct Remote {
    /// The alias's name, for messages.
    pub alias: String,
    /// The client of its endpoint.
    pub client: Client,
    /// Empty for the alias itself.
    pub bucket: String,
    /// Empty for the bucket itself; may end in a slash, which means a folder.
    pub key: String,
}

impl fmt::Display for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.alias)?;
        if !self.bucket.is_empty() {
            write!(f, "/{}", self.bucket)?;
        }
        if !self.key.is_empty() {
            write!(f, "/{}", self.key)?;
        }
        Ok(())
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Location::Remote(remote) => remote.fmt(f),
            Location::Local(path) => path.display().fmt(f),
        }
    }
}

impl Location {
    /// Parses a path of the command line.
    pub fn parse(text: &str, aliases: &Aliases) -> Outcome<Location> {
        if text.is_empty() {
            return Err(Failure::usage("the path is empty"));
        }
        match split(text, |alias| aliases.get(alias).is_some()) {
            Some((alias, bucket, key)) => Ok(Location::Remote(Remote {
                client: aliases.client(alias)?,
                alias: alias.into(),
                bucket: bucket.into(),
                key: key.into(),
            })),
            None => Ok(Location::Local(text.into())),
        }
    }

    /// Parses a path that must be remote.
    pub fn remote(text: &str, aliases: &Aliases) -> Outcome<Remote> {
        match Location::parse(text, aliases)? {
            Location::Remote(remote) => Ok(remote),
            Location::Local(_) => {
                let name = text.split('/').next().unwrap_or_default();
                // The error lists the known aliases.
                Err(aliases.client(name).err().unwrap_or_else(|| Failure::usage("not behind an alias")))
            }
        }
    }
}

impl Remote {
    /// Fails unless the location has a bucket.
    pub fn need_bucket(&self) -> Outcome {
        if self.bucket.is_empty() {
            return Err(Failure::usage(format!("`{self}` names no bucket: write {}/BUCKET", self.alias)));
        }
        Ok(())
    }

    /// Fails unless the location is exactly a bucket.
    pub fn only_bucket(&self) -> Outcome {
        self.need_bucket()?;
        if !self.key.is_empty() {
            return Err(Failure::usage(format!(
                "`{self}` is more than a bucket: write {}/{}",
                self.alias, self.bucket
            )));
        }
        Ok(())
    }

    /// Fails unless the location has a key.
    pub fn need_key(&self) -> Outcome {
        self.need_bucket()?;
        if self.key.is_empty() {
            return Err(Failure::usage(format!("`{self}` names no key")));
        }
        Ok(())
    }

    /// Another key in the same bucket.
    pub fn with_key(&self, key: impl Into<String>) -> Remote {
        Remote { key: key.into(), ..self.clone() }
    }

    /// The prefix of keys in this folder: empty for the bucket, else with a trailing slash.
    pub fn folder(&self) -> String {
        if self.key.is_empty() || self.key.ends_with('/') {
            self.key.clone()
        } else {
            format!("{}/", self.key)
        }
    }
}

/// Splits a path whose first segment is an alias into alias, bucket and key.
fn split(text: &str, is_alias: impl Fn(&str) -> bool) -> Option<(&str, &str, &str)> {
    let (alias, rest) = text.split_once('/').unwrap_or((text, ""));
    if alias.is_empty() || alias.starts_with('.') || !is_alias(alias) {
        return None;
    }
    let (bucket, key) = rest.split_once('/').unwrap_or((rest, ""));
    Some((alias, bucket, key))
}

/// The local path of a key below a folder. Keys that would leave the folder, or that no file name can
/// express, are refused: a listing from a server must not decide where files are written.
pub fn local_path(folder: &Path, key: &str) -> Outcome<PathBuf> {
    let sound = !key.is_empty()
        && !key.contains('\0')
        && key.split('/').all(|segment| !matches!(segment, "" | "." | ".."))
        && Path::new(key).components().all(|c| matches!(c, Component::Normal(_)));
    if !sound {
        let cause = format!("the key `{key}` has no safe file name");
        return Err(Failure::new(Kind::Failed, cause));
    }
    Ok(folder.join(key))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths() {
        let known = |name: &str| name == "it";
        assert_eq!(split("it", known), Some(("it", "", "")));
        assert_eq!(split("it/", known), Some(("it", "", "")));
        assert_eq!(split("it/b", known), Some(("it", "b", "")));
        assert_eq!(split("it/b/", known), Some(("it", "b", "")));
        assert_eq!(split("it/b/a//../k/", known), Some(("it", "b", "a//../k/")));
        for local in ["other/b", "./it/b", "/it/b", "..", "file"] {
            assert_eq!(split(local, known), None, "{local}");
        }
    }

    #[test]
    fn local_path_stays_below_folder() {
        let folder = Path::new("/tmp/x");
        assert_eq!(local_path(folder, "a/b c").unwrap(), Path::new("/tmp/x/a/b c"));
        for bad in ["", "/etc/passwd", "../x", "a/../../x", "a//b", "a/./b", "a/", "nul\0"] {
            assert!(local_path(folder, bad).is_err(), "{bad}");
        }
    }
}
