//! Policies from documentation, and as `mc` writes them: they are accepted, and have the documented effect.

use ashlar_policy::{Action, Attached, Authority, BucketRules, Context, Policy, Principal, Request, decide};

use crate::{alice, document, may, read};

/// S3 User Guide, "Controlling access to a bucket with user policies": folders of a company.
#[test]
fn folder_policies_of_the_s3_guide() {
    let policy = [read(
        Attached::Identity,
        &document(
            r#"{"Sid":"Root","Effect":"Allow","Action":"s3:ListBucket","Resource":"arn:aws:s3:::company",
                "Condition":{"StringEquals":{"s3:prefix":["","home/"],"s3:delimiter":["/"]}}},
               {"Sid":"Own","Effect":"Allow","Action":"s3:ListBucket","Resource":"arn:aws:s3:::company",
                "Condition":{"StringLike":{"s3:prefix":["home/${aws:username}/*","home/${aws:username}"]}}},
               {"Sid":"All","Effect":"Allow","Action":"s3:*","Resource":"arn:aws:s3:::company/home/${aws:username}/*"}"#,
        ),
    )];
    for (prefix, delimiter, want) in [
        (Some(""), Some("/"), true),
        (Some("home/"), Some("/"), true),
        (Some(""), None, false),
        (None, Some("/"), false),
        (Some("home/alice/a"), None, true),
        (Some("home/alice"), None, true),
        (Some("home/bob/"), Some("/"), false),
    ] {
        let context = Context { prefix, delimiter, ..Context::default() };
        let got = may(&policy, &alice(), &context, Action::ListBucket, "company", "");
        assert_eq!(got, want, "{prefix:?} {delimiter:?}");
    }
    let context = Context::default();
    assert!(may(&policy, &alice(), &context, Action::PutObject, "company", "home/alice/x"));
    assert!(!may(&policy, &alice(), &context, Action::PutObject, "company", "home/bob/x"));
}

/// One statement that denies, beside one that allows everything.
fn unless(statement: &str, context: &Context, action: Action) -> bool {
    let all = r#"{"Effect":"Allow","Action":"s3:*","Resource":"*"}"#;
    let policy = [read(Attached::Identity, &document(&format!("{all},{statement}")))];
    may(&policy, &alice(), context, action, "b", "k")
}

/// S3 User Guide, "Bucket policy examples using condition keys".
#[test]
fn condition_key_examples_of_the_s3_guide() {
    let encrypted = r#"{"Effect":"Deny","Action":"s3:PutObject","Resource":"*","Condition":{"StringNotEquals":{"s3:x-amz-server-side-encryption":"aws:kms"}}}"#;
    let headers = |v: &'static str| [("x-amz-server-side-encryption", v)];
    for (value, want) in [("aws:kms", true), ("AES256", false)] {
        let list = headers(value);
        let list = &list[..];
        let context = Context { headers: Some(&list), ..Context::default() };
        assert_eq!(unless(encrypted, &context, Action::PutObject), want, "{value}");
    }
    assert!(!unless(encrypted, &Context::default(), Action::PutObject));

    let pages = r#"{"Effect":"Deny","Action":"s3:ListBucket","Resource":"*","Condition":{"NumericGreaterThan":{"s3:max-keys":"10"}}}"#;
    for (max_keys, want) in [(Some(10), true), (Some(11), false), (None, true)] {
        let context = Context { max_keys, ..Context::default() };
        assert_eq!(unless(pages, &context, Action::ListBucket), want, "{max_keys:?}");
    }
    let retention = r#"{"Effect":"Deny","Action":"s3:PutObjectRetention","Resource":"*","Condition":{"NumericGreaterThan":{"s3:object-lock-remaining-retention-days":"100"}}}"#;
    for (days, want) in [(100, true), (101, false)] {
        let context = Context { lock_until_ms: Some(days * 86_400_000), ..Context::default() };
        assert_eq!(unless(retention, &context, Action::PutObjectRetention), want, "{days}");
    }
    let age = r#"{"Effect":"Deny","Action":"s3:*","Resource":"*","Condition":{"NumericGreaterThan":{"s3:signatureAge":600000}}}"#;
    for (signature_age_ms, want) in [(Some(600_000), true), (Some(600_001), false), (None, true)] {
        let context = Context { signature_age_ms, ..Context::default() };
        assert_eq!(unless(age, &context, Action::GetObject), want, "{signature_age_ms:?}");
    }
    let tls = r#"{"Effect":"Deny","Action":"s3:*","Resource":"*","Condition":{"NumericLessThan":{"s3:TlsVersion":1.2}}}"#;
    for (tls_version, want) in [(Some("1.3"), true), (Some("1.1"), false), (None, true)] {
        let context = Context { tls_version, ..Context::default() };
        assert_eq!(unless(tls, &context, Action::GetObject), want, "{tls_version:?}");
    }
    let mfa = r#"{"Effect":"Deny","Action":"s3:*","Resource":"*","Condition":{"BoolIfExists":{"aws:MultiFactorAuthPresent":"false"}}}"#;
    assert!(!unless(mfa, &Context::default(), Action::GetObject), "IfExists is true without the key");
    let mfa = mfa.replace("BoolIfExists", "Bool");
    assert!(unless(&mfa, &Context::default(), Action::GetObject), "no session, no such key");
}

