//! Sessions for federated users: `AssumeRoleWithWebIdentity`, `AssumeRoleWithLDAPIdentity`,
//! `AssumeRoleWithCertificate`, and MinIO's older name `AssumeRoleWithClientGrants` for the first.
//!
//! Invariants: these requests need no signature, so the server answers nothing before the proof was verified;
//! a refused caller learns neither the reason nor which names exist, which are only in the log; a user
//! without any policy gets no credentials; parameters come from the form or from the query, never from both.
//!
//! Must not depend on: how a provider is asked.

use std::sync::Arc;

use ashlar_policy::Action;
use http::StatusCode;

use super::{NAMESPACE, Refused, check, credentials, finish, invalid, not_denied, parsed, wanted};
use crate::audit_context::AuditContext;
use crate::fault::Fault;
use crate::operation::Operation;
use crate::service::{Arrival, Service};
use crate::target::{Query, Target};
use crate::xml::Xml;

/// The proof of a federated user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    WebIdentity,
    ClientGrants,
    Ldap,
    Certificate,
}

impl Kind {
    pub fn find(action: &str) -> Option<Kind> {
        let all = [Kind::WebIdentity, Kind::ClientGrants, Kind::Ldap, Kind::Certificate];
        all.into_iter().find(|k| k.name() == action)
    }

    /// The `Action`.
    fn name(self) -> &'static str {
        match self {
            Kind::WebIdentity => "AssumeRoleWithWebIdentity",
            Kind::ClientGrants => "AssumeRoleWithClientGrants",
            Kind::Ldap => "AssumeRoleWithLDAPIdentity",
            Kind::Certificate => "AssumeRoleWithCertificate",
        }
    }

    /// The elements of the answer.
    fn elements(self) -> [&'static str; 2] {
        match self {
            Kind::WebIdentity => ["AssumeRoleWithWebIdentityResponse", "AssumeRoleWithWebIdentityResult"],
            Kind::ClientGrants => ["AssumeRoleWithClientGrantsResponse", "AssumeRoleWithClientGrantsResult"],
            Kind::Ldap => ["AssumeRoleWithLDAPIdentityResponse", "AssumeRoleWithLDAPIdentityResult"],
            Kind::Certificate => ["AssumeRoleWithCertificateResponse", "AssumeRoleWithCertificateResult"],
        }
    }

    pub fn operation(self) -> Operation {
        match self {
            Kind::WebIdentity | Kind::ClientGrants => Operation::AssumeRoleWithWebIdentity,
            Kind::Ldap => Operation::AssumeRoleWithLDAPIdentity,
            Kind::Certificate => Operation::AssumeRoleWithCertificate,
        }
    }

    fn action(self) -> Action {
        match self {
            Kind::WebIdentity | Kind::ClientGrants => Action::StsAssumeRoleWithWebIdentity,
            Kind::Ldap => Action::StsAssumeRoleWithLdapIdentity,
            Kind::Certificate => Action::StsAssumeRoleWithCertificate,
        }
    }
}

/// The parameters, if this is a request of these kinds.
pub(super) fn form(target: &Target, body: &[u8]) -> Result<Option<(Kind, Query)>, Refused> {
    if let Some(kind) = target.query.get("Action").and_then(Kind::find) {
        if !body.is_empty() {
            return Err(invalid("the parameters are in the query and in a form; use one of them".into()));
        }
        check(&target.query)?;
        return Ok(Some((kind, target.query.clone())));
    }
    let names_one = |text: &str| {
        let action = text.split('&').find_map(|p| p.strip_prefix("Action="));
        action.is_some_and(|a| Kind::find(a).is_some())
    };
    if !std::str::from_utf8(body).is_ok_and(names_one) {
        return Ok(None);
    }
    let form = parsed(body)?;
    let kind = form.get("Action").and_then(Kind::find);
    Ok(kind.map(|kind| (kind, form)))
}

