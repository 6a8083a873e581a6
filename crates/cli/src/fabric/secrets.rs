//! Secrets of DH-HMAC-CHAP and keys of TLS on the command line: an option comes before the environment, and that before a file.
//!
//! Invariant: no error and no output has a secret in it.
//!
//! Must not depend on: what secrets are for.

use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use ashlar_nvme_tcp::{Group, Hash, HostKeys, Secret, TlsKey};
use clap::Args;

use crate::failure::{Failure, Outcome, While as _};

/// A name of NVMe.
pub fn nqn(text: &str) -> Result<String, String> {
    let refused = |_| {
        format!(
            "{text:?} is no NQN: it begins with \"nqn.\", has at most 223 bytes and no control characters"
        )
    };
    ashlar_nvme_tcp::check_name(text).map_err(refused)?;
    Ok(text.to_owned())
}

/// The text of a secret, which nothing shows.
#[derive(Clone)]
pub struct Text(String);

impl FromStr for Text {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Text, Infallible> {
        Ok(Text(text.to_owned()))
    }
}

impl std::fmt::Debug for Text {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Text(...)")
    }
}

/// The secrets of a host and of its target, and their key of TLS.
#[derive(Args, Debug)]
pub struct Secrets {
    /// The secret of the host (DHHC-1:HH:...:, as `nvme gen-dhchap-key` makes it). Other users see command lines: the environment and
    /// a file are better
    #[arg(
        long,
        value_name = "SECRET",
        env = "ASHLAR_DHCHAP_SECRET",
        hide_env_values = true,
        help_heading = "DH-HMAC-CHAP"
    )]
    dhchap_secret: Option<Text>,
    /// The file that has the secret of the host
    #[arg(long, value_name = "FILE", help_heading = "DH-HMAC-CHAP")]
    dhchap_secret_file: Option<PathBuf>,
    /// The secret of the target, if it has to authenticate itself to the host too
    #[arg(
        long,
        value_name = "SECRET",
        env = "ASHLAR_DHCHAP_CTRL_SECRET",
        hide_env_values = true,
        help_heading = "DH-HMAC-CHAP"
    )]
    dhchap_ctrl_secret: Option<Text>,
    /// The file that has the secret of the target
    #[arg(long, value_name = "FILE", help_heading = "DH-HMAC-CHAP")]
    dhchap_ctrl_secret_file: Option<PathBuf>,
    /// The key of TLS of the host (NVMeTLSkey-1:HH:...:, as `nvme gen-tls-key` makes it). Other users see command lines: the environment
    /// and a file are better
    #[arg(
        long,
        value_name = "KEY",
        env = "ASHLAR_TLS_KEY",
        hide_env_values = true,
        help_heading = "TLS of NVMe/TCP"
    )]
    tls_key: Option<Text>,
    /// The file that has the key of TLS
    #[arg(long, value_name = "FILE", help_heading = "TLS of NVMe/TCP")]
    tls_key_file: Option<PathBuf>,
}

impl Secrets {
    /// That of the host.
    pub fn host(&self) -> Outcome<Option<Secret>> {
        secret("--dhchap-secret", self.dhchap_secret.as_ref(), self.dhchap_secret_file.as_deref())
    }

    /// That of the target.
    pub fn target(&self) -> Outcome<Option<Secret>> {
        let (text, file) = (self.dhchap_ctrl_secret.as_ref(), self.dhchap_ctrl_secret_file.as_deref());
        secret("--dhchap-ctrl-secret", text, file)
    }

    /// The key of TLS.
    pub fn tls(&self) -> Outcome<Option<TlsKey>> {
        secret("--tls-key", self.tls_key.as_ref(), self.tls_key_file.as_deref())
    }
}

fn secret<T: FromStr<Err = ashlar_nvme_tcp::Error>>(
    option: &str,
    text: Option<&Text>,
    file: Option<&Path>,
) -> Outcome<Option<T>> {
    let text = match (text, file) {
        (Some(text), _) => text.0.clone(),
        (None, Some(file)) => {
            std::fs::read_to_string(file).when(|| format!("cannot read {}", file.display()))?
        }
        (None, None) => return Ok(None),
    };
    text.parse().map(Some).map_err(|e| Failure::usage(format!("{option}: {e}")))
}

/// What a target is told of a host that may connect.
#[derive(Args, Debug)]
pub struct HostOptions {
    /// The name of the host
    #[arg(value_name = "NQN", value_parser = nqn)]
    pub nqn: String,
    #[command(flatten)]
    secrets: Secrets,
    /// The only hash function that may be used: sha256, sha384 or sha512
    #[arg(long, value_name = "HASH", help_heading = "DH-HMAC-CHAP")]
    dhchap_hash: Option<Hash>,
    /// The only Diffie-Hellman group that may be used: null, ffdhe2048, ffdhe3072, ffdhe4096, ffdhe6144 or ffdhe8192
    #[arg(long, value_name = "GROUP", help_heading = "DH-HMAC-CHAP")]
    dhchap_dhgroup: Option<Group>,
}

impl HostOptions {
    /// The secrets and the key, of which that of the host or the key has to be named.
    pub fn keys(&self) -> Outcome<HostKeys> {
        let (secret, tls) = (self.secrets.host()?, self.secrets.tls()?);
        if secret.is_none() && tls.is_none() {
            return Err(Failure::usage(
                "name the secret of the host (--dhchap-secret-file, ASHLAR_DHCHAP_SECRET or --dhchap-secret), its key of TLS \
                 (--tls-key-file, ASHLAR_TLS_KEY or --tls-key), or both",
            ));
        }
        let controller_secret = self.secrets.target()?;
        Ok(HostKeys { secret, controller_secret, hash: self.dhchap_hash, group: self.dhchap_dhgroup, tls })
    }
}
