//! Temporary credentials on the S3 port: AWS's security token service, as `POST /` with a form.
//!
//! `AssumeRole` and `GetCallerIdentity` are signed for the service `sts`; the operations in `federated`
//! contain their own proof, and their parameters may be in the query, as in MinIO's documentation.
//!
//! There are no roles here: callers get credentials with at most their own permissions, further restricted by
//! the policy that they send. `RoleArn` and `RoleSessionName`, which clients require, have no effect.
//!
//! Invariants: every answer requires a signature over the whole document, or a proof that an identity
//! provider accepts; at most [`LIMIT`] bytes are held for a request; the token and the secret are only in the
//! answer.
//!
//! Must not depend on: buckets, keys.

mod federated;

use ashlar_iam::{ACCOUNT, Assume, Error, Identity, Session};
use ashlar_policy::{Action, BucketRules, Context as Facts, Request as Question, decide};
use http::header::{self, HeaderValue};
use http::request::Parts;
use http::{Method, StatusCode};

use crate::answer::Answer;
use crate::audit_context::AuditContext;
use crate::auth::{Request, Verified};
use crate::authz_decision::{AuthzDecision, DecisionSlot};
use crate::body::Body;
use crate::date;
use crate::fault::{Code, Fault, Outcome};
use crate::operation::Operation;
use crate::request_body::{RequestBody, Source};
use crate::service::{Arrival, Seen, Service, crowded};
use crate::target::{Query, Target};
use crate::xml::Xml;

/// Longest document. A session's policy has 2 KiB, a web identity's token may have 20.
const LIMIT: usize = 64 * 1024;
/// Seconds that a session lasts unless something else is asked for.
const DURATION_S: i64 = 3600;
/// The only version of the interface.
const VERSION: &str = "2011-06-15";
const NAMESPACE: &str = "xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\"";

