//! The Vault driver against a small server that answers as the documentation of Vault's transit engine
//! says. It is not Vault (that is tests/system/test_vault.py, by hand). What it checks: paths, methods, headers,
//! and that every answer is understood; that it keeps keys by version and refuses what Vault refuses.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests run in real time")]

#[path = "common/contract.rs"]
mod contract;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use ashlar_kms::{Error, Kms, Secret, Vault, VaultSettings, open, seal};
use ashlar_outbound::{Outbound, Rules};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

#[derive(Default)]
struct State {
    keys: BTreeMap<String, Vec<Secret>>,
    /// The token that is accepted now; it changes when it runs out.
    token: String,
    logins: u32,
    asked: Vec<String>,
    sealed: bool,
}

fn answer(state: &mut State, method: &str, path: &str, token: &str, body: &Value) -> (u16, Value) {
    state.asked.push(format!("{method} {path}"));
    let errors = |status: u16, text: &str| (status, json!({ "errors": [text] }));
    if state.sealed {
        return errors(503, "Vault is sealed");
    }
    if path == "/v1/auth/approle/login" && method == "POST" {
        if body["role_id"] != "r" || body["secret_id"] != "s" {
            return errors(400, "invalid role or secret ID");
        }
        state.logins += 1;
        state.token = format!("token-{}", state.logins);
        return (200, json!({ "auth": { "client_token": state.token } }));
    }
    if token != state.token {
        return errors(403, "permission denied");
    }
    let rest = path.strip_prefix("/v1/transit/").unwrap_or_default();
    if rest == "keys?list=true" {
        if state.keys.is_empty() {
            return (404, json!({ "errors": [] }));
        }
        return (200, json!({ "data": { "keys": state.keys.keys().collect::<Vec<_>>() } }));
    }
    let (verb, name) = rest.split_once('/').unwrap_or((rest, ""));
    match (method, verb, name.strip_suffix("/rotate")) {
        ("POST", "keys", Some(name)) => match state.keys.get_mut(name) {
            Some(versions) => {
                versions.push(Secret::generate());
                (200, json!({ "data": { "latest_version": versions.len() } }))
            }
            None => errors(404, "no existing key named that could be found"),
        },
        ("POST", "keys", None) if body["type"] == "aes256-gcm96" => {
            state.keys.entry(name.to_owned()).or_insert_with(|| vec![Secret::generate()]);
            (200, json!({ "data": { "name": name } }))
        }
        ("GET", "keys", None) => match state.keys.get(name) {
            Some(v) => (200, json!({ "data": { "name": name, "latest_version": v.len() } })),
            None => (404, json!({ "errors": [] })),
        },
        ("POST", "encrypt", None) => {
            let Some(versions) = state.keys.get(name) else { return errors(400, "encryption key not found") };
            let plain = body["plaintext"].as_str().and_then(|t| STANDARD.decode(t).ok());
            let Some(plain) = plain.and_then(Secret::take) else { return errors(400, "no plaintext") };
            let n = versions.len();
            let text = STANDARD.encode(seal(&versions[n - 1], &plain, b"vault"));
            (200, json!({ "data": { "ciphertext": format!("vault:v{n}:{text}"), "key_version": n } }))
        }
        ("POST", "decrypt", None) => {
            let Some(versions) = state.keys.get(name) else { return errors(400, "encryption key not found") };
            let text = body["ciphertext"].as_str().unwrap_or_default();
            let mut words = text.split(':');
            if words.next() != Some("vault") {
                return errors(400, "invalid ciphertext: no prefix");
            }
            let n = words.next().and_then(|v| v.strip_prefix('v')?.parse::<usize>().ok()).unwrap_or(0);
            let bytes = words.next().and_then(|t| STANDARD.decode(t).ok()).unwrap_or_default();
            let key = n.checked_sub(1).and_then(|i| versions.get(i));
            match key.and_then(|k| open(k, &bytes, b"vault").ok()) {
                Some(plain) => (200, json!({ "data": { "plaintext": STANDARD.encode(plain.expose()) } })),
                None => errors(400, "invalid ciphertext: unable to decrypt"),
            }
        }
        _ => errors(404, "unsupported path"),
    }
}

