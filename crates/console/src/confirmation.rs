//! Confirmation by the secret: for a few minutes, calls about access keys are signed with the key that the person signed
//! in with, instead of the session's temporary credentials, which can make no lasting ones.
//!
//! Whoever finds a browser in which somebody is signed in, or runs a script in it, does not know the secret, and so makes
//! no key that outlives the session. For the same reason, calls that destroy what cannot be had back are
//! refused until the person confirmed: a user with its keys, a bucket, the content of a drive or a node. Who has no secret
//! here, because a directory or a provider vouched for them, gets the confirmation with the sign-in.
//!
//! Invariants: the confirmation is sealed, for one session and one key, and ends after [`LIFE_S`]; what a call is about is
//! what the APIs resolve it to, never the text of its path; the key that is confirmed signs nothing but changes of keys.
//!
//! Must not depend on: how the secret is checked.

use ashlar_admin::Route;
use ashlar_iam::Iam;
use ashlar_s3::operation::{Operation, classify};
use ashlar_s3::target::Target;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::header::HeaderMap;
use http::{Method, Uri};
use serde::{Deserialize, Serialize};

use crate::cookie;
use crate::session::Session;

/// The name of the cookie.
const COOKIE: &str = "ashlar-console-confirmed";
/// What it is sealed for.
const PLACE: &str = "console-confirmed";
/// How long it is good, in seconds; for those without a secret here: how long after the sign-in.
pub(crate) const LIFE_S: i64 = 300;

#[derive(Serialize, Deserialize)]
struct Confirmed {
    session: String,
    signer: String,
    expires_ms: i64,
}

/// The header that tells the browser that the person of a session has confirmed.
pub(crate) fn given(iam: &Iam, session: &Session, now_ms: i64, secure: bool) -> String {
    let confirmed = Confirmed {
        session: session.access_key.clone(),
        signer: session.signer.clone(),
        expires_ms: now_ms + LIFE_S * 1000,
    };
    let plain = serde_json::to_vec(&confirmed).unwrap_or_default();
    cookie::given(COOKIE, &URL_SAFE_NO_PAD.encode(iam.seal(PLACE, &plain)), LIFE_S, secure)
}

/// Whether the person of a session has confirmed.
pub(crate) fn is_given(iam: &Iam, session: &Session, headers: &HeaderMap, now_ms: i64) -> bool {
    let open = || -> Option<Confirmed> {
        let sealed = URL_SAFE_NO_PAD.decode(cookie::find(headers, COOKIE)?).ok()?;
        serde_json::from_slice(&iam.unseal(PLACE, &sealed)?).ok()
    };
    open().is_some_and(|c| {
        c.session == session.access_key && c.signer == session.signer && now_ms < c.expires_ms
    })
}

/// What destroys something in the administration API. To remove a node gives up what only its drives have.
const DESTROYING: [Route; 3] = [Route::UserRemove, Route::DriveReplace, Route::ClusterRemove];

/// The route of a call, found by the same functions as the API finds it; `uri`: as the API gets it.
fn route(method: &Method, uri: &Uri) -> Option<Route> {
    let target = Target::parse(uri.path(), uri.query(), None).ok()?;
    Some(Route::resolve(method, &target.path)?.1)
}

/// Whether a call is about access keys and changes something; `uri`: as the administration API gets it.
pub(crate) fn concerns(method: &Method, uri: &Uri) -> bool {
    matches!(route(method, uri), Some(Route::KeyCreate | Route::KeyEdit | Route::KeyRemove))
}

/// Whether a call of the administration API destroys what cannot be had back; `uri`: as that API gets it.
pub(crate) fn admin_destroys(method: &Method, uri: &Uri) -> bool {
    route(method, uri).is_some_and(|route| DESTROYING.contains(&route))
}

/// Whether a call of S3 destroys what cannot be had back; `uri`: as S3 gets it. `in_host`: the host names the bucket.
pub(crate) fn s3_destroys(method: &Method, uri: &Uri, in_host: bool) -> bool {
    // Which bucket it is changes nothing.
    let target = Target::parse(uri.path(), uri.query(), in_host.then_some("bucket"));
    // What cannot be read or has no operation is refused by S3, which asks the same functions.
    let operation = target.and_then(|target| classify(method, &target, false, false));
    operation.is_ok_and(|operation| operation == Operation::DeleteBucket)
}

