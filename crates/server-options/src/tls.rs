//! TLS with a certificate from a folder with `public.crt` and `private.key`, as in MinIO; new files are
//! loaded without a restart.
//!
//! Invariants: files that do not match each other never replace a working pair; clients are asked for a
//! certificate only while a provider uses them (`identity_tls`), may connect without one, and must prove
//! possession of its key. The meaning of a certificate is not decided here.

use ashlar_environment::time;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use arc_swap::ArcSwap;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{ClientHello, ResolvesServerCert, ServerConfig};
use rustls::sign::CertifiedKey;
use rustls::{DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use x509_cert::Certificate;
use x509_cert::der::Decode as _;
use x509_cert::time::Time;

/// Time between warnings about a certificate.
const WARN_INTERVAL: Duration = Duration::from_secs(24 * 3600);
/// Seconds before the expiry of a certificate at which warnings begin.
const SOON_S: i64 = 14 * 24 * 3600;
/// Time between checks of the files.
const CHECK_INTERVAL: Duration = Duration::from_secs(5);

/// The certificate in use, and its files.
#[derive(Debug)]
pub struct Certificates {
    folder: PathBuf,
    current: ArcSwap<CertifiedKey>,
    clients: Arc<Clients>,
}

/// Requests client certificates if wanted. All are accepted: an S3 client may have one for another purpose.
#[derive(Debug)]
struct Clients {
    wanted: OnceLock<Arc<AtomicBool>>,
    provider: Arc<CryptoProvider>,
}

impl ClientCertVerifier for Clients {
    fn offer_client_auth(&self) -> bool {
        self.wanted.get().is_some_and(|w| w.load(Ordering::Acquire))
    }

    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        _certificate: &CertificateDer<'_>,
        _between: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.current.load_full())
    }
}

/// The paths of the two files.
fn files(folder: &Path) -> [PathBuf; 2] {
    [folder.join("public.crt"), folder.join("private.key")]
}

fn stamps(folder: &Path) -> Option<[SystemTime; 2]> {
    let [crt, key] = files(folder);
    let of = |p: &Path| std::fs::metadata(p).and_then(|m| m.modified()).ok();
    Some([of(&crt)?, of(&key)?])
}

/// The validity period of a certificate, in seconds since 1970.
fn validity(der: &[u8]) -> Option<(i64, i64)> {
    let certificate = Certificate::from_der(der).ok()?;
    let validity = certificate.tbs_certificate().validity();
    let seconds = |t: Time| i64::try_from(t.to_unix_duration().as_secs()).unwrap_or(i64::MAX);
    Some((seconds(validity.not_before), seconds(validity.not_after)))
}

/// Warnings about the files.
fn problems(folder: &Path, current: &CertifiedKey, now_s: i64) -> Vec<String> {
    use std::os::unix::fs::PermissionsExt as _;
    let mut all = Vec::new();
    let [crt, key] = files(folder);
    if let Some((from, until)) = current.cert.first().and_then(|der| validity(der)) {
        let day = |s: i64| {
            let at =
                ::time::OffsetDateTime::from_unix_timestamp(s).unwrap_or(::time::OffsetDateTime::UNIX_EPOCH);
            at.date().to_string()
        };
        let crt = crt.display();
        if until < now_s {
            all.push(format!(
                "{crt}: the certificate expired on {}; clients that check it refuse",
                day(until)
            ));
        } else if until < now_s + SOON_S {
            all.push(format!("{crt}: the certificate expires on {}", day(until)));
        }
        if from > now_s {
            all.push(format!("{crt}: the certificate is not valid before {}", day(from)));
        }
    }
    let mode = std::fs::metadata(&key).map(|m| m.permissions().mode() & 0o777);
    if let Ok(mode) = mode
        && mode & 0o077 != 0
    {
        let key = key.display();
        all.push(format!("{key}: others can read the private key (mode {mode:03o}); chmod 600 {key}"));
    }
    all
}

