//! Which operation a request is: from method, path shape and query.
//!
//! Invariants: what is not implemented is named and refused, never taken for a neighbour: a `PUT`,
//! `POST` or `DELETE` with a query parameter that nobody here knows is refused, so that a new
//! subresource of AWS cannot turn into an overwrite or a deletion.

use http::Method;

use crate::fault::{Code, Fault, Outcome};
use crate::target::Target;

macro_rules! operations {
    ($($name:ident,)*) => {
        /// An S3 operation.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[repr(u8)]
        #[allow(missing_docs)]
        pub enum Operation { $($name,)* }

        impl Operation {
            /// All, in the order of their numbers.
            pub const ALL: &'static [Operation] = &[$(Operation::$name,)*];

            /// AWS's name for it.
            pub fn name(self) -> &'static str {
                match self { $(Operation::$name => stringify!($name),)* }
            }
        }
    };
}

operations! {
    ListBuckets, CreateBucket, HeadBucket, DeleteBucket, GetBucketLocation, GetBucketVersioning,
    PutBucketVersioning, GetBucketTagging, PutBucketTagging, DeleteBucketTagging, GetBucketAcl,
    PutBucketAcl, ListObjects, ListObjectsV2, ListObjectVersions, ListMultipartUploads, DeleteObjects,
    PostObject, GetObject, HeadObject, PutObject, CopyObject, RenameObject, DeleteObject, GetObjectAttributes,
    GetObjectTagging, PutObjectTagging, DeleteObjectTagging, GetObjectAcl, PutObjectAcl,
    CreateMultipartUpload, UploadPart, UploadPartCopy, CompleteMultipartUpload, AbortMultipartUpload,
    ListParts, GetBucketPolicy, PutBucketPolicy, DeleteBucketPolicy, GetBucketPolicyStatus,
    GetPublicAccessBlock, PutPublicAccessBlock, DeletePublicAccessBlock, GetBucketOwnershipControls,
    PutBucketOwnershipControls, DeleteBucketOwnershipControls, GetObjectLockConfiguration,
    PutObjectLockConfiguration, GetObjectRetention, PutObjectRetention, GetObjectLegalHold,
    PutObjectLegalHold, GetBucketNotificationConfiguration, PutBucketNotificationConfiguration,
    ListenNotification, ListenBucketNotification, GetBucketEncryption, PutBucketEncryption, DeleteBucketEncryption, AssumeRole,
    AssumeRoleWithWebIdentity, AssumeRoleWithLDAPIdentity, AssumeRoleWithCertificate, GetCallerIdentity,
    GetBucketLifecycleConfiguration, PutBucketLifecycleConfiguration, DeleteBucketLifecycle, GetBucketCors,
    PutBucketCors, DeleteBucketCors, GetBucketWebsite, PutBucketWebsite, DeleteBucketWebsite,
    GetBucketLogging, PutBucketLogging, GetBucketAccelerateConfiguration, GetBucketRequestPayment,
    GetBucketReplication, ListBucketAnalyticsConfigurations, ListBucketInventoryConfigurations,
    ListBucketMetricsConfigurations, ListBucketIntelligentTieringConfigurations, WebsiteRequest,
    Preflight, Unknown,
}

/// Subresources of buckets that AWS has and this server has not.
const BUCKET_MISSING: [(&str, &str); 18] = [
    ("abac", "Attribute-based access control (?abac)"),
    ("accelerate", "Transfer acceleration (?accelerate)"),
    ("analytics", "Bucket analytics (?analytics)"),
    ("intelligent-tiering", "Intelligent tiering (?intelligent-tiering)"),
    ("inventory", "Bucket inventory (?inventory)"),
    ("metadataConfiguration", "Bucket metadata (?metadataConfiguration)"),
    ("metadataInventoryTable", "Bucket metadata (?metadataInventoryTable)"),
    ("metadataJournalTable", "Bucket metadata (?metadataJournalTable)"),
    ("metadataTable", "Bucket metadata (?metadataTable)"),
    ("metrics", "Bucket metrics configuration (?metrics)"),
    ("replication", "Bucket replication (?replication)"),
    ("replication-check", "Bucket replication (?replication-check)"),
    ("replication-metrics", "Bucket replication (?replication-metrics)"),
    ("replication-reset", "Bucket replication (?replication-reset)"),
    ("requestPayment", "Request payment (?requestPayment)"),
    ("session", "Directory bucket sessions (?session)"),
    ("retention", "Object retention (?retention)"),
    ("legal-hold", "Object legal hold (?legal-hold)"),
];

