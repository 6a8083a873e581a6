//! The configuration of key servers, HashiCorp Vault and MinIO KES, from our settings and from MinIO's.
//!
//! Invariants: a setting that cannot be used is an error that names the setting; no error contains a secret.
//!
//! Must not depend on: how keys seal.

use std::path::Path;

use ashlar_kms::{Kes, KesSettings, Kms, Vault, VaultSettings, kes_identity};
use ashlar_outbound::tls::Identity;
use ashlar_outbound::{Outbound, Rules};

use super::kms::describe;
use ashlar_arguments::expand::expand;

/// Maximum number of certificate files that are read from a folder.
const AUTHORITIES: usize = 256;
/// Maximum size in bytes of an answer: older versions of KES return the list of keys in one page.
const ANSWER: usize = 8 << 20;
/// MinIO's settings for KES that have no meaning without its address.
const MINIO: [&str; 6] = [
    "MINIO_KMS_KES_KEY_NAME",
    "MINIO_KMS_KES_API_KEY",
    "MINIO_KMS_KES_CERT_FILE",
    "MINIO_KMS_KES_KEY_FILE",
    "MINIO_KMS_KES_CAPATH",
    "MINIO_KMS_KES_ENCLAVE",
];

/// Opens the key service over Vault.
pub fn vault(
    endpoint: &str,
    key: Option<&str>,
    variable: &impl Fn(&str) -> Option<String>,
) -> Result<Kms, String> {
    let get = |name: &str| variable(name).unwrap_or_default();
    let settings = VaultSettings {
        endpoint: endpoint.to_owned(),
        mount: variable("ASHLAR_KMS_VAULT_MOUNT").unwrap_or_else(|| "transit".to_owned()),
        namespace: get("ASHLAR_KMS_VAULT_NAMESPACE"),
        token: get("ASHLAR_KMS_VAULT_TOKEN").into(),
        role: (get("ASHLAR_KMS_VAULT_ROLE_ID"), get("ASHLAR_KMS_VAULT_SECRET_ID").into()),
    };
    let authorities = match variable("ASHLAR_KMS_VAULT_CA") {
        None => Vec::new(),
        Some(path) => vec![std::fs::read(&path).map_err(|e| format!("ASHLAR_KMS_VAULT_CA: {e}"))?],
    };
    let driver = Vault::new(settings, outbound(authorities, None)?).map_err(describe)?;
    let key = key.unwrap_or(super::kms::DEFAULT_KEY);
    tracing::info!(endpoint, key, "encryption: keys are in Vault");
    Kms::vault(driver, key).map_err(describe)
}

/// The settings of outgoing connections. The operator named the address, which may be on this machine.
fn outbound(authorities: Vec<Vec<u8>>, identity: Option<Identity>) -> Result<Outbound, String> {
    let rules = Rules { allow_loopback: true, authorities, identity, max_body: ANSWER, ..Rules::default() };
    Outbound::new(rules).map_err(|e| format!("encryption: {e}"))
}

/// The addresses of KES: `given`, or MinIO's setting; empty if KES is not configured.
///
/// # Errors
/// A message for the operator: invalid addresses, or settings for KES without its address.
pub fn kes_endpoints(
    given: &[String],
    variable: &impl Fn(&str) -> Option<String>,
) -> Result<Vec<String>, String> {
    let minio = variable("MINIO_KMS_KES_ENDPOINT").unwrap_or_default();
    let given = given.iter().map(String::as_str);
    let mut named: Vec<String> = given.filter(|e| !e.trim().is_empty()).map(str::to_owned).collect();
    if named.is_empty() {
        let parts = minio.split(',').map(str::trim).filter(|e| !e.is_empty());
        named = parts.map(str::to_owned).collect();
    }
    if named.is_empty()
        && let Some(name) = MINIO.iter().find(|n| variable(n).is_some())
    {
        return Err(format!("encryption: {name} is set, and no address of KES (MINIO_KMS_KES_ENDPOINT)"));
    }
    expand(&named).map_err(|e| format!("encryption: KES: {}", e.replace("the drive", "the server")))
}

