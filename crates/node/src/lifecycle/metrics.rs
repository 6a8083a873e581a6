//! The metrics of lifecycle rules.
//!
//! Must not depend on: how rules are carried out.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use ashlar_lifecycle::{Config, DOCUMENT};
use ashlar_metrics::{self as metrics, Group, Page};
use ashlar_object::OpenBucket;

use super::Lifecycle;
use crate::clock::now_ms;

impl Lifecycle {
    /// Adds the metrics of lifecycle rules to a page.
    pub fn render(&self, page: &mut Page) {
        let t = &self.totals;
        let last = t.last_ended_ms.load(Relaxed) as f64 / 1000.0;
        let all: [(&str, metrics::Kind, &'static str, f64); 10] = [
            (
                "expired_current_total",
                metrics::Kind::Counter,
                "Current versions that expired.",
                load(&t.current),
            ),
            (
                "expired_versions_total",
                metrics::Kind::Counter,
                "Noncurrent versions removed.",
                load(&t.versions),
            ),
            ("removed_markers_total", metrics::Kind::Counter, "Delete markers removed.", load(&t.markers)),
            ("aborted_uploads_total", metrics::Kind::Counter, "Uploads aborted.", load(&t.uploads)),
            (
                "locked_total",
                metrics::Kind::Counter,
                "Versions kept because they are locked.",
                load(&t.locked),
            ),
            ("failed_total", metrics::Kind::Counter, "Keys postponed to a later pass.", load(&t.failed)),
            ("keys_total", metrics::Kind::Counter, "Keys and uploads examined.", load(&t.keys)),
            ("passes_total", metrics::Kind::Counter, "Passes ended.", load(&t.passes)),
            ("last_pass_timestamp_seconds", metrics::Kind::Gauge, "When the last pass ended.", last),
            (
                "behind_seconds",
                metrics::Kind::Gauge,
                "How long the oldest due pass has been waiting or running.",
                self.behind_ms() as f64 / 1000.0,
            ),
        ];
        for (name, kind, help, value) in all {
            page.family(Group::Node, kind, &format!("ashlar_lifecycle_{name}"), help).add(&[], value);
        }
        let node = Group::Node;
        let removed = load(&t.current) + load(&t.versions) + load(&t.markers);
        page.value(
            node,
            "minio_node_ilm_expiry_pending_tasks",
            "Buckets whose pass is due or runs.",
            self.due(),
        );
        page.value(
            node,
            "minio_node_ilm_expiry_active_tasks",
            "Buckets whose rules are carried out now.",
            self.active(),
        );
        page.value(
            node,
            "minio_node_ilm_transition_pending_tasks",
            "Transitions that wait; there are none.",
            0,
        );
        page.value(
            node,
            "minio_node_ilm_transition_active_tasks",
            "Transitions that run; there are none.",
            0,
        );
        page.count(node, "minio_node_ilm_versions_scanned", "Keys and uploads examined.", load(&t.keys));
        page.count(node, "ashlar_lifecycle_removed_total", "Versions and markers that expired.", removed);
    }

    /// Counts since the start: keys examined, versions and markers that expired, passes.
    pub fn done(&self) -> [f64; 3] {
        let t = &self.totals;
        [load(&t.keys), load(&t.current) + load(&t.versions) + load(&t.markers), load(&t.passes)]
    }

    /// How long the oldest due pass has been waiting or running, in milliseconds.
    fn behind_ms(&self) -> i64 {
        self.late().into_iter().max().unwrap_or(0)
    }

    /// Number of buckets whose pass is due or runs.
    fn due(&self) -> usize {
        self.late().into_iter().filter(|ms| *ms > 0).count()
    }

    /// Number of buckets whose pass runs.
    fn active(&self) -> usize {
        let passes = self.passes.lock();
        passes.values().filter(|p| p.record.began_ms > 0 && p.record.ended_ms.is_none()).count()
    }

    /// For each bucket with rules: how long its pass has been waiting or running, in milliseconds.
    fn late(&self) -> Vec<i64> {
        let now = now_ms();
        let midnight = self.calendar.midnight(now);
        let passes = self.passes.lock();
        let late = |bucket: &OpenBucket| {
            let text = bucket.documents.get(DOCUMENT)?;
            let done = passes
                .get(&bucket.id)
                .is_some_and(|p| p.record.ended_ms.is_some() && p.record.began_ms >= midnight);
            let since = || midnight.max(Config::decode(text).map_or(0, |c| c.set_ms));
            Some(if done { 0 } else { (now - since()).max(0) })
        };
        self.store.buckets().iter().filter_map(late).collect()
    }
}

fn load(n: &AtomicU64) -> f64 {
    n.load(Relaxed) as f64
}
