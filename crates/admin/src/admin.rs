//! The administration API over HTTP: JSON, signed as S3 requests are. Paths begin with `/ashlar/api/v1/` on
//! the S3 port (older programs use `/ashlar/admin/v1/`) and with `/api/v1/` on the separate administration
//! port.
//!
//! | request | answer |
//! |---|---|
//! | `GET info` | deployment, erasure code, drives, groups, capacity, healing |
//! | `GET heal` | healing, rebuilds with their ETA, the last scrub |
//! | `POST heal` `{"deep": bool}` | starts a scrub of all drives: 202, or 409 while one runs |
//! | `GET drives` | the drives |
//! | `POST drives/offline`, `drives/online`, `drives/replace` `{"drive": "path or id"}` | 200 |
//! | `POST drives/scrub` `{}` | as `POST heal` with `deep` |
//! | `POST drives/recover` `{"dry_run": bool}` | 202; `GET` reports the progress and the uncertain keys |
//! | `GET metrics-token` | the bearer token for metrics |
//! | `GET openapi.json` | the description of this API in OpenAPI: see `api` |
//! | `POST service/stop`, `service/restart` `{"dry_run": bool}` | 202; requests in flight are completed first |
//! | `GET why/REQUEST-ID` | who sent a request, and which statement decided |
//! | nodes of a cluster; quotas; lifecycle; events | see `cluster`, `quotas`, `lifecycle`, `events` |
//! | users, groups, policies, keys; keys for encryption | see `identities`, `kms` |
//! | settings; export and import of identities | see `settings`, `transfer` |
//!
//! Errors: `{"error": "what happened and what to do", "code": "..."}`. Invariants: every route checks the
//! signature first, then the permission of the caller (`table`); a request that is not in the table is
//! refused; an answer contains no secret except the requested metrics token, and keys and tokens that the
//! request created.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ashlar_iam::Kind;
use ashlar_node::Node;
use ashlar_node::clock::now_ms;
use ashlar_node::drive_monitor;
use ashlar_policy::{Action, BucketRules, Context as Facts, Request as Question, decide};
use ashlar_s3::auth::{Request as Signed, Verified};
use ashlar_s3::request_body::RequestBody;
use ashlar_s3::target::Target;
use ashlar_s3::{Body, Code, Fault, Service, Source};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use futures::future::BoxFuture;
use http::header::{self, HeaderMap, HeaderValue};
use http::request::Parts;
use http::{Request, Response, StatusCode};
use hyper::body::Incoming;
use serde::Deserialize;
use serde_json::Value;

use super::admin_request::{AdminRequest, AdminResult, Refusal, bad_request, unrecordable};
use super::admin_status::{damages, drives, heal, info};
use super::api::orders::{EndOrder, Order, RecoverOrder};
use super::api::{self, state as shape};
use super::audit::AuditEntry;
use super::identities::Identities;
use super::kms;
use super::monitor::{self, Monitor};
use super::peer::Peer;
use super::providers::ProviderAdmin;
use super::recovery::Recovery;
use super::responses::{json_answer, lines, refused};
use super::table::{BASES, Route};
use super::{cluster, events, lifecycle, quotas, settings, transfer};

/// Longest request document.
const LIMIT: usize = 64 * 1024;

/// The administration API over a node and its services.
pub struct Admin {
    service: Arc<Service>,
    node: Arc<Node>,
    token: String,
    scrubbing: Arc<AtomicBool>,
    identities: Identities,
    providers: ProviderAdmin,
    shutdown: ShutdownSender,
    check: settings::Check,
    keys: kms::KeyAdmin,
    monitor: Monitor,
    recovery: Recovery,
}

/// Whether and how an administrator asked the process to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shutdown {
    /// The process continues.
    No,
    /// The process stops.
    Stop,
    /// The process stops, and the same program starts in its place.
    Restart,
}

/// Tells `serve` that the process has to end.
pub type ShutdownSender = Arc<tokio::sync::watch::Sender<Shutdown>>;

