//! [`Fault`]: an error as S3 returns it: code, status, message, extra elements, extra headers.
//!
//! Invariants: one table here has every code with its status; a message says what to do; a message never
//! contains a secret. Must not depend on: the operation that failed.

use std::borrow::Cow;

use http::header::{HeaderName, HeaderValue};
use http::{HeaderMap, StatusCode};

use crate::xml::Xml;

/// An S3 error code with its status and AWS's standing message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Code {
    /// As in `<Code>`.
    pub name: &'static str,
    /// HTTP status.
    pub status: u16,
    /// The message used when nothing more exact is known.
    pub text: &'static str,
}

macro_rules! codes {
    ($($name:ident $status:literal $wire:literal $text:literal;)*) => {
        impl Code {
            $(#[doc = $wire] pub const $name: Code = Code { name: $wire, status: $status, text: $text };)*
            /// Every code, for tests and documentation.
            pub const ALL: &'static [Code] = &[$(Code::$name),*];
        }
    };
}

codes! {
    ACCESS_DENIED 403 "AccessDenied" "Access Denied. Sign the request with an access key whose policies allow it.";
    ACL_NOT_SUPPORTED 400 "AccessControlListNotSupported" "The bucket does not allow ACLs: its ownership is BucketOwnerEnforced. Leave ACLs out, or change the ownership with PutBucketOwnershipControls.";
    AUTH_HEADER_MALFORMED 400 "AuthorizationHeaderMalformed" "The authorization header that you provided is not valid.";
    AUTH_QUERY_PARAMETERS 400 "AuthorizationQueryParametersError" "The query parameters for authorization that you provided are not valid.";
    BAD_ARCHIVE 400 "BadRequest" "The archive cannot be read.";
    BAD_DIGEST 400 "BadDigest" "The Content-MD5 you specified did not match what we received.";
    BUCKET_ALREADY_EXISTS 409 "BucketAlreadyExists" "The requested bucket name is not available. Please select a different name and try again.";
    BUCKET_ALREADY_OWNED 409 "BucketAlreadyOwnedByYou" "Your previous request to create the named bucket succeeded and you already own it.";
    BUCKET_NOT_EMPTY 409 "BucketNotEmpty" "The bucket you tried to delete is not empty. You must delete all versions in the bucket.";
    CONDITIONAL_CONFLICT 409 "ConditionalRequestConflict" "The conditional request cannot succeed due to a conflicting operation against this resource. Read the object again and retry.";
    CONTENT_SHA256_MISMATCH 400 "XAmzContentSHA256Mismatch" "The provided 'x-amz-content-sha256' header does not match what was computed.";
    CORS_FORBIDDEN 403 "AccessForbidden" "CORSResponse: This CORS request is not allowed. This is usually because the evaluation of Origin, request method / Access-Control-Request-Method or Access-Control-Request-Headers are not whitelisted by the resource's CORS spec.";
    ENTITY_TOO_LARGE 400 "EntityTooLarge" "Your proposed upload exceeds the maximum allowed size. Use a multipart upload for objects above 5 GiB.";
    ENTITY_TOO_SMALL 400 "EntityTooSmall" "Your proposed upload is smaller than the minimum allowed size. Every part but the last must hold at least 5 MiB.";
    EXPIRED_TOKEN 400 "ExpiredToken" "The provided token has expired.";
    HEADERS_TOO_LARGE 400 "RequestHeaderSectionTooLarge" "Your request header and query parameters used to make the request exceed the maximum allowed size.";
    ILLEGAL_VERSIONING 400 "IllegalVersioningConfigurationException" "The versioning configuration is not valid: Status must be Enabled or Suspended.";
    INCOMPLETE_BODY 400 "IncompleteBody" "You did not provide the number of bytes specified by the Content-Length HTTP header.";
    INTERNAL 500 "InternalError" "We encountered an internal error. Please try again.";
    INVALID_ACCESS_KEY 403 "InvalidAccessKeyId" "The AWS Access Key Id you provided does not exist in our records.";
    INVALID_ACCESS_KEY_ID 403 "InvalidAccessKeyId" "The AWS Access Key Id you provided does not exist in our records.";
    INVALID_ARGUMENT 400 "InvalidArgument" "Invalid Argument";
    INVALID_BUCKET_ACL 400 "InvalidBucketAclWithObjectOwnership" "Bucket cannot have ACLs set with ObjectOwnership's BucketOwnerEnforced setting";
    INVALID_BUCKET_NAME 400 "InvalidBucketName" "The specified bucket is not valid. Use 3 to 63 lower-case letters, digits, dots and hyphens, beginning and ending with a letter or digit.";
    INVALID_BUCKET_STATE 409 "InvalidBucketState" "The request is not valid with the current state of the bucket.";
    INVALID_DIGEST 400 "InvalidDigest" "The Content-MD5 you specified is not valid: it must be the base64 of 16 bytes.";
    INVALID_LOG_TARGET 400 "InvalidTargetBucketForLogging" "The target bucket for logging does not exist.";
    INVALID_ENCRYPTION_ALGORITHM 400 "InvalidEncryptionAlgorithmError" "The Encryption request you specified is not valid. Supported value: AES256.";
    INVALID_LOCATION 400 "InvalidLocationConstraint" "The specified location constraint is not valid. Leave it out or use this server's region.";
    INVALID_OBJECT_STATE 403 "InvalidObjectState" "The operation is not valid for the current state of the object.";
    INVALID_PART 400 "InvalidPart" "One or more of the specified parts could not be found. The part may not have been uploaded, or the specified entity tag may not match the part's entity tag.";
    INVALID_PART_NUMBER 416 "InvalidPartNumber" "The requested partnumber is not satisfiable";
    INVALID_PART_ORDER 400 "InvalidPartOrder" "The list of parts was not in ascending order. The parts list must be specified in order by part number.";
    INVALID_POLICY_DOCUMENT 400 "InvalidPolicyDocument" "The content of the form does not meet the conditions specified in the policy document.";
    INVALID_REDIRECT 400 "InvalidRedirectLocation" "The website redirect location is not valid.";
    INVALID_RANGE 416 "InvalidRange" "The requested range is not satisfiable";
    INVALID_REQUEST 400 "InvalidRequest" "Invalid Request";
    INVALID_STORAGE_CLASS 400 "InvalidStorageClass" "The storage class you specified is not valid. Use STANDARD, or leave x-amz-storage-class out.";
    INVALID_TAG 400 "InvalidTag" "The tag provided was not a valid tag. This error can occur if the tag did not pass input validation.";
    MALFORMED_POLICY 400 "MalformedPolicy" "Policy has invalid resource or is not valid JSON of the access-policy language.";
    NO_SUCH_BUCKET_POLICY 404 "NoSuchBucketPolicy" "The bucket policy does not exist.";
    NO_SUCH_PUBLIC_ACCESS_BLOCK 404 "NoSuchPublicAccessBlockConfiguration" "The public access block configuration was not found.";
    INVALID_TOKEN 400 "InvalidToken" "The provided token is malformed or otherwise not valid. It may have been revoked, or belong to another access key: ask for new temporary credentials.";
    INVALID_URI 400 "InvalidURI" "Couldn't parse the specified URI.";
    IDEMPOTENCY_MISMATCH 400 "IdempotencyParameterMismatch" "Parameters on this idempotent request are inconsistent with parameters used in previous request(s).";
    INVALID_WRITE_OFFSET 400 "InvalidWriteOffset" "The write offset value that you specified does not match the current object size.";
    KEY_TOO_LONG 400 "KeyTooLongError" "Your key is too long: at most 1024 bytes of UTF-8.";
    INVALID_RETENTION_PERIOD 400 "InvalidRetentionPeriod" "The retention period is not valid.";
    MALFORMED_ACL 400 "MalformedACLError" "The XML you provided was not well-formed or did not validate against our published schema.";
    MALFORMED_POST 400 "MalformedPOSTRequest" "The body of your POST request is not well-formed multipart/form-data.";
    MALFORMED_TRAILER 400 "MalformedTrailerError" "The request contained trailing data that was not well-formed or did not conform to our published schema.";
    MALFORMED_XML 400 "MalformedXML" "The XML you provided was not well-formed or did not validate against our published schema.";
    MESSAGE_TOO_LARGE 400 "MaxMessageLengthExceeded" "Your request was too large.";
    METADATA_TOO_LARGE 400 "MetadataTooLarge" "Your metadata headers exceed the maximum allowed metadata size of 2 KB.";
    METHOD_NOT_ALLOWED 405 "MethodNotAllowed" "The specified method is not allowed against this resource.";
    MISSING_CONTENT_LENGTH 411 "MissingContentLength" "You must provide the Content-Length HTTP header.";
    MISSING_REQUEST_BODY 400 "MissingRequestBodyError" "Request body is empty.";
    MISSING_SECURITY_HEADER 400 "MissingSecurityHeader" "Your request is missing a required header.";
    NO_OWNERSHIP_CONTROLS 404 "OwnershipControlsNotFoundError" "The bucket ownership controls were not found";
    NO_LOCK_CONFIGURATION 404 "ObjectLockConfigurationNotFoundError" "Object Lock configuration does not exist for this bucket";
    NO_LOCK_OF_OBJECT 404 "NoSuchObjectLockConfiguration" "The specified object does not have a ObjectLock configuration";
    NO_REPLICATION 404 "ReplicationConfigurationNotFoundError" "The replication configuration was not found";
    NO_SUCH_CONFIGURATION 404 "NoSuchConfiguration" "The specified configuration does not exist.";
    NO_SUCH_CORS 404 "NoSuchCORSConfiguration" "The CORS configuration does not exist";
    NO_SUCH_LIFECYCLE 404 "NoSuchLifecycleConfiguration" "The lifecycle configuration does not exist";
    NO_SUCH_WEBSITE 404 "NoSuchWebsiteConfiguration" "The specified bucket does not have a website configuration";
    KMS_NOT_FOUND 400 "KMS.NotFoundException" "Invalid keyId";
    NO_BUCKET_ENCRYPTION 404 "ServerSideEncryptionConfigurationNotFoundError" "The server side encryption configuration was not found";
    NO_SUCH_BUCKET 404 "NoSuchBucket" "The specified bucket does not exist";
    NO_SUCH_KEY 404 "NoSuchKey" "The specified key does not exist.";
    NO_SUCH_TAG_SET 404 "NoSuchTagSet" "The TagSet does not exist";
    NO_SUCH_UPLOAD 404 "NoSuchUpload" "The specified upload does not exist. The upload ID may be invalid, or the upload may have been aborted or completed.";
    NO_SUCH_VERSION 404 "NoSuchVersion" "The specified version does not exist.";
    NOT_IMPLEMENTED 501 "NotImplemented" "A header or parameter you provided implies functionality that is not implemented.";
    NOT_MODIFIED 304 "NotModified" "Not Modified";
    NOT_SIGNED_UP 403 "NotSignedUp" "Your account is not signed up.";
    PRECONDITION_FAILED 412 "PreconditionFailed" "At least one of the pre-conditions you specified did not hold";
    QUOTA_EXCEEDED 400 "XMinioAdminBucketQuotaExceeded" "Bucket quota exceeded";
    REQUEST_NOT_VALID_YET 403 "AccessDenied" "Request is not valid yet: its date lies in the future. Check the clock of the signer.";
    REQUEST_TIME_SKEWED 403 "RequestTimeTooSkewed" "The difference between the request time and the current time is too large. Set the clock of the client.";
    REQUEST_TIMEOUT 400 "RequestTimeout" "Your socket connection to the server was not read from or written to within the timeout period. Idle or too slow connections are closed.";
    SIGNATURE_MISMATCH 403 "SignatureDoesNotMatch" "The request signature we calculated does not match the signature you provided. Check your access key, your secret key and the signing method.";
    SLOW_DOWN 503 "SlowDown" "Please reduce your request rate and try again.";
    STORAGE_FULL 507 "StorageFull" "The drives are full. Delete objects or add drives, then try again.";
    TOO_MANY_TAGS 400 "BadRequest" "Object tags cannot be greater than 10";
    TOO_MANY_PARTS 400 "TooManyParts" "You have attempted to add more parts than the maximum of 10000 that are allowed for this object. You can use the CopyObject operation to copy this object to another and then add more data to the newly copied object.";
    UNAVAILABLE 503 "ServiceUnavailable" "Too few drives answer to be sure of the outcome. Bring drives back (see `ashlar info`), then try again.";
    UNEXPECTED_CONTENT 400 "UnexpectedContent" "This request does not support content";
    UNRESOLVABLE_GRANT 400 "UnresolvableGrantByEmailAddress" "Grantees cannot be given by e-mail address. Use a canonical id or a group.";
    URI_TOO_LONG 414 "URITooLong" "The request target is too long.";
}

/// A failed request: what the client will read.
#[derive(Debug)]
pub struct Fault(Box<Inner>);

#[derive(Debug)]
struct Inner {
    code: Code,
    message: Cow<'static, str>,
    extra: Vec<(&'static str, String)>,
    headers: HeaderMap,
    close: bool,
    cause: Option<String>,
}

impl Fault {
    /// The code with its standing message.
    pub fn new(code: Code) -> Fault {
        Fault::with(code, code.text)
    }

    /// The code with a message for this case; the message should say what to do.
    pub fn with(code: Code, message: impl Into<Cow<'static, str>>) -> Fault {
        Fault(Box::new(Inner {
            code,
            message: message.into(),
            extra: Vec::new(),
            headers: HeaderMap::new(),
            close: false,
            cause: None,
        }))
    }

    /// `InvalidArgument` with AWS's two extra elements.
    pub fn argument(name: &'static str, value: &str, message: impl Into<Cow<'static, str>>) -> Fault {
        Fault::with(Code::INVALID_ARGUMENT, message)
            .element("ArgumentName", name)
            .element("ArgumentValue", truncated(value))
    }

    /// `NotImplemented`, naming what is missing.
    pub fn not_implemented(what: &str) -> Fault {
        Fault::with(
            Code::NOT_IMPLEMENTED,
            format!("{what} is not implemented by this server. Nothing was changed."),
        )
    }

    /// `InternalError`; `cause` goes to the log, never to the client.
    pub fn internal(cause: impl std::fmt::Display) -> Fault {
        let mut fault = Fault::new(Code::INTERNAL);
        fault.0.cause = Some(cause.to_string());
        fault
    }

    /// Notes what the log should know and the client should not.
    #[must_use]
    pub fn because(mut self, cause: impl std::fmt::Display) -> Fault {
        self.0.cause = Some(cause.to_string());
        self
    }

    /// Adds an XML element to the answer.
    #[must_use]
    pub fn element(mut self, name: &'static str, value: impl Into<String>) -> Fault {
        self.0.extra.push((name, value.into()));
        self
    }

    /// Adds a response header.
    #[must_use]
    pub fn header(mut self, name: HeaderName, value: HeaderValue) -> Fault {
        self.0.headers.insert(name, value);
        self
    }

    /// The connection cannot be trusted any more: close it after the answer.
    #[must_use]
    pub fn closing(mut self) -> Fault {
        self.0.close = true;
        self
    }

    /// The code.
    pub fn code(&self) -> Code {
        self.0.code
    }

    /// The status.
    pub fn status(&self) -> StatusCode {
        StatusCode::from_u16(self.0.code.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    /// The message for the client.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// What only the log may know.
    pub fn cause(&self) -> Option<&str> {
        self.0.cause.as_deref()
    }

    /// The elements that name its subject.
    pub fn elements(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.0.extra.iter().map(|(name, value)| (*name, value.as_str()))
    }

    /// Whether the connection is to be closed.
    pub fn closes(&self) -> bool {
        self.0.close
    }

    /// Headers to send with it.
    pub fn headers(&self) -> &HeaderMap {
        &self.0.headers
    }

    /// The error document.
    pub fn document(&self, resource: &str, request_id: &str, host_id: &str) -> String {
        let mut xml = Xml::new();
        xml.open("Error").leaf("Code", self.0.code.name).leaf("Message", &self.0.message);
        for (name, value) in &self.0.extra {
            xml.leaf(name, value);
        }
        xml.leaf("Resource", resource).leaf("RequestId", request_id).leaf("HostId", host_id).close();
        xml.finish()
    }
}

/// Bounds what is echoed of the client's own input.
fn truncated(value: &str) -> String {
    value.chars().take(256).collect()
}

/// Results of everything that answers a request.
pub type Outcome<T> = Result<T, Fault>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_a_status_and_a_message() {
        for code in Code::ALL {
            assert!((300..600).contains(&code.status), "{}", code.name);
            assert!(!code.text.is_empty(), "{}", code.name);
        }
    }

    #[test]
    fn cause_is_not_in_the_error_document() {
        let fault = Fault::internal("drive /dev/secret broke").element("Key", "a<b");
        let text = fault.document("/b/k", "ID", "HOST");
        assert!(!text.contains("secret"), "{text}");
        assert!(text.contains("<Key>a&lt;b</Key>"), "{text}");
        assert!(
            text.starts_with("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error><Code>InternalError</Code>")
        );
    }
}
