//! Root's credentials: from the environment, from the control store, or generated at the first start.
//!
//! Invariants: a secret is printed once, when it is generated; a server with well-known credentials does not
//! listen on an address that other machines can reach; no secret is logged; stored credentials are sealed
//! under the root key or under the default key of the key server. Without either, the server generates a root
//! key of its own (`own_key`); a generated secret is never stored in clear.

use std::sync::Arc;

use ashlar_iam::{Root as Credential, Secret};
use ashlar_kms::{Error as KeyError, Kms, Secret as Key, open_bytes, seal_bytes};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

/// Key of the stored credentials in the control store.
pub(crate) const KEY: &str = "root";

/// The source of the credentials.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// The environment.
    Environment,
    /// Generated at an earlier start.
    Stored,
    /// Generated at this start; the banner prints them.
    Generated,
}

/// The stored form.
#[derive(Serialize, Deserialize)]
struct Stored {
    access_key: String,
    secret_key: String,
}

/// Well-known access keys and secrets.
const WEAK: [&str; 16] = [
    "minioadmin",
    "minio",
    "minio123",
    "miniostorage",
    "rustfsadmin",
    "admin",
    "admin123",
    "password",
    "password123",
    "administrator",
    "root",
    "root123",
    "rootroot",
    "ashlar",
    "ashlaradmin",
    "changeme",
];

/// Reads the environment: our variables first, then MinIO's.
///
/// # Errors
/// A message for the operator: only one of user and password is set, or one is too short.
pub fn from_environment(get: impl Fn(&str) -> Option<String>) -> Result<Option<Credential>, String> {
    for (user, password) in
        [("ASHLAR_ROOT_USER", "ASHLAR_ROOT_PASSWORD"), ("MINIO_ROOT_USER", "MINIO_ROOT_PASSWORD")]
    {
        match (value(&get, user)?, value(&get, password)?) {
            (None, None) => {}
            (Some(access_key), Some(secret)) => {
                check(&access_key, &secret).map_err(|why| format!("{user}, {password}: {why}"))?;
                return Ok(Some(Credential { access_key, secret: Secret::new(secret) }));
            }
            _ => return Err(format!("{user} and {password} must be set together")),
        }
    }
    Ok(None)
}

/// The value of a variable, or the first line of the file that the variable with the suffix `_FILE` names.
fn value(get: &impl Fn(&str) -> Option<String>, name: &str) -> Result<Option<String>, String> {
    let file_name = format!("{name}_FILE");
    match (get(name), get(&file_name)) {
        (Some(_), Some(_)) => Err(format!("{name} and {file_name} are both set; keep one")),
        (Some(value), None) => Ok(Some(value)),
        (None, Some(path)) => {
            let text = std::fs::read_to_string(&path).map_err(|e| format!("{file_name}: {path}: {e}"))?;
            Ok(Some(text.lines().next().unwrap_or_default().trim().to_owned()))
        }
        (None, None) => Ok(None),
    }
}

fn check(access_key: &str, secret: &str) -> Result<(), &'static str> {
    let plain = |t: &str| t.bytes().all(|b| (0x21..0x7f).contains(&b));
    if access_key.len() < 3
        || access_key.len() > 128
        || !plain(access_key)
        || access_key.contains(['/', ',', '=', ':'])
    {
        return Err("the user must have 3 to 128 printable characters, none of them / , = :");
    }
    if secret.len() < 8 || secret.len() > 256 || !plain(secret) {
        return Err("the password must have 8 to 256 printable characters without spaces");
    }
    Ok(())
}

/// Words that the most frequent passwords are made of, with digits or punctuation around them.
const COMMON: [&str; 40] = [
    "abc",
    "abcd",
    "access",
    "backup",
    "baseball",
    "changeit",
    "cloud",
    "computer",
    "default",
    "demo",
    "docker",
    "dragon",
    "football",
    "hello",
    "hunter",
    "iloveyou",
    "letmein",
    "login",
    "master",
    "monkey",
    "object",
    "passwd",
    "passw",
    "princess",
    "public",
    "qwerty",
    "secret",
    "secretkey",
    "server",
    "shadow",
    "storage",
    "sunshine",
    "superman",
    "system",
    "test",
    "testing",
    "trustno",
    "user",
    "welcome",
    "whatever",
];
/// Sequences of neighbouring keys and letters.
const ROWS: [&str; 4] = [
    "abcdefghijklmnopqrstuvwxyz",
    "01234567890123456789",
    "qwertyuiopasdfghjklzxcvbnm",
    "1q2w3e4r5t6y7u8i9o0p",
];

