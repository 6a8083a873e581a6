//! The management interface: HTTP over a Unix socket, and the metrics also over TCP.
//!
//! | request | answer |
//! |---|---|
//! | `GET /v1/state` | [`api::State`] |
//! | `POST /v1/call` | executes an [`api::Call`]; [`api::Answer`] |
//! | `GET /metrics` | metrics; the only path over TCP |
//!
//! Invariants: bodies and connections are bounded; calls run apart from the threads that answer, as they wait for groups.
//!
//! Must not depend on: what calls do.

use std::convert::Infallible;
use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use ashlar_environment::{spawn, spawn_blocking, time};
use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde::Serialize;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::Semaphore;

use crate::api;
use crate::error::{Error, Kind};
use crate::process::Running;

/// Bytes of a call, at most: the paths of some hundred drives.
const MAX_CALL: usize = 1 << 20;
/// Connections at once.
const CONNECTIONS: usize = 32;
/// Time that a connection may take; a call that deletes a large virtual drive needs the longest.
const TIME: Duration = Duration::from_secs(3600);

type Answered = Response<Full<Bytes>>;

/// Serves the management socket; never returns.
pub(crate) async fn manage(listener: UnixListener, running: Arc<Running>) {
    let accept = |cx: &mut Context<'_>| listener.poll_accept(cx).map_ok(|(stream, _)| stream);
    serve_all("array-call", accept, running, true).await;
}

/// Serves metrics over TCP; never returns.
pub(crate) async fn measure(listener: TcpListener, running: Arc<Running>) {
    let accept = |cx: &mut Context<'_>| listener.poll_accept(cx).map_ok(|(stream, _)| stream);
    serve_all("array-metrics", accept, running, false).await;
}

/// Serves each connection that `accept` gives in a task of this name; never returns.
async fn serve_all<S>(
    name: &'static str,
    accept: impl Fn(&mut Context<'_>) -> Poll<io::Result<S>>,
    running: Arc<Running>,
    all: bool,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let Ok(place) = places.clone().acquire_owned().await else { return };
        match poll_fn(&accept).await {
            Ok(stream) => {
                let running = running.clone();
                drop(spawn(name, async move {
                    serve(stream, running, all).await;
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

async fn serve(stream: impl AsyncRead + AsyncWrite + Unpin + Send, running: Arc<Running>, all: bool) {
    let service = service_fn(move |request| {
        let running = running.clone();
        async move { Ok::<_, Infallible>(answer(request, running, all).await) }
    });
    let mut server = hyper::server::conn::http1::Builder::new();
    // One request per connection: there is no idle one to wait for.
    let connection = server.keep_alive(false).serve_connection(TokioIo::new(stream), service);
    if let Ok(Err(error)) = time::timeout(TIME, connection).await {
        tracing::debug!(%error, "a management connection ended");
    }
}

async fn answer(request: Request<Incoming>, running: Arc<Running>, all: bool) -> Answered {
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    match (method, path.as_str()) {
        (Method::GET, "/metrics") => {
            let page = spawn_blocking("array-metrics", move || running.metrics()).await;
            match page {
                Ok(text) => reply(StatusCode::OK, "text/plain; version=0.0.4", text),
                Err(_) => failed(&Error::new(Kind::Failed, "the metrics could not be read")),
            }
        }
        (Method::GET, "/v1/state") if all => {
            let state = spawn_blocking("array-state", move || running.state()).await;
            json(&state.map_err(|_| Error::new(Kind::Failed, "the state could not be read")))
        }
        (Method::POST, "/v1/call") if all => json(&call(request, running).await),
        _ => failed(&Error::not_found("there is no such path")),
    }
}

async fn call(request: Request<Incoming>, running: Arc<Running>) -> Result<api::Answer, Error> {
    let body = Limited::new(request.into_body(), MAX_CALL).collect().await;
    let body = body.map_err(|e| Error::invalid(format!("the call cannot be read: {e}")))?.to_bytes();
    let call: api::Call =
        serde_json::from_slice(&body).map_err(|e| Error::invalid(format!("the call cannot be read: {e}")))?;
    tracing::info!(?call, "a management call");
    let done = spawn_blocking("array-call", move || running.perform(&call)).await;
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
