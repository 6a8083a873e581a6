//! Parsing of a directory's settings.
//!
//! Invariant: a setting that would have no effect, or less effect than its name says, is refused with an
//! error that names it, never ignored.
//!
//! Must not depend on: connections in use.

use std::sync::Arc;
use std::time::Duration;

use ashlar_iam::{DEFAULT_TARGET, Values};

use super::connection::{Privacy, Server};
use super::dn::Dn;
use super::filter::{Filter, Piece};
use crate::values::{filled, list, switch};
use crate::{Error, ProviderContext};

/// Names of values: MinIO's, and at the end Ashlar's own.
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
    // Settings of earlier releases of MinIO; refused.
    "username_format",
    "sts_expiry",
    // Ashlar's own.
    "tls_ca",
    "group_search_nested",
    "check_interval",
];
/// Those of them that are never shown.
pub(crate) const SECRETS: &[&str] = &["lookup_bind_password"];

/// Most bases of one kind.
const BASES: usize = 16;
/// Most attributes that are requested.
const ATTRIBUTES: usize = 16;

/// A base of searches.
#[derive(Clone, Debug)]
pub struct Base {
    /// The text as given.
    pub text: String,
    /// The parsed name.
    pub dn: Dn,
}

/// The settings of a directory.
#[derive(Clone)]
pub struct Settings {
    /// The address of the directory.
    pub server: Server,
    /// The lookup name, with which users are searched for.
    pub bind_dn: String,
    /// The password of the lookup name.
    pub bind_password: String,
    /// The bases of users.
    pub user_bases: Vec<Base>,
    /// The filter that finds a user by login name.
    pub user_filter: Filter,
    /// Attributes of users that become `ldap:NAME`.
    pub attributes: Vec<String>,
    /// The bases of groups; none: users have no groups.
    pub group_bases: Vec<Base>,
    /// The filter that finds the groups of a user.
    pub group_filter: Filter,
    /// Whether nested groups are followed.
    pub nested: bool,
    /// Time between checks of users with access keys or sessions.
    pub check_interval: Duration,
}

fn invalid<T>(why: impl Into<String>) -> Result<T, Error> {
    Err(Error::Invalid(why.into()))
}

impl Settings {
    /// Parses the settings of a target.
    ///
    /// # Errors
    /// `Invalid`.
    pub fn read(target: &str, values: &Values, context: &Arc<ProviderContext>) -> Result<Settings, Error> {
        if target != DEFAULT_TARGET {
            return invalid(format!(
                "there is only one LDAP directory, without a name: leave out \"{target}\""
            ));
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
                "tls_skip_verify is not supported, because passwords could be sent to an attacker: put the directory's certificate, or that of its authority, into tls_ca",
            );
        }
        let need = |name: &str| match filled(values, name) {
            Some(value) => Ok(value),
            None => Err(Error::Invalid(format!("{name} is missing"))),
        };
        let user_filter = Filter::parse(need("user_dn_search_filter")?).map_err(Error::Invalid)?;
        if !user_filter.has(&Piece::User) || user_filter.has(&Piece::Dn) {
            return invalid("user_dn_search_filter must have %s in the place of the login name, and no %d");
        }
        let nested = switch(values, "group_search_nested", false)?;
        let (group_bases, group_filter) = groups(values, nested)?;
        let bind_dn = need("lookup_bind_dn")?.to_owned();
        // Active Directory also accepts name@domain.
        if !bind_dn.contains('@') {
            Dn::parse(&bind_dn).map_err(|why| Error::Invalid(format!("lookup_bind_dn: {why}")))?;
        }
        Ok(Settings {
            server: server(need("server_addr")?, values, context)?,
            bind_dn,
            bind_password: match values.get("lookup_bind_password").filter(|v| !v.is_empty()) {
                Some(password) => password.clone(),
                None => {
                    return invalid(
                        "lookup_bind_password is missing: a bind without a password proves nothing",
                    );
                }
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
                    "group_search_filter must have %d in the place of the user's DN, or %s of its name",
                );
            }
            if nested && (filter.has(&Piece::User) || !filter.has(&Piece::Dn)) {
                return invalid("with group_search_nested, group_search_filter must have %d, and no %s");
            }
            Ok((bases("group_search_base_dn", base)?, filter))
        }
        _ => invalid("group_search_base_dn and group_search_filter must be given together"),
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
        return invalid(format!("{name} must name 1 to {BASES} bases"));
    }
    Ok(all)
}

fn attributes(values: &Values) -> Result<Vec<String>, Error> {
    let all = list(filled(values, "user_dn_attributes").unwrap_or_default());
    if all.len() > ATTRIBUTES {
        return invalid(format!("user_dn_attributes may name at most {ATTRIBUTES} attributes"));
    }
    for name in &all {
        if name.is_empty() || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-.;".contains(&b)) {
            return invalid(format!("user_dn_attributes: \"{name}\" is not an attribute"));
        }
        if ["user", "username", "groups"].iter().any(|ours| name.eq_ignore_ascii_case(ours)) {
            return invalid(format!("user_dn_attributes: ldap:{name} is reserved"));
        }
    }
    Ok(all)
}

fn server(address: &str, values: &Values, context: &Arc<ProviderContext>) -> Result<Server, Error> {
    let insecure = switch(values, "server_insecure", false)?;
    let start = switch(values, "server_starttls", false)?;
    if insecure && start {
        return invalid("server_insecure and server_starttls exclude each other");
    }
    if address.contains("//") {
        return invalid("server_addr must be HOST or HOST:PORT, without ldap:// or ldaps://");
    }
    let default = if insecure || start { 389 } else { 636 };
    let (host, port) = split(address, default)?;
    if insecure {
        tracing::warn!(
            server = address,
            "server_insecure is on: names and passwords are sent to the directory unencrypted"
        );
        return Ok(Server { host, port, privacy: Privacy::None });
    }
    let mut authorities = context.authorities.clone();
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
        _ => invalid(format!("check_interval: \"{text}\" must be 1s to 24h")),
    }
}
