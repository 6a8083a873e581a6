//! Where the shards of an object are.
//!
//! Must not depend on: how that is found out.

use serde::Serialize;
use utoipa::ToSchema;

/// Where the shards of a version are.
#[derive(Serialize, ToSchema)]
pub struct ObjectPlacement {
    pub bucket: String,
    pub key: String,
    /// `null` is the version that was made without versioning.
    pub version_id: String,
    pub size: u64,
    /// The number of the placement group.
    pub group: u64,
    pub encrypted: bool,
    /// Whether every byte was read and compared with its hash. Otherwise the drives only looked whether they have the
    /// shards.
    pub verified: bool,
    /// When that was, RFC 3339.
    pub at: String,
    /// How many more shards may be lost before a part of this answer cannot be read; negative: one cannot be read now. Null
    /// if there are no bytes.
    pub spare: Option<i64>,
    pub part_count: u64,
    pub parts: Vec<PartPlacement>,
    /// The number of the next part, if there are more.
    pub next_part: Option<u16>,
}

/// Where the shards of a part are: of the body of a simple upload, or a part of a multipart upload.
#[derive(Serialize, ToSchema)]
pub struct PartPlacement {
    pub number: u16,
    pub size: u64,
    /// As many shards are needed to read the part.
    pub data_shards: u8,
    pub parity_shards: u8,
    /// Bytes of each shard.
    pub shard_size: u64,
    /// Whether the shards are in the journals of the drives, as those of small bodies are.
    pub inline: bool,
    pub shards: Vec<ShardPlacement>,
}

/// A shard and its drive.
#[derive(Serialize, ToSchema)]
pub struct ShardPlacement {
    pub shard: u8,
    /// `data` or `parity`.
    pub kind: &'static str,
    /// The drive's id, hexadecimal digits.
    pub drive: String,
    /// The node that has the drive; null if the machine is alone, or the node is not known.
    pub node: Option<u16>,
    /// The drive's path; empty if it is not known.
    pub path: String,
    /// As in the list of drives.
    pub drive_state: String,
    /// `good`, `missing`, `damaged`, or `unknown` if the drive does not answer.
    pub state: &'static str,
    pub problem: Option<String>,
    /// About when a full scrub verified it last, milliseconds since 1970; null if none did since it was written, or none is known.
    pub scrubbed_ms: Option<i64>,
}

/// What was made again of a key.
#[derive(Serialize, ToSchema)]
pub struct ObjectHealed {
    /// Records that were brought up to date.
    pub records: u32,
    pub shards: u32,
    /// Bytes of these shards.
    pub bytes: u64,
    /// Shards that are still missing at drives in service.
    pub missing: u32,
    /// Parts of which too few shards are left to be read.
    pub lost: u32,
}
