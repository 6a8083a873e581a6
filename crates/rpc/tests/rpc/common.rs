//! A cluster for tests: an authority, nodes with certificates, and a service with a few methods.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ashlar_environment::time::Instant;
use ashlar_format::DeploymentId;
use ashlar_machine::BufferPool;
use ashlar_rpc::{
    Authority, Caller, Credentials, Endpoint, Identity, Incoming, Limits, NodeKey, Peer, Refusal, Reply,
    Request, Service, Transport, Trust,
};
use bytes::Bytes;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use tokio::sync::{Notify, Semaphore};

pub const CLUSTER: DeploymentId = DeploymentId([7; 16]);
pub const DAY: Duration = Duration::from_secs(86_400);
pub const LONG: Duration = Duration::from_secs(60);

/// Returns head and payload.
pub const ECHO: u16 = 1;
/// Waits until the gate is open.
pub const WAIT: u16 = 2;
/// Answers with as many bytes as the head says (u32, little-endian).
pub const GIVE: u16 = 3;
/// Refuses with code 42.
pub const REFUSE: u16 = 4;
/// Panics at once, or after a pause.
pub const PANIC: u16 = 5;
pub const PANIC_LATER: u16 = 6;
/// Never answers.
pub const NEVER: u16 = 7;
/// Answers with the caller's number and the milliseconds that are left.
pub const WHO: u16 = 8;
/// Keeps the payload until the gate is open.
pub const KEEP: u16 = 9;

/// The service of tests, and what it saw.
pub struct Seen {
    pub begun: AtomicUsize,
    pub running: AtomicUsize,
    pub dropped: AtomicUsize,
    pub gate: Semaphore,
    pub changed: Notify,
    pub order: Mutex<Vec<u16>>,
    pub ended: Mutex<Vec<(Caller, usize)>>,
    pub callers: Mutex<HashMap<u64, Caller>>,
    pub held: AtomicUsize,
    pub most_held: AtomicUsize,
}

impl Default for Seen {
    fn default() -> Seen {
        Seen {
            begun: AtomicUsize::new(0),
            running: AtomicUsize::new(0),
            dropped: AtomicUsize::new(0),
            gate: Semaphore::new(0),
            changed: Notify::new(),
            order: Mutex::default(),
            ended: Mutex::default(),
            callers: Mutex::default(),
            held: AtomicUsize::new(0),
            most_held: AtomicUsize::new(0),
        }
    }
}

/// Counts a call that was dropped before its end.
struct Dropped(Arc<Seen>, bool);

impl Dropped {
    fn complete(&mut self) {
        self.1 = true;
    }
}

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::SeqCst);
        if !self.1 {
            self.0.dropped.fetch_add(1, Ordering::SeqCst);
        }
        self.0.changed.notify_waiters();
    }
}

pub struct Methods(pub Arc<Seen>);

impl Service for Methods {
    fn call(&self, caller: &Caller, request: Incoming) -> BoxFuture<'static, Result<Reply, Refusal>> {
        let (seen, caller) = (self.0.clone(), *caller);
        seen.begun.fetch_add(1, Ordering::SeqCst);
        seen.running.fetch_add(1, Ordering::SeqCst);
        seen.order.lock().unwrap().push(request.method);
        seen.callers.lock().unwrap().insert(caller.connection, caller);
        seen.changed.notify_waiters();
        let mut over = Dropped(seen.clone(), false);
        async move {
            let outcome = answer(&seen, caller, request).await;
            over.complete();
            outcome
        }
        .boxed()
    }

    fn disconnected(&self, caller: &Caller, remaining: usize) {
        self.0.ended.lock().unwrap().push((*caller, remaining));
        self.0.changed.notify_waiters();
    }
}

