//! An administration request as its handler receives it ([`AdminRequest`]), and the error that it can return
//! ([`Refusal`]).
//!
//! Every module that answers administration requests uses these types: `identities`, `kms`, `lifecycle`,
//! `settings`, `monitor` and others. `admin` and `minio` build the requests and pass them to those modules.
//!
//! Invariant: every authorization decision is stored in the request, for the audit log. Must not depend on:
//! `admin`, the modules that answer, the node.

use std::net::IpAddr;
use std::sync::Arc;

use ashlar_iam::Identity;
use ashlar_node::clock::now_ms;
use ashlar_policy::{Action, BucketRules, Context as Facts, Request as Question, decide};
use ashlar_s3::audit_context::{self, AuthzDecision};
use ashlar_s3::target::Query;
use ashlar_s3::{Code, Fault};
use bytes::Bytes;
use http::StatusCode;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::peer::Peer;
use super::table::Route;

/// A request whose signature has been verified.
pub struct AdminRequest {
    /// The caller.
    pub caller: Arc<Identity>,
    /// The requested operation.
    pub route: Route,
    /// The prefix of the path, for instance `/ashlar/api/v1`; empty for a call of MinIO's API.
    pub base: &'static str,
    /// The name in the path, for instance of a user.
    pub name: String,
    /// The query.
    pub query: Query,
    /// The request body.
    pub body: Bytes,
    /// The address of the client.
    pub ip: IpAddr,
    /// The request came over TLS.
    pub tls: bool,
    /// The last authorization decision.
    pub authz_decision: audit_context::DecisionSlot,
}

/// An error of an administration request.
#[derive(Debug)]
pub struct Refusal {
    /// The HTTP status.
    pub status: StatusCode,
    /// The error code, for programs.
    pub code: &'static str,
    /// What happened, and what to do about it.
    pub why: String,
}

/// The result of a route: status and JSON document.
pub type AdminResult = Result<(StatusCode, Value), Refusal>;

/// 400: the client has to change the request.
pub fn bad_request(why: impl Into<String>) -> Refusal {
    Refusal { status: StatusCode::BAD_REQUEST, code: "InvalidRequest", why: why.into() }
}

impl AdminRequest {
    /// Parses the request body; an empty body is an empty object.
    ///
    /// # Errors
    /// The body is not the expected document.
    pub fn document<T: DeserializeOwned>(&self) -> Result<T, Refusal> {
        let body: &[u8] = if self.body.is_empty() { b"{}" } else { &self.body };
        serde_json::from_slice(body).map_err(|e| bad_request(format!("the document is not understood: {e}")))
    }

    /// A request from the client at `peer`, without name and body.
    pub fn new(caller: Arc<Identity>, route: Route, query: Query, peer: &Peer) -> AdminRequest {
        let (ip, tls) = (peer.address.ip(), peer.tls);
        let (name, body, authz_decision) = (String::new(), Bytes::new(), Default::default());
        AdminRequest { caller, route, base: "", name, query, body, ip, tls, authz_decision }
    }

    /// Another request of the same caller.
    pub fn other(&self, route: Route, name: &str, document: &Value) -> AdminRequest {
        let body = if document.is_null() { Bytes::new() } else { document.to_string().into() };
        let (caller, name, query) = (self.caller.clone(), name.to_owned(), Query::default());
        let (base, ip, tls, authz_decision) = (self.base, self.ip, self.tls, Default::default());
        AdminRequest { caller, route, base, name, query, body, ip, tls, authz_decision }
    }

    /// Whether the policies of the caller allow one of `actions`. `own`: the request is about the caller's
    /// own account.
    pub fn may(&self, actions: &[Action], own: bool) -> bool {
        let decided = decided(&self.caller, actions, own, self.ip, self.tls);
        let allowed = decided.as_ref().is_some_and(|d| !d.denies());
        if decided.is_some() {
            *self.authz_decision.lock() = decided;
        }
        allowed
    }

    /// Returns an error unless the caller may perform one of `actions`.
    ///
    /// # Errors
    /// 403, which names the actions.
    pub fn need(&self, actions: &[Action], own: bool) -> Result<(), Refusal> {
        if self.may(actions, own) {
            return Ok(());
        }
        let names: Vec<_> = actions.iter().map(|a| a.name()).collect();
        Err(denied(format!("Access Denied. This needs a policy that allows {}.", names.join(" or "))))
    }
}

/// What the policies of a caller at `ip` say about `actions`: the first decision that allows one, or else the last.
pub(crate) fn decided(
    caller: &Identity,
    actions: &[Action],
    own: bool,
    ip: IpAddr,
    tls: bool,
) -> Option<AuthzDecision> {
    let facts = Facts { now_ms: now_ms(), source_ip: Some(ip), secure: tls, ..Facts::default() };
    let principal = caller.principal();
    let mut last = None;
    for action in actions {
        let question = Question::new(*action, "", "", &principal, &facts);
        let decision = decide(&question, &caller.authority(BucketRules::default(), own));
        let allowed = decision.allowed;
        last = Some(AuthzDecision { action: *action, decision: Some(decision), sid: None });
        if allowed {
            break;
        }
    }
    last
}

/// 403: the caller has no permission.
pub fn denied(why: impl Into<String>) -> Refusal {
    Refusal { status: StatusCode::FORBIDDEN, code: Code::ACCESS_DENIED.name, why: why.into() }
}

impl From<Fault> for Refusal {
    fn from(fault: Fault) -> Refusal {
        Refusal { status: fault.status(), code: fault.code().name, why: fault.message().to_owned() }
    }
}

/// 503: the audit log cannot take a record now; the request was not carried out.
pub fn unrecordable() -> Refusal {
    let why =
        "the audit log cannot take records now, so the request was not carried out; see the server's log"
            .into();
    Refusal { status: StatusCode::SERVICE_UNAVAILABLE, code: "ServiceUnavailable", why }
}

/// 503: the request may have been carried out, but its audit record is not durable yet.
pub fn unrecorded() -> Refusal {
    let why =
        "the request may have been carried out, but is not in the audit log yet; see the server's log".into();
    Refusal { status: StatusCode::SERVICE_UNAVAILABLE, code: "ServiceUnavailable", why }
}
