//! Delegation: which permissions a caller can grant to others without granting more than the caller has.
//!
//! An exact answer would have to compare conditions and patterns. This is a conservative bound: an action
//! counts only if a statement without conditions allows it on every resource, and a caller with any `Deny`
//! cannot grant anything.
//!
//! Invariant: if a policy is covered here, every request that it allows the receiver is also allowed to the
//! grantor.

use ashlar_iam::Identity;
use ashlar_policy::{Action, ActionSet, Effect, Level, Policy, StatementDocument};

/// The permissions that an identity can grant.
pub struct Delegation {
    /// The identity is root.
    owner: bool,
    /// Actions allowed on every resource, without conditions.
    free: ActionSet,
    /// Names of policies that the identity has and can grant unchanged.
    names: Vec<String>,
}

impl Delegation {
    /// The delegation of an identity.
    pub fn of(caller: &Identity) -> Delegation {
        let owner = caller.is_unbounded_root();
        let all = || Action::ALL.iter().copied().collect::<ActionSet>();
        if caller.policies.iter().chain(&caller.bounds).any(|p| denies(p)) {
            return Delegation { owner, free: ActionSet::default(), names: Vec::new() };
        }
        let mut free = if caller.root { all() } else { ActionSet::default() };
        caller.policies.iter().for_each(|p| free.extend_from(&freely(p)));
        for bound in &caller.bounds {
            let within = freely(bound);
            free = free.iter().filter(|a| within.contains(*a)).collect();
        }
        let names = if caller.bounds.is_empty() { caller.policy_names.clone() } else { Vec::new() };
        Delegation { owner, free, names }
    }

    /// Whether the identity can do everything.
    pub fn is_full(&self) -> bool {
        let all = || Action::ALL.iter().copied().filter(|a| a.service() != "sts");
        self.owner || all().all(|a| self.free.contains(a))
    }

    /// Whether a policy allows nothing that the grantor may not do.
    pub fn covers(&self, name: &str, policy: &Policy) -> bool {
        // A policy with variables or conditions can mean something else for another identity.
        let same = policy.keys().next().is_none();
        (same && self.names.iter().any(|n| n == name)) || self.covers_document(policy)
    }

    /// As [`Delegation::covers`], for a document without a name.
    pub fn covers_document(&self, policy: &Policy) -> bool {
        let statements = &policy.document().statements;
        let mut allowed = statements.iter().filter(|s| s.effect == Effect::Allow).map(named);
        self.is_full() || allowed.all(|set| set.iter().all(|a| self.free.contains(a)))
    }
}

/// Whether a policy has a `Deny` statement.
pub fn denies(policy: &Policy) -> bool {
    policy.document().statements.iter().any(|s| s.effect == Effect::Deny)
}

/// All actions that a statement matches.
fn named(statement: &StatementDocument) -> ActionSet {
    let mut set = ActionSet::default();
    statement.action.list.iter().for_each(|text| set.extend_from(&ActionSet::matching(text)));
    if statement.action.not { set.complement() } else { set }
}

/// The actions that a policy allows on every resource, without conditions.
fn freely(policy: &Policy) -> ActionSet {
    let mut set = ActionSet::default();
    for s in &policy.document().statements {
        if s.effect != Effect::Allow || s.action.not || !s.conditions.is_empty() {
            continue;
        }
        let everything = s.resource.as_ref().is_none_or(|r| !r.not && r.list.iter().any(|t| t == "*"));
        let objects = s.resource.as_ref().is_some_and(|r| {
            !r.not && r.list.iter().any(|t| t == "arn:aws:s3:::*" || t == "arn:aws:s3:::**")
        });
        for text in &s.action.list {
            for action in ActionSet::matching(text).iter() {
                // On the ARN of all buckets, actions of other services must be listed by name.
                let by_name = action.service() == "s3" || text.contains(':');
                if everything || (objects && by_name && action.level() != Level::Kms) {
                    set.insert(action);
                }
            }
        }
    }
    set
}

#[cfg(test)]
mod tests {
    use super::*;
    use ashlar_policy::{Attached, builtin};
    use std::sync::Arc;

    fn policy(text: &str) -> Arc<Policy> {
        Arc::new(Policy::parse(Attached::Identity, text.as_bytes()).unwrap())
    }

    fn caller(policies: &[Arc<Policy>], bounds: &[Arc<Policy>]) -> Identity {
        let mut caller = Identity::anonymous();
        caller.kind = ashlar_iam::Kind::User;
        caller.policies = policies.to_vec();
        caller.policy_names = (0..policies.len()).map(|i| format!("p{i}")).collect();
        caller.bounds = bounds.to_vec();
        caller
    }

    #[test]
    fn delegation_never_exceeds_permissions_of_grantor() {
        let [console, write, read] = ["consoleAdmin", "readwrite", "readonly"].map(|n| builtin(n).unwrap());
        let home = policy(
            r#"{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"s3:*","Resource":"arn:aws:s3:::b/${aws:username}/*"}]}"#,
        );
        let deny = policy(
            r#"{"Statement":[{"Effect":"Deny","Action":"s3:GetObject","Resource":"arn:aws:s3:::b/*"}]}"#,
        );
        let one = policy(
            r#"{"Statement":[{"Effect":"Allow","Action":"s3:*","Resource":["arn:aws:s3:::b","arn:aws:s3:::b/*"]}]}"#,
        );
        let admin = policy(r#"{"Statement":[{"Effect":"Allow","Action":"admin:*"}]}"#);
        let maybe = policy(
            r#"{"Statement":[{"Effect":"Allow","Action":"s3:*","Resource":"*","Condition":{"Bool":{"aws:SecureTransport":"true"}}}]}"#,
        );
        let star = policy(r#"{"Statement":[{"Effect":"Allow","Action":"*","Resource":"arn:aws:s3:::*"}]}"#);
        let full = |p: &[Arc<Policy>], b: &[Arc<Policy>]| Delegation::of(&caller(p, b)).is_full();
        assert!(full(std::slice::from_ref(&console), &[]));
        assert!(full(
            &[admin.clone(), policy(r#"{"Statement":[{"Effect":"Allow","Action":"*","Resource":"*"}]}"#)],
            &[]
        ));
        assert!(!full(&[console.clone(), deny.clone()], &[]), "something is denied");
        assert!(!full(std::slice::from_ref(&console), std::slice::from_ref(&write)), "a bounded access key");
        assert!(!full(&[admin.clone(), maybe.clone()], &[]), "a condition");
        assert!(!full(std::slice::from_ref(&star), &[]), "admin is not named");
        let delegation = Delegation::of(&caller(&[write.clone(), one.clone()], &[]));
        assert!(
            delegation.covers("x", &read) && delegation.covers("x", &one) && delegation.covers("x", &deny)
        );
        assert!(!delegation.covers("x", &admin) && !delegation.covers("x", &console));
        let delegation = Delegation::of(&caller(&[admin.clone(), one.clone()], &[]));
        assert!(!delegation.covers("x", &write), "others' buckets");
        assert!(delegation.covers("p1", &one), "the very same policy");
        let own = Delegation::of(&caller(&[admin.clone(), home.clone(), maybe.clone()], &[]));
        assert!(!own.covers("p1", &home) && !own.covers("p2", &maybe), "it is another one for others");
        assert!(
            !Delegation::of(&caller(&[admin, one.clone()], &[read])).covers("p1", &one),
            "not when bounded"
        );
        assert!(
            !Delegation::of(&caller(&[write, deny], &[])).covers("p0", &one),
            "not when anything is denied"
        );
    }
}
