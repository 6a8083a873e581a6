//! Export of secrets, for the migration of all identities to another deployment.
//!
//! Invariant: only this function returns a stored secret. The API layer checks who may call it.

use crate::{Iam, Secret};

impl Iam {
    /// The secret of a user or an access key that is stored, enabled or not.
    #[must_use]
    pub fn secret_for_export(&self, access_key: &str) -> Option<Secret> {
        let d = self.directory();
        let user = d.records.users.get(access_key).map(|u| &u.secret);
        let stored = user.or_else(|| d.records.keys.get(access_key).map(|k| &k.secret));
        stored.map(|s| Secret::new(s.clone()))
    }
}
