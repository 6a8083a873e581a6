//! The state of the server, its drives and its healing. Sizes are in bytes, times as their names say.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Everything an operator wants to see first.
#[derive(Serialize, ToSchema)]
pub struct Info {
    /// Of the program.
    pub version: &'static str,
    /// Hexadecimal digits.
    pub deployment: String,
    pub uptime_s: u64,
    /// `K+M`.
    pub code: String,
    pub data_shards: u64,
    pub parity_shards: u64,
    /// Drives of a placement group that may be missing while complete objects are still read.
    pub reads_tolerate: u64,
    /// Drives of a placement group that may be missing while writes are still taken.
    pub writes_tolerate: u64,
    pub epoch: u64,
    /// Every placement group can be read.
    pub readable: bool,
    /// Every placement group takes writes.
    pub writable: bool,
    pub buckets: u64,
    /// What all buckets hold.
    pub usage: UsageTotal,
    pub capacity: Capacity,
    pub memory: Memory,
    pub control: Control,
    pub drives: Vec<DriveState>,
    pub groups: Vec<PlacementGroup>,
    pub heal: Heal,
}

/// Space of all drives, and what of it objects can have.
#[derive(Serialize, ToSchema)]
pub struct Capacity {
    pub raw: u64,
    pub raw_free: u64,
    pub usable: u64,
    pub usable_free: u64,
}

/// What all buckets hold.
#[derive(Serialize, ToSchema)]
pub struct UsageTotal {
    /// Keys whose current version is no delete marker.
    pub objects: u64,
    /// Without delete markers.
    pub versions: u64,
    pub delete_markers: u64,
    /// Of all versions, as clients see them: without parity.
    pub bytes: u64,
    /// False after a start, until every bucket has been counted.
    pub complete: bool,
}

/// What a bucket holds.
#[derive(Serialize, ToSchema)]
pub struct BucketUsage {
    pub bucket: String,
    /// Keys whose current version is no delete marker.
    pub objects: u64,
    /// Without delete markers.
    pub versions: u64,
    pub delete_markers: u64,
    /// Of all versions, as clients see them: without parity.
    pub bytes: u64,
    /// Of the current versions.
    pub current_bytes: u64,
    /// Objects by the size of their current version.
    pub sizes: BTreeMap<String, u64>,
    /// Keys by their number of versions.
    pub version_counts: BTreeMap<String, u64>,
    /// False after a start, until the bucket has been counted.
    pub complete: bool,
    /// Keys with a change whose outcome is not known yet.
    pub unsettled: u64,
    /// When it was counted last, in milliseconds since 1970; changes since are added.
    pub counted_ms: Option<i64>,
}

/// What buckets hold.
#[derive(Serialize, ToSchema)]
pub struct UsageList {
    pub total: UsageTotal,
    pub buckets: Vec<BucketUsage>,
}

/// One request of the trace. `micros` = `body_micros` + `drives_micros` + `server_micros` + `answer_micros`.
#[derive(Serialize, ToSchema)]
pub struct TraceEvent {
    /// When it came, in milliseconds since 1970.
    pub time_ms: i64,
    /// `s3` or `sts`.
    pub kind: String,
    pub request_id: String,
    pub operation: String,
    pub method: String,
    pub path: String,
    /// Without what signs it.
    pub query: String,
    /// Address and port.
    pub client: String,
    pub user_agent: String,
    pub access_key: String,
    pub status: u16,
    /// The code of the error that was answered.
    pub error: String,
    pub bytes_in: u64,
    pub bytes_out: u64,
    /// From the head of the request to the end of the answer.
    pub micros: u64,
    /// To the head of the answer.
    pub first_byte_micros: u64,
    /// Of that, waiting for the client to send the body.
    pub body_micros: u64,
    /// Of that, waiting for the drives.
    pub drives_micros: u64,
    /// The rest of that.
    pub server_micros: u64,
    /// Sending the answer's body.
    pub answer_micros: u64,
    /// The answer was not sent to its end.
    pub cut: bool,
}

/// A line of the server's log.
#[derive(Serialize, ToSchema)]
pub struct LogLine {
    /// Milliseconds since 1970.
    pub time_ms: i64,
    /// `error`, `warn` or `info`.
    pub level: String,
    /// The part of the program.
    pub target: String,
    pub message: String,
}

/// What operations have done, and what runs.
#[derive(Serialize, ToSchema)]
pub struct Top {
    pub uptime_s: u64,
    /// Requests that run.
    pub inflight: u64,
    pub operations: Vec<OperationTotals>,
    pub running: Vec<RunningRequests>,
}

/// What an operation has done since the start.
#[derive(Serialize, ToSchema)]
pub struct OperationTotals {
    pub operation: String,
    pub calls: u64,
    /// Answers with a status of 4xx.
    pub client_errors: u64,
    /// Answers with a status of 5xx.
    pub server_errors: u64,
    /// Until the head of the answer.
    pub mean_micros: u64,
    pub bytes_in: u64,
    pub bytes_out: u64,
}

