//! The KES driver against a small server that answers as KES does: over TLS, to clients with a certificate,
//! by the hash of its public key. tests/system/test_kes.py uses the real KES; this server also answers as
//! older releases do, and fails on demand.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests run in real time")]

#[path = "common/contract.rs"]
mod contract;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};

use ashlar_kms::{Error, Kes, KesSettings, Kms, Secret, kes_identity, open, seal};
use ashlar_outbound::{Outbound, Rules};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, ServerConfig, ServerConnection, SignatureScheme};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use serde_json::{Value, json};

/// The seed is 32 times the letter "k".
const API_KEY: &str = "kes:v1:AGtra2tra2tra2tra2tra2tra2tra2tra2tra2tra2tr";

struct State {
    keys: BTreeMap<String, Secret>,
    /// The only accepted identity.
    identity: String,
    /// Paths that are denied to it.
    denied: Vec<&'static str>,
    asked: Vec<String>,
    /// The contexts in requests.
    contexts: BTreeSet<Vec<u8>>,
    /// The keys that were handed out.
    made: Vec<Secret>,
    /// Whether the server ignores the context, as a malicious server could.
    careless: bool,
    /// Replaces every answer.
    fails: Option<(u16, &'static str)>,
    /// Number of requests after which the connection is closed without an answer.
    hangs_up: u32,
    /// Whether lists are lines of JSON, as older servers send them.
    lines: bool,
    /// Names in one answer to a list.
    page: usize,
}

/// The error answer of KES.
fn refuse(status: u16, text: &str) -> (u16, String) {
    (status, json!({ "message": text }).to_string())
}

fn list(state: &State, pattern: &str) -> (u16, String) {
    if state.lines {
        // A pattern without a star is one name.
        let prefix = pattern.strip_suffix('*');
        let fits = |name: &&String| prefix.map_or(name.as_str() == pattern, |p| name.starts_with(p));
        let lines = state.keys.keys().filter(fits).map(|n| format!("{}\n", json!({ "name": n })));
        return (200, lines.collect());
    }
    if pattern.ends_with('-') {
        return refuse(400, "listing pattern is empty, too long or is invalid");
    }
    let prefix = if pattern == "*" { "" } else { pattern };
    let fits: Vec<&String> = state.keys.keys().filter(|n| n.starts_with(prefix)).collect();
    let next = fits.get(state.page);
    let names = (!fits.is_empty()).then(|| &fits[..state.page.min(fits.len())]);
    (200, json!({ "names": names, "continue_at": next }).to_string())
}

fn answer(state: &mut State, identity: &str, method: &str, path: &str, body: &Value) -> (u16, String) {
    state.asked.push(format!("{method} {path}"));
    if let Some((status, text)) = state.fails {
        return (status, text.to_owned());
    }
    if identity != state.identity || state.denied.iter().any(|d| path.starts_with(d)) {
        return refuse(403, "not authorized: insufficient permissions");
    }
    let Some((verb, name)) = path.strip_prefix("/v1/key/").and_then(|rest| rest.split_once('/')) else {
        return (404, "404 page not found".into());
    };
    if verb == "list" && method == "GET" {
        return list(state, name);
    }
    if name.contains('.') {
        return refuse(400, "key name 'x' is empty, too long or contains invalid characters");
    }
    if verb == "create" && method == "POST" {
        if state.keys.contains_key(name) {
            return refuse(400, "key already exists");
        }
        state.keys.insert(name.to_owned(), Secret::generate());
        return (200, String::new());
    }
    let Some(key) = state.keys.get(name).cloned() else { return refuse(404, "key does not exist") };
    let bytes = |field: &str| body[field].as_str().and_then(|t| STANDARD.decode(t).ok()).unwrap_or_default();
    let context = if state.careless { Vec::new() } else { bytes("context") };
    if method == "POST" {
        state.contexts.insert(bytes("context"));
    }
    match (method, verb) {
        ("GET", "describe") => {
            let document =
                json!({ "name": name, "algorithm": "AES256", "created_at": "2026-01-02T03:04:05.678Z" });
            (200, document.to_string())
        }
        ("POST", "generate") => {
            let fresh = Secret::generate();
            let sealed = STANDARD.encode(seal(&key, &fresh, &context));
            state.made.push(fresh.clone());
            (200, json!({ "plaintext": STANDARD.encode(fresh.expose()), "ciphertext": sealed }).to_string())
        }
        ("POST", "decrypt") => match open(&key, &bytes("ciphertext"), &context) {
            Ok(plain) => (200, json!({ "plaintext": STANDARD.encode(plain.expose()) }).to_string()),
            Err(_) => refuse(400, "decryption failed: ciphertext is not authentic"),
        },
        _ => refuse(405, "received method is not expected"),
    }
}

/// Accepts any client certificate, as KES does: only its public key matters.
#[derive(Debug)]
struct Anybody(Arc<CryptoProvider>);

impl ClientCertVerifier for Anybody {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }
    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        Ok(ClientCertVerified::assertion())
    }
    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
        let known = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signed, known)
    }
    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
        let known = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signed, known)
    }
    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

