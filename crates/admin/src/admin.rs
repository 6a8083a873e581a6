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
//! | `POST drives/offline`, `drives/online`, `drives/replace` `{"drive": "path or id", "node": N}` | 200 |
//! | `POST drives/scrub` `{}` | as `POST heal` with `deep` |
//! | `POST drives/recover` `{"dry_run": bool}` | 202; `GET` reports the progress and the uncertain keys |
//! | `GET history?last_s=N` | what was measured in the last seconds: see `history` |
//! | `GET metrics-token` | the bearer token for metrics |
//! | `GET openapi.json` | the description of this API in OpenAPI: see `api` |
//! | `POST service/stop`, `service/restart` `{"dry_run": bool, "node": N}` | 202; requests in flight are completed first |
//! | `GET why/REQUEST-ID` | who sent a request, and which statement decided |
//! | `GET placement/BUCKET/KEY`, `POST placement/BUCKET/KEY/heal` | where the shards of an object are: see `placement` |
//! | `POST idp/KIND/NAME/test` | a sign-in that is only shown: see `sign_in_test` |
//! | `GET audit` | records of the audit log: see `audit_search` |
//! | what other nodes say about themselves | see `everywhere`; orders for them: `drive_orders`, `answering` |
//! | nodes of a cluster; quotas; lifecycle; events | see `cluster`, `quotas`, `lifecycle`, `events` |
//! | what the caller may do | see `permissions` |
//! | users, groups, policies, keys; keys for encryption | see `identities`, `kms` |
//! | settings; export and import of identities | see `settings`, `transfer` |
//!
//! Errors: `{"error": "what happened and what to do", "code": "..."}`. Invariants: every route checks the
//! signature first, then the permission of the caller (`table`); a request that is not in the table is
//! refused; an answer contains no secret except the requested metrics token, and keys and tokens that the
//! request created.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ashlar_environment::time::Instant;
use ashlar_iam::Kind;
use ashlar_node::Node;
use ashlar_node::clock::now_ms;
use ashlar_policy::Action;
use ashlar_s3::auth::{Request as Signed, Verified};
use ashlar_s3::request_body::RequestBody;
use ashlar_s3::target::Target;
use ashlar_s3::{Body, Code, Fault, Service, Source, StillPermitted};
use futures::future::BoxFuture;
use http::header::{HeaderMap, HeaderValue};
use http::request::Parts;
use http::{Request, Response, StatusCode};
use hyper::body::Incoming;
use serde_json::Value;

use super::admin_request::{AdminRequest, AdminResult, Refusal, bad_request, decided, unrecordable};
use super::admin_status::{info, own_state};
use super::answering::NodeAnswers;
use super::api::cluster::MayStop;
use super::api::orders::{EndOrder, Order, RecoverOrder};
use super::api::{self, state as shape};
use super::audit::AuditEntry;
use super::cluster_usage::ClusterUsage;
use super::follow::{Here, Sessions};
use super::followed::{Followed, Turn};
use super::followers::{EventsElsewhere, Others, Report};
use super::history::{self, Recorder};
use super::identities::Identities;
use super::kms;
use super::metrics_token::MetricsToken;
use super::minio::lines::MinioLines;
use super::monitor::{self, LogFilter, Monitor};
use super::peer::Peer;
use super::providers::ProviderAdmin;
use super::question::{DriveOrder, Question};
use super::recovery::Recovery;
use super::responses::{json_answer, lines, refused};
use super::table::Route;
use super::{
    audit_search, authority, cluster, drive_orders, events, everywhere, heal_limits, lifecycle, may_stop,
    permissions, placement, quotas, settings, sign_in_test, transfer, usage,
};

/// Longest request document.
const LIMIT: usize = 64 * 1024;

