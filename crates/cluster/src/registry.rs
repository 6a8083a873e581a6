//! The nodes of a cluster in the control store, and what a node does next while the cluster is formed.
//!
//! | key | value |
//! |---|---|
//! | `cluster` | [`Cluster`]: the state, how many nodes form it, what is the same on all of them |
//! | `nodes/NNNNN` | [`NodeRecord`]: addresses and drives of a node |
//! | `tokens/ID` | [`Token`]: permission for one node to join |
//! | `removed/NNNNN` | [`RemovedNode`]: a node that was removed; see `removal` |
//!
//! A cluster is *forming* until as many nodes are enrolled as were announced. One of them writes the map, and it is
//! *founding*: every node makes its drives voters of their groups and says so. Then it is *formed*, and serves.
//! [`Registry::step`] tells each node what is next. Any node may do what is not a node's own step: all changes
//! compare what they were derived from, so that one of several succeeds, and a node that ends anywhere leaves a
//! state from which all continue.
//!
//! Invariants: a number, an address and a drive belong to one node; the number of a removed node is never given again; the set of nodes does not change between the
//! map and the state *formed*; a node serves only in the state *formed*.
//!
//! Must not depend on: how drives are formatted, certificates, time.

use std::collections::{BTreeMap, BTreeSet};

use ashlar_format::{DeploymentId, DriveId};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::control::Control;
use crate::domains::Accept;
use crate::layout::CodeSpec;
use crate::levels::Levels;
use crate::map::{Map, NewDrive};
use crate::update::{Entry, Update};
use crate::{Error, Result};

/// The key of [`Cluster`].
pub const CLUSTER: &str = "cluster";
/// Prefix of the keys of nodes.
pub const NODES: &str = "nodes/";
/// Prefix of the keys of tokens.
pub const TOKENS: &str = "tokens/";
/// Prefix of the keys of removed nodes.
pub const REMOVED: &str = "removed/";
/// Format number of all records.
const FORMAT: u32 = 1;

/// The state of a cluster.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Nodes enrol.
    Forming,
    /// There is a map; nodes make their drives voters.
    Founding,
    /// It serves.
    Formed,
}

/// What concerns the whole cluster.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cluster {
    format: u32,
    /// The state.
    pub state: State,
    /// How many nodes form it.
    pub nodes: u16,
    /// The requested code; `None`: the default for the drives.
    pub code: Option<CodeSpec>,
    /// The loss of a node may cost more shards than the code can lose.
    pub accept_node_loss: bool,
    /// So may the loss of a disk of which several drives are parts. Left out where it may not, as in earlier releases.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub allow_shared_drive: bool,
    /// What must be equal on all nodes, by name, for instance the region.
    pub settings: BTreeMap<String, String>,
    /// Nodes that have enrolled so far; every enrolment changes it, so that two at once do not succeed both.
    pub enrolled: u16,
    /// The feature level in force.
    #[serde(default = "crate::levels::first")]
    pub level: u32,
}

impl Cluster {
    /// A cluster that begins to be formed.
    #[must_use]
    pub fn forming(
        nodes: u16,
        code: Option<CodeSpec>,
        accept: Accept,
        settings: BTreeMap<String, String>,
    ) -> Cluster {
        Cluster {
            format: FORMAT,
            state: State::Forming,
            nodes,
            code,
            accept_node_loss: accept.node_loss,
            allow_shared_drive: accept.shared_drive,
            settings,
            enrolled: 0,
            level: Levels::OURS.newest,
        }
    }

    /// The same at a feature level.
    #[must_use]
    pub fn at_level(self, level: u32) -> Cluster {
        Cluster { level, ..self }
    }

    /// The cluster of one node that a machine becomes that was alone.
    #[must_use]
    pub fn imported(code: CodeSpec, settings: BTreeMap<String, String>) -> Cluster {
        let accept = Accept { node_loss: true, shared_drive: false };
        let forming = Cluster::forming(1, Some(code), accept, settings);
        Cluster { state: State::Formed, enrolled: 1, ..forming }
    }

    /// The inverse of what is stored.
    ///
    /// # Errors
    /// `Corrupt`.
    pub fn decode(bytes: &[u8]) -> Result<Cluster> {
        decode(CLUSTER, bytes)
    }

