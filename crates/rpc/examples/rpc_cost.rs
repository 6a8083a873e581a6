//! What messages between two nodes cost: processor time of both ends together, which run in this process; and
//! beside it what the same bytes cost over bare TCP, and in AES, on the same machine.
//!
//! `cargo run --release -p ashlar-rpc --example rpc_cost [-- SECONDS [ROW]]` prints a table; with ROW only the rows
//! whose name contains it. Results are in docs/benchmarks/messages.md.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "a measurement runs in real time")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use ashlar_environment::time::Instant as Deadline;
use ashlar_format::DeploymentId;
use ashlar_machine::BufferPool;
use ashlar_rpc::{
    Authority, Caller, Credentials, Endpoint, Identity, Incoming, Limits, NodeKey, Peer, Refusal, Reply,
    Request, Service, Transport, Trust,
};
use bytes::Bytes;
use futures::FutureExt as _;
use futures::future::BoxFuture;

#[path = "../../object/examples/common/cpu.rs"]
mod cpu;

const CLUSTER: DeploymentId = DeploymentId([1; 16]);
const MIB: usize = 1 << 20;

/// Takes payloads, and answers with as many bytes as are asked for.
struct Store(Bytes);

impl Service for Store {
    fn call(&self, _: &Caller, request: Incoming) -> BoxFuture<'static, Result<Reply, Refusal>> {
        let bulk = match request.answer_limit {
            0 => Vec::new(),
            limit => vec![self.0.slice(..limit)],
        };
        drop(request.bulk);
        std::future::ready(Ok(Reply { head: request.head, bulk })).boxed()
    }
}

fn transport(node: u16, authority: Option<&Authority>) -> Arc<Transport> {
    let (requests, answers) = (BufferPool::new(512 << 20), BufferPool::new(512 << 20));
    let limits = Limits::default();
    let Some(authority) = authority else {
        return Transport::insecure_without_tls(CLUSTER, node, limits, requests, answers).expect("transport");
    };
    let key = NodeKey::generate().expect("key");
    let day = Duration::from_secs(86_400);
    let certificate = authority.sign(&key.request().expect("request"), node, day).expect("certificate");
    let identity = Identity::new(CLUSTER, &certificate, &key).expect("identity");
    let trust = Trust::new(CLUSTER, [authority.certificate()]).expect("trust");
    let credentials = Credentials::new(identity, trust).expect("credentials");
    Transport::new(credentials, limits, 1..=1, requests, answers).expect("transport")
}

struct Row {
    name: String,
    secure: bool,
    in_flight: usize,
    sent: usize,
    expected: usize,
}

/// What the streams of tokio-rustls cost: two tasks that write and read 1 MiB at a time, without frames.
async fn tls_floor(time: Duration) {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let made = rcgen::generate_simple_self_signed(vec!["node.invalid".to_owned()]).expect("certificate");
    let certificate = made.cert.der().clone();
    let key = rustls_pki_types::PrivateKeyDer::try_from(made.signing_key.serialize_der()).expect("key");
    let mut provider = rustls::crypto::aws_lc_rs::default_provider();
    provider.cipher_suites = vec![rustls::crypto::aws_lc_rs::cipher_suite::TLS13_AES_128_GCM_SHA256];
    let provider = Arc::new(provider);
    let only = &[&rustls::version::TLS13];
    let server = rustls::ServerConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(only)
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(vec![certificate.clone()], key)
        .expect("server");
    let mut roots = rustls::RootCertStore::empty();
    roots.add(certificate).expect("root");
    let client = rustls::ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(only)
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("listener");
    let address = listener.local_addr().expect("address");
    let reading = tokio::spawn(async move {
        let (tcp, _) = listener.accept().await.expect("accept");
        let mut tls = tokio_rustls::TlsAcceptor::from(Arc::new(server)).accept(tcp).await.expect("handshake");
        let mut buf = vec![0; MIB];
        while tls.read_exact(&mut buf).await.is_ok() {}
    });
    let tcp = tokio::net::TcpStream::connect(address).await.expect("connect");
    let name = "node.invalid".try_into().expect("name");
    let mut tls =
        tokio_rustls::TlsConnector::from(Arc::new(client)).connect(name, tcp).await.expect("handshake");
    let writing = tokio::spawn(async move {
        let payload = vec![0x5a; MIB];
        let (begin, cpu, mut count) = (Instant::now(), cpu::cpu_us(), 0u64);
        while begin.elapsed() < time {
            tls.write_all(&payload).await.expect("write");
            count += 1;
        }
        (cpu::cpu_us() - cpu, begin.elapsed().as_secs_f64(), count as f64)
    });
    let (cpu, wall, count) = writing.await.expect("writer");
    reading.await.expect("reader");
    let each = cpu / count;
    println!(
        "| 1 MiB, streams of tokio-rustls | TLS | 1 | {:.0} | {each:.1} | {:.3} |",
        count / wall,
        each / 1e6 * 1024.0
    );
}

/// What of the cost of TLS is AES: records of 16 KiB that one thread seals and opens.
fn aes(time: Duration) {
    use aws_lc_rs::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
    let key = LessSafeKey::new(UnboundKey::new(&AES_128_GCM, &[7; 16]).expect("key"));
    let (begin, cpu, mut count) = (Instant::now(), cpu::cpu_us(), 0u64);
    let mut record = vec![0x5a; 16 << 10];
    while begin.elapsed() < time {
        for number in 0..64u64 {
            let mut nonce = [0; 12];
            nonce[..8].copy_from_slice(&(count + number).to_le_bytes());
            let nonce = || Nonce::assume_unique_for_key(nonce);
            key.seal_in_place_append_tag(nonce(), Aad::empty(), &mut record).expect("seal");
            key.open_in_place(nonce(), Aad::empty(), &mut record).expect("open");
            record.truncate(16 << 10);
        }
        count += 64;
    }
    let (cpu, wall) = (cpu::cpu_us() - cpu, begin.elapsed().as_secs_f64());
    let (calls, each) = (count as f64 / 64.0 / wall, cpu / count as f64 * 64.0);
    println!(
        "| 1 MiB, AES-128-GCM alone, both ways | | 1 | {calls:.0} | {each:.1} | {:.3} |",
        each / 1e6 * 1024.0
    );
}

