//! Lists of objects, versions and uploads.
//!
//! Continuation tokens are opaque to clients: the base64 of the key after which the listing continues.

use ashlar_object::{
    Entry, ListSpec, Listing, Pairs, UploadListSpec, VersionEntry, VersionId, VersionListSpec, parse_version,
    version_text,
};
use ashlar_policy::Action;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use futures::StreamExt;

use super::{Answer, Call, Context};
use crate::acl::{object_owner, owner};
use crate::date;
use crate::fault::{Fault, Outcome};
use crate::headers::{checksum_type, refuse_unsupported};
use crate::permit::Need;
use crate::xml::{Xml, url_encode};

/// Most entries of a page.
const PAGE: usize = 1000;
/// Keys that are read at the same time where a list is asked for what they carry.
const READ_AT_ONCE: usize = 16;

/// Opaque text for "go on after `key`".
pub fn encode_token(key: &str) -> String {
    URL_SAFE_NO_PAD.encode(key)
}

/// The inverse of [`encode_token`].
pub fn decode_token(token: &str) -> Outcome<String> {
    let bytes = URL_SAFE_NO_PAD.decode(token).ok().and_then(|b| String::from_utf8(b).ok());
    bytes.ok_or_else(|| {
        Fault::argument("continuation-token", token, "The continuation token provided is incorrect")
    })
}

/// How names are printed.
#[derive(Clone, Copy)]
struct Names {
    url: bool,
}

impl Names {
    fn read(call: &Call) -> Outcome<Names> {
        match call.query.get("encoding-type") {
            None | Some("") => Ok(Names { url: false }),
            Some("url") => Ok(Names { url: true }),
            Some(other) => {
                Err(Fault::argument("encoding-type", other, "Invalid Encoding Method specified in Request"))
            }
        }
    }

    fn leaf(self, xml: &mut Xml, name: &str, text: &str) {
        if self.url {
            xml.leaf(name, &url_encode(text));
        } else {
            xml.leaf(name, text);
        }
    }

    fn encoding(self, xml: &mut Xml) {
        if self.url {
            xml.leaf("EncodingType", "url");
        }
    }
}

fn contents(
    cx: &Context,
    xml: &mut Xml,
    names: Names,
    entry: &Entry,
    with_owner: bool,
    carried: Option<&Carried>,
) {
    xml.open("Contents");
    names.leaf(xml, "Key", &entry.key);
    described(xml, entry);
    if with_owner {
        object_owner(cx, xml, &entry.owner);
    }
    storage_class(xml, &entry.storage_class);
    if let Some(carried) = carried {
        carried.print(xml);
    }
    xml.close();
}

/// Metadata and tags of an object, for MinIO's `metadata=true`. Empty if the caller has no permission to read
/// it.
#[derive(Default)]
struct Carried {
    meta: Pairs,
    tags: Pairs,
}

impl Carried {
    /// Of each key on a page; empty unless the request asks for it. Lists do not hold it, so each key is read.
    async fn of(cx: &Context, call: &Call, keys: Vec<(&str, Option<VersionId>)>) -> Vec<Carried> {
        if !call.query.get("metadata").is_some_and(|v| v.eq_ignore_ascii_case("true")) {
            return Vec::new();
        }
        let Ok(bucket) = &call.open() else { return Vec::new() };
        let read = |(key, id): (&str, Option<VersionId>)| {
            let key = key.to_owned();
            async move {
                let text = id.map(version_text);
                let (action, version) = match &text {
                    Some(text) => (Action::GetObjectVersion, Some(text.as_str())),
                    None => (Action::GetObject, None),
                };
                let need = Need { action, bucket: &call.bucket, key: &key, version };
                if !call.may(cx, &need).await {
                    return Carried::default();
                }
                let Ok(object) = cx.store.get(bucket, &key, id).await else {
                    return Carried::default();
                };
                let version = object.version();
                Carried { meta: version.meta.clone(), tags: version.tags.clone() }
            }
        };
        futures::stream::iter(keys).map(read).buffered(READ_AT_ONCE).collect().await
    }

