//! An administration request as its handler sees it ([`Ask`]), and why one is refused ([`Refusal`]).
//!
//! Every module that answers administration requests is built on these types: `identities`, `kms`, `lifecycle`,
//! `settings`, `monitor` and so on; `admin` and `minio` make the requests and pass them to those modules.
//!
//! Invariant: every decision about a permission is noted in the request, for the audit log. Must not depend on:
//! `admin`, the modules that answer, the node.

use std::net::IpAddr;
use std::sync::Arc;

use ashlar_iam::Identity;
use ashlar_policy::{Action, BucketRules, Context as Facts, Request as Question, decide};
use ashlar_s3::audit_context::{self, AuthzDecision};
use ashlar_s3::target::Query;
use ashlar_s3::{Code, Fault};
use bytes::Bytes;
use http::StatusCode;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::clock::now_ms;
use super::connection::Peer;
use super::table::Route;

/// A request whose sender is known.
pub struct Ask {
    /// Who asks.
    pub who: Arc<Identity>,
    /// What for.
    pub route: Route,
    /// Where the path begins; nothing if another door was asked.
    pub base: &'static str,
    /// The name in the path.
    pub name: String,
    /// The query.
    pub query: Query,
    /// The document.
    pub body: Bytes,
    /// The other end of the connection.
    pub ip: IpAddr,
    /// The request came over TLS.
    pub tls: bool,
    /// What was decided last.
    pub authz_decision: audit_context::Slot,
}

/// Why something was not done.
#[derive(Debug)]
pub struct Refusal {
    /// The HTTP status.
    pub status: StatusCode,
    /// A word for programs.
    pub code: &'static str,
    /// What, and what to do.
    pub why: String,
}

/// What a route answers.
pub type Reply = Result<(StatusCode, Value), Refusal>;

/// The request has to be changed.
pub fn wrong(why: impl Into<String>) -> Refusal {
    Refusal { status: StatusCode::BAD_REQUEST, code: "InvalidRequest", why: why.into() }
}

impl Ask {
    /// The document; an empty one has nothing in it.
    ///
    /// # Errors
    /// It is not what is expected.
    pub fn document<T: DeserializeOwned>(&self) -> Result<T, Refusal> {
        let body: &[u8] = if self.body.is_empty() { b"{}" } else { &self.body };
        serde_json::from_slice(body).map_err(|e| wrong(format!("the document is not understood: {e}")))
    }

    /// A request without name and document, from the other end of a connection.
    pub fn new(who: Arc<Identity>, route: Route, query: Query, peer: &Peer) -> Ask {
        let (ip, tls) = (peer.address.ip(), peer.tls);
        let (name, body, authz_decision) = (String::new(), Bytes::new(), Default::default());
        Ask { who, route, base: "", name, query, body, ip, tls, authz_decision }
    }

    /// The same sender, asking for something else.
    pub fn other(&self, route: Route, name: &str, document: &Value) -> Ask {
        let body = if document.is_null() { Bytes::new() } else { document.to_string().into() };
        let (who, name, query) = (self.who.clone(), name.to_owned(), Query::default());
        let (base, ip, tls, authz_decision) = (self.base, self.ip, self.tls, Default::default());
        Ask { who, route, base, name, query, body, ip, tls, authz_decision }
    }

    /// Whether who asks may do one of these. `own`: it is about the requester's own account.
    pub fn may(&self, actions: &[Action], own: bool) -> bool {
        let facts =
            Facts { now_ms: now_ms(), source_ip: Some(self.ip), secure: self.tls, ..Facts::default() };
        let principal = self.who.principal();
        actions.iter().any(|action| {
            let question = Question::new(*action, "", "", &principal, &facts);
            let decision = decide(&question, &self.who.authority(BucketRules::default(), own));
            *self.authz_decision.lock() =
                Some(AuthzDecision { action: *action, decision: Some(decision), sid: None });
            decision.allowed
        })
    }

    /// Refuses unless who asks may do one of these.
    ///
    /// # Errors
    /// 403, with the names of the actions.
    pub fn need(&self, actions: &[Action], own: bool) -> Result<(), Refusal> {
        if self.may(actions, own) {
            return Ok(());
        }
        let names: Vec<_> = actions.iter().map(|a| a.name()).collect();
        Err(denied(format!("Access Denied. This needs a policy that allows {}.", names.join(" or "))))
    }
}

/// Not permitted.
pub fn denied(why: impl Into<String>) -> Refusal {
    Refusal { status: StatusCode::FORBIDDEN, code: Code::ACCESS_DENIED.name, why: why.into() }
}

impl From<Fault> for Refusal {
    fn from(fault: Fault) -> Refusal {
        Refusal { status: fault.status(), code: fault.code().name, why: fault.message().to_owned() }
    }
}

/// There is no room in the audit log, and nothing was done.
pub fn unrecordable() -> Refusal {
    let why = "the audit log takes nothing at present, so nothing was done; look at the server's log".into();
    Refusal { status: StatusCode::SERVICE_UNAVAILABLE, code: "ServiceUnavailable", why }
}

/// It was done, and is not in the audit log yet.
pub fn unrecorded() -> Refusal {
    let why = "it may have been done, but is not in the audit log yet; look at the server's log".into();
    Refusal { status: StatusCode::SERVICE_UNAVAILABLE, code: "ServiceUnavailable", why }
}
