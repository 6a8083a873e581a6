//! Every supported call of MinIO's administration API: method, path, required query parameters, and the
//! routes of our own API that it uses.
//!
//! Invariants: a call that is not in the table is refused by name; the permission for a call is that of its
//! routes, checked once here before any expensive work and again by each route.
//!
//! Must not depend on: how a call is translated.

use http::Method;

use crate::table::Route;

/// Prefix of the paths; a version follows.
pub const BASE: &str = "/minio/admin/";
/// Prefix of the paths of calls about keys, version included. Older clients send the same calls below
/// [`BASE`].
pub const KEYS: &str = "/minio/kms/v1/";
/// The supported version of the API.
pub const VERSION: &str = "v3";

macro_rules! calls {
    ($($name:ident $method:ident $pattern:literal [$($query:literal)*] $($route:ident)+;)*) => {
        /// A call. The pattern's `*` is one name.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Call {
            $(#[doc = $pattern] $name,)*
        }

        impl Call {
            /// All calls; a request means the first that matches.
            pub const ALL: &'static [Call] = &[$(Call::$name),*];

            /// Its name in logs and audit records.
            pub fn name(self) -> &'static str {
                match self { $(Call::$name => stringify!($name),)* }
            }

            /// The HTTP method.
            pub fn method(self) -> Method {
                match self { $(Call::$name => Method::$method,)* }
            }

            /// The path below the version.
            pub fn pattern(self) -> &'static str {
                match self { $(Call::$name => $pattern,)* }
            }

            /// Required query parameters.
            pub fn query(self) -> &'static [&'static str] {
                match self { $(Call::$name => &[$($query),*],)* }
            }

            /// The routes of our API that it uses: one of them, or all.
            pub fn routes(self) -> &'static [Route] {
                match self { $(Call::$name => &[$(Route::$route),*],)* }
            }
        }
    };
}

calls! {
    UserList GET "list-users" [] UserList;
    UserInfo GET "user-info" ["accessKey"] UserGet;
    UserAdd PUT "add-user" ["accessKey"] UserPut;
    UserStatus PUT "set-user-status" ["accessKey" "status"] UserEnable UserDisable;
    UserRemove DELETE "remove-user" ["accessKey"] UserRemove;
    UserRevoke POST "revoke-tokens/*" [] UserRevoke;
    GroupMembers PUT "update-group-members" [] GroupMembers;
    GroupInfo GET "group" ["group"] GroupGet;
    GroupList GET "groups" [] GroupList;
    GroupStatus PUT "set-group-status" ["group" "status"] GroupEnable GroupDisable;
    PolicyAdd PUT "add-canned-policy" ["name"] PolicyPut;
    PolicyInfo GET "info-canned-policy" ["name"] PolicyGet;
    PolicyList GET "list-canned-policies" [] PolicyList;
    PolicyRemove DELETE "remove-canned-policy" ["name"] PolicyRemove;
    PolicySet PUT "set-user-or-group-policy" ["policyName" "userOrGroup" "isGroup"] PolicyAttach;
    PolicyAttach POST "idp/builtin/policy/attach" [] PolicyAttach;
    PolicyDetach POST "idp/builtin/policy/detach" [] PolicyDetach;
    PolicyEntities GET "idp/builtin/policy-entities" [] UserList GroupList;
    PolicyAttachLdap POST "idp/ldap/policy/attach" [] PolicyAttach;
    PolicyDetachLdap POST "idp/ldap/policy/detach" [] PolicyDetach;
    PolicyEntitiesLdap GET "idp/ldap/policy-entities" [] MappingList;
    KeyAdd PUT "add-service-account" [] KeyCreate;
    KeyUpdate POST "update-service-account" ["accessKey"] KeyEdit;
    KeyInfo GET "info-service-account" ["accessKey"] KeyGet;
    KeyInfoAny GET "info-access-key" ["accessKey"] KeyGet;
    KeyInfoTemporary GET "temporary-account-info" ["accessKey"] KeyGet;
    KeyList GET "list-service-accounts" [] KeyList;
    KeyListBulk GET "list-access-keys-bulk" ["listType"] KeyList;
    KeyListLdap GET "idp/ldap/list-access-keys-bulk" ["listType"] KeyList;
    KeyRemove DELETE "delete-service-account" ["accessKey"] KeyRemove;
    Info GET "info" [] Info;
    DataUsage GET "datausageinfo" [] UsageList;
    StorageInfo GET "storageinfo" [] Drives;
    Trace GET "trace" [] Trace;
    Logs GET "log" [] Logs;
    TopLocks GET "top/locks" [] Top;
    HealStatus POST "background-heal/status" [] HealStatus;
    Heal POST "heal/*" [] HealStart;
    RealTime GET "metrics" [] Info;
    ScanStatus GET "scanner/status/*" [] UsageGet;
    Service POST "service" ["action"] ServiceStop ServiceRestart;
    ConfigGet GET "get-config-kv" ["key"] SettingList;
    ConfigSet PUT "set-config-kv" [] SettingPut;
    ConfigDelete DELETE "del-config-kv" [] SettingRemove;
    ConfigHelp GET "help-config-kv" ["subSys" "key"] SettingList;
    ConfigExport GET "config" [] SettingList;
    ConfigImport PUT "config" [] SettingPut;
    IdpAdd PUT "idp-config/*/*" [] SettingPut;
    IdpUpdate POST "idp-config/*/*" [] SettingPut;
    IdpInfo GET "idp-config/*/*" [] SettingList;
    IdpList GET "idp-config/*" [] SettingList;
    IdpRemove DELETE "idp-config/*/*" [] SettingRemove;
    QuotaInfo GET "get-bucket-quota" ["bucket"] QuotaGet;
    QuotaSet PUT "set-bucket-quota" ["bucket"] QuotaPut QuotaRemove;
    KmsStatus GET "kms/status" [] KmsStatus;
    KmsKeyCreate POST "kms/key/create" ["key-id"] KmsKeyCreate;
    KmsKeyStatus GET "kms/key/status" [] KmsKeyGet;
    KmsKeyList GET "kms/key/list" [] KmsKeyList;
    IamExport GET "export-iam" [] IamExport;
    IamImport PUT "import-iam" [] IamImport;
    IamImportV2 PUT "import-iam-v2" [] IamImport;
}

