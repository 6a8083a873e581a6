//! Internal metadata of versions: names that begin with a colon, which clients never see.
//!
//! Must not depend on: anything but types.

use ashlar_format::Version;

use crate::types::UploadId;

/// The upload that made a version, until the upload is known to be done.
const UPLOAD: &str = Version::UPLOAD_MARK;

/// In the metadata of the upload of a rename: the source key.
const SOURCE: &str = ":rename";
/// The attempt of a rename or a completion, in hexadecimal.
const ATTEMPT: &str = ":attempt";
/// Name in `meta`: `1 CIPHER SUMS ENVELOPE`.
pub(crate) const SEAL: &str = ":seal";

/// Whether a name of `meta` is internal.
pub(crate) fn is_internal(name: &str) -> bool {
    name.starts_with(':')
}

/// The upload that made this version and is not known to be done.
pub(crate) fn upload(v: &Version) -> Option<UploadId> {
    v.meta.iter().find(|(k, _)| k == UPLOAD).and_then(|(_, id)| UploadId::parse(id))
}

/// Marks a version as made by `upload`.
pub(crate) fn set_upload(v: &mut Version, upload: UploadId) {
    v.meta.retain(|(k, _)| k != UPLOAD);
    v.meta.insert(0, (UPLOAD.to_owned(), upload.to_string()));
}

/// A copy without the fields that are needed only while an upload is being completed. How the bytes are
/// encrypted stays: without it they are lost.
pub(crate) fn clean(v: &Version) -> Version {
    let mut v = v.clone();
    v.meta.retain(|(k, _)| !is_internal(k) || k == SEAL);
    v
}

/// A copy without the mark of the upload that made it, to be stored.
pub(crate) fn settled(v: &Version) -> Version {
    let mut v = v.clone();
    v.meta.retain(|(k, _)| k != UPLOAD);
    v
}

/// What clients see of a version, where that differs from what is stored.
pub(crate) fn shown(v: &Version) -> Option<Version> {
    v.meta.iter().any(|(k, _)| is_internal(k) && k != SEAL).then(|| clean(v))
}

/// Records in the version of an upload that it belongs to a rename.
pub(crate) fn set_rename(v: &mut Version, source: &str, attempt: [u8; 16]) {
    v.meta.push((SOURCE.to_owned(), source.to_owned()));
    set_attempt(v, attempt);
}

/// Records the attempt that made the version.
pub(crate) fn set_attempt(v: &mut Version, attempt: [u8; 16]) {
    v.meta.push((ATTEMPT.to_owned(), UploadId(attempt).to_string()));
}

/// The attempt that made the version.
pub(crate) fn attempt(v: &Version) -> Option<[u8; 16]> {
    v.meta.iter().find(|(k, _)| k == ATTEMPT).and_then(|(_, id)| UploadId::parse(id)).map(|id| id.0)
}

/// The source key and the attempt, if the version belongs to a rename.
pub(crate) fn rename(v: &Version) -> Option<(&str, [u8; 16])> {
    let (_, source) = v.meta.iter().find(|(k, _)| k == SOURCE)?;
    Some((source.as_str(), attempt(v)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_internal() {
        let mut x = Version::default();
        x.meta.push(("content-type".into(), "a/b".into()));
        set_upload(&mut x, UploadId([3; 16]));
        assert_eq!(upload(&x), Some(UploadId([3; 16])));
        assert_eq!(clean(&x).meta.len(), 1);
        assert_eq!(upload(&clean(&x)), None);
    }
}
