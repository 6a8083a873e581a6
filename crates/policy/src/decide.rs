//! The decision: evaluates all attached policies in one fixed order.
//!
//! Order: an explicit deny anywhere > every session policy must allow > the owner, an identity policy,
//! the bucket's policy or an access control list must allow > denied. Invariants: adding a session
//! policy never allows more; a request without identity is allowed by the bucket's policy alone, and not
//! even by that when the public access block restricts it; deciding allocates nothing.

use std::fmt;
use std::sync::Arc;

use crate::action::Action;
use crate::condition::in_words;
use crate::document::Effect;
use crate::policy::{Miss, Policy, Verdict};
use crate::public::PublicAccessBlock;
use crate::request::{Request, Who};

/// The authorization settings of a bucket.
#[derive(Clone, Copy, Default)]
pub struct BucketRules<'a> {
    /// Its policy.
    pub policy: Option<&'a Policy>,
    /// Its public access block, merged with the deployment's ([`PublicAccessBlock::or`]).
    pub block: PublicAccessBlock,
    /// An access control list grants this request ([`crate::allows`]). Does not count for requests
    /// without identity.
    pub acl: bool,
}

/// All policies that apply to a request.
#[derive(Clone, Copy, Default)]
pub struct Authority<'a> {
    /// Policies of the user and the user's groups; of the parent, for service accounts and sessions.
    pub identity: &'a [Arc<Policy>],
    /// Policies that each must allow: session policy, the access key's own policy, boundaries.
    pub sessions: &'a [Arc<Policy>],
    /// The policy and settings of the bucket, if the request concerns one.
    pub bucket: BucketRules<'a>,
    /// The request is about the requester's own account (own access keys, own password), which a user
    /// may do unless denied. Session policies still have to allow it (MinIO CVE-2025-62506).
    pub own: bool,
}

/// Which policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// The bucket's.
    Bucket,
    /// That number of [`Authority::identity`].
    Identity(u16),
    /// That number of [`Authority::sessions`].
    Session(u16),
}

/// The source of the decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DecidedBy {
    /// A statement, allowing or denying.
    Statement {
        /// The policy.
        source: Source,
        /// The statement's number in it, from 0.
        index: u16,
    },
    /// The requester owns the deployment.
    Root,
    /// The request is about the requester's own account.
    Own,
    /// An access control list.
    Acl,
    /// This session policy does not allow it.
    NoSession(u16),
    /// The public access block: the bucket's policy is public and would have allowed it.
    PublicAccessBlock,
    /// Nothing allows it.
    Nothing,
}

/// The decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decision {
    /// Whether the request may go on.
    pub allowed: bool,
    /// The source of the decision.
    pub by: DecidedBy,
}

const fn denied(by: DecidedBy) -> Decision {
    Decision { allowed: false, by }
}

/// Decides a request.
pub fn decide(request: &Request, who: &Authority) -> Decision {
    let mut allow: Option<DecidedBy> = None;
    let mut blocked = false;
    let root = request.principal.who == Who::Root;
    let anonymous = request.principal.who == Who::Anonymous;
    if let Some(policy) = who.bucket.policy {
        match policy.verdict(request) {
            Verdict::Deny(_) if root && repairs(request.action) => {}
            Verdict::Deny(index) => return denied(DecidedBy::Statement { source: Source::Bucket, index }),
            Verdict::Allow(_)
                if anonymous && who.bucket.block.restrict_public_buckets && policy.is_public() =>
            {
                blocked = true;
            }
            Verdict::Allow(index) => allow = Some(DecidedBy::Statement { source: Source::Bucket, index }),
            Verdict::Silent => {}
        }
    }
    if !anonymous {
        for (i, policy) in who.identity.iter().enumerate() {
            let source = Source::Identity(i as u16);
            match policy.verdict(request) {
                Verdict::Deny(index) => return denied(DecidedBy::Statement { source, index }),
                Verdict::Allow(index) => allow = allow.or(Some(DecidedBy::Statement { source, index })),
                Verdict::Silent => {}
            }
        }
        if root {
            allow = Some(DecidedBy::Root);
        } else if allow.is_none() && who.own {
            allow = Some(DecidedBy::Own);
        }
    }
    // Where a public policy is blocked, a public list in addition grants nothing either.
    if allow.is_none() && who.bucket.acl && !blocked {
        allow = Some(DecidedBy::Acl);
    }
    let mut refused = None;
    for (i, policy) in who.sessions.iter().enumerate() {
        let source = Source::Session(i as u16);
        match policy.verdict(request) {
            Verdict::Deny(index) => return denied(DecidedBy::Statement { source, index }),
            Verdict::Allow(_) => {}
            Verdict::Silent => refused = refused.or(Some(DecidedBy::NoSession(i as u16))),
        }
    }
    match (refused, allow) {
        (Some(by), _) => denied(by),
        (None, Some(by)) => Decision { allowed: true, by },
        (None, None) if blocked => denied(DecidedBy::PublicAccessBlock),
        (None, None) => denied(DecidedBy::Nothing),
    }
}

