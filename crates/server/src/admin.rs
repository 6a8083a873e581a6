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

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ashlar_iam::Kind;
use ashlar_policy::{Action, BucketRules, Context as Facts, Request as Question, decide};
use ashlar_s3::auth::{Request as Signed, Verified};
use ashlar_s3::request_body::RequestBody;
use ashlar_s3::target::Target;
use ashlar_s3::{Body, Code, Fault, Service, Source};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::header::{self, HeaderMap, HeaderValue};
use http::request::Parts;
use http::{Request, Response, StatusCode};
use hyper::body::Incoming;
use serde::Deserialize;
use serde_json::Value;

use super::admin_request::{Ask, Refusal, Reply, unrecordable, wrong};
use super::admin_status::{damages, drives, heal, info};
use super::api::orders::{EndOrder, Order, RecoverOrder};
use super::api::{self, state as shape};
use super::audit::Trail;
use super::clock::now_ms;
use super::connection::Peer;
use super::drive_monitor;
use super::identities::Identities;
use super::kms;
use super::monitor::{self, Monitor};
use super::node::Node;
use super::providers::Door;
use super::recovery::Recovery;
use super::responses::{json_answer, lines, refused};
use super::table::{BASES, Route};
use super::{events, quotas, settings, transfer};

/// Longest request document.
const LIMIT: usize = 64 * 1024;

/// The administration door.
pub struct Admin {
    service: Arc<Service>,
    node: Arc<Node>,
    token: String,
    scrubbing: Arc<AtomicBool>,
    identities: Identities,
    providers: Door,
    ending: Ending,
    check: settings::Check,
    keys: kms::Door,
    monitor: Monitor,
    recovery: Recovery,
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

impl Admin {
    /// The door over a node.
    pub fn new(
        service: Arc<Service>,
        node: Arc<Node>,
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
            node,
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
                    trail.decided(ask.authz_decision.into_inner(), why.map(|no| no.why.as_str()));
                    return match stream {
                        Ok(body) => trail.end(lines(body), "").await,
                        Err(no) => trail.end(refused(&no), no.code).await,
                    };
                }
                let reply = self.act(&ask).await;
                let why = reply.as_ref().err().filter(|no| no.status == StatusCode::FORBIDDEN);
                trail.decided(ask.authz_decision.into_inner(), why.map(|no| no.why.as_str()));
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
        let mut request_body =
            RequestBody::new(source, &parts.headers, &mut verified).map_err(|(fault, _)| fault)?;
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
        ask.body = request_body.collect(limit).await?;
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
    pub fn node(&self) -> &Arc<Node> {
        &self.node
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
                quotas::answer(&self.node.store, ask).await
            }
            Route::LifecycleStatus | Route::LifecycleTest => {
                ask.need(ask.route.actions(), false)?;
                self.node.lifecycle.answer(ask).await
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
                events::answer(self.service.context().notifications.target_manager(), ask).await
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
                let begun = self.recovery.start(&self.node, order.dry_run).map_err(wrong)?;
                return Ok((StatusCode::ACCEPTED, api::value(begun)));
            }
            _ => {}
        }
        let order: Order = ask.document()?;
        match ask.route {
            Route::Info => Ok((StatusCode::OK, info(&self.node))),
            Route::UsageList | Route::UsageGet => monitor::usage(&self.node.store, ask),
            Route::Top => monitor::top(self.service.metrics()),
            Route::HealStatus => Ok((StatusCode::OK, self.heal_status())),
            Route::HealStart => self.start_scrub(order.deep),
            Route::DriveScrub => self.start_scrub(true),
            Route::DriveOffline => {
                drive_monitor::hold(&self.node, named(&order)?).await.map_err(wrong)?;
                list(&self.node)
            }
            Route::DriveOnline => {
                drive_monitor::release(&self.node, named(&order)?).await.map_err(wrong)?;
                list(&self.node)
            }
            Route::DriveReplace => {
                drive_monitor::replace_now(&self.node, named(&order)?).await.map_err(wrong)?;
                list(&self.node)
            }
            Route::MetricsToken => {
                Ok((StatusCode::OK, api::value(shape::MetricsToken { token: self.token.clone() })))
            }
            // Drives; those of `identities` were answered above.
            _ => list(&self.node),
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
        let (sets, running) = (self.node.sets.clone(), self.scrubbing.clone());
        ashlar_environment::spawn("admin", async move {
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
        api::value(shape::HealStatus { heal: heal(&self.node), running, damages: damages(&self.node) })
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

/// All drives, as an answer.
fn list(node: &Node) -> Reply {
    Ok((StatusCode::OK, api::value(shape::DriveList { drives: drives(node) })))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}
