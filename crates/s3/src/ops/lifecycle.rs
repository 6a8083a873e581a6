//! `?lifecycle`: lifecycle rules of a bucket, and the header with the expiry of a version.
//!
//! Both forms of the document are accepted: rules with a `Filter`, and the older ones with their own
//! `Prefix`. Transitions to another storage class are refused by name.
//!
//! Must not depend on: when and how rules are carried out.

use std::sync::Arc;

use ashlar_lifecycle::{Calendar, Config, DOCUMENT, Minimum, VersionState};
use ashlar_object::{Bucket, Committed, Object};
use http::header::HeaderName;

use super::{Answer, Call, Context, document};
use crate::date;
use crate::document_cache::Origin;
use crate::documents::lifecycle::fault_of;
pub use crate::documents::lifecycle::{parse, print};
use crate::fault::{Code, Fault, Outcome};
use crate::headers;
use crate::xml::url_encode;

const EXPIRATION: HeaderName = HeaderName::from_static("x-amz-expiration");
const MINIMUM: HeaderName = HeaderName::from_static("x-amz-transition-default-minimum-object-size");
/// Longest document: a thousand rules.
const LIMIT: usize = 1 << 20;

fn missing(call: &Call) -> Fault {
    Fault::new(Code::NO_SUCH_LIFECYCLE).element("BucketName", call.bucket.as_str())
}

/// `GetBucketLifecycleConfiguration`.
pub fn get(cx: &Context, call: &mut Call) -> Outcome<Answer> {
    let text = document::stored(cx, call, DOCUMENT)?.ok_or_else(|| missing(call))?;
    let config = Config::decode(&text).ok_or_else(|| Fault::internal("the rules cannot be read"))?;
    let mut answer = Answer::document(print(&config));
    answer.set(MINIMUM, config.minimum.name());
    Ok(answer)
}

/// `PutBucketLifecycleConfiguration`, and the older `PutBucketLifecycle`.
pub async fn put(cx: &Context, call: &mut Call) -> Outcome<Answer> {
    document::stored(cx, call, DOCUMENT)?;
    let minimum = match headers::ascii(&call.headers, MINIMUM.as_str()) {
        None | Some("") => Minimum::default(),
        Some(name) => Minimum::find(name).ok_or_else(|| {
            let name: String = name.chars().take(64).collect();
            Fault::argument("x-amz-transition-default-minimum-object-size", &name, "Invalid Argument")
        })?,
    };
    let body = call.document(LIMIT).await?;
    let mut config = parse(&body)?;
    (config.minimum, config.set_ms) = (minimum, (cx.clock)());
    let mut seed = [0u8; 24];
    ashlar_environment::random::fill(&mut seed).map_err(Fault::internal)?;
    let mut made = 0u32;
    config
        .check(|| {
            made += 1;
            let digest = ashlar_checksum::sha256(&[&seed[..], &made.to_be_bytes()].concat());
            hex::encode(&digest[..18])
        })
        .map_err(fault_of)?;
    document::set(cx, call, DOCUMENT, Some(&config.encode())).await?;
    let mut answer = Answer::ok();
    answer.set(MINIMUM, minimum.name());
    Ok(answer)
}

/// `DeleteBucketLifecycle`.
pub async fn delete(cx: &Context, call: &mut Call) -> Outcome<Answer> {
    document::delete(cx, call, DOCUMENT).await
}

/// Tells when the current version expires, in a bucket that has rules.
pub fn show(call: &Call, object: &Object, answer: &mut Answer) {
    let Some(config) = call.origin.document_cache.features.lifecycle.of(object.bucket()) else { return };
    let v = object.version();
    if object.is_latest() {
        tell(&config, &call.key, (v.modified_ms, v.size), &v.tags, answer);
    }
}

/// As [`show`], of a version that was just made with tags that the request need not name: it is looked at
/// again, in a bucket that has rules.
pub async fn show_after_write(cx: &Context, call: &Call, made: &Committed, answer: &mut Answer) {
    let Ok(bucket) = call.open() else { return };
    if rules(&bucket, &call.origin).is_none() {
        return;
    }
    let Ok(object) = cx.store.get(&bucket, &call.key, None).await else { return };
    // What replaced it meanwhile is not what is answered.
    if object.etag() == made.etag && object.version().modified_ms == made.modified_ms {
        show(call, &object, answer);
    }
}

/// As [`show`], of a version that was just made.
pub fn tell(
    config: &Config,
    key: &str,
    (modified_ms, size): (i64, u64),
    tags: &[(String, String)],
    answer: &mut Answer,
) {
    let seen = VersionState { modified_ms, size, delete_marker: false, tags, locked: false };
    if let Some((at, id)) = config.expiry(key, &seen, Calendar::default()) {
        let date = date::format_http(at.div_euclid(1000));
        answer.set(EXPIRATION, format!("expiry-date=\"{date}\", rule-id=\"{}\"", url_encode(id)));
    }
}

/// The lifecycle rules of the bucket, if it has any.
pub fn rules(bucket: &Bucket, origin: &Origin) -> Option<Arc<Config>> {
    origin.document_cache.features.lifecycle.of(bucket)
}
