//! Principals of a statement of a bucket policy.
//!
//! Invariants: names match exactly; `*` alone matches all callers; in `Allow` an account means its root user,
//! and in `Deny` with `Principal` all its users, so that ambiguity never widens access.

use crate::document::Effect;
use crate::request::{Principal, Who};

/// One principal of a policy.
#[derive(Debug, Clone, PartialEq, Eq)]
enum One {
    Everybody,
    /// The account of this number; empty: this deployment's.
    Account(Box<str>),
    /// A name, and its account when given.
    User(Box<str>, Box<str>),
    /// As `User`, for federated identities: such a subject is never a user of this deployment, whatever its
    /// name.
    Federated(Box<str>, Box<str>),
    Canonical(Box<str>),
    Provider(Box<str>),
    Service(Box<str>),
}

/// The compiled `Principal` or `NotPrincipal`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PrincipalRule {
    pub(crate) negated: bool,
    list: Box<[One]>,
}

fn is_account(text: &str) -> bool {
    text.len() == 12 && text.bytes().all(|b| b.is_ascii_digit())
}

/// Reads one member of `"AWS"`.
fn aws(text: &str) -> Result<One, String> {
    if text == "*" {
        return Ok(One::Everybody);
    }
    if is_account(text) {
        return Ok(One::Account(text.into()));
    }
    if text.is_empty() || text.contains(['*', '?']) {
        return Err(format!("\"{text}\": only \"*\" alone is a wildcard in a principal"));
    }
    let Some(rest) = text.strip_prefix("arn:") else {
        return if text.contains(':') {
            Err(format!("\"{text}\" is not a principal; write \"arn:aws:iam:::user/NAME\""))
        } else {
            Ok(One::User(text.into(), "".into()))
        };
    };
    let parts: Vec<&str> = rest.splitn(5, ':').collect();
    let &[_, service, "", account, name] = &parts[..] else {
        return Err(format!("\"{text}\" is not a principal; write \"arn:aws:iam:::user/NAME\""));
    };
    if !account.is_empty() && !is_account(account) {
        return Err(format!("\"{text}\": an account is empty or 12 digits"));
    }
    match (service, name.split_once('/')) {
        ("iam", None) if name == "root" => Ok(One::Account(account.into())),
        ("iam", Some(("user" | "role", n))) if !n.is_empty() => Ok(One::User(n.into(), account.into())),
        ("sts", Some(("federated-user", n))) if !n.is_empty() => Ok(One::Federated(n.into(), account.into())),
        ("iam", Some(("group", _))) => {
            Err(format!("\"{text}\": a group cannot be a principal; name its users"))
        }
        _ => Err(format!("\"{text}\" is not a principal; write \"arn:aws:iam:::user/NAME\"")),
    }
}

impl PrincipalRule {
    /// Compiles pairs of kind (`AWS`, ...) and members; `Err`: which pair and member, and what to write.
    pub(crate) fn compile(
        negated: bool,
        kinds: &[(String, Vec<String>)],
    ) -> Result<PrincipalRule, (usize, usize, String)> {
        let mut list = Vec::new();
        for (i, (kind, members)) in kinds.iter().enumerate() {
            for (j, text) in members.iter().enumerate() {
                let plain = || {
                    if text.is_empty() || text == "*" {
                        Err(format!("name one {kind} principal; \"*\" is only for AWS"))
                    } else {
                        Ok(text.as_str().into())
                    }
                };
                let one = match kind.as_str() {
                    "AWS" => aws(text),
                    "CanonicalUser" => plain().map(One::Canonical),
                    "Federated" => plain().map(One::Provider),
                    "Service" => plain().map(One::Service),
                    _ => Err(format!("unknown kind of principal \"{kind}\"; write AWS")),
                };
                list.push(one.map_err(|why| (i, j, why))?);
            }
        }
        Ok(PrincipalRule { negated, list: list.into() })
    }

    /// Whether the statement is about the requester.
    pub(crate) fn matches(&self, effect: Effect, who: &Principal) -> bool {
        let broad = effect == Effect::Deny && !self.negated;
        self.list.iter().any(|one| one.is(who, broad)) != self.negated
    }

    /// Whether it lists a user of this name.
    pub(crate) fn names(&self, name: &str) -> bool {
        self.list.iter().any(|one| matches!(one, One::User(n, _) | One::Canonical(n) if **n == *name))
    }

    /// Whether it applies to callers that it does not list.
    pub(crate) fn is_open(&self) -> bool {
        self.negated || self.list.iter().any(|one| matches!(one, One::Everybody | One::Provider(_)))
    }
}

impl One {
    fn is(&self, who: &Principal, broad: bool) -> bool {
        let ours = |account: &str| account.is_empty() || account == who.account;
        let known = who.who != Who::Anonymous;
        match self {
            One::Everybody => true,
            One::Account(a) => known && ours(a) && (broad || who.who == Who::Root),
            One::User(name, a) => {
                matches!(who.who, Who::User | Who::Session) && ours(a) && **name == *who.name
            }
            One::Federated(name, a) => who.who == Who::Federated && ours(a) && **name == *who.name,
            One::Canonical(id) => known && !who.canonical_id.is_empty() && **id == *who.canonical_id,
            One::Provider(p) => who.who == Who::Federated && **p == *who.provider,
            One::Service(s) => who.who == Who::Service && **s == *who.name,
        }
    }
}
