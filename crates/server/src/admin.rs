//! Administration over HTTP, signed as S3 requests are, JSON: `/ashlar/api/v1/...` on the S3 port (older
//! programs say `/ashlar/admin/v1/...`), `/api/v1/...` on a port of its own.
//!
//! | request | answer |
//! |---|---|
//! | `GET info` | deployment, code, drives, groups, capacity, healing |
//! | `GET heal` | healing, rebuilds with their ETA, the last scrub |
//! | `POST heal` `{"deep": bool}` | starts a pass over everything: 202, or 409 while one runs |
//! | `GET drives` | the drives |
//! | `POST drives/offline`, `drives/online`, `drives/replace` `{"drive": "path or id"}` | 200 |
//! | `POST drives/scrub` `{}` | as `POST heal` with `deep` |
//! | `POST drives/recover` `{"dry_run": bool}` | 202; `GET` shows how it goes and what is uncertain |
//! | `GET metrics-token` | the bearer token for metrics |
//! | `GET openapi.json` | what can be asked, as OpenAPI: see `api` |
//! | `POST service/stop`, `service/restart` `{"dry_run": bool}` | 202; requests in flight may end |
//! | `GET why/REQUEST-ID` | who asked what, and which statement decided |
//! | users, groups, policies, keys; quotas; lifecycle | see `identities`, `quotas`, `lifecycle` |
//! | events and dead letters | see `events` |
//! | keys for encryption | see `kms` |
//! | settings; export and import of identities | see `settings`, `transfer` |
//!
//! Errors: `{"error": "what and what to do", "code": "..."}`. Invariants: every route checks the
//! signature first, then whether who asks may do it (`table`); what is not in the table is not done; no
//! answer holds a secret but the token that was asked for, and keys that were just made.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ashlar_cluster::Map;
use ashlar_drive::{Drive, Role, State};
use ashlar_erasure_set::{Damage, Phase, Progress, Scrubbed};
use ashlar_iam::{Identity, Kind};
use ashlar_policy::{Action, BucketRules, Context as Facts, Request as Question, decide};
use ashlar_s3::auth::{Request as Signed, Verified};
use ashlar_s3::intake::Intake;
use ashlar_s3::target::{Query, Target};
use ashlar_s3::witness::{self, Ruling};
use ashlar_s3::{Body, Code, Fault, Service, Source};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderValue};
use http::request::Parts;
use http::{Request, Response, StatusCode};
use hyper::body::Incoming;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use utoipa::ToSchema;

use super::api::{self, state as shape};
use super::audit::Trail;
use super::clock::{coarse, now_ms};
use super::drive_monitor;
use super::house::{House, Slot};
use super::identities::Identities;
use super::kms;
use super::monitor::{self, Monitor};
use super::providers::Door;
use super::routes::{Peer, plain};
use super::table::Route;
use super::{settings, transfer};

/// Longest request document.
const LIMIT: usize = 64 * 1024;

/// Where the paths begin. The last only where there are no buckets.
pub const BASES: [&str; 3] = ["/ashlar/api/v1/", "/ashlar/admin/v1/", "/api/v1/"];

/// The administration door.
pub struct Admin {
    service: Arc<Service>,
    house: Arc<House>,
    token: String,
    scrubbing: Arc<AtomicBool>,
    identities: Identities,
    providers: Door,
    ending: Ending,
    check: settings::Check,
    keys: kms::Door,
    monitor: Monitor,
    recovery: super::recovery::Recovery,
}

/// How an operator ends the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It goes on.
    Not,
    /// It stops.
    Stop,
    /// It stops and the same program starts in its place.
    Restart,
}

/// Where it is said that the process is to end.
pub type Ending = Arc<tokio::sync::watch::Sender<End>>;

/// What an action on drives needs.
#[derive(Deserialize, Default, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = DriveOrder)]
pub struct Order {
    /// A path, an id, or the beginning of an id.
    #[serde(default)]
    drive: String,
    /// Read and verify all data too.
    #[serde(default)]
    deep: bool,
}

