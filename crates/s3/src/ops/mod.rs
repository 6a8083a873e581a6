//! The operations, one file per family; each takes a [`Call`] and gives an [`Answer`] or a fault.
//!
//! Invariants: a [`Call`] holds a [`Verified`] and was permitted before it came here; what an operation
//! decides itself (several keys, several buckets) it asks [`Call::permit`];
//! conditions are judged by the store on the state they are about; a body is taken only after the
//! store has said that there is room. Must never know sockets, drives, or how signatures work.

pub mod acl;
pub mod append;
pub mod attributes;
pub mod bucket;
pub mod bucket_policy;
pub mod copy;
pub mod cors;
pub mod delete;
pub mod document;
pub mod extract;
pub mod get;
pub mod lifecycle;
pub mod list;
pub mod lock;
pub mod logging;
pub mod multipart;
pub mod notification;
pub mod post;
pub mod put;
pub mod rename;
pub mod tagging;
pub mod unset;
pub mod website;

use std::sync::Arc;

use ashlar_checksum::Algorithm;
use ashlar_iam::Iam;
use ashlar_object::feed::{Cause, Kind};
use ashlar_object::{Committed, Error, Store, VersionId, parse_version, version_text};
use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Method, StatusCode};

use crate::auth::Verified;
use crate::body::Body;
use crate::date;
use crate::fault::{Code, Fault, Outcome};
use crate::headers::{Stated, checksum_header, checksum_text, checksum_type, content_md5, unknown_algorithm};
use crate::intake::Intake;
use crate::notices::Notices;
use crate::operation::Operation;
use crate::permit::Origin;
use crate::target::Query;
use crate::xml::Xml;

/// What operations share.
pub struct Context {
    /// Where objects are.
    pub store: Store,
    /// What encrypts.
    pub encryption: crate::sse::Encryption,
    /// The region of this endpoint.
    pub region: String,
    /// Buckets may be asked for in any region: they are made here.
    pub any_region: bool,
    /// Canonical id of the owner of everything, 64 hexadecimal digits.
    pub owner_id: String,
    /// Name of the owner.
    pub owner_name: String,
    /// Milliseconds since 1970.
    pub clock: fn() -> i64,
    /// Who is told of what happens.
    pub notices: Notices,
    /// The users, for their canonical ids; [`crate::Service::new`] takes those that its keys are of.
    pub people: Option<Arc<Iam>>,
}

/// A verified request on its way to an operation.
pub struct Call {
    /// The method.
    pub method: Method,
    /// The bucket; empty when the operation has none.
    pub bucket: String,
    /// The key; empty when the operation has none.
    pub key: String,
    /// Decoded query.
    pub query: Query,
    /// Headers; of presigned requests with the `x-amz-*` query parameters among them.
    pub headers: HeaderMap,
    /// The body.
    pub intake: Intake,
    /// Who asks.
    pub verified: Verified,
    /// The Host header.
    pub host: String,
    /// The request came over TLS.
    pub tls: bool,
    /// Where it came from.
    pub origin: Origin,
    /// What was decided last.
    pub ruling: crate::witness::Slot,
    /// The id of the request.
    pub id: String,
}

/// Operations that may take minutes, because they move whole objects.
pub fn is_long(op: Operation) -> bool {
    use Operation as Op;
    matches!(op, Op::CopyObject | Op::RenameObject | Op::UploadPartCopy | Op::CompleteMultipartUpload)
}

/// A successful answer.
pub struct Answer {
    /// The status.
    pub status: StatusCode,
    /// Headers beside those that every answer has.
    pub headers: HeaderMap,
    /// The body.
    pub body: Body,
}

impl Answer {
    /// A status and nothing else.
    pub fn new(status: StatusCode) -> Answer {
        Answer { status, headers: HeaderMap::with_capacity(16), body: Body::empty() }
    }

    /// 200 with nothing else.
    pub fn ok() -> Answer {
        Answer::new(StatusCode::OK)
    }

    /// 204.
    pub fn no_content() -> Answer {
        Answer::new(StatusCode::NO_CONTENT)
    }

