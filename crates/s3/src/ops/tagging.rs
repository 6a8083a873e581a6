//! Tags of objects and buckets.

use ashlar_object::Pairs;
use ashlar_object::feed::Kind;
use ashlar_policy::Action;

use super::{Answer, Call, Context, limit};
use crate::fault::{Code, Fault, Outcome};
use crate::headers::refuse_unsupported;
use crate::permit::Need;
use crate::xml::{Doc, Xml};

/// Most tags of an object.
pub const OBJECT_TAGS: usize = 10;
/// Most tags of a bucket.
pub const BUCKET_TAGS: usize = 50;

/// Checks tags as AWS does: number, lengths, characters, names used once.
pub fn validate(tags: &Pairs, most: usize) -> Outcome<()> {
    if tags.len() > most {
        return Err(Fault::with(
            Code::TOO_MANY_TAGS,
            format!(
                "{} tags cannot be greater than {most}",
                if most == OBJECT_TAGS { "Object" } else { "Bucket" }
            ),
        ));
    }
    let legal =
        |text: &str| text.chars().all(|c| c.is_alphanumeric() || c.is_whitespace() || "+-=._:/@".contains(c));
    for (i, (name, value)) in tags.iter().enumerate() {
        let bad =
            |why: &'static str| Err(Fault::with(Code::INVALID_TAG, why).element("TagKey", name.as_str()));
        if name.is_empty() || name.chars().count() > 128 || !legal(name) {
            return bad(
                "The TagKey you have provided is invalid: 1 to 128 letters, digits, spaces and + - = . _ : / @",
            );
        }
        if value.chars().count() > 256 || !legal(value) {
            return bad(
                "The TagValue you have provided is invalid: at most 256 letters, digits, spaces and + - = . _ : / @",
            );
        }
        if name.to_ascii_lowercase().starts_with("aws:") {
            return bad(
                "System tags cannot be added/updated by requester: names that begin with aws: are reserved.",
            );
        }
        if tags[..i].iter().any(|(n, _)| n == name) {
            return bad("Cannot provide multiple Tags with the same key");
        }
    }
    Ok(())
}

fn parse(body: &[u8], most: usize) -> Outcome<Pairs> {
    let mut doc = Doc::open(body, "Tagging")?;
    let mut tags = Pairs::new();
    while let Some(name) = doc.child()? {
        match name.as_str() {
            "TagSet" => self::tags(&mut doc, most, &mut tags)?,
            other => return doc.unexpected(other),
        }
    }
    doc.finish()?;
    validate(&tags, most)?;
    Ok(tags)
}

/// The `Tag` elements inside the one that is open; refuses more than `most`.
///
/// # Errors
/// `MalformedXML`; `BadRequest` for too many.
pub(super) fn tags(doc: &mut Doc<'_>, most: usize, out: &mut Pairs) -> Outcome<()> {
    while let Some(name) = doc.child()? {
        if name != "Tag" {
            return doc.unexpected(&name);
        }
        out.push(tag(doc)?);
        if out.len() > most {
            validate(out, most)?;
        }
    }
    Ok(())
}

/// The `tagging` field of a form: the same document.
pub fn parse_form(text: &str) -> Outcome<Pairs> {
    parse(text.as_bytes(), OBJECT_TAGS)
}

fn tag(doc: &mut Doc<'_>) -> Outcome<(String, String)> {
    let (mut key, mut value) = (None, None);
    while let Some(name) = doc.child()? {
        match name.as_str() {
            "Key" => key = Some(doc.text()?),
            "Value" => value = Some(doc.text()?),
            other => return doc.unexpected(other),
        }
    }
    match (key, value) {
        (Some(key), Some(value)) => Ok((key, value)),
        _ => Err(Fault::new(Code::MALFORMED_XML)),
    }
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
    let (tags, id) = cx.store.get_tags(&call.bucket, &call.key, version).await.map_err(|e| call.fault(e))?;
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
    let id = store.set_tags(&call.bucket, &call.key, version, tags).await.map_err(|e| call.fault(e))?;
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
        .set_tags(&call.bucket, &call.key, version, Pairs::new())
        .await
        .map_err(|e| call.fault(e))?;
    let mut answer = Answer::no_content();
    answer.version(id);
    Ok(answer)
}

/// `GetBucketTagging`.
pub fn get_bucket(cx: &Context, call: &mut Call) -> Outcome<Answer> {
    refuse_unsupported(&call.headers, &cx.owner_id)?;
    let bucket = cx.store.bucket(&call.bucket).map_err(|e| call.fault(e))?;
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
    cx.store.set_bucket_tags(&call.bucket, Some(tags)).await.map_err(|e| call.fault(e))?;
    Ok(Answer::no_content())
}

/// `DeleteBucketTagging`.
pub async fn delete_bucket(cx: &Context, call: &mut Call) -> Outcome<Answer> {
    refuse_unsupported(&call.headers, &cx.owner_id)?;
    cx.store.set_bucket_tags(&call.bucket, None).await.map_err(|e| call.fault(e))?;
    Ok(Answer::no_content())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_checked() {
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
