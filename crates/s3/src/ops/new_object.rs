//! The parts of a request's head about a new object: its body, metadata, tags and locks.
//!
//! Must not depend on: the operations that make objects.

use ashlar_checksum::Algorithm;
use ashlar_object::{Class, MAX_PUT, Pairs, Sums, VersionSpec};
use http::HeaderMap;

use super::{Call, Context, STORAGE_CLASS, lock};
use crate::acl::{self, Asked};
use crate::auth::Identity;
use crate::buckets::Named;
use crate::fault::{Code, Fault, Outcome};
use crate::headers::{self, DeclaredChecksums, content_md5};

/// Checksum of objects that are put without one, as AWS does.
pub const DEFAULT_CHECKSUM: Algorithm = Algorithm::Crc64Nvme;

/// The headers of a PUT (or of a part) about its body.
pub struct DeclaredBody {
    /// Bytes.
    pub size: u64,
    /// The checksum stated.
    pub stated: DeclaredChecksums,
    /// The MD5 stated.
    pub md5: Option<[u8; 16]>,
}

impl DeclaredBody {
    /// Reads the head.
    pub fn read(call: &Call) -> Outcome<DeclaredBody> {
        let size =
            call.request_body.size().ok_or_else(|| Fault::new(Code::MISSING_CONTENT_LENGTH).closing())?;
        if size > MAX_PUT {
            return Err(Fault::new(Code::ENTITY_TOO_LARGE)
                .element("ProposedSize", size.to_string())
                .element("MaxSizeAllowed", MAX_PUT.to_string())
                .closing());
        }
        Ok(DeclaredBody {
            size,
            stated: DeclaredChecksums::read(&call.headers)?,
            md5: content_md5(&call.headers)?,
        })
    }

    /// Compares with what came, once the body has ended.
    pub fn check(&self, call: &Call, sums: &Sums) -> Outcome<()> {
        if self.md5.is_some() && self.md5 != sums.md5 {
            return Err(Fault::new(Code::BAD_DIGEST));
        }
        self.stated.check(sums.checksum.as_ref(), &call.request_body)
    }
}

/// Metadata and storage class, from the headers.
pub fn metadata(request: &HeaderMap) -> Outcome<(Pairs, Class)> {
    let class = headers::class(request)?;
    let mut meta = headers::metadata(request)?;
    if class != Class::Standard {
        meta.push((STORAGE_CLASS.as_str().to_owned(), class.name().to_owned()));
    }
    Ok((meta, class))
}

/// What an object will carry, from the headers of PUT, COPY and CreateMultipartUpload.
pub fn version_spec(cx: &Context, call: &Call) -> Outcome<(VersionSpec, Class)> {
    spec_from(cx, call.named(), call.verified.identity(), &call.headers)
}

/// As [`version_spec`], from any headers.
pub fn spec_from(
    cx: &Context,
    bucket: Named<'_>,
    who: &Identity,
    request: &HeaderMap,
) -> Outcome<(VersionSpec, Class)> {
    let (meta, class) = metadata(request)?;
    let tags = headers::tagging(request)?.unwrap_or_default();
    let of_bucket = of_bucket(cx, bucket, who, request)?;
    Ok((VersionSpec { meta, tags, ..of_bucket }, class))
}

/// What a new object gets by its bucket's settings and the headers about them: owner and access control
/// list, retention and legal hold. The rest is empty.
pub fn of_bucket(
    cx: &Context,
    bucket: Named<'_>,
    who: &Identity,
    request: &HeaderMap,
) -> Outcome<VersionSpec> {
    let asked = Asked::read(request)?;
    let bucket = bucket.open()?;
    let acl = acl::for_new_object(cx, &bucket, who, &asked)?;
    let (retention, legal_hold) = lock::for_new_object(cx, &bucket, request)?;
    Ok(VersionSpec { acl, retention, legal_hold, ..VersionSpec::default() })
}
