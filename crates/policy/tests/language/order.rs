//! The order of evaluation, and the explanation of decisions.

use std::sync::Arc;

use ashlar_policy::{
    Action, Attached, Authority, BucketRules, Context, DecidedBy, Policy, Principal, PublicAccessBlock,
    Request, Source, Who, builtin, decide, explain,
};

use crate::{alice, document, may, read};

const ALLOW: &str = r#"{"Sid":"yes","Effect":"Allow","Action":"s3:GetObject","Resource":"arn:aws:s3:::b/*"}"#;
const DENY: &str =
    r#"{"Sid":"no","Effect":"Deny","Action":"s3:GetObject","Resource":"arn:aws:s3:::b/secret/*"}"#;

fn identity(statements: &str) -> Arc<Policy> {
    read(Attached::Identity, &document(statements))
}

fn bucket(statements: &str) -> Policy {
    let json = document(statements);
    Policy::parse_for_bucket("b", json.as_bytes()).unwrap_or_else(|e| panic!("{e}\n{json}"))
}

fn anyone(effect: &str, principal: &str) -> Policy {
    bucket(&format!(
        r#"{{"Effect":"{effect}",{principal},"Action":"s3:*","Resource":["arn:aws:s3:::b","arn:aws:s3:::b/*"]}}"#
    ))
}

fn ask(principal: &Principal, action: Action, key: &str, authority: &Authority) -> (bool, DecidedBy) {
    let context = Context::default();
    let request = Request::new(action, "b", key, principal, &context);
    let decision = decide(&request, authority);
    assert_eq!(explain(&request, authority).decision, decision);
    (decision.allowed, decision.by)
}

fn get(principal: &Principal, authority: &Authority) -> (bool, DecidedBy) {
    ask(principal, Action::GetObject, "k", authority)
}

#[test]
fn request_without_policies_is_denied() {
    assert_eq!(get(&alice(), &Authority::default()), (false, DecidedBy::Nothing));
    assert_eq!(get(&Principal::default(), &Authority::default()), (false, DecidedBy::Nothing));
}