/// S3 User Guide, "Tagging and access control policies".
#[test]
fn tag_policies_of_the_s3_guide() {
    let policy = [read(
        Attached::Identity,
        &document(
            r#"{"Effect":"Allow","Action":"s3:GetObject","Resource":"arn:aws:s3:::b/*","Condition":{"StringEquals":{"s3:ExistingObjectTag/environment":"production"}}},
               {"Effect":"Allow","Action":"s3:PutObjectTagging","Resource":"arn:aws:s3:::b/*",
                "Condition":{"ForAllValues:StringLike":{"s3:RequestObjectTagKeys":["Owner","CreationDate"]},
                             "ForAnyValue:StringEquals":{"s3:RequestObjectTagKeys":"Owner"}}}"#,
        ),
    )];
    for (value, want) in [("production", true), ("test", false)] {
        let list = [("environment", value)];
        let list = &list[..];
        let context = Context { object_tags: Some(&list), ..Context::default() };
        assert_eq!(may(&policy, &alice(), &context, Action::GetObject, "b", "k"), want);
    }
    assert!(!may(&policy, &alice(), &Context::default(), Action::GetObject, "b", "k"));
    assert!(
        policy[0].uses_object_tags(Action::GetObject)
            && !policy[0].uses_object_tags(Action::PutObjectTagging)
    );
    let cases: [(&[(&str, &str)], bool); 4] = [
        (&[("Owner", "a")], true),
        (&[("Owner", "a"), ("CreationDate", "b")], true),
        (&[("CreationDate", "b")], false),
        (&[("Owner", "a"), ("Other", "b")], false),
    ];
    for (request_tags, want) in cases {
        let context = Context { request_tags, ..Context::default() };
        assert_eq!(
            may(&policy, &alice(), &context, Action::PutObjectTagging, "b", "k"),
            want,
            "{request_tags:?}"
        );
    }
}

/// What `mc anonymous set public bucket/pre` puts.
#[test]
fn anonymous_access_as_mc_writes_it() {
    let json = document(
        r#"{"Effect":"Allow","Principal":{"AWS":["*"]},"Action":["s3:GetBucketLocation","s3:ListBucketMultipartUploads"],"Resource":["arn:aws:s3:::b"]},
           {"Effect":"Allow","Principal":{"AWS":["*"]},"Action":["s3:ListBucket"],"Resource":["arn:aws:s3:::b"],"Condition":{"StringEquals":{"s3:prefix":["pre"]}}},
           {"Effect":"Allow","Principal":{"AWS":["*"]},"Action":["s3:AbortMultipartUpload","s3:DeleteObject","s3:GetObject","s3:ListMultipartUploadParts","s3:PutObject"],"Resource":["arn:aws:s3:::b/pre*"]}"#,
    );
    let policy = Policy::parse_for_bucket("b", json.as_bytes()).unwrap();
    let (principal, context) = (Principal::default(), Context { prefix: Some("pre"), ..Context::default() });
    let rules = BucketRules { policy: Some(&policy), ..BucketRules::default() };
    for (action, key, want) in [
        (Action::GetObject, "pre/x", true),
        (Action::PutObject, "prefix", true),
        (Action::GetObject, "x", false),
        (Action::ListBucket, "", true),
        (Action::DeleteBucket, "", false),
        (Action::GetObjectVersion, "pre/x", false),
    ] {
        let request = Request::new(action, "b", key, &principal, &context);
        let authority = Authority { bucket: rules, ..Authority::default() };
        assert_eq!(decide(&request, &authority).allowed, want, "{action:?} {key}");
    }
}
