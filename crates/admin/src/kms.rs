//! The administration API of encryption keys.
//!
//! | request | document |
//! |---|---|
//! | `GET kms/status` | the driver, the default key, whether it works |
//! | `GET kms/keys` | the named keys |
//! | `GET kms/keys/NAME` | one key, after a test of sealing and opening |
//! | `PUT kms/keys/NAME` | creates a key |
//! | `POST kms/keys/NAME/rotate` | adds a version to a key |
//! | `POST kms/rewrap` | `{"bucket": "b", "prefix": "p", "key": "NAME"}`: seals envelopes again, in the background |
//! | `GET kms/rewrap` | the progress |
//!
//! Invariants: no answer contains a key; one rewrap pass runs at a time. A pass moves no data and skips envelopes that are sealed already, so it can be
//! restarted after any interruption.
//!
//! Must not depend on: how keys seal, how their source is configured.

use std::sync::Arc;
use std::time::Duration;

use ashlar_environment::time::{self, Instant};
use ashlar_kms::{Error, Kms};
use ashlar_object::{OpenBucket, Store, VersionListSpec};
use ashlar_s3::sse::{self, Encryption};
use http::StatusCode;
use parking_lot::Mutex;
use serde::Deserialize;
use utoipa::ToSchema;

use super::admin_request::{AdminRequest, AdminResult, Refusal, bad_request};
use super::api::{self, keys as shape};
use super::table::Route;

/// Versions examined in one batch.
const PAGE: usize = 200;
/// After each batch, a pass sleeps this many times the duration of the batch.
const REST: u32 = 1;

/// The envelopes to seal again.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = RewrapOrder)]
pub(crate) struct Order {
    /// The bucket.
    bucket: String,
    /// Only keys with this prefix.
    #[serde(default)]
    prefix: String,
    /// The named key to seal under; by default the newest version of each envelope's own key.
    #[serde(default)]
    key: Option<String>,
}

/// The handler of requests about encryption keys.
pub struct KeyAdmin {
    encryption: Encryption,
    store: Store,
    pass: Arc<Mutex<Option<shape::Rewrap>>>,
}

impl KeyAdmin {
    /// A handler over the key service and the store.
    pub fn new(encryption: Encryption, store: Store) -> KeyAdmin {
        KeyAdmin { encryption, store, pass: Arc::default() }
    }

    /// Whether the default key works; `None` if no keys are configured. Asks the key server.
    pub(crate) async fn works(&self) -> Option<bool> {
        let kms = self.encryption.kms.as_ref()?;
        Some(status(Some(kms)).await.works)
    }

    /// Numbers of data keys generated and opened: see `Kms::uses`. `None` if no keys are configured.
    pub(crate) fn uses(&self) -> Option<[u64; 3]> {
        self.encryption.kms.as_ref().map(|kms| kms.uses())
    }

    /// Answers a request about keys.
    pub(crate) async fn answer(&self, req: &AdminRequest) -> AdminResult {
        req.need(req.route.actions(), false)?;
        if req.route == Route::RewrapStatus {
            // No pass was started since the server start.
            let pass = self.pass.lock().clone().unwrap_or_default();
            return Ok((StatusCode::OK, api::value(pass)));
        }
        let kms = self.encryption.kms.as_ref();
        if req.route == Route::KmsStatus {
            return Ok((StatusCode::OK, api::value(status(kms.map(|k| &**k)).await)));
        }
        if kms.is_none() && req.route == Route::KmsKeyList {
            return Ok((StatusCode::OK, api::value(shape::EncryptionKeyList { keys: Vec::new() })));
        }
        let kms = kms.ok_or_else(|| {
            bad_request(
                "no keys are configured; start the server with --kms-root-key-file, --kms-vault or --kms-kes",
            )
        })?;
        match req.route {
            Route::KmsKeyList => {
                let prefix = req.query.get("prefix").unwrap_or_default();
                let keys = kms.list_keys(prefix).await.map_err(refusal)?;
                let keys = keys.into_iter().map(|k| shown(k, kms)).collect();
                return Ok((StatusCode::OK, api::value(shape::EncryptionKeyList { keys })));
            }
            Route::KmsKeyCreate => kms.create_key(&req.name).await.map_err(refusal)?,
            Route::KmsKeyRotate => {
                kms.rotate(&req.name).await.map_err(refusal)?;
            }
            Route::RewrapStart => return self.start(kms, req).await,
            _ => {}
        }
        let key = kms.key_status(&req.name).await.map_err(refusal)?;
        Ok((StatusCode::OK, api::value(shown(key, kms))))
    }

