//! The table of S3 operations.
//!
//! One row for each operation: method, resource, sub-resource, other accepted query parameters, and the
//! permission it needs. Everything that must agree about operations reads this table: routing
//! (`operation::classify`), the coverage of Signature V2 ([`SIGNED`]), permissions ([`Operation::action`]),
//! and the list in `docs/s3-operations.md`.
//!
//! Invariants: code can distinguish a sub-resource from an object or a bucket only through the table; a row
//! names its permission, so an operation without one does not compile.

use std::collections::HashMap;
use std::sync::LazyLock;

use ashlar_policy::Action;
use http::Method;

/// The kind of resource that a request concerns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Resource {
    /// The endpoint itself: `/`.
    Service,
    /// `/bucket`.
    Bucket,
    /// `/bucket/key`.
    Object,
    /// Has no route: `service`, or the program, handles it before operations are distinguished.
    Elsewhere,
}

impl Resource {
    /// The name in errors and documentation.
    pub fn name(self) -> &'static str {
        match self {
            Resource::Service => "SERVICE",
            Resource::Bucket => "BUCKET",
            Resource::Object => "OBJECT",
            Resource::Elsewhere => "OTHER",
        }
    }
}

/// Distinguishes two operations with the same method, resource and sub-resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// Nothing: the usual one.
    Always,
    /// `x-amz-copy-source` is there.
    Copy,
    /// `list-type=2`.
    ListType2,
    /// The body is a form.
    Form,
}

/// What the caller needs on the bucket or object of the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Permission {
    /// Decided by the operation: bucket by bucket, key by key, when the document has been read, or nothing.
    Own,
    /// This action.
    One(Action),
    /// The first; with `versionId` the second.
    Versioned(Action, Action),
}

/// One operation.
#[derive(Debug)]
pub struct Row {
    /// The operation.
    pub operation: Operation,
    /// The HTTP method.
    pub method: Method,
    /// The resource that it concerns.
    pub resource: Resource,
    /// The query parameter that names it; empty: none.
    pub sub: &'static str,
    /// A further condition of this row.
    pub when: When,
    /// Other query parameters that it takes.
    pub parameters: &'static [&'static str],
    /// What the caller needs.
    pub permission: Permission,
}

macro_rules! permission {
    (Own) => {
        Permission::Own
    };
    ($one:ident) => {
        Permission::One(Action::$one)
    };
    ($one:ident / $versioned:ident) => {
        Permission::Versioned(Action::$one, Action::$versioned)
    };
}

macro_rules! operations {
    ($($name:ident $method:ident $resource:ident $sub:literal $when:ident $parameters:expr => $one:ident $(/ $versioned:ident)?;)*) => {
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

            /// Its row.
            pub fn row(self) -> &'static Row {
                &ROWS[self as usize]
            }
        }

        /// All rows, in the order of [`Operation::ALL`].
        pub static ROWS: &[Row] = &[$(Row {
            operation: Operation::$name,
            method: Method::$method,
            resource: Resource::$resource,
            sub: $sub,
            when: When::$when,
            parameters: $parameters,
            permission: permission!($one $(/ $versioned)?),
        },)*];
    };
}

const NONE: &[&str] = &[];
const VERSION: &[&str] = &["versionId"];
const RESPONSE: &[&str] = &[
    "partNumber",
    "versionId",
    "response-cache-control",
    "response-content-disposition",
    "response-content-encoding",
    "response-content-language",
    "response-content-type",
    "response-expires",
];
const BUCKETS: &[&str] = &["bucket-region", "continuation-token", "max-buckets", "prefix"];
const LIST: &[&str] = &["delimiter", "encoding-type", "list-type", "marker", "max-keys", "prefix"];
const LIST2: &[&str] = &[
    "continuation-token",
    "delimiter",
    "encoding-type",
    "fetch-owner",
    "list-type",
    "max-keys",
    "metadata",
    "prefix",
    "start-after",
];
const VERSIONS: &[&str] =
    &["delimiter", "encoding-type", "key-marker", "max-keys", "metadata", "prefix", "version-id-marker"];
const UPLOADS: &[&str] =
    &["delimiter", "encoding-type", "key-marker", "max-uploads", "prefix", "upload-id-marker"];
const PARTS: &[&str] = &["encoding-type", "max-parts", "part-number-marker"];
const PART: &[&str] = &["partNumber"];
const EVENTS: &[&str] = &["ping", "prefix", "suffix"];
const ID: &[&str] = &["continuation-token", "id"];

