//! The nodes of a cluster, and tokens with which others join it.
//!
//! Must not depend on: how a cluster is formed.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The cluster as the answering node sees it. A machine that is alone is one node.
#[derive(Serialize, ToSchema)]
pub struct Cluster {
    /// Null if the machine is alone.
    pub name: Option<String>,
    /// Hexadecimal digits.
    pub deployment: String,
    /// `forming`, `founding` or `formed`; `alone` if the machine is alone.
    pub state: &'static str,
    pub nodes: Vec<ClusterNode>,
    pub control_store: ControlStore,
    /// `K+M`.
    pub code: String,
    pub groups: GroupCounts,
    pub tolerates: Tolerates,
    /// The feature level in force; null if the machine is alone.
    pub feature_level: Option<u32>,
    /// The newest feature level that any node can do; null if the machine is alone.
    pub next_feature_level: Option<u32>,
    /// The authority of the nodes' certificates; null if the machine is alone.
    pub authority: Option<AuthorityState>,
}

/// The authority that signs the certificates of nodes. Authorities are named by the SHA-256 of their certificates, in
/// hexadecimal.
#[derive(Serialize, ToSchema, Clone, PartialEq, Eq, Debug)]
pub struct AuthorityState {
    /// `introducing`: a new one is trusted beside the old one; `renewing`: the new one signs, the old one is still trusted;
    /// null: it is not being replaced.
    pub phase: Option<&'static str>,
    /// The one that signs.
    pub signer: String,
    /// All that are trusted.
    pub trusted: Vec<String>,
    /// The one that is being replaced; without a replacement the one that signs.
    pub old: String,
}

/// Replaces the authority, step by step. The same request is repeated until the answer is done.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RotationOrder {
    /// The authority to replace: `old` of the state. If it is not trusted any more, nothing is left to do.
    pub replace: String,
}

/// How far the replacement of the authority is.
#[derive(Serialize, ToSchema, PartialEq, Eq, Debug)]
pub struct Rotation {
    /// The state after this request.
    pub authority: AuthorityState,
    /// Whether the named authority is no longer trusted.
    pub done: bool,
    /// Why the next step was not made: what the nodes that run have yet to do.
    pub waits: Vec<String>,
    /// Nodes that are away: nobody waits for them.
    pub away: Vec<u16>,
}

/// Removes a node that is gone for good.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RemoveOrder {
    pub node: u16,
    /// Only find out whether it can be removed.
    #[serde(default)]
    pub dry_run: bool,
}

/// A node that was removed, or, after a dry run, can be.
#[derive(Serialize, ToSchema)]
pub struct NodeRemoved {
    pub node: u16,
    /// The name of its machine.
    pub host: String,
    /// `HOST:PORT` for messages between nodes.
    pub address: String,
    /// False for a dry run.
    pub removed: bool,
}

/// A node. Its addresses are null if the machine is alone.
#[derive(Serialize, ToSchema)]
pub struct ClusterNode {
    pub number: u16,
    /// The name of its machine.
    pub host: Option<String>,
    /// `HOST:PORT` for messages between nodes.
    pub address: Option<String>,
    /// The URL at which it serves S3.
    pub endpoint: Option<String>,
    /// The version that it runs, or ran last.
    pub version: String,
    /// The feature levels of that version; null if the machine is alone.
    pub feature_levels: Option<FeatureLevels>,
    /// Whether it is announced in the control store. A node that has just crashed still is, for some seconds.
    pub running: bool,
    pub drives: NodeDrives,
    /// Whether it is the node that answers.
    pub this: bool,
    /// Since when it runs; left out if it does not answer, or the machine is alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uptime_s: Option<u64>,
    /// Why it does not answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// Null if the answering node sees it.
    pub away: Option<AwayNode>,
}

/// A node that is neither announced nor reached, as the answering node sees it.
#[derive(Serialize, ToSchema)]
pub struct AwayNode {
    /// Since when.
    pub since: String,
    /// Seconds since then.
    pub seconds: u64,
    /// After how many seconds its slots move to drives of other nodes; null: never.
    pub rebuild_after_s: Option<u64>,
    /// Placement groups that have slots on it.
    pub groups: u64,
    /// Groups of which slots cannot move now, by reason.
    pub stuck: Vec<StuckGroups>,
}

/// Placement groups of which slots cannot move to another node.
#[derive(Serialize, ToSchema)]
pub struct StuckGroups {
    pub groups: u64,
    pub why: String,
}

/// Numbers of drives of a node.
#[derive(Serialize, ToSchema)]
pub struct NodeDrives {
    /// Drives of the map, without those that are lost for good.
    pub in_map: u64,
    /// Drives in service; null for other nodes than the one that answers.
    pub serving_here: Option<u64>,
}

