//! Access control lists: everything is private, and that is what is said.
//!
//! Reading gives the private default, as AWS answers for a bucket whose owner is enforced; writing
//! anything else than that default is refused.

use super::bucket::owner;
use super::{Answer, Call, Context, limit};
use crate::fault::{Code, Fault, Outcome};
use crate::headers::refuse_unsupported;
use crate::xml::{Doc, Xml};

const XSI: &str = "xmlns:xsi=\"http://www.w3.org/2001/XMLSchema-instance\" xsi:type=\"CanonicalUser\"";

fn private(cx: &Context) -> Answer {
    let mut xml = Xml::new();
    xml.root("AccessControlPolicy");
    owner(cx, &mut xml, "Owner");
    xml.open("AccessControlList").open("Grant");
    xml.open_with("Grantee", XSI).leaf("ID", &cx.owner_id).leaf("DisplayName", &cx.owner_name).close();
    xml.leaf("Permission", "FULL_CONTROL").close().close().close();
    Answer::document(xml)
}

/// `GetBucketAcl`.
pub fn get_bucket(cx: &Context, call: &mut Call) -> Outcome<Answer> {
    refuse_unsupported(&call.headers, &cx.owner_id)?;
    cx.store.bucket(&call.bucket).map_err(|e| call.fault(e))?;
    Ok(private(cx))
}

/// `GetObjectAcl`.
pub async fn get_object(cx: &Context, call: &mut Call) -> Outcome<Answer> {
    refuse_unsupported(&call.headers, &cx.owner_id)?;
    let version = call.version()?;
    let object = cx.store.get(&call.bucket, &call.key, version).await.map_err(|e| call.fault(e))?;
    let mut answer = private(cx);
    answer.version(object.version_id());
    Ok(answer)
}

/// `PutBucketAcl`.
pub async fn put_bucket(cx: &Context, call: &mut Call) -> Outcome<Answer> {
    cx.store.bucket(&call.bucket).map_err(|e| call.fault(e))?;
    accept_private(cx, call).await?;
    Ok(Answer::ok())
}

/// `PutObjectAcl`.
pub async fn put_object(cx: &Context, call: &mut Call) -> Outcome<Answer> {
    let version = call.version()?;
    let object = cx.store.get(&call.bucket, &call.key, version).await.map_err(|e| call.fault(e))?;
    accept_private(cx, call).await?;
    let mut answer = Answer::ok();
    answer.version(object.version_id());
    Ok(answer)
}

/// Takes only what changes nothing: a private canned ACL, or full control for the owner alone.
async fn accept_private(cx: &Context, call: &mut Call) -> Outcome<()> {
    refuse_unsupported(&call.headers, &cx.owner_id)?;
    let body = call.document(limit::CONFIGURATION).await?;
    if body.iter().all(u8::is_ascii_whitespace) {
        if call.headers.contains_key("x-amz-acl") {
            return Ok(());
        }
        return Err(Fault::new(Code::MISSING_REQUEST_BODY));
    }
    let mut doc = Doc::open(&body, "AccessControlPolicy")?;
    let mut grants = 0;
    let mut only_owner = true;
    while let Some(name) = doc.child()? {
        match name.as_str() {
            "Owner" => doc.skip()?,
            "AccessControlList" => {
                while let Some(name) = doc.child()? {
                    if name != "Grant" {
                        return doc.unexpected(&name);
                    }
                    grants += 1;
                    only_owner &= grant_is_owners(cx, &mut doc)?;
                }
            }
            other => return doc.unexpected(other),
        }
    }
    doc.finish()?;
    if grants == 1 && only_owner { Ok(()) } else { Err(Fault::new(Code::ACL_NOT_SUPPORTED)) }
}

fn grant_is_owners(cx: &Context, doc: &mut Doc<'_>) -> Outcome<bool> {
    let (mut id, mut full) = (None, false);
    while let Some(name) = doc.child()? {
        match name.as_str() {
            "Permission" => full = doc.text()? == "FULL_CONTROL",
            "Grantee" => {
                while let Some(name) = doc.child()? {
                    if name == "ID" {
                        id = Some(doc.text()?);
                    } else {
                        doc.skip()?;
                    }
                }
            }
            other => return doc.unexpected(other),
        }
    }
    Ok(full && id.as_deref() == Some(cx.owner_id.as_str()))
}
