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
