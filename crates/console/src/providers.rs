//! Sign-in and sign-out with OpenID Connect providers.
//!
//! 1. `POST sign-in` names the provider. The answer is the address for the browser, and a cookie that binds the sign-in
//!    to it (`binding`).
//! 2. The provider sends the browser to `/oauth_callback`, from where it goes to the page with the same query (`aim`).
//! 3. The page's code sends the query as `POST session`, as any other sign-in, which needs the header of the console and
//!    an origin of its own; then the code is exchanged.
//!
//! Sign-out there is a step of its own, because the session here has to end at once, and a provider may be slow or away:
//! `POST sign-out` names the provider; the answer is the address for the browser, or null if the provider has none.
//!
//! Invariants: no address in a request decides where a browser goes; a code without the cookie of the browser that began
//! is not exchanged; what a provider says about an error is not shown.
//!
//! Must not depend on: how providers are asked.

use http::header::{self, HeaderMap};
use http::request::Parts;
use http::{Response, StatusCode};
use hyper::body::Incoming;
use serde::Deserialize;
use serde_json::{Value, json};

use ashlar_admin::peer::Peer;
use ashlar_s3::Body;

use crate::binding;
use crate::gateway::{Console, Handled, Refusal, bad, document, is_secure, json_answer, set_cookie};
use crate::session::Session;
use crate::sign_in::DURATION_S;

/// What a provider sent back through the browser.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ProviderReturn {
    code: String,
    state: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Named {
    provider: String,
}

/// The address of this server as the browser has it.
fn origin(headers: &HeaderMap, peer: &Peer) -> String {
    let host = headers.get(header::HOST).and_then(|h| h.to_str().ok()).unwrap_or_default();
    format!("{}://{host}", if is_secure(headers, peer) { "https" } else { "http" })
}

impl Console {
    pub(crate) fn sign_in_options(&self, headers: &HeaderMap, peer: &Peer) -> Response<Body> {
        peer.watch.arm();
        let options = self.admin.sign_in_options(&origin(headers, peer));
        let openid = options.openid.iter();
        let openid: Vec<Value> =
            openid.map(|p| json!({ "name": p.name, "display_name": p.display_name })).collect();
        // A browser shows its certificate while the connection is made, or not at all.
        let shown = !peer.certificates.is_empty();
        let answer = json!({
            "openid": openid,
            "ldap": options.ldap,
            "certificates": options.certificates,
            "certificate_shown": options.certificates && shown,
        });
        json_answer(StatusCode::OK, &answer)
    }

    pub(crate) async fn begin_with_provider(&self, parts: Parts, incoming: Incoming, peer: &Peer) -> Handled {
        let body = document(&parts, incoming, peer).await?;
        let named: Named = serde_json::from_slice(&body).map_err(|_| bad("name the provider"))?;
        let url = self.admin.begin_sign_in(&named.provider, &origin(&parts.headers, peer)).await;
        let url = url.map_err(|no| Refusal(no.status, "SignInRefused", no.why))?;
        let secure = is_secure(&parts.headers, peer);
        let cookie = binding::bind(&url, secure).ok_or_else(|| bad("the provider's address has no state"))?;
        let mut response = json_answer(StatusCode::OK, &json!({ "url": url }));
        set_cookie(&mut response, &cookie);
        Ok(response)
    }

    pub(crate) async fn sign_out_at_provider(
        &self,
        parts: Parts,
        incoming: Incoming,
        peer: &Peer,
    ) -> Handled {
        let body = document(&parts, incoming, peer).await?;
        let named: Named = serde_json::from_slice(&body).map_err(|_| bad("name the provider"))?;
        let url = self.admin.sign_out_url(&named.provider).await;
        let url = url.map_err(|no| Refusal(no.status, "SignOutRefused", no.why))?;
        Ok(json_answer(StatusCode::OK, &json!({ "url": url })))
    }

    pub(crate) async fn end_with_provider(
        &self,
        with: &ProviderReturn,
        parts: &Parts,
        peer: &Peer,
    ) -> Handled {
        if !binding::is_bound(&parts.headers, &with.state) {
            let why = "This sign-in was not begun in this browser, or it was completed or took too long. Sign in again.";
            return Err(Refusal(StatusCode::FORBIDDEN, "SignInRefused", why.into()));
        }
        let head = (&parts.method, &parts.uri, &parts.headers);
        let came = (with.code.clone(), with.state.clone());
        let answer = self.admin.complete_sign_in(head, came, DURATION_S, peer).await;
        let status = answer.status();
        let failed = |why: String| Refusal(StatusCode::INTERNAL_SERVER_ERROR, "InternalError", why);
        let text = answer.into_body().collect().await.map_err(|e| failed(e.to_string()))?;
        let value: Value = serde_json::from_slice(&text).map_err(|e| failed(e.to_string()))?;
        let field = |name: &str| value[name].as_str().unwrap_or_default().to_owned();
        let done = if status.is_success() {
            let expires_ms = value["expires_ms"].as_i64().unwrap_or_default();
            let session = Session {
                access_key: field("access_key"),
                token: field("token"),
                signer: String::new(),
                expires_ms,
            };
            self.begin(&session, &parts.headers, peer)
        } else {
            Err(Refusal(status, "SignInRefused", field("error")))
        };
        // One try of one browser; `gateway` does the same after a refusal.
        done.map(|mut response| {
            set_cookie(&mut response, &binding::released(is_secure(&parts.headers, peer)));
            response
        })
    }
}