/// The control store.
#[derive(Serialize, ToSchema)]
pub struct ControlStore {
    /// `etcd`, or `embedded`: on the drives of a machine that is alone.
    pub kind: &'static str,
    /// Servers of etcd, or drives with a copy.
    pub members: u64,
    /// How many of these have the present content.
    pub current: u64,
    pub writable: bool,
    pub revision: u64,
    /// How long ago the answering node was last in accord with it.
    pub age_ms: u64,
    /// Why it cannot be used now.
    pub trouble: Option<String>,
    /// The members of etcd that nodes run themselves; null if they do not.
    pub etcd: Option<Vec<EtcdMember>>,
}

/// A member of etcd that a node runs.
#[derive(Serialize, ToSchema)]
pub struct EtcdMember {
    /// `HOST` or `HOST:CLIENT-PORT:PEER-PORT`.
    pub address: String,
    /// Whether it answers and knows a leader.
    pub healthy: bool,
    /// Whether it leads.
    pub leader: bool,
    /// Whether it does not vote yet, because it does not have everything.
    pub learner: bool,
    /// The release of etcd; null if it does not answer.
    pub version: Option<String>,
    /// Size of its file, in bytes; null if it does not answer.
    pub size: Option<u64>,
}

/// Changes which nodes run a member of etcd.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ControlMembersOrder {
    /// One, three or five: each `HOST` or `HOST:CLIENT-PORT:PEER-PORT`.
    pub members: Vec<String>,
    /// Only find out whether it can be changed.
    #[serde(default)]
    pub dry_run: bool,
}

/// The list of members of etcd. The nodes add and remove members by themselves until they are those.
#[derive(Serialize, ToSchema)]
pub struct ControlMembers {
    pub before: Vec<String>,
    pub members: Vec<String>,
    /// False for a dry run.
    pub changed: bool,
}

/// The feature levels that a release can do.
#[derive(Serialize, ToSchema, Clone, Copy, PartialEq, Eq, Debug)]
pub struct FeatureLevels {
    pub oldest: u32,
    pub newest: u32,
}

/// Raises the feature level.
#[derive(Deserialize, ToSchema, Default)]
#[serde(deny_unknown_fields, default)]
pub struct UpgradeOrder {
    /// Only tell what would be done.
    pub dry_run: bool,
}

/// What became of the feature level.
#[derive(Serialize, ToSchema, PartialEq, Eq, Debug)]
pub struct Upgrade {
    /// The level in force now.
    pub feature_level: u32,
    /// The newest level that a node can do: the one that is to be in force.
    pub target: u32,
    /// Whether this request raised the level.
    pub raised: bool,
    /// Why the level is not raised: the nodes that cannot do the target.
    pub reasons: Vec<String>,
}

/// Numbers of placement groups.
#[derive(Serialize, ToSchema)]
pub struct GroupCounts {
    pub total: u64,
    /// Those that accept writes now.
    pub writable: u64,
    /// Those that can be read now.
    pub readable: u64,
    /// Those in which every slot has a drive that has joined, by the map.
    pub complete: u64,
    /// Those that a drive left which has not let go of them yet: its node was away while its slot moved.
    pub left: u64,
}

/// How much may be missing at once, by the erasure code and the places of the drives.
#[derive(Serialize, ToSchema, Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tolerates {
    /// Any drives of a placement group, without an effect on reads and writes.
    pub drives: u64,
    /// Any nodes, without an effect on reads and writes.
    pub nodes: u64,
    /// Any drives of a placement group, without an effect on reads.
    pub read_drives: u64,
    /// Any nodes, without an effect on reads.
    pub read_nodes: u64,
}

/// A new token.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TokenOrder {
    /// Seconds until it expires, 1 to 86400.
    pub lifetime_s: u64,
}

impl Default for TokenOrder {
    fn default() -> TokenOrder {
        TokenOrder { lifetime_s: 3600 }
    }
}

/// A token with which one node joins the cluster. It is shown this once.
#[derive(Serialize, ToSchema)]
pub struct Token {
    /// `ID.SECRET`.
    pub token: String,
    /// When it expires.
    pub expires: String,
}

/// Whether a node can be stopped now.
#[derive(Serialize, ToSchema, Clone, PartialEq, Eq, Debug)]
pub struct MayStop {
    /// The node; 0 if the machine is alone.
    pub node: u16,
    /// Whether every placement group still takes reads and writes without it.
    pub may_stop: bool,
    /// Why it cannot be stopped; empty if it can.
    pub reasons: Vec<String>,
}
