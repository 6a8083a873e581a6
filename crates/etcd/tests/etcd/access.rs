//! TLS, users, permissions, and versions of etcd.

use ashlar_cluster::Error as StoreError;
use ashlar_etcd::{Error, Etcd, Options};
use ashlar_outbound::tls::Identity;
use base64::Engine as _;
use rcgen::{BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, SanType};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::contract::DEPLOYMENT;
use crate::support::{Cluster, Tls, created, not_opened, opened, put, text, until};

fn encode(text: &str) -> String {
    base64::engine::general_purpose::STANDARD.encode(text)
}

struct Authority {
    pem: Vec<u8>,
    issuer: Issuer<'static, KeyPair>,
}

fn authority() -> Authority {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    let pem = params.self_signed(&key).unwrap().pem().into_bytes();
    Authority { pem, issuer: Issuer::new(params, key) }
}

impl Authority {
    /// A certificate for all addresses that tests use, for servers and clients: etcd's gateway is a client of
    /// its own server.
    fn issue(&self, addresses: &[std::net::IpAddr]) -> Identity {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.subject_alt_names = addresses.iter().map(|a| SanType::IpAddress(*a)).collect();
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        Identity { certificates: certificate.pem().into_bytes(), key: key.serialize_pem().into_bytes() }
    }
}

