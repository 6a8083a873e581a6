//! Measures the cost of a decision: 20 policies of 5 statements each, attached to one user.
//!
//! `cargo run --release -p ashlar-policy --example policy_cost`. Prints nanoseconds of wall time per decision,
//! the best of several rounds, with the making of the request counted in.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "it runs in real time")]

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use ashlar_policy::{
    Action, Attached, Authority, BucketRules, Context, Policy, Principal, Request, Who, decide,
};

const ROUNDS: u32 = 15;
const EACH: u32 = 100_000;

/// Policy `i`: five statements of common kinds.
fn policy(i: usize) -> String {
    format!(
        r#"{{"Version":"2012-10-17","Statement":[
        {{"Effect":"Allow","Action":["s3:ListBucket","s3:GetBucketLocation"],"Resource":"arn:aws:s3:::team-{i}","Condition":{{"StringLike":{{"s3:prefix":["home/${{aws:username}}/*","shared/*"]}}}}}},
        {{"Effect":"Allow","Action":["s3:GetObject*","s3:PutObject"],"Resource":"arn:aws:s3:::team-{i}/home/${{aws:username}}/*"}},
        {{"Effect":"Allow","Action":"s3:Get*","Resource":["arn:aws:s3:::shared-{i}/*","arn:aws:s3:::public-{i}/*.jpg"]}},
        {{"Effect":"Allow","Action":"s3:*","Resource":"arn:aws:s3:::scratch-{i}-*/*","Condition":{{"IpAddress":{{"aws:SourceIp":"10.{i}.0.0/16"}},"Bool":{{"aws:SecureTransport":"true"}}}}}},
        {{"Sid":"Never","Effect":"Deny","Action":"s3:*","Resource":"*","Condition":{{"NotIpAddress":{{"aws:SourceIp":["10.0.0.0/8","192.168.0.0/16"]}}}}}}]}}"#
    )
}

fn measure(name: &str, bucket: &str, key: &str, action: Action, authority: &Authority, want: bool) {
    let groups = vec!["staff".to_owned(), "dev".to_owned()];
    let principal =
        Principal { who: Who::User, name: "alice", id: "alice", groups: &groups, ..Principal::default() };
    let mut best = f64::MAX;
    for _ in 0..ROUNDS {
        let begin = Instant::now();
        for i in 0..EACH {
            let context = Context {
                now_ms: i64::from(i),
                source_ip: Some([10, 19, 1, 2].into()),
                secure: true,
                user_agent: Some("aws-cli/2"),
                ..Context::default()
            };
            let request = Request::new(action, black_box(bucket), black_box(key), &principal, &context);
            assert_eq!(black_box(decide(&request, authority)).allowed, want);
        }
        best = best.min(begin.elapsed().as_nanos() as f64 / f64::from(EACH));
    }
    println!("{name:<58} {best:>8.0} ns");
}

fn main() {
    let read = |attached, json: &str| {
        Policy::parse(attached, json.as_bytes()).unwrap_or_else(|e| panic!("{json}: {e}"))
    };
    let twenty: Vec<Arc<Policy>> = (0..20).map(|i| Arc::new(read(Attached::Identity, &policy(i)))).collect();
    let all = Authority { identity: &twenty, ..Authority::default() };
    println!("20 policies of 5 statements, every statement about GetObject or all of S3:");
    measure(
        "GET allowed by the 19th policy",
        "team-18",
        "home/alice/report.pdf",
        Action::GetObject,
        &all,
        true,
    );
    measure(
        "GET allowed by the first policy (the rest may deny)",
        "team-0",
        "home/alice/x",
        Action::GetObject,
        &all,
        true,
    );
    measure(
        "GET that nothing allows",
        "other",
        "a/fairly/long/key/of/an/object.parquet",
        Action::GetObject,
        &all,
        false,
    );
    measure("GET allowed by source address and TLS", "scratch-19-a", "k", Action::GetObject, &all, true);
    measure("admin action that nothing mentions", "", "", Action::AdminCreateUser, &all, false);
    let one = [ashlar_policy::builtin("readwrite").expect("built in")];
    measure(
        "readwrite alone, GET",
        "b",
        "k",
        Action::GetObject,
        &Authority { identity: &one, ..Authority::default() },
        true,
    );
    let public = read(
        Attached::Bucket,
        r#"{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":"*","Action":"s3:GetObject","Resource":"arn:aws:s3:::team-18/*"}]}"#,
    );
    let with_bucket =
        Authority { bucket: BucketRules { policy: Some(&public), ..BucketRules::default() }, ..all };
    measure("the 20 and a bucket policy that allows", "team-18", "x", Action::GetObject, &with_bucket, true);
    let begin = Instant::now();
    for i in 0..1000 {
        black_box(read(Attached::Identity, &policy(i % 20)));
    }
    println!(
        "{:<58} {:>8.0} ns",
        "reading and compiling one policy",
        begin.elapsed().as_nanos() as f64 / 1000.0
    );
}
