//! Signing in with a browser: authorization code with PKCE (RFC 6749 section 4.1, RFC 7636, OpenID
//! Connect Core 1.0 section 3.1).
//!
//! The server stores nothing between the two steps: the data for the second step is sealed in `state`. All nodes of a
//! deployment have the same keys, derived from the one of the identity store, so that the second step may go to another
//! node than the first, or to the same one after a restart. There is a key for each [`PERIOD_MS`], because anybody can
//! begin a sign-in, and a key may seal 2^32 times only.
//!
//! Invariants: a code is exchanged only with a `state` that this deployment sealed at most [`LIFE_MS`] ago, for
//! the provider and the redirect in it; the returned token must contain the nonce; a process exchanges at most
//! [`CONCURRENCY`] codes at once.
//!
//! Must not depend on: cookies, pages.

use futures::future::BoxFuture;
use std::sync::Arc;

use ashlar_iam::{Authenticated, Iam, Refused, Sealer};
use ashlar_outbound::Url;
use aws_lc_rs::digest;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::Semaphore;

use super::{Document, Provider, token};
use crate::WebAsk;

/// Most time for a sign-in, in milliseconds.
const LIFE_MS: i64 = 10 * 60_000;
/// How long one key is used, in milliseconds: longer than [`LIFE_MS`].
const PERIOD_MS: i64 = 60 * 60_000;
/// Most concurrent exchanges of codes.
const CONCURRENCY: usize = 16;
/// Longest code and state, in bytes.
const LIMIT: usize = 4096;
/// The path of the redirect, if it is made from the server's own address (MinIO's path).
const CALLBACK: &str = "/oauth_callback";
const PLACE: &str = "openid sign-in";

/// A way to sign in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The provider.
    pub name: String,
    /// Its name for users.
    pub display_name: String,
    /// The URL for the browser.
    pub url: String,
}

/// A provider that users can sign in with in a browser.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrowserProvider {
    /// The provider.
    pub name: String,
    /// Its name for users.
    pub display_name: String,
}

/// The parameters that the provider sent back through the browser.
#[derive(Clone, Debug)]
pub struct SignIn {
    /// The provider's code.
    pub code: String,
    /// The `state` from the URL.
    pub state: String,
}

#[derive(Serialize, Deserialize)]
struct State {
    provider: String,
    nonce: String,
    verifier: String,
    redirect: String,
    end_ms: i64,
}

#[derive(Deserialize)]
struct Tokens {
    id_token: Option<String>,
    access_token: Option<String>,
}

/// The sign-in with a browser.
pub(crate) struct SignInFlow {
    iam: Arc<Iam>,
    room: Semaphore,
}

fn random() -> [u8; 32] {
    let mut bytes = [0; 32];
    ashlar_environment::random::fill(&mut bytes).expect("the operating system gives random bytes");
    bytes
}

/// Escaped characters: all except the unreserved ones (RFC 3986, section 2.3).
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

fn encoded(text: &str) -> String {
    utf8_percent_encode(text, RESERVED).to_string()
}

pub(super) fn form(fields: &[(&str, &str)]) -> String {
    let all: Vec<String> = fields.iter().map(|(n, v)| format!("{n}={}", encoded(v))).collect();
    all.join("&")
}

/// An endpoint, which may have a query of its own, with a further query.
pub(super) fn joined(endpoint: &str, query: &str) -> String {
    format!("{endpoint}{}{query}", if endpoint.contains('?') { '&' } else { '?' })
}

impl Provider {
    /// The redirect URI.
    fn redirect(&self, origin: &str) -> Option<String> {
        if self.settings.redirect_dynamic {
            return Url::parse(origin).is_ok().then(|| format!("{}{CALLBACK}", origin.trim_end_matches('/')));
        }
        self.settings.redirect_uri.clone()
    }

    /// The requested scopes: those configured, otherwise all of the provider except for `offline_access`.
    fn scopes(&self, document: &Document) -> String {
        if !self.settings.scopes.is_empty() {
            return self.settings.scopes.join(" ");
        }
        let theirs = document.scopes_supported.iter().map(String::as_str);
        let mut all = vec!["openid"];
        all.extend(theirs.filter(|s| !["openid", "offline_access"].contains(s)).take(32));
        all.join(" ")
    }

