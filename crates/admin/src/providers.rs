//! The administration API for identity providers, and sign-in with a browser.
//!
//! | request | document | answer |
//! |---|---|---|
//! | `GET idp/KIND` | | `{"providers": [PROVIDER]}` |
//! | `GET idp/KIND/NAME` | | PROVIDER |
//! | `PUT idp/KIND/NAME` | `{"values": {"name": "value"}}` | PROVIDER; 409 if it is stored already |
//! | `PATCH idp/KIND/NAME` | `{"values": {...}}`, merged into the stored values; an empty value removes one | PROVIDER |
//! | `DELETE idp/KIND/NAME` | | `{}` |
//! | `POST idp/KIND/NAME/enable`, `disable` | | PROVIDER |
//! | `POST idp/KIND/NAME/test` | see `sign_in_test` | |
//! | `GET login/openid` | | `{"providers": [{"name", "display_name", "url"}]}` |
//! | `POST login/openid/callback` | `{"code": "...", "state": "...", "duration_s": 3600}` | `{"access_key", "secret", "token", "expires_ms", "user"}` |
//!
//! KIND is `openid`, `ldap` or `tls`; NAME is `_` for the provider without a name. PROVIDER is the object
//! `{"kind", "name", "enabled", "problem", "values", "environment", "facts"}`: `values` has `*redacted*` in
//! place of secrets, and a change with this value keeps the secret; `environment` has the names of values
//! that come from the environment and cannot be changed here; `facts` has derived values (`role_arn`,
//! `issuer`).
//!
//! Invariants: a change is checked with the provider before it is stored; only callers who can do everything
//! may configure providers, because a provider can sign in as any user; secrets are never returned; the two
//! requests that need no signature return nothing that is secret to the user of a browser.
//!
//! Must not depend on: how a provider is asked.

use std::sync::Arc;

use ashlar_iam::{Assume, Federated, Iam, Identity, Values};
use ashlar_idp::{Error, Idp, REDACTED, Shown, SignIn, Subsystem};
use ashlar_node::clock::now_ms;
use ashlar_policy::{Action, BucketRules, Context as Facts, Request as Question, decide};
use ashlar_s3::Source;
use ashlar_s3::request_body::RequestBody;
use http::{Request, StatusCode, header};
use hyper::body::Incoming;
use serde::Deserialize;
use utoipa::ToSchema;

use super::admin_request::{AdminRequest, AdminResult, Refusal, bad_request, denied};
use super::api::{self, settings as shape};
use super::identities::require_full;
use super::peer::Peer;
use super::table::{BASES, Route, SignInRoute};

/// Longest document of a sign-in, in bytes.
const LIMIT: usize = 16 * 1024;
/// Default lifetime of a session in seconds.
const DURATION_S: i64 = 3600;

/// The handler of requests about identity providers.
pub struct ProviderAdmin {
    iam: Arc<Iam>,
    idp: Arc<Idp>,
    /// Held while a change is checked and stored.
    turn: tokio::sync::Mutex<()>,
}

/// Values of an identity provider. An empty value is removed.
#[derive(Deserialize, Default, ToSchema)]
#[serde(deny_unknown_fields, default)]
#[schema(as = ProviderOrder)]
pub(crate) struct Order {
    #[schema(value_type = std::collections::BTreeMap<String, String>)]
    values: Values,
}

/// The parameters that the provider sends back through the browser.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = SignInBack)]
pub(crate) struct Back {
    pub code: String,
    pub state: String,
    /// Lifetime of the session in seconds; 3600 by default.
    pub duration_s: Option<i64>,
}

impl From<Error> for Refusal {
    fn from(e: Error) -> Refusal {
        let (status, code) = match &e {
            Error::Invalid(_) => (StatusCode::BAD_REQUEST, "InvalidRequest"),
            Error::Unreachable(_) => (StatusCode::BAD_REQUEST, "IDPCommunicationError"),
        };
        Refusal { status, code, why: e.to_string() }
    }
}

