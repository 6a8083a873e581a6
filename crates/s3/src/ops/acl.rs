//! Access control lists and ownership controls of buckets, lists of objects.
//!
//! Invariants: a list can be changed only if the bucket's ownership setting allows lists; ownership cannot be
//! changed to `BucketOwnerEnforced` while the bucket's own list grants anything to others, as in AWS.

use ashlar_object::feed::Kind;
use ashlar_object::{Bucket, OpenBucket};
use ashlar_policy::{Acl, Canned, Ownership};

use super::{Answer, Call, Context, limit};
use crate::acl::{self, ACL, Asked, OWNERSHIP};
use crate::fault::{Code, Fault, Outcome};
use crate::headers::refuse_unsupported;
use crate::xml::{Doc, Xml};

fn bucket_of(cx: &Context, call: &Call) -> Outcome<OpenBucket> {
    refuse_unsupported(&call.headers, &cx.owner_id)?;
    call.open()
}

/// The list of a bucket that counts: with lists switched off, that of the owner alone.
fn of_bucket(cx: &Context, bucket: &Bucket) -> Acl {
    if acl::ownership(bucket) == Ownership::BucketOwnerEnforced {
        return Canned::Private.expand(&cx.owner_id, None);
    }
    acl::stored(cx, bucket.documents.get(ACL).map_or("", |t| t))
}

/// `GetBucketAcl`.
pub fn get_bucket(cx: &Context, call: &mut Call) -> Outcome<Answer> {
    let bucket = bucket_of(cx, call)?;
    Ok(Answer::document(acl::print(cx, &of_bucket(cx, &bucket))))
}

/// `GetObjectAcl`.
pub async fn get_object(cx: &Context, call: &mut Call) -> Outcome<Answer> {
    let bucket = bucket_of(cx, call)?;
    let version = call.version()?;
    let object = cx.store.get(&bucket, &call.key, version).await.map_err(|e| call.fault(e))?;
    let enforced = acl::ownership(&bucket) == Ownership::BucketOwnerEnforced;
    let list = acl::stored(cx, if enforced { "" } else { &object.version().acl });
    let mut answer = Answer::document(acl::print(cx, &list));
    answer.version(object.version_id());
    Ok(answer)
}

/// `PutBucketAcl`.
pub async fn put_bucket(cx: &Context, call: &mut Call) -> Outcome<Answer> {
    let bucket = bucket_of(cx, call)?;
    let list = wanted(cx, call, &bucket, &of_bucket(cx, &bucket), false).await?;
    let text = acl::encode(cx, &list);
    let text = Some(text.as_str()).filter(|t| !t.is_empty());
    if text.is_some() || bucket.documents.contains_key(ACL) {
        cx.store.set_bucket_document(&bucket, ACL, text).await.map_err(|e| call.fault(e))?;
    }
    Ok(Answer::ok())
}

/// `PutObjectAcl`.
pub async fn put_object(cx: &Context, call: &mut Call) -> Outcome<Answer> {
    let bucket = bucket_of(cx, call)?;
    let version = call.version()?;
    let object = cx.store.get(&bucket, &call.key, version).await.map_err(|e| call.fault(e))?;
    let enforced = acl::ownership(&bucket) == Ownership::BucketOwnerEnforced;
    let before = acl::stored(cx, if enforced { "" } else { &object.version().acl });
    let list = wanted(cx, call, &bucket, &before, true).await?;
    let mut answer = Answer::ok();
    if enforced {
        // Only a list that changes nothing was accepted.
        answer.version(object.version_id());
        return Ok(answer);
    }
    let text = acl::encode(cx, &list);
    let shown = call
        .store(cx, Kind::AclPut)
        .set_acl(&bucket, &call.key, version, text)
        .await
        .map_err(|e| call.fault(e))?;
    answer.version(shown);
    Ok(answer)
}

/// The list that a request brings, in headers or in a document.
async fn wanted(cx: &Context, call: &mut Call, bucket: &Bucket, before: &Acl, object: bool) -> Outcome<Acl> {
    let asked = Asked::read(&call.headers)?;
    let body = call.document(limit::CONFIGURATION).await?;
    let blank = body.iter().all(u8::is_ascii_whitespace);
    match (asked.is_empty(), blank) {
        (false, true) => asked.replacing(cx, bucket, before, object),
        (true, false) => acl::checked(cx, bucket, acl::parse(&body, &before.owner)?),
        (true, true) => Err(Fault::new(Code::MISSING_REQUEST_BODY)),
        (false, false) => Err(Fault::with(
            Code::UNEXPECTED_CONTENT,
            "The access control list is given in headers and in a document; use one of them.",
        )),
    }
}

/// `GetBucketOwnershipControls`. A bucket where nothing was set answers with the default; one whose controls
/// were deleted has none, as in AWS.
pub fn get_ownership(cx: &Context, call: &mut Call) -> Outcome<Answer> {
    let bucket = bucket_of(cx, call)?;
    if bucket.documents.get(OWNERSHIP).is_some_and(|text| **text == *acl::DELETED) {
        return Err(Fault::new(Code::NO_OWNERSHIP_CONTROLS).element("BucketName", call.bucket.as_str()));
    }
    let mut xml = Xml::new();
    xml.root("OwnershipControls").open("Rule");
    xml.leaf("ObjectOwnership", acl::ownership(&bucket).name()).close().close();
    Ok(Answer::document(xml))
}

/// `PutBucketOwnershipControls`.
pub async fn put_ownership(cx: &Context, call: &mut Call) -> Outcome<Answer> {
    let bucket = bucket_of(cx, call)?;
    let body = call.document(limit::CONFIGURATION).await?;
    let mut doc = Doc::open(&body, "OwnershipControls")?;
    let mut found = None;
    while let Some(name) = doc.child()? {
        if name != "Rule" || found.is_some() {
            return doc.unexpected(&name);
        }
        while let Some(name) = doc.child()? {
            if name != "ObjectOwnership" {
                return doc.unexpected(&name);
            }
            found = Ownership::find(&doc.text()?);
            if found.is_none() {
                return Err(Fault::new(Code::MALFORMED_XML));
            }
        }
    }
    doc.finish()?;
    let ownership = found.ok_or_else(|| Fault::new(Code::MALFORMED_XML))?;
    set_ownership(cx, call, &bucket, Some(ownership)).await?;
    Ok(Answer::ok())
}

/// `DeleteBucketOwnershipControls`: the default applies again, but `GetBucketOwnershipControls` no longer
/// answers it.
pub async fn delete_ownership(cx: &Context, call: &mut Call) -> Outcome<Answer> {
    let bucket = bucket_of(cx, call)?;
    set_ownership(cx, call, &bucket, None).await?;
    Ok(Answer::no_content())
}

async fn set_ownership(cx: &Context, call: &Call, bucket: &OpenBucket, to: Option<Ownership>) -> Outcome<()> {
    let enforced = to.unwrap_or_default() == Ownership::BucketOwnerEnforced;
    if enforced && of_bucket(cx, bucket) != Canned::Private.expand(&cx.owner_id, None) {
        return Err(Fault::new(Code::INVALID_BUCKET_ACL));
    }
    let text = to.map_or(acl::DELETED, Ownership::name);
    cx.store.set_bucket_document(bucket, OWNERSHIP, Some(text)).await.map_err(|e| call.fault(e))
}
