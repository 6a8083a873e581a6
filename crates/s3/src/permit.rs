//! Authorization: from an authenticated request to a decision of the policies.
//!
//! `needs` has the permissions of each operation.
//!
//! Invariants: no answer depends on buckets, keys or conditions before the decision; a bucket's policy that
//! cannot be read denies; facts for policies come from the connection and the verified request, and a header
//! never replaces one of them.
//!
//! Must not depend on: operations, the store of users.

use ashlar_iam::Kind;
use ashlar_object::{OpenBucket, Pairs, VersionId, parse_version};
use ashlar_policy::{
    Action, BucketRules, Check, Context as Facts, DecidedBy, Decision, Level, Lookup, Of, Ownership, Policy,
    PublicAccessBlock, Request, Requester, Source, Values, decide,
};
use futures::FutureExt as _;
use http::HeaderMap;
use smallvec::{SmallVec, smallvec};

use crate::acl;
use crate::auth::{Scheme, Verified};
use crate::authz_decision::{AuthzDecision, DecisionSlot};
use crate::buckets::Buckets;
use crate::call::Call;
use crate::context::Context;
use crate::date;
use crate::document_cache::Rules;
pub use crate::document_cache::{DocumentCache, Origin};
use crate::fault::{Code, Fault, Outcome};
use crate::headers;
use crate::target::{Query, RESERVED_PREFIX};
use crate::while_permitted::StillPermitted;

/// What is needed to be allowed one thing.
pub struct Need<'a> {
    /// The action.
    pub action: Action,
    /// The bucket; empty for the service.
    pub bucket: &'a str,
    /// The key; empty for buckets.
    pub key: &'a str,
    /// The version that the request names.
    pub version: Option<&'a str>,
}

/// Headers as the policy language sees them.
struct Headers<'a>(&'a HeaderMap);

impl Lookup for Headers<'_> {
    fn get(&self, name: &str) -> Values<'_> {
        self.0.get(name).and_then(|v| v.to_str().ok()).map_or(Values::Absent, Values::Text)
    }
}

/// The caller, with the facts of the request that policies can test.
pub struct Asker<'a> {
    /// The verified identity.
    pub verified: &'a Verified,
    /// The headers; of a form: the fields that stand for headers.
    pub headers: &'a HeaderMap,
    /// The buckets that the request is about.
    pub buckets: &'a Buckets,
    /// The query.
    pub query: &'a Query,
    /// The request came over TLS.
    pub tls: bool,
    /// The origin of the request.
    pub origin: &'a Origin,
    /// Receives the decision, for the audit log.
    pub authz_decision: &'a DecisionSlot,
    /// The tags that the request stores, where `x-amz-tagging` does not hold them.
    pub tags: Option<&'a Pairs>,
}

