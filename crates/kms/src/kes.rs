//! Named keys in a MinIO KES server.
//!
//! KES makes and seals an intermediate key; `wrap` seals the data key under that, for its context. So KES
//! never sees a data key, and moving a data key to another named key needs only what every KES policy for
//! object stores allows (`generate` and `decrypt`, not `encrypt`). The context is bound twice: by `wrap`, and
//! at KES as associated data, as its SHA-256, so that KES learns no names of objects. Stored form: length of
//! KES's ciphertext (u16, big-endian), the ciphertext, then the output of `wrap`.
//!
//! API: KES's own documentation ("Server API") and what its client in Go sends. Every change is a POST:
//! servers that document PUT accept POST too. Lists are read as one JSON object (`names`, `continue_at`) and
//! as lines of JSON (`name`), which older servers send. Invariants: if a server does not answer, the next one
//! is asked; the server that answered last is asked first; each server is asked once, a single one at most
//! twice.

use std::sync::atomic::{AtomicUsize, Ordering};

use ashlar_outbound::{Answer, Outbound};
use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Method, StatusCode};
use serde_json::{Value, json};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::wrap::{self, sealed_parts};
use crate::{Error, KeyStatus, Result, Secret};

/// Most servers.
const MOST: usize = 64;

/// The connection to KES. The client certificate is in the rules of the outbound requests.
pub struct KesSettings {
    /// `https://HOST:PORT`, without a path; one or more.
    pub endpoints: Vec<String>,
    /// This server's identity in KES's policies, for messages; empty: not known.
    pub identity: String,
}

/// The driver.
pub struct Kes {
    settings: KesSettings,
    web: Outbound,
    /// The server that answered last.
    last: AtomicUsize,
}

fn odd(what: &str) -> Error {
    Error::Unavailable(format!("unexpected answer of KES: {what}"))
}

fn joined(text: &[u8], wrapped: &[u8]) -> Result<Vec<u8>> {
    wrap::joined(text, wrapped).ok_or_else(|| odd("the ciphertext is too long"))
}

/// The form of the context for KES.
fn bound(context: &[u8]) -> String {
    STANDARD.encode(digest(&SHA256, context))
}

fn bytes_of(document: &Value, name: &str) -> Result<Vec<u8>> {
    let text = document[name].as_str().and_then(|t| STANDARD.decode(t).ok());
    text.ok_or_else(|| odd(&format!("the field {name} is missing or is not base64")))
}

/// Whether another server may succeed.
fn is_away(status: StatusCode) -> bool {
    status.is_server_error() && status != StatusCode::NOT_IMPLEMENTED
}

impl Kes {
    /// A driver with these settings. Sends no request yet.
    ///
    /// # Errors
    /// [`Error::Invalid`]: the settings are not usable.
    pub fn new(mut settings: KesSettings, web: Outbound) -> Result<Kes> {
        if settings.endpoints.is_empty() || settings.endpoints.len() > MOST {
            return Err(Error::Invalid(format!("KES: name 1 to {MOST} servers")));
        }
        for endpoint in &mut settings.endpoints {
            let plain = endpoint.trim().trim_end_matches('/');
            if plain.strip_prefix("https://").is_none_or(|rest| rest.is_empty() || rest.contains('/')) {
                return Err(Error::Invalid(format!(
                    "KES: the address of a server must be https://HOST:PORT, not \"{endpoint}\""
                )));
            }
            *endpoint = plain.to_owned();
        }
        Ok(Kes { settings, web, last: AtomicUsize::new(0) })
    }

    pub(crate) fn endpoints(&self) -> String {
        self.settings.endpoints.join(",")
    }

    async fn ask(&self, method: Method, path: &str, name: &str, body: Option<Value>) -> Result<Answer> {
        let body = body.map_or_else(Bytes::new, |b| Bytes::from(b.to_string()));
        let headers = [(CONTENT_TYPE, HeaderValue::from_static("application/json"))];
        let endpoints = &self.settings.endpoints;
        let first = self.last.load(Ordering::Relaxed);
        let (mut last, mut repeat) = (odd("it is empty"), true);
        let turns = endpoints.len().max(2);
        for turn in 0..turns {
            let at = (first + turn) % endpoints.len();
            if at == first && turn > 0 && !repeat {
                break;
            }
            let url = format!("{}{path}", endpoints[at]);
            match self.web.ask(method.clone(), &url, &headers, body.clone()).await {
                Ok(answer) if is_away(answer.status) => {
                    repeat = false;
                    last = Error::Unavailable(said(&answer));
                }
                Ok(answer) => {
                    self.last.store(at, Ordering::Relaxed);
                    return self.checked(answer, name);
                }
                Err(e) => {
                    // A kept connection may have been closed meanwhile, so try again. A slow server is not
                    // tried again.
                    repeat = matches!(e, ashlar_outbound::Error::Unreachable(_));
                    last = e.into();
                }
            }
            if endpoints.len() > 1 {
                tracing::warn!(endpoint = endpoints[at], why = %last, "a KES server does not answer");
            }
        }
        match last {
            Error::Unavailable(why) if endpoints.len() > 1 => {
                Err(Error::Unavailable(format!("none of {} KES servers answers: {why}", endpoints.len())))
            }
            other => Err(other),
        }
    }

