//! Named keys in HashiCorp Vault, with its transit engine.
//!
//! Vault seals an intermediate key; `wrap` seals the data key under that, for its context. So the context is
//! bound with every release of Vault (`associated_data` is newer than the engine), and Vault never sees a
//! data key. Stored form: length of Vault's text (u16, big-endian), the text (`vault:v3:...`), then the
//! output of `wrap`.
//!
//! API: HashiCorp Vault documentation, "Transit secrets engine (API)" and "AppRole auth method (API)".
//! Invariants: the token is never printed; an expired token is renewed once per request, not repeatedly.

use ashlar_outbound::{Answer, Outbound};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header::{HeaderName, HeaderValue};
use http::{Method, StatusCode};
use parking_lot::RwLock;
use serde_json::{Value, json};
use zeroize::{Zeroize, Zeroizing};

use crate::{Error, KeyStatus, Result, Secret, check_name, wrap};

/// The connection to Vault.
pub struct VaultSettings {
    /// `https://HOST:PORT`, without a path.
    pub endpoint: String,
    /// Where the transit engine is mounted.
    pub mount: String,
    /// Namespace (Enterprise), or empty.
    pub namespace: String,
    /// A token; empty: the role below.
    pub token: Zeroizing<String>,
    /// Role id and secret id of AppRole; empty: the token.
    pub role: (String, Zeroizing<String>),
}

/// The driver.
pub struct Vault {
    settings: VaultSettings,
    web: Outbound,
    token: RwLock<Zeroizing<String>>,
}

fn sealed_parts(sealed: &[u8]) -> Result<(&str, &[u8])> {
    let (text, wrapped) = wrap::sealed_parts(sealed)?;
    Ok((std::str::from_utf8(text).map_err(|_| Error::Sealed)?, wrapped))
}

fn joined(text: &str, wrapped: &[u8]) -> Result<Vec<u8>> {
    wrap::joined(text.as_bytes(), wrapped).ok_or_else(|| odd("the ciphertext is too long"))
}

fn odd(what: &str) -> Error {
    Error::Unavailable(format!("unexpected answer of Vault: {what}"))
}

/// The number in `vault:v3:...`.
fn version_of(text: &str) -> u32 {
    let number = text.strip_prefix("vault:v").and_then(|t| t.split(':').next());
    number.and_then(|n| n.parse().ok()).unwrap_or(0)
}

impl Vault {
    /// A driver with these settings. Sends no request yet.
    ///
    /// # Errors
    /// [`Error::Invalid`]: the settings are not usable.
    pub fn new(settings: VaultSettings, web: Outbound) -> Result<Vault> {
        if settings.token.is_empty() == settings.role.0.is_empty() {
            return Err(Error::Invalid(
                "Vault: give a token, or the role id and secret id of AppRole".into(),
            ));
        }
        for part in settings.mount.split('/') {
            check_name(part)?;
        }
        if !settings.endpoint.starts_with("https://") && !settings.endpoint.starts_with("http://") {
            return Err(Error::Invalid("Vault: the endpoint must begin with https:// or http://".into()));
        }
        let token = RwLock::new(settings.token.clone());
        Ok(Vault { settings, web, token })
    }

    pub(crate) fn endpoint(&self) -> &str {
        &self.settings.endpoint
    }

    async fn send(&self, method: Method, path: &str, token: &str, body: Bytes) -> Result<Answer> {
        let url = format!("{}/v1/{path}", self.settings.endpoint.trim_end_matches('/'));
        let value = |text: &str| {
            let mut v = HeaderValue::from_str(text).map_err(|_| {
                Error::Invalid(
                    "Vault: the token or namespace contains characters that are not allowed in a header"
                        .into(),
                )
            })?;
            v.set_sensitive(true);
            Ok::<_, Error>(v)
        };
        let mut headers =
            vec![(HeaderName::from_static("x-vault-request"), HeaderValue::from_static("true"))];
        if !token.is_empty() {
            headers.push((HeaderName::from_static("x-vault-token"), value(token)?));
        }
        if !self.settings.namespace.is_empty() {
            headers.push((HeaderName::from_static("x-vault-namespace"), value(&self.settings.namespace)?));
        }
        Ok(self.web.ask(method, &url, &headers, body).await?)
    }

