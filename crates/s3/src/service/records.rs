//! What is kept of a finished request: events for listeners, the bucket's access log, the audit log, the server's log.
//!
//! Invariant: what signs a request is in none of them. Must not depend on: how an operation is carried out.

use ashlar_environment::time::Instant;
use http::header::{self, HeaderName, HeaderValue};
use http::request::Parts;
use http::{Method, StatusCode};

use ashlar_audit::{QueuePermit, Record};

use super::{Arrival, Seen, Service};
use crate::access_log::Entry;
use crate::audit_context::{self, Note};
use crate::auth::Scheme;
use crate::body::Body;
use crate::operation::Operation;
use crate::target::Target;
use crate::trace::Event;

impl Service {
    /// The event about a request's head for listeners of the trace.
    pub(super) fn heard(&self, parts: &Parts, arrival: &Arrival<'_>) -> Event {
        let header = |name: HeaderName| {
            let value = parts.headers.get(name).map(|v| ashlar_audit::printable(v.as_bytes()));
            value.unwrap_or_default()
        };
        let target = without_secrets(&parts.uri);
        let query = target.split_once('?').map_or("", |(_, query)| query);
        Event {
            time_ns: i128::from((self.context.clock)()) * 1_000_000,
            method: parts.method.as_str().to_owned(),
            path: parts.uri.path().to_owned(),
            query: query.to_owned(),
            client: arrival.peer.to_string(),
            host: header(header::HOST),
            user_agent: header(header::USER_AGENT),
            ..Event::default()
        }
    }

    /// Writes a line into the access log of the bucket that was asked, if it has one.
    pub(super) fn note(
        &self,
        parts: &Parts,
        seen: &Seen,
        response: &http::Response<Body>,
        head: &[Option<HeaderValue>; 3],
        (id, began): (&str, Instant),
        arrival: &Arrival<'_>,
    ) {
        let text = |v: &Option<HeaderValue>| {
            v.as_ref().map(|v| String::from_utf8_lossy(v.as_bytes()).into_owned()).unwrap_or_default()
        };
        let [referer, agent, host] = [0, 1, 2].map(|i| text(&head[i]));
        let (mut bucket, mut key) = (seen.audit_context.bucket.clone(), seen.audit_context.key.clone());
        if bucket.is_empty() {
            let of_host = self.bucket_of(&host).or_else(|| crate::admit::below(&self.websites, &host));
            let Ok(target) = Target::parse(parts.uri.path(), None, of_host) else { return };
            (bucket, key) = (target.bucket.unwrap_or_default(), target.key.unwrap_or_default());
        }
        let verified = seen.audit_context.verified.as_ref();
        let (signature, auth) = match verified.map(crate::auth::Verified::scheme) {
            Some(Scheme::HeaderV4) => ("SigV4", "AuthHeader"),
            Some(Scheme::QueryV4) => ("SigV4", "QueryString"),
            Some(Scheme::HeaderV2) => ("SigV2", "AuthHeader"),
            Some(Scheme::QueryV2) => ("SigV2", "QueryString"),
            Some(Scheme::Form) | Some(Scheme::Anonymous) | None => ("", ""),
        };
        let took_ms = began.elapsed().as_millis() as u64;
        let head = parts.method == Method::HEAD;
        let length =
            response.headers().get(header::CONTENT_LENGTH).and_then(|v| v.to_str().ok()?.parse().ok());
        let range = response.headers().get(header::CONTENT_RANGE).and_then(|v| v.to_str().ok());
        let size = match seen.op {
            Operation::GetObject | Operation::HeadObject | Operation::WebsiteRequest
                if response.status().is_success() =>
            {
                range.and_then(|r| r.rsplit_once('/')?.1.parse().ok()).or(length)
            }
            Operation::PutObject | Operation::UploadPart => Some(seen.received),
            _ => None,
        };
        self.document_cache.logs.note(
            &self.context,
            &seen.buckets,
            &Entry {
                bucket: &bucket,
                at_ms: (self.context.clock)(),
                ip: arrival.peer.ip(),
                requester: verified.map(|v| v.access_key()).unwrap_or_default(),
                request_id: id,
                op: seen.op,
                method: &parts.method,
                key: &key,
                // A presigned query is a credential.
                uri: &format!("{} {} HTTP/1.1", parts.method, without_secrets(&parts.uri)),
                status: response.status().as_u16(),
                error: seen.error,
                sent: if head { 0 } else { response.body().len() },
                size,
                took_ms,
                referer: &referer,
                agent: &agent,
                host: &host,
                version: seen.audit_context.version.as_deref().unwrap_or_default(),
                host_id: self.host_id.to_str().unwrap_or_default(),
                signature,
                auth,
                tls: arrival.tls,
            },
        );
    }