    /// Maps an answer to the error that says what to do.
    fn checked(&self, answer: Answer, name: &str) -> Result<Answer> {
        if answer.status.is_success() {
            return Ok(answer);
        }
        let said = said(&answer);
        let has = |text: &str| said.contains(text);
        Err(match answer.status {
            StatusCode::NOT_FOUND if has("does not exist") => Error::Missing(name.to_owned()),
            StatusCode::NOT_FOUND => Error::Unavailable(format!("{said}: is it a KES server?")),
            StatusCode::FORBIDDEN | StatusCode::UNAUTHORIZED => Error::Refused(format!(
                "{said}; its policies have to allow it for {}",
                match self.settings.identity.as_str() {
                    "" => "the identity of this server's certificate".to_owned(),
                    identity => format!("this server's identity {identity}"),
                }
            )),
            StatusCode::BAD_REQUEST if has("already exist") => Error::Exists(name.to_owned()),
            StatusCode::BAD_REQUEST if has("not authentic") => Error::Sealed,
            StatusCode::BAD_REQUEST if has("invalid characters") => Error::Invalid(said),
            status if status.is_client_error() => Error::Refused(said),
            _ => Error::Unavailable(said),
        })
    }

    async fn document(&self, method: Method, path: &str, name: &str, body: Option<Value>) -> Result<Value> {
        let answer = self.ask(method, path, name, body).await?;
        serde_json::from_slice(&answer.body).map_err(|_| odd("it is not JSON"))
    }

    /// A fresh intermediate key, and KES's ciphertext of it.
    async fn fresh(&self, name: &str, context: &[u8]) -> Result<(Secret, Vec<u8>)> {
        let body = json!({ "context": bound(context) });
        let path = format!("/v1/key/generate/{name}");
        let document = self.document(Method::POST, &path, name, Some(body)).await?;
        let plain = bytes_of(&document, "plaintext")?;
        let plain = Secret::take(plain).ok_or_else(|| odd("the field plaintext is not a key of 32 bytes"))?;
        let text = bytes_of(&document, "ciphertext")?;
        if text.is_empty() {
            return Err(odd("the field ciphertext is empty"));
        }
        Ok((plain, text))
    }

    async fn decrypt(&self, name: &str, text: &[u8], context: &[u8]) -> Result<Secret> {
        let body = json!({ "ciphertext": STANDARD.encode(text), "context": bound(context) });
        let path = format!("/v1/key/decrypt/{name}");
        let document = self.document(Method::POST, &path, name, Some(body)).await?;
        Secret::take(bytes_of(&document, "plaintext")?).ok_or(Error::Sealed)
    }

    pub(crate) async fn generate(&self, name: &str, context: &[u8]) -> Result<(Secret, Vec<u8>)> {
        let (between, text) = self.fresh(name, context).await?;
        let plain = Secret::generate();
        let sealed = joined(&text, &wrap::seal(&between, &plain, context))?;
        Ok((plain, sealed))
    }

    pub(crate) async fn open(&self, name: &str, sealed: &[u8], context: &[u8]) -> Result<Secret> {
        let (text, wrapped) = sealed_parts(sealed)?;
        wrap::open(&self.decrypt(name, text, context).await?, wrapped, context)
    }

    /// KES's keys have no versions: under the same key there is nothing to do.
    pub(crate) async fn rewrap(
        &self,
        from: &str,
        to: &str,
        sealed: &[u8],
        context: &[u8],
    ) -> Result<Option<Vec<u8>>> {
        if from == to {
            return Ok(None);
        }
        let plain = self.open(from, sealed, context).await?;
        let (between, text) = self.fresh(to, context).await?;
        joined(&text, &wrap::seal(&between, &plain, context)).map(Some)
    }

    /// Seals again under another intermediate key, because the context is bound at KES as well.
    pub(crate) async fn rebind(&self, name: &str, sealed: &[u8], from: &[u8], to: &[u8]) -> Result<Vec<u8>> {
        let plain = self.open(name, sealed, from).await?;
        let (between, text) = self.fresh(name, to).await?;
        joined(&text, &wrap::seal(&between, &plain, to))
    }

    pub(crate) async fn create(&self, name: &str) -> Result<()> {
        self.ask(Method::POST, &format!("/v1/key/create/{name}"), name, None).await.map(|_| ())
    }

