//! MinIO's administration API, so that `mc admin` and programs that use the API can administer Ashlar.
//!
//! | file | contents |
//! |---|---|
//! | `table` | the calls, and the routes of our API that each uses |
//! | `users`, `policies`, `keys`, `quotas`, `settings`, `transfer`, `info`, `observe` | the translations, in both directions |
//! | `kv`, `archive` | MinIO's formats: settings in one line, archives of identities |
//! | `context` | an authenticated call |
//! | `body_cipher` | encrypted request and answer bodies |
//! | `answers` | answers and errors in MinIO's form |
//!
//! A request is authenticated as any other request, looked up in the table, checked for permission, decrypted
//! if necessary, and translated to requests of our own API (`admin::Admin::run`), whose answers are
//! translated back. Invariants: no authorization is decided here: `run` decides it; nothing is decrypted,
//! encrypted or read before the signature was verified and the permission for the call was checked; another
//! version of the API is answered with 426, and a call that is not in the table with 501 and its name, both
//! only for signed requests.
//!
//! Must not depend on: where identities and settings are stored.

mod answers;
mod archive;
mod body_cipher;
mod call_context;
mod info;
mod keys;
mod kms;
mod kv;
pub(crate) mod lines;
mod observe;
mod policies;
mod quotas;
mod settings;
mod table;
mod transfer;
mod users;

use std::sync::Arc;
use std::time::Duration;

use ashlar_node::clock::now_ms;
use ashlar_s3::auth::Verified;
use ashlar_s3::request_body::RequestBody;
use ashlar_s3::{Body, Source};
use futures::future::BoxFuture;
use http::header::HeaderValue;
use http::request::Parts;
use http::{Request, Response, StatusCode};
use hyper::body::Incoming;

use super::admin::{Admin, log_request};
use super::admin_request::{AdminRequest, Refusal, unrecordable};
use super::audit::AuditEntry;
use super::peer::Peer;
use super::table::Route;
use answers::{Answer, CallResult, invalid, unsupported};
use body_cipher::BodyCipher;
use call_context::CallContext;
pub use call_context::Minio;
use table::{BASE, Call, KEYS, VERSION};

/// Maximum bytes of a request body that are read and discarded after an error.
const DRAIN: u64 = 1 << 20;
/// Time limit for that.
const DRAIN_TIME: Duration = Duration::from_secs(2);

/// The answer to an unknown path below `/minio/`, in the form that MinIO's clients read.
pub fn not_implemented(path: &str, id: &str) -> Response<Body> {
    answers::refused(&unsupported(path), path, id)
}

impl Minio {
    /// MinIO's API over our own.
    pub fn new(admin: Arc<Admin>) -> Minio {
        Minio { admin, body_cipher: BodyCipher::new() }
    }

    /// Number of encrypted requests that were refused because too many were waiting.
    pub fn refused(&self) -> u64 {
        self.body_cipher.refused()
    }

    /// Answers a request.
    pub fn answer<'a>(&'a self, request: Request<Incoming>, peer: &'a Peer) -> BoxFuture<'a, Response<Body>> {
        Box::pin(async move {
            let id = self.admin.service().request_id();
            let (method, path) = (request.method().clone(), request.uri().path().to_owned());
            let mut caller = String::new();
            let head = (&method, request.uri(), request.headers());
            let mut response = match AuditEntry::begin(self.admin.service().audit(), &id, head, peer).await {
                Ok(audit_entry) => {
                    self.answer_audited(request, peer, audit_entry, &mut caller, (&path, &id)).await
                }
                Err(_) => answers::refused(&unrecordable(), &path, &id),
            };
            log_request(&id, &method, &path, response.status(), &caller, peer);
            if let Ok(id) = HeaderValue::from_str(&id) {
                response.headers_mut().insert("x-amz-request-id", id);
            }
            response
        })
    }

    /// Carries out a call; the answer is returned after the audit record is durable.
    async fn answer_audited(
        &self,
        request: Request<Incoming>,
        peer: &Peer,
        mut audit_entry: AuditEntry,
        caller: &mut String,
        (path, id): (&str, &str),
    ) -> Response<Body> {
        let result = match self.read_call(request, peer, &mut audit_entry, caller).await {
            Ok(mut context) => {
                audit_entry.set_operation(
                    context.call.name(),
                    &context.names.join("/"),
                    context.req.body.len(),
                );
                let result = self.run(&mut context).await;
                let why = result.as_ref().err().filter(|no| no.status == StatusCode::FORBIDDEN);
                audit_entry
                    .set_decision(context.req.authz_decision.into_inner(), why.map(|no| no.why.as_str()));
                result
            }
            Err(refusal) => Err(refusal),
        };
        match result {
            Ok(answer) => {
                let mut response = answers::complete(answer.status, answer.body, answer.kind);
                if let Some(stream) = answer.stream {
                    *response.body_mut() = stream;
                }
                if answer.applied {
                    response.headers_mut().insert(answers::APPLIED, HeaderValue::from_static("true"));
                }
                audit_entry.finish(response, "").await
            }
            Err(no) => audit_entry.finish(answers::refused(&no, path, id), no.code).await,
        }
    }

