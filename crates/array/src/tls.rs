//! TLS of the NBD server: certificate and key of a folder with `public.crt` and `private.key`, as `ashlar server` has it,
//! and the authority that client certificates need.
//!
//! Invariant: files that do not match each other never replace a working pair.
//!
//! Must not depend on: the protocol.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use arc_swap::ArcSwap;
use ashlar_environment::time;
use rustls::server::{ClientHello, ResolvesServerCert, WebPkiClientVerifier};
use rustls::sign::CertifiedKey;
use rustls::{RootCertStore, ServerConfig};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

use crate::error::Error;

/// Time between looks at the files.
const CHECK: Duration = Duration::from_secs(5);

/// The certificate in use, and its folder.
#[derive(Debug)]
pub(crate) struct Certificates {
    folder: PathBuf,
    current: ArcSwap<CertifiedKey>,
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.current.load_full())
    }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, Error> {
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    match read {
        Ok(all) if all.is_empty() => Err(Error::invalid(format!("{}: no certificate in it", path.display()))),
        Ok(all) => Ok(all),
        Err(e) => Err(Error::invalid(format!("{}: {e}", path.display()))),
    }
}

fn load(folder: &Path) -> Result<CertifiedKey, Error> {
    let (certificate, key) = (folder.join("public.crt"), folder.join("private.key"));
    let chain = certificates(&certificate)?;
    let private =
        PrivateKeyDer::from_pem_file(&key).map_err(|e| Error::invalid(format!("{}: {e}", key.display())))?;
    CertifiedKey::from_der(chain, private, &rustls::crypto::aws_lc_rs::default_provider()).map_err(|e| {
        Error::invalid(format!("{} and {} do not fit: {e}", certificate.display(), key.display()))
    })
}

/// When the files were changed.
fn stamps(folder: &Path) -> [Option<SystemTime>; 2] {
    ["public.crt", "private.key"].map(|f| std::fs::metadata(folder.join(f)).and_then(|m| m.modified()).ok())
}

impl Certificates {
    /// Loads the files of a folder.
    pub(crate) fn open(folder: &Path) -> Result<Arc<Certificates>, Error> {
        Ok(Arc::new(Certificates {
            folder: folder.to_owned(),
            current: ArcSwap::from_pointee(load(folder)?),
        }))
    }

    /// The configuration of the server. Clients need a certificate of `authority`, if there is one.
    pub(crate) fn config(
        self: &Arc<Certificates>,
        authority: Option<&Path>,
    ) -> Result<Arc<ServerConfig>, Error> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let wrong = |e: &dyn std::fmt::Display| Error::invalid(format!("TLS: {e}"));
        let builder = ServerConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(|e| wrong(&e))?;
        let builder = match authority {
            None => builder.with_no_client_auth(),
            Some(file) => {
                let mut roots = RootCertStore::empty();
                for certificate in certificates(file)? {
                    roots.add(certificate).map_err(|e| Error::invalid(format!("{}: {e}", file.display())))?;
                }
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
                builder.with_client_cert_verifier(verifier.map_err(|e| wrong(&e))?)
            }
        };
        Ok(Arc::new(builder.with_cert_resolver(self.clone())))
    }

    /// Loads changed files; never returns.
    pub(crate) async fn follow(self: Arc<Certificates>) {
        let mut known = stamps(&self.folder);
        loop {
            time::sleep(CHECK).await;
            let now = stamps(&self.folder);
            if now == known || now.contains(&None) {
                continue;
            }
            match load(&self.folder) {
                Ok(fresh) => {
                    self.current.store(Arc::new(fresh));
                    known = now;
                    tracing::info!(folder = %self.folder.display(), "new certificate in use");
                }
                // The files may be incomplete: they are read again.
                Err(error) => tracing::warn!(%error, "the new certificate cannot be used; the old one stays"),
            }
        }
    }
}
