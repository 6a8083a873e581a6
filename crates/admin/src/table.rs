//! Every administration request: its method, its path, and the actions that permit it.
//!
//! Invariants: a request that is not in the table is refused; a route does not compile without actions; the
//! actions are MinIO's, so that policies written for MinIO have the same effect here.
//!
//! Must not depend on: what a route does.

use ashlar_policy::Action;
use http::Method;

/// Prefixes of the paths. The last is only used on the separate port, where there are no buckets.
pub const BASES: [&str; 3] = ["/ashlar/api/v1/", "/ashlar/admin/v1/", "/api/v1/"];

macro_rules! routes {
    ($($name:ident $method:ident $pattern:literal $first:ident $($other:ident)*;)*) => {
        /// An administration request. `*` in the pattern is a name, which may contain slashes.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Route {
            $(#[doc = $pattern] $name,)*
        }

        impl Route {
            /// All routes; a request means the first that matches.
            pub const ALL: &'static [Route] = &[$(Route::$name),*];

            /// Its name.
            pub fn name(self) -> &'static str {
                match self { $(Route::$name => stringify!($name),)* }
            }

            /// The HTTP method.
            pub fn method(self) -> Method {
                match self { $(Route::$name => Method::$method,)* }
            }

            /// The path below `/ashlar/admin/v1/`.
            pub fn pattern(self) -> &'static str {
                match self { $(Route::$name => $pattern,)* }
            }

            /// The caller needs one of these actions.
            pub fn actions(self) -> &'static [Action] {
                match self { $(Route::$name => &[Action::$first, $(Action::$other,)*],)* }
            }
        }
    };
}

