//! Policies of buckets, and the public access block.
//!
//! Invariants: a stored policy compiles for its bucket; its text is stored as given.

use ashlar_object::Bucket;
use ashlar_policy::{Ownership, Policy, PublicAccessBlock, check_put_policy};
use http::header::{self, HeaderValue};

use super::document::{set, stored};
use super::{Answer, Call, Context, limit};
use crate::acl;
use crate::body::Body;
use crate::buckets::Buckets;
pub use crate::documents::POLICY;
use crate::documents::public_access_block::fields;
pub use crate::documents::public_access_block::{BLOCK, block_from};
use crate::fault::{Code, Fault, Outcome};
use crate::xml::{Doc, Xml};

/// Whether a bucket exists and has a policy, or lets access control lists count: only then may an anonymous
/// request learn anything about it.
pub fn exists(buckets: &Buckets, bucket: &str) -> bool {
    let lists = |b: &Bucket| acl::ownership(b) != Ownership::BucketOwnerEnforced;
    let may_open = |b: &Bucket| b.documents.contains_key(POLICY) || lists(b);
    buckets.find(bucket).is_ok_and(|b| may_open(&b))
}

fn no_policy(call: &Call) -> Fault {
    Fault::new(Code::NO_SUCH_BUCKET_POLICY).element("BucketName", call.bucket.as_str())
}

/// `GetBucketPolicy`.
pub fn get(cx: &Context, call: &mut Call) -> Outcome<Answer> {
    let text = stored(cx, call, POLICY)?.ok_or_else(|| no_policy(call))?;
    let mut answer = Answer::ok();
    answer.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    answer.body = Body::whole(text.to_string());
    Ok(answer)
}

/// `PutBucketPolicy`.
pub async fn put(cx: &Context, call: &mut Call) -> Outcome<Answer> {
    let block = stored(cx, call, BLOCK)?.and_then(|d| block_from(&d)).unwrap_or_default();
    let body = call.document(limit::CONFIGURATION).await?;
    let policy = Policy::parse_for_bucket(&call.bucket, &body)
        .map_err(|e| Fault::with(Code::MALFORMED_POLICY, e.to_string()))?;
    check_put_policy(block, &policy).map_err(|_| {
        Fault::with(
            Code::ACCESS_DENIED,
            "Access Denied: the policy is public, and the bucket's public access block (BlockPublicPolicy) refuses such policies.",
        )
    })?;
    let text = std::str::from_utf8(&body).map_err(|_| Fault::new(Code::MALFORMED_POLICY))?;
    set(cx, call, POLICY, Some(text)).await?;
    Ok(Answer::no_content())
}

/// `DeleteBucketPolicy`.
pub async fn delete(cx: &Context, call: &mut Call) -> Outcome<Answer> {
    stored(cx, call, POLICY)?;
    set(cx, call, POLICY, None).await?;
    Ok(Answer::no_content())
}

/// `GetBucketPolicyStatus`.
pub fn status(cx: &Context, call: &mut Call) -> Outcome<Answer> {
    let text = stored(cx, call, POLICY)?.ok_or_else(|| no_policy(call))?;
    // A policy that cannot be read allows nothing.
    let public = Policy::parse_for_bucket(&call.bucket, text.as_bytes()).is_ok_and(|p| p.is_public());
    let mut xml = Xml::new();
    xml.root("PolicyStatus").leaf("IsPublic", if public { "TRUE" } else { "FALSE" }).close();
    Ok(Answer::document(xml))
}

/// `GetPublicAccessBlock`.
pub fn get_block(cx: &Context, call: &mut Call) -> Outcome<Answer> {
    let text = stored(cx, call, BLOCK)?;
    let text = text.ok_or_else(|| {
        Fault::new(Code::NO_SUCH_PUBLIC_ACCESS_BLOCK).element("BucketName", call.bucket.as_str())
    })?;
    let mut block = block_from(&text).unwrap_or(PublicAccessBlock::ALL);
    let mut xml = Xml::new();
    xml.root("PublicAccessBlockConfiguration");
    for (name, on) in fields(&mut block) {
        xml.plain(name, if *on { "true" } else { "false" });
    }
    xml.close();
    Ok(Answer::document(xml))
}

/// `PutPublicAccessBlock`.
pub async fn put_block(cx: &Context, call: &mut Call) -> Outcome<Answer> {
    stored(cx, call, BLOCK)?;
    let body = call.document(limit::CONFIGURATION).await?;
    let mut doc = Doc::open(&body, "PublicAccessBlockConfiguration")?;
    let mut block = PublicAccessBlock::default();
    while let Some(name) = doc.child()? {
        let value = doc.text()?;
        let Some((_, on)) = fields(&mut block).into_iter().find(|(n, _)| *n == name) else {
            return doc.unexpected(&name);
        };
        *on = match value.trim() {
            "true" | "TRUE" | "1" => true,
            "false" | "FALSE" | "0" => false,
            _ => return Err(Fault::with(Code::MALFORMED_XML, format!("{name} must be true or false."))),
        };
    }
    doc.finish()?;
    let on = fields(&mut block).into_iter().filter(|(_, on)| **on).map(|(n, _)| n);
    let text = on.collect::<Vec<_>>().join("\n");
    set(cx, call, BLOCK, Some(&text)).await?;
    Ok(Answer::ok())
}

/// `DeletePublicAccessBlock`.
pub async fn delete_block(cx: &Context, call: &mut Call) -> Outcome<Answer> {
    stored(cx, call, BLOCK)?;
    set(cx, call, BLOCK, None).await?;
    Ok(Answer::no_content())
}