/// How to recover from distrusted drives.
#[derive(Deserialize, Default, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RecoverOrder {
    /// Only finds out what would be uncertain.
    dry_run: bool,
}

/// How to end the process.
#[derive(Deserialize, Default, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct EndOrder {
    /// Only says whether it would.
    dry_run: bool,
}

/// A request whose sender is known.
pub struct Ask {
    /// Who asks.
    pub who: Arc<Identity>,
    /// What for.
    pub route: Route,
    /// Where the path begins; nothing if another door was asked.
    pub base: &'static str,
    /// The name in the path.
    pub name: String,
    /// The query.
    pub query: Query,
    /// The document.
    pub body: Bytes,
    /// The other end of the connection.
    pub ip: IpAddr,
    /// The request came over TLS.
    pub tls: bool,
    /// What was decided last.
    pub ruling: witness::Slot,
}

/// Why something was not done.
#[derive(Debug)]
pub struct Refusal {
    /// The HTTP status.
    pub status: StatusCode,
    /// A word for programs.
    pub code: &'static str,
    /// What, and what to do.
    pub why: String,
}

/// What a route answers.
pub type Reply = Result<(StatusCode, Value), Refusal>;

/// The request has to be changed.
pub fn wrong(why: impl Into<String>) -> Refusal {
    Refusal { status: StatusCode::BAD_REQUEST, code: "InvalidRequest", why: why.into() }
}

impl Ask {
    /// The document; an empty one has nothing in it.
    ///
    /// # Errors
    /// It is not what is expected.
    pub fn document<T: DeserializeOwned>(&self) -> Result<T, Refusal> {
        let body: &[u8] = if self.body.is_empty() { b"{}" } else { &self.body };
        serde_json::from_slice(body).map_err(|e| wrong(format!("the document is not understood: {e}")))
    }

    /// A request without name and document, from the other end of a connection.
    pub fn new(who: Arc<Identity>, route: Route, query: Query, peer: &Peer) -> Ask {
        let (ip, tls) = (peer.address.ip(), peer.tls);
        let (name, body, ruling) = (String::new(), Bytes::new(), Default::default());
        Ask { who, route, base: "", name, query, body, ip, tls, ruling }
    }

    /// The same sender, asking for something else.
    pub fn other(&self, route: Route, name: &str, document: &Value) -> Ask {
        let body = if document.is_null() { Bytes::new() } else { document.to_string().into() };
        let (who, name, query) = (self.who.clone(), name.to_owned(), Query::default());
        let (base, ip, tls, ruling) = (self.base, self.ip, self.tls, Default::default());
        Ask { who, route, base, name, query, body, ip, tls, ruling }
    }

    /// Whether who asks may do one of these. `own`: it is about the requester's own account.
    pub fn may(&self, actions: &[Action], own: bool) -> bool {
        let facts =
            Facts { now_ms: now_ms(), source_ip: Some(self.ip), secure: self.tls, ..Facts::default() };
        let principal = self.who.principal();
        actions.iter().any(|action| {
            let question = Question::new(*action, "", "", &principal, &facts);
            let decision = decide(&question, &self.who.authority(BucketRules::default(), own));
            *self.ruling.lock() = Some(Ruling { action: *action, decision: Some(decision), sid: None });
            decision.allowed
        })
    }

    /// Refuses unless who asks may do one of these.
    ///
    /// # Errors
    /// 403, with the names of the actions.
    pub fn need(&self, actions: &[Action], own: bool) -> Result<(), Refusal> {
        if self.may(actions, own) {
            return Ok(());
        }
        let names: Vec<_> = actions.iter().map(|a| a.name()).collect();
        Err(denied(format!("Access Denied. This needs a policy that allows {}.", names.join(" or "))))
    }
}

/// Not permitted.
pub fn denied(why: impl Into<String>) -> Refusal {
    Refusal { status: StatusCode::FORBIDDEN, code: Code::ACCESS_DENIED.name, why: why.into() }
}

