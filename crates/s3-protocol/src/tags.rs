//! The rules of S3 for tags of objects and buckets, and their XML.
//!
//! Must not depend on: where tags are stored.

use ashlar_object::Pairs;

use crate::fault::{Code, Fault, Outcome};
use crate::xml::Doc;

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

/// The `Tag` elements inside the one that is open; refuses more than `most`.
///
/// # Errors
/// `MalformedXML`; `BadRequest` for too many.
pub fn tags(doc: &mut Doc<'_>, most: usize, out: &mut Pairs) -> Outcome<()> {
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