/// Computes the identity as KES does, ignoring certificates of authorities.
fn identity_of(connection: &ServerConnection) -> String {
    use x509_cert::der::{Decode as _, Encode as _};
    use x509_cert::ext::pkix::BasicConstraints;
    let chain = connection.peer_certificates().unwrap_or_default();
    let leaf = x509_cert::Certificate::from_der(&chain[0]).unwrap();
    let leaf = leaf.tbs_certificate();
    let constraints = leaf.get_extension::<BasicConstraints>().unwrap();
    assert!(!constraints.is_some_and(|(_, c)| c.ca), "KES would say that there is no certificate");
    let key = leaf.subject_public_key_info().to_der().unwrap();
    let digest = ::aws_lc_rs::digest::digest(&::aws_lc_rs::digest::SHA256, &key);
    hex::encode(digest)
}

type Stream = rustls::StreamOwned<ServerConnection, std::net::TcpStream>;

fn serve(stream: Stream, state: &Mutex<State>) -> Option<()> {
    let mut reader = BufReader::new(stream);
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok().filter(|n| *n > 0)?;
        let mut words = line.split(' ');
        let (method, path) = (words.next()?.to_owned(), words.next()?.to_owned());
        let mut length = 0;
        loop {
            let mut header = String::new();
            reader.read_line(&mut header).ok()?;
            let Some((name, value)) = header.trim().split_once(": ") else { break };
            if name.eq_ignore_ascii_case("content-length") {
                length = value.parse().ok()?;
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).ok()?;
        let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
        let identity = identity_of(&reader.get_ref().conn);
        if state.lock().unwrap().hangs_up > 0 {
            state.lock().unwrap().hangs_up -= 1;
            return None;
        }
        let (status, said) = answer(&mut state.lock().unwrap(), &identity, &method, &path, &body);
        let head = format!("HTTP/1.1 {status} X\r\ncontent-length: {}\r\n\r\n", said.len());
        let stream = reader.get_mut();
        stream.write_all(format!("{head}{said}").as_bytes()).ok()?;
        stream.flush().ok()?;
    }
}

/// Starts a server; returns its address, its certificate and its state.
fn start() -> (String, Vec<u8>, Arc<Mutex<State>>) {
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let provider = Arc::new(aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_client_cert_verifier(Arc::new(Anybody(provider)))
        .with_single_cert(
            vec![made.cert.der().clone()],
            PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap(),
        )
        .unwrap();
    let config = Arc::new(config);
    let state = Arc::new(Mutex::new(State {
        keys: BTreeMap::new(),
        identity: kes_identity(API_KEY).ok().unwrap().1,
        denied: Vec::new(),
        asked: Vec::new(),
        contexts: BTreeSet::new(),
        made: Vec::new(),
        careless: false,
        fails: None,
        hangs_up: 0,
        lines: false,
        page: 1024,
    }));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("https://{}", listener.local_addr().unwrap());
    let shared = state.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let (state, config) = (shared.clone(), config.clone());
            std::thread::spawn(move || {
                let connection = ServerConnection::new(config).unwrap();
                serve(rustls::StreamOwned::new(connection, stream), &state)
            });
        }
    });
    (endpoint, made.cert.pem().into_bytes(), state)
}

fn driver(endpoints: Vec<String>, authorities: Vec<Vec<u8>>, api_key: &str) -> Kms {
    let (identity, name) = kes_identity(api_key).ok().unwrap();
    let rules = Rules { allow_loopback: true, authorities, identity: Some(identity), ..Rules::default() };
    let settings = KesSettings { endpoints, identity: name };
    Kms::kes(Kes::new(settings, Outbound::new(rules).unwrap()).ok().unwrap(), "main").ok().unwrap()
}

fn one() -> (Kms, Arc<Mutex<State>>) {
    let (endpoint, certificate, state) = start();
    (driver(vec![endpoint], vec![certificate], API_KEY), state)
}

#[tokio::test]
async fn kes_driver_meets_the_contract() {
    let (kms, state) = one();
    assert!(kms.list_keys("").await.ok().unwrap().is_empty());
    contract::kept(&kms, false).await;
    assert_eq!(kms.describe().0, "kes");
    let created = kms.key_status("one").await.ok().unwrap().created_ms;
    assert_eq!(created, 1_767_323_045_678);
    // The driver uses only paths that policies for object stores allow, and sends no names of objects.
    let allowed = ["POST /v1/key/create/", "POST /v1/key/generate/", "POST /v1/key/decrypt/"];
    let more = ["GET /v1/key/describe/", "GET /v1/key/list/"];
    for asked in &state.lock().unwrap().asked {
        assert!(allowed.iter().chain(&more).any(|a| asked.starts_with(a)), "{asked}");
    }
}

