//! Export and import of all identities: `GET iam/export`, `POST iam/import`.
//!
//! Both use a [`Document`]. Invariants: an export contains secrets, so only a caller who can do everything
//! may request it, over TLS or from this machine; an import executes each record as the request for that
//! record, with the same permission checks, and a refused record does not stop the others; identities that an
//! import does not name are unchanged.
//!
//! Must not depend on: MinIO's archive format.

use std::collections::BTreeMap;

use ashlar_iam::{Error, Iam};
use ashlar_node::clock::now_ms;
use ashlar_policy::{Attached, Policy};
use http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::ToSchema;

use super::admin_request::{AdminRequest, AdminResult, Refusal, denied};
use super::api::people::{Imported, ImportedRecord};
use super::api::{self, PolicyDocument, PolicyOrText};
use super::identities::{Identities, require_full};
use super::table::Route;

/// Longest document of an import, in bytes.
pub const LIMIT: usize = 16 << 20;

/// All identities.
#[derive(Serialize, Deserialize, Default, ToSchema)]
#[serde(deny_unknown_fields, default)]
#[schema(as = IdentityExport)]
pub struct Document {
    /// Policies by name, without built-in ones.
    #[schema(value_type = BTreeMap<String, PolicyDocument>)]
    pub policies: BTreeMap<String, Value>,
    /// Users by name.
    pub users: BTreeMap<String, User>,
    /// Groups by name.
    pub groups: BTreeMap<String, Group>,
    /// Access keys.
    pub keys: BTreeMap<String, Key>,
    /// Names of policies attached to users.
    pub user_policies: BTreeMap<String, Vec<String>>,
    /// Names of policies attached to groups.
    pub group_policies: BTreeMap<String, Vec<String>>,
    /// Names of policies attached to users of external directories.
    pub federated_user_policies: BTreeMap<String, Vec<String>>,
    /// Names of policies attached to groups of external directories.
    pub federated_group_policies: BTreeMap<String, Vec<String>>,
}

/// A user.
#[derive(Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = ExportedUser)]
pub struct User {
    /// Its secret key.
    pub secret: String,
    /// Whether it is enabled.
    pub enabled: bool,
}

/// A group.
#[derive(Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = ExportedGroup)]
pub struct Group {
    /// Whether it is enabled.
    pub enabled: bool,
    /// Names of users.
    pub members: Vec<String>,
}

/// An access key.
#[derive(Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = ExportedKey)]
pub struct Key {
    /// The user that it belongs to.
    pub user: String,
    /// Its secret key.
    pub secret: String,
    /// Whether it is enabled.
    pub enabled: bool,
    /// A policy that restricts it.
    #[serde(default)]
    #[schema(value_type = Option<PolicyOrText>)]
    pub policy: Option<Value>,
    /// Its expiry, in milliseconds since 1970.
    #[serde(default)]
    pub expires_ms: Option<i64>,
    /// Its display name.
    #[serde(default)]
    pub name: String,
    /// Its description.
    #[serde(default)]
    pub description: String,
}

/// The result of one record of an import.
enum Outcome {
    Added,
    /// It exists already, or does not apply here.
    Skipped(String),
}

type Done = Result<Outcome, Refusal>;

/// Answers an export or import.
pub async fn answer(identities: &Identities, req: &AdminRequest) -> AdminResult {
    req.need(req.route.actions(), false)?;
    let iam = identities.iam()?;
    if req.route == Route::IamExport {
        require_full(req, "Exporting all identities with their secrets")?;
        if !req.tls && !req.ip.to_canonical().is_loopback() {
            return Err(denied(
                "Access Denied. An export holds secrets: ask over TLS, or on the server's own machine.",
            ));
        }
        return Ok((StatusCode::OK, api::value(export(iam))));
    }
    let document: Document = req.document()?;
    let records = import(identities, iam, req, document).await;
    Ok((StatusCode::OK, api::value(Imported { records })))
}

fn export(iam: &Iam) -> Document {
    let secret = |name: &str| iam.secret_for_export(name).map(|s| s.expose().to_owned()).unwrap_or_default();
    let value = |text: &str| serde_json::from_str(text).unwrap_or_default();
    let mut all = Document::default();
    for (name, p) in iam.policies() {
        if p.made_ms != 0 {
            all.policies.insert(name, value(&p.policy.to_json()));
        }
    }
    for u in iam.users() {
        all.users.insert(u.name.clone(), User { secret: secret(&u.name), enabled: u.enabled });
        if !u.policies.is_empty() {
            all.user_policies.insert(u.name, u.policies.into_iter().collect());
        }
    }
    for g in iam.groups() {
        let members = g.members.into_iter().collect();
        all.groups.insert(g.name.clone(), Group { enabled: g.enabled, members });
        if !g.policies.is_empty() {
            all.group_policies.insert(g.name, g.policies.into_iter().collect());
        }
    }
    for k in iam.keys(None) {
        let key = Key {
            user: k.parent,
            secret: secret(&k.access_key),
            enabled: k.enabled,
            policy: k.policy.as_deref().map(value),
            expires_ms: k.expires_ms,
            name: k.name,
            description: k.description,
        };
        all.keys.insert(k.access_key, key);
    }
    for m in iam.mappings() {
        let to = if m.group { &mut all.federated_group_policies } else { &mut all.federated_user_policies };
        to.insert(m.name, m.policies.into_iter().collect());
    }
    all
}

