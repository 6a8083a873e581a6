//! Keys for encryption at rest: where they come from, and their administration over HTTP, below the
//! administration's base.
//!
//! | request | document |
//! |---|---|
//! | `GET kms/status` | the driver, the default key, whether it works |
//! | `GET kms/keys` | the named keys |
//! | `GET kms/keys/NAME` | one of them, after it has sealed and opened something |
//! | `PUT kms/keys/NAME` | makes it |
//! | `POST kms/keys/NAME/rotate` | gives it a new version |
//! | `POST kms/rewrap` | `{"bucket": "b", "prefix": "p", "key": "NAME"}`: seals envelopes anew, in the background |
//! | `GET kms/rewrap` | how far that is |
//!
//! Invariants: no answer holds a key; without a root key or a key server, and where the server can keep none of its
//! own (`own_key`), nothing is encrypted, and what asks for encryption is refused; one pass of sealing anew at a time. A pass moves no data, leaves what is
//! done alone and so can be started again after whatever ended it.
//!
//! Must never know: how keys seal.

use ashlar_environment::time::{self, Instant};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ashlar_cluster::Control;
use ashlar_format::DeploymentId;
use ashlar_kms::{Builtin, Error, Kms, Root, Secret, root_from};
use ashlar_object::{Cipher, Store, VersionListSpec};
use ashlar_s3::sse::{self, Encryption};
use http::StatusCode;
use parking_lot::Mutex;
use serde::Deserialize;
use utoipa::ToSchema;

use super::admin_request::{Ask, Refusal, Reply, wrong};
use super::api::{self, keys as shape};
use super::clock::now_ms;
use super::credentials::{self, CredentialSealer};
use super::kms_remote::{kes, kes_endpoints, vault};
use super::node::Node;
use super::own_key::Places;
use super::table::Route;

/// The default key, unless another is named.
pub const DEFAULT_KEY: &str = "ashlar";
/// Versions looked at in one go.
const PAGE: usize = 200;
/// A pass works for one part of its time and rests for as many parts.
const REST: u32 = 1;

/// Where keys come from.
#[derive(clap::Args)]
pub struct Args {
    /// File with the root key: 32 bytes, raw, as base64 or as hexadecimal digits, readable by its owner
    /// alone. Without this and without a key server, the server makes a root key (see --state-dir).
    #[arg(long, value_name = "FILE", env = "ASHLAR_KMS_ROOT_KEY_FILE")]
    kms_root_key_file: Option<PathBuf>,
    /// The key that encrypts when nobody names one.
    #[arg(long, value_name = "NAME", env = "ASHLAR_KMS_KEY")]
    kms_key: Option<String>,
    /// Address of a HashiCorp Vault server (its transit engine); the token is in ASHLAR_KMS_VAULT_TOKEN,
    /// or a role of AppRole in ASHLAR_KMS_VAULT_ROLE_ID and ASHLAR_KMS_VAULT_SECRET_ID.
    #[arg(long, value_name = "URL", env = "ASHLAR_KMS_VAULT")]
    kms_vault: Option<String>,
    /// Addresses of MinIO KES servers, the next asked where one does not answer: https://kes{1...3}:7373. We are
    /// known to them by ASHLAR_KMS_KES_API_KEY, or by ASHLAR_KMS_KES_CERT_FILE and ASHLAR_KMS_KES_KEY_FILE;
    /// ASHLAR_KMS_KES_CA names the authorities. MinIO's MINIO_KMS_KES_... are read too.
    #[arg(long, value_name = "URL", env = "ASHLAR_KMS_KES", value_delimiter = ',')]
    kms_kes: Vec<String>,
}

fn variable(name: &str) -> Option<String> {
    ashlar_environment::process::variable(name).filter(|v| !v.is_empty())
}

fn unmade(why: &str) {
    tracing::warn!(
        why,
        "encryption: no root key is configured and none can be made: requests for encryption are refused. Name a \
         folder for it (--state-dir)"
    );
}

pub fn said(e: Error) -> String {
    format!("encryption: {e}")
}

/// What is configured: a root key and the one before it, or a key server; one of them, or none.
pub struct Configured {
    now: Option<Root>,
    old: Option<Secret>,
    remote: Option<Arc<Kms>>,
    /// Where the server's own root key is, if nothing else is configured.
    places: Places,
    /// `now` is the server's own.
    own: bool,
}