impl From<ashlar_iam::Refused> for Refusal {
    fn from(why: ashlar_iam::Refused) -> Refusal {
        use ashlar_iam::Refused as Why;
        let of = |status, code, why: &str| Refusal { status, code, why: why.to_owned() };
        match why {
            Why::Unconfigured => bad_request("no identity provider is configured"),
            Why::Denied(_) => {
                denied("The identity provider did not authenticate this. The server's log says why.")
            }
            Why::Expired => denied("The token has expired; sign in again."),
            Why::Unavailable(_) => of(
                StatusCode::SERVICE_UNAVAILABLE,
                "IDPCommunicationError",
                "The identity provider cannot be reached. Try again.",
            ),
            Why::Busy => {
                of(StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable", "Too many sign-ins at once.")
            }
        }
    }
}

fn shown(kind: Subsystem, p: &Shown) -> shape::Provider {
    shape::Provider {
        kind: kind.name().trim_start_matches("identity_").to_owned(),
        name: p.target.name.clone(),
        enabled: p.enabled,
        problem: p.problem.clone(),
        values: p.target.values.clone(),
        environment: p.target.fixed.clone(),
        facts: p.facts.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect(),
    }
}

/// Parses the kind and the name in a path.
pub(crate) fn named(text: &str) -> Result<(Subsystem, &str), Refusal> {
    let (kind, name) = text.split_once('/').unwrap_or((text, ""));
    let kind = Subsystem::find(kind).ok_or_else(|| Refusal {
        status: StatusCode::NOT_FOUND,
        code: "NoSuchEntity",
        why: format!("\"{kind}\" is no kind of identity provider: openid, ldap and tls are"),
    })?;
    Ok((kind, name))
}

pub(crate) fn no_such(kind: Subsystem, name: &str) -> Refusal {
    let why = format!("no \"{name}\" is stored for {}", kind.name());
    Refusal { status: StatusCode::NOT_FOUND, code: "NoSuchEntity", why }
}

impl ProviderAdmin {
    /// A handler over these providers.
    pub fn new(iam: Arc<Iam>, idp: Arc<Idp>) -> ProviderAdmin {
        ProviderAdmin { iam, idp, turn: tokio::sync::Mutex::default() }
    }

    /// The providers.
    pub(crate) fn idp(&self) -> Arc<Idp> {
        self.idp.clone()
    }

    /// The identity of a federated user with the policies that apply; `None` if the provider is not trusted any more.
    pub(crate) fn federated(&self, who: &Federated) -> Option<Identity> {
        self.iam.federated(who)
    }

    /// Answers a request about identity providers.
    pub(crate) async fn answer(&self, req: &AdminRequest) -> AdminResult {
        req.need(req.route.actions(), false)?;
        let (kind, name) = named(&req.name)?;
        if req.route == Route::ProviderGet && name.is_empty() {
            let providers = self.idp.shown(kind).iter().map(|p| shown(kind, p)).collect();
            return Ok((StatusCode::OK, api::value(shape::ProviderList { providers })));
        }
        if name.is_empty() {
            return Err(bad_request("name the provider; the one without a name is \"_\""));
        }
        if req.route == Route::ProviderGet {
            return self.one(kind, name);
        }
        let _turn = self.turn.lock().await;
        if req.route == Route::ProviderRemove {
            require_full(req, "Removing an identity provider, which ends its users' sessions and keys,")?;
            return self.remove(kind, name).await;
        }
        let order: Order = req.document()?;
        let stored = self.iam.setting(kind.name(), name).map(|s| s.values.clone());
        let mut values = match (req.route, stored) {
            (Route::ProviderPut, None) => Values::new(),
            (Route::ProviderPut, Some(_)) => {
                let why = format!("\"{name}\" is configured already; update it");
                return Err(Refusal { status: StatusCode::CONFLICT, code: "EntityAlreadyExists", why });
            }
            // A provider of the environment can be disabled here.
            (Route::ProviderEnable | Route::ProviderDisable, stored) => {
                let known = self.idp.shown(kind).iter().any(|p| p.target.name == name);
                stored.or(known.then(Values::new)).ok_or_else(|| no_such(kind, name))?
            }
            (_, stored) => stored.ok_or_else(|| no_such(kind, name))?,
        };
        for (key, value) in order.values {
            match value.trim() {
                "" => drop(values.remove(&key)),
                REDACTED if req.route == Route::ProviderPut => {
                    return Err(bad_request(format!("{key} is missing: {REDACTED} stands in its place")));
                }
                REDACTED => {}
                _ => drop(values.insert(key, value)),
            }
        }
        match req.route {
            Route::ProviderEnable => drop(values.insert("enable".into(), "on".into())),
            Route::ProviderDisable => drop(values.insert("enable".into(), "off".into())),
            _ => {}
        }
        require_full(req, "Configuring an identity provider")?;
        self.idp.check(kind, name, &values).await?;
        self.iam.put_setting(kind.name(), name, &values).await?;
        self.idp.reload();
        tracing::info!(target: "ashlar::admin", kind = kind.name(), name, by = req.caller.user, "identity provider changed");
        self.one(kind, name)
    }

