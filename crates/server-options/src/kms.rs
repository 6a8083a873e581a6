//! Options for encryption keys.
//!
//! Must not depend on: how keys seal, where they are kept.

use std::path::{Path, PathBuf};

use ashlar_node::kms::{Configured, Sources};

/// Options for encryption keys.
#[derive(clap::Args)]
#[group(skip)]
pub struct Args {
    /// File with the root key: 32 bytes, raw, as base64 or as hexadecimal digits, readable by its owner
    /// alone. Without this and without a key server, the server makes a root key (see --state-dir).
    #[arg(long, value_name = "FILE", env = "ASHLAR_KMS_ROOT_KEY_FILE")]
    kms_root_key_file: Option<PathBuf>,
    /// The default key, which encrypts when a request names none.
    #[arg(long, value_name = "NAME", env = "ASHLAR_KMS_KEY")]
    kms_key: Option<String>,
    /// Address of a HashiCorp Vault server (its transit engine); the token is in ASHLAR_KMS_VAULT_TOKEN,
    /// or a role of AppRole in ASHLAR_KMS_VAULT_ROLE_ID and ASHLAR_KMS_VAULT_SECRET_ID.
    #[arg(long, value_name = "URL", env = "ASHLAR_KMS_VAULT")]
    kms_vault: Option<String>,
    /// Addresses of MinIO KES servers: https://kes{1...3}:7373. If one does not answer, the next is asked.
    /// The server identifies itself with ASHLAR_KMS_KES_API_KEY, or with ASHLAR_KMS_KES_CERT_FILE and
    /// ASHLAR_KMS_KES_KEY_FILE; ASHLAR_KMS_KES_CA names the authorities. MinIO's MINIO_KMS_KES_... are read
    /// too.
    #[arg(long, value_name = "URL", env = "ASHLAR_KMS_KES", value_delimiter = ',')]
    kms_kes: Vec<String>,
}

impl Args {
    /// Reads the configured source of keys, from these options and the environment. Does not contact a key
    /// server.
    ///
    /// # Errors
    /// A message for the operator: the configuration is invalid.
    pub fn read(&self, state_dir: Option<&Path>) -> Result<Configured, String> {
        let sources = Sources {
            root_key_file: self.kms_root_key_file.as_deref(),
            vault: self.kms_vault.as_deref(),
            kes: &self.kms_kes,
            default_key: self.kms_key.as_deref(),
        };
        Configured::read(&sources, state_dir)
    }
}