impl Asker<'_> {
    /// Whether the caller has this permission. The slot keeps the last decision; a refusal about an object is
    /// not replaced, because with several keys the refused one is of interest.
    pub async fn may(&self, cx: &Context, need: &Need<'_>) -> bool {
        let bucket = if need.bucket.is_empty() { None } else { self.buckets.find(need.bucket).ok() };
        self.may_in(cx, need, bucket.as_ref()).await
    }

    /// As [`Asker::may`], of the bucket that has the name in `need`.
    async fn may_in(&self, cx: &Context, need: &Need<'_>, bucket: Option<&OpenBucket>) -> bool {
        let authz_decision = self.rule(cx, need, bucket).await;
        let allowed = !authz_decision.denies();
        let mut last = self.authz_decision.lock();
        let keeps = |r: &AuthzDecision| r.denies() && r.action.level() == Level::Object;
        if !(allowed && last.as_ref().is_some_and(keeps)) {
            *last = Some(authz_decision);
        }
        allowed
    }

    async fn rule(&self, cx: &Context, need: &Need<'_>, bucket: Option<&OpenBucket>) -> AuthzDecision {
        let who = self.verified.identity();
        // Only root can write to the server's own buckets, so that their content cannot be forged.
        if need.bucket.starts_with(RESERVED_PREFIX) && !reads(need.action) && !who.is_unbounded_root() {
            return AuthzDecision::plain(need.action, false, DecidedBy::Nothing);
        }
        let rules = bucket.and_then(|b| self.origin.document_cache.rules(b));
        if rules.is_none() && (who.is_unbounded_root() || who.kind == Kind::Anonymous) {
            let root = who.kind != Kind::Anonymous;
            return AuthzDecision::plain(
                need.action,
                root,
                if root { DecidedBy::Root } else { DecidedBy::Nothing },
            );
        }
        let (policy, block, ownership) = match rules.as_deref() {
            None => (None, PublicAccessBlock::default(), Ownership::default()),
            Some(Rules { policy: Ok(policy), block, ownership, .. }) => (policy.as_ref(), *block, *ownership),
            // Root can still repair it.
            Some(Rules { policy: Err(()), .. }) if who.is_unbounded_root() => {
                return AuthzDecision::plain(need.action, true, DecidedBy::Root);
            }
            Some(Rules { policy: Err(()), .. }) => {
                return AuthzDecision { action: need.action, decision: None, sid: None };
            }
        };
        let on_tags = |p: &Policy| p.uses_object_tags(need.action);
        let mut all = who.policies.iter().chain(&who.bounds).map(|p| &**p).chain(policy);
        let tags = match need.action.level() == Level::Object && all.any(on_tags) {
            true => self.tags_of(cx, need, bucket).await,
            false => None,
        };
        let mut rules = BucketRules { policy, block, acl: false };
        let mut decision = self.decide(cx, need, rules, tags.as_ref());
        // Lists are looked at only where they can change something: they cost a read.
        if let Some(bucket) =
            bucket.filter(|_| !decision.allowed && ownership != Ownership::BucketOwnerEnforced)
        {
            rules.acl = self.listed(cx, need, bucket, ownership, block).await;
            if rules.acl {
                decision = self.decide(cx, need, rules, tags.as_ref());
            }
        }
        let sid = if decision.allowed && !self.origin.document_cache.recorded {
            None
        } else {
            self.sid(&decision, policy)
        };
        AuthzDecision { action: need.action, decision: Some(decision), sid }
    }

    /// Whether an access control list grants it.
    async fn listed(
        &self,
        cx: &Context,
        need: &Need<'_>,
        bucket: &OpenBucket,
        ownership: Ownership,
        block: PublicAccessBlock,
    ) -> bool {
        let who = self.verified.identity();
        let Some((of, _)) = ashlar_policy::needs(need.action) else { return false };
        let requester = match who.kind {
            Kind::Anonymous => Requester::Anonymous,
            _ => Requester::Id(acl::canonical_id(cx, who)),
        };
        let mut check =
            Check { action: need.action, requester, ownership, block, bucket: None, object: None };
        let list;
        match of {
            Of::Bucket => {
                list = acl::stored(cx, bucket.documents.get(acl::ACL).map_or("", |t| t));
                check.bucket = Some(&list);
            }
            Of::Object => {
                let version = match need.version.map(parse_version) {
                    Some(None) => return false,
                    version => version.flatten(),
                };
                let Ok(object) = cx.store.get(bucket, need.key, version).await else { return false };
                list = acl::stored(cx, &object.version().acl);
                check.object = Some(&list);
            }
        }
        ashlar_policy::allows(&check)
    }

    /// The `Sid` of the statement that decided.
    fn sid(&self, decision: &Decision, bucket: Option<&Policy>) -> Option<String> {
        let DecidedBy::Statement { source, index } = decision.by else { return None };
        let who = self.verified.identity();
        let policy = match source {
            Source::Bucket => bucket?,
            Source::Identity(i) => who.policies.get(usize::from(i))?,
            Source::Session(i) => who.bounds.get(usize::from(i))?,
        };
        policy.document().statements.get(usize::from(index))?.sid.clone()
    }

    fn decide(
        &self,
        cx: &Context,
        need: &Need<'_>,
        bucket: BucketRules<'_>,
        tags: Option<&Pairs>,
    ) -> Decision {
        let who = self.verified.identity();
        let decision = self.question(cx, need, tags, |q| decide(q, &who.authority(bucket, false)));
        if !decision.allowed {
            tracing::debug!(
                target: "ashlar::request",
                access_key = who.access_key, action = need.action.name(), bucket = need.bucket, key = need.key,
                by = ?decision.by, "denied"
            );
        }
        decision
    }

    /// Puts what is to be decided into the words of the policy language.
    fn question<T>(
        &self,
        cx: &Context,
        need: &Need<'_>,
        tags: Option<&Pairs>,
        ask: impl FnOnce(&Request) -> T,
    ) -> T {
        let who = self.verified.identity();
        let headers = Headers(self.headers);
        let text = |name: &str| self.headers.get(name).and_then(|v| v.to_str().ok());
        let given = match self.tags {
            Some(tags) => tags.clone(),
            None => headers::tagging(self.headers).ok().flatten().unwrap_or_default(),
        };
        let given: SmallVec<[(&str, &str); 4]> =
            given.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        let now_ms = (cx.clock)();
        let (version, kind) = match self.verified.scheme() {
            Scheme::HeaderV4 => (Some("AWS4-HMAC-SHA256"), Some("REST-HEADER")),
            Scheme::QueryV4 => (Some("AWS4-HMAC-SHA256"), Some("REST-QUERY-STRING")),
            Scheme::HeaderV2 => (Some("AWS"), Some("REST-HEADER")),
            Scheme::QueryV2 => (Some("AWS"), Some("REST-QUERY-STRING")),
            Scheme::Form => (Some("AWS4-HMAC-SHA256"), Some("POST")),
            Scheme::Anonymous => (None, None),
        };
        let signed_at = self.query.get("X-Amz-Date").and_then(date::parse_basic);
        let facts = Facts {
            now_ms,
            source_ip: Some(self.origin.ip),
            secure: self.tls,
            user_agent: text("user-agent"),
            referer: text("referer"),
            region: Some(&cx.region),
            prefix: self.query.get("prefix"),
            delimiter: self.query.get("delimiter"),
            max_keys: self.query.get("max-keys").and_then(|n| n.parse().ok()),
            version_id: need.version,
            signature_version: version,
            signature_age_ms: signed_at.map(|at| now_ms - at * 1000),
            auth_type: kind,
            headers: Some(&headers),
            object_tags: tags.map(|t| t as &dyn Lookup),
            request_tags: &given,
            lock_mode: text("x-amz-object-lock-mode"),
            lock_until_ms: text("x-amz-object-lock-retain-until-date")
                .and_then(date::parse_iso)
                .map(|s| s.saturating_mul(1000)),
            legal_hold: text("x-amz-object-lock-legal-hold"),
            ..Facts::default()
        };
        let principal = who.principal();
        ask(&Request::new(need.action, need.bucket, need.key, &principal, &facts))
    }

    /// Whether a policy could allow this for some content of the body.
    fn could(&self, cx: &Context, need: &Need<'_>) -> bool {
        let who = self.verified.identity();
        let bucket = self.buckets.find(need.bucket).ok();
        let rules = bucket.and_then(|b| self.origin.document_cache.rules(&b));
        let of_bucket = rules.as_deref().and_then(|r| r.policy.as_ref().ok()?.as_ref());
        let mut all = who.policies.iter().map(|p| &**p).chain(of_bucket);
        who.root || self.question(cx, need, None, |q| all.any(|p| p.could_allow(q)))
    }

    /// Tags of the object that the request names, for policies that test them.
    async fn tags_of(&self, cx: &Context, need: &Need<'_>, bucket: Option<&OpenBucket>) -> Option<Pairs> {
        let version: Option<VersionId> = match need.version {
            Some(text) => Some(parse_version(text)?),
            None => None,
        };
        cx.store.get_tags(bucket?, need.key, version).await.ok().map(|(tags, _)| tags)
    }
}

