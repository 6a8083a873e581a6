//! COPY of an object, and of a range into a part.

use std::ops::Range;

use ashlar_object::feed::Kind;
use ashlar_object::{
    Conditions, Copied, CopySeal, CopySource, CopySpec, MAX_PUT, Pairs, PartSpec, Verdict, VersionId,
    conditions, parse_version, version_text,
};
use ashlar_policy::Action;
use http::header::HeaderName;

use super::get::CHANGES;
use super::multipart::{begin_part, part_number};
use super::{Answer, Call, Context, VERSION_ID, fault};
use crate::date;
use crate::fault::{Code, Fault, Outcome};
use crate::headers::{self, checksum_text, checksum_type};
use crate::permit::Need;
use crate::sse::{self, Allowed, Found, Side};
use crate::target::{check_key, decode};
use crate::xml::Xml;

const SOURCE_VERSION: HeaderName = HeaderName::from_static("x-amz-copy-source-version-id");

/// What a request names as the source of a copy.
pub(crate) struct Source {
    pub bucket: String,
    pub key: String,
    pub version: Option<VersionId>,
    pub conditions: Conditions,
}

/// Reads `x-amz-copy-source`: `[/]bucket/key[?versionId=id]`, URL-encoded.
pub(crate) fn source(call: &Call) -> Outcome<Source> {
    let bad = || {
        Fault::argument(
            "x-amz-copy-source",
            "",
            "Copy Source must mention the source bucket and key: sourcebucket/sourcekey",
        )
    };
    let text = headers::text(&call.headers, "x-amz-copy-source").ok_or_else(bad)?;
    if text.starts_with("arn:") {
        return Err(Fault::not_implemented("Copying from access points (x-amz-copy-source with an ARN)"));
    }
    let (path, version) = match text.split_once("?versionId=") {
        Some((path, version)) => (path, Some(version)),
        None => (text.as_str(), None),
    };
    let path = decode(path, false).map_err(|_| bad())?;
    let path = path.strip_prefix('/').unwrap_or(&path);
    let (bucket, key) =
        path.split_once('/').filter(|(b, k)| !b.is_empty() && !k.is_empty()).ok_or_else(bad)?;
    check_key(key)?;
    let version = match version {
        None => None,
        Some(text) => Some(
            parse_version(text)
                .ok_or_else(|| Fault::argument("x-amz-copy-source", text, "Invalid version id specified"))?,
        ),
    };
    let conditions = headers::conditions(&call.headers, "x-amz-copy-source-")?;
    Ok(Source { bucket: bucket.to_owned(), key: key.to_owned(), version, conditions })
}

/// COPY or REPLACE.
fn replaces(call: &Call, header: &'static str) -> Outcome<bool> {
    match headers::ascii(&call.headers, header) {
        None | Some("" | "COPY") => Ok(false),
        Some("REPLACE") => Ok(true),
        Some(other) => {
            Err(Fault::argument(header, other, format!("Unknown {header}: it must be COPY or REPLACE.")))
        }
    }
}

/// `CopyObject`.
pub async fn copy_object(cx: &Context, call: &mut Call) -> Outcome<Answer> {
    sse::refuse(&call.headers, &cx.owner_id, Allowed::AllAndSource)?;
    let from = source(call)?;
    let class = headers::class(&call.headers)?;
    let meta = if replaces(call, "x-amz-metadata-directive")? {
        Some(super::new_object::metadata(&call.headers)?.0)
    } else {
        None
    };
    let tags = if replaces(call, "x-amz-tagging-directive")? {
        Some(headers::tagging(&call.headers)?.unwrap_or_default())
    } else {
        None
    };
    let checksum = call.checksum_algorithm()?;
    let of_bucket = super::new_object::of_bucket(cx, call.named(), call.verified.identity(), &call.headers)?;
    let mut spec = CopySpec {
        seal: CopySeal::Plain,
        retention: of_bucket.retention,
        legal_hold: of_bucket.legal_hold,
        acl: of_bucket.acl,
        changes: call.headers.contains_key("x-amz-storage-class")
            || tags.is_some()
            || checksum.is_some()
            || sse::gives_any(&call.headers),
        meta,
        tags,
        checksum,
        class,
        conditions: headers::conditions(&call.headers, "")?,
    };
    let (copied, shown) = copy(cx, call, &from, &mut spec).await?;
    let committed = &copied.committed;
    let mut xml = Xml::new();
    xml.root("CopyObjectResult")
        .plain("LastModified", date::format_iso(committed.modified_ms))
        .etag(committed.etag);
    if let Some(checksum) = &committed.checksum
        && let Some((algorithm, text)) = checksum_text(checksum, committed.etag.parts)
    {
        xml.leaf("ChecksumType", checksum_type(checksum.composite))
            .leaf(&format!("Checksum{algorithm}"), &text);
    }
    xml.close();
    let mut answer = Answer::document(xml);
    answer.made(committed.version_id);
    if let Some(id) = copied.source_version_id {
        answer.set(SOURCE_VERSION, version_text(id));
    }
    shown.show(&mut answer);
    super::lifecycle::show_after_write(cx, call, committed, &mut answer).await;
    Ok(answer)
}

