//! Known flaws of other servers, as far as a policy evaluator can have them (docs/proof.md 2.4).

use std::cell::RefCell;
use std::net::IpAddr;

use ashlar_policy::{
    Action, Attached, Authority, Context, DecidedBy, Key, KeyId, Level, Lookup, Principal, Request, Values,
    Who, builtin, decide,
};

use crate::{alice, document, holds, may, read};

fn allow(action: &str) -> [std::sync::Arc<ashlar_policy::Policy>; 1] {
    let json = document(&format!(r#"{{"Effect":"Allow","Action":"{action}","Resource":"*"}}"#));
    [read(Attached::Identity, &json)]
}

/// MinIO CVE-2023-25812: a Deny on BypassGovernanceRetention was not honoured.
#[test]
fn cve_2023_25812_deny_of_governance_bypass() {
    let policy = [read(
        Attached::Identity,
        &document(
            r#"{"Effect":"Allow","Action":"s3:*","Resource":"*"},
               {"Effect":"Deny","Action":"s3:BypassGovernanceRetention","Resource":"arn:aws:s3:::b/*"}"#,
        ),
    )];
    let test = |action, bucket| may(&policy, &alice(), &Context::default(), action, bucket, "k");
    assert!(!test(Action::BypassGovernanceRetention, "b"));
    assert!(test(Action::DeleteObjectVersion, "b") && test(Action::BypassGovernanceRetention, "c"));
    for lesser in ["s3:DeleteObject*", "s3:Put*"] {
        assert!(!may(
            &allow(lesser),
            &alice(),
            &Context::default(),
            Action::BypassGovernanceRetention,
            "b",
            "k"
        ));
    }
}

/// MinIO CVE-2025-62506 (and CVE-2024-24747, CVE-2022-24842): a restricted session or service account
/// made itself a wider one, because acting on one's own account was only checked for denials.
#[test]
fn cve_2025_62506_own_account_under_a_session_policy() {
    let parent = [builtin("consoleAdmin").unwrap()];
    let session = [read(
        Attached::Session,
        &document(r#"{"Effect":"Allow","Action":"s3:GetObject","Resource":"arn:aws:s3:::b/*"}"#),
    )];
    let context = Context::default();
    for who in [Who::Session, Who::Federated, Who::User, Who::Root] {
        let principal = Principal { who, ..alice() };
        for action in [
            Action::AdminCreateServiceAccount,
            Action::AdminUpdateServiceAccount,
            Action::AdminRemoveServiceAccount,
            Action::AdminListServiceAccounts,
            Action::StsAssumeRole,
        ] {
            let request = Request::new(action, "", "", &principal, &context);
            for identity in [&parent[..], &[]] {
                let authority = Authority { identity, sessions: &session, own: true, ..Authority::default() };
                let decision = decide(&request, &authority);
                assert_eq!(
                    (decision.allowed, decision.by),
                    (false, DecidedBy::NoSession(0)),
                    "{who:?} {action:?}"
                );
            }
        }
    }
}

/// MinIO CVE-2021-43858 and others: permission for data must not give permission to change users or policies.
#[test]
fn cve_2021_43858_no_data_policy_reaches_administration() {
    for policy in ["readwrite", "readonly", "writeonly", "diagnostics"] {
        let identity = [builtin(policy).unwrap()];
        for action in Action::ALL.iter().filter(|a| a.service() == "admin") {
            let got = may(&identity, &alice(), &Context::default(), *action, "", "");
            let meant = policy == "diagnostics"
                && [
                    Action::AdminProfiling,
                    Action::AdminServerTrace,
                    Action::AdminConsoleLog,
                    Action::AdminServerInfo,
                    Action::AdminTopLocksInfo,
                    Action::AdminHealthInfo,
                    Action::AdminBandwidthMonitor,
                    Action::AdminPrometheus,
                ]
                .contains(action);
            assert_eq!(got, meant, "{policy} {}", action.name());
        }
    }
}

/// RustFS GHSA-pfcq, GHSA-f5cv, GHSA-796f and others: a wrong or missing action constant. Every action is
/// allowed by its own name and by no other.
#[test]
fn rustfs_ghsa_pfcq_every_action_has_its_own_name() {
    for allowed in Action::ALL {
        let policy = allow(allowed.name());
        for asked in Action::ALL {
            let key = if matches!(asked.level(), Level::Object | Level::Kms) { "k" } else { "" };
            let got = may(&policy, &alice(), &Context::default(), *asked, "", key);
            assert_eq!(got, allowed == asked, "{} for {}", allowed.name(), asked.name());
        }
    }
}

/// RustFS GHSA-3ppv, GHSA-x298, GHSA-mx42: reading versions without the actions for versions.
#[test]
fn rustfs_ghsa_3ppv_versions_have_their_own_actions() {
    use Action::*;
    for (given, asked) in [
        ("s3:GetObject", GetObjectVersion),
        ("s3:DeleteObject", DeleteObjectVersion),
        ("s3:ListBucket", ListBucketVersions),
        ("s3:GetObjectTagging", GetObjectVersionTagging),
        ("s3:PutObjectTagging", PutObjectVersionTagging),
        ("s3:GetObjectAcl", GetObjectVersionAcl),
        ("s3:GetObjectAttributes", GetObjectVersionAttributes),
        ("s3:PutObject", PutObjectTagging),
        ("s3:PutObject", PutObjectRetention),
        ("s3:PutObject", PutObjectAcl),
    ] {
        assert!(!may(&allow(given), &alice(), &Context::default(), asked, "b", "k"), "{given} for {asked:?}");
    }
}

/// A header source that has a value for everything and remembers what it was asked.
struct Liar(RefCell<Vec<String>>);

impl Lookup for Liar {
    fn get(&self, name: &str) -> Values<'_> {
        self.0.borrow_mut().push(name.to_owned());
        Values::Text("10.0.0.1")
    }
}

/// RustFS GHSA-6r96: condition keys that the server derives were taken from headers. RustFS CVE-2026-21862
/// (GHSA-fc6g): the source address was taken from a forwarding header.
#[test]
fn rustfs_ghsa_6r96_headers_are_no_derived_keys() {
    let liar = Liar(RefCell::default());
    let context = Context { headers: Some(&liar), ..Context::default() };
    let anonymous = Principal::default();
    for key in [
        "aws:SourceIp",
        "aws:username",
        "aws:userid",
        "aws:PrincipalArn",
        "aws:PrincipalType",
        "aws:groups",
        "aws:SecureTransport",
        "aws:CurrentTime",
        "aws:UserAgent",
        "aws:Referer",
        "s3:prefix",
        "s3:versionid",
        "s3:ExistingObjectTag/a",
        "s3:RequestObjectTag/a",
        "jwt:sub",
        "ldap:user",
        "s3:signatureversion",
        "s3:authType",
        "s3:object-lock-mode",
        "aws:TokenIssueTime",
        "aws:MultiFactorAuthPresent",
        "aws:SourceVpc",
    ] {
        for principal in [&anonymous, &alice()] {
            let block = format!(r#"{{"StringEquals":{{"{key}":"10.0.0.1"}}}}"#);
            assert!(!holds(&block, principal, &context), "{key}");
        }
    }
    assert!(!holds(r#"{"IpAddress":{"aws:SourceIp":"10.0.0.0/8"}}"#, &alice(), &context));
    assert_eq!(*liar.0.borrow(), [""; 0], "no header is even looked at");
    // The closed list, by the header's own name.
    assert!(holds(r#"{"StringEquals":{"s3:x-amz-acl":"10.0.0.1"}}"#, &alice(), &context));
    assert_eq!(*liar.0.borrow(), ["x-amz-acl"]);
    for name in ["x-amz-acl", "s3:x-forwarded-for", "s3:authorization", "s3:host", "aws:x-real-ip"] {
        assert_eq!(Key::find(name), None, "{name}");
    }
    assert!(!Key::find("aws:SourceIp").unwrap().id.is_header() && KeyId::HeaderAcl.is_header());
}

/// RustFS GHSA-v9cp, GHSA-5w8r: quantifiers and negation in the wrong order let denied values through.
#[test]
fn rustfs_ghsa_v9cp_negation_comes_before_the_quantifier() {
    let groups = ["staff".to_owned(), "blocked".to_owned()];
    let principal = Principal { groups: &groups, ..alice() };
    let policy = |operator: &str| {
        [read(
            Attached::Identity,
            &document(&format!(
                r#"{{"Effect":"Allow","Action":"s3:*","Resource":"*"}},
                   {{"Effect":"Deny","Action":"s3:*","Resource":"*","Condition":{{"{operator}":{{"aws:groups":["staff","dev"]}}}}}}"#
            )),
        )]
    };
    let test =
        |operator, p: &Principal| may(&policy(operator), p, &Context::default(), Action::GetObject, "b", "k");
    assert!(!test("ForAnyValue:StringNotEquals", &principal), "one group is outside the list");
    assert!(test("ForAllValues:StringNotEquals", &principal), "not every group is outside the list");
    assert!(!test("ForAnyValue:StringEquals", &principal));
    assert!(test("ForAllValues:StringEquals", &principal));
    assert!(!test("ForAllValues:StringEquals", &alice()), "the empty set satisfies ForAllValues");
    assert!(test("ForAnyValue:StringNotEquals", &alice()));
}

/// RustFS CVE-2026-22042, CVE-2026-22043 (`deny_only`): an empty or silent policy is no permission.
#[test]
fn rustfs_cve_2026_22042_silence_is_no_permission() {
    let (context, anonymous) = (Context::default(), Principal::default());
    let deny_something_else = [read(
        Attached::Identity,
        &document(r#"{"Effect":"Deny","Action":"admin:ServerUpdate","Resource":"*"}"#),
    )];
    for action in Action::ALL {
        assert!(!may(&[], &alice(), &context, *action, "b", "k"), "{action:?}");
        assert!(!may(&deny_something_else, &alice(), &context, *action, "b", "k"), "{action:?}");
        let request = Request::new(*action, "b", "k", &anonymous, &context);
        assert!(!decide(&request, &Authority { own: true, ..Authority::default() }).allowed);
    }
}

/// A name is never a pattern: neither a user called `*`, nor a key with `${...}` or `..` in it.
#[test]
fn names_are_never_patterns() {
    let home = [read(
        Attached::Identity,
        &document(
            r#"{"Effect":"Allow","Action":"s3:GetObject","Resource":"arn:aws:s3:::b/${aws:username}/*"}"#,
        ),
    )];
    for (name, key, want) in [
        ("*", "bob/x", false),
        ("*", "*/x", true),
        ("b?b", "bob/x", false),
        ("${aws:userid}", "AIDALICE/x", false),
        ("${aws:userid}", "${aws:userid}/x", true),
        ("a/../b", "b/x", false),
        ("", "/x", false),
        ("", "x", false),
    ] {
        let principal = Principal { name, ..alice() };
        assert_eq!(
            may(&home, &principal, &Context::default(), Action::GetObject, "b", key),
            want,
            "{name} {key}"
        );
    }
}

/// An address of IPv4 inside IPv6 is the IPv4 address: no way around a Deny.
#[test]
fn mapped_addresses_are_not_a_way_around() {
    for ip in ["10.1.2.3", "::ffff:10.1.2.3", "::ffff:a01:203"] {
        let context = Context { source_ip: Some(ip.parse::<IpAddr>().unwrap()), ..Context::default() };
        assert!(holds(r#"{"IpAddress":{"aws:SourceIp":"10.0.0.0/8"}}"#, &alice(), &context), "{ip}");
        assert!(!holds(r#"{"NotIpAddress":{"aws:SourceIp":"10.0.0.0/8"}}"#, &alice(), &context), "{ip}");
        assert!(holds(r#"{"StringEquals":{"aws:SourceIp":"10.1.2.3"}}"#, &alice(), &context), "{ip}");
    }
}
