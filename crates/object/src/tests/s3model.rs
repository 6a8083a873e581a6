//! S3 semantics as documented, over plain maps. It is independent of the store under test: tests pass it the
//! ids that the store chose.

use std::collections::BTreeMap;

/// `None`: the null version.
pub(crate) type Id = Option<[u8; 16]>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MVersion {
    pub id: Id,
    pub marker: bool,
    pub body: Vec<u8>,
    pub etag: String,
    pub meta: Vec<(String, String)>,
    pub tags: Vec<(String, String)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MVersioning {
    Off,
    On,
    Suspended,
}

#[derive(Clone, Debug)]
pub(crate) struct MUpload {
    pub key: String,
    pub id: [u8; 16],
    pub parts: BTreeMap<u16, (Vec<u8>, String)>,
}

#[derive(Clone, Debug)]
pub(crate) struct MBucket {
    pub versioning: MVersioning,
    /// Newest first; no empty lists.
    pub keys: BTreeMap<String, Vec<MVersion>>,
    pub uploads: Vec<MUpload>,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum MError {
    NoSuchKey,
    NoSuchVersion,
    Marker,
    Precondition,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct MConditions {
    /// `Some(None)`: `*`.
    pub if_match: Option<Option<String>>,
    pub if_none_match_any: bool,
}

/// A page of a list: keys or versions as text, and common prefixes.
pub(crate) type Lines = Vec<String>;

impl MBucket {
    pub fn new() -> MBucket {
        MBucket { versioning: MVersioning::Off, keys: BTreeMap::new(), uploads: Vec::new() }
    }

    pub fn current(&self, key: &str) -> Option<&MVersion> {
        self.keys.get(key)?.first().filter(|v| !v.marker)
    }

    pub fn allows(&self, key: &str, c: &MConditions, delete: bool) -> Result<(), MError> {
        let now = self.current(key);
        match (&c.if_match, now) {
            (Some(_), None) => {
                return Err(if delete { MError::Precondition } else { MError::NoSuchKey });
            }
            (Some(Some(tag)), Some(v)) if *tag != v.etag => return Err(MError::Precondition),
            _ => {}
        }
        if c.if_none_match_any && now.is_some() {
            return Err(MError::Precondition);
        }
        Ok(())
    }

    /// Adds a version under the rules of the bucket. The id must be `None` unless versioning is on.
    pub fn add(&mut self, key: &str, v: MVersion) {
        assert_eq!(v.id.is_some(), self.versioning == MVersioning::On, "id of a new version");
        let list = self.keys.entry(key.to_owned()).or_default();
        if v.id.is_none() {
            list.retain(|o| o.id.is_some());
        }
        list.insert(0, v);
    }

    pub fn find(&self, key: &str, id: Option<Id>) -> Result<&MVersion, MError> {
        match id {
            None => self.current(key).ok_or(MError::NoSuchKey),
            Some(id) => {
                let list = self.keys.get(key).map_or(&[][..], |l| l);
                let v = list.iter().find(|v| v.id == id).ok_or(MError::NoSuchVersion)?;
                if v.marker { Err(MError::Marker) } else { Ok(v) }
            }
        }
    }

    pub fn find_mut(&mut self, key: &str, id: Option<Id>) -> Result<&mut MVersion, MError> {
        self.find(key, id)?;
        let list = self.keys.get_mut(key).ok_or(MError::NoSuchKey)?;
        let at = match id {
            None => 0,
            Some(id) => list.iter().position(|v| v.id == id).ok_or(MError::NoSuchVersion)?,
        };
        Ok(&mut list[at])
    }

    /// A delete of the current version; `marker` is the id of the delete marker in the store.
    pub fn delete(&mut self, key: &str, marker: Id) {
        match self.versioning {
            MVersioning::Off => {
                self.delete_version(key, None);
            }
            _ => {
                let v = MVersion {
                    id: marker,
                    marker: true,
                    body: vec![],
                    etag: String::new(),
                    meta: vec![],
                    tags: vec![],
                };
                self.add(key, v);
            }
        }
    }

    /// Whether the version that was removed was a delete marker.
    pub fn delete_version(&mut self, key: &str, id: Id) -> bool {
        let Some(list) = self.keys.get_mut(key) else { return false };
        let was = list.iter().find(|v| v.id == id).is_some_and(|v| v.marker);
        list.retain(|v| v.id != id);
        if list.is_empty() {
            self.keys.remove(key);
        }
        was
    }

    /// All lines of a list of current versions: `key` or `prefix/`.
    pub fn list(&self, prefix: &str, delimiter: &str, after: &str) -> Lines {
        let visible = |(k, _): &(&String, &Vec<MVersion>)| self.current(k).is_some();
        let keys = self.keys.iter().filter(visible).map(|(k, _)| k.clone());
        roll(keys.map(|k| (k.clone(), k)), prefix, delimiter, after)
    }

    /// All lines of a list of versions: `key#id#latest#marker` or `prefix/`.
    pub fn list_versions(&self, prefix: &str, delimiter: &str, after: &str) -> Lines {
        let lines = self.keys.iter().flat_map(|(k, list)| {
            list.iter()
                .enumerate()
                .map(move |(i, v)| (k.clone(), format!("{k}#{}#{}#{}", id_text(v.id), i == 0, v.marker)))
        });
        roll(lines, prefix, delimiter, after)
    }

    /// All lines of a list of uploads: `key#id` or `prefix/`.
    pub fn list_uploads(&self, prefix: &str, delimiter: &str) -> Lines {
        let mut all: Vec<(String, [u8; 16])> = self.uploads.iter().map(|u| (u.key.clone(), u.id)).collect();
        all.sort();
        let lines = all.into_iter().map(|(k, id)| (k.clone(), format!("{k}#{}", id_text(Some(id)))));
        roll(lines, prefix, delimiter, "")
    }
}

pub(crate) fn id_text(id: Id) -> String {
    match id {
        None => "null".to_owned(),
        Some(b) => b.iter().map(|b| format!("{b:02x}")).collect(),
    }
}

/// Groups lines by their keys.
fn roll(lines: impl Iterator<Item = (String, String)>, prefix: &str, delimiter: &str, after: &str) -> Lines {
    let mut out: Lines = Vec::new();
    for (key, line) in lines {
        if !key.starts_with(prefix) || key.as_str() <= after {
            continue;
        }
        let rest = &key[prefix.len()..];
        match rest.find(delimiter).filter(|_| !delimiter.is_empty()) {
            Some(at) => {
                let p = format!("{}/..", &key[..prefix.len() + at + delimiter.len()]);
                // A marker that is the common prefix itself hides it.
                let hidden = after == &p[..p.len() - 3];
                if !hidden && out.last() != Some(&p) {
                    out.push(p);
                }
            }
            None => out.push(line),
        }
    }
    out
}
