//! Which registers name a piece of data. Data moves: that of a part becomes that of the upload that is completed with
//! it, and then that of the object. A shard keeps the owner for which it was made.
//!
//! Invariant: registers are asked in the order in which data moves, so that data which moves during the check is found.
//!
//! Must not depend on: why somebody asks.

use crate::Result;
use crate::damage::{PART_TAIL, UPLOAD_TAIL};
use crate::sets::Inner;
use ashlar_format::{Data, RegisterKey, Space, WriteId};

/// Whether any register names a piece of data.
pub(crate) enum Named {
    Yes,
    No,
    /// Not known at the moment.
    Unknown,
}

/// The registers that data of `owner` moves to, in the order in which it moves, so that data that moves while they
/// are read one after another is met: of a part the upload that is completed with it, and the object that it becomes;
/// of an upload, whose heal can own shards, the object. `None`: this is no register's name.
fn heirs(owner: &RegisterKey) -> Option<Vec<RegisterKey>> {
    let (is_part, is_upload) = (owner.space() == Space::Part as u8, owner.space() == Space::Upload as u8);
    if !is_part && !is_upload {
        return Some(Vec::new());
    }
    let (group, bucket, key) = (owner.group(), owner.bucket(), owner.key());
    let upload = key.len().checked_sub(if is_part { PART_TAIL } else { 0 })?;
    let object = RegisterKey::new(group, Space::Object, bucket, &key[..upload.checked_sub(UPLOAD_TAIL)?]);
    let upload = is_part.then(|| RegisterKey::new(group, Space::Upload, bucket, &key[..upload]));
    Some(upload.into_iter().chain([object]).collect())
}

impl Inner {
    /// Whether a register names the write: its owner, or one that the owner's data moves to (see [`heirs`]).
    pub(crate) async fn named(&self, owner: &RegisterKey, id: WriteId) -> Result<Named> {
        let Some(heirs) = heirs(owner) else { return Ok(Named::Unknown) };
        for key in std::iter::once(owner).chain(&heirs) {
            let hash = ashlar_checksum::key_hash(key.as_bytes());
            let Some(r) = self.read_slowly(key, hash).await? else { continue };
            match self.names(key, &r.record, id).await {
                Ok(true) => return Ok(Named::Yes),
                Ok(false) => {}
                // A page cannot be read, or the list changes: it may name anything.
                Err(e) => {
                    tracing::debug!(?key, "whether a page names data: {e}");
                    return Ok(Named::Unknown);
                }
            }
        }
        Ok(Named::No)
    }

    /// As [`Inner::named`], of the newest state, even if it changes meanwhile. What cannot be read is an error.
    pub(crate) async fn is_named(&self, owner: &RegisterKey, data: &Data) -> Result<bool> {
        let Some(heirs) = heirs(owner) else { return Ok(true) };
        for key in std::iter::once(owner).chain(&heirs) {
            if self.named_now(key, data.write_id).await? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ashlar_format::{BucketId, GroupId};

    #[test]
    fn data_of_a_part_and_of_an_upload_moves_to_the_object() {
        let (group, bucket) = (GroupId { pool: 0, group: 3 }, BucketId([5; 16]));
        let of = |space, tail: &[u8]| RegisterKey::new(group, space, bucket, &[b"a/key", tail].concat());
        let id = [&[0; 1][..], &[9; 16]].concat();
        let (object, upload) = (of(Space::Object, b""), of(Space::Upload, &id));
        let part = of(Space::Part, &[&id[..], &[0, 1]].concat());
        assert_eq!(heirs(&object), Some(Vec::new()));
        assert_eq!(heirs(&upload), Some(vec![object.clone()]));
        assert_eq!(heirs(&part), Some(vec![upload, object]));
        assert_eq!(heirs(&RegisterKey::new(group, Space::Part, bucket, b"short")), None);
    }
}
