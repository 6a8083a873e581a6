//! The administration API for quotas of buckets.
//!
//! | request | document |
//! |---|---|
//! | `GET quotas/BUCKET` | answers `{"bucket", "quota", "bytes", "versions"}`; null means no quota |
//! | `PUT quotas/BUCKET` | `{"quota": bytes}`; the bucket is counted before the answer |
//! | `DELETE quotas/BUCKET` | |
//!
//! Invariant: the answer to a change is sent after the change is stored.
//!
//! Must not depend on: how buckets are counted.

use ashlar_object::{Error, Store};
use http::StatusCode;
use serde::Deserialize;

use super::admin_request::{AdminRequest, AdminResult, Refusal, bad_request};
use super::api::{self, state::BucketQuota};
use super::table::Route;

/// The quota of a bucket.
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = QuotaOrder)]
pub struct Order {
    /// Bytes.
    quota: u64,
}

fn refusal(e: Error, bucket: &str) -> Refusal {
    let fault = ashlar_s3::ops::fault(e, bucket, "");
    fault.into()
}

/// Answers a request about quotas. The caller has checked the permission.
pub async fn answer(store: &Store, req: &AdminRequest) -> AdminResult {
    let name = &req.name;
    let bucket = store.bucket(name).map_err(|e| refusal(e, name))?;
    match req.route {
        Route::QuotaPut => {
            let order: Order = req.document()?;
            if order.quota == 0 {
                return Err(bad_request(
                    "a quota of 0 bytes allows no objects; remove the quota, or set a larger one",
                ));
            }
            store.set_quota(&bucket, Some(order.quota)).await.map_err(|e| refusal(e, name))?;
        }
        Route::QuotaRemove => store.set_quota(&bucket, None).await.map_err(|e| refusal(e, name))?,
        _ => {}
    }
    // As it is now.
    let bucket = store.bucket(name).map_err(|e| refusal(e, name))?;
    let (quota, usage) = (store.quota(&bucket), store.usage(&bucket));
    let known = usage.complete.then_some(usage.usage).filter(|_| quota.is_some());
    let answer = BucketQuota {
        bucket: name.clone(),
        quota,
        bytes: known.map(|u| u.bytes),
        versions: known.map(|u| u.versions),
    };
    Ok((StatusCode::OK, api::value(answer)))
}
