//! What nodes exchange that follow each other: see `follow` and `followers`.
//!
//! Must not depend on: how nodes are asked, where lines come from.

use std::time::Duration;

use ashlar_s3::trace::Event;
use serde::{Deserialize, Serialize};

/// What is followed.
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug)]
#[serde(deny_unknown_fields, rename_all = "snake_case")]
pub enum Followed {
    /// Requests.
    Trace {
        /// Which of them.
        filter: TraceFilter,
        /// Whether lines are MinIO's.
        minio: bool,
    },
    /// Lines of the log.
    Logs {
        /// How many of the last lines come first.
        last: usize,
        /// The rank of the least important level: see `monitor::LEVELS`.
        level: usize,
    },
    /// Lines of the log in MinIO's form.
    MinioLogs {
        /// How many of the last lines come first.
        last: usize,
        /// Which of them.
        kind: String,
    },
    /// Events of buckets.
    Events {
        /// The bucket; empty: all.
        bucket: String,
        /// Keys begin so.
        prefix: String,
        /// Keys end so.
        suffix: String,
        /// Which events.
        events: Vec<String>,
    },
}

/// What is answered in a turn.
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug, Default)]
#[serde(deny_unknown_fields)]
pub struct Turn {
    /// Whether the session began now: what happened before is not in it.
    pub began: bool,
    /// Whether there is more already.
    pub more: bool,
    /// What was dropped.
    pub lost: u64,
    /// Lines, each with its end.
    pub lines: String,
}

/// A filter of the trace.
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug, Default)]
#[serde(deny_unknown_fields)]
pub struct TraceFilter {
    /// Only answers with a status of 400 and above.
    pub errors: bool,
    /// Only requests that took at least this long.
    pub slower: Duration,
    /// Only this operation.
    pub operation: Option<String>,
    /// Only paths that begin with this.
    pub path: Option<String>,
}

impl TraceFilter {
    /// Whether the filter matches a request.
    pub(crate) fn matches(&self, e: &Event) -> bool {
        let within = |path: &String| {
            e.path.strip_prefix(path.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        (!self.errors || e.status >= 400)
            && e.took >= self.slower
            && self.operation.as_ref().is_none_or(|o| o.eq_ignore_ascii_case(e.operation))
            && self.path.as_ref().is_none_or(within)
    }
}
