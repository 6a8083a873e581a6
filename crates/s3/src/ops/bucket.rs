//! Operations on buckets: create, delete, list, locate.

use ashlar_object::feed::Kind;
use ashlar_object::{
    Conditions, CreateBucket, Error, OpenBucket, Pairs, VersionEntry, VersionListSpec, Versioning,
};
use ashlar_policy::{Action, Ownership};
use futures::StreamExt;
use http::HeaderMap;
use http::header::{self, HeaderName};

use super::{Answer, Call, Context, fault, limit};
use crate::acl::{self, Asked};
pub use crate::acl::{object_owner, owner};
use crate::date;
use crate::fault::{Code, Fault, Outcome};
use crate::headers::{self, refuse_unsupported};
use crate::permit::Need;
pub use crate::target::RESERVED_PREFIX;
use crate::target::is_bucket_name;
use crate::xml::{Doc, Xml};

/// How often a forced deletion empties a bucket that others fill again.
const FORCED_TURNS: usize = 4;
/// Versions that it deletes at the same time.
const FORCED_AT_ONCE: usize = 16;

const BUCKET_REGION: HeaderName = HeaderName::from_static("x-amz-bucket-region");
/// Names whose paths belong to the server itself.
const RESERVED: [&str; 2] = ["ashlar", "minio"];

/// `ListBuckets`.
pub async fn list_buckets(cx: &Context, call: &mut Call) -> Outcome<Answer> {
    let all = Need { action: Action::ListAllMyBuckets, bucket: "", key: "", version: None };
    let all = call.may(cx, &all).await;
    let buckets = if all { cx.store.buckets() } else { visible(cx, call).await? };
    let prefix = call.query.get("prefix").unwrap_or_default();
    let most = match call.query.filled("max-buckets") {
        None => usize::MAX,
        Some(text) => text.parse().ok().filter(|n| (1..=10_000).contains(n)).ok_or_else(|| {
            Fault::argument("max-buckets", text, "max-buckets must be an integer between 1 and 10000")
        })?,
    };
    let after = call.query.filled("continuation-token").map(super::list::decode_token).transpose()?;
    let region = call.query.filled("bucket-region");
    let mut xml = Xml::new();
    xml.root("ListAllMyBucketsResult");
    acl::owner(cx, &mut xml, "Owner");
    xml.open("Buckets");
    let (mut shown, mut last, mut more) = (0, None, false);
    for bucket in buckets {
        let wanted = bucket.name.starts_with(prefix)
            && after.as_deref().is_none_or(|a| bucket.name.as_str() > a)
            && region.is_none_or(|r| r == cx.region);
        if !wanted {
            continue;
        }
        if shown == most {
            more = true;
            break;
        }
        shown += 1;
        xml.open("Bucket")
            .leaf("Name", &bucket.name)
            .plain("CreationDate", date::format_iso(bucket.created_ms));
        if most != usize::MAX || region.is_some() {
            xml.leaf("BucketRegion", &cx.region);
        }
        xml.close();
        last = Some(bucket.name.clone());
    }
    xml.close();
    if let (true, Some(last)) = (more, last) {
        xml.leaf("ContinuationToken", &super::list::encode_token(&last));
    }
    if !prefix.is_empty() {
        xml.leaf("Prefix", prefix);
    }
    xml.close();
    Ok(Answer::document(xml))
}

/// The buckets for a caller without permission to list all: those that they may list or locate, as in MinIO.
async fn visible(cx: &Context, call: &Call) -> Outcome<Vec<OpenBucket>> {
    let mut out = Vec::new();
    for bucket in cx.store.buckets() {
        for action in [Action::ListBucket, Action::GetBucketLocation] {
            let need = Need { action, bucket: &bucket.name, key: "", version: None };
            if call.may_in(cx, &need, &bucket).await {
                out.push(bucket.clone());
                break;
            }
        }
    }
    if out.is_empty() { Err(Fault::new(Code::ACCESS_DENIED)) } else { Ok(out) }
}