/// Of these, what is answered as AWS answers where it was never set; it cannot be set here.
const UNSET: [&str; 7] = [
    "accelerate",
    "analytics",
    "intelligent-tiering",
    "inventory",
    "metrics",
    "replication",
    "requestPayment",
];

/// Subresources of objects that AWS has and this server has not.
const OBJECT_MISSING: [(&str, &str); 8] = [
    ("annotation", "Object annotations (?annotation)"),
    ("annotations", "Object annotations (?annotations)"),
    ("encryption", "Object encryption (?encryption)"),
    ("lambdaArn", "Object lambda (?lambdaArn)"),
    ("object-lock", "Object lock (?object-lock)"),
    ("restore", "Restoring archived objects (?restore)"),
    ("select", "S3 Select (SelectObjectContent)"),
    ("torrent", "Object torrents (?torrent)"),
];

/// Query parameters that some operation here knows.
const KNOWN: [&str; 56] = [
    "cors",
    "lifecycle",
    "renameObject",
    "logging",
    "website",
    "encryption",
    "events",
    "notification",
    "ping",
    "suffix",
    "object-lock",
    "retention",
    "legal-hold",
    "ownershipControls",
    "policy",
    "policyStatus",
    "publicAccessBlock",
    "acl",
    "attributes",
    "bucket-region",
    "continuation-token",
    "delete",
    "delimiter",
    "encoding-type",
    "fetch-owner",
    "key-marker",
    "list-type",
    "location",
    "marker",
    "max-buckets",
    "max-keys",
    "max-parts",
    "max-uploads",
    "part-number-marker",
    "partNumber",
    "prefix",
    "response-cache-control",
    "response-content-disposition",
    "response-content-encoding",
    "response-content-language",
    "response-content-type",
    "response-expires",
    "start-after",
    "tagging",
    "upload-id-marker",
    "uploadId",
    "uploads",
    "version-id-marker",
    "versionId",
    "versioning",
    "versions",
    "Signature",
    "Expires",
    "AWSAccessKeyId",
    "x-id",
    "x-amz-user-agent",
];

