//! What a directory's settings mean.
//!
//! Invariant: a value that would be ignored, or that would weaken what somebody expects, is refused by its
//! name and never passed over.
//!
//! Must never know: connections in use.

use std::sync::Arc;
use std::time::Duration;

use ashlar_iam::{DEFAULT_TARGET, Values};

use super::connection::{Privacy, Server};
use super::dn::Dn;
use super::filter::{Filter, Piece};
use crate::values::{filled, list, switch};
use crate::{Around, Error};

/// Names of values: MinIO's, and at the end our own.
pub(crate) const NAMES: &[&str] = &[
    "enable",
    "server_addr",
    "srv_record_name",
    "lookup_bind_dn",
    "lookup_bind_password",
    "user_dn_search_base_dn",
    "user_dn_search_filter",
    "user_dn_attributes",
    "group_search_base_dn",
    "group_search_filter",
    "tls_skip_verify",
    "server_insecure",
    "server_starttls",
    "comment",
    // Of MinIO's earlier releases; refused.
    "username_format",
    "sts_expiry",
    // Ours.
    "tls_ca",
    "group_search_nested",
    "check_interval",
];
/// Those of them that are never shown.
pub(crate) const SECRETS: &[&str] = &["lookup_bind_password"];

/// Bases of one kind.
const BASES: usize = 16;
/// Attributes that are asked for.
const ATTRIBUTES: usize = 16;

/// A base of searches.
#[derive(Clone, Debug)]
pub struct Base {
    /// As it was written.
    pub text: String,
    /// What it means.
    pub dn: Dn,
}

/// What is configured.
#[derive(Clone)]
pub struct Settings {
    /// Where the directory is.
    pub server: Server,
    /// Who looks people up.
    pub bind_dn: String,
    /// The password of that.
    pub bind_password: String,
    /// Where people are.
    pub user_bases: Vec<Base>,
    /// How they are found by their login name.
    pub user_filter: Filter,
    /// Attributes of people that become `ldap:NAME`.
    pub attributes: Vec<String>,
    /// Where groups are; none: nobody has groups.
    pub group_bases: Vec<Base>,
    /// How groups of somebody are found.
    pub group_filter: Filter,
    /// Whether groups of groups count.
    pub nested: bool,
    /// How often people who have access keys or sessions are looked up.
    pub check_interval: Duration,
}

fn invalid<T>(why: impl Into<String>) -> Result<T, Error> {
    Err(Error::Invalid(why.into()))
}

impl Settings {
    /// Reads them.
    ///
    /// # Errors
    /// `Invalid`.
    pub fn read(target: &str, values: &Values, around: &Arc<Around>) -> Result<Settings, Error> {
        if target != DEFAULT_TARGET {
            return invalid(format!("there is one LDAP directory, without a name: leave out \"{target}\""));
        }
        for (name, why) in [
            ("srv_record_name", "directories are not looked up by SRV records; give server_addr"),
            ("username_format", "names are looked up: give lookup_bind_dn and user_dn_search_filter"),
            ("sts_expiry", "DurationSeconds of the request says how long a session lasts"),
        ] {
            if filled(values, name).is_some() {
                return invalid(format!("{name} is not supported: {why}"));
            }
        }
        if switch(values, "tls_skip_verify", false)? {
            return invalid(
                "tls_skip_verify is not supported, since passwords would go to anybody: put the directory's certificate, or its authority's, into tls_ca",
            );
        }
        let need = |name: &str| match filled(values, name) {
            Some(value) => Ok(value),
            None => Err(Error::Invalid(format!("{name} is missing"))),
        };
        let user_filter = Filter::parse(need("user_dn_search_filter")?).map_err(Error::Invalid)?;
        if !user_filter.has(&Piece::User) || user_filter.has(&Piece::Dn) {
            return invalid("user_dn_search_filter has %s in the place of the login name, and no %d");
        }
        let nested = switch(values, "group_search_nested", false)?;
        let (group_bases, group_filter) = groups(values, nested)?;
        let bind_dn = need("lookup_bind_dn")?.to_owned();
        // Active Directory also takes a name@domain.
        if !bind_dn.contains('@') {
            Dn::parse(&bind_dn).map_err(|why| Error::Invalid(format!("lookup_bind_dn: {why}")))?;
        }
        Ok(Settings {
            server: server(need("server_addr")?, values, around)?,
            bind_dn,
            bind_password: match values.get("lookup_bind_password").filter(|v| !v.is_empty()) {
                Some(password) => password.clone(),
                None => return invalid("lookup_bind_password is missing; without one nobody is proved"),
            },
            user_bases: bases("user_dn_search_base_dn", need("user_dn_search_base_dn")?)?,
            user_filter,
            attributes: attributes(values)?,
            group_bases,
            group_filter,
            nested,
            check_interval: interval(filled(values, "check_interval").unwrap_or("30m"))?,
        })
    }
}