    fn print(&self, xml: &mut Xml) {
        xml.open("UserMetadata");
        for (name, value) in &self.meta {
            let user = name.starts_with("x-amz-meta-") || name == "content-type";
            if user && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-') {
                let name = if name == "content-type" { name.clone() } else { capitalized(name) };
                xml.leaf(&name, value);
            }
        }
        xml.close();
        if !self.tags.is_empty() {
            let pair =
                |(name, value): &(String, String)| format!("{}={}", url_encode(name), url_encode(value));
            xml.leaf("UserTags", &self.tags.iter().map(pair).collect::<Vec<_>>().join("&"));
        }
    }
}

/// `X-Amz-Meta-Name`, as MinIO writes names of metadata.
fn capitalized(name: &str) -> String {
    let word = |w: &str| w.get(..1).map_or(String::new(), |first| first.to_ascii_uppercase() + &w[1..]);
    name.split('-').map(word).collect::<Vec<_>>().join("-")
}

fn described(xml: &mut Xml, entry: &Entry) {
    xml.plain("LastModified", date::format_iso(entry.modified_ms)).etag(entry.etag);
    checksum(xml, entry.checksum);
    xml.plain("Size", entry.size);
}

fn checksum(xml: &mut Xml, checksum: Option<(ashlar_checksum::Algorithm, bool)>) {
    if let Some((algorithm, composite)) = checksum {
        xml.plain("ChecksumAlgorithm", algorithm).plain("ChecksumType", checksum_type(composite));
    }
}

fn storage_class(xml: &mut Xml, class: &str) {
    xml.leaf("StorageClass", if class.is_empty() { "STANDARD" } else { class });
}

fn common_prefixes(xml: &mut Xml, names: Names, prefixes: &[String]) {
    for prefix in prefixes {
        xml.open("CommonPrefixes");
        names.leaf(xml, "Prefix", prefix);
        xml.close();
    }
}

/// Memory for a page of `n` entries.
fn page_xml(n: usize) -> Xml {
    Xml::with_capacity(1024 + n * 320)
}

/// `ListObjects` (version 1).
pub async fn list_objects(cx: &Context, call: &mut Call) -> Outcome<Answer> {
    refuse_unsupported(&call.headers, &cx.owner_id)?;
    let names = Names::read(call)?;
    let most = call.number("max-keys", PAGE)?;
    let query = &call.query;
    let (prefix, delimiter) =
        (query.get("prefix").unwrap_or_default(), query.get("delimiter").unwrap_or_default());
    let marker = query.get("marker").unwrap_or_default();
    let spec = ListSpec { prefix, delimiter, start_after: marker, max_keys: most.min(PAGE) };
    let page = cx.store.list(&call.open()?, &spec).await.map_err(|e| call.fault(e))?;
    let mut xml = page_xml(page.entries.len());
    xml.root("ListBucketResult").leaf("Name", &call.bucket);
    names.leaf(&mut xml, "Prefix", prefix);
    names.leaf(&mut xml, "Marker", marker);
    // AWS gives it only with a delimiter; without one, the last key is the next marker.
    if let (false, Some(next)) = (delimiter.is_empty(), page.next.as_deref()) {
        names.leaf(&mut xml, "NextMarker", next);
    }
    xml.plain("MaxKeys", most.min(PAGE));
    if !delimiter.is_empty() {
        names.leaf(&mut xml, "Delimiter", delimiter);
    }
    names.encoding(&mut xml);
    finish(cx, xml, names, &page, true, &[])
}

