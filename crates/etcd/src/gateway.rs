//! Sends requests to etcd's HTTP gateway: endpoints in turn, authentication, and what a refusal means.
//!
//! Invariants: a request is sent once per call, to one endpoint, except that one that was refused for its
//! token is sent once more with a new one. [`Fault::Silent`] is the only fault after which a request may have
//! been carried out.
//!
//! Must not depend on: what is in the store.

use std::sync::Arc;
use std::time::Duration;

use ::time::OffsetDateTime;
use ::time::format_description::well_known::Rfc2822;
use ashlar_environment::time::{self, Instant};
use ashlar_outbound::{Outbound, Rules, Stream};
use bytes::Bytes;
use http::header::{AUTHORIZATION, DATE, HeaderName, HeaderValue};
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use serde_json::json;
use tokio::sync::watch;

use crate::wire::{self, Refusal, Status, Token, Versions};
use crate::{Error, Options, Result};

/// How long one request to one endpoint may take.
const CALL: Duration = Duration::from_secs(3);
/// Largest answer. Pages are chosen so that they are about 1 MiB.
const MAX_ANSWER: usize = 16 << 20;
/// Pause before another endpoint is asked.
const PAUSE: Duration = Duration::from_millis(50);
/// etcd ends the watch when its member loses the leader.
const NEEDS_LEADER: (HeaderName, HeaderValue) =
    (HeaderName::from_static("grpc-metadata-hasleader"), HeaderValue::from_static("true"));

/// Why a request has no result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// No answer, or one that says that etcd does not know either. The request may be carried out, now or
    /// later.
    Silent(String),
    /// The token is not valid (any more).
    Token(String),
    /// The user or the password is wrong.
    Authentication(String),
    /// No permission.
    Denied(String),
    /// Out of space.
    Full(String),
    /// The answer would be larger than etcd sends, or the request larger than it accepts.
    TooLarge(String),
    /// The revision is compacted.
    Compacted,
    /// The revision does not exist yet.
    Future,
    /// Anything else.
    Refused(String),
}

impl Fault {
    /// As an error for operators.
    pub fn into_error(self, prefix: &str) -> Error {
        match self {
            Fault::Silent(why) => unreachable(why),
            Fault::Token(why) | Fault::Authentication(why) => Error::Authentication(why),
            Fault::Denied(why) => Error::Denied(why, prefix.to_owned()),
            Fault::Full(why) => Error::Full(why),
            Fault::TooLarge(_) => Error::TooLarge("a request to etcd"),
            Fault::Compacted => Error::Refused("the revision is compacted".to_owned()),
            Fault::Future => Error::Replaced("it has not reached the revision of this node".to_owned()),
            Fault::Refused(why) => Error::Refused(why),
        }
    }
}

/// Why there is no connection.
fn unreachable(why: String) -> Error {
    if why.contains("invalid peer certificate") || why.contains("fatal alert") {
        return Error::Certificate(why);
    }
    // With TLS 1.3 a server refuses a client after the handshake, and hyper then names no reason.
    let hint = "; if etcd requires a client certificate, it may have refused this one's";
    let is_tls = why.starts_with("https") && !why.contains(hint);
    Error::Unreachable(if is_tls { format!("{why}{hint}") } else { why })
}

/// What a refusal means. Releases change codes more often than messages.
pub fn judge(endpoint: &str, refusal: &Refusal) -> Fault {
    let said = refusal.message.trim_start_matches("etcdserver: ");
    let has = |part: &str| said.contains(part);
    let text = format!("{endpoint}: {said}");
    match refusal.code {
        _ if has("has been compacted") => Fault::Compacted,
        _ if has("future revision") => Fault::Future,
        _ if has("space exceeded") => Fault::Full(text),
        _ if has("larger than max") || has("request is too large") => Fault::TooLarge(text),
        _ if has("invalid user ID or password") || has("authentication is not enabled") => {
            Fault::Authentication(text)
        }
        _ if has("user name is empty") || has("invalid auth token") || has("auth store is old") => {
            Fault::Token(text)
        }
        16 => Fault::Token(text),
        7 => Fault::Denied(text),
        // InvalidArgument, NotFound, AlreadyExists, FailedPrecondition, OutOfRange, Unimplemented.
        3 | 5 | 6 | 9 | 11 | 12 => Fault::Refused(text),
        _ => Fault::Silent(text),
    }
}