/// Opens the key service over KES.
///
/// # Errors
/// A message for the operator: the configuration is invalid.
pub fn kes(
    endpoints: Vec<String>,
    key: Option<&str>,
    variable: &impl Fn(&str) -> Option<String>,
) -> Result<Kms, String> {
    for name in ["MINIO_KMS_KES_KEY_PASSWORD", "MINIO_KMS_KES_ENCLAVE"] {
        if variable(name).is_some() {
            return Err(format!(
                "encryption: {name} is set; keys with a password and enclaves are not supported (take the password off the key with `openssl pkey`)"
            ));
        }
    }
    // The name of the variable that is set, for messages, and its value.
    let either = |tail: &str| {
        let names = [format!("ASHLAR_KMS_KES_{tail}"), format!("MINIO_KMS_KES_{tail}")];
        names.into_iter().find_map(|name| variable(&name).map(|value| (name, value)))
    };
    let (identity, name) = match (either("API_KEY"), either("CERT_FILE"), either("KEY_FILE")) {
        (Some((name, text)), None, None) => {
            kes_identity(&text).map_err(|e| format!("encryption: {name}: {e}"))?
        }
        (None, Some(certificates), Some(key)) => {
            let read = |(name, path): (String, String)| {
                std::fs::read(&path).map_err(|e| format!("encryption: {name}: {path}: {e}"))
            };
            let key_name = key.0.clone();
            let identity = Identity { certificates: read(certificates)?, key: read(key)? };
            if identity.key.windows(9).any(|w| w == b"ENCRYPTED") {
                return Err(format!(
                    "encryption: {key_name}: the key has a password; take it off with `openssl pkey`"
                ));
            }
            (identity, String::new())
        }
        _ => {
            return Err("encryption: KES: give either ASHLAR_KMS_KES_API_KEY, or both \
                        ASHLAR_KMS_KES_CERT_FILE and ASHLAR_KMS_KES_KEY_FILE (or MinIO's MINIO_KMS_KES_...)"
                .to_owned());
        }
    };
    let ca = variable("ASHLAR_KMS_KES_CA").map(|path| ("ASHLAR_KMS_KES_CA", path));
    let ca = ca.or(variable("MINIO_KMS_KES_CAPATH").map(|path| ("MINIO_KMS_KES_CAPATH", path)));
    let authorities = match ca {
        None => Vec::new(),
        Some((name, path)) => {
            authorities(Path::new(&path)).map_err(|e| format!("encryption: {name}: {path}: {e}"))?
        }
    };
    let web = outbound(authorities, Some(identity))?;
    let minio = variable("MINIO_KMS_KES_KEY_NAME");
    let key = key.or(minio.as_deref()).unwrap_or(super::kms::DEFAULT_KEY);
    tracing::info!(endpoints = endpoints.join(","), key, identity = name, "encryption: keys are in KES");
    Kms::kes(Kes::new(KesSettings { endpoints, identity: name }, web).map_err(describe)?, key)
        .map_err(describe)
}

