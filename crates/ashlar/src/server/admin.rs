//! Administration over HTTP: `/ashlar/admin/v1/...`, signed by root as S3 requests are, JSON.
//!
//! | request | answer |
//! |---|---|
//! | `GET info` | deployment, code, drives, groups, capacity, healing |
//! | `GET heal` | healing, rebuilds with their ETA, the last scrub |
//! | `POST heal` `{"deep": bool}` | starts a pass over everything: 202, or 409 while one runs |
//! | `GET drives` | the drives |
//! | `POST drives/offline`, `drives/online`, `drives/replace` `{"drive": "path or id"}` | 200 |
//! | `POST drives/scrub` `{}` | as `POST heal` with `deep` |
//! | `GET metrics-token` | the bearer token for metrics |
//!
//! Errors: `{"error": "what and what to do", "code": "..."}`. Invariants: every route checks the
//! signature first; no answer holds a secret but the token that was asked for.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ashlar_cluster::Map;
use ashlar_drive::{Drive, Role, State};
use ashlar_erasure_set::{Phase, Progress};
use ashlar_s3::auth::Request as Signed;
use ashlar_s3::intake::Intake;
use ashlar_s3::target::Target;
use ashlar_s3::{Body, Code, Fault, Service, Source};
use http::header::{self, HeaderMap, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use serde::Deserialize;
use serde_json::{Value, json};

use super::clock::{coarse, now_ms};
use super::house::{House, Slot};
use super::keeper;
use super::routes::{Peer, plain};

/// Longest request document.
const LIMIT: usize = 64 * 1024;

/// The administration door.
pub struct Admin {
    service: Arc<Service>,
    house: Arc<House>,
    token: String,
    scrubbing: Arc<AtomicBool>,
}

/// What an action needs.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct Order {
    #[serde(default)]
    drive: String,
    #[serde(default)]
    deep: bool,
}

type Reply = Result<(StatusCode, Value), (StatusCode, String)>;

fn wrong(why: impl Into<String>) -> (StatusCode, String) {
    (StatusCode::BAD_REQUEST, why.into())
}

impl Admin {
    /// The door over a house.
    pub fn new(service: Arc<Service>, house: Arc<House>) -> Admin {
        let secret = service.verifier().keys.root_derived(b"ashlar metrics token 1");
        let token = hex(&secret);
        Admin { service, house, token, scrubbing: Arc::new(AtomicBool::new(false)) }
    }

    /// Whether the bearer token of metrics was sent.
    pub fn has_token(&self, headers: &HeaderMap) -> bool {
        let given = headers.get(header::AUTHORIZATION).and_then(|v| v.to_str().ok());
        given
            .and_then(|v| v.strip_prefix("Bearer "))
            .is_some_and(|t| ashlar_checksum::ct_eq(t.trim().as_bytes(), self.token.as_bytes()))
    }

    /// Answers a request.
    pub async fn answer(&self, request: Request<Incoming>, peer: &Peer) -> Response<Body> {
        let id = self.service.request_id();
        let (method, path) = (request.method().clone(), request.uri().path().to_owned());
        let mut response = match self.admit(request, peer).await {
            Ok(order) => match self.act(&method, &path, order).await {
                Ok((status, value)) => json_answer(status, &value),
                Err((status, why)) => json_answer(status, &json!({ "error": why, "code": status.as_u16() })),
            },
            Err(fault) => {
                json_answer(fault.status(), &json!({ "error": fault.message(), "code": fault.code().name }))
            }
        };
        tracing::info!(target: "ashlar::admin", request_id = id, %method, path, status = response.status().as_u16(), peer = %peer.address, "administration");
        if let Ok(id) = HeaderValue::from_str(&id) {
            response.headers_mut().insert("x-amz-request-id", id);
        }
        response
    }

    /// Checks the signature, then reads the document.
    async fn admit(&self, request: Request<Incoming>, peer: &Peer) -> Result<Order, Fault> {
        let (parts, incoming) = request.into_parts();
        ashlar_s3::auth::refuse_duplicates(&parts.headers)?;
        let target = Target::parse(parts.uri.path(), parts.uri.query(), None)?;
        let signed =
            Signed { method: &parts.method, uri: &parts.uri, target: &target, headers: &parts.headers };
        let verifier = self.service.verifier();
        let mut verified = verifier.verify(&signed, now_ms().div_euclid(1000))?;
        if !verified.identity().is_unbounded_root() {
            return Err(Fault::new(Code::ACCESS_DENIED));
        }
        let source = Source::Hyper(incoming);
        let mut intake = Intake::new(source, &parts.headers, &mut verified).map_err(|(fault, _)| fault)?;
        let body = intake.collect(LIMIT).await?;
        peer.watch.arm();
        if body.is_empty() {
            return Ok(Order::default());
        }
        serde_json::from_slice(&body)
            .map_err(|e| Fault::with(Code::INVALID_REQUEST, format!("the document is not understood: {e}")))
    }

