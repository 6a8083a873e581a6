//! The keys of the registers of a multipart upload: the object, the upload, its parts.
//!
//! An upload is a register `key 0x00 id` in the space of uploads, each part a register
//! `key 0x00 id number` in the space of parts, all in the placement group of the key.
//!
//! Must not depend on: the store, operations.

use ashlar_format::{Body, BucketId, Record, RegisterKey, Space, Upload};

use crate::backend::Backend;
use crate::types::UploadId;

/// The keys of the registers of an upload.
#[derive(Clone)]
pub(crate) struct UploadRegisters {
    pub object: RegisterKey,
    pub upload: RegisterKey,
    /// Key bytes of the upload register: the prefix of its parts.
    pub stem: Vec<u8>,
}

impl UploadRegisters {
    pub(crate) fn part(&self, number: u16) -> RegisterKey {
        let mut key = self.stem.clone();
        key.extend_from_slice(&number.to_be_bytes());
        RegisterKey::new(self.object.group(), Space::Part, self.object.bucket(), &key)
    }

    /// The registers of the upload `id` to a key.
    pub(crate) fn of(backend: &Backend, bucket: BucketId, key: &[u8], id: UploadId) -> UploadRegisters {
        let group = backend.group_of(bucket, key);
        let stem = [key, &[0], &id.0[..]].concat();
        let object = RegisterKey::new(group, Space::Object, bucket, key);
        UploadRegisters { object, upload: RegisterKey::new(group, Space::Upload, bucket, &stem), stem }
    }

    /// The registers from the key bytes of an upload register, as a list returns them.
    pub(crate) fn from_stem(backend: &Backend, bucket: BucketId, stem: &[u8]) -> Option<UploadRegisters> {
        let (key, id) = split(stem)?;
        Some(UploadRegisters::of(backend, bucket, key, id))
    }

    pub(crate) fn id(&self) -> UploadId {
        // `stem` always ends in the id; see the constructors.
        split(&self.stem).map_or(UploadId([0; 16]), |(_, id)| id)
    }
}

/// Key and upload id in the key bytes of an upload register.
pub(crate) fn split(stem: &[u8]) -> Option<(&[u8], UploadId)> {
    let (key, id) = stem.split_at_checked(stem.len().checked_sub(17)?)?;
    let id: [u8; 16] = id.strip_prefix(&[0])?.try_into().ok()?;
    Some((key, UploadId(id)))
}

/// The upload in a register.
pub(crate) fn upload_of(record: Option<&Record>) -> Option<&Upload> {
    match record.map(|r| &r.body) {
        Some(Body::Upload(u)) => Some(u),
        _ => None,
    }
}
