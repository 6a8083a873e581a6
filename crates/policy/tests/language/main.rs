//! The language by hand: operators, order of evaluation, documents, known flaws of others, lists.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests run in real time")]

mod acl;
mod advisories;
mod documents;
mod examples;
mod lattice;
mod operators;
mod order;

use std::sync::Arc;

use ashlar_policy::{Action, Attached, Authority, Context, Policy, Principal, Request, Who, decide};

/// A compiled policy.
pub fn read(attached: Attached, json: &str) -> Arc<Policy> {
    Arc::new(Policy::parse(attached, json.as_bytes()).unwrap_or_else(|e| panic!("{e}\n{json}")))
}

/// A document of these statements.
pub fn document(statements: &str) -> String {
    format!(r#"{{"Version":"2012-10-17","Statement":[{statements}]}}"#)
}

/// What is wrong with a document.
pub fn wrong(attached: Attached, json: &str) -> String {
    match Policy::parse(attached, json.as_bytes()) {
        Ok(_) => panic!("accepted: {json}"),
        Err(e) => e.to_string(),
    }
}

/// The user alice.
pub fn alice() -> Principal<'static> {
    Principal {
        who: Who::User,
        name: "alice",
        id: "AIDALICE",
        arn: "arn:aws:iam::123456789012:user/alice",
        account: "123456789012",
        ..Principal::default()
    }
}

/// Whether identity policies let a principal do something.
pub fn may(
    policies: &[Arc<Policy>],
    principal: &Principal,
    context: &Context,
    action: Action,
    bucket: &str,
    key: &str,
) -> bool {
    let request = Request::new(action, bucket, key, principal, context);
    decide(&request, &Authority { identity: policies, ..Authority::default() }).allowed
}

/// Whether a condition block is true: a policy that allows everything under it.
pub fn holds(condition: &str, principal: &Principal, context: &Context) -> bool {
    let json =
        document(&format!(r#"{{"Effect":"Allow","Action":"s3:*","Resource":"*","Condition":{condition}}}"#));
    may(&[read(Attached::Identity, &json)], principal, context, Action::GetObject, "b", "k")
}