/// The administration API over a node and its services.
pub struct Admin {
    service: Arc<Service>,
    node: Arc<Node>,
    token: MetricsToken,
    scrubbing: Arc<AtomicBool>,
    identities: Identities,
    providers: ProviderAdmin,
    shutdown: ShutdownSender,
    check: settings::Check,
    keys: kms::KeyAdmin,
    monitor: Monitor,
    recorder: Arc<Recorder>,
    recovery: Recovery,
    /// Nodes that follow this one.
    sessions: Arc<Sessions>,
    usage: Arc<ClusterUsage>,
    /// When the process started, in milliseconds since 1970.
    started_ms: i64,
    /// Whether this node may stop, and when that was found out.
    may_stop: tokio::sync::Mutex<Option<(Instant, MayStop)>>,
}

/// How long an answer whether this node may stop is repeated to health checks, which anybody can send.
const MAY_STOP: Duration = Duration::from_secs(1);
/// How long another node may take to take an order to end.
const END: Duration = Duration::from_secs(5);

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
        let token = MetricsToken::new(&service);
        let scrubbing = Arc::new(AtomicBool::new(false));
        Admin {
            identities: Identities::new(service.clone(), providers.idp()),
            service,
            usage: Arc::new(ClusterUsage::new(node.clone())),
            sessions: Default::default(),
            node,
            token,
            scrubbing,
            providers,
            shutdown,
            check,
            keys,
            monitor,
            recorder: Default::default(),
            recovery: Default::default(),
            started_ms: now_ms(),
            may_stop: Default::default(),
        }
    }

    /// Answers what other nodes of the cluster ask, and asks them for what concerns all, from now on; measures this node.
    pub fn begin(self: &Arc<Self>) {
        let (service, node, stop) = (self.service.clone(), self.node.clone(), self.monitor.stopping());
        ashlar_environment::spawn("metrics-history", self.recorder.clone().record(service, node, stop));
        self.node.answer_with(Arc::new(NodeAnswers::new(self)));
        if self.node.member.is_some() {
            let elsewhere = Arc::new(EventsElsewhere(self.node.clone()));
            self.service.context().notifications.listen_elsewhere(elsewhere);
            self.usage.begin();
        }
    }

    /// What this node measured.
    pub(crate) fn recorder(&self) -> &Recorder {
        &self.recorder
    }

    /// Whether a request carries a bearer token that may read metrics.
    pub fn has_token(&self, headers: &HeaderMap) -> bool {
        self.token.permits(&self.service, headers)
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
                    let stream = self.stream(&req).await;
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

    /// The body of a stream, or of the log of all nodes.
    async fn stream(&self, req: &AdminRequest) -> Result<Body, Refusal> {
        req.need(req.route.actions(), false)?;
        let number = self.node.member.as_ref().map(|_| self.node.number());
        let still = monitor::within(&req.query, self.still(req, req.route.actions()))?;
        if req.route == Route::Trace {
            let filter = monitor::trace_filter(&req.query)?;
            let what = Followed::Trace { filter: filter.clone(), minio: false };
            let others = self.follow_others(what, monitor::trace_report()).await;
            return Ok(self.monitor.trace(monitor::trace_formatter(filter, number), others, still));
        }
        let wanted = LogFilter::of(&req.query)?;
        if number.is_some() && !wanted.follow {
            let lines = everywhere::logs(&self.node, wanted.lines(), wanted.last, wanted.level).await;
            return Ok(monitor::log_body(&lines));
        }
        let what = Followed::Logs { last: wanted.last, level: wanted.level };
        let others = self.follow_others(what, monitor::log_report()).await;
        Ok(self.monitor.logs(wanted.last, wanted.follow, wanted.formatter(number), others, still))
    }

    /// Whether the caller of a request may still have its answer, whenever that is asked: the credential stands, and one of
    /// `actions` is allowed.
    pub(crate) fn still(&self, req: &AdminRequest, actions: &'static [Action]) -> StillPermitted {
        let iam = self.service.verifier().keys.iam().cloned();
        let (caller, ip, tls) = (req.caller.clone(), req.ip, req.tls);
        Box::new(move || match &iam {
            None => true,
            Some(iam) => iam
                .renewed(&caller)
                .and_then(|now| decided(&now, actions, false, ip, tls))
                .is_some_and(|decision| !decision.denies()),
        })
    }

    /// Follows other nodes, if there are any.
    pub(crate) async fn follow_others(&self, what: Followed, report: Report) -> Option<Others> {
        self.node.member.as_ref()?;
        Some(Others::begin(self.node.clone(), what, report).await)
    }

    /// Answers another node that follows this one: see `follow`.
    ///
    /// # Errors
    /// A message for the other node.
    pub(crate) fn followed(&self, whose: (u16, u64), turn: u64, what: Followed) -> Result<Turn, String> {
        let here = Here {
            node: Some(self.node.number()),
            minio: MinioLines::of(&self.node, ""),
            context: self.service.context(),
            monitor: &self.monitor,
        };
        here.answer(&self.sessions, whose, turn, what)
    }

    /// The usage of buckets in the cluster.
    pub(crate) fn usage(&self) -> &Arc<ClusterUsage> {
        &self.usage
    }

    /// Brings the usage of all buckets up to date, and returns the sum over the drives of all nodes that answer.
    pub fn refresh_usage(&self) -> BoxFuture<'_, shape::Capacity> {
        Box::pin(async move {
            let ((), (state, _)) = futures::join!(self.usage.refresh(), self.states());
            state.capacity
        })
    }

    /// Identity providers.
    pub(crate) fn providers(&self) -> &ProviderAdmin {
        &self.providers
    }

    pub(crate) async fn respond(&self, reply: AdminResult, audit_entry: AuditEntry) -> Response<Body> {
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
        let found = Route::resolve(&parts.method, &target.path);
        let (base, route, name) = found.ok_or_else(|| Refusal {
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
            Route::ProviderTest => {
                req.need(req.route.actions(), false)?;
                sign_in_test::answer(self.providers(), req).await
            }
            Route::IamExport | Route::IamImport => transfer::answer(&self.identities, req).await,
            Route::SettingList | Route::SettingGet | Route::SettingPut | Route::SettingRemove => {
                let idp = self.providers.idp();
                settings::answer(self.service.verifier().keys.iam(), &idp, &self.check, req).await
            }
            Route::ServiceStop => self.shut_down(req, Shutdown::Stop).await,
            Route::ServiceRestart => self.shut_down(req, Shutdown::Restart).await,
            Route::QuotaGet | Route::QuotaPut | Route::QuotaRemove => {
                req.need(req.route.actions(), false)?;
                self.usage.refresh().await;
                quotas::answer(&self.node.store, req).await
            }
            Route::LifecycleStatus | Route::LifecycleTest | Route::LifecycleSimulate => {
                req.need(req.route.actions(), false)?;
                lifecycle::answer(&self.node, req).await
            }
            Route::Placement | Route::PlacementHeal => {
                req.need(req.route.actions(), false)?;
                let drives = async { self.states().await.0.drives };
                placement::answer(&self.node, drives, req).await
            }
            Route::ClusterToken
            | Route::ClusterUpgrade
            | Route::ClusterRemove
            | Route::ClusterControlMembers => {
                req.need(req.route.actions(), false)?;
                cluster::answer(&self.node, req).await
            }
            Route::ClusterAuthority => {
                req.need(req.route.actions(), false)?;
                authority::rotate(&self.node, self.service.verifier().keys.iam(), req).await
            }
            Route::KmsStatus
            | Route::KmsKeyList
            | Route::KmsKeyRotate
            | Route::KmsKeyGet
            | Route::KmsKeyCreate
            | Route::RewrapStart
            | Route::RewrapStatus => self.keys.answer(req).await,
            Route::HealLimits | Route::HealLimitsPut | Route::HealLimitsRemove => {
                req.need(req.route.actions(), false)?;
                heal_limits::answer(&self.node, self.service.verifier().keys.iam(), req).await
            }
            Route::Info
            | Route::ClusterStatus
            | Route::ClusterMayStop
            | Route::UsageList
            | Route::UsageGet
            | Route::Top
            | Route::History
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
            | Route::AuditSearch
            | Route::Document => self.answer_about_server(req).await,
            Route::EventList
            | Route::EventTest
            | Route::DeadLetterList
            | Route::DeadLetterReplay
            | Route::DeadLetterRemove => {
                req.need(req.route.actions(), false)?;
                let id = self.service.request_id();
                events::answer(self.service.context().notifications.target_manager(), &id, req).await
            }
            Route::Permissions => {
                req.need(req.route.actions(), true)?;
                permissions::answer(&self.service, req)
            }
            _ => self.identities.answer(req).await,
        }
    }

    /// Answers a request about the server itself: its drives, healing and records.
    async fn answer_about_server(&self, req: &AdminRequest) -> AdminResult {
        req.need(req.route.actions(), false)?;
        match req.route {
            Route::Why => return self.why(&req.name).await,
            Route::AuditSearch => {
                let search = audit_search::Search::of(&req.query)?;
                let found = audit_search::everywhere(&self.node, self.service.audit(), &search).await;
                return Ok((StatusCode::OK, api::value(found)));
            }
            Route::Document => return Ok((StatusCode::OK, api::document::document(req.base))),
            Route::DriveRecovery => return Ok((StatusCode::OK, api::value(self.recovery.report()))),
            Route::History => {
                let found = history::answer(&self.node, &self.recorder, &req.query, now_ms()).await?;
                return Ok((StatusCode::OK, api::value(found)));
            }
            Route::DriveRecover => {
                let order: RecoverOrder = req.document()?;
                let begun = self.recovery.start(&self.node, order.dry_run).map_err(bad_request)?;
                return Ok((StatusCode::ACCEPTED, api::value(begun)));
            }
            _ => {}
        }
        let order: Order = req.document()?;
        if matches!(req.route, Route::Info | Route::UsageList | Route::UsageGet) {
            self.usage.refresh().await;
        }
        let answer = match req.route {
            Route::Info => {
                let (state, nodes) = self.states().await;
                api::value(info(&self.node, state, nodes))
            }
            Route::ClusterStatus => {
                let (_, nodes) = self.states().await;
                let etcd = cluster::etcd_members(&self.node).await;
                cluster::status(&self.node, &nodes.unwrap_or_default(), etcd)?
            }
            Route::ClusterMayStop => api::value(self.may_stop(req).await?),
            Route::UsageList | Route::UsageGet => return usage::answer(&self.node.store, req),
            Route::Top => api::value(everywhere::top(&self.node, self.own_top()).await),
            Route::HealStatus => api::value(self.states().await.0.heal),
            Route::HealStart => return self.start_scrub(order.deep).await,
            Route::DriveScrub => return self.start_scrub(true).await,
            Route::DriveOffline => self.order(DriveOrder::Offline, &order).await?,
            Route::DriveOnline => self.order(DriveOrder::Online, &order).await?,
            Route::DriveReplace => self.order(DriveOrder::Replace, &order).await?,
            Route::MetricsToken => api::value(shape::MetricsToken { token: self.token.text() }),
            // Drives; those of `identities` were answered above.
            _ => self.list().await,
        };
        Ok((StatusCode::OK, answer))
    }

    /// The state of this process and its drives.
    pub(crate) fn own_state(&self) -> shape::NodeState {
        own_state(&self.node, self.started_ms, self.scrubbing.load(Ordering::Acquire))
    }

    /// Totals of operations of this process.
    pub(crate) fn own_top(&self) -> shape::Top {
        monitor::top(self.service.metrics())
    }

    /// The state of all nodes, and the nodes of a cluster.
    async fn states(&self) -> (shape::NodeState, Option<Vec<shape::NodeInfo>>) {
        everywhere::whole(&self.node, self.own_state()).await
    }

    /// All drives.
    async fn list(&self) -> Value {
        api::value(shape::DriveList { drives: self.states().await.0.drives })
    }

    /// Has an order about a drive carried out; returns all drives.
    async fn order(&self, what: DriveOrder, order: &Order) -> Result<Value, Refusal> {
        let rows = match (order.node, &self.node.member) {
            (None, Some(_)) => self.states().await.0.drives,
            _ => Vec::new(),
        };
        drive_orders::send(&self.node, what, order, &rows).await?;
        Ok(self.list().await)
    }

    /// Whether the named node, or else this one, may stop.
    async fn may_stop(&self, req: &AdminRequest) -> Result<MayStop, Refusal> {
        let number = req.query.filled("node").map(str::parse).transpose();
        let number = number.map_err(|_| bad_request("node is the number of a node"))?;
        let number = drive_orders::known(&self.node, number.unwrap_or(self.node.number()))?;
        Ok(may_stop::may_stop(&self.node, &self.own_state(), number).await)
    }

    /// Whether this node may stop. Whoever asks often is told the same for a second.
    pub fn this_may_stop(&self) -> BoxFuture<'_, MayStop> {
        Box::pin(async {
            let mut known = self.may_stop.lock().await;
            if let Some((at, answer)) = &*known
                && at.elapsed() < MAY_STOP
            {
                return answer.clone();
            }
            let answer = may_stop::may_stop(&self.node, &self.own_state(), self.node.number()).await;
            *known = Some((Instant::now(), answer.clone()));
            answer
        })
    }

    /// Ends this process or that of the named node; requests in flight, this one included, are completed first.
    async fn shut_down(&self, req: &AdminRequest, how: Shutdown) -> AdminResult {
        req.need(req.route.actions(), false)?;
        let order: EndOrder = req.document()?;
        let restart = how == Shutdown::Restart;
        let number = drive_orders::known(&self.node, order.node.unwrap_or(self.node.number()))?;
        let answer = api::value(shape::Ending { ending: !order.dry_run, restart });
        if order.dry_run {
            return Ok((StatusCode::OK, answer));
        }
        if number == self.node.number() {
            tracing::warn!(target: "ashlar::admin", access_key = req.caller.access_key, ?how, "stopping at the request of an administrator");
            self.end(how);
        } else {
            let asked = self.node.ask(number, Question::End { restart }.encode(), END).await;
            asked.map_err(|no| drive_orders::refusal(number, no))?;
        }
        Ok((StatusCode::ACCEPTED, answer))
    }

    /// Ends this process.
    pub(crate) fn end(&self, how: Shutdown) {
        self.shutdown.send_replace(how);
    }

    /// Answers what the audit records say about a request.
    async fn why(&self, id: &str) -> AdminResult {
        let found = match self.own_record(id).await {
            Some(record) => {
                let node = self.node.member.as_ref().map(|_| self.node.number());
                Ok(shape::RequestRecord { node, ..record })
            }
            None => everywhere::find_record(&self.node, id).await,
        };
        found.map(|record| (StatusCode::OK, api::value(record))).map_err(|silent| Refusal {
            status: StatusCode::NOT_FOUND,
            code: "NoSuchEntity",
            why: format!(
                "there is no record of the request \"{id}\": without an audit file, only the last refusals since the start are kept{}",
                silent.iter().map(|why| format!("; {why}")).collect::<String>()
            ),
        })
    }

    /// The record of a request that this process has.
    pub(crate) async fn own_record(&self, id: &str) -> Option<shape::RequestRecord> {
        serde_json::from_value(self.service.audit().find(id).await?).ok()
    }

    /// Starts a scrub in the background, of the drives of all nodes; only one runs at a time.
    async fn start_scrub(&self, deep: bool) -> AdminResult {
        let elsewhere = self.node.member.is_some() && self.states().await.0.heal.running;
        if elsewhere || self.scrubbing.swap(true, Ordering::AcqRel) {
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