impl Call {
    /// As [`Asker::may`].
    pub async fn may(&self, cx: &Context, need: &Need<'_>) -> bool {
        self.asker(None).may(cx, need).await
    }

    /// As [`Call::may`], of the bucket that has the name in `need`.
    pub(crate) async fn may_in(&self, cx: &Context, need: &Need<'_>, bucket: &OpenBucket) -> bool {
        self.asker(None).may_in(cx, need, Some(bucket)).await
    }

    /// Whether the caller still has this permission for the bucket of the call, whenever that is asked, for an answer without an
    /// end: the credential stands, and the policies of then allow it. The action is not one of objects: nothing is read.
    pub(crate) fn standing(&self, cx: &Context, action: Action) -> StillPermitted {
        let (me, before) = (cx.me.clone(), self.verified.renewed(self.verified.identity().clone()));
        let (headers, query, bucket) = (self.headers.clone(), self.query.clone(), self.bucket.clone());
        let (tls, origin) = (self.tls, self.origin.clone());
        Box::new(move || {
            let Some(cx) = me.upgrade() else { return false };
            let who = before.identity();
            let now = cx.people.as_ref().map_or_else(|| Some(who.clone()), |iam| iam.renewed(who));
            let Some(now) = now else { return false };
            let asker = Asker {
                verified: &before.renewed(now),
                headers: &headers,
                // Buckets as they are now, with the policies of now.
                buckets: &Buckets::new(&cx.store),
                query: &query,
                tls,
                origin: &origin,
                authz_decision: &DecisionSlot::default(),
                tags: None,
            };
            let need = Need { action, bucket: &bucket, key: "", version: None };
            asker.may(&cx, &need).now_or_never() == Some(true)
        })
    }

