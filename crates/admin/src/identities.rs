//! The administration API for users, groups, policies and access keys.
//!
//! | request | document |
//! |---|---|
//! | `GET users`, `users/NAME`; `DELETE users/NAME`; `POST users/NAME/enable`, `disable`, `revoke` | |
//! | `PUT users/NAME` | `{"secret": "...", "enabled": true}`; a secret that is left out is made and answered |
//! | `GET groups`, `groups/NAME`; `DELETE groups/NAME`; `POST groups/NAME/enable`, `disable` | |
//! | `POST groups/NAME/members` | `{"add": [], "remove": []}` |
//! | `GET policies`, `policies/NAME`; `DELETE policies/NAME` | |
//! | `PUT policies/NAME` | the policy |
//! | `POST policies/attach`, `policies/detach` | `{"policies": [], "user": "..."}`; or `group`, `federated_user`, `federated_group` |
//! | `GET mappings` | policies of users and groups of external directories |
//! | `GET keys` (the caller's), `keys?user=NAME`, `keys?all=true`, `keys/KEY`; `DELETE keys/KEY` | |
//! | `POST keys` | [`KeyOrder`] |
//! | `PATCH keys/KEY` | [`KeyPatch`] |
//! | `POST simulate` | `{"user": "...", "action": "s3:GetObject", "resource": "bucket/key"}` |
//!
//! Invariants (docs/proof.md 2.2): every operation was permitted by an action of the table, or concerns only
//! the caller's own access keys, sessions and secret; callers cannot change policies that are attached to
//! themselves, and cannot grant permissions that they lack ([`Delegation`]), unless they can do everything;
//! changes run one at a time, so a check still holds when its change is made; a secret is returned once, when
//! it is created, and never logged.

use std::sync::Arc;

use ashlar_iam::{Entity, Error, Holders, Iam, Identity, KeyChange, KeyInfo, Kind, NewKey, Secret, UserInfo};
use ashlar_idp::Idp;
use ashlar_node::clock::now_ms;
use ashlar_policy::{Action, Attached, BucketRules, Context as Facts, Policy, Request as Question, explain};
use ashlar_s3::Service;
use ashlar_s3::ops::bucket_policy;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::admin_request::{AdminRequest, AdminResult, Refusal, bad_request, denied};
use super::api::{self, PolicyOrText, people as shape};
use super::delegation::{Delegation, denies};
use super::table::Route;

/// The handler of requests about identities.
pub struct Identities {
    service: Arc<Service>,
    /// Normalizes names of external directories.
    idp: Arc<Idp>,
    /// Held while a change is checked and made.
    turn: tokio::sync::Mutex<()>,
}

/// The wanted state of a user.
#[derive(Deserialize, Default, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct UserOrder {
    /// Generated and returned if it is left out.
    secret: Option<String>,
    enabled: Option<bool>,
}

/// A change of the members of a group.
#[derive(Deserialize, Default, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Members {
    add: Vec<String>,
    remove: Vec<String>,
}

/// Policies, and the user or group to attach them to or detach them from.
#[derive(Deserialize, Default, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Association {
    policies: Vec<String>,
    user: Option<String>,
    group: Option<String>,
    /// A user of an external directory: a distinguished name, or `openid/PROVIDER/SUBJECT`.
    federated_user: Option<String>,
    /// A group of an external directory.
    federated_group: Option<String>,
}

/// A new access key. Values that are left out are generated, or do not restrict the key.
#[derive(Deserialize, Default, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct KeyOrder {
    /// The user that it belongs to; by default the caller.
    user: Option<String>,
    access_key: Option<String>,
    secret: Option<String>,
    /// A policy document that restricts it.
    #[schema(value_type = Option<PolicyOrText>)]
    policy: Option<Value>,
    /// Its expiry, in milliseconds since 1970.
    expires_ms: Option<i64>,
    name: String,
    description: String,
}

