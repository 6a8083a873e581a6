//! Calls about settings, and identity providers, which are settings too.
//!
//! Must not depend on: permissions for changes, secrets of settings.

use ashlar_iam::DEFAULT_TARGET;
use serde_json::{Value, json};

use super::answers::{self, CallResult, invalid, unsupported};
use super::call_context::{CallContext, Minio, string};
use super::kv::{self, Line};
use super::table::Call;
use crate::admin_request::Refusal;
use crate::settings::{SUBSYSTEMS, Subsystem};
use crate::table::Route;

/// All stored settings.
async fn all(minio: &Minio, c: &CallContext) -> Result<Vec<Value>, Refusal> {
    let mut ours = minio.call_api(c, Route::SettingList, "", Value::Null).await?;
    Ok(ours["settings"].as_array_mut().map(std::mem::take).unwrap_or_default())
}

async fn put(minio: &Minio, c: &CallContext, line: Line) -> Result<(), Refusal> {
    let values: serde_json::Map<String, Value> =
        line.values.into_iter().map(|(n, v)| (n, json!(v))).collect();
    let name = format!("{}/{}", line.subsystem, line.target);
    minio.call_api(c, Route::SettingPut, &name, json!({ "values": values })).await.map(drop)
}

pub async fn get(minio: &Minio, c: &CallContext) -> CallResult {
    let key = c.query("key").trim();
    let (subsystem, target) = kv::subject(key)?;
    let find_call = key.contains(':');
    let set = all(minio, c).await?;
    let fits = |s: &&Value| {
        string(s, "subsystem") == subsystem.name && (!find_call || string(s, "target") == target)
    };
    let lines: Vec<String> = set.iter().filter(fits).map(kv::written).collect();
    match lines.is_empty() {
        true if find_call => Err(nothing(subsystem.name, &target)),
        true => answers::text(format!("{} {}\n", subsystem.name, empty(subsystem))),
        false => answers::text(lines.join("\n") + "\n"),
    }
}

/// All names of a subsystem without values; MinIO shows unset settings this way.
fn empty(subsystem: &Subsystem) -> String {
    subsystem.names.iter().map(|n| format!("{}=", n.name)).collect::<Vec<_>>().join(" ")
}

fn nothing(subsystem: &str, target: &str) -> Refusal {
    Refusal {
        code: "XMinioAdminNoSuchConfigTarget",
        ..invalid(format!("nothing is set for {subsystem}:{target}"))
    }
}

pub async fn set(minio: &Minio, c: &CallContext) -> CallResult {
    let line = kv::line(c.text()?)?;
    if line.values.is_empty() {
        return Err(Refusal {
            code: "XMinioConfigError",
            ..invalid(format!("say what to set: {} NAME=VALUE", line.subsystem))
        });
    }
    put(minio, c, line).await?;
    answers::applied()
}

/// Removes a target, or only the named values.
pub async fn delete(minio: &Minio, c: &CallContext) -> CallResult {
    let text = c.text()?.trim();
    let mut words = text.split_whitespace();
    let (subsystem, target) = kv::subject(words.next().unwrap_or_default())?;
    let names: Vec<(String, String)> = words.map(|w| (w.to_owned(), String::new())).collect();
    if names.is_empty() {
        let name = format!("{}/{target}", subsystem.name);
        match minio.call_api(c, Route::SettingRemove, &name, Value::Null).await {
            // An unset setting counts as reset.
            Err(no) if no.code == "NoSuchEntity" => {}
            done => drop(done?),
        }
    } else {
        put(minio, c, Line { subsystem: subsystem.name, target, values: names }).await?;
    }
    answers::applied()
}

pub async fn help(minio: &Minio, c: &CallContext) -> CallResult {
    // Descriptions need the same permission as the settings.
    all(minio, c).await?;
    let (wanted, key) = (c.query("subSys"), c.query("key"));
    if wanted.is_empty() {
        let entry = |s: &Subsystem| json!({ "key": s.name, "description": s.help, "optional": true, "type": "", "multipleTargets": s.several });
        let keys: Vec<Value> = SUBSYSTEMS.iter().map(entry).collect();
        return answers::document(
            &json!({ "subSys": "", "description": "", "multipleTargets": false, "keysHelp": keys }),
        );
    }
    let (s, _) = kv::subject(wanted)?;
    let names = s.names.iter().filter(|n| key.is_empty() || n.name == key);
    let keys: Vec<Value> = names
        .map(|n| json!({ "key": n.name, "description": n.help, "optional": true, "type": "string", "multipleTargets": false }))
        .collect();
    if keys.is_empty() {
        return Err(Refusal {
            code: "XMinioConfigError",
            ..invalid(format!("{} has no setting \"{key}\"", s.name))
        });
    }
    answers::document(
        &json!({ "subSys": s.name, "description": s.help, "multipleTargets": s.several, "keysHelp": keys }),
    )
}