    /// Authenticates and checks the call, then reads and decrypts the body.
    async fn read_call(
        &self,
        request: Request<Incoming>,
        peer: &Peer,
        audit_entry: &mut AuditEntry,
        caller: &mut String,
    ) -> Result<CallContext, Refusal> {
        let (parts, incoming) = request.into_parts();
        let expects = parts.headers.contains_key(http::header::EXPECT);
        let mut source = Source::Hyper(incoming);
        let (mut context, mut verified) = match self.authenticate(&parts, peer, audit_entry, caller) {
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
        let body = request_body.collect(context.call.limit()).await?;
        peer.watch.arm();
        context.req.caller.used(now_ms());
        if context.call.sealed() {
            let (text, key) = self.body_cipher.open(&context.req.caller, body).await?;
            (context.req.body, context.key) = (text, Some(key));
        } else {
            context.req.body = body;
        }
        Ok(context)
    }

    /// Verifies the signature, finds the call, checks the permission and the required query parameters.
    fn authenticate(
        &self,
        parts: &Parts,
        peer: &Peer,
        audit_entry: &mut AuditEntry,
        caller: &mut String,
    ) -> Result<(CallContext, Verified), Refusal> {
        let (verified, target) = self.admin.verified(parts, audit_entry, caller)?;
        let (call, names) = find_call(&parts.method, &target.path)?;
        let host = parts.headers.get(http::header::HOST).and_then(|h| h.to_str().ok()).unwrap_or_default();
        let req = AdminRequest::new(verified.identity().clone(), call.routes()[0], target.query, peer);
        audit_entry.set_operation(call.name(), &names.join("/"), 0);
        if let Err(no) = permitted(call, &req) {
            audit_entry.set_decision(req.authz_decision.into_inner(), None);
            return Err(no);
        }
        if let Some(name) = call.query().iter().find(|n| !req.query.has(n)) {
            return Err(invalid(format!("the query lacks \"{name}\"")));
        }
        Ok((CallContext { call, names, req, host: host.to_owned(), key: None }, verified))
    }

    async fn run(&self, context: &mut CallContext) -> CallResult {
        let key = context.key.take();
        let mut answer = self.translate(context).await?;
        if context.call.seals() && !answer.body.is_empty() {
            answer = Answer {
                body: self.body_cipher.seal(&context.req.caller, key, answer.body).await?,
                kind: "application/octet-stream",
                ..answer
            };
        }
        Ok(answer)
    }

    async fn translate(&self, c: &CallContext) -> CallResult {
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
            Call::Trace => observe::trace(self, c).await,
            Call::Logs => observe::logs(self, c).await,
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
fn find_call(method: &http::Method, path: &str) -> Result<(Call, Vec<String>), Refusal> {
    if let Some(what) = path.strip_prefix(KEYS) {
        let what = format!("kms/{what}");
        return Call::find(method, &what)
            .ok_or_else(|| unsupported(&format!("MinIO's call {method} {what}")));
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
    Call::find(method, what)
        .ok_or_else(|| unsupported(&format!("MinIO's administration call {method} {what}")))
}

/// Checks the permission for a call before any expensive work.
fn permitted(call: Call, req: &AdminRequest) -> Result<(), Refusal> {
    let routes = call.routes();
    let may = |r: &Route| req.may(r.actions(), false) || (r.may_be_own() && req.may(r.actions(), true));
    let fine = if call.asks_all() { routes.iter().all(may) } else { routes.iter().any(may) };
    if fine {
        return Ok(());
    }
    let all: Vec<_> = routes.iter().flat_map(|r| r.actions()).copied().collect();
    req.need(&all, false)?;
    // Needs all of several permissions; this checks that there is one of them.
    match routes.iter().find(|r| !may(r)) {
        Some(route) => req.need(route.actions(), false),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Method;

    #[test]
    fn other_versions_get_426_and_unknown_calls_501() {
        let code =
            |path: &str| find_call(&Method::GET, path).map(|(c, _)| c).map_err(|no| no.status.as_u16());
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
