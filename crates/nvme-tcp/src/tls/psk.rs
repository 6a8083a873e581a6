//! Pre-shared keys of TLS and their names, from the key of a host and the names of the host and the subsystem (TCP 3.6.1.3, TP 8018).
//!
//! The key of the text becomes a retained key, that a pre-shared key:
//!
//! ```text
//! retained = HKDF-Expand-Label(HKDF-Extract(0, key), "HostNQN", NQN of the host)        unless its hash is 00
//! identity = "NVMe0R" hash " " host " " subsystem                                        version 0
//!            "NVMe1R" hash " " host " " subsystem " " digest                             version 1
//! digest   = base 64 of HMAC(retained, host " " subsystem " NVMe-over-Fabrics")
//! psk      = HKDF-Expand-Label(HKDF-Extract(0, retained), "nvme-tls-psk", identity, or hash " " digest)
//! ```
//!
//! HKDF-Expand-Label is that of TLS 1.3 (RFC 8446, 7.1). `nvme-cli` of Linux hosts has had others: [`Derivation`].
//!
//! Must not depend on: connections.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use zeroize::Zeroizing;

use super::key::TlsKey;
use crate::auth::hash::Hash;

/// What ends the text of a digest.
const DIGESTED: &[u8] = b"NVMe-over-Fabrics";

/// What a label and its context are put together to. The names of keys are the same with all, or have the digest of one of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Derivation {
    /// As RFC 8446 has it: SPDK, and libnvme from 1.16.
    Specified,
    /// libnvme before 1.16: the lengths of label and context are left out, and that of the key has its bytes in the order of the machine,
    /// which is little endian here.
    Libnvme,
    /// The same with OpenSSL 3.0 and 3.1, which keep only the last part: the context, without the number of the hash function.
    LibnvmeOpenssl30,
}

impl Derivation {
    pub(crate) const ALL: [Derivation; 3] =
        [Derivation::Specified, Derivation::Libnvme, Derivation::LibnvmeOpenssl30];

    /// HKDF-Expand-Label(HKDF-Extract(0, `secret`), `label`, `context`), as long as the secret, which is no longer than a digest. `context` has
    /// two parts. None: the context is too long.
    fn expand(
        self,
        hash: Hash,
        secret: &[u8],
        label: &[u8],
        context: [&[u8]; 2],
    ) -> Option<Zeroizing<Vec<u8>>> {
        let prk = extract(hash, secret);
        let (len, label) = (secret.len() as u16, [b"tls13 ", label].concat());
        let whole = context.concat();
        let info = match self {
            Derivation::Specified => return expand_label(hash, &prk, &label, &whole, len),
            Derivation::Libnvme => [&len.to_le_bytes()[..], &label, &whole].concat(),
            Derivation::LibnvmeOpenssl30 => context[1].to_vec(),
        };
        expand(hash, &prk, &info, usize::from(len))
    }
}

/// HKDF-Extract without salt (RFC 5869, 2.2).
pub(super) fn extract(hash: Hash, secret: &[u8]) -> Zeroizing<Vec<u8>> {
    hash.hmac(&[0; 64][..hash.len()], &[secret])
}

/// HKDF-Expand (RFC 5869, 2.3) of at most one digest.
fn expand(hash: Hash, prk: &[u8], info: &[u8], len: usize) -> Option<Zeroizing<Vec<u8>>> {
    let mut out = hash.hmac(prk, &[info, &[1]]);
    (len <= out.len()).then(|| {
        out.truncate(len);
        out
    })
}

/// HKDF-Expand-Label (RFC 8446, 7.1) of at most one digest. `label`: with its "tls13 ".
pub(super) fn expand_label(
    hash: Hash,
    prk: &[u8],
    label: &[u8],
    context: &[u8],
    len: u16,
) -> Option<Zeroizing<Vec<u8>>> {
    let (label_len, context_len) = (u8::try_from(label.len()).ok()?, u8::try_from(context.len()).ok()?);
    let info = [&len.to_be_bytes()[..], &[label_len], label, &[context_len], context].concat();
    expand(hash, prk, &info, usize::from(len))
}

/// A pre-shared key.
#[derive(Clone)]
pub(crate) struct Psk {
    /// Its name (PSK identity).
    pub(crate) identity: String,
    /// SHA-256 or SHA-384, the hash function of the cipher suites that it is for: that of its name, unless the client has another one.
    pub(crate) hash: Hash,
    pub(crate) secret: Zeroizing<Vec<u8>>,
}

impl Psk {
    /// That of a host and a subsystem. `version`: 0 or 1. None: the names are too long for one.
    pub(crate) fn new(
        key: &TlsKey,
        host: &str,
        subsystem: &str,
        version: u8,
        derivation: Derivation,
    ) -> Option<Psk> {
        let hash = key.hash();
        let retained = match key.bound {
            Some(_) => derivation.expand(hash, &key.key, b"HostNQN", [b"", host.as_bytes()])?,
            None => key.key.clone(),
        };
        let (names, number) = (format!("{host} {subsystem}"), format!("{:02} ", hash.id()));
        let label = b"nvme-tls-psk";
        let (identity, secret) = if version == 0 {
            let identity = format!("NVMe0R{number}{names}");
            let secret = derivation.expand(hash, &retained, label, [b"", identity.as_bytes()])?;
            (identity, secret)
        } else {
            let digest = STANDARD.encode(&hash.hmac(&retained, &[names.as_bytes(), b" ", DIGESTED])[..]);
            let secret = derivation.expand(hash, &retained, label, [number.as_bytes(), digest.as_bytes()])?;
            (format!("NVMe1R{number}{names} {digest}"), secret)
        };
        Some(Psk { identity, hash, secret })
    }
}

impl Psk {
    /// As a client has it whose proof has `len` bytes: GnuTLS below tlshd of Debian 13 proves keys of SHA-384 with SHA-256, and then offers the
    /// cipher suites of that.
    pub(super) fn proved_by(self, len: usize) -> Psk {
        let hash = if len == Hash::Sha256.len() { Hash::Sha256 } else { self.hash };
        Psk { hash, ..self }
    }
}

/// What the name of a pre-shared key says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Identity<'a> {
    /// 0 or 1.
    pub(crate) version: u8,
    /// The name of the host.
    pub(crate) host: &'a str,
    /// The name of the subsystem.
    pub(crate) subsystem: &'a str,
}

impl<'a> Identity<'a> {
    /// Reads a name. None: it is not one of a retained key.
    pub(crate) fn decode(bytes: &'a [u8]) -> Option<Identity<'a>> {
        let text = std::str::from_utf8(bytes).ok()?;
        let mut words = text.split(' ');
        let (kind, host, subsystem) = (words.next()?, words.next()?, words.next()?);
        let version = match kind {
            "NVMe0R01" | "NVMe0R02" => 0,
            "NVMe1R01" | "NVMe1R02" => 1,
            _ => return None,
        };
        let digest = words.next();
        let whole = digest.is_some() == (version == 1) && words.next().is_none();
        (whole && !host.is_empty() && !subsystem.is_empty()).then_some(Identity { version, host, subsystem })
    }
}
