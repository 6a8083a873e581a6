//! The root key, which seals the named keys in the control store.
//!
//! Three forms, of which at most one may be given: 32 bytes as base64, hexadecimal digits or raw in a file;
//! the same as text; MinIO's `name:base64`, which names the default key too. A file that other users can read
//! is refused. The file may be sealed under a passphrase (`sealed_root`). Neither a TPM nor a smart card is
//! supported, so the root key is not bound to the machine.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use zeroize::Zeroize;

use crate::{Error, Result, Secret, check_name, sealed_root};

/// A root key and the name of the key that MinIO's form gives.
pub struct Root {
    /// Seals the named keys.
    pub key: Secret,
    /// MinIO's form only: the name of the default key.
    pub default: Option<String>,
    /// Its source, for people.
    pub origin: &'static str,
}

fn wrong(origin: &str) -> Error {
    Error::Invalid(format!(
        "{origin}: a root key is 32 bytes, as base64 (44 characters) or as 64 hexadecimal digits"
    ))
}

/// Reads 32 bytes as text.
fn parse(text: &str, origin: &str) -> Result<Secret> {
    let text = text.trim();
    let bytes = match text.len() {
        64 => hex::decode(text).ok(),
        _ => STANDARD.decode(text).ok(),
    };
    let key = bytes.and_then(Secret::take).ok_or_else(|| wrong(origin))?;
    if key.expose().iter().all(|b| *b == key.expose()[0]) {
        return Err(Error::Invalid(format!("{origin}: all bytes of the key are the same")));
    }
    Ok(key)
}

fn from_file(path: &Path, passphrase: impl Fn() -> Result<Option<String>>) -> Result<Secret> {
    use std::os::unix::fs::PermissionsExt as _;
    let origin = path.display().to_string();
    let unreadable =
        |e: std::io::Error| Error::Invalid(format!("the root key in {origin} cannot be read: {e}"));
    let found = std::fs::metadata(path).map_err(unreadable)?;
    if found.permissions().mode() & 0o077 != 0 {
        return Err(Error::Invalid(format!(
            "others may read {origin}: make the root key readable by its owner only (chmod 600)"
        )));
    }
    if found.len() > 1024 {
        return Err(wrong(&origin));
    }
    let mut bytes = std::fs::read(path).map_err(unreadable)?;
    if bytes.len() == 32 {
        return Secret::take(bytes).ok_or_else(|| wrong(&origin));
    }
    let key = match std::str::from_utf8(&bytes) {
        Ok(text) if text.starts_with(sealed_root::HEAD) => {
            let mut passphrase = passphrase()?.ok_or_else(|| {
                Error::Invalid(format!(
                    "{origin} is sealed: give its passphrase in ASHLAR_KMS_ROOT_KEY_PASSPHRASE, or a file with it in \
                     ASHLAR_KMS_ROOT_KEY_PASSPHRASE_FILE"
                ))
            })?;
            let key = sealed_root::open_root(text, &passphrase);
            passphrase.zeroize();
            key
        }
        Ok(text) => parse(text, &origin),
        Err(_) => Err(wrong(&origin)),
    };
    bytes.zeroize();
    key
}

/// The passphrase of a sealed root key: from a variable, or from the first line of a file that a variable
/// names.
///
/// # Errors
/// [`Error::Invalid`]: both are set, or the file cannot be read.
pub fn passphrase_from(variable: impl Fn(&str) -> Option<String>) -> Result<Option<String>> {
    let get = |name: &str| variable(name).filter(|v| !v.is_empty());
    match (get("ASHLAR_KMS_ROOT_KEY_PASSPHRASE"), get("ASHLAR_KMS_ROOT_KEY_PASSPHRASE_FILE")) {
        (Some(_), Some(_)) => Err(Error::Invalid(
            "a passphrase is given twice: keep one of ASHLAR_KMS_ROOT_KEY_PASSPHRASE and \
             ASHLAR_KMS_ROOT_KEY_PASSPHRASE_FILE"
                .to_owned(),
        )),
        (given, None) => Ok(given),
        (None, Some(path)) => {
            let text = std::fs::read_to_string(&path)
                .map_err(|e| Error::Invalid(format!("the passphrase in {path} cannot be read: {e}")))?;
            Ok(text.lines().next().map(str::to_owned))
        }
    }
}

