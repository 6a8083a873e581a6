//! Routing of requests by path: health checks, metrics and administration to the server, all others to S3.
//!
//! Invariants: without a signature, only health checks are answered, and metrics if the operator made them
//! public; a panic affects only its own request.

use ashlar_environment::time::{self, Instant};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use crate::readiness::is_ready;
use ashlar_admin::metrics::{self, ConnectionCounts, Refusals, SlowValues};
use ashlar_admin::peer::Peer;
use ashlar_admin::responses::plain;
use ashlar_admin::{Admin, Minio};
use ashlar_console::{Console, contain, is_console, wants_console};
use ashlar_erasure_set::Sets;
use ashlar_machine::Folder;
use ashlar_metrics::{Group, Page};
use ashlar_node::Node;
use ashlar_pacer::Foreground;
use ashlar_s3::{Arrival, Body, Service, WorkPermits};
use futures::FutureExt as _;
use http::header::{self, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use http_body::Body as _;
use hyper::body::Incoming;

use super::connection;
use ashlar_server_options::tls::Certificates;

/// The response of `work`, or an internal error that closes the connection if `work` panics. The cause is
/// logged and not sent to the client.
async fn catch_panic(
    work: impl Future<Output = Response<Body>>,
    peer: std::net::SocketAddr,
) -> Response<Body> {
    if let Ok(response) = AssertUnwindSafe(work).catch_unwind().await {
        return response;
    }
    tracing::error!(%peer, "a request failed with an internal error");
    let text = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error><Code>InternalError</Code><Message>We encountered an internal error. Please try again.</Message></Error>";
    let mut response = plain(StatusCode::INTERNAL_SERVER_ERROR, text);
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/xml"));
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}

/// Forbids browsers to guess another content type.
fn not_sniffed(mut response: Response<Body>) -> Response<Body> {
    response
        .headers_mut()
        .entry(header::X_CONTENT_TYPE_OPTIONS)
        .or_insert(HeaderValue::from_static("nosniff"));
    response
}

/// The handlers of all requests.
pub struct Routes {
    service: Arc<Service>,
    node: Arc<Node>,
    foreground: Arc<Foreground>,
    admin: Arc<Admin>,
    minio: Minio,
    console: Option<Console>,
    console_at: ConsoleAt,
    public_metrics: bool,
    connections: Arc<ConnectionCounts>,
    heads: Arc<WorkPermits>,
    certificates: Option<Arc<Certificates>>,
    /// The label `server` of metrics.
    name: String,
    /// Whether the default encryption key works, and when that was last asked.
    keys: parking_lot::Mutex<Option<(Instant, Option<bool>)>>,
    began: Instant,
}

/// Where the web console is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConsoleAt {
    /// Nowhere.
    Nowhere,
    /// At `/console/` of the S3 port.
    S3Port,
    /// At a port of its own; the other port is that of S3.
    Own {
        /// The console's port.
        port: u16,
        /// S3's port.
        s3: u16,
    },
}

/// Path prefixes of the server's own requests.
const OURS: [&str; 2] = ["/ashlar/", "/minio/"];

impl Routes {
    /// Assembles the handlers.
    pub fn new(
        service: Arc<Service>,
        node: Arc<Node>,
        public_metrics: bool,
        admin: Admin,
        certificates: Option<Arc<Certificates>>,
        name: String,
        console_at: ConsoleAt,
    ) -> Routes {
        let admin = Arc::new(admin);
        admin.begin();
        let minio = Minio::new(admin.clone());
        let console = |s3_port| Console::new(service.clone(), admin.clone(), s3_port);
        let console = match console_at {
            ConsoleAt::Nowhere => None,
            ConsoleAt::S3Port => Some(console(None)),
            ConsoleAt::Own { s3, .. } => Some(console(Some(s3))),
        };
        let (connections, heads) = (Arc::default(), connection::heads());
        let (foreground, keys) = (node.sets.foreground(), parking_lot::Mutex::default());
        Routes {
            foreground,
            service,
            node,
            admin,
            minio,
            console,
            console_at,
            public_metrics,
            connections,
            heads,
            certificates,
            name,
            keys,
            began: Instant::now(),
        }
    }

    /// Counters of connections.
    pub fn connections(&self) -> &Arc<ConnectionCounts> {
        &self.connections
    }

    /// Permits for reading long request heads.
    pub fn heads(&self) -> &Arc<WorkPermits> {
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

    /// Answers a request on the separate administration port.
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
        not_sniffed(catch_panic(answer, peer.address).await)
    }

    /// Answers a request on the separate port of the web console.
    pub async fn console(&self, request: Request<Incoming>, peer: &Peer) -> Response<Body> {
        let Some(console) = &self.console else { return plain(StatusCode::NOT_FOUND, "") };
        not_sniffed(catch_panic(console.answer(request, peer), peer.address).await)
    }