/// Requests that run in a bucket.
#[derive(Serialize, ToSchema)]
pub struct RunningRequests {
    pub bucket: String,
    pub operation: String,
    pub count: u64,
}

/// Memory of buffers.
#[derive(Serialize, ToSchema)]
pub struct Memory {
    pub buffers: u64,
    pub idle: u64,
    pub ceiling: u64,
}

/// The control store.
#[derive(Serialize, ToSchema)]
pub struct Control {
    pub members: u64,
    pub current: u64,
    pub writable: bool,
    pub revision: u64,
}

/// One placement group.
#[derive(Serialize, ToSchema)]
pub struct PlacementGroup {
    pub group: u64,
    pub slots: u64,
    pub voters: u64,
    pub joining: u64,
    pub readable: bool,
    pub writable: bool,
    /// Drives that may still fail.
    pub spare: i64,
}

/// One drive. What is not known of a drive that is away is left out.
#[derive(Serialize, ToSchema, Default)]
pub struct DriveState {
    pub path: String,
    /// Hexadecimal digits.
    pub id: String,
    /// `online`, `joining`, `read-only`, `fenced`, `offline` or `held`.
    pub state: &'static str,
    pub problem: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capacity: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub used: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub free: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_errors: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reads: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub writes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub syncs: Option<u64>,
    /// Mean time of a group commit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commit_ms: Option<f64>,
    pub rebuild: Option<Rebuild>,
}

/// How far a drive is rebuilt.
#[derive(Serialize, ToSchema)]
pub struct Rebuild {
    pub drive: String,
    /// `waiting`, `records`, `shards` or `done`.
    pub phase: &'static str,
    pub registers: u64,
    pub looked: u64,
    pub copied: u64,
    pub shards: u64,
    pub bytes: u64,
    pub missing: u64,
    /// Registers per second.
    pub rate: f64,
    /// Seconds to the end, by bytes.
    pub eta_s: Option<u64>,
    pub why: Option<String>,
    /// Live bytes on the drive.
    pub done_bytes: u64,
    /// Live bytes it will have, as far as its neighbours tell.
    pub total_bytes: u64,
    /// Milliseconds since 1970.
    pub began_ms: u64,
    pub ended_ms: Option<u64>,
}

/// Healing since the start.
#[derive(Serialize, ToSchema)]
pub struct Heal {
    pub queued: u64,
    pub looked: u64,
    pub records: u64,
    pub shards: u64,
    pub lost: u64,
    pub rebuilds: Vec<Rebuild>,
    /// Rebuilds that were done since the start, the latest last; at most 32.
    pub rebuilt: Vec<Rebuild>,
    /// The last pass over everything, whether it read everything or only looked.
    pub last_scrub: Option<Scrub>,
    /// The last pass that read and verified everything.
    pub last_full_scrub: Option<Scrub>,
}

/// Healing, and whether a pass over everything runs.
#[derive(Serialize, ToSchema)]
pub struct HealStatus {
    #[serde(flatten)]
    pub heal: Heal,
    pub running: bool,
    /// Damage found since the start, the latest last; at most 256.
    pub damages: Vec<Damage>,
}

/// Damage that was found.
#[derive(Serialize, ToSchema)]
pub struct Damage {
    /// Milliseconds since 1970.
    pub at_ms: u64,
    /// Id of the drive, and its path.
    pub drive: String,
    pub path: String,
    /// Name of the bucket, or its id when it is gone or internal.
    pub bucket: String,
    pub key: String,
    /// The record or which shard.
    pub what: String,
    pub repaired: bool,
}

/// The last pass over everything.
#[derive(Serialize, ToSchema)]
pub struct Scrub {
    /// Everything was read and verified.
    pub deep: bool,
    /// Milliseconds since 1970.
    pub began_ms: u64,
    pub took_ms: u64,
    /// Finds of damage.
    pub damaged: u64,
    pub registers: u64,
    pub shards: u64,
    pub orphans: u64,
    pub dropped: u64,
    pub healed_records: u64,
    pub healed_shards: u64,
    pub missing: u64,
    pub lost: u64,
    pub bytes: u64,
}

/// A pass was started.
#[derive(Serialize, ToSchema)]
pub struct HealStarted {
    pub started: bool,
    pub deep: bool,
}

/// The last recovery from distrusted drives.
#[derive(Serialize, ToSchema, Clone, Default)]
pub struct Recovery {
    /// `running`, `done`, `failed`, or nothing when there was none since the start.
    pub state: &'static str,
    pub dry_run: bool,
    pub why: Option<String>,
    /// Records gone through.
    pub registers: u64,
    /// Copies made on drives that showed less.
    pub copied: u64,
    /// Records of which it is not known that what was kept is the newest; `named` may be shorter.
    pub uncertain: u64,
    /// Drives that vote again.
    pub drives: Vec<String>,
    pub named: Vec<UncertainKey>,
}

/// A record that may not be the newest.
#[derive(Serialize, ToSchema, Clone)]
pub struct UncertainKey {
    pub bucket: String,
    pub key: String,
    /// `object`, `upload` or `part`.
    pub kind: &'static str,
    /// Some record was kept.
    pub kept: bool,
    pub shown: Vec<Shown>,
}