/// The root key from a file, or else from variables of the environment (`variable` reads one). `None`: there
/// is none.
///
/// # Errors
/// [`Error::Invalid`]: two forms at once, or one that cannot be used. No form is ignored silently.
pub fn root_from(file: Option<&Path>, variable: impl Fn(&str) -> Option<String>) -> Result<Option<Root>> {
    let get = |name: &str| variable(name).filter(|v| !v.is_empty());
    let text = get("ASHLAR_KMS_ROOT_KEY");
    let minio = get("MINIO_KMS_SECRET_KEY");
    let minio_file = get("MINIO_KMS_SECRET_KEY_FILE");
    let given = [file.is_some(), text.is_some(), minio.is_some(), minio_file.is_some()];
    if given.iter().filter(|g| **g).count() > 1 {
        return Err(Error::Invalid(
            "more than one root key is given: keep one of --kms-root-key-file, ASHLAR_KMS_ROOT_KEY, \
             MINIO_KMS_SECRET_KEY and MINIO_KMS_SECRET_KEY_FILE"
                .to_owned(),
        ));
    }
    let named = |text: &str, origin: &'static str| {
        let (name, key) = text.trim().split_once(':').ok_or_else(|| {
            Error::Invalid(format!("{origin}: must be NAME:BASE64, with the base64 of 32 bytes"))
        })?;
        check_name(name)?;
        Ok(Root { key: parse(key, origin)?, default: Some(name.to_owned()), origin })
    };
    if let Some(path) = file {
        return Ok(Some(Root {
            key: from_file(path, || passphrase_from(&variable))?,
            default: None,
            origin: "a file",
        }));
    }
    if let Some(mut text) = text {
        let key = parse(&text, "ASHLAR_KMS_ROOT_KEY");
        text.zeroize();
        return Ok(Some(Root { key: key?, default: None, origin: "ASHLAR_KMS_ROOT_KEY" }));
    }
    if let Some(path) = minio_file {
        let text = std::fs::read_to_string(&path)
            .map_err(|e| Error::Invalid(format!("the root key in {path} cannot be read: {e}")))?;
        return named(&text, "MINIO_KMS_SECRET_KEY_FILE").map(Some);
    }
    minio.map(|text| named(&text, "MINIO_KMS_SECRET_KEY")).transpose()
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE64: &str = "AQIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0eHyA=";

    fn with(pairs: &[(&str, &str)]) -> Result<Option<Root>> {
        root_from(None, |n| pairs.iter().find(|(k, _)| *k == n).map(|(_, v)| (*v).to_owned()))
    }

    #[test]
    fn root_key_is_read_in_all_forms() {
        assert!(with(&[]).ok().unwrap().is_none());
        let key = with(&[("ASHLAR_KMS_ROOT_KEY", BASE64)]).ok().unwrap().unwrap();
        assert_eq!(key.key.expose()[31], 32);
        let hex: String = (1..=32).map(|i| format!("{i:02x}")).collect();
        let other = with(&[("ASHLAR_KMS_ROOT_KEY", &hex)]).ok().unwrap().unwrap();
        assert_eq!(other.key.expose(), key.key.expose());
        let minio = with(&[("MINIO_KMS_SECRET_KEY", &format!("my-key:{BASE64}"))]).ok().unwrap().unwrap();
        assert_eq!((minio.key.expose(), minio.default.as_deref()), (key.key.expose(), Some("my-key")));
        let zeros = STANDARD.encode([0; 32]);
        for bad in ["", "x", "AQID", BASE64, ":", &format!("a/b:{BASE64}"), &format!("a:{zeros}")] {
            let pair = [("MINIO_KMS_SECRET_KEY", bad)];
            assert!(bad.is_empty() == with(&pair).is_ok(), "{bad}");
        }
        assert!(with(&[("ASHLAR_KMS_ROOT_KEY", BASE64), ("MINIO_KMS_SECRET_KEY", "a:b")]).is_err());
    }

    #[test]
    fn key_file_readable_by_others_is_refused() {
        use std::os::unix::fs::PermissionsExt as _;
        let path = std::env::temp_dir().join(format!("ashlar-root-{}", std::process::id()));
        std::fs::write(&path, BASE64).unwrap();
        let mode = |m| std::fs::set_permissions(&path, std::fs::Permissions::from_mode(m)).unwrap();
        mode(0o644);
        assert!(root_from(Some(&path), |_| None).is_err());
        mode(0o600);
        assert!(root_from(Some(&path), |_| None).ok().unwrap().is_some());
        // A sealed file needs its passphrase.
        let key = Secret::generate();
        std::fs::write(&path, sealed_root::seal_root(&key, "a long passphrase").ok().unwrap()).unwrap();
        assert!(root_from(Some(&path), |_| None).err().unwrap().to_string().contains("is sealed"));
        let with =
            |name: &'static str, value: &'static str| move |n: &str| (n == name).then(|| value.to_owned());
        let named = with("ASHLAR_KMS_ROOT_KEY_PASSPHRASE", "a long passphrase");
        assert_eq!(root_from(Some(&path), named).ok().unwrap().unwrap().key.expose(), key.expose());
        assert!(
            root_from(Some(&path), with("ASHLAR_KMS_ROOT_KEY_PASSPHRASE", "another passphrase")).is_err()
        );
        assert!(root_from(Some(&path), with("ASHLAR_KMS_ROOT_KEY_PASSPHRASE_FILE", "/nowhere")).is_err());
        std::fs::remove_file(&path).unwrap();
    }
}
