//! Multipart uploads.

use ashlar_checksum::{Algorithm, Digest};
use ashlar_object::feed::Kind;
use ashlar_object::{CompletedPart, ETag, MAX_PARTS, PartPut, PartSpec, UploadId, UploadSpec};
use http::header::HeaderName;

use super::new_object::{DeclaredBody, version_spec};
use super::{Answer, CHECKSUM_ALGORITHM, CHECKSUM_TYPE, Call, Context, limit};
use crate::acl::owner;
use crate::fault::{Code, Fault, Outcome};
use crate::headers::{self, checksum_header, checksum_text, checksum_type, refuse_unsupported};
use crate::sse::{self, Allowed};
use crate::xml::{Doc, Xml};
use crate::{date, fault};

/// `CreateMultipartUpload`.
pub async fn create(cx: &Context, call: &mut Call) -> Outcome<Answer> {
    sse::refuse(&call.headers, &cx.owner_id, Allowed::All)?;
    super::extract::refuse(&call.headers, "in parts")?;
    let (version, class) = version_spec(cx, call)?;
    let checksum = declared_checksum(call)?;
    let made = sse::for_new(cx, call.named(), &call.key, &call.headers, call.tls).await?;
    let seal = made.as_ref().map(|m| (m.seal.cipher, m.seal.envelope.clone()));
    let spec = UploadSpec { version, checksum, class, seal };
    let id = cx.store.create_upload(&call.open()?, &call.key, spec).await.map_err(|e| call.fault(e))?;
    let mut xml = Xml::new();
    xml.root("InitiateMultipartUploadResult")
        .leaf("Bucket", &call.bucket)
        .leaf("Key", &call.key)
        .plain("UploadId", id)
        .close();
    let mut answer = Answer::document(xml);
    if let Some((algorithm, composite)) = checksum {
        answer.set(CHECKSUM_ALGORITHM, algorithm.name());
        answer.set(CHECKSUM_TYPE, checksum_type(composite));
    }
    if let Some(made) = &made {
        made.show(&mut answer);
    }
    Ok(answer)
}

/// Algorithm and type of a new upload: SHA is composite, CRC64NVME of the full object, the other
/// CRCs are composite unless FULL_OBJECT is requested.
fn declared_checksum(call: &Call) -> Outcome<Option<(Algorithm, bool)>> {
    let kind = headers::ascii(&call.headers, "x-amz-checksum-type").filter(|t| !t.is_empty());
    let Some(algorithm) = call.checksum_algorithm()? else {
        return match kind {
            None => Ok(None),
            Some(_) => Err(Fault::with(
                Code::INVALID_REQUEST,
                "The x-amz-checksum-type header can only be used with the x-amz-checksum-algorithm header.",
            )),
        };
    };
    let wrong = |kind: &str| {
        Fault::with(
            Code::INVALID_REQUEST,
            format!("The {kind} checksum type cannot be used with the {algorithm} checksum algorithm."),
        )
    };
    let composite = match kind.map(str::to_ascii_uppercase).as_deref() {
        None => algorithm != Algorithm::Crc64Nvme,
        Some("COMPOSITE") if algorithm == Algorithm::Crc64Nvme => return Err(wrong("COMPOSITE")),
        Some("COMPOSITE") => true,
        Some("FULL_OBJECT") if !algorithm.is_crc() => return Err(wrong("FULL_OBJECT")),
        Some("FULL_OBJECT") => false,
        Some(_) => {
            return Err(Fault::with(
                Code::INVALID_REQUEST,
                "Value for x-amz-checksum-type header is invalid.",
            ));
        }
    };
    Ok(Some((algorithm, composite)))
}

/// `partNumber` of an upload.
pub fn part_number(call: &Call) -> Outcome<u16> {
    let text = call.query.get("partNumber").unwrap_or_default();
    text.parse().ok().filter(|n| (1..=MAX_PARTS).contains(n)).ok_or_else(|| {
        Fault::argument("partNumber", text, "Part number must be an integer between 1 and 10000, inclusive")
    })
}