    /// Starts a pass in the background.
    async fn start(&self, kms: &Arc<Kms>, req: &AdminRequest) -> AdminResult {
        let order: Order = req.document()?;
        self.store.bucket(&order.bucket).map_err(|e| ashlar_s3::ops::fault(e, &order.bucket, ""))?;
        if let Some(key) = &order.key {
            kms.key_status(key).await.map_err(refusal)?;
        }
        let begun = shape::Rewrap {
            bucket: order.bucket.clone(),
            prefix: order.prefix.clone(),
            running: true,
            ..shape::Rewrap::default()
        };
        {
            let mut pass = self.pass.lock();
            if pass.as_ref().is_some_and(|p| p.running) {
                let why = "a rewrap pass is running; `ashlar admin kms rewrap --status` shows it".into();
                return Err(Refusal { status: StatusCode::CONFLICT, code: "Conflict", why });
            }
            *pass = Some(begun.clone());
        }
        let (kms, store, pass) = (kms.clone(), self.store.clone(), self.pass.clone());
        ashlar_environment::spawn("kms", async move {
            let result = run(&kms, &store, &order, &pass).await;
            if let Some(p) = pass.lock().as_mut() {
                p.running = false;
                p.problem = result.err();
                tracing::info!(bucket = p.bucket, looked = p.looked, sealed = p.sealed, failed = p.failed, problem = ?p.problem, "rewrap completed");
            }
        });
        Ok((StatusCode::ACCEPTED, api::value(begun)))
    }
}

/// One pass over the versions of a bucket.
async fn run(
    kms: &Kms,
    store: &Store,
    order: &Order,
    pass: &Mutex<Option<shape::Rewrap>>,
) -> Result<(), String> {
    let bucket = store.bucket(&order.bucket).map_err(|e| e.to_string())?;
    let (mut key_marker, mut version_marker) = (String::new(), None);
    loop {
        let began = Instant::now();
        let spec = VersionListSpec {
            prefix: &order.prefix,
            delimiter: "",
            key_marker: &key_marker,
            version_marker,
            max_keys: PAGE,
        };
        let page = store.list_versions(&bucket, &spec).await.map_err(|e| e.to_string())?;
        for entry in page.entries.iter().filter(|e| !e.delete_marker) {
            let done = one(kms, (store, &bucket), order, &entry.entry.key, entry.version_id).await;
            let mut pass = pass.lock();
            let Some(p) = pass.as_mut() else { return Ok(()) };
            p.looked += 1;
            match done {
                Ok(sealed) => p.sealed += u64::from(sealed),
                Err(why) => {
                    p.failed += 1;
                    p.last_failure = Some(format!("{}: {why}", entry.entry.key));
                }
            }
        }
        match page.next_key.filter(|_| page.truncated) {
            Some(next) => (key_marker, version_marker) = (next, page.next_version),
            None => return Ok(()),
        }
        time::sleep((began.elapsed() * REST).min(Duration::from_secs(5))).await;
    }
}

/// Seals the envelope of one version again; returns whether it had to.
async fn one(
    kms: &Kms,
    (store, bucket): (&Store, &OpenBucket),
    order: &Order,
    key: &str,
    version: ashlar_object::VersionId,
) -> Result<bool, String> {
    // If the version changes meanwhile, it is read again.
    for _ in 0..3 {
        let object = match store.get(bucket, key, Some(version)).await {
            Ok(object) => object,
            // The version was removed.
            Err(ashlar_object::Error::NoSuchVersion | ashlar_object::Error::NoSuchKey { .. }) => {
                return Ok(false);
            }
            Err(e) => return Err(e.to_string()),
        };
        let Some(sealed) = object.sealed() else { return Ok(false) };
        let to = order.key.as_deref();
        let new =
            sse::rewrap(kms, (bucket.id, key), &sealed.envelope, to).await.map_err(|e| e.to_string())?;
        let Some(new) = new else { return Ok(false) };
        let replaced = store.replace_envelope(bucket, key, Some(version), &sealed.envelope, &new);
        if replaced.await.map_err(|e| e.to_string())? {
            return Ok(true);
        }
    }
    Err("the version changes too often".to_owned())
}

fn shown(key: ashlar_kms::KeyStatus, kms: &Kms) -> shape::EncryptionKey {
    let default = key.name == kms.default_key();
    shape::EncryptionKey { name: key.name, version: key.version, created_ms: key.created_ms, default }
}

async fn status(kms: Option<&Kms>) -> shape::EncryptionStatus {
    let Some(kms) = kms else { return shape::EncryptionStatus::default() };
    let (driver, endpoint) = kms.describe();
    let problem = kms.key_status(kms.default_key()).await.err().map(|e| e.to_string());
    shape::EncryptionStatus {
        driver: driver.to_owned(),
        endpoint,
        default_key: kms.default_key().to_owned(),
        works: problem.is_none(),
        problem,
    }
}

fn refusal(e: Error) -> Refusal {
    let why = e.to_string();
    let (status, code) = match e {
        Error::Invalid(_) => return bad_request(why),
        Error::Missing(_) => (StatusCode::NOT_FOUND, "KeyNotFound"),
        Error::Exists(_) => (StatusCode::CONFLICT, "KeyAlreadyExists"),
        Error::Refused(_) => (StatusCode::FORBIDDEN, "AccessDenied"),
        Error::Unavailable(_) => (StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable"),
        Error::Sealed | Error::Corrupt(_) | Error::OtherRoot => {
            (StatusCode::INTERNAL_SERVER_ERROR, "InternalError")
        }
    };
    Refusal { status, code, why }
}