/// Finds the source, opens it, and copies; again when it was replaced meanwhile.
async fn copy(
    cx: &Context,
    call: &Call,
    from: &Source,
    spec: &mut CopySpec,
) -> Outcome<(Copied, sse::Shown)> {
    let same = from.bucket == call.bucket && from.key == call.key;
    let bucket = call.buckets.find(&from.bucket).map_err(|e| of_source(e, call, from))?;
    let (key, conditions) = (from.key.clone(), from.conditions.clone());
    let named = CopySource { bucket, key, version: from.version, conditions };
    for _ in 0..CHANGES {
        let source = cx.store.get_source(&named).await;
        let mut source = source.map_err(|e| of_source(e, call, from))?;
        if spec.tags.is_none() && !source.version().tags.is_empty() {
            permit_tags(cx, call, from, &source.version().tags).await?;
        }
        let customer = sse::customer(&call.headers, Side::Source, call.tls)?;
        let found = Found::with(cx, &from.key, &mut source, customer, true).await?;
        let (seal, shown) = sse::for_copy(cx, call, &found, same, spec.checksum.is_some()).await?;
        // Another encryption is a change, even if no header asks for it: a bucket's default, or none.
        spec.changes |= match &seal {
            CopySeal::Plain => found.envelope().is_some(),
            CopySeal::Fresh(_) | CopySeal::Envelope(_) => true,
            CopySeal::Kept => false,
        };
        spec.seal = seal;
        let store = call.store(cx, Kind::Copy);
        match store.copy_from(&source, found.key.as_ref(), &call.open()?, &call.key, spec).await {
            Ok(copied) => return Ok((copied, shown)),
            Err(ashlar_object::Error::Changed) => {}
            Err(error) => return Err(of_source(error, call, from)),
        }
    }
    Err(Fault::new(Code::SLOW_DOWN))
}

/// Refuses to carry tags to the copy unless the caller may read them there, and store them and the copy here.
/// The object was permitted before, without what is known of its tags only now.
async fn permit_tags(cx: &Context, call: &Call, from: &Source, tags: &Pairs) -> Outcome<()> {
    let version = from.version.map(version_text);
    let version = version.as_deref();
    let action = match version {
        Some(_) => Action::GetObjectVersionTagging,
        None => Action::GetObjectTagging,
    };
    call.permit(cx, &Need { action, bucket: &from.bucket, key: &from.key, version }).await?;
    for action in [Action::PutObject, Action::PutObjectTagging] {
        let need = Need { action, bucket: &call.bucket, key: &call.key, version: None };
        call.permit_tags(cx, &need, tags).await?;
    }
    Ok(())
}

/// Errors about the source name the source; a delete marker there is a request that makes no sense.
fn of_source(error: ashlar_object::Error, call: &Call, from: &Source) -> Fault {
    match error {
        ashlar_object::Error::DeleteMarker { .. } => Fault::with(
            Code::INVALID_REQUEST,
            "The source of a copy request may not specifically refer to a delete marker by version id.",
        ),
        ashlar_object::Error::NoSuchBucket if cx_has_destination(call, from) => {
            fault(error, &from.bucket, &from.key)
        }
        ashlar_object::Error::NoSuchKey { .. } | ashlar_object::Error::NoSuchVersion => {
            fault(error, &from.bucket, &from.key)
        }
        other => fault(other, &call.bucket, &call.key),
    }
}