#[rustfmt::skip]
operations! {
    // Operation           Method Resource Sub-resource When Parameters => Permission
    ListBuckets                      GET    Service "" Always BUCKETS => Own;
    CreateBucket                     PUT    Bucket "" Always NONE => CreateBucket;
    HeadBucket                       HEAD   Bucket "" Always NONE => ListBucket;
    DeleteBucket                     DELETE Bucket "" Always NONE => DeleteBucket;
    GetBucketLocation                GET    Bucket "location" Always NONE => GetBucketLocation;
    GetBucketVersioning              GET    Bucket "versioning" Always NONE => GetBucketVersioning;
    PutBucketVersioning              PUT    Bucket "versioning" Always NONE => PutBucketVersioning;
    GetBucketTagging                 GET    Bucket "tagging" Always NONE => GetBucketTagging;
    PutBucketTagging                 PUT    Bucket "tagging" Always NONE => PutBucketTagging;
    DeleteBucketTagging              DELETE Bucket "tagging" Always NONE => PutBucketTagging;
    GetBucketAcl                     GET    Bucket "acl" Always NONE => GetBucketAcl;
    PutBucketAcl                     PUT    Bucket "acl" Always NONE => PutBucketAcl;
    ListObjects                      GET    Bucket "" Always LIST => ListBucket;
    ListObjectsV2                    GET    Bucket "" ListType2 LIST2 => ListBucket;
    ListObjectVersions               GET    Bucket "versions" Always VERSIONS => ListBucketVersions;
    ListMultipartUploads             GET    Bucket "uploads" Always UPLOADS => ListBucketMultipartUploads;
    DeleteObjects                    POST   Bucket "delete" Always NONE => Own;
    PostObject                       POST   Bucket "" Form NONE => Own;
    GetObject                        GET    Object "" Always RESPONSE => GetObject / GetObjectVersion;
    HeadObject                       HEAD   Object "" Always RESPONSE => GetObject / GetObjectVersion;
    PutObject                        PUT    Object "" Always NONE => PutObject;
    CopyObject                       PUT    Object "" Copy NONE => PutObject;
    RenameObject                     PUT    Object "renameObject" Always NONE => PutObject;
    DeleteObject                     DELETE Object "" Always VERSION => DeleteObject / DeleteObjectVersion;
    GetObjectAttributes              GET    Object "attributes" Always VERSION => GetObjectAttributes / GetObjectVersionAttributes;
    GetObjectTagging                 GET    Object "tagging" Always VERSION => GetObjectTagging / GetObjectVersionTagging;
    PutObjectTagging                 PUT    Object "tagging" Always VERSION => PutObjectTagging / PutObjectVersionTagging;
    DeleteObjectTagging              DELETE Object "tagging" Always VERSION => DeleteObjectTagging / DeleteObjectVersionTagging;
    GetObjectAcl                     GET    Object "acl" Always VERSION => GetObjectAcl / GetObjectVersionAcl;
    PutObjectAcl                     PUT    Object "acl" Always VERSION => PutObjectAcl / PutObjectVersionAcl;
    CreateMultipartUpload            POST   Object "uploads" Always NONE => PutObject;
    UploadPart                       PUT    Object "uploadId" Always PART => PutObject;
    UploadPartCopy                   PUT    Object "uploadId" Copy PART => PutObject;
    CompleteMultipartUpload          POST   Object "uploadId" Always NONE => PutObject;
    AbortMultipartUpload             DELETE Object "uploadId" Always NONE => AbortMultipartUpload;
    ListParts                        GET    Object "uploadId" Always PARTS => ListMultipartUploadParts;
    GetBucketPolicy                  GET    Bucket "policy" Always NONE => GetBucketPolicy;
    PutBucketPolicy                  PUT    Bucket "policy" Always NONE => PutBucketPolicy;
    DeleteBucketPolicy               DELETE Bucket "policy" Always NONE => DeleteBucketPolicy;
    GetBucketPolicyStatus            GET    Bucket "policyStatus" Always NONE => GetBucketPolicyStatus;
    GetPublicAccessBlock             GET    Bucket "publicAccessBlock" Always NONE => GetBucketPublicAccessBlock;
    PutPublicAccessBlock             PUT    Bucket "publicAccessBlock" Always NONE => PutBucketPublicAccessBlock;
    DeletePublicAccessBlock          DELETE Bucket "publicAccessBlock" Always NONE => PutBucketPublicAccessBlock;
    GetBucketOwnershipControls       GET    Bucket "ownershipControls" Always NONE => GetBucketOwnershipControls;
    PutBucketOwnershipControls       PUT    Bucket "ownershipControls" Always NONE => PutBucketOwnershipControls;
    DeleteBucketOwnershipControls    DELETE Bucket "ownershipControls" Always NONE => PutBucketOwnershipControls;
    GetObjectLockConfiguration       GET    Bucket "object-lock" Always NONE => GetBucketObjectLockConfiguration;
    PutObjectLockConfiguration       PUT    Bucket "object-lock" Always NONE => PutBucketObjectLockConfiguration;
    GetObjectRetention               GET    Object "retention" Always VERSION => GetObjectRetention;
    // Its conditions are about the document.
    PutObjectRetention               PUT    Object "retention" Always VERSION => Own;
    GetObjectLegalHold               GET    Object "legal-hold" Always VERSION => GetObjectLegalHold;
    PutObjectLegalHold               PUT    Object "legal-hold" Always VERSION => Own;
    GetBucketNotificationConfiguration GET  Bucket "notification" Always NONE => GetBucketNotification;
    PutBucketNotificationConfiguration PUT  Bucket "notification" Always NONE => PutBucketNotification;
    ListenNotification               GET    Service "events" Always EVENTS => ListenNotification;
    ListenBucketNotification         GET    Bucket "events" Always EVENTS => ListenBucketNotification;
    GetBucketEncryption              GET    Bucket "encryption" Always NONE => GetEncryptionConfiguration;
    PutBucketEncryption              PUT    Bucket "encryption" Always NONE => PutEncryptionConfiguration;
    DeleteBucketEncryption           DELETE Bucket "encryption" Always NONE => PutEncryptionConfiguration;
    AssumeRole                       POST   Elsewhere "" Always NONE => Own;
    AssumeRoleWithWebIdentity        POST   Elsewhere "" Always NONE => Own;
    AssumeRoleWithLDAPIdentity       POST   Elsewhere "" Always NONE => Own;
    AssumeRoleWithCertificate        POST   Elsewhere "" Always NONE => Own;
    GetCallerIdentity                POST   Elsewhere "" Always NONE => Own;
    GetBucketLifecycleConfiguration  GET    Bucket "lifecycle" Always NONE => GetLifecycleConfiguration;
    PutBucketLifecycleConfiguration  PUT    Bucket "lifecycle" Always NONE => PutLifecycleConfiguration;
    DeleteBucketLifecycle            DELETE Bucket "lifecycle" Always NONE => PutLifecycleConfiguration;
    GetBucketCors                    GET    Bucket "cors" Always NONE => GetBucketCors;
    PutBucketCors                    PUT    Bucket "cors" Always NONE => PutBucketCors;
    DeleteBucketCors                 DELETE Bucket "cors" Always NONE => PutBucketCors;
    GetBucketWebsite                 GET    Bucket "website" Always NONE => GetBucketWebsite;
    PutBucketWebsite                 PUT    Bucket "website" Always NONE => PutBucketWebsite;
    DeleteBucketWebsite              DELETE Bucket "website" Always NONE => DeleteBucketWebsite;
    GetBucketLogging                 GET    Bucket "logging" Always NONE => GetBucketLogging;
    PutBucketLogging                 PUT    Bucket "logging" Always NONE => PutBucketLogging;
    GetBucketAccelerateConfiguration GET    Bucket "accelerate" Always NONE => GetAccelerateConfiguration;
    GetBucketRequestPayment          GET    Bucket "requestPayment" Always NONE => GetBucketRequestPayment;
    GetBucketReplication             GET    Bucket "replication" Always NONE => GetReplicationConfiguration;
    ListBucketAnalyticsConfigurations GET   Bucket "analytics" Always ID => GetAnalyticsConfiguration;
    ListBucketInventoryConfigurations GET   Bucket "inventory" Always ID => GetInventoryConfiguration;
    ListBucketMetricsConfigurations  GET    Bucket "metrics" Always ID => GetMetricsConfiguration;
    ListBucketIntelligentTieringConfigurations GET Bucket "intelligent-tiering" Always ID => GetIntelligentTieringConfiguration;
    WebsiteRequest                   GET    Elsewhere "" Always NONE => Own;
    Preflight                        OPTIONS Elsewhere "" Always NONE => Own;
    Unknown                          GET    Elsewhere "" Always NONE => Own;
}