    /// Hands a request to the audit log, and keeps it in memory if it was refused.
    pub(super) fn record(
        &self,
        parts: &Parts,
        seen: Seen,
        (status, id, began): (StatusCode, &str, Instant),
        arrival: &Arrival<'_>,
        ticket: QueuePermit,
        note: &mut Note,
    ) {
        let mut audit_context = seen.audit_context;
        if audit_context.bucket.is_empty() {
            // It was refused before it became an operation.
            let host = parts.headers.get(header::HOST).and_then(|h| h.to_str().ok());
            let of_host = host.and_then(|h| self.bucket_of(h));
            if let Ok(target) = Target::parse(parts.uri.path(), None, of_host) {
                audit_context.bucket = target.bucket.unwrap_or_default();
                audit_context.key = target.key.unwrap_or_default();
            }
        }
        let took = began.elapsed();
        let request_origin = (self.context.clock)() - took.as_millis() as i64;
        let mut record =
            Record::new(request_origin, id, audit_context::api_layer(seen.op), arrival.peer.ip());
        record.operation = seen.op.name();
        record.method = parts.method.as_str().to_owned();
        (record.status, record.error) = (status.as_u16(), seen.error);
        (record.tls, record.bytes_in) = (arrival.tls, seen.received);
        record.micros = took.as_micros() as u64;
        let ended = audit_context.ended.take();
        audit_context.fill(&parts.uri, &mut record);
        if matches!(status.as_u16(), 401 | 403) {
            self.audit.refused(&record);
        }
        if ticket.is_real() {
            note.record(record, ticket, ended);
        }
    }
}

/// Path and query without what signs a request.
fn without_secrets(uri: &http::Uri) -> String {
    let secret = |p: &&str| {
        let name = p.split('=').next().unwrap_or_default().to_ascii_lowercase();
        let known =
            ["signature", "awsaccesskeyid", "x-amz-signature", "x-amz-credential", "x-amz-security-token"];
        !known.contains(&name.as_str())
    };
    match uri.query() {
        None => uri.path().to_owned(),
        Some(query) => {
            let query: Vec<&str> = query.split('&').filter(secret).collect();
            format!("{}?{}", uri.path(), query.join("&"))
        }
    }
}

/// A line in the server's log.
pub(super) fn log(
    parts: &Parts,
    seen: &Seen,
    status: StatusCode,
    id: &str,
    began: Instant,
    cause: Option<&str>,
    arrival: &Arrival<'_>,
) {
    let micros = began.elapsed().as_micros() as u64;
    // Only the path: a presigned query is a credential.
    let (method, path, op, peer) = (&parts.method, parts.uri.path(), seen.op.name(), arrival.peer);
    if status.is_server_error() && status != StatusCode::NOT_IMPLEMENTED {
        let cause = cause.unwrap_or_default();
        tracing::warn!(target: "ashlar::request", request_id = id, %method, path, op, status = status.as_u16(), micros, %peer, cause, "request failed");
    } else {
        tracing::debug!(target: "ashlar::request", request_id = id, %method, path, op, status = status.as_u16(), micros, %peer, cause, "request");
    }
}
