//! [`Identity`]: the caller behind an access key, with everything that authorization needs.
//!
//! Invariants: an identity is made from one snapshot of the records and is immutable; its bounds (an access
//! key's own policy, a session policy) restrict the policies of its parent and never replace them, so that a
//! child never has more permissions than its parent.
//!
//! Must not depend on: requests.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use ashlar_policy::{Authority, BucketRules, Lookup, Policy, Principal, Who};

use crate::federated::Federated;
use crate::secret::Secret;

/// The kind of a credential.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// None: the request was not signed.
    Anonymous,
    /// The credential of root.
    Root,
    /// The credential of a user.
    User,
    /// An access key of a user or of root.
    AccessKey,
    /// A temporary credential of a user, of root or of a federated user.
    Session,
}

/// Root's access key and secret, which are not in the control store.
#[derive(Clone)]
pub struct Root {
    /// The access key.
    pub access_key: String,
    /// The secret.
    pub secret: Secret,
}

/// A caller, with the attached policies.
#[derive(Debug)]
pub struct Identity {
    /// The access key that signs.
    pub access_key: String,
    /// Its secret.
    pub secret: Secret,
    /// The kind of credential.
    pub kind: Kind,
    /// The user it acts for: itself, or the parent.
    pub user: String,
    /// The parent is root.
    pub root: bool,
    /// The groups of the user.
    pub groups: Vec<String>,
    /// Policies of the user and its groups.
    pub policies: Vec<Arc<Policy>>,
    /// Their names, in the same order.
    pub policy_names: Vec<String>,
    /// Policies that each must allow.
    pub bounds: Vec<Arc<Policy>>,
    /// When it expires, in milliseconds since 1970.
    pub expires_ms: Option<i64>,
    /// When the session was made; `None` for others.
    pub issued_ms: Option<i64>,
    /// `arn:aws:iam::ACCOUNT:user/NAME`.
    pub arn: String,
    /// The id in access control lists and of object owners. That of a user is random and made with the user,
    /// so that a later user of the same name does not get what was granted to the first. That of a federated
    /// user is [`Federated::id`].
    pub canonical_id: String,
    /// The provider and its claims; `None` for users of this deployment.
    pub federated: Option<Arc<Federated>>,
    /// The access key that a session was made with, if it was one.
    pub(crate) made_with: Option<String>,
    pub(crate) used_ms: AtomicI64,
}

/// The account number in names of principals. One deployment is one account; AWS's tools want twelve
/// digits.
pub const ACCOUNT: &str = "000000000000";

impl Identity {
    /// The identity of root.
    #[must_use]
    pub fn of_root(root: &Root) -> Identity {
        Identity {
            access_key: root.access_key.clone(),
            secret: root.secret.clone(),
            kind: Kind::Root,
            user: root.access_key.clone(),
            root: true,
            groups: Vec::new(),
            policies: Vec::new(),
            policy_names: Vec::new(),
            bounds: Vec::new(),
            expires_ms: None,
            issued_ms: None,
            federated: None,
            made_with: None,
            arn: format!("arn:aws:iam::{ACCOUNT}:root"),
            canonical_id: root.access_key.clone(),
            used_ms: AtomicI64::new(0),
        }
    }

    /// The identity of unsigned requests.
    #[must_use]
    pub fn anonymous() -> Identity {
        let nobody = Root { access_key: String::new(), secret: Secret::new("") };
        Identity { kind: Kind::Anonymous, root: false, arn: String::new(), ..Identity::of_root(&nobody) }
    }

    /// Whether it is root without bounds.
    #[must_use]
    pub fn is_unbounded_root(&self) -> bool {
        self.root && self.kind != Kind::Anonymous && self.bounds.is_empty()
    }

    /// As a principal of the policy language.
    #[must_use]
    pub fn principal(&self) -> Principal<'_> {
        let federated = self.federated.as_deref();
        let who = match (self.root, self.kind) {
            (_, Kind::Anonymous) => Who::Anonymous,
            (true, _) => Who::Root,
            (false, Kind::Session) if federated.is_some() => Who::Federated,
            (false, Kind::Session) => Who::Session,
            (false, _) => Who::User,
        };
        Principal {
            who,
            name: &self.user,
            id: &self.user,
            arn: &self.arn,
            account: ACCOUNT,
            canonical_id: &self.canonical_id,
            groups: &self.groups,
            token_issued_ms: self.issued_ms,
            provider: federated.map_or("", |f| &f.provider),
            claims: federated.map(|f| &f.claims as &dyn Lookup),
            ldap: federated.map(|f| &f.attributes as &dyn Lookup),
            ..Principal::default()
        }
    }

    /// The attached policies together with those of a bucket. `own`: see [`Authority::own`].
    #[must_use]
    pub fn authority<'a>(&'a self, bucket: BucketRules<'a>, own: bool) -> Authority<'a> {
        Authority { identity: &self.policies, sessions: &self.bounds, bucket, own }
    }

    /// Notes that it was used; milliseconds since 1970.
    pub fn used(&self, now_ms: i64) {
        // A resolution of seconds is enough, and it saves transfers of the cache line between cores.
        if now_ms - self.used_ms.load(Ordering::Relaxed) >= 1000 {
            self.used_ms.store(now_ms, Ordering::Relaxed);
        }
    }
}
