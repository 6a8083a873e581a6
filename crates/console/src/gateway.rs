//! The entry of the console: from a browser's request to an answer.
//!
//! | request below `/console/` | answer |
//! |---|---|
//! | `GET` (the page), `GET assets/NAME` | the page and its files |
//! | `GET sign-in` | how people can sign in: `{"openid": [{"name", "display_name"}], "ldap": bool}` |
//! | `POST sign-in` `{"provider"}` | `{"url"}`: where the browser has to go; see `providers` |
//! | `POST sign-out` `{"provider"}` | `{"url"}`: where a browser ends its session at the provider, or null |
//! | `POST session` `{"access_key", "secret_key"}`, `{"ldap_user", "ldap_password"}` or `{"code", "state"}` | the cookie, and as `GET` |
//! | `POST confirm` `{"secret_key"}` | a cookie that permits to change access keys and to destroy: see `confirmation` |
//! | `GET session` | who is signed in, until when; `{"user": null}` if nobody is |
//! | `DELETE session` | takes the cookie away |
//! | `POST ticket` `{"target": "/bucket/key?..."}` | `{"url"}`: an address below `/console/` to download from |
//! | `POST share` | a link to share: see `links` |
//! | `* admin/PATH` | as `/ashlar/api/v1/PATH` with the session's credentials |
//! | `* s3/BUCKET/KEY` | as `/BUCKET/KEY` with the session's credentials |
//! | `GET s3/BUCKET/PREFIX?ashlar-zip` with a ticket | a folder as an archive: see `zip_download` |
//!
//! Errors are `{"error": "what happened and what to do", "code": "..."}`, except those of S3, which are XML.
//!
//! Invariants: a call is checked for its origin before anything else is done; a call without a session gets 401
//! and no other answer; credentials that the browser sends are removed before the session's own are added.
//!
//! Must not depend on: what a call does.

use std::sync::Arc;

use ashlar_admin::Admin;
use ashlar_admin::peer::Peer;
use ashlar_iam::{Iam, Identity, Kind};
use ashlar_s3::request_body::RequestBody;
use ashlar_s3::{Arrival, Body, Fault, Service, Source};
use futures::future::BoxFuture;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::request::Parts;
use http::{Method, Request, Response, StatusCode, Uri};
use hyper::body::Incoming;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::aim::{Aim, aim, wants_console};

use crate::links::{self, ShareOrder};
use crate::providers::ProviderReturn;
use crate::session::{Session, forgotten};
use crate::sign::{Signer, UNSIGNED, below};
use crate::sign_in::{self, CertificateLogin, DirectoryLogin, KeyPair};
use crate::zip_download::{self, Reader};
use crate::{HEADER, assets, binding, confirmation, origin};

/// Longest document of a call to the gateway itself, in bytes.
const LIMIT: usize = 64 * 1024;

/// What is cut from a call before it is signed again: what identifies the browser to the console only.
const DROPPED: [HeaderName; 3] = [header::COOKIE, header::AUTHORIZATION, header::ORIGIN];

/// The console over the services of one server.
pub struct Console {
    service: Arc<Service>,
    pub(crate) admin: Arc<Admin>,
    /// Port of S3 when the console has an address of its own.
    s3_port: Option<u16>,
    /// Archives that are sent.
    archives: Arc<Semaphore>,
}

