//! Limits of buckets over HTTP, below the administration's base.
//!
//! | request | document |
//! |---|---|
//! | `GET quotas/BUCKET` | answers `{"bucket", "quota", "bytes", "versions"}`, null where there is no limit |
//! | `PUT quotas/BUCKET` | `{"quota": bytes}`; the bucket is counted before it is answered |
//! | `DELETE quotas/BUCKET` | |
//!
//! Invariant: a limit is answered only once it is kept.
//!
//! Must never know: how a bucket is counted.

use ashlar_object::{Error, Store};
use http::StatusCode;
use serde::Deserialize;

use super::admin_request::{Ask, Refusal, Reply, wrong};
use super::api::{self, state::BucketQuota};
use super::table::Route;

/// What a bucket may hold.
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

/// Answers a request about limits. What is asked for was permitted.
pub async fn answer(store: &Store, ask: &Ask) -> Reply {
    let name = &ask.name;
    let bucket = store.bucket(name).map_err(|e| refusal(e, name))?;
    match ask.route {
        Route::QuotaPut => {
            let order: Order = ask.document()?;
            if order.quota == 0 {
                return Err(wrong("a quota of 0 bytes lets nothing in; remove the quota, or give more"));
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
