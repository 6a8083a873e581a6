//! The request to decide: principal, action, resource and context.
//!
//! Invariants: everything here is borrowed, and building a request allocates nothing for names up to
//! [`INLINE`] bytes; derived facts are typed fields, so that no header can replace one of them. The caller
//! provides all facts: this crate reads neither clocks nor sockets.

use std::borrow::Cow;
use std::net::IpAddr;

use smallvec::SmallVec;

use crate::action::{Action, Level};
use crate::key::{Key, KeyId};

/// Bytes of `bucket/key` that a request holds without allocating.
const INLINE: usize = 192;

/// The value, or values, of a condition key.
#[derive(Debug, Clone, Copy)]
pub enum Values<'a> {
    /// The request has no such key.
    Absent,
    /// One text.
    Text(&'a str),
    /// One whole number.
    Int(i64),
    /// True or false.
    Bool(bool),
    /// An address.
    Ip(IpAddr),
    /// A moment, in milliseconds since 1970.
    Time(i64),
    /// Several texts.
    Texts(&'a [&'a str]),
    /// Several texts.
    Strings(&'a [String]),
    /// The names of pairs.
    Names(&'a [(&'a str, &'a str)]),
}

/// One value.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Scalar<'a> {
    Text(&'a str),
    Int(i64),
    Bool(bool),
    Ip(IpAddr),
    Time(i64),
}

impl<'a> Scalar<'a> {
    /// As the text that string operators and variables see.
    pub(crate) fn text(self) -> Cow<'a, str> {
        match self {
            Scalar::Text(t) => t.into(),
            Scalar::Int(i) => i.to_string().into(),
            Scalar::Bool(b) => (if b { "true" } else { "false" }).into(),
            Scalar::Ip(ip) => ip.to_canonical().to_string().into(),
            Scalar::Time(ms) => crate::value::date_text(ms).into(),
        }
    }
}

impl<'a> Values<'a> {
    /// The only value; `None` when there is none, or when the key is one with several.
    pub(crate) fn single(self) -> Option<Scalar<'a>> {
        Some(match self {
            Values::Text(t) => Scalar::Text(t),
            Values::Int(i) => Scalar::Int(i),
            Values::Bool(b) => Scalar::Bool(b),
            Values::Ip(ip) => Scalar::Ip(ip),
            Values::Time(ms) => Scalar::Time(ms),
            Values::Absent | Values::Texts(_) | Values::Strings(_) | Values::Names(_) => return None,
        })
    }

    /// Whether the request has no value for the key; an empty list is none.
    pub(crate) fn is_absent(self) -> bool {
        match self {
            Values::Absent => true,
            Values::Texts(l) => l.is_empty(),
            Values::Strings(l) => l.is_empty(),
            Values::Names(l) => l.is_empty(),
            _ => false,
        }
    }

    /// AWS's empty data set: no value, or nothing but empty texts.
    pub(crate) fn is_empty_set(self) -> bool {
        self.is_absent() || !self.any(|s| !matches!(s, Scalar::Text("")))
    }

    /// Whether a value satisfies the test.
    #[inline]
    pub(crate) fn any(self, mut test: impl FnMut(Scalar<'a>) -> bool) -> bool {
        match self {
            Values::Absent => false,
            Values::Texts(l) => l.iter().any(|t| test(Scalar::Text(t))),
            Values::Strings(l) => l.iter().any(|t| test(Scalar::Text(t))),
            Values::Names(l) => l.iter().any(|(t, _)| test(Scalar::Text(t))),
            one => one.single().is_some_and(test),
        }
    }
}

/// Named facts: headers, tags, claims, attributes.
pub trait Lookup {
    /// The value under a name. Names of headers, claims and attributes come in lower case.
    fn get(&self, name: &str) -> Values<'_>;
}