#[tokio::test]
async fn kes_sees_neither_data_keys_nor_object_names() {
    let (kms, state) = one();
    kms.create_key("main").await.ok().unwrap();
    let made = kms.generate("main", b"bucket/object").await.ok().unwrap();
    kms.open("main", &made.sealed, b"bucket/object").await.ok().unwrap();
    kms.open("main", &made.sealed, b"bucket/other").await.err().unwrap();
    let seen = state.lock().unwrap();
    assert_eq!(seen.made.len(), 1);
    assert!(seen.made.iter().all(|k| k.expose() != made.plain.expose()));
    let hash =
        |text: &[u8]| ::aws_lc_rs::digest::digest(&::aws_lc_rs::digest::SHA256, text).as_ref().to_vec();
    assert_eq!(seen.contexts, BTreeSet::from([hash(b"bucket/object"), hash(b"bucket/other")]));
}

#[tokio::test]
async fn context_is_bound_even_if_kes_ignores_it() {
    let (kms, state) = one();
    state.lock().unwrap().careless = true;
    kms.create_key("main").await.ok().unwrap();
    let made = kms.generate("main", b"here").await.ok().unwrap();
    assert!(kms.open("main", &made.sealed, b"here").await.is_ok());
    assert!(matches!(kms.open("main", &made.sealed, b"there").await, Err(Error::Sealed)));
}

#[tokio::test]
async fn data_keys_are_cached_but_the_status_is_not() {
    let (kms, state) = one();
    kms.create_key("main").await.ok().unwrap();
    let made = kms.generate("main", b"here").await.ok().unwrap();
    let asked = || state.lock().unwrap().asked.len();
    kms.open("main", &made.sealed, b"here").await.ok().unwrap();
    let before = asked();
    kms.open("main", &made.sealed, b"here").await.ok().unwrap();
    assert_eq!(asked(), before);
    kms.key_status("main").await.ok().unwrap();
    assert_eq!(asked(), before + 3, "sealed, opened, described");
    // The status works even if KES's policies do not allow the request for details.
    state.lock().unwrap().denied = vec!["/v1/key/describe/"];
    let status = kms.key_status("main").await.ok().unwrap();
    assert_eq!((status.version, status.created_ms), (0, 0));
}