    fn one(&self, kind: Subsystem, name: &str) -> AdminResult {
        let all = self.idp.shown(kind);
        let found = all.iter().find(|p| p.target.name == name).ok_or_else(|| no_such(kind, name))?;
        Ok((StatusCode::OK, api::value(shown(kind, found))))
    }

    async fn remove(&self, kind: Subsystem, name: &str) -> AdminResult {
        if self.iam.setting(kind.name(), name).is_none() {
            let known = self.idp.shown(kind).into_iter().any(|p| p.target.name == name);
            return Err(match known {
                true => bad_request(format!(
                    "\"{name}\" is configured by the server's environment; change it there"
                )),
                false => no_such(kind, name),
            });
        }
        self.iam.remove_setting(kind.name(), name).await?;
        self.idp.reload();
        Ok((StatusCode::OK, api::value(shape::ProviderRemoved {})))
    }

    /// Answers the requests of a sign-in, the only two administration requests without a signature; returns
    /// other requests unchanged.
    pub(crate) async fn sign_in(
        &self,
        request: Request<Incoming>,
        peer: &Peer,
    ) -> Result<AdminResult, Request<Incoming>> {
        let path = request.uri().path();
        let path = BASES.iter().find_map(|base| path.strip_prefix(base)).unwrap_or_default();
        match SignInRoute::find(request.method(), path) {
            Some(SignInRoute::Choices) => Ok(self.choices(&request, peer).await),
            Some(SignInRoute::Back) => Ok(self.back(request, peer).await),
            None => Err(request),
        }
    }

    async fn choices(&self, request: &Request<Incoming>, peer: &Peer) -> AdminResult {
        peer.watch.arm();
        let host = request.headers().get(header::HOST).and_then(|h| h.to_str().ok()).unwrap_or_default();
        let origin = format!("{}://{host}", if peer.tls { "https" } else { "http" });
        let all = self.idp.choices(&origin).await;
        let all = all.into_iter().map(|c| shape::SignInChoice {
            name: c.name,
            display_name: c.display_name,
            url: c.url,
        });
        Ok((StatusCode::OK, api::value(shape::SignInChoices { providers: all.collect() })))
    }

    async fn back(&self, request: Request<Incoming>, peer: &Peer) -> AdminResult {
        let (parts, incoming) = request.into_parts();
        let mut request_body =
            RequestBody::unchecked(Source::Hyper(incoming), &parts.headers).map_err(|(fault, _)| fault)?;
        let body = request_body.collect(LIMIT).await?;
        peer.watch.arm();
        let back: Back = serde_json::from_slice(&body)
            .map_err(|_| bad_request("send {\"code\": \"...\", \"state\": \"...\"}"))?;
        self.complete(back, peer).await
    }

    /// Makes a session for the user of an authorization code.
    pub(crate) async fn complete(&self, back: Back, peer: &Peer) -> AdminResult {
        let came = SignIn { code: back.code, state: back.state };
        let authenticated = self.idp.sign_in(&came).await.inspect_err(|why| {
            tracing::info!(target: "ashlar::admin", peer = %peer.address, %why, "not signed in");
        })?;
        let identity = self.iam.federated(&authenticated.who).filter(|i| !i.policies.is_empty());
        let Some(identity) = identity else {
            return Err(denied(format!(
                "No policy is attached to {}, nor to its groups.",
                authenticated.who.id
            )));
        };
        not_denied(&identity, peer)?;
        let req = Assume { duration_s: back.duration_s.unwrap_or(DURATION_S), policy: None };
        let session = self.iam.assume_federated(authenticated.who, &req, authenticated.until_ms)?;
        tracing::info!(target: "ashlar::admin", user = identity.user, access_key = session.access_key, peer = %peer.address, "signed in");
        let answer = shape::Session {
            secret: session.secret.expose().to_owned(),
            access_key: session.access_key,
            token: session.token,
            expires_ms: session.expires_ms,
            user: identity.user.clone(),
        };
        Ok((StatusCode::OK, api::value(answer)))
    }
}

/// Signing in needs no permission, but a policy can deny it.
fn not_denied(caller: &Identity, peer: &Peer) -> Result<(), Refusal> {
    let ip = Some(peer.address.ip());
    let facts = Facts { now_ms: now_ms(), source_ip: ip, secure: peer.tls, ..Facts::default() };
    let principal = caller.principal();
    let question = Question::new(Action::StsAssumeRoleWithWebIdentity, "", "", &principal, &facts);
    if decide(&question, &caller.authority(BucketRules::default(), true)).allowed {
        return Ok(());
    }
    Err(denied("Access Denied."))
}
