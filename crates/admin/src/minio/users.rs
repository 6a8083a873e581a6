//! Calls about users and groups.
//!
//! Must not depend on: permissions.

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::answers::{self, CallResult, invalid, no_content, unsupported};
use super::call_context::{CallContext, Minio, string, strings};
use crate::admin_request::Refusal;
use crate::table::Route;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct NewUser {
    #[serde(default)]
    secret_key: String,
    #[serde(default)]
    policy: String,
    #[serde(default)]
    status: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Members {
    group: String,
    #[serde(default)]
    members: Option<Vec<String>>,
    #[serde(default)]
    is_remove: bool,
}

/// `enabled` or `disabled`.
pub fn word(enabled: &Value) -> &'static str {
    if enabled.as_bool().unwrap_or(false) { "enabled" } else { "disabled" }
}

/// Parses `enabled` or `disabled`.
fn is_enabled(status: &str) -> Result<bool, Refusal> {
    match status {
        "enabled" => Ok(true),
        "disabled" => Ok(false),
        other => Err(invalid(format!("the status is \"enabled\" or \"disabled\", not \"{other}\""))),
    }
}

fn user(u: &Value) -> Value {
    let mut out = json!({ "status": word(&u["enabled"]), "updatedAt": answers::time(u["changed_ms"].as_i64().unwrap_or(0)),
        "userAuthInfo": { "type": "builtin" } });
    let (policies, groups) = (strings(&u["policies"]), strings(&u["groups"]));
    if !policies.is_empty() {
        out["policyName"] = json!(policies.join(","));
    }
    if !groups.is_empty() {
        out["memberOf"] = json!(groups);
    }
    out
}

pub async fn list(minio: &Minio, c: &CallContext) -> CallResult {
    if c.req.query.has("bucket") {
        return Err(unsupported("A list of a bucket's users"));
    }
    let ours = minio.call_api(c, Route::UserList, "", Value::Null).await?;
    let all: Map<String, Value> = ours["users"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|u| (string(u, "name").to_owned(), user(u)))
        .collect();
    answers::document(&Value::Object(all))
}

pub async fn info(minio: &Minio, c: &CallContext) -> CallResult {
    let ours = minio.call_api(c, Route::UserGet, c.query("accessKey"), Value::Null).await?;
    answers::document(&user(&ours))
}

pub async fn add(minio: &Minio, c: &CallContext) -> CallResult {
    let new: NewUser = c.document()?;
    if !new.policy.is_empty() {
        return Err(unsupported("A policy given with a new user (attach it afterwards)"));
    }
    if new.secret_key.is_empty() {
        return Err(Refusal {
            code: "XMinioAdminNoSecretKey",
            ..invalid("the user's secret key is missing")
        });
    }
    let enabled = if new.status.is_empty() { true } else { is_enabled(&new.status)? };
    let document = json!({ "secret": new.secret_key, "enabled": enabled });
    minio.call_api(c, Route::UserPut, c.query("accessKey"), document).await?;
    answers::done()
}

pub async fn status(minio: &Minio, c: &CallContext) -> CallResult {
    let route = if is_enabled(c.query("status"))? { Route::UserEnable } else { Route::UserDisable };
    minio.call_api(c, route, c.query("accessKey"), Value::Null).await?;
    answers::done()
}

pub async fn remove(minio: &Minio, c: &CallContext) -> CallResult {
    minio.call_api(c, Route::UserRemove, c.query("accessKey"), Value::Null).await?;
    answers::done()
}

pub async fn revoke(minio: &Minio, c: &CallContext) -> CallResult {
    if c.names[0] != "builtin" {
        return Err(unsupported(&format!("Revoking sessions of users of \"{}\"", c.names[0])));
    }
    if !c.query("tokenRevokeType").is_empty() {
        return Err(unsupported("Revoking sessions by type (all of a user's are revoked)"));
    }
    let user = if c.query("user").is_empty() { &c.req.caller.user } else { c.query("user") };
    minio.call_api(c, Route::UserRevoke, user, Value::Null).await?;
    no_content()
}

pub async fn members(minio: &Minio, c: &CallContext) -> CallResult {
    let order: Members = c.document()?;
    let members = order.members.unwrap_or_default();
    if order.is_remove && members.is_empty() {
        minio.call_api(c, Route::GroupRemove, &order.group, Value::Null).await?;
    } else if order.is_remove {
        minio.call_api(c, Route::GroupMembers, &order.group, json!({ "remove": members })).await?;
    } else {
        minio.call_api(c, Route::GroupMembers, &order.group, json!({ "add": members })).await?;
    }
    answers::done()
}

pub async fn group(minio: &Minio, c: &CallContext) -> CallResult {
    let g = minio.call_api(c, Route::GroupGet, c.query("group"), Value::Null).await?;
    answers::document(&json!({ "name": g["name"], "status": word(&g["enabled"]), "members": g["members"],
        "policy": strings(&g["policies"]).join(","), "updatedAt": answers::time(g["changed_ms"].as_i64().unwrap_or(0)) }))
}

pub async fn groups(minio: &Minio, c: &CallContext) -> CallResult {
    let ours = minio.call_api(c, Route::GroupList, "", Value::Null).await?;
    let names: Vec<&str> =
        ours["groups"].as_array().into_iter().flatten().map(|g| string(g, "name")).collect();
    answers::document(&json!(names))
}

pub async fn group_status(minio: &Minio, c: &CallContext) -> CallResult {
    let route = if is_enabled(c.query("status"))? { Route::GroupEnable } else { Route::GroupDisable };
    minio.call_api(c, route, c.query("group"), Value::Null).await?;
    answers::done()
}
