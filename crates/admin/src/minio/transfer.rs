//! Export and import of all identities in MinIO's archive format.
//!
//! Must not depend on: permissions.

use serde_json::{Map, Value, json};

use super::answers::{self, Answer, CallResult, invalid};
use super::archive;
use super::call_context::{CallContext, Minio, string};
use super::table::Call;
use crate::table::Route;
use crate::transfer::{Document, LIMIT};

pub async fn export(minio: &Minio, c: &CallContext) -> CallResult {
    let ours = minio.call_api(c, Route::IamExport, "", Value::Null).await?;
    let all: Document = serde_json::from_value(ours).map_err(|e| invalid(e.to_string()))?;
    Ok(Answer {
        status: http::StatusCode::OK,
        body: archive::write(&all)?,
        kind: "application/zip",
        applied: false,
        stream: None,
    })
}

pub async fn import(minio: &Minio, c: &CallContext) -> CallResult {
    let all = serde_json::to_value(archive::read(&c.req.body)?).map_err(|e| invalid(e.to_string()))?;
    if all.to_string().len() > LIMIT {
        return Err(invalid(format!("the identities have more than {LIMIT} bytes")));
    }
    let ours = minio.call_api(c, Route::IamImport, "", all).await?;
    if c.call == Call::IamImport {
        return answers::done();
    }
    answers::document(&report(ours["records"].as_array().map_or(&[], Vec::as_slice)))
}

/// The results of all records, by outcome and kind. MinIO's client cannot parse MinIO's own `error` field of
/// a failure, so the reason is also in `reason`.
fn report(records: &[Value]) -> Value {
    let mut out: Map<String, Value> = Map::new();
    for r in records {
        let list = match string(r, "kind") {
            "policy" => "policies",
            "user" => "users",
            "group" => "groups",
            "key" => "serviceAccounts",
            "user_policies" => "userPolicies",
            "group_policies" | "federated_group_policies" => "groupPolicies",
            _ => "stsPolicies",
        };
        let mapping = list.ends_with("Policies");
        let (name, outcome) = (string(r, "name"), string(r, "outcome"));
        let entry = match (outcome, mapping) {
            ("failed", true) => json!({ "name": name, "policies": r["policies"], "reason": r["why"] }),
            ("failed", false) => json!({ "name": name, "reason": r["why"] }),
            (_, true) => json!({ (name): r["policies"] }),
            (_, false) => json!(name),
        };
        let of = out.entry(outcome).or_insert_with(|| json!({}));
        match of[list].as_array_mut() {
            Some(all) => all.push(entry),
            None => of[list] = json!([entry]),
        }
    }
    Value::Object(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn import_report_has_minio_format() {
        let r = |kind: &str, name: &str, outcome: &str| json!({ "kind": kind, "name": name, "policies": ["p"], "outcome": outcome, "why": "w" });
        let out = report(&[
            r("user", "a", "added"),
            r("user", "b", "added"),
            r("user", "c", "failed"),
            r("user_policies", "a", "added"),
            r("key", "k", "skipped"),
            r("group_policies", "g", "failed"),
        ]);
        let want = json!({
            "added": { "users": ["a", "b"], "userPolicies": [{ "a": ["p"] }] },
            "skipped": { "serviceAccounts": ["k"] },
            "failed": { "users": [{ "name": "c", "reason": "w" }], "groupPolicies": [{ "name": "g", "policies": ["p"], "reason": "w" }] },
        });
        assert_eq!(out, want);
    }
}
