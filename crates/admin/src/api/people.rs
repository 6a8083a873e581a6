//! Users, groups, policies and access keys. Times are milliseconds since 1970; 0: never.

use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::PolicyDocument;

/// A user.
#[derive(Serialize, ToSchema, Default)]
pub struct User {
    pub name: String,
    pub enabled: bool,
    pub policies: Vec<String>,
    pub groups: Vec<String>,
    pub changed_ms: i64,
    pub used_ms: Option<i64>,
    /// The canonical id, which access control lists and owners of objects use.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub canonical_id: String,
    /// The secret; only in the answer to its creation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
}

/// All users.
#[derive(Serialize, ToSchema)]
pub struct UserList {
    pub users: Vec<User>,
}

/// A group.
#[derive(Serialize, ToSchema)]
pub struct Group {
    pub name: String,
    pub enabled: bool,
    pub members: Vec<String>,
    pub policies: Vec<String>,
    pub changed_ms: i64,
}

/// All groups.
#[derive(Serialize, ToSchema)]
pub struct GroupList {
    pub groups: Vec<Group>,
}

/// A policy, and to whom it is attached.
#[derive(Serialize, ToSchema)]
pub struct NamedPolicy {
    pub name: String,
    #[schema(value_type = PolicyDocument)]
    pub document: Value,
    pub built_in: bool,
    pub users: Vec<String>,
    pub groups: Vec<String>,
    pub made_ms: i64,
    pub changed_ms: i64,
}

/// All policies.
#[derive(Serialize, ToSchema)]
pub struct PolicyList {
    pub policies: Vec<NamedPolicy>,
}

/// The result of attaching or detaching policies.
#[derive(Serialize, ToSchema)]
pub struct Associated {
    /// The policies that were attached or detached now.
    pub changed: Vec<String>,
    pub user: Option<String>,
    pub group: Option<String>,
    pub federated_user: Option<String>,
    pub federated_group: Option<String>,
}

/// Policies of a federated user or group.
#[derive(Serialize, ToSchema)]
pub struct Mapping {
    pub name: String,
    /// Whether the name is that of a group.
    pub group: bool,
    pub policies: Vec<String>,
    pub changed_ms: i64,
}

/// Policies of federated users and groups.
#[derive(Serialize, ToSchema)]
pub struct MappingList {
    pub mappings: Vec<Mapping>,
}

/// An access key.
#[derive(Serialize, ToSchema)]
pub struct Key {
    pub access_key: String,
    /// The user that it belongs to.
    pub user: String,
    pub enabled: bool,
    #[schema(value_type = Option<PolicyDocument>)]
    pub policy: Option<Value>,
    pub expires_ms: Option<i64>,
    pub name: String,
    pub description: String,
    pub used_ms: Option<i64>,
    /// The secret; only in the answer to its creation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
}

/// Access keys.
#[derive(Serialize, ToSchema)]
pub struct KeyList {
    pub keys: Vec<Key>,
}

/// A removed user, group or policy.
#[derive(Serialize, ToSchema)]
pub struct Removed {
    pub name: String,
    pub removed: bool,
}

/// A removed access key.
#[derive(Serialize, ToSchema)]
pub struct KeyRemoved {
    pub access_key: String,
    pub removed: bool,
}

/// A simulated authorization decision.
#[derive(Serialize, ToSchema)]
pub struct Simulated {
    pub allowed: bool,
    pub why: String,
    pub sid: Option<String>,
    pub action: String,
    pub statements: Vec<Statement>,
}

/// What the caller may do.
#[derive(Serialize, ToSchema)]
pub struct Permissions {
    /// As they were asked, in the same order.
    pub checks: Vec<Permission>,
}

/// Whether the caller may do one thing.
#[derive(Serialize, ToSchema)]
pub struct Permission {
    pub action: String,
    pub resource: String,
    pub allowed: bool,
}

/// How a statement contributes to the decision.
#[derive(Serialize, ToSchema)]
pub struct Statement {
    pub policy: String,
    /// Number of the statement in its policy, from 0.
    pub statement: u16,
    pub sid: Option<String>,
    /// `Allow` or `Deny`.
    pub effect: &'static str,
    pub applies: bool,
    pub why_not: Option<String>,
}

/// The result of an import.
#[derive(Serialize, ToSchema)]
pub struct Imported {
    pub records: Vec<ImportedRecord>,
}

/// The result of one record of an import.
#[derive(Serialize, ToSchema)]
pub struct ImportedRecord {
    /// `policy`, `user`, `group`, `key`, `user_policies`, `group_policies`, `federated_user_policies` or
    /// `federated_group_policies`.
    pub kind: &'static str,
    pub name: String,
    /// The policies to attach.
    pub policies: Vec<String>,
    /// `added`, `skipped` or `failed`.
    pub outcome: &'static str,
    /// Why it was skipped or failed; empty if it was added.
    pub why: String,
}