impl From<Fault> for Refusal {
    fn from(fault: Fault) -> Refusal {
        Refusal { status: fault.status(), code: fault.code().name, why: fault.message().to_owned() }
    }
}

impl Admin {
    /// The door over a house.
    pub fn new(
        service: Arc<Service>,
        house: Arc<House>,
        providers: Door,
        ending: Ending,
        check: settings::Check,
        keys: kms::Door,
        monitor: Monitor,
    ) -> Admin {
        let secret = service.verifier().keys.root_derived(b"ashlar metrics token 1");
        let token = hex(&secret);
        let scrubbing = Arc::new(AtomicBool::new(false));
        Admin {
            identities: Identities::new(service.clone(), providers.idp()),
            service,
            house,
            token,
            scrubbing,
            providers,
            ending,
            check,
            keys,
            monitor,
            recovery: Default::default(),
        }
    }

    /// Whether the bearer token of metrics was sent.
    pub fn has_token(&self, headers: &HeaderMap) -> bool {
        let given = headers.get(header::AUTHORIZATION).and_then(|v| v.to_str().ok());
        let given = given.and_then(|v| v.strip_prefix("Bearer ")).map(str::trim);
        given.is_some_and(|t| {
            ashlar_checksum::ct_eq(t.as_bytes(), self.token.as_bytes()) || self.vouched_token(t)
        })
    }

    /// Whether a token is one that `mc admin prometheus generate` makes: a JWT (HS512) that names an access
    /// key and is signed with its secret, of somebody who may read metrics.
    fn vouched_token(&self, token: &str) -> bool {
        #[derive(Deserialize)]
        struct Claims {
            sub: String,
        }
        // Not proved yet: it only says whose secret has to prove it.
        let claims = token.split('.').nth(1).and_then(|c| URL_SAFE_NO_PAD.decode(c).ok());
        let named = claims.and_then(|c| serde_json::from_slice::<Claims>(&c).ok());
        let Some(Claims { sub }) = named else { return false };
        let keys = &self.service.verifier().keys;
        let root = keys.root();
        let who = match keys.iam() {
            _ if sub == root.access_key => Some(root),
            Some(iam) => iam.find(&sub),
            None => None,
        };
        let Some(who) = who.filter(|w| !w.access_key.is_empty()) else { return false };
        let secret = jsonwebtoken::DecodingKey::from_secret(who.secret.expose().as_bytes());
        let proved = jsonwebtoken::Validation::new(jsonwebtoken::Algorithm::HS512);
        if jsonwebtoken::decode::<Claims>(token, &secret, &proved).is_err() {
            return false;
        }
        let (principal, facts) = (who.principal(), Facts { now_ms: now_ms(), ..Facts::default() });
        let question = Question::new(Action::AdminPrometheus, "", "", &principal, &facts);
        decide(&question, &who.authority(BucketRules::default(), false)).allowed
    }

    /// Answers a request.
    pub async fn answer(&self, request: Request<Incoming>, peer: &Peer) -> Response<Body> {
        let id = self.service.request_id();
        let (method, path) = (request.method().clone(), request.uri().path().to_owned());
        let mut who = String::new();
        let head = (&method, request.uri(), request.headers());
        let mut response = match Trail::begin(self.service.audit(), &id, head, peer).await {
            Ok(trail) => self.recorded(request, peer, trail, &mut who).await,
            Err(_) => refused(&unrecordable()),
        };
        told(&id, &method, &path, response.status(), &who, peer);
        if let Ok(id) = HeaderValue::from_str(&id) {
            response.headers_mut().insert("x-amz-request-id", id);
        }
        response
    }

