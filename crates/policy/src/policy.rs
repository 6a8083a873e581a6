//! Compiled policies: parsed once, evaluated for every request.
//!
//! Invariants: a policy is immutable; a statement evaluates action, principal, resource and conditions, in
//! this order of increasing cost; the same code makes a decision and its explanation ([`Miss`]), so that the
//! two cannot differ.

use crate::action::{Action, ActionSet, Level, nearest};
use crate::condition::{Condition, Operator, hint};
use crate::document::{Document, Effect, StatementDocument, Version, invalid};
use crate::key::{Key, KeyId};
use crate::pattern::Pattern;
use crate::principal::PrincipalRule;
use crate::request::Request;
use crate::resource::Resource;
use crate::{Error, Result};

/// The kind of a policy: it determines its limits and whether it names principals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attached {
    /// A policy of a user or group: their permissions.
    Identity,
    /// A policy of a bucket: permissions of principals. Names principals.
    Bucket,
    /// A policy of a session: the upper limit of its permissions.
    Session,
    /// A policy of an access key: the upper limit of its permissions.
    AccessKey,
}

impl Attached {
    /// Longest document, in bytes. AWS: 20 KiB for buckets, 6,144 characters for managed and 2,048 for
    /// session policies; MinIO: 20 KiB for buckets, 2,048 for sessions, 4,096 for service accounts and no
    /// limit for identities, whose policies must stay importable.
    pub fn limit(self) -> usize {
        match self {
            Attached::Identity | Attached::Bucket => 20 * 1024,
            Attached::Session => 2048,
            Attached::AccessKey => 4096,
        }
    }
}

/// One compiled statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Statement {
    pub(crate) effect: Effect,
    actions: ActionSet,
    pub(crate) principal: Option<PrincipalRule>,
    not_resource: bool,
    resources: Option<Box<[Resource]>>,
    pub(crate) conditions: Box<[Condition]>,
}

/// Why a statement does not apply to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Miss<'a> {
    Action,
    Principal,
    Resource,
    Condition(&'a Condition),
}

/// The result of a policy for a request; the number is that of the statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Silent,
    Allow(u16),
    Deny(u16),
}

/// A policy: its document and its compiled form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    document: Document,
    attached: Attached,
    pub(crate) statements: Box<[Statement]>,
    allows: ActionSet,
    denies: ActionSet,
    object_tags: ActionSet,
}

impl Policy {
    /// Reads and compiles a document.
    ///
    /// # Errors
    /// [`Error::TooLarge`], [`Error::Syntax`] and [`Error::Invalid`]; all mean that the author has to
    /// change the document.
    pub fn parse(attached: Attached, json: &[u8]) -> Result<Policy> {
        if json.len() > attached.limit() {
            return Err(Error::TooLarge { size: json.len(), limit: attached.limit() });
        }
        let text = std::str::from_utf8(json).map_err(|e| Error::Syntax {
            line: 1 + json[..e.valid_up_to()].iter().filter(|b| **b == b'\n').count(),
            column: 1,
            problem: "not UTF-8".into(),
        })?;
        let document = Document::parse(text)?;
        if attached != Attached::Bucket {
            document.check_sids()?;
        }
        Policy::compile(attached, document)
    }

