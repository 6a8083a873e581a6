//! Checks redundancy at the drives themselves, without a coordinator: every slot has every record, and every shard that the
//! record names.
//!
//! The scrub of a coordinator is the code under test; what it overlooks is seen here.
//!
//! Invariant: nothing is changed and no message is sent.
//!
//! Must not depend on: how records and shards are repaired.

use std::collections::BTreeMap;

use ashlar_cluster::Group;
use ashlar_drive::{Drive, Role};
use ashlar_format::codec::Reader;
use ashlar_format::{Ballot, Body, Record, RegisterKey};

use crate::cluster::Cluster;

/// First byte of the record of a one-sync write (docs/formats.md, "One-sync record").
const ONE_SYNC: u8 = 0xE2;
/// More registers than a run makes in a group.
const ALL: usize = 10_000;

/// Something that is not on a drive that should have it; `None` if nothing is missing.
pub async fn missing(cluster: &Cluster) -> Option<String> {
    for group in cluster.map().groups {
        if let Some(what) = missing_in(cluster, &group).await {
            return Some(what);
        }
    }
    None
}

async fn missing_in(cluster: &Cluster, group: &Group) -> Option<String> {
    let mut slots = Vec::new();
    for slot in &group.slots {
        let drive = cluster.host(slot.drive).and_then(|host| host.drive());
        match drive.filter(|d| d.role(group.id) == Some(Role::Voter)) {
            Some(drive) => slots.push(drive),
            None => return Some(format!("the vote of drive {} in {:?}", slot.drive, group.id)),
        }
    }
    let mut digests: BTreeMap<RegisterKey, Vec<Option<u64>>> = BTreeMap::new();
    for (number, drive) in slots.iter().enumerate() {
        let entries = match drive.scan_now(b"", &[0xff; 64], ALL, u32::MAX) {
            Some(Ok(entries)) => entries,
            other => return Some(format!("the index of drive {}: {other:?}", drive.label().drive)),
        };
        for entry in entries.into_iter().filter(|e| e.key.group() == group.id) {
            digests.entry(entry.key).or_insert_with(|| vec![None; slots.len()])[number] = Some(entry.digest);
        }
    }
    for (key, seen) in digests {
        let Some(owner) = seen.iter().position(Option::is_some) else { continue };
        let record = match record(&slots[owner], &key) {
            Ok(record) => record,
            Err(e) => return Some(format!("the record of {key:?} on slot {owner}: {e}")),
        };
        // A tombstone may have been purged on some slots, and not yet on others.
        if record.body == Body::Tombstone {
            continue;
        }
        if let Some(slot) = seen.iter().position(|digest| *digest != seen[owner]) {
            return Some(format!("the record of {key:?} on slot {slot}, as slot {owner} has it"));
        }
        for data in record.data().map(|part| part.data) {
            for (slot, drive) in slots.iter().enumerate() {
                let index = data.shard_of(slot as u8);
                if let Err(e) = drive.verify_shard(data.write_id, index).await {
                    return Some(format!(
                        "shard {index} of {} of {key:?} on slot {slot}: {e}",
                        data.write_id
                    ));
                }
            }
        }
    }
    None
}

/// The record of a register on a drive.
fn record(drive: &Drive, key: &RegisterKey) -> Result<Record, String> {
    let reply = match drive.read_now(key, true, u32::MAX) {
        Some(Ok(reply)) => reply,
        other => return Err(format!("{other:?}")),
    };
    let bytes = reply.accepted.and_then(|seen| seen.record).ok_or("the index shows it")?;
    let inner = if bytes.first() == Some(&ONE_SYNC) { inside(&bytes) } else { Ok(&bytes[..]) };
    inner.and_then(Record::decode).map_err(|e| e.to_string())
}

/// The record inside a one-sync record.
fn inside(bytes: &[u8]) -> Result<&[u8], ashlar_format::Error> {
    let mut r = Reader::new(bytes);
    let (_mark, _k, _needed, _targets) = (r.u8()?, r.u8()?, r.u8()?, r.u64()?);
    let _: ([u8; 16], [u8; Ballot::LEN]) = (r.array()?, r.array()?);
    let (_parent, _shared, _summary) = (r.bytes()?, r.var()?, r.bytes()?);
    r.bytes()
}
