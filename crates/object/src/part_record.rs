//! The content of a part register, and its record.
//!
//! Must not depend on: the store, operations.

use ashlar_format::{Body, Checksum, Data, Part, Version};
use bytes::Bytes;

use crate::{seal, summary};

/// Part registers that are read or changed concurrently.
pub(crate) const CONCURRENCY: usize = 16;

/// The content of a part register.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StoredPart {
    pub size: u64,
    pub md5: [u8; 16],
    pub checksum: Option<Checksum>,
    /// For an encrypted part; `size` is then the stored size.
    pub nonce: Option<[u8; 16]>,
    pub modified_ms: i64,
    /// `None` for an empty part, which has no data.
    pub data: Option<Data>,
}

/// Decodes a part register. An empty part is stored as a version of no bytes, since a part record always
/// names data; the parts that it replaced are the parts of that version.
pub(crate) fn stored_part(body: &Body, number: u16) -> Option<StoredPart> {
    match body {
        Body::Part(parts) => parts.first().filter(|p| p.number == number).map(|p| {
            let (nonce, checksum) = seal::split(p.checksum.as_ref());
            StoredPart {
                size: p.size,
                md5: p.md5,
                checksum,
                nonce,
                modified_ms: p.modified_ms,
                data: Some(p.data),
            }
        }),
        Body::Versions(v) => v.first().map(|v| StoredPart {
            size: 0,
            md5: v.md5,
            checksum: v.checksum.clone(),
            nonce: None,
            modified_ms: v.modified_ms,
            data: None,
        }),
        _ => None,
    }
}

impl StoredPart {
    /// Whether both belong to the same write.
    pub(crate) fn same_data(&self, other: &StoredPart) -> bool {
        self.data.map(|d| d.write_id) == other.data.map(|d| d.write_id)
    }

    /// Bytes as clients see them.
    pub(crate) fn plain_size(&self) -> u64 {
        if self.nonce.is_some() { seal::plain_len(self.size) } else { self.size }
    }
}

/// Bytes of the part in a register, as clients see them.
pub(crate) fn part_size(body: &Body, number: u16) -> Option<u64> {
    stored_part(body, number).map(|k| k.plain_size())
}

/// The parts whose data a part register names: the part and those that it replaced.
pub(crate) fn named(body: &Body) -> &[Part] {
    match body {
        Body::Part(parts) => parts,
        Body::Versions(v) => v.first().map_or(&[], |v| &v.parts),
        _ => &[],
    }
}

/// The record of a part, and its summary for lists. `replaced`: parts whose data is kept.
pub(crate) fn part_body(number: u16, k: &StoredPart, replaced: &[Part]) -> (Body, Bytes) {
    let (size, md5, modified_ms) = (k.size, k.md5, k.modified_ms);
    let checksum = seal::join(k.nonce, k.checksum.clone());
    // Used only for the summary if there is no data.
    let nothing = Data {
        write_id: ashlar_format::WriteId::ZERO,
        k: 1,
        m: 0,
        rotate: 0,
        stripe: 1,
        durable: 0,
        inline: true,
    };
    let data = k.data.unwrap_or(nothing);
    let part = Part { number, size, md5, checksum: checksum.clone(), modified_ms, data };
    let summary = summary::of_part(&part);
    let body = if k.data.is_some() {
        Body::Part(std::iter::once(part).chain(replaced.iter().cloned()).collect())
    } else {
        let parts = replaced.to_vec();
        Body::Versions(vec![Version { md5, checksum, modified_ms, parts, ..Version::default() }])
    };
    (body, summary)
}