/// All loopback addresses of this test program.
fn addresses() -> Vec<std::net::IpAddr> {
    let std::net::IpAddr::V4(one) = crate::support::address().ip() else { panic!("an IPv4 address") };
    let [a, b, c, _] = one.octets();
    (0..=255).map(|d| std::net::Ipv4Addr::new(a, b, c, d).into()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tls_with_client_certificates() {
    let folder = tempfile::tempdir().unwrap();
    let (ours, theirs) = (authority(), authority());
    let server = ours.issue(&addresses());
    let file = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let tls = Tls {
        authority: ours.pem.clone(),
        client: ours.issue(&[]),
        arguments: vec![
            format!("--cert-file={}", file("cert", &server.certificates)),
            format!("--key-file={}", file("key", &server.key)),
            format!("--trusted-ca-file={}", file("ca", &ours.pem)),
            "--client-cert-auth".to_owned(),
        ],
    };
    let cluster = Cluster::with(1, &[], Some(&tls)).await;
    let mut options = cluster.options("c");
    options.authorities = vec![ours.pem.clone()];
    options.certificate = Some(tls.client.clone());
    let c = created(&options).await.control();
    put(&c, "k", "1").await.unwrap();
    assert_eq!(text(&opened(&options).await.control(), "k").as_deref(), Some("1"));
    let wrong = |change: &dyn Fn(&mut Options)| {
        let mut options = options.clone();
        change(&mut options);
        options
    };
    let error = not_opened(&wrong(&|o| o.authorities = vec![theirs.pem.clone()]), Vec::new()).await;
    assert!(matches!(error, Error::Certificate(_)), "{error}");
    for (what, options) in [
        ("a certificate of another authority", wrong(&|o| o.certificate = Some(theirs.issue(&[])))),
        ("no certificate", wrong(&|o| o.certificate = None)),
    ] {
        let error = not_opened(&options, Vec::new()).await;
        let is_known = matches!(error, Error::Certificate(_) | Error::Unreachable(_));
        assert!(is_known && error.to_string().contains("certificate"), "{what}: {error}");
    }
    let plain = wrong(&|o| o.endpoints = vec![o.endpoints[0].replace("https", "http")]);
    let error = not_opened(&plain, Vec::new()).await;
    assert!(matches!(error, Error::Unreachable(_) | Error::Refused(_)), "{error}");
    let broken = wrong(&|o| o.authorities = vec![b"no certificate".to_vec()]);
    assert!(matches!(not_opened(&broken, Vec::new()).await, Error::Settings(_)));
}

/// With authentication: user and password, the least permission, tokens that end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn users_and_permissions() {
    let mut cluster = Cluster::start(1).await;
    for (path, body) in [
        ("user/add", json!({ "name": "root", "password": "r" })),
        ("user/grant", json!({ "user": "root", "role": "root" })),
        ("role/add", json!({ "name": "ashlar" })),
        (
            "role/grant",
            json!({ "name": "ashlar", "perm": { "permType": "READWRITE",
                    "key": encode("/ashlar/c/"), "range_end": encode("/ashlar/c0") } }),
        ),
        ("user/add", json!({ "name": "ashlar", "password": "secret" })),
        ("user/grant", json!({ "user": "ashlar", "role": "ashlar" })),
        ("enable", json!({})),
    ] {
        let done = cluster.ask(0, &format!("/v3/auth/{path}"), body).await;
        // The role of root exists already.
        assert!(done["header"].is_object() || path == "role/add", "{path}: {done}");
    }
    let mut options = cluster.options("c");
    let anonymous = not_opened(&options, Vec::new()).await;
    assert!(matches!(anonymous, Error::Authentication(_)), "{anonymous}");
    options.user = Some(("ashlar".into(), "wrong".into()));
    let wrong = not_opened(&options, Vec::new()).await;
    assert!(matches!(wrong, Error::Authentication(_)), "{wrong}");
    options.user = Some(("ashlar".into(), "secret".into()));
    let mut elsewhere = options.clone();
    elsewhere.cluster = "other".into();
    let denied = Etcd::create(&elsewhere, DEPLOYMENT, Vec::new()).await.unwrap_err();
    assert!(matches!(&denied, Error::Denied(_, prefix) if prefix == "/ashlar/other/"), "{denied}");
    let store = created(&options).await;
    let c = store.control();
    let announcement = c.announce(1).await.unwrap();
    put(&c, "k", "1").await.unwrap();
    // A member forgets all tokens when it starts again.
    cluster.members[0].kill();
    cluster.members[0].start();
    cluster.member_ready(0).await;
    until(|| async { put(&c, "k", "2").await.is_ok() }).await;
    assert_eq!(text(&c, "k").as_deref(), Some("2"));
    // A permission that is taken away.
    let token = cluster.ask(0, "/v3/auth/authenticate", json!({ "name": "root", "password": "r" })).await;
    let token = http::HeaderValue::from_str(token["token"].as_str().unwrap()).unwrap();
    let body = json!({ "role": "ashlar", "key": encode("/ashlar/c/"), "range_end": encode("/ashlar/c0") });
    let url = format!("{}/v3/auth/role/revoke", cluster.members[0].url);
    let headers = [(http::header::AUTHORIZATION, token)];
    let done = cluster.http.post(&url, &headers, body.to_string().into()).await.unwrap();
    assert!(done.status.is_success(), "{done:?}");
    let error = put(&c, "k", "3").await.unwrap_err();
    assert!(matches!(&error, StoreError::Unavailable(why) if why.contains("permission")), "{error}");
    assert_eq!(text(&c, "k").as_deref(), Some("2"));
    drop(announcement);
}

/// A user is given, but etcd would accept anybody.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_without_authentication() {
    let cluster = Cluster::start(1).await;
    let mut options = cluster.options("c");
    options.user = Some(("ashlar".into(), "secret".into()));
    let error = not_opened(&options, Vec::new()).await;
    assert!(matches!(&error, Error::Authentication(why) if why.contains("not enabled")), "{error}");
}

/// An etcd of another age, and something that is no etcd.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_servers() {
    for (body, old) in [(r#"{"etcdserver":"3.3.27","etcdcluster":"3.3.0"}"#, true), ("<html>", false)] {
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len());
        let server = tokio::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                let _ = stream.read(&mut [0; 1024]).await;
                let _ = stream.write_all(answer.as_bytes()).await;
            }
        });
        let options = Options::parse(&format!("etcd://{address}"), "c").unwrap();
        let error = not_opened(&options, Vec::new()).await;
        match old {
            true => assert!(matches!(&error, Error::TooOld(why) if why.contains("3.3.27")), "{error}"),
            false => assert!(matches!(&error, Error::Refused(_)), "{error}"),
        }
        server.abort();
    }
}