    /// 200 with a document.
    pub fn document(xml: Xml) -> Answer {
        let mut answer = Answer::ok();
        answer.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/xml"));
        answer.body = Body::whole(xml.finish());
        answer
    }

    /// Sets a header whose value is known to be legal ASCII.
    pub fn set(&mut self, name: HeaderName, value: impl AsRef<str>) -> &mut Answer {
        if let Ok(value) = HeaderValue::from_str(value.as_ref()) {
            self.headers.insert(name, value);
        }
        self
    }

    /// `x-amz-version-id`, if the bucket has versions.
    pub fn version(&mut self, id: Option<VersionId>) -> &mut Answer {
        if let Some(id) = id {
            self.set(VERSION_ID, version_text(id));
        }
        self
    }

    /// `x-amz-version-id` of a version that was just made: not for the null version, as in AWS.
    pub fn made(&mut self, id: Option<VersionId>) -> &mut Answer {
        self.version(id.filter(|id| *id != VersionId::ZERO))
    }

    /// `ETag`, quoted.
    pub fn etag(&mut self, etag: impl std::fmt::Display) -> &mut Answer {
        self.set(header::ETAG, format!("\"{etag}\""))
    }

    /// The stored checksum and its type.
    pub fn checksum(&mut self, checksum: Option<&ashlar_object::Checksum>, parts: u16) -> &mut Answer {
        if let Some((algorithm, text)) = checksum.and_then(|c| checksum_text(c, parts)) {
            self.set(checksum_header(algorithm), text);
            self.set(CHECKSUM_TYPE, checksum_type(checksum.is_some_and(|c| c.composite)));
        }
        self
    }

    /// What a committed change says in headers.
    pub fn committed(&mut self, committed: &Committed) -> &mut Answer {
        self.made(committed.version_id);
        self.etag(committed.etag);
        self.checksum(committed.checksum.as_ref(), committed.etag.parts)
    }
}

/// `x-amz-version-id`.
pub const VERSION_ID: HeaderName = HeaderName::from_static("x-amz-version-id");
/// `x-amz-delete-marker`.
pub const DELETE_MARKER: HeaderName = HeaderName::from_static("x-amz-delete-marker");
/// `x-amz-checksum-type`.
pub const CHECKSUM_TYPE: HeaderName = HeaderName::from_static("x-amz-checksum-type");
/// `x-amz-checksum-algorithm`.
pub const CHECKSUM_ALGORITHM: HeaderName = HeaderName::from_static("x-amz-checksum-algorithm");
/// `x-amz-storage-class`.
pub const STORAGE_CLASS: HeaderName = HeaderName::from_static("x-amz-storage-class");
const TRUE: HeaderValue = HeaderValue::from_static("true");

/// Limits of documents, in bytes.
pub mod limit {
    /// Small configuration documents.
    pub const CONFIGURATION: usize = 64 * 1024;
    /// A multi-object delete: 1,000 keys.
    pub const DELETE: usize = 2 * 1024 * 1024;
    /// A completed upload: 10,000 parts.
    pub const COMPLETE: usize = 4 * 1024 * 1024;
}

/// Who asks for a change, from where: for the change feed.
pub struct Came<'a> {
    /// Who.
    pub verified: &'a Verified,
    /// The headers.
    pub headers: &'a HeaderMap,
    /// Where it came from.
    pub origin: &'a Origin,
    /// It came over TLS.
    pub tls: bool,
    /// The Host header.
    pub host: &'a str,
    /// The id of the request.
    pub id: &'a str,
}

impl Came<'_> {
    /// The store, through which changes of `bucket` tell the change feed of this request, if anybody
    /// follows.
    pub fn store(&self, cx: &Context, bucket: &str, kind: Kind) -> Store {
        match cx.store.bucket(bucket) {
            Ok(b) if cx.store.feed().wants(&b) => cx.store.by(Arc::new(self.cause(kind))),
            _ => cx.store.clone(),
        }
    }

    /// The cause of a change.
    pub fn cause(&self, kind: Kind) -> Cause {
        let agent = self.headers.get(header::USER_AGENT).and_then(|v| v.to_str().ok());
        Cause {
            kind,
            who: self.verified.access_key().to_owned(),
            source: self.origin.ip.to_string(),
            request_id: self.id.to_owned(),
            agent: agent.unwrap_or_default().chars().take(256).collect(),
            endpoint: endpoint(self.tls, self.host),
        }
    }
}