/// Sub-resources that AWS or MinIO has and this server has not, or has for other methods only, and what
/// they are called in the refusal.
pub const MISSING: &[(Resource, &str, &str)] = &[
    (Resource::Bucket, "abac", "Attribute-based access control (?abac)"),
    (Resource::Bucket, "accelerate", "Transfer acceleration (?accelerate)"),
    (Resource::Bucket, "analytics", "Bucket analytics (?analytics)"),
    (Resource::Bucket, "intelligent-tiering", "Intelligent tiering (?intelligent-tiering)"),
    (Resource::Bucket, "inventory", "Bucket inventory (?inventory)"),
    (Resource::Bucket, "metadataConfiguration", "Bucket metadata (?metadataConfiguration)"),
    (Resource::Bucket, "metadataInventoryTable", "Bucket metadata (?metadataInventoryTable)"),
    (Resource::Bucket, "metadataJournalTable", "Bucket metadata (?metadataJournalTable)"),
    (Resource::Bucket, "metadataTable", "Bucket metadata (?metadataTable)"),
    (Resource::Bucket, "metrics", "Bucket metrics configuration (?metrics)"),
    (Resource::Bucket, "replication", "Bucket replication (?replication)"),
    (Resource::Bucket, "replication-check", "Bucket replication (?replication-check)"),
    (Resource::Bucket, "replication-metrics", "Bucket replication (?replication-metrics)"),
    (Resource::Bucket, "replication-reset", "Bucket replication (?replication-reset)"),
    (Resource::Bucket, "replication-reset-status", "Bucket replication (?replication-reset-status)"),
    (Resource::Bucket, "requestPayment", "Request payment (?requestPayment)"),
    (Resource::Bucket, "session", "Directory bucket sessions (?session)"),
    (Resource::Object, "annotation", "Object annotations (?annotation)"),
    (Resource::Object, "annotations", "Object annotations (?annotations)"),
    (Resource::Object, "encryption", "Object encryption (?encryption)"),
    (Resource::Object, "lambdaArn", "Object lambda (?lambdaArn)"),
    (Resource::Object, "restore", "Restoring archived objects (?restore)"),
    (Resource::Object, "select", "S3 Select (SelectObjectContent)"),
    (Resource::Object, "torrent", "Object torrents (?torrent)"),
];