/// `CreateBucket`.
pub async fn create_bucket(cx: &Context, call: &mut Call) -> Outcome<Answer> {
    if !is_bucket_name(&call.bucket) {
        return Err(Fault::new(Code::INVALID_BUCKET_NAME).element("BucketName", call.bucket.as_str()));
    }
    if RESERVED.contains(&call.bucket.as_str()) || call.bucket.starts_with(RESERVED_PREFIX) {
        return Err(Fault::new(Code::BUCKET_ALREADY_EXISTS).element("BucketName", call.bucket.as_str()));
    }
    refuse_unsupported(&call.headers, &cx.owner_id)?;
    let body = call.document(limit::CONFIGURATION).await?;
    let mut tags = Pairs::new();
    if !body.iter().all(u8::is_ascii_whitespace) {
        let (location, given) = parse_creation(&body)?;
        tags = given;
        if !cx.any_region && !location.is_empty() && location != cx.region {
            return Err(Fault::new(Code::INVALID_LOCATION).element("LocationConstraint", location));
        }
    }
    if !tags.is_empty() {
        let need = Need { action: Action::PutBucketTagging, bucket: &call.bucket, key: "", version: None };
        call.permit(cx, &need).await?;
    }
    let (ownership, list) = new_lists(cx, call)?;
    let mut documents = std::collections::BTreeMap::new();
    if ownership != Ownership::default() {
        documents.insert(acl::OWNERSHIP.to_owned(), ownership.name().into());
    }
    if !list.is_empty() {
        documents.insert(acl::ACL.to_owned(), list.into());
    }
    let object_lock = match headers::ascii(&call.headers, "x-amz-bucket-object-lock-enabled") {
        None | Some("") => false,
        Some(v) if v.eq_ignore_ascii_case("true") => true,
        Some(v) if v.eq_ignore_ascii_case("false") => false,
        Some(_) => {
            let text = "x-amz-bucket-object-lock-enabled must be true or false.";
            return Err(Fault::with(Code::INVALID_ARGUMENT, text));
        }
    };
    let spec = CreateBucket { object_lock, region: cx.region.clone(), documents, tags };
    cx.store.create_bucket(&call.bucket, &spec).await.map_err(|e| call.fault(e))?;
    let mut answer = Answer::ok();
    answer.set(header::LOCATION, format!("/{}", call.bucket));
    Ok(answer)
}

/// Ownership and access control list of a new bucket, from the headers.
fn new_lists(cx: &Context, call: &Call) -> Outcome<(Ownership, String)> {
    let ownership = match headers::ascii(&call.headers, "x-amz-object-ownership") {
        None | Some("") => Ownership::default(),
        Some(name) => Ownership::find(name).ok_or_else(|| {
            Fault::argument("x-amz-object-ownership", &name.chars().take(64).collect::<String>(), "")
        })?,
    };
    let list = Asked::read(&call.headers)?.for_new_bucket(cx, ownership)?;
    Ok((ownership, acl::encode(cx, &list)))
}

/// Location and tags.
fn parse_creation(body: &[u8]) -> Outcome<(String, Pairs)> {
    let mut doc = Doc::open(body, "CreateBucketConfiguration")?;
    let (mut location, mut tags) = (String::new(), Pairs::new());
    while let Some(name) = doc.child()? {
        match name.as_str() {
            "LocationConstraint" => location = doc.text()?.trim().to_owned(),
            "Location" | "Bucket" => {
                return Err(Fault::not_implemented("Directory buckets (Location, Bucket)"));
            }
            "Tags" => crate::tags::tags(&mut doc, crate::tags::BUCKET_TAGS, &mut tags)?,
            other => return doc.unexpected(other),
        }
    }
    doc.finish()?;
    crate::tags::validate(&tags, crate::tags::BUCKET_TAGS)?;
    Ok((location, tags))
}

/// `HeadBucket`.
pub fn head_bucket(cx: &Context, call: &mut Call) -> Outcome<Answer> {
    refuse_unsupported(&call.headers, &cx.owner_id)?;
    call.open()?;
    let mut answer = Answer::ok();
    answer.set(BUCKET_REGION, &cx.region);
    Ok(answer)
}

/// `DeleteBucket`.
pub async fn delete_bucket(cx: &Context, call: &mut Call) -> Outcome<Answer> {
    refuse_unsupported(&call.headers, &cx.owner_id)?;
    if !forced(&call.headers) {
        cx.store.delete_bucket(&call.bucket).await.map_err(|e| call.fault(e))?;
        return Ok(Answer::no_content());
    }
    let bucket = call.open()?;
    if bucket.object_lock {
        return Err(Fault::with(
            Code::METHOD_NOT_ALLOWED,
            "A bucket with object lock is not deleted with its content. Delete the objects that no lock keeps.",
        ));
    }
    for _ in 0..FORCED_TURNS {
        empty(cx, call).await?;
        match cx.store.delete_bucket(&call.bucket).await {
            // Another request has written meanwhile.
            Err(Error::BucketNotEmpty) => {}
            done => return done.map(|()| Answer::no_content()).map_err(|e| call.fault(e)),
        }
    }
    Err(call.fault(Error::BucketNotEmpty))
}

