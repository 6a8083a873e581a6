//! Calls about encryption keys at rest, below `/minio/kms/v1/`.
//!
//! Must not depend on: where keys are stored.

use serde_json::{Value, json};

use super::answers::{self, CallResult, time};
use super::call_context::{CallContext, Minio};
use crate::table::Route;

pub async fn status(minio: &Minio, c: &CallContext) -> CallResult {
    let ours = minio.call_api(c, Route::KmsStatus, "", Value::Null).await?;
    let state = if ours["works"] == true { "online" } else { "offline" };
    let find_call = ours["endpoint"].as_str().filter(|e| !e.is_empty()).unwrap_or("builtin");
    // Of several key servers it is unknown which one will answer.
    let endpoints: serde_json::Map<String, Value> =
        find_call.split(',').map(|e| (e.to_owned(), state.into())).collect();
    answers::document(&json!({
        "name": ours["driver"],
        "default-key-id": ours["default_key"],
        "endpoints": endpoints,
        "state": { "KeyStoreReachable": ours["works"], "KeystoreAvailable": ours["works"] },
    }))
}

pub async fn create(minio: &Minio, c: &CallContext) -> CallResult {
    minio.call_api(c, Route::KmsKeyCreate, c.query("key-id"), Value::Null).await?;
    answers::done()
}

pub async fn key_status(minio: &Minio, c: &CallContext) -> CallResult {
    let mut name = c.query("key-id").to_owned();
    if name.is_empty() {
        // As in MinIO, the default key.
        let ours = minio.call_api(c, Route::KmsStatus, "", Value::Null).await?;
        name = ours["default_key"].as_str().unwrap_or_default().to_owned();
    }
    let ours = minio.call_api(c, Route::KmsKeyGet, &name, Value::Null).await?;
    answers::document(&json!({ "key-id": ours["name"] }))
}

pub async fn list(minio: &Minio, c: &CallContext) -> CallResult {
    let ours = minio.call_api(c, Route::KmsKeyList, "", Value::Null).await?;
    let pattern = c.query("pattern");
    let prefix = pattern.strip_suffix('*').unwrap_or(pattern);
    let complete = !pattern.is_empty() && !pattern.ends_with('*');
    let fits = |name: &str| if complete { name == pattern } else { name.starts_with(prefix) };
    let keys = ours["keys"].as_array().into_iter().flatten();
    let keys = keys.filter(|k| k["name"].as_str().is_some_and(fits));
    let shown = keys.map(|k| {
        let created = k["created_ms"].as_i64().unwrap_or(0);
        json!({ "name": k["name"], "createdAt": time(created), "createdBy": "" })
    });
    answers::document(&Value::Array(shown.collect()))
}
