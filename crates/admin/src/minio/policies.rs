//! Calls about policies and to whom they are attached.
//!
//! Must not depend on: the rules of delegation.

use std::collections::{BTreeMap, BTreeSet};

use ashlar_node::clock::now_ms;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::answers::{self, CallResult, invalid};
use super::call_context::{CallContext, Minio, string, strings};
use super::table::Call;
use crate::admin_request::Refusal;
use crate::table::Route;

#[derive(Deserialize)]
struct Association {
    policies: Vec<String>,
    #[serde(default)]
    user: String,
    #[serde(default)]
    group: String,
}

pub async fn add(minio: &Minio, c: &CallContext) -> CallResult {
    let document: Value = serde_json::from_slice(&c.req.body).map_err(|e| Refusal {
        code: "XMinioMalformedIAMPolicy",
        ..invalid(format!("the policy is no JSON: {e}"))
    })?;
    minio.call_api(c, Route::PolicyPut, c.query("name"), document).await?;
    answers::done()
}

pub async fn info(minio: &Minio, c: &CallContext) -> CallResult {
    let p = minio.call_api(c, Route::PolicyGet, c.query("name"), Value::Null).await?;
    if c.query("v") != "2" {
        return answers::document(&p["document"]);
    }
    let mut out = json!({ "PolicyName": p["name"], "Policy": p["document"] });
    for (name, ours) in [("CreateDate", "made_ms"), ("UpdateDate", "changed_ms")] {
        if let Some(ms) = p[ours].as_i64().filter(|ms| *ms > 0) {
            out[name] = json!(answers::time(ms));
        }
    }
    answers::document(&out)
}

pub async fn list(minio: &Minio, c: &CallContext) -> CallResult {
    if c.req.query.has("bucket") {
        return Err(answers::unsupported("A list of a bucket's policies"));
    }
    let ours = minio.call_api(c, Route::PolicyList, "", Value::Null).await?;
    let all: Map<String, Value> = ours["policies"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|p| (string(p, "name").to_owned(), p["document"].clone()))
        .collect();
    answers::document(&Value::Object(all))
}

pub async fn remove(minio: &Minio, c: &CallContext) -> CallResult {
    minio.call_api(c, Route::PolicyRemove, c.query("name"), Value::Null).await?;
    answers::done()
}

/// Replaces the policies of a user or group. Also needs permission to read the user or group.
pub async fn set(minio: &Minio, c: &CallContext) -> CallResult {
    let (kind, route) = match c.query("isGroup") {
        "true" => ("group", Route::GroupGet),
        _ => ("user", Route::UserGet),
    };
    let name = c.query("userOrGroup");
    let has = minio.call_api(c, route, name, Value::Null).await?;
    let has: BTreeSet<&str> = strings(&has["policies"]).into_iter().collect();
    let want: BTreeSet<&str> =
        c.query("policyName").split(',').map(str::trim).filter(|p| !p.is_empty()).collect();
    for (route, policies) in [
        (Route::PolicyAttach, want.difference(&has).collect::<Vec<_>>()),
        (Route::PolicyDetach, has.difference(&want).collect::<Vec<_>>()),
    ] {
        if !policies.is_empty() {
            minio.call_api(c, route, "", json!({ "policies": policies, (kind): name })).await?;
        }
    }
    answers::done()
}

/// `of`: `federated_` for users and groups of external directories.
pub async fn associate(minio: &Minio, c: &CallContext, of: &str) -> CallResult {
    let order: Association = c.document()?;
    let (kind, name) = match (order.user.as_str(), order.group.as_str()) {
        (user, "") if !user.is_empty() => (format!("{of}user"), user),
        ("", group) if !group.is_empty() => (format!("{of}group"), group),
        _ => return Err(invalid("name either a user or a group")),
    };
    let to = json!({ "policies": order.policies, (kind): name });
    let (route, result) = match c.call {
        Call::PolicyAttach | Call::PolicyAttachLdap => (Route::PolicyAttach, "policiesAttached"),
        _ => (Route::PolicyDetach, "policiesDetached"),
    };
    let ours = minio.call_api(c, route, "", to).await?;
    answers::document(&json!({ (result): ours["changed"], "updatedAt": answers::time(now_ms()) }))
}