/// MinIO's `x-minio-force-delete`: with everything that is in it.
pub(crate) fn forced(request: &HeaderMap) -> bool {
    headers::ascii(request, "x-minio-force-delete").is_some_and(|v| v.eq_ignore_ascii_case("true"))
}

/// Deletes all versions of all keys.
async fn empty(cx: &Context, call: &Call) -> Outcome<()> {
    let (store, bucket) = (call.store(cx, Kind::Delete), call.open()?);
    loop {
        let first = VersionListSpec { max_keys: ashlar_object::MAX_PAGE, ..VersionListSpec::default() };
        let page = cx.store.list_versions(&bucket, &first).await.map_err(|e| call.fault(e))?;
        if page.entries.is_empty() {
            return Ok(());
        }
        let delete = |v: VersionEntry| {
            let (store, bucket) = (&store, &bucket);
            async move {
                let (key, id) = (v.entry.key, Some(v.version_id));
                match store.delete_bypassing(bucket, &key, id, &Conditions::NONE, false).await {
                    Ok(_) | Err(Error::NoSuchVersion) => Ok(()),
                    Err(error) => Err(fault(error, &call.bucket, &key)),
                }
            }
        };
        let mut work = futures::stream::iter(page.entries).map(delete).buffer_unordered(FORCED_AT_ONCE);
        while let Some(done) = work.next().await {
            done?;
        }
    }
}

/// `GetBucketLocation`.
pub fn get_location(cx: &Context, call: &mut Call) -> Outcome<Answer> {
    call.open()?;
    let location = if cx.region == "us-east-1" { "" } else { cx.region.as_str() };
    let mut xml = Xml::new();
    // The one document whose root is a leaf.
    xml.open_with("LocationConstraint", &format!("xmlns=\"{}\"", crate::xml::NAMESPACE))
        .text(location)
        .close();
    Ok(Answer::document(xml))
}

/// `GetBucketVersioning`.
pub fn get_versioning(call: &mut Call) -> Outcome<Answer> {
    let bucket = call.open()?;
    let mut xml = Xml::new();
    xml.root("VersioningConfiguration");
    match bucket.versioning {
        Versioning::Off => {}
        Versioning::Enabled => {
            xml.leaf("Status", "Enabled");
        }
        Versioning::Suspended => {
            xml.leaf("Status", "Suspended");
        }
    }
    xml.close();
    Ok(Answer::document(xml))
}

/// `PutBucketVersioning`.
pub async fn put_versioning(cx: &Context, call: &mut Call) -> Outcome<Answer> {
    refuse_unsupported(&call.headers, &cx.owner_id)?;
    let body = call.document(limit::CONFIGURATION).await?;
    let versioning = parse_versioning(&body)?;
    cx.store.set_versioning(&call.open()?, versioning).await.map_err(|e| call.fault(e))?;
    Ok(Answer::ok())
}

fn parse_versioning(body: &[u8]) -> Outcome<Versioning> {
    let mut doc = Doc::open(body, "VersioningConfiguration")?;
    let mut status = None;
    while let Some(name) = doc.child()? {
        match name.as_str() {
            "Status" => status = Some(doc.text()?),
            "MfaDelete" => {
                if doc.text()?.trim() == "Enabled" {
                    return Err(Fault::not_implemented("MFA delete"));
                }
            }
            "ExcludeFolders" | "ExcludedPrefixes" => {
                return Err(Fault::not_implemented("Excluding prefixes from versioning"));
            }
            other => return doc.unexpected(other),
        }
    }
    doc.finish()?;
    match status.as_deref().map(str::trim) {
        Some("Enabled") => Ok(Versioning::Enabled),
        Some("Suspended") => Ok(Versioning::Suspended),
        Some(_) => Err(Fault::with(Code::MALFORMED_XML, "Status must be Enabled or Suspended.")),
        None => Err(Fault::new(Code::ILLEGAL_VERSIONING)),
    }
}