fn load(folder: &Path) -> Result<CertifiedKey, String> {
    let [crt, key] = files(folder);
    let certs: Vec<CertificateDer<'static>> = CertificateDer::pem_file_iter(&crt)
        .and_then(Iterator::collect)
        .map_err(|e| format!("{}: {e}", crt.display()))?;
    if certs.is_empty() {
        return Err(format!("{}: no certificate in it", crt.display()));
    }
    let private = PrivateKeyDer::from_pem_file(&key).map_err(|e| {
        let shown = key.display();
        let text = std::fs::read_to_string(&key).unwrap_or_default();
        if text.contains("ENCRYPTED") {
            // What `openssl req -x509` makes without `-nodes`.
            format!(
                "{shown}: the private key is protected by a passphrase, which the server cannot ask for; write it without: openssl pkey -in {shown} -out private.key.plain, then put that in its place"
            )
        } else if matches!(e, rustls_pki_types::pem::Error::NoItemsFound) {
            format!("{shown}: there is no private key in PEM form in it (a block `BEGIN PRIVATE KEY`)")
        } else {
            format!("{shown}: {e}")
        }
    })?;
    let provider = rustls::crypto::aws_lc_rs::default_provider();
    CertifiedKey::from_der(certs, private, &provider)
        .map_err(|e| format!("{} and {} do not fit: {e}", crt.display(), key.display()))
}

impl Certificates {
    /// Loads the files of a folder.
    ///
    /// # Errors
    /// A message for the operator: a file is missing or unreadable, or the files do not match.
    pub fn open(folder: &Path) -> Result<Arc<Certificates>, String> {
        let current = load(folder)?;
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let clients = Arc::new(Clients { wanted: OnceLock::new(), provider });
        let current = ArcSwap::from_pointee(current);
        Ok(Arc::new(Certificates { folder: folder.to_owned(), current, clients }))
    }

    /// The expiry of the certificate in use, in seconds since 1970; `None` if it cannot be parsed.
    pub fn expires(&self) -> Option<i64> {
        validity(self.current.load().cert.first()?).map(|(_, until)| until)
    }

    /// Logs warnings about the files.
    pub fn log_problems(&self) {
        for problem in problems(&self.folder, &self.current.load(), ashlar_node::clock::now_ms() / 1000) {
            tracing::warn!(folder = %self.folder.display(), "{problem}");
        }
    }

    /// Requests client certificates while `wanted` is true.
    pub fn ask_clients(&self, wanted: Arc<AtomicBool>) {
        // Set once, at the start.
        let _ = self.clients.wanted.set(wanted);
    }

    /// The configuration of a listener.
    ///
    /// # Errors
    /// A message for the operator.
    pub fn config(self: &Arc<Certificates>) -> Result<Arc<ServerConfig>, String> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|e| e.to_string())?
            .with_client_cert_verifier(self.clients.clone())
            .with_cert_resolver(self.clone());
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        // Sealed tickets: clients of any number resume their sessions. The default, a store in the process, has 256.
        config.ticketer = rustls::crypto::aws_lc_rs::Ticketer::new().map_err(|e| e.to_string())?;
        Ok(Arc::new(config))
    }

    /// Loads changed files; never returns.
    pub async fn follow(self: Arc<Certificates>) {
        let mut known = stamps(&self.folder);
        let mut judged = time::Instant::now();
        loop {
            time::sleep(CHECK_INTERVAL).await;
            if judged.elapsed() >= WARN_INTERVAL {
                judged = time::Instant::now();
                self.log_problems();
            }
            let now = stamps(&self.folder);
            if now.is_none() || now == known {
                continue;
            }
            match load(&self.folder) {
                Ok(fresh) => {
                    self.current.store(Arc::new(fresh));
                    known = now;
                    tracing::info!(folder = %self.folder.display(), "new certificate in use");
                    self.log_problems();
                }
                // The files may be incomplete: they are read again.
                Err(error) => tracing::warn!(error, "the new certificate cannot be used; the old one stays"),
            }
        }
    }
}