    async fn act(&self, method: &Method, path: &str, order: Order) -> Reply {
        let what = path.strip_prefix("/ashlar/admin/v1/").unwrap_or_default();
        match (method, what) {
            (&Method::GET, "info") => Ok((StatusCode::OK, info(&self.house))),
            (&Method::GET, "heal") => Ok((StatusCode::OK, self.heal_status())),
            (&Method::POST, "heal") => self.start_scrub(order.deep),
            (&Method::GET, "drives") => Ok((StatusCode::OK, json!({ "drives": drives(&self.house) }))),
            (&Method::POST, "drives/scrub") => self.start_scrub(true),
            (&Method::POST, "drives/offline") => {
                keeper::hold(&self.house, named(&order)?).await.map_err(wrong)?;
                Ok((StatusCode::OK, json!({ "drives": drives(&self.house) })))
            }
            (&Method::POST, "drives/online") => {
                keeper::bring_back(&self.house, named(&order)?).map_err(wrong)?;
                Ok((StatusCode::OK, json!({ "drives": drives(&self.house) })))
            }
            (&Method::POST, "drives/replace") => {
                keeper::replace_now(&self.house, named(&order)?).await.map_err(wrong)?;
                Ok((StatusCode::OK, json!({ "drives": drives(&self.house) })))
            }
            (&Method::GET, "metrics-token") => Ok((StatusCode::OK, json!({ "token": self.token }))),
            _ => Err((StatusCode::NOT_FOUND, format!("{method} {path} is not an administration request"))),
        }
    }

    /// Starts a pass over everything in the background; one at a time.
    fn start_scrub(&self, deep: bool) -> Reply {
        if self.scrubbing.swap(true, Ordering::AcqRel) {
            return Err((StatusCode::CONFLICT, "a pass is running; `ashlar heal status` shows it".into()));
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
        Ok((StatusCode::ACCEPTED, json!({ "started": true, "deep": deep })))
    }

    fn heal_status(&self) -> Value {
        let mut value = heal(&self.house);
        value["running"] = json!(self.scrubbing.load(Ordering::Acquire));
        value
    }
}

fn named(order: &Order) -> Result<&str, (StatusCode, String)> {
    if order.drive.is_empty() {
        Err(wrong("name a drive: {\"drive\": \"path or id\"}"))
    } else {
        Ok(&order.drive)
    }
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
    let groups: Vec<Value> = health
        .iter()
        .map(|g| json!({ "group": g.group, "slots": g.slots, "voters": g.voters, "joining": g.joining, "readable": g.readable, "writable": g.writable, "spare": g.spare }))
        .collect();
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "deployment": map.deployment.to_hex(),
        "uptime_s": coarse(),
        "code": map.code.to_string(),
        "data_shards": map.code.k,
        "parity_shards": map.code.m,
        "epoch": map.epoch,
        "readable": health.iter().all(|g| g.readable),
        "writable": health.iter().all(|g| g.writable),
        "buckets": house.store.buckets().len(),
        "capacity": {
            "raw": capacity.raw, "raw_free": capacity.raw_free,
            "usable": capacity.usable, "usable_free": capacity.usable_free,
        },
        "memory": { "buffers": house.pool.used(), "idle": house.pool.idle(), "ceiling": house.pool.ceiling() },
        "control": { "members": control.members, "current": control.current, "writable": control.writable, "revision": control.revision },
        "drives": drives(house),
        "groups": groups,
        "heal": heal(house),
    })
}

fn drives(house: &House) -> Vec<Value> {
    let rebuilds = house.sets.rebuilds();
    let slots = house.slots.lock().clone();
    let map = house.map.load();
    slots.iter().map(|slot| drive(slot, &map, &rebuilds)).collect()
}

fn drive(slot: &Slot, map: &Map, rebuilds: &[Progress]) -> Value {
    let path = slot.path.display().to_string();
    let Some(drive) = &slot.drive else {
        let id = keeper::last_seen(map, &slot.path).map(|id| id.to_hex()).unwrap_or_default();
        return json!({ "path": path, "id": id, "state": if slot.held { "held" } else { "offline" }, "problem": slot.problem });
    };
    let id = drive.label().drive;
    let stats = drive.stats();
    let rebuild = rebuilds.iter().find(|r| r.drive == id && r.phase != Phase::Done);
    json!({
        "path": path,
        "id": id.to_hex(),
        "state": state(drive),
        "problem": why(drive).or_else(|| slot.problem.clone()),
        "capacity": stats.capacity,
        "used": stats.used,
        "free": stats.free,
        "read_errors": stats.read_errors,
        "reads": stats.reads,
        "writes": stats.writes,
        "syncs": stats.syncs,
        "commit_ms": if stats.batches == 0 { 0.0 } else { stats.commit_us as f64 / stats.batches as f64 / 1000.0 },
        "rebuild": rebuild.map(progress),
    })
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

fn why(drive: &Drive) -> Option<String> {
    match drive.state() {
        State::Fenced(why) => Some(why),
        _ => None,
    }
}

fn progress(p: &Progress) -> Value {
    let phase = match p.phase {
        Phase::Waiting => "waiting",
        Phase::Records => "records",
        Phase::Shards => "shards",
        Phase::Done => "done",
    };
    json!({
        "drive": p.drive.to_hex(),
        "phase": phase,
        "registers": p.registers,
        "looked": p.looked,
        "copied": p.copied,
        "shards": p.shards,
        "bytes": p.bytes,
        "missing": p.missing,
        "rate": p.rate,
        "eta_s": p.eta_s,
        "why": p.why,
    })
}

fn heal(house: &House) -> Value {
    let stats = house.sets.heal_stats();
    let rebuilds: Vec<Value> = house.sets.rebuilds().iter().map(progress).collect();
    let scrub = house.sets.last_scrub().map(|s| {
        json!({
            "registers": s.registers, "shards": s.shards, "orphans": s.orphans, "dropped": s.dropped,
            "healed_records": s.healed.records, "healed_shards": s.healed.shards,
            "missing": s.healed.missing, "lost": s.healed.lost, "bytes": s.healed.bytes,
        })
    });
    json!({
        "queued": stats.queued,
        "looked": stats.looked,
        "records": stats.records,
        "shards": stats.shards,
        "lost": stats.lost,
        "rebuilds": rebuilds,
        "last_scrub": scrub,
    })
}