/// `UploadPart`.
pub async fn upload_part(cx: &Context, call: &mut Call) -> Outcome<Answer> {
    sse::refuse(&call.headers, &cx.owner_id, Allowed::Part)?;
    let number = part_number(call)?;
    let id = call.upload()?;
    let promise = DeclaredBody::read(call)?;
    let spec = PartSpec { number, size: promise.size, checksum: promise.stated.algorithm(), want_md5: true };
    let (mut put, shown) = begin_part(cx, call, id, spec, promise.md5.is_some()).await?;
    while let Some(data) = call.request_body.next().await? {
        put.write(data).await.map_err(|e| call.fault(e))?;
    }
    let sums = put.end().await.map_err(|e| call.fault(e))?;
    promise.check(call, &sums)?;
    let part = put.commit().await.map_err(|e| call.fault(e))?;
    let mut answer = Answer::ok();
    answer.etag(part.etag);
    if let Some(digest) = part.checksum {
        answer.set(checksum_header(digest.algorithm()), digest.base64());
    }
    if let Some((envelope, md5)) = &shown {
        sse::show(&mut answer, envelope, md5.as_deref());
    }
    Ok(answer)
}

/// How a part is encrypted, and the MD5 of the customer's key.
pub type Shown = Option<(sse::Envelope, Option<String>)>;

/// Begins a part, encrypted as its upload is. `stated`: an MD5 has to be compared.
pub async fn begin_part(
    cx: &Context,
    call: &Call,
    id: UploadId,
    mut spec: PartSpec,
    stated: bool,
) -> Outcome<(PartPut, Shown)> {
    let upload = cx.store.find_upload(&call.open()?, &call.key, id).await.map_err(|e| call.fault(e))?;
    let Some((envelope, key, md5)) = sse::of_upload(cx, call, upload.sealed()).await? else {
        return Ok((upload.part(spec, None).await.map_err(|e| call.fault(e))?, None));
    };
    let hides = envelope.kind != sse::Kind::S3;
    spec.want_md5 = stated || !hides;
    let upload = if hides { upload.hiding_md5() } else { upload };
    let put = upload.part(spec, Some(&key)).await.map_err(|e| call.fault(e))?;
    Ok((put, Some((envelope, md5))))
}

/// `CompleteMultipartUpload`.
pub async fn complete(cx: &Context, call: &mut Call) -> Outcome<Answer> {
    // A customer's key may be given, and is not needed: no byte is read.
    sse::refuse(&call.headers, &cx.owner_id, Allowed::Part)?;
    let customer = sse::customer(&call.headers, sse::Side::Here, call.tls)?;
    let id = call.upload()?;
    if sse::gives_any(&call.headers) {
        // An upload that is done already was checked then.
        let upload = cx.store.find_upload(&call.open()?, &call.key, id).await.ok();
        let envelope = upload.as_ref().and_then(|u| u.sealed()).map(sse::envelope).transpose()?;
        if upload.is_some() {
            sse::same_as_upload(&call.headers, call.tls, envelope.as_ref())?;
        }
    }
    let conditions = headers::write_conditions(&call.headers)?;
    let stated = object_checksum(call)?;
    // The checksum headers concern the object here, not this document.
    let body = call.request_body.collect(limit::COMPLETE).await?;
    let parts = parse_complete(&body)?;
    if let Some(size) = headers::ascii(&call.headers, "x-amz-mp-object-size") {
        check_size(cx, call, id, size, &parts).await?;
    }
    let done = call
        .store(cx, Kind::Complete)
        .complete_upload(&call.open()?, &call.key, id, &parts, stated, &conditions)
        .await
        .map_err(|e| call.fault(e))?;
    let committed = &done.committed;
    let mut xml = Xml::new();
    xml.root("CompleteMultipartUploadResult")
        .leaf(
            "Location",
            &format!("{}/{}/{}", call.endpoint(), call.bucket, crate::xml::url_encode(&call.key)),
        )
        .leaf("Bucket", &call.bucket)
        .leaf("Key", &call.key)
        .etag(committed.etag);
    if let Some(checksum) = &committed.checksum
        && let Some((algorithm, text)) = checksum_text(checksum, committed.etag.parts)
    {
        xml.leaf(&format!("Checksum{algorithm}"), &text)
            .leaf("ChecksumType", checksum_type(checksum.composite));
    }
    xml.close();
    let mut answer = Answer::document(xml);
    answer.made(committed.version_id);
    if let Some(sealed) = &done.sealed {
        sse::show(&mut answer, &sse::envelope(sealed)?, customer.as_ref().map(sse::CustomerKey::md5));
    }
    super::lifecycle::show_after_write(cx, call, committed, &mut answer).await;
    Ok(answer)
}