/// Query parameters that are not sub-resources and that Signature V2 covers all the same: they change what
/// is read, written or answered.
const V2_PARAMETERS: &[&str] = &["partNumber", "select-type", "versionId"];

/// Query parameters that any request may carry: signatures, and what SDKs add.
const ANYWHERE: &[&str] = &["AWSAccessKeyId", "Expires", "Signature", "x-id"];

/// What a name in the query is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Known {
    /// It names an operation, by itself.
    Sub,
    /// Some operation takes it.
    Parameter,
    /// Any request may carry it.
    Anywhere,
}

static NAMES: LazyLock<HashMap<&'static str, Known>> = LazyLock::new(|| {
    let parameters = ROWS.iter().flat_map(|row| row.parameters).chain(V2_PARAMETERS);
    let parameters = parameters.map(|name| (*name, Known::Parameter));
    let anywhere = ANYWHERE.iter().map(|name| (*name, Known::Anywhere));
    parameters.chain(anywhere).chain(subresources().map(|name| (name, Known::Sub))).collect()
});

/// All sub-resources, those that are not implemented among them, in any order, some more than once.
pub fn subresources() -> impl Iterator<Item = &'static str> {
    let served = ROWS.iter().map(|row| row.sub).filter(|sub| !sub.is_empty());
    served.chain(MISSING.iter().map(|(_, sub, _)| *sub))
}

/// The kind of a name in the query; `None`: unknown.
pub fn known(name: &str) -> Option<Known> {
    if name.get(..6).is_some_and(|head| head.eq_ignore_ascii_case("x-amz-")) {
        return Some(Known::Anywhere);
    }
    NAMES.get(name).copied()
}

/// Query parameters that Signature V2 covers, in order of name.
pub static SIGNED: LazyLock<Vec<&'static str>> = LazyLock::new(|| {
    let responses = RESPONSE.iter().filter(|name| name.starts_with("response-"));
    let mut all: Vec<_> = subresources().chain(V2_PARAMETERS.iter().chain(responses).copied()).collect();
    all.sort_unstable();
    all.dedup();
    all
});

impl Operation {
    /// The action that it needs on its own bucket and key; with `versionId` another one. `None`: none, or
    /// decided by the operation itself.
    pub fn action(self, versioned: bool) -> Option<Action> {
        match self.row().permission {
            Permission::Own => None,
            Permission::One(action) => Some(action),
            Permission::Versioned(_, action) if versioned => Some(action),
            Permission::Versioned(action, _) => Some(action),
        }
    }
}
