//! Settings of targets, with MinIO's names and values.
//!
//! Invariants: a setting that asks for something that is not implemented is refused with an error that names
//! it, never ignored; no error contains a value.

use std::collections::BTreeMap;

use ashlar_outbound::tls::{self, Identity};
use ashlar_outbound::{Class, Rules, is_allowed};
use rustls::ClientConfig;
use std::sync::Arc;
use std::time::Duration;

use crate::{Kind, TargetId, wire};

/// Names and values.
pub type Values = BTreeMap<String, String>;

/// Time for an HTTP request.
const TIMEOUT: Duration = Duration::from_secs(10);

/// A target that is configured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Configured {
    /// The name of the target.
    pub id: TargetId,
    /// Its settings.
    pub values: Values,
}

impl Configured {
    /// Whether the target is enabled.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.values.get("enable").is_none_or(|v| is_yes(v))
    }
}

/// How a target that is a database stores events (MinIO's setting `format`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// One entry per key, with its current state.
    Namespace,
    /// One entry per event.
    Access,
}

impl Format {
    /// Parses the value of the setting.
    pub fn parse(text: &str) -> Result<Format, String> {
        match text {
            "namespace" => Ok(Format::Namespace),
            "access" => Ok(Format::Access),
            _ => Err("format must be \"namespace\" or \"access\"".into()),
        }
    }
}

/// The settings of one target.
pub struct Settings<'a> {
    /// Names and values.
    pub values: &'a Values,
    /// Certificates in PEM that the operator trusts besides the system's.
    pub authorities: &'a [Vec<u8>],
}

fn is_yes(text: &str) -> bool {
    ["on", "true", "1", "yes", "enable", "enabled"].contains(&text.to_ascii_lowercase().as_str())
}

impl Settings<'_> {
    /// The value of a setting; `None` if it is missing or empty.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(|v| v.trim()).filter(|v| !v.is_empty())
    }

    /// The value of a required setting.
    ///
    /// # Errors
    /// The setting is missing.
    pub fn need(&self, name: &str) -> Result<&str, String> {
        self.get(name).ok_or_else(|| format!("{name} is missing"))
    }

    /// Whether it is switched on.
    #[must_use]
    pub fn on(&self, name: &str) -> bool {
        self.get(name).is_some_and(is_yes)
    }

    /// The value of a setting as a number.
    ///
    /// # Errors
    /// The value is not a number.
    pub fn number(&self, name: &str, default: u64) -> Result<u64, String> {
        match self.get(name) {
            None => Ok(default),
            Some(text) => text.parse().map_err(|_| format!("{name} is not a number")),
        }
    }

    /// Refuses settings that this release does not implement.
    ///
    /// # Errors
    /// One of them is set.
    pub fn refuse(&self, names: &[&str]) -> Result<(), String> {
        match names.iter().find(|n| self.get(n).is_some_and(|v| v != "off" && v != "false")) {
            Some(name) => Err(format!("{name} is not implemented by this release")),
            None => Ok(()),
        }
    }

    /// The setting `format`.
    ///
    /// # Errors
    /// It has another value.
    pub(crate) fn format(&self) -> Result<Format, String> {
        Format::parse(self.get("format").unwrap_or("namespace"))
    }

    fn file(&self, name: &str) -> Result<Option<Vec<u8>>, String> {
        let path = self.get(name);
        let read = |p: &str| tls::read_file(p.as_ref()).map_err(|e| format!("{name}: {e}"));
        path.map(read).transpose()
    }

    /// The client certificate, under any of the names that subsystems have for it.
    fn identity(&self) -> Result<Option<Identity>, String> {
        for (cert, key) in [("client_cert", "client_key"), ("client_tls_cert", "client_tls_key")] {
            match (self.file(cert)?, self.file(key)?) {
                (Some(certificates), Some(key)) => return Ok(Some(Identity { certificates, key })),
                (None, None) => {}
                _ => return Err(format!("{cert} and {key} must be given together")),
            }
        }
        Ok(None)
    }

    fn trusted(&self) -> Result<Vec<Vec<u8>>, String> {
        // An authority that is named for this target replaces the others.
        match self.file("cert_authority")? {
            Some(one) => Ok(vec![one]),
            None => Ok(self.authorities.to_vec()),
        }
    }

    /// The configuration of TLS, if `wanted`.
    ///
    /// # Errors
    /// Certificates cannot be read.
    pub(crate) fn tls_if(&self, wanted: bool) -> Result<Option<Arc<ClientConfig>>, String> {
        if !wanted {
            return Ok(None);
        }
        let identity = self.identity()?;
        wire::config(&self.trusted()?, self.on("tls_skip_verify"), identity.as_ref()).map(Some)
    }

    /// The rules for HTTP requests to this target.
    ///
    /// # Errors
    /// Certificates cannot be read.
    pub(crate) fn rules(&self) -> Result<Rules, String> {
        Ok(Rules {
            allow_loopback: is_allowed(Class::Loopback),
            allow_link_local: is_allowed(Class::LinkLocal),
            authorities: self.trusted()?,
            identity: self.identity()?,
            timeout: TIMEOUT,
            max_body: 256 * 1024,
            ..Rules::default()
        })
    }
}