    /// Answers a request of the web console on the S3 port; returns other requests unchanged.
    async fn try_console(
        &self,
        request: Request<Incoming>,
        peer: &Peer,
    ) -> Result<Response<Body>, Request<Incoming>> {
        let Some(console) = &self.console else { return Err(request) };
        let headers = request.headers();
        if self.service.is_virtual_host(headers) || self.service.website_of(headers).is_some() {
            return Err(request);
        }
        let front = wants_console(&request);
        match self.console_at {
            ConsoleAt::S3Port if front || is_console(&request) => Ok(console.answer(request, peer).await),
            ConsoleAt::Own { port, .. } if front => {
                peer.watch.arm();
                let host = headers.get(header::HOST).and_then(|h| h.to_str().ok()).unwrap_or_default();
                Ok(redirect_to_port(host, port, peer.tls))
            }
            _ => Err(request),
        }
    }

    /// Answers a request.
    pub async fn answer(&self, request: Request<Incoming>, peer: &Peer) -> Response<Body> {
        // If the body is not read, "100 Continue" is not sent. botocore would then take the next response on
        // this connection for the interim one and wait without end: closing the connection avoids that.
        let hurried = request.headers().contains_key(header::EXPECT) && request.body().is_end_stream();
        let mut response = catch_panic(self.route(request, peer), peer.address).await;
        if hurried {
            response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        not_sniffed(response)
    }

    async fn route(&self, request: Request<Incoming>, peer: &Peer) -> Response<Body> {
        if self.is_own(&request) {
            return Box::pin(self.own(request, peer)).await;
        }
        let request = match self.try_console(request, peer).await {
            Ok(response) => return response,
            Err(request) => request,
        };
        // A stored page must not act on the console, which has the same origin: websites and buckets in the
        // host's name have others.
        let shared = self.console_at == ConsoleAt::S3Port
            && request.method() == Method::GET
            && !self.service.is_virtual_host(request.headers())
            && self.service.website_of(request.headers()).is_none();
        let browser = shared.then(|| request.headers().clone());
        let began = Instant::now();
        let running = self.foreground.enter();
        let arrival = Arrival {
            peer: peer.address,
            tls: peer.tls,
            certificates: &peer.certificates,
            watch: Some(&peer.watch),
        };
        let mut response = self.service.handle(request, arrival).await;
        if let Some(headers) = browser {
            contain(&headers, response.headers_mut());
        }
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
                self.cluster(true, maintenance).await
            }
            "/minio/health/cluster/read" | "/ashlar/health/cluster/read" if read => {
                self.cluster(false, false).await
            }
            path if read
                && (path == "/ashlar/metrics" || path.starts_with("/minio/v2/metrics/") || is_v3(path)) =>
            {
                self.metrics(request.uri().path(), request.headers()).await
            }
            path if path.starts_with("/ashlar/api/v1/") || path.starts_with("/ashlar/admin/v1/") => {
                return mark_permitted(self.admin.answer(request, peer).await, peer);
            }
            path if path.starts_with("/minio/admin/") || path.starts_with("/minio/kms/") => {
                return mark_permitted(self.minio.answer(request, peer).await, peer);
            }
            path if path.starts_with("/minio/") => {
                let id = self.service.request_id();
                ashlar_admin::not_implemented(path, &id)
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

    /// Whether requests can be served: see [`is_ready`].
    fn ready(&self) -> Response<Body> {
        let ready = is_ready(&self.node.sets.health(), self.began.elapsed());
        plain(if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }, "")
    }

    /// Whether every placement group can serve writes (or reads). `maintenance`: also without this node; 412 says why
    /// not, as in MinIO. A machine that is alone is always needed.
    async fn cluster(&self, write: bool, maintenance: bool) -> Response<Body> {
        let health = self.node.sets.health();
        let good = health.iter().all(|g| if write { g.writable } else { g.readable });
        let (status, why) = match (good, maintenance) {
            (true, false) => (StatusCode::OK, String::new()),
            (true, true) => self.maintenance().await,
            (false, _) => (StatusCode::SERVICE_UNAVAILABLE, String::new()),
        };
        let mut response = plain(status, why);
        let quorum = health.iter().map(|g| g.slots / 2 + 1).max().unwrap_or(0);
        response.headers_mut().insert("x-minio-write-quorum", HeaderValue::from(u16::from(quorum)));
        response
    }

    /// Whether this node can be stopped. A machine that is alone needs no words for it.
    async fn maintenance(&self) -> (StatusCode, String) {
        if self.node.member.is_none() {
            return (StatusCode::PRECONDITION_FAILED, String::new());
        }
        let answer = self.admin.this_may_stop().await;
        let why: String = answer.reasons.iter().map(|why| format!("{why}\n")).collect();
        let status = if answer.may_stop { StatusCode::OK } else { StatusCode::PRECONDITION_FAILED };
        (status, why)
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

    /// All current metrics.
    async fn page(&self) -> Page {
        let mut page = Page::new(&self.name);
        let slow_values = self.read_slow_values().await;
        metrics::render(&self.node, &slow_values, &mut page);
        let other = Refusals {
            heads: self.heads.counts(),
            unsigned: self.service.unsigned_counts(),
            sealed: self.minio.refused(),
            listeners: self.service.context().notifications.refused(),
        };
        metrics::fairness(&self.node, &self.connections, &other, &mut page);
        let counted = self.service.metrics();
        counted.keep_buckets(|name| self.node.store.bucket(name).is_ok());
        counted.render(&mut page);
        self.service.audit().render(&mut page);
        self.service.access_logs().render(&mut page);
        if let Some(target_manager) = self.service.context().notifications.target_manager() {
            ashlar_admin::events::render(target_manager, &mut page);
        }
        page
    }

    /// Values that may take a while; those that exceed the time limit are left out.
    async fn read_slow_values(&self) -> SlowValues {
        let paths: Vec<_> = self.node.folders.lock().iter().map(|s| s.path.clone()).collect();
        let spaces = paths.into_iter().map(|path| async move {
            let space =
                ashlar_environment::spawn_blocking("routes", move || Folder::real(&path, None).space().ok());
            time::timeout(TIMEOUT, space).await.ok()?.ok()?
        });
        let spaces = futures::future::join_all(spaces).await;
        let known = *self.keys.lock();
        let works = match known {
            Some((at, works)) if at.elapsed() < KEYS => works,
            _ => {
                let works = time::timeout(TIMEOUT, self.admin.keys_work()).await.unwrap_or(Some(false));
                *self.keys.lock() = Some((Instant::now(), works));
                works
            }
        };
        let capacity = time::timeout(OTHERS, self.admin.refresh_usage()).await.ok();
        SlowValues {
            capacity,
            spaces,
            keys: works.zip(self.admin.key_uses()),
            certificate: self.certificates.as_ref().and_then(|c| c.expires()),
        }
    }
}

/// Time limit for a drive or key server while metrics are collected.
const TIMEOUT: Duration = Duration::from_secs(1);
/// Time limit for the other nodes of a cluster while metrics are collected.
const OTHERS: Duration = Duration::from_secs(3);
/// Time between checks whether the key server works.
const KEYS: Duration = Duration::from_secs(30);
/// Prefix of version 3 of MinIO's metrics.
const V3: &str = "/minio/metrics/v3";

fn is_v3(path: &str) -> bool {
    path.strip_prefix(V3).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Metrics of version 3 below a path; `bucket/api/NAME` selects one bucket.
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

/// Sends a browser to the console's own port of the host that it asked.
fn redirect_to_port(host: &str, port: u16, tls: bool) -> Response<Body> {
    let name = match host.rsplit_once(':') {
        Some((name, digits)) if digits.bytes().all(|b| b.is_ascii_digit()) => name,
        _ => host,
    };
    let scheme = if tls { "https" } else { "http" };
    let mut response = plain(StatusCode::FOUND, "");
    if let Ok(to) = HeaderValue::from_str(&format!("{scheme}://{name}:{port}/console/")) {
        response.headers_mut().insert(header::LOCATION, to);
    }
    response
}

/// Notes on the connection that a request was permitted.
fn mark_permitted(response: Response<Body>, peer: &Peer) -> Response<Body> {
    if response.status().is_success() {
        peer.watch.know();
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn browsers_are_sent_to_the_port_of_the_console() {
        for (host, tls, to) in [
            ("s3.example.com:9000", false, "http://s3.example.com:9001/console/"),
            ("s3.example.com", true, "https://s3.example.com:9001/console/"),
            ("[::1]:9000", false, "http://[::1]:9001/console/"),
            ("[::1]", false, "http://[::1]:9001/console/"),
        ] {
            let response = redirect_to_port(host, 9001, tls);
            assert_eq!(
                (response.status(), &response.headers()[header::LOCATION]),
                (StatusCode::FOUND, &HeaderValue::from_static(to))
            );
        }
    }

    #[tokio::test]
    async fn panic_fails_only_its_request_without_details() {
        let peer = "127.0.0.1:9".parse().unwrap();
        let broken = async { panic!("planted words") };
        let response = catch_panic(broken, peer).await;
        assert_eq!(response.status(), StatusCode::INTERNAL_SERVER_ERROR);
        assert_eq!(response.headers()[header::CONNECTION], "close");
        let text = String::from_utf8(response.into_body().collect().await.unwrap().to_vec()).unwrap();
        assert!(text.contains("<Code>InternalError</Code>") && !text.contains("planted"), "{text}");
        let fine = catch_panic(async { plain(StatusCode::OK, "fine") }, peer).await;
        assert_eq!(fine.status(), StatusCode::OK);
    }
}