impl Call {
    /// Who asks, from where.
    pub fn came(&self) -> Came<'_> {
        Came {
            verified: &self.verified,
            headers: &self.headers,
            origin: &self.origin,
            tls: self.tls,
            host: &self.host,
            id: &self.id,
        }
    }

    /// The store, for a change of this kind to the call's key.
    pub fn store(&self, cx: &Context, kind: Kind) -> Store {
        self.came().store(cx, &self.bucket, kind)
    }

    /// `scheme://host` as the client sees it, for `Location`.
    pub fn endpoint(&self) -> String {
        endpoint(self.tls, &self.host)
    }

    /// `versionId`, if given.
    pub fn version(&self) -> Outcome<Option<VersionId>> {
        match self.query.get("versionId") {
            None => Ok(None),
            Some("") => Err(Fault::argument("versionId", "", "Version id cannot be the empty string")),
            Some(text) => match parse_version(text) {
                Some(id) => Ok(Some(id)),
                None => Err(Fault::argument("versionId", text, "Invalid version id specified")),
            },
        }
    }

    /// `uploadId`. A bucket that is not there is said first.
    pub fn upload(&self, cx: &Context) -> Outcome<ashlar_object::UploadId> {
        cx.store.bucket(&self.bucket).map_err(|e| self.fault(e))?;
        let text = self.query.get("uploadId").unwrap_or_default();
        ashlar_object::UploadId::parse(text).ok_or_else(|| self.no_such_upload(text))
    }

    /// 404 for an upload.
    pub fn no_such_upload(&self, id: &str) -> Fault {
        Fault::new(Code::NO_SUCH_UPLOAD).element("UploadId", id.chars().take(128).collect::<String>())
    }

    /// A number in the query, with AWS's words when it is none.
    pub fn number(&self, name: &'static str, default: usize) -> Outcome<usize> {
        match self.query.get(name) {
            None | Some("") => Ok(default),
            Some(text) => match text.parse::<i64>() {
                Ok(n) if (0..=i64::from(i32::MAX)).contains(&n) => Ok(n as usize),
                Ok(_) => Err(Fault::argument(
                    name,
                    text,
                    format!("Argument {name} must be an integer between 0 and 2147483647"),
                )),
                Err(_) => Err(Fault::argument(
                    name,
                    text,
                    format!("Provided {name} not an integer or within integer range"),
                )),
            },
        }
    }

    /// Reads a document, at most `limit` bytes, and checks the digests that came with it.
    pub async fn document(&mut self, limit: usize) -> Outcome<Bytes> {
        let md5 = content_md5(&self.headers)?;
        let stated = Stated::read(&self.headers)?;
        let body = self.intake.collect(limit).await?;
        if md5.is_some_and(|want| want != ashlar_checksum::md5_once(&body)) {
            return Err(Fault::new(Code::BAD_DIGEST));
        }
        let computed = stated.algorithm().map(|algorithm| {
            let mut hasher = ashlar_checksum::Hasher::new(algorithm);
            hasher.update(&body);
            hasher.finish()
        });
        stated.check(computed.as_ref(), &self.intake)?;
        Ok(body)
    }

    /// `x-amz-checksum-algorithm`, if given.
    pub fn checksum_algorithm(&self) -> Outcome<Option<Algorithm>> {
        match crate::headers::ascii(&self.headers, "x-amz-checksum-algorithm") {
            None | Some("") => Ok(None),
            Some(name) => Algorithm::parse(name).map(Some).ok_or_else(unknown_algorithm),
        }
    }

    /// Turns what the store says into what S3 says about this request.
    pub fn fault(&self, error: Error) -> Fault {
        fault(error, &self.bucket, &self.key)
    }
}

/// The address of this server in the words of a client.
pub fn endpoint(tls: bool, host: &str) -> String {
    format!("{}://{host}", if tls { "https" } else { "http" })
}

