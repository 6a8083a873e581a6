//! The version list of a key: pure functions from one list to the next.
//!
//! A list is in order, newest first. Invariants: at most one null version; ids are unique; `modified_ms`
//! never grows towards older versions; an empty list is a tombstone.
//!
//! Must not depend on: registers, the store. `marks` defines the internal metadata.

use ashlar_format::{Below, Body, Paged, Version, VersionId};
use bytes::Bytes;

use crate::bucket::Versioning;
use crate::conditions::Conditions;
use crate::error::Error;
use crate::types::{ETag, fresh_id};
use crate::{Result, Verdict, summary};

/// Most versions of one key. A change costs the same at every number; but lifecycle rules and a search for an
/// id read more pages the more there are.
pub(crate) const MAX_VERSIONS: u64 = 10_000_000;

/// The result of a delete.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Deleted {
    /// The version to show: the new delete marker, or the version that was named. `None` in a bucket that
    /// never had versioning, if no version was named.
    pub version_id: Option<VersionId>,
    /// Whether a delete marker was made, or the named version was one.
    pub delete_marker: bool,
}

/// The entity tag.
pub(crate) fn etag(v: &Version) -> ETag {
    ETag { md5: v.md5, parts: v.parts_count }
}

/// The current version, unless a delete marker is current.
pub(crate) fn current(list: &[Version]) -> Option<&Version> {
    list.first().filter(|v| !v.delete_marker)
}

/// Evaluates the conditions of a write against the list.
pub(crate) fn check(conditions: &Conditions, list: &[Version], delete: bool) -> Result<()> {
    if conditions.is_empty() {
        return Ok(());
    }
    let tag = current(list).map(|v| (etag(v), v.modified_ms));
    match crate::conditions::evaluate(conditions, tag.as_ref().map(|(t, ms)| (t, *ms)), false) {
        Verdict::Proceed => Ok(()),
        // S3 answers a conditional delete of an absent key with 412, a conditional PUT with 404.
        Verdict::Absent if !delete => {
            Err(Error::NoSuchKey { delete_marker: list.first().filter(|v| v.delete_marker).map(|v| v.id) })
        }
        _ => Err(Error::PreconditionFailed),
    }
}

/// The list with `new` as its newest version: a null version replaces an existing null version. Also sets its
/// time, which never goes back.
pub(crate) fn with(list: &[Version], mut new: Version) -> Result<Vec<Version>> {
    new.modified_ms = list.first().map_or(new.modified_ms, |v| v.modified_ms.max(new.modified_ms));
    let null = new.id == VersionId::ZERO;
    let mut out = Vec::with_capacity(list.len() + 1);
    out.push(new);
    out.extend(list.iter().filter(|v| !(null && v.id == VersionId::ZERO)).cloned());
    Ok(out)
}

/// The id of a new version in a bucket.
pub(crate) fn new_id(versioning: Versioning, now_ms: i64) -> Result<VersionId> {
    match versioning {
        Versioning::Enabled => fresh_id(now_ms).map(VersionId),
        Versioning::Off | Versioning::Suspended => Ok(VersionId::ZERO),
    }
}

/// The id to show for a version.
pub(crate) fn shown(versioning: Versioning, id: VersionId) -> Option<VersionId> {
    (versioning != Versioning::Off || id != VersionId::ZERO).then_some(id)
}

/// A delete without a version. `None`: nothing to change.
pub(crate) fn delete_current(
    list: &[Version],
    versioning: Versioning,
    marker: VersionId,
    now_ms: i64,
) -> Result<(Option<Vec<Version>>, Deleted)> {
    if versioning == Versioning::Off {
        let rest: Vec<Version> = list.iter().filter(|v| v.id != VersionId::ZERO).cloned().collect();
        let changed = rest.len() < list.len();
        return Ok((changed.then_some(rest), Deleted::default()));
    }
    let marker = Version { id: marker, delete_marker: true, modified_ms: now_ms, ..Version::default() };
    let deleted = Deleted { version_id: Some(marker.id), delete_marker: true };
    Ok((Some(with(list, marker)?), deleted))
}

/// A delete of one version. `None`: it does not exist.
pub(crate) fn delete_version(list: &[Version], id: VersionId) -> (Option<Vec<Version>>, Deleted) {
    let found = list.iter().find(|v| v.id == id);
    let deleted = Deleted { version_id: Some(id), delete_marker: found.is_some_and(|v| v.delete_marker) };
    let rest = found.map(|_| list.iter().filter(|v| v.id != id).cloned().collect());
    (rest, deleted)
}

/// The body and summary of a list without pages.
pub(crate) fn body(list: Vec<Version>) -> (Body, Bytes) {
    let body = list_body(list, None);
    let summary = self::summary(&body);
    (body, summary)
}

/// The body of a list; of one with pages, with these newest versions, of which there must be one.
pub(crate) fn list_body(head: Vec<Version>, below: Option<&Below>) -> Body {
    match below {
        None if head.is_empty() => Body::Tombstone,
        None => Body::Versions(head),
        Some(below) => Body::Paged(Box::new(Paged { head, below: below.clone() })),
    }
}

/// The summary of a list.
pub(crate) fn summary(body: &Body) -> Bytes {
    let list = of(Some(body));
    let alone = list.len() == 1 && body.below().is_none();
    list.first().map_or(Bytes::new(), |v| summary::of_version(v, alone))
}

/// The list in a record; of one with pages the newest versions.
pub(crate) fn of(body: Option<&Body>) -> &[Version] {
    match body {
        Some(body @ (Body::Versions(_) | Body::Paged(_))) => body.newest(),
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn v(id: u8, ms: i64) -> Version {
        Version { id: VersionId([id; 16]), modified_ms: ms, ..Version::default() }
    }

    #[test]
    fn null_replaces_null_only() {
        let list = with(&[], v(0, 5)).unwrap();
        let list = with(&list, v(1, 6)).unwrap();
        let list = with(&list, v(0, 3)).unwrap();
        let ids: Vec<u8> = list.iter().map(|v| v.id.0[0]).collect();
        assert_eq!(ids, [0, 1]);
        assert_eq!(list[0].modified_ms, 6, "time never goes back");
    }

    #[test]
    fn deletes() {
        let list = [v(2, 9), v(0, 5), v(1, 4)];
        let marker = VersionId([7; 16]);
        let (new, d) = delete_current(&list, Versioning::Enabled, marker, 10).unwrap();
        assert_eq!((new.unwrap().len(), d.version_id, d.delete_marker), (4, Some(marker), true));
        let (new, d) = delete_current(&list, Versioning::Suspended, VersionId::ZERO, 10).unwrap();
        let new = new.unwrap();
        assert_eq!((new.len(), new[0].id, d.version_id), (3, VersionId::ZERO, Some(VersionId::ZERO)));
        assert!(current(&new).is_none());
        let (new, d) = delete_current(&[v(0, 1)], Versioning::Off, marker, 10).unwrap();
        assert_eq!((new, d), (Some(vec![]), Deleted::default()));
        assert_eq!(delete_current(&[], Versioning::Off, marker, 1).unwrap().0, None);
        assert_eq!(delete_version(&list, VersionId([9; 16])).0, None);
        assert_eq!(delete_version(&list, VersionId([1; 16])).0.unwrap().len(), 2);
    }
}
