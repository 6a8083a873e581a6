//! Requests about the lifecycle rules of a bucket.
//!
//! | request | document |
//! |---|---|
//! | `GET lifecycle/BUCKET` | when the last pass began and ended, and what it did |
//! | `POST lifecycle/BUCKET/test` `{"after", "at"}` | counts what the rules would do now, or at a given time; changes nothing |
//!
//! Must not depend on: how rules are carried out.

use ashlar_lifecycle::{Config, DOCUMENT};
use ashlar_node::Node;
use ashlar_node::clock::now_ms;
use ashlar_node::lifecycle::Counted;
use ashlar_object::{Error, OpenBucket};
use http::StatusCode;
use serde::Deserialize;

use super::admin_request::{AdminRequest, AdminResult, Refusal, bad_request};
use super::api::{self, state as shape};
use super::table::Route;

/// The request of a dry run.
#[derive(Deserialize, Default, utoipa::ToSchema)]
#[serde(deny_unknown_fields, default)]
#[schema(as = LifecycleTestOrder)]
pub struct Order {
    /// The time to evaluate the rules at, such as `2030-01-31T00:00:00Z`; by default now.
    at: Option<String>,
    /// Continues where the last answer ended.
    after: Option<String>,
}

/// Answers a request about a bucket. The caller has checked the permission.
pub async fn answer(node: &Node, req: &AdminRequest) -> AdminResult {
    let refusal = |e: Error| Refusal::from(ashlar_s3::ops::fault(e, &req.name, ""));
    let bucket = node.store.bucket(&req.name).map_err(refusal)?;
    let Some(text) = bucket.documents.get(DOCUMENT) else {
        let why = format!("the bucket \"{}\" has no lifecycle rules", bucket.name);
        return Err(Refusal { status: StatusCode::NOT_FOUND, code: "NoSuchLifecycleConfiguration", why });
    };
    let config = Config::decode(text).ok_or_else(|| bad_request("the bucket's rules cannot be read"))?;
    if req.route == Route::LifecycleTest {
        let order: Order = req.document()?;
        let answer = test(node, &bucket, &config, order).await.map_err(refusal)?;
        return Ok((StatusCode::OK, api::value(answer)));
    }
    let pass = node.lifecycle.last_pass(bucket.id);
    let counts = pass.counts;
    let time = |ms: i64| (ms > 0).then(|| ashlar_s3::date::format_iso(ms));
    let answer = shape::LifecycleStatus {
        bucket: bucket.name.clone(),
        rules: config.rules.len() as u64,
        began: time(pass.began_ms),
        ended: pass.ended_ms.and_then(time),
        running: pass.running,
        looked_at: counts.keys,
        expired: counts.current,
        removed_versions: counts.versions,
        removed_markers: counts.markers,
        aborted_uploads: counts.uploads,
        locked: counts.locked,
        failed: counts.failed,
    };
    Ok((StatusCode::OK, api::value(answer)))
}

/// Counts what the rules would do.
async fn test(
    node: &Node,
    bucket: &OpenBucket,
    config: &Config,
    order: Order,
) -> Result<shape::LifecycleTest, Error> {
    let at = match &order.at {
        None => now_ms(),
        Some(text) => ashlar_s3::date::parse_iso(text)
            .map(|s| s.saturating_mul(1000))
            .ok_or(Error::InvalidArgument("`at` is a time such as 2030-01-31T00:00:00Z"))?,
    };
    let counted = node.lifecycle.test(bucket, config, at, order.after.as_deref()).await?;
    Ok(test_document(bucket, config, at, counted))
}

fn test_document(bucket: &OpenBucket, config: &Config, at: i64, counted: Counted) -> shape::LifecycleTest {
    let rules = config.rules.iter().enumerate().map(|(i, rule)| {
        let h = counted.rules.get(&i).copied().unwrap_or_default();
        shape::LifecycleHits {
            id: rule.id.clone(),
            enabled: rule.enabled,
            expire: h.expire,
            remove_versions: h.remove,
            remove_markers: h.markers,
            abort_uploads: h.uploads,
            bytes: h.bytes,
        }
    });
    shape::LifecycleTest {
        bucket: bucket.name.clone(),
        at: ashlar_s3::date::format_iso(at),
        looked_at: counted.keys,
        locked: counted.locked,
        rules: rules.collect(),
        after: counted.after,
    }
}
