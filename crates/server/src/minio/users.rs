//! Calls about users and groups.
//!
//! Must not depend on: permissions.

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::called::{Called, Minio, string, strings};
use super::say::{self, Said, invalid, no_content, not_here};
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
    let mut out = json!({ "status": word(&u["enabled"]), "updatedAt": say::time(u["changed_ms"].as_i64().unwrap_or(0)),
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

pub async fn list(door: &Minio, c: &Called) -> Said {
    if c.ask.query.has("bucket") {
        return Err(not_here("A list of a bucket's users"));
    }
    let ours = door.ask(c, Route::UserList, "", Value::Null).await?;
    let all: Map<String, Value> = ours["users"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|u| (string(u, "name").to_owned(), user(u)))
        .collect();
    say::document(&Value::Object(all))
}

pub async fn info(door: &Minio, c: &Called) -> Said {
    let ours = door.ask(c, Route::UserGet, c.query("accessKey"), Value::Null).await?;
    say::document(&user(&ours))
}

pub async fn add(door: &Minio, c: &Called) -> Said {
    let new: NewUser = c.document()?;
    if !new.policy.is_empty() {
        return Err(not_here("A policy given with a new user (attach it afterwards)"));
    }
    if new.secret_key.is_empty() {
        return Err(Refusal {
            code: "XMinioAdminNoSecretKey",
            ..invalid("the user's secret key is missing")
        });
    }
    let enabled = if new.status.is_empty() { true } else { is_enabled(&new.status)? };
    let document = json!({ "secret": new.secret_key, "enabled": enabled });
    door.ask(c, Route::UserPut, c.query("accessKey"), document).await?;
    say::done()
}

pub async fn status(door: &Minio, c: &Called) -> Said {
    let route = if is_enabled(c.query("status"))? { Route::UserEnable } else { Route::UserDisable };
    door.ask(c, route, c.query("accessKey"), Value::Null).await?;
    say::done()
}

pub async fn remove(door: &Minio, c: &Called) -> Said {
    door.ask(c, Route::UserRemove, c.query("accessKey"), Value::Null).await?;
    say::done()
}

pub async fn revoke(door: &Minio, c: &Called) -> Said {
    if c.names[0] != "builtin" {
        return Err(not_here(&format!("Revoking sessions of users of \"{}\"", c.names[0])));
    }
    if !c.query("tokenRevokeType").is_empty() {
        return Err(not_here("Revoking sessions by type (all of a user's are revoked)"));
    }
    let user = if c.query("user").is_empty() { &c.ask.who.user } else { c.query("user") };
    door.ask(c, Route::UserRevoke, user, Value::Null).await?;
    no_content()
}

pub async fn members(door: &Minio, c: &Called) -> Said {
    let order: Members = c.document()?;
    let members = order.members.unwrap_or_default();
    if order.is_remove && members.is_empty() {
        door.ask(c, Route::GroupRemove, &order.group, Value::Null).await?;
    } else if order.is_remove {
        door.ask(c, Route::GroupMembers, &order.group, json!({ "remove": members })).await?;
    } else {
        door.ask(c, Route::GroupMembers, &order.group, json!({ "add": members })).await?;
    }
    say::done()
}

pub async fn group(door: &Minio, c: &Called) -> Said {
    let g = door.ask(c, Route::GroupGet, c.query("group"), Value::Null).await?;
    say::document(&json!({ "name": g["name"], "status": word(&g["enabled"]), "members": g["members"],
        "policy": strings(&g["policies"]).join(","), "updatedAt": say::time(g["changed_ms"].as_i64().unwrap_or(0)) }))
}

pub async fn groups(door: &Minio, c: &Called) -> Said {
    let ours = door.ask(c, Route::GroupList, "", Value::Null).await?;
    let names: Vec<&str> =
        ours["groups"].as_array().into_iter().flatten().map(|g| string(g, "name")).collect();
    say::document(&json!(names))
}

pub async fn group_status(door: &Minio, c: &Called) -> Said {
    let route = if is_enabled(c.query("status"))? { Route::GroupEnable } else { Route::GroupDisable };
    door.ask(c, route, c.query("group"), Value::Null).await?;
    say::done()
}