routes! {
    Info GET "info" AdminServerInfo;
    UsageList GET "usage" AdminDataUsageInfo;
    UsageGet GET "usage/*" AdminDataUsageInfo;
    Trace GET "trace" AdminServerTrace;
    Logs GET "logs" AdminConsoleLog;
    Top GET "top" AdminServerTrace;
    // MinIO's action for who reads metrics.
    History GET "history" AdminPrometheus;
    HealStatus GET "heal" AdminHeal;
    HealStart POST "heal" AdminHeal;
    HealLimits GET "heal/limits" AdminHeal AdminHealLimits;
    // Whoever may start a scrub need not be able to slow down healing for all.
    HealLimitsPut PUT "heal/limits" AdminHealLimits;
    HealLimitsRemove DELETE "heal/limits" AdminHealLimits;
    Drives GET "drives" AdminStorageInfo;
    DriveScrub POST "drives/scrub" AdminHeal;
    // MinIO has no action for a single drive; the nearest is decommissioning a pool.
    DriveOffline POST "drives/offline" AdminDecommission;
    DriveOnline POST "drives/online" AdminDecommission;
    DriveReplace POST "drives/replace" AdminHeal;
    DriveRecover POST "drives/recover" AdminHeal;
    DriveRecovery GET "drives/recover" AdminHeal;
    ClusterStatus GET "cluster" AdminServerInfo;
    ClusterMayStop GET "cluster/may-stop" AdminServerInfo;
    // MinIO has no action for a node that joins: who may take drives out of service may let drives in.
    ClusterToken POST "cluster/tokens" AdminDecommission;
    // As for a new release of MinIO.
    ClusterUpgrade POST "cluster/upgrade" AdminServerUpdate;
    // As for tokens: both decide who is a node.
    ClusterRemove POST "cluster/remove" AdminDecommission;
    ClusterAuthority POST "cluster/authority" AdminDecommission;
    ClusterControlMembers POST "cluster/control-members" AdminDecommission;
    MetricsToken GET "metrics-token" AdminPrometheus;
    UserList GET "users" AdminListUsers;
    UserEnable POST "users/*/enable" AdminEnableUser;
    UserDisable POST "users/*/disable" AdminDisableUser;
    UserRevoke POST "users/*/revoke" AdminRevokeTemporaryAccounts;
    UserGet GET "users/*" AdminGetUser;
    UserPut PUT "users/*" AdminCreateUser;
    UserRemove DELETE "users/*" AdminDeleteUser;
    GroupList GET "groups" AdminListGroups;
    // The document decides which of the two is needed.
    GroupMembers POST "groups/*/members" AdminAddUserToGroup AdminRemoveUserFromGroup;
    GroupEnable POST "groups/*/enable" AdminEnableGroup;
    GroupDisable POST "groups/*/disable" AdminDisableGroup;
    GroupGet GET "groups/*" AdminGetGroup;
    GroupRemove DELETE "groups/*" AdminRemoveUserFromGroup;
    PolicyList GET "policies" AdminListUserPolicies AdminGetPolicy;
    PolicyAttach POST "policies/attach" AdminAttachPolicy AdminUpdatePolicyAssociation;
    PolicyDetach POST "policies/detach" AdminAttachPolicy AdminUpdatePolicyAssociation;
    PolicyGet GET "policies/*" AdminGetPolicy;
    PolicyPut PUT "policies/*" AdminCreatePolicy;
    PolicyRemove DELETE "policies/*" AdminDeletePolicy;
    MappingList GET "mappings" AdminListUserPolicies AdminGetPolicy;
    KeyList GET "keys" AdminListServiceAccounts;
    KeyCreate POST "keys" AdminCreateServiceAccount;
    KeyGet GET "keys/*" AdminListServiceAccounts;
    KeyEdit PATCH "keys/*" AdminUpdateServiceAccount;
    KeyRemove DELETE "keys/*" AdminRemoveServiceAccount;
    QuotaGet GET "quotas/*" AdminGetBucketQuota;
    QuotaPut PUT "quotas/*" AdminSetBucketQuota;
    QuotaRemove DELETE "quotas/*" AdminSetBucketQuota;
    LifecycleStatus GET "lifecycle/*" AdminDataUsageInfo;
    LifecycleTest POST "lifecycle/*/test" AdminDataUsageInfo;
    // Unlike the numbers of a test, its answer has names of objects.
    LifecycleSimulate POST "lifecycle/*/simulate" AdminSimulateLifecycle;
    KmsStatus GET "kms/status" AdminKmsKeyStatus;
    KmsKeyList GET "kms/keys" AdminKmsKeyStatus;
    KmsKeyRotate POST "kms/keys/*/rotate" AdminKmsCreateKey;
    KmsKeyGet GET "kms/keys/*" AdminKmsKeyStatus;
    KmsKeyCreate PUT "kms/keys/*" AdminKmsCreateKey;
    RewrapStart POST "kms/rewrap" AdminKmsCreateKey;
    RewrapStatus GET "kms/rewrap" AdminKmsKeyStatus;
    Simulate POST "simulate" AdminGetPolicy;
    // About the caller itself, so that everybody may.
    Permissions POST "permissions" AdminGetPolicy;
    // As in MinIO, reading settings needs the permission to change them.
    ProviderGet GET "idp/*" AdminConfigUpdate;
    // Whoever may see what a provider says about a person need not be able to change providers.
    ProviderTest POST "idp/*/test" AdminTestSignIn;
    ProviderPut PUT "idp/*" AdminConfigUpdate;
    ProviderEdit PATCH "idp/*" AdminConfigUpdate;
    ProviderRemove DELETE "idp/*" AdminConfigUpdate;
    ProviderEnable POST "idp/*/enable" AdminConfigUpdate;
    ProviderDisable POST "idp/*/disable" AdminConfigUpdate;
    IamExport GET "iam/export" AdminExportIam;
    IamImport POST "iam/import" AdminImportIam;
    SettingList GET "settings" AdminConfigUpdate;
    SettingGet GET "settings/*" AdminConfigUpdate;
    SettingPut PUT "settings/*" AdminConfigUpdate;
    SettingRemove DELETE "settings/*" AdminConfigUpdate;
    EventList GET "events" AdminServerInfo;
    EventTest POST "events/*/test" AdminTestEventTarget;
    // As for settings: dead letters contain events of every bucket.
    DeadLetterList GET "dead-letters" AdminConfigUpdate;
    DeadLetterReplay POST "dead-letters/*/replay" AdminConfigUpdate;
    DeadLetterRemove DELETE "dead-letters/*" AdminConfigUpdate;
    ServiceStop POST "service/stop" AdminServiceStop;
    ServiceRestart POST "service/restart" AdminServiceRestart;
    // The name is that of an object: BUCKET/KEY.
    Placement GET "placement/*" AdminObjectPlacement;
    PlacementHeal POST "placement/*/heal" AdminHeal;
    Why GET "why/*" AdminAudit;
    // Whoever may explain one request whose id they were told may not browse those of everybody.
    AuditSearch GET "audit" AdminAuditSearch;
    Document GET "openapi.json" AdminServerInfo;
}

