//! DELETE of one key, and of many.

use ashlar_object::feed::Kind;
use ashlar_object::{Conditions, Deleted, Match, ToDelete, parse_version, version_text};
use ashlar_policy::Action;
use http::header::HeaderValue;

use super::{Answer, Call, Context, DELETE_MARKER, fault, limit};
use crate::auth::Payload;
use crate::fault::{Code, Fault, Outcome};
use crate::headers::{self, DeclaredChecksums, refuse_unsupported};
use crate::permit::Need;
use crate::target::check_key;
use crate::xml::{Doc, Xml};

/// Most keys of one multi-object delete.
pub const MAX_KEYS: usize = 1000;

/// `DeleteObject`.
pub async fn delete_object(cx: &Context, call: &mut Call) -> Outcome<Answer> {
    refuse_unsupported(&call.headers, &cx.owner_id)?;
    if super::bucket::forced(&call.headers) {
        return Err(Fault::not_implemented(
            "Deleting everything below a prefix (header x-minio-force-delete)",
        ));
    }
    let version = call.version()?;
    let conditions = headers::conditions(&call.headers, "")?;
    let bypass = match version {
        None => false,
        Some(_) => super::lock::bypasses(cx, call, &call.key, call.query.filled("versionId")).await,
    };
    let store = call.store(cx, Kind::Delete);
    let bucket = call.open()?;
    let delete = store.delete_bypassing(&bucket, &call.key, version, &conditions, bypass);
    let deleted = delete.await.map_err(|e| call.fault(e))?;
    let mut answer = Answer::no_content();
    answer.version(deleted.version_id);
    if deleted.delete_marker {
        answer.headers.insert(DELETE_MARKER, HeaderValue::from_static("true"));
    }
    Ok(answer)
}

/// One entry of the request that can be done, or why it cannot.
struct Entry {
    key: String,
    version: Option<String>,
    refused: Option<Fault>,
}

/// `DeleteObjects`.
pub async fn delete_objects(cx: &Context, call: &mut Call) -> Outcome<Answer> {
    refuse_unsupported(&call.headers, &cx.owner_id)?;
    let covered = call.headers.contains_key("content-md5")
        || DeclaredChecksums::read(&call.headers)? != DeclaredChecksums::Nothing
        || *call.verified.payload() != Payload::Unsigned;
    if !covered {
        return Err(Fault::with(
            Code::INVALID_REQUEST,
            "Missing required header for this request: Content-MD5 OR x-amz-checksum-*",
        ));
    }
    let body = call.document(limit::DELETE).await?;
    let (mut entries, what, quiet) = parse(&body)?;
    let what = permitted(cx, call, &mut entries, what).await;
    let results = call.store(cx, Kind::Delete).delete_many(&call.open()?, what).await;
    let mut results = results.into_iter();
    let mut xml = Xml::with_capacity(256 + entries.len() * 96);
    xml.root("DeleteResult");
    for entry in entries {
        let outcome = match entry.refused {
            Some(fault) => Err(fault),
            None => match results.next() {
                Some(result) => result.map_err(|e| fault(e, &call.bucket, &entry.key)),
                None => Err(Fault::internal("a delete has no result")),
            },
        };
        print(&mut xml, &entry.key, entry.version.as_deref(), outcome, quiet);
    }
    xml.close();
    Ok(Answer::document(xml))
}

/// Keeps what may be deleted; the other entries are refused.
async fn permitted(cx: &Context, call: &Call, entries: &mut [Entry], what: Vec<ToDelete>) -> Vec<ToDelete> {
    let mut kept = Vec::with_capacity(what.len());
    let open = entries.iter_mut().filter(|e| e.refused.is_none());
    for (entry, mut delete) in open.zip(what) {
        let version = entry.version.as_deref();
        let action = if version.is_some() { Action::DeleteObjectVersion } else { Action::DeleteObject };
        let need = Need { action, bucket: &call.bucket, key: &entry.key, version };
        if call.may(cx, &need).await {
            delete.bypass = version.is_some() && super::lock::bypasses(cx, call, &entry.key, version).await;
            kept.push(delete);
        } else {
            entry.refused = Some(Fault::new(Code::ACCESS_DENIED));
        }
    }
    kept
}