/// A change of an access key. Values that are left out stay; an empty policy and an expiry of 0 remove the
/// value.
#[derive(Deserialize, Default, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct KeyPatch {
    secret: Option<String>,
    #[schema(value_type = Option<PolicyOrText>)]
    policy: Option<Value>,
    enabled: Option<bool>,
    expires_ms: Option<i64>,
    name: Option<String>,
    description: Option<String>,
}

/// A request whose authorization decision is simulated.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Simulation {
    /// A user or an access key; empty for an anonymous request.
    user: String,
    /// For instance `s3:GetObject`.
    action: String,
    /// A bucket, or a bucket, a slash and a key.
    #[serde(default)]
    resource: String,
}

impl From<Error> for Refusal {
    fn from(e: Error) -> Refusal {
        let (status, code) = match &e {
            Error::Invalid(_) => (StatusCode::BAD_REQUEST, "InvalidRequest"),
            Error::Policy(_) => (StatusCode::BAD_REQUEST, "MalformedPolicyDocument"),
            Error::Missing { .. } => (StatusCode::NOT_FOUND, "NoSuchEntity"),
            Error::Exists { .. } => (StatusCode::CONFLICT, "EntityAlreadyExists"),
            Error::InUse { .. } => (StatusCode::CONFLICT, "DeleteConflict"),
            Error::Token(_) | Error::Expired => (StatusCode::FORBIDDEN, "InvalidToken"),
            Error::Unavailable(_) => (StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable"),
            Error::OtherSeal | Error::Corrupt(_) => (StatusCode::INTERNAL_SERVER_ERROR, "InternalError"),
        };
        Refusal { status, code, why: e.to_string() }
    }
}

fn missing(what: &'static str, name: &str) -> Refusal {
    Error::Missing { what, name: name.to_owned() }.into()
}

fn done(answer: impl Serialize) -> AdminResult {
    Ok((StatusCode::OK, api::value(answer)))
}

/// The changed object, or 404 if it was removed meanwhile.
fn found_or_missing(answer: Option<impl Serialize>, what: &'static str, name: &str) -> AdminResult {
    answer.map_or_else(|| Err(missing(what, name)), done)
}

/// Whether the identity can create permanent access keys: it has no bound and does not expire. Users of
/// external directories have only their sessions.
fn can_create_keys(caller: &Identity) -> bool {
    let own = caller.kind != Kind::Session && caller.expires_ms.is_none();
    let authenticated = caller.kind == Kind::Session && caller.federated.is_some();
    caller.bounds.is_empty() && (own || authenticated)
}

/// A policy as text; a JSON string is taken as that text.
fn document(value: Value) -> String {
    match value {
        Value::String(text) => text,
        other => other.to_string(),
    }
}

impl Identities {
    /// A handler over a service.
    pub fn new(service: Arc<Service>, idp: Arc<Idp>) -> Identities {
        Identities { service, idp, turn: tokio::sync::Mutex::default() }
    }

    /// The identity store.
    ///
    /// # Errors
    /// This server has no identity store, only root.
    pub fn iam(&self) -> Result<&Arc<Iam>, Refusal> {
        let iam = self.service.verifier().keys.iam();
        iam.ok_or_else(|| Error::Unavailable("this server has no users".into()).into())
    }

