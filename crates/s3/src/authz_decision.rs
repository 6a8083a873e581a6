//! The authorization decision about a request, with its description.
//!
//! Must not depend on: how decisions are made, the destination of records.

use ashlar_audit::Record;
use ashlar_iam::{Identity, Kind};
use ashlar_policy::{Action, DecidedBy, Decision, Source};
use parking_lot::Mutex;

/// A decision, with what is needed to say it in words.
#[derive(Clone, Debug)]
pub struct AuthzDecision {
    /// The action that was requested.
    pub action: Action,
    /// The decision; `None`: the bucket's policy cannot be read, which denies.
    pub decision: Option<Decision>,
    /// The `Sid` of the statement that decided, if it was looked for.
    pub sid: Option<String>,
}

/// Where the last ruling of a request is kept.
pub type DecisionSlot = Mutex<Option<AuthzDecision>>;

impl AuthzDecision {
    /// A decision without a statement.
    pub fn plain(action: Action, allowed: bool, by: DecidedBy) -> AuthzDecision {
        AuthzDecision { action, decision: Some(Decision { allowed, by }), sid: None }
    }

    /// Whether it denies.
    pub fn denies(&self) -> bool {
        self.decision.is_none_or(|d| !d.allowed)
    }

    /// Writes it into a record, in words.
    pub fn fill(self, who: Option<&Identity>, record: &mut Record) {
        record.action = self.action.name();
        let Some(decision) = self.decision else {
            record.decided_by = "denied: the bucket's policy cannot be read".into();
            return;
        };
        if let DecidedBy::Statement { source, index } = decision.by {
            let verb = if decision.allowed { "allowed" } else { "denied" };
            record.policy = named(source, who);
            record.decided_by = format!("{verb} by statement {index} of {}", record.policy);
            record.statement = Some(index);
            record.sid = self.sid;
        } else {
            record.decided_by = decision.to_string();
        }
    }
}

/// A policy in words.
fn named(source: Source, who: Option<&Identity>) -> String {
    let Some(who) = who else { return source.to_string() };
    match source {
        Source::Identity(i) => match who.policy_names.get(usize::from(i)) {
            Some(name) => format!("policy {name}"),
            None => source.to_string(),
        },
        Source::Session(_) if who.kind == Kind::AccessKey => "the access key's policy".into(),
        Source::Session(_) if who.bounds.len() == 1 => "the session policy".into(),
        other => other.to_string(),
    }
}