    /// Does what is asked for, and answers when that is recorded.
    async fn recorded(
        &self,
        request: Request<Incoming>,
        peer: &Peer,
        mut trail: Trail,
        who: &mut String,
    ) -> Response<Body> {
        let request = match self.providers.sign_in(request, peer).await {
            Ok(reply) => {
                trail.what("SignIn", "", 0);
                return self.ended(reply, trail).await;
            }
            Err(request) => request,
        };
        let reply = match self.admit(request, peer, &mut trail, who).await {
            Ok(ask) => {
                trail.what(ask.route.name(), &ask.name, ask.body.len());
                if matches!(ask.route, Route::Trace | Route::Logs) {
                    let stream =
                        ask.need(ask.route.actions(), false).and_then(|()| self.monitor.stream(&ask));
                    let why = stream.as_ref().err().filter(|no| no.status == StatusCode::FORBIDDEN);
                    trail.decided(ask.ruling.into_inner(), why.map(|no| no.why.as_str()));
                    return match stream {
                        Ok(body) => trail.end(lines(body), "").await,
                        Err(no) => trail.end(refused(&no), no.code).await,
                    };
                }
                let reply = self.act(&ask).await;
                let why = reply.as_ref().err().filter(|no| no.status == StatusCode::FORBIDDEN);
                trail.decided(ask.ruling.into_inner(), why.map(|no| no.why.as_str()));
                reply
            }
            Err(refusal) => Err(refusal),
        };
        self.ended(reply, trail).await
    }

    async fn ended(&self, reply: Reply, trail: Trail) -> Response<Body> {
        match reply {
            Ok((status, value)) => trail.end(json_answer(status, &value), "").await,
            Err(no) => trail.end(refused(&no), no.code).await,
        }
    }

    /// Checks the signature, finds the route, then reads the document.
    async fn admit(
        &self,
        request: Request<Incoming>,
        peer: &Peer,
        trail: &mut Trail,
        who: &mut String,
    ) -> Result<Ask, Refusal> {
        let (parts, incoming) = request.into_parts();
        let (mut verified, target) = self.verified(&parts, trail, who)?;
        let base = BASES.into_iter().find(|base| target.path.starts_with(base)).unwrap_or_default();
        let what = target.path.strip_prefix(base).unwrap_or_default();
        let found = Route::find(&parts.method, what);
        let (route, name) = found.ok_or_else(|| Refusal {
            status: StatusCode::NOT_FOUND,
            code: "NotFound",
            why: format!("{} {} is not an administration request", parts.method, target.path),
        })?;
        let source = Source::Hyper(incoming);
        let mut intake = Intake::new(source, &parts.headers, &mut verified).map_err(|(fault, _)| fault)?;
        let mut ask = Ask::new(verified.identity().clone(), route, target.query, peer);
        ask.base = base.trim_end_matches('/');
        ask.name = name;
        let limit = match route {
            Route::IamImport => {
                // Who may not is not listened to for long.
                ask.need(route.actions(), false)?;
                transfer::LIMIT
            }
            _ => LIMIT,
        };
        ask.body = intake.collect(limit).await?;
        peer.watch.arm();
        ask.who.used(now_ms());
        Ok(ask)
    }

    /// Who sent a request, proved, and what its path and query say. Nobody is refused.
    ///
    /// # Errors
    /// The head is not understood, or the signature is wrong or missing.
    pub fn verified(
        &self,
        parts: &Parts,
        trail: &mut Trail,
        who: &mut String,
    ) -> Result<(Verified, Target), Refusal> {
        ashlar_s3::auth::refuse_duplicates(&parts.headers)?;
        let target = Target::parse(parts.uri.path(), parts.uri.query(), None)?;
        let signed =
            Signed { method: &parts.method, uri: &parts.uri, target: &target, headers: &parts.headers };
        let verified = self.service.verifier().verify(&signed, now_ms().div_euclid(1000))?;
        if verified.identity().kind == Kind::Anonymous {
            return Err(Fault::new(Code::ACCESS_DENIED).into());
        }
        who.push_str(verified.access_key());
        trail.who(verified.identity());
        Ok((verified, target))
    }

    /// Live streams.
    pub fn monitor(&self) -> &Monitor {
        &self.monitor
    }

    /// The drives and the store.
    pub fn house(&self) -> &Arc<House> {
        &self.house
    }

    /// Whether the default key of encryption works; `None` where there are no keys.
    pub async fn keys_work(&self) -> Option<bool> {
        self.keys.works().await
    }