    /// As [`Policy::parse`] for a bucket's policy, which may only name the bucket and what is in it.
    ///
    /// # Errors
    /// As [`Policy::parse`].
    pub fn parse_for_bucket(bucket: &str, json: &[u8]) -> Result<Policy> {
        let policy = Policy::parse(Attached::Bucket, json)?;
        for (i, (s, d)) in policy.statements.iter().zip(&policy.document.statements).enumerate() {
            let name = if s.not_resource { "NotResource" } else { "Resource" };
            let resources: &[Resource] = s.resources.as_deref().unwrap_or_default();
            for (j, r) in resources.iter().enumerate() {
                if !r.is_within(bucket) {
                    return Err(invalid(
                        format!("Statement[{i}].{name}[{j}]"),
                        format!("must be arn:aws:s3:::{bucket} or begin with arn:aws:s3:::{bucket}/"),
                    ));
                }
            }
            for (j, text) in d.action.list.iter().enumerate() {
                let Some(action) = Action::find(text).filter(|_| !d.action.not && !s.not_resource) else {
                    continue;
                };
                if !resources.iter().any(|r| r.can_be(action.level())) {
                    let write = match action.level() {
                        Level::Object => format!("add arn:aws:s3:::{bucket}/*"),
                        Level::Bucket => format!("add arn:aws:s3:::{bucket}"),
                        Level::Service | Level::Kms => "it is not allowed in a bucket's policy".into(),
                    };
                    return Err(invalid(
                        format!("Statement[{i}].Action[{j}]"),
                        format!("{} does not apply to any resource of the statement; {write}", action.name()),
                    ));
                }
            }
        }
        Ok(policy)
    }

    fn compile(attached: Attached, document: Document) -> Result<Policy> {
        let mut statements = Vec::with_capacity(document.statements.len());
        let (mut allows, mut denies) = (ActionSet::default(), ActionSet::default());
        let mut object_tags = ActionSet::default();
        for (i, s) in document.statements.iter().enumerate() {
            let compiled = Statement::compile(attached, document.version, s, &format!("Statement[{i}]"))?;
            let union = if s.effect == Effect::Allow { &mut allows } else { &mut denies };
            union.extend_from(&compiled.actions);
            if compiled.keys().any(|k| k.id == KeyId::ExistingObjectTag) {
                object_tags.extend_from(&compiled.actions);
            }
            statements.push(compiled);
        }
        Ok(Policy { document, attached, statements: statements.into(), allows, denies, object_tags })
    }

    /// What was written.
    pub fn document(&self) -> &Document {
        &self.document
    }

    /// The use that it was parsed for.
    pub fn attached(&self) -> Attached {
        self.attached
    }

    /// The document as canonical JSON.
    pub fn to_json(&self) -> String {
        self.document.to_json()
    }

    /// Whether a decision about this action may depend on the tags of the object that is there
    /// ([`crate::Context::object_tags`]), so that the caller has to read them first.
    #[inline]
    pub fn uses_object_tags(&self, action: Action) -> bool {
        self.object_tags.contains(action)
    }

    /// Every condition key that it asks about, also in variables.
    pub fn keys(&self) -> impl Iterator<Item = &Key> {
        self.statements.iter().flat_map(Statement::keys)
    }

    /// Whether any statement names the action.
    #[inline]
    pub fn mentions(&self, action: Action) -> bool {
        self.allows.contains(action) || self.denies.contains(action)
    }

    /// Whether an Allow statement names this user: as a principal, or in a condition about the caller.
    /// Variables do not count, because they stand for every caller.
    pub fn names_user(&self, name: &str) -> bool {
        let ids = [KeyId::Username, KeyId::UserId, KeyId::PrincipalArn];
        let fits = |value: &str| {
            // An ARN may have an account, patterns may have anything: what could fit does.
            let value = value.rsplit_once(":user/").map_or(value, |(_, user)| user);
            Pattern::glob(value).matches_plain(name)
        };
        self.statements.iter().zip(&self.document.statements).any(|(s, d)| {
            let named = s.principal.as_ref().is_some_and(|p| !p.negated && p.names(name));
            let mut keys = d.conditions.iter().flat_map(|(_, keys)| keys);
            let asked = keys.any(|(key, values)| {
                Key::find(key).is_some_and(|k| ids.contains(&k.id)) && values.iter().any(|v| fits(v))
            });
            s.effect == Effect::Allow && (named || asked)
        })
    }

