//! Requests about the lifecycle rules of a bucket.
//!
//! | request | document |
//! |---|---|
//! | `GET lifecycle/BUCKET` | when the last pass began and ended, and what it did |
//! | `POST lifecycle/BUCKET/test` `{"after", "at"}` | counts what the rules would do now, or at a given time; changes nothing |
//! | `POST lifecycle/BUCKET/simulate` `{"rules", "until", "examples", "after"}` | counts by day what these rules, or the bucket's own, will do, and names versions; changes nothing |
//!
//! Must not depend on: how rules are carried out.

use ashlar_lifecycle::{Action, Config, DOCUMENT};
use ashlar_node::Node;
use ashlar_node::clock::now_ms;
use ashlar_node::lifecycle::{Counted, Span};
use ashlar_object::{Error, OpenBucket, version_text};
use ashlar_s3::documents::lifecycle::{fault_of, parse};
use http::StatusCode;
use serde::Deserialize;

use super::admin_request::{AdminRequest, AdminResult, Refusal, bad_request};
use super::api::{self, state as shape};
use super::table::Route;

/// The request of a dry run.
#[derive(Deserialize, Default, utoipa::ToSchema)]
#[serde(deny_unknown_fields, default)]
#[schema(as = LifecycleTestOrder)]
pub struct Order {
    /// The time to evaluate the rules at, such as `2030-01-31T00:00:00Z`; by default now.
    at: Option<String>,
    /// Continues where the last answer ended.
    after: Option<String>,
}

/// The request of a forecast.
#[derive(Deserialize, Default, utoipa::ToSchema)]
#[serde(deny_unknown_fields, default)]
#[schema(as = LifecycleSimulateOrder)]
pub struct ForecastOrder {
    /// The rules to evaluate, as the XML that `PutBucketLifecycleConfiguration` takes; by default those of the bucket.
    rules: Option<String>,
    /// Until when, such as `2030-01-31T00:00:00Z`; by default 30 days from now.
    until: Option<String>,
    /// How many versions to name, at most 1000; by default 100.
    examples: Option<usize>,
    /// Continues where the last answer ended.
    after: Option<String>,
}

/// How far a forecast goes by default, in milliseconds.
const FORECAST_MS: i64 = 30 * 86_400_000;
/// Versions that are named, at most and by default.
const EXAMPLES: (usize, usize) = (1000, 100);

/// Answers a request about a bucket. The caller has checked the permission.
pub async fn answer(node: &Node, req: &AdminRequest) -> AdminResult {
    let refusal = |e: Error| Refusal::from(ashlar_s3::ops::fault(e, &req.name, ""));
    let bucket = node.store.bucket(&req.name).map_err(refusal)?;
    if req.route == Route::LifecycleSimulate {
        let order: ForecastOrder = req.document()?;
        let given = order.rules.as_deref().filter(|text| !text.trim().is_empty());
        let config = match given {
            Some(text) => given_rules(text)?,
            None => stored_rules(&bucket)?,
        };
        let answer = forecast(node, &bucket, &config, order).await?;
        return Ok((StatusCode::OK, api::value(answer)));
    }
    let config = stored_rules(&bucket)?;
    if req.route == Route::LifecycleTest {
        let order: Order = req.document()?;
        let answer = test(node, &bucket, &config, order).await.map_err(refusal)?;
        return Ok((StatusCode::OK, api::value(answer)));
    }
    let pass = node.lifecycle.last_pass(bucket.id);
    let counts = pass.counts;
    let time = |ms: i64| (ms > 0).then(|| ashlar_s3::date::format_iso(ms));
    let answer = shape::LifecycleStatus {
        bucket: bucket.name.clone(),
        rules: config.rules.len() as u64,
        began: time(pass.began_ms),
        ended: pass.ended_ms.and_then(time),
        running: pass.running,
        looked_at: counts.keys,
        expired: counts.current,
        removed_versions: counts.versions,
        removed_markers: counts.markers,
        aborted_uploads: counts.uploads,
        locked: counts.locked,
        failed: counts.failed,
    };
    Ok((StatusCode::OK, api::value(answer)))
}

/// The rules of a bucket.
fn stored_rules(bucket: &OpenBucket) -> Result<Config, Refusal> {
    let text = bucket.documents.get(DOCUMENT).ok_or_else(|| Refusal {
        status: StatusCode::NOT_FOUND,
        code: "NoSuchLifecycleConfiguration",
        why: format!("the bucket \"{}\" has no lifecycle rules", bucket.name),
    })?;
    Config::decode(text).ok_or_else(|| bad_request("the bucket's rules cannot be read"))
}

