//! OpenID Connect: authentication with a provider's tokens.
//!
//! | module | content |
//! |---|---|
//! | `config` | settings of one provider |
//! | `cached` | cache of a provider's answers |
//! | `keys`, `token` | a provider's keys; verification of tokens |
//! | `claims` | interpretation of claims |
//! | `sign_in`, `sign_out` | signing in and out with a browser |
//!
//! Invariants: only the provider that the issuer and audience of a token name, or that the requested role
//! names, can accept it; a refused caller cannot find out which providers exist; requests to a provider are
//! rate-limited, whatever clients send.
//!
//! Must not depend on: the content of policies.

mod cached;
mod claims;
mod config;
mod keys;
pub mod script;
mod sign_in;
mod sign_out;
#[cfg(test)]
mod tests;
mod token;

use std::sync::Arc;

use ashlar_iam::{Authenticated, Federated, Refused, Values};
use serde::Deserialize;
use serde_json::Value;

use crate::{Error, ProviderContext, WebAsk};
use cached::Cached;
use config::Settings;
pub(crate) use config::{NAMES, SECRETS};
use keys::Keys;
pub use sign_in::{BrowserProvider, Choice, SignIn};
pub(crate) use sign_in::{SignInFlow, for_browsers};
use token::{Claims, Outside, Wrong};

/// Time after which a provider's document is requested again, in milliseconds.
const DOCUMENT_MS: i64 = 3_600_000;
/// Time after which a provider's keys are requested again, in milliseconds.
const KEYS_MS: i64 = 15 * 60_000;

/// The configuration document of a provider (OpenID Connect Discovery 1.0, section 3).
#[derive(Deserialize)]
struct Document {
    issuer: String,
    jwks_uri: String,
    authorization_endpoint: Option<String>,
    token_endpoint: Option<String>,
    userinfo_endpoint: Option<String>,
    /// Of OpenID Connect RP-Initiated Logout 1.0, section 2.1.
    end_session_endpoint: Option<String>,
    #[serde(default)]
    scopes_supported: Vec<String>,
    token_endpoint_auth_methods_supported: Option<Vec<String>>,
}

/// One provider.
pub(crate) struct Provider {
    name: String,
    /// `openid/NAME`.
    id: String,
    settings: Settings,
    context: Arc<ProviderContext>,
    document: Cached<Document>,
    keys: Cached<Keys>,
}

impl From<Wrong> for Refused {
    fn from(wrong: Wrong) -> Refused {
        match wrong {
            Wrong::Invalid(why) => Refused::Denied(why.to_owned()),
            Wrong::Expired => Refused::Expired,
        }
    }
}

impl Provider {
    /// A provider from settings. Sends no request yet.
    pub fn new(target: &str, values: &Values, context: &Arc<ProviderContext>) -> Result<Provider, Error> {
        let settings = Settings::parse(values)?;
        if settings.config_url.starts_with("http:") {
            tracing::warn!(
                target,
                "an identity provider is used without TLS: this is safe only within one machine"
            );
        }
        Ok(Provider {
            name: target.to_owned(),
            id: format!("openid/{target}"),
            settings,
            context: context.clone(),
            document: Cached::new(DOCUMENT_MS),
            keys: Cached::new(KEYS_MS),
        })
    }

    /// Whether this is its name.
    pub fn is_named(&self, name: &str) -> bool {
        self.name == name
    }

    /// See `providers`.
    pub fn trusted(&self) -> (String, Vec<String>) {
        (self.id.clone(), self.settings.role_policies.clone())
    }

    /// Requests its document and its keys.
    pub async fn probe(self: &Arc<Self>) -> Result<(), Error> {
        let now = (self.context.clock)();
        let document = self.document(now).await.map_err(Error::Unreachable)?;
        self.clone().fetch_keys(document).await.map_err(Error::Unreachable)?;
        Ok(())
    }