    /// Exchanges a code.
    async fn exchange(&self, document: &Document, code: &str, state: &State) -> Result<Tokens, Refused> {
        let s = &self.settings;
        let denied = |why: String| Refused::Denied(format!("{}: {why}", self.id));
        let url = document.token_endpoint.clone().ok_or_else(|| denied("it has no token_endpoint".into()))?;
        let mut fields = vec![
            ("grant_type", "authorization_code"),
            ("code", code),
            ("redirect_uri", &state.redirect),
            ("code_verifier", &state.verifier),
        ];
        let methods = document.token_endpoint_auth_methods_supported.as_deref();
        let basic = methods.is_none_or(|m| m.iter().any(|m| m == "client_secret_basic"));
        let mut authorization = None;
        match &s.client_secret {
            Some(secret) if basic => {
                let pair = format!("{}:{}", encoded(&s.client_id), encoded(secret));
                authorization = Some(format!("Basic {}", STANDARD.encode(pair)));
            }
            secret => {
                fields.push(("client_id", &s.client_id));
                fields.extend(secret.iter().map(|s| ("client_secret", s.as_str())));
            }
        }
        let ask = WebAsk { url, authorization, form: Some(form(&fields)) };
        let answer = self.context.web.ask(ask).await;
        let answer = answer.map_err(|e| Refused::Unavailable(format!("{}: {e}", self.id)))?;
        match answer.status {
            200 => serde_json::from_slice(&answer.body)
                .map_err(|_| denied("its answer to the code is not understood".into())),
            500.. => Err(Refused::Unavailable(format!("{}: the code: {}", self.id, answer.status))),
            status => Err(denied(format!("it does not accept the code ({status})"))),
        }
    }
}

impl Provider {
    fn for_browsers(&self) -> BrowserProvider {
        let shown = self.settings.display_name.clone();
        BrowserProvider { name: self.name.clone(), display_name: shown.unwrap_or_else(|| self.name.clone()) }
    }
}

/// The providers that have a redirect for browsers. None of them is asked.
pub(crate) fn for_browsers(providers: &[Arc<Provider>], origin: &str) -> Vec<BrowserProvider> {
    let usable = providers.iter().filter(|p| p.redirect(origin).is_some());
    usable.map(|p| p.for_browsers()).collect()
}

impl SignInFlow {
    /// With the keys of a deployment.
    pub fn new(iam: Arc<Iam>) -> SignInFlow {
        SignInFlow { iam, room: Semaphore::new(CONCURRENCY) }
    }

    /// The key of a period.
    fn sealer(&self, period: i64) -> Sealer {
        self.iam.sealer_for(&format!("{PLACE}/{period}"))
    }