fn serve(mut stream: TcpStream, state: &Mutex<State>) -> Option<()> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok().filter(|n| *n > 0)?;
        let mut words = line.split(' ');
        let (method, path) = (words.next()?.to_owned(), words.next()?.to_owned());
        let (mut length, mut token, mut request) = (0, String::new(), false);
        loop {
            let mut header = String::new();
            reader.read_line(&mut header).ok()?;
            let Some((name, value)) = header.trim().split_once(": ") else { break };
            match name.to_ascii_lowercase().as_str() {
                "content-length" => length = value.parse().ok()?,
                "x-vault-token" => token = value.to_owned(),
                "x-vault-request" => request = value == "true",
                _ => {}
            }
        }
        assert!(request, "every request says that it is one (Vault's protection against forged ones)");
        let mut body = vec![0; length];
        reader.read_exact(&mut body).ok()?;
        let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
        let (status, said) = answer(&mut state.lock().unwrap(), &method, &path, &token, &body);
        let said = said.to_string();
        let head = format!(
            "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            said.len()
        );
        stream.write_all(format!("{head}{said}").as_bytes()).ok()?;
    }
}

fn start(by_role: bool) -> (Kms, Arc<Mutex<State>>) {
    let state = Arc::new(Mutex::new(State { token: "root-token".into(), ..State::default() }));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let shared = state.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let state = shared.clone();
            std::thread::spawn(move || serve(stream, &state));
        }
    });
    let role = if by_role { ("r".to_owned(), "s".to_owned().into()) } else { Default::default() };
    let token = if by_role { String::new() } else { "root-token".to_owned() };
    let (mount, namespace) = ("transit".to_owned(), String::new());
    let settings = VaultSettings { endpoint, mount, namespace, token: token.into(), role };
    let web = Outbound::new(Rules { allow_loopback: true, ..Rules::default() }).unwrap();
    (Kms::vault(Vault::new(settings, web).ok().unwrap(), "main").ok().unwrap(), state)
}

#[tokio::test]
async fn keys_seal_open_rotate() {
    let (kms, state) = start(false);
    assert!(kms.list_keys("").await.ok().unwrap().is_empty());
    assert!(matches!(kms.generate("main", b"x").await, Err(Error::Missing(_))), "never made by accident");
    kms.create_key("main").await.ok().unwrap();
    assert!(matches!(kms.create_key("main").await, Err(Error::Exists(_))));
    let made = kms.generate("main", b"here").await.ok().unwrap();
    assert_eq!(kms.open("main", &made.sealed, b"here").await.ok().unwrap().expose(), made.plain.expose());
    assert!(matches!(kms.open("main", &made.sealed, b"there").await, Err(Error::Sealed)));
    assert_eq!(kms.rotate("main").await.ok(), Some(2));
    let new = kms.rewrap("main", "main", &made.sealed, b"here").await.ok().unwrap().unwrap();
    assert!(kms.rewrap("main", "main", &new, b"here").await.ok().unwrap().is_none());
    assert_eq!(kms.open("main", &new, b"here").await.ok().unwrap().expose(), made.plain.expose());
    let bound = kms.rebind("main", &made.sealed, b"here", b"there").await.ok().unwrap();
    assert_eq!(kms.open("main", &bound, b"there").await.ok().unwrap().expose(), made.plain.expose());
    assert!(kms.open("main", &bound, b"here").await.is_err());
    assert!(kms.rebind("main", &made.sealed, b"elsewhere", b"there").await.is_err());
    assert_eq!(kms.key_status("main").await.ok().unwrap().version, 2);
    let mut bad = made.sealed.clone();
    bad[20] ^= 1;
    assert!(kms.open("main", &bad, b"here").await.is_err());
    // What was opened a moment ago is not asked for again.
    let before = state.lock().unwrap().asked.len();
    kms.open("main", &made.sealed, b"here").await.ok().unwrap();
    assert_eq!(state.lock().unwrap().asked.len(), before);
    state.lock().unwrap().sealed = true;
    assert!(matches!(kms.generate("main", b"x").await, Err(Error::Unavailable(_))));
    state.lock().unwrap().sealed = false;
    state.lock().unwrap().token = "another".into();
    assert!(matches!(kms.generate("main", b"x").await, Err(Error::Refused(_))));
}

#[tokio::test]
async fn the_contract() {
    contract::kept(&start(false).0, true).await;
}

#[tokio::test]
async fn a_role_logs_in_again_when_its_token_ran_out() {
    let (kms, state) = start(true);
    kms.create_key("main").await.ok().unwrap();
    assert_eq!(state.lock().unwrap().logins, 1);
    state.lock().unwrap().token = "expired".into();
    kms.generate("main", b"x").await.ok().unwrap();
    assert_eq!(state.lock().unwrap().logins, 2);
}
