//! The audit record of an administration call.
//!
//! Invariant: the record is on stable storage before the answer is sent. Must not depend on: how the audit
//! log is configured.

use std::sync::Arc;

use ashlar_audit::{ApiLayer, Audit, QueuePermit, Record};
use ashlar_environment::time::Instant;
use ashlar_iam::Identity;
use ashlar_node::clock::now_ms;
use ashlar_s3::Body;
use ashlar_s3::audit_context::{AuthzDecision, describe, identify};
use http::{HeaderMap, Method, Response, StatusCode, Uri};

use super::admin_request::unrecorded;
use super::peer::Peer;
use super::responses::refused;

/// The audit record of an administration call while the call runs.
pub struct AuditEntry {
    audit: Arc<Audit>,
    ticket: QueuePermit,
    began: Instant,
    record: Record,
    caller: Option<Arc<Identity>>,
}

impl AuditEntry {
    /// Begins the record of a call.
    ///
    /// # Errors
    /// The audit log cannot take a record; the call must not be carried out.
    pub async fn begin(
        audit: &Arc<Audit>,
        id: &str,
        head: (&Method, &Uri, &HeaderMap),
        peer: &Peer,
    ) -> ashlar_audit::Result<AuditEntry> {
        let ticket = audit.reserve().await?;
        let (method, uri, headers) = head;
        let mut record = Record::new(now_ms(), id, ApiLayer::Admin, peer.address.ip());
        record.method = method.as_str().to_owned();
        record.tls = peer.tls;
        describe(headers, uri, &mut record);
        Ok(AuditEntry { audit: audit.clone(), ticket, began: Instant::now(), record, caller: None })
    }

    /// Sets the caller.
    pub fn set_caller(&mut self, caller: &Arc<Identity>) {
        identify(caller, &mut self.record);
        self.caller = Some(caller.clone());
    }

    /// Sets the operation, the name that it is about, and the size of the request body.
    pub fn set_operation(&mut self, operation: &'static str, name: &str, received: usize) {
        self.record.operation = operation;
        self.record.key = name.to_owned();
        self.record.bytes_in = received as u64;
    }

    /// Sets the authorization decision; `then`: why the call was refused afterwards although policies allow
    /// it.
    pub fn set_decision(&mut self, authz_decision: Option<AuthzDecision>, then: Option<&str>) {
        let Some(authz_decision) = authz_decision else { return };
        let allowed = !authz_decision.denies();
        authz_decision.fill(self.caller.as_deref(), &mut self.record);
        if let Some(why) = then.filter(|_| allowed) {
            // A rule beyond policies, for instance that a caller cannot grant permissions that they lack.
            self.record.decided_by.push_str("; then refused: ");
            self.record.decided_by.push_str(why);
        }
    }

    /// Completes the record, waits until it is durable, and returns the response to send.
    pub async fn finish(mut self, response: Response<Body>, error: &'static str) -> Response<Body> {
        self.record.status = response.status().as_u16();
        self.record.error = error;
        self.record.bytes_out = response.body().len();
        self.record.micros = self.began.elapsed().as_micros() as u64;
        if matches!(response.status(), StatusCode::FORBIDDEN | StatusCode::UNAUTHORIZED) {
            self.audit.refused(&self.record);
        }
        match self.audit.note_and_wait(self.ticket, self.record).await {
            Ok(()) => response,
            Err(error) => {
                tracing::error!(%error, "an administration call was carried out, but its audit record is not durable yet");
                refused(&unrecorded())
            }
        }
    }
}