#[tokio::test]
async fn errors_are_distinguished() {
    let (kms, state) = one();
    kms.create_key("main").await.ok().unwrap();
    let told = |fails| {
        state.lock().unwrap().fails = fails;
        kms.generate("main", b"x")
    };
    let before = state.lock().unwrap().asked.len();
    assert!(told(Some((500, "broken"))).await.is_err());
    assert_eq!(state.lock().unwrap().asked.len(), before + 1, "an answer is an answer");
    let seals = |text| told(Some((200, text)));
    assert!(
        matches!(told(Some((502, r#"{"message":"failed to read key"}"#))).await, Err(Error::Unavailable(t)) if t.contains("502 failed to read key"))
    );
    assert!(
        matches!(told(Some((404, "404 page not found"))).await, Err(Error::Unavailable(t)) if t.contains("is it a KES"))
    );
    assert!(matches!(told(Some((301, ""))).await, Err(Error::Unavailable(_))));
    assert!(
        matches!(told(Some((429, "slow down"))).await, Err(Error::Refused(t)) if t.contains("slow down"))
    );
    let short = r#"{"plaintext":"AAAA","ciphertext":"AAAA"}"#;
    let bare = r#"{"plaintext":"a2tra2tra2tra2tra2tra2tra2tra2tra2tra2tra2s=","ciphertext":""}"#;
    for text in ["", "{}", "<html>", short, bare] {
        assert!(matches!(seals(text).await, Err(Error::Unavailable(_))), "{text}");
    }
    assert!(told(None).await.is_ok());
    state.lock().unwrap().denied = vec!["/v1/key/generate/"];
    let identity = kes_identity(API_KEY).ok().unwrap().1;
    assert!(matches!(told(None).await, Err(Error::Refused(t)) if t.contains("403") && t.contains(&identity)));
    // A name that Ashlar accepts and KES does not.
    assert!(matches!(kms.create_key("a.b").await, Err(Error::Invalid(_))));
}

#[tokio::test]
async fn unknown_api_key_or_server_certificate_is_refused() {
    let (endpoint, certificate, _state) = start();
    let other = API_KEY.replace("AGtra", "AGtrb");
    let stranger = driver(vec![endpoint.clone()], vec![certificate], &other);
    assert!(matches!(stranger.create_key("main").await, Err(Error::Refused(_))));
    // A server with another certificate gets no request.
    let (_, another, _) = start();
    let kms = driver(vec![endpoint], vec![another], API_KEY);
    assert!(matches!(kms.create_key("main").await, Err(Error::Unavailable(t)) if t.contains("certificate")));
}

#[tokio::test]
async fn lists_of_all_formats_are_read() {
    let (kms, state) = one();
    for name in ["a-1", "a-2", "b"] {
        kms.create_key(name).await.ok().unwrap();
    }
    let names = |found: Result<Vec<ashlar_kms::KeyStatus>, Error>| {
        found.ok().unwrap().into_iter().map(|k| k.name).collect::<Vec<_>>()
    };
    for lines in [false, true] {
        state.lock().unwrap().lines = lines;
        assert_eq!(names(kms.list_keys("").await), ["a-1", "a-2", "b"]);
        assert_eq!(names(kms.list_keys("a-").await), ["a-1", "a-2"]);
    }
    state.lock().unwrap().keys.clear();
    assert!(names(kms.list_keys("").await).is_empty());
    state.lock().unwrap().lines = false;
    for name in ["a-1", "a-2", "b"] {
        kms.create_key(name).await.ok().unwrap();
    }
    // If not all keys fit, the list of a prefix, or an error; never an incomplete list.
    state.lock().unwrap().page = 2;
    assert_eq!(names(kms.list_keys("a-").await), ["a-1", "a-2"]);
    assert!(matches!(kms.list_keys("").await, Err(Error::Refused(t)) if t.contains("longer prefix")));
    state.lock().unwrap().page = 1;
    assert!(matches!(kms.list_keys("a").await, Err(Error::Refused(_))));
    state.lock().unwrap().fails = Some((200, "{\"name\":\"a\"}\n{\"error\":\"broken\"}\n"));
    assert!(matches!(kms.list_keys("").await, Err(Error::Unavailable(t)) if t.contains("broken")));
}

#[tokio::test]
async fn next_server_is_asked_after_a_failure() {
    let (first, certificate, one) = start();
    let (second, other, two) = start();
    let gone = {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        format!("https://{}", listener.local_addr().unwrap())
    };
    let kms = driver(vec![gone.clone(), first, second], vec![certificate, other], API_KEY);
    kms.create_key("main").await.ok().unwrap();
    assert_eq!((one.lock().unwrap().asked.len(), two.lock().unwrap().asked.len()), (1, 0));
    two.lock().unwrap().keys = one.lock().unwrap().keys.clone();
    let made = kms.generate("main", b"here").await.ok().unwrap();
    assert_eq!(one.lock().unwrap().asked.len(), 2, "who answered is asked first");
    // A server that answers 5xx is treated as unreachable.
    one.lock().unwrap().fails = Some((503, "no key store"));
    kms.open("main", &made.sealed, b"here").await.ok().unwrap();
    assert_eq!((one.lock().unwrap().asked.len(), two.lock().unwrap().asked.len()), (3, 1));
    kms.generate("main", b"here").await.ok().unwrap();
    assert_eq!((one.lock().unwrap().asked.len(), two.lock().unwrap().asked.len()), (3, 2));
    // A refusal is an answer: the other servers are not asked.
    assert!(matches!(kms.generate("none", b"here").await, Err(Error::Missing(_))));
    assert_eq!(one.lock().unwrap().asked.len(), 3);
    two.lock().unwrap().fails = Some((503, "neither"));
    assert!(
        matches!(kms.generate("main", b"here").await, Err(Error::Unavailable(t)) if t.contains("none of 3"))
    );
    assert_eq!((one.lock().unwrap().asked.len(), two.lock().unwrap().asked.len()), (4, 4), "each once");
    // A single server that closed the connection is asked once more.
    let (third, certificate, three) = start();
    let kms = driver(vec![third], vec![certificate], API_KEY);
    kms.create_key("main").await.ok().unwrap();
    three.lock().unwrap().hangs_up = 1;
    kms.generate("main", b"x").await.ok().unwrap();
    three.lock().unwrap().hangs_up = 2;
    assert!(matches!(kms.generate("main", b"x").await, Err(Error::Unavailable(_))));
    assert_eq!(three.lock().unwrap().hangs_up, 0);
    kms.generate("main", b"x").await.ok().unwrap();
    // A server that is unreachable.
    let kms = driver(vec![gone], Vec::new(), API_KEY);
    assert!(matches!(kms.generate("main", b"x").await, Err(Error::Unavailable(_))));
}
