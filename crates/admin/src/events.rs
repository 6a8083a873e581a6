//! The administration API for events: state of the targets, and dead letters.
//!
//! | request | answer |
//! |---|---|
//! | `GET events` | the targets |
//! | `POST events/ID:TYPE/test` | has the answering node send a test event, and says what became of it |
//! | `GET dead-letters?target=ID:TYPE` | the oldest letters |
//! | `POST dead-letters/ID:TYPE/replay` | sends them again; `{"count"}` |
//! | `DELETE dead-letters/ID:TYPE?id=ID` | removes all of them, or one; `{"count"}` |
//!
//! Must not depend on: how events are sent or stored.

use std::sync::Arc;

use ashlar_environment::time::Instant;
use ashlar_events::{Error, TargetId, TargetManager};
use ashlar_metrics::{Group, Kind, Page};
use http::StatusCode;

use super::admin_request::{AdminRequest, AdminResult, Refusal, bad_request};
use super::api::{self, state as shape};
use super::table::Route;

/// The bucket that a test event names; no bucket can have this name.
const TEST_BUCKET: &str = "TEST";

fn refusal(e: Error) -> Refusal {
    let status = match e {
        Error::Unavailable(_) => StatusCode::SERVICE_UNAVAILABLE,
        Error::Unreachable(_) => StatusCode::BAD_GATEWAY,
        _ => StatusCode::BAD_REQUEST,
    };
    let code = if status == StatusCode::BAD_REQUEST { "InvalidRequest" } else { "TargetUnavailable" };
    Refusal { status, code, why: e.to_string() }
}

/// Answers a request about events. The caller has checked the permission.
pub(crate) async fn answer(
    target_manager: Option<&Arc<TargetManager>>,
    request_id: &str,
    req: &AdminRequest,
) -> AdminResult {
    let target_manager = target_manager
        .ok_or_else(|| refusal(Error::Unavailable("this server has no event targets".into())))?;
    let named = || {
        TargetId::parse(&req.name).ok_or_else(|| bad_request("name the target as ID:TYPE, such as 1:webhook"))
    };
    match req.route {
        Route::DeadLetterList => {
            let letters = target_manager.dead_letters(req.query.filled("target")).await.map_err(refusal)?;
            let letters = letters.into_iter().map(|l| shape::DeadLetter {
                event: l.event.map(|e| shape::DeadEvent {
                    name: e.name.text(),
                    time_ms: e.time_ms,
                    position: e.position,
                    bucket: e.bucket,
                    key: e.key,
                    version: e.version,
                }),
                id: l.id,
                target: l.target,
                at_ms: l.at_ms,
                why: l.why,
                lost: l.lost,
            });
            Ok((StatusCode::OK, api::value(shape::DeadLetterList { letters: letters.collect() })))
        }
        Route::EventTest => {
            let target = named()?;
            let began = Instant::now();
            let problem = match target_manager.test(&target, TEST_BUCKET, request_id).await {
                Ok(()) => None,
                Err(Error::Unreachable(why)) => Some(why),
                Err(other) => return Err(refusal(other)),
            };
            let took_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
            let answer = shape::EventTest {
                target: target.to_string(),
                accepted: problem.is_none(),
                problem,
                took_ms,
            };
            Ok((StatusCode::OK, api::value(answer)))
        }
        Route::DeadLetterReplay => {
            let count = target_manager.replay(&named()?).await.map_err(refusal)?;
            Ok((StatusCode::OK, api::value(shape::DeadLetterCount { count })))
        }
        Route::DeadLetterRemove => {
            let id = req.query.filled("id");
            let count = target_manager.discard(&named()?.to_string(), id).await.map_err(refusal)?;
            Ok((StatusCode::OK, api::value(shape::DeadLetterCount { count })))
        }
        _ => {
            let region = target_manager.site().region.clone();
            let targets = target_manager.statuses().into_iter().map(|s| shape::EventTarget {
                arn: s.id.arn(&region),
                id: s.id.to_string(),
                online: s.problem.is_none(),
                problem: s.problem,
                sent: s.sent,
                failed: s.failed,
                dead: s.dead,
                lost: s.lost,
                lag: s.lag,
            });
            Ok((StatusCode::OK, api::value(shape::EventTargetList { targets: targets.collect() })))
        }
    }
}

/// Adds the metrics of event targets to a page.
pub fn render(target_manager: &TargetManager, page: &mut Page) {
    type Family = (&'static str, Kind, &'static str, fn(&ashlar_events::Status) -> u64);
    const FAMILIES: [Family; 10] = [
        ("ashlar_events_sent_total", Kind::Counter, "Events that the target has acknowledged.", |s| s.sent),
        ("ashlar_events_failed_total", Kind::Counter, "Attempts to send events that failed.", |s| s.failed),
        ("ashlar_events_dead_total", Kind::Counter, "Events stored as dead letters.", |s| s.dead),
        (
            "ashlar_events_lost_total",
            Kind::Counter,
            "Changes that exceeded the limit of the change feed.",
            |s| s.lost,
        ),
        (
            "ashlar_events_lag",
            Kind::Gauge,
            "Changes of all buckets that the target has not passed yet.",
            |s| s.lag,
        ),
        ("ashlar_events_target_online", Kind::Gauge, "Whether the last attempt succeeded.", |s| {
            u64::from(s.problem.is_none())
        }),
        (
            "minio_notify_events_sent_total",
            Kind::Counter,
            "Total number of events sent to the target.",
            |s| s.sent,
        ),
        (
            "minio_notify_events_errors_total",
            Kind::Counter,
            "Events that were failed to be sent to the targets.",
            |s| s.failed,
        ),
        (
            "minio_notify_events_skipped_total",
            Kind::Counter,
            "Events that were skipped to be sent to the targets.",
            |s| s.lost + s.dead,
        ),
        (
            "minio_notify_target_queue_length",
            Kind::Gauge,
            "Number of events that wait for the target.",
            |s| s.lag,
        ),
    ];
    let all = target_manager.statuses();
    for (name, kind, help, of) in FAMILIES {
        for s in &all {
            let id = s.id.to_string();
            let label = if name.starts_with("minio") { "target_id" } else { "target" };
            page.family(Group::Node, kind, name, help).add(&[(label, id.as_str())], of(s));
        }
    }
    // Sums over all targets, so that dashboards have a series before the first target is configured.
    let sum = |of: fn(&ashlar_events::Status) -> u64| all.iter().map(of).sum::<u64>();
    page.value(
        Group::Node,
        "minio_notify_current_send_in_progress",
        "Events that wait to be sent.",
        sum(|s| s.lag),
    );
}
