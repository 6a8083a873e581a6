//! Built-in policies, with MinIO's names and meaning.

use std::sync::{Arc, LazyLock};

use crate::policy::{Attached, Policy};

/// Name and document of each.
pub const BUILTIN: &[(&str, &str)] = &[
    (
        "readwrite",
        r#"{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"s3:*","Resource":"arn:aws:s3:::*"}]}"#,
    ),
    (
        "readonly",
        r#"{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":["s3:GetBucketLocation","s3:GetObject"],"Resource":"arn:aws:s3:::*"}]}"#,
    ),
    (
        "writeonly",
        r#"{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"s3:PutObject","Resource":"arn:aws:s3:::*"}]}"#,
    ),
    (
        "diagnostics",
        r#"{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":["admin:Profiling","admin:ServerTrace","admin:ConsoleLog","admin:ServerInfo","admin:TopLocksInfo","admin:OBDInfo","admin:BandwidthMonitor","admin:Prometheus"],"Resource":"arn:aws:s3:::*"}]}"#,
    ),
    (
        "consoleAdmin",
        r#"{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"admin:*"},{"Effect":"Allow","Action":"kms:*"},{"Effect":"Allow","Action":"s3:*","Resource":"arn:aws:s3:::*"}]}"#,
    ),
];

static COMPILED: LazyLock<Vec<(&str, Arc<Policy>)>> = LazyLock::new(|| {
    let one = |(name, json): &(&'static str, &str)| {
        let policy = Policy::parse(Attached::Identity, json.as_bytes());
        (*name, Arc::new(policy.expect("built-in policies are tested")))
    };
    BUILTIN.iter().map(one).collect()
});

/// The built-in policy of that name.
pub fn builtin(name: &str) -> Option<Arc<Policy>> {
    COMPILED.iter().find(|(n, _)| *n == name).map(|(_, p)| p.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Action, Authority, Context, Principal, Request, Who, decide};

    #[test]
    fn builtin_policies_match_minio() {
        let principal = Principal { who: Who::User, name: "u", ..Principal::default() };
        let context = Context::default();
        let may = |policy: &str, action: Action| {
            let identity = [builtin(policy).unwrap()];
            let key = if action.level() == crate::Level::Object { "k" } else { "" };
            let request = Request::new(action, "b", key, &principal, &context);
            decide(&request, &Authority { identity: &identity, ..Authority::default() }).allowed
        };
        use Action::*;
        for (action, who) in [
            (GetObject, "readwrite readonly consoleAdmin"),
            (PutObject, "readwrite writeonly consoleAdmin"),
            (ListBucket, "readwrite consoleAdmin"),
            (GetBucketLocation, "readwrite readonly consoleAdmin"),
            (ListAllMyBuckets, "readwrite consoleAdmin"),
            (AdminServerInfo, "diagnostics consoleAdmin"),
            (AdminServerTrace, "diagnostics consoleAdmin"),
            (AdminCreateUser, "consoleAdmin"),
            (AdminSetBucketQuota, "consoleAdmin"),
            (KmsEncrypt, "consoleAdmin"),
        ] {
            for (name, _) in BUILTIN {
                assert_eq!(may(name, action), who.split(' ').any(|w| w == *name), "{name} {}", action.name());
            }
        }
        assert!(builtin("none").is_none());
    }
}
