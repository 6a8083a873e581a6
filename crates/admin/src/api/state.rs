//! The state of the server, its drives and its healing. Sizes are in bytes; names of times have their unit.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The overview of a deployment. In a cluster, space, memory, drives and healing are those of all nodes that answer.
#[derive(Serialize, ToSchema)]
pub struct Info {
    /// Version of the program.
    pub version: &'static str,
    /// Hexadecimal digits.
    pub deployment: String,
    /// Of the process that answers.
    pub uptime_s: u64,
    /// `K+M`.
    pub code: String,
    pub data_shards: u64,
    pub parity_shards: u64,
    /// Drives of a placement group that may be missing for reads.
    pub reads_tolerate: u64,
    /// Drives of a placement group that may be missing for writes.
    pub writes_tolerate: u64,
    pub epoch: u64,
    /// Whether every placement group can serve reads.
    pub readable: bool,
    /// Whether every placement group can serve writes.
    pub writable: bool,
    pub buckets: u64,
    /// The usage of all buckets.
    pub usage: UsageTotal,
    pub capacity: Capacity,
    pub memory: Memory,
    pub control: Control,
    pub drives: Vec<DriveState>,
    pub groups: Vec<PlacementGroup>,
    pub heal: Heal,
    /// The nodes of the cluster; left out if the machine is alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nodes: Option<Vec<NodeInfo>>,
}

/// A node of a cluster.
#[derive(Serialize, ToSchema)]
pub struct NodeInfo {
    pub node: u16,
    /// Whether it runs, as far as the answering node knows.
    pub running: bool,
    /// Whether it is the node that answers.
    pub this: bool,
    /// `HOST:PORT` for messages between nodes.
    pub address: String,
    /// The URL at which it serves S3.
    pub endpoint: String,
    /// The version that it runs, or ran last.
    pub version: String,
    /// Null if it does not answer.
    pub uptime_s: Option<u64>,
    /// When its process started, in milliseconds since 1970. Null if it does not answer.
    pub started_ms: Option<i64>,
    /// Why it does not answer.
    pub problem: Option<String>,
}

/// What a node says about itself when another one asks.
#[derive(Serialize, Deserialize, Default)]
pub struct NodeState {
    pub version: String,
    pub uptime_s: u64,
    /// When the process started, in milliseconds since 1970.
    pub started_ms: i64,
    pub capacity: Capacity,
    pub memory: Memory,
    pub drives: Vec<DriveState>,
    pub heal: HealStatus,
    /// Ids of drives of any node that have missed changes, as this node noted when they were away.
    pub lacking: Vec<String>,
    /// Whether more was missed than this node noted, so that a pass over everything has to find it.
    pub owes_pass: bool,
}

/// Space of all drives, and the usable part of it.
#[derive(Serialize, Deserialize, ToSchema, Default)]
pub struct Capacity {
    /// Bytes of the file systems.
    pub raw: u64,
    /// Bytes free on them.
    pub raw_free: u64,
    /// Bytes without parity.
    pub usable: u64,
    /// Free bytes, without parity.
    pub usable_free: u64,
}

/// The usage of all buckets.
#[derive(Serialize, ToSchema)]
pub struct UsageTotal {
    /// Keys whose current version is not a delete marker.
    pub objects: u64,
    /// Versions, without delete markers.
    pub versions: u64,
    pub delete_markers: u64,
    /// Bytes of all versions, without parity.
    pub bytes: u64,
    /// False after a start, until every bucket has been counted.
    pub complete: bool,
}