impl Admin {
    /// The administration API of a node.
    pub fn new(
        service: Arc<Service>,
        node: Arc<Node>,
        providers: ProviderAdmin,
        shutdown: ShutdownSender,
        check: settings::Check,
        keys: kms::KeyAdmin,
        monitor: Monitor,
    ) -> Admin {
        let secret = service.verifier().keys.root_derived(b"ashlar metrics token 1");
        let token = hex(&secret);
        let scrubbing = Arc::new(AtomicBool::new(false));
        Admin {
            identities: Identities::new(service.clone(), providers.idp()),
            service,
            node,
            token,
            scrubbing,
            providers,
            shutdown,
            check,
            keys,
            monitor,
            recovery: Default::default(),
        }
    }

    /// Whether a request carries a bearer token that may read metrics.
    pub fn has_token(&self, headers: &HeaderMap) -> bool {
        let given = headers.get(header::AUTHORIZATION).and_then(|v| v.to_str().ok());
        let given = given.and_then(|v| v.strip_prefix("Bearer ")).map(str::trim);
        given.is_some_and(|t| {
            ashlar_checksum::ct_eq(t.as_bytes(), self.token.as_bytes()) || self.is_prometheus_token(t)
        })
    }

    /// Whether a token is one that `mc admin prometheus generate` makes: a JWT (HS512) that names an access
    /// key and is signed with its secret. The owner of the key must have permission to read metrics.
    fn is_prometheus_token(&self, token: &str) -> bool {
        #[derive(Deserialize)]
        struct Claims {
            sub: String,
        }
        // Not verified yet: the claim only says which secret has to verify the token.
        let claims = token.split('.').nth(1).and_then(|c| URL_SAFE_NO_PAD.decode(c).ok());
        let named = claims.and_then(|c| serde_json::from_slice::<Claims>(&c).ok());
        let Some(Claims { sub }) = named else { return false };
        let keys = &self.service.verifier().keys;
        let root = keys.root();
        let caller = match keys.iam() {
            _ if sub == root.access_key => Some(root),
            Some(iam) => iam.find(&sub),
            None => None,
        };
        let Some(caller) = caller.filter(|w| !w.access_key.is_empty()) else { return false };
        let secret = jsonwebtoken::DecodingKey::from_secret(caller.secret.expose().as_bytes());
        let proved = jsonwebtoken::Validation::new(jsonwebtoken::Algorithm::HS512);
        if jsonwebtoken::decode::<Claims>(token, &secret, &proved).is_err() {
            return false;
        }
        let (principal, facts) = (caller.principal(), Facts { now_ms: now_ms(), ..Facts::default() });
        let question = Question::new(Action::AdminPrometheus, "", "", &principal, &facts);
        decide(&question, &caller.authority(BucketRules::default(), false)).allowed
    }

    /// Answers a request and writes it to the audit log.
    pub fn answer<'a>(&'a self, request: Request<Incoming>, peer: &'a Peer) -> BoxFuture<'a, Response<Body>> {
        Box::pin(async move {
            let id = self.service.request_id();
            let (method, path) = (request.method().clone(), request.uri().path().to_owned());
            let mut caller = String::new();
            let head = (&method, request.uri(), request.headers());
            let mut response = match AuditEntry::begin(self.service.audit(), &id, head, peer).await {
                Ok(audit_entry) => self.answer_audited(request, peer, audit_entry, &mut caller).await,
                Err(_) => refused(&unrecordable()),
            };
            log_request(&id, &method, &path, response.status(), &caller, peer);
            if let Ok(id) = HeaderValue::from_str(&id) {
                response.headers_mut().insert("x-amz-request-id", id);
            }
            response
        })
    }

