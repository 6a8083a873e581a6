//! Secrets, and the rules for names and secrets.

use crate::seal::random;
use crate::{Error, Result};

/// A secret key. It cannot be printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Takes a secret.
    pub fn new(text: impl Into<String>) -> Secret {
        Secret(text.into())
    }

    /// The text, for signing and for the one answer that returns it.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// Shortest and longest access key, in bytes. MinIO: 3 to 20 for generated ones; names of users from
/// other systems are longer.
pub const ACCESS_KEY: std::ops::RangeInclusive<usize> = 3..=128;
/// Shortest and longest secret, in bytes.
pub const SECRET_KEY: std::ops::RangeInclusive<usize> = 8..=128;

/// Upper-case letters and digits without those that look alike.
const LETTERS: &[u8; 32] = b"ABCDEFGHJKLMNPQRSTUVWXYZ23456789";

/// A new access key: 20 characters, 100 random bits.
#[must_use]
pub fn new_access_key() -> String {
    random::<20>().iter().map(|b| char::from(LETTERS[usize::from(b % 32)])).collect()
}

/// A new secret: 40 characters, 240 random bits.
#[must_use]
pub fn new_secret() -> Secret {
    use base64::Engine as _;
    loop {
        let text = base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(random::<30>());
        // Command lines would take a secret that begins with `-` for an option.
        if text.starts_with(|c: char| c.is_ascii_alphanumeric()) {
            return Secret(text);
        }
    }
}

/// A new canonical id: 64 hexadecimal digits, as AWS's are, and 256 random bits.
pub(crate) fn new_canonical_id() -> String {
    random::<32>().iter().map(|b| format!("{b:02x}")).collect()
}

/// Whether a text looks like a canonical id, such as that of the deployment's owner.
fn is_canonical_id(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|b| b.is_ascii_hexdigit())
}

/// Refuses names that cannot be in a signature or a policy, or that look like a canonical id.
pub(crate) fn check_access_key(what: &'static str, name: &str) -> Result<()> {
    let plain = |b: u8| b.is_ascii_graphic() && !b"=,/\"\\".contains(&b);
    if !ACCESS_KEY.contains(&name.len()) || !name.bytes().all(plain) {
        return Err(Error::Invalid(format!(
            "\"{name}\" cannot be the name of a {what}: use {} to {} printable ASCII characters without \
             spaces and without = , / \" \\",
            ACCESS_KEY.start(),
            ACCESS_KEY.end()
        )));
    }
    if is_canonical_id(name) {
        return Err(Error::Invalid(format!(
            "\"{name}\" cannot be the name of a {what}: it could be taken for a canonical id"
        )));
    }
    Ok(())
}

pub(crate) fn check_secret(secret: &Secret) -> Result<()> {
    if SECRET_KEY.contains(&secret.0.len()) && secret.0.bytes().all(|b| b.is_ascii_graphic()) {
        return Ok(());
    }
    Err(Error::Invalid(format!(
        "a secret key has {} to {} printable ASCII characters without spaces",
        SECRET_KEY.start(),
        SECRET_KEY.end()
    )))
}

/// Checks the name of a group or policy: names that MinIO and AWS allow, and LDAP names for groups.
pub(crate) fn check_name(what: &'static str, name: &str, limit: usize) -> Result<()> {
    if name.is_empty() || name.len() > limit || name.trim() != name || name.chars().any(char::is_control) {
        return Err(Error::Invalid(format!(
            "\"{name}\" cannot be the name of a {what}: use 1 to {limit} bytes without control characters and \
             without spaces at the ends"
        )));
    }
    Ok(())
}
