//! Requests about where the shards of an object are.
//!
//! | request | answer |
//! |---|---|
//! | `GET placement/BUCKET/KEY?version_id=V&verify=true&part=N` | the drives of the shards of a version, and whether they have them |
//! | `POST placement/BUCKET/KEY/heal` | makes what is missing again, of all versions of the key |
//!
//! `verify`: every byte is read on its drive. A version has up to 10,000 parts: an answer has [`PARTS`] of them, from part
//! `part` on.
//!
//! Must not depend on: how shards are read or made.

use std::collections::HashMap;

use ashlar_erasure_set::{PlacedShard, ShardState};
use ashlar_format::{RegisterKey, Space};
use ashlar_node::Node;
use ashlar_node::clock::now_ms;
use ashlar_object::{OpenBucket, parse_version, version_text};
use http::StatusCode;

use super::admin_request::{AdminRequest, AdminResult, Refusal, bad_request};
use super::api::{self, placement as shape, state::DriveState};
use super::table::Route;

/// Parts of an answer, at most: each is asked for at every drive of its group.
const PARTS: usize = 32;

/// Answers a request about an object. The caller has checked the permission. `drives`: all drives.
pub async fn answer(
    node: &Node,
    drives: impl Future<Output = Vec<DriveState>>,
    req: &AdminRequest,
) -> AdminResult {
    let (bucket, key) = req
        .name
        .split_once('/')
        .filter(|(_, key)| !key.is_empty())
        .ok_or_else(|| bad_request("name the object: placement/BUCKET/KEY"))?;
    let refusal = |e| Refusal::from(ashlar_s3::ops::fault(e, bucket, key));
    let bucket = node.store.bucket(bucket).map_err(refusal)?;
    if req.route == Route::PlacementHeal {
        return heal(node, &bucket, key).await;
    }
    let version = req.query.filled("version_id");
    let version = match version.map(|text| parse_version(text).ok_or(text)).transpose() {
        Ok(version) => version,
        Err(text) => return Err(bad_request(format!("version_id={text} is no version"))),
    };
    let verify = matches!(req.query.get("verify"), Some("" | "true" | "1"));
    let first = req.query.filled("part").map(str::parse).transpose();
    let first: u16 = first.map_err(|_| bad_request("part is a number"))?.unwrap_or(0);
    let object = node.store.get(&bucket, key, version).await.map_err(refusal)?;
    let found = object.version();
    let register = register(node, &bucket, key);
    let drives = Drives::new(drives.await);
    let from = found.parts.iter().position(|p| p.number >= first).unwrap_or(found.parts.len());
    let mut parts = Vec::new();
    for part in found.parts.iter().skip(from).take(PARTS) {
        let placed = node.sets.placement(&register, &part.data, verify).await.map_err(unavailable)?;
        // A part can have been there before its version was, in a register of its own.
        let written = found.modified_ms.max(part.modified_ms);
        let scrubbed = |drive| node.sets.verified_ms(&register, drive, written);
        parts.push(shape::PartPlacement {
            number: part.number,
            size: part.size,
            data_shards: part.data.k,
            parity_shards: part.data.m,
            shard_size: part.data.shard_len(part.size),
            inline: part.data.inline,
            shards: placed.into_iter().map(|p| drives.shard(scrubbed(p.drive), p, part.data.k)).collect(),
        });
    }
    let spare = |p: &shape::PartPlacement| {
        let good = p.shards.iter().filter(|s| s.state == "good").count();
        good as i64 - i64::from(p.data_shards)
    };
    let answer = shape::ObjectPlacement {
        bucket: bucket.name.clone(),
        key: key.to_owned(),
        version_id: version_text(found.id),
        size: found.size,
        group: u64::from(register.group().group),
        encrypted: object.sealed().is_some(),
        verified: verify,
        at: ashlar_s3::date::format_iso(now_ms()),
        spare: parts.iter().map(spare).min(),
        part_count: found.parts.len() as u64,
        next_part: found.parts.get(from + parts.len()).map(|p| p.number),
        parts,
    };
    Ok((StatusCode::OK, api::value(answer)))
}

/// The register of a key.
fn register(node: &Node, bucket: &OpenBucket, key: &str) -> RegisterKey {
    let group = node.sets.group_of(bucket.id, key.as_bytes());
    RegisterKey::new(group, Space::Object, bucket.id, key.as_bytes())
}

/// Makes what is missing of a key again.
async fn heal(node: &Node, bucket: &OpenBucket, key: &str) -> AdminResult {
    // A key that does not exist has nothing to heal, and is said so.
    let found = node.store.get(bucket, key, None).await;
    if let Err(e @ ashlar_object::Error::NoSuchKey { delete_marker: None }) = found.map(drop) {
        return Err(ashlar_s3::ops::fault(e, &bucket.name, key).into());
    }
    let register = register(node, bucket, key);
    let healed = node.sets.heal_register(&register, true).await.map_err(unavailable)?;
    let answer = shape::ObjectHealed {
        records: healed.records,
        shards: healed.shards,
        bytes: healed.bytes,
        missing: healed.missing,
        lost: healed.lost,
    };
    Ok((StatusCode::OK, api::value(answer)))
}

fn unavailable(e: ashlar_erasure_set::Error) -> Refusal {
    Refusal { status: StatusCode::SERVICE_UNAVAILABLE, code: "ServiceUnavailable", why: e.to_string() }
}

/// The drives by their ids.
struct Drives(HashMap<String, DriveState>);

impl Drives {
    fn new(all: Vec<DriveState>) -> Drives {
        Drives(all.into_iter().map(|d| (d.id.clone(), d)).collect())
    }

    fn shard(&self, scrubbed_ms: Option<i64>, placed: PlacedShard, k: u8) -> shape::ShardPlacement {
        let id = placed.drive.to_hex();
        let drive = self.0.get(&id);
        let (state, problem) = match placed.state {
            ShardState::Good => ("good", None),
            ShardState::Missing => ("missing", None),
            ShardState::Damaged(why) => ("damaged", Some(why)),
            ShardState::Unknown(why) => ("unknown", Some(why)),
        };
        shape::ShardPlacement {
            shard: placed.shard,
            kind: if placed.shard < k { "data" } else { "parity" },
            node: drive.and_then(|d| d.node),
            path: drive.map(|d| d.path.clone()).unwrap_or_default(),
            drive_state: drive.map_or_else(|| "unknown".to_owned(), |d| d.state.clone()),
            drive: id,
            state,
            problem,
            scrubbed_ms,
        }
    }
}