    async fn log_in(&self) -> Result<()> {
        let (id, secret) = &self.settings.role;
        let body = json!({"role_id": id, "secret_id": secret.as_str()}).to_string();
        let answer = self.send(Method::POST, "auth/approle/login", "", body.into()).await?;
        let document = document(&answer, "AppRole")?;
        let token = document["auth"]["client_token"]
            .as_str()
            .ok_or_else(|| odd("the field auth.client_token is missing"))?;
        *self.token.write() = Zeroizing::new(token.to_owned());
        Ok(())
    }

    async fn ask(&self, method: Method, path: &str, name: &str, body: Option<Value>) -> Result<Value> {
        let body = body.map_or_else(Bytes::new, |b| Bytes::from(b.to_string()));
        let by_role = !self.settings.role.0.is_empty();
        if by_role && self.token.read().is_empty() {
            self.log_in().await?;
        }
        let token = self.token.read().clone();
        let mut answer = self.send(method.clone(), path, &token, body.clone()).await?;
        if by_role && answer.status == StatusCode::FORBIDDEN {
            self.log_in().await?;
            let token = self.token.read().clone();
            answer = self.send(method, path, &token, body).await?;
        }
        document(&answer, name)
    }

    fn path(&self, verb: &str, name: &str) -> String {
        format!("{}/{verb}/{name}", self.settings.mount)
    }

    async fn encrypt(&self, name: &str, key: &Secret) -> Result<String> {
        let mut plain = STANDARD.encode(key.expose());
        let body = json!({ "plaintext": plain });
        plain.zeroize();
        // If its policies allow it, Vault creates a key that does not exist; a typing mistake would then seal
        // under an unintended key.
        self.status(name).await?;
        let answer = self.ask(Method::POST, &self.path("encrypt", name), name, Some(body)).await?;
        let text = answer["data"]["ciphertext"]
            .as_str()
            .ok_or_else(|| odd("the field data.ciphertext is missing"))?;
        Ok(text.to_owned())
    }

    async fn decrypt(&self, name: &str, text: &str) -> Result<Secret> {
        let body = json!({ "ciphertext": text });
        let answer = self.ask(Method::POST, &self.path("decrypt", name), name, Some(body)).await?;
        let plain =
            answer["data"]["plaintext"].as_str().ok_or_else(|| odd("the field data.plaintext is missing"))?;
        STANDARD.decode(plain).ok().and_then(Secret::take).ok_or(Error::Sealed)
    }

    pub(crate) async fn generate(&self, name: &str, context: &[u8]) -> Result<(Secret, Vec<u8>)> {
        let (between, plain) = (Secret::generate(), Secret::generate());
        let text = self.encrypt(name, &between).await?;
        let sealed = joined(&text, &wrap::seal(&between, &plain, context))?;
        Ok((plain, sealed))
    }

    pub(crate) async fn open(&self, name: &str, sealed: &[u8], context: &[u8]) -> Result<Secret> {
        let (text, wrapped) = sealed_parts(sealed)?;
        wrap::open(&self.decrypt(name, text).await?, wrapped, context)
    }

    pub(crate) async fn rewrap(
        &self,
        from: &str,
        to: &str,
        sealed: &[u8],
        context: &[u8],
    ) -> Result<Option<Vec<u8>>> {
        let (text, wrapped) = sealed_parts(sealed)?;
        if from == to && version_of(text) == self.status(to).await?.version {
            return Ok(None);
        }
        let between = self.decrypt(from, text).await?;
        // A data key that could not be opened later is not sealed again now.
        wrap::open(&between, wrapped, context)?;
        joined(&self.encrypt(to, &between).await?, wrapped).map(Some)
    }

