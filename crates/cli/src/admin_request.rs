//! Requests to the administration API of an Ashlar server.
//!
//! Invariant: the error names servers that are not Ashlar. Must not depend on: the commands.

use ashlar_client::{Client, Method};
use serde::Deserialize;
use serde_json::Value;

use super::context::Context;
use super::failure::{Failure, Kind, Outcome};
use super::location::Location;

/// Sends a request to the server of an alias.
pub async fn ask(
    context: &Context,
    alias: &str,
    method: Method,
    path: &str,
    body: Option<&Value>,
) -> Outcome<Value> {
    ask_with(context, alias, method, path, &[], body).await
}

/// As [`ask`], with a query.
pub async fn ask_with(
    context: &Context,
    alias: &str,
    method: Method,
    path: &str,
    query: &[(&str, &str)],
    body: Option<&Value>,
) -> Outcome<Value> {
    let client = client(context, alias)?;
    let answer = client.admin(method, path, query, body).await;
    answer.map_err(|error| {
        let strange = matches!(error, ashlar_client::Error::Unexpected(_))
            || matches!(error.code(), Some("NoSuchBucket" | "NoSuchKey" | "NotFound" | "MethodNotAllowed"))
                && !path.contains('/');
        let mut failure = Failure::from(error);
        failure.what = format!("`{alias}`");
        if strange {
            failure.cause =
                format!("this is not an Ashlar server, or it is an older one ({})", failure.cause);
        }
        failure
    })
}

/// The client of an alias.
pub fn client(context: &Context, alias: &str) -> Outcome<Client> {
    // `it/` means `it`.
    Ok(Location::remote(alias.trim_end_matches('/'), &context.aliases)?.client)
}

/// Deserializes an answer.
pub fn understand<T: for<'a> Deserialize<'a>>(value: &Value) -> Outcome<T> {
    T::deserialize(value)
        .map_err(|e| Failure::new(Kind::Failed, format!("the server's answer is not understood: {e}")))
}
