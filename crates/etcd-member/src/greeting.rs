//! Tells other members what this one has, until its etcd runs: a small HTTP server at the port for members.
//!
//! Invariants: with certificates, only who has one of the same authority is answered. What a client sends is read up to
//! a bound and not interpreted. Connections are bounded, and each ends soon; all end with the server, because an etcd that is
//! founded meanwhile takes the late end of a request for the failure of its peer.
//!
//! Must not depend on: what the answer says.

use std::sync::Arc;
use std::time::Duration;

use ashlar_environment::{net, spawn, task, time};
use parking_lot::Mutex;
use rustls::RootCertStore;
use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs;
use rustls::server::WebPkiClientVerifier;
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::{Semaphore, watch};
use tokio_rustls::TlsAcceptor;

use crate::access::{GREETING, Greeting};
use crate::{Address, Certificates, Error, Result};

/// How long one connection may take.
const CONNECTION: Duration = Duration::from_secs(5);
/// Most connections at a time.
const CONNECTIONS: usize = 32;
/// Longest head of a request.
const HEAD: usize = 8 << 10;

/// Finds out whether etcd could listen for clients.
///
/// # Errors
/// `Settings`: it could not.
pub async fn check_client_port(member: &Address) -> Result<()> {
    let at = format!("{}:{}", listen_host(member), member.client);
    let bound = net::bind(&*at).await;
    bound.map(drop).map_err(|e| Error::Settings(format!("etcd cannot listen at {at}: {e}")))
}

/// A running server. It ends soon after this is dropped; [`Server::close`] waits for that.
pub struct Server {
    told: Arc<Mutex<Greeting>>,
    task: task::JoinHandle<()>,
    /// True: connections end.
    closed: watch::Sender<bool>,
    /// One of each connection.
    permits: Arc<Semaphore>,
}

impl Server {
    /// Listens at the member's port for members.
    ///
    /// # Errors
    /// `Settings`: the address cannot be used. `Certificate`.
    pub async fn start(
        member: &Address,
        certificates: Option<&Certificates>,
        greeting: Greeting,
    ) -> Result<Server> {
        let acceptor = certificates.map(acceptor).transpose()?;
        let at = format!("{}:{}", listen_host(member), member.peer);
        let listener = net::bind(&*at).await;
        let listener =
            listener.map_err(|e| Error::Settings(format!("the etcd member cannot listen at {at}: {e}")))?;
        let told = Arc::new(Mutex::new(greeting));
        let answers = told.clone();
        let (closed, closing) = watch::channel(false);
        let permits = Arc::new(Semaphore::new(CONNECTIONS));
        let free = permits.clone();
        let task = spawn("etcd-member-greeting", async move {
            loop {
                let Ok(permit) = free.clone().acquire_owned().await else { return };
                let Ok((connection, _)) = listener.accept().await else {
                    time::sleep(Duration::from_millis(100)).await;
                    continue;
                };
                let (acceptor, answers, mut closing) = (acceptor.clone(), answers.clone(), closing.clone());
                drop(spawn("etcd-member-greeting", async move {
                    let served = async {
                        match acceptor {
                            None => answer(connection, &answers).await,
                            Some(acceptor) => answer(acceptor.accept(connection).await?, &answers).await,
                        }
                    };
                    tokio::select! {
                        served = time::timeout(CONNECTION, served) => if let Ok(Err(error)) = served {
                            tracing::debug!(%error, "a connection to the etcd member that does not run yet");
                        },
                        _ = closing.wait_for(|closed| *closed) => {}
                    }
                    drop(permit);
                }));
            }
        });
        Ok(Server { told, task, closed, permits })
    }

    /// Tells something else from now on.
    pub fn tell(&self, greeting: Greeting) {
        *self.told.lock() = greeting;
    }

    /// Ends it. When this returns, etcd can listen at the port.
    pub async fn close(mut self) {
        self.end();
        // It was ended: that is no error.
        let _ = (&mut self.task).await;
        let _ = self.permits.acquire_many(CONNECTIONS as u32).await;
    }

    fn end(&self) {
        self.task.abort();
        self.closed.send_replace(true);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
    }
}

/// Where a member listens: at its address, or everywhere if that is a name, which etcd does not resolve.
pub fn listen_host(member: &Address) -> &str {
    match member.ip() {
        Some(_) => &member.host,
        None if member.host == "localhost" => "127.0.0.1",
        None => "0.0.0.0",
    }
}

fn acceptor(certificates: &Certificates) -> Result<TlsAcceptor> {
    let wrong = |e: &dyn std::fmt::Display| Error::Certificate(e.to_string());
    let read = |pem: &str| CertificateDer::from_pem_slice(pem.as_bytes()).map_err(|e| wrong(&e));
    let provider = Arc::new(aws_lc_rs::default_provider());
    let mut roots = RootCertStore::empty();
    roots.add(read(&certificates.authority)?).map_err(|e| wrong(&e))?;
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone());
    let verifier = verifier.build().map_err(|e| wrong(&e))?;
    let key = PrivateKeyDer::from_pem_slice(certificates.key.as_bytes()).map_err(|e| wrong(&e))?;
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|e| wrong(&e))?
        .with_client_cert_verifier(verifier)
        .with_single_cert(vec![read(&certificates.own)?], key)
        .map_err(|e| wrong(&e))?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}

