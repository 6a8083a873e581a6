//! MinIO's administration API, so that `mc admin` and programs that use the API can administer Ashlar.
//!
//! | file | contents |
//! |---|---|
//! | `table` | the calls, and the routes of our API that each uses |
//! | `users`, `policies`, `keys`, `quotas`, `settings`, `transfer`, `info`, `observe` | the translations, in both directions |
//! | `kv`, `archive` | MinIO's formats: settings in one line, archives of identities |
//! | `called` | an authenticated call |
//! | `vault` | encrypted request and answer bodies |
//! | `say` | answers and errors in MinIO's form |
//!
//! A request is authenticated as any other request, looked up in the table, checked for permission, decrypted
//! if necessary, and translated to requests of our own API (`admin::Admin::act`), whose answers are
//! translated back. Invariants: no authorization is decided here: `act` decides it; nothing is decrypted,
//! encrypted or read before the signature was verified and the permission for the call was checked; another
//! version of the API is answered with 426, and a call that is not in the table with 501 and its name, both
//! only for signed requests.
//!
//! Must not depend on: where identities and settings are stored.

mod archive;
mod called;
mod info;
mod keys;
mod kms;
mod kv;
mod observe;
mod policies;
mod quotas;
mod say;
mod settings;
mod table;
mod transfer;
mod users;
mod vault;

use std::sync::Arc;
use std::time::Duration;

use ashlar_s3::auth::Verified;
use ashlar_s3::request_body::RequestBody;
use ashlar_s3::{Body, Source};
use http::header::HeaderValue;
use http::request::Parts;
use http::{Request, Response, StatusCode};
use hyper::body::Incoming;

use super::admin::{Admin, told};
use super::admin_request::{Ask, Refusal, unrecordable};
use super::audit::Trail;
use super::clock::now_ms;
use super::connection::Peer;
use super::table::Route;
use called::Called;
pub use called::Minio;
use say::{Answer, Said, invalid, not_here};
use table::{BASE, Call, KEYS, VERSION};
use vault::Vault;

/// Maximum bytes of a request body that are read and discarded after an error.
const DRAIN: u64 = 1 << 20;
/// Time limit for that.
const DRAIN_TIME: Duration = Duration::from_secs(2);

/// The answer to an unknown path below `/minio/`, in the form that MinIO's clients read.
pub fn not_implemented(path: &str, id: &str) -> Response<Body> {
    say::refused(&not_here(path), path, id)
}

impl Minio {
    /// MinIO's API over our own.
    pub fn new(admin: Arc<Admin>) -> Minio {
        Minio { admin, vault: Vault::new() }
    }

    /// Number of encrypted requests that were refused because too many were waiting.
    pub fn refused(&self) -> u64 {
        self.vault.refused()
    }

    /// Answers a request.
    pub async fn answer(&self, request: Request<Incoming>, peer: &Peer) -> Response<Body> {
        let id = self.admin.service().request_id();
        let (method, path) = (request.method().clone(), request.uri().path().to_owned());
        let mut who = String::new();
        let head = (&method, request.uri(), request.headers());
        let mut response = match Trail::begin(self.admin.service().audit(), &id, head, peer).await {
            Ok(trail) => self.recorded(request, peer, trail, &mut who, (&path, &id)).await,
            Err(_) => say::refused(&unrecordable(), &path, &id),
        };
        told(&id, &method, &path, response.status(), &who, peer);
        if let Ok(id) = HeaderValue::from_str(&id) {
            response.headers_mut().insert("x-amz-request-id", id);
        }
        response
    }

    /// Carries out a call; the answer is returned after the audit record is durable.
    async fn recorded(
        &self,
        request: Request<Incoming>,
        peer: &Peer,
        mut trail: Trail,
        who: &mut String,
        (path, id): (&str, &str),
    ) -> Response<Body> {
        let said = match self.admit(request, peer, &mut trail, who).await {
            Ok(mut called) => {
                trail.what(called.call.name(), &called.names.join("/"), called.ask.body.len());
                let said = self.act(&mut called).await;
                let why = said.as_ref().err().filter(|no| no.status == StatusCode::FORBIDDEN);
                trail.decided(called.ask.authz_decision.into_inner(), why.map(|no| no.why.as_str()));
                said
            }
            Err(refusal) => Err(refusal),
        };
        match said {
            Ok(answer) => {
                let mut response = say::whole(answer.status, answer.body, answer.kind);
                if let Some(stream) = answer.stream {
                    *response.body_mut() = stream;
                }
                if answer.applied {
                    response.headers_mut().insert(say::APPLIED, HeaderValue::from_static("true"));
                }
                trail.end(response, "").await
            }
            Err(no) => trail.end(say::refused(&no, path, id), no.code).await,
        }
    }