/// Imports the records one after another, each after those that it depends on.
async fn import(
    identities: &Identities,
    iam: &Iam,
    req: &AdminRequest,
    all: Document,
) -> Vec<ImportedRecord> {
    let importer = Importer { identities, iam, req };
    let mut out = Vec::new();
    let mut note = |kind: &'static str, name: &str, policies: &[String], done: Done| {
        let (outcome, why) = match done {
            Ok(Outcome::Added) => ("added", String::new()),
            Ok(Outcome::Skipped(why)) => ("skipped", why),
            Err(no) => ("failed", no.why),
        };
        if !why.is_empty() {
            tracing::info!(target: "ashlar::admin", kind, name, outcome, why, "import");
        }
        let (name, policies) = (name.to_owned(), policies.to_vec());
        out.push(ImportedRecord { kind, name, policies, outcome, why });
    };
    for (name, document) in &all.policies {
        note("policy", name, &[], importer.policy(name, document).await);
    }
    for (name, user) in &all.users {
        note("user", name, &[], importer.user(name, user).await);
    }
    for (name, group) in &all.groups {
        note("group", name, &[], importer.group(name, group).await);
    }
    for (name, key) in &all.keys {
        note("key", name, &[], importer.key(name, key).await);
    }
    for (kind, of, mappings) in [
        ("user_policies", "user", &all.user_policies),
        ("group_policies", "group", &all.group_policies),
        ("federated_user_policies", "federated_user", &all.federated_user_policies),
        ("federated_group_policies", "federated_group", &all.federated_group_policies),
    ] {
        for (name, policies) in mappings {
            note(kind, name, policies, importer.attach(of, name, policies).await);
        }
    }
    out
}

/// Executes the records of an import.
struct Importer<'a> {
    identities: &'a Identities,
    iam: &'a Iam,
    req: &'a AdminRequest,
}

impl Importer<'_> {
    async fn request(&self, route: Route, name: &str, document: Value) -> Result<(), Refusal> {
        self.identities.answer(&self.req.other(route, name, &document)).await.map(drop)
    }

    async fn policy(&self, name: &str, document: &Value) -> Done {
        let parsed = Policy::parse(Attached::Identity, document.to_string().as_bytes());
        let text = parsed.map_err(|e| Refusal::from(Error::from(e)))?.to_json();
        if self.iam.policy(name).is_some_and(|p| p.policy.to_json() == text) {
            return Ok(Outcome::Skipped("it exists already".into()));
        }
        if ashlar_policy::builtin(name).is_some() {
            let why = "it is built in here and stays unchanged; give the other policy another name";
            return Ok(Outcome::Skipped(why.into()));
        }
        self.request(Route::PolicyPut, name, document.clone()).await?;
        Ok(Outcome::Added)
    }

    async fn user(&self, name: &str, user: &User) -> Done {
        let document = json!({ "secret": user.secret, "enabled": user.enabled });
        self.request(Route::UserPut, name, document).await?;
        Ok(Outcome::Added)
    }

    async fn group(&self, name: &str, group: &Group) -> Done {
        self.request(Route::GroupMembers, name, json!({ "add": group.members })).await?;
        let enabled = self.iam.group(name).is_some_and(|g| g.enabled);
        if enabled != group.enabled {
            let route = if group.enabled { Route::GroupEnable } else { Route::GroupDisable };
            self.request(route, name, Value::Null).await?;
        }
        Ok(Outcome::Added)
    }

    async fn key(&self, name: &str, key: &Key) -> Done {
        if key.expires_ms.is_some_and(|at| at <= now_ms()) {
            return Ok(Outcome::Skipped("it has ended".into()));
        }
        if key.user != self.iam.root().access_key && self.iam.user(&key.user).is_none() {
            let why = format!(
                "there is no user \"{}\" here; keys of another system's root must be created again",
                key.user
            );
            return Ok(Outcome::Skipped(why));
        }
        let policy = key.policy.clone().unwrap_or_else(|| json!(""));
        match self.iam.key(name) {
            Some(before) if before.parent != key.user => {
                Err(Error::Exists { what: "access key", name: name.to_owned() }.into())
            }
            Some(_) => {
                let document = json!({ "secret": key.secret, "policy": policy, "enabled": key.enabled,
                    "expires_ms": key.expires_ms.unwrap_or(0), "name": key.name, "description": key.description });
                self.request(Route::KeyEdit, name, document).await?;
                Ok(Outcome::Added)
            }
            None => {
                let document = json!({ "user": key.user, "access_key": name, "secret": key.secret, "policy": policy,
                    "expires_ms": key.expires_ms, "name": key.name, "description": key.description });
                self.request(Route::KeyCreate, "", document).await?;
                if !key.enabled {
                    self.request(Route::KeyEdit, name, json!({ "enabled": false })).await?;
                }
                Ok(Outcome::Added)
            }
        }
    }

    /// Attaches missing policies to a `user`, `group`, `federated_user` or `federated_group`.
    async fn attach(&self, of: &str, name: &str, policies: &[String]) -> Done {
        let has = match of {
            "user" => self.iam.user(name).map(|u| u.policies),
            "group" => self.iam.group(name).map(|g| g.policies),
            _ => {
                let group = of == "federated_group";
                let mut all = self.iam.mappings().into_iter();
                all.find(|m| m.group == group && m.name == name).map(|m| m.policies)
            }
        };
        let news: Vec<&String> =
            policies.iter().filter(|p| has.as_ref().is_none_or(|has| !has.contains(*p))).collect();
        if news.is_empty() {
            return Ok(Outcome::Skipped("they are attached already".into()));
        }
        self.request(Route::PolicyAttach, "", json!({ "policies": news, (of): name })).await?;
        Ok(Outcome::Added)
    }
}
