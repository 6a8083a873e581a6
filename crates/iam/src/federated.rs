//! Identities that another directory vouches for: OpenID Connect, LDAP, client certificates.
//!
//! Nothing is stored about such a person until a policy is attached, a session revoked, or an access key
//! made for it. Invariants: its name can never be that of a user, access key or root (it holds a `/` or a
//! `=`); claims are what the provider said when the session was made.
//!
//! Must never know: what is done for them (`federation`), how a provider is asked.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::limits;
use crate::secret::check_name;
use crate::{Error, Result};

/// Names of what the provider said, and the values.
pub type Facts = Vec<(String, Vec<String>)>;

/// Someone whom another directory vouches for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Federated {
    /// Who vouches, as it is trusted: `openid/NAME`, `ldap/NAME`, `certificate/NAME`.
    pub provider: String,
    /// Unique here: a distinguished name in normal form, or `openid/PROVIDER/SUBJECT`,
    /// `certificate/COMMON-NAME`. The value of `aws:username`.
    pub id: String,
    /// Groups, by the provider's names.
    #[serde(default)]
    pub groups: Vec<String>,
    /// Names of policies that the provider's claims give.
    #[serde(default)]
    pub policies: Vec<String>,
    /// Values of `jwt:*`.
    #[serde(default)]
    pub claims: Facts,
    /// Values of `ldap:*`. `ldap:groups` are the groups, and not in here.
    #[serde(default)]
    pub attributes: Facts,
}

/// Sessions that were used since somebody looked, by their access keys.
#[derive(Default)]
pub(crate) struct Seen(pub(crate) Mutex<HashMap<String, Arc<Federated>>>);

/// Providers that are configured, and the names of policies that each gives to everybody it vouches for.
pub type Trusted = BTreeMap<String, Vec<String>>;

impl Federated {
    /// Their provider is a directory, which can be asked about them at any time.
    pub(crate) fn is_in_directory(&self) -> bool {
        self.provider.starts_with("ldap/")
    }

    /// As it is stored, in tokens and access keys: both have limits, and distinguished names are long, so
    /// that groups are not there twice.
    pub(crate) fn stored(mut self) -> Federated {
        if self.is_in_directory() {
            self.attributes.retain(|(n, _)| !n.eq_ignore_ascii_case("groups"));
        }
        self
    }

    /// Refuses what cannot be kept apart from users stored here, and what is too long.
    ///
    /// # Errors
    /// `Invalid`.
    pub fn check(&self) -> Result<()> {
        check_id(&self.id)?;
        if self.policies.len() > limits::POLICIES {
            return Err(Error::Invalid(format!(
                "at most {} policies can come from claims",
                limits::POLICIES
            )));
        }
        Ok(())
    }
}

pub(crate) fn check_id(id: &str) -> Result<()> {
    check_name("federated user", id, limits::FEDERATED_NAME)?;
    if !id.contains(['/', '=']) {
        return Err(Error::Invalid(format!("\"{id}\" is no distinguished name and names no provider")));
    }
    Ok(())
}