    /// Carries out a request; the answer is returned after the audit record is durable.
    async fn answer_audited(
        &self,
        request: Request<Incoming>,
        peer: &Peer,
        mut audit_entry: AuditEntry,
        caller: &mut String,
    ) -> Response<Body> {
        let request = match self.providers.sign_in(request, peer).await {
            Ok(reply) => {
                audit_entry.set_operation("SignIn", "", 0);
                return self.respond(reply, audit_entry).await;
            }
            Err(request) => request,
        };
        let reply = match self.read_request(request, peer, &mut audit_entry, caller).await {
            Ok(req) => {
                audit_entry.set_operation(req.route.name(), &req.name, req.body.len());
                if matches!(req.route, Route::Trace | Route::Logs) {
                    let stream =
                        req.need(req.route.actions(), false).and_then(|()| self.monitor.stream(&req));
                    let why = stream.as_ref().err().filter(|no| no.status == StatusCode::FORBIDDEN);
                    audit_entry.set_decision(req.authz_decision.into_inner(), why.map(|no| no.why.as_str()));
                    return match stream {
                        Ok(body) => audit_entry.finish(lines(body), "").await,
                        Err(no) => audit_entry.finish(refused(&no), no.code).await,
                    };
                }
                let reply = self.dispatch(&req).await;
                let why = reply.as_ref().err().filter(|no| no.status == StatusCode::FORBIDDEN);
                audit_entry.set_decision(req.authz_decision.into_inner(), why.map(|no| no.why.as_str()));
                reply
            }
            Err(refusal) => Err(refusal),
        };
        self.respond(reply, audit_entry).await
    }

    async fn respond(&self, reply: AdminResult, audit_entry: AuditEntry) -> Response<Body> {
        match reply {
            Ok((status, value)) => audit_entry.finish(json_answer(status, &value), "").await,
            Err(no) => audit_entry.finish(refused(&no), no.code).await,
        }
    }

    /// Checks the signature, finds the route, then reads the document.
    async fn read_request(
        &self,
        request: Request<Incoming>,
        peer: &Peer,
        audit_entry: &mut AuditEntry,
        caller: &mut String,
    ) -> Result<AdminRequest, Refusal> {
        let (parts, incoming) = request.into_parts();
        let (mut verified, target) = self.verified(&parts, audit_entry, caller)?;
        let base = BASES.into_iter().find(|base| target.path.starts_with(base)).unwrap_or_default();
        let what = target.path.strip_prefix(base).unwrap_or_default();
        let found = Route::find(&parts.method, what);
        let (route, name) = found.ok_or_else(|| Refusal {
            status: StatusCode::NOT_FOUND,
            code: "NotFound",
            why: format!("{} {} is not an administration request", parts.method, target.path),
        })?;
        let source = Source::Hyper(incoming);
        let mut request_body =
            RequestBody::new(source, &parts.headers, &mut verified).map_err(|(fault, _)| fault)?;
        let mut req = AdminRequest::new(verified.identity().clone(), route, target.query, peer);
        req.base = base.trim_end_matches('/');
        req.name = name;
        let limit = match route {
            Route::IamImport => {
                // A large document is read only from a caller who has the permission.
                req.need(route.actions(), false)?;
                transfer::LIMIT
            }
            _ => LIMIT,
        };
        req.body = request_body.collect(limit).await?;
        peer.watch.arm();
        req.caller.used(now_ms());
        Ok(req)
    }

    /// Verifies the signature of a request; returns the caller and the parsed path and query. Anonymous
    /// requests are refused.
    ///
    /// # Errors
    /// The head cannot be parsed, or the signature is wrong or missing.
    pub(crate) fn verified(
        &self,
        parts: &Parts,
        audit_entry: &mut AuditEntry,
        caller: &mut String,
    ) -> Result<(Verified, Target), Refusal> {
        ashlar_s3::auth::refuse_duplicates(&parts.headers)?;
        let target = Target::parse(parts.uri.path(), parts.uri.query(), None)?;
        let signed =
            Signed { method: &parts.method, uri: &parts.uri, target: &target, headers: &parts.headers };
        let verified = self.service.verifier().verify(&signed, now_ms().div_euclid(1000))?;
        if verified.identity().kind == Kind::Anonymous {
            return Err(Fault::new(Code::ACCESS_DENIED).into());
        }
        caller.push_str(verified.access_key());
        audit_entry.set_caller(verified.identity());
        Ok((verified, target))
    }

    /// The streams of trace and logs.
    pub(crate) fn monitor(&self) -> &Monitor {
        &self.monitor
    }

    /// The node, with its drives and its store.
    pub(crate) fn node(&self) -> &Arc<Node> {
        &self.node
    }