impl Configured {
    /// As configured. No key server is asked yet.
    ///
    /// # Errors
    /// In words: what is configured cannot be used.
    pub fn read(args: &Args, state_dir: Option<&Path>) -> Result<Configured, String> {
        if variable("MINIO_KMS_SERVER").is_some() {
            return Err(
                "encryption: MINIO_KMS_SERVER is set, and this server does not speak to MinIO's KMS \
                        (MinKMS); use a root key, Vault or KES"
                    .to_owned(),
            );
        }
        let now = root_from(args.kms_root_key_file.as_deref(), variable).map_err(said)?;
        let old = root_from(None, |name| {
            (name == "ASHLAR_KMS_ROOT_KEY").then(|| variable("ASHLAR_KMS_ROOT_KEY_OLD")).flatten()
        });
        let old = old.map_err(|e| said(e).replace("ROOT_KEY:", "ROOT_KEY_OLD:"))?.map(|r| r.key);
        let servers = kes_endpoints(&args.kms_kes, &variable)?;
        let named = args.kms_key.as_deref();
        let remote = match (&now, &args.kms_vault, servers.is_empty()) {
            (_, None, true) => None,
            (None, Some(endpoint), true) => Some(vault(endpoint, named, &variable)?),
            (None, None, false) => Some(kes(servers, named, &variable)?),
            _ => {
                return Err("encryption: more than one of a root key, Vault and KES is configured; keep one"
                    .to_owned());
            }
        };
        let superuser = ashlar_machine::is_superuser();
        let places = Places::find(state_dir, superuser, variable);
        Ok(Configured { now, old, remote: remote.map(Arc::new), places, own: false })
    }

    /// Nothing is configured; the server's own root key is kept in `state`.
    #[cfg(test)]
    pub fn nothing(state: &Path) -> Configured {
        Configured {
            now: None,
            old: None,
            remote: None,
            places: Places::find(Some(state), false, |_| None),
            own: false,
        }
    }

    fn is_none(&self) -> bool {
        self.now.is_none() && self.remote.is_none()
    }

    fn take_own(&mut self, key: Secret) {
        self.now = Some(Root { key, default: None, origin: "a file that this server made" });
        self.own = true;
    }

    /// As soon as it is known which deployment it is. Where nothing is configured, the server's own root key is
    /// used, and made at the first start (`fresh`). Where something is, what the own one seals is still opened.
    ///
    /// # Errors
    /// In words: the file cannot be used; or none can be made and `secret`, which is to be stored, would be
    /// stored in clear.
    pub fn find_own(
        &mut self,
        deployment: DeploymentId,
        drives: &[PathBuf],
        fresh: bool,
        secret: bool,
    ) -> Result<(), String> {
        self.places = std::mem::take(&mut self.places).away_from(drives);
        let found = self.places.load(deployment);
        if !self.is_none() {
            // What was sealed before something was configured.
            match found {
                Ok(Some((key, _))) if self.old.is_none() => self.old = Some(key),
                Err(why) => {
                    tracing::warn!(why, "encryption: the root key that this server made cannot be used")
                }
                Ok(_) => {}
            }
            return Ok(());
        }
        match found.map_err(|e| format!("encryption: {e}"))? {
            Some((key, file)) => {
                tracing::info!(file = %file.display(), "encryption: the root key of this server");
                self.take_own(key);
                Ok(())
            }
            None if fresh => match self.make_own(deployment) {
                Err(why) if secret => Err(format!(
                    "root's credentials would have to be stored in clear: no root key can be made ({why}). Name a folder \
                     for it (--state-dir), or set ASHLAR_ROOT_USER and ASHLAR_ROOT_PASSWORD"
                )),
                Err(why) => {
                    unmade(&why);
                    Ok(())
                }
                Ok(()) => Ok(()),
            },
            None => Ok(()),
        }
    }

    fn make_own(&mut self, deployment: DeploymentId) -> Result<(), String> {
        let (key, file) = self.places.make(deployment)?;
        tracing::warn!(
            file = %file.display(),
            "encryption: a root key was made. Keep a copy of it: without it nobody reads what is encrypted, and a \
             generated root password is lost. It protects drives that leave this machine, not from who can \
             read the file"
        );
        self.take_own(key);
        Ok(())
    }

