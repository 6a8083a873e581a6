//! Stored settings and environment variables, merged: a variable overrides the stored value.
//!
//! Variables are named as MinIO's: `ASHLAR_IDENTITY_OPENID_CLIENT_ID` for the target `_`, and
//! `ASHLAR_IDENTITY_OPENID_CLIENT_ID_KEYCLOAK` for `keycloak`; `MINIO_` in place of `ASHLAR_` works too
//! with lower precedence. Invariant: a target lists which of its values come from the environment.
//!
//! Must not depend on: which subsystems there are, what a value means.

use std::collections::BTreeMap;

use ashlar_iam::{DEFAULT_TARGET, Iam, Values};

/// The environment variables that configure providers, read once at the start.
#[derive(Clone, Default)]
pub struct Environment(BTreeMap<String, String>);

impl Environment {
    /// Keeps the variables that can configure a provider.
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
        // MinIO's names first, so that Ashlar's override them.
        let before = ["MINIO_", "ASHLAR_"].map(|p| format!("{p}{}_", subsystem.to_ascii_uppercase()));
        let found = before.into_iter().flat_map(move |prefix| {
            self.0.iter().filter_map(move |(variable, value)| {
                let rest = variable.strip_prefix(&prefix)?;
                // The longest name that matches: `scopes` is not the target `s` of `scope`.
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

/// The configuration of one target.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Target {
    /// `_`, or the name.
    pub name: String,
    /// Names and values.
    pub values: Values,
    /// Names of values that come from the environment.
    pub fixed: Vec<String>,
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
    fn variables_name_targets_and_ashlar_overrides_minio() {
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