/// The header that ends the confirmation.
pub(crate) fn ended(secure: bool) -> String {
    cookie::taken(COOKIE, secure)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// They can be undone or made anew, or their object is an event or a setting.
    const FREE_ROUTES: &[&str] = &[
        "HealStart",
        "HealLimitsPut",
        "HealLimitsRemove",
        "DriveScrub",
        "DriveOffline",
        "DriveOnline",
        "DriveRecover",
        "ClusterToken",
        "ClusterUpgrade",
        "ClusterAuthority",
        "ClusterControlMembers",
        "UserEnable",
        "UserDisable",
        "UserRevoke",
        "UserPut",
        "GroupMembers",
        "GroupEnable",
        "GroupDisable",
        "GroupRemove",
        "PolicyAttach",
        "PolicyDetach",
        "PolicyPut",
        "PolicyRemove",
        "KeyCreate",
        "KeyEdit",
        "KeyRemove",
        "QuotaPut",
        "QuotaRemove",
        "LifecycleTest",
        "LifecycleSimulate",
        "KmsKeyRotate",
        "KmsKeyCreate",
        "RewrapStart",
        "Simulate",
        "Permissions",
        "ProviderTest",
        "ProviderPut",
        "ProviderEdit",
        "ProviderRemove",
        "ProviderEnable",
        "ProviderDisable",
        "IamImport",
        "SettingPut",
        "SettingRemove",
        "EventTest",
        "DeadLetterReplay",
        "DeadLetterRemove",
        "ServiceStop",
        "ServiceRestart",
        "PlacementHeal",
    ];
    /// Objects are protected by versions and locks (decision 0043, 8); settings can be made anew.
    const FREE_DELETIONS: &[&str] = &[
        "DeleteBucketTagging",
        "DeleteObject",
        "DeleteObjectTagging",
        "AbortMultipartUpload",
        "DeleteBucketPolicy",
        "DeletePublicAccessBlock",
        "DeleteBucketOwnershipControls",
        "DeleteBucketEncryption",
        "DeleteBucketLifecycle",
        "DeleteBucketCors",
        "DeleteBucketWebsite",
    ];

    #[test]
    fn every_spelling_of_an_act_that_destroys_is_found() {
        for (method, path, wanted) in [
            (Method::DELETE, "users/anna", true),
            (Method::DELETE, "%75sers/anna", true),
            (Method::DELETE, "%55sers/anna", false),
            (Method::DELETE, "users%2fanna", true),
            (Method::DELETE, "users/an%2Fna", true),
            (Method::DELETE, "users/an/na", true),
            (Method::DELETE, "users/anna/", true),
            (Method::DELETE, "users//anna", true),
            (Method::DELETE, "users/../users/anna", true),
            (Method::DELETE, "users/anna?x=1", true),
            (Method::DELETE, "users/anna/enable", true),
            (Method::PUT, "users/anna", false),
            (Method::POST, "users/anna/disable", false),
            (Method::POST, "drives/replace", true),
            (Method::POST, "%64rives%2Freplace?", true),
            (Method::POST, "drives/offline", false),
            (Method::POST, "cluster/remove", true),
            // These have no route: the API answers 404.
            (Method::DELETE, "/users/anna", false),
            (Method::DELETE, "Users/anna", false),
            (Method::DELETE, "users/", false),
            (Method::POST, "drives/replace/", false),
            (Method::from_bytes(b"delete").unwrap(), "users/anna", false),
        ] {
            let uri: Uri = format!("/ashlar/api/v1/{path}").parse().unwrap();
            assert_eq!(admin_destroys(&method, &uri), wanted, "{method} {path}");
            let found = route(&method, &uri);
            assert!(!wanted || found.is_some(), "{method} {path}");
        }
    }

    #[test]
    fn every_spelling_of_deleting_a_bucket_is_found() {
        for (uri, in_path, in_host) in [
            ("/bucket", true, false),
            ("/bucket/", true, false),
            ("/%62ucket%2F", true, false),
            ("/bucket?", true, false),
            ("/bucket?&", true, false),
            ("/bucket?x-id=DeleteBucket", true, false),
            ("/bucket?%78-id=", true, false),
            ("/bucket?policy", false, false),
            ("/bucket?x-id=DeleteBucketPolicy&policy", false, false),
            ("/bucket/key", false, false),
            ("/", false, true),
            ("/?x-id=DeleteBucket", false, true),
            ("/?lifecycle", false, false),
            // These have no operation: S3 refuses them.
            ("//bucket", false, false),
            ("/bucket?foo", false, false),
            ("/bucket?policy&cors", false, false),
        ] {
            let uri: Uri = uri.parse().unwrap();
            assert_eq!(s3_destroys(&Method::DELETE, &uri, false), in_path, "{uri}");
            assert_eq!(s3_destroys(&Method::DELETE, &uri, true), in_host, "{uri} below a host");
            assert!(!s3_destroys(&Method::PUT, &uri, false), "{uri}");
        }
    }

    /// A new route or operation is on neither list, until somebody has decided.
    #[test]
    fn for_each_act_it_is_decided_whether_it_destroys() {
        let free: Vec<&str> = Route::ALL
            .iter()
            .filter(|route| route.method() != Method::GET && !DESTROYING.contains(route))
            .map(|route| route.name())
            .collect();
        assert_eq!(free.join(" "), FREE_ROUTES.join(" "));
        let free: Vec<&str> = Operation::ALL
            .iter()
            .filter(|op| op.row().method == Method::DELETE && **op != Operation::DeleteBucket)
            .map(|op| op.name())
            .collect();
        assert_eq!(free.join(" "), FREE_DELETIONS.join(" "));
    }

    #[test]
    fn only_changes_of_keys_are_concerned() {
        for (method, path, wanted) in [
            (Method::POST, "keys", true),
            (Method::POST, "%6beys", true),
            (Method::PATCH, "keys/AKIA", true),
            (Method::DELETE, "keys/AKIA", true),
            (Method::GET, "keys", false),
            (Method::POST, "keysmith", false),
            (Method::PUT, "users/keys", false),
            (Method::POST, "kms/keys/a/rotate", false),
        ] {
            let uri = format!("/ashlar/api/v1/{path}").parse().unwrap();
            assert_eq!(concerns(&method, &uri), wanted, "{method} {path}");
        }
    }
}