    /// Data keys made and opened: see `Kms::uses`. `None` where there are no keys.
    pub fn key_uses(&self) -> Option<[u64; 3]> {
        self.keys.uses()
    }

    /// What requests are checked with.
    pub fn service(&self) -> &Arc<Service> {
        &self.service
    }

    /// Does what was asked for, if who asks may do it.
    pub async fn act(&self, ask: &Ask) -> Reply {
        match ask.route {
            Route::ProviderGet
            | Route::ProviderPut
            | Route::ProviderEdit
            | Route::ProviderRemove
            | Route::ProviderEnable
            | Route::ProviderDisable => self.providers.answer(ask).await,
            Route::IamExport | Route::IamImport => transfer::answer(&self.identities, ask).await,
            Route::SettingList | Route::SettingGet | Route::SettingPut | Route::SettingRemove => {
                settings::answer(self.service.verifier().keys.iam(), &self.check, ask).await
            }
            Route::ServiceStop => self.end(ask, End::Stop),
            Route::ServiceRestart => self.end(ask, End::Restart),
            Route::QuotaGet | Route::QuotaPut | Route::QuotaRemove => {
                ask.need(ask.route.actions(), false)?;
                super::quotas::answer(&self.house.store, ask).await
            }
            Route::LifecycleStatus | Route::LifecycleTest => {
                ask.need(ask.route.actions(), false)?;
                self.house.lifecycle.answer(ask).await
            }
            Route::KmsStatus
            | Route::KmsKeyList
            | Route::KmsKeyRotate
            | Route::KmsKeyGet
            | Route::KmsKeyCreate
            | Route::RewrapStart
            | Route::RewrapStatus => self.keys.answer(ask).await,
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
            | Route::Document => self.about_itself(ask).await,
            Route::EventList | Route::DeadLetterList | Route::DeadLetterReplay | Route::DeadLetterRemove => {
                ask.need(ask.route.actions(), false)?;
                super::events::answer(self.service.context().notices.hub(), ask).await
            }
            _ => self.identities.answer(ask).await,
        }
    }

    /// Answers about the server itself: its drives, its repair, its records.
    async fn about_itself(&self, ask: &Ask) -> Reply {
        ask.need(ask.route.actions(), false)?;
        match ask.route {
            Route::Why => return self.why(&ask.name).await,
            Route::Document => return Ok((StatusCode::OK, api::document::document(ask.base))),
            Route::DriveRecovery => return Ok((StatusCode::OK, api::value(self.recovery.report()))),
            Route::DriveRecover => {
                let order: RecoverOrder = ask.document()?;
                let begun = self.recovery.start(&self.house, order.dry_run).map_err(wrong)?;
                return Ok((StatusCode::ACCEPTED, api::value(begun)));
            }
            _ => {}
        }
        let order: Order = ask.document()?;
        match ask.route {
            Route::Info => Ok((StatusCode::OK, info(&self.house))),
            Route::UsageList | Route::UsageGet => monitor::usage(&self.house.store, ask),
            Route::Top => monitor::top(self.service.metrics()),
            Route::HealStatus => Ok((StatusCode::OK, self.heal_status())),
            Route::HealStart => self.start_scrub(order.deep),
            Route::DriveScrub => self.start_scrub(true),
            Route::DriveOffline => {
                drive_monitor::hold(&self.house, named(&order)?).await.map_err(wrong)?;
                list(&self.house)
            }
            Route::DriveOnline => {
                drive_monitor::release(&self.house, named(&order)?).await.map_err(wrong)?;
                list(&self.house)
            }
            Route::DriveReplace => {
                drive_monitor::replace_now(&self.house, named(&order)?).await.map_err(wrong)?;
                list(&self.house)
            }
            Route::MetricsToken => {
                Ok((StatusCode::OK, api::value(shape::MetricsToken { token: self.token.clone() })))
            }
            // Drives; those of `identities` were answered above.
            _ => list(&self.house),
        }
    }

