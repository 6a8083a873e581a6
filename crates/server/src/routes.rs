//! Where a request goes: health, metrics and administration by their paths, everything else to S3.
//!
//! Invariants: without a signature there are only health checks, and metrics where the operator made
//! them public; a request that panics costs that request only.

use ashlar_environment::time::{self, Instant};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use ashlar_erasure_set::Sets;
use ashlar_machine::Folder;
use ashlar_metrics::{Group, Page};
use ashlar_pacer::Foreground;
use ashlar_s3::{Arrival, Body, Service, Turns};
use futures::FutureExt as _;
use http::header::{self, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use http_body::Body as _;
use hyper::body::Incoming;

use super::admin::Admin;
use super::connection::{self, Counts, Peer};
use super::metrics::{Asked, Refusals};
use super::minio::Minio;
use super::node::Node;
use super::responses::plain;
use super::tls::Certificates;

/// What `work` answers; if it panics, that it failed, on a connection that is not used again. The cause is in
/// the log and not in the answer.
async fn whatever_happens(
    work: impl Future<Output = Response<Body>>,
    peer: std::net::SocketAddr,
) -> Response<Body> {
    if let Ok(response) = AssertUnwindSafe(work).catch_unwind().await {
        return response;
    }
    tracing::error!(%peer, "a request failed in a way that must not happen");
    let text = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error><Code>InternalError</Code><Message>We encountered an internal error. Please try again.</Message></Error>";
    let mut response = plain(StatusCode::INTERNAL_SERVER_ERROR, text);
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/xml"));
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}

/// No answer is taken by a browser for another type than it has.
fn not_sniffed(mut response: Response<Body>) -> Response<Body> {
    response
        .headers_mut()
        .entry(header::X_CONTENT_TYPE_OPTIONS)
        .or_insert(HeaderValue::from_static("nosniff"));
    response
}

/// All that requests can reach.
pub struct Routes {
    service: Arc<Service>,
    node: Arc<Node>,
    foreground: Arc<Foreground>,
    admin: Arc<Admin>,
    minio: Minio,
    public_metrics: bool,
    connections: Arc<Counts>,
    heads: Arc<Turns>,
    certificates: Option<Arc<Certificates>>,
    /// The label `server` of metrics.
    name: String,
    /// Whether the default key of encryption works, and when that was asked.
    keys: parking_lot::Mutex<Option<(Instant, Option<bool>)>>,
}

/// Path prefixes that belong to the server.
const OURS: [&str; 2] = ["/ashlar/", "/minio/"];

impl Routes {
    /// Puts them together.
    pub fn new(
        service: Arc<Service>,
        node: Arc<Node>,
        public_metrics: bool,
        admin: Admin,
        certificates: Option<Arc<Certificates>>,
        name: String,
    ) -> Routes {
        let admin = Arc::new(admin);
        let minio = Minio::new(admin.clone());
        let (connections, heads) = (Arc::default(), connection::heads());
        let (foreground, keys) = (node.sets.foreground(), parking_lot::Mutex::default());
        Routes {
            foreground,
            service,
            node,
            admin,
            minio,
            public_metrics,
            connections,
            heads,
            certificates,
            name,
            keys,
        }
    }

    /// What became of connections.
    pub fn connections(&self) -> &Arc<Counts> {
        &self.connections
    }

    /// Turns to read long request heads.
    pub fn heads(&self) -> &Arc<Turns> {
        &self.heads
    }

    /// The placement groups.
    pub fn sets(&self) -> Sets {
        self.node.sets.clone()
    }

    /// Whether a request is for health or administration.
    pub fn is_own(&self, request: &Request<Incoming>) -> bool {
        let path = request.uri().path();
        OURS.iter().any(|p| path.starts_with(p)) && !self.service.is_virtual_host(request.headers())
    }

    /// Answers a request on the port of its own that administration has, whatever happens.
    pub async fn administer(&self, request: Request<Incoming>, peer: &Peer) -> Response<Body> {
        let read = matches!(*request.method(), Method::GET | Method::HEAD);
        let answer = async {
            let path = request.uri().path();
            match path {
                "/ashlar/health/live" | "/minio/health/live" if read => plain(StatusCode::OK, ""),
                "/ashlar/health/ready" | "/minio/health/ready" if read => self.ready(),
                _ if path.starts_with("/api/v1/") => self.admin.answer(request, peer).await,
                _ => plain(StatusCode::NOT_FOUND, "administration is at /api/v1/; S3 has another port\n"),
            }
        };
        not_sniffed(whatever_happens(answer, peer.address).await)
    }

    /// Answers a request, whatever happens.
    pub async fn answer(&self, request: Request<Incoming>, peer: &Peer) -> Response<Body> {
        // No body will come, so no "100 Continue" goes out. botocore then takes the next answer on
        // this connection for this one's status and waits for ever: give it a new connection.
        let hurried = request.headers().contains_key(header::EXPECT) && request.body().is_end_stream();
        let mut response = whatever_happens(self.route(request, peer), peer.address).await;
        if hurried {
            response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        not_sniffed(response)
    }

    async fn route(&self, request: Request<Incoming>, peer: &Peer) -> Response<Body> {
        if self.is_own(&request) {
            return Box::pin(self.own(request, peer)).await;
        }
        let began = Instant::now();
        let running = self.foreground.enter();
        let arrival = Arrival {
            peer: peer.address,
            tls: peer.tls,
            certificates: &peer.certificates,
            watch: Some(&peer.watch),
        };
        let response = self.service.handle(request, arrival).await;
        self.foreground.note(began.elapsed());
        drop(running);
        response
    }

    async fn own(&self, request: Request<Incoming>, peer: &Peer) -> Response<Body> {
        let read = matches!(*request.method(), Method::GET | Method::HEAD);
        let mut response = match request.uri().path() {
            "/minio/health/live" | "/ashlar/health/live" if read => plain(StatusCode::OK, ""),
            "/minio/health/ready" | "/ashlar/health/ready" if read => self.ready(),
            "/minio/health/cluster" | "/ashlar/health/cluster" if read => {
                let maintenance =
                    request.uri().query().is_some_and(|q| q.split('&').any(|p| p == "maintenance=true"));
                self.cluster(true, maintenance)
            }
            "/minio/health/cluster/read" | "/ashlar/health/cluster/read" if read => {
                self.cluster(false, false)
            }
            path if read
                && (path == "/ashlar/metrics" || path.starts_with("/minio/v2/metrics/") || is_v3(path)) =>
            {
                self.metrics(request.uri().path(), request.headers()).await
            }
            path if path.starts_with("/ashlar/api/v1/") || path.starts_with("/ashlar/admin/v1/") => {
                return known(self.admin.answer(request, peer).await, peer);
            }
            path if path.starts_with("/minio/admin/") || path.starts_with("/minio/kms/") => {
                return known(self.minio.answer(request, peer).await, peer);
            }
            path if path.starts_with("/minio/") => {
                let id = self.service.request_id();
                super::minio::not_implemented(path, &id)
            }
            path => {
                let text = format!("{path}: not implemented by this server\n");
                plain(StatusCode::NOT_IMPLEMENTED, text)
            }
        };
        peer.watch.arm();
        let id = self.service.request_id();
        if let Ok(id) = HeaderValue::from_str(&id) {
            response.headers_mut().insert("x-amz-request-id", id);
        }
        response
    }

    /// Reads can be served somewhere.
    fn ready(&self) -> Response<Body> {
        let ready = self.node.sets.health().iter().all(|g| g.readable);
        plain(if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }, "")
    }

    /// Every placement group takes writes (or reads). One machine is the whole cluster: taking it
    /// away for maintenance always stops service, and that is what is said (412, as in MinIO).
    fn cluster(&self, write: bool, maintenance: bool) -> Response<Body> {
        let health = self.node.sets.health();
        let good = health.iter().all(|g| if write { g.writable } else { g.readable });
        let status = match (good, maintenance) {
            (true, false) => StatusCode::OK,
            (true, true) => StatusCode::PRECONDITION_FAILED,
            (false, _) => StatusCode::SERVICE_UNAVAILABLE,
        };
        let mut response = plain(status, "");
        let quorum = health.iter().map(|g| g.slots / 2 + 1).max().unwrap_or(0);
        response.headers_mut().insert("x-minio-write-quorum", HeaderValue::from(u16::from(quorum)));
        response
    }

    async fn metrics(&self, path: &str, headers: &header::HeaderMap) -> Response<Body> {
        let allowed = self.public_metrics || self.admin.has_token(headers);
        if !allowed {
            return plain(
                StatusCode::FORBIDDEN,
                "Metrics need the header `Authorization: Bearer TOKEN`; `ashlar info --metrics-token` and `mc admin prometheus generate` print a token. Or start the server with --public-metrics.\n",
            );
        }
        let page = self.page().await;
        let text = match path.strip_prefix("/minio/v2/metrics/") {
            Some("cluster") => page.text(&[Group::Cluster, Group::Node]),
            Some("node") => page.text(&[Group::Node]),
            Some("bucket") => page.text(&[Group::Bucket]),
            Some("resource") => page.text(&[Group::Resource]),
            Some(_) => return plain(StatusCode::NOT_FOUND, "there are cluster, node, bucket and resource\n"),
            None if is_v3(path) => of_v3(&page, path.strip_prefix(V3).unwrap_or_default()),
            None => page.text(&[Group::Cluster, Group::Node, Group::Bucket, Group::Resource]),
        };
        let mut response = plain(StatusCode::OK, text);
        response.headers_mut().insert(
            header::CONTENT_TYPE,
            HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8"),
        );
        response
    }

    /// All metrics of this moment.
    async fn page(&self) -> Page {
        let mut page = Page::new(&self.name);
        let asked = self.ask().await;
        super::metrics::render(&self.node, &asked, &mut page);
        let other = Refusals {
            heads: self.heads.counts(),
            unsigned: self.service.unsigned_counts(),
            sealed: self.minio.refused(),
            listeners: self.service.context().notifications.refused(),
        };
        super::metrics::fairness(&self.node, &self.connections, &other, &mut page);
        let counted = self.service.metrics();
        counted.keep_buckets(|name| self.node.store.bucket(name).is_ok());
        counted.render(&mut page);
        self.service.audit().render(&mut page);
        self.service.access_logs().render(&mut page);
        if let Some(target_manager) = self.service.context().notifications.target_manager() {
            super::events::render(target_manager, &mut page);
        }
        page
    }

    /// What may take a while; what does is left out.
    async fn ask(&self) -> Asked {
        let paths: Vec<_> = self.node.slots.lock().iter().map(|s| s.path.clone()).collect();
        let spaces = paths.into_iter().map(|path| async move {
            let space =
                ashlar_environment::spawn_blocking("routes", move || Folder::real(&path, None).space().ok());
            time::timeout(PATIENCE, space).await.ok()?.ok()?
        });
        let spaces = futures::future::join_all(spaces).await;
        let known = *self.keys.lock();
        let works = match known {
            Some((at, works)) if at.elapsed() < KEYS => works,
            _ => {
                let works = time::timeout(PATIENCE, self.admin.keys_work()).await.unwrap_or(Some(false));
                *self.keys.lock() = Some((Instant::now(), works));
                works
            }
        };
        Asked {
            spaces,
            keys: works.zip(self.admin.key_uses()),
            certificate: self.certificates.as_ref().and_then(|c| c.expires()),
        }
    }
}

/// How long a drive or a key server is waited for when metrics are read.
const PATIENCE: Duration = Duration::from_secs(1);
/// How often the key server is asked whether it works.
const KEYS: Duration = Duration::from_secs(30);
/// Where version 3 of MinIO's metrics begins.
const V3: &str = "/minio/metrics/v3";

fn is_v3(path: &str) -> bool {
    path.strip_prefix(V3).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Version 3 below a path; `bucket/api/NAME` is of one bucket.
fn of_v3(page: &Page, path: &str) -> String {
    let path = path.trim_matches('/');
    match path.strip_prefix("bucket/api/").or_else(|| path.strip_prefix("api/bucket/")) {
        None => page.text_v3(path),
        Some(bucket) => {
            let label = format!(",bucket=\"{bucket}\"");
            let all = page.text_v3("bucket/api");
            all.lines()
                .filter(|l| l.starts_with('#') || l.contains(&label))
                .map(|l| format!("{l}\n"))
                .collect()
        }
    }
}

/// Notes that a client was permitted something.
fn known(response: Response<Body>, peer: &Peer) -> Response<Body> {
    if response.status().is_success() {
        peer.watch.know();
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_costs_its_request_only_and_says_nothing() {
        let peer = "127.0.0.1:9".parse().unwrap();
        let broken = async { panic!("planted words") };
        let response = whatever_happens(broken, peer).await;
        assert_eq!(response.status(), StatusCode::INTERNAL_SERVER_ERROR);
        assert_eq!(response.headers()[header::CONNECTION], "close");
        let text = String::from_utf8(response.into_body().collect().await.unwrap().to_vec()).unwrap();
        assert!(text.contains("<Code>InternalError</Code>") && !text.contains("planted"), "{text}");
        let fine = whatever_happens(async { plain(StatusCode::OK, "fine") }, peer).await;
        assert_eq!(fine.status(), StatusCode::OK);
    }
}
