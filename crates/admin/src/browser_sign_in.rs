//! Sign-in and sign-out with identity providers for the web console, which is in the same process.
//!
//! It is the same as the two requests `login/openid` of `providers`, except that the console names one provider, and
//! begins each sign-in with a request of its own, so that it can bind it to the browser.
//!
//! Invariant: a completed sign-in is in the audit log before its credentials are returned, whether it succeeded or not.
//!
//! Must not depend on: cookies, pages.

use ashlar_idp::BrowserProvider;
use ashlar_s3::Body;
use futures::future::BoxFuture;
use http::{HeaderMap, Method, Response, Uri};

use super::admin::Admin;
use super::admin_request::{Refusal, unrecordable};
use super::audit::AuditEntry;
use super::peer::Peer;
use super::providers::Back;
use super::responses::refused;

/// How people can sign in, besides access keys.
pub struct SignInOptions {
    /// The OpenID Connect providers for browsers.
    pub openid: Vec<BrowserProvider>,
    /// Whether names and passwords of a directory (LDAP) are accepted.
    pub ldap: bool,
    /// Whether client certificates are accepted.
    pub certificates: bool,
}

impl Admin {
    /// How people can sign in. `origin`: the address of this server in the browser, `https://host:port`.
    pub fn sign_in_options(&self, origin: &str) -> SignInOptions {
        let idp = self.providers().idp();
        SignInOptions {
            openid: idp.browser_providers(origin),
            ldap: idp.has_directory(),
            certificates: idp.has_certificates(),
        }
    }

    /// The URL at which a browser begins to sign in with an OpenID Connect provider.
    ///
    /// # Errors
    /// There is no such provider, or it does not answer.
    pub fn begin_sign_in<'a>(
        &'a self,
        provider: &'a str,
        origin: &'a str,
    ) -> BoxFuture<'a, Result<String, Refusal>> {
        Box::pin(async move {
            let url = self.providers().idp().begin_sign_in(provider, origin).await;
            url.map_err(|why| {
                tracing::info!(target: "ashlar::admin", provider, %why, "a sign-in cannot begin");
                why.into()
            })
        })
    }

    /// The URL at which a browser ends its session at an OpenID Connect provider; `None`: the provider offers none.
    ///
    /// # Errors
    /// There is no such provider, or it does not answer.
    pub fn sign_out_url<'a>(&'a self, provider: &'a str) -> BoxFuture<'a, Result<Option<String>, Refusal>> {
        Box::pin(async move { Ok(self.providers().idp().sign_out_url(provider).await?) })
    }

    /// Answers as `POST login/openid/callback` does: temporary credentials, or why there are none. `head`: of the
    /// browser's request, for the audit log.
    pub fn complete_sign_in<'a>(
        &'a self,
        head: (&'a Method, &'a Uri, &'a HeaderMap),
        (code, state): (String, String),
        duration_s: i64,
        peer: &'a Peer,
    ) -> BoxFuture<'a, Response<Body>> {
        Box::pin(async move {
            let id = self.service().request_id();
            let Ok(mut audit_entry) = AuditEntry::begin(self.service().audit(), &id, head, peer).await else {
                return refused(&unrecordable());
            };
            audit_entry.set_operation("SignIn", "", 0);
            let back = Back { code, state, duration_s: Some(duration_s) };
            let reply = self.providers().complete(back, peer).await;
            self.respond(reply, audit_entry).await
        })
    }
}
