//! Asks the measured server for its facts, which [`ashlar_bench_report::result::server`] puts in the result.
//!
//! Invariant: a server that cannot be asked, or that refuses the credentials, is still measured.

use std::time::Duration;

use ashlar_client::{Client, Config, Credentials, Method, Tls};
use serde_json::Value;

use crate::load::Target;

/// How long the server may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Asks the administration of the first endpoint; nothing if it is no Ashlar server, or refuses.
pub fn ask(target: &Target) -> Option<Value> {
    let keys = target.keys.as_ref()?;
    let endpoint = target.endpoints.first()?;
    let credentials = Credentials {
        access_key: keys.access.clone(),
        secret_key: keys.secret.clone(),
        session_token: keys.token.clone(),
    };
    // An endpoint may be written without its scheme.
    let endpoint = if endpoint.contains("://") { endpoint.clone() } else { format!("http://{endpoint}") };
    let mut config = Config::new(endpoint, Some(credentials));
    config.region.clone_from(&keys.region);
    config.tls = Tls {
        insecure: target.insecure,
        authorities: target.authority.iter().map(|pem| pem.clone().into_bytes()).collect(),
    };
    (config.attempts, config.connect_timeout, config.idle_timeout) = (1, PATIENCE, PATIENCE);
    let client = Client::new(config).ok()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
    let info = runtime.block_on(async {
        tokio::time::timeout(PATIENCE, client.admin(Method::GET, "info", &[], None)).await
    });
    info.ok()?.ok().filter(Value::is_object)
}
