//! Management calls to a process that is an enclosure.
//!
//! Must not depend on: the process.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use ashlar_environment::spawn;
use bytes::Bytes;
use http::{Method, Request};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_util::rt::TokioIo;
use serde::de::DeserializeOwned;
use tokio::net::UnixStream;

use crate::api::{Answer, Call, Services, State};
use crate::error::{Error, Kind};

/// Bytes of an answer, at most.
const MAX_ANSWER: usize = 64 << 20;

/// Makes calls over a socket, each over a connection of its own.
pub struct Client {
    socket: PathBuf,
}

impl Client {
    /// Calls the process with this socket.
    #[must_use]
    pub fn new(socket: &Path) -> Client {
        Client { socket: socket.to_owned() }
    }

    /// The state of the process.
    ///
    /// # Errors
    /// [`Kind::Unavailable`] if there is none, [`Kind::Denied`] if it belongs to another user.
    pub async fn state(&self) -> Result<State, Error> {
        self.ask(Method::GET, "/v1/state", Bytes::new()).await
    }

    /// Enclosure services of the process.
    ///
    /// # Errors
    /// As [`Client::state`].
    pub async fn services(&self) -> Result<Services, Error> {
        self.ask(Method::GET, "/v1/services", Bytes::new()).await
    }

    /// Has the process execute a call.
    ///
    /// # Errors
    /// As [`Client::state`], and those of the call.
    pub async fn call(&self, call: &Call) -> Result<Answer, Error> {
        let body = serde_json::to_vec(call).map_err(|e| Error::invalid(e.to_string()))?;
        self.ask(Method::POST, "/v1/call", body.into()).await
    }

    async fn ask<T: DeserializeOwned>(&self, method: Method, path: &str, body: Bytes) -> Result<T, Error> {
        let shown = self.socket.display();
        let stream = UnixStream::connect(&self.socket).await.map_err(|e| match e.kind() {
            ErrorKind::NotFound | ErrorKind::ConnectionRefused => Error::new(
                Kind::Unavailable,
                format!("no virtual enclosure is at {shown}; start one with: ashlar fabric serve FILE"),
            ),
            _ => Error::io(&format!("cannot connect to {shown}"), &e),
        })?;
        let broken = |e: &dyn std::fmt::Display| {
            Error::new(Kind::Unavailable, format!("the process at {shown} broke off: {e}"))
        };
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(|e| broken(&e))?;
        drop(spawn("fabric-client", async move {
            // Its errors are those of the request.
            let _ = connection.await;
        }));
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", "localhost")
            .body(Full::new(body))
            .map_err(|e| Error::invalid(e.to_string()))?;
        let response = sender.send_request(request).await.map_err(|e| broken(&e))?;
        let status = response.status();
        let body = Limited::new(response.into_body(), MAX_ANSWER).collect().await.map_err(|e| broken(&e))?;
        let body = body.to_bytes();
        if status.is_success() {
            return serde_json::from_slice(&body).map_err(|e| broken(&e));
        }
        Err(serde_json::from_slice(&body).unwrap_or_else(|_| broken(&format!("status {status}"))))
    }
}
