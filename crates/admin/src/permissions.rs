//! The administration API for what the caller may do: the answer by which a console shows what is possible.
//!
//! | request | document |
//! |---|---|
//! | `POST permissions` | `{"checks": [{"action": "s3:PutObject", "resource": "bucket/key"}]}` |
//!
//! Invariants: the answer is about the caller only, so that everybody may ask; it says no more about a bucket
//! than the caller's own requests would. It is a forecast: conditions that depend on a request, such as its
//! headers, are decided when the request comes.
//!
//! Must not depend on: which screen asks.

use ashlar_node::clock::now_ms;
use ashlar_policy::{Action, BucketRules, Context as Facts, Policy, Request as Question, decide};
use ashlar_s3::Service;
use ashlar_s3::ops::bucket_policy;
use http::StatusCode;
use serde::Deserialize;
use utoipa::ToSchema;

use super::admin_request::{AdminRequest, AdminResult, bad_request};
use super::api::{self, people as shape};

/// Most checks of one request.
const MOST: usize = 256;

/// What the caller wants to know about itself.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PermissionOrder {
    /// At most 256.
    checks: Vec<PermissionCheck>,
}

/// One request that the caller may want to make.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PermissionCheck {
    /// For instance `s3:PutObject` or `admin:ListUsers`.
    action: String,
    /// A bucket, or a bucket, a slash and a key; empty for what is about neither.
    #[serde(default)]
    resource: String,
}

/// Answers which of the checks the caller's policies, and those of the buckets, allow.
///
/// # Errors
/// An action does not exist, or there are too many checks.
pub fn answer(service: &Service, req: &AdminRequest) -> AdminResult {
    let order: PermissionOrder = req.document()?;
    if order.checks.len() > MOST {
        return Err(bad_request(format!("at most {MOST} checks at once, not {}", order.checks.len())));
    }
    let facts = Facts { now_ms: now_ms(), source_ip: Some(req.ip), secure: req.tls, ..Facts::default() };
    let principal = req.caller.principal();
    let mut checks = Vec::with_capacity(order.checks.len());
    for check in order.checks {
        let action = Action::find(&check.action)
            .ok_or_else(|| bad_request(format!("\"{}\" is no action", check.action)))?;
        let (bucket, object) = check.resource.split_once('/').unwrap_or((&check.resource, ""));
        let stored = service.context().store.bucket(bucket).ok();
        let text = stored.as_ref().and_then(|b| b.documents.get(bucket_policy::POLICY).cloned());
        // A policy that cannot be read allows nothing here either.
        let rules = text.and_then(|t| Policy::parse_for_bucket(bucket, t.as_bytes()).ok());
        let rules = BucketRules { policy: rules.as_ref(), ..BucketRules::default() };
        let question = Question::new(action, bucket, object, &principal, &facts);
        let allowed = decide(&question, &req.caller.authority(rules, false)).allowed;
        checks.push(shape::Permission { action: check.action, resource: check.resource, allowed });
    }
    Ok((StatusCode::OK, api::value(shape::Permissions { checks })))
}
