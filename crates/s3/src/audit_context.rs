//! Collects what the audit log and `ashlar admin why` record about a request.
//!
//! Invariants: while the audit log is off and the request is not refused, this costs only moves; only the
//! headers and parameters that `ashlar_audit` lists are recorded; a refused client gets none of this data.
//!
//! Must not depend on: the destination of records.

use std::sync::Arc;

use ashlar_audit::{ApiLayer, QUERY, Record, headers_of, printable};
use ashlar_iam::{Identity, Kind};
use http::Uri;
use http::header::{HeaderMap, HeaderValue, USER_AGENT};
use parking_lot::Mutex;

use crate::auth::Verified;
pub use crate::authz_decision::{AuthzDecision, DecisionSlot};
use crate::call::Call;
pub(crate) use crate::note::{Ended, Note};
use crate::target::Query;

/// How a kind of credential is called.
fn kind(kind: Kind) -> &'static str {
    match kind {
        Kind::Anonymous => "anonymous",
        Kind::Root => "root",
        Kind::User => "user",
        Kind::AccessKey => "access-key",
        Kind::Session => "session",
    }
}

/// Writes the caller into a record.
pub fn identify(who: &Identity, record: &mut Record) {
    record.kind = kind(who.kind);
    record.access_key.clone_from(&who.access_key);
    record.user.clone_from(&who.user);
    if who.kind != Kind::Anonymous && who.user != who.access_key {
        record.parent.clone_from(&who.user);
    }
    if let Some(federated) = &who.federated {
        record.provider.clone_from(&federated.provider);
    }
}

/// Writes the circumstances of a request into a record: what may be written of its head.
pub fn describe(headers: &HeaderMap, uri: &Uri, record: &mut Record) {
    record.headers = headers_of(headers);
    record.user_agent = headers.get(USER_AGENT).map(|v| printable(v.as_bytes())).unwrap_or_default();
    if let Some(query) = uri.query().and_then(|q| Query::parse(q).ok()) {
        let value = |name: &'static str| Some((name, printable(query.get(name)?.as_bytes())));
        record.query = QUERY.iter().filter_map(|name| value(name)).collect();
    }
}

/// What a request was about and who asked, as far as it came.
#[derive(Default)]
pub(crate) struct AuditContext {
    /// Who asked, proved by a signature.
    pub verified: Option<Verified>,
    /// Who asked, proved otherwise.
    pub authenticated: Option<Arc<Identity>>,
    pub authz_decision: DecisionSlot,
    pub bucket: String,
    pub key: String,
    pub version: Option<String>,
    pub agent: Option<HeaderValue>,
    /// Only while the audit log is on.
    pub headers: Vec<(&'static str, String)>,
    /// How an answer that is not finished yet ends.
    pub ended: Option<Ended>,
}

impl AuditContext {
    /// What has to be kept of the headers before the operation takes them.
    pub fn head(&mut self, headers: &HeaderMap, all: bool) {
        self.agent = headers.get(USER_AGENT).cloned();
        if all {
            self.headers = headers_of(headers);
        }
    }

    /// Notes a call that may outlive its request.
    pub fn noted(&mut self, call: &Call) {
        (self.bucket, self.key) = (call.bucket.clone(), call.key.clone());
        self.authenticated = Some(call.verified.identity().clone());
        self.authz_decision = Mutex::new(call.authz_decision.lock().clone());
    }

    /// Writes everything into a record.
    pub fn fill(self, uri: &Uri, record: &mut Record) {
        let who = self.verified.as_ref().map(|v| &**v.identity()).or(self.authenticated.as_deref());
        describe(&HeaderMap::new(), uri, record);
        record.headers = self.headers;
        record.user_agent = self.agent.map(|v| printable(v.as_bytes())).unwrap_or_default();
        if let Some(who) = who {
            identify(who, record);
        }
        if let Some(authz_decision) = self.authz_decision.into_inner() {
            authz_decision.fill(who, record);
        }
        record.bucket = self.bucket;
        record.key = self.key;
        record.version = self.version;
    }
}

/// The API that an operation belongs to.
pub(crate) fn api_layer(op: crate::operation::Operation) -> ApiLayer {
    use crate::operation::Operation as Op;
    match op {
        Op::AssumeRole
        | Op::GetCallerIdentity
        | Op::AssumeRoleWithWebIdentity
        | Op::AssumeRoleWithLDAPIdentity
        | Op::AssumeRoleWithCertificate => ApiLayer::Sts,
        _ => ApiLayer::S3,
    }
}
