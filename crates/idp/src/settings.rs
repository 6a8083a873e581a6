//! What is configured: stored settings, and the environment, which wins value by value.
//!
//! Variables are named as MinIO's: `ASHLAR_IDENTITY_OPENID_CLIENT_ID` for the target `_`, and
//! `ASHLAR_IDENTITY_OPENID_CLIENT_ID_KEYCLOAK` for `keycloak`; `MINIO_` in place of `ASHLAR_` works too
//! and counts less. Invariants: a target that the environment configures cannot be removed, and says so;
//! names of values are known to each subsystem, others are an error.
//!
//! Must never know: what a value means.

use std::collections::BTreeMap;

use ashlar_iam::{DEFAULT_TARGET, Iam, Values};

use crate::{certificate, ldap, openid};

/// Why settings cannot be used, in words for whoever changes them.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A value is missing, unknown or wrong: change it.
    #[error("{0}")]
    Invalid(String),
    /// The provider does not answer, or not as it should: try again, or change the settings.
    #[error("{0}")]
    Unreachable(String),
}

/// A kind of provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subsystem {
    /// OpenID Connect.
    OpenId,
    /// LDAP.
    Ldap,
    /// Client certificates.
    Tls,
}

impl Subsystem {
    /// All of them.
    pub const ALL: [Subsystem; 3] = [Subsystem::OpenId, Subsystem::Ldap, Subsystem::Tls];

    /// As it is stored, and in MinIO.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Subsystem::OpenId => "identity_openid",
            Subsystem::Ldap => "identity_ldap",
            Subsystem::Tls => "identity_tls",
        }
    }

    /// By its name, or by the short one of mc: `openid`, `ldap`, `tls`.
    #[must_use]
    pub fn find(name: &str) -> Option<Subsystem> {
        let short = |s: &Subsystem| s.name().strip_prefix("identity_") == Some(name);
        Subsystem::ALL.into_iter().find(|s| s.name() == name || short(s))
    }

    /// Names of its values.
    #[must_use]
    pub fn names(self) -> &'static [&'static str] {
        match self {
            Subsystem::OpenId => openid::NAMES,
            Subsystem::Ldap => ldap::NAMES,
            Subsystem::Tls => certificate::NAMES,
        }
    }

    /// Names of values that are never shown.
    #[must_use]
    pub fn secrets(self) -> &'static [&'static str] {
        match self {
            Subsystem::OpenId => openid::SECRETS,
            Subsystem::Ldap => ldap::SECRETS,
            Subsystem::Tls => certificate::SECRETS,
        }
    }
}

/// What stands in a secret's place when settings are shown.
pub const REDACTED: &str = "*redacted*";

/// A target as it may be shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    /// The values, without secrets.
    pub target: Target,
    /// It is in use.
    pub enabled: bool,
    /// Why it is not, although it should be.
    pub problem: Option<String>,
    /// What follows from the settings: names and values.
    pub facts: Vec<(&'static str, String)>,
}

/// Refuses names that mean nothing.
pub(crate) fn known_names(subsystem: Subsystem, values: &Values) -> Result<(), Error> {
    match values.keys().find(|name| !subsystem.names().contains(&name.as_str())) {
        None => Ok(()),
        Some(name) => {
            let (subsystem, known) = (subsystem.name(), subsystem.names().join(", "));
            Err(Error::Invalid(format!("{subsystem} has no value \"{name}\"; there are: {known}")))
        }
    }
}

/// Whether `enable` says so; without it, whether there is any value.
pub(crate) fn is_enabled(values: &Values) -> Result<bool, Error> {
    let any = values.iter().any(|(name, value)| name != "comment" && !value.is_empty());
    switch(values, "enable", any)
}

/// A value that is on or off.
pub(crate) fn switch(values: &Values, name: &str, default: bool) -> Result<bool, Error> {
    match values.get(name).map(|v| v.trim().to_ascii_lowercase()).unwrap_or_default().as_str() {
        "" => Ok(default),
        "on" | "true" | "1" | "yes" | "enable" | "enabled" => Ok(true),
        "off" | "false" | "0" | "no" | "disable" | "disabled" => Ok(false),
        _ => Err(Error::Invalid(format!("{name} is on or off"))),
    }
}

/// A value that is there and not empty.
pub(crate) fn filled<'a>(values: &'a Values, name: &str) -> Option<&'a str> {
    values.get(name).map(|v| v.trim()).filter(|v| !v.is_empty())
}

/// A list with commas in it.
pub(crate) fn list(text: &str) -> Vec<String> {
    text.split(',').map(str::trim).filter(|p| !p.is_empty()).map(str::to_owned).collect()
}

