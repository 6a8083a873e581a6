//! The configured source of encryption keys at rest.
//!
//! Invariant: if there is no root key, no key server, and no folder for a generated root key (`own_key`),
//! nothing is encrypted and requests for encryption are refused.
//!
//! Must not depend on: how keys seal, requests.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ashlar_cluster::Control;
use ashlar_format::DeploymentId;
use ashlar_kms::{Builtin, Error, Kms, Root, Secret, root_from};
use futures::future::BoxFuture;

use super::clock::now_ms;
use super::credentials::{self, CredentialSealer};
use super::kms_remote::{kes, kes_endpoints, vault};
use super::own_key::KeyFolders;

/// Name of the default key, unless configured otherwise.
pub(crate) const DEFAULT_KEY: &str = "ashlar";

/// The sources of keys that the operator names. At most one of root key, Vault and KES.
#[derive(Default)]
pub struct Sources<'a> {
    /// File with the root key.
    pub root_key_file: Option<&'a Path>,
    /// Address of a Vault server.
    pub vault: Option<&'a str>,
    /// Addresses of KES servers.
    pub kes: &'a [String],
    /// The default key.
    pub default_key: Option<&'a str>,
}

fn variable(name: &str) -> Option<String> {
    ashlar_environment::process::variable(name).filter(|v| !v.is_empty())
}

fn warn_without_key(why: &str) {
    tracing::warn!(
        why,
        "encryption: no root key is configured and none can be made: requests for encryption are refused. Name a \
         folder for it (--state-dir)"
    );
}

pub(crate) fn describe(e: Error) -> String {
    format!("encryption: {e}")
}

/// The configured source of keys: a root key with its predecessor, or a key server, or nothing.
pub struct Configured {
    now: Option<Root>,
    old: Option<Secret>,
    remote: Option<Arc<Kms>>,
    /// The default key, if the operator names one.
    default_key: Option<String>,
    /// Where the generated root key is, if nothing else is configured.
    key_folders: KeyFolders,
    /// Whether `now` is the generated root key.
    own: bool,
}

impl Configured {
    /// Reads the environment beside `sources`. Does not contact a key server.
    ///
    /// # Errors
    /// A message for the operator: the configuration is invalid.
    pub fn read(sources: &Sources<'_>, state_dir: Option<&Path>) -> Result<Configured, String> {
        if variable("MINIO_KMS_SERVER").is_some() {
            return Err(
                "encryption: MINIO_KMS_SERVER is set, and this server does not speak to MinIO's KMS \
                        (MinKMS); use a root key, Vault or KES"
                    .to_owned(),
            );
        }
        let now = root_from(sources.root_key_file, variable).map_err(describe)?;
        let old = root_from(None, |name| {
            (name == "ASHLAR_KMS_ROOT_KEY").then(|| variable("ASHLAR_KMS_ROOT_KEY_OLD")).flatten()
        });
        let old = old.map_err(|e| describe(e).replace("ROOT_KEY:", "ROOT_KEY_OLD:"))?.map(|r| r.key);
        let servers = kes_endpoints(sources.kes, &variable)?;
        let named = sources.default_key;
        let remote = match (&now, sources.vault, servers.is_empty()) {
            (_, None, true) => None,
            (None, Some(endpoint), true) => Some(vault(endpoint, named, &variable)?),
            (None, None, false) => Some(kes(servers, named, &variable)?),
            _ => {
                return Err("encryption: more than one of a root key, Vault and KES is configured; keep one"
                    .to_owned());
            }
        };
        let superuser = ashlar_machine::is_superuser();
        let key_folders = KeyFolders::find(state_dir, superuser, variable);
        let (remote, default_key) = (remote.map(Arc::new), named.map(str::to_owned));
        Ok(Configured { now, old, remote, default_key, key_folders, own: false })
    }