    /// Ends the process in order: this answer, and whatever else is in flight, may end.
    fn end(&self, ask: &Ask, how: End) -> Reply {
        ask.need(ask.route.actions(), false)?;
        let order: EndOrder = ask.document()?;
        let answer = shape::Ending { ending: !order.dry_run, restart: how == End::Restart };
        let answer = api::value(answer);
        if order.dry_run {
            return Ok((StatusCode::OK, answer));
        }
        tracing::warn!(target: "ashlar::admin", access_key = ask.who.access_key, ?how, "ending, as an administrator asked for");
        self.ending.send_replace(how);
        Ok((StatusCode::ACCEPTED, answer))
    }

    /// What is known about a request.
    async fn why(&self, id: &str) -> Reply {
        let found = self.service.audit().find(id).await;
        let found = found.and_then(|record| serde_json::from_value::<shape::RequestRecord>(record).ok());
        found.map(|record| (StatusCode::OK, api::value(record))).ok_or_else(|| Refusal {
            status: StatusCode::NOT_FOUND,
            code: "NoSuchEntity",
            why: format!(
                "nothing is known about the request \"{id}\": the last refusals are kept while the server runs, all requests only with an audit file"
            ),
        })
    }

    /// Starts a pass over everything in the background; one at a time.
    fn start_scrub(&self, deep: bool) -> Reply {
        if self.scrubbing.swap(true, Ordering::AcqRel) {
            let why = "a pass is running; `ashlar heal status` shows it".into();
            return Err(Refusal { status: StatusCode::CONFLICT, code: "Conflict", why });
        }
        let (sets, running) = (self.house.sets.clone(), self.scrubbing.clone());
        tokio::spawn(async move {
            match sets.scrub(deep).await {
                Ok(found) => tracing::info!(
                    registers = found.registers,
                    healed = found.healed.shards,
                    "pass over everything ended"
                ),
                Err(error) => tracing::warn!(%error, "pass over everything ended early"),
            }
            running.store(false, Ordering::Release);
        });
        Ok((StatusCode::ACCEPTED, api::value(shape::HealStarted { started: true, deep })))
    }

    fn heal_status(&self) -> Value {
        let running = self.scrubbing.load(Ordering::Acquire);
        api::value(shape::HealStatus { heal: heal(&self.house), running, damages: damages(&self.house) })
    }
}

fn named(order: &Order) -> Result<&str, Refusal> {
    if order.drive.is_empty() {
        Err(wrong("name a drive: {\"drive\": \"path or id\"}"))
    } else {
        Ok(&order.drive)
    }
}

/// Writes an administration request into the log: what changes something or failed, for everybody; what is
/// only read, for who debugs.
pub fn told(id: &str, method: &http::Method, path: &str, status: StatusCode, who: &str, peer: &Peer) {
    let (status, peer) = (status.as_u16(), peer.address);
    if matches!(*method, http::Method::GET | http::Method::HEAD) && status < 400 {
        tracing::debug!(target: "ashlar::admin", request_id = id, %method, path, status, access_key = who, %peer, "administration");
    } else {
        tracing::info!(target: "ashlar::admin", request_id = id, %method, path, status, access_key = who, %peer, "administration");
    }
}

/// A refusal as an answer.
pub fn refused(no: &Refusal) -> Response<Body> {
    json_answer(no.status, &api::value(shape::Problem { error: no.why.clone(), code: no.code.to_owned() }))
}

/// There is no room in the audit log, and nothing was done.
pub fn unrecordable() -> Refusal {
    let why = "the audit log takes nothing at present, so nothing was done; look at the server's log".into();
    Refusal { status: StatusCode::SERVICE_UNAVAILABLE, code: "ServiceUnavailable", why }
}

/// It was done, and is not in the audit log yet.
pub fn unrecorded() -> Refusal {
    let why = "it may have been done, but is not in the audit log yet; look at the server's log".into();
    Refusal { status: StatusCode::SERVICE_UNAVAILABLE, code: "ServiceUnavailable", why }
}