/// Attached policies: by user, by group, or by policy if none is named.
pub async fn entities(minio: &Minio, c: &CallContext) -> CallResult {
    let users = minio.call_api(c, Route::UserList, "", Value::Null).await?;
    let groups = minio.call_api(c, Route::GroupList, "", Value::Null).await?;
    let find_call = |list: &Value| -> BTreeMap<String, Value> {
        list.as_array().into_iter().flatten().map(|e| (string(e, "name").to_owned(), e.clone())).collect()
    };
    let (users, groups) = (find_call(&users["users"]), find_call(&groups["groups"]));
    let (of_users, of_groups, of_policies) = (c.all("user"), c.all("group"), c.all("policy"));
    let group_of = |name: &str| {
        let policies = groups.get(name).map(|g| g["policies"].clone()).unwrap_or_else(|| json!([]));
        json!({ "group": name, "policies": policies })
    };
    let mut out = json!({ "timestamp": answers::time(now_ms()) });
    let by_user = of_users.iter().filter_map(|n| users.get(n)).map(|u| {
        let groups: Vec<Value> = strings(&u["groups"]).into_iter().map(group_of).collect();
        json!({ "user": u["name"], "policies": u["policies"], "memberOfMappings": groups })
    });
    let by_user: Vec<Value> = by_user.collect();
    let by_group: Vec<Value> =
        of_groups.iter().filter(|n| groups.contains_key(*n)).map(|n| group_of(n)).collect();
    let all = of_users.is_empty() && of_groups.is_empty() && of_policies.is_empty();
    let mut by_policy: BTreeMap<&str, (Vec<&str>, Vec<&str>)> = BTreeMap::new();
    if all || !of_policies.is_empty() {
        for u in users.values() {
            strings(&u["policies"])
                .into_iter()
                .for_each(|p| by_policy.entry(p).or_default().0.push(string(u, "name")));
        }
        for g in groups.values() {
            strings(&g["policies"])
                .into_iter()
                .for_each(|p| by_policy.entry(p).or_default().1.push(string(g, "name")));
        }
        by_policy.retain(|p, _| all || of_policies.iter().any(|n| n == p));
    }
    let by_policy: Vec<Value> = by_policy
        .into_iter()
        .map(|(p, (users, groups))| json!({ "policy": p, "users": users, "groups": groups }))
        .collect();
    for (name, list) in
        [("userMappings", by_user), ("groupMappings", by_group), ("policyMappings", by_policy)]
    {
        if !list.is_empty() {
            out[name] = json!(list);
        }
    }
    answers::document(&out)
}

/// Policies attached to users and groups of external directories.
pub async fn entities_ldap(minio: &Minio, c: &CallContext) -> CallResult {
    let ours = minio.call_api(c, Route::MappingList, "", Value::Null).await?;
    let all = ours["mappings"].as_array().cloned().unwrap_or_default();
    let (users, groups, policies) = (c.all("user"), c.all("group"), c.all("policy"));
    let is_group = |m: &Value| m["group"].as_bool().unwrap_or(false);
    let of = |group: bool, kind: &str, find_call: &[String]| -> Vec<Value> {
        let fits = |m: &&Value| is_group(m) == group && find_call.iter().any(|n| n == string(m, "name"));
        all.iter().filter(fits).map(|m| json!({ (kind): m["name"], "policies": m["policies"] })).collect()
    };
    let (by_user, by_group) = (of(false, "user", &users), of(true, "group", &groups));
    let everything = users.is_empty() && groups.is_empty() && policies.is_empty();
    let mut by_policy: BTreeMap<&str, [Vec<&str>; 2]> = BTreeMap::new();
    for m in &all {
        for p in strings(&m["policies"]) {
            if everything || policies.iter().any(|n| n == p) {
                by_policy.entry(p).or_default()[usize::from(is_group(m))].push(string(m, "name"));
            }
        }
    }
    let by_policy: Vec<Value> = by_policy
        .into_iter()
        .map(|(p, [users, groups])| json!({ "policy": p, "users": users, "groups": groups }))
        .collect();
    let mut out = json!({ "timestamp": answers::time(now_ms()) });
    for (name, list) in
        [("userMappings", by_user), ("groupMappings", by_group), ("policyMappings", by_policy)]
    {
        if !list.is_empty() {
            out[name] = json!(list);
        }
    }
    answers::document(&out)
}