/// Whether the pair is easy to guess: well-known, among the most frequent passwords, or found by a simple
/// dictionary search.
pub fn is_weak(credential: &Credential) -> bool {
    let secret = credential.secret.expose().to_ascii_lowercase();
    let name = credential.access_key.to_ascii_lowercase();
    let known = |t: &str| WEAK.contains(&t) || COMMON.contains(&t) || t == name;
    // `Password1!` and `p4ssw0rd` count as `password`.
    let plain = |text: &str| -> String {
        text.chars()
            .map(|c| match c {
                '0' => 'o',
                '1' | '!' => 'i',
                '3' => 'e',
                '4' | '@' => 'a',
                '5' | '$' => 's',
                '7' => 't',
                c => c,
            })
            .collect()
    };
    let letter = |c: char| !c.is_ascii_alphabetic();
    let core = secret.trim_matches(letter);
    let half = secret.len() / 2;
    let twice =
        secret.len().is_multiple_of(2) && secret.is_char_boundary(half) && secret[..half] == secret[half..];
    let distinct = secret.chars().collect::<std::collections::BTreeSet<_>>().len();
    let digits = secret.len() <= 12 && secret.bytes().all(|b| b.is_ascii_digit());
    let rows = ROWS.iter().any(|row| {
        let back: String = row.chars().rev().collect();
        row.contains(&secret) || back.contains(&secret)
    });
    [secret.as_str(), core, &plain(&secret), &plain(core)].into_iter().any(known)
        || (twice && known(&secret[..half]))
        || distinct <= 3
        || digits
        || rows
}