    /// Authenticates and checks the call, then reads and decrypts the body.
    async fn admit(
        &self,
        request: Request<Incoming>,
        peer: &Peer,
        trail: &mut Trail,
        who: &mut String,
    ) -> Result<Called, Refusal> {
        let (parts, incoming) = request.into_parts();
        let expects = parts.headers.contains_key(http::header::EXPECT);
        let mut source = Source::Hyper(incoming);
        let (mut called, mut verified) = match self.check(&parts, peer, trail, who) {
            Ok(checked) => checked,
            Err(no) => {
                // Clients that are still sending would otherwise not read the error.
                if !expects {
                    source.drain(DRAIN, DRAIN_TIME).await;
                }
                return Err(no);
            }
        };
        let mut request_body =
            RequestBody::new(source, &parts.headers, &mut verified).map_err(|(fault, _)| fault)?;
        let body = request_body.collect(called.call.limit()).await?;
        peer.watch.arm();
        called.ask.who.used(now_ms());
        if called.call.sealed() {
            let (text, key) = self.vault.open(&called.ask.who, body).await?;
            (called.ask.body, called.key) = (text, Some(key));
        } else {
            called.ask.body = body;
        }
        Ok(called)
    }

    /// Verifies the signature, finds the call, checks the permission and the required query parameters.
    fn check(
        &self,
        parts: &Parts,
        peer: &Peer,
        trail: &mut Trail,
        who: &mut String,
    ) -> Result<(Called, Verified), Refusal> {
        let (verified, target) = self.admin.verified(parts, trail, who)?;
        let (call, names) = named(&parts.method, &target.path)?;
        let host = parts.headers.get(http::header::HOST).and_then(|h| h.to_str().ok()).unwrap_or_default();
        let ask = Ask::new(verified.identity().clone(), call.routes()[0], target.query, peer);
        trail.what(call.name(), &names.join("/"), 0);
        if let Err(no) = permitted(call, &ask) {
            trail.decided(ask.authz_decision.into_inner(), None);
            return Err(no);
        }
        if let Some(name) = call.query().iter().find(|n| !ask.query.has(n)) {
            return Err(invalid(format!("the query lacks \"{name}\"")));
        }
        Ok((Called { call, names, ask, host: host.to_owned(), key: None }, verified))
    }

    async fn act(&self, called: &mut Called) -> Said {
        let key = called.key.take();
        let mut answer = self.translate(called).await?;
        if called.call.seals() && !answer.body.is_empty() {
            answer = Answer {
                body: self.vault.seal(&called.ask.who, key, answer.body).await?,
                kind: "application/octet-stream",
                ..answer
            };
        }
        Ok(answer)
    }