    /// Nothing is configured; the generated root key is kept in `state`.
    #[cfg(test)]
    pub(crate) fn nothing(state: &Path) -> Configured {
        Configured {
            now: None,
            old: None,
            remote: None,
            default_key: None,
            key_folders: KeyFolders::find(Some(state), false, |_| None),
            own: false,
        }
    }

    /// The source and its default key in a few words, without secrets, so that nodes of a cluster can be compared.
    /// Empty: nothing is configured.
    #[must_use]
    pub fn summary(&self) -> String {
        let key = self.default_key.as_deref().unwrap_or(DEFAULT_KEY);
        match (&self.now, &self.remote) {
            (Some(root), _) if !self.own => {
                // A root key is 32 random bytes: its hash tells nothing about it.
                let hash = ashlar_checksum::sha256(&[&b"ashlar root key: "[..], root.key.expose()].concat());
                let hash: String = hash.iter().take(8).map(|b| format!("{b:02x}")).collect();
                format!("root key {hash}, default key {}", root.default.as_deref().unwrap_or(key))
            }
            (_, Some(kms)) => format!("{}, default key {key}", kms.describe().0),
            _ => String::new(),
        }
    }

    pub(crate) fn is_none(&self) -> bool {
        self.now.is_none() && self.remote.is_none()
    }

    fn use_own_key(&mut self, key: Secret) {
        self.now = Some(Root { key, default: None, origin: "a file that this server made" });
        self.own = true;
    }