/// The usage of a bucket.
#[derive(Serialize, ToSchema)]
pub struct BucketUsage {
    pub bucket: String,
    /// When the bucket was created, in milliseconds since 1970.
    pub created_ms: i64,
    /// Keys whose current version is not a delete marker.
    pub objects: u64,
    /// Versions, without delete markers.
    pub versions: u64,
    pub delete_markers: u64,
    /// Bytes of all versions, without parity.
    pub bytes: u64,
    /// Bytes of the current versions.
    pub current_bytes: u64,
    /// Objects by the size of their current version.
    pub sizes: BTreeMap<String, u64>,
    /// Keys by their number of versions.
    pub version_counts: BTreeMap<String, u64>,
    /// False after a start, until the bucket has been counted.
    pub complete: bool,
    /// Keys with a change whose outcome is unknown.
    pub unsettled: u64,
    /// When it was counted last, in milliseconds since 1970; later changes are included.
    pub counted_ms: Option<i64>,
}

/// The usage of buckets.
#[derive(Serialize, ToSchema)]
pub struct UsageList {
    /// Of all buckets.
    pub total: UsageTotal,
    /// Buckets that exist.
    pub existing: u64,
    /// Buckets whose names match, on this page or not.
    pub matching: u64,
    pub buckets: Vec<BucketUsage>,
}

/// A request in the trace. `micros` = `body_micros` + `drives_micros` + `server_micros` + `answer_micros`.
#[derive(Serialize, ToSchema, Default)]
pub struct TraceEvent {
    /// The node that answered; left out if the machine is alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<u16>,
    /// When it arrived, in milliseconds since 1970.
    pub time_ms: i64,
    /// `s3` or `sts`; `cluster`: not a request, but what is wrong with a node, in `error`.
    pub kind: String,
    pub request_id: String,
    pub operation: String,
    pub method: String,
    pub path: String,
    /// The query, without the signature.
    pub query: String,
    /// Address and port.
    pub client: String,
    pub user_agent: String,
    pub access_key: String,
    pub status: u16,
    /// The error code of the answer.
    pub error: String,
    pub bytes_in: u64,
    pub bytes_out: u64,
    /// Time from the request head to the end of the answer.
    pub micros: u64,
    /// Time to the head of the answer.
    pub first_byte_micros: u64,
    /// The part of it spent waiting for the request body.
    pub body_micros: u64,
    /// The part of it spent waiting for drives.
    pub drives_micros: u64,
    /// The rest of it.
    pub server_micros: u64,
    /// Time to send the body of the answer.
    pub answer_micros: u64,
    /// Whether the answer was not sent completely.
    pub cut: bool,
}

/// A line of the server's log.
#[derive(Serialize, Deserialize, ToSchema)]
pub struct LogLine {
    /// The node that logged it; left out if the machine is alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<u16>,
    /// Milliseconds since 1970.
    pub time_ms: i64,
    /// `error`, `warn` or `info`.
    pub level: String,
    /// The module that logged it.
    pub target: String,
    pub message: String,
}

/// Totals of operations, and requests in progress.
#[derive(Serialize, Deserialize, ToSchema, Default)]
pub struct Top {
    pub uptime_s: u64,
    /// Number of requests in progress.
    pub inflight: u64,
    pub operations: Vec<OperationTotals>,
    pub running: Vec<RunningRequests>,
    /// The nodes whose requests these are, and those that do not answer; left out if the machine is alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nodes: Option<Vec<NodeRequests>>,
}

/// The requests in progress at a node.
#[derive(Serialize, Deserialize, ToSchema)]
pub struct NodeRequests {
    pub node: u16,
    /// Null if it does not answer.
    pub uptime_s: Option<u64>,
    pub inflight: Option<u64>,
    /// Why it does not answer.
    pub problem: Option<String>,
}

/// Totals of an operation since the start.
#[derive(Serialize, Deserialize, ToSchema)]
pub struct OperationTotals {
    pub operation: String,
    pub calls: u64,
    /// Answers with a status of 4xx.
    pub client_errors: u64,
    /// Answers with a status of 5xx.
    pub server_errors: u64,
    /// Time until the head of the answer.
    pub mean_micros: u64,
    pub bytes_in: u64,
    pub bytes_out: u64,
}

/// Requests in progress in a bucket.
#[derive(Serialize, Deserialize, ToSchema)]
pub struct RunningRequests {
    pub bucket: String,
    pub operation: String,
    pub count: u64,
}

