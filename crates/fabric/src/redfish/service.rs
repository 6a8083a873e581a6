//! The Redfish service: HTTP on an address that the operator names. It only reads.
//!
//! | request | answer |
//! |---|---|
//! | `GET`, `HEAD` of a document | it (`redfish`) |
//! | `GET /redfish/v1/$metadata` | the OData metadata document, as XML |
//! | every other method | 405 |
//!
//! There is no TLS and no authentication: whoever reaches the address reads the state of the enclosure, and nothing of the data.
//!
//! Invariants: nothing is changed; connections are bounded in number and in time.
//!
//! Must not depend on: what documents say.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use ashlar_environment::{net, spawn, spawn_blocking, time};
use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use super::{ROOT, Redfish};
use crate::error::Error;
use crate::process::Running;

/// Connections at once.
const CONNECTIONS: usize = 32;
/// Time that a connection may take, idle or not.
const TIME: Duration = Duration::from_secs(60);

type Answered = Response<Full<Bytes>>;

/// Listens at `HOST:PORT`. `anyone`: also at an address that other machines reach.
///
/// # Errors
/// [`Kind::Invalid`](crate::Kind::Invalid): such an address is not permitted; [`Kind::Conflict`](crate::Kind::Conflict): it cannot be had.
pub(crate) async fn listen(address: &str, anyone: bool) -> Result<TcpListener, Error> {
    let failed = |e: &std::io::Error| Error::conflict(format!("Redfish at {address}: {e}"));
    let listener = net::bind(address).await.map_err(|e| failed(&e))?;
    let at = listener.local_addr().map_err(|e| failed(&e))?;
    if !anyone && !at.ip().to_canonical().is_loopback() {
        return Err(Error::invalid(format!(
            "Redfish at {address}: it is not an address of this machine alone, and Redfish has no authentication here; allow anyone \
             to read it, or use an address of 127.0.0.0/8"
        )));
    }
    Ok(listener)
}

/// Serves documents; never returns.
pub(crate) async fn serve(listener: TcpListener, running: Arc<Running>) {
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let Ok(place) = places.clone().acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, _)) => {
                let running = running.clone();
                drop(spawn("fabric-redfish", async move {
                    let service = service_fn(move |request| {
                        let running = running.clone();
                        async move { Ok::<_, Infallible>(answer(&request, running).await) }
                    });
                    let server = hyper::server::conn::http1::Builder::new();
                    let connection = server.serve_connection(TokioIo::new(stream), service);
                    if let Ok(Err(error)) = time::timeout(TIME, connection).await {
                        tracing::debug!(%error, "a Redfish connection ended");
                    }
                    drop(place);
                }));
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept a Redfish connection");
                time::sleep(Duration::from_millis(200)).await;
            }
        }
    }
}

async fn answer(request: &Request<Incoming>, running: Arc<Running>) -> Answered {
    if ![Method::GET, Method::HEAD].contains(request.method()) {
        let text = format!("{} is not permitted: the service only reads", request.method());
        let mut refused = failed(StatusCode::METHOD_NOT_ALLOWED, "OperationNotAllowed", &text);
        refused.headers_mut().insert(header::ALLOW, http::HeaderValue::from_static("GET, HEAD"));
        return refused;
    }
    // DSP0266: what is not known is ignored, unless its name begins with a dollar sign.
    let query = request.uri().query().unwrap_or_default();
    if let Some(option) = query.split('&').find(|p| p.starts_with('$') || p.starts_with("%24")) {
        let text = format!("the query option {option:?} is not supported");
        return failed(StatusCode::NOT_IMPLEMENTED, "QueryNotSupported", &text);
    }
    let path = request.uri().path();
    let path = path.strip_suffix('/').unwrap_or(path).to_owned();
    let made = spawn_blocking("fabric-redfish", move || {
        let state = running.state();
        let redfish = Redfish { state: &state, sample: &running.sample };
        if path == format!("{ROOT}/$metadata") {
            return Ok(xml(redfish.metadata()));
        }
        redfish.document(&path).map(|document| reply(StatusCode::OK, &document)).ok_or(path)
    });
    match made.await {
        Ok(Ok(answered)) => answered,
        Ok(Err(path)) => failed(
            StatusCode::NOT_FOUND,
            "ResourceMissingAtURI",
            &format!("there is no resource at {path:?}"),
        ),
        Err(_) => {
            failed(StatusCode::INTERNAL_SERVER_ERROR, "InternalError", "the document could not be made")
        }
    }
}

/// An error response (DSP0266, 8.6).
fn failed(status: StatusCode, message: &str, text: &str) -> Answered {
    let id = format!("Base.1.18.{message}");
    let about = json!({ "@odata.type": "#Message.v1_2_1.Message", "MessageId": id, "Message": text });
    reply(status, &json!({ "error": { "code": id, "message": text, "@Message.ExtendedInfo": [about] } }))
}

fn reply(status: StatusCode, document: &Value) -> Answered {
    made(status, "application/json; charset=utf-8", document.to_string())
}

fn xml(text: String) -> Answered {
    made(StatusCode::OK, "application/xml; charset=utf-8", text)
}

fn made(status: StatusCode, kind: &'static str, text: String) -> Answered {
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, http::HeaderValue::from_static(kind));
    headers.insert("odata-version", http::HeaderValue::from_static("4.0"));
    headers.insert(header::CACHE_CONTROL, http::HeaderValue::from_static("no-cache"));
    response
}