/// Generates a pair of 20 and 40 characters, the lengths that AWS uses.
pub(crate) fn generate() -> Credential {
    let mut access_key = String::from("AK");
    fill(&mut access_key, 20, b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567");
    // The secret begins with a letter: command lines would take a leading `-` for an option.
    let mut secret = String::new();
    fill(&mut secret, 1, b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdef");
    fill(&mut secret, 40, b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_");
    Credential { access_key, secret: Secret::new(secret) }
}

/// Appends random letters of an alphabet whose size is a power of two.
fn fill(text: &mut String, len: usize, alphabet: &[u8]) {
    assert!(alphabet.len().is_power_of_two());
    let mut random = [0u8; 64];
    ashlar_environment::random::fill(&mut random).expect("the operating system gives random bytes");
    let mut random = random.into_iter();
    while text.len() < len {
        let byte = random.next().expect("64 bytes are enough");
        text.push(alphabet[usize::from(byte) % alphabet.len()] as char);
    }
}

/// The context that stored credentials are sealed with.
const CONTEXT: &[u8] = b"ashlar root credentials 1";

/// The stored form when keys are configured: the bytes of [`Stored`], sealed.
#[derive(Serialize, Deserialize)]
struct Sealed {
    sealed: String,
    /// The data key that they are sealed under; `None`: the root key.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    under: Option<Under>,
}

/// A data key of a key server.
#[derive(Serialize, Deserialize)]
struct Under {
    /// The named key that seals it.
    key: String,
    /// The data key, sealed.
    envelope: String,
}

/// Whether stored credentials are sealed under a root key.
pub(crate) fn is_under_root_key(bytes: &[u8]) -> bool {
    serde_json::from_slice::<Sealed>(bytes).is_ok_and(|s| s.under.is_none())
}

/// What the operator can do if sealed credentials do not open.
const OTHERWISE: &str = "or set ASHLAR_ROOT_USER and ASHLAR_ROOT_PASSWORD";

/// Stores credentials, sealed if a key is available.
#[derive(Default)]
pub(crate) struct CredentialSealer {
    /// The root key.
    pub key: Option<Key>,
    /// The previous root key, or the root key used before the key server.
    pub old: Option<Key>,
    /// The key server.
    pub kms: Option<Arc<Kms>>,
}

impl CredentialSealer {
    /// The bytes to store. Creates the default key in the key server if it does not exist.
    ///
    /// # Errors
    /// A message for the operator: the key server cannot seal now.
    pub(crate) async fn encode(&self, credential: &Credential) -> Result<Vec<u8>, String> {
        let plain = encode(credential);
        let (sealed, under) = match (&self.kms, &self.key) {
            (None, None) => return Ok(plain),
            (None, Some(key)) => (seal_bytes(key, &plain, CONTEXT), None),
            (Some(kms), _) => {
                let why = |e| {
                    format!(
                        "root's credentials cannot be sealed by the key server: {e}. Start again when it can be used, {OTHERWISE}"
                    )
                };
                let mut made = kms.generate(kms.default_key(), CONTEXT).await;
                if let Err(KeyError::Missing(_)) = made {
                    kms.ensure_default().await.map_err(why)?;
                    made = kms.generate(kms.default_key(), CONTEXT).await;
                }
                let made = made.map_err(why)?;
                let under = Under { key: made.key_id, envelope: STANDARD.encode(made.sealed) };
                (seal_bytes(&made.plain, &plain, CONTEXT), Some(under))
            }
        };
        Ok(serde_json::to_vec(&Sealed { sealed: STANDARD.encode(sealed), under }).expect("strings"))
    }

    /// Opens stored credentials; the flag says that they must be stored again, under the present key.
    ///
    /// # Errors
    /// A message for the operator: they are sealed under another key, the key server does not open them, or
    /// the bytes are invalid.
    pub(crate) async fn decode(&self, bytes: &[u8]) -> Result<(Credential, bool), String> {
        let unreadable = || "the stored credentials cannot be read".to_owned();
        let Ok(Sealed { sealed, under }) = serde_json::from_slice(bytes) else {
            let anew = self.key.is_some() || self.kms.is_some();
            return Ok((decode(bytes).ok_or_else(unreadable)?, anew));
        };
        let sealed = STANDARD.decode(sealed).map_err(|_| unreadable())?;
        if let Some(under) = under {
            let envelope = STANDARD.decode(&under.envelope).map_err(|_| unreadable())?;
            let Some(kms) = &self.kms else {
                return Err(format!(
                    "root's stored credentials are sealed under the key \"{}\" of a key server. Start with it, {OTHERWISE}",
                    under.key
                ));
            };
            let opened = match kms.open(&under.key, &envelope, CONTEXT).await {
                Ok(key) => open_bytes(&key, &sealed, CONTEXT),
                Err(e) => Err(e),
            };
            let plain = opened.map_err(|e| {
                format!(
                    "root's stored credentials are sealed under the key \"{}\" of the key server: {e}. Start again when it can be used, {OTHERWISE}",
                    under.key
                )
            })?;
            return Ok((decode(&plain).ok_or_else(unreadable)?, under.key != kms.default_key()));
        }
        for (key, anew) in [(&self.key, false), (&self.old, true)] {
            let opened = key.as_ref().and_then(|k| open_bytes(k, &sealed, CONTEXT).ok());
            if let Some(plain) = opened {
                return Ok((decode(&plain).ok_or_else(unreadable)?, anew));
            }
        }
        Err(format!(
            "root's stored credentials are sealed under another root key of encryption. Start with that one \
             (ASHLAR_KMS_ROOT_KEY_OLD, if it was replaced), {OTHERWISE}"
        ))
    }
}

/// The bytes in clear.
fn encode(credential: &Credential) -> Vec<u8> {
    let stored = Stored {
        access_key: credential.access_key.clone(),
        secret_key: credential.secret.expose().to_owned(),
    };
    serde_json::to_vec(&stored).expect("two strings")
}

/// The inverse of [`encode`].
fn decode(bytes: &[u8]) -> Option<Credential> {
    let stored: Stored = serde_json::from_slice(bytes).ok()?;
    Some(Credential { access_key: stored.access_key, secret: Secret::new(stored.secret_key) })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A key server with named keys.
    async fn keys() -> Arc<Kms> {
        let deployment = ashlar_format::DeploymentId([3; 16]);
        let media = ashlar_cluster::MemoryMedium::one_drive();
        let control =
            ashlar_cluster::Embedded::create(deployment, media, Vec::new()).await.unwrap().control();
        let driver = ashlar_kms::Builtin::open_keys(control, Key::new([7; 32]), None, || 0).await;
        Arc::new(Kms::builtin(driver.ok().unwrap(), "main").await.ok().unwrap())
    }

    #[tokio::test]
    async fn generated_credentials_are_strong_and_stored() {
        let pair = generate();
        assert_eq!((pair.access_key.len(), pair.secret.expose().len()), (20, 40));
        assert!(!is_weak(&pair) && check(&pair.access_key, pair.secret.expose()).is_ok());
        let again = decode(&encode(&pair)).unwrap();
        assert_eq!(
            (again.access_key, again.secret.expose()),
            (pair.access_key.clone(), pair.secret.expose())
        );
        assert_ne!(generate().access_key, pair.access_key);
        for _ in 0..1000 {
            assert!(generate().secret.expose().starts_with(|c: char| c.is_ascii_alphabetic()));
        }
        let key = |n| Some(Key::new([n; 32]));
        let plain = CredentialSealer::default();
        let first = CredentialSealer { key: key(1), ..CredentialSealer::default() };
        let next = CredentialSealer { key: key(2), old: key(1), kms: None };
        let server = CredentialSealer { key: None, old: key(1), kms: Some(keys().await) };
        let stranger = CredentialSealer { kms: Some(keys().await), ..CredentialSealer::default() };
        let secret = |c: &Credential| c.secret.expose().to_owned();
        let clear = plain.encode(&pair).await.unwrap();
        let kept = first.encode(&pair).await.unwrap();
        let away = server.encode(&pair).await.unwrap();
        for sealed in [&kept, &away] {
            let text = String::from_utf8(sealed.clone()).unwrap();
            assert!(!text.contains(&pair.access_key) && !text.contains(pair.secret.expose()));
        }
        for (sealer, bytes, anew) in [
            (&first, &kept, false),
            (&next, &kept, true),
            (&first, &clear, true),
            (&plain, &clear, false),
            (&server, &away, false),
            (&server, &clear, true),
            // From a root key to a key server.
            (&server, &kept, true),
        ] {
            let (opened, again) = sealer.decode(bytes).await.unwrap();
            assert_eq!((secret(&opened), again), (secret(&pair), anew));
        }
        let second = CredentialSealer { key: key(2), ..CredentialSealer::default() };
        for (sealer, bytes) in
            [(&plain, &kept), (&second, &kept), (&plain, &away), (&first, &away), (&stranger, &away)]
        {
            let why = sealer.decode(bytes).await.err().unwrap();
            assert!(why.contains("ASHLAR_ROOT_PASSWORD") && !why.contains(pair.secret.expose()), "{why}");
        }
    }

    /// The most frequent passwords, such as 12345678 and password1.
    #[test]
    fn frequent_passwords_are_weak() {
        let weak = |key: &str, secret: &str| {
            is_weak(&Credential { access_key: key.into(), secret: Secret::new(secret) })
        };
        for secret in [
            "12345678",
            "123456789012",
            "password1",
            "Password1!",
            "p4ssw0rd",
            "P@ssw0rd",
            "passw0rd123",
            "minioadmin",
            "minioadmin1",
            "MinioAdmin!",
            "admin1234",
            "adminadmin",
            "qwertyui",
            "qwertyuiop",
            "aaaaaaaa",
            "abababab",
            "abcdefgh",
            "87654321",
            "1q2w3e4r",
            "changeme1",
            "secret123",
            "letmein!!",
            "testtest",
            "storage2024",
            "operator",
            "operator1",
            "operatoroperator",
        ] {
            assert!(weak("operator", secret), "{secret}");
        }
        for secret in [
            "correct-horse-battery",
            "Tr0ub4dor&3x",
            "wJalrXUtnFEMI/K7MDENG",
            "lagerhaus-7-nord",
            "kq7vZp2mXw",
        ] {
            assert!(!weak("operator", secret), "{secret}");
        }
    }

    #[test]
    fn credentials_are_read_from_files() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).display().to_string();
        std::fs::write(path("user"), "someone\n").unwrap();
        std::fs::write(path("password"), "long-enough-secret\n").unwrap();
        let get = |name: &str| match name {
            "MINIO_ROOT_USER_FILE" => Some(path("user")),
            "MINIO_ROOT_PASSWORD_FILE" => Some(path("password")),
            _ => None,
        };
        let pair = from_environment(get).unwrap().unwrap();
        assert_eq!((pair.access_key.as_str(), pair.secret.expose()), ("someone", "long-enough-secret"));
        let twice = |name: &str| (name == "MINIO_ROOT_USER").then(|| "x".to_owned()).or_else(|| get(name));
        assert!(from_environment(twice).err().unwrap().contains("both set"));
        let missing = |name: &str| (name == "ASHLAR_ROOT_PASSWORD_FILE").then(|| path("none"));
        assert!(from_environment(missing).err().unwrap().contains("ASHLAR_ROOT_PASSWORD_FILE"));
    }

    #[test]
    fn environment_variables_have_precedence() {
        let env = |pairs: &'static [(&'static str, &'static str)]| {
            move |name: &str| pairs.iter().find(|(n, _)| *n == name).map(|(_, v)| (*v).to_owned())
        };
        assert!(from_environment(env(&[])).unwrap().is_none());
        let minio = from_environment(env(&[
            ("MINIO_ROOT_USER", "minioadmin"),
            ("MINIO_ROOT_PASSWORD", "minioadmin"),
        ]));
        assert!(is_weak(&minio.unwrap().unwrap()));
        assert!(from_environment(env(&[("ASHLAR_ROOT_USER", "abc")])).is_err());
        assert!(
            from_environment(env(&[("ASHLAR_ROOT_USER", "abc"), ("ASHLAR_ROOT_PASSWORD", "short")])).is_err()
        );
        let ours = from_environment(env(&[
            ("ASHLAR_ROOT_USER", "abc"),
            ("ASHLAR_ROOT_PASSWORD", "long enough?no"),
            ("MINIO_ROOT_USER", "x"),
        ]));
        assert!(ours.is_err(), "a space");
    }
}