/// Which of two buckets is missing does not show in the error; the source is read first.
fn cx_has_destination(call: &Call, from: &Source) -> bool {
    call.bucket != from.bucket
}

/// `UploadPartCopy`.
pub async fn upload_part_copy(cx: &Context, call: &mut Call) -> Outcome<Answer> {
    sse::refuse(&call.headers, &cx.owner_id, Allowed::PartAndSource)?;
    let number = part_number(call)?;
    let id = call.upload()?;
    let from = source(call)?;
    let bucket = call.buckets.find(&from.bucket).map_err(|e| of_source(e, call, &from))?;
    let object = cx.store.get(&bucket, &from.key, from.version).await;
    let mut object = object.map_err(|e| of_source(e, call, &from))?;
    let customer = sse::customer(&call.headers, Side::Source, call.tls)?;
    let found = Found::with(cx, &from.key, &mut object, customer, true).await?;
    let modified_ms = object.version().modified_ms;
    match conditions::evaluate(&from.conditions, Some((&object.etag(), modified_ms)), true) {
        Verdict::Proceed => {}
        Verdict::NotModified | Verdict::Failed | Verdict::Absent => {
            return Err(Fault::new(Code::PRECONDITION_FAILED));
        }
    }
    let range = copy_range(call, object.size())?;
    let size = range.end - range.start;
    if size > MAX_PUT {
        return Err(Fault::argument(
            "x-amz-copy-source-range",
            "",
            "The part is larger than 5 GiB. Copy a smaller range.",
        ));
    }
    let _turn = cx.store.copy_permit().await;
    let spec = PartSpec { number, size, checksum: None, want_md5: true };
    let (mut put, shown) = begin_part(cx, call, id, spec, false).await?;
    if size > 0 {
        let mut pieces = object
            .read_with(range, found.key.as_ref())
            .await
            .map_err(|e| fault(e, &from.bucket, &from.key))?;
        while let Some(piece) = pieces.next().await {
            let piece = piece.map_err(|e| fault(e, &from.bucket, &from.key))?;
            put.write(piece).await.map_err(|e| call.fault(e))?;
        }
    }
    let part = put.commit().await.map_err(|e| call.fault(e))?;
    let mut xml = Xml::new();
    xml.root("CopyPartResult").plain("LastModified", date::format_iso(part.modified_ms)).etag(part.etag);
    if let Some(digest) = &part.checksum {
        xml.leaf(&format!("Checksum{}", digest.algorithm()), &digest.base64());
    }
    xml.close();
    let mut answer = Answer::document(xml);
    if let Some(id) = object.version_id() {
        answer.set(SOURCE_VERSION, version_text(id));
    }
    answer.headers.remove(VERSION_ID);
    if let Some((envelope, md5)) = &shown {
        sse::show(&mut answer, envelope, md5.as_deref());
    }
    Ok(answer)
}

/// `x-amz-copy-source-range`: exactly `bytes=a-b`, within the source.
fn copy_range(call: &Call, size: u64) -> Outcome<Range<u64>> {
    let Some(text) = headers::ascii(&call.headers, "x-amz-copy-source-range") else { return Ok(0..size) };
    let bad = || {
        Fault::argument(
            "x-amz-copy-source-range",
            text,
            "The x-amz-copy-source-range value must be of the form bytes=first-last where first and last are the zero-based offsets of the first and last bytes to copy",
        )
    };
    let digits = |t: &str| !t.is_empty() && t.len() < 20 && t.bytes().all(|b| b.is_ascii_digit());
    let (first, last) = text.strip_prefix("bytes=").and_then(|r| r.split_once('-')).ok_or_else(bad)?;
    if !digits(first) || !digits(last) {
        return Err(bad());
    }
    let (first, last): (u64, u64) = (first.parse().map_err(|_| bad())?, last.parse().map_err(|_| bad())?);
    if first > last {
        return Err(bad());
    }
    if last >= size {
        return Err(Fault::argument(
            "x-amz-copy-source-range",
            text,
            format!("Range specified is not valid for source object of size: {size}"),
        ));
    }
    Ok(first..last + 1)
}
