//! The TLS configuration of clients: the system's authorities, named ones, or no verification.
//!
//! Must not depend on: connections, requests.

use std::sync::Arc;

use hyper_rustls::ConfigBuilderExt;
use rustls::{
    ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme,
    client::{
        WebPkiServerVerifier,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
        verify_server_name,
    },
    crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature},
    server::ParsedCertificate,
    sign::{CertifiedKey, SingleCertAndKey},
};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime, pem::PemObject};

use crate::{Error, Result};

/// The configuration of a client that trusts `authorities` (certificates in PEM), the system's if there are
/// none, or any certificate (`insecure`).
///
/// # Errors
/// An authority is no certificate, or the system has none.
pub fn config(authorities: &[Vec<u8>], insecure: bool) -> Result<Arc<ClientConfig>> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let invalid = |e: rustls::Error| Error::Invalid(format!("TLS: {e}"));
    let builder = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(invalid)?;
    let config = if insecure {
        let verifier = Arc::new(Anything(provider));
        builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth()
    } else if authorities.is_empty() {
        builder
            .with_native_roots()
            .map_err(|e| {
                Error::Invalid(format!("the system's certificate authorities: {e}; name one yourself"))
            })?
            .with_no_client_auth()
    } else {
        // Named authorities replace the system's.
        let (roots, named) = roots(authorities)?;
        let inner = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider)
            .build()
            .map_err(|e| Error::Invalid(format!("TLS: {e}")))?;
        let verifier = Arc::new(Named { inner, named });
        builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth()
    };
    Ok(Arc::new(config))
}

/// Longest file with certificates or a key, in bytes: the authorities of a system are about 250 KiB.
const LONGEST: u64 = 4 << 20;

/// Reads a file with certificates or a key. Only regular files are accepted: reading a device or a pipe might
/// never end.
///
/// # Errors
/// It cannot be read, is not a regular file, or is longer than 4 MiB.
pub fn read_file(path: &std::path::Path) -> std::result::Result<Vec<u8>, String> {
    use std::io::Read as _;
    let said = |why: &dyn std::fmt::Display| format!("{}: {why}", path.display());
    // Check before opening: opening a pipe waits for a writer.
    if !std::fs::metadata(path).map_err(|e| said(&e))?.is_file() {
        return Err(said(&"is not a regular file"));
    }
    let file = std::fs::File::open(path).map_err(|e| said(&e))?;
    if !file.metadata().map_err(|e| said(&e))?.is_file() {
        return Err(said(&"is not a regular file"));
    }
    let mut bytes = Vec::new();
    file.take(LONGEST + 1).read_to_end(&mut bytes).map_err(|e| said(&e))?;
    if bytes.len() as u64 > LONGEST {
        return Err(said(&format_args!("is longer than {} MiB", LONGEST >> 20)));
    }
    Ok(bytes)
}

/// A client certificate: the chain, the client's own first, and its private key, in PEM.
#[derive(Clone)]
pub struct Identity {
    /// The certificates.
    pub certificates: Vec<u8>,
    /// The key of the first.
    pub key: Vec<u8>,
}

impl std::fmt::Debug for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Identity")
    }
}

/// The same configuration with a client certificate, which is sent if the server requests it.
///
/// # Errors
/// The certificates are invalid, or the key does not belong to them.
pub fn identified(config: &ClientConfig, identity: &Identity) -> Result<Arc<ClientConfig>> {
    let invalid = |e: &dyn std::fmt::Display| Error::Invalid(format!("client certificate: {e}"));
    let chain =
        CertificateDer::pem_slice_iter(&identity.certificates).collect::<std::result::Result<Vec<_>, _>>();
    let chain = chain.map_err(|e| invalid(&format_args!("{e:?}")))?;
    let key = PrivateKeyDer::from_pem_slice(&identity.key).map_err(|_| invalid(&"the key cannot be read"))?;
    let own = CertifiedKey::from_der(chain, key, &aws_lc_rs::default_provider()).map_err(|e| invalid(&e))?;
    let mut config = config.clone();
    config.client_auth_cert_resolver = Arc::new(SingleCertAndKey::from(own));
    Ok(Arc::new(config))
}

fn roots(authorities: &[Vec<u8>]) -> Result<(RootCertStore, Vec<CertificateDer<'static>>)> {
    let mut store = RootCertStore::empty();
    let mut named = Vec::new();
    for pem in authorities {
        let before = store.len();
        for certificate in CertificateDer::pem_slice_iter(pem) {
            let certificate =
                certificate.map_err(|e| Error::Invalid(format!("certificate authority: {e:?}")))?;
            named.push(certificate.clone());
            store.add(certificate).map_err(|e| Error::Invalid(format!("certificate authority: {e}")))?;
        }
        if store.len() == before {
            return Err(Error::Invalid("certificate authority: no certificate in the file".into()));
        }
    }
    Ok((store, named))
}

/// The usual verification, except that a server may present exactly a named certificate. `openssl req -x509`
/// makes certificates that are their own authority, which the usual verification refuses for a server. The
/// name in the certificate must still match.
#[derive(Debug)]
struct Named {
    inner: Arc<WebPkiServerVerifier>,
    named: Vec<CertificateDer<'static>>,
}

impl ServerCertVerifier for Named {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> std::result::Result<ServerCertVerified, rustls::Error> {
        if self.named.iter().any(|named| named == certificate) {
            verify_server_name(&ParsedCertificate::try_from(certificate)?, name)?;
            return Ok(ServerCertVerified::assertion());
        }
        self.inner.verify_server_cert(certificate, intermediates, name, ocsp, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        self.inner.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        self.inner.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.inner.supported_verify_schemes()
    }
}

/// Accepts any certificate, but still checks that the peer holds its key.
#[derive(Debug)]
struct Anything(Arc<CryptoProvider>);

impl ServerCertVerifier for Anything {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> std::result::Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, cert, dss, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, cert, dss, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    /// `cert_authority=/dev/zero` must not use unlimited memory.
    #[test]
    fn only_regular_files_of_limited_length_are_read() {
        let folder = std::env::temp_dir().join(format!("ashlar-outbound-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let (good, long) = (folder.join("good"), folder.join("long"));
        std::fs::write(&good, b"pem").unwrap();
        std::fs::File::create(&long).unwrap().set_len(LONGEST + 1).unwrap();
        assert_eq!(read_file(&good).unwrap(), b"pem");
        assert!(read_file(&long).unwrap_err().contains("longer"));
        for device in ["/dev/zero", "/dev/tty", "/"] {
            assert!(read_file(Path::new(device)).is_err(), "{device}");
        }
        assert!(read_file(&folder.join("none")).is_err());
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
