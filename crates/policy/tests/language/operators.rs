//! Every operator, alone, negated, with `IfExists` and with both quantifiers; the special cases of AWS's
//! documentation.

use ashlar_policy::{Context, Principal};

use crate::{alice, holds};

/// Claims for `jwt:*`: name and values.
type Claims = Vec<(String, Vec<String>)>;

fn claims(list: &[(&str, &[&str])]) -> Claims {
    list.iter().map(|(n, v)| ((*n).to_owned(), v.iter().map(|t| (*t).to_owned()).collect())).collect()
}

/// One row: a condition on `jwt:k`, the values of the request, the result.
fn rows(table: &[(&str, &[&str], bool)]) {
    for (condition, values, want) in table {
        let claims = claims(&[("k", values)]);
        let principal = Principal { claims: Some(&claims), ..alice() };
        let (operator, wanted) = condition.split_once(' ').expect("operator and values");
        let block = format!(r#"{{"{operator}":{{"jwt:k":{wanted}}}}}"#);
        assert_eq!(holds(&block, &principal, &Context::default()), *want, "{condition} with {values:?}");
    }
}

#[test]
fn string_operators() {
    rows(&[
        (r#"StringEquals "a""#, &["a"], true),
        (r#"StringEquals "a""#, &["A"], false),
        (r#"StringEquals "a*""#, &["ab"], false),
        (r#"StringEquals "a*""#, &["a*"], true),
        (r#"StringEquals ["x","a"]"#, &["a"], true),
        (r#"StringEquals """#, &[""], true),
        (r#"StringNotEquals "a""#, &["a"], false),
        (r#"StringNotEquals "a""#, &["b"], true),
        (r#"StringEqualsIgnoreCase "GRÜN""#, &["grün"], true),
        (r#"StringEqualsIgnoreCase "a""#, &["b"], false),
        (r#"StringNotEqualsIgnoreCase "A""#, &["a"], false),
        (r#"StringNotEqualsIgnoreCase "A""#, &["b"], true),
        (r#"StringLike "a*c?""#, &["abcd"], true),
        (r#"StringLike "a*c?""#, &["abc"], false),
        (r#"StringLike "A*""#, &["ab"], false),
        (r#"StringLike "*""#, &[""], true),
        (r#"StringNotLike "a*""#, &["ab"], false),
        (r#"StringNotLike "a*""#, &["b"], true),
    ]);
}

#[test]
fn number_operators() {
    rows(&[
        (r#"NumericEquals "10""#, &["10.0"], true),
        ("NumericEquals 10", &["10"], true),
        ("NumericNotEquals 10", &["10"], false),
        ("NumericNotEquals 10", &["11"], true),
        ("NumericLessThan 10", &["9.999999999"], true),
        ("NumericLessThan 10", &["10"], false),
        ("NumericLessThanEquals 10", &["10"], true),
        ("NumericLessThanEquals 10", &["10.1"], false),
        ("NumericGreaterThan 10", &["10"], false),
        ("NumericGreaterThan 10", &["10.5"], true),
        ("NumericGreaterThanEquals 10", &["10"], true),
        ("NumericGreaterThanEquals -1", &["-2"], false),
        // Not a number: equal to nothing, and so not equal to everything.
        ("NumericEquals 10", &["ten"], false),
        ("NumericLessThan 10", &[""], false),
        ("NumericNotEquals 10", &["ten"], true),
        // Beyond what a double can tell apart.
        ("NumericEquals 9007199254740993", &["9007199254740992"], false),
    ]);
}

#[test]
fn date_operators() {
    let noon = r#""2026-11-21T12:00:00Z""#;
    rows(&[
        (&format!("DateEquals {noon}"), &["2026-11-21T14:00:00+02:00"], true),
        (&format!("DateEquals {noon}"), &["1795262400"], true),
        (&format!("DateNotEquals {noon}"), &["2026-11-21"], true),
        (&format!("DateNotEquals {noon}"), &["2026-11-21T12:00:00Z"], false),
        (&format!("DateLessThan {noon}"), &["2026-11-21T11:59:59Z"], true),
        (&format!("DateLessThan {noon}"), &["2026-11-21T12:00:00Z"], false),
        (&format!("DateLessThanEquals {noon}"), &["2026-11-21T12:00:00Z"], true),
        (&format!("DateGreaterThan {noon}"), &["2026-11-21T12:00:00Z"], false),
        (&format!("DateGreaterThan {noon}"), &["2027"], true),
        (&format!("DateGreaterThanEquals {noon}"), &["2026-11-21T12:00:00Z"], true),
        (&format!("DateGreaterThanEquals {noon}"), &["yesterday"], false),
    ]);
    let context = Context { now_ms: 1_795_262_400_000, ..Context::default() };
    assert!(holds(&format!(r#"{{"DateEquals":{{"aws:CurrentTime":{noon}}}}}"#), &alice(), &context));
    assert!(holds(r#"{"NumericEquals":{"aws:EpochTime":"1795262400"}}"#, &alice(), &context));
    assert!(holds(&format!(r#"{{"StringEquals":{{"aws:CurrentTime":{noon}}}}}"#), &alice(), &context));
}

#[test]
fn bool_and_binary_operators() {
    rows(&[
        (r#"Bool "true""#, &["true"], true),
        ("Bool true", &["True"], true),
        ("Bool false", &["true"], false),
        ("Bool [true,false]", &["true"], true),
        ("Bool true", &["yes"], false),
        (r#"BinaryEquals "QmluYXJ5""#, &["Binary"], true),
        (r#"BinaryEquals "QmluYXJ5""#, &["binary"], false),
        (r#"BinaryEquals "QmluYXJ5""#, &["QmluYXJ5"], false),
    ]);
    let tls = Context { secure: true, ..Context::default() };
    for (want, context, result) in
        [("true", tls, true), ("false", tls, false), ("false", Context::default(), true)]
    {
        let block = format!(r#"{{"Bool":{{"aws:SecureTransport":"{want}"}}}}"#);
        assert_eq!(holds(&block, &alice(), &context), result);
    }
}

#[test]
fn address_operators() {
    for (operator, nets, ip, want) in [
        ("IpAddress", r#""203.0.113.0/24""#, Some("203.0.113.9"), true),
        ("IpAddress", r#""203.0.113.0/24""#, Some("203.0.114.9"), false),
        ("IpAddress", r#"["198.51.100.1","2001:db8::/32"]"#, Some("2001:db8:1::2"), true),
        ("IpAddress", r#""203.0.113.0/24""#, Some("::ffff:203.0.113.9"), true),
        ("IpAddress", r#""0.0.0.0/0""#, Some("::1"), false),
        ("IpAddress", r#""0.0.0.0/0""#, None, false),
        ("NotIpAddress", r#""203.0.113.0/24""#, Some("203.0.113.9"), false),
        ("NotIpAddress", r#"["203.0.113.0/24","198.51.100.0/24"]"#, Some("198.51.100.7"), false),
        ("NotIpAddress", r#""203.0.113.0/24""#, Some("198.51.100.7"), true),
        ("NotIpAddress", r#""203.0.113.0/24""#, None, true),
        ("IpAddressIfExists", r#""203.0.113.0/24""#, None, true),
    ] {
        let ip = ip.map(|t| t.parse().expect("an address"));
        let context = Context { source_ip: ip, ..Context::default() };
        let block = format!(r#"{{"{operator}":{{"aws:SourceIp":{nets}}}}}"#);
        assert_eq!(holds(&block, &alice(), &context), want, "{operator} {nets} {ip:?}");
    }
}

#[test]
fn arn_operators() {
    rows(&[
        (r#"ArnEquals "arn:aws:iam::1:user/*""#, &["arn:aws:iam::1:user/a/b"], true),
        (r#"ArnLike "arn:aws:iam::1:user/*""#, &["arn:aws:iam::2:user/a"], false),
        // A star stays inside its part, and the sixth part holds the rest, colons and all.
        (r#"ArnLike "arn:aws:*:1:user:*""#, &["arn:aws:iam::1:user:a"], false),
        (r#"ArnLike "arn:*:*:*:*:a*""#, &["arn:aws:sns:eu:1:a:b:c"], true),
        (r#"ArnNotEquals "arn:aws:iam::1:user/a""#, &["arn:aws:iam::1:user/a"], false),
        (r#"ArnNotLike "arn:aws:iam::1:user/a*""#, &["arn:aws:iam::1:user/b"], true),
        (r#"ArnLike "arn:*:*:*:*:*""#, &["not an arn"], false),
        (r#"ArnNotLike "arn:*:*:*:*:*""#, &["not an arn"], true),
    ]);
    assert!(holds(
        r#"{"ArnLike":{"aws:PrincipalArn":"arn:aws:iam::123456789012:user/${aws:username}"}}"#,
        &alice(),
        &Context::default()
    ));
}

/// AWS: a missing key fails; it satisfies a negated operator; `IfExists` is true without it.
#[test]
fn missing_key_fails_plain_and_satisfies_negated_operators() {
    for (operator, value, want) in [
        ("StringEquals", r#""a""#, false),
        ("StringNotEquals", r#""a""#, true),
        ("StringEqualsIgnoreCase", r#""a""#, false),
        ("StringNotEqualsIgnoreCase", r#""a""#, true),
        ("StringLike", r#""*""#, false),
        ("StringNotLike", r#""*""#, true),
        ("NumericEquals", "1", false),
        ("NumericNotEquals", "1", true),
        ("NumericLessThan", "1", false),
        ("NumericLessThanEquals", "1", false),
        ("NumericGreaterThan", "1", false),
        ("NumericGreaterThanEquals", "1", false),
        ("DateEquals", "0", false),
        ("DateNotEquals", "0", true),
        ("DateLessThan", "0", false),
        ("DateLessThanEquals", "0", false),
        ("DateGreaterThan", "0", false),
        ("DateGreaterThanEquals", "0", false),
        ("Bool", "false", false),
        ("BinaryEquals", r#""QQ==""#, false),
        ("IpAddress", r#""::/0""#, false),
        ("NotIpAddress", r#""::/0""#, true),
        ("ArnEquals", r#""arn:*:*:*:*:*""#, false),
        ("ArnLike", r#""arn:*:*:*:*:*""#, false),
        ("ArnNotEquals", r#""arn:*:*:*:*:*""#, true),
        ("ArnNotLike", r#""arn:*:*:*:*:*""#, true),
    ] {
        let test =
            |op: &str| holds(&format!(r#"{{"{op}":{{"jwt:k":{value}}}}}"#), &alice(), &Context::default());
        assert_eq!(test(operator), want, "{operator}");
        assert!(test(&format!("{operator}IfExists")), "{operator}IfExists");
        assert!(test(&format!("ForAllValues:{operator}")), "ForAllValues:{operator}");
        assert!(!test(&format!("ForAnyValue:{operator}")), "ForAnyValue:{operator}");
        assert!(test(&format!("ForAnyValue:{operator}IfExists")), "ForAnyValue:{operator}IfExists");
    }
    // With the key there, IfExists is as the operator without it.
    rows(&[
        (r#"StringEqualsIfExists "a""#, &["b"], false),
        (r#"StringEqualsIfExists "a""#, &["a"], true),
        (r#"StringNotEqualsIfExists "a""#, &["a"], false),
        ("NumericLessThanIfExists 5", &["6"], false),
        ("BoolIfExists true", &["false"], false),
    ]);
}

/// A negated operator with several values is true when none matches.
#[test]
fn negated_operators_mean_none_of_the_values() {
    rows(&[
        (r#"StringNotEquals ["a","b"]"#, &["a"], false),
        (r#"StringNotEquals ["a","b"]"#, &["b"], false),
        (r#"StringNotEquals ["a","b"]"#, &["c"], true),
        (r#"StringNotLike ["a*","b*"]"#, &["bx"], false),
        ("NumericNotEquals [1,2]", &["2"], false),
        ("DateNotEquals [0,1]", &["1"], false),
    ]);
}

/// The tables of "Multivalued context key examples".
#[test]
fn quantifiers_over_several_values() {
    rows(&[
        (r#"ForAllValues:StringLike "key1*""#, &["key1:legal"], true),
        (r#"ForAllValues:StringLike "key1*""#, &["key1:hr", "key1:personnel"], true),
        (r#"ForAllValues:StringLike "key1*""#, &["key1:hr", "key2:audit"], false),
        (r#"ForAllValues:StringNotLike "key1*""#, &["key1:legal"], false),
        (r#"ForAllValues:StringNotLike "key1*""#, &["key1:hr", "key1:personnel"], false),
        (r#"ForAllValues:StringNotLike "key1*""#, &["key2:audit"], true),
        (r#"ForAllValues:StringNotLike ["key1*","key2*"]"#, &["key2:audit"], false),
        (r#"ForAllValues:StringNotLike ["key1*","key2*"]"#, &["key3", "key1"], false),
        (r#"ForAnyValue:StringEquals ["webserver","x"]"#, &["environment", "webserver"], true),
        (r#"ForAnyValue:StringEquals "webserver""#, &["environment"], false),
        // Negated for each value, then counted: one value outside the list is enough.
        (r#"ForAnyValue:StringNotEquals ["a","b"]"#, &["a", "c"], true),
        (r#"ForAnyValue:StringNotEquals ["a","b"]"#, &["a", "b"], false),
        ("ForAllValues:NumericLessThan 10", &["1", "9"], true),
        ("ForAnyValue:NumericLessThan 10", &["11", "9"], true),
        ("ForAllValues:Bool true", &["true", "false"], false),
        ("ForAnyValue:DateLessThan 10", &["11", "9"], true),
        (r#"ForAnyValue:IpAddress "10.0.0.0/8""#, &["192.0.2.1", "10.0.0.1"], true),
        (r#"ForAllValues:ArnLike "arn:aws:iam::1:*""#, &["arn:aws:iam::1:a", "arn:aws:iam::2:a"], false),
        (r#"ForAnyValue:BinaryEquals "QQ==""#, &["B", "A"], true),
        // The empty set: nothing, or nothing but empty texts.
        (r#"ForAllValues:StringEquals "a""#, &[], true),
        (r#"ForAllValues:StringEquals "a""#, &[""], true),
        (r#"ForAnyValue:StringEquals "a""#, &[], false),
        (r#"ForAnyValue:StringEquals """#, &[""], false),
        (r#"ForAnyValue:StringNotEquals "a""#, &[""], false),
        (r#"ForAllValues:StringEquals "a""#, &["", "a"], false),
        // Without a quantifier one of several values is enough; negated, none may match.
        (r#"StringEquals "a""#, &["b", "a"], true),
        (r#"StringNotEquals "a""#, &["b", "a"], false),
        (r#"StringEquals "a""#, &[], false),
        (r#"StringNotEquals "a""#, &[], true),
    ]);
}

#[test]
fn null_operator() {
    rows(&[
        (r#"Null "true""#, &[], true),
        ("Null true", &["x"], false),
        ("Null false", &["x"], true),
        ("Null false", &[], false),
        // The pair of AWS: ForAllValues is true for the empty set, `Null: false` is not.
        ("Null false", &[""], false),
        ("Null [true,false]", &[], true),
    ]);
    let context = Context::default();
    let principal = alice();
    assert!(holds(r#"{"Null":{"aws:TokenIssueTime":"true"}}"#, &principal, &context));
    let session = Principal { token_issued_ms: Some(1), ..alice() };
    assert!(!holds(r#"{"Null":{"aws:TokenIssueTime":"true"}}"#, &session, &context));
}

/// Operators and keys are joined by AND, values by OR.
#[test]
fn operators_and_keys_are_anded_values_ored() {
    let c = claims(&[("a", &["1"]), ("b", &["2"])]);
    let principal = Principal { claims: Some(&c), ..alice() };
    for (block, want) in [
        (r#"{"StringEquals":{"jwt:a":"1","jwt:b":"2"}}"#, true),
        (r#"{"StringEquals":{"jwt:a":"1","jwt:b":"x"}}"#, false),
        (r#"{"StringEquals":{"jwt:a":["x","1"]},"NumericLessThan":{"jwt:b":3}}"#, true),
        (r#"{"StringEquals":{"jwt:a":"1"},"NumericLessThan":{"jwt:b":2}}"#, false),
        (r#"{"StringEquals":{"JWT:A":"1"}}"#, true),
    ] {
        assert_eq!(holds(block, &principal, &Context::default()), want, "{block}");
    }
}

/// A variable without a value matches nothing, so a negated operator is true (AWS, "Policy variables
/// with no value").
#[test]
fn variables_without_value_match_nothing() {
    let c = claims(&[("k", &["alice"]), ("many", &["alice", "bob"]), ("star", &["*"])]);
    let groups = vec!["alice".to_owned()];
    let principal = Principal { claims: Some(&c), groups: &groups, ..alice() };
    for (block, want) in [
        (r#"{"StringEquals":{"jwt:k":"${aws:username}"}}"#, true),
        (r#"{"StringEquals":{"jwt:k":"${AWS:UserName}"}}"#, true),
        (r#"{"StringEqualsIgnoreCase":{"jwt:k":"${aws:username}"}}"#, true),
        (r#"{"StringLike":{"jwt:k":"${aws:username}*"}}"#, true),
        (r#"{"StringEquals":{"jwt:k":"${jwt:none}"}}"#, false),
        (r#"{"StringLike":{"jwt:k":"*${jwt:none}*"}}"#, false),
        (r#"{"StringNotEquals":{"jwt:k":"${jwt:none}"}}"#, true),
        (r#"{"StringNotLike":{"jwt:k":"${jwt:none}"}}"#, true),
        (r#"{"StringEquals":{"jwt:k":"${jwt:none, 'alice'}"}}"#, true),
        (r#"{"StringEqualsIgnoreCase":{"jwt:k":"${jwt:none, 'ALICE'}"}}"#, true),
        // A key with several values has no value as a variable, and neither has one that could have.
        (r#"{"StringEquals":{"jwt:k":"${jwt:many}"}}"#, false),
        (r#"{"StringEquals":{"jwt:k":"${aws:groups}"}}"#, false),
        // A star in a value is a star.
        (r#"{"StringLike":{"jwt:k":"${jwt:star}"}}"#, false),
        (r#"{"StringLike":{"jwt:star":"${*}"}}"#, true),
        (r#"{"StringLike":{"jwt:k":"${*}"}}"#, false),
    ] {
        assert_eq!(holds(block, &principal, &Context::default()), want, "{block}");
    }
}
