//! Session policies, service accounts and nested sessions: every step keeps or restricts permissions.

use std::sync::Arc;

use ashlar_policy::{
    Action, Attached, Authority, BucketRules, Context, Policy, Principal, PublicAccessBlock, Request, Who,
    builtin, decide,
};

use crate::{alice, document, read};

fn pool() -> Vec<Arc<Policy>> {
    let own = [
        r#"{"Effect":"Deny","Action":"s3:Delete*","Resource":"*"}"#,
        r#"{"Effect":"Allow","Action":"*","Resource":"*"},{"Effect":"Deny","NotAction":"s3:*","Resource":"*"}"#,
        r#"{"Effect":"Allow","NotAction":"s3:PutObject","NotResource":"arn:aws:s3:::b/secret/*"}"#,
        r#"{"Effect":"Allow","Action":"s3:*","Resource":"arn:aws:s3:::b/${aws:username}/*"}"#,
        r#"{"Effect":"Allow","Action":"*","Resource":"*","Condition":{"ForAllValues:StringEquals":{"aws:groups":"x"}}}"#,
    ];
    let mut all: Vec<_> = own.iter().map(|s| read(Attached::Session, &document(s))).collect();
    all.extend(["readonly", "writeonly", "consoleAdmin"].map(|n| builtin(n).unwrap()));
    all
}

const ASKED: &[(Action, &str)] = &[
    (Action::GetObject, "alice/x"),
    (Action::GetObject, "secret/x"),
    (Action::PutObject, "alice/x"),
    (Action::DeleteObject, "alice/x"),
    (Action::ListBucket, ""),
    (Action::PutBucketPolicy, ""),
    (Action::AdminCreateUser, ""),
    (Action::AdminCreateServiceAccount, ""),
];

/// Every chain of up to four policies from the pool, under every identity and kind of requester.
#[test]
fn no_chain_of_four_policies_gains_permissions() {
    let pool = pool();
    let context = Context::default();
    let json = document(
        r#"{"Effect":"Allow","Principal":"*","Action":"s3:GetObject","Resource":"arn:aws:s3:::b/*"}"#,
    );
    let open = Policy::parse_for_bucket("b", json.as_bytes()).unwrap();
    let identities: Vec<Vec<Arc<Policy>>> = vec![
        vec![],
        vec![builtin("readonly").unwrap()],
        vec![builtin("consoleAdmin").unwrap(), pool[0].clone()],
    ];
    let mut cases = 0;
    for who in [Who::User, Who::Session, Who::Root, Who::Anonymous] {
        let principal = Principal { who, ..alice() };
        for identity in &identities {
            for (action, key) in ASKED {
                let request = Request::new(*action, "b", key, &principal, &context);
                let rules =
                    BucketRules { policy: Some(&open), block: PublicAccessBlock::default(), acl: false };
                let ask = |sessions: &[Arc<Policy>]| {
                    cases += 1;
                    decide(&request, &Authority { identity, sessions, bucket: rules, own: true }).allowed
                };
                chains(&pool, ask);
            }
        }
    }
    assert!(cases > 400_000, "{cases}");
}

/// Asks about every chain; each must allow no more than the chain without its last member, and exactly
/// what each of its members alone allows.
fn chains(pool: &[Arc<Policy>], mut ask: impl FnMut(&[Arc<Policy>]) -> bool) {
    let free = ask(&[]);
    let alone: Vec<bool> = pool.iter().map(|p| ask(std::slice::from_ref(p))).collect();
    let mut level: Vec<(Vec<usize>, bool)> = vec![(vec![], free)];
    for _ in 0..4 {
        let mut next = Vec::new();
        for (chain, before) in &level {
            for i in 0..pool.len() {
                let longer: Vec<usize> = chain.iter().copied().chain([i]).collect();
                let policies: Vec<_> = longer.iter().map(|i| pool[*i].clone()).collect();
                let after = ask(&policies);
                assert!(!after || *before, "{longer:?} gained");
                assert_eq!(
                    after,
                    free && longer.iter().all(|i| alone[*i]),
                    "{longer:?} is not the intersection"
                );
                next.push((longer, after));
            }
        }
        level = next;
    }
}