/// The checksum of the whole object, as the client states it: base64, perhaps with `-N`.
fn object_checksum(call: &Call) -> Outcome<Option<Digest>> {
    let mut found = None;
    for algorithm in Algorithm::ALL {
        let name: HeaderName = checksum_header(algorithm);
        let Some(value) = headers::ascii(&call.headers, name.as_str()) else { continue };
        let text = value.rsplit_once('-').map_or(value, |(text, _)| text);
        let digest = Digest::from_base64(algorithm, text).ok_or_else(|| {
            Fault::with(Code::INVALID_REQUEST, format!("Value for {name} header is invalid."))
        })?;
        if found.replace(digest).is_some() {
            return Err(Fault::with(
                Code::INVALID_REQUEST,
                "Expecting a single x-amz-checksum- header. Multiple checksum Types are not allowed.",
            ));
        }
    }
    Ok(found)
}

/// `x-amz-mp-object-size`: the parts must add up to it.
async fn check_size(
    cx: &Context,
    call: &Call,
    id: UploadId,
    text: &str,
    parts: &[CompletedPart],
) -> Outcome<()> {
    let want: u64 = text.parse().map_err(|_| {
        Fault::with(Code::INVALID_REQUEST, "Value for x-amz-mp-object-size header is invalid.")
    })?;
    let (mut sum, mut marker) = (0, 0);
    let bucket = call.open()?;
    loop {
        let page = match cx.store.list_parts(&bucket, &call.key, id, marker, 1000).await {
            Ok(page) => page,
            // Completed before: the store answers the retry.
            Err(ashlar_object::Error::NoSuchUpload) => return Ok(()),
            Err(error) => return Err(call.fault(error)),
        };
        let named = |n: u16| parts.binary_search_by_key(&n, |p| p.number).is_ok();
        sum += page.parts.iter().filter(|p| named(p.number)).map(|p| p.size).sum::<u64>();
        match page.next {
            Some(next) => marker = next,
            None => break,
        }
    }
    if sum == want {
        return Ok(());
    }
    Err(Fault::with(
        Code::INVALID_REQUEST,
        format!(
            "The provided 'x-amz-mp-object-size' header value {want} does not match what was computed: {sum}"
        ),
    ))
}

pub(crate) fn parse_complete(body: &[u8]) -> Outcome<Vec<CompletedPart>> {
    let mut doc = Doc::open(body, "CompleteMultipartUpload")?;
    let mut parts: Vec<CompletedPart> = Vec::new();
    while let Some(name) = doc.child()? {
        if name != "Part" {
            return doc.unexpected(&name);
        }
        if parts.len() == usize::from(MAX_PARTS) {
            return Err(Fault::with(
                Code::MALFORMED_XML,
                format!("An upload has at most {MAX_PARTS} parts."),
            ));
        }
        parts.push(completed_part(&mut doc)?);
    }
    doc.finish()?;
    if parts.is_empty() {
        return Err(Fault::with(Code::MALFORMED_XML, "You must specify at least one part"));
    }
    Ok(parts)
}

