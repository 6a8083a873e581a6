//! Calls about access keys (service accounts).
//!
//! Must not depend on: the rules about permissions for keys.

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::answers::{self, CallResult, invalid, no_content, parse_time, unsupported};
use super::call_context::{CallContext, Minio, string};
use crate::admin_request::Refusal;
use crate::table::Route;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[derive(Default)]
struct NewKey {
    policy: Option<Value>,
    target_user: String,
    access_key: String,
    secret_key: String,
    name: String,
    description: String,
    comment: String,
    expiration: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Update {
    new_policy: Option<Value>,
    new_secret_key: String,
    new_status: String,
    new_name: String,
    new_description: String,
    new_expiration: Option<String>,
}

/// The text, unless it is empty.
fn filled(text: String) -> Option<String> {
    Some(text).filter(|t| !t.is_empty())
}

fn ends(text: Option<&str>) -> Result<Option<i64>, Refusal> {
    text.map(parse_time).transpose().map(Option::flatten)
}

pub async fn add(minio: &Minio, c: &CallContext) -> CallResult {
    let new: NewKey = c.document()?;
    let description = if new.description.is_empty() { new.comment } else { new.description };
    let expires = ends(new.expiration.as_deref())?;
    let document = json!({ "user": filled(new.target_user), "access_key": filled(new.access_key),
        "secret": filled(new.secret_key), "policy": new.policy, "expires_ms": expires, "name": new.name,
        "description": description });
    let ours = minio.call_api(c, Route::KeyCreate, "", document).await?;
    let end = answers::time(expires.unwrap_or(0));
    answers::document(&json!({ "credentials": { "accessKey": ours["access_key"], "secretKey": ours["secret"],
        "expiration": end } }))
}

pub async fn update(minio: &Minio, c: &CallContext) -> CallResult {
    let update: Update = c.document()?;
    let mut document = Map::new();
    let mut set = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            document.insert(name.to_owned(), value);
        }
    };
    set("policy", update.new_policy);
    set("secret", filled(update.new_secret_key).map(Value::from));
    set("name", filled(update.new_name).map(Value::from));
    set("description", filled(update.new_description).map(Value::from));
    if let Some(end) = update.new_expiration.as_deref() {
        set("expires_ms", Some(json!(parse_time(end)?.unwrap_or(0))));
    }
    match update.new_status.as_str() {
        "" => {}
        "on" | "enabled" => set("enabled", Some(json!(true))),
        "off" | "disabled" => set("enabled", Some(json!(false))),
        other => return Err(invalid(format!("the status is \"on\" or \"off\", not \"{other}\""))),
    }
    if document.is_empty() {
        return Err(invalid("say what is to be changed"));
    }
    minio.call_api(c, Route::KeyEdit, c.query("accessKey"), Value::Object(document)).await?;
    no_content()
}

fn described(k: &Value) -> Value {
    let status = if k["enabled"].as_bool().unwrap_or(false) { "on" } else { "off" };
    let mut out =
        json!({ "parentUser": k["user"], "accountStatus": status, "impliedPolicy": k["policy"].is_null() });
    for name in ["name", "description"] {
        if !string(k, name).is_empty() {
            out[name] = k[name].clone();
        }
    }
    if let Some(at) = k["expires_ms"].as_i64() {
        out["expiration"] = json!(answers::time(at));
    }
    out
}

/// The key with its policy as text; the text is empty if only the policies of the user apply.
fn with_policy(k: &Value) -> Value {
    let mut out = described(k);
    out["policy"] = json!(if k["policy"].is_null() { String::new() } else { k["policy"].to_string() });
    out
}

pub async fn info(minio: &Minio, c: &CallContext) -> CallResult {
    let k = minio.call_api(c, Route::KeyGet, c.query("accessKey"), Value::Null).await?;
    answers::document(&with_policy(&k))
}

pub async fn info_any(minio: &Minio, c: &CallContext) -> CallResult {
    let k = minio.call_api(c, Route::KeyGet, c.query("accessKey"), Value::Null).await?;
    let mut out = with_policy(&k);
    out["AccessKey"] = k["access_key"].clone();
    out["userType"] = json!("Service Account");
    out["userProvider"] = json!("builtin");
    answers::document(&out)
}