/// The members of one etcd.
pub struct Gateway {
    endpoints: Mutex<Arc<Vec<String>>>,
    http: Outbound,
    user: Option<(String, String)>,
    token: Mutex<Option<HeaderValue>>,
    /// The endpoint that is asked. It changes when that one does not answer.
    current: watch::Sender<usize>,
}

impl Gateway {
    /// # Errors
    /// A certificate or the key cannot be used.
    pub fn new(options: &Options) -> Result<Gateway> {
        let rules = Rules {
            allow_loopback: true,
            allow_private: true,
            allow_link_local: true,
            authorities: options.authorities.clone(),
            identity: options.certificate.clone(),
            timeout: CALL,
            max_body: MAX_ANSWER,
        };
        let http = Outbound::new(rules).map_err(|e| Error::Settings(e.to_string()))?;
        Ok(Gateway {
            endpoints: Mutex::new(Arc::new(trimmed(&options.endpoints))),
            http,
            user: options.user.clone(),
            token: Mutex::new(None),
            current: watch::Sender::new(0),
        })
    }

    /// Number of endpoints.
    pub fn members(&self) -> usize {
        self.endpoints.lock().len()
    }

    /// Uses other endpoints from now on. A watch goes on where it is.
    pub fn set_endpoints(&self, endpoints: &[String]) {
        *self.endpoints.lock() = Arc::new(trimmed(endpoints));
    }

    /// An endpoint. There may be fewer than when `at` was chosen.
    fn endpoint(&self, at: usize) -> String {
        let endpoints = self.endpoints.lock().clone();
        endpoints[at % endpoints.len()].clone()
    }

    /// The endpoint that is asked; the receiver gets each later one.
    pub fn current(&self) -> watch::Receiver<usize> {
        self.current.subscribe()
    }

    /// Asks another endpoint from now on, if this one is still asked.
    pub fn leave(&self, at: usize) {
        let next = (at + 1) % self.members();
        self.current.send_if_modified(|now| {
            let moves = *now == at && next != at;
            if moves {
                *now = next;
            }
            moves
        });
    }

    /// Sends a request to the present endpoint.
    pub async fn call<T: DeserializeOwned>(&self, path: &str, body: Bytes) -> std::result::Result<T, Fault> {
        let at = *self.current.borrow();
        let answer = self.call_at(at, path, body).await;
        if matches!(answer, Err(Fault::Silent(_))) {
            self.leave(at);
        }
        answer
    }

    /// Sends a request that may be repeated, to one endpoint after the other.
    pub async fn patient<T: DeserializeOwned>(
        &self,
        path: &str,
        body: Bytes,
        until: Instant,
    ) -> std::result::Result<T, Fault> {
        loop {
            match self.call(path, body.clone()).await {
                Err(Fault::Silent(_)) if Instant::now() < until => time::sleep(PAUSE).await,
                answer => return answer,
            }
        }
    }

    /// Sends a request to one endpoint.
    pub async fn call_at<T: DeserializeOwned>(
        &self,
        at: usize,
        path: &str,
        body: Bytes,
    ) -> std::result::Result<T, Fault> {
        let token = self.token(at).await?;
        match self.send(at, path, body.clone(), token.as_ref()).await {
            Err(Fault::Token(_)) if self.user.is_some() => {
                self.forget(token.as_ref());
                let token = self.token(at).await?;
                self.send(at, path, body, token.as_ref()).await
            }
            answer => answer,
        }
    }