    /// Whether a statement would allow the request if its conditions held. When none would, nothing that is
    /// still to be read of the request changes the decision.
    pub fn could_allow(&self, request: &Request) -> bool {
        self.allows.contains(request.action)
            && self.statements.iter().any(|s| {
                s.effect == Effect::Allow && matches!(s.miss(request), None | Some(Miss::Condition(_)))
            })
    }

    /// The first statement that denies, else the first that allows.
    #[inline]
    pub(crate) fn verdict(&self, request: &Request) -> Verdict {
        if !self.mentions(request.action) {
            return Verdict::Silent;
        }
        let deny = self.denies.contains(request.action);
        let mut verdict = Verdict::Silent;
        for (i, s) in self.statements.iter().enumerate() {
            if !s.actions.contains(request.action) {
                continue;
            }
            // Bounded by the document's size, far below the range of the number.
            let number = i as u16;
            match s.effect {
                Effect::Deny if s.miss(request).is_none() => return Verdict::Deny(number),
                Effect::Allow if verdict == Verdict::Silent && s.miss(request).is_none() => {
                    verdict = Verdict::Allow(number);
                    if !deny {
                        return verdict;
                    }
                }
                _ => {}
            }
        }
        verdict
    }
}

impl Statement {
    fn compile(attached: Attached, version: Version, s: &StatementDocument, path: &str) -> Result<Statement> {
        let vars = version == Version::V2012;
        if !vars {
            refuse_variables(s, path)?;
        }
        let mut actions = compile_actions(s, path)?;
        let principal = compile_principal(attached, s, path)?;
        let resources = compile_resources(attached, s, &actions, vars, path)?;
        if s.effect == Effect::Allow {
            actions = actions.iter().filter(|a| reaches(s, *a)).collect();
        }
        let mut conditions = Vec::new();
        for (name, keys) in &s.conditions {
            let here = format!("{path}.Condition.{name}");
            let operator = Operator::parse(name).map_err(|why| invalid(&here, why))?;
            for (key, values) in keys {
                let found = Key::find(key)
                    .ok_or_else(|| invalid(&here, format!("unknown condition key \"{key}\"{}", hint(key))))?;
                let condition = Condition::compile(operator, found, values, vars)
                    .map_err(|(i, why)| invalid(format!("{here}.{key}[{i}]"), why))?;
                conditions.push(condition);
            }
        }
        Ok(Statement {
            effect: s.effect,
            actions,
            principal,
            not_resource: s.resource.as_ref().is_some_and(|r| r.not),
            resources,
            conditions: conditions.into(),
        })
    }

    /// Every condition key that it asks about, also in variables.
    fn keys(&self) -> impl Iterator<Item = &Key> {
        let resources: &[Resource] = self.resources.as_deref().unwrap_or_default();
        self.conditions
            .iter()
            .flat_map(Condition::keys)
            .chain(resources.iter().flat_map(|r| r.pattern.keys()))
    }

    /// `None`: the statement applies.
    #[inline]
    pub(crate) fn miss(&self, request: &Request) -> Option<Miss<'_>> {
        if !self.actions.contains(request.action) {
            return Some(Miss::Action);
        }
        if self.principal.as_ref().is_some_and(|p| !p.matches(self.effect, request.principal)) {
            return Some(Miss::Principal);
        }
        if let Some(resources) = &self.resources
            && resources.iter().any(|r| r.matches(request)) == self.not_resource
        {
            return Some(Miss::Resource);
        }
        self.conditions.iter().find(|c| !c.holds(request)).map(Miss::Condition)
    }
}

/// Version 2008-10-17 takes `${` literally, which no author of a policy intends.
fn refuse_variables(s: &StatementDocument, path: &str) -> Result<()> {
    let resources = s.resource.iter().flat_map(|r| &r.list);
    let values = s.conditions.iter().flat_map(|(_, keys)| keys.iter().flat_map(|(_, v)| v));
    if resources.chain(values).any(|t| t.contains("${")) {
        let why = "policy variables need \"Version\": \"2012-10-17\"";
        return Err(invalid(path, why));
    }
    Ok(())
}

