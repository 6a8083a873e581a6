//! The TLS configuration of a client: the system's roots, own authorities, or no check at all.
//!
//! Must never know: connections, requests.

use std::sync::Arc;

use hyper_rustls::ConfigBuilderExt;
use rustls::{
    ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature},
};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime, pem::PemObject};
use tokio_rustls::TlsConnector;

use crate::{
    config::Tls,
    error::{Error, Result},
};

/// The connector for these settings. Fails if an authority is no certificate or TLS is set up
/// wrongly.
pub(crate) fn connector(tls: &Tls) -> Result<TlsConnector> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let invalid = |e: rustls::Error| Error::Invalid(format!("TLS: {e}"));
    let builder = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(invalid)?;
    let config = if tls.insecure {
        let verifier = Arc::new(Anything(provider));
        builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth()
    } else if tls.authorities.is_empty() {
        builder
            .with_native_roots()
            .map_err(|e| {
                Error::Invalid(format!("the system's certificate authorities: {e}; name one with --ca"))
            })?
            .with_no_client_auth()
    } else {
        // Whoever names an authority means that one: the system's roots are not added.
        builder.with_root_certificates(roots(&tls.authorities)?).with_no_client_auth()
    };
    Ok(TlsConnector::from(Arc::new(config)))
}

fn roots(authorities: &[Vec<u8>]) -> Result<RootCertStore> {
    let mut store = RootCertStore::empty();
    for pem in authorities {
        let before = store.len();
        for certificate in CertificateDer::pem_slice_iter(pem) {
            let certificate = certificate
                .map_err(|e| Error::Invalid(format!("certificate authority: {e:?}")))?;
            store
                .add(certificate)
                .map_err(|e| Error::Invalid(format!("certificate authority: {e}")))?;
        }
        if store.len() == before {
            return Err(Error::Invalid("certificate authority: no certificate in the file".into()));
        }
    }
    Ok(store)
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
