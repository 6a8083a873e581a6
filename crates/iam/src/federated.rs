//! Federated users: users of an identity provider (OpenID Connect, LDAP, client certificates).
//!
//! Nothing is stored about a federated user until a policy is attached, a session revoked, or an access key
//! made for them. Invariants: the name can never be that of a user, access key or root (it contains a `/` or
//! a `=`); the claims are those of the time when the session was made.
//!
//! Must not depend on: what is done for them (`federation`), how a provider is asked.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::limits;
use crate::secret::check_name;
use crate::{Error, Result};

/// Claims or attributes of a provider: names and values.
pub type Facts = Vec<(String, Vec<String>)>;

/// A user of an identity provider.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Federated {
    /// The provider: `openid/NAME`, `ldap/NAME`, `certificate/NAME`.
    pub provider: String,
    /// Unique in this deployment: a distinguished name in normal form, or `openid/PROVIDER/SUBJECT`,
    /// `certificate/COMMON-NAME`. The value of `aws:username`.
    pub id: String,
    /// Groups, with the provider's names.
    #[serde(default)]
    pub groups: Vec<String>,
    /// Names of policies that the provider's claims give.
    #[serde(default)]
    pub policies: Vec<String>,
    /// Values of `jwt:*`.
    #[serde(default)]
    pub claims: Facts,
    /// Values of `ldap:*`, except for `ldap:groups`, which are in `groups`.
    #[serde(default)]
    pub attributes: Facts,
}

/// Sessions that were used since the last [`crate::Iam::take_seen`], by access key.
#[derive(Default)]
pub(crate) struct Seen(pub(crate) Mutex<HashMap<String, Arc<Federated>>>);

/// The configured providers, and the names of the policies that each gives to all its users.
pub type Trusted = BTreeMap<String, Vec<String>>;

impl Federated {
    /// Whether the provider is a directory, which can be asked about the user at any time.
    pub(crate) fn is_in_directory(&self) -> bool {
        self.provider.starts_with("ldap/")
    }

    /// The form in tokens and access keys. It does not repeat the groups: the size of both is limited, and
    /// distinguished names are long.
    pub(crate) fn stored(mut self) -> Federated {
        if self.is_in_directory() {
            self.attributes.retain(|(n, _)| !n.eq_ignore_ascii_case("groups"));
        }
        self
    }

    /// Refuses names that could be those of stored users, and values that are too long.
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
        return Err(Error::Invalid(format!(
            "\"{id}\" is neither a distinguished name nor a name with a provider, such as openid/PROVIDER/SUBJECT"
        )));
    }
    Ok(())
}
