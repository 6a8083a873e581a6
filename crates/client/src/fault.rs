//! Conversion of failed requests and error answers to [`Error`].
//!
//! Invariant: an error answer is parsed as XML or JSON if possible, and named by its status otherwise; it is
//! never returned as data.
//!
//! Must not depend on: the request.

use http::Method;

use crate::{
    answer::Answer,
    body::Watch,
    error::{Error, ServiceError, code_of_status},
    limits,
    pool::{Connection, chain},
    xml,
};

/// Why an attempt received no answer.
pub(crate) enum Failed {
    /// An idle connection was closed already; nothing was sent.
    Stale,
    Error(Error),
}

/// The error of an attempt that received no answer.
pub(crate) fn failure(connection: &Connection, unsent: bool, error: hyper::Error, watch: &Watch) -> Failed {
    if unsent && connection.reused {
        return Failed::Stale;
    }
    if let Some(source) = watch.failure.lock().take() {
        return Failed::Error(Error::Source(source));
    }
    let endpoint = connection.host.authority.clone();
    let reason = chain(&error);
    Failed::Error(if unsent {
        Error::Unreachable { endpoint, reason }
    } else if error.is_parse() {
        Error::Unexpected(format!("{endpoint} does not speak HTTP: {reason}"))
    } else {
        Error::Broken { endpoint, reason }
    })
}

/// Converts an error answer; reads at most [`limits::ERROR_ANSWER`] bytes of it.
pub(crate) async fn service_error(mut answer: Answer, method: &Method) -> Error {
    let body = if *method == Method::HEAD {
        Default::default()
    } else {
        answer.collect(limits::ERROR_ANSWER).await.unwrap_or_default()
    };
    error_of(&answer, &body)
}

/// The error that the headers and body of an answer describe.
pub(crate) fn error_of(answer: &Answer, body: &[u8]) -> Error {
    let text = |name: &str| answer.header(name).unwrap_or_default().to_owned();
    let status = answer.status();
    let mut error = ServiceError {
        status,
        code: answer.header("x-minio-error-code").unwrap_or(code_of_status(status)).to_owned(),
        message: answer.header("x-minio-error-desc").unwrap_or_default().trim_matches('"').to_owned(),
        request_id: text("x-amz-request-id"),
        resource: String::new(),
        region: answer.header("x-amz-bucket-region").map(str::to_owned),
        retry_after: answer.header("retry-after").and_then(|v| v.trim().parse().ok()),
    };
    if let Ok(root) = xml::parse(body) {
        // Some answers wrap the error in another element (`ErrorResponse/Error`).
        let root = root.child("Error").unwrap_or(&root);
        fill(&mut error, |name| root.some_text(name));
    } else if let Ok(serde_json::Value::Object(map)) = serde_json::from_slice(body) {
        fill(&mut error, |name| {
            let same = |key: &&String| key.replace('_', "").eq_ignore_ascii_case(name);
            map.keys().find(same).and_then(|key| map[key].as_str()).map(str::to_owned)
        });
    } else if error.message.is_empty() && !body.is_empty() {
        let text = String::from_utf8_lossy(body);
        error.message = text.trim().chars().take(200).collect();
    }
    Error::Service(Box::new(error))
}

fn fill(error: &mut ServiceError, field: impl Fn(&str) -> Option<String>) {
    let set = |into: &mut String, name: &str| {
        if let Some(text) = field(name) {
            *into = text;
        }
    };
    set(&mut error.code, "Code");
    // Answers of the administration API call it `error`.
    set(&mut error.message, "Error");
    set(&mut error.message, "Message");
    set(&mut error.resource, "Resource");
    if error.resource.is_empty() {
        set(&mut error.resource, "Key");
    }
    if error.request_id.is_empty() {
        set(&mut error.request_id, "RequestId");
    }
    if error.region.is_none() {
        error.region = field("Region");
    }
}
