//! Access keys, and the signing keys derived from them.
//!
//! Invariants: an unknown key costs as much time as a known one; a signing key is used only with the secret
//! that it was derived from; the cache of signing keys holds at most [`CACHED`] entries. Must not depend on:
//! requests.

use std::collections::HashMap;
use std::sync::Arc;

use ashlar_checksum::hmac_sha256;
use ashlar_iam::{Error, Iam, Identity, Root, Secret};
use aws_lc_rs::hmac;
use parking_lot::RwLock;

use crate::fault::{Code, Fault, Outcome};

/// Signing keys kept: a day's key per access key. All are forgotten when there are more.
pub const CACHED: usize = 4096;

/// A signing key: HMAC state made from secret, date, region and service.
pub type SigningKey = Arc<hmac::Key>;

struct Cached {
    date: [u8; 8],
    region: String,
    service: &'static str,
    secret: Secret,
    key: SigningKey,
}

/// The source of access keys that may sign.
enum Source {
    Root(Arc<Identity>),
    Iam(Arc<Iam>),
}

/// The keys that may sign.
pub struct Keys {
    source: Source,
    decoy: Arc<Identity>,
    nobody: Arc<Identity>,
    signing: RwLock<HashMap<String, Cached>>,
}

impl Keys {
    /// Root's key only.
    pub fn new(root: Root) -> Keys {
        Keys::of(Source::Root(Arc::new(Identity::of_root(&root))))
    }

    /// Root's key, those of users, and sessions.
    pub fn over(iam: Arc<Iam>) -> Keys {
        Keys::of(Source::Iam(iam))
    }

    fn of(source: Source) -> Keys {
        let mut random = [0u8; 20];
        ashlar_environment::random::fill(&mut random).expect("the operating system gives random bytes");
        let decoy = Root { access_key: String::new(), secret: Secret::new(hex::encode(random)) };
        Keys {
            source,
            decoy: Arc::new(Identity::of_root(&decoy)),
            nobody: Arc::new(Identity::anonymous()),
            signing: RwLock::default(),
        }
    }

    /// The users and keys, where there are any beside root's.
    pub fn iam(&self) -> Option<&Arc<Iam>> {
        match &self.source {
            Source::Root(_) => None,
            Source::Iam(iam) => Some(iam),
        }
    }

    /// Root.
    pub fn root(&self) -> Arc<Identity> {
        match &self.source {
            Source::Root(root) => root.clone(),
            Source::Iam(iam) => iam.root(),
        }
    }

    /// The anonymous identity.
    pub(super) fn nobody(&self) -> Arc<Identity> {
        self.nobody.clone()
    }

    /// 32 bytes that only holders of root's secret can make, for one purpose.
    pub fn root_derived(&self, purpose: &[u8]) -> [u8; 32] {
        hmac_sha256(self.root().secret.expose().as_bytes(), purpose)
    }

    /// The identity behind `id`, of a session with its token, and true; or a decoy and false.
    pub(super) fn find(&self, id: &str, token: Option<&str>) -> Outcome<(Arc<Identity>, bool)> {
        let found = match (&self.source, token) {
            (Source::Root(_), Some(_)) => return Err(Fault::new(Code::INVALID_TOKEN)),
            (Source::Root(root), None) => {
                ashlar_checksum::ct_eq(root.access_key.as_bytes(), id.as_bytes()).then(|| root.clone())
            }
            (Source::Iam(iam), None) => iam.find(id),
            (Source::Iam(iam), Some(token)) => match iam.session(id, token) {
                Ok(identity) => Some(identity),
                Err(Error::Expired) => return Err(Fault::new(Code::EXPIRED_TOKEN)),
                Err(_) => return Err(Fault::new(Code::INVALID_TOKEN)),
            },
        };
        Ok(found.map_or_else(|| (self.decoy.clone(), false), |i| (i, true)))
    }

    /// The signing key of an identity for a day, region and service.
    pub(super) fn signing_key(
        &self,
        identity: &Identity,
        date: &str,
        region: &str,
        service: &'static str,
    ) -> SigningKey {
        let day: [u8; 8] = date.as_bytes().try_into().unwrap_or_default();
        let hit = |c: &&Cached| {
            c.date == day && c.service == service && c.region == region && c.secret == identity.secret
        };
        if let Some(c) = self.signing.read().get(&identity.access_key).filter(hit) {
            return c.key.clone();
        }
        let key = derived_key(identity.secret.expose(), date, region, service);
        let key = Arc::new(hmac::Key::new(hmac::HMAC_SHA256, &key));
        // The decoy is computed afresh each time and must not push real keys out.
        if !identity.access_key.is_empty() {
            let mut cache = self.signing.write();
            if cache.len() >= CACHED {
                cache.clear();
            }
            let (region, secret) = (region.to_owned(), identity.secret.clone());
            cache.insert(
                identity.access_key.clone(),
                Cached { date: day, region, service, secret, key: key.clone() },
            );
        }
        key
    }
}

/// The key of Signature Version 4 that is derived from a secret for a day (`YYYYMMDD`), a region and a service.
pub fn derived_key(secret: &str, day: &str, region: &str, service: &str) -> [u8; 32] {
    let mut key = hmac_sha256(&[b"AWS4", secret.as_bytes()].concat(), day.as_bytes());
    for step in [region, service, "aws4_request"] {
        key = hmac_sha256(&key, step.as_bytes());
    }
    key
}
