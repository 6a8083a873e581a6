//! The environment of outgoing connections, for instance to identity providers: allowed addresses and trusted
//! certificate authorities.
//!
//! Invariants: connections to this machine and to link-local addresses need `ASHLAR_OUTBOUND_ALLOW`; private
//! networks are allowed, because operators run their providers there.
//!
//! Must not depend on: what is requested over the connections.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ashlar_iam::Iam;
use ashlar_idp::{Environment, ProviderContext};
use ashlar_node::clock;
use ashlar_outbound::{Class, Outbound, Rules, is_allowed};

/// Time limit of one request to a provider.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum size in bytes of a provider's answer.
const ANSWER: usize = 512 * 1024;
/// Files in which systems keep all trusted certificate authorities.
const SYSTEM: [&str; 3] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"];

/// The environment of the identity providers.
///
/// # Errors
/// A message for the operator: a file or a variable is invalid.
pub fn provider_context(iam: Arc<Iam>, certs: Option<&Path>) -> Result<ProviderContext, String> {
    let authorities = own_authorities(certs)?;
    let web = Outbound::new(rules(&authorities)?).map_err(|e| e.to_string())?;
    Ok(ProviderContext {
        iam,
        environment: Environment::new(ashlar_environment::process::variables()),
        web: Arc::new(web),
        clock: Arc::new(clock::now_ms),
        authorities,
    })
}

/// The certificate authorities that the server trusts for outgoing connections: the operator's and the
/// system's. Empty if the operator has none; the system's apply then.
///
/// # Errors
/// A message for the operator: a file cannot be read.
pub fn authorities(certs: Option<&Path>) -> Result<Vec<Vec<u8>>, String> {
    let mut all = own_authorities(certs)?;
    if !all.is_empty() {
        all.extend(SYSTEM.iter().find_map(|f| std::fs::read(f).ok()));
    }
    Ok(all)
}

/// Applies `ASHLAR_OUTBOUND_ALLOW`: which addresses are allowed besides public and private ones, for events,
/// identity providers, directories and receivers of the audit log.
///
/// # Errors
/// A message for the operator: an unknown kind of address.
pub fn apply_outbound_allow(text: &str) -> Result<(), String> {
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
        timeout: TIMEOUT,
        max_body: ANSWER,
        ..Rules::default()
    };
    if !own.is_empty() {
        // The operator's authorities besides the system's: both a public and an internal provider can be
        // configured.
        rules.authorities = own.to_vec();
        rules.authorities.extend(SYSTEM.iter().find_map(|f| std::fs::read(f).ok()));
    }
    Ok(rules)
}

/// All files in the folder `CAs` beside the server's certificate, as in MinIO.
fn own_authorities(certs: Option<&Path>) -> Result<Vec<Vec<u8>>, String> {
    let Some(folder) = certs.map(|c| c.join("CAs")) else { return Ok(Vec::new()) };
    let Ok(entries) = std::fs::read_dir(&folder) else { return Ok(Vec::new()) };
    let mut files: Vec<_> = entries.filter_map(|e| Some(e.ok()?.path())).filter(|p| p.is_file()).collect();
    files.sort();
    files.iter().map(|f| std::fs::read(f).map_err(|e| format!("{}: {e}", f.display()))).collect()
}