/// The environment variables that configure something, taken once at the start.
#[derive(Clone, Default)]
pub struct Environment(BTreeMap<String, String>);

/// What is configured for one target.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Target {
    /// `_`, or the name.
    pub name: String,
    /// Names and values.
    pub values: Values,
    /// Names of values that come from the environment.
    pub fixed: Vec<String>,
}

impl Target {
    /// Without secrets.
    pub(crate) fn redacted(mut self, subsystem: Subsystem) -> Target {
        for name in subsystem.secrets() {
            if let Some(value) = self.values.get_mut(*name).filter(|v| !v.is_empty()) {
                *value = REDACTED.to_owned();
            }
        }
        self
    }
}

impl Environment {
    /// Keeps the variables that can matter.
    pub fn new(all: impl IntoIterator<Item = (String, String)>) -> Environment {
        let ours = |n: &str| n.starts_with("ASHLAR_IDENTITY_") || n.starts_with("MINIO_IDENTITY_");
        Environment(all.into_iter().filter(|(n, v)| ours(n) && !v.is_empty()).collect())
    }

    /// Target, name and value of every variable of a subsystem whose values have these names.
    fn of<'a>(
        &'a self,
        subsystem: &str,
        names: &'a [&'a str],
    ) -> impl Iterator<Item = (String, &'a str, &'a str)> {
        // MinIO's first, so that ours replace them.
        let before = ["MINIO_", "ASHLAR_"].map(|p| format!("{p}{}_", subsystem.to_ascii_uppercase()));
        let found = before.into_iter().flat_map(move |prefix| {
            self.0.iter().filter_map(move |(variable, value)| {
                let rest = variable.strip_prefix(&prefix)?;
                // The longest name that fits: `scopes` is not the target `s` of `scope`.
                let fits = names.iter().filter_map(|name| {
                    let after = rest.strip_prefix(&name.to_ascii_uppercase())?;
                    let target =
                        if after.is_empty() { Some(DEFAULT_TARGET) } else { after.strip_prefix('_') };
                    Some((target.filter(|t| !t.is_empty())?.to_ascii_lowercase(), *name))
                });
                let (target, name) = fits.max_by_key(|(_, name)| name.len())?;
                Some((target, name, value.as_str()))
            })
        });
        found.collect::<Vec<_>>().into_iter()
    }
}

/// All targets of a subsystem whose values have these names, in order.
#[must_use]
pub fn targets(iam: &Iam, environment: &Environment, subsystem: &str, names: &[&str]) -> Vec<Target> {
    let mut all: BTreeMap<String, Target> = BTreeMap::new();
    for (name, stored) in iam.settings(subsystem) {
        all.insert(name.clone(), Target { name, values: stored.values.clone(), fixed: Vec::new() });
    }
    for (target, name, value) in environment.of(subsystem, names) {
        let t = all.entry(target.clone()).or_insert_with(|| Target { name: target, ..Target::default() });
        t.values.insert(name.to_owned(), value.to_owned());
        if !t.fixed.iter().any(|f| f == name) {
            t.fixed.push(name.to_owned());
        }
    }
    all.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_name_targets_and_ours_count_more() {
        let pairs = [
            ("MINIO_IDENTITY_OPENID_CLIENT_ID", "a"),
            ("ASHLAR_IDENTITY_OPENID_CLIENT_ID", "b"),
            ("MINIO_IDENTITY_OPENID_CLIENT_ID_KEYCLOAK", "c"),
            ("MINIO_IDENTITY_OPENID_SCOPES", "d"),
            ("MINIO_IDENTITY_OPENID_CLIENT_ID_", "e"),
            ("MINIO_IDENTITY_LDAP_CLIENT_ID", "f"),
            ("MINIO_IDENTITY_OPENID_CLAIM_NAME", ""),
            ("HOME", "g"),
        ];
        let environment = Environment::new(pairs.map(|(n, v)| (n.to_owned(), v.to_owned())));
        let names = ["client_id", "scope", "scopes", "claim_name"];
        let mut found: BTreeMap<(String, &str), &str> = BTreeMap::new();
        for (target, name, value) in environment.of("identity_openid", &names) {
            found.insert((target, name), value);
        }
        let got: Vec<_> = found.into_iter().map(|((t, n), v)| (t, n, v)).collect();
        let want = [("_", "client_id", "b"), ("_", "scopes", "d"), ("keycloak", "client_id", "c")];
        assert_eq!(got, want.map(|(t, n, v)| (t.to_owned(), n, v)));
    }
}