    async fn translate(&self, c: &Called) -> Said {
        match c.call {
            Call::UserList => users::list(self, c).await,
            Call::UserInfo => users::info(self, c).await,
            Call::UserAdd => users::add(self, c).await,
            Call::UserStatus => users::status(self, c).await,
            Call::UserRemove => users::remove(self, c).await,
            Call::UserRevoke => users::revoke(self, c).await,
            Call::GroupMembers => users::members(self, c).await,
            Call::GroupInfo => users::group(self, c).await,
            Call::GroupList => users::groups(self, c).await,
            Call::GroupStatus => users::group_status(self, c).await,
            Call::PolicyAdd => policies::add(self, c).await,
            Call::PolicyInfo => policies::info(self, c).await,
            Call::PolicyList => policies::list(self, c).await,
            Call::PolicyRemove => policies::remove(self, c).await,
            Call::PolicySet => policies::set(self, c).await,
            Call::PolicyAttach | Call::PolicyDetach => policies::associate(self, c, "").await,
            Call::PolicyAttachLdap | Call::PolicyDetachLdap => {
                policies::associate(self, c, "federated_").await
            }
            Call::PolicyEntitiesLdap => policies::entities_ldap(self, c).await,
            Call::PolicyEntities => policies::entities(self, c).await,
            Call::KeyAdd => keys::add(self, c).await,
            Call::KeyUpdate => keys::update(self, c).await,
            Call::KeyInfo => keys::info(self, c).await,
            Call::KeyInfoAny => keys::info_any(self, c).await,
            Call::KeyInfoTemporary => keys::info_temporary(c),
            Call::KeyList => keys::list(self, c).await,
            Call::KeyListBulk => keys::bulk(self, c, "users").await,
            Call::KeyListLdap => keys::bulk(self, c, "userDNs").await,
            Call::KeyRemove => keys::remove(self, c).await,
            Call::Info => info::info(self, c).await,
            Call::DataUsage => observe::usage(self, c).await,
            Call::StorageInfo => info::storage(self, c).await,
            Call::Trace => observe::trace(self, c),
            Call::Logs => observe::logs(self, c),
            Call::TopLocks => observe::locks(self, c).await,
            Call::HealStatus => observe::heal_status(self, c).await,
            Call::Heal => observe::heal(self, c).await,
            Call::RealTime => observe::metrics(self, c),
            Call::ScanStatus => observe::scan_status(self, c).await,
            Call::Service => info::service(self, c).await,
            Call::ConfigGet => settings::get(self, c).await,
            Call::ConfigSet => settings::set(self, c).await,
            Call::ConfigDelete => settings::delete(self, c).await,
            Call::ConfigHelp => settings::help(self, c).await,
            Call::ConfigExport => settings::export(self, c).await,
            Call::ConfigImport => settings::import(self, c).await,
            Call::IdpAdd | Call::IdpUpdate => settings::idp_put(self, c).await,
            Call::IdpInfo => settings::idp_info(self, c).await,
            Call::IdpList => settings::idp_list(self, c).await,
            Call::IdpRemove => settings::idp_remove(self, c).await,
            Call::QuotaInfo => quotas::get(self, c).await,
            Call::QuotaSet => quotas::set(self, c).await,
            Call::KmsStatus => kms::status(self, c).await,
            Call::KmsKeyCreate => kms::create(self, c).await,
            Call::KmsKeyStatus => kms::key_status(self, c).await,
            Call::KmsKeyList => kms::list(self, c).await,
            Call::IamExport => transfer::export(self, c).await,
            Call::IamImport | Call::IamImportV2 => transfer::import(self, c).await,
        }
    }
}

/// The call of a path, and the names in the path.
fn named(method: &http::Method, path: &str) -> Result<(Call, Vec<String>), Refusal> {
    if let Some(what) = path.strip_prefix(KEYS) {
        let what = format!("kms/{what}");
        return Call::find(method, &what).ok_or_else(|| not_here(&format!("MinIO's call {method} {what}")));
    }
    let rest = path.strip_prefix(BASE).unwrap_or_default();
    let (version, what) = rest.split_once('/').unwrap_or((rest, ""));
    if version != VERSION {
        return Err(Refusal {
            status: StatusCode::UPGRADE_REQUIRED,
            code: "XMinioAdminVersionMismatch",
            why: format!("this server speaks version {VERSION} of the administration API, not \"{version}\""),
        });
    }
    Call::find(method, what).ok_or_else(|| not_here(&format!("MinIO's administration call {method} {what}")))
}

/// Checks the permission for a call before any expensive work.
fn permitted(call: Call, ask: &Ask) -> Result<(), Refusal> {
    let routes = call.routes();
    let may = |r: &Route| ask.may(r.actions(), false) || (r.may_be_own() && ask.may(r.actions(), true));
    let fine = if call.asks_all() { routes.iter().all(may) } else { routes.iter().any(may) };
    if fine {
        return Ok(());
    }
    let all: Vec<_> = routes.iter().flat_map(|r| r.actions()).copied().collect();
    ask.need(&all, false)?;
    // Needs all of several permissions; this checks that there is one of them.
    match routes.iter().find(|r| !may(r)) {
        Some(route) => ask.need(route.actions(), false),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Method;

    #[test]
    fn other_versions_and_unknown_calls_are_told_apart() {
        let code = |path: &str| named(&Method::GET, path).map(|(c, _)| c).map_err(|no| no.status.as_u16());
        assert_eq!(code("/minio/admin/v3/info"), Ok(Call::Info));
        assert_eq!(code("/minio/admin/v3/idp-config/openid/kc"), Ok(Call::IdpInfo));
        for path in ["/minio/admin/v4/info", "/minio/admin/v1/info", "/minio/admin/", "/minio/admin/v33/info"]
        {
            assert_eq!(code(path), Err(426), "{path}");
        }
        for path in
            ["/minio/admin/v3", "/minio/admin/v3/", "/minio/admin/v3/top/nothing", "/minio/admin/v3/add-user"]
        {
            assert_eq!(code(path), Err(501), "{path}");
        }
    }
}
