//! A call of MinIO's API whose sender is known, and how its translation asks our own API.
//!
//! Must not depend on: the translations, which all depend on this.

use std::sync::Arc;

use ashlar_s3::madmin::Key;
use http::StatusCode;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::say::invalid;
use super::table::Call;
use super::vault::Vault;
use crate::admin::Admin;
use crate::admin_request::{Ask, Refusal};
use crate::table::Route;

/// The door.
pub struct Minio {
    pub(super) admin: Arc<Admin>,
    pub(super) vault: Vault,
}

/// A call whose sender is known and may make it.
pub struct Called {
    pub(super) call: Call,
    /// The names in the path.
    pub(super) names: Vec<String>,
    /// The sender, the query, and the document, opened.
    pub(super) ask: Ask,
    /// Host and port that the client asked.
    pub(super) host: String,
    /// What the document was opened with.
    pub(super) key: Option<Key>,
}

impl Called {
    /// A value of the query; empty if it is not there.
    pub fn query(&self, name: &str) -> &str {
        self.ask.query.get(name).unwrap_or_default()
    }

    /// All values of a name in the query.
    pub fn all(&self, name: &str) -> Vec<String> {
        self.ask
            .query
            .iter()
            .filter(|(n, v)| *n == name && !v.is_empty())
            .map(|(_, v)| v.to_owned())
            .collect()
    }

    /// The document.
    pub fn document<T: DeserializeOwned>(&self) -> Result<T, Refusal> {
        serde_json::from_slice(&self.ask.body).map_err(|e| Refusal {
            status: StatusCode::BAD_REQUEST,
            code: "XMinioAdminConfigBadJSON",
            why: format!("the document is not understood: {e}"),
        })
    }

    /// The document, as text.
    pub fn text(&self) -> Result<&str, Refusal> {
        std::str::from_utf8(&self.ask.body).map_err(|_| invalid("the document is no text"))
    }
}

impl Minio {
    /// Asks our own API, in the name of whoever called.
    pub async fn ask(&self, c: &Called, route: Route, name: &str, document: Value) -> Result<Value, Refusal> {
        self.admin.act(&c.ask.other(route, name, &document)).await.map(|(_, value)| value)
    }

    /// As [`Minio::ask`], for what needs a query.
    pub async fn ask_for(&self, c: &Called, route: Route, query: &str) -> Result<Value, Refusal> {
        let mut ask = c.ask.other(route, "", &Value::Null);
        ask.query = ashlar_s3::target::Query::parse(query)?;
        self.admin.act(&ask).await.map(|(_, value)| value)
    }
}

/// A string of a document of ours.
pub fn string<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or_default()
}

/// The strings of a list in a document of ours.
pub fn strings(value: &Value) -> Vec<&str> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}
