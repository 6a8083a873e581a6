//! What identity providers are asked with: over which addresses, trusting whom.
//!
//! Invariants: this machine and link-local addresses are asked only when `ASHLAR_OUTBOUND_ALLOW` says so;
//! private networks may be, since that is where one's own providers are.
//!
//! Must never know: what is asked.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ashlar_iam::Iam;
use ashlar_idp::{Around, Environment};
use ashlar_outbound::{Class, Outbound, Rules, is_allowed};

use super::clock;

/// Time for one question to a provider.
const PATIENCE: Duration = Duration::from_secs(5);
/// Bytes of a provider's answer.
const ANSWER: usize = 512 * 1024;
/// Where systems keep the certificate authorities they trust, in one file.
const SYSTEM: [&str; 3] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"];

/// For the identity providers.
///
/// # Errors
/// In words: a file or a variable cannot be used.
pub fn around(iam: Arc<Iam>, certs: Option<&Path>) -> Result<Around, String> {
    let authorities = own_authorities(certs)?;
    let web = Outbound::new(rules(&authorities)?).map_err(|e| e.to_string())?;
    Ok(Around {
        iam,
        environment: Environment::new(ashlar_environment::process::variables()),
        web: Arc::new(web),
        clock: Arc::new(clock::now_ms),
        authorities,
    })
}

/// Whom the server trusts where it connects to: its operator's authorities beside the system's. Nothing:
/// the system's.
///
/// # Errors
/// In words: a file cannot be read.
pub fn authorities(certs: Option<&Path>) -> Result<Vec<Vec<u8>>, String> {
    let mut all = own_authorities(certs)?;
    if !all.is_empty() {
        all.extend(SYSTEM.iter().find_map(|f| std::fs::read(f).ok()));
    }
    Ok(all)
}

/// Takes up which addresses the operator allows beside public and private ones, for events, identity
/// providers, directories and the receivers of the audit log: `ASHLAR_OUTBOUND_ALLOW`.
///
/// # Errors
/// In words: a kind that there is not.
pub fn allow(text: &str) -> Result<(), String> {
    let (mut loopback, mut link_local) = (false, false);
    for kind in text.split(',').map(str::trim).filter(|k| !k.is_empty()) {
        match kind {
            "loopback" => loopback = true,
            "link-local" => link_local = true,
            other => {
                return Err(format!("ASHLAR_OUTBOUND_ALLOW: \"{other}\" is none of loopback, link-local"));
            }
        }
    }
    ashlar_outbound::allow(loopback, link_local);
    Ok(())
}

fn rules(own: &[Vec<u8>]) -> Result<Rules, String> {
    let mut rules = Rules {
        allow_loopback: is_allowed(Class::Loopback),
        allow_link_local: is_allowed(Class::LinkLocal),
        timeout: PATIENCE,
        max_body: ANSWER,
        ..Rules::default()
    };
    if !own.is_empty() {
        // One's own beside the system's: a public provider and one in the house may both be configured.
        rules.authorities = own.to_vec();
        rules.authorities.extend(SYSTEM.iter().find_map(|f| std::fs::read(f).ok()));
    }
    Ok(rules)
}

/// Every file in `CAs` of the folder with the server's certificate, as in MinIO.
fn own_authorities(certs: Option<&Path>) -> Result<Vec<Vec<u8>>, String> {
    let Some(folder) = certs.map(|c| c.join("CAs")) else { return Ok(Vec::new()) };
    let Ok(entries) = std::fs::read_dir(&folder) else { return Ok(Vec::new()) };
    let mut files: Vec<_> = entries.filter_map(|e| Some(e.ok()?.path())).filter(|p| p.is_file()).collect();
    files.sort();
    files.iter().map(|f| std::fs::read(f).map_err(|e| format!("{}: {e}", f.display()))).collect()
}