    /// A deployment that was here before, once its control store is open: makes the server's own root key if it never
    /// had one. `stored`: root's credentials come from the control store.
    ///
    /// # Errors
    /// In words: something is sealed under a root key that is not here. Nothing has been changed.
    pub fn make_up_for_own(&mut self, control: &Control, stored: bool) -> Result<(), String> {
        if !self.is_none() {
            return Ok(());
        }
        let deployment = control.deployment();
        let sealed =
            stored && control.get(credentials::KEY).is_some_and(|v| credentials::is_under_root_key(&v.bytes));
        if sealed || !control.list("kms/").is_empty() {
            return Err(format!(
                "encryption: the root key of this deployment is missing, and nothing was changed. If the server made \
                 it, it was in {}: bring that file from the machine or the backup that has it. If it was configured, \
                 start with it as before (--kms-root-key-file, ASHLAR_KMS_ROOT_KEY, or MinIO's variables)",
                self.places.wanted(deployment)
            ));
        }
        if let Err(why) = self.make_own(deployment) {
            unmade(&why);
        }
        Ok(())
    }

    /// Keeps root's credentials.
    pub fn sealer(&self) -> CredentialSealer {
        CredentialSealer {
            key: self.now.as_ref().map(|r| r.key.clone()),
            old: self.old.clone(),
            kms: self.remote.clone(),
        }
    }
}

/// Opens the keys. `None`: none are configured.
///
/// # Errors
/// In words: what is configured cannot be used. A server that should encrypt does not start without keys.
pub async fn open(args: &Args, configured: Configured, node: &Node) -> Result<Encryption, String> {
    let cipher = match variable("ASHLAR_ENCRYPTION_CIPHER").as_deref() {
        None => None,
        Some("aes") => Some(Cipher::Aes256Gcm),
        Some("chacha") => Some(Cipher::ChaCha20Poly1305),
        Some(other) => {
            return Err(format!("ASHLAR_ENCRYPTION_CIPHER is \"{other}\"; there are aes and chacha"));
        }
    };
    let Configured { now, old, remote, own, .. } = configured;
    if remote.is_some() && !node.control.list("kms/").is_empty() {
        tracing::warn!(
            "encryption: keys that were made here are not used with a key server; what they seal is not read"
        );
    }
    let kms = match (now, remote) {
        (_, Some(kms)) => {
            first_key(&kms).await;
            kms
        }
        (None, None) => {
            if !node.control.list("kms/").is_empty() {
                return Err(
                    "encryption: there are keys, and no root key; start with the one that they were made with"
                        .to_owned(),
                );
            }
            return Ok(Encryption { kms: None, cipher });
        }
        (Some(root), None) => {
            let driver = Builtin::open_keys(node.control.clone(), root.key, old.as_ref(), now_ms);
            let default = args.kms_key.clone().or(root.default).unwrap_or_else(|| DEFAULT_KEY.to_owned());
            tracing::info!(root = root.origin, key = default, "encryption: keys are kept here");
            let driver = driver.await.map_err(said)?;
            Arc::new(match own {
                // Nothing may ever be encrypted: then the file may be lost without a loss.
                true => Kms::builtin_when_needed(driver, &default).map_err(said)?,
                false => Kms::builtin(driver, &default).await.map_err(said)?,
            })
        }
    };
    Ok(Encryption { kms: Some(kms), cipher })
}

/// As MinIO does, the default key is made in KES if it is not there. Whoever may not make keys may use them;
/// and what needs none is served while KES is away.
async fn first_key(kms: &Kms) {
    if kms.describe().0 != "kes" {
        return;
    }
    match kms.ensure_default().await {
        Ok(()) => {}
        Err(Error::Refused(why)) => tracing::info!(why, "KES does not let this server make keys"),
        Err(error) => tracing::warn!(%error, "KES cannot be used now; what has to be encrypted is refused"),
    }
}

/// Which envelopes are sealed anew.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = RewrapOrder)]
pub struct Order {
    /// The bucket.
    bucket: String,
    /// Only keys that begin with this.
    #[serde(default)]
    prefix: String,
    /// Under another named key; if left out, under the newest version of each one's own.
    #[serde(default)]
    key: Option<String>,
}

/// The administration of keys.
pub struct Door {
    encryption: Encryption,
    store: Store,
    pass: Arc<Mutex<Option<shape::Rewrap>>>,
}