/// The requests of a sign-in, which need no signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignInRoute {
    /// Lists the providers.
    Choices,
    /// Receives the browser from the provider.
    Back,
}

impl SignInRoute {
    /// All of them.
    pub const ALL: [SignInRoute; 2] = [SignInRoute::Choices, SignInRoute::Back];

    /// Name, HTTP method and path.
    pub fn row(self) -> (&'static str, Method, &'static str) {
        match self {
            SignInRoute::Choices => ("SignInChoices", Method::GET, "login/openid"),
            SignInRoute::Back => ("SignInBack", Method::POST, "login/openid/callback"),
        }
    }

    /// The request with this method and path; `what` is the path below the prefix.
    pub fn find(method: &Method, what: &str) -> Option<SignInRoute> {
        SignInRoute::ALL.into_iter().find(|r| matches!(r.row(), (_, m, path) if m == method && path == what))
    }
}

impl Route {
    /// Whether it can be about the caller's own account, which needs no policy.
    pub fn may_be_own(self) -> bool {
        matches!(
            self,
            Route::UserGet
                | Route::UserRevoke
                | Route::UserPut
                | Route::KeyList
                | Route::KeyCreate
                | Route::KeyGet
                | Route::KeyEdit
                | Route::KeyRemove
                | Route::Permissions
        )
    }

    /// What a request with this decoded path is: the prefix of its path, its route, and the name in it.
    pub fn resolve(method: &Method, path: &str) -> Option<(&'static str, Route, String)> {
        let base = BASES.into_iter().find(|base| path.starts_with(base))?;
        let (route, name) = Route::find(method, &path[base.len()..])?;
        Some((base, route, name))
    }

    /// The route of a request and the name in its path; `what` is the decoded path below the prefix.
    pub fn find(method: &Method, what: &str) -> Option<(Route, String)> {
        Route::ALL.iter().find_map(|route| {
            let name = match route.pattern().split_once('*') {
                None => (what == route.pattern()).then_some(""),
                Some((before, after)) => {
                    what.strip_prefix(before)?.strip_suffix(after).filter(|n| !n.is_empty())
                }
            };
            let name = name.filter(|_| route.method() == method)?;
            Some((*route, name.to_owned()))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_route_is_found_and_has_an_admin_action() {
        let mut seen = std::collections::BTreeSet::new();
        for route in Route::ALL {
            assert!(seen.insert((route.method().to_string(), route.pattern())), "{route:?} occurs twice");
            assert!(!route.actions().is_empty());
            for action in route.actions() {
                assert_eq!(action.service(), "admin", "{route:?}");
            }
            // Names with slashes and with the words that end other routes.
            for name in ["n", "ou=a,dc=b", "a/b", "attach/x", "x y"] {
                let path = route.pattern().replace('*', name);
                let found = Route::find(&route.method(), &path);
                let want = if route.pattern().contains('*') { name } else { "" };
                assert_eq!(found, Some((*route, want.to_owned())), "{path}");
            }
        }
        for (method, path) in [
            (Method::GET, ""),
            (Method::GET, "users/"),
            (Method::POST, "users"),
            (Method::POST, "users//enable"),
            (Method::DELETE, "info"),
            (Method::GET, "infos"),
            (Method::GET, "policies/"),
            (Method::PATCH, "users/a"),
            (Method::HEAD, "info"),
        ] {
            assert_eq!(Route::find(&method, path), None, "{method} {path}");
        }
        for route in SignInRoute::ALL {
            let (name, method, path) = route.row();
            assert!(seen.insert((method.to_string(), path)), "{name} occurs twice");
            assert_eq!(SignInRoute::find(&method, path), Some(route));
            assert_eq!(SignInRoute::find(&Method::PUT, path), None);
        }
    }
}