/// Finds the operation. `copy`: the request has `x-amz-copy-source`.
pub fn classify(method: &Method, target: &Target, copy: bool, form: bool) -> Outcome<Operation> {
    use Operation as Op;
    let query = &target.query;
    let level = match (&target.bucket, &target.key) {
        (None, _) => 0,
        (Some(_), None) => 1,
        (Some(_), Some(_)) => 2,
    };
    refuse_missing(method, target, level)?;
    let has = |name| query.has(name);
    let op = match (method, level) {
        (&Method::GET, 0) if has("events") => Op::ListenNotification,
        (&Method::GET, 0) => Op::ListBuckets,
        (&Method::GET, 1) if has("notification") => Op::GetBucketNotificationConfiguration,
        (&Method::GET, 1) if has("events") => Op::ListenBucketNotification,
        (&Method::GET, 1) if has("location") => Op::GetBucketLocation,
        (&Method::GET, 1) if has("versioning") => Op::GetBucketVersioning,
        (&Method::GET, 1) if has("tagging") => Op::GetBucketTagging,
        (&Method::GET, 1) if has("acl") => Op::GetBucketAcl,
        (&Method::GET, 1) if has("policy") => Op::GetBucketPolicy,
        (&Method::GET, 1) if has("policyStatus") => Op::GetBucketPolicyStatus,
        (&Method::GET, 1) if has("publicAccessBlock") => Op::GetPublicAccessBlock,
        (&Method::GET, 1) if has("object-lock") => Op::GetObjectLockConfiguration,
        (&Method::GET, 1) if has("ownershipControls") => Op::GetBucketOwnershipControls,
        (&Method::GET, 1) if has("lifecycle") => Op::GetBucketLifecycleConfiguration,
        (&Method::GET, 1) if has("cors") => Op::GetBucketCors,
        (&Method::GET, 1) if has("website") => Op::GetBucketWebsite,
        (&Method::GET, 1) if has("logging") => Op::GetBucketLogging,
        (&Method::GET, 1) if has("accelerate") => Op::GetBucketAccelerateConfiguration,
        (&Method::GET, 1) if has("requestPayment") => Op::GetBucketRequestPayment,
        (&Method::GET, 1) if has("replication") => Op::GetBucketReplication,
        (&Method::GET, 1) if has("analytics") => Op::ListBucketAnalyticsConfigurations,
        (&Method::GET, 1) if has("inventory") => Op::ListBucketInventoryConfigurations,
        (&Method::GET, 1) if has("metrics") => Op::ListBucketMetricsConfigurations,
        (&Method::GET, 1) if has("intelligent-tiering") => Op::ListBucketIntelligentTieringConfigurations,
        (&Method::GET, 1) if has("encryption") => Op::GetBucketEncryption,
        (&Method::GET, 1) if has("versions") => Op::ListObjectVersions,
        (&Method::GET, 1) if has("uploads") => Op::ListMultipartUploads,
        (&Method::GET, 1) => match query.get("list-type") {
            Some("2") => Op::ListObjectsV2,
            None | Some("" | "1") => Op::ListObjects,
            Some(other) => {
                return Err(Fault::argument("list-type", other, "list-type must be 2, or be left out."));
            }
        },
        (&Method::HEAD, 1) => Op::HeadBucket,
        (&Method::PUT, 1) if has("versioning") => Op::PutBucketVersioning,
        (&Method::PUT, 1) if has("tagging") => Op::PutBucketTagging,
        (&Method::PUT, 1) if has("acl") => Op::PutBucketAcl,
        (&Method::PUT, 1) if has("policy") => Op::PutBucketPolicy,
        (&Method::PUT, 1) if has("publicAccessBlock") => Op::PutPublicAccessBlock,
        (&Method::PUT, 1) if has("object-lock") => Op::PutObjectLockConfiguration,
        (&Method::PUT, 1) if has("notification") => Op::PutBucketNotificationConfiguration,
        (&Method::PUT, 1) if has("ownershipControls") => Op::PutBucketOwnershipControls,
        (&Method::PUT, 1) if has("lifecycle") => Op::PutBucketLifecycleConfiguration,
        (&Method::PUT, 1) if has("cors") => Op::PutBucketCors,
        (&Method::PUT, 1) if has("website") => Op::PutBucketWebsite,
        (&Method::PUT, 1) if has("logging") => Op::PutBucketLogging,
        (&Method::PUT, 1) if has("encryption") => Op::PutBucketEncryption,
        (&Method::PUT, 1) if plain(target) => Op::CreateBucket,
        (&Method::DELETE, 1) if has("policy") => Op::DeleteBucketPolicy,
        (&Method::DELETE, 1) if has("publicAccessBlock") => Op::DeletePublicAccessBlock,
        (&Method::DELETE, 1) if has("ownershipControls") => Op::DeleteBucketOwnershipControls,
        (&Method::DELETE, 1) if has("lifecycle") => Op::DeleteBucketLifecycle,
        (&Method::DELETE, 1) if has("cors") => Op::DeleteBucketCors,
        (&Method::DELETE, 1) if has("website") => Op::DeleteBucketWebsite,
        (&Method::DELETE, 1) if has("encryption") => Op::DeleteBucketEncryption,
        (&Method::DELETE, 1) if has("tagging") => Op::DeleteBucketTagging,
        (&Method::DELETE, 1) if plain(target) => Op::DeleteBucket,
        (&Method::POST, 1) if has("delete") => Op::DeleteObjects,
        (&Method::POST, 1) if form => Op::PostObject,
        (&Method::GET, 2) if has("uploadId") => Op::ListParts,
        (&Method::GET, 2) if has("attributes") => Op::GetObjectAttributes,
        (&Method::GET, 2) if has("tagging") => Op::GetObjectTagging,
        (&Method::GET, 2) if has("acl") => Op::GetObjectAcl,
        (&Method::GET, 2) if has("retention") => Op::GetObjectRetention,
        (&Method::GET, 2) if has("legal-hold") => Op::GetObjectLegalHold,
        (&Method::GET, 2) => Op::GetObject,
        (&Method::HEAD, 2) => Op::HeadObject,
        (&Method::PUT, 2) if has("uploadId") && copy => Op::UploadPartCopy,
        (&Method::PUT, 2) if has("uploadId") => Op::UploadPart,
        (&Method::PUT, 2) if has("tagging") => Op::PutObjectTagging,
        (&Method::PUT, 2) if has("acl") => Op::PutObjectAcl,
        (&Method::PUT, 2) if has("retention") => Op::PutObjectRetention,
        (&Method::PUT, 2) if has("legal-hold") => Op::PutObjectLegalHold,
        (&Method::PUT, 2) if has("renameObject") => Op::RenameObject,
        (&Method::PUT, 2) if plain(target) && copy => Op::CopyObject,
        (&Method::PUT, 2) if plain(target) => Op::PutObject,
        (&Method::POST, 2) if has("uploads") => Op::CreateMultipartUpload,
        (&Method::POST, 2) if has("uploadId") => Op::CompleteMultipartUpload,
        (&Method::DELETE, 2) if has("uploadId") => Op::AbortMultipartUpload,
        (&Method::DELETE, 2) if has("tagging") => Op::DeleteObjectTagging,
        (&Method::DELETE, 2) if object_only(target) => Op::DeleteObject,
        _ => {
            return Err(Fault::new(Code::METHOD_NOT_ALLOWED)
                .element("Method", method.as_str())
                .element("ResourceType", ["SERVICE", "BUCKET", "OBJECT"][level]));
        }
    };
    Ok(op)
}