    pub(crate) fn rotate(&self, name: &str) -> Result<u32> {
        Err(Error::Invalid(format!(
            "KES keys have no versions, so \"{name}\" cannot be rotated; make another key and seal under it: \
             ashlar admin kms rewrap --key NAME"
        )))
    }

    /// The status of a key at KES; without details if KES's policies do not allow the request.
    pub(crate) async fn status(&self, name: &str) -> Result<KeyStatus> {
        let path = format!("/v1/key/describe/{name}");
        let document = match self.document(Method::GET, &path, name, None).await {
            Err(Error::Refused(_)) => Value::Null,
            other => other?,
        };
        let created = document["created_at"].as_str().and_then(|t| OffsetDateTime::parse(t, &Rfc3339).ok());
        let created_ms = created.map_or(0, |t| (t.unix_timestamp_nanos() / 1_000_000) as i64).max(0);
        Ok(KeyStatus { name: name.to_owned(), version: 0, created_ms })
    }

    /// All keys, or those with a prefix if KES does not list all at once.
    pub(crate) async fn list(&self, prefix: &str) -> Result<Vec<KeyStatus>> {
        let (mut names, mut whole) = self.page("*").await?;
        // Does not use KES's `continue_at`: servers take that for a prefix and leave out most of what
        // follows. A prefix that ends with '-' is not a pattern to KES.
        let narrow = prefix.trim_end_matches('-');
        if !whole && !narrow.is_empty() {
            (names, whole) = self.page(narrow).await?;
        }
        if !whole {
            return Err(Error::Refused(format!(
                "KES lists at most {} keys at once and has more; list the keys of a longer prefix",
                names.len()
            )));
        }
        Ok(names.into_iter().map(|name| KeyStatus { name, version: 0, created_ms: 0 }).collect())
    }

    /// One page of a list, and whether it is the last.
    async fn page(&self, pattern: &str) -> Result<(Vec<String>, bool)> {
        let answer = self.ask(Method::GET, &format!("/v1/key/list/{pattern}"), "", None).await?;
        if let Ok(document) = serde_json::from_slice::<Value>(&answer.body)
            && document.get("name").is_none()
        {
            // Without keys, `names` is null.
            let names = document["names"].as_array().into_iter().flatten().filter_map(Value::as_str);
            let whole = document["continue_at"].as_str().unwrap_or_default().is_empty();
            return Ok((names.map(str::to_owned).collect(), whole));
        }
        let mut names = Vec::new();
        for line in answer.body.split(|b| *b == b'\n').filter(|l| !l.trim_ascii().is_empty()) {
            let line: Value =
                serde_json::from_slice(line).map_err(|_| odd("a line of the list of keys is not JSON"))?;
            match (line["name"].as_str(), line["error"].as_str().filter(|e| !e.is_empty())) {
                (_, Some(why)) => return Err(Error::Unavailable(format!("KES: {why}"))),
                (Some(name), _) => names.push(name.to_owned()),
                _ => return Err(odd("the field name is missing in the list of keys")),
            }
        }
        Ok((names, true))
    }
}

/// The error text of an answer; for the operator, not for a client.
fn said(answer: &Answer) -> String {
    let value: Value = serde_json::from_slice(&answer.body).unwrap_or(Value::Null);
    let text = value["message"].as_str().or(value["error"].as_str());
    let text = text.map_or_else(|| String::from_utf8_lossy(&answer.body).into_owned(), str::to_owned);
    let text: String = text.chars().filter(|c| !c.is_control()).take(200).collect();
    format!("KES: {} {text}", answer.status.as_u16()).trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sealed_parts_are_joined_and_cut() {
        let sealed = joined(b"cipher", &[1, 2, 3]).ok().unwrap();
        assert_eq!(sealed_parts(&sealed).ok().unwrap(), (&b"cipher"[..], &[1u8, 2, 3][..]));
        for cut in 0..8 {
            assert!(sealed_parts(&sealed[..cut]).is_err(), "{cut}");
        }
        assert!(joined(&[0; 70_000], &[]).is_err());
        assert_ne!(bound(b"a"), bound(b"b"));
    }

    #[test]
    fn addresses_are_checked() {
        let made = |list: &[&str]| {
            let endpoints = list.iter().map(|t| (*t).to_owned()).collect();
            let settings = KesSettings { endpoints, identity: String::new() };
            Kes::new(settings, Outbound::new(ashlar_outbound::Rules::default()).unwrap()).is_ok()
        };
        assert!(made(&["https://a:7373", "https://b:7373/"]));
        for bad in [&[][..], &["http://a:7373"], &["a:7373"], &["https://"], &["https://a/path"]] {
            assert!(!made(bad), "{bad:?}");
        }
    }
}
