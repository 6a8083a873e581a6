//! The history of metrics.

use serde::Serialize;
use utoipa::ToSchema;

/// What was measured, of all nodes together, in steps of equal length. Each list has one value for each step; null: nothing
/// was measured. Rates are per second.
#[derive(Serialize, ToSchema, Default)]
pub struct MetricsHistory {
    /// The beginning of the first step, in milliseconds since 1970.
    pub from_ms: i64,
    /// The length of a step, in seconds.
    pub step_s: u64,
    /// Requests that read.
    pub reads: Vec<Option<f64>>,
    /// Requests that write.
    pub writes: Vec<Option<f64>>,
    pub lists: Vec<Option<f64>>,
    pub deletes: Vec<Option<f64>>,
    /// Other requests.
    pub others: Vec<Option<f64>>,
    /// Answers with a status of 400 to 499.
    pub client_errors: Vec<Option<f64>>,
    /// Answers with a status of 500 and above.
    pub server_errors: Vec<Option<f64>>,
    /// Bytes of the bodies of requests.
    pub bytes_in: Vec<Option<f64>>,
    /// Bytes of the bodies of answers.
    pub bytes_out: Vec<Option<f64>>,
    /// In how many milliseconds half of the requests had the first byte of their answers; null: there were none.
    pub median_ms: Vec<Option<f64>>,
    /// In how many milliseconds 99 of 100 requests had the first byte of their answers; null: there were none.
    pub p99_ms: Vec<Option<f64>>,
    /// Bytes that the drives can hold, without parity.
    pub capacity_bytes: Vec<Option<u64>>,
    /// Bytes of these that are free.
    pub free_bytes: Vec<Option<u64>>,
    /// When the capacity is used up; null: there is less than a day to judge by, or a node did not answer.
    pub forecast: Option<Forecast>,
    /// The nodes of a cluster; null: the server is alone.
    pub nodes: Option<Vec<HistoryNode>>,
}

impl MetricsHistory {
    /// The lists of kinds of requests.
    pub(crate) fn requests(&mut self) -> [&mut Vec<Option<f64>>; 5] {
        [&mut self.reads, &mut self.writes, &mut self.lists, &mut self.deletes, &mut self.others]
    }
}

/// How the use of the capacity grows.
#[derive(Serialize, ToSchema)]
pub struct Forecast {
    /// How much more is used each day, in bytes; negative: less.
    pub bytes_per_day: i64,
    /// How many days this is judged by.
    pub days: f64,
    /// When nothing is free any more if it goes on so, in milliseconds since 1970; null: not within ten years.
    pub full_ms: Option<i64>,
}

/// A node, and its part in the history.
#[derive(Serialize, ToSchema)]
pub struct HistoryNode {
    pub node: u16,
    /// Since when it has measurements, in milliseconds since 1970.
    pub since_ms: Option<i64>,
    /// Why its measurements are missing.
    pub problem: Option<String>,
}