    /// Whether the default encryption key works; `None` if no keys are configured.
    pub fn keys_work(&self) -> BoxFuture<'_, Option<bool>> {
        Box::pin(async move { self.keys.works().await })
    }

    /// Numbers of data keys generated and opened: see `Kms::uses`. `None` if no keys are configured.
    pub fn key_uses(&self) -> Option<[u64; 3]> {
        self.keys.uses()
    }

    /// The S3 service, which verifies signatures and holds the identities.
    pub(crate) fn service(&self) -> &Arc<Service> {
        &self.service
    }

    /// Carries out a request if the caller has permission.
    pub(crate) async fn dispatch(&self, req: &AdminRequest) -> AdminResult {
        match req.route {
            Route::ProviderGet
            | Route::ProviderPut
            | Route::ProviderEdit
            | Route::ProviderRemove
            | Route::ProviderEnable
            | Route::ProviderDisable => self.providers.answer(req).await,
            Route::IamExport | Route::IamImport => transfer::answer(&self.identities, req).await,
            Route::SettingList | Route::SettingGet | Route::SettingPut | Route::SettingRemove => {
                settings::answer(self.service.verifier().keys.iam(), &self.check, req).await
            }
            Route::ServiceStop => self.shut_down(req, Shutdown::Stop),
            Route::ServiceRestart => self.shut_down(req, Shutdown::Restart),
            Route::QuotaGet | Route::QuotaPut | Route::QuotaRemove => {
                req.need(req.route.actions(), false)?;
                quotas::answer(&self.node.store, req).await
            }
            Route::LifecycleStatus | Route::LifecycleTest => {
                req.need(req.route.actions(), false)?;
                lifecycle::answer(&self.node, req).await
            }
            Route::ClusterStatus | Route::ClusterToken => {
                req.need(req.route.actions(), false)?;
                cluster::answer(&self.node, req).await
            }
            Route::KmsStatus
            | Route::KmsKeyList
            | Route::KmsKeyRotate
            | Route::KmsKeyGet
            | Route::KmsKeyCreate
            | Route::RewrapStart
            | Route::RewrapStatus => self.keys.answer(req).await,
            Route::Info
            | Route::UsageList
            | Route::UsageGet
            | Route::Top
            | Route::HealStatus
            | Route::HealStart
            | Route::Drives
            | Route::DriveScrub
            | Route::DriveOffline
            | Route::DriveOnline
            | Route::DriveReplace
            | Route::DriveRecover
            | Route::DriveRecovery
            | Route::MetricsToken
            | Route::Why
            | Route::Document => self.answer_about_server(req).await,
            Route::EventList | Route::DeadLetterList | Route::DeadLetterReplay | Route::DeadLetterRemove => {
                req.need(req.route.actions(), false)?;
                events::answer(self.service.context().notifications.target_manager(), req).await
            }
            _ => self.identities.answer(req).await,
        }
    }

    /// Answers a request about the server itself: its drives, healing and records.
    async fn answer_about_server(&self, req: &AdminRequest) -> AdminResult {
        req.need(req.route.actions(), false)?;
        match req.route {
            Route::Why => return self.why(&req.name).await,
            Route::Document => return Ok((StatusCode::OK, api::document::document(req.base))),
            Route::DriveRecovery => return Ok((StatusCode::OK, api::value(self.recovery.report()))),
            Route::DriveRecover => {
                let order: RecoverOrder = req.document()?;
                let begun = self.recovery.start(&self.node, order.dry_run).map_err(bad_request)?;
                return Ok((StatusCode::ACCEPTED, api::value(begun)));
            }
            _ => {}
        }
        let order: Order = req.document()?;
        match req.route {
            Route::Info => Ok((StatusCode::OK, info(&self.node))),
            Route::UsageList | Route::UsageGet => monitor::usage(&self.node.store, req),
            Route::Top => monitor::top(self.service.metrics()),
            Route::HealStatus => Ok((StatusCode::OK, self.heal_status())),
            Route::HealStart => self.start_scrub(order.deep),
            Route::DriveScrub => self.start_scrub(true),
            Route::DriveOffline => {
                drive_monitor::hold(&self.node, named(&order)?).await.map_err(bad_request)?;
                list(&self.node)
            }
            Route::DriveOnline => {
                drive_monitor::release(&self.node, named(&order)?).await.map_err(bad_request)?;
                list(&self.node)
            }
            Route::DriveReplace => {
                drive_monitor::replace_now(&self.node, named(&order)?).await.map_err(bad_request)?;
                list(&self.node)
            }
            Route::MetricsToken => {
                Ok((StatusCode::OK, api::value(shape::MetricsToken { token: self.token.clone() })))
            }
            // Drives; those of `identities` were answered above.
            _ => list(&self.node),
        }
    }

    /// Ends the process; requests in flight, this one included, are completed first.
    fn shut_down(&self, req: &AdminRequest, how: Shutdown) -> AdminResult {
        req.need(req.route.actions(), false)?;
        let order: EndOrder = req.document()?;
        let answer = shape::Ending { ending: !order.dry_run, restart: how == Shutdown::Restart };
        let answer = api::value(answer);
        if order.dry_run {
            return Ok((StatusCode::OK, answer));
        }
        tracing::warn!(target: "ashlar::admin", access_key = req.caller.access_key, ?how, "stopping at the request of an administrator");
        self.shutdown.send_replace(how);
        Ok((StatusCode::ACCEPTED, answer))
    }

    /// Answers what the audit records say about a request.
    async fn why(&self, id: &str) -> AdminResult {
        let found = self.service.audit().find(id).await;
        let found = found.and_then(|record| serde_json::from_value::<shape::RequestRecord>(record).ok());
        found.map(|record| (StatusCode::OK, api::value(record))).ok_or_else(|| Refusal {
            status: StatusCode::NOT_FOUND,
            code: "NoSuchEntity",
            why: format!(
                "there is no record of the request \"{id}\": without an audit file, only the last refusals since the start are kept"
            ),
        })
    }

    /// Starts a scrub in the background; only one runs at a time.
    fn start_scrub(&self, deep: bool) -> AdminResult {
        if self.scrubbing.swap(true, Ordering::AcqRel) {
            let why = "a scrub is running; `ashlar heal status` shows it".into();
            return Err(Refusal { status: StatusCode::CONFLICT, code: "Conflict", why });
        }
        let (sets, running) = (self.node.sets.clone(), self.scrubbing.clone());
        ashlar_environment::spawn("admin", async move {
            match sets.scrub(deep).await {
                Ok(found) => tracing::info!(
                    registers = found.registers,
                    healed = found.healed.shards,
                    "scrub completed"
                ),
                Err(error) => tracing::warn!(%error, "scrub failed"),
            }
            running.store(false, Ordering::Release);
        });
        Ok((StatusCode::ACCEPTED, api::value(shape::HealStarted { started: true, deep })))
    }

    fn heal_status(&self) -> Value {
        let running = self.scrubbing.load(Ordering::Acquire);
        api::value(shape::HealStatus { heal: heal(&self.node), running, damages: damages(&self.node) })
    }
}

fn named(order: &Order) -> Result<&str, Refusal> {
    if order.drive.is_empty() {
        Err(bad_request("name a drive: {\"drive\": \"path or id\"}"))
    } else {
        Ok(&order.drive)
    }
}

/// Logs an administration request: at level info if it changes something or failed, else at level debug.
pub(crate) fn log_request(
    id: &str,
    method: &http::Method,
    path: &str,
    status: StatusCode,
    caller: &str,
    peer: &Peer,
) {
    let (status, peer) = (status.as_u16(), peer.address);
    if matches!(*method, http::Method::GET | http::Method::HEAD) && status < 400 {
        tracing::debug!(target: "ashlar::admin", request_id = id, %method, path, status, access_key = caller, %peer, "administration");
    } else {
        tracing::info!(target: "ashlar::admin", request_id = id, %method, path, status, access_key = caller, %peer, "administration");
    }
}

/// All drives, as an answer.
fn list(node: &Node) -> AdminResult {
    Ok((StatusCode::OK, api::value(shape::DriveList { drives: drives(node) })))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}
