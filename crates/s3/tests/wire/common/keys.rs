//! Named keys over a control store in memory.

use std::sync::Arc;

use ashlar_cluster::{Embedded, MemoryMedium};
use ashlar_format::DeploymentId;
use ashlar_kms::{Builtin, Kms, Secret};
use ashlar_s3::sse::Encryption;

use super::Server;

/// The default key `main` and another, `other`; and what runs their changes.
pub fn keys() -> (Arc<Kms>, tokio::runtime::Runtime) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let kms = runtime.block_on(async {
        let control = Embedded::create(DeploymentId([3; 16]), MemoryMedium::one_drive(), Vec::new())
            .await
            .unwrap()
            .control();
        let driver = Builtin::open_keys(control, Secret::new([7; 32]), None, || 5).await.ok().unwrap();
        let kms = Kms::builtin(driver, "main").await.ok().unwrap();
        kms.create_key("other").await.unwrap();
        Arc::new(kms)
    });
    (kms, runtime)
}

/// A server with keys and the bucket `b-1`; `secure`: its connections are taken for TLS.
pub fn encrypting(secure: bool) -> (Server, Arc<Kms>, tokio::runtime::Runtime) {
    let (kms, runtime) = keys();
    let its = kms.clone();
    let s = Server::over(secure, move |c| c.context.encryption = Encryption { kms: Some(its), cipher: None });
    s.make_bucket("b-1");
    (s, kms, runtime)
}