impl Door {
    /// Over the keys and the objects.
    pub fn new(encryption: Encryption, store: Store) -> Door {
        Door { encryption, store, pass: Arc::default() }
    }

    /// Whether the default key works; `None` where there are no keys. Asks the key server.
    pub async fn works(&self) -> Option<bool> {
        let kms = self.encryption.kms.as_ref()?;
        Some(status(Some(kms)).await.works)
    }

    /// Data keys made and opened: see `Kms::uses`. `None` where there are no keys.
    pub fn uses(&self) -> Option<[u64; 3]> {
        self.encryption.kms.as_ref().map(|kms| kms.uses())
    }

    /// Answers a request about keys.
    pub async fn answer(&self, ask: &Ask) -> Reply {
        ask.need(ask.route.actions(), false)?;
        if ask.route == Route::RewrapStatus {
            // None was started since the server did: nothing was looked at.
            let pass = self.pass.lock().clone().unwrap_or_default();
            return Ok((StatusCode::OK, api::value(pass)));
        }
        let kms = self.encryption.kms.as_ref();
        if ask.route == Route::KmsStatus {
            return Ok((StatusCode::OK, api::value(status(kms.map(|k| &**k)).await)));
        }
        if kms.is_none() && ask.route == Route::KmsKeyList {
            return Ok((StatusCode::OK, api::value(shape::EncryptionKeyList { keys: Vec::new() })));
        }
        let kms = kms.ok_or_else(|| {
            wrong(
                "no keys are configured; start the server with --kms-root-key-file, --kms-vault or --kms-kes",
            )
        })?;
        match ask.route {
            Route::KmsKeyList => {
                let prefix = ask.query.get("prefix").unwrap_or_default();
                let keys = kms.list_keys(prefix).await.map_err(refusal)?;
                let keys = keys.into_iter().map(|k| shown(k, kms)).collect();
                return Ok((StatusCode::OK, api::value(shape::EncryptionKeyList { keys })));
            }
            Route::KmsKeyCreate => kms.create_key(&ask.name).await.map_err(refusal)?,
            Route::KmsKeyRotate => {
                kms.rotate(&ask.name).await.map_err(refusal)?;
            }
            Route::RewrapStart => return self.start(kms, ask).await,
            _ => {}
        }
        let key = kms.key_status(&ask.name).await.map_err(refusal)?;
        Ok((StatusCode::OK, api::value(shown(key, kms))))
    }

    /// Begins a pass in the background.
    async fn start(&self, kms: &Arc<Kms>, ask: &Ask) -> Reply {
        let order: Order = ask.document()?;
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
                let why = "a pass is running; `ashlar admin kms rewrap --status` shows it".into();
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
                tracing::info!(bucket = p.bucket, looked = p.looked, sealed = p.sealed, failed = p.failed, problem = ?p.problem, "envelopes were sealed anew");
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
        let page = store.list_versions(&order.bucket, &spec).await.map_err(|e| e.to_string())?;
        for entry in page.entries.iter().filter(|e| !e.delete_marker) {
            let done = one(kms, store, order, &entry.entry.key, entry.version_id).await;
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

/// One version; whether it was sealed anew.
async fn one(
    kms: &Kms,
    store: &Store,
    order: &Order,
    key: &str,
    version: ashlar_object::VersionId,
) -> Result<bool, String> {
    // Somebody may change it meanwhile: then it is looked at again.
    for _ in 0..3 {
        let object = match store.get(&order.bucket, key, Some(version)).await {
            Ok(object) => object,
            // It was removed.
            Err(ashlar_object::Error::NoSuchVersion | ashlar_object::Error::NoSuchKey { .. }) => {
                return Ok(false);
            }
            Err(e) => return Err(e.to_string()),
        };
        let Some(sealed) = object.sealed() else { return Ok(false) };
        let id = store.bucket(&order.bucket).map_err(|e| e.to_string())?.id;
        let to = order.key.as_deref();
        let new = sse::rewrap(kms, (id, key), &sealed.envelope, to).await.map_err(|e| e.to_string())?;
        let Some(new) = new else { return Ok(false) };
        let replaced = store.replace_envelope(&order.bucket, key, Some(version), &sealed.envelope, &new);
        if replaced.await.map_err(|e| e.to_string())? {
            return Ok(true);
        }
    }
    Err("it is changed all the time".to_owned())
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
        Error::Invalid(_) => return wrong(why),
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
