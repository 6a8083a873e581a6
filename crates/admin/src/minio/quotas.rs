//! Calls about quotas of buckets.
//!
//! Must not depend on: how buckets are counted.

use serde::Deserialize;
use serde_json::{Value, json};

use super::answers::{self, CallResult, invalid, unsupported};
use super::call_context::{CallContext, Minio};
use crate::table::Route;

#[derive(Deserialize, Default)]
#[serde(default)]
struct Quota {
    quota: u64,
    size: u64,
    rate: u64,
    requests: u64,
    quotatype: String,
}

pub async fn get(minio: &Minio, c: &CallContext) -> CallResult {
    let ours = minio.call_api(c, Route::QuotaGet, c.query("bucket"), Value::Null).await?;
    let limit = ours["quota"].as_u64().unwrap_or(0);
    let mut out = json!({ "quota": limit, "size": limit, "rate": 0, "requests": 0 });
    if limit > 0 {
        out["quotatype"] = json!("hard");
    }
    answers::document(&out)
}

pub async fn set(minio: &Minio, c: &CallContext) -> CallResult {
    let order: Quota = c.document()?;
    if order.rate > 0 || order.requests > 0 {
        return Err(unsupported("A limit of a bucket's bandwidth or requests"));
    }
    if !matches!(order.quotatype.as_str(), "" | "hard") {
        return Err(invalid(format!("\"{}\" is no kind of quota; there is \"hard\"", order.quotatype)));
    }
    // Clients use both names; 0 means no limit.
    let limit = if order.size > 0 { order.size } else { order.quota };
    let bucket = c.query("bucket");
    if limit == 0 {
        minio.call_api(c, Route::QuotaRemove, bucket, Value::Null).await?;
    } else {
        minio.call_api(c, Route::QuotaPut, bucket, json!({ "quota": limit })).await?;
    }
    answers::done()
}