    /// Key and value, for the creation of a store.
    #[must_use]
    pub fn entry(&self) -> (String, bytes::Bytes) {
        (CLUSTER.to_owned(), json(self))
    }
}

/// A drive of a node.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeDrive {
    /// Its identity, as on its label.
    #[serde(serialize_with = "drive_to_hex", deserialize_with = "drive_from_hex")]
    pub id: DriveId,
    /// The folder.
    pub path: String,
    /// Capacity in bytes.
    pub capacity: u64,
    /// Failure domain below the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enclosure: Option<String>,
}

/// A node of a cluster.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeRecord {
    format: u32,
    /// `HOST:PORT` for messages between nodes.
    pub address: String,
    /// The URL at which it serves S3.
    pub endpoint: String,
    /// The name of its machine.
    pub host: String,
    /// The release that it ran last.
    pub version: String,
    /// Failure domain above the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rack: Option<String>,
    /// The drives with which it enrolled. Drives that replace them later are in the map only.
    pub drives: Vec<NodeDrive>,
    /// Whether its drives vote in their groups.
    pub founded: bool,
    /// The feature levels of the release that it ran last.
    #[serde(default)]
    pub levels: Levels,
}

impl NodeRecord {
    /// A node that enrols.
    #[must_use]
    pub fn new(
        address: String,
        endpoint: String,
        host: String,
        version: String,
        drives: Vec<NodeDrive>,
    ) -> NodeRecord {
        let levels = Levels::OURS;
        NodeRecord {
            format: FORMAT,
            address,
            endpoint,
            host,
            version,
            rack: None,
            drives,
            founded: false,
            levels,
        }
    }

    /// The same with other feature levels.
    #[must_use]
    pub fn with_levels(self, levels: Levels) -> NodeRecord {
        NodeRecord { levels, ..self }
    }

    /// Key and value of the first node of an imported cluster, whose drives vote already.
    #[must_use]
    pub fn imported(self, number: u16) -> (String, bytes::Bytes) {
        (node_key(number), json(&NodeRecord { founded: true, ..self }))
    }
}

/// Permission for one node to join a formed cluster. The secret itself is not stored.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Token {
    format: u32,
    /// SHA-256 of the secret, in hexadecimal.
    pub hash: String,
    /// When it expires, in milliseconds since 1970.
    pub expires_ms: i64,
    /// The node that used it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used_by: Option<u16>,
}

impl Token {
    /// A token that was not used.
    #[must_use]
    pub fn new(hash: String, expires_ms: i64) -> Token {
        Token { format: FORMAT, hash, expires_ms, used_by: None }
    }

    /// Key and value.
    #[must_use]
    pub fn entry(&self, id: &str) -> (String, bytes::Bytes) {
        (format!("{TOKENS}{id}"), json(self))
    }
}

/// A node that was removed from the cluster: its number is not given again, and its certificate is not accepted.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RemovedNode {
    format: u32,
    /// The name of its machine.
    pub host: String,
    /// `HOST:PORT` for messages between nodes, as it was.
    pub address: String,
    /// When it was removed, in milliseconds since 1970.
    pub removed_ms: i64,
}

impl RemovedNode {
    pub(crate) fn new(record: &NodeRecord, removed_ms: i64) -> RemovedNode {
        let NodeRecord { host, address, .. } = record.clone();
        RemovedNode { format: FORMAT, host, address, removed_ms }
    }
}

/// What a node does next.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Step {
    /// It enrols: [`Registry::enrol`].
    Enrol,
    /// It waits until more nodes enrol.
    Wait {
        /// Enrolled nodes.
        have: u16,
        /// Announced nodes.
        wanted: u16,
    },
    /// Some node writes the map: [`Registry::plan`].
    Plan,
    /// It makes its drives voters of their groups, and then says so: [`Registry::founded`].
    Found,
    /// It waits until these nodes have done that.
    WaitFor(Vec<u16>),
    /// Some node declares the cluster formed: [`Registry::form`].
    Form,
    /// It serves.
    Serve,
    /// It joins a formed cluster with a token: [`Registry::join`].
    Join,
}

/// The records as of one revision.
#[derive(Clone, Debug)]
pub struct Registry {
    pub(crate) cluster_entry: Entry,
    /// What concerns the whole cluster.
    pub cluster: Cluster,
    /// The nodes, by number.
    pub nodes: BTreeMap<u16, NodeRecord>,
    /// The nodes that were removed, by number.
    pub removed: BTreeMap<u16, RemovedNode>,
    pub(crate) entries: BTreeMap<u16, Entry>,
}