#[test]
fn explicit_deny_overrides_every_allow() {
    let both = [identity(ALLOW), identity(DENY)];
    let authority = Authority { identity: &both, ..Authority::default() };
    assert_eq!(
        get(&alice(), &authority),
        (true, DecidedBy::Statement { source: Source::Identity(0), index: 0 })
    );
    let (allowed, by) = ask(&alice(), Action::GetObject, "secret/x", &authority);
    assert_eq!((allowed, by), (false, DecidedBy::Statement { source: Source::Identity(1), index: 0 }));

    let deny = anyone("Deny", r#""Principal":"*""#);
    let rules = BucketRules { policy: Some(&deny), ..BucketRules::default() };
    let authority = Authority { bucket: rules, ..authority };
    assert_eq!(get(&alice(), &authority), (false, DecidedBy::Statement { source: Source::Bucket, index: 0 }));

    let sessions = [identity(&format!("{ALLOW},{DENY}"))];
    let authority = Authority { identity: &both[..1], sessions: &sessions, ..Authority::default() };
    assert!(get(&alice(), &authority).0);
    let (allowed, by) = ask(&alice(), Action::GetObject, "secret/x", &authority);
    assert_eq!((allowed, by), (false, DecidedBy::Statement { source: Source::Session(0), index: 1 }));
}

#[test]
fn identity_or_bucket_policy_is_sufficient() {
    let allow = anyone("Allow", r#""Principal":{"AWS":"alice"}"#);
    let rules = BucketRules { policy: Some(&allow), ..BucketRules::default() };
    let authority = Authority { bucket: rules, ..Authority::default() };
    assert_eq!(get(&alice(), &authority), (true, DecidedBy::Statement { source: Source::Bucket, index: 0 }));
    let bob = Principal { name: "bob", ..alice() };
    assert_eq!(get(&bob, &authority), (false, DecidedBy::Nothing));
}

#[test]
fn session_policies_only_restrict() {
    let all = [builtin("readwrite").unwrap()];
    let wide = anyone("Allow", r#""Principal":"*""#);
    let read_only = [builtin("readonly").unwrap()];
    let rules = BucketRules { policy: Some(&wide), acl: true, ..BucketRules::default() };
    let authority = Authority { identity: &all, sessions: &read_only, bucket: rules, own: true };
    let session = Principal { who: Who::Session, ..alice() };
    assert!(get(&session, &authority).0);
    for who in [Who::Session, Who::User, Who::Federated, Who::Root] {
        let principal = Principal { who, ..alice() };
        assert_eq!(
            ask(&principal, Action::PutObject, "k", &authority),
            (false, DecidedBy::NoSession(0)),
            "{who:?}"
        );
    }
    let two = [builtin("readonly").unwrap(), builtin("writeonly").unwrap()];
    let authority = Authority { sessions: &two, ..authority };
    assert_eq!(get(&session, &authority), (false, DecidedBy::NoSession(1)));
}

#[test]
fn owner_is_allowed_everything() {
    let root = Principal { who: Who::Root, ..alice() };
    assert_eq!(get(&root, &Authority::default()), (true, DecidedBy::Root));
    let deny = anyone("Deny", r#""Principal":"*""#);
    let authority = Authority {
        bucket: BucketRules { policy: Some(&deny), ..BucketRules::default() },
        ..Authority::default()
    };
    assert!(!get(&root, &authority).0);
    // A bucket's policy cannot lock the owner out of the policy itself.
    for action in [Action::GetBucketPolicy, Action::PutBucketPolicy, Action::DeleteBucketPolicy] {
        assert_eq!(ask(&root, action, "", &authority), (true, DecidedBy::Root));
        assert!(!ask(&alice(), action, "", &authority).0);
        let limited = [builtin("readonly").unwrap()];
        assert_eq!(
            ask(&root, action, "", &Authority { sessions: &limited, ..authority }),
            (false, DecidedBy::NoSession(0))
        );
    }
}

#[test]
fn unsigned_requests_need_bucket_policy_or_list() {
    let anonymous = Principal::default();
    let all = [builtin("readwrite").unwrap()];
    let open = anyone("Allow", r#""Principal":"*""#);
    let named = anyone("Allow", r#""Principal":{"AWS":["alice","123456789012"]}"#);
    let with = |policy, block, acl| Authority {
        identity: &all,
        bucket: BucketRules { policy, block, acl },
        own: true,
        ..Authority::default()
    };
    let off = PublicAccessBlock::default();
    assert_eq!(get(&anonymous, &with(None, off, false)), (false, DecidedBy::Nothing));
    assert_eq!(get(&anonymous, &with(None, off, true)), (true, DecidedBy::Acl));
    assert_eq!(get(&anonymous, &with(Some(&named), off, true)), (true, DecidedBy::Acl));
    // A public policy that is blocked closes public lists too.
    assert_eq!(
        get(&anonymous, &with(Some(&open), PublicAccessBlock::ALL, true)),
        (false, DecidedBy::PublicAccessBlock)
    );
    assert!(get(&anonymous, &with(Some(&open), off, false)).0);
    assert_eq!(get(&anonymous, &with(Some(&named), off, false)), (false, DecidedBy::Nothing));
    assert_eq!(
        get(&anonymous, &with(Some(&open), PublicAccessBlock::ALL, false)),
        (false, DecidedBy::PublicAccessBlock)
    );
    // The setting is about the public; people with an identity keep what the policy gives them.
    let authority = Authority { identity: &[], ..with(Some(&open), PublicAccessBlock::ALL, false) };
    assert!(get(&alice(), &authority).0);
    // A policy that is not public is not touched by it.
    let office = bucket(
        r#"{"Effect":"Allow","Principal":"*","Action":"s3:GetObject","Resource":"arn:aws:s3:::b/*","Condition":{"IpAddress":{"aws:SourceIp":"192.0.2.0/24"}}}"#,
    );
    let context = Context { source_ip: Some([192, 0, 2, 7].into()), ..Context::default() };
    let request = Request::new(Action::GetObject, "b", "k", &anonymous, &context);
    assert!(decide(&request, &with(Some(&office), PublicAccessBlock::ALL, false)).allowed);
}

#[test]
fn principals_of_bucket_policies_match() {
    let check = |effect: &str, principal: &str, who: &Principal| {
        let policy = anyone(effect, principal);
        let all = [builtin("readwrite").unwrap()];
        let identity: &[_] = if effect == "Deny" { &all } else { &[] };
        let rules = BucketRules { policy: Some(&policy), ..BucketRules::default() };
        get(who, &Authority { identity, bucket: rules, ..Authority::default() }).0
    };
    let root = Principal { who: Who::Root, name: "root", ..alice() };
    let bob = Principal { name: "bob", arn: "", ..alice() };
    let federated = Principal { who: Who::Federated, name: "alice", provider: "idp", ..alice() };
    for (principal, alice_may, bob_may, federated_may) in [
        (r#""Principal":"*""#, true, true, true),
        (r#""Principal":{"AWS":"*"}"#, true, true, true),
        (r#""Principal":{"AWS":"arn:aws:iam::123456789012:user/alice"}"#, true, false, false),
        (r#""Principal":{"AWS":"arn:aws:iam:::user/alice"}"#, true, false, false),
        (r#""Principal":{"AWS":"arn:aws:iam::000000000000:user/alice"}"#, false, false, false),
        (r#""Principal":{"AWS":"arn:aws:sts:::federated-user/alice"}"#, false, false, true),
        (r#""Principal":{"Federated":"idp"}"#, false, false, true),
        (r#""Principal":{"AWS":["bob","alice"]}"#, true, true, false),
        // An account in Allow is its owner, as in AWS within one account.
        (r#""Principal":{"AWS":"123456789012"}"#, false, false, false),
        (r#""Principal":{"AWS":"arn:aws:iam::123456789012:root"}"#, false, false, false),
        (r#""Principal":{"CanonicalUser":"abc"}"#, false, false, false),
    ] {
        let found = (
            check("Allow", principal, &alice()),
            check("Allow", principal, &bob),
            check("Allow", principal, &federated),
        );
        assert_eq!(found, (alice_may, bob_may, federated_may), "{principal}");
        assert!(check("Allow", principal, &root));
    }
    let canonical = Principal { canonical_id: "abc", ..bob };
    assert!(check("Allow", r#""Principal":{"CanonicalUser":"abc"}"#, &canonical));
    // Deny with an account is about everybody in it; NotPrincipal with an account spares its owner only.
    assert!(!check("Deny", r#""Principal":{"AWS":"123456789012"}"#, &alice()));
    assert!(check("Deny", r#""Principal":{"AWS":"arn:aws:iam::000000000000:root"}"#, &alice()));
    assert!(!check("Deny", r#""NotPrincipal":{"AWS":"arn:aws:iam::123456789012:root"}"#, &alice()));
    assert!(check("Deny", r#""NotPrincipal":{"AWS":"arn:aws:iam::123456789012:root"}"#, &root));
    assert!(check("Deny", r#""NotPrincipal":{"AWS":"alice"}"#, &alice()));
    assert!(!check("Deny", r#""NotPrincipal":{"AWS":"alice"}"#, &bob));
    assert!(!check("Deny", r#""NotPrincipal":{"AWS":"alice"}"#, &federated));
    assert!(!check("Deny", r#""NotPrincipal":{"AWS":"alice"}"#, &Principal::default()));
}

#[test]
fn not_action_and_not_resource_exclude() {
    let but_buckets = [identity(r#"{"Effect":"Allow","NotAction":"s3:*Bucket*","Resource":"*"}"#)];
    let context = Context::default();
    let test = |p: &[Arc<Policy>], action, key| may(p, &alice(), &context, action, "b", key);
    assert!(test(&but_buckets, Action::GetObject, "k"));
    assert!(
        test(&but_buckets, Action::AdminCreateUser, ""),
        "NotAction with Allow is everything else, as in AWS"
    );
    assert!(!test(&but_buckets, Action::ListBucket, ""));
    let elsewhere = [identity(
        r#"{"Effect":"Allow","Action":"s3:GetObject","NotResource":["arn:aws:s3:::b/secret/*","arn:aws:s3:::b/${jwt:none}"]}"#,
    )];
    assert!(test(&elsewhere, Action::GetObject, "k"));
    assert!(!test(&elsewhere, Action::GetObject, "secret/k"));
}

#[test]
fn resources_match_the_level_of_the_action() {
    let context = Context::default();
    let test = |resource: &str, action, bucket, key| {
        let actions = r#"["s3:*","kms:*","admin:*"]"#;
        let p = [identity(&format!(r#"{{"Effect":"Allow","Action":{actions},"Resource":"{resource}"}}"#))];
        may(&p, &alice(), &context, action, bucket, key)
    };
    use Action::*;
    assert!(
        test("*", AdminCreateUser, "", "")
            && test("*", KmsEncrypt, "", "k")
            && test("*", GetObject, "b", "k")
    );
    assert!(
        test("arn:aws:s3:::*", ListAllMyBuckets, "", "") && test("arn:aws:s3:::*", AdminCreateUser, "", "")
    );
    assert!(!test("arn:aws:s3:::*", KmsEncrypt, "", "k") && test("arn:minio:kms:::k*", KmsEncrypt, "", "k1"));
    assert!(!test("arn:aws:kms:::*", GetObject, "b", "k"));
    assert!(
        !test("arn:aws:s3:::b", AdminCreateUser, "", "")
            && test("arn:aws:s3:::b", AdminSetBucketQuota, "b", "")
    );
    assert!(!test("arn:aws:s3:::b/*", ListBucket, "b", "") && !test("arn:aws:s3:::b", GetObject, "b", "k"));
    assert!(test("arn:aws:s3:::b/${aws:username}/*", GetObject, "b", "alice/x"));
    assert!(!test("arn:aws:s3:::B/*", GetObject, "b", "x"), "resources are case-sensitive");
    assert!(test("arn:aws:s3:::b/a?c", GetObject, "b", "aéc"));
}

/// An Allow about S3 only does not allow administration; a Deny about everything denies it.
#[test]
fn allow_of_all_s3_does_not_allow_administration() {
    let context = Context::default();
    let test = |actions: &str, resources: &str, action| {
        let p = [identity(&format!(r#"{{"Effect":"Allow",{actions},{resources}}}"#))];
        may(&p, &alice(), &context, action, "", "k")
    };
    use Action::*;
    let s3 = r#""Resource":"arn:aws:s3:::*""#;
    for (actions, resources, admin, data) in [
        (r#""Action":"*""#, s3, false, true),
        (r#""Action":"*:*""#, s3, false, true),
        (r#""NotAction":"s3:DeleteBucket""#, s3, false, true),
        (r#""Action":"*""#, r#""NotResource":"arn:aws:s3:::secret/*""#, false, true),
        (r#""Action":["s3:*","admin:*"]"#, s3, true, true),
        (r#""Action":["*","admin:ServerInfo"]"#, s3, false, true),
        (r#""Action":"*""#, r#""Resource":"*""#, true, true),
        (r#""NotAction":"s3:DeleteBucket""#, r#""Resource":"*""#, true, true),
        (r#""Action":"admin:Create*""#, s3, true, false),
    ] {
        assert_eq!(test(actions, resources, AdminCreateUser), admin, "{actions} {resources}");
        assert_eq!(test(actions, resources, GetObject), data, "{actions} {resources}");
    }
    let deny = [
        builtin("consoleAdmin").unwrap(),
        identity(r#"{"Effect":"Deny","Action":"*","Resource":"arn:aws:s3:::*"}"#),
    ];
    assert!(!may(&deny, &alice(), &context, AdminCreateUser, "", ""));
}

#[test]
fn own_account_is_allowed_unless_denied() {
    let session = Principal { who: Who::Session, ..alice() };
    let own = Authority { own: true, ..Authority::default() };
    let context = Context::default();
    let request = Request::new(Action::AdminCreateServiceAccount, "", "", &session, &context);
    assert_eq!(decide(&request, &own).by, DecidedBy::Own);
    let deny = [identity(r#"{"Effect":"Deny","Action":"admin:CreateServiceAccount"}"#)];
    assert!(!decide(&request, &Authority { identity: &deny, ..own }).allowed);
}

#[test]
fn explanations_name_the_deciding_statement() {
    let policies = [identity(&format!(
        r#"{ALLOW},{DENY},{{"Sid":"office","Effect":"Allow","Action":"s3:GetObject","Resource":"*","Condition":{{"IpAddress":{{"aws:SourceIp":"10.0.0.0/8"}}}}}}"#
    ))];
    let authority = Authority { identity: &policies, ..Authority::default() };
    let context = Context { source_ip: Some([192, 0, 2, 1].into()), ..Context::default() };
    let principal = alice();
    let request = Request::new(Action::GetObject, "b", "secret/k", &principal, &context);
    let e = explain(&request, &authority);
    assert_eq!(e.sid.as_deref(), Some("no"));
    assert_eq!(e.decision.to_string(), "denied by statement 1 of identity policy 0");
    assert_eq!(e.traces.len(), 3);
    assert_eq!(e.traces[0].misses, None);
    assert_eq!(
        e.traces[2].misses.as_deref(),
        Some("its condition on aws:SourceIp is not met (the request has: 192.0.2.1)")
    );
    let request = Request::new(Action::GetObject, "c", "k", &principal, &context);
    let e = explain(&request, &authority);
    assert_eq!(e.decision.to_string(), "denied: no statement allows it");
    assert_eq!(e.traces[0].misses.as_deref(), Some("it is about other resources than \"c/k\""));
    let request = Request::new(Action::PutObject, "c", "k", &principal, &context);
    assert!(explain(&request, &authority).traces.is_empty());
}