    async fn send<T: DeserializeOwned>(
        &self,
        at: usize,
        path: &str,
        body: Bytes,
        token: Option<&HeaderValue>,
    ) -> std::result::Result<T, Fault> {
        let endpoint = &self.endpoint(at);
        let headers: Vec<_> = token.map(|t| (AUTHORIZATION, t.clone())).into_iter().collect();
        let answer = self.http.post(&format!("{endpoint}{path}"), &headers, body).await;
        let answer = answer.map_err(|e| match e {
            ashlar_outbound::Error::TooLarge { .. } => Fault::TooLarge(e.to_string()),
            e => Fault::Silent(format!("{endpoint}: {e}")),
        })?;
        if !answer.status.is_success() {
            return Err(refused(endpoint, answer.status, &answer.body));
        }
        serde_json::from_slice(&answer.body)
            .map_err(|e| Fault::Silent(format!("{endpoint}: the answer is not understood: {e}")))
    }

    /// Starts a watch at one endpoint.
    pub async fn watch(&self, at: usize, body: Bytes) -> std::result::Result<Stream, Fault> {
        let endpoint = &self.endpoint(at);
        let mut headers = vec![NEEDS_LEADER];
        headers.extend(self.token(at).await?.map(|t| (AUTHORIZATION, t)));
        let answer = self.http.stream(&format!("{endpoint}/v3/watch"), &headers, body).await;
        let answer = answer.map_err(|e| Fault::Silent(format!("{endpoint}: {e}")))?;
        if !answer.status.is_success() {
            let status = answer.status;
            return Err(Fault::Silent(format!("{endpoint}: {status} to a watch")));
        }
        Ok(answer)
    }

    /// What a refusal in a stream means.
    pub fn judge(&self, at: usize, refusal: &Refusal) -> Fault {
        let fault = judge(&self.endpoint(at), refusal);
        if matches!(fault, Fault::Token(_)) {
            *self.token.lock() = None;
        }
        fault
    }

    /// Refuses a member that is too old.
    pub async fn check_version(&self, at: usize) -> Result<()> {
        let endpoint = &self.endpoint(at);
        let answer = self.http.get(&format!("{endpoint}/version"), &[]).await;
        let answer = answer.map_err(|e| unreachable(format!("{endpoint}: {e}")))?;
        let found: Versions = serde_json::from_slice(&answer.body)
            .map_err(|_| Error::Refused(format!("{endpoint} does not answer as etcd does")))?;
        if is_too_old(&found.etcdserver) {
            return Err(Error::TooOld(format!("{endpoint} is {}", found.etcdserver)));
        }
        Ok(())
    }

    /// The states of all members; none of those that do not answer.
    pub async fn states(&self) -> Vec<Option<Status>> {
        let ask = |at| self.call_at::<Status>(at, "/v3/maintenance/status", Bytes::from_static(b"{}"));
        let all = futures::future::join_all((0..self.members()).map(ask)).await;
        all.into_iter().map(std::result::Result::ok).collect()
    }

    /// Why a member does not answer a read that needs a quorum: whether it answers for itself.
    pub async fn silence(&self, at: usize, why: String) -> Error {
        let ask = self.call_at::<Status>(at, "/v3/maintenance/status", Bytes::from_static(b"{}"));
        match time::timeout(CALL / 3, ask).await {
            Ok(Ok(status)) if status.leader == 0 => {
                Error::NoQuorum(format!("{} answers, but has no leader", self.endpoint(at)))
            }
            _ => unreachable(why),
        }
    }

    /// How far the clock of this machine is ahead of that of a member, in ms; the first member that answers, the
    /// present one before the others. The date of an answer is in whole seconds, and belongs to some moment
    /// between the request and the answer: the middle of both is taken. `None`: no member answers with a date.
    pub async fn clock_offset(&self) -> Option<i64> {
        let first = *self.current.borrow();
        for n in 0..self.members() {
            let endpoint = &self.endpoint(first + n);
            let (wall, begin) = (time::wall_ms(), Instant::now());
            let Ok(answer) = self.http.get(&format!("{endpoint}/version"), &[]).await else { continue };
            let ours = wall + begin.elapsed().as_millis() as i64 / 2;
            let date = answer.headers.get(DATE).and_then(|d| d.to_str().ok());
            if let Some(second) = date.and_then(http_date) {
                return Some(ours - (second * 1000 + 500));
            }
        }
        None
    }