impl Lookup for &[(&str, &str)] {
    fn get(&self, name: &str) -> Values<'_> {
        self.iter().find(|(n, _)| *n == name).map_or(Values::Absent, |(_, v)| Values::Text(v))
    }
}

impl Lookup for Vec<(String, String)> {
    fn get(&self, name: &str) -> Values<'_> {
        self.iter().find(|(n, _)| n == name).map_or(Values::Absent, |(_, v)| Values::Text(v))
    }
}

/// Claims as a session keeps them: a claim with one value counts as single. Names without regard to case; the
/// first that matches.
impl Lookup for Vec<(String, Vec<String>)> {
    fn get(&self, name: &str) -> Values<'_> {
        match self.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, v)| &v[..]) {
            None => Values::Absent,
            Some([one]) => Values::Text(one),
            Some(many) => Values::Strings(many),
        }
    }
}

/// The kind of requester.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Who {
    /// An unsigned request.
    #[default]
    Anonymous,
    /// The owner of the deployment.
    Root,
    /// A user, or an access key of one.
    User,
    /// A session of a user or role (AssumeRole).
    Session,
    /// A session of an identity kept elsewhere (OpenID Connect, LDAP, certificate).
    Federated,
    /// A service of the server itself, such as replication.
    Service,
}

impl Who {
    /// The value of `aws:PrincipalType`.
    pub fn name(self) -> &'static str {
        match self {
            Who::Anonymous => "Anonymous",
            Who::Root => "Account",
            Who::User => "User",
            Who::Session => "AssumedRole",
            Who::Federated => "FederatedUser",
            Who::Service => "Service",
        }
    }
}

/// The requester. For a service account or session: its parent, whose name conditions and bucket policies
/// see.
#[derive(Clone, Copy, Default)]
pub struct Principal<'a> {
    /// The kind of caller.
    pub who: Who,
    /// `aws:username`; empty: none.
    pub name: &'a str,
    /// `aws:userid`; empty: none.
    pub id: &'a str,
    /// `aws:PrincipalArn`, such as `arn:aws:iam::123456789012:user/alice`; empty: none.
    pub arn: &'a str,
    /// The deployment's account number, 12 digits; empty: none.
    pub account: &'a str,
    /// The canonical id in access control lists; empty: none.
    pub canonical_id: &'a str,
    /// `aws:FederatedProvider`: the provider that authenticated a federated identity; empty: none.
    pub provider: &'a str,
    /// `aws:groups`.
    pub groups: &'a [String],
    /// `aws:TokenIssueTime`, in milliseconds; sessions only.
    pub token_issued_ms: Option<i64>,
    /// `aws:MultiFactorAuthPresent`; sessions only.
    pub mfa: Option<bool>,
    /// `jwt:*`.
    pub claims: Option<&'a dyn Lookup>,
    /// `ldap:*`.
    pub ldap: Option<&'a dyn Lookup>,
    /// `aws:PrincipalTag/*`.
    pub tags: Option<&'a dyn Lookup>,
}