impl Row {
    fn title(&self) -> String {
        format!("{} {}", self.name, if self.secure { "TLS" } else { "plain" })
    }
}

async fn measure(row: &Row, time: Duration) {
    let authority = Authority::create(CLUSTER, Duration::from_secs(86_400)).expect("authority");
    let authority = row.secure.then_some(&authority);
    let payload = Bytes::from(vec![0x5a; MIB]);
    let service = Arc::new(Store(payload.clone()));
    let endpoint = Endpoint::bind(transport(2, authority), "127.0.0.1:0", service).await.expect("endpoint");
    let peer = Arc::new(Peer::new(transport(1, authority), 2, endpoint.address().to_string()));
    let run = |time: Duration| {
        let tasks = (0..row.in_flight).map(|_| {
            let (peer, payload) = (peer.clone(), payload.slice(..row.sent));
            let expected = row.expected;
            tokio::spawn(async move {
                let (begin, mut count) = (Instant::now(), 0u64);
                while begin.elapsed() < time {
                    let bulk = if payload.is_empty() { Vec::new() } else { vec![payload.clone()] };
                    let head = Bytes::from_static(&[7; 64]);
                    let request = Request { method: 1, epoch: 1, head, bulk, answer_limit: expected };
                    let deadline = Deadline::now() + Duration::from_secs(60);
                    peer.call(request, deadline).await.expect("call");
                    count += 1;
                }
                count
            })
        });
        futures::future::join_all(tasks.collect::<Vec<_>>())
    };
    run(time / 4).await;
    let (begin, cpu) = (Instant::now(), cpu::cpu_us());
    let calls: u64 = run(time).await.into_iter().map(|count| count.expect("task")).sum();
    let (cpu, wall) = (cpu::cpu_us() - cpu, begin.elapsed().as_secs_f64());
    let calls = calls as f64;
    let bytes = calls * (row.sent + row.expected) as f64;
    let per_gib = if bytes > 0.0 { cpu / 1e6 / bytes * (1u64 << 30) as f64 } else { 0.0 };
    println!(
        "| {} | {} | {} | {:.0} | {:.1} | {} |",
        row.name,
        if row.secure { "TLS" } else { "plain" },
        row.in_flight,
        calls / wall,
        cpu / calls,
        if bytes > 0.0 { format!("{per_gib:.3}") } else { "-".to_owned() },
    );
}

/// The floor: two threads that write and read 1 MiB at a time, without frames, without TLS.
fn floor(time: Duration) {
    use std::io::{Read as _, Write as _};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("listener");
    let mut out = std::net::TcpStream::connect(listener.local_addr().expect("address")).expect("connect");
    let (mut into, _) = listener.accept().expect("accept");
    let reading = std::thread::spawn(move || {
        let mut buf = vec![0; MIB];
        while into.read_exact(&mut buf).is_ok() {}
    });
    let payload = vec![0x5a; MIB];
    let (begin, cpu, mut count) = (Instant::now(), cpu::cpu_us(), 0u64);
    while begin.elapsed() < time {
        out.write_all(&payload).expect("write");
        count += 1;
    }
    // Before the thread ends, and its time with it.
    let (cpu, wall) = (cpu::cpu_us() - cpu, begin.elapsed().as_secs_f64());
    drop(out);
    reading.join().expect("reader");
    let (calls, each) = (count as f64 / wall, cpu / count as f64);
    println!(
        "| 1 MiB, bare TCP, two threads | plain | 1 | {calls:.0} | {each:.1} | {:.3} |",
        each / 1e6 * 1024.0
    );
}

fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    for (name, in_flight, sent, expected) in [
        ("1 MiB to the server", 8, MIB, 0),
        ("1 MiB from the server", 8, 0, MIB),
        ("64 KiB to the server", 16, 64 << 10, 0),
        ("4 KiB to the server", 64, 4096, 0),
        ("64 B, many at once", 256, 0, 0),
        ("64 B, some at once", 32, 0, 0),
        ("64 B, one at a time", 1, 0, 0),
    ] {
        for secure in [false, true] {
            rows.push(Row { name: name.to_owned(), secure, in_flight, sent, expected });
        }
    }
    rows
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let seconds: f64 = arguments.next().map_or(2.0, |s| s.parse().expect("SECONDS"));
    let only = arguments.next().unwrap_or_default();
    println!("| Message | | in flight | calls/s | us of CPU per call, both ends | s of CPU per GiB |");
    println!("|---|---|---|---|---|---|");
    if "bare TCP".contains(&only) {
        floor(Duration::from_secs_f64(seconds));
    }
    if "AES".contains(&only) {
        aes(Duration::from_secs_f64(seconds));
    }
    if "streams of tokio-rustls".contains(&only) {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("runtime");
        runtime.block_on(tls_floor(Duration::from_secs_f64(seconds)));
    }
    for row in rows().iter().filter(|row| row.title().contains(&only)) {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("runtime");
        runtime.block_on(measure(row, Duration::from_secs_f64(seconds)));
    }
}