/// Rules that were sent, checked as if they were to be stored.
fn given_rules(text: &str) -> Result<Config, Refusal> {
    let mut config = parse(text.as_bytes())?;
    let mut made = 0_u32;
    // Rules without an id get one when they are stored.
    let id = || {
        made += 1;
        format!("rule-{made}")
    };
    config.check(id).map_err(|invalid| Refusal::from(fault_of(invalid)))?;
    Ok(config)
}

/// Reads a time.
fn time(name: &str, text: &str) -> Result<i64, Refusal> {
    let seconds = ashlar_s3::date::parse_iso(text);
    let ms = seconds.map(|s| s.saturating_mul(1000));
    ms.ok_or_else(|| bad_request(format!("`{name}` is a time such as 2030-01-31T00:00:00Z")))
}

/// Counts by day what rules will do.
async fn forecast(
    node: &Node,
    bucket: &OpenBucket,
    config: &Config,
    order: ForecastOrder,
) -> Result<shape::LifecycleForecast, Refusal> {
    let from_ms = now_ms();
    let until_ms = match &order.until {
        None => from_ms + FORECAST_MS,
        Some(text) => time("until", text)?,
    };
    let examples = order.examples.unwrap_or(EXAMPLES.1);
    if examples > EXAMPLES.0 {
        return Err(bad_request(format!("at most {} versions are named, not {examples}", EXAMPLES.0)));
    }
    let span = Span { from_ms, until_ms, examples };
    let counted = node.lifecycle.test(bucket, config, span, order.after.as_deref()).await;
    let counted = counted.map_err(|e| Refusal::from(ashlar_s3::ops::fault(e, &bucket.name, "")))?;
    let days = |rule: usize| {
        let days = counted.days.range((rule, i64::MIN)..=(rule, i64::MAX));
        days.map(|((_, day), h)| shape::LifecycleDay {
            date: ashlar_s3::date::format_iso(day * 86_400_000).chars().take(10).collect(),
            expire: h.expire,
            remove_versions: h.remove,
            remove_markers: h.markers,
            abort_uploads: h.uploads,
            bytes: h.bytes,
        })
        .collect()
    };
    let rules = config.rules.iter().enumerate().map(|(i, rule)| shape::LifecycleRuleForecast {
        id: rule.id.clone(),
        enabled: rule.enabled,
        days: days(i),
    });
    let rules = rules.collect();
    let named = counted.examples.iter().map(|e| shape::LifecycleExample {
        key: e.key.clone(),
        version_id: version_text(e.version),
        action: match e.due.action {
            Action::Expire => "expire",
            Action::Remove => "remove",
            Action::RemoveMarker => "remove-marker",
        },
        rule: config.rules.get(e.due.rule).map(|r| r.id.clone()).unwrap_or_default(),
        at: ashlar_s3::date::format_iso(e.due.at_ms),
        size: e.size,
        locked: e.locked,
    });
    Ok(shape::LifecycleForecast {
        bucket: bucket.name.clone(),
        from: ashlar_s3::date::format_iso(from_ms),
        until: ashlar_s3::date::format_iso(until_ms),
        looked_at: counted.keys,
        locked: counted.locked,
        rules,
        examples: named.collect(),
        after: counted.after,
    })
}

/// Counts what the rules would do.
async fn test(
    node: &Node,
    bucket: &OpenBucket,
    config: &Config,
    order: Order,
) -> Result<shape::LifecycleTest, Error> {
    let at = match &order.at {
        None => now_ms(),
        Some(text) => ashlar_s3::date::parse_iso(text)
            .map(|s| s.saturating_mul(1000))
            .ok_or(Error::InvalidArgument("`at` is a time such as 2030-01-31T00:00:00Z"))?,
    };
    let span = Span { from_ms: at, until_ms: at, examples: 0 };
    let counted = node.lifecycle.test(bucket, config, span, order.after.as_deref()).await?;
    Ok(test_document(bucket, config, at, counted))
}

fn test_document(bucket: &OpenBucket, config: &Config, at: i64, counted: Counted) -> shape::LifecycleTest {
    let rules = config.rules.iter().enumerate().map(|(i, rule)| {
        let h = counted.of_rule(i);
        shape::LifecycleHits {
            id: rule.id.clone(),
            enabled: rule.enabled,
            expire: h.expire,
            remove_versions: h.remove,
            remove_markers: h.markers,
            abort_uploads: h.uploads,
            bytes: h.bytes,
        }
    });
    shape::LifecycleTest {
        bucket: bucket.name.clone(),
        at: ashlar_s3::date::format_iso(at),
        looked_at: counted.keys,
        locked: counted.locked,
        rules: rules.collect(),
        after: counted.after,
    }
}