/// Why it was refused: status, code, text.
struct Refused(StatusCode, &'static str, String);

impl From<Fault> for Refused {
    fn from(fault: Fault) -> Refused {
        let code = match fault.code() {
            Code::ACCESS_DENIED => "AccessDenied",
            Code::INVALID_ACCESS_KEY => "InvalidClientTokenId",
            Code::INVALID_TOKEN => "InvalidClientTokenId",
            Code::EXPIRED_TOKEN => "ExpiredToken",
            code => code.name,
        };
        Refused(fault.status(), code, fault.message().to_owned())
    }
}

impl From<Error> for Refused {
    fn from(e: Error) -> Refused {
        let (status, code) = match &e {
            Error::Policy(ashlar_policy::Error::TooLarge { .. }) => {
                (StatusCode::BAD_REQUEST, "PackedPolicyTooLarge")
            }
            Error::Policy(_) => (StatusCode::BAD_REQUEST, "MalformedPolicyDocument"),
            Error::Invalid(_) => (StatusCode::BAD_REQUEST, "ValidationError"),
            Error::Unavailable(_) => (StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable"),
            _ => (StatusCode::FORBIDDEN, "AccessDenied"),
        };
        Refused(status, code, e.to_string())
    }
}

/// Whether a request is for the security token service.
pub(crate) fn is_sts(parts: &Parts, target: &Target) -> bool {
    let form = parts.headers.get(header::CONTENT_TYPE).and_then(|v| v.to_str().ok());
    let form = form.is_some_and(|t| t.starts_with("application/x-www-form-urlencoded"));
    let query = target.query.get("Action").is_some_and(|a| federated::Kind::find(a).is_some());
    parts.method == Method::POST && target.path == "/" && target.bucket.is_none() && (form || query)
}

impl Service {
    /// Answers it, errors too: they have another form than those of S3.
    pub(crate) async fn sts(
        &self,
        parts: &Parts,
        source: Source,
        target: &Target,
        arrival: &Arrival<'_>,
        seen: &mut Seen,
        id: &str,
    ) -> Outcome<Answer> {
        // A body that could not be read to its end leaves the connection in no state to go on.
        let mut request_body =
            RequestBody::unchecked(source, &parts.headers).map_err(|(fault, _)| fault.closing())?;
        let permit = self.unsigned_permit().await.ok_or_else(crowded)?;
        let body = tokio::select! {
            body = request_body.collect(LIMIT) => body.map_err(Fault::closing)?,
            () = permit.lost() => return Err(crowded()),
        };
        drop(permit);
        seen.received = body.len() as u64;
        match self.sts_answer(parts, &body, target, arrival, seen, id).await {
            Ok(xml) => Ok(Answer::document(xml)),
            Err(Refused(status, code, message)) => {
                seen.error = code;
                let mut xml = Xml::new();
                xml.open_with("ErrorResponse", NAMESPACE).open("Error");
                xml.plain("Type", if status.is_server_error() { "Receiver" } else { "Sender" });
                xml.plain("Code", code).leaf("Message", &message).close();
                xml.plain("RequestId", id).close();
                let mut answer = Answer::new(status);
                answer.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/xml"));
                answer.body = Body::whole(xml.finish());
                Ok(answer)
            }
        }
    }

    async fn sts_answer(
        &self,
        parts: &Parts,
        body: &[u8],
        target: &Target,
        arrival: &Arrival<'_>,
        seen: &mut Seen,
        id: &str,
    ) -> Result<Xml, Refused> {
        let now = (self.context.clock)();
        if let Some((kind, form)) = federated::form(target, body)? {
            seen.op = kind.operation();
            return self.assume_federated(kind, &form, arrival, &mut seen.audit_context, now, id).await;
        }
        let signed = Request { method: &parts.method, uri: &parts.uri, target, headers: &parts.headers };
        let AuditContext { verified, authz_decision, .. } = &mut seen.audit_context;
        let verified: &Verified =
            verified.insert(self.verifier.verify_sts(&signed, body, now.div_euclid(1000))?);
        let who = verified.identity();
        who.used(now);
        seen.verified = true;
        let form = parsed(body)?;
        match form.get("Action").unwrap_or_default() {
            "GetCallerIdentity" => {
                seen.op = Operation::GetCallerIdentity;
                Ok(caller(who, id))
            }
            "AssumeRole" => {
                seen.op = Operation::AssumeRole;
                self.assume_role(who, &form, arrival, authz_decision, now, id)
            }
            other => Err(Refused(
                StatusCode::NOT_IMPLEMENTED,
                "NotImplemented",
                format!(
                    "\"{other}\" is not supported; AssumeRole, AssumeRoleWithWebIdentity, AssumeRoleWithLDAPIdentity, AssumeRoleWithCertificate and GetCallerIdentity are."
                ),
            )),
        }
    }

    fn assume_role(
        &self,
        who: &Identity,
        form: &Query,
        arrival: &Arrival<'_>,
        authz_decision: &DecisionSlot,
        now_ms: i64,
        id: &str,
    ) -> Result<Xml, Refused> {
        let iam = self.verifier.keys.iam().ok_or_else(|| Fault::not_implemented("AssumeRole"))?;
        not_denied(who, Action::StsAssumeRole, arrival, authz_decision, now_ms)?;
        let session = iam.assume(who, &wanted(form)?)?;
        let name = form.filled("RoleSessionName").unwrap_or(&who.user);
        let mut xml = Xml::new();
        xml.open_with("AssumeRoleResponse", NAMESPACE).open("AssumeRoleResult");
        xml.open("AssumedRoleUser").leaf("Arn", &who.arn);
        xml.leaf("AssumedRoleId", &format!("{}:{name}", who.user)).close();
        credentials(&mut xml, &session);
        xml.close();
        Ok(finish(xml, id))
    }
}

fn invalid(why: String) -> Refused {
    Refused(StatusCode::BAD_REQUEST, "ValidationError", why)
}

/// The parameters of a form.
fn parsed(body: &[u8]) -> Result<Query, Refused> {
    let text = std::str::from_utf8(body).map_err(|_| invalid("the form is not UTF-8".into()))?;
    let form = Query::parse(text)?;
    check(&form)?;
    Ok(form)
}

fn check(form: &Query) -> Result<(), Refused> {
    if let Some(name) = form.duplicate() {
        return Err(invalid(format!("{name} is given twice")));
    }
    if form.get("Version").is_some_and(|v| v != VERSION) {
        return Err(invalid(format!("the Version must be {VERSION}")));
    }
    Ok(())
}

/// Every identity may do this for itself, unless a policy denies it.
fn not_denied(
    who: &Identity,
    action: Action,
    arrival: &Arrival<'_>,
    authz_decision: &DecisionSlot,
    now_ms: i64,
) -> Result<(), Refused> {
    let facts = Facts { now_ms, source_ip: Some(arrival.peer.ip()), secure: arrival.tls, ..Facts::default() };
    let principal = who.principal();
    let question = Question::new(action, "", "", &principal, &facts);
    let decision = decide(&question, &who.authority(BucketRules::default(), true));
    *authz_decision.lock() = Some(AuthzDecision { action, decision: Some(decision), sid: None });
    if decision.allowed {
        return Ok(());
    }
    Err(Fault::new(Code::ACCESS_DENIED).into())
}

/// What session a form asks for.
fn wanted(form: &Query) -> Result<Assume, Refused> {
    let duration_s = match form.filled("DurationSeconds") {
        None => DURATION_S,
        Some(text) => text.parse().map_err(|_| invalid("DurationSeconds is not a number".into()))?,
    };
    Ok(Assume { duration_s, policy: form.filled("Policy").map(str::to_owned) })
}

fn credentials(xml: &mut Xml, session: &Session) {
    xml.open("Credentials").leaf("AccessKeyId", &session.access_key);
    xml.leaf("SecretAccessKey", session.secret.expose()).leaf("SessionToken", &session.token);
    xml.plain("Expiration", date::format_iso_secs(session.expires_ms.div_euclid(1000))).close();
}

fn caller(who: &Identity, id: &str) -> Xml {
    let mut xml = Xml::new();
    xml.open_with("GetCallerIdentityResponse", NAMESPACE).open("GetCallerIdentityResult");
    xml.leaf("Arn", &who.arn).leaf("UserId", &who.user).plain("Account", ACCOUNT).close();
    finish(xml, id)
}

fn finish(mut xml: Xml, id: &str) -> Xml {
    xml.open("ResponseMetadata").plain("RequestId", id).close().close();
    xml
}
