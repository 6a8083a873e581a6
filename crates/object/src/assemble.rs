//! Assembles the version that results from the parts of an upload: pure functions.
//!
//! Must not depend on: registers, the store.

use ashlar_checksum::{Digest, combine_crc, composite};
use ashlar_format::{Checksum, Part, Upload, Version};

use crate::part_record::StoredPart;
use crate::types::{ETag, digest_of, number_algorithm, stored};
use crate::{Error, MAX_OBJECT, MAX_PARTS, Result, seal};

/// One line of a complete call.
#[derive(Clone, Debug)]
pub struct CompletedPart {
    /// Part number.
    pub number: u16,
    /// ETag that the upload of the part returned.
    pub etag: ETag,
    /// Checksum stated for the part.
    pub checksum: Option<Digest>,
}

/// Checks that part numbers are in ascending order.
pub(crate) fn check_order(asked: &[CompletedPart]) -> Result<()> {
    if asked.is_empty() {
        return Err(Error::InvalidRequest("an upload is completed with at least one part"));
    }
    if asked.windows(2).any(|w| w[0].number >= w[1].number) {
        return Err(Error::InvalidPartOrder);
    }
    match asked.iter().find(|p| p.number == 0 || p.number > MAX_PARTS) {
        Some(p) => Err(Error::InvalidPart(p.number)),
        None => Ok(()),
    }
}

/// Compares the requested parts with the stored ones.
pub(crate) fn check_parts(
    asked: &[CompletedPart],
    found: &[Option<StoredPart>],
    min_part: u64,
) -> Result<()> {
    let mut total = 0u64;
    for (i, (a, f)) in asked.iter().zip(found).enumerate() {
        let Some(f) = f else { return Err(Error::InvalidPart(a.number)) };
        let stated = a.checksum.is_none_or(|d| f.checksum.as_ref().and_then(digest_of) == Some(d));
        if (ETag { md5: f.md5, parts: 0 }) != a.etag || !stated {
            return Err(Error::InvalidPart(a.number));
        }
        if i + 1 < asked.len() && f.plain_size() < min_part {
            return Err(Error::EntityTooSmall { number: a.number, size: f.plain_size() });
        }
        total = total.saturating_add(f.plain_size());
    }
    if total > MAX_OBJECT { Err(Error::EntityTooLarge) } else { Ok(()) }
}

/// The version assembled from the parts, without id and time.
pub(crate) fn assemble(template: &Version, asked: &[CompletedPart], found: &[Option<StoredPart>]) -> Version {
    let mut md5s = Vec::with_capacity(16 * found.len());
    let mut parts = Vec::with_capacity(found.len());
    for (a, f) in asked.iter().zip(found.iter().flatten()) {
        md5s.extend_from_slice(&f.md5);
        if let Some(data) = f.data {
            parts.push(Part {
                number: a.number,
                size: f.size,
                md5: f.md5,
                checksum: seal::join(f.nonce, f.checksum.clone()),
                modified_ms: f.modified_ms,
                data,
            });
        }
    }
    Version {
        size: found.iter().flatten().map(StoredPart::plain_size).sum(),
        md5: ashlar_checksum::md5_once(&md5s),
        parts_count: asked.len() as u16,
        parts,
        ..template.clone()
    }
}

/// The checksum of the whole object from those of its parts.
pub(crate) fn whole_checksum(upload: &Upload, found: &[Option<StoredPart>]) -> Result<Option<Checksum>> {
    let Some(algorithm) = number_algorithm(upload.checksum_algorithm) else { return Ok(None) };
    let mut digests = Vec::with_capacity(found.len());
    for f in found.iter().flatten() {
        let digest = f.checksum.as_ref().and_then(digest_of).filter(|d| d.algorithm() == algorithm);
        digests.push((digest.ok_or(Error::BadDigest)?, f.plain_size()));
    }
    if upload.checksum_composite {
        let digests: Vec<Digest> = digests.into_iter().map(|(d, _)| d).collect();
        return Ok(Some(stored(&composite(algorithm, &digests), true)));
    }
    let mut rest = digests.into_iter();
    let Some((mut whole, _)) = rest.next() else { return Ok(None) };
    for (digest, size) in rest {
        whole = combine_crc(algorithm, &whole, &digest, size)
            .ok_or_else(|| Error::Internal("a full-object checksum that is not a CRC".to_owned()))?;
    }
    Ok(Some(stored(&whole, false)))
}
