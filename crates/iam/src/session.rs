//! Sessions: temporary credentials with an access key, a secret and a token that contains everything else.
//!
//! Nothing is stored for a session: the token is its record, sealed under the token key, so that issuing
//! costs one seal and every server of the deployment can open it. Invariants: a token names its own access
//! key, and is refused with another one; it always expires; its first byte determines the algorithm, and its
//! holder cannot choose it; a session of a user that was removed or disabled, or that was made before the
//! user's sessions were revoked, is refused; a session has all bounds of the credential that it was made
//! with.
//!
//! Must not depend on: HTTP, the source of a claim.

use std::sync::Arc;

use ashlar_policy::{Attached, Policy};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use crate::federated::Federated;
use crate::identity::{Identity, Kind};
use crate::limits::TOKEN;
use crate::secret::{new_access_key, new_secret};
use crate::{Error, Iam, Result, Secret};

/// Shortest session (AWS).
pub const MIN_SESSION_S: i64 = 900;
/// Longest session (MinIO: 365 days; AWS: 12 hours for roles).
pub const MAX_SESSION_S: i64 = 365 * 24 * 3600;

/// The context that tokens are sealed for.
const PLACE: &str = "session";

/// The parameters of a new session.
#[derive(Clone, Debug, Default)]
pub struct Assume {
    /// The duration in seconds.
    pub duration_s: i64,
    /// A policy document that restricts it.
    pub policy: Option<String>,
}

/// Temporary credentials.
#[derive(Clone, Debug)]
pub struct Session {
    /// The access key.
    pub access_key: String,
    /// The secret.
    pub secret: Secret,
    /// The token, which clients send with every request.
    pub token: String,
    /// The end, in milliseconds since 1970.
    pub expires_ms: i64,
}

/// The content of a token.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Content {
    access_key: String,
    secret: String,
    user: String,
    issued_ms: i64,
    expires_ms: i64,
    /// Policy documents that each must allow a request.
    #[serde(default)]
    bounds: Vec<String>,
    /// The stored access key that the session was made with. The session ends with it.
    #[serde(default)]
    made_with: Option<String>,
    /// The federated user, if it is one; its `id` is the user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    federated: Option<Federated>,
}

/// Refuses durations that a session cannot have.
pub(crate) fn check_duration(seconds: i64) -> Result<()> {
    if (MIN_SESSION_S..=MAX_SESSION_S).contains(&seconds) {
        return Ok(());
    }
    Err(Error::Invalid(format!("DurationSeconds must be {MIN_SESSION_S} to {MAX_SESSION_S}, not {seconds}")))
}

impl Iam {
    /// Makes temporary credentials for `who`, with at most the permissions of `who`.
    ///
    /// # Errors
    /// `Invalid` (the duration), `Policy`, `Missing` when `who` was removed meanwhile.
    pub fn assume(&self, who: &Identity, ask: &Assume) -> Result<Session> {
        check_duration(ask.duration_s)?;
        if who.kind == Kind::Session {
            return Err(Error::Invalid(
                "temporary credentials cannot make further temporary credentials".into(),
            ));
        }
        let now = self.now();
        let mut bounds: Vec<String> = who.bounds.iter().map(|p| p.to_json()).collect();
        if let Some(document) = &ask.policy {
            bounds.push(Policy::parse(Attached::Session, document.as_bytes())?.to_json());
        }
        let mut expires_ms = now.saturating_add(ask.duration_s * 1000);
        if let Some(end) = who.expires_ms {
            expires_ms = expires_ms.min(end);
        }
        let made_with = (who.kind == Kind::AccessKey).then(|| who.access_key.clone());
        let federated = who.federated.as_deref().cloned();
        self.issue(who.user.clone(), expires_ms, bounds, made_with, federated)
    }

    /// Makes the credentials.
    pub(crate) fn issue(
        &self,
        user: String,
        expires_ms: i64,
        bounds: Vec<String>,
        made_with: Option<String>,
        federated: Option<Federated>,
    ) -> Result<Session> {
        let content = Content {
            access_key: new_access_key(),
            secret: new_secret().expose().to_owned(),
            user,
            issued_ms: self.now(),
            expires_ms,
            bounds,
            made_with,
            federated: federated.map(Federated::stored),
        };
        let plain = serde_json::to_vec(&content).expect("plain data");
        let token = STANDARD.encode(self.tokens.seal(PLACE, &plain));
        if token.len() > TOKEN {
            return Err(Error::Invalid("the session's policies and claims are too long together".into()));
        }
        Ok(Session { access_key: content.access_key, secret: Secret::new(content.secret), token, expires_ms })
    }