    /// See `providers`.
    pub fn facts(&self) -> Vec<(&'static str, String)> {
        let mut facts = vec![("issuer", self.settings.issuer.clone())];
        if let Some(role) = self.settings.role() {
            facts.push(("role_arn", format!("arn:minio:iam:::role/{role}")));
        }
        facts
    }

    /// Fails if tokens of `other` could not be distinguished from tokens of this provider.
    pub fn apart_from(&self, other: &Provider) -> Result<(), String> {
        let (a, b) = (&self.settings, &other.settings);
        if a.client_id != b.client_id {
            return Ok(());
        }
        if a.issuer == b.issuer {
            return Err("issuer and client_id are the same".into());
        }
        if a.role().is_some() && b.role().is_some() {
            return Err("client_id, which determines the role's ARN, is the same".into());
        }
        Ok(())
    }

    /// Whether a token, before verification, names this provider and this client.
    fn claims_to_be_ours(&self, outside: &Outside) -> bool {
        outside.issuer.trim_end_matches('/') == self.settings.issuer
            && outside.audience.contains(&self.settings.client_id)
    }

    async fn get(&self, url: &str, bearer: Option<&str>) -> Result<Vec<u8>, String> {
        let authorization = bearer.map(|t| format!("Bearer {t}"));
        let ask = WebAsk { url: url.to_owned(), authorization, form: None };
        let answer = self.context.web.ask(ask).await.map_err(|e| format!("{}: {e}", self.id))?;
        match answer.status {
            200 => Ok(answer.body.to_vec()),
            status => Err(format!("{}: {url} answers {status}", self.id)),
        }
    }

    async fn document(self: &Arc<Self>, now_ms: i64) -> Result<Arc<Document>, String> {
        self.document.get(now_ms, |_| true, || self.clone().fetch_document()).await
    }

    async fn fetch_document(self: Arc<Self>) -> Result<Document, String> {
        let bytes = self.get(&self.settings.config_url, None).await?;
        let document: Document = serde_json::from_slice(&bytes)
            .map_err(|e| format!("{}: the document at config_url is not understood: {e}", self.id))?;
        if document.issuer.trim_end_matches('/') != self.settings.issuer {
            return Err(format!(
                "{}: the document at config_url is from the issuer {}, but must be from {}",
                self.id, document.issuer, self.settings.issuer
            ));
        }
        let d = &document;
        let optional = [&d.authorization_endpoint, &d.token_endpoint, &d.userinfo_endpoint];
        for endpoint in optional.into_iter().flatten().chain([&d.jwks_uri]) {
            if !self.settings.takes(endpoint) {
                return Err(format!("{}: its endpoint {endpoint} cannot be used", self.id));
            }
        }
        Ok(document)
    }

    async fn fetch_keys(self: Arc<Self>, document: Arc<Document>) -> Result<Keys, String> {
        Keys::parse(&self.get(&document.jwks_uri, None).await?).map_err(|e| format!("{}: {e}", self.id))
    }

    /// The claims of a token, after verification of signature, client and validity.
    async fn open(self: &Arc<Self>, token: &str, outside: &Outside) -> Result<Claims, Refused> {
        let now = (self.context.clock)();
        let document = self.document(now).await.map_err(Refused::Unavailable)?;
        let fits = |keys: &Keys| !keys.fitting(outside.key.as_deref(), outside.algorithm).is_empty();
        let keys = self.keys.get(now, fits, || self.clone().fetch_keys(document.clone())).await;
        let claims = token::verify(token, outside, &*keys.map_err(Refused::Unavailable)?)?;
        token::judge(&claims, &document.issuer, &self.settings.client_id, now.div_euclid(1000))?;
        Ok(claims)
    }