/// The context of the request. `None` means that the request has no such value.
#[derive(Clone, Copy, Default)]
pub struct Context<'a> {
    /// Now, in milliseconds since 1970.
    pub now_ms: i64,
    /// The peer of the socket, or the address that a configured proxy reports. Never directly from a header.
    pub source_ip: Option<IpAddr>,
    /// Whether the request came over TLS.
    pub secure: bool,
    /// TLS version, such as `1.3`.
    pub tls_version: Option<&'a str>,
    /// `User-Agent`.
    pub user_agent: Option<&'a str>,
    /// `Referer`.
    pub referer: Option<&'a str>,
    /// Region that the request was signed for.
    pub region: Option<&'a str>,
    /// `prefix` of a list.
    pub prefix: Option<&'a str>,
    /// `delimiter` of a list.
    pub delimiter: Option<&'a str>,
    /// `max-keys` of a list.
    pub max_keys: Option<i64>,
    /// `versionId`.
    pub version_id: Option<&'a str>,
    /// Location constraint of a new bucket.
    pub location_constraint: Option<&'a str>,
    /// `AWS4-HMAC-SHA256` or `AWS`.
    pub signature_version: Option<&'a str>,
    /// Age of the signature of a presigned request, in milliseconds.
    pub signature_age_ms: Option<i64>,
    /// `REST-HEADER`, `REST-QUERY-STRING` or `POST`.
    pub auth_type: Option<&'a str>,
    /// Request headers, for the closed list of [`KeyId::is_header`]; names in lower case.
    pub headers: Option<&'a dyn Lookup>,
    /// Tags of the object that is there; see [`crate::Policy::uses_object_tags`].
    pub object_tags: Option<&'a dyn Lookup>,
    /// Tags that the request brings.
    pub request_tags: &'a [(&'a str, &'a str)],
    /// Retention mode that the request asks for.
    pub lock_mode: Option<&'a str>,
    /// Retention end that the request asks for, in milliseconds.
    pub lock_until_ms: Option<i64>,
    /// `ON` or `OFF`.
    pub legal_hold: Option<&'a str>,
    /// `sts:*` and `svc:*`: parameters of a request for a session or access key, such as `durationseconds`.
    pub sts: Option<&'a dyn Lookup>,
}

/// The request: may this principal do this?
pub struct Request<'a> {
    /// The action.
    pub action: Action,
    /// The caller.
    pub principal: &'a Principal<'a>,
    /// Under which circumstances.
    pub context: &'a Context<'a>,
    resource: SmallVec<[u8; INLINE]>,
}

const DAY_MS: i64 = 86_400_000;