/// `ListObjectsV2`.
pub async fn list_objects_v2(cx: &Context, call: &mut Call) -> Outcome<Answer> {
    refuse_unsupported(&call.headers, &cx.owner_id)?;
    let names = Names::read(call)?;
    let most = call.number("max-keys", PAGE)?;
    let query = &call.query;
    let (prefix, delimiter) =
        (query.get("prefix").unwrap_or_default(), query.get("delimiter").unwrap_or_default());
    let after = query.get("start-after").unwrap_or_default();
    let token = match query.get("continuation-token") {
        None => None,
        Some("") => {
            return Err(Fault::argument(
                "continuation-token",
                "",
                "The continuation token provided is incorrect",
            ));
        }
        Some(token) => Some((token, decode_token(token)?)),
    };
    let with_owner = query.get("fetch-owner").is_some_and(|v| v.eq_ignore_ascii_case("true"));
    let start_after = token.as_ref().map_or(after, |(_, key)| key.as_str());
    let spec = ListSpec { prefix, delimiter, start_after, max_keys: most.min(PAGE) };
    let page = cx.store.list(&call.open()?, &spec).await.map_err(|e| call.fault(e))?;
    let mut xml = page_xml(page.entries.len());
    xml.root("ListBucketResult").leaf("Name", &call.bucket);
    names.leaf(&mut xml, "Prefix", prefix);
    if !after.is_empty() {
        names.leaf(&mut xml, "StartAfter", after);
    }
    if let Some((token, _)) = &token {
        xml.leaf("ContinuationToken", token);
    }
    if let Some(next) = &page.next {
        xml.leaf("NextContinuationToken", &encode_token(next));
    }
    xml.plain("KeyCount", page.entries.len() + page.common_prefixes.len());
    xml.plain("MaxKeys", most.min(PAGE));
    if !delimiter.is_empty() {
        names.leaf(&mut xml, "Delimiter", delimiter);
    }
    names.encoding(&mut xml);
    let keys = page.entries.iter().map(|e| (e.key.as_str(), None)).collect();
    let carried = Carried::of(cx, call, keys).await;
    finish(cx, xml, names, &page, with_owner, &carried)
}

fn finish(
    cx: &Context,
    mut xml: Xml,
    names: Names,
    page: &Listing,
    with_owner: bool,
    carried: &[Carried],
) -> Outcome<Answer> {
    xml.plain("IsTruncated", page.truncated);
    for (i, entry) in page.entries.iter().enumerate() {
        contents(cx, &mut xml, names, entry, with_owner, carried.get(i));
    }
    common_prefixes(&mut xml, names, &page.common_prefixes);
    xml.close();
    Ok(Answer::document(xml))
}

/// `ListObjectVersions`.
pub async fn list_versions(cx: &Context, call: &mut Call) -> Outcome<Answer> {
    refuse_unsupported(&call.headers, &cx.owner_id)?;
    let names = Names::read(call)?;
    let most = call.number("max-keys", PAGE)?;
    let query = &call.query;
    let (prefix, delimiter) =
        (query.get("prefix").unwrap_or_default(), query.get("delimiter").unwrap_or_default());
    let key_marker = query.get("key-marker").unwrap_or_default();
    let marker = query.filled("version-id-marker");
    if marker.is_some() && key_marker.is_empty() {
        return Err(Fault::argument(
            "version-id-marker",
            marker.unwrap_or_default(),
            "A version-id marker cannot be specified without a key marker.",
        ));
    }
    let version_marker = marker
        .map(|text| {
            parse_version(text)
                .ok_or_else(|| Fault::argument("version-id-marker", text, "Invalid version id specified"))
        })
        .transpose()?;
    let spec = VersionListSpec { prefix, delimiter, key_marker, version_marker, max_keys: most.min(PAGE) };
    let page = cx.store.list_versions(&call.open()?, &spec).await.map_err(|e| call.fault(e))?;
    let mut xml = page_xml(page.entries.len());
    xml.root("ListVersionsResult").leaf("Name", &call.bucket);
    names.leaf(&mut xml, "Prefix", prefix);
    names.leaf(&mut xml, "KeyMarker", key_marker);
    xml.leaf("VersionIdMarker", marker.unwrap_or_default());
    if let Some(next) = page.next_key.as_ref().filter(|_| page.truncated) {
        names.leaf(&mut xml, "NextKeyMarker", next);
    }
    if let Some(next) = page.next_version.filter(|_| page.truncated) {
        xml.leaf("NextVersionIdMarker", &version_text(next));
    }
    xml.plain("MaxKeys", most.min(PAGE));
    if !delimiter.is_empty() {
        names.leaf(&mut xml, "Delimiter", delimiter);
    }
    names.encoding(&mut xml);
    xml.plain("IsTruncated", page.truncated);
    let of = |v: &'_ VersionEntry| (!v.delete_marker).then_some(v.version_id);
    let shown = page.entries.iter().filter_map(|v| Some((v.entry.key.as_str(), Some(of(v)?)))).collect();
    let mut carried = Carried::of(cx, call, shown).await.into_iter();
    for entry in &page.entries {
        let carried = if entry.delete_marker { None } else { carried.next() };
        version(cx, &mut xml, names, entry, carried.as_ref());
    }
    common_prefixes(&mut xml, names, &page.common_prefixes);
    xml.close();
    Ok(Answer::document(xml))
}