/// The certificates in a file, or in all files of a folder.
fn authorities(path: &Path) -> Result<Vec<Vec<u8>>, String> {
    let io_error = |e: std::io::Error| e.to_string();
    if !std::fs::metadata(path).map_err(io_error)?.is_dir() {
        return Ok(vec![std::fs::read(path).map_err(io_error)?]);
    }
    let mut found = Vec::new();
    for (n, entry) in std::fs::read_dir(path).map_err(io_error)?.enumerate() {
        if n == AUTHORITIES {
            return Err(format!("more than {AUTHORITIES} files"));
        }
        let path = entry.map_err(io_error)?.path();
        if std::fs::metadata(&path).is_ok_and(|m| m.is_file()) {
            let bytes = std::fs::read(&path).map_err(io_error)?;
            if bytes.windows(27).any(|w| w == b"-----BEGIN CERTIFICATE-----") {
                found.push(bytes);
            }
        }
    }
    if found.is_empty() {
        return Err("no certificate in the folder".to_owned());
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    const API_KEY: &str = "kes:v1:AGtra2tra2tra2tra2tra2tra2tra2tra2tra2tra2tr";

    fn with(pairs: &[(&str, &str)], given: &[&str]) -> Result<(String, String), String> {
        let variable = |name: &str| {
            pairs.iter().find(|(n, _)| *n == name).map(|(_, v)| (*v).to_owned()).filter(|v| !v.is_empty())
        };
        let given: Vec<String> = given.iter().map(|t| (*t).to_owned()).collect();
        let endpoints = kes_endpoints(&given, &variable)?;
        if endpoints.is_empty() {
            return Ok(Default::default());
        }
        let kms = kes(endpoints, None, &variable)?;
        Ok((kms.describe().1, kms.default_key().to_owned()))
    }

    #[test]
    fn settings_of_kes() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        let ca = rcgen::generate_simple_self_signed(["a".to_owned()]).unwrap();
        std::fs::write(at("ca"), ca.cert.pem()).unwrap();
        std::fs::write(at("key"), ca.signing_key.serialize_pem()).unwrap();
        std::fs::write(at("locked"), "-----BEGIN ENCRYPTED PRIVATE KEY-----").unwrap();
        std::fs::create_dir(at("empty")).unwrap();
        let (ca, key, all, empty) = (at("ca"), at("key"), folder.path().to_str().unwrap(), at("empty"));
        let api = ("ASHLAR_KMS_KES_API_KEY", API_KEY);

        assert_eq!(with(&[], &[]).unwrap().0, "", "not configured");
        let one = with(&[api, ("ASHLAR_KMS_KES_CA", &ca)], &["https://a:7373"]).unwrap();
        assert_eq!(one, ("https://a:7373".to_owned(), "ashlar".to_owned()));
        let minio = with(
            &[
                ("MINIO_KMS_KES_ENDPOINT", "https://kes{1...2}:7373, https://b:1"),
                ("MINIO_KMS_KES_KEY_NAME", "mine"),
                ("MINIO_KMS_KES_CERT_FILE", &ca),
                ("MINIO_KMS_KES_KEY_FILE", &key),
                ("MINIO_KMS_KES_CAPATH", all),
            ],
            &[],
        );
        let all_three = "https://kes1:7373,https://kes2:7373,https://b:1";
        assert_eq!(minio.unwrap(), (all_three.to_owned(), "mine".to_owned()));

        let locked = at("locked");
        for (pairs, says) in [
            (&[][..], "API_KEY"),
            (&[api, ("MINIO_KMS_KES_CERT_FILE", &ca), ("MINIO_KMS_KES_KEY_FILE", &key)], "either"),
            (&[("MINIO_KMS_KES_CERT_FILE", &ca)], "either"),
            (&[("MINIO_KMS_KES_API_KEY", "kes:v1:secret")], "MINIO_KMS_KES_API_KEY"),
            (&[("MINIO_KMS_KES_CERT_FILE", &ca), ("MINIO_KMS_KES_KEY_FILE", &locked)], "password"),
            (&[("MINIO_KMS_KES_CERT_FILE", &ca), ("MINIO_KMS_KES_KEY_FILE", &ca)], "client certificate"),
            (&[api, ("MINIO_KMS_KES_KEY_PASSWORD", "x")], "MINIO_KMS_KES_KEY_PASSWORD"),
            (&[api, ("MINIO_KMS_KES_ENCLAVE", "x")], "MINIO_KMS_KES_ENCLAVE"),
            (&[api, ("MINIO_KMS_KES_CAPATH", "/nowhere")], "MINIO_KMS_KES_CAPATH"),
            (&[api, ("MINIO_KMS_KES_CAPATH", &empty)], "no certificate"),
            (&[api, ("ASHLAR_KMS_KES_CA", &key)], "no certificate"),
            (&[api, ("ASHLAR_KMS_KES_CA", &ca), ("MINIO_KMS_KES_KEY_NAME", "a/b")], "name of a key"),
        ] {
            let why = with(pairs, &["https://a:7373"]).expect_err(says);
            assert!(why.contains(says) && !why.contains("v1:secret"), "{says}: {why}");
        }
        let api = [api, ("ASHLAR_KMS_KES_CA", ca.as_str())];
        for (given, says) in [
            (&["https://a", "https://a"][..], "named twice"),
            (&["https://a{1..2}"], "range"),
            (&["http://a:7373"], "https://"),
        ] {
            let why = with(&api, given).expect_err(says);
            assert!(why.contains(says) && !why.contains("drive"), "{why}");
        }
        // Without its address, settings for KES are an error: otherwise objects would be stored in clear.
        assert!(with(&[("MINIO_KMS_KES_API_KEY", API_KEY)], &[]).unwrap_err().contains("ENDPOINT"));
    }
}