async fn answer(seen: &Seen, caller: Caller, request: Incoming) -> Result<Reply, Refusal> {
    match request.method {
        ECHO => Ok(Reply { head: request.head, bulk: vec![request.bulk] }),
        WAIT => {
            seen.gate.acquire().await.unwrap().forget();
            Ok(Reply { head: request.head, bulk: vec![request.bulk] })
        }
        KEEP => {
            let now = seen.held.fetch_add(request.bulk.len(), Ordering::SeqCst) + request.bulk.len();
            seen.most_held.fetch_max(now, Ordering::SeqCst);
            seen.changed.notify_waiters();
            seen.gate.acquire().await.unwrap().forget();
            seen.held.fetch_sub(request.bulk.len(), Ordering::SeqCst);
            drop(request.bulk);
            Ok(Reply::default())
        }
        GIVE => {
            let len = u32::from_le_bytes(request.head[..4].try_into().unwrap()) as usize;
            let half = Bytes::from(vec![9; len / 2]);
            Ok(Reply { head: Bytes::new(), bulk: vec![half, Bytes::from(vec![8; len - len / 2])] })
        }
        REFUSE => Err(Refusal::new(42, "not today")),
        PANIC => panic!("a test's panic"),
        PANIC_LATER => {
            tokio::task::yield_now().await;
            panic!("a test's panic");
        }
        WHO => {
            let left = request.deadline.duration_since(Instant::now()).as_millis();
            let text = format!("{} {} {} {left}", caller.node, request.epoch, caller.feature_level);
            Ok(Reply { head: text.into(), bulk: Vec::new() })
        }
        _ => std::future::pending().await,
    }
}

pub fn limits() -> Limits {
    Limits {
        // Not what is tested: on a busy machine a handshake waits for megabytes of others.
        handshake: LONG,
        bulk_connections: 2,
        retry: (Duration::from_millis(5), Duration::from_millis(40)),
        ..Limits::default()
    }
}

pub fn authority() -> Authority {
    Authority::create(CLUSTER, 10 * DAY).unwrap()
}

pub fn trust(authorities: &[&Authority]) -> Trust {
    Trust::new(CLUSTER, authorities.iter().map(|a| a.certificate())).unwrap()
}

pub fn identity(authority: &Authority, node: u16) -> Identity {
    let key = NodeKey::generate().unwrap();
    let certificate = authority.sign(&key.request().unwrap(), node, DAY).unwrap();
    Identity::new(CLUSTER, &certificate, &key).unwrap()
}

pub fn credentials(authority: &Authority, node: u16) -> Arc<Credentials> {
    Credentials::new(identity(authority, node), trust(&[authority])).unwrap()
}

pub fn with(credentials: Arc<Credentials>, limits: Limits) -> Arc<Transport> {
    let pools = (BufferPool::new(256 << 20), BufferPool::new(256 << 20));
    Transport::new(credentials, limits, 2..=3, pools.0, pools.1).unwrap()
}

pub fn transport(authority: &Authority, node: u16) -> Arc<Transport> {
    with(credentials(authority, node), limits())
}

pub async fn serve(transport: Arc<Transport>) -> (Endpoint, Arc<Seen>) {
    let seen = Arc::new(Seen::default());
    let endpoint = Endpoint::bind(transport, "127.0.0.1:0", Arc::new(Methods(seen.clone()))).await.unwrap();
    (endpoint, seen)
}

/// Node 1 calls node 2.
pub struct Pair {
    pub authority: Authority,
    pub endpoint: Endpoint,
    pub seen: Arc<Seen>,
    pub peer: Arc<Peer>,
}

pub async fn pair() -> Pair {
    pair_with(limits(), limits()).await
}

pub async fn pair_with(client: Limits, server: Limits) -> Pair {
    let authority = authority();
    let (endpoint, seen) = serve(with(credentials(&authority, 2), server)).await;
    let peer = Peer::new(with(credentials(&authority, 1), client), 2, endpoint.address().to_string());
    Pair { authority, endpoint, seen, peer: Arc::new(peer) }
}

pub fn soon() -> Instant {
    Instant::now() + LONG
}

pub fn request(method: u16, head: &'static [u8]) -> Request {
    Request { method, head: Bytes::from_static(head), ..Request::default() }
}