/// Versions and delete markers stand in one sequence, as AWS prints them.
fn version(cx: &Context, xml: &mut Xml, names: Names, listed: &VersionEntry, carried: Option<&Carried>) {
    xml.open(if listed.delete_marker { "DeleteMarker" } else { "Version" });
    names.leaf(xml, "Key", &listed.entry.key);
    xml.leaf("VersionId", &version_text(listed.version_id)).plain("IsLatest", listed.latest);
    if listed.delete_marker {
        xml.plain("LastModified", date::format_iso(listed.entry.modified_ms));
        owner(cx, xml, "Owner");
    } else {
        described(xml, &listed.entry);
        object_owner(cx, xml, &listed.entry.owner);
        storage_class(xml, &listed.entry.storage_class);
        if let Some(carried) = carried {
            carried.print(xml);
        }
    }
    xml.close();
}

/// `ListMultipartUploads`.
pub async fn list_uploads(cx: &Context, call: &mut Call) -> Outcome<Answer> {
    refuse_unsupported(&call.headers, &cx.owner_id)?;
    let names = Names::read(call)?;
    let most = call.number("max-uploads", PAGE)?;
    let query = &call.query;
    let (prefix, delimiter) =
        (query.get("prefix").unwrap_or_default(), query.get("delimiter").unwrap_or_default());
    let key_marker = query.get("key-marker").unwrap_or_default();
    // Without a key marker the upload id marker is ignored, as AWS documents.
    let marker = query.filled("upload-id-marker").filter(|_| !key_marker.is_empty());
    let upload_marker = marker
        .map(|text| {
            ashlar_object::UploadId::parse(text)
                .ok_or_else(|| Fault::argument("upload-id-marker", text, "Invalid uploadId marker"))
        })
        .transpose()?;
    let spec = UploadListSpec { prefix, delimiter, key_marker, upload_marker, max_uploads: most.min(PAGE) };
    let page = cx.store.list_uploads(&call.open()?, &spec).await.map_err(|e| call.fault(e))?;
    let mut xml = page_xml(page.uploads.len());
    xml.root("ListMultipartUploadsResult").leaf("Bucket", &call.bucket);
    names.leaf(&mut xml, "KeyMarker", key_marker);
    xml.leaf("UploadIdMarker", marker.unwrap_or_default());
    if let Some(next) = page.next_key.as_ref().filter(|_| page.truncated) {
        names.leaf(&mut xml, "NextKeyMarker", next);
        let upload = page.next_upload.map(|id| id.to_string()).unwrap_or_default();
        xml.leaf("NextUploadIdMarker", &upload);
    }
    names.leaf(&mut xml, "Prefix", prefix);
    if !delimiter.is_empty() {
        names.leaf(&mut xml, "Delimiter", delimiter);
    }
    names.encoding(&mut xml);
    xml.plain("MaxUploads", most.min(PAGE)).plain("IsTruncated", page.truncated);
    for upload in &page.uploads {
        xml.open("Upload");
        names.leaf(&mut xml, "Key", &upload.key);
        xml.plain("UploadId", upload.id);
        owner(cx, &mut xml, "Initiator");
        owner(cx, &mut xml, "Owner");
        storage_class(&mut xml, &upload.storage_class);
        xml.plain("Initiated", date::format_iso(upload.created_ms));
        checksum(&mut xml, upload.checksum);
        xml.close();
    }
    common_prefixes(&mut xml, names, &page.common_prefixes);
    xml.close();
    Ok(Answer::document(xml))
}
