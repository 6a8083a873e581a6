//! The permissions that an operation needs: from the operation and its head to actions, and the check of them
//! all.
//!
//! Invariants: every operation has its action in the table of operations (`operation::table`), so that a new
//! one does not compile without; no answer depends on buckets or keys before the decision.
//!
//! Must not depend on: how decisions are made.

use ashlar_iam::Kind;
use ashlar_policy::{Action, Level};
use smallvec::{SmallVec, smallvec};

use crate::call::Call;
use crate::context::Context;
use crate::fault::{Code, Fault, Outcome};
use crate::headers;
use crate::operation::Operation;
use crate::ops::{bucket, bucket_policy, copy, rename};
use crate::permit::{Need, asks_for_acl, carried};

impl Call {
    /// Refuses unless the caller has all permissions that `op` needs.
    pub(crate) async fn permit_all(&self, cx: &Context, op: Operation) -> Outcome<()> {
        let anonymous = self.verified.identity().kind == Kind::Anonymous;
        if anonymous && op == Operation::DeleteObjects {
            // Decided key by key, without revealing which buckets exist.
            if !bucket_policy::exists(&self.buckets, &self.bucket) {
                return Err(Fault::new(Code::ACCESS_DENIED));
            }
        }
        let source = match op {
            Operation::CopyObject | Operation::UploadPartCopy => Some(copy::source(self)?),
            _ => None,
        };
        let version = self.query.filled("versionId");
        for action in needs(op, self, version.is_some()) {
            let key = if action.level() == Level::Object { &self.key } else { "" };
            self.permit(cx, &Need { action, bucket: &self.bucket, key, version }).await?;
        }
        if let Some(from) = source {
            let version = from.version.map(ashlar_object::version_text);
            let action = reading(version.is_some());
            let need = Need { action, bucket: &from.bucket, key: &from.key, version: version.as_deref() };
            self.permit(cx, &need).await?;
        }
        if op == Operation::RenameObject {
            // What is renamed is read there and gone afterwards.
            let from = rename::source(self)?;
            for action in [Action::GetObject, Action::DeleteObject] {
                self.permit(cx, &Need { action, bucket: &self.bucket, key: &from, version: None }).await?;
            }
        }
        if anonymous && self.query.iter().any(|(name, _)| name.starts_with("response-")) {
            return Err(Fault::with(
                Code::INVALID_REQUEST,
                "Request specific response headers cannot be used for anonymous GET requests.",
            ));
        }
        Ok(())
    }

    /// Hides from callers without permission to list that a key does not exist, as S3 does.
    pub(crate) async fn hide(&self, cx: &Context, fault: Fault) -> Fault {
        if fault.code() != Code::NO_SUCH_KEY || self.verified.identity().is_unbounded_root() {
            return fault;
        }
        let source = copy::source(self).ok().map(|s| s.bucket);
        let bucket = source.as_deref().unwrap_or(&self.bucket);
        let need = Need { action: Action::ListBucket, bucket, key: "", version: None };
        if self.may(cx, &need).await { fault } else { Fault::new(Code::ACCESS_DENIED) }
    }
}

/// What an operation needs on its own bucket and key: its own action, and those of what it carries.
fn needs(op: Operation, call: &Call, versioned: bool) -> SmallVec<[Action; 2]> {
    // Decided when the document has been read: conditions are about the tags in it.
    let first = op.action(versioned).filter(|_| op != Operation::PutObjectTagging);
    let Some(first) = first else { return smallvec![] };
    let mut all = smallvec![first];
    if op == Operation::GetObjectAttributes {
        all.push(reading(versioned));
    }
    let makes = matches!(op, Operation::PutObject | Operation::CopyObject | Operation::CreateMultipartUpload);
    let header = |name: &'static str| headers::ascii(&call.headers, name).filter(|v| !v.is_empty());
    if makes {
        all.extend(carried(&call.headers));
    }
    if op == Operation::DeleteBucket && bucket::forced(&call.headers) {
        all.push(Action::ForceDeleteBucket);
    }
    if op == Operation::CreateBucket {
        let lock = header("x-amz-bucket-object-lock-enabled");
        if lock.is_some_and(|v| v.eq_ignore_ascii_case("true")) {
            all.extend([Action::PutBucketObjectLockConfiguration, Action::PutBucketVersioning]);
        }
        if asks_for_acl(&call.headers) {
            all.push(Action::PutBucketAcl);
        }
        if header("x-amz-object-ownership").is_some() {
            all.push(Action::PutBucketOwnershipControls);
        }
    }
    all
}

/// Reading an object, or one version of it.
fn reading(versioned: bool) -> Action {
    if versioned { Action::GetObjectVersion } else { Action::GetObject }
}
