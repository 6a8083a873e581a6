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
    /// What access control lists and owners of objects name.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub canonical_id: String,
    /// Only where it was made just now.
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

/// A policy, and who has it.
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

/// Policies were attached or taken away.
#[derive(Serialize, ToSchema)]
pub struct Associated {
    /// Those that were not, or were, attached before.
    pub changed: Vec<String>,
    pub user: Option<String>,
    pub group: Option<String>,
    pub federated_user: Option<String>,
    pub federated_group: Option<String>,
}

/// Policies of a user or group of another directory.
#[derive(Serialize, ToSchema)]
pub struct Mapping {
    pub name: String,
    /// It is a group's.
    pub group: bool,
    pub policies: Vec<String>,
    pub changed_ms: i64,
}

/// Policies of users and groups of other directories.
#[derive(Serialize, ToSchema)]
pub struct MappingList {
    pub mappings: Vec<Mapping>,
}

/// An access key.
#[derive(Serialize, ToSchema)]
pub struct Key {
    pub access_key: String,
    /// Whom it acts for.
    pub user: String,
    pub enabled: bool,
    #[schema(value_type = Option<PolicyDocument>)]
    pub policy: Option<Value>,
    pub expires_ms: Option<i64>,
    pub name: String,
    pub description: String,
    pub used_ms: Option<i64>,
    /// Only where it was made just now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
}

/// Access keys.
#[derive(Serialize, ToSchema)]
pub struct KeyList {
    pub keys: Vec<Key>,
}

/// A user, group or policy is gone.
#[derive(Serialize, ToSchema)]
pub struct Removed {
    pub name: String,
    pub removed: bool,
}

/// An access key is gone.
#[derive(Serialize, ToSchema)]
pub struct KeyRemoved {
    pub access_key: String,
    pub removed: bool,
}

/// What a decision would be.
#[derive(Serialize, ToSchema)]
pub struct Simulated {
    pub allowed: bool,
    pub why: String,
    pub sid: Option<String>,
    pub action: String,
    pub statements: Vec<Statement>,
}

/// How a statement takes part.
#[derive(Serialize, ToSchema)]
pub struct Statement {
    pub policy: String,
    /// From 0.
    pub statement: u16,
    pub sid: Option<String>,
    /// `Allow` or `Deny`.
    pub effect: &'static str,
    pub applies: bool,
    pub why_not: Option<String>,
}

/// What became of an import.
#[derive(Serialize, ToSchema)]
pub struct Imported {
    pub records: Vec<ImportedRecord>,
}

/// What became of one record of an import.
#[derive(Serialize, ToSchema)]
pub struct ImportedRecord {
    /// `policy`, `user`, `group`, `key`, `user_policies`, `group_policies`, `federated_user_policies` or
    /// `federated_group_policies`.
    pub kind: &'static str,
    pub name: String,
    /// Those that were to be attached.
    pub policies: Vec<String>,
    /// `added`, `skipped` or `failed`.
    pub outcome: &'static str,
    /// Empty if it was added.
    pub why: String,
}
