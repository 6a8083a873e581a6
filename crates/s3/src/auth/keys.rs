//! Access keys, and the signing keys made from them.
//!
//! Invariants: a secret has no Debug, Display or Serialize; the cache of signing keys holds at most
//! [`CACHED`] entries. Must never know requests.

use std::sync::Arc;

use arc_swap::ArcSwap;
use ashlar_checksum::hmac_sha256;
use aws_lc_rs::hmac;
use parking_lot::RwLock;

/// Signing keys kept: a day's key per region and access key.
pub const CACHED: usize = 64;

/// A secret key. It cannot be printed.
#[derive(Clone)]
pub struct Secret(String);

impl Secret {
    /// Takes a secret.
    pub fn new(text: impl Into<String>) -> Secret {
        Secret(text.into())
    }

    /// The text, for signing and for the one print at first start.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

/// An access key with its secret.
pub struct Credential {
    /// The access key id.
    pub access_key: String,
    /// The secret.
    pub secret: Secret,
}

/// A signing key: HMAC state made from secret, date, region and service.
pub type SigningKey = Arc<hmac::Key>;

struct Cached {
    access_key: String,
    date: [u8; 8],
    region: String,
    service: &'static str,
    key: SigningKey,
}

/// The keys that may sign. Today: root's.
pub struct Keys {
    root: ArcSwap<Credential>,
    decoy: Arc<Credential>,
    signing: RwLock<Vec<Cached>>,
}

impl Keys {
    /// Root's key only.
    pub fn new(root: Credential) -> Keys {
        let mut random = [0u8; 20];
        getrandom::fill(&mut random).expect("the operating system gives random bytes");
        let decoy = Credential { access_key: String::new(), secret: Secret::new(hex::encode(random)) };
        Keys { root: ArcSwap::from_pointee(root), decoy: Arc::new(decoy), signing: RwLock::new(Vec::new()) }
    }

    /// Puts another root key in place; signing keys of the old one are forgotten.
    pub fn replace_root(&self, root: Credential) {
        self.root.store(Arc::new(root));
        self.signing.write().clear();
    }

    /// Root's access key id.
    pub fn root_access_key(&self) -> String {
        self.root.load().access_key.clone()
    }

    /// 32 bytes that only holders of root's secret can make, for one purpose.
    pub fn root_derived(&self, purpose: &[u8]) -> [u8; 32] {
        hmac_sha256(self.root.load().secret.expose().as_bytes(), purpose)
    }

    /// The credential called `id` and true, or a decoy and false.
    pub(super) fn find(&self, id: &str) -> (Arc<Credential>, bool) {
        let root = self.root.load_full();
        if ashlar_checksum::ct_eq(root.access_key.as_bytes(), id.as_bytes()) {
            (root, true)
        } else {
            (self.decoy.clone(), false)
        }
    }

    /// The signing key of a credential for a day, region and service.
    pub(super) fn signing_key(
        &self,
        credential: &Credential,
        date: &str,
        region: &str,
        service: &'static str,
    ) -> SigningKey {
        let day: [u8; 8] = date.as_bytes().try_into().unwrap_or_default();
        let hit = |c: &Cached| {
            c.date == day
                && c.service == service
                && c.region == region
                && c.access_key == credential.access_key
        };
        if let Some(c) = self.signing.read().iter().find(|c| hit(c)) {
            return c.key.clone();
        }
        let secret = [b"AWS4", credential.secret.expose().as_bytes()].concat();
        let mut key = hmac_sha256(&secret, date.as_bytes());
        for step in [region, service, "aws4_request"] {
            key = hmac_sha256(&key, step.as_bytes());
        }
        let key = Arc::new(hmac::Key::new(hmac::HMAC_SHA256, &key));
        // The decoy is computed afresh each time and must not push real keys out.
        if !credential.access_key.is_empty() {
            let mut cache = self.signing.write();
            if cache.len() >= CACHED {
                cache.remove(0);
            }
            cache.push(Cached {
                access_key: credential.access_key.clone(),
                date: day,
                region: region.to_owned(),
                service,
                key: key.clone(),
            });
        }
        key
    }
}
