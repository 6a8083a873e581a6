//! From the operation of a request to the function that carries it out.

use super::{
    acl, attributes, bucket, bucket_policy, copy, cors, delete, get, lifecycle, list, lock, logging,
    multipart, notification, put, rename, tagging, unset, website,
};
use crate::answer::Answer;
use crate::call::Call;
use crate::context::Context;
use crate::fault::{Fault, Outcome};
use crate::operation::Operation;
use crate::sse;

/// Operations that may take minutes, because they move whole objects.
pub fn is_long(op: Operation) -> bool {
    use Operation as Op;
    matches!(op, Op::CopyObject | Op::RenameObject | Op::UploadPartCopy | Op::CompleteMultipartUpload)
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
        Op::GetBucketVersioning => bucket::get_versioning(call),
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
        Op::GetBucketEncryption => sse::bucket::get(cx, call),
        Op::PutBucketEncryption => Box::pin(sse::bucket::put(cx, call)).await,
        Op::DeleteBucketEncryption => Box::pin(sse::bucket::delete(cx, call)).await,
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
        Op::ListenNotification | Op::ListenBucketNotification => {
            Box::pin(notification::listen(cx, call)).await
        }
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
