//! The certificate authority of the cluster, kept in the control store, and this node's certificate.
//!
//! Every node can sign: it opens the authority's key with the sealing key of the identity store, which root's password
//! opens. So whoever may read the control store and knows root's password can be a node of the cluster, and nobody
//! else. A node makes its own key at every start and keeps it in memory only.
//!
//! The authority is replaced in steps (`rotation`): all authorities of the list are trusted, and the first one signs.
//!
//! Invariants: the authority's key is in the control store only sealed; a certificate is for the number that the
//! registry gives to this node; no certificate of a removed node is trusted.
//!
//! Must not depend on: connections.

use std::collections::BTreeSet;
use std::time::Duration;

use ashlar_cluster::registry::removed;
use ashlar_cluster::{Control, Entry, Error as StoreError, Update};
use ashlar_format::DeploymentId;
use ashlar_iam::Iam;
use ashlar_rpc::{Authority, Identity, NodeKey, Trust};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

/// The key in the control store.
pub(crate) const KEY: &str = "authority";
/// Format number of the value.
const FORMAT: u32 = 1;
/// Validity of an authority: ten years.
const AUTHORITY_VALID: Duration = Duration::from_secs(10 * 365 * 86_400);
/// Validity of the certificate of a node. It is replaced when two thirds have passed.
const NODE_VALID: Duration = Duration::from_secs(30 * 86_400);

/// How far the replacement of the authority is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// The new authority is trusted beside the old one, which signs.
    Introducing,
    /// The new authority signs; the old one is still trusted.
    Renewing,
}

/// The stored authorities. All are trusted; the first one signs. During a replacement there are two.
#[derive(Serialize, Deserialize, Clone)]
#[serde(deny_unknown_fields)]
pub(crate) struct Stored {
    format: u32,
    pub(crate) authorities: Vec<One>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) rotation: Option<Phase>,
}

/// One authority: certificate in DER, key in PKCS #8, sealed; both in base64.
#[derive(Serialize, Deserialize, Clone)]
#[serde(deny_unknown_fields)]
pub(crate) struct One {
    certificate: String,
    key: String,
}

/// What a node trusts, and who signed its certificate. Authorities are named by their fingerprints: SHA-256 of the
/// certificate, in hexadecimal.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Standing {
    /// The authority of the node's certificate.
    pub signer: String,
    /// The authorities that the node trusts.
    pub trusted: Vec<String>,
    /// The removed nodes, whose certificates it does not accept.
    pub removed: BTreeSet<u16>,
}

impl One {
    /// A new authority.
    pub(crate) fn create(control: &Control, iam: &Iam) -> Result<One, String> {
        let made = Authority::create(control.deployment(), AUTHORITY_VALID).map_err(|e| e.to_string())?;
        Ok(One {
            certificate: STANDARD.encode(made.certificate()),
            key: STANDARD.encode(iam.seal(KEY, &made.to_pkcs8())),
        })
    }

    /// Its fingerprint.
    pub(crate) fn fingerprint(&self) -> Result<String, String> {
        let hash = ashlar_checksum::sha256(&decoded(&self.certificate)?);
        Ok(hash.iter().map(|b| format!("{b:02x}")).collect())
    }
}

impl Stored {
    /// Reads the authorities, with the entry that an update compares with.
    ///
    /// # Errors
    /// A message for the operator.
    pub(crate) fn read(control: &Control) -> Result<(Stored, Entry), String> {
        let entry = control.read(KEY);
        let bytes = entry.bytes().ok_or("the cluster has no authority")?;
        #[derive(Deserialize)]
        struct Numbered {
            format: u32,
        }
        let bad = |e| format!("the authority of the cluster: {e}");
        let format = serde_json::from_slice::<Numbered>(bytes).map_err(bad)?.format;
        if format != FORMAT {
            return Err(format!("the authority of the cluster has format {format}, unknown here"));
        }
        let stored: Stored = serde_json::from_slice(bytes).map_err(bad)?;
        Ok((stored, entry))
    }

    pub(crate) fn encode(&self) -> Result<Vec<u8>, String> {
        serde_json::to_vec(self).map_err(|e| e.to_string())
    }

    /// The fingerprints of all, in their order.
    pub(crate) fn fingerprints(&self) -> Result<Vec<String>, String> {
        self.authorities.iter().map(One::fingerprint).collect()
    }
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
    let one = One::create(control, iam)?;
    let stored = Stored { format: FORMAT, authorities: vec![one], rotation: None };
    let mut update = Update::new();
    update.set(&entry, stored.encode()?);
    match control.update(update).await {
        Ok(_) | Err(StoreError::Conflict(_)) => Ok(()),
        Err(e) => Err(format!("the authority of the cluster cannot be stored: {e}")),
    }
}

/// What a node must trust now, and who signs.
///
/// # Errors
/// A message for the operator.
pub(crate) fn wanted(control: &Control) -> Result<Standing, String> {
    let trusted = Stored::read(control)?.0.fingerprints()?;
    let signer = trusted.first().cloned().ok_or("the cluster has no authority")?;
    let removed = removed(control).map_err(|e| e.to_string())?.into_keys().collect();
    Ok(Standing { signer, trusted, removed })
}

/// Whom a node trusts now.
///
/// # Errors
/// A message for the operator.
pub(crate) fn trust(control: &Control) -> Result<Trust, String> {
    let (stored, _) = Stored::read(control)?;
    let certificates: Vec<Vec<u8>> =
        stored.authorities.iter().map(|one| decoded(&one.certificate)).collect::<Result<_, _>>()?;
    let trust = Trust::new(control.deployment(), certificates.iter().map(|c| &c[..]));
    let removed = removed(control).map_err(|e| e.to_string())?;
    Ok(removed.keys().fold(trust.map_err(|e| e.to_string())?, |trust, number| trust.without_node(*number)))
}

/// A new certificate for this node, of the authority that signs now.
///
/// # Errors
/// A message for the operator.
pub(crate) fn certify(control: &Control, iam: &Iam, number: u16) -> Result<Identity, String> {
    let cluster = control.deployment();
    let (stored, _) = Stored::read(control)?;
    let signing = stored.authorities.first().ok_or("the cluster has no authority")?;
    let key = iam.unseal(KEY, &decoded(&signing.key)?);
    let key = key.ok_or("the key of the authority of the cluster does not open")?;
    let certificate = decoded(&signing.certificate)?;
    sign(cluster, (&certificate, &key), number).map_err(|e| e.to_string())
}

fn sign(
    cluster: DeploymentId,
    (certificate, key): (&[u8], &[u8]),
    number: u16,
) -> ashlar_rpc::Result<Identity> {
    let authority = Authority::restore(cluster, certificate, key)?;
    let own = NodeKey::generate()?;
    let certificate = authority.sign(&own.request()?, number, NODE_VALID)?;
    Identity::new(cluster, &certificate, &own)
}

fn decoded(text: &str) -> Result<Vec<u8>, String> {
    STANDARD.decode(text).map_err(|e| format!("the authority of the cluster: {e}"))
}
