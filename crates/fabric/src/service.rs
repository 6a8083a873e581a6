//! The management interface: HTTP over a Unix socket.
//!
//! | request | answer |
//! |---|---|
//! | `GET /v1/state` | [`api::State`] |
//! | `GET /v1/services` | [`api::Services`] |
//! | `POST /v1/call` | executes an [`api::Call`]; [`api::Answer`] |
//! | `GET /metrics` | metrics |
//!
//! Invariants: bodies and connections are bounded; calls run apart from the threads that answer, as they wait for ports.
//!
//! Must not depend on: what calls do.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use ashlar_environment::{spawn, spawn_blocking, time};
use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde::Serialize;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Semaphore;

use crate::api;
use crate::error::{Error, Kind};
use crate::metrics;
use crate::process::Running;

/// Bytes of a call, at most.
const MAX_CALL: usize = 1 << 20;
/// Connections at once.
const CONNECTIONS: usize = 32;
/// Time that a connection may take.
const TIME: Duration = Duration::from_secs(120);

type Answered = Response<Full<Bytes>>;

/// Serves the management socket; never returns.
pub(crate) async fn manage(listener: UnixListener, running: Arc<Running>) {
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let Ok(place) = places.clone().acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, _)) => {
                let running = running.clone();
                drop(spawn("fabric-call", async move {
                    serve(stream, running).await;
                    drop(place);
                }));
            }
            Err(error) => accept_failed(&error).await,
        }
    }
}

async fn accept_failed(error: &io::Error) {
    tracing::warn!(%error, "cannot accept a management connection");
    time::sleep(Duration::from_millis(200)).await;
}

async fn serve(stream: UnixStream, running: Arc<Running>) {
    let service = service_fn(move |request| {
        let running = running.clone();
        async move { Ok::<_, Infallible>(answer(request, running).await) }
    });
    let mut server = hyper::server::conn::http1::Builder::new();
    // One request per connection: there is no idle one to wait for.
    let connection = server.keep_alive(false).serve_connection(TokioIo::new(stream), service);
    if let Ok(Err(error)) = time::timeout(TIME, connection).await {
        tracing::debug!(%error, "a management connection ended");
    }
}

async fn answer(request: Request<Incoming>, running: Arc<Running>) -> Answered {
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    match (method, path.as_str()) {
        (Method::GET, "/metrics") => {
            let page = spawn_blocking("fabric-metrics", move || metrics::text(&running.state())).await;
            match page {
                Ok(text) => reply(StatusCode::OK, "text/plain; version=0.0.4", text),
                Err(_) => failed(&Error::new(Kind::Failed, "the metrics could not be read")),
            }
        }
        (Method::GET, "/v1/state") => {
            let state = spawn_blocking("fabric-state", move || running.state()).await;
            json(&state.map_err(|_| Error::new(Kind::Failed, "the state could not be read")))
        }
        (Method::GET, "/v1/services") => {
            let services = spawn_blocking("fabric-services", move || running.services()).await;
            json(&services.map_err(|_| Error::new(Kind::Failed, "enclosure services could not be read")))
        }
        (Method::POST, "/v1/call") => json(&call(request, running).await),
        _ => failed(&Error::not_found("there is no such path")),
    }
}

async fn call(request: Request<Incoming>, running: Arc<Running>) -> Result<api::Answer, Error> {
    let body = Limited::new(request.into_body(), MAX_CALL).collect().await;
    let body = body.map_err(|e| Error::invalid(format!("the call cannot be read: {e}")))?.to_bytes();
    let call: api::Call =
        serde_json::from_slice(&body).map_err(|e| Error::invalid(format!("the call cannot be read: {e}")))?;
    tracing::info!(?call, "a management call");
    let done = spawn_blocking("fabric-call", move || running.perform(&call)).await;
    done.unwrap_or_else(|_| Err(Error::new(Kind::Failed, "the call broke off; see the log")))
}

fn json<T: Serialize>(result: &Result<T, Error>) -> Answered {
    match result {
        Ok(value) => match serde_json::to_string(value) {
            Ok(text) => reply(StatusCode::OK, "application/json", text),
            Err(e) => failed(&Error::new(Kind::Failed, e.to_string())),
        },
        Err(error) => failed(error),
    }
}

fn failed(error: &Error) -> Answered {
    let status = match error.kind {
        Kind::Invalid => StatusCode::BAD_REQUEST,
        Kind::NotFound => StatusCode::NOT_FOUND,
        Kind::Conflict => StatusCode::CONFLICT,
        Kind::Denied => StatusCode::FORBIDDEN,
        Kind::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        Kind::Failed => StatusCode::INTERNAL_SERVER_ERROR,
    };
    let text = serde_json::to_string(error).unwrap_or_default();
    reply(status, "application/json", text)
}

fn reply(status: StatusCode, kind: &'static str, text: String) -> Answered {
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, http::HeaderValue::from_static(kind));
    response
}