fn groups(values: &Values, nested: bool) -> Result<(Vec<Base>, Filter), Error> {
    match (filled(values, "group_search_base_dn"), filled(values, "group_search_filter")) {
        (None, None) if nested => invalid("group_search_nested needs group_search_base_dn"),
        (None, None) => Ok((Vec::new(), Filter::any())),
        (Some(base), Some(filter)) => {
            let filter = Filter::parse(filter).map_err(Error::Invalid)?;
            if !filter.has(&Piece::User) && !filter.has(&Piece::Dn) {
                return invalid(
                    "group_search_filter has %d in the place of the user's DN, or %s of its name",
                );
            }
            if nested && (filter.has(&Piece::User) || !filter.has(&Piece::Dn)) {
                return invalid("with group_search_nested, group_search_filter has %d, and no %s");
            }
            Ok((bases("group_search_base_dn", base)?, filter))
        }
        _ => invalid("group_search_base_dn and group_search_filter go together"),
    }
}

fn bases(name: &str, text: &str) -> Result<Vec<Base>, Error> {
    let parts = text.split(';').map(str::trim).filter(|p| !p.is_empty());
    let read = |text: &str| match Dn::parse(text) {
        Ok(dn) => Ok(Base { text: text.to_owned(), dn }),
        Err(why) => Err(Error::Invalid(format!("{name}: {why}"))),
    };
    let all = parts.map(read).collect::<Result<Vec<_>, _>>()?;
    if all.is_empty() || all.len() > BASES {
        return invalid(format!("{name} names 1 to {BASES} bases"));
    }
    Ok(all)
}

fn attributes(values: &Values) -> Result<Vec<String>, Error> {
    let all = list(filled(values, "user_dn_attributes").unwrap_or_default());
    if all.len() > ATTRIBUTES {
        return invalid(format!("user_dn_attributes names at most {ATTRIBUTES} attributes"));
    }
    for name in &all {
        if name.is_empty() || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-.;".contains(&b)) {
            return invalid(format!("user_dn_attributes: \"{name}\" is no attribute"));
        }
        if ["user", "username", "groups"].iter().any(|ours| name.eq_ignore_ascii_case(ours)) {
            return invalid(format!("user_dn_attributes: ldap:{name} has a meaning already"));
        }
    }
    Ok(all)
}

fn server(address: &str, values: &Values, around: &Arc<Around>) -> Result<Server, Error> {
    let insecure = switch(values, "server_insecure", false)?;
    let start = switch(values, "server_starttls", false)?;
    if insecure && start {
        return invalid("server_insecure and server_starttls exclude each other");
    }
    if address.contains("//") {
        return invalid("server_addr is HOST or HOST:PORT, without ldap:// or ldaps://");
    }
    let default = if insecure || start { 389 } else { 636 };
    let (host, port) = split(address, default)?;
    if insecure {
        tracing::warn!(
            server = address,
            "server_insecure is on: names and passwords go to the directory in clear"
        );
        return Ok(Server { host, port, privacy: Privacy::None });
    }
    let mut authorities = around.authorities.clone();
    if let Some(ca) = filled(values, "tls_ca") {
        authorities = vec![match ca.starts_with("-----BEGIN") {
            true => ca.as_bytes().to_vec(),
            false => ashlar_outbound::tls::read_file(ca.as_ref())
                .map_err(|e| Error::Invalid(format!("tls_ca: {e}")))?,
        }];
    }
    let config = ashlar_outbound::tls::config(&authorities, false)
        .map_err(|e| Error::Invalid(format!("tls_ca: {e}")))?;
    let privacy = if start { Privacy::StartTls(config) } else { Privacy::Tls(config) };
    Ok(Server { host, port, privacy })
}

fn split(address: &str, default: u16) -> Result<(String, u16), Error> {
    let bad = || Error::Invalid(format!("server_addr: \"{address}\" is not HOST or HOST:PORT"));
    let (host, port) = match address.strip_prefix('[') {
        Some(rest) => {
            let (host, rest) = rest.split_once(']').ok_or_else(bad)?;
            host.parse::<std::net::Ipv6Addr>().map_err(|_| bad())?;
            (host, if rest.is_empty() { None } else { Some(rest.strip_prefix(':').ok_or_else(bad)?) })
        }
        None => match address.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (address, None),
        },
    };
    let port = port.map_or(Ok(default), |p| p.parse().map_err(|_| bad()))?;
    if host.is_empty() || host.contains(char::is_whitespace) || port == 0 {
        return Err(bad());
    }
    Ok((host.to_owned(), port))
}

/// A duration: a number, and s, m or h.
fn interval(text: &str) -> Result<Duration, Error> {
    let units = [('s', 1), ('m', 60), ('h', 3600)];
    let read = units.iter().find_map(|(unit, seconds)| {
        let n: u64 = text.strip_suffix(*unit)?.parse().ok()?;
        n.checked_mul(*seconds)
    });
    match read {
        Some(seconds @ 1..=86_400) => Ok(Duration::from_secs(seconds)),
        _ => invalid(format!("check_interval: \"{text}\" is not 1s to 24h")),
    }
}