    pub(crate) async fn rebind(&self, name: &str, sealed: &[u8], from: &[u8], to: &[u8]) -> Result<Vec<u8>> {
        let (text, wrapped) = sealed_parts(sealed)?;
        let between = self.decrypt(name, text).await?;
        joined(text, &wrap::seal(&between, &wrap::open(&between, wrapped, from)?, to))
    }

    pub(crate) async fn create(&self, name: &str) -> Result<()> {
        match self.status(name).await {
            Ok(_) => return Err(Error::Exists(name.to_owned())),
            Err(Error::Missing(_)) => {}
            Err(e) => return Err(e),
        }
        let body = json!({"type": "aes256-gcm96"});
        self.ask(Method::POST, &self.path("keys", name), name, Some(body)).await.map(|_| ())
    }

    pub(crate) async fn rotate(&self, name: &str) -> Result<u32> {
        self.status(name).await?;
        let path = self.path("keys", &format!("{name}/rotate"));
        self.ask(Method::POST, &path, name, Some(json!({}))).await?;
        Ok(self.status(name).await?.version)
    }

    pub(crate) async fn status(&self, name: &str) -> Result<KeyStatus> {
        let answer = self.ask(Method::GET, &self.path("keys", name), name, None).await?;
        let version = answer["data"]["latest_version"]
            .as_u64()
            .ok_or_else(|| odd("the field data.latest_version is missing"))?;
        let version =
            u32::try_from(version).map_err(|_| odd("the field data.latest_version is too large"))?;
        Ok(KeyStatus { name: name.to_owned(), version, created_ms: 0 })
    }

    pub(crate) async fn list(&self) -> Result<Vec<KeyStatus>> {
        let path = format!("{}/keys?list=true", self.settings.mount);
        let answer = match self.ask(Method::GET, &path, "", None).await {
            // There are no keys.
            Err(Error::Missing(_)) => return Ok(Vec::new()),
            other => other?,
        };
        let names = answer["data"]["keys"].as_array().ok_or_else(|| odd("the field data.keys is missing"))?;
        let names = names.iter().filter_map(Value::as_str);
        Ok(names.map(|n| KeyStatus { name: n.to_owned(), version: 0, created_ms: 0 }).collect())
    }
}

/// The document of an answer. Its error text is for the operator, not for a client.
fn document(answer: &Answer, name: &str) -> Result<Value> {
    let value: Value = serde_json::from_slice(&answer.body).unwrap_or(Value::Null);
    let said = || {
        let errors = value["errors"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let text: String = errors.collect::<Vec<_>>().join("; ").chars().take(200).collect();
        format!("Vault: {} {text}", answer.status.as_u16())
    };
    match answer.status {
        s if s.is_success() => Ok(value),
        StatusCode::NOT_FOUND => Err(Error::Missing(name.to_owned())),
        StatusCode::FORBIDDEN | StatusCode::UNAUTHORIZED => Err(Error::Refused(said())),
        StatusCode::BAD_REQUEST => match said() {
            text if text.contains("invalid ciphertext") || text.contains("authentication failed") => {
                Err(Error::Sealed)
            }
            text => Err(Error::Refused(text)),
        },
        _ => Err(Error::Unavailable(said())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sealed_texts() {
        let sealed = joined("vault:v3:abc", &[1, 2, 3]).ok().unwrap();
        let (text, wrapped) = sealed_parts(&sealed).ok().unwrap();
        assert_eq!((text, wrapped, version_of(text)), ("vault:v3:abc", &[1u8, 2, 3][..], 3));
        for cut in 0..14 {
            assert!(sealed_parts(&sealed[..cut]).is_err(), "{cut}");
        }
        assert_eq!(version_of("x"), 0);
    }
}
