//! Tags of objects and buckets.

use ashlar_object::Pairs;
use ashlar_object::feed::Kind;
use ashlar_policy::Action;

use super::{Answer, Call, Context, limit};
use crate::fault::{Code, Fault, Outcome};
use crate::headers::refuse_unsupported;
use crate::permit::Need;
use crate::tags;
pub use crate::tags::{BUCKET_TAGS, OBJECT_TAGS, validate};
use crate::xml::{Doc, Xml};

fn parse(body: &[u8], most: usize) -> Outcome<Pairs> {
    let mut doc = Doc::open(body, "Tagging")?;
    let mut found = Pairs::new();
    while let Some(name) = doc.child()? {
        match name.as_str() {
            "TagSet" => tags::tags(&mut doc, most, &mut found)?,
            other => return doc.unexpected(other),
        }
    }
    doc.finish()?;
    validate(&found, most)?;
    Ok(found)
}

/// The `tagging` field of a form: the same document.
pub fn parse_form(text: &str) -> Outcome<Pairs> {
    parse(text.as_bytes(), OBJECT_TAGS)
}

fn document(tags: &Pairs) -> Answer {
    let mut xml = Xml::new();
    xml.root("Tagging").open("TagSet");
    for (name, value) in tags {
        xml.open("Tag").leaf("Key", name).leaf("Value", value).close();
    }
    xml.close().close();
    Answer::document(xml)
}

/// `GetObjectTagging`.
pub async fn get_object(cx: &Context, call: &mut Call) -> Outcome<Answer> {
    refuse_unsupported(&call.headers, &cx.owner_id)?;
    let version = call.version()?;
    let (tags, id) = cx.store.get_tags(&call.open()?, &call.key, version).await.map_err(|e| call.fault(e))?;
    let mut answer = document(&tags);
    answer.version(id);
    Ok(answer)
}

/// `PutObjectTagging`. Decided with the tags of the document: a header is no fact about them.
pub async fn put_object(cx: &Context, call: &mut Call) -> Outcome<Answer> {
    let given = call.query.filled("versionId").map(str::to_owned);
    let action = match given {
        Some(_) => Action::PutObjectVersionTagging,
        None => Action::PutObjectTagging,
    };
    call.permit_before_body(cx, action).await?;
    let body = call.document(limit::CONFIGURATION).await?;
    let tags = parse(&body, OBJECT_TAGS)?;
    let need = Need { action, bucket: &call.bucket, key: &call.key, version: given.as_deref() };
    call.permit_tags(cx, &need, &tags).await?;
    refuse_unsupported(&call.headers, &cx.owner_id)?;
    let version = call.version()?;
    let store = call.store(cx, Kind::TagsPut);
    let id = store.set_tags(&call.open()?, &call.key, version, tags).await.map_err(|e| call.fault(e))?;
    let mut answer = Answer::ok();
    answer.version(id);
    Ok(answer)
}

/// `DeleteObjectTagging`.
pub async fn delete_object(cx: &Context, call: &mut Call) -> Outcome<Answer> {
    refuse_unsupported(&call.headers, &cx.owner_id)?;
    let version = call.version()?;
    let id = call
        .store(cx, Kind::TagsDelete)
        .set_tags(&call.open()?, &call.key, version, Pairs::new())
        .await
        .map_err(|e| call.fault(e))?;
    let mut answer = Answer::no_content();
    answer.version(id);
    Ok(answer)
}

/// `GetBucketTagging`.
pub fn get_bucket(cx: &Context, call: &mut Call) -> Outcome<Answer> {
    refuse_unsupported(&call.headers, &cx.owner_id)?;
    let bucket = call.open()?;
    if bucket.tags.is_empty() {
        return Err(Fault::new(Code::NO_SUCH_TAG_SET).element("BucketName", call.bucket.as_str()));
    }
    Ok(document(&bucket.tags))
}

/// `PutBucketTagging`.
pub async fn put_bucket(cx: &Context, call: &mut Call) -> Outcome<Answer> {
    refuse_unsupported(&call.headers, &cx.owner_id)?;
    let body = call.document(limit::CONFIGURATION).await?;
    let tags = parse(&body, BUCKET_TAGS)?;
    cx.store.set_bucket_tags(&call.open()?, Some(tags)).await.map_err(|e| call.fault(e))?;
    Ok(Answer::no_content())
}

/// `DeleteBucketTagging`.
pub async fn delete_bucket(cx: &Context, call: &mut Call) -> Outcome<Answer> {
    refuse_unsupported(&call.headers, &cx.owner_id)?;
    cx.store.set_bucket_tags(&call.open()?, None).await.map_err(|e| call.fault(e))?;
    Ok(Answer::no_content())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_validated() {
        let body = |inner: &str| format!("<Tagging><TagSet>{inner}</TagSet></Tagging>");
        let tag = |k: &str, v: &str| format!("<Tag><Key>{k}</Key><Value>{v}</Value></Tag>");
        assert_eq!(parse(body(&tag("a", "b c")).as_bytes(), 10).unwrap(), [("a".into(), "b c".into())]);
        assert!(parse(body("").as_bytes(), 10).unwrap().is_empty());
        for (bad, code) in [
            (tag("a", "1") + &tag("a", "2"), Code::INVALID_TAG),
            (tag("", "1"), Code::INVALID_TAG),
            (tag("a", &"x".repeat(257)), Code::INVALID_TAG),
            (tag("aws:a", "1"), Code::INVALID_TAG),
            (tag("a?", "1"), Code::INVALID_TAG),
            ((0..11).map(|i| tag(&format!("k{i}"), "")).collect(), Code::TOO_MANY_TAGS),
            ("<Tag><Key>a</Key></Tag>".into(), Code::MALFORMED_XML),
            ("<Tag><Kee>a</Kee></Tag>".into(), Code::MALFORMED_XML),
        ] {
            assert_eq!(parse(body(&bad).as_bytes(), 10).unwrap_err().code(), code, "{bad}");
        }
    }
}
