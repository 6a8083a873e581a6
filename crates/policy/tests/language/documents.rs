//! Parsing and writing documents: accepted and refused documents, and the texts of errors.

use ashlar_policy::{Attached, Document, Error, Policy, Version};

use crate::{document, read, wrong};

const FULL: &str = r#" {
  "Version": "2012-10-17", "Id": "an \"id\"\u0001é",
  "Statement": [
    {"Sid": "One", "Effect": "Allow", "Principal": {"AWS": ["arn:aws:iam:::user/a", "b"], "CanonicalUser": "c"},
     "Action": ["s3:GetObject", "s3:Put*"], "Resource": "arn:aws:s3:::b/${aws:username}/*",
     "Condition": {"StringLike": {"s3:prefix": ["", "home/*"], "aws:UserAgent": "x"}, "Bool": {"aws:SecureTransport": true},
                   "NumericLessThan": {"s3:max-keys": 10.5}}},
    {"Effect": "Deny", "NotPrincipal": {"AWS": "a"}, "NotAction": "s3:*", "NotResource": ["arn:aws:s3:::b"]},
    {"Effect": "Deny", "Principal": "*", "Action": "*", "Resource": "arn:aws:s3:::b"}
  ]
} "#;

#[test]
fn documents_survive_a_round_trip() {
    let policy = read(Attached::Bucket, FULL);
    let written = policy.to_json();
    let again = read(Attached::Bucket, &written);
    assert_eq!(policy, again);
    assert_eq!(again.to_json(), written);
    assert!(
        written.starts_with(r#"{"Version":"2012-10-17","Id":"an \"id\"\u0001é","Statement":[{"Sid":"One","#)
    );
    assert!(written.contains(r#""Bool":{"aws:SecureTransport":"true"}"#), "{written}");
    assert!(written.contains(r#""NumericLessThan":{"s3:max-keys":"10.5"}"#), "{written}");
    // The same document to serde.
    let (a, b): (serde_json::Value, serde_json::Value) =
        (serde_json::from_str(FULL).unwrap(), serde_json::from_str(&written).unwrap());
    assert_eq!(a["Statement"][0]["Resource"], b["Statement"][0]["Resource"]);
    assert_eq!(a["Statement"][0]["Principal"], b["Statement"][0]["Principal"]);
    for (name, json) in ashlar_policy::BUILTIN {
        assert_eq!(read(Attached::Identity, json).to_json(), *json, "{name}");
    }
}

#[test]
fn single_statement_without_version_is_accepted() {
    let policy =
        read(Attached::Identity, r#"{"Statement":{"Effect":"Allow","Action":"s3:*","Resource":"*"}}"#);
    let document: &Document = policy.document();
    assert_eq!((document.version, document.version_given), (Version::V2008, false));
    assert_eq!(policy.to_json(), r#"{"Statement":[{"Effect":"Allow","Action":"s3:*","Resource":"*"}]}"#);
}

#[test]
fn errors_name_the_position_and_the_cause() {
    let statement = |s: &str| document(s);
    let ok = r#""Effect":"Allow","Action":"s3:*","Resource":"*""#;
    for (json, want) in [
        ("".to_owned(), "line 1, column 1: the document ends too early"),
        ("[]".to_owned(), "the policy: must be an object, not an array"),
        ("{}".to_owned(), "the policy: has no Statement"),
        (r#"{"Statement":[]}"#.to_owned(), "Statement: must hold at least one statement"),
        (r#"{"Version":"2026-01-01","Statement":[]}"#.to_owned(), "write \"2012-10-17\""),
        (r#"{"Statment":[]}"#.to_owned(), "unknown element \"Statment\"; did you mean Statement?"),
        (r#"{"Statement":[],"Statement":[]}"#.to_owned(), "\"Statement\" occurs twice"),
        (r#"{"Statement":["x"]}"#.to_owned(), "Statement[0]: must be an object, not a string"),
        (statement(r#"{"Action":"s3:*","Resource":"*"}"#), "Statement[0]: has no Effect"),
        (statement(r#"{"Effect":"allow","Action":"s3:*","Resource":"*"}"#), "Statement[0].Effect: \"allow\" must be"),
        (statement(r#"{"Effect":"Allow","Resource":"*"}"#), "has neither Action nor NotAction"),
        (statement(r#"{"Effect":"Allow","Action":"s3:*"}"#), "has neither Resource nor NotResource"),
        (statement(r#"{"Effect":"Allow","Action":[],"Resource":"*"}"#), "Statement[0].Action: must not be empty"),
        (statement(r#"{"Effect":"Allow","Action":5,"Resource":"*"}"#), "Statement[0].Action: must be a string or"),
        (
            statement(r#"{"Effect":"Allow","Action":["s3:GetObject","s3:GetObjct"],"Resource":"*"}"#),
            "Statement[0].Action[1]: \"s3:GetObjct\" is not an action; did you mean s3:GetObject?",
        ),
        (statement(r#"{"Effect":"Allow","Action":"ec2:*","Resource":"*"}"#), "\"ec2:*\" is not an action"),
        (statement(r#"{"Effect":"Allow","Action":"s3:Frob*","Resource":"*"}"#), "\"s3:Frob*\" is not an action"),
        (
            statement(r#"{"Effect":"Allow","Action":"s3:*","NotAction":"s3:*","Resource":"*"}"#),
            "has both Action and NotAction",
        ),
        (statement(r#"{"Effect":"Allow","Action":"s3:*","Resource":"bucket/*"}"#), "\"bucket/*\" is not a resource"),
        (statement(r#"{"Effect":"Allow","Action":"s3:*","Resource":"arn:aws:s3:eu::b"}"#), "between the colons"),
        (statement(r#"{"Effect":"Allow","Action":"s3:*","Resource":"arn:aws:sns:::b"}"#), "service sns"),
        (statement(r#"{"Effect":"Allow","Action":"s3:*","Resource":"arn:aws:s3:::"}"#), "names nothing"),
        (statement(r#"{"Effect":"Allow","Action":"s3:*","Resource":"arn:aws:s3:::/b"}"#), "without a slash"),
        (statement(r#"{"Effect":"Allow","Action":"s3:*","Resource":"arn:aws:s3:::b/${aws:usrname}"}"#), "did you mean aws:username?"),
        (statement(r#"{"Effect":"Allow","Action":"s3:*","Resource":"arn:aws:s3:::b/${aws:username"}"#), "without \"}\""),
        (
            statement(r#"{"Effect":"Allow","Action":"admin:CreateUser","Resource":"arn:aws:s3:::b"}"#),
            "Statement[0].Resource: these actions are not about a bucket or object",
        ),
        (statement(&format!(r#"{{{ok},"Principal":"*"}}"#)), "Principal is only for policies of buckets"),
        (statement(&format!(r#"{{{ok},"Effekt":"x"}}"#)), "Statement[0]: unknown element \"Effekt\"; did you mean Effect?"),
        (statement(&format!(r#"{{{ok},"Condition":[]}}"#)), "Statement[0].Condition: must be an object"),
        (
            statement(&format!(r#"{{{ok},"Condition":{{"StringEqual":{{"aws:username":"a"}}}}}}"#)),
            "unknown condition operator \"StringEqual\"; did you mean StringEquals?",
        ),
        (statement(&format!(r#"{{{ok},"Condition":{{"NullIfExists":{{"aws:username":"true"}}}}}}"#)), "Null takes neither"),
        (statement(&format!(r#"{{{ok},"Condition":{{"Bool":{{}}}}}}"#)), "at least one condition key"),
        (
            statement(&format!(r#"{{{ok},"Condition":{{"Bool":{{"aws:SecureTransprt":"true"}}}}}}"#)),
            "unknown condition key \"aws:SecureTransprt\"; did you mean aws:SecureTransport?",
        ),
        (
            statement(&format!(r#"{{{ok},"Condition":{{"IpAddress":{{"aws:SourceIp":["10.0.0.0/8","10.0.0.0/40"]}}}}}}"#)),
            "Statement[0].Condition.IpAddress.aws:SourceIp[1]: \"10.0.0.0/40\" is not an address or network",
        ),
        (statement(&format!(r#"{{{ok},"Condition":{{"Bool":{{"aws:SecureTransport":"yes"}}}}}}"#)), "neither true nor false"),
        (statement(&format!(r#"{{{ok},"Condition":{{"NumericEquals":{{"s3:max-keys":"${{jwt:a}}"}}}}}}"#)), "not a number"),
        (statement(&format!(r#"{{{ok},"Condition":{{"DateLessThan":{{"aws:CurrentTime":"soon"}}}}}}"#)), "not a date"),
        (statement(&format!(r#"{{{ok},"Condition":{{"ArnLike":{{"aws:PrincipalArn":"*"}}}}}}"#)), "write arn:*:*:*:*:*"),
        (statement(&format!(r#"{{{ok},"Condition":{{"BinaryEquals":{{"jwt:a":"?"}}}}}}"#)), "not base64"),
        (statement(&format!(r#"{{{ok},"Condition":{{"StringEquals":{{"jwt:a":[]}}}}}}"#)), "at least one value"),
        (statement(&format!(r#"{{{ok},"Condition":{{"StringEquals":{{"jwt:a":null}}}}}}"#)), "must be a string, not null"),
        (statement(&format!(r#"{{{ok},"Sid":"a"}},{{{ok},"Sid":"a"}}"#)), "Statement[1].Sid: occurs twice"),
        (
            r#"{"Statement":[{"Effect":"Allow","Action":"s3:*","Resource":"arn:aws:s3:::b/${aws:username}"}]}"#.to_owned(),
            "policy variables need \"Version\": \"2012-10-17\"",
        ),
    ] {
        let message = wrong(Attached::Identity, &json);
        assert!(message.contains(want), "{json}\n{message}\n{want}");
    }
}

#[test]
fn principals_are_parsed() {
    let with = |p: &str| {
        document(&format!(r#"{{"Effect":"Allow",{p}"Action":"s3:*","Resource":"arn:aws:s3:::b/*"}}"#))
    };
    for (principal, want) in [
        ("", "has no Principal"),
        (r#""Principal":"alice","#, "must be \"*\" or an object such as {\"AWS\": \"alice\"}"),
        (r#""Principal":{},"#, "must name a principal"),
        (r#""Principal":{"AWS":[]},"#, "must not be empty"),
        (r#""Principal":{"AWS":"arn:aws:iam:::user/*"},"#, "only \"*\" alone is a wildcard"),
        (r#""Principal":{"AWS":"arn:aws:iam:::group/dev"},"#, "a group cannot be a principal"),
        (r#""Principal":{"AWS":"arn:aws:iam::12:user/a"},"#, "an account is empty or 12 digits"),
        (r#""Principal":{"AWS":"arn:aws:s3:::b"},"#, "is not a principal"),
        (r#""Principal":{"Aws":"*"},"#, "unknown kind of principal"),
        (r#""Principal":{"Service":"*"},"#, "\"*\" is only for AWS"),
        (r#""NotPrincipal":{"AWS":"alice"},"#, "NotPrincipal with Allow"),
    ] {
        let message = wrong(Attached::Bucket, &with(principal));
        assert!(message.contains(want), "{principal}: {message}");
    }
}

#[test]
fn bucket_policies_apply_only_to_their_bucket() {
    let parse = |action: &str, resource: &str| {
        let json = document(&format!(
            r#"{{"Effect":"Allow","Principal":"*","Action":"{action}","Resource":{resource}}}"#
        ));
        Policy::parse_for_bucket("b", json.as_bytes()).map(|_| ()).map_err(|e| e.to_string())
    };
    for (action, resource, want) in [
        ("s3:GetObject", r#""arn:aws:s3:::b/*""#, None),
        ("s3:ListBucket", r#""arn:aws:s3:::b""#, None),
        ("s3:*", r#"["arn:aws:s3:::b","arn:aws:s3:::b/*"]"#, None),
        ("s3:*", r#""arn:aws:s3:::b/*""#, None),
        ("s3:GetObject", r#""arn:aws:s3:::b*""#, None),
        ("s3:GetObject", r#""*""#, Some("must be arn:aws:s3:::b")),
        ("s3:GetObject", r#""arn:aws:s3:::c/*""#, Some("Statement[0].Resource[0]: must be arn:aws:s3:::b")),
        ("s3:GetObject", r#""arn:aws:s3:::bc/*""#, Some("must be arn:aws:s3:::b")),
        ("s3:GetObject", r#""arn:aws:s3:::*""#, Some("must be arn:aws:s3:::b")),
        ("s3:GetObject", r#""arn:aws:s3:::${aws:username}/*""#, Some("must be arn:aws:s3:::b")),
        ("s3:GetObject", r#""arn:aws:s3:::b""#, Some("s3:GetObject does not apply to any resource")),
        ("s3:ListBucket", r#""arn:aws:s3:::b/*""#, Some("add arn:aws:s3:::b")),
        ("s3:ListAllMyBuckets", r#""arn:aws:s3:::b""#, Some("not allowed in a bucket's policy")),
        ("admin:CreateUser", r#""arn:aws:s3:::b""#, Some("")),
    ] {
        match (parse(action, resource), want) {
            (Ok(()), None) => {}
            (Err(e), Some(w)) => assert!(e.contains(w), "{action} {resource}: {e}"),
            (result, _) => panic!("{action} {resource}: {result:?}"),
        }
    }
}

#[test]
fn sizes_are_limited() {
    for attached in [Attached::Identity, Attached::Bucket, Attached::Session, Attached::AccessKey] {
        let long = format!("{:width$}", "{", width = attached.limit() + 1);
        let size = Error::TooLarge { size: long.len(), limit: attached.limit() };
        assert_eq!(Policy::parse(attached, long.as_bytes()), Err(size));
    }
    let message = Policy::parse(Attached::Identity, b"{\n\xff").unwrap_err().to_string();
    assert_eq!(message, "line 2, column 1: not UTF-8");
    // The largest documents are read and asked in time.
    let one = r#"{"Effect":"Deny","Action":"s3:*","Resource":"arn:aws:s3:::*a*a*a*a*a*a*a*a*b"}"#;
    let many = vec![one; Attached::Identity.limit() / (one.len() + 1) - 1].join(",");
    let begin = std::time::Instant::now();
    let policy = read(Attached::Identity, &document(&many));
    let key = "a".repeat(1024);
    assert!(!crate::may(
        &[policy],
        &crate::alice(),
        &Default::default(),
        ashlar_policy::Action::GetObject,
        "b",
        &key
    ));
    assert!(begin.elapsed().as_secs() < 2, "{:?}", begin.elapsed());
}

/// Wherever a document is cut or changed by one byte, reading it is an answer, not a panic.
#[test]
fn damaged_documents_never_panic() {
    for i in 0..FULL.len() {
        let _ = Policy::parse(Attached::Bucket, &FULL.as_bytes()[..i]);
        for byte in [b'"', b'{', b']', b':', b'*', b'$', 0, 0xff] {
            let mut changed = FULL.as_bytes().to_vec();
            changed[i] = byte;
            if let Ok(p) = Policy::parse(Attached::Bucket, &changed) {
                assert_eq!(*read(Attached::Bucket, &p.to_json()), p);
            }
        }
    }
}