pub fn bulk(method: u16, len: usize) -> Request {
    let payload = Bytes::from((0..len).map(|i| (i % 251) as u8).collect::<Vec<_>>());
    let middle = len / 3;
    let pieces = vec![payload.slice(..middle), payload.slice(middle..)];
    Request { method, bulk: pieces, answer_limit: len, ..Request::default() }
}

pub fn give(len: usize, limit: usize) -> Request {
    let head = Bytes::from((len as u32).to_le_bytes().to_vec());
    Request { method: GIVE, head, answer_limit: limit, ..Request::default() }
}

/// Waits until something holds, whatever the machine does meanwhile.
pub async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begin = std::time::Instant::now();
    while !holds() {
        assert!(begin.elapsed() < LONG, "waited in vain: {what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// A client that speaks TLS as rustls does, and messages as a test wants.
pub struct Raw {
    pub tls: tokio_rustls::client::TlsStream<tokio::net::TcpStream>,
}

/// How a raw client introduces itself.
pub struct Introduction {
    pub certificate: Option<(Vec<u8>, NodeKey)>,
    pub version: &'static rustls::SupportedProtocolVersion,
    pub protocol: &'static [u8],
}

impl Introduction {
    pub fn of(authority: &Authority, node: u16) -> Introduction {
        let key = NodeKey::generate().unwrap();
        let certificate = authority.sign(&key.request().unwrap(), node, DAY).unwrap();
        Introduction {
            certificate: Some((certificate, key)),
            version: &rustls::version::TLS13,
            protocol: b"ashlar-node",
        }
    }
}

/// Trusts any server, as only a test does.
#[derive(Debug)]
struct Anyone(Arc<rustls::crypto::CryptoProvider>);

impl rustls::client::danger::ServerCertVerifier for Anyone {
    fn verify_server_cert(
        &self,
        _: &rustls_pki_types::CertificateDer<'_>,
        _: &[rustls_pki_types::CertificateDer<'_>],
        _: &rustls_pki_types::ServerName<'_>,
        _: &[u8],
        _: rustls_pki_types::UnixTime,
    ) -> Result<rustls::client::danger::ServerCertVerified, rustls::Error> {
        Ok(rustls::client::danger::ServerCertVerified::assertion())
    }
    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &rustls_pki_types::CertificateDer<'_>,
        _: &rustls::DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
        Ok(rustls::client::danger::HandshakeSignatureValid::assertion())
    }
    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &rustls_pki_types::CertificateDer<'_>,
        _: &rustls::DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
        Ok(rustls::client::danger::HandshakeSignatureValid::assertion())
    }
    fn supported_verify_schemes(&self) -> Vec<rustls::SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

impl Raw {
    /// Dials; an error is that of TLS.
    pub async fn dial(to: std::net::SocketAddr, with: Introduction) -> std::io::Result<Raw> {
        use rustls_pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = rustls::ClientConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(&[with.version])
            .unwrap()
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Anyone(provider)));
        let mut config = match with.certificate {
            Some((certificate, key)) => {
                let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.to_pkcs8().to_vec()));
                builder.with_client_auth_cert(vec![CertificateDer::from(certificate)], key).unwrap()
            }
            None => builder.with_no_client_auth(),
        };
        config.alpn_protocols = vec![with.protocol.to_vec()];
        let tcp = tokio::net::TcpStream::connect(to).await?;
        let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
        let tls = connector.connect(ServerName::try_from("any.invalid").unwrap(), tcp).await?;
        Ok(Raw { tls })
    }

    pub async fn send(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        use tokio::io::AsyncWriteExt as _;
        self.tls.write_all(bytes).await?;
        self.tls.flush().await
    }

    /// Says hello, and returns the server's, or what there was instead until it closed.
    pub async fn greet(&mut self, said: &ashlar_rpc::hello::Hello) -> Vec<u8> {
        let said = message(ashlar_rpc::frame::Header::new(ashlar_rpc::frame::Kind::Hello, 0), &said.encode());
        // The server may close before everything is written.
        let _ = self.send(&said).await;
        // The server's has the same length.
        self.some(said.len()).await
    }

    /// Everything until the other end closes.
    pub async fn rest(&mut self) -> Vec<u8> {
        self.some(usize::MAX).await
    }

    /// So many bytes, or fewer if the other end closes.
    pub async fn some(&mut self, count: usize) -> Vec<u8> {
        use tokio::io::AsyncReadExt as _;
        let (mut bytes, mut buf) = (Vec::new(), vec![0; 4096]);
        while bytes.len() < count {
            let room = (count - bytes.len()).min(buf.len());
            let read = tokio::time::timeout(LONG, self.tls.read(&mut buf[..room]));
            // A connection that is reset has ended too.
            let Ok(len @ 1..) = read.await.expect("the connection is closed") else { break };
            bytes.extend_from_slice(&buf[..len]);
        }
        bytes
    }
}