/// The one place where errors of the store become errors of S3.
pub fn fault(error: Error, bucket: &str, key: &str) -> Fault {
    let text = error.to_string();
    match error {
        Error::NoSuchBucket => Fault::new(Code::NO_SUCH_BUCKET).element("BucketName", bucket),
        Error::BucketExists => Fault::new(Code::BUCKET_ALREADY_OWNED).element("BucketName", bucket),
        Error::BucketNotEmpty => Fault::new(Code::BUCKET_NOT_EMPTY).element("BucketName", bucket),
        Error::InvalidBucketName(_) => Fault::new(Code::INVALID_BUCKET_NAME).element("BucketName", bucket),
        Error::InvalidBucketState(why) => Fault::with(Code::INVALID_BUCKET_STATE, why),
        Error::NoSuchKey { delete_marker } => {
            let fault = Fault::new(Code::NO_SUCH_KEY).element("Key", key);
            match delete_marker {
                Some(id) => fault.header(DELETE_MARKER, TRUE).header(VERSION_ID, version_value(id)),
                None => fault,
            }
        }
        Error::NoSuchVersion => Fault::new(Code::NO_SUCH_VERSION).element("Key", key),
        Error::DeleteMarker { version_id, modified_ms } => {
            let modified = HeaderValue::from_str(&date::format_http(modified_ms.div_euclid(1000)));
            let fault = Fault::new(Code::METHOD_NOT_ALLOWED)
                .element("Method", "GET")
                .element("ResourceType", "DeleteMarker")
                .header(DELETE_MARKER, TRUE)
                .header(VERSION_ID, version_value(version_id))
                .header(header::ALLOW, HeaderValue::from_static("DELETE"));
            match modified {
                Ok(value) => fault.header(header::LAST_MODIFIED, value),
                Err(_) => fault,
            }
        }
        Error::TokenReused => Fault::new(Code::IDEMPOTENCY_MISMATCH),
        Error::NoSuchUpload => Fault::new(Code::NO_SUCH_UPLOAD),
        Error::InvalidPart(number) => Fault::new(Code::INVALID_PART).element("PartNumber", number.to_string()),
        Error::InvalidPartOrder => Fault::new(Code::INVALID_PART_ORDER),
        Error::EntityTooSmall { number, size } => Fault::new(Code::ENTITY_TOO_SMALL)
            .element("ProposedSize", size.to_string())
            .element("MinSizeAllowed", ashlar_object::MIN_PART.to_string())
            .element("PartNumber", number.to_string()),
        Error::WrongOffset { size } => {
            Fault::new(Code::INVALID_WRITE_OFFSET).element("ObjectSize", size.to_string())
        }
        Error::TooManyParts => Fault::new(Code::TOO_MANY_PARTS),
        Error::Locked => Fault::with(
            Code::ACCESS_DENIED,
            "Access Denied because object protected by object lock.",
        ),
        Error::QuotaExceeded { used, limit } => Fault::new(Code::QUOTA_EXCEEDED)
            .element("Used", used.to_string())
            .element("Quota", limit.to_string()),
        Error::EntityTooLarge => {
            Fault::new(Code::ENTITY_TOO_LARGE).element("MaxSizeAllowed", ashlar_object::MAX_PUT.to_string())
        }
        Error::IncompleteBody { .. } => Fault::new(Code::INCOMPLETE_BODY).closing(),
        Error::BadDigest => Fault::with(Code::BAD_DIGEST, "The checksum you specified did not match the calculated checksum."),
        Error::InvalidArgument(why) => Fault::with(Code::INVALID_ARGUMENT, why),
        Error::InvalidRequest(why) => Fault::with(Code::INVALID_REQUEST, why),
        Error::KeyTooLong => Fault::new(Code::KEY_TOO_LONG),
        Error::PreconditionFailed => Fault::new(Code::PRECONDITION_FAILED),
        Error::Conflict => Fault::new(Code::CONDITIONAL_CONFLICT).element("Key", key),
        Error::Changed | Error::Busy => Fault::new(Code::SLOW_DOWN),
        Error::Unavailable(_) => Fault::new(Code::UNAVAILABLE).because(text),
        Error::Full => Fault::new(Code::STORAGE_FULL),
        // Not "internal": the server works, and the bytes come back when drives do.
        Error::Corrupt(_) => Fault::with(
            Code::UNAVAILABLE,
            "The object is damaged beyond its parity and cannot be read. Bring missing drives back, or restore it from a copy.",
        )
        .because(text),
        Error::TooManyVersions => {
            Fault::with(Code::INVALID_REQUEST, "The key has too many versions. Delete old versions first.")
        }
        Error::KeyNeeded => Fault::with(
            Code::INVALID_REQUEST,
            "The object was stored using a form of Server Side Encryption. The correct parameters must be provided to retrieve the object.",
        ),
        Error::Internal(_) => Fault::internal(text),
    }
}