/// What one drive shows of a record.
#[derive(Serialize, ToSchema, Clone)]
pub struct Shown {
    pub drive: String,
    pub path: String,
    /// `what is kept`, `another record`, `nothing` or `damage`.
    pub shows: &'static str,
}

/// All drives.
#[derive(Serialize, ToSchema)]
pub struct DriveList {
    pub drives: Vec<DriveState>,
}

/// The bearer token that metrics are read with.
#[derive(Serialize, ToSchema)]
pub struct MetricsToken {
    pub token: String,
}

/// What a bucket may hold, and holds.
#[derive(Serialize, ToSchema)]
pub struct BucketQuota {
    pub bucket: String,
    /// Bytes; null: no limit.
    pub quota: Option<u64>,
    pub bytes: Option<u64>,
    pub versions: Option<u64>,
}

/// The last pass through a bucket that has lifecycle rules.
#[derive(Serialize, ToSchema)]
pub struct LifecycleStatus {
    pub bucket: String,
    /// How many rules there are.
    pub rules: u64,
    /// When the pass began; null: there was none yet.
    pub began: Option<String>,
    /// When it ended; null: it has not.
    pub ended: Option<String>,
    pub running: bool,
    /// Keys and uploads.
    pub looked_at: u64,
    /// Current versions that expired.
    pub expired: u64,
    pub removed_versions: u64,
    pub removed_markers: u64,
    pub aborted_uploads: u64,
    /// Versions left because they are locked.
    pub locked: u64,
    /// Keys left for a later pass.
    pub failed: u64,
}

/// What lifecycle rules would do.
#[derive(Serialize, ToSchema)]
pub struct LifecycleTest {
    pub bucket: String,
    /// The time that it was counted for.
    pub at: String,
    pub looked_at: u64,
    /// Versions that are due and locked.
    pub locked: u64,
    pub rules: Vec<LifecycleHits>,
    /// There is more to count: where to go on.
    pub after: Option<String>,
}

/// What one rule would do; what several rules hit counts for the one that hits first.
#[derive(Serialize, ToSchema)]
pub struct LifecycleHits {
    pub id: String,
    pub enabled: bool,
    /// Current versions that would expire.
    pub expire: u64,
    pub remove_versions: u64,
    pub remove_markers: u64,
    pub abort_uploads: u64,
    /// Of all these versions.
    pub bytes: u64,
}

/// What is known of a request. Empty fields are left out; see docs/audit.md.
#[derive(Serialize, Deserialize, ToSchema)]
pub struct RequestRecord {
    /// `2026-11-21T18:43:11.123Z`.
    pub time: String,
    pub request_id: String,
    /// `s3`, `sts` or `admin`.
    pub door: String,
    pub operation: String,
    pub method: String,
    pub status: u16,
    pub ip: String,
    pub tls: bool,
    pub bytes_in: u64,
    pub bytes_out: u64,
    pub micros: u64,
    /// What was done to whom, who asked, and what decided.
    #[serde(flatten)]
    pub more: BTreeMap<String, serde_json::Value>,
}

/// The process ends, or would.
#[derive(Serialize, ToSchema)]
pub struct Ending {
    /// False: it was only asked whether it would.
    pub ending: bool,
    /// The same program starts in its place.
    pub restart: bool,
}

/// Something was not done.
#[derive(Serialize, ToSchema)]
pub struct Problem {
    /// What, and what to do.
    pub error: String,
    /// A word for programs.
    pub code: String,
}

/// Where events are sent.
#[derive(Serialize, ToSchema)]
pub struct EventTarget {
    /// `ID:TYPE`.
    pub id: String,
    pub arn: String,
    /// The last attempt to send succeeded, or nothing was sent yet.
    pub online: bool,
    pub problem: Option<String>,
    /// Since the start, as the other counts.
    pub sent: u64,
    pub failed: u64,
    pub dead: u64,
    pub lost: u64,
    /// Changes of all buckets that wait.
    pub lag: u64,
}

/// Where events are sent.
#[derive(Serialize, ToSchema)]
pub struct EventTargetList {
    pub targets: Vec<EventTarget>,
}

/// What a dead letter is about.
#[derive(Serialize, ToSchema)]
pub struct DeadEvent {
    pub name: &'static str,
    /// Milliseconds since 1970.
    pub time_ms: i64,
    pub position: u64,
    pub bucket: String,
    pub key: String,
    pub version: Option<String>,
}

/// An event that was not delivered.
#[derive(Serialize, ToSchema)]
pub struct DeadLetter {
    pub id: String,
    pub target: String,
    /// Milliseconds since 1970.
    pub at_ms: i64,
    pub why: String,
    /// Nothing, where events were lost.
    pub event: Option<DeadEvent>,
    /// How many were lost.
    pub lost: u64,
}

/// The oldest dead letters.
#[derive(Serialize, ToSchema)]
pub struct DeadLetterList {
    pub letters: Vec<DeadLetter>,
}

/// How many letters it was about.
#[derive(Serialize, ToSchema)]
pub struct DeadLetterCount {
    pub count: usize,
}