impl Registry {
    /// Reads the records; `None`: the control store belongs to a machine that is alone.
    ///
    /// # Errors
    /// `Corrupt`.
    pub fn read(control: &Control) -> Result<Option<Registry>> {
        let cluster_entry = control.read(CLUSTER);
        let Some(bytes) = cluster_entry.bytes() else { return Ok(None) };
        let cluster = decode(CLUSTER, bytes)?;
        let (mut nodes, mut entries) = (BTreeMap::new(), BTreeMap::new());
        for entry in control.entries(NODES) {
            let number = number_of(entry.key(), NODES)?;
            nodes.insert(number, decode(entry.key(), entry.bytes().map_or(&[], |b| &b[..]))?);
            entries.insert(number, entry);
        }
        Ok(Some(Registry { cluster_entry, cluster, nodes, removed: removed(control)?, entries }))
    }

    /// The number of the node that has one of these drives. A node of a formed cluster that has lost all its drives
    /// is found by its address.
    ///
    /// # Errors
    /// `Refused`: the drives are of several nodes.
    pub fn find(&self, drives: &[DriveId], map: Option<&Map>, address: &str) -> Result<Option<u16>> {
        let enrolled = self.nodes.iter().filter(|(_, n)| n.drives.iter().any(|d| drives.contains(&d.id)));
        let mut found: BTreeSet<u16> = enrolled.map(|(number, _)| *number).collect();
        let mapped = map.into_iter().flat_map(|m| m.drives.iter().filter(|d| drives.contains(&d.id)));
        found.extend(mapped.map(|d| d.node));
        let mut found = found.into_iter();
        match (found.next(), found.next()) {
            (Some(a), Some(b)) => Err(Error::Refused(format!(
                "the named folders hold drives of node {a} and of node {b}: name the folders of one node"
            ))),
            (Some(number), None) => Ok(Some(number)),
            _ if drives.is_empty() && self.cluster.state == State::Formed => {
                Ok(self.nodes.iter().find(|(_, n)| n.address == address).map(|(number, _)| *number))
            }
            _ => Ok(None),
        }
    }

    /// What a node does next; `me`: its number, if it has one.
    #[must_use]
    pub fn step(&self, me: Option<u16>) -> Step {
        let have = self.nodes.len() as u16;
        let wanted = self.cluster.nodes;
        match (self.cluster.state, me.and_then(|me| self.nodes.get(&me))) {
            (State::Forming, None) if have < wanted => Step::Enrol,
            (State::Forming, _) if have < wanted => Step::Wait { have, wanted },
            (State::Forming, Some(_)) => Step::Plan,
            (State::Founding, Some(node)) if !node.founded => Step::Found,
            (State::Founding, Some(_)) => {
                let missing = self.nodes.iter().filter(|(_, n)| !n.founded).map(|(number, _)| *number);
                match missing.collect::<Vec<_>>() {
                    none if none.is_empty() => Step::Form,
                    missing => Step::WaitFor(missing),
                }
            }
            (State::Formed, Some(_)) => Step::Serve,
            // One more than announced: it joins when the others are done.
            (State::Forming | State::Founding | State::Formed, None) => Step::Join,
        }
    }

    /// Checks that a node has the settings of the cluster.
    ///
    /// # Errors
    /// `Refused`, naming the first that differs.
    pub fn check_settings(&self, settings: &BTreeMap<String, String>) -> Result<()> {
        for (name, theirs) in &self.cluster.settings {
            let ours = settings.get(name).map_or("", String::as_str);
            if ours != theirs {
                let shown = |v: &str| if v.is_empty() { "not set".to_owned() } else { format!("{v:?}") };
                return Err(Error::Refused(format!(
                    "{name} is {} here and {} in the cluster: it must be the same on all nodes",
                    shown(ours),
                    shown(theirs)
                )));
            }
        }
        Ok(())
    }