/// A stream of JSON objects, one a line.
fn lines(body: Body) -> Response<Body> {
    let mut response = plain(StatusCode::OK, "");
    *response.body_mut() = body;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/x-ndjson"));
    response
}

fn json_answer(status: StatusCode, value: &Value) -> Response<Body> {
    let mut response = plain(status, value.to_string());
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// Everything an operator wants to see first.
pub fn info(house: &House) -> Value {
    let map = house.map.load();
    let health = house.sets.health();
    let control = house.control.health();
    let capacity = super::metrics::capacity(house);
    let groups = health.iter().map(|g| shape::PlacementGroup {
        group: g.group.into(),
        slots: g.slots.into(),
        voters: g.voters.into(),
        joining: g.joining.into(),
        readable: g.readable,
        writable: g.writable,
        spare: g.spare.into(),
    });
    let tolerance = ashlar_erasure_set::tolerance(map.code.k, map.code.m);
    api::value(shape::Info {
        version: env!("CARGO_PKG_VERSION"),
        deployment: map.deployment.to_hex(),
        uptime_s: coarse(),
        code: map.code.to_string(),
        data_shards: map.code.k.into(),
        parity_shards: map.code.m.into(),
        reads_tolerate: tolerance.reads.into(),
        writes_tolerate: tolerance.writes.into(),
        epoch: map.epoch.into(),
        readable: health.iter().all(|g| g.readable),
        writable: health.iter().all(|g| g.writable),
        buckets: house.store.buckets().len() as u64,
        usage: monitor::usage_total(&house.store),
        capacity: shape::Capacity {
            raw: capacity.raw,
            raw_free: capacity.raw_free,
            usable: capacity.usable,
            usable_free: capacity.usable_free,
        },
        memory: shape::Memory {
            buffers: house.pool.used() as u64,
            idle: house.pool.idle() as u64,
            ceiling: house.pool.ceiling() as u64,
        },
        control: shape::Control {
            members: control.members as u64,
            current: control.current as u64,
            writable: control.writable,
            revision: control.revision,
        },
        drives: drives(house),
        groups: groups.collect(),
        heal: heal(house),
    })
}

/// All drives, as an answer.
fn list(house: &House) -> Reply {
    Ok((StatusCode::OK, api::value(shape::DriveList { drives: drives(house) })))
}

fn drives(house: &House) -> Vec<shape::DriveState> {
    let rebuilds = house.sets.rebuilds();
    let slots = house.slots.lock().clone();
    let map = house.map.load();
    slots.iter().map(|slot| drive(slot, &map, &rebuilds)).collect()
}

fn drive(slot: &Slot, map: &Map, rebuilds: &[Progress]) -> shape::DriveState {
    let path = slot.path.display().to_string();
    let Some(drive) = &slot.drive else {
        let id = drive_monitor::last_seen(map, &slot.path).map(|id| id.to_hex()).unwrap_or_default();
        let state = if slot.held { "held" } else { "offline" };
        let problem = slot.problem.clone();
        return shape::DriveState { path, id, state, problem, ..shape::DriveState::default() };
    };
    let id = drive.label().drive;
    let stats = drive.stats();
    let rebuild = rebuilds.iter().find(|r| r.drive == id && r.phase != Phase::Done);
    let commits = stats.batches.max(1) as f64;
    shape::DriveState {
        path,
        id: id.to_hex(),
        state: state(drive),
        problem: why(drive).or_else(|| silent(drive)).or_else(|| slot.problem.clone()),
        capacity: Some(stats.capacity),
        used: Some(stats.used),
        free: Some(stats.free),
        read_errors: Some(stats.read_errors),
        reads: Some(stats.reads),
        writes: Some(stats.writes),
        syncs: Some(stats.syncs),
        commit_ms: Some(stats.commit_us as f64 / commits / 1000.0),
        rebuild: rebuild.map(progress),
    }
}

fn state(drive: &Drive) -> &'static str {
    match (drive.state(), drive.role()) {
        (State::Online, Role::Voter) => "online",
        (State::Online, Role::Joining) => "joining",
        (State::ReadOnly, _) => "read-only",
        (State::Fenced(_), _) => "fenced",
        (State::Closed, _) => "offline",
    }
}