    /// The identity behind a session's access key and token.
    ///
    /// # Errors
    /// `Token`, `Expired`.
    pub fn session(&self, access_key: &str, token: &str) -> Result<Arc<Identity>> {
        if token.len() > TOKEN {
            return Err(Error::Token("it is too long"));
        }
        let sealed =
            STANDARD.decode(token).map_err(|_| Error::Token("it was not issued by this deployment"))?;
        let plain =
            self.tokens.open(PLACE, &sealed).ok_or(Error::Token("it was not issued by this deployment"))?;
        let content: Content =
            serde_json::from_slice(&plain).map_err(|_| Error::Token("it was made by a newer release"))?;
        if content.access_key != access_key {
            return Err(Error::Token("it belongs to another access key"));
        }
        let now = self.now();
        if now >= content.expires_ms {
            return Err(Error::Expired);
        }
        let federated = content.federated.as_ref();
        let made_with = content.made_with.as_ref();
        let mut identity = self.standing(&content.user, content.issued_ms, made_with, federated)?;
        for document in &content.bounds {
            // Use the limit of the longest kind of document: each was checked against its own limit when it
            // was made.
            let policy = Policy::parse(Attached::Identity, document.as_bytes())
                .map_err(|_| Error::Token("its policy cannot be read"))?;
            identity.bounds.push(Arc::new(policy));
        }
        identity.access_key = content.access_key;
        identity.secret = Secret::new(content.secret);
        identity.kind = Kind::Session;
        identity.expires_ms = Some(content.expires_ms);
        identity.issued_ms = Some(content.issued_ms);
        identity.made_with = content.made_with;
        if let Some(who) = &identity.federated {
            self.see(&identity.access_key, who);
        }
        Ok(Arc::new(identity))
    }

    /// What a session of this user is now, all but its own key, secret and bounds.
    fn standing(
        &self,
        user: &str,
        issued_ms: i64,
        made_with: Option<&String>,
        federated: Option<&Federated>,
    ) -> Result<Identity> {
        let d = self.directory();
        let gone =
            Error::Token("the user or the identity provider it was made for no longer exists or is disabled");
        let trusted = self.trusted.load();
        let (identity, revoked) = match federated {
            Some(who) => {
                let kept = d.records.federated_users.get(user);
                (d.federated(who, &trusted), kept.map_or(i64::MIN, |m| m.revoked_ms))
            }
            None => {
                let stored = d.records.users.get(user);
                (d.child(user), stored.map_or(d.records.root_revoked_ms, |u| u.revoked_ms))
            }
        };
        let identity = identity.ok_or(gone)?;
        if issued_ms <= revoked {
            return Err(Error::Token("it was revoked"));
        }
        let now = self.now();
        let same = |key: &String| {
            let record = d.records.keys.get(key).filter(|k| k.made_ms <= issued_ms);
            record.is_some() && d.find(key, &trusted, now).is_some_and(|i| i.user == user)
        };
        if !made_with.is_none_or(same) {
            return Err(Error::Token("the access key it was made with no longer exists or is disabled"));
        }
        Ok(identity)
    }

    /// The same caller with the policies of now, for an answer that goes on for long. `None`: the credential has ended
    /// since: it has expired, was revoked, disabled, removed or given another secret.
    #[must_use]
    pub fn renewed(&self, who: &Identity) -> Option<Arc<Identity>> {
        if who.expires_ms.is_some_and(|end| self.now() >= end) {
            return None;
        }
        match (who.kind, who.issued_ms) {
            (Kind::Anonymous, _) => Some(Arc::new(Identity::anonymous())),
            (Kind::Session, Some(issued_ms)) => {
                let federated = who.federated.as_deref();
                let now = self.standing(&who.user, issued_ms, who.made_with.as_ref(), federated).ok()?;
                Some(Arc::new(Identity {
                    access_key: who.access_key.clone(),
                    secret: who.secret.clone(),
                    kind: Kind::Session,
                    bounds: who.bounds.clone(),
                    expires_ms: who.expires_ms,
                    issued_ms: who.issued_ms,
                    made_with: who.made_with.clone(),
                    ..now
                }))
            }
            _ => {
                let same =
                    |now: &Arc<Identity>| now.user == who.user && now.secret.expose() == who.secret.expose();
                self.find(&who.access_key).filter(same)
            }
        }
    }
}
