//! Ashlar's own administration API: JSON over requests that are signed as S3 requests.

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Method, header};

use crate::{
    call::{Call, Client, Target},
    error::Result,
    limits,
};

/// The prefix of the paths of the administration API.
const BASE: &str = "/ashlar/api/v1/";

impl Client {
    /// Sends a request to an administration path (`info`, `drives/ID/offline`) and returns the JSON answer.
    /// Servers that are not Ashlar answer with an error of their own.
    pub fn admin<'a>(
        &'a self,
        method: Method,
        path: &'a str,
        query: &'a [(&'a str, &'a str)],
        body: Option<&'a serde_json::Value>,
    ) -> BoxFuture<'a, Result<serde_json::Value>> {
        Box::pin(async move {
            let path = format!("{BASE}{path}");
            let mut call = Call::new(method, Target::Path(&path));
            for &(name, value) in query {
                call = call.query(name, value);
            }
            if let Some(body) = body {
                call = call.header(header::CONTENT_TYPE, "application/json")?;
                call = call.body(Bytes::from(body.to_string()));
            }
            let mut answer = self.execute(call).await?;
            let body = answer.collect(limits::ANSWER).await?;
            if body.is_empty() {
                return Ok(serde_json::Value::Null);
            }
            serde_json::from_slice(&body)
                .map_err(|e| crate::Error::Unexpected(format!("not the JSON expected: {e}")))
        })
    }
}