/// A part of a URL, decoded.
pub(crate) fn percent_decoded(text: &str) -> Result<String, String> {
    let bad = || "the URL is not understood".to_owned();
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(b) = bytes.next() {
        if b != b'%' {
            out.push(b);
            continue;
        }
        let pair = [bytes.next().ok_or_else(bad)?, bytes.next().ok_or_else(bad)?];
        let pair = std::str::from_utf8(&pair).map_err(|_| bad())?;
        out.push(u8::from_str_radix(pair, 16).map_err(|_| bad())?);
    }
    String::from_utf8(out).map_err(|_| bad())
}

/// Targets that environment variables configure: `MINIO_NOTIFY_WEBHOOK_ENABLE_1=on`,
/// `MINIO_NOTIFY_WEBHOOK_ENDPOINT_1=...`, or `ASHLAR_NOTIFY_...`. `names`: the settings of a kind.
///
/// # Errors
/// A variable names a setting that the kind does not have.
pub fn from_environment(
    environment: &[(String, String)],
    names: impl Fn(Kind) -> Vec<&'static str>,
) -> Result<Vec<Configured>, String> {
    let mut all: BTreeMap<TargetId, Values> = BTreeMap::new();
    for (variable, value) in environment {
        let rest = variable.strip_prefix("MINIO_").or_else(|| variable.strip_prefix("ASHLAR_"));
        let Some(rest) = rest.filter(|r| r.starts_with("NOTIFY_")) else { continue };
        let kind = Kind::ALL.iter().copied().find_map(|kind| {
            let start = kind.subsystem().to_ascii_uppercase();
            rest.strip_prefix(&start).and_then(|r| r.strip_prefix('_')).map(|rest| (kind, rest))
        });
        let Some((kind, rest)) = kind else { continue };
        let mut known = names(kind);
        // The longest name that matches: client_cert before client.
        known.sort_by_key(|n| std::cmp::Reverse(n.len()));
        let found = known.iter().find_map(|name| {
            let after = rest.strip_prefix(name.to_ascii_uppercase().as_str())?;
            if after.is_empty() { Some((*name, "_")) } else { after.strip_prefix('_').map(|id| (*name, id)) }
        });
        let Some((name, id)) = found else {
            return Err(format!("{variable}: {} has no such setting", kind.subsystem()));
        };
        let id = TargetId::parse(&format!("{id}:{}", kind.text()))
            .ok_or_else(|| format!("{variable}: that is not a valid name of a target"))?;
        all.entry(id).or_default().insert(name.to_owned(), value.clone());
    }
    let all = all.into_iter().map(|(id, values)| Configured { id, values });
    // As in MinIO, a target of the environment exists only if it is enabled.
    Ok(all.filter(|c| c.values.contains_key("enable") && c.is_on()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_read_from_environment_variables() {
        let pairs = [
            ("MINIO_NOTIFY_WEBHOOK_ENABLE_one", "on"),
            ("MINIO_NOTIFY_WEBHOOK_ENDPOINT_one", "http://a"),
            ("MINIO_NOTIFY_WEBHOOK_AUTH_TOKEN_one", "t"),
            ("ASHLAR_NOTIFY_REDIS_ENABLE", "on"),
            ("ASHLAR_NOTIFY_REDIS_KEY", "k"),
            ("MINIO_NOTIFY_WEBHOOK_ENDPOINT_off", "http://b"),
            ("PATH", "x"),
        ];
        let pairs: Vec<_> = pairs.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect();
        let names = |_| vec!["enable", "endpoint", "auth_token", "key"];
        let all = from_environment(&pairs, names).unwrap();
        let ids: Vec<_> = all.iter().map(|c| c.id.to_string()).collect();
        assert_eq!(ids, ["_:redis", "one:webhook"]);
        assert_eq!(all[1].values["auth_token"], "t");
        let bad = [("MINIO_NOTIFY_WEBHOOK_NOSUCH".to_owned(), String::new())];
        assert!(from_environment(&bad, names).is_err());
        assert_eq!(percent_decoded("a%2Fb%40").unwrap(), "a/b@");
        assert!(percent_decoded("a%2").is_err());
    }
}
