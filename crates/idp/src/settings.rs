//! The kinds of providers that can be configured: their names, the names of their values, what may be shown.
//!
//! Invariants: a target that the environment configures cannot be removed; names of values are known to each
//! subsystem, others are an error; secrets are not shown.
//!
//! Must not depend on: what a value means.

use ashlar_iam::Values;

use crate::{Error, Target, certificate, ldap, openid};

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

    /// The name in the store and in MinIO.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Subsystem::OpenId => "identity_openid",
            Subsystem::Ldap => "identity_ldap",
            Subsystem::Tls => "identity_tls",
        }
    }

    /// Finds a kind by its name, or by the short name of mc: `openid`, `ldap`, `tls`.
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

/// Replaces a secret when settings are shown.
pub const REDACTED: &str = "*redacted*";

/// A target without its secrets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    /// The values, without secrets.
    pub target: Target,
    /// Whether it is in use.
    pub enabled: bool,
    /// Why it is not in use although it is enabled.
    pub problem: Option<String>,
    /// Information derived from the settings: names and values.
    pub facts: Vec<(&'static str, String)>,
}

/// Refuses unknown names.
pub(crate) fn known_names(subsystem: Subsystem, values: &Values) -> Result<(), Error> {
    match values.keys().find(|name| !subsystem.names().contains(&name.as_str())) {
        None => Ok(()),
        Some(name) => {
            let (subsystem, known) = (subsystem.name(), subsystem.names().join(", "));
            Err(Error::Invalid(format!("{subsystem} has no value \"{name}\"; the values are: {known}")))
        }
    }
}

impl Target {
    /// Removes the secrets.
    pub(crate) fn redacted(mut self, subsystem: Subsystem) -> Target {
        for name in subsystem.secrets() {
            if let Some(value) = self.values.get_mut(*name).filter(|v| !v.is_empty()) {
                *value = REDACTED.to_owned();
            }
        }
        self
    }
}