/// Actions that the owner can do even if the bucket's policy denies them, so that a policy cannot lock the
/// owner out.
fn repairs(action: Action) -> bool {
    matches!(action, Action::GetBucketPolicy | Action::PutBucketPolicy | Action::DeleteBucketPolicy)
}

/// The role of one statement in a decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trace {
    /// The policy.
    pub source: Source,
    /// The statement's number, from 0.
    pub index: u16,
    /// Its `Sid`.
    pub sid: Option<String>,
    /// The effect of the statement.
    pub effect: Effect,
    /// Why it does not apply; `None`: it applies.
    pub misses: Option<String>,
}

/// A decision with the role of every statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explanation {
    /// The decision; the same as [`decide`] gives.
    pub decision: Decision,
    /// The `Sid` of the statement that decided.
    pub sid: Option<String>,
    /// Every statement that names the action, in the order of evaluation.
    pub traces: Vec<Trace>,
}

/// Decides a request and explains the decision. For `simulate` and `why`; allocates.
pub fn explain(request: &Request, who: &Authority) -> Explanation {
    let decision = decide(request, who);
    let mut traces = Vec::new();
    let anonymous = request.principal.who == Who::Anonymous;
    let identity: &[Arc<Policy>] = if anonymous { &[] } else { who.identity };
    let all = who
        .bucket
        .policy
        .map(|p| (Source::Bucket, p))
        .into_iter()
        .chain(identity.iter().enumerate().map(|(i, p)| (Source::Identity(i as u16), &**p)))
        .chain(who.sessions.iter().enumerate().map(|(i, p)| (Source::Session(i as u16), &**p)));
    for (source, policy) in all {
        for (i, s) in policy.statements.iter().enumerate() {
            let misses = match s.miss(request) {
                Some(Miss::Action) => continue,
                Some(Miss::Principal) => Some("it is about other principals".to_owned()),
                Some(Miss::Resource) => {
                    Some(format!("it is about other resources than \"{}\"", request.resource()))
                }
                Some(Miss::Condition(c)) => {
                    let (key, have) = (c.key.full_name(), in_words(request.values(&c.key)));
                    Some(format!("its condition on {key} is not met (the request has: {have})"))
                }
                None => None,
            };
            let sid = policy.document().statements[i].sid.clone();
            traces.push(Trace { source, index: i as u16, sid, effect: s.effect, misses });
        }
    }
    let sid = match decision.by {
        DecidedBy::Statement { source, index } => {
            traces.iter().find(|t| t.source == source && t.index == index).and_then(|t| t.sid.clone())
        }
        _ => None,
    };
    Explanation { decision, sid, traces }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Source::Bucket => f.write_str("the bucket's policy"),
            Source::Identity(i) => write!(f, "identity policy {i}"),
            Source::Session(i) => write!(f, "session policy {i}"),
        }
    }
}

impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let verb = if self.allowed { "allowed" } else { "denied" };
        match self.by {
            DecidedBy::Statement { source, index } => write!(f, "{verb} by statement {index} of {source}"),
            DecidedBy::Root => write!(f, "{verb}: the requester is the owner"),
            DecidedBy::Own => write!(f, "{verb}: it is the requester's own account"),
            DecidedBy::Acl => write!(f, "{verb} by an access control list"),
            DecidedBy::NoSession(i) => write!(f, "{verb}: session policy {i} does not allow it"),
            DecidedBy::PublicAccessBlock => {
                write!(f, "{verb}: the public access block restricts the bucket's public policy")
            }
            DecidedBy::Nothing => write!(f, "{verb}: no statement allows it"),
        }
    }
}