fn version_value(id: VersionId) -> HeaderValue {
    HeaderValue::from_str(&version_text(id)).unwrap_or(HeaderValue::from_static("null"))
}

/// Runs one operation.
pub async fn run(cx: &Context, op: Operation, call: &mut Call) -> Outcome<Answer> {
    use Operation as Op;
    // A read runs in the caller's future; everything else in one of its own, so that the future of
    // a request, which is moved several times, stays small.
    match op {
        Op::GetObject | Op::HeadObject => get::get_object(cx, call).await,
        Op::PutObject => Box::pin(put::put_object(cx, call)).await,
        Op::UploadPart => Box::pin(multipart::upload_part(cx, call)).await,
        Op::DeleteObject => Box::pin(delete::delete_object(cx, call)).await,
        Op::ListBuckets => Box::pin(bucket::list_buckets(cx, call)).await,
        Op::CreateBucket => Box::pin(bucket::create_bucket(cx, call)).await,
        Op::HeadBucket => bucket::head_bucket(cx, call),
        Op::DeleteBucket => Box::pin(bucket::delete_bucket(cx, call)).await,
        Op::GetBucketLocation => bucket::get_location(cx, call),
        Op::GetBucketVersioning => bucket::get_versioning(cx, call),
        Op::PutBucketVersioning => Box::pin(bucket::put_versioning(cx, call)).await,
        Op::GetBucketTagging => tagging::get_bucket(cx, call),
        Op::PutBucketTagging => Box::pin(tagging::put_bucket(cx, call)).await,
        Op::DeleteBucketTagging => Box::pin(tagging::delete_bucket(cx, call)).await,
        Op::GetBucketAcl => acl::get_bucket(cx, call),
        Op::PutBucketAcl => Box::pin(acl::put_bucket(cx, call)).await,
        Op::ListObjects => Box::pin(list::list_objects(cx, call)).await,
        Op::ListObjectsV2 => Box::pin(list::list_objects_v2(cx, call)).await,
        Op::ListObjectVersions => Box::pin(list::list_versions(cx, call)).await,
        Op::ListMultipartUploads => Box::pin(list::list_uploads(cx, call)).await,
        Op::DeleteObjects => Box::pin(delete::delete_objects(cx, call)).await,
        Op::RenameObject => Box::pin(rename::rename_object(cx, call)).await,
        Op::CopyObject => Box::pin(copy::copy_object(cx, call)).await,
        Op::GetObjectAttributes => Box::pin(attributes::get_attributes(cx, call)).await,
        Op::GetObjectTagging => Box::pin(tagging::get_object(cx, call)).await,
        Op::PutObjectTagging => Box::pin(tagging::put_object(cx, call)).await,
        Op::DeleteObjectTagging => Box::pin(tagging::delete_object(cx, call)).await,
        Op::GetObjectAcl => Box::pin(acl::get_object(cx, call)).await,
        Op::PutObjectAcl => Box::pin(acl::put_object(cx, call)).await,
        Op::CreateMultipartUpload => Box::pin(multipart::create(cx, call)).await,
        Op::UploadPartCopy => Box::pin(copy::upload_part_copy(cx, call)).await,
        Op::CompleteMultipartUpload => Box::pin(multipart::complete(cx, call)).await,
        Op::AbortMultipartUpload => Box::pin(multipart::abort(cx, call)).await,
        Op::ListParts => Box::pin(multipart::list_parts(cx, call)).await,
        Op::GetBucketPolicy => bucket_policy::get(cx, call),
        Op::PutBucketPolicy => Box::pin(bucket_policy::put(cx, call)).await,
        Op::DeleteBucketPolicy => Box::pin(bucket_policy::delete(cx, call)).await,
        Op::GetBucketEncryption => crate::sse::bucket::get(cx, call),
        Op::PutBucketEncryption => Box::pin(crate::sse::bucket::put(cx, call)).await,
        Op::DeleteBucketEncryption => Box::pin(crate::sse::bucket::delete(cx, call)).await,
        Op::GetBucketPolicyStatus => bucket_policy::status(cx, call),
        Op::GetPublicAccessBlock => bucket_policy::get_block(cx, call),
        Op::PutPublicAccessBlock => Box::pin(bucket_policy::put_block(cx, call)).await,
        Op::DeletePublicAccessBlock => Box::pin(bucket_policy::delete_block(cx, call)).await,
        Op::GetObjectLockConfiguration => lock::get_configuration(cx, call),
        Op::PutObjectLockConfiguration => Box::pin(lock::put_configuration(cx, call)).await,
        Op::GetObjectRetention => Box::pin(lock::get_retention(cx, call)).await,
        Op::PutObjectRetention => Box::pin(lock::put_retention(cx, call)).await,
        Op::GetObjectLegalHold => Box::pin(lock::get_legal_hold(cx, call)).await,
        Op::PutObjectLegalHold => Box::pin(lock::put_legal_hold(cx, call)).await,
        Op::GetBucketNotificationConfiguration => notification::get(cx, call),
        Op::PutBucketNotificationConfiguration => Box::pin(notification::put(cx, call)).await,
        Op::ListenNotification | Op::ListenBucketNotification => notification::listen(cx, call),
        Op::GetBucketOwnershipControls => acl::get_ownership(cx, call),
        Op::PutBucketOwnershipControls => Box::pin(acl::put_ownership(cx, call)).await,
        Op::DeleteBucketOwnershipControls => Box::pin(acl::delete_ownership(cx, call)).await,
        Op::GetBucketLifecycleConfiguration => lifecycle::get(cx, call),
        Op::PutBucketLifecycleConfiguration => Box::pin(lifecycle::put(cx, call)).await,
        Op::DeleteBucketLifecycle => Box::pin(lifecycle::delete(cx, call)).await,
        Op::GetBucketCors => cors::get(cx, call),
        Op::PutBucketCors => Box::pin(cors::put(cx, call)).await,
        Op::DeleteBucketCors => Box::pin(cors::delete(cx, call)).await,
        Op::GetBucketWebsite => website::get(cx, call),
        Op::PutBucketWebsite => Box::pin(website::put(cx, call)).await,
        Op::DeleteBucketWebsite => Box::pin(website::delete(cx, call)).await,
        Op::GetBucketLogging => logging::get(cx, call),
        Op::PutBucketLogging => Box::pin(logging::put(cx, call)).await,
        Op::GetBucketAccelerateConfiguration
        | Op::GetBucketRequestPayment
        | Op::GetBucketReplication
        | Op::ListBucketAnalyticsConfigurations
        | Op::ListBucketInventoryConfigurations
        | Op::ListBucketMetricsConfigurations
        | Op::ListBucketIntelligentTieringConfigurations => unset::get(cx, call, op),
        Op::PostObject
        | Op::WebsiteRequest
        | Op::Preflight
        | Op::Unknown
        | Op::AssumeRole
        | Op::GetCallerIdentity
        | Op::AssumeRoleWithWebIdentity
        | Op::AssumeRoleWithLDAPIdentity
        | Op::AssumeRoleWithCertificate => Err(Fault::internal("not an operation of this kind")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nobody is told "internal error", or that there is no such key, of data that is lost.
    #[test]
    fn lost_data_is_unavailable_and_says_so() {
        let fault =
            fault(Error::Corrupt("1 of 2 shards of stripe 0 can be read (xx-+)".to_owned()), "b", "k");
        assert_eq!(fault.status().as_u16(), 503);
        assert!(fault.message().contains("damaged beyond its parity"), "{}", fault.message());
        assert!(fault.cause().is_some_and(|c| c.contains("1 of 2 shards")), "for the log");
    }
}
