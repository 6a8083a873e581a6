//! What is noted about a request for the audit log and for `why`.
//!
//! Invariants: nothing here costs more than moves while the audit log is off and the request is not refused;
//! what is written down of a request's head is what `ashlar_audit` names; who is refused is told nothing of
//! what stands here.
//!
//! Must never know: where records go.

use std::sync::{Arc, OnceLock};
use std::time::Instant;

use ashlar_audit::{Door, QUERY, Record, Ticket, headers_of, printable};
use ashlar_iam::{Identity, Kind};
use ashlar_policy::{Action, By, Decision, Source};
use http::Uri;
use http::header::{HeaderMap, HeaderValue, USER_AGENT};
use parking_lot::Mutex;

use crate::auth::Verified;
use crate::ops::Call;
use crate::target::Query;
use crate::trace::{Sending, Slow};

/// A decision, with what is needed to say it in words.
#[derive(Clone, Debug)]
pub struct Ruling {
    /// What was to be done.
    pub action: Action,
    /// The decision; `None`: the bucket's policy cannot be read, which denies.
    pub decision: Option<Decision>,
    /// The `Sid` of the statement that decided, if it was looked for.
    pub sid: Option<String>,
}

/// Where the last ruling of a request is kept.
pub type Slot = Mutex<Option<Ruling>>;

impl Ruling {
    /// A decision without a statement.
    pub fn plain(action: Action, allowed: bool, by: By) -> Ruling {
        Ruling { action, decision: Some(Decision { allowed, by }), sid: None }
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
        if let By::Statement { source, index } = decision.by {
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

/// How a kind of credential is called.
fn kind(kind: Kind) -> &'static str {
    match kind {
        Kind::Anonymous => "anonymous",
        Kind::Root => "root",
        Kind::User => "user",
        Kind::AccessKey => "access-key",
        Kind::Session => "session",
    }
}

/// Writes who asks into a record.
pub fn identify(who: &Identity, record: &mut Record) {
    record.kind = kind(who.kind);
    record.access_key.clone_from(&who.access_key);
    record.user.clone_from(&who.user);
    if who.kind != Kind::Anonymous && who.user != who.access_key {
        record.parent.clone_from(&who.user);
    }
    if let Some(federated) = &who.federated {
        record.provider.clone_from(&federated.provider);
    }
}

/// Writes the circumstances of a request into a record: what may be written of its head.
pub fn describe(headers: &HeaderMap, uri: &Uri, record: &mut Record) {
    record.headers = headers_of(headers);
    record.user_agent = headers.get(USER_AGENT).map(|v| printable(v.as_bytes())).unwrap_or_default();
    if let Some(query) = uri.query().and_then(|q| Query::parse(q).ok()) {
        let value = |name: &'static str| Some((name, printable(query.get(name)?.as_bytes())));
        record.query = QUERY.iter().filter_map(|name| value(name)).collect();
    }
}

/// What a request was about and who asked, as far as it came.
#[derive(Default)]
pub(crate) struct Witness {
    /// Who asked, proved by a signature.
    pub verified: Option<Verified>,
    /// Who asked, proved otherwise.
    pub vouched: Option<Arc<Identity>>,
    pub ruling: Slot,
    pub bucket: String,
    pub key: String,
    pub version: Option<String>,
    pub agent: Option<HeaderValue>,
    /// Only while the audit log is on.
    pub headers: Vec<(&'static str, String)>,
    /// How an answer that is not finished yet ends.
    pub ended: Option<Ended>,
}

/// Status and code of an answer that began before they were known.
pub(crate) type Ended = Arc<OnceLock<(u16, &'static str)>>;

impl Witness {
    /// What has to be kept of the headers before the operation takes them.
    pub fn head(&mut self, headers: &HeaderMap, all: bool) {
        self.agent = headers.get(USER_AGENT).cloned();
        if all {
            self.headers = headers_of(headers);
        }
    }

    /// Notes a call that may outlive its request.
    pub fn noted(&mut self, call: &Call) {
        (self.bucket, self.key) = (call.bucket.clone(), call.key.clone());
        self.vouched = Some(call.verified.identity().clone());
        self.ruling = Mutex::new(call.ruling.lock().clone());
    }

    /// Writes everything into a record.
    pub fn fill(self, uri: &Uri, record: &mut Record) {
        let who = self.verified.as_ref().map(|v| &**v.identity()).or(self.vouched.as_deref());
        describe(&HeaderMap::new(), uri, record);
        record.headers = self.headers;
        record.user_agent = self.agent.map(|v| printable(v.as_bytes())).unwrap_or_default();
        if let Some(who) = who {
            identify(who, record);
        }
        if let Some(ruling) = self.ruling.into_inner() {
            ruling.fill(who, record);
        }
        record.bucket = self.bucket;
        record.key = self.key;
        record.version = self.version;
    }
}

/// What is to be written down when an answer has been sent.
pub(crate) struct Note {
    record: Option<Box<Record>>,
    ticket: Ticket,
    began: Instant,
    ended: Option<Ended>,
    traced: Option<Box<Sending>>,
    slow: Option<Box<Slow>>,
}

impl Note {
    /// An answer whose body is still to be sent.
    pub fn new(began: Instant) -> Note {
        Note { record: None, ticket: Ticket::default(), began, ended: None, traced: None, slow: None }
    }

    /// A record is to be written when it is sent.
    pub fn record(&mut self, record: Record, ticket: Ticket, ended: Option<Ended>) {
        (self.record, self.ticket, self.ended) = (Some(Box::new(record)), ticket, ended);
    }

    /// Somebody listens.
    pub fn trace(&mut self, sending: Sending) {
        self.traced = Some(Box::new(sending));
    }

    /// It may turn out to be slow.
    pub fn slow(&mut self, slow: Slow) {
        self.slow = Some(Box::new(slow));
    }

    /// So many bytes were sent; `whole`: that was all.
    pub fn finish(&mut self, sent: u64, whole: bool) {
        if let Some(mut sending) = self.traced.take() {
            let event = &mut sending.event;
            (event.bytes_out, event.took, event.cut) = (sent, self.began.elapsed(), !whole);
            sending.tracer.publish(sending.event);
        }
        if let Some(slow) = self.slow.take() {
            slow.over(self.began, sent, whole);
        }
        let Some(mut record) = self.record.take() else { return };
        record.bytes_out = sent;
        record.cut = !whole;
        record.micros = self.began.elapsed().as_micros() as u64;
        if let Some(ended) = &self.ended {
            match ended.get() {
                Some((status, error)) => (record.status, record.error) = (*status, error),
                // Nobody waited for it; it may have been done.
                None => record.cut = true,
            }
        }
        std::mem::take(&mut self.ticket).note(*record);
    }
}

/// Which door an operation belongs to.
pub(crate) fn door(op: crate::operation::Operation) -> Door {
    use crate::operation::Operation as Op;
    match op {
        Op::AssumeRole
        | Op::GetCallerIdentity
        | Op::AssumeRoleWithWebIdentity
        | Op::AssumeRoleWithLDAPIdentity
        | Op::AssumeRoleWithCertificate => Door::Sts,
        _ => Door::S3,
    }
}
