//! The opening of the key service at the start.
//!
//! Invariant: a server that is configured to encrypt does not start without keys. Must not depend on: how
//! keys seal, where they are kept.

use ashlar_node::Node;
use ashlar_node::kms::Configured;
use ashlar_object::Cipher;
use ashlar_s3::sse::Encryption;

/// Opens the key service. Without keys, requests for encryption are refused.
///
/// # Errors
/// A message for the operator.
pub async fn open(configured: Configured, node: &Node) -> Result<Encryption, String> {
    let cipher = ashlar_environment::process::variable("ASHLAR_ENCRYPTION_CIPHER").filter(|v| !v.is_empty());
    let cipher = match cipher.as_deref() {
        None => None,
        Some("aes") => Some(Cipher::Aes256Gcm),
        Some("chacha") => Some(Cipher::ChaCha20Poly1305),
        Some(other) => {
            return Err(format!("ASHLAR_ENCRYPTION_CIPHER is \"{other}\"; there are aes and chacha"));
        }
    };
    Ok(Encryption { kms: configured.open(&node.control).await?, cipher })
}