    fn asker<'a>(&'a self, tags: Option<&'a Pairs>) -> Asker<'a> {
        Asker {
            verified: &self.verified,
            headers: &self.headers,
            buckets: &self.buckets,
            query: &self.query,
            tls: self.tls,
            origin: &self.origin,
            authz_decision: &self.authz_decision,
            tags,
        }
    }

    /// As [`Call::permit`], of a request that stores these tags.
    pub(crate) async fn permit_tags(&self, cx: &Context, need: &Need<'_>, tags: &Pairs) -> Outcome<()> {
        if self.asker(Some(tags)).may(cx, need).await { Ok(()) } else { Err(Fault::new(Code::ACCESS_DENIED)) }
    }

    /// Refuses before the body is read unless a policy could allow this for some content of the body. The
    /// decision itself follows when the body has been read.
    pub(crate) async fn permit_before_body(&self, cx: &Context, action: Action) -> Outcome<()> {
        let version = self.query.filled("versionId");
        let need = Need { action, bucket: &self.bucket, key: &self.key, version };
        if self.asker(None).could(cx, &need) { Ok(()) } else { self.permit(cx, &need).await }
    }

    /// Refuses unless the caller has this permission.
    pub async fn permit(&self, cx: &Context, need: &Need<'_>) -> Outcome<()> {
        if self.may(cx, need).await { Ok(()) } else { Err(Fault::new(Code::ACCESS_DENIED)) }
    }
}

/// Whether the headers ask for another access control list than the private one.
pub(crate) fn asks_for_acl(request: &HeaderMap) -> bool {
    let canned = headers::ascii(request, "x-amz-acl").is_some_and(|acl| !acl.is_empty() && acl != "private");
    canned || request.keys().any(|name| name.as_str().starts_with("x-amz-grant-"))
}

/// The actions that a request which makes an object needs for what its headers store beside the body.
pub(crate) fn carried(request: &HeaderMap) -> SmallVec<[Action; 4]> {
    let has = |name: &str| request.get(name).is_some_and(|v| !v.is_empty());
    let mut all = smallvec![];
    if has("x-amz-tagging") {
        all.push(Action::PutObjectTagging);
    }
    if asks_for_acl(request) {
        all.push(Action::PutObjectAcl);
    }
    if has("x-amz-object-lock-mode") || has("x-amz-object-lock-retain-until-date") {
        all.push(Action::PutObjectRetention);
    }
    if has("x-amz-object-lock-legal-hold") {
        all.push(Action::PutObjectLegalHold);
    }
    all
}

/// Whether an action changes nothing.
fn reads(action: Action) -> bool {
    ["s3:Get", "s3:List", "s3:Head"].iter().any(|start| action.name().starts_with(start))
}