    /// Answers a request about identities.
    pub async fn answer(&self, req: &AdminRequest) -> AdminResult {
        let iam = self.iam()?;
        // A slow external directory must not delay other requests.
        let association = match req.route {
            Route::PolicyAttach | Route::PolicyDetach => {
                req.need(req.route.actions(), false)?;
                self.association(iam, req).await?
            }
            _ => Association::default(),
        };
        let _turn = self.turn.lock().await;
        req.need(req.route.actions(), own(iam, req)?)?;
        match req.route {
            Route::UserList => done(shape::UserList { users: iam.users().iter().map(user).collect() }),
            Route::UserGet => done(user(&iam.user(&req.name).ok_or_else(|| missing("user", &req.name))?)),
            Route::UserPut => {
                if iam.user(&req.name).is_none() {
                    self.check_new_name(req)?;
                }
                put_user(iam, req).await
            }
            Route::UserRemove | Route::UserEnable | Route::UserDisable | Route::UserRevoke => {
                change_user(iam, req).await
            }
            Route::GroupList => done(shape::GroupList { groups: iam.groups().iter().map(group).collect() }),
            Route::GroupGet => done(group(&iam.group(&req.name).ok_or_else(|| missing("group", &req.name))?)),
            Route::GroupMembers => members(iam, req).await,
            Route::GroupEnable | Route::GroupDisable | Route::GroupRemove => change_group(iam, req).await,
            Route::PolicyList => {
                let policies = iam.policies().keys().filter_map(|n| policy(iam, n)).collect();
                done(shape::PolicyList { policies })
            }
            Route::PolicyGet => done(policy(iam, &req.name).ok_or_else(|| missing("policy", &req.name))?),
            Route::PolicyPut | Route::PolicyRemove => change_policy(iam, req).await,
            Route::MappingList => {
                let all = iam.mappings().into_iter().map(|m| shape::Mapping {
                    name: m.name,
                    group: m.group,
                    policies: m.policies.into_iter().collect(),
                    changed_ms: m.changed_ms,
                });
                done(shape::MappingList { mappings: all.collect() })
            }
            Route::PolicyAttach | Route::PolicyDetach => associate(iam, req, association).await,
            Route::KeyList => {
                let named = req.query.filled("user");
                // Root sees all keys unless the request names a user.
                let everybody = all_keys(req) || (named.is_none() && req.caller.is_unbounded_root());
                let of = if everybody { None } else { Some(named.unwrap_or(&req.caller.user)) };
                done(shape::KeyList { keys: iam.keys(of).iter().map(key).collect() })
            }
            Route::KeyGet => {
                done(key(&iam.key(&req.name).ok_or_else(|| missing("access key", &req.name))?))
            }
            Route::KeyCreate => create_key(iam, req).await,
            Route::KeyEdit | Route::KeyRemove => change_key(iam, req).await,
            Route::Simulate => self.simulate(iam, req),
            _ => Err(bad_request("this is not about identities")),
        }
    }

    /// Refuses a new user whose name appears in a bucket policy, unless the caller can do everything:
    /// creating a user must not give it permissions that were meant for another.
    fn check_new_name(&self, req: &AdminRequest) -> Result<(), Refusal> {
        let store = &self.service.context().store;
        for bucket in store.buckets() {
            let Some(text) = bucket.documents.get(bucket_policy::POLICY) else { continue };
            // A policy that cannot be parsed grants nothing, and may be repaired later.
            let named = Policy::parse_for_bucket(&bucket.name, text.as_bytes())
                .map_or_else(|_| text.contains(&req.name), |p| p.names_user(&req.name));
            if named {
                // The message does not name the bucket, which the caller may not be allowed to know.
                require_full(req, "Creating a user whose name appears in a bucket policy")?;
            }
        }
        Ok(())
    }

    /// Parses the request; names of external directories are normalized. A policy can be detached from a name
    /// that the directory no longer has.
    async fn association(&self, iam: &Iam, req: &AdminRequest) -> Result<Association, Refusal> {
        let mut order: Association = req.document()?;
        let attached = |group: bool, text: &str| {
            let all = iam.mappings();
            let has = |name: &str| all.iter().any(|m| m.group == group && m.name == name);
            [text.to_owned(), Idp::normal_dn(text)].into_iter().find(|n| has(n))
        };
        let attach = req.route == Route::PolicyAttach;
        if let Some(user) = &mut order.federated_user {
            *user = match attached(false, user).filter(|_| !attach) {
                Some(name) => name,
                None => self.idp.normal_user_dn(user).await?,
            };
        }
        if let Some(group) = &mut order.federated_group {
            *group = match attached(true, group).filter(|_| !attach) {
                Some(name) => name,
                None => self.idp.normal_group_dn(group).await?,
            };
        }
        Ok(order)
    }

