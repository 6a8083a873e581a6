//! Uploads by forms: the signature is in the body, which is therefore read before it can be checked.
//!
//! Invariant: how many such bodies are read at a time is bounded. Must not depend on: what the form's policy permits.

use http::header;
use http::request::Parts;

use super::{Arrival, Seen, Service, crowded, of_address};
use crate::admit::Head;
use crate::document_cache::Origin;
use crate::fault::{Code, Fault, Outcome};
use crate::form::Form;
use crate::ops::{Answer, post};
use crate::request_body::{RequestBody, Source};

impl Service {
    /// Answers an upload by a form.
    pub(super) async fn form(
        &self,
        parts: &Parts,
        source: Source,
        head: Head,
        boundary: &str,
        (arrival, id): (&Arrival<'_>, &str),
        seen: &mut Seen,
    ) -> Outcome<Answer> {
        let Head { target, host } = head;
        let both = parts.headers.contains_key(header::AUTHORIZATION)
            || target.query.has("X-Amz-Signature")
            || target.query.has("Signature");
        let bucket = target.bucket.unwrap_or_default();
        if both || !target.query.is_empty() {
            seen.left = Some(source);
            return Err(Fault::with(
                Code::INVALID_ARGUMENT,
                "A form upload carries its signature in its fields, and has no query and no Authorization header.",
            ));
        }
        let request_body = match RequestBody::unchecked(source, &parts.headers) {
            Ok(request_body) => request_body,
            Err((fault, source)) => {
                seen.left = Some(source);
                return Err(fault);
            }
        };
        let Some(permit) = self.unsigned_permit().await else {
            return Err(crowded());
        };
        let read = tokio::select! {
            read = Form::read(request_body, boundary) => read,
            () = permit.lost() => return Err(crowded()),
        };
        let mut form = match read {
            Ok(form) => form,
            Err((fault, request_body)) => {
                seen.left = Some(request_body.into_source());
                return Err(fault);
            }
        };
        drop(permit);
        let origin = Origin { ip: arrival.peer.ip(), document_cache: self.document_cache.clone() };
        let from = post::From { origin: &origin, buckets: &seen.buckets, tls: arrival.tls, host: &host, id };
        let audit_context = &mut seen.audit_context;
        let post = post::post_object(&self.context, &self.verifier, &bucket, from, &mut form, audit_context);
        // Only this process knows who signed the form, so clients that post forms share memory by address.
        let outcome = ashlar_object::as_tenant(of_address(arrival), post).await;
        seen.verified = true;
        if let (Some(watch), true) = (arrival.watch, outcome.is_ok()) {
            watch.know();
        }
        let request_body = form.into_request_body();
        seen.received = request_body.received();
        seen.left = Some(request_body.into_source());
        outcome
    }
}
