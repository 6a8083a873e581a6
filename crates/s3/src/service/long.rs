//! Operations that may take long: the answer begins before they end.
//!
//! Must not depend on: which operations these are.

use ashlar_environment::time;
use std::time::Duration;

use http::header;
use http::request::Parts;

use super::{Seen, Service, XML};
use crate::audit_context::Ended;
use crate::body::Body;
use crate::fault::{Fault, Outcome};
use crate::operation::Operation;
use crate::ops::{self, Answer, Call};

/// How long a long operation may take before its answer begins.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often white space is sent after that.
const BEAT: Duration = Duration::from_secs(5);

impl Service {
    /// Runs an operation that may take long. After [`PATIENCE`] the answer begins with status 200 and
    /// white space, as AWS does it, so that no client takes the silence for a dead connection; how
    /// it ended is in the document.
    pub(super) async fn patiently(
        &self,
        op: Operation,
        mut call: Call,
        parts: &Parts,
        seen: &mut Seen,
        id: &str,
    ) -> Outcome<Answer> {
        let (context, host_id, id) = (self.context.clone(), self.host_id.clone(), id.to_owned());
        let resource = parts.uri.path().to_owned();
        // The call may outlive this function; who asked is noted before.
        seen.audit_context.noted(&call);
        let mut work = Box::pin(async move {
            let outcome = match ops::run(&context, op, &mut call).await {
                Err(fault) => Err(call.hide(&context, fault).await),
                outcome => outcome,
            };
            (outcome, call)
        });
        match time::timeout(PATIENCE, work.as_mut()).await {
            Ok((outcome, call)) => {
                seen.received = call.request_body.received();
                seen.took(call);
                outcome
            }
            Err(_) => {
                let ended = Ended::default();
                seen.audit_context.ended = Some(ended.clone());
                let document = Box::pin(async move {
                    match work.await.0 {
                        Ok(answer) => match answer.body.collect().await {
                            Ok(bytes) => {
                                let _ = ended.set((200, ""));
                                String::from_utf8_lossy(&bytes).into_owned()
                            }
                            Err(broken) => Fault::internal(broken).document(&resource, &id, ""),
                        },
                        Err(fault) => {
                            let _ = ended.set((fault.status().as_u16(), fault.code().name));
                            tracing::warn!(target: "ashlar::request", request_id = id, code = fault.code().name, cause = fault.cause(), "a long request failed");
                            fault.document(&resource, &id, host_id.to_str().unwrap_or_default())
                        }
                    }
                });
                let mut answer = Answer::ok();
                answer.headers.insert(header::CONTENT_TYPE, XML);
                answer.body = Body::patient(document, BEAT);
                Ok(answer)
            }
        }
    }
}
