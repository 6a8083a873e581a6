//! PUT of an object.
//!
//! The fast path is for current SDKs: a trailing CRC. Frames go to the store as they arrive.

use ashlar_object::PutSpec;
use ashlar_object::feed::Kind;

pub use super::lifecycle::rules;
pub use super::new_object::{DEFAULT_CHECKSUM, DeclaredBody, metadata, of_bucket, spec_from, version_spec};
use super::{Answer, Call, Context, append, extract, lifecycle};
use crate::fault::Outcome;
use crate::headers;
use crate::sse::{self, Allowed};

/// `PutObject`.
pub async fn put_object(cx: &Context, call: &mut Call) -> Outcome<Answer> {
    if extract::is_asked(&call.headers)? {
        return Box::pin(extract::put_archive(cx, call)).await;
    }
    if let Some(offset) = append::offset(call)? {
        return Box::pin(append::append_object(cx, call, offset)).await;
    }
    sse::refuse(&call.headers, &cx.owner_id, Allowed::All)?;
    let promise = DeclaredBody::read(call)?;
    let (spec, class) = version_spec(cx, call)?;
    let conditions = headers::write_conditions(&call.headers)?;
    let made = sse::for_new(cx, call.named(), &call.key, &call.headers, call.tls).await?;
    let put = PutSpec {
        size: promise.size,
        checksum: Some(promise.stated.algorithm().unwrap_or(DEFAULT_CHECKSUM)),
        want_md5: made.as_ref().is_none_or(|m| m.seal.md5) || promise.md5.is_some(),
        class,
    };
    let seal = made.as_ref().map(|m| m.seal.clone());
    let bucket = call.open()?;
    let put = call.store(cx, Kind::Put).put_sealed(&bucket, &call.key, put, seal).await;
    let mut put = put.map_err(|e| call.fault(e))?;
    while let Some(data) = call.request_body.next().await? {
        put.write(data).await.map_err(|e| call.fault(e))?;
    }
    let sums = put.end().await.map_err(|e| call.fault(e))?;
    promise.check(call, &sums)?;
    let rules = lifecycle::rules(&bucket, &call.origin).map(|rules| (rules, spec.tags.clone()));
    let committed = put.commit(spec, &conditions).await.map_err(|e| call.fault(e))?;
    let mut answer = Answer::ok();
    answer.committed(&committed);
    if let Some((rules, tags)) = rules {
        let made = (committed.modified_ms, committed.size);
        lifecycle::tell(&rules, &call.key, made, &tags, &mut answer);
    }
    if let Some(made) = &made {
        made.show(&mut answer);
    }
    Ok(answer)
}