    /// Simulates an authorization decision; the answer names the deciding statement.
    fn simulate(&self, iam: &Iam, req: &AdminRequest) -> AdminResult {
        let order: Simulation = req.document()?;
        let action = Action::find(&order.action)
            .ok_or_else(|| bad_request(format!("\"{}\" is no action", order.action)))?;
        let caller = match order.user.as_str() {
            "" => Arc::new(Identity::anonymous()),
            name => iam.find(name).ok_or_else(|| Refusal {
                why: format!("there is no user or access key \"{name}\" that is enabled"),
                ..missing("user", name)
            })?,
        };
        let resource = order.resource.strip_prefix("arn:aws:s3:::").unwrap_or(&order.resource);
        let (bucket, object) = resource.split_once('/').unwrap_or((resource, ""));
        let stored = self.service.context().store.bucket(bucket).ok();
        let text = stored.as_ref().and_then(|b| b.documents.get(bucket_policy::POLICY).cloned());
        let rules = match text {
            Some(t) => {
                Some(Policy::parse_for_bucket(bucket, t.as_bytes()).map_err(|e| bad_request(e.to_string()))?)
            }
            None => None,
        };
        let facts = Facts { now_ms: now_ms(), source_ip: Some(req.ip), secure: req.tls, ..Facts::default() };
        let principal = caller.principal();
        let question = Question::new(action, bucket, object, &principal, &facts);
        let bucket = BucketRules { policy: rules.as_ref(), ..BucketRules::default() };
        let answer = explain(&question, &caller.authority(bucket, false));
        let named = |source: ashlar_policy::Source| match source {
            ashlar_policy::Source::Identity(i) => match caller.policy_names.get(usize::from(i)) {
                Some(name) => format!("policy {name}"),
                None => source.to_string(),
            },
            other => other.to_string(),
        };
        let statements = answer.traces.iter().map(|t| shape::Statement {
            policy: named(t.source),
            statement: t.index,
            sid: t.sid.clone(),
            effect: if t.effect == ashlar_policy::Effect::Allow { "Allow" } else { "Deny" },
            applies: t.misses.is_none(),
            why_not: t.misses.clone(),
        });
        let statements = statements.collect();
        let why = match answer.decision.by {
            ashlar_policy::DecidedBy::Statement { source, index } => {
                format!("statement {index} of {}", named(source))
            }
            _ => answer
                .decision
                .to_string()
                .split_once(": ")
                .map_or_else(|| answer.decision.to_string(), |(_, why)| why.to_owned()),
        };
        done(shape::Simulated {
            allowed: answer.decision.allowed,
            why,
            sid: answer.sid,
            action: action.name().to_owned(),
            statements,
        })
    }
}

fn all_keys(req: &AdminRequest) -> bool {
    req.query.get("all").is_some_and(|v| v == "true")
}

/// Whether a request is about the caller's own account.
fn own(iam: &Iam, req: &AdminRequest) -> Result<bool, Refusal> {
    let me = &req.caller.user;
    Ok(match req.route {
        Route::UserGet | Route::UserRevoke => req.name == *me,
        // A restricted credential of the user must not change the user's secret.
        Route::UserPut => req.name == *me && req.caller.kind == Kind::User,
        Route::KeyList => !all_keys(req) && req.query.filled("user").is_none_or(|u| u == me),
        Route::KeyCreate => req.document::<KeyOrder>()?.user.is_none_or(|u| u == *me),
        Route::KeyGet | Route::KeyEdit | Route::KeyRemove => {
            iam.key(&req.name).is_some_and(|k| k.parent == *me)
        }
        _ => false,
    })
}

/// Refuses callers who cannot do everything.
pub(super) fn require_full(req: &AdminRequest, what: &str) -> Result<(), Refusal> {
    if Delegation::of(&req.caller).is_full() {
        return Ok(());
    }
    Err(denied(format!("Access Denied. {what} needs root or a full administrator.")))
}

fn names(all: &[String]) -> String {
    all.iter().map(|n| format!("\"{n}\"")).collect::<Vec<_>>().join(", ")
}

/// Refuses to grant permissions that the caller lacks.
fn check_grant(iam: &Iam, req: &AdminRequest, policies: &[String]) -> Result<(), Refusal> {
    let delegation = Delegation::of(&req.caller);
    let more = |n: &&String| iam.policy(n).is_some_and(|p| !delegation.covers(n, &p.policy));
    match policies.iter().find(more) {
        Some(name) => Err(denied(format!(
            "Access Denied. \"{name}\" allows more than you may do, so you cannot grant it."
        ))),
        None => Ok(()),
    }
}

/// Refuses to detach policies with a `Deny`, unless the caller can do everything.
fn check_detach(iam: &Iam, req: &AdminRequest, policies: &[String]) -> Result<(), Refusal> {
    match policies.iter().find(|n| iam.policy(n).is_some_and(|p| denies(&p.policy))) {
        Some(name) => require_full(req, &format!("\"{name}\" denies something; detaching it")),
        None => Ok(()),
    }
}

async fn put_user(iam: &Iam, req: &AdminRequest) -> AdminResult {
    let order: UserOrder = req.document()?;
    let before = iam.user(&req.name);
    if before.is_some() && !own(iam, req)? {
        require_full(req, "Replacing the secret of another user")?;
    }
    if before.is_some() && order.secret.is_none() {
        return Err(bad_request("the user exists already: give its new secret, or enable or disable it"));
    }
    let enabled = order.enabled.unwrap_or_else(|| before.as_ref().is_none_or(|u| u.enabled));
    let given = order.secret.is_some();
    let secret = order.secret.map_or_else(ashlar_iam::new_secret, Secret::new);
    iam.put_user(&req.name, &secret, enabled).await?;
    let made = (!given).then(|| secret.expose().to_owned());
    found_or_missing(iam.user(&req.name).map(|u| shape::User { secret: made, ..user(&u) }), "user", &req.name)
}

async fn change_user(iam: &Iam, req: &AdminRequest) -> AdminResult {
    let name = &req.name;
    match req.route {
        Route::UserEnable => iam.enable_user(name, true).await?,
        Route::UserDisable => iam.enable_user(name, false).await?,
        Route::UserRevoke if *name == iam.root().access_key && !req.caller.root => {
            return Err(denied("Access Denied. Root's sessions are revoked by root."));
        }
        // A distinguished name has several spellings, a user's name has one.
        Route::UserRevoke if iam.user(name).is_none() => iam.revoke_sessions(&Idp::normal_dn(name)).await?,
        Route::UserRevoke => iam.revoke_sessions(name).await?,
        _ if *name == req.caller.user => {
            return Err(denied("Access Denied. Users cannot remove themselves."));
        }
        _ => {
            iam.remove_user(name).await?;
            return done(shape::Removed { name: name.clone(), removed: true });
        }
    }
    // Root has sessions too, and is not a stored user.
    done(iam.user(name).map_or_else(
        || shape::User { name: name.clone(), enabled: true, ..shape::User::default() },
        |u| user(&u),
    ))
}

/// The policies of a group; empty if the group does not exist.
fn policies_of(iam: &Iam, group: &str) -> Vec<String> {
    iam.group(group).map(|g| g.policies.into_iter().collect()).unwrap_or_default()
}

async fn members(iam: &Iam, req: &AdminRequest) -> AdminResult {
    let order: Members = req.document()?;
    if !order.remove.is_empty() {
        req.need(&[Action::AdminRemoveUserFromGroup], false)?;
        // The group's policies may deny something to its members.
        if order.remove.contains(&req.caller.user) {
            require_full(req, "Removing yourself from a group")?;
        }
        check_detach(iam, req, &policies_of(iam, &req.name))?;
    }
    if !order.add.is_empty() || order.remove.is_empty() {
        req.need(&[Action::AdminAddUserToGroup], false)?;
        if order.add.contains(&req.caller.user) {
            require_full(req, "Adding yourself to a group")?;
        }
        check_grant(iam, req, &policies_of(iam, &req.name))?;
    }
    if !order.remove.is_empty() {
        iam.remove_members(&req.name, &order.remove).await?;
    }
    if !order.add.is_empty() || order.remove.is_empty() {
        iam.add_members(&req.name, &order.add).await?;
    }
    found_or_missing(iam.group(&req.name).map(|g| group(&g)), "group", &req.name)
}

async fn change_group(iam: &Iam, req: &AdminRequest) -> AdminResult {
    let name = &req.name;
    let mine = || req.caller.groups.contains(name);
    match req.route {
        Route::GroupEnable => {
            if mine() {
                require_full(req, "Enabling a group that you are in")?;
            }
            check_grant(iam, req, &policies_of(iam, name))?;
            iam.enable_group(name, true).await?;
        }
        Route::GroupDisable => {
            check_detach(iam, req, &policies_of(iam, name))?;
            iam.enable_group(name, false).await?;
        }
        _ => {
            iam.remove_group(name).await?;
            return done(shape::Removed { name: name.clone(), removed: true });
        }
    }
    found_or_missing(iam.group(name).map(|g| group(&g)), "group", name)
}

async fn change_policy(iam: &Iam, req: &AdminRequest) -> AdminResult {
    let name = &req.name;
    let holders = iam.holders(name);
    let built_in = ashlar_policy::builtin(name).is_some();
    let there = iam.policy(name).is_some();
    // Nobody holds a policy that does not exist, whatever claims name it later.
    if there && !holders.claims.is_empty() {
        let claims = holders.claims.join(", ");
        require_full(req, &format!("Changing a policy that users may hold through claims of {claims}"))?;
    }
    if req.route == Route::PolicyRemove {
        if built_in && holders.is_attached() {
            require_full(req, "Changing a policy that is attached")?;
        }
        iam.remove_policy(name).await?;
        return done(shape::Removed { name: name.clone(), removed: true });
    }
    if built_in || holders.is_attached() {
        require_full(req, "Changing a policy that is built in or attached")?;
    }
    let text = match req.body.first() {
        Some(_) => &req.body[..],
        None => return Err(bad_request("the policy is missing: send the document")),
    };
    let compiled = Policy::parse(Attached::Identity, text).map_err(|e| Refusal::from(Error::from(e)))?;
    if !Delegation::of(&req.caller).covers_document(&compiled) {
        return Err(denied("Access Denied. The policy allows more than you may do."));
    }
    iam.put_policy(name, text).await?;
    found_or_missing(policy(iam, name), "policy", name)
}

async fn associate(iam: &Iam, req: &AdminRequest, order: Association) -> AdminResult {
    let to = match (&order.user, &order.group, &order.federated_user, &order.federated_group) {
        (Some(user), None, None, None) => Entity::User(user),
        (None, Some(group), None, None) => Entity::Group(group),
        (None, None, Some(user), None) => Entity::FederatedUser(user),
        (None, None, None, Some(group)) => Entity::FederatedGroup(group),
        _ => {
            return Err(bad_request(
                "name either a user or a group, of this deployment or of another directory",
            ));
        }
    };
    if order.policies.is_empty() {
        return Err(bad_request("name at least one policy"));
    }
    let me = match to {
        Entity::User(user) | Entity::FederatedUser(user) => user == req.caller.user,
        Entity::Group(group) | Entity::FederatedGroup(group) => req.caller.groups.iter().any(|g| g == group),
    };
    if me {
        require_full(req, "Changing your own policies")?;
    }
    let changed = if req.route == Route::PolicyAttach {
        check_grant(iam, req, &order.policies)?;
        iam.attach(to, &order.policies).await?
    } else {
        check_detach(iam, req, &order.policies)?;
        iam.detach(to, &order.policies).await?
    };
    if changed.is_empty() {
        let state = if req.route == Route::PolicyAttach { "attached already" } else { "not attached" };
        return Err(bad_request(format!("nothing to do: {} {state}", names(&order.policies))));
    }
    done(shape::Associated {
        changed: changed.into_iter().collect(),
        user: order.user,
        group: order.group,
        federated_user: order.federated_user,
        federated_group: order.federated_group,
    })
}

async fn create_key(iam: &Iam, req: &AdminRequest) -> AdminResult {
    let order: KeyOrder = req.document()?;
    let parent = order.user.unwrap_or_else(|| req.caller.user.clone());
    check_key_owner(iam, req, &parent)?;
    let new = NewKey {
        federated: req.caller.federated.as_deref().filter(|f| f.id == parent).cloned(),
        parent,
        access_key: order.access_key,
        secret: order.secret.map(Secret::new),
        policy: order.policy.map(document).filter(|t| !t.is_empty()),
        expires_ms: order.expires_ms.filter(|at| *at != 0),
        name: order.name,
        description: order.description,
    };
    let (access_key, secret) = iam.add_key(new).await?;
    let made = Some(secret.expose().to_owned());
    found_or_missing(
        iam.key(&access_key).map(|k| shape::Key { secret: made, ..key(&k) }),
        "access key",
        &access_key,
    )
}

/// Refuses to create or change a key of `parent` that would allow more than the caller may do.
fn check_key_owner(iam: &Iam, req: &AdminRequest, parent: &str) -> Result<(), Refusal> {
    if parent == req.caller.user {
        if can_create_keys(&req.caller) {
            return Ok(());
        }
        return Err(denied(
            "Access Denied. A temporary or restricted credential makes and changes no access keys; sign with the user's own.",
        ));
    }
    if parent == iam.root().access_key && !req.caller.is_unbounded_root() {
        return Err(denied("Access Denied. Root's access keys are made and changed by root."));
    }
    require_full(req, "An access key of another user")
}

async fn change_key(iam: &Iam, req: &AdminRequest) -> AdminResult {
    let before = iam.key(&req.name).ok_or_else(|| missing("access key", &req.name))?;
    if req.route == Route::KeyRemove {
        if before.parent == req.caller.user || before.parent == iam.root().access_key {
            check_key_owner(iam, req, &before.parent)?;
        }
        iam.remove_key(&req.name).await?;
        return done(shape::KeyRemoved { access_key: req.name.clone(), removed: true });
    }
    check_key_owner(iam, req, &before.parent)?;
    let patch: KeyPatch = req.document()?;
    let change = KeyChange {
        secret: patch.secret.map(Secret::new),
        policy: patch.policy.map(|p| Some(document(p)).filter(|t| !t.is_empty())),
        enabled: patch.enabled,
        expires_ms: patch.expires_ms.map(|at| Some(at).filter(|at| *at != 0)),
        name: patch.name,
        description: patch.description,
    };
    iam.change_key(&req.name, &change).await?;
    found_or_missing(iam.key(&req.name).map(|k| key(&k)), "access key", &req.name)
}

fn user(u: &UserInfo) -> shape::User {
    shape::User {
        name: u.name.clone(),
        enabled: u.enabled,
        policies: u.policies.iter().cloned().collect(),
        groups: u.groups.to_vec(),
        changed_ms: u.changed_ms,
        used_ms: u.used_ms,
        canonical_id: u.canonical_id.clone(),
        secret: None,
    }
}

fn group(g: &ashlar_iam::GroupInfo) -> shape::Group {
    shape::Group {
        name: g.name.clone(),
        enabled: g.enabled,
        members: g.members.iter().cloned().collect(),
        policies: g.policies.iter().cloned().collect(),
        changed_ms: g.changed_ms,
    }
}

fn policy(iam: &Iam, name: &str) -> Option<shape::NamedPolicy> {
    let p = iam.policy(name)?;
    let Holders { users, groups, .. } = iam.holders(name);
    Some(shape::NamedPolicy {
        name: name.to_owned(),
        document: serde_json::from_str(&p.policy.to_json()).unwrap_or_default(),
        built_in: p.made_ms == 0,
        users,
        groups,
        made_ms: p.made_ms,
        changed_ms: p.changed_ms,
    })
}

fn key(k: &KeyInfo) -> shape::Key {
    shape::Key {
        access_key: k.access_key.clone(),
        user: k.parent.clone(),
        enabled: k.enabled,
        policy: k.policy.as_ref().and_then(|p| serde_json::from_str(p).ok()),
        expires_ms: k.expires_ms,
        name: k.name.clone(),
        description: k.description.clone(),
        used_ms: k.used_ms,
        secret: None,
    }
}