/// Bytes of a message.
pub fn message(header: ashlar_rpc::frame::Header, head: &[u8]) -> Vec<u8> {
    let mut out = bytes::BytesMut::new();
    header.encode(head, &mut out);
    out.to_vec()
}

/// The hello of a node.
pub fn hello(from: u16, to: u16) -> ashlar_rpc::hello::Hello {
    ashlar_rpc::hello::Hello {
        cluster: CLUSTER,
        from,
        to,
        incarnation: 5,
        min_version: 1,
        max_version: 1,
        purpose: ashlar_rpc::hello::Purpose::Bulk,
        feature_level: 3,
        window: 0,
        requests: 0,
        oldest_level: 1,
    }
}

/// Between two nodes: forwards, records, and stops.
pub struct Proxy {
    pub address: std::net::SocketAddr,
    /// What clients sent, one entry per connection.
    pub recorded: Arc<Mutex<Vec<Vec<u8>>>>,
    pub frozen: Arc<std::sync::atomic::AtomicBool>,
    tasks: Arc<Mutex<Vec<tokio::task::JoinHandle<()>>>>,
}

impl Proxy {
    pub async fn new(to: std::net::SocketAddr) -> Proxy {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let recorded = Arc::new(Mutex::new(Vec::<Vec<u8>>::new()));
        let frozen = Arc::new(std::sync::atomic::AtomicBool::new(false));
        let tasks = Arc::new(Mutex::new(Vec::new()));
        let (record, freeze, running) = (recorded.clone(), frozen.clone(), tasks.clone());
        let accepting = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let Ok(server) = tokio::net::TcpStream::connect(to).await else { continue };
                let number = {
                    let mut record = record.lock().unwrap();
                    record.push(Vec::new());
                    record.len() - 1
                };
                let ((from_client, to_client), (from_server, to_server)) =
                    (client.into_split(), server.into_split());
                let there = forward(from_client, to_server, freeze.clone(), Some((record.clone(), number)));
                let back = forward(from_server, to_client, freeze.clone(), None);
                running.lock().unwrap().extend([tokio::spawn(there), tokio::spawn(back)]);
            }
        });
        tasks.lock().unwrap().push(accepting);
        Proxy { address, recorded, frozen, tasks }
    }

    /// Ends all connections.
    pub fn cut(&self) {
        for task in self.tasks.lock().unwrap().drain(1..) {
            task.abort();
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        for task in self.tasks.lock().unwrap().drain(..) {
            task.abort();
        }
    }
}

type Record = Option<(Arc<Mutex<Vec<Vec<u8>>>>, usize)>;

async fn forward(
    mut from: tokio::net::tcp::OwnedReadHalf,
    mut to: tokio::net::tcp::OwnedWriteHalf,
    frozen: Arc<std::sync::atomic::AtomicBool>,
    record: Record,
) {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let mut buf = vec![0; 64 << 10];
    while let Ok(len @ 1..) = from.read(&mut buf).await {
        while frozen.load(Ordering::SeqCst) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        if let Some((record, number)) = &record {
            record.lock().unwrap()[*number].extend_from_slice(&buf[..len]);
        }
        if to.write_all(&buf[..len]).await.is_err() {
            return;
        }
    }
}