/// Nothing in the query that would name another operation.
fn plain(target: &Target) -> bool {
    object_only(target) && !target.query.has("versionId")
}

fn object_only(target: &Target) -> bool {
    ![
        "acl",
        "attributes",
        "cors",
        "delete",
        "encryption",
        "events",
        "legal-hold",
        "lifecycle",
        "list-type",
        "location",
        "logging",
        "notification",
        "object-lock",
        "ownershipControls",
        "partNumber",
        "policy",
        "policyStatus",
        "publicAccessBlock",
        "retention",
        "uploads",
        "versioning",
        "versions",
        "website",
    ]
    .iter()
    .any(|name| target.query.has(name))
}

fn refuse_missing(method: &Method, target: &Target, level: usize) -> Outcome<()> {
    let missing: &[(&str, &str)] = match level {
        0 => &[],
        1 => &BUCKET_MISSING,
        _ => &OBJECT_MISSING,
    };
    let reads = method == Method::GET || method == Method::HEAD;
    for (name, value) in target.query.iter() {
        if level == 1 && method == Method::GET && UNSET.contains(&name) {
            continue;
        }
        if let Some((_, what)) = missing.iter().find(|(n, _)| *n == name) {
            return Err(Fault::not_implemented(what));
        }
        let known = KNOWN.contains(&name) || name.starts_with("X-Amz-") || name.starts_with("x-amz-");
        // A reading request may carry parameters with values that mean nothing to S3.
        if !known && (!reads || value.is_empty()) {
            let name: String = name.chars().take(64).collect();
            return Err(Fault::not_implemented(&format!("The query parameter {name}")));
        }
    }
    // A listener names several events.
    let listens = reads && level < 2 && target.query.has("events");
    if let Some(name) = target.query.duplicate().filter(|n| !(listens && *n == "events")) {
        let name: String = name.chars().take(64).collect();
        return Err(Fault::with(
            Code::INVALID_ARGUMENT,
            format!("The query parameter {name} was given more than once."),
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn op(method: Method, path: &str, query: &str) -> Result<Operation, &'static str> {
        let target = Target::parse(path, Some(query), None).unwrap();
        classify(&method, &target, false, false).map_err(|f| f.code().name)
    }

    #[test]
    fn routes() {
        assert_eq!(op(Method::GET, "/", ""), Ok(Operation::ListBuckets));
        assert_eq!(op(Method::GET, "/b", "list-type=2"), Ok(Operation::ListObjectsV2));
        assert_eq!(op(Method::GET, "/b/", "versions"), Ok(Operation::ListObjectVersions));
        assert_eq!(op(Method::GET, "/", "events=a&events=b&ping=10"), Ok(Operation::ListenNotification));
        assert_eq!(
            op(Method::GET, "/b", "events=a&suffix=&prefix="),
            Ok(Operation::ListenBucketNotification)
        );
        assert_eq!(op(Method::PUT, "/b", "notification"), Ok(Operation::PutBucketNotificationConfiguration));
        assert_eq!(op(Method::DELETE, "/b", "notification"), Err("MethodNotAllowed"));
        assert_eq!(op(Method::PUT, "/b/k", "events"), Err("MethodNotAllowed"));
        assert_eq!(op(Method::GET, "/b/k", "x-id=GetObject"), Ok(Operation::GetObject));
        assert_eq!(op(Method::PUT, "/b/k", "partNumber=1&uploadId=x"), Ok(Operation::UploadPart));
        assert_eq!(op(Method::DELETE, "/b/k", "versionId=null"), Ok(Operation::DeleteObject));
        assert_eq!(op(Method::GET, "/b/k", "foo=bar"), Ok(Operation::GetObject));
        assert_eq!(op(Method::PATCH, "/b/k", ""), Err("MethodNotAllowed"));
        assert_eq!(op(Method::POST, "/b/k", ""), Err("MethodNotAllowed"));
        assert_eq!(op(Method::PUT, "/b/k", "versionId=null"), Err("MethodNotAllowed"));
    }

    #[test]
    fn what_is_missing_is_never_taken_for_a_neighbour() {
        for method in [Method::GET, Method::PUT, Method::DELETE, Method::POST, Method::HEAD] {
            let shown = |name: &str| method == Method::GET && UNSET.contains(&name);
            for (name, _) in BUCKET_MISSING.into_iter().filter(|(name, _)| !shown(name)) {
                assert_eq!(op(method.clone(), "/b", name), Err("NotImplemented"), "{method} ?{name}");
            }
            for (name, _) in OBJECT_MISSING {
                assert_eq!(op(method.clone(), "/b/k", name), Err("NotImplemented"), "{method} ?{name}");
            }
            assert_eq!(op(method.clone(), "/b/k", "somethingNew"), Err("NotImplemented"), "{method}");
            if method != Method::GET && method != Method::HEAD {
                assert_eq!(op(method.clone(), "/b/k", "somethingNew=1"), Err("NotImplemented"), "{method}");
                assert_eq!(op(method, "/b", "somethingNew=1"), Err("NotImplemented"));
            }
        }
        assert_eq!(op(Method::DELETE, "/b", "versioning"), Err("MethodNotAllowed"));
        assert_eq!(op(Method::DELETE, "/b/k", "acl"), Err("MethodNotAllowed"));
        assert_eq!(op(Method::GET, "/b", "prefix=a&prefix=b"), Err("InvalidArgument"));
    }
}