    /// Adds a node to a cluster that is forming; returns its number.
    ///
    /// # Errors
    /// `Refused`: its address or one of its drives belongs to another node, or it has no drive.
    pub fn enrol(&self, node: &NodeRecord, control: &Control, update: &mut Update) -> Result<u16> {
        if node.drives.is_empty() {
            return Err(Error::Refused("a node that forms a cluster needs a drive".to_owned()));
        }
        self.add(node, control, update)
    }

    fn add(&self, node: &NodeRecord, control: &Control, update: &mut Update) -> Result<u16> {
        self.check_unique(None, node)?;
        let taken = |n: &u16| self.nodes.contains_key(n) || self.removed.contains_key(n);
        let number = (1..=u16::MAX).find(|n| !taken(n));
        let number = number.ok_or_else(|| Error::Refused("the cluster has too many nodes".to_owned()))?;
        update.set(&control.read(&node_key(number)), json(node));
        let enrolled = self.cluster.enrolled.saturating_add(1);
        update.set(&self.cluster_entry, json(&Cluster { enrolled, ..self.cluster.clone() }));
        Ok(number)
    }

    fn check_unique(&self, me: Option<u16>, node: &NodeRecord) -> Result<()> {
        for (number, other) in self.nodes.iter().filter(|(number, _)| Some(**number) != me) {
            if other.address == node.address {
                return Err(Error::Refused(format!(
                    "node {number} ({}) has the address {} already: give every node its own (--node-address)",
                    other.host, node.address
                )));
            }
            if let Some(d) = node.drives.iter().find(|d| other.drives.iter().any(|o| o.id == d.id)) {
                return Err(Error::Refused(format!(
                    "the drive in {} is one of node {number} ({}): no two nodes may serve the same drive",
                    d.path, other.host
                )));
            }
        }
        Ok(())
    }

    /// Writes where a node is now; leaves the update empty if nothing changed.
    ///
    /// # Errors
    /// `Refused`: the address belongs to another node.
    pub fn moved(&self, me: u16, now: &NodeRecord, update: &mut Update) -> Result<()> {
        let (Some(old), Some(entry)) = (self.nodes.get(&me), self.entries.get(&me)) else { return Ok(()) };
        let next = NodeRecord { drives: old.drives.clone(), founded: old.founded, ..now.clone() };
        self.check_unique(Some(me), &next)?;
        if next != *old {
            if next.levels == old.levels {
                update.expect(&self.cluster_entry);
            } else {
                // Written anew as it is: the level is raised only by who has seen what this release can do.
                update.set(&self.cluster_entry, json(&self.cluster));
            }
            update.set(entry, json(&next));
        }
        Ok(())
    }

    /// The first map, of the drives of all nodes.
    ///
    /// # Errors
    /// `Layout`.
    pub fn first_map(&self, deployment: DeploymentId) -> Result<Map> {
        let drives = self.nodes.iter().flat_map(|(number, node)| {
            node.drives.iter().map(move |d| NewDrive {
                id: d.id,
                path: d.path.clone(),
                weight: d.capacity,
                node: *number,
                rack: node.rack.clone(),
                enclosure: d.enclosure.clone(),
            })
        });
        let Cluster { code, accept_node_loss: node_loss, allow_shared_drive: shared_drive, .. } =
            self.cluster;
        let accept = Accept { node_loss, shared_drive };
        Map::first_over_nodes(deployment, &drives.collect::<Vec<_>>(), code, None, accept)
    }

    /// The updates that write the first map, in this order; the last one makes the cluster *founding*. A large map
    /// needs several: until the last one, what the others wrote has no meaning.
    ///
    /// # Errors
    /// `Layout`.
    pub fn plan(&self, control: &Control) -> Result<Vec<Update>> {
        let mut entries = self.first_map(control.deployment())?.entries();
        let head = entries.remove(Map::KEY);
        let (mut updates, mut update, mut count, mut size) = (Vec::new(), Update::new(), 0, 0);
        for (key, value) in entries {
            let cost = 2 * key.len() + value.len() + Update::PER_KEY;
            if count + 4 > Update::MAX_KEYS || size + cost > Update::MAX_BYTES / 2 {
                update.expect(&self.cluster_entry);
                updates.push(std::mem::take(&mut update));
                (count, size) = (0, 0);
            }
            update.set(&control.read(&key), value);
            (count, size) = (count + 1, size + cost);
        }
        if let Some(head) = head {
            update.set(&control.read(Map::KEY), head);
        }
        update.set(&self.cluster_entry, json(&Cluster { state: State::Founding, ..self.cluster.clone() }));
        updates.push(update);
        Ok(updates)
    }

