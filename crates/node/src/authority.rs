//! The certificate authority of the cluster, kept in the control store, and this node's certificate.
//!
//! Every node can sign: it opens the authority's key with the sealing key of the identity store, which root's password
//! opens. So whoever may read the control store and knows root's password can be a node of the cluster, and nobody
//! else. A node makes its own key at every start and keeps it in memory only.
//!
//! Invariants: the authority's key is in the control store only sealed; a certificate is for the number that the
//! registry gives to this node.
//!
//! Must not depend on: connections.

use std::time::Duration;

use ashlar_cluster::{Control, Error as StoreError, Update};
use ashlar_format::DeploymentId;
use ashlar_iam::Iam;
use ashlar_rpc::{Authority, Identity, NodeKey, Trust};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

/// The key in the control store.
const KEY: &str = "authority";
/// Format number of the value.
const FORMAT: u32 = 1;
/// Validity of an authority: ten years.
const AUTHORITY_VALID: Duration = Duration::from_secs(10 * 365 * 86_400);
/// Validity of the certificate of a node. It is replaced when two thirds have passed.
const NODE_VALID: Duration = Duration::from_secs(30 * 86_400);

/// The stored authorities. All are trusted; the first one signs.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    format: u32,
    authorities: Vec<One>,
}

/// One authority: certificate in DER, key in PKCS #8, sealed; both in base64.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct One {
    certificate: String,
    key: String,
}

/// Makes the authority of the cluster if there is none yet. Of several nodes that do so at once, one succeeds.
///
/// # Errors
/// A message for the operator.
pub(crate) async fn ensure(control: &Control, iam: &Iam) -> Result<(), String> {
    let entry = control.read(KEY);
    if entry.bytes().is_some() {
        return Ok(());
    }
    let made = Authority::create(control.deployment(), AUTHORITY_VALID).map_err(|e| e.to_string())?;
    let one = One {
        certificate: STANDARD.encode(made.certificate()),
        key: STANDARD.encode(iam.seal(KEY, &made.to_pkcs8())),
    };
    let stored = Stored { format: FORMAT, authorities: vec![one] };
    let mut update = Update::new();
    update.set(&entry, serde_json::to_vec(&stored).map_err(|e| e.to_string())?);
    match control.update(update).await {
        Ok(_) | Err(StoreError::Conflict(_)) => Ok(()),
        Err(e) => Err(format!("the authority of the cluster cannot be stored: {e}")),
    }
}

/// A new certificate for this node, and whom it trusts.
///
/// # Errors
/// A message for the operator.
pub(crate) fn certify(control: &Control, iam: &Iam, number: u16) -> Result<(Identity, Trust), String> {
    let cluster = control.deployment();
    let stored = control.get(KEY).ok_or("the cluster has no authority")?;
    let stored: Stored =
        serde_json::from_slice(&stored.bytes).map_err(|e| format!("the authority of the cluster: {e}"))?;
    if stored.format != FORMAT {
        return Err(format!("the authority of the cluster has format {}, unknown here", stored.format));
    }
    let certificates: Vec<Vec<u8>> =
        stored.authorities.iter().map(|one| decoded(&one.certificate)).collect::<Result<_, _>>()?;
    let signing = stored.authorities.first().ok_or("the cluster has no authority")?;
    let key = iam.unseal(KEY, &decoded(&signing.key)?);
    let key = key.ok_or("the key of the authority of the cluster does not open")?;
    identity(cluster, &certificates, &key, number).map_err(|e| e.to_string())
}

fn identity(
    cluster: DeploymentId,
    certificates: &[Vec<u8>],
    key: &[u8],
    number: u16,
) -> ashlar_rpc::Result<(Identity, Trust)> {
    let trust = Trust::new(cluster, certificates.iter().map(|c| &c[..]))?;
    let authority = Authority::restore(cluster, certificates.first().map_or(&[], |c| &c[..]), key)?;
    let own = NodeKey::generate()?;
    let certificate = authority.sign(&own.request()?, number, NODE_VALID)?;
    Ok((Identity::new(cluster, &certificate, &own)?, trust))
}

fn decoded(text: &str) -> Result<Vec<u8>, String> {
    STANDARD.decode(text).map_err(|e| format!("the authority of the cluster: {e}"))
}