/// What a person signs in with.
#[derive(Deserialize)]
#[serde(untagged)]
enum SignIn {
    Keys(KeyPair),
    Directory(DirectoryLogin),
    Code(ProviderReturn),
    Certificate(CertificateLogin),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Confirm {
    secret_key: String,
}

/// An error of the gateway itself.
pub(crate) struct Refusal(pub StatusCode, pub &'static str, pub String);

pub(crate) type Handled = Result<Response<Body>, Refusal>;

impl From<Fault> for Refusal {
    fn from(fault: Fault) -> Refusal {
        Refusal(fault.status(), fault.code().name, fault.message().to_owned())
    }
}

/// Keeps a stored object that a browser opens from running as a page of this origin, where it could use the
/// console in the name of whoever is signed in. It gets an origin of its own; its scripts run.
pub fn contain(request: &HeaderMap, response: &mut HeaderMap) {
    let text = |name: &str| request.get(name).and_then(|v| v.to_str().ok());
    let page = match text("sec-fetch-dest") {
        Some(what) => matches!(what, "document" | "iframe" | "frame" | "embed" | "object"),
        None => text("accept").is_some_and(|a| a.contains("text/html")),
    };
    if page {
        let alone = "sandbox allow-downloads allow-forms allow-modals allow-popups allow-scripts";
        response.append(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(alone));
    }
}

pub(crate) fn json_answer(status: StatusCode, value: &Value) -> Response<Body> {
    let mut response = Response::new(Body::whole(value.to_string()));
    *response.status_mut() = status;
    let out = response.headers_mut();
    out.insert(header::SERVER, HeaderValue::from_static("Ashlar"));
    out.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    out.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

pub(crate) fn bad(why: impl Into<String>) -> Refusal {
    Refusal(StatusCode::BAD_REQUEST, "InvalidRequest", why.into())
}

impl Console {
    /// The console of a server. `s3_port`: where S3 is, if the console has an address of its own.
    pub fn new(service: Arc<Service>, admin: Arc<Admin>, s3_port: Option<u16>) -> Console {
        Console { service, admin, s3_port, archives: Arc::new(Semaphore::new(zip_download::AT_ONCE)) }
    }

    /// Answers a request that [`crate::is_console`] or [`crate::wants_console`] recognizes; others get 404.
    pub fn answer<'a>(&'a self, request: Request<Incoming>, peer: &'a Peer) -> BoxFuture<'a, Response<Body>> {
        Box::pin(async move {
            if wants_console(&request) {
                peer.watch.arm();
                return redirect("console/");
            }
            let (parts, incoming) = request.into_parts();
            match aim(&parts) {
                Some(Aim::Call(what)) => {
                    let secure = is_secure(&parts.headers, peer);
                    match self.call(&what, parts, incoming, peer).await {
                        Ok(response) => response,
                        Err(Refusal(status, code, why)) => {
                            peer.watch.arm();
                            let mut response = json_answer(status, &json!({ "error": why, "code": code }));
                            if code == "SessionEnded" {
                                set_cookie(&mut response, &forgotten(secure));
                            }
                            if code == "SignInRefused" {
                                set_cookie(&mut response, &binding::released(secure));
                            }
                            response
                        }
                    }
                }
                found => {
                    peer.watch.arm();
                    match found {
                        Some(Aim::Page) => assets::page(),
                        Some(Aim::File(file)) => assets::file(file, &parts.headers),
                        Some(Aim::Redirect(to)) => redirect(to),
                        Some(Aim::Back(to)) => returned(to, parts.uri.query().unwrap_or_default()),
                        _ => json_answer(
                            StatusCode::NOT_FOUND,
                            &json!({ "error": "the console is at /console/", "code": "NotFound" }),
                        ),
                    }
                }
            }
        })
    }

    fn iam(&self) -> Result<&Arc<Iam>, Refusal> {
        let none =
            || Refusal(StatusCode::NOT_IMPLEMENTED, "NotImplemented", "this server has no users".into());
        self.service.verifier().keys.iam().ok_or_else(none)
    }

    fn now_ms(&self) -> i64 {
        (self.service.context().clock)()
    }

    async fn call(&self, what: &str, parts: Parts, incoming: Incoming, peer: &Peer) -> Handled {
        let download = !parts.headers.contains_key(HEADER);
        if !origin::is_own(&parts.headers, download) {
            let why = "another site sent this request; open the console itself".into();
            return Err(Refusal(StatusCode::FORBIDDEN, "CrossOrigin", why));
        }
        match (parts.method.as_str(), what) {
            ("GET", "sign-in") => Ok(self.sign_in_options(&parts.headers, peer)),
            ("POST", "sign-in") => self.begin_with_provider(parts, incoming, peer).await,
            ("POST", "sign-out") => self.sign_out_at_provider(parts, incoming, peer).await,
            ("POST", "confirm") => self.confirm(parts, incoming, peer).await,
            ("POST", "session") => self.sign_in(parts, incoming, peer).await,
            ("GET", "session") => {
                peer.watch.arm();
                let found = self.session(&parts.headers);
                let about = found.map_or_else(|_| json!({ "user": null }), |(s, i)| self.about(&s, &i));
                Ok(json_answer(StatusCode::OK, &about))
            }
            ("DELETE", "session") => {
                peer.watch.arm();
                let mut response = json_answer(StatusCode::OK, &json!({}));
                let secure = is_secure(&parts.headers, peer);
                set_cookie(&mut response, &forgotten(secure));
                set_cookie(&mut response, &confirmation::ended(secure));
                Ok(response)
            }
            ("POST", "ticket") => self.ticket(parts, incoming, peer).await,
            ("POST", "share") => self.share(parts, incoming, peer).await,
            _ => match what.split_once('/') {
                Some(("admin", _)) => self.forward_admin(parts, incoming, peer).await,
                Some(("s3", _)) => self.forward_s3(parts, incoming, peer, download).await,
                _ => Err(Refusal(
                    StatusCode::NOT_FOUND,
                    "NotFound",
                    format!("{} /console/{what} is not a call of the console", parts.method),
                )),
            },
        }
    }

    /// The session of a call and who it is for.
    fn session(&self, headers: &HeaderMap) -> Result<(Session, Arc<Identity>), Refusal> {
        let iam = self.iam()?;
        let ended = |why: &str| Refusal(StatusCode::UNAUTHORIZED, "SessionEnded", why.to_owned());
        let session = Session::of(headers, iam).ok_or_else(|| ended("Nobody is signed in. Sign in."))?;
        let identity = session.identity(iam).map_err(|_| ended("The session has ended. Sign in again."))?;
        Ok((session, identity))
    }

    fn about(&self, session: &Session, identity: &Identity) -> Value {
        let provider = identity.federated.as_ref().and_then(|who| who.provider.strip_prefix("openid/"));
        json!({
            "user": identity.user,
            "root": identity.root,
            "federated": identity.federated.is_some(),
            "provider": provider,
            "restricted": !identity.bounds.is_empty(),
            "signed_in_with": session.signer,
            "groups": identity.groups,
            "policies": identity.policy_names,
            "expires_ms": session.expires_ms,
            "now_ms": self.now_ms(),
            "region": self.service.context().region,
            "s3_port": self.s3_port,
            "version": env!("CARGO_PKG_VERSION"),
        })
    }

    async fn sign_in(&self, parts: Parts, incoming: Incoming, peer: &Peer) -> Handled {
        let body = document(&parts, incoming, peer).await?;
        let with: SignIn = serde_json::from_slice(&body).map_err(|_| {
            bad("send an access key and a secret key, a name and a password, what a provider returned, or {\"certificate\": true}")
        })?;
        let arrival = Arrival { watch: None, ..arrival(peer) };
        let session = match &with {
            SignIn::Keys(with) => sign_in::with_keys(&self.service, with, &parts.headers, arrival)
                .await
                .map_err(sign_in_refusal),
            SignIn::Directory(with) => sign_in::with_directory(&self.service, with, &parts.headers, arrival)
                .await
                .map_err(sign_in_refusal),
            SignIn::Certificate(with) => {
                sign_in::with_certificate(&self.service, with, &parts.headers, arrival)
                    .await
                    .map_err(sign_in_refusal)
            }
            SignIn::Code(with) => return self.end_with_provider(with, &parts, peer).await,
        };
        self.begin(&session?, &parts.headers, peer)
    }

    /// Checks the secret of the key that the person signed in with.
    async fn confirm(&self, parts: Parts, incoming: Incoming, peer: &Peer) -> Handled {
        let (session, _) = self.session(&parts.headers)?;
        let body = document(&parts, incoming, peer).await?;
        let with: Confirm = serde_json::from_slice(&body).map_err(|_| bad("send the secret key"))?;
        if session.signer.is_empty() {
            return Err(bad(
                "you signed in with an identity provider, so there is no secret to confirm with",
            ));
        }
        let arrival = Arrival { watch: None, ..arrival(peer) };
        let keys = KeyPair { access_key: session.signer.clone(), secret_key: with.secret_key };
        // The session that it makes is given to nobody.
        sign_in::with_keys(&self.service, &keys, &parts.headers, arrival).await.map_err(sign_in_refusal)?;
        let mut response = json_answer(StatusCode::OK, &json!({ "seconds": confirmation::LIFE_S }));
        let secure = is_secure(&parts.headers, peer);
        set_cookie(&mut response, &confirmation::given(self.iam()?, &session, self.now_ms(), secure));
        Ok(response)
    }

    /// The answer that begins a session.
    pub(crate) fn begin(&self, session: &Session, headers: &HeaderMap, peer: &Peer) -> Handled {
        let iam = self.iam()?;
        let identity = session.identity(iam).map_err(|e| {
            Refusal(StatusCode::FORBIDDEN, "SignInRefused", format!("the session could not begin: {e}"))
        })?;
        let (now, secure) = (self.now_ms(), is_secure(headers, peer));
        let cookie = session.cookie(iam, now, secure).ok_or_else(|| {
            let why = "the policies and claims of this session are too long for a browser's cookie; sign in \
                       with a key that has no policy of its own";
            Refusal(StatusCode::FORBIDDEN, "SignInRefused", why.into())
        })?;
        peer.watch.know();
        let mut response = json_answer(StatusCode::OK, &self.about(session, &identity));
        set_cookie(&mut response, &cookie);
        if session.signer.is_empty() {
            // Nobody can ask this person for a secret later: the sign-in is the confirmation.
            set_cookie(&mut response, &confirmation::given(iam, session, now, secure));
        }
        Ok(response)
    }

    async fn ticket(&self, parts: Parts, incoming: Incoming, peer: &Peer) -> Handled {
        let (session, _) = self.session(&parts.headers)?;
        let body = document(&parts, incoming, peer).await?;
        let order: Value = serde_json::from_slice(&body).map_err(|e| bad(e.to_string()))?;
        let target = order["target"].as_str().unwrap_or_default();
        if !target.starts_with('/') || target.parse::<Uri>().is_err() {
            return Err(bad("name the target: \"/bucket/key\", encoded as in an address"));
        }
        let ticket = links::ticket(self.iam()?, &session, target, self.now_ms());
        let join = if target.contains('?') { '&' } else { '?' };
        let url = format!("s3{target}{join}{}={ticket}", links::TICKET);
        Ok(json_answer(StatusCode::OK, &json!({ "url": url })))
    }

    async fn share(&self, parts: Parts, incoming: Incoming, peer: &Peer) -> Handled {
        let (session, identity) = self.session(&parts.headers)?;
        let body = document(&parts, incoming, peer).await?;
        let order: ShareOrder = serde_json::from_slice(&body).map_err(|e| bad(e.to_string()))?;
        let region = &self.service.context().region;
        let made = links::share(self.iam()?, &session, &identity, &order, region, self.now_ms());
        let made = made.map_err(bad)?;
        Ok(json_answer(StatusCode::OK, &serde_json::to_value(made).unwrap_or_default()))
    }

    /// Signs the head of a call with credentials.
    fn sign(&self, parts: &mut Parts, by: &Identity, token: Option<&str>) -> Result<(), Refusal> {
        parts.headers.remove(HEADER);
        for name in &DROPPED {
            parts.headers.remove(name);
        }
        let signer = Signer {
            access_key: &by.access_key,
            secret: by.secret.expose(),
            token,
            region: &self.service.context().region,
            now_s: self.now_ms().div_euclid(1000),
        };
        Ok(signer.sign(parts, "s3", UNSIGNED)?)
    }

    /// Refuses a call that destroys something until the person confirmed: see `confirmation`.
    fn must_confirm(&self, headers: &HeaderMap, session: &Session) -> Result<(), Refusal> {
        if confirmation::is_given(self.iam()?, session, headers, self.now_ms()) {
            return Ok(());
        }
        let (code, why) = if session.signer.is_empty() {
            let why = "this destroys something: sign out and in again, then do it within five minutes";
            ("SignInAgain", why)
        } else {
            ("ConfirmFirst", "this destroys something: say your secret key again first (POST confirm)")
        };
        Err(Refusal(StatusCode::FORBIDDEN, code, why.into()))
    }

    /// The key that the person of a session signed in with, if it may sign this call: see `confirmation`.
    fn confirmed(
        &self,
        parts: &Parts,
        session: &Session,
        identity: &Identity,
    ) -> Result<Option<Arc<Identity>>, Refusal> {
        let iam = self.iam()?;
        if session.signer.is_empty()
            || !confirmation::concerns(&parts.method, &parts.uri)
            || !confirmation::is_given(iam, session, &parts.headers, self.now_ms())
        {
            return Ok(None);
        }
        Ok(iam.find(&session.signer).filter(|key| key.user == identity.user))
    }

    /// Passes a call to the administration API.
    async fn forward_admin(&self, mut parts: Parts, incoming: Incoming, peer: &Peer) -> Handled {
        let (session, identity) = self.session(&parts.headers)?;
        assert!(identity.kind == Kind::Session, "the console acts with sessions only");
        parts.uri = below(&parts.uri, "/console/admin/", "/ashlar/api/v1/")
            .ok_or_else(|| bad("the path cannot be read"))?;
        if confirmation::admin_destroys(&parts.method, &parts.uri) {
            self.must_confirm(&parts.headers, &session)?;
        }
        match self.confirmed(&parts, &session, &identity)? {
            Some(key) => self.sign(&mut parts, &key, None)?,
            None => self.sign(&mut parts, &identity, Some(&session.token))?,
        }
        let mut response = self.admin.answer(Request::from_parts(parts, incoming), peer).await;
        let out = response.headers_mut();
        out.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        // A proxy that collects an answer before it sends it on would show a trace or a log late or never.
        out.insert("x-accel-buffering", HeaderValue::from_static("no"));
        Ok(response)
    }

    /// Passes a call to S3.
    async fn forward_s3(&self, mut parts: Parts, incoming: Incoming, peer: &Peer, download: bool) -> Handled {
        let (session, identity) = self.session(&parts.headers)?;
        let target = below(&parts.uri, "/console/s3", "").ok_or_else(|| bad("the path cannot be read"))?;
        parts.uri = if download && matches!(parts.method, Method::GET | Method::HEAD) {
            links::redeem(self.iam()?, &session, &target, self.now_ms()).ok_or_else(|| {
                let why = "this download link has expired or is not of this session; start the download in \
                           the console again";
                Refusal(StatusCode::FORBIDDEN, "LinkExpired", why.into())
            })?
        } else {
            target
        };
        let mut response =
            if download && parts.method == Method::GET && zip_download::is_asked_for(&parts.uri) {
                peer.watch.arm();
                self.archive(&parts, session, identity, peer).await?
            } else {
                let in_host = self.service.is_virtual_host(&parts.headers);
                if confirmation::s3_destroys(&parts.method, &parts.uri, in_host) {
                    self.must_confirm(&parts.headers, &session)?;
                }
                self.sign(&mut parts, &identity, Some(&session.token))?;
                self.service.answer(parts, Source::Hyper(incoming), arrival(peer)).await
            };
        let out = response.headers_mut();
        out.append(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static("default-src 'none'; sandbox"));
        out.insert("cross-origin-resource-policy", HeaderValue::from_static("same-origin"));
        out.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("private, no-cache"));
        Ok(response)
    }
}

impl Console {
    /// A folder as an archive.
    async fn archive(
        &self,
        parts: &Parts,
        session: Session,
        identity: Arc<Identity>,
        peer: &Peer,
    ) -> Handled {
        let mut headers = HeaderMap::new();
        for name in [header::HOST, header::USER_AGENT] {
            if let Some(value) = parts.headers.get(&name) {
                headers.insert(name, value.clone());
            }
        }
        let (service, token) = (self.service.clone(), session.token);
        let reader = Reader { service, identity, token, headers, peer: peer.address, tls: peer.tls };
        zip_download::answer(reader, &parts.uri, &self.archives).await
    }
}

fn arrival(peer: &Peer) -> Arrival<'_> {
    Arrival { peer: peer.address, tls: peer.tls, certificates: &peer.certificates, watch: Some(&peer.watch) }
}

/// A failed sign-in as an error of the gateway. Codes that the page has words for stay.
fn sign_in_refusal(no: sign_in::Refused) -> Refusal {
    let code = match no.code.as_str() {
        "WrongKeys" => "WrongKeys",
        "WrongPassword" => "WrongPassword",
        _ => "SignInRefused",
    };
    Refusal(no.status, code, no.why)
}

/// Reads the document of a call to the gateway itself.
pub(crate) async fn document(
    parts: &Parts,
    incoming: Incoming,
    peer: &Peer,
) -> Result<bytes::Bytes, Refusal> {
    let mut body =
        RequestBody::unchecked(Source::Hyper(incoming), &parts.headers).map_err(|(fault, _)| fault)?;
    let bytes = body.collect(LIMIT).await?;
    peer.watch.arm();
    Ok(bytes)
}

/// Whether the browser came over TLS, perhaps to a proxy.
pub(crate) fn is_secure(headers: &HeaderMap, peer: &Peer) -> bool {
    peer.tls || headers.get("x-forwarded-proto").is_some_and(|v| v == "https")
}

pub(crate) fn set_cookie(response: &mut Response<Body>, cookie: &str) {
    if let Ok(value) = HeaderValue::from_str(cookie) {
        response.headers_mut().append(header::SET_COOKIE, value);
    }
}

/// Relative, so that it is right below whatever path a proxy serves this at.
fn redirect(to: &'static str) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::FOUND;
    let out = response.headers_mut();
    out.insert(header::LOCATION, HeaderValue::from_static(to));
    out.insert(header::SERVER, HeaderValue::from_static("Ashlar"));
    out.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// Sends a browser that comes from a provider on to the page, with what the provider said.
fn returned(to: &'static str, query: &str) -> Response<Body> {
    let mut response = redirect(to);
    if let Ok(location) = HeaderValue::from_str(&format!("{to}?{query}")) {
        response.headers_mut().insert(header::LOCATION, location);
    }
    response.headers_mut().insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn provider_cannot_choose_where_a_browser_is_sent() {
        for query in ["code=1&state=2", "state=//evil.example/", "state=https://evil.example"] {
            let response = returned("console/", query);
            let location = response.headers()[header::LOCATION].to_str().unwrap();
            assert_eq!(location, format!("console/?{query}"));
        }
    }

    #[test]
    fn stored_pages_get_an_origin_of_their_own() {
        let contained = |pairs: &[(&'static str, &'static str)]| {
            let (mut request, mut response) = (HeaderMap::new(), HeaderMap::new());
            for (name, value) in pairs {
                request.insert(*name, HeaderValue::from_static(value));
            }
            contain(&request, &mut response);
            let policy =
                response.get(header::CONTENT_SECURITY_POLICY).map(|v| v.to_str().unwrap().to_owned());
            assert!(policy.as_ref().is_none_or(|p| !p.contains("allow-same-origin")));
            policy.is_some()
        };
        assert!(contained(&[("sec-fetch-dest", "document")]));
        assert!(contained(&[("sec-fetch-dest", "iframe")]));
        assert!(contained(&[("accept", "text/html,*/*")]));
        assert!(!contained(&[("sec-fetch-dest", "image"), ("accept", "text/html")]));
        assert!(!contained(&[("accept", "*/*")]));
        assert!(!contained(&[]));
    }
}