/// Memory for buffers.
#[derive(Serialize, Deserialize, ToSchema, Default)]
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
    /// How many drives may still fail.
    pub spare: i64,
}

/// A drive. Unknown fields of an unavailable drive are left out.
#[derive(Serialize, Deserialize, ToSchema, Default)]
pub struct DriveState {
    /// The node that has it; left out if the machine is alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<u16>,
    pub path: String,
    /// Hexadecimal digits.
    pub id: String,
    /// `online`, `joining`, `read-only`, `fenced`, `offline` or `held`; `unknown` if its node does not answer.
    pub state: String,
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
    /// Mean duration of a group commit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commit_ms: Option<f64>,
    pub rebuild: Option<Rebuild>,
}

/// The progress of rebuilding a drive.
#[derive(Serialize, Deserialize, ToSchema, Clone)]
pub struct Rebuild {
    /// The node that fills it; left out if the machine is alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<u16>,
    pub drive: String,
    /// `waiting`, `records`, `shards` or `done`.
    pub phase: String,
    pub registers: u64,
    pub looked: u64,
    pub copied: u64,
    pub shards: u64,
    pub bytes: u64,
    pub missing: u64,
    /// Registers per second.
    pub rate: f64,
    /// Estimated seconds to the end, by bytes.
    pub eta_s: Option<u64>,
    pub why: Option<String>,
    /// Live bytes on the drive.
    pub done_bytes: u64,
    /// Expected live bytes after the rebuild, estimated from other drives.
    pub total_bytes: u64,
    /// Milliseconds since 1970.
    pub began_ms: u64,
    pub ended_ms: Option<u64>,
}

/// Healing since the start.
#[derive(Serialize, Deserialize, ToSchema, Default)]
pub struct Heal {
    pub queued: u64,
    pub looked: u64,
    pub records: u64,
    pub shards: u64,
    pub lost: u64,
    pub rebuilds: Vec<Rebuild>,
    /// Completed rebuilds since the start, the latest last; at most 32.
    pub rebuilt: Vec<Rebuild>,
    /// The last scrub, with or without reading data.
    pub last_scrub: Option<Scrub>,
    /// The last scrub that read and verified all data, of the placement groups that the node scrubs, also before its start;
    /// null until each of them has had one. `began_ms` is of the group whose scrub began first, `took_ms` the sum; shards
    /// and orphans are those of the last search for orphans since the start.
    pub last_full_scrub: Option<Scrub>,
}

/// Healing, and whether a scrub runs.
#[derive(Serialize, Deserialize, ToSchema, Default)]
pub struct HealStatus {
    #[serde(flatten)]
    pub heal: Heal,
    pub running: bool,
    /// Damage found since the start, the latest last; at most 256.
    pub damages: Vec<Damage>,
    /// In force on the node that answers. Another node may run a release that does not say.
    #[serde(default)]
    pub limits: HealLimits,
}

/// The limits of healing, rebuild and scrub on a node.
#[derive(Serialize, Deserialize, ToSchema, Default)]
pub struct HealLimits {
    /// Bytes per second that it writes at most for healing and rebuild; 0: no limit.
    pub max_rate: u64,
    /// Bytes per second that it reads at most for scrubs; 0: no limit.
    pub scrub_max_rate: u64,
    /// Percent of the time that a task of this work takes while clients' requests are in flight.
    pub busy_share: u8,
}

/// The limits of healing, rebuild and scrub, and where they come from.
#[derive(Serialize, ToSchema)]
pub struct StoredHealLimits {
    #[serde(flatten)]
    pub limits: HealLimits,
    /// Those that an administrator stored for all nodes, by name; the others are options of the node that answers.
    pub stored: Vec<String>,
}

/// Detected damage.
#[derive(Serialize, Deserialize, ToSchema)]
pub struct Damage {
    /// The node that found it; left out if the machine is alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<u16>,
    /// Milliseconds since 1970.
    pub at_ms: u64,
    /// Id of the drive, and its path.
    pub drive: String,
    pub path: String,
    /// Name of the bucket, or its id if it was deleted or is internal.
    pub bucket: String,
    pub key: String,
    /// The damaged part: the record, or which shard.
    pub what: String,
    pub repaired: bool,
}

