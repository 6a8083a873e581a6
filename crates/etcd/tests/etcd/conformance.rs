//! The contract of the control store, over one member, and over three of which one is always in trouble.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use ashlar_etcd::Options;
use futures::future::BoxFuture;
use tokio::sync::Mutex;

use crate::contract::{Driver, conforms};
use crate::nemesis::Nemesis;
use crate::proxy::Proxy;
use crate::support::{Cluster, created};

/// Makes a store with a name of its own for each check.
fn fresh(options: Options) -> impl Fn() -> BoxFuture<'static, Driver> + Sync {
    let next = AtomicU32::new(0);
    move || {
        let mut options = options.clone();
        options.cluster = format!("c{}", next.fetch_add(1, Ordering::Relaxed));
        Box::pin(async move { Arc::new(created(&options).await) as Driver })
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_member() {
    let cluster = Cluster::start(1).await;
    conforms(&fresh(cluster.options("c"))).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_members_in_trouble() {
    let cluster = Cluster::start(3).await;
    let mut options = cluster.options("c");
    let mut proxies = Vec::new();
    for endpoint in &mut options.endpoints {
        let proxy = Proxy::before(endpoint).await;
        endpoint.clone_from(&proxy.url);
        proxies.push(proxy);
    }
    let nemesis = Nemesis::begin(Arc::new(Mutex::new(cluster)), proxies, 1);
    conforms(&fresh(options)).await;
    nemesis.end().await;
}
