//! Secrets, for those who may take all identities elsewhere.
//!
//! Invariant: this is the only way out for a stored secret. Who may go it is the door's business.

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