    /// A node says that its drives vote in their groups.
    pub fn founded(&self, me: u16, update: &mut Update) {
        if let (Some(node), Some(entry)) = (self.nodes.get(&me), self.entries.get(&me)) {
            update.expect(&self.cluster_entry);
            update.set(entry, json(&NodeRecord { founded: true, ..node.clone() }));
        }
    }

    /// The cluster is formed.
    pub fn form(&self, update: &mut Update) {
        self.entries.values().for_each(|entry| update.expect(entry));
        update.set(&self.cluster_entry, json(&Cluster { state: State::Formed, ..self.cluster.clone() }));
    }

    /// Adds a node to a formed cluster with a token, given as its id and the hash of its secret; returns its number.
    /// Its drives hold nothing until groups move to them.
    ///
    /// # Errors
    /// `Refused`: the token is not good, or see [`Registry::enrol`].
    pub fn join(
        &self,
        node: &NodeRecord,
        (id, hash): (&str, &str),
        now_ms: i64,
        control: &Control,
        update: &mut Update,
    ) -> Result<u16> {
        let bad = |why: &str| {
            Err(Error::Refused(format!("the token {why}: make a new one with `ashlar cluster token`")))
        };
        let entry = control.read(&format!("{TOKENS}{id}"));
        let Some(bytes) = entry.bytes() else { return bad("is not known") };
        let token: Token = decode(entry.key(), bytes)?;
        if token.hash != hash {
            return bad("is not known");
        }
        if let Some(by) = token.used_by {
            return bad(&format!("was used by node {by} already"));
        }
        if token.expires_ms <= now_ms {
            return bad("has expired");
        }
        let node = NodeRecord { founded: true, ..node.clone() };
        let number = self.add(&node, control, update)?;
        update.set(&entry, json(&Token { used_by: Some(number), ..token }));
        Ok(number)
    }
}

/// The nodes that were removed, by number.
///
/// # Errors
/// `Corrupt`.
pub fn removed(control: &Control) -> Result<BTreeMap<u16, RemovedNode>> {
    let read = |entry: Entry| {
        let number = number_of(entry.key(), REMOVED)?;
        Ok((number, decode(entry.key(), entry.bytes().map_or(&[], |b| &b[..]))?))
    };
    control.entries(REMOVED).into_iter().map(read).collect()
}

/// The number in a key of a node.
fn number_of(key: &str, prefix: &str) -> Result<u16> {
    let number = key.strip_prefix(prefix).and_then(|n| n.parse::<u16>().ok());
    let number = number.filter(|n| format!("{prefix}{n:05}") == key);
    number.ok_or_else(|| Error::Corrupt(format!("{key} is not the key of a node")))
}

fn node_key(number: u16) -> String {
    format!("{NODES}{number:05}")
}

// Serialising these types cannot fail: no maps with odd keys, no floats.
pub(crate) fn json(value: &impl Serialize) -> bytes::Bytes {
    serde_json::to_vec(value).unwrap_or_default().into()
}

/// Decodes a record; one of another format may have any other fields.
fn decode<T: for<'de> Deserialize<'de>>(key: &str, bytes: &[u8]) -> Result<T> {
    #[derive(Deserialize)]
    struct Numbered {
        format: u32,
    }
    let bad = |e| Error::Corrupt(format!("{key}: {e}"));
    match serde_json::from_slice::<Numbered>(bytes).map_err(bad)?.format {
        FORMAT => serde_json::from_slice(bytes).map_err(bad),
        other => {
            Err(Error::Corrupt(format!("{key} has format {other}, unknown here: another release wrote it")))
        }
    }
}

fn drive_to_hex<S: Serializer>(id: &DriveId, s: S) -> std::result::Result<S::Ok, S::Error> {
    s.serialize_str(&id.to_hex())
}

fn drive_from_hex<'de, D: Deserializer<'de>>(d: D) -> std::result::Result<DriveId, D::Error> {
    let text = String::deserialize(d)?;
    DriveId::from_hex(&text).ok_or_else(|| serde::de::Error::custom("not a drive id"))
}

#[cfg(test)]
#[path = "registry_tests.rs"]
mod tests;
