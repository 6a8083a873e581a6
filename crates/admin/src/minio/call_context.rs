//! A call of MinIO's API whose caller is authenticated, and the function with which its translation calls our
//! API.
//!
//! Must not depend on: the translations, which depend on this.

use std::sync::Arc;

use ashlar_s3::madmin::Key;
use http::StatusCode;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::answers::invalid;
use super::body_cipher::BodyCipher;
use super::table::Call;
use crate::admin::Admin;
use crate::admin_request::{AdminRequest, Refusal};
use crate::table::Route;

/// The handler of MinIO's administration API.
pub struct Minio {
    pub(super) admin: Arc<Admin>,
    pub(super) body_cipher: BodyCipher,
}

/// A call whose caller is authenticated and has permission.
pub struct CallContext {
    pub(super) call: Call,
    /// The names in the path.
    pub(super) names: Vec<String>,
    /// The caller, the query, and the decrypted request body.
    pub(super) req: AdminRequest,
    /// Host and port of the server in the request.
    pub(super) host: String,
    /// The key that decrypted the request body.
    pub(super) key: Option<Key>,
}

impl CallContext {
    /// A value of the query; empty if it is missing.
    pub fn query(&self, name: &str) -> &str {
        self.req.query.get(name).unwrap_or_default()
    }

    /// All values of a parameter of the query.
    pub fn all(&self, name: &str) -> Vec<String> {
        self.req
            .query
            .iter()
            .filter(|(n, v)| *n == name && !v.is_empty())
            .map(|(_, v)| v.to_owned())
            .collect()
    }

    /// Parses the request body.
    pub fn document<T: DeserializeOwned>(&self) -> Result<T, Refusal> {
        serde_json::from_slice(&self.req.body).map_err(|e| Refusal {
            status: StatusCode::BAD_REQUEST,
            code: "XMinioAdminConfigBadJSON",
            why: format!("the document is not understood: {e}"),
        })
    }

    /// The request body as text.
    pub fn text(&self) -> Result<&str, Refusal> {
        std::str::from_utf8(&self.req.body).map_err(|_| invalid("the document is no text"))
    }
}

impl Minio {
    /// Calls our own API on behalf of the caller.
    pub async fn call_api(
        &self,
        c: &CallContext,
        route: Route,
        name: &str,
        document: Value,
    ) -> Result<Value, Refusal> {
        self.admin.dispatch(&c.req.other(route, name, &document)).await.map(|(_, value)| value)
    }

    /// As [`Minio::ask`], with a query.
    pub async fn call_api_with_query(
        &self,
        c: &CallContext,
        route: Route,
        query: &str,
    ) -> Result<Value, Refusal> {
        let mut req = c.req.other(route, "", &Value::Null);
        req.query = ashlar_s3::target::Query::parse(query)?;
        self.admin.dispatch(&req).await.map(|(_, value)| value)
    }
}

/// A string member of a document of our API.
pub fn string<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or_default()
}

/// The strings of a list member of a document of our API.
pub fn strings(value: &Value) -> Vec<&str> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}