    /// See [`crate::Idp::choices`]. A provider that does not answer is left out.
    pub fn choices<'a>(
        &'a self,
        providers: &'a [Arc<Provider>],
        origin: &'a str,
        now_ms: i64,
    ) -> BoxFuture<'a, Vec<Choice>> {
        Box::pin(async move {
            let mut all = Vec::new();
            for provider in providers {
                let Some(redirect) = provider.redirect(origin) else { continue };
                let Ok(document) = provider.document(now_ms).await else { continue };
                let Some(url) = self.url(provider, &document, redirect, now_ms) else { continue };
                let BrowserProvider { name, display_name } = provider.for_browsers();
                all.push(Choice { name, display_name, url });
            }
            all
        })
    }

    /// See [`crate::Idp::begin_sign_in`].
    pub fn begin<'a>(
        &'a self,
        providers: &'a [Arc<Provider>],
        name: &'a str,
        origin: &'a str,
        now_ms: i64,
    ) -> BoxFuture<'a, Result<String, Refused>> {
        Box::pin(async move {
            let provider = providers.iter().find(|p| p.name == name).ok_or(Refused::Unconfigured)?;
            let redirect = provider.redirect(origin).ok_or(Refused::Unconfigured)?;
            let document = provider.document(now_ms).await.map_err(Refused::Unavailable)?;
            let url = self.url(provider, &document, redirect, now_ms);
            url.ok_or_else(|| Refused::Denied(format!("{}: it has no authorization_endpoint", provider.id)))
        })
    }

    fn url(&self, provider: &Provider, document: &Document, redirect: String, now_ms: i64) -> Option<String> {
        let endpoint = document.authorization_endpoint.as_ref()?;
        let [nonce, verifier] = [(); 2].map(|()| URL_SAFE_NO_PAD.encode(random()));
        let challenge = URL_SAFE_NO_PAD.encode(digest::digest(&digest::SHA256, verifier.as_bytes()));
        let end_ms = now_ms.saturating_add(LIFE_MS);
        let state = State { provider: provider.name.clone(), nonce, verifier, redirect, end_ms };
        let plain = serde_json::to_vec(&state).expect("plain data");
        let sealer = self.sealer(now_ms.div_euclid(PERIOD_MS));
        let sealed = URL_SAFE_NO_PAD.encode(sealer.seal(PLACE, &plain));
        let query = form(&[
            ("response_type", "code"),
            ("client_id", &provider.settings.client_id),
            ("redirect_uri", &state.redirect),
            ("scope", &provider.scopes(document)),
            ("state", &sealed),
            ("nonce", &state.nonce),
            ("code_challenge", &challenge),
            ("code_challenge_method", "S256"),
        ]);
        Some(joined(endpoint, &query))
    }

    fn open(&self, state: &str, now_ms: i64) -> Option<State> {
        let sealed = URL_SAFE_NO_PAD.decode(state).ok()?;
        // The period may have ended since, and the clock of the node that sealed may be ahead.
        let period = now_ms.div_euclid(PERIOD_MS);
        let plain = [0, -1, 1].into_iter().find_map(|d| self.sealer(period + d).open(PLACE, &sealed))?;
        let state: State = serde_json::from_slice(&plain).ok()?;
        (now_ms < state.end_ms).then_some(state)
    }

    /// See [`crate::Idp::sign_in`].
    pub fn sign_in<'a>(
        &'a self,
        providers: &'a [Arc<Provider>],
        back: &'a SignIn,
        now_ms: i64,
    ) -> BoxFuture<'a, Result<Authenticated, Refused>> {
        Box::pin(async move {
            if providers.is_empty() {
                return Err(Refused::Unconfigured);
            }
            let denied = |why: &str| Refused::Denied(why.to_owned());
            if back.code.is_empty() || back.code.len() > LIMIT || back.state.len() > LIMIT {
                return Err(denied("the code is missing, or the code or the state is too long"));
            }
            let state = self
                .open(&back.state, now_ms)
                .ok_or_else(|| denied("the state was not issued here, or is too old"))?;
            let provider = providers.iter().find(|p| p.name == state.provider);
            let provider = provider.ok_or_else(|| denied("the provider is no longer configured"))?;
            let _room = self.room.try_acquire().map_err(|_| Refused::Busy)?;
            let document = provider.document(now_ms).await.map_err(Refused::Unavailable)?;
            let tokens = provider.exchange(&document, &back.code, &state).await?;
            let id =
                tokens.id_token.ok_or_else(|| denied("the provider returned no ID token for the code"))?;
            let outside = token::outside(&id)?;
            let mut claims = provider.open(&id, &outside).await?;
            if claims.get("nonce").and_then(Value::as_str) != Some(&state.nonce) {
                return Err(denied("the token was made for another sign-in (nonce)"));
            }
            if provider.settings.userinfo {
                provider.add_userinfo(&mut claims, tokens.access_token.as_deref()).await?;
            }
            provider.whom(&claims, outside.issuer)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_is_encoded() {
        for byte in 0..=u8::MAX {
            let plain = byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
            let expected = if plain { char::from(byte).to_string() } else { format!("%{byte:02X}") };
            assert_eq!(percent_encoding::percent_encode(&[byte], RESERVED).to_string(), expected);
        }
        assert_eq!(encoded("a ü"), "a%20%C3%BC");
    }
}