async fn answer(
    mut connection: impl AsyncRead + AsyncWrite + Unpin,
    greeting: &Mutex<Greeting>,
) -> std::io::Result<()> {
    let mut head = Vec::new();
    // A body may follow: another etcd sends its messages.
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        if head.len() > HEAD || connection.read_buf(&mut head).await? == 0 {
            return Ok(());
        }
    }
    let told = serde_json::to_string(&*greeting.lock())?;
    let (status, body) = match head.starts_with(format!("GET {GREETING} ").as_bytes()) {
        true => ("200 OK", told.as_str()),
        // Another etcd of the past asks for something of its own.
        false => ("503 Service Unavailable", ""),
    };
    let length = body.len();
    let text = format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}");
    connection.write_all(text.as_bytes()).await?;
    connection.shutdown().await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::{Access, Peer};
    use crate::{Members, Secret};

    fn greeting(incarnation: &str) -> Greeting {
        Greeting { cluster: "prod".to_owned(), incarnation: incarnation.to_owned(), plan: None }
    }

    fn free_address() -> Address {
        let ports: Vec<_> = (0..2).map(|_| std::net::TcpListener::bind("127.0.0.1:0").unwrap()).collect();
        let port = |i: usize| ports[i].local_addr().unwrap().port();
        Members::parse(&format!("127.0.0.1:{}:{}", port(0), port(1))).unwrap().all()[0].clone()
    }

    fn is_silent(peer: &Peer) -> bool {
        matches!(peer, Peer::Silent(_))
    }

    #[tokio::test]
    async fn greeting_is_told_to_who_has_the_same_secret() {
        let (ours, others) = (Secret::generate().unwrap(), Secret::generate().unwrap());
        let member = free_address();
        let issue =
            |secret: &Secret, cluster: &str| Certificates::issue(secret, cluster, Some(&member)).unwrap();
        let own = issue(&ours, "prod");
        let server = Server::start(&member, Some(&own), greeting("1")).await.unwrap();
        let access = |certificates: Option<&Certificates>| Access::new(certificates).unwrap();
        let client = Certificates::issue(&ours, "prod", None).unwrap();
        assert_eq!(access(Some(&client)).peer(&member).await, Peer::Blank(greeting("1")));
        server.tell(greeting("2"));
        assert_eq!(access(Some(&own)).peer(&member).await, Peer::Blank(greeting("2")));
        assert!(is_silent(&access(Some(&issue(&others, "prod"))).peer(&member).await));
        assert!(is_silent(&access(Some(&issue(&ours, "test"))).peer(&member).await));
        assert!(is_silent(&access(None).peer(&member).await));
        server.close().await;
        assert!(is_silent(&access(Some(&own)).peer(&member).await));
    }

    /// As etcd sends a message of Raft: a body follows the head, and its end is not the end of the head.
    #[tokio::test]
    async fn other_requests_are_refused_at_once() {
        let member = free_address();
        let _server = Server::start(&member, None, greeting("1")).await.unwrap();
        let url = format!("{}/raft", member.peer_url("http"));
        let rules = ashlar_outbound::Rules { allow_loopback: true, ..ashlar_outbound::Rules::default() };
        let http = ashlar_outbound::Outbound::new(rules).unwrap();
        let began = std::time::Instant::now();
        let answer = http.post(&url, &[], bytes::Bytes::from_static(b"a message")).await.unwrap();
        assert_eq!(answer.status.as_u16(), 503);
        assert!(began.elapsed() < CONNECTION, "it waited for more");
    }

    /// etcd listens there at once; also if a client neither asks nor closes.
    #[tokio::test]
    async fn port_is_free_when_it_is_closed() {
        let member = free_address();
        for _ in 0..200 {
            let server = Server::start(&member, None, greeting("1")).await.unwrap();
            let at = format!("{}:{}", member.host, member.peer);
            let waits = tokio::net::TcpStream::connect(&at).await.unwrap();
            server.close().await;
            std::net::TcpListener::bind(&at).unwrap();
            drop(waits);
        }
    }

    #[tokio::test]
    async fn without_certificates_it_is_plain() {
        let member = free_address();
        let _server = Server::start(&member, None, greeting("1")).await.unwrap();
        assert_eq!(Access::new(None).unwrap().peer(&member).await, Peer::Blank(greeting("1")));
        let taken = Server::start(&member, None, greeting("1")).await.err().unwrap().to_string();
        assert!(taken.contains("cannot listen at 127.0.0.1:"), "{taken}");
    }
}