/// A call to its device does not return.
fn silent(drive: &Drive) -> Option<String> {
    drive.stalled().map(|s| format!("its device has not answered for {} s", s.as_secs()))
}

fn why(drive: &Drive) -> Option<String> {
    match drive.state() {
        State::Fenced(why) => Some(why),
        _ => None,
    }
}

fn progress(p: &Progress) -> shape::Rebuild {
    let phase = match p.phase {
        Phase::Waiting => "waiting",
        Phase::Records => "records",
        Phase::Shards => "shards",
        Phase::Done => "done",
    };
    shape::Rebuild {
        drive: p.drive.to_hex(),
        phase,
        registers: p.registers,
        looked: p.looked,
        copied: p.copied,
        shards: p.shards,
        bytes: p.bytes,
        missing: p.missing,
        rate: p.rate,
        eta_s: p.eta_s,
        why: p.why.clone(),
        done_bytes: p.done_bytes,
        total_bytes: p.total_bytes,
        began_ms: p.began_ms,
        ended_ms: p.ended_ms,
    }
}

/// A drive that joins and whose rebuild has not begun.
fn not_begun(drive: &Drive) -> shape::Rebuild {
    shape::Rebuild {
        drive: drive.label().drive.to_hex(),
        phase: "waiting",
        registers: 0,
        looked: 0,
        copied: 0,
        shards: 0,
        bytes: 0,
        missing: 0,
        rate: 0.0,
        eta_s: None,
        why: Some("it has not begun".to_owned()),
        done_bytes: 0,
        total_bytes: 0,
        began_ms: 0,
        ended_ms: None,
    }
}

fn scrub(s: Scrubbed) -> shape::Scrub {
    shape::Scrub {
        deep: s.deep,
        began_ms: s.began_ms,
        took_ms: s.took_ms,
        damaged: s.damaged,
        registers: s.registers,
        shards: s.shards,
        orphans: s.orphans,
        dropped: s.dropped,
        healed_records: s.healed.records.into(),
        healed_shards: s.healed.shards.into(),
        missing: s.healed.missing.into(),
        lost: s.healed.lost.into(),
        bytes: s.healed.bytes,
    }
}

/// Damage found since the start, by the names people know.
fn damages(house: &House) -> Vec<shape::Damage> {
    let buckets = house.store.buckets();
    let found = house.sets.damages();
    let named = |d: &Damage| {
        let bucket = buckets.iter().find(|b| b.id == d.bucket);
        shape::Damage {
            at_ms: d.at_ms,
            drive: d.drive.to_hex(),
            path: d.path.clone(),
            bucket: bucket.map_or_else(|| format!("{:?}", d.bucket), |b| b.name.clone()),
            key: String::from_utf8_lossy(&d.key).into_owned(),
            what: d.what.to_string(),
            repaired: d.repaired,
        }
    };
    found.iter().map(named).collect()
}

fn heal(house: &House) -> shape::Heal {
    let stats = house.sets.heal_stats();
    let mut rebuilds: Vec<_> = house.sets.rebuilds().iter().map(progress).collect();
    for drive in house.slots.lock().iter().filter_map(|s| s.drive.as_ref()) {
        let id = drive.label().drive.to_hex();
        let begun = |r: &shape::Rebuild| r.drive == id && r.phase != "done";
        if drive.role() == Role::Joining && !rebuilds.iter().any(begun) {
            rebuilds.push(not_begun(drive));
        }
    }
    shape::Heal {
        queued: stats.queued,
        looked: stats.looked,
        records: stats.records,
        shards: stats.shards,
        lost: stats.lost,
        rebuilds,
        rebuilt: house.sets.rebuilt().iter().map(progress).collect(),
        last_scrub: house.sets.last_scrub().map(scrub),
        last_full_scrub: house.sets.last_full_scrub().map(scrub),
    }
}