fn compile_actions(s: &StatementDocument, path: &str) -> Result<ActionSet> {
    let mut set = ActionSet::default();
    for (i, text) in s.action.list.iter().enumerate() {
        let named = ActionSet::matching(text);
        if named.is_empty() {
            let name = if s.action.not { "NotAction" } else { "Action" };
            let hint = nearest(text).map_or(String::new(), |n| format!("; did you mean {n}?"));
            return Err(invalid(format!("{path}.{name}[{i}]"), format!("\"{text}\" is not an action{hint}")));
        }
        set.extend_from(&named);
    }
    Ok(if s.action.not { set.complement() } else { set })
}

/// Whether an `Allow` includes the action: `"*"` or a NotAction on `arn:aws:s3:::*` concerns S3 and must not
/// grant administration, which has that resource only because MinIO writes it so.
fn reaches(s: &StatementDocument, action: Action) -> bool {
    let everything = s.resource.as_ref().is_none_or(|r| !r.not && r.list.iter().any(|t| t == "*"));
    let named = |text: &String| {
        let service = text.split(':').next().unwrap_or_default();
        service.eq_ignore_ascii_case(action.service()) && ActionSet::matching(text).contains(action)
    };
    everything || action.service() == "s3" || (!s.action.not && s.action.list.iter().any(named))
}

fn compile_principal(attached: Attached, s: &StatementDocument, path: &str) -> Result<Option<PrincipalRule>> {
    let Some(listed) = &s.principal else {
        if attached == Attached::Bucket {
            return Err(invalid(path, "has no Principal; write \"Principal\": \"*\" or name users"));
        }
        return Ok(None);
    };
    let name = if listed.not { "NotPrincipal" } else { "Principal" };
    if attached != Attached::Bucket {
        return Err(invalid(path, format!("{name} is only for policies of buckets; remove it")));
    }
    if listed.not && s.effect == Effect::Allow {
        return Err(invalid(path, "NotPrincipal with Allow would allow all other callers; use it with Deny"));
    }
    let everybody = [("AWS".to_owned(), vec!["*".to_owned()])];
    let kinds = match &listed.list[..] {
        [(kind, _)] if kind == "*" => &everybody[..],
        kinds => kinds,
    };
    PrincipalRule::compile(listed.not, kinds)
        .map(Some)
        .map_err(|(i, j, why)| invalid(format!("{path}.{name}.{}[{j}]", kinds[i].0), why))
}

fn compile_resources(
    attached: Attached,
    s: &StatementDocument,
    actions: &ActionSet,
    vars: bool,
    path: &str,
) -> Result<Option<Box<[Resource]>>> {
    // Most of these actions are about nothing in particular; MinIO writes them without Resource.
    let plain = actions.iter().all(|a| a.service() != "s3") && !s.action.not;
    let Some(listed) = &s.resource else {
        if plain && attached != Attached::Bucket {
            return Ok(None);
        }
        return Err(invalid(
            path,
            "has neither Resource nor NotResource; write \"arn:aws:s3:::bucket/*\" or \"*\"",
        ));
    };
    let name = if listed.not { "NotResource" } else { "Resource" };
    let mut list = Vec::with_capacity(listed.list.len());
    for (i, text) in listed.list.iter().enumerate() {
        let found = Resource::parse(text, vars).map_err(|why| invalid(format!("{path}.{name}[{i}]"), why))?;
        list.push(found);
    }
    if plain && !listed.not && !actions.iter().all(|a| list.iter().any(|r| r.can_be(a.level()))) {
        let why = "these actions are not about a bucket or object; remove Resource, or write \"*\"";
        return Err(invalid(format!("{path}.{name}"), why));
    }
    Ok(Some(list.into()))
}