    /// Loads the generated root key, as soon as the deployment is known. If nothing is configured, the key is
    /// used, and generated at the first start (`fresh`). If something is configured, it still opens what it
    /// has sealed.
    ///
    /// # Errors
    /// A message for the operator: the file cannot be used; or no key can be generated and `secret`, a
    /// generated credential, would be stored in clear.
    pub(crate) fn load_own_key(
        &mut self,
        deployment: DeploymentId,
        drives: &[PathBuf],
        fresh: bool,
        secret: bool,
    ) -> Result<(), String> {
        self.key_folders = std::mem::take(&mut self.key_folders).excluding_drives(drives);
        let found = self.key_folders.load(deployment);
        if !self.is_none() {
            // It opens what was sealed before a key was configured.
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
                self.use_own_key(key);
                Ok(())
            }
            None if fresh => match self.create_own_key(deployment) {
                Err(why) if secret => Err(format!(
                    "root's credentials would have to be stored in clear: no root key can be made ({why}). Name a folder \
                     for it (--state-dir), or set ASHLAR_ROOT_USER and ASHLAR_ROOT_PASSWORD"
                )),
                Err(why) => {
                    warn_without_key(&why);
                    Ok(())
                }
                Ok(()) => Ok(()),
            },
            None => Ok(()),
        }
    }

    fn create_own_key(&mut self, deployment: DeploymentId) -> Result<(), String> {
        let (key, file) = self.key_folders.make(deployment)?;
        tracing::warn!(
            file = %file.display(),
            "encryption: a root key was made. Keep a copy of it: without it nobody reads what is encrypted, and a \
             generated root password is lost. It protects drives that leave this machine, not from who can \
             read the file"
        );
        self.use_own_key(key);
        Ok(())
    }

    /// Called for an existing deployment, once its control store is open: generates the root key if the
    /// deployment never had one. `stored`: root's credentials come from the control store.
    ///
    /// # Errors
    /// A message for the operator: something is sealed under a root key that is missing. Nothing has been
    /// changed.
    pub(crate) fn create_missing_own_key(&mut self, control: &Control, stored: bool) -> Result<(), String> {
        if !self.is_none() {
            return Ok(());
        }
        let deployment = control.deployment();
        if is_anything_sealed(control, stored) {
            return Err(format!(
                "encryption: the root key of this deployment is missing, and nothing was changed. If the server made \
                 it, it was in {}: bring that file from the machine or the backup that has it. If it was configured, \
                 start with it as before (--kms-root-key-file, ASHLAR_KMS_ROOT_KEY, or MinIO's variables)",
                self.key_folders.expected_path(deployment)
            ));
        }
        if let Err(why) = self.create_own_key(deployment) {
            warn_without_key(&why);
        }
        Ok(())
    }

    /// Checks that what is sealed in `control` opens with what is configured, without the root key that this machine
    /// made: the nodes of a cluster share what is configured. `stored`: root's credentials come from the control store.
    ///
    /// # Errors
    /// A message for the operator.
    pub(crate) async fn check_shared(
        &self,
        control: &Control,
        drives: &[PathBuf],
        stored: bool,
    ) -> Result<(), String> {
        if !is_anything_sealed(control, stored) {
            return Ok(());
        }
        match &self.now {
            Some(root) => {
                let keys = Builtin::open_keys(control.clone(), root.key.clone(), self.old.as_ref(), now_ms);
                keys.await.map(drop).map_err(describe)
            }
            None if self.remote.is_some() => Ok(()),
            None => Err(format!(
                "encryption: keys, or root's password, are sealed under the root key in {}. All nodes of a cluster need \
                 it: bring a copy to each of them, and name it there and here (--kms-root-key-file)",
                self.key_folders.clone().excluding_drives(drives).expected_path(control.deployment())
            )),
        }
    }

    /// Seals and opens root's stored credentials.
    pub(crate) fn sealer(&self) -> CredentialSealer {
        CredentialSealer {
            key: self.now.as_ref().map(|r| r.key.clone()),
            old: self.old.clone(),
            kms: self.remote.clone(),
        }
    }

    /// Opens the key service. `None`: no keys are configured.
    ///
    /// # Errors
    /// A message for the operator. A server that is configured to encrypt does not start without keys.
    pub fn open(self, control: &Control) -> BoxFuture<'_, Result<Option<Arc<Kms>>, String>> {
        Box::pin(async move {
            let Configured { now, old, remote, own, default_key, .. } = self;
            if remote.is_some() && !control.list("kms/").is_empty() {
                tracing::warn!(
                    "encryption: keys that were made here are not used with a key server; what they seal is not read"
                );
            }
            match (now, remote) {
                (_, Some(kms)) => {
                    create_default_key(&kms).await;
                    Ok(Some(kms))
                }
                (None, None) => {
                    if !control.list("kms/").is_empty() {
                        return Err(
                        "encryption: there are keys, and no root key; start with the one that they were made with"
                            .to_owned(),
                    );
                    }
                    Ok(None)
                }
                (Some(root), None) => {
                    let driver = Builtin::open_keys(control.clone(), root.key, old.as_ref(), now_ms);
                    let default = default_key.or(root.default).unwrap_or_else(|| DEFAULT_KEY.to_owned());
                    tracing::info!(
                        root = root.origin,
                        key = default,
                        "encryption: keys are in the control store"
                    );
                    let driver = driver.await.map_err(describe)?;
                    Ok(Some(Arc::new(match own {
                        // If nothing was ever encrypted, losing the file loses nothing.
                        true => Kms::builtin_when_needed(driver, &default).map_err(describe)?,
                        false => Kms::builtin(driver, &default).await.map_err(describe)?,
                    })))
                }
            }
        })
    }
}

/// Whether the control store has something that is sealed under a root key.
fn is_anything_sealed(control: &Control, stored: bool) -> bool {
    let under = |v: ashlar_cluster::Value| credentials::is_under_root_key(&v.bytes);
    stored && control.get(credentials::KEY).is_some_and(under) || !control.list("kms/").is_empty()
}

/// Creates the default key in KES if it does not exist, as MinIO does. Without permission to create keys the
/// server still uses existing ones, and requests without encryption are served while KES is unreachable.
async fn create_default_key(kms: &Kms) {
    if kms.describe().0 != "kes" {
        return;
    }
    match kms.ensure_default().await {
        Ok(()) => {}
        Err(Error::Refused(why)) => tracing::info!(why, "KES does not let this server make keys"),
        Err(error) => {
            tracing::warn!(%error, "KES cannot be used now; requests that need encryption are refused")
        }
    }
}