    async fn token(&self, at: usize) -> std::result::Result<Option<HeaderValue>, Fault> {
        let Some((name, password)) = &self.user else { return Ok(None) };
        if let Some(token) = self.token.lock().clone() {
            return Ok(Some(token));
        }
        let ask = wire::body(&json!({ "name": name, "password": password }));
        let given: Token = self.send(at, "/v3/auth/authenticate", ask, None).await?;
        let mut token = HeaderValue::from_str(&given.token)
            .map_err(|_| Fault::Authentication("the token is not understood".to_owned()))?;
        token.set_sensitive(true);
        *self.token.lock() = Some(token.clone());
        Ok(Some(token))
    }

    fn forget(&self, token: Option<&HeaderValue>) {
        let mut kept = self.token.lock();
        if kept.as_ref() == token {
            *kept = None;
        }
    }
}

fn trimmed(endpoints: &[String]) -> Vec<String> {
    endpoints.iter().map(|e| e.trim_end_matches('/').to_owned()).collect()
}

fn refused(endpoint: &str, status: http::StatusCode, body: &[u8]) -> Fault {
    if status == http::StatusCode::NOT_FOUND && serde_json::from_slice::<Refusal>(body).is_err() {
        return Fault::Refused(format!(
            "{endpoint} has no HTTP gateway: etcd before 3.4, or started with --enable-grpc-gateway=false"
        ));
    }
    match serde_json::from_slice::<Refusal>(body) {
        Ok(refusal) => judge(endpoint, &refusal),
        Err(_) => Fault::Silent(format!("{endpoint}: {status}")),
    }
}

/// The second since 1970 of the date of an answer.
fn http_date(text: &str) -> Option<i64> {
    OffsetDateTime::parse(text, &Rfc2822).ok().map(OffsetDateTime::unix_timestamp)
}

fn is_too_old(version: &str) -> bool {
    let mut parts = version.split('.').map(|p| p.parse::<u32>().unwrap_or(0));
    (parts.next().unwrap_or(0), parts.next().unwrap_or(0)) < (3, 4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_told_apart() {
        let fault = |code, message: &str| judge("e", &Refusal { code, message: message.to_owned() });
        assert_eq!(fault(11, "etcdserver: mvcc: required revision has been compacted"), Fault::Compacted);
        assert!(matches!(fault(8, "etcdserver: mvcc: database space exceeded"), Fault::Full(_)));
        assert!(matches!(fault(8, "grpc: received message larger than max (2 vs. 1)"), Fault::TooLarge(_)));
        assert!(matches!(fault(8, "etcdserver: too many requests"), Fault::Silent(_)));
        assert!(matches!(fault(14, "etcdserver: request timed out"), Fault::Silent(_)));
        assert!(matches!(fault(13, "internal"), Fault::Silent(_)));
        assert!(matches!(fault(16, "etcdserver: invalid auth token"), Fault::Token(_)));
        assert!(matches!(fault(3, "etcdserver: user name is empty"), Fault::Token(_)));
        assert!(matches!(fault(7, "etcdserver: permission denied"), Fault::Denied(_)));
        let wrong = fault(3, "etcdserver: authentication failed, invalid user ID or password");
        assert!(matches!(wrong, Fault::Authentication(_)));
    }

    #[test]
    fn dates() {
        assert_eq!(http_date("Sun, 06 Nov 1994 08:49:37 GMT"), Some(784_111_777));
        assert_eq!(http_date("Thu, 01 Jan 1970 00:00:00 GMT"), Some(0));
        for bad in ["", "yesterday", "1994-11-06T08:49:37Z"] {
            assert_eq!(http_date(bad), None, "{bad}");
        }
    }

    #[test]
    fn versions() {
        for (version, old) in [
            ("3.4.0", false),
            ("3.10.1", false),
            ("4.0.0-rc.1", false),
            ("3.3.27", true),
            ("2.9", true),
            ("", true),
        ] {
            assert_eq!(is_too_old(version), old, "{version}");
        }
    }
}
