//! `PutObject` with `x-amz-write-offset-bytes`: appends the body to the object.
//!
//! As in Amazon S3 Express One Zone, here for every bucket without versioning. Must not depend on: how parts
//! are stored.

use ashlar_object::feed::Kind;
use ashlar_object::{AppendBase, PutSpec};
use http::header::{HeaderName, HeaderValue};

use super::new_object::{DEFAULT_CHECKSUM, DeclaredBody, version_spec};
use super::{Answer, Call, Context};
use crate::fault::{Code, Fault, Outcome};
use crate::headers;
use crate::sse::{self, Allowed};

/// The header that makes a PUT an append.
const OFFSET: &str = "x-amz-write-offset-bytes";
/// Bytes of the object in the answer.
const OBJECT_SIZE: HeaderName = HeaderName::from_static("x-amz-object-size");

/// Takes the offset out of the headers; `None`: a usual PUT.
pub fn offset(call: &mut Call) -> Outcome<Option<u64>> {
    let Some(value) = call.headers.remove(OFFSET) else { return Ok(None) };
    let text = value.to_str().unwrap_or_default();
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    match text.parse().ok().filter(|_| digits) {
        Some(offset) => Ok(Some(offset)),
        None => Err(Fault::argument(OFFSET, text, "The write offset is a number of bytes.")),
    }
}

/// Appends.
pub async fn append_object(cx: &Context, call: &mut Call, offset: u64) -> Outcome<Answer> {
    sse::refuse(&call.headers, &cx.owner_id, Allowed::All)?;
    let promise = DeclaredBody::read(call)?;
    if promise.size == 0 {
        let why = "Request body cannot be empty when 'write offset' is specified.";
        return Err(Fault::with(Code::INVALID_REQUEST, why));
    }
    let (spec, class) = version_spec(cx, call)?;
    let conditions = headers::conditions(&call.headers, "")?;
    let base = cx.store.append_base(&call.open()?, &call.key).await.map_err(|e| call.fault(e))?;
    if base.exists && (spec.meta.iter().any(|(n, _)| n.starts_with("x-amz-meta-")) || !spec.tags.is_empty()) {
        let why =
            "Cannot specify both a write offset value and user-defined object metadata for existing objects.";
        return Err(Fault::with(Code::INVALID_REQUEST, why));
    }
    let checksum = Some(algorithm(&promise, &base)?);
    let made = sse::for_append(cx, call, &base).await?;
    let want_md5 = made.as_ref().is_none_or(|m| m.seal.md5) || promise.md5.is_some();
    let put = PutSpec { size: promise.size, checksum, want_md5, class };
    let seal = made.as_ref().map(|m| m.seal.clone());
    let put = call.store(cx, Kind::Append).put_append(&call.open()?, &call.key, put, seal, &base).await;
    let mut put = put.map_err(|e| call.fault(e))?;
    while let Some(data) = call.request_body.next().await? {
        put.write(data).await.map_err(|e| call.fault(e))?;
    }
    let sums = put.end().await.map_err(|e| call.fault(e))?;
    promise.check(call, &sums)?;
    let committed = put.append(offset, spec, &conditions).await.map_err(|e| call.fault(e))?;
    let mut answer = Answer::ok();
    answer.committed(&committed);
    answer.headers.insert(OBJECT_SIZE, HeaderValue::from(committed.size));
    if let Some(made) = &made {
        made.show(&mut answer);
    }
    super::lifecycle::show_after_write(cx, call, &committed, &mut answer).await;
    Ok(answer)
}

/// The checksum of what is appended: that of the object, which a stated one has to be.
fn algorithm(promise: &DeclaredBody, base: &AppendBase) -> Outcome<ashlar_checksum::Algorithm> {
    match (promise.stated.algorithm(), base.checksum) {
        (Some(stated), Some(has)) if stated != has => Err(Fault::with(
            Code::INVALID_REQUEST,
            format!(
                "Checksum Type mismatch occurred, expected checksum Type: {}, actual checksum Type: {}",
                has.name().to_ascii_lowercase(),
                stated.name().to_ascii_lowercase()
            ),
        )),
        (stated, has) => Ok(stated.or(has).unwrap_or(DEFAULT_CHECKSUM)),
    }
}
