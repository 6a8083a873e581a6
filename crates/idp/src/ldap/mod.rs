//! LDAP: not here yet.

use std::sync::Arc;

use ashlar_iam::{Refused, Values, Vouched};

use crate::{Around, Error};

/// Names of values.
pub(crate) const NAMES: &[&str] = &["enable", "comment"];
/// Those of them that are never shown.
pub(crate) const SECRETS: &[&str] = &[];

/// One directory.
pub(crate) struct Provider {}

impl Provider {
    pub fn new(_target: &str, _values: &Values, _around: &Arc<Around>) -> Result<Provider, Error> {
        Err(Error::Invalid("LDAP is not supported".into()))
    }

    pub fn trusted(&self) -> (String, Vec<String>) {
        ("ldap/_".into(), Vec::new())
    }

    pub async fn probe(&self) -> Result<(), Error> {
        Ok(())
    }

    pub fn facts(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }
}

/// Whom a name and a password mean.
pub(crate) async fn vouch(
    _providers: &[Arc<Provider>],
    _name: &str,
    _password: &str,
) -> Result<Vouched, Refused> {
    Err(Refused::Unconfigured)
}