fn print(xml: &mut Xml, key: &str, version: Option<&str>, outcome: Outcome<Deleted>, quiet: bool) {
    match outcome {
        Ok(_) if quiet => {}
        Ok(deleted) => {
            xml.open("Deleted").leaf("Key", key).maybe("VersionId", version);
            if deleted.delete_marker {
                xml.leaf("DeleteMarker", "true");
                let id = deleted.version_id.map(version_text);
                xml.maybe("DeleteMarkerVersionId", id.as_deref());
            }
            xml.close();
        }
        Err(fault) => {
            xml.open("Error")
                .leaf("Key", key)
                .maybe("VersionId", version)
                .leaf("Code", fault.code().name)
                .leaf("Message", fault.message())
                .close();
        }
    }
}

/// For the fuzzer: how many objects a document names.
pub(crate) fn fuzzed(body: &[u8]) -> Outcome<usize> {
    parse(body).map(|(entries, ..)| entries.len())
}

fn parse(body: &[u8]) -> Outcome<(Vec<Entry>, Vec<ToDelete>, bool)> {
    let mut doc = Doc::open(body, "Delete")?;
    let (mut entries, mut what, mut quiet) = (Vec::new(), Vec::new(), false);
    while let Some(name) = doc.child()? {
        match name.as_str() {
            "Quiet" => quiet = doc.text()?.trim().eq_ignore_ascii_case("true"),
            "Object" => {
                if entries.len() == MAX_KEYS {
                    return Err(Fault::with(
                        Code::MALFORMED_XML,
                        format!("A multi-object delete takes at most {MAX_KEYS} keys."),
                    ));
                }
                let (entry, delete) = object(&mut doc)?;
                entries.push(entry);
                what.extend(delete);
            }
            other => return doc.unexpected(other),
        }
    }
    doc.finish()?;
    if entries.is_empty() {
        return Err(Fault::with(
            Code::MALFORMED_XML,
            "A multi-object delete needs at least one Object with a Key.",
        ));
    }
    Ok((entries, what, quiet))
}

fn object(doc: &mut Doc<'_>) -> Outcome<(Entry, Option<ToDelete>)> {
    let (mut key, mut version, mut conditions) = (None, None, Conditions::NONE);
    let mut refused = None;
    while let Some(name) = doc.child()? {
        match name.as_str() {
            "Key" => key = Some(doc.text()?),
            "VersionId" => version = Some(doc.text()?).filter(|v| !v.is_empty()),
            "ETag" => {
                let text = doc.text()?;
                conditions.if_match = Match::parse(&text);
                if conditions.if_match.is_none() {
                    refused = Some(Fault::argument("ETag", &text, "The ETag is not valid."));
                }
            }
            "LastModifiedTime" | "Size" => {
                doc.skip()?;
                refused = Some(Fault::not_implemented(
                    "The conditions LastModifiedTime and Size of a multi-object delete",
                ));
            }
            other => return doc.unexpected(other),
        }
    }
    let key = key
        .filter(|k| !k.is_empty())
        .ok_or_else(|| Fault::with(Code::MALFORMED_XML, "An Object of a multi-object delete has no Key."))?;
    let parsed = version.as_deref().map(parse_version);
    if let Err(fault) = check_key(&key) {
        refused = Some(fault);
    } else if parsed == Some(None) {
        refused = Some(Fault::with(Code::NO_SUCH_VERSION, "The specified version id is not valid."));
    }
    let delete = refused.is_none().then(|| ToDelete {
        key: key.clone(),
        version: parsed.flatten(),
        conditions,
        bypass: false,
    });
    Ok((Entry { key, version, refused }, delete))
}