    /// Adds the claims that the provider returns for an access token. Claims of the token take precedence.
    async fn add_userinfo(
        self: &Arc<Self>,
        claims: &mut Claims,
        access_token: Option<&str>,
    ) -> Result<(), Refused> {
        let denied = |why: &str| Refused::Denied(format!("{}: {why}", self.id));
        let access = access_token.ok_or_else(|| denied("claim_userinfo needs an access token"))?;
        if access.len() > token::LIMIT || !access.bytes().all(|b| b.is_ascii_graphic()) {
            return Err(denied("the access token is too long or contains characters that are not allowed"));
        }
        let document = self.document((self.context.clock)()).await.map_err(Refused::Unavailable)?;
        let url = document.userinfo_endpoint.as_ref().ok_or_else(|| denied("it has no userinfo_endpoint"))?;
        let authorization = Some(format!("Bearer {access}"));
        let ask = WebAsk { url: url.clone(), authorization, form: None };
        let answer = self.context.web.ask(ask).await;
        let answer = answer.map_err(|e| Refused::Unavailable(format!("{}: {e}", self.id)))?;
        match answer.status {
            200 => {}
            500.. => {
                return Err(Refused::Unavailable(format!("{}: userinfo answers {}", self.id, answer.status)));
            }
            status => return Err(denied(&format!("userinfo answers {status}"))),
        }
        let more: Claims =
            serde_json::from_slice(&answer.body).map_err(|_| denied("its userinfo is not understood"))?;
        // Section 5.3.2: an access token of another user must not add its claims.
        if more.get("sub") != claims.get("sub") {
            return Err(denied("the access token belongs to another user"));
        }
        for (name, value) in more {
            claims.entry(name).or_insert(value);
        }
        Ok(())
    }

    /// The user of verified claims.
    fn whom(&self, claims: &Claims, issuer: String) -> Result<Authenticated, Refused> {
        let subject = claims.get("sub").and_then(Value::as_str).unwrap_or_default().to_owned();
        let mut policies = Vec::new();
        if self.settings.role_policies.is_empty() {
            policies = claims::names(claims::find(claims, &self.settings.claim));
            // As in MinIO, names of policies that do not exist now are dropped.
            policies.retain(|name| self.context.iam.policy(name).is_some());
        }
        let who = Federated {
            provider: self.id.clone(),
            id: format!("{}/{subject}", self.id),
            groups: claims::groups(claims.get("groups"), &self.id),
            policies,
            claims: claims::facts(claims).map_err(|e| Refused::Denied(e.to_owned()))?,
            attributes: Vec::new(),
        };
        who.check().map_err(|e| Refused::Denied(e.to_string()))?;
        let audience = self.settings.client_id.clone();
        Ok(Authenticated { who, subject, audience, issuer, until_ms: None })
    }

    /// The user of a token whose header and unverified claims are `outside`.
    async fn authenticator(
        self: &Arc<Self>,
        token: &str,
        outside: &Outside,
        access_token: Option<&str>,
    ) -> Result<Authenticated, Refused> {
        let mut claims = self.open(token, outside).await?;
        if self.settings.userinfo {
            self.add_userinfo(&mut claims, access_token).await?;
        }
        self.whom(&claims, outside.issuer.clone())
    }
}

/// The user of a token, verified by the provider that the token or the role names.
pub(crate) async fn authenticator(
    providers: &[Arc<Provider>],
    token: &str,
    access_token: Option<&str>,
    role: Option<&str>,
) -> Result<Authenticated, Refused> {
    if providers.is_empty() {
        return Err(Refused::Unconfigured);
    }
    let outside = token::outside(token)?;
    let role = role.and_then(config::role_of);
    let asked_for = |p: &&Arc<Provider>| role.is_none_or(|r| p.settings.role().as_deref() == Some(r));
    // The same answer whether the role, the issuer or the audience is unknown.
    let found = providers.iter().filter(asked_for).find(|p| p.claims_to_be_ours(&outside));
    let provider =
        found.ok_or_else(|| Refused::Denied("no provider matches its issuer and audience".into()))?;
    provider.authenticator(token, &outside, access_token).await
}
