//! Temporary credentials on the S3 port: `AssumeRole` and `GetCallerIdentity` of AWS's security token
//! service, as `POST /` with a form, signed for the service `sts`.
//!
//! A role is not a thing of its own here: whoever asks gets credentials that do at most what they do
//! themselves, bounded further by the policy they send. `RoleArn` and `RoleSessionName`, which clients
//! insist on sending, choose nothing.
//!
//! Invariants: nothing is answered without a signature over the whole document; at most [`LIMIT`] bytes
//! are held for one; the token and the secret are in the answer and nowhere else.
//!
//! Must never know: buckets, keys.

use ashlar_iam::{ACCOUNT, Assume, Error, Identity};
use ashlar_policy::{Action, BucketRules, Context as Facts, Request as Question, decide};
use http::header::{self, HeaderValue};
use http::request::Parts;
use http::{Method, StatusCode};

use crate::auth::{Request, Verified};
use crate::body::Body;
use crate::date;
use crate::fault::{Code, Fault, Outcome};
use crate::intake::{Intake, Source};
use crate::ops::Answer;
use crate::service::{Arrival, Service};
use crate::target::{Query, Target};
use crate::xml::Xml;

/// Longest document. A session's policy has 2 KiB.
const LIMIT: usize = 32 * 1024;
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
    parts.method == Method::POST
        && target.path == "/"
        && target.bucket.is_none()
        && form.is_some_and(|t| t.starts_with("application/x-www-form-urlencoded"))
}

impl Service {
    /// Answers it, errors too: they have another form than those of S3.
    pub(crate) async fn sts(
        &self,
        parts: &Parts,
        source: Source,
        target: &Target,
        arrival: &Arrival<'_>,
    ) -> Outcome<Answer> {
        let id = self.request_id();
        // A body that could not be read to its end leaves the connection in no state to go on.
        let mut intake = Intake::unchecked(source, &parts.headers).map_err(|(fault, _)| fault.closing())?;
        let body = intake.collect(LIMIT).await.map_err(Fault::closing)?;
        match self.sts_answer(parts, &body, target, arrival, &id) {
            Ok(xml) => Ok(Answer::document(xml)),
            Err(Refused(status, code, message)) => {
                let mut xml = Xml::new();
                xml.open_with("ErrorResponse", NAMESPACE).open("Error");
                xml.plain("Type", if status.is_server_error() { "Receiver" } else { "Sender" });
                xml.plain("Code", code).leaf("Message", &message).close();
                xml.plain("RequestId", &id).close();
                let mut answer = Answer::new(status);
                answer.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/xml"));
                answer.body = Body::whole(xml.finish());
                Ok(answer)
            }
        }
    }

    fn sts_answer(
        &self,
        parts: &Parts,
        body: &[u8],
        target: &Target,
        arrival: &Arrival<'_>,
        id: &str,
    ) -> Result<Xml, Refused> {
        let now = (self.context.clock)();
        let signed = Request { method: &parts.method, uri: &parts.uri, target, headers: &parts.headers };
        let verified: Verified = self.verifier.verify_sts(&signed, body, now.div_euclid(1000))?;
        let who = verified.identity();
        who.used(now);
        let bad = |why: String| Refused(StatusCode::BAD_REQUEST, "ValidationError", why);
        let text = std::str::from_utf8(body).map_err(|_| bad("the form is not UTF-8".into()))?;
        let form = Query::parse(text)?;
        if let Some(name) = form.duplicate() {
            return Err(bad(format!("{name} is given twice")));
        }
        if form.get("Version").is_some_and(|v| v != VERSION) {
            return Err(bad(format!("the Version is {VERSION}")));
        }
        match form.get("Action").unwrap_or_default() {
            "GetCallerIdentity" => Ok(caller(who, id)),
            "AssumeRole" => self.assume_role(who, &form, arrival, now, id),
            other => Err(Refused(
                StatusCode::NOT_IMPLEMENTED,
                "NotImplemented",
                format!("\"{other}\" does not exist here: AssumeRole and GetCallerIdentity do."),
            )),
        }
    }

    fn assume_role(
        &self,
        who: &Identity,
        form: &Query,
        arrival: &Arrival<'_>,
        now_ms: i64,
        id: &str,
    ) -> Result<Xml, Refused> {
        let iam = self.verifier.keys.iam().ok_or_else(|| Fault::not_implemented("AssumeRole"))?;
        let facts =
            Facts { now_ms, source_ip: Some(arrival.peer.ip()), secure: arrival.tls, ..Facts::default() };
        let principal = who.principal();
        let question = Question::new(Action::StsAssumeRole, "", "", &principal, &facts);
        // Everybody may for themselves, unless denied.
        if !decide(&question, &who.authority(BucketRules::default(), true)).allowed {
            return Err(Fault::new(Code::ACCESS_DENIED).into());
        }
        let duration_s = match form.filled("DurationSeconds") {
            None => DURATION_S,
            Some(text) => text.parse().map_err(|_| {
                Refused(StatusCode::BAD_REQUEST, "ValidationError", "DurationSeconds is no number".into())
            })?,
        };
        let ask = Assume { duration_s, policy: form.filled("Policy").map(str::to_owned) };
        let session = iam.assume(who, &ask)?;
        let name = form.filled("RoleSessionName").unwrap_or(&who.user);
        let mut xml = Xml::new();
        xml.open_with("AssumeRoleResponse", NAMESPACE).open("AssumeRoleResult");
        xml.open("AssumedRoleUser").leaf("Arn", &who.arn);
        xml.leaf("AssumedRoleId", &format!("{}:{name}", who.user)).close();
        xml.open("Credentials").leaf("AccessKeyId", &session.access_key);
        xml.leaf("SecretAccessKey", session.secret.expose()).leaf("SessionToken", &session.token);
        xml.plain("Expiration", date::format_iso_secs(session.expires_ms.div_euclid(1000))).close();
        xml.close();
        Ok(finish(xml, id))
    }
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
