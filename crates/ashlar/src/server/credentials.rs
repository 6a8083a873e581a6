//! Root's credentials: from the environment, from the control store, or made at the first start.
//!
//! Invariants: a secret is printed once, when it is made; known weak pairs never serve an address
//! that others can reach; nothing here logs a secret; where there is a root key of encryption, what is
//! stored is sealed under it.

use ashlar_kms::{Secret as Key, open_bytes, seal_bytes};
use ashlar_s3::{Credential, Secret};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

/// Key of the stored credentials in the control store.
pub const KEY: &str = "root";

/// Where credentials came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// The environment.
    Environment,
    /// Made at an earlier start.
    Stored,
    /// Made just now: to be printed.
    Generated,
}

/// As kept in the control store.
#[derive(Serialize, Deserialize)]
struct Stored {
    access_key: String,
    secret_key: String,
}

/// Access keys and secrets that the world knows.
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

/// Reads the environment: our names first, then MinIO's.
///
/// # Errors
/// In words: half a pair, or one that is too short.
pub fn from_environment(get: impl Fn(&str) -> Option<String>) -> Result<Option<Credential>, String> {
    for (user, password) in
        [("ASHLAR_ROOT_USER", "ASHLAR_ROOT_PASSWORD"), ("MINIO_ROOT_USER", "MINIO_ROOT_PASSWORD")]
    {
        match (get(user), get(password)) {
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

/// Whether anybody could guess the pair.
pub fn is_weak(credential: &Credential) -> bool {
    let known = |t: &str| WEAK.contains(&t.to_ascii_lowercase().as_str());
    let secret = credential.secret.expose();
    known(secret) || secret == credential.access_key
}

/// Makes a pair: 20 and 40 characters, as long as those of AWS.
pub fn generate() -> Credential {
    let mut access_key = String::from("AK");
    fill(&mut access_key, 20, b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567");
    let mut secret = String::new();
    fill(&mut secret, 40, b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_");
    Credential { access_key, secret: Secret::new(secret) }
}

/// Appends random letters of an alphabet whose size is a power of two.
fn fill(text: &mut String, len: usize, alphabet: &[u8]) {
    assert!(alphabet.len().is_power_of_two());
    let mut random = [0u8; 64];
    getrandom::fill(&mut random).expect("the operating system gives random bytes");
    let mut random = random.into_iter();
    while text.len() < len {
        let byte = random.next().expect("64 bytes are enough");
        text.push(alphabet[usize::from(byte) % alphabet.len()] as char);
    }
}

/// What stored credentials are bound to.
const CONTEXT: &[u8] = b"ashlar root credentials 1";

/// As kept in the control store where there is a root key: the bytes of [`Stored`], sealed.
#[derive(Serialize, Deserialize)]
struct Sealed {
    sealed: String,
}

/// Keeps credentials: sealed under the root key of encryption, if there is one.
#[derive(Default)]
pub struct Keeper {
    /// The root key.
    pub key: Option<Key>,
    /// The one before it.
    pub old: Option<Key>,
}

impl Keeper {
    /// The bytes to keep.
    pub fn encode(&self, credential: &Credential) -> Vec<u8> {
        let plain = encode(credential);
        let Some(key) = &self.key else { return plain };
        let sealed = Sealed { sealed: STANDARD.encode(seal_bytes(key, &plain, CONTEXT)) };
        serde_json::to_vec(&sealed).expect("a string")
    }

    /// What was kept, and whether it has to be kept anew: under this root key.
    ///
    /// # Errors
    /// In words: it is sealed under another key, or cannot be read.
    pub fn decode(&self, bytes: &[u8]) -> Result<(Credential, bool), String> {
        let unreadable = || "the stored credentials cannot be read".to_owned();
        let Ok(Sealed { sealed }) = serde_json::from_slice(bytes) else {
            return Ok((decode(bytes).ok_or_else(unreadable)?, self.key.is_some()));
        };
        let sealed = STANDARD.decode(sealed).map_err(|_| unreadable())?;
        for (key, anew) in [(&self.key, false), (&self.old, true)] {
            let opened = key.as_ref().and_then(|k| open_bytes(k, &sealed, CONTEXT).ok());
            if let Some(plain) = opened {
                return Ok((decode(&plain).ok_or_else(unreadable)?, anew));
            }
        }
        Err("root's stored credentials are sealed under another root key of encryption. Start with that one \
             (ASHLAR_KMS_ROOT_KEY_OLD, if it was replaced), or set ASHLAR_ROOT_USER and ASHLAR_ROOT_PASSWORD"
            .to_owned())
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

    #[test]
    fn generated_pairs_are_good_and_kept() {
        let pair = generate();
        assert_eq!((pair.access_key.len(), pair.secret.expose().len()), (20, 40));
        assert!(!is_weak(&pair) && check(&pair.access_key, pair.secret.expose()).is_ok());
        let again = decode(&encode(&pair)).unwrap();
        assert_eq!(
            (again.access_key, again.secret.expose()),
            (pair.access_key.clone(), pair.secret.expose())
        );
        assert_ne!(generate().access_key, pair.access_key);
        let key = |n| Some(Key::new([n; 32]));
        let plain = Keeper::default();
        let first = Keeper { key: key(1), old: None };
        let next = Keeper { key: key(2), old: key(1) };
        let secret = |c: &Credential| c.secret.expose().to_owned();
        let kept = first.encode(&pair);
        assert!(!String::from_utf8(kept.clone()).unwrap().contains(&pair.access_key));
        for (keeper, bytes, anew) in
            [(&first, &kept, false), (&next, &kept, true), (&first, &plain.encode(&pair), true)]
        {
            let (opened, again) = keeper.decode(bytes).unwrap();
            assert_eq!((secret(&opened), again), (secret(&pair), anew));
        }
        assert!(plain.decode(&kept).is_err() && Keeper { key: key(2), old: None }.decode(&kept).is_err());
    }

    #[test]
    fn the_environment_is_read_in_order() {
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
