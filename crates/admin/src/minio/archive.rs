//! Export archives of identities, as `mc admin cluster iam export` writes and `import` reads them: a ZIP file
//! with one JSON document per kind.
//!
//! Invariants: only the seven known files are read, each once and at most [`FILE`] bytes of it, whatever
//! sizes the archive states; names in the archive are never used as paths.
//!
//! Must not depend on: the caller.

use std::collections::BTreeMap;
use std::io::{Cursor, Read as _, Write as _};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipArchive, ZipWriter};

use super::answers::{invalid, parse_time, time};
use crate::admin_request::Refusal;
use crate::transfer::{Document, Group, Key, User};

/// Maximum bytes read of one file in the archive.
const FILE: usize = 8 << 20;
/// Maximum number of files in the archive; MinIO writes seven.
const FILES: usize = 64;
const FOLDER: &str = "iam-assets";

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct AUser {
    #[serde(default)]
    secret_key: String,
    #[serde(default)]
    status: String,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct AGroup {
    #[serde(default)]
    version: u32,
    #[serde(default)]
    status: String,
    #[serde(default)]
    members: Option<Vec<String>>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct AKey {
    parent: String,
    access_key: String,
    secret_key: String,
    #[serde(default)]
    groups: Option<Vec<String>>,
    #[serde(default)]
    claims: Option<Value>,
    #[serde(default)]
    session_policy: Value,
    #[serde(default)]
    status: String,
    #[serde(default)]
    name: String,
    #[serde(default)]
    description: String,
    #[serde(default)]
    expiration: Option<String>,
}

#[derive(Serialize, Deserialize)]
struct AMapping {
    #[serde(default)]
    version: u32,
    #[serde(default)]
    policy: String,
}

type Mappings = BTreeMap<String, AMapping>;

/// Reads an archive.
///
/// # Errors
/// It is not a ZIP file, or one of its files is invalid.
pub fn read(bytes: &[u8]) -> Result<Document, Refusal> {
    let mut archive =
        ZipArchive::new(Cursor::new(bytes)).map_err(|e| invalid(format!("this is no ZIP file: {e}")))?;
    if archive.len() > FILES {
        return Err(invalid(format!("the archive has {} files, more than {FILES}", archive.len())));
    }
    let policies: BTreeMap<String, Value> = file(&mut archive, "policies")?;
    let users: BTreeMap<String, AUser> = file(&mut archive, "users")?;
    let groups: BTreeMap<String, AGroup> = file(&mut archive, "groups")?;
    let keys: BTreeMap<String, AKey> = file(&mut archive, "svcaccts")?;
    let mut mappings = |name: &str| {
        let all: Mappings = file(&mut archive, name)?;
        let names = |m: &AMapping| -> Vec<String> {
            m.policy.split(',').map(str::trim).filter(|p| !p.is_empty()).map(str::to_owned).collect()
        };
        let all = all.iter().map(|(n, m)| (n.clone(), names(m))).filter(|(_, p)| !p.is_empty());
        Ok::<_, Refusal>(all.collect::<BTreeMap<_, _>>())
    };
    let (user_policies, group_policies) = (mappings("user_mappings")?, mappings("group_mappings")?);
    let federated_user_policies = mappings("stsuser_mappings")?;
    // MinIO stores policies of groups of external directories together with those of its own groups.
    let of_directory = |name: &String| !groups.contains_key(name) && name.contains('=');
    let (federated_group_policies, group_policies) =
        group_policies.into_iter().partition(|(name, _)| of_directory(name));
    let on = |status: &str| !matches!(status, "disabled" | "off");
    let users =
        users.into_iter().map(|(n, u)| (n, User { secret: u.secret_key, enabled: on(&u.status) })).collect();
    let keys = keys.into_iter().map(|(n, k)| Ok((n, key(k)?))).collect::<Result<_, Refusal>>()?;
    let groups = groups
        .into_iter()
        .map(|(n, g)| (n, Group { enabled: on(&g.status), members: g.members.unwrap_or_default() }));
    Ok(Document {
        policies,
        users,
        groups: groups.collect(),
        keys,
        user_policies,
        group_policies,
        federated_user_policies,
        federated_group_policies,
    })
}

fn key(k: AKey) -> Result<Key, Refusal> {
    // An empty policy restricts nothing, as in MinIO.
    let bounds = k.session_policy.as_object().is_some_and(|o| !o.is_empty());
    Ok(Key {
        enabled: !matches!(k.status.as_str(), "disabled" | "off"),
        policy: bounds.then_some(k.session_policy),
        expires_ms: k.expiration.as_deref().map(parse_time).transpose()?.flatten(),
        user: k.parent,
        secret: k.secret_key,
        name: k.name,
        description: k.description,
    })
}

/// One of the files; the default value if it is missing.
fn file<T: for<'de> Deserialize<'de> + Default>(
    archive: &mut ZipArchive<Cursor<&[u8]>>,
    name: &str,
) -> Result<T, Refusal> {
    let name = format!("{FOLDER}/{name}.json");
    let entry = match archive.by_name(&name) {
        Ok(entry) => entry,
        Err(zip::result::ZipError::FileNotFound) => return Ok(T::default()),
        Err(e) => return Err(invalid(format!("{name} cannot be unpacked: {e}"))),
    };
    let mut text = Vec::new();
    entry
        .take(FILE as u64 + 1)
        .read_to_end(&mut text)
        .map_err(|e| invalid(format!("{name} cannot be unpacked: {e}")))?;
    if text.len() > FILE {
        return Err(invalid(format!("{name} has more than {FILE} bytes")));
    }
    let read: Option<T> = serde_json::from_slice(&text).map_err(|e| Refusal {
        code: "XMinioAdminConfigBadJSON",
        ..invalid(format!("{name} is not understood: {e}"))
    })?;
    Ok(read.unwrap_or_default())
}

/// Writes an archive.
///
/// # Errors
/// The archive exceeds the size limit.
pub fn write(all: &Document) -> Result<Vec<u8>, Refusal> {
    let word = |enabled: bool| if enabled { "enabled" } else { "disabled" }.to_owned();
    let users: BTreeMap<_, _> = all
        .users
        .iter()
        .map(|(n, u)| (n, AUser { secret_key: u.secret.clone(), status: word(u.enabled) }))
        .collect();
    let groups: BTreeMap<_, _> = all
        .groups
        .iter()
        .map(|(n, g)| (n, AGroup { version: 1, status: word(g.enabled), members: Some(g.members.clone()) }))
        .collect();
    let keys: BTreeMap<_, _> = all.keys.iter().map(|(n, k)| (n, a_key(n, k))).collect();
    let mappings = |of: &BTreeMap<String, Vec<String>>| -> Mappings {
        of.iter().map(|(n, p)| (n.clone(), AMapping { version: 1, policy: p.join(",") })).collect()
    };
    let mut of_groups = mappings(&all.group_policies);
    of_groups.extend(mappings(&all.federated_group_policies));
    let value = |v: serde_json::Result<Value>| v.unwrap_or_default();
    let files = [
        ("policies", value(serde_json::to_value(&all.policies))),
        ("users", value(serde_json::to_value(&users))),
        ("groups", value(serde_json::to_value(&groups))),
        ("svcaccts", value(serde_json::to_value(&keys))),
        ("user_mappings", value(serde_json::to_value(mappings(&all.user_policies)))),
        ("group_mappings", value(serde_json::to_value(of_groups))),
        ("stsuser_mappings", value(serde_json::to_value(mappings(&all.federated_user_policies)))),
    ];
    let failed = |e: &dyn std::fmt::Display| Refusal {
        status: http::StatusCode::INTERNAL_SERVER_ERROR,
        code: "InternalError",
        why: format!("the archive cannot be written: {e}"),
    };
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    let options =
        SimpleFileOptions::default().compression_method(CompressionMethod::Deflated).unix_permissions(0o600);
    for (name, value) in files {
        zip.start_file(format!("{FOLDER}/{name}.json"), options).map_err(|e| failed(&e))?;
        zip.write_all(value.to_string().as_bytes()).map_err(|e| failed(&e))?;
    }
    Ok(zip.finish().map_err(|e| failed(&e))?.into_inner())
}

fn a_key(name: &str, k: &Key) -> AKey {
    let kind = if k.policy.is_some() { "embedded-policy" } else { "inherited-policy" };
    AKey {
        parent: k.user.clone(),
        access_key: name.to_owned(),
        secret_key: k.secret.clone(),
        groups: None,
        claims: Some(serde_json::json!({ "accessKey": name, "parent": k.user, "sa-policy": kind })),
        session_policy: k.policy.clone().unwrap_or_default(),
        status: if k.enabled { "on" } else { "off" }.to_owned(),
        name: k.name.clone(),
        description: k.description.clone(),
        expiration: Some(time(k.expires_ms.unwrap_or(0))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn archive_round_trips() {
        let mut all = Document::default();
        all.policies.insert("p".into(), json!({ "Statement": [] }));
        all.users.insert("u".into(), User { secret: "s".into(), enabled: false });
        all.groups.insert("g".into(), Group { enabled: true, members: vec!["u".into()] });
        let key = Key {
            user: "u".into(),
            secret: "t".into(),
            enabled: false,
            policy: Some(json!({ "Version": "2012-10-17" })),
            expires_ms: Some(1_700_000_000_000),
            name: "n".into(),
            description: "d".into(),
        };
        all.keys.insert("k".into(), key);
        all.user_policies.insert("u".into(), vec!["p".into(), "q".into()]);
        all.group_policies.insert("g".into(), vec!["p".into()]);
        all.federated_user_policies.insert("uid=x,dc=y".into(), vec!["p".into()]);
        all.federated_group_policies.insert("cn=x,dc=y".into(), vec!["p".into()]);
        let bytes = write(&all).unwrap();
        let again = read(&bytes).unwrap();
        assert_eq!(serde_json::to_value(&again).unwrap(), serde_json::to_value(&all).unwrap());
        for cut in (0..bytes.len()).step_by(7) {
            assert!(read(&bytes[..cut]).is_err(), "cut at {cut}");
        }
    }

    #[test]
    fn oversized_archive_member_is_refused() {
        let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
        let options = SimpleFileOptions::default().compression_method(CompressionMethod::Deflated);
        zip.start_file(format!("{FOLDER}/users.json"), options).unwrap();
        zip.write_all(&vec![b' '; FILE + 1]).unwrap();
        let bytes = zip.finish().unwrap().into_inner();
        assert!(bytes.len() < 64 << 10);
        assert!(read(&bytes).err().unwrap().why.contains("more than"));
        let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
        for i in 0..=FILES {
            zip.start_file(format!("{i}"), options).unwrap();
        }
        assert!(read(&zip.finish().unwrap().into_inner()).is_err());
    }
}