impl<'a> Request<'a> {
    /// A question about a bucket (`key` empty), an object, a key of the key manager (`bucket` empty,
    /// `key` its name) or nothing in particular (both empty).
    pub fn new(
        action: Action,
        bucket: &str,
        key: &str,
        principal: &'a Principal<'a>,
        context: &'a Context<'a>,
    ) -> Request<'a> {
        let mut resource = SmallVec::new();
        if action.level() == Level::Kms {
            resource.extend_from_slice(key.as_bytes());
        } else {
            resource.extend_from_slice(bucket.as_bytes());
            if !key.is_empty() {
                resource.push(b'/');
                resource.extend_from_slice(key.as_bytes());
            }
        }
        Request { action, principal, context, resource }
    }

    /// `bucket`, `bucket/key`, a key's name or nothing.
    pub fn resource(&self) -> &str {
        // Put together from texts at their ends, so this is text.
        std::str::from_utf8(&self.resource).unwrap_or_default()
    }

    #[inline]
    pub(crate) fn resource_bytes(&self) -> &[u8] {
        &self.resource
    }

    pub(crate) fn single(&self, key: &Key) -> Option<Scalar<'_>> {
        self.values(key).single()
    }

    /// The values of a condition key.
    pub fn values(&self, key: &Key) -> Values<'_> {
        let text = |t: &'a str| if t.is_empty() { Values::Absent } else { Values::Text(t) };
        let maybe = |t: Option<&'a str>| t.map_or(Values::Absent, Values::Text);
        let named = |l: Option<&'a dyn Lookup>| l.map_or(Values::Absent, |l| l.get(&key.name));
        let (p, c) = (self.principal, self.context);
        match key.id {
            KeyId::CurrentTime => Values::Time(c.now_ms),
            KeyId::EpochTime => Values::Int(c.now_ms.div_euclid(1000)),
            KeyId::FederatedProvider => text(p.provider),
            KeyId::Groups => Values::Strings(p.groups),
            KeyId::MfaPresent => p.mfa.map_or(Values::Absent, Values::Bool),
            KeyId::PrincipalAccount if p.who == Who::Anonymous => Values::Absent,
            KeyId::PrincipalAccount => text(p.account),
            KeyId::PrincipalArn => text(p.arn),
            KeyId::PrincipalType => Values::Text(p.who.name()),
            KeyId::Referer => maybe(c.referer),
            KeyId::RequestedRegion => maybe(c.region),
            KeyId::SecureTransport => Values::Bool(c.secure),
            KeyId::SourceIp => c.source_ip.map_or(Values::Absent, Values::Ip),
            KeyId::TokenIssueTime => p.token_issued_ms.map_or(Values::Absent, Values::Time),
            KeyId::UserAgent => maybe(c.user_agent),
            KeyId::UserId => text(p.id),
            KeyId::Username => text(p.name),
            KeyId::AuthType => maybe(c.auth_type),
            KeyId::Delimiter => maybe(c.delimiter),
            KeyId::LocationConstraint => maybe(c.location_constraint),
            KeyId::MaxKeys => c.max_keys.map_or(Values::Absent, Values::Int),
            KeyId::LockLegalHold => maybe(c.legal_hold),
            KeyId::LockMode => maybe(c.lock_mode),
            KeyId::LockRemainingDays => c.lock_until_ms.map_or(Values::Absent, |t| {
                Values::Int((t - c.now_ms).max(0).saturating_add(DAY_MS - 1) / DAY_MS)
            }),
            KeyId::LockRetainUntil => c.lock_until_ms.map_or(Values::Absent, Values::Time),
            KeyId::Prefix => maybe(c.prefix),
            KeyId::RequestObjectTagKeys => Values::Names(c.request_tags),
            KeyId::SignatureAge => c.signature_age_ms.map_or(Values::Absent, Values::Int),
            KeyId::SignatureVersion => maybe(c.signature_version),
            KeyId::TlsVersion => maybe(c.tls_version),
            KeyId::VersionId => maybe(c.version_id),
            KeyId::ExistingObjectTag => named(c.object_tags),
            KeyId::RequestObjectTag => {
                let tag = c.request_tags.iter().find(|(n, _)| *n == &*key.name);
                tag.map_or(Values::Absent, |(_, v)| Values::Text(v))
            }
            KeyId::PrincipalTag => named(p.tags),
            KeyId::Jwt => named(p.claims),
            KeyId::Ldap => named(p.ldap),
            KeyId::Sts | KeyId::Svc => named(c.sts),
            KeyId::Never => Values::Absent,
            _ => named(c.headers),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Calls with a request of the user `a*` for `s3:GetObject` on `b/k`.
    pub(crate) fn blank(run: impl FnOnce(&Request, &Context)) {
        let principal = Principal { who: Who::User, name: "a*", ..Principal::default() };
        let context = Context::default();
        run(&Request::new(Action::GetObject, "b", "k", &principal, &context), &context);
    }

    #[test]
    fn resources_are_built_from_bucket_and_key() {
        let (p, c) = (Principal::default(), Context::default());
        let of = |a, b, k| Request::new(a, b, k, &p, &c).resource().to_owned();
        assert_eq!(of(Action::GetObject, "b", "a/é"), "b/a/é");
        assert_eq!(of(Action::ListBucket, "b", ""), "b");
        assert_eq!(of(Action::KmsEncrypt, "", "key"), "key");
        assert_eq!(of(Action::ListAllMyBuckets, "", ""), "");
    }

    #[test]
    fn remaining_days_are_rounded_up() {
        let p = Principal::default();
        for (until, want) in [(0, 0), (1, 1), (DAY_MS, 1), (DAY_MS + 1, 2), (-5, 0)] {
            let c = Context { lock_until_ms: Some(until), ..Context::default() };
            let r = Request::new(Action::PutObjectRetention, "b", "k", &p, &c);
            let Values::Int(days) = r.values(&Key::find("s3:object-lock-remaining-retention-days").unwrap())
            else {
                panic!()
            };
            assert_eq!(days, want, "{until}");
        }
    }
}