impl From<ashlar_iam::Refused> for Refused {
    fn from(why: ashlar_iam::Refused) -> Refused {
        use ashlar_iam::Refused as Why;
        let bad = StatusCode::BAD_REQUEST;
        match why {
            Why::Unconfigured => {
                Refused(bad, "InvalidParameterValue", "No such identity provider is configured.".into())
            }
            Why::Denied(_) => Refused(
                StatusCode::FORBIDDEN,
                "AccessDenied",
                "The identity provider did not authenticate the caller. The server's log says why.".into(),
            ),
            Why::Expired => Refused(bad, "ExpiredTokenException", "The token has expired.".into()),
            Why::Unavailable(_) => Refused(
                StatusCode::SERVICE_UNAVAILABLE,
                "IDPCommunicationError",
                "The identity provider cannot be reached. Try again.".into(),
            ),
            Why::Busy => Refused(
                StatusCode::SERVICE_UNAVAILABLE,
                "ServiceUnavailable",
                "Too many requests at the same time. Try again later.".into(),
            ),
        }
    }
}

impl Service {
    pub(super) async fn assume_federated(
        &self,
        kind: Kind,
        form: &Query,
        arrival: &Arrival<'_>,
        audit_context: &mut AuditContext,
        now_ms: i64,
        id: &str,
    ) -> Result<Xml, Refused> {
        let iam = self.verifier.keys.iam().ok_or_else(|| Fault::not_implemented(kind.name()))?;
        let authenticator = self.authenticator.as_ref().ok_or(ashlar_iam::Refused::Unconfigured)?;
        let ask = wanted(form)?;
        let given =
            |name: &'static str| form.filled(name).ok_or_else(|| invalid(format!("{name} is missing")));
        let role = form.filled("RoleArn");
        let access = form.filled("WebIdentityAccessToken");
        let proof = match kind {
            Kind::WebIdentity => authenticator.web_identity(given("WebIdentityToken")?, access, role),
            Kind::ClientGrants => authenticator.web_identity(given("Token")?, access, role),
            Kind::Ldap => authenticator.ldap(given("LDAPUsername")?, given("LDAPPassword")?),
            Kind::Certificate => authenticator.certificate(arrival.certificates),
        };
        let authenticated = proof.await.inspect_err(|why| {
            tracing::info!(target: "ashlar::request", request_id = id, op = kind.name(), peer = %arrival.peer, %why, "the caller was not authenticated");
        })?;
        let identity = iam.federated(&authenticated.who).map(Arc::new);
        audit_context.authenticated.clone_from(&identity);
        let Some(identity) = identity.filter(|i| !i.policies.is_empty()) else {
            let why = format!("No policy is attached to {}, nor to its groups.", authenticated.who.id);
            return Err(Refused(StatusCode::FORBIDDEN, "AccessDenied", why));
        };
        not_denied(&identity, kind.action(), arrival, &audit_context.authz_decision, now_ms)?;
        let session = iam.assume_federated(authenticated.who.clone(), &ask, authenticated.until_ms)?;
        tracing::info!(target: "ashlar::request", request_id = id, op = kind.name(), user = authenticated.who.id, access_key = session.access_key, peer = %arrival.peer, "session created");
        let mut xml = Xml::new();
        let [answer, result] = kind.elements();
        xml.open_with(answer, NAMESPACE).open(result);
        let name = form.filled("RoleSessionName").unwrap_or(&authenticated.subject);
        xml.open("AssumedRoleUser").leaf("Arn", &identity.arn);
        xml.leaf("AssumedRoleId", &format!("{}:{name}", authenticated.who.id)).close();
        credentials(&mut xml, &session);
        if kind == Kind::WebIdentity {
            xml.leaf("SubjectFromWebIdentityToken", &authenticated.subject);
            xml.leaf("Audience", &authenticated.audience).leaf("Provider", &authenticated.issuer);
        } else if kind == Kind::ClientGrants {
            xml.leaf("SubjectFromToken", &authenticated.subject);
        }
        xml.close();
        Ok(finish(xml, id))
    }
}