fn completed_part(doc: &mut Doc<'_>) -> Outcome<CompletedPart> {
    let (mut number, mut etag, mut checksum) = (None, None, None);
    while let Some(name) = doc.child()? {
        match name.as_str() {
            "PartNumber" => number = Some(doc.parse::<u16>("PartNumber")?),
            "ETag" => {
                let text = doc.text()?;
                // Something that was never an ETag is a part that does not exist.
                etag = Some(
                    ETag::parse(&text)
                        .ok_or_else(|| fault::Fault::new(Code::INVALID_PART).element("ETag", text))?,
                );
            }
            other => match other.strip_prefix("Checksum").and_then(Algorithm::parse) {
                Some(algorithm) => {
                    let text = doc.text()?;
                    checksum = Some(
                        Digest::from_base64(algorithm, text.trim())
                            .ok_or_else(|| Fault::new(Code::INVALID_PART))?,
                    );
                }
                None => return doc.unexpected(other),
            },
        }
    }
    match (number, etag) {
        (Some(number), Some(etag)) if (1..=MAX_PARTS).contains(&number) => {
            Ok(CompletedPart { number, etag, checksum })
        }
        (Some(_), Some(_)) => Err(Fault::argument(
            "partNumber",
            "",
            "Part number must be an integer between 1 and 10000, inclusive",
        )),
        _ => Err(Fault::new(Code::MALFORMED_XML)),
    }
}

/// `AbortMultipartUpload`.
pub async fn abort(cx: &Context, call: &mut Call) -> Outcome<Answer> {
    refuse_unsupported(&call.headers, &cx.owner_id)?;
    let id = call.upload()?;
    cx.store.abort_upload(&call.open()?, &call.key, id).await.map_err(|e| call.fault(e))?;
    Ok(Answer::no_content())
}

/// `ListParts`.
pub async fn list_parts(cx: &Context, call: &mut Call) -> Outcome<Answer> {
    // Some clients send the customer's key with every call about an upload.
    sse::refuse(&call.headers, &cx.owner_id, Allowed::Customer)?;
    let id = call.upload()?;
    let most = call.number("max-parts", 1000)?.min(1000);
    let marker = call.number("part-number-marker", 0)?.min(usize::from(u16::MAX)) as u16;
    let page =
        cx.store.list_parts(&call.open()?, &call.key, id, marker, most).await.map_err(|e| call.fault(e))?;
    let mut xml = Xml::with_capacity(1024 + page.parts.len() * 200);
    xml.root("ListPartsResult").leaf("Bucket", &call.bucket).leaf("Key", &call.key).plain("UploadId", id);
    owner(cx, &mut xml, "Initiator");
    owner(cx, &mut xml, "Owner");
    xml.leaf("StorageClass", if page.storage_class.is_empty() { "STANDARD" } else { &page.storage_class })
        .plain("PartNumberMarker", marker)
        .plain("NextPartNumberMarker", page.next.or(page.parts.last().map(|p| p.number)).unwrap_or(0))
        .plain("MaxParts", most)
        .plain("IsTruncated", page.truncated);
    if let Some((algorithm, composite)) = page.checksum {
        xml.plain("ChecksumAlgorithm", algorithm).plain("ChecksumType", checksum_type(composite));
    }
    for part in &page.parts {
        xml.open("Part")
            .plain("PartNumber", part.number)
            .plain("LastModified", date::format_iso(part.modified_ms))
            .etag(part.etag);
        if let Some(digest) = &part.checksum {
            xml.leaf(&format!("Checksum{}", digest.algorithm()), &digest.base64());
        }
        xml.plain("Size", part.size).close();
    }
    xml.close();
    Ok(Answer::document(xml))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn completion_documents_are_parsed() {
        let part =
            |n: &str, etag: &str| format!("<Part><PartNumber>{n}</PartNumber><ETag>{etag}</ETag></Part>");
        let body = |inner: &str| format!("<CompleteMultipartUpload>{inner}</CompleteMultipartUpload>");
        let etag = "&quot;0123456789abcdef0123456789abcdef&quot;";
        let good = parse_complete(body(&part("3", etag)).as_bytes()).unwrap();
        assert_eq!((good.len(), good[0].number), (1, 3));
        for (bad, code) in [
            (body(""), Code::MALFORMED_XML),
            (body(&part("x", etag)), Code::MALFORMED_XML),
            (body(&part("10001", etag)), Code::INVALID_ARGUMENT),
            (body(&part("1", "zz")), Code::INVALID_PART),
            (body("<Part><PartNumber>1</PartNumber></Part>"), Code::MALFORMED_XML),
            (body(&part("1", etag).repeat(10_001)), Code::MALFORMED_XML),
        ] {
            assert_eq!(parse_complete(bad.as_bytes()).unwrap_err().code(), code);
        }
    }
}