/// The last scrub.
#[derive(Serialize, Deserialize, ToSchema)]
pub struct Scrub {
    /// The node that did it; left out if the machine is alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<u16>,
    /// Whether all data was read and verified.
    pub deep: bool,
    /// Milliseconds since 1970.
    pub began_ms: u64,
    pub took_ms: u64,
    /// Number of damaged records and shards.
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

/// A started scrub.
#[derive(Serialize, ToSchema)]
pub struct HealStarted {
    pub started: bool,
    pub deep: bool,
}

/// The last recovery from distrusted drives.
#[derive(Serialize, ToSchema, Clone, Default)]
pub struct Recovery {
    /// `running`, `done` or `failed`; empty if there was none since the start.
    pub state: &'static str,
    pub dry_run: bool,
    pub why: Option<String>,
    /// Records processed.
    pub registers: u64,
    /// Copies made on drives with older records.
    pub copied: u64,
    /// Records that may not be the newest; `named` may be shorter.
    pub uncertain: u64,
    /// Drives that have their votes back.
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
    /// Whether a record was kept.
    pub kept: bool,
    pub shown: Vec<Shown>,
}

/// What one drive has of a record.
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

/// The bearer token for metrics.
#[derive(Serialize, ToSchema)]
pub struct MetricsToken {
    pub token: String,
}

/// Quota and usage of a bucket.
#[derive(Serialize, ToSchema)]
pub struct BucketQuota {
    pub bucket: String,
    /// Bytes; null means no quota.
    pub quota: Option<u64>,
    pub bytes: Option<u64>,
    pub versions: Option<u64>,
}

/// The last pass of lifecycle rules through a bucket.
#[derive(Serialize, ToSchema)]
pub struct LifecycleStatus {
    pub bucket: String,
    /// Number of rules.
    pub rules: u64,
    /// When the pass began; null if there was none yet.
    pub began: Option<String>,
    /// When it ended; null if it runs.
    pub ended: Option<String>,
    pub running: bool,
    /// Keys and uploads examined.
    pub looked_at: u64,
    /// Current versions that expired.
    pub expired: u64,
    pub removed_versions: u64,
    pub removed_markers: u64,
    pub aborted_uploads: u64,
    /// Versions kept because they are locked.
    pub locked: u64,
    /// Keys postponed to a later pass.
    pub failed: u64,
}

/// The result of a dry run of lifecycle rules.
#[derive(Serialize, ToSchema)]
pub struct LifecycleTest {
    pub bucket: String,
    /// The time at which the rules were evaluated.
    pub at: String,
    pub looked_at: u64,
    /// Versions that are due and locked.
    pub locked: u64,
    pub rules: Vec<LifecycleHits>,
    /// Where to continue, if there is more to count.
    pub after: Option<String>,
}

/// What lifecycle rules will do until a time, if nothing in the bucket changes.
#[derive(Serialize, ToSchema)]
pub struct LifecycleForecast {
    pub bucket: String,
    /// The time at which it was made. What is due already is of this day.
    pub from: String,
    /// Until when rules were evaluated.
    pub until: String,
    /// Keys and uploads examined.
    pub looked_at: u64,
    /// Versions that become due and are locked now: they stay for as long as they are locked.
    pub locked: u64,
    pub rules: Vec<LifecycleRuleForecast>,
    /// Versions that become due, the earliest first; at most as many as were asked for, of those that were examined first.
    pub examples: Vec<LifecycleExample>,
    /// Where to continue, if there is more to examine.
    pub after: Option<String>,
}

/// What one rule will do; a version that several rules match counts for the earliest.
#[derive(Serialize, ToSchema)]
pub struct LifecycleRuleForecast {
    pub id: String,
    pub enabled: bool,
    /// The days on which it does something, in order.
    pub days: Vec<LifecycleDay>,
}

/// What a rule will do on a day.
#[derive(Serialize, ToSchema)]
pub struct LifecycleDay {
    /// `2030-01-31`, of UTC.
    pub date: String,
    /// Current versions that expire.
    pub expire: u64,
    pub remove_versions: u64,
    pub remove_markers: u64,
    pub abort_uploads: u64,
    /// Bytes of all these versions.
    pub bytes: u64,
}

/// A version that becomes due.
#[derive(Serialize, ToSchema)]
pub struct LifecycleExample {
    pub key: String,
    /// `null` is the version that was made without versioning.
    pub version_id: String,
    /// `expire`: the current version expires; `remove`: an older one is removed; `remove-marker`: a delete marker that hides
    /// nothing is removed.
    pub action: &'static str,
    /// The id of the rule.
    pub rule: String,
    pub at: String,
    pub size: u64,
    /// Whether it is locked now.
    pub locked: bool,
}

/// What one rule would do; a version that several rules match counts for the earliest.
#[derive(Serialize, ToSchema)]
pub struct LifecycleHits {
    pub id: String,
    pub enabled: bool,
    /// Current versions that would expire.
    pub expire: u64,
    pub remove_versions: u64,
    pub remove_markers: u64,
    pub abort_uploads: u64,
    /// Bytes of all these versions.
    pub bytes: u64,
}

/// The audit record of a request. Empty fields are left out; see docs/audit.md.
#[derive(Serialize, Deserialize, ToSchema)]
pub struct RequestRecord {
    /// The node that answered the request; left out if the machine is alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<u16>,
    /// `2026-11-21T18:43:11.123Z`.
    pub time: String,
    pub request_id: String,
    /// `s3`, `sts` or `admin`.
    pub api: String,
    pub operation: String,
    pub method: String,
    pub status: u16,
    pub ip: String,
    pub tls: bool,
    pub bytes_in: u64,
    pub bytes_out: u64,
    pub micros: u64,
    /// Further fields: the resource, the caller, the decision.
    #[serde(flatten)]
    pub more: BTreeMap<String, serde_json::Value>,
}

/// The result of a request to end the process.
#[derive(Serialize, ToSchema)]
pub struct Ending {
    /// False for a dry run.
    pub ending: bool,
    /// Whether the same program starts again.
    pub restart: bool,
}

/// An error.
#[derive(Serialize, ToSchema)]
pub struct Problem {
    /// What happened, and what to do about it.
    pub error: String,
    /// The error code, for programs.
    pub code: String,
}

/// An event target.
#[derive(Serialize, ToSchema)]
pub struct EventTarget {
    /// `ID:TYPE`.
    pub id: String,
    pub arn: String,
    /// Whether the last attempt to send succeeded; true if nothing was sent yet.
    pub online: bool,
    pub problem: Option<String>,
    /// Counts since the start.
    pub sent: u64,
    pub failed: u64,
    pub dead: u64,
    pub lost: u64,
    /// Number of waiting changes of all buckets.
    pub lag: u64,
}

/// All event targets.
#[derive(Serialize, ToSchema)]
pub struct EventTargetList {
    pub targets: Vec<EventTarget>,
}

/// The event of a dead letter.
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
    /// The event; null if events were lost.
    pub event: Option<DeadEvent>,
    /// Number of lost events.
    pub lost: u64,
}

/// The oldest dead letters.
#[derive(Serialize, ToSchema)]
pub struct DeadLetterList {
    pub letters: Vec<DeadLetter>,
}

/// Number of affected dead letters.
#[derive(Serialize, ToSchema)]
pub struct DeadLetterCount {
    pub count: usize,
}

/// What became of a test event.
#[derive(Serialize, ToSchema)]
pub struct EventTest {
    /// `ID:TYPE`.
    pub target: String,
    /// Whether the target has acknowledged it.
    pub accepted: bool,
    /// Why not.
    pub problem: Option<String>,
    pub took_ms: u64,
}
