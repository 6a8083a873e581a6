//! A server on a real socket over a store in memory, and a client that is independent of the crate under
//! test: it builds requests byte by byte and signs them as AWS documents it.
#![allow(dead_code, unused_imports)]

mod answer;
mod keys;
mod request;
mod users;

pub use answer::{Resp, raw, read_response};
pub use keys::{encrypting, keys};
pub use request::{Mode, Req, encode, hmac1, hmac256, http_date, sha256_hex, stamp, unix};
pub use users::{USERS_SECRET, World, allow, users};

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as Cx, Poll};

use ashlar_object::{Options, Store};
use ashlar_s3::{
    Arrival, Config, Context, Credential, HeadScanner, Keys, Origins, Secret, Service, Verifier, Watch,
};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

pub const KEY: &str = "AKTESTTESTTESTTEST00";
pub const SECRET: &str = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";
pub const REGION: &str = "us-east-1";

/// A running server; it ends with the test process.
#[derive(Clone)]
pub struct Server {
    pub addr: SocketAddr,
    pub service: Arc<Service>,
}

fn now_ms() -> i64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis() as i64
}

impl Server {
    pub fn start() -> Server {
        Server::with(|_| {})
    }

    pub fn with(change: impl FnOnce(&mut Config) + Send + 'static) -> Server {
        Server::over(false, change)
    }

    /// `secure`: every connection is taken for one over TLS.
    pub fn over(secure: bool, change: impl FnOnce(&mut Config) + Send + 'static) -> Server {
        let (send, receive) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async move {
                let store = Store::in_memory(Options { min_part: 1024, ..Options::default() }).await.unwrap();
                let mut config = Config {
                    context: Context {
                        store,
                        encryption: ashlar_s3::sse::Encryption::default(),
                        region: REGION.into(),
                        any_region: false,
                        owner_id: "0".repeat(64),
                        owner_name: "root".into(),
                        clock: now_ms,
                        notifications: Default::default(),
                        people: None,
                        me: std::sync::Weak::new(),
                    },
                    verifier: Verifier {
                        keys: Keys::new(Credential { access_key: KEY.into(), secret: Secret::new(SECRET) }),
                        region: REGION.into(),
                        any_region: false,
                        v2: true,
                    },
                    authenticator: None,
                    domains: vec!["s3.test".into()],
                    websites: vec!["website.test".into()],
                    origins: Origins::default(),
                    audit: None,
                    host_id: "host".into(),
                };
                change(&mut config);
                let service = Arc::new(Service::new(config));
                let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
                send.send(Server { addr: listener.local_addr().unwrap(), service: service.clone() }).unwrap();
                loop {
                    let (stream, peer) = listener.accept().await.unwrap();
                    let service = service.clone();
                    tokio::spawn(async move {
                        let watch = Watch::default();
                        let io = TokioIo::new(Scanned { stream, scanner: HeadScanner::new(watch.clone()) });
                        let answer = service_fn(|request| {
                            let (service, watch) = (service.clone(), watch.clone());
                            async move {
                                let arrival =
                                    Arrival { peer, tls: secure, certificates: &[], watch: Some(&watch) };
                                Ok::<_, std::convert::Infallible>(service.handle(request, arrival).await)
                            }
                        });
                        let mut http = http1::Builder::new();
                        http.max_header_size(80 * 1024).max_headers(256).half_close(false);
                        let _ = http.serve_connection(io, answer).await;
                    });
                }
            });
        });
        receive.recv().unwrap()
    }

    /// A signed request.
    pub fn req(&self, method: &str, path: &str) -> Req {
        Req::new(self.addr, method, path)
    }

    pub fn make_bucket(&self, name: &str) {
        self.req("PUT", &format!("/{name}")).send().expect(200);
    }

    pub fn put(&self, path: &str, body: &[u8]) -> Resp {
        self.req("PUT", path).body(body).send()
    }

    pub fn get(&self, path: &str) -> Resp {
        self.req("GET", path).send()
    }
}

struct Scanned {
    stream: tokio::net::TcpStream,
    scanner: HeadScanner,
}

impl AsyncRead for Scanned {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Cx<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let before = buf.filled().len();
        let result = Pin::new(&mut self.stream).poll_read(cx, buf);
        let new = buf.filled()[before..].to_vec();
        self.scanner.feed(&new);
        result
    }
}

impl AsyncWrite for Scanned {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Cx<'_>, buf: &[u8]) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Cx<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Cx<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

pub fn md5_base64(data: &[u8]) -> String {
    STANDARD.encode(ashlar_checksum::md5_once(data))
}

pub fn md5_hex(data: &[u8]) -> String {
    hex::encode(ashlar_checksum::md5_once(data))
}

pub fn checksum(algorithm: &str, data: &[u8]) -> String {
    let algorithm = ashlar_checksum::Algorithm::parse(algorithm).unwrap();
    let mut hasher = ashlar_checksum::Hasher::new(algorithm);
    hasher.update(data);
    hasher.finish().base64()
}

/// Bytes that are not all alike.
pub fn noise(n: usize, seed: u64) -> Vec<u8> {
    let mut x = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    (0..n)
        .map(|_| {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            (x >> 24) as u8
        })
        .collect()
}

/// A server with the bucket `b-1`.
pub fn server() -> Server {
    let s = Server::start();
    s.make_bucket("b-1");
    s
}

/// As [`server`]; the bucket keeps versions.
pub fn versioned() -> Server {
    let s = server();
    s.req("PUT", "/b-1").q("versioning", "").body("<VersioningConfiguration xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Status>Enabled</Status></VersioningConfiguration>").send().expect(200);
    s
}