/// Set values as lines, unset ones as comments. Secrets are redacted; importing the lines keeps them.
pub async fn export(minio: &Minio, c: &CallContext) -> CallResult {
    let set = all(minio, c).await?;
    let mut out = String::new();
    for s in SUBSYSTEMS {
        let of: Vec<String> =
            set.iter().filter(|v| string(v, "subsystem") == s.name).map(kv::written).collect();
        match of.is_empty() {
            true => out.push_str(&format!("# {} {}\n", s.name, empty(s))),
            false => out.push_str(&(of.join("\n") + "\n")),
        }
    }
    answers::text(out)
}

/// Applies all lines; applies none if one of them is invalid.
pub async fn import(minio: &Minio, c: &CallContext) -> CallResult {
    let lines = c.text()?.lines().map(str::trim).filter(|l| !l.is_empty() && !l.starts_with('#'));
    let lines: Vec<Line> = lines.map(kv::line).collect::<Result<_, _>>()?;
    for line in lines {
        if !line.values.is_empty() {
            put(minio, c, line).await?;
        }
    }
    answers::applied()
}

/// The subsystem of `openid` or `ldap`, and the target.
fn provider(c: &CallContext) -> Result<(&'static str, &str), Refusal> {
    let target = c.names.get(1).map_or(DEFAULT_TARGET, String::as_str);
    match c.names[0].as_str() {
        "openid" => Ok(("identity_openid", target)),
        "ldap" if target != DEFAULT_TARGET => Err(Refusal {
            code: "XMinioAdminConfigLDAPNonDefaultConfigName",
            ..invalid("there is one directory, and it has no name")
        }),
        "ldap" => Ok(("identity_ldap", target)),
        other => {
            let no = unsupported(&format!("The identity provider type \"{other}\""));
            Err(Refusal { code: "XMinioAdminConfigInvalidIDPType", ..no })
        }
    }
}

pub async fn idp_put(minio: &Minio, c: &CallContext) -> CallResult {
    let (subsystem, target) = provider(c)?;
    let known = Subsystem::find(subsystem).ok_or_else(|| unsupported(subsystem))?;
    let text = c.text()?.trim();
    // Some clients repeat the subsystem before the values.
    let text =
        text.strip_prefix(subsystem).map_or(text, |t| t.trim_start_matches(|c: char| !c.is_whitespace()));
    let values = kv::values(known, text)?;
    let exists = find(minio, c, subsystem, target).await?.is_some();
    let code = match (c.call, exists) {
        (Call::IdpAdd, true) => Some("XMinioAdminConfigIDPCfgNameAlreadyExists"),
        (Call::IdpUpdate, false) => Some("XMinioAdminConfigIDPCfgNameDoesNotExist"),
        _ => None,
    };
    if let Some(code) = code {
        let word = if exists { "set already" } else { "not set" };
        return Err(Refusal { code, ..invalid(format!("{subsystem}:{target} is {word}")) });
    }
    put(minio, c, Line { subsystem: known.name, target: target.to_owned(), values }).await?;
    answers::applied()
}

async fn find(
    minio: &Minio,
    c: &CallContext,
    subsystem: &str,
    target: &str,
) -> Result<Option<Value>, Refusal> {
    let fits = |s: &Value| string(s, "subsystem") == subsystem && string(s, "target") == target;
    Ok(all(minio, c).await?.into_iter().find(fits))
}

pub async fn idp_info(minio: &Minio, c: &CallContext) -> CallResult {
    let (subsystem, target) = provider(c)?;
    let found = find(minio, c, subsystem, target).await?;
    let Some(found) = found.or_else(|| (target == DEFAULT_TARGET).then(|| json!({ "values": {} }))) else {
        return Err(nothing(subsystem, target));
    };
    let values = found["values"].as_object().into_iter().flatten();
    let info: Vec<Value> =
        values.map(|(n, v)| json!({ "key": n, "value": v, "isCfg": true, "isEnv": false })).collect();
    answers::document(&json!({ "type": c.names[0], "name": target, "info": info }))
}

pub async fn idp_list(minio: &Minio, c: &CallContext) -> CallResult {
    let (subsystem, _) = provider(c)?;
    let mut list: Vec<Value> = all(minio, c)
        .await?
        .iter()
        .filter(|s| string(s, "subsystem") == subsystem)
        .map(|s| json!({ "type": c.names[0], "name": s["target"], "enabled": string(&s["values"], "enable") != "off" }))
        .collect();
    if list.is_empty() {
        list.push(json!({ "type": c.names[0], "name": DEFAULT_TARGET, "enabled": false }));
    }
    answers::document(&Value::Array(list))
}

pub async fn idp_remove(minio: &Minio, c: &CallContext) -> CallResult {
    let (subsystem, target) = provider(c)?;
    match minio.call_api(c, Route::SettingRemove, &format!("{subsystem}/{target}"), Value::Null).await {
        Err(no) if no.code == "NoSuchEntity" => {
            let code = "XMinioAdminConfigIDPCfgNameDoesNotExist";
            Err(Refusal { status: http::StatusCode::BAD_REQUEST, code, why: no.why })
        }
        Err(no) => Err(no),
        Ok(_) => answers::applied(),
    }
}
