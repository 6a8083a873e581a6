//! TLS from a folder with `public.crt` and `private.key`, as in MinIO; new files are taken up
//! without a restart.
//!
//! Invariant: files that do not fit together never replace ones that do.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use arc_swap::ArcSwap;
use rustls::server::{ClientHello, ResolvesServerCert, ServerConfig};
use rustls::sign::CertifiedKey;
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

/// How often the files are looked at.
const LOOK: Duration = Duration::from_secs(5);

/// The certificate in use.
#[derive(Debug)]
pub struct Certificates {
    folder: PathBuf,
    current: ArcSwap<CertifiedKey>,
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.current.load_full())
    }
}

/// The two files, and when they were changed.
fn files(folder: &Path) -> [PathBuf; 2] {
    [folder.join("public.crt"), folder.join("private.key")]
}

fn stamps(folder: &Path) -> Option<[SystemTime; 2]> {
    let [crt, key] = files(folder);
    let of = |p: &Path| std::fs::metadata(p).and_then(|m| m.modified()).ok();
    Some([of(&crt)?, of(&key)?])
}

fn load(folder: &Path) -> Result<CertifiedKey, String> {
    let [crt, key] = files(folder);
    let certs: Vec<CertificateDer<'static>> = CertificateDer::pem_file_iter(&crt)
        .and_then(Iterator::collect)
        .map_err(|e| format!("{}: {e}", crt.display()))?;
    if certs.is_empty() {
        return Err(format!("{}: no certificate in it", crt.display()));
    }
    let private = PrivateKeyDer::from_pem_file(&key).map_err(|e| format!("{}: {e}", key.display()))?;
    let provider = rustls::crypto::aws_lc_rs::default_provider();
    CertifiedKey::from_der(certs, private, &provider)
        .map_err(|e| format!("{} and {} do not fit: {e}", crt.display(), key.display()))
}

impl Certificates {
    /// Reads the folder.
    ///
    /// # Errors
    /// In words: a file is missing, unreadable, or does not fit the other.
    pub fn open(folder: &Path) -> Result<Arc<Certificates>, String> {
        let current = load(folder)?;
        Ok(Arc::new(Certificates { folder: folder.to_owned(), current: ArcSwap::from_pointee(current) }))
    }

    /// What a listener needs.
    ///
    /// # Errors
    /// In words.
    pub fn config(self: &Arc<Certificates>) -> Result<Arc<ServerConfig>, String> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|e| e.to_string())?
            .with_no_client_auth()
            .with_cert_resolver(self.clone());
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }

    /// Looks for new files for ever.
    pub async fn follow(self: Arc<Certificates>) {
        let mut known = stamps(&self.folder);
        loop {
            tokio::time::sleep(LOOK).await;
            let now = stamps(&self.folder);
            if now.is_none() || now == known {
                continue;
            }
            match load(&self.folder) {
                Ok(fresh) => {
                    self.current.store(Arc::new(fresh));
                    known = now;
                    tracing::info!(folder = %self.folder.display(), "new certificate in use");
                }
                // Half written, perhaps: looked at again.
                Err(error) => tracing::warn!(error, "the new certificate cannot be used; the old one stays"),
            }
        }
    }
}
