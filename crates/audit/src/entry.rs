//! A record in the form that receivers of MinIO's audit webhook know.
//!
//! The names are those of MinIO's `audit.Entry`, version 1; receivers decode JSON and ignore unknown fields.
//! `tags`, a free field of MinIO's entry, says which policy decided.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::Record;
use crate::record::time_text;

#[derive(Serialize)]
struct Entry<'a> {
    version: &'static str,
    deploymentid: &'a str,
    time: String,
    event: &'static str,
    trigger: &'static str,
    api: Api<'a>,
    remotehost: String,
    #[serde(rename = "requestID")]
    request_id: &'a str,
    #[serde(rename = "userAgent", skip_serializing_if = "str::is_empty")]
    user_agent: &'a str,
    #[serde(rename = "requestQuery", skip_serializing_if = "BTreeMap::is_empty")]
    query: BTreeMap<&'a str, &'a str>,
    #[serde(rename = "requestHeader", skip_serializing_if = "BTreeMap::is_empty")]
    headers: BTreeMap<&'a str, &'a str>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    tags: BTreeMap<&'a str, String>,
    #[serde(rename = "accessKey", skip_serializing_if = "str::is_empty")]
    access_key: &'a str,
    #[serde(rename = "parentUser", skip_serializing_if = "str::is_empty")]
    parent: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    error: &'a str,
}

#[derive(Serialize)]
struct Api<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    bucket: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    object: &'a str,
    status: &'a str,
    #[serde(rename = "statusCode")]
    status_code: u16,
    rx: u64,
    tx: u64,
    #[serde(rename = "timeToResponse")]
    time: String,
    #[serde(rename = "timeToResponseInNS")]
    nanos: String,
}

/// Appends one line.
pub fn write(record: &Record, deployment: &str, out: &mut Vec<u8>) {
    let status = http::StatusCode::from_u16(record.status).ok().and_then(|s| s.canonical_reason());
    let mut tags = BTreeMap::new();
    if !record.decided_by.is_empty() {
        tags.insert("action", record.action.to_owned());
        tags.insert("decidedBy", record.decided_by.clone());
    }
    if let Some(version) = &record.version {
        tags.insert("versionId", version.clone());
    }
    if !record.kind.is_empty() {
        tags.insert("credential", record.kind.to_owned());
    }
    let nanos = record.micros.saturating_mul(1000);
    let entry = Entry {
        version: "1",
        deploymentid: deployment,
        time: time_text(record.time),
        event: "",
        trigger: "incoming",
        api: Api {
            name: record.operation,
            bucket: &record.bucket,
            object: &record.key,
            status: status.unwrap_or_default(),
            status_code: record.status,
            rx: record.bytes_in,
            tx: record.bytes_out,
            time: format!("{nanos}ns"),
            nanos: nanos.to_string(),
        },
        remotehost: record.ip.to_string(),
        request_id: &record.request_id,
        user_agent: &record.user_agent,
        query: record.query.iter().map(|(n, v)| (*n, v.as_str())).collect(),
        headers: record.headers.iter().map(|(n, v)| (*n, v.as_str())).collect(),
        tags,
        access_key: &record.access_key,
        parent: &record.parent,
        error: record.error,
    };
    if serde_json::to_writer(&mut *out, &entry).is_ok() {
        out.push(b'\n');
    }
}