/// Sessions are not stored, so there is nothing to look up.
pub fn info_temporary(c: &CallContext) -> CallResult {
    let key = c.query("accessKey");
    let mut no = unsupported("");
    no.status = http::StatusCode::NOT_FOUND;
    no.code = "XMinioAdminNoSuchAccessKey";
    no.why = format!(
        "there is no access key called \"{key}\", and of temporary credentials this server keeps no list"
    );
    Err(no)
}

fn listed(k: &Value) -> Value {
    let mut out = described(k);
    // `mc` requires a time; 1970 means none.
    out["expiration"] = json!(answers::time(k["expires_ms"].as_i64().unwrap_or(0)));
    out["accessKey"] = k["access_key"].clone();
    out
}

/// A name, encoded for a query.
fn quoted(name: &str) -> String {
    let mut out = Vec::new();
    ashlar_s3::target::canonical_encode(&mut out, name, false);
    String::from_utf8(out).unwrap_or_default()
}

pub async fn list(minio: &Minio, c: &CallContext) -> CallResult {
    let of = Some(c.query("user")).filter(|u| !u.is_empty()).unwrap_or(&c.req.caller.user);
    let ours = minio.call_api_with_query(c, Route::KeyList, &format!("user={}", quoted(of))).await?;
    let all: Vec<Value> = ours["keys"].as_array().into_iter().flatten().map(listed).collect();
    answers::document(&json!({ "accounts": all }))
}

/// The keys of several users, by user. `of`: the query parameter with the users; `userDNs` are of a
/// directory.
pub async fn bulk(minio: &Minio, c: &CallContext, of: &str) -> CallResult {
    let kind = c.query("listType");
    let keys = match kind {
        "svcacc-only" | "all" => true,
        "users-only" | "sts-only" => false,
        other => return Err(invalid(format!("\"{other}\" is no listType"))),
    };
    let (all, mut users) = (c.query("all") == "true", c.all(of));
    if all && !users.is_empty() {
        return Err(invalid("name users, or ask for all, not both"));
    }
    let mut found: Vec<Value> = Vec::new();
    // `mc` asks for the caller's own keys when it receives exactly this message.
    let plainly = |no: Refusal| match no.code {
        "AccessDenied" => Refusal { why: "Access Denied.".into(), ..no },
        _ => no,
    };
    if all {
        let ours = match of {
            "users" => minio.call_api(c, Route::UserList, "", Value::Null).await.map_err(plainly)?,
            _ => Value::Null,
        };
        users =
            ours["users"].as_array().into_iter().flatten().map(|u| string(u, "name").to_owned()).collect();
        let ours = minio.call_api_with_query(c, Route::KeyList, "all=true").await.map_err(plainly)?;
        found.extend(ours["keys"].as_array().cloned().unwrap_or_default());
        // Root, who is not a stored user, and users of directories, whose names are distinguished names.
        let others = found.iter().map(|k| string(k, "user").to_owned()).filter(|u| !users.contains(u));
        let others = others.filter(|u| u.contains('=') == (of == "userDNs"));
        let others: std::collections::BTreeSet<String> = others.collect();
        users.extend(others);
    } else {
        if users.is_empty() {
            users.push(c.req.caller.user.clone());
        }
        for user in &users {
            let ours =
                minio.call_api_with_query(c, Route::KeyList, &format!("user={}", quoted(user))).await?;
            found.extend(ours["keys"].as_array().cloned().unwrap_or_default());
        }
    }
    let mut out = Map::new();
    for user in users {
        let of: Vec<Value> = found.iter().filter(|k| string(k, "user") == user).map(listed).collect();
        let only = matches!(kind, "svcacc-only" | "sts-only");
        // Users without keys of the requested kind are left out.
        if only && (of.is_empty() || !keys) {
            continue;
        }
        let of = if keys { json!(of) } else { Value::Null };
        out.insert(user, json!({ "serviceAccounts": of, "stsKeys": null }));
    }
    answers::document(&Value::Object(out))
}

pub async fn remove(minio: &Minio, c: &CallContext) -> CallResult {
    minio.call_api(c, Route::KeyRemove, c.query("accessKey"), Value::Null).await?;
    no_content()
}
