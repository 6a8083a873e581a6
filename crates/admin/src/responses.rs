//! HTTP responses of the server itself: text, JSON, and errors before authentication.
//!
//! Invariant: every response names the server and its content type. Must not depend on: the content.

use ashlar_s3::Body;
use http::header::{self, HeaderValue};
use http::{Response, StatusCode};
use serde_json::Value;

use super::admin_request::Refusal;
use super::api::{self, state as shape};

/// An S3 error that closes the connection.
fn error(status: StatusCode, code: &str, message: &str) -> Response<Body> {
    let mut response = plain(
        status,
        format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error><Code>{code}</Code><Message>{message}</Message></Error>"
        ),
    );
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/xml"));
    headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}

/// The response on reserved connections to all requests except administration and health checks.
pub fn busy() -> Response<Body> {
    let mut response = error(
        StatusCode::SERVICE_UNAVAILABLE,
        "SlowDown",
        "There are too many connections. Please reduce your request rate and try again.",
    );
    response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    response
}

/// A text response.
pub fn plain(status: StatusCode, text: impl Into<String>) -> Response<Body> {
    let mut response = Response::new(Body::whole(text.into()));
    *response.status_mut() = status;
    response.headers_mut().insert(header::SERVER, HeaderValue::from_static("Ashlar"));
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}

/// The response for an error.
pub(crate) fn refused(no: &Refusal) -> Response<Body> {
    json_answer(no.status, &api::value(shape::Problem { error: no.why.clone(), code: no.code.to_owned() }))
}

/// A stream of JSON objects, one per line.
pub(crate) fn lines(body: Body) -> Response<Body> {
    let mut response = plain(StatusCode::OK, "");
    *response.body_mut() = body;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/x-ndjson"));
    response
}

/// A JSON response.
pub(crate) fn json_answer(status: StatusCode, value: &Value) -> Response<Body> {
    let mut response = plain(status, value.to_string());
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_response_has_retry_after() {
        let busy = busy();
        assert_eq!(busy.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(
            (&busy.headers()[header::RETRY_AFTER], &busy.headers()[header::CONNECTION]),
            (&HeaderValue::from_static("1"), &HeaderValue::from_static("close"))
        );
    }
}