impl Call {
    /// The call of a request and the names in its path; `what` is the decoded path below the version.
    pub fn find(method: &Method, what: &str) -> Option<(Call, Vec<String>)> {
        // A healing call names a bucket, or nothing, or a bucket and a prefix with slashes.
        if let Some(what) = what.strip_prefix("heal/").filter(|_| method == Method::POST) {
            return Some((Call::Heal, vec![what.to_owned()]));
        }
        Call::ALL.iter().find_map(|call| {
            if call.method() != method {
                return None;
            }
            let (want, is) = (call.pattern().split('/'), what.split('/'));
            if want.clone().count() != is.clone().count() {
                return None;
            }
            let mut names = Vec::new();
            for (want, is) in want.zip(is) {
                match want {
                    "*" if !is.is_empty() => names.push(is.to_owned()),
                    _ if want == is => {}
                    _ => return None,
                }
            }
            Some((*call, names))
        })
    }

    /// Whether the request body is encrypted under the caller's secret.
    pub fn sealed(self) -> bool {
        matches!(
            self,
            Call::UserAdd
                | Call::PolicyAttach
                | Call::PolicyDetach
                | Call::PolicyAttachLdap
                | Call::PolicyDetachLdap
                | Call::KeyAdd
                | Call::KeyUpdate
                | Call::ConfigSet
                | Call::ConfigDelete
                | Call::ConfigImport
                | Call::IdpAdd
                | Call::IdpUpdate
        )
    }

    /// Whether the answer is encrypted under the caller's secret.
    pub fn seals(self) -> bool {
        matches!(
            self,
            Call::UserList
                | Call::PolicyAttach
                | Call::PolicyDetach
                | Call::PolicyEntities
                | Call::PolicyAttachLdap
                | Call::PolicyDetachLdap
                | Call::PolicyEntitiesLdap
                | Call::KeyAdd
                | Call::KeyInfo
                | Call::KeyInfoAny
                | Call::KeyInfoTemporary
                | Call::KeyList
                | Call::KeyListBulk
                | Call::KeyListLdap
                | Call::ConfigGet
                | Call::ConfigExport
                | Call::IdpInfo
                | Call::IdpList
        )
    }

    /// Whether the call uses all of [`Call::routes`], not only one of them.
    pub fn asks_all(self) -> bool {
        self == Call::PolicyEntities
    }

    /// Longest document, in bytes.
    pub fn limit(self) -> usize {
        match self {
            Call::IamImport | Call::IamImportV2 => 4 << 20,
            // The largest that `mc` sends, encrypted.
            Call::ConfigImport => (256 << 10) + 4096,
            _ => 64 << 10,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_call_is_found_by_its_own_path_and_method_only() {
        for call in Call::ALL {
            let path = call.pattern().replace('*', "x=y");
            let (found, names) = Call::find(&call.method(), &path).unwrap();
            assert_eq!((found, names.len()), (*call, call.pattern().matches('*').count()), "{path}");
            assert_eq!(Call::find(&Method::PATCH, &path), None);
            // Prefixes have slashes.
            let more = Call::find(&call.method(), &format!("{path}/"));
            assert_eq!(more.is_some(), *call == Call::Heal, "{path}/");
            assert_eq!(Call::find(&call.method(), &format!("x/{path}")), None);
            assert!(!call.routes().is_empty() && call.limit() >= 64 << 10);
        }
        for path in
            ["", "idp-config", "idp-config/openid/", "revoke-tokens/", "info/", "idp/builtin/policy/x"]
        {
            assert_eq!(Call::find(&Method::GET, path), None, "{path}");
            assert_eq!(Call::find(&Method::POST, path), None, "{path}");
        }
    }
}
