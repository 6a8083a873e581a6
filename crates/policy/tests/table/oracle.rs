//! The second evaluator: AWS's documentation, sentence by sentence, over the JSON of the policies.
//!
//! Slow and plain on purpose. A request is a map of texts. Sources: IAM User Guide ("Policy evaluation
//! logic", "Condition operators", "Conditions with multiple context keys or values", "Variables and
//! tags", "NotPrincipal") and S3 User Guide ("Blocking public access").

use std::collections::BTreeMap;

use serde_json::Value;

/// A request in plain words.
#[derive(Debug, Clone)]
pub struct Facts {
    pub action: String,
    /// `arn:aws:s3:::bucket/key`, or nothing.
    pub resource: String,
    /// anonymous, root, user, session, federated.
    pub who: String,
    pub name: String,
    pub account: String,
    /// Condition keys in lower case. A key that is not there is missing.
    pub keys: BTreeMap<String, Vec<String>>,
    /// Keys that may have several values.
    pub multivalued: Vec<String>,
    pub own: bool,
    pub acl: bool,
}

/// What is attached, as JSON.
pub struct Attached {
    pub bucket: Option<Value>,
    pub identity: Vec<Value>,
    pub sessions: Vec<Value>,
    pub restrict_public: bool,
}

/// The answer.
pub fn allowed(attached: &Attached, facts: &Facts) -> bool {
    let statements = |policy: &Value| -> Vec<Value> {
        match &policy["Statement"] {
            Value::Array(list) => list.clone(),
            one => vec![one.clone()],
        }
    };
    let anonymous = facts.who == "anonymous";
    let root = facts.who == "root";
    let says = |policy: &Value, effect: &str| {
        statements(policy).iter().any(|s| s["Effect"] == effect && applies(s, facts))
    };
    // "By default, all requests are implicitly denied with the exception of the root user."
    // "An explicit deny in any policy overrides any allows."
    let may_repair = root
        && ["s3:GetBucketPolicy", "s3:PutBucketPolicy", "s3:DeleteBucketPolicy"].contains(&&*facts.action);
    let bucket_denies = attached.bucket.as_ref().is_some_and(|p| says(p, "Deny"));
    if bucket_denies && !may_repair {
        return false;
    }
    if attached.sessions.iter().any(|p| says(p, "Deny")) {
        return false;
    }
    if !anonymous && attached.identity.iter().any(|p| says(p, "Deny")) {
        return false;
    }
    // "The resulting permissions are the intersection of the identity-based policies and the session policies."
    if !attached.sessions.iter().all(|p| says(p, "Allow")) {
        return false;
    }
    // "An identity-based policy or a resource-based policy allows": within an account one is enough.
    let by_bucket = attached
        .bucket
        .as_ref()
        .is_some_and(|p| says(p, "Allow") && !(anonymous && attached.restrict_public && is_public(p)));
    let by_identity = !anonymous && attached.identity.iter().any(|p| says(p, "Allow"));
    // A list counts for everybody; but not where the bucket's policy is public and that is blocked.
    let blocked = anonymous
        && attached.restrict_public
        && attached.bucket.as_ref().is_some_and(|p| says(p, "Allow") && is_public(p));
    by_bucket || by_identity || root || (!anonymous && facts.own) || (facts.acl && !blocked)
}

fn texts(value: &Value) -> Vec<String> {
    match value {
        Value::Array(list) => list.iter().flat_map(texts).collect(),
        Value::String(s) => vec![s.clone()],
        other => vec![other.to_string()],
    }
}

/// Whether the statement is about this request.
fn applies(s: &Value, facts: &Facts) -> bool {
    let action = |list: &Value| {
        texts(list).iter().any(|p| glob(&plain(&p.to_lowercase()), &facts.action.to_lowercase()))
    };
    let action_fits = match s.get("Action") {
        Some(list) => action(list),
        None => !action(&s["NotAction"]),
    };
    // AWS: an action is allowed on resources of its own service. Here administration has no resources of
    // its own, so an Allow has to name the service, or everything ("*").
    let (service, _) = facts.action.split_once(':').expect("an action");
    let names_service = texts(&s["Action"]).iter().any(|p| {
        p.to_lowercase().starts_with(&format!("{service}:"))
            && glob(&plain(&p.to_lowercase()), &facts.action.to_lowercase())
    });
    let everything = match (s.get("Resource"), s.get("NotResource")) {
        (Some(list), _) => texts(list).iter().any(|r| r == "*"),
        (_, not) => not.is_none(),
    };
    let action_fits =
        action_fits && (s["Effect"] == "Deny" || service == "s3" || everything || names_service);
    let resource = |list: &Value| {
        texts(list).iter().any(|p| match variables(p, facts) {
            Some(pattern) if p == "*" => glob(&pattern, "anything"),
            // "arn:aws:s3:::" in front of both; a request about nothing is the empty name.
            Some(pattern) => glob(&pattern, &format!("arn:aws:s3:::{}", facts.resource)),
            None => false,
        })
    };
    let resource_fits = match (s.get("Resource"), s.get("NotResource")) {
        (Some(list), _) => resource(list),
        (_, Some(list)) => !resource(list),
        _ => true,
    };
    let deny = s["Effect"] == "Deny";
    let principal_fits = match (s.get("Principal"), s.get("NotPrincipal")) {
        (Some(p), _) => principal(p, facts, deny),
        (_, Some(p)) => !principal(p, facts, false),
        _ => true,
    };
    action_fits && resource_fits && principal_fits && conditions(s.get("Condition"), facts)
}

/// `whole_account`: an account in the list means everybody in it, not its root user.
fn principal(p: &Value, facts: &Facts, whole_account: bool) -> bool {
    if p == "*" {
        return true;
    }
    texts(&p["AWS"]).iter().any(|one| {
        let ours = [format!("arn:aws:iam::{}:", facts.account), "arn:aws:iam:::".to_owned()];
        let local = ours.iter().find_map(|o| one.strip_prefix(o.as_str()));
        let person = facts.who == "user" || facts.who == "session";
        match (one.as_str(), local) {
            ("*", _) => true,
            (_, Some("root")) => facts.who == "root" || (whole_account && facts.who != "anonymous"),
            (_, Some(user)) => person && user.strip_prefix("user/") == Some(&facts.name),
            (number, _) if number == facts.account => {
                facts.who == "root" || (whole_account && facts.who != "anonymous")
            }
            (name, _) => person && name == facts.name,
        }
    })
}

/// A character of a pattern: to be taken literally or not.
type Pattern = Vec<(char, bool)>;

fn plain(text: &str) -> Pattern {
    text.chars().map(|c| (c, c != '*' && c != '?')).collect()
}

/// Puts values in the place of variables; `None`: one of them has no value.
fn variables(text: &str, facts: &Facts) -> Option<Pattern> {
    let mut out = Pattern::new();
    let mut chars: Vec<char> = text.chars().collect();
    while !chars.is_empty() {
        if chars.starts_with(&['$', '{']) {
            // The generator writes no brace into a default.
            let end = chars.iter().position(|c| *c == '}').expect("the policy was accepted");
            let inside: String = chars[2..end].iter().collect();
            let value = if ["*", "?", "$"].contains(&&*inside) {
                inside
            } else {
                let (name, default) = match inside.split_once(", ") {
                    Some((n, d)) => (n.to_owned(), Some(d.trim_matches('\'').to_owned())),
                    None => (inside, None),
                };
                let key = name.to_lowercase();
                // "You can use any available single-valued context key as a policy variable, but you
                // can't use a multivalued context key."
                let found = facts.keys.get(&key).filter(|_| !facts.multivalued.contains(&key));
                found.map(|v| v[0].clone()).filter(|v| !v.is_empty()).or(default)?
            };
            out.extend(value.chars().map(|c| (c, true)));
            chars.drain(..=end);
        } else {
            let c = chars.remove(0);
            out.push((c, c != '*' && c != '?'));
        }
    }
    Some(out)
}

/// "Multi-character match wildcard (*)", "single-character match wildcard (?)", by a table over both.
fn glob(pattern: &Pattern, text: &str) -> bool {
    let text: Vec<char> = text.chars().collect();
    let mut reach = vec![false; text.len() + 1];
    reach[0] = true;
    for &(c, literal) in pattern {
        let mut next = vec![false; text.len() + 1];
        for i in 0..=text.len() {
            if !reach[i] {
                continue;
            }
            match (c, literal) {
                ('*', false) => next[i..].iter_mut().for_each(|n| *n = true),
                ('?', false) if i < text.len() => next[i + 1] = true,
                (c, true) if text.get(i) == Some(&c) => next[i + 1] = true,
                _ => {}
            }
        }
        reach = next;
    }
    reach[text.len()]
}

/// "Multiple operators and multiple keys are evaluated using a logical AND."
fn conditions(block: Option<&Value>, facts: &Facts) -> bool {
    let Some(Value::Object(operators)) = block else { return true };
    operators.iter().all(|(operator, keys)| {
        let keys = keys.as_object().expect("the policy was accepted");
        keys.iter().all(|(key, wanted)| one_condition(operator, key, &texts(wanted), facts))
    })
}

fn one_condition(operator: &str, key: &str, wanted: &[String], facts: &Facts) -> bool {
    let have: Vec<String> = facts.keys.get(&lower_name(key)).cloned().unwrap_or_default();
    let null = have.iter().all(String::is_empty);
    if operator == "Null" {
        return wanted.iter().any(|w| w.to_lowercase() == null.to_string());
    }
    let base = operator.trim_start_matches("ForAllValues:").trim_start_matches("ForAnyValue:");
    let (base, if_exists) = match base.strip_suffix("IfExists") {
        Some(b) => (b, true),
        None => (base, false),
    };
    let negated = base.contains("Not");
    let positive = base.replace("Not", "");
    let matches = |value: &String| wanted.iter().any(|w| compare(&positive, value, w, facts));
    // Negation is per value of the request: none of the policy's values matches it (NOR).
    let good = |value: &String| if negated { !matches(value) } else { matches(value) };
    if operator.starts_with("ForAllValues:") {
        // "It also returns true if there are no context keys in the request, or if the context key value
        // resolves to a null data set, such as an empty string."
        return null || have.iter().all(good);
    }
    if operator.starts_with("ForAnyValue:") {
        if have.is_empty() {
            return if_exists;
        }
        return !null && have.iter().any(good);
    }
    if have.is_empty() {
        // "the values do not match and the condition is false. If the policy condition requires that the
        // key is not matched, and the right key is not present, the condition is true."
        return if_exists || negated;
    }
    if negated { have.iter().all(good) } else { have.iter().any(good) }
}

/// Keys are not case-sensitive; the key of an object tag is.
fn lower_name(key: &str) -> String {
    match key.split_once('/') {
        Some((head, tag)) => format!("{}/{tag}", head.to_lowercase()),
        None => key.to_lowercase(),
    }
}

fn compare(operator: &str, value: &str, wanted: &str, facts: &Facts) -> bool {
    let whole = |p: Pattern| p.into_iter().map(|(c, _)| c).collect::<String>();
    match operator {
        "StringEquals" => variables(wanted, facts).is_some_and(|p| whole(p) == value),
        "StringEqualsIgnoreCase" => {
            variables(wanted, facts).is_some_and(|p| whole(p).to_lowercase() == value.to_lowercase())
        }
        "StringLike" => variables(wanted, facts).is_some_and(|p| glob(&p, value)),
        "ArnEquals" | "ArnLike" => arn(wanted, value, facts),
        "Bool" => {
            value.to_lowercase() == wanted.to_lowercase()
                && ["true", "false"].contains(&&*value.to_lowercase())
        }
        "BinaryEquals" => from_base64(wanted) == value.as_bytes(),
        "IpAddress" => ip(value).zip(network(wanted)).is_some_and(|(ip, net)| ip.starts_with(&net)),
        op => {
            let (kind, relation) = op.split_at(if op.starts_with("Date") { 4 } else { 7 });
            let read = |t: &str| if kind == "Date" { seconds(t) } else { t.parse::<f64>().ok() };
            let (Some(a), Some(b)) = (read(value), read(wanted)) else { return false };
            match relation {
                "Equals" => a == b,
                "LessThan" => a < b,
                "LessThanEquals" => a <= b,
                "GreaterThan" => a > b,
                "GreaterThanEquals" => a >= b,
                other => panic!("{other}"),
            }
        }
    }
}

/// "Each of the six colon-delimited components of the ARN is checked separately."
fn arn(wanted: &str, value: &str, facts: &Facts) -> bool {
    let wanted: Vec<&str> = wanted.splitn(6, ':').collect();
    let value: Vec<&str> = value.splitn(6, ':').collect();
    wanted.len() == value.len()
        && wanted.iter().zip(value).all(|(w, v)| variables(w, facts).is_some_and(|p| glob(&p, v)))
}

fn from_base64(text: &str) -> Vec<u8> {
    const LETTERS: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let bits: String = text.chars().filter_map(|c| LETTERS.find(c)).map(|i| format!("{i:06b}")).collect();
    bits.as_bytes()
        .chunks_exact(8)
        .map(|b| u8::from_str_radix(std::str::from_utf8(b).expect("digits"), 2).expect("binary"))
        .collect()
}

/// Family and the bits, as text.
fn ip(text: &str) -> Option<String> {
    if let Ok(v4) = text.parse::<std::net::Ipv4Addr>() {
        return Some(format!("4:{:032b}", u32::from(v4)));
    }
    text.parse::<std::net::Ipv6Addr>().ok().map(|v6| format!("6:{:0128b}", u128::from(v6)))
}

fn network(text: &str) -> Option<String> {
    match text.split_once('/') {
        Some((address, bits)) => {
            ip(address).map(|b| b[..2 + bits.parse::<usize>().expect("accepted")].to_owned())
        }
        None => ip(text),
    }
}

/// Seconds since 1970 of `2026-11-21T15:04:05Z`, `2026-11-21` or seconds; by counting days.
fn seconds(text: &str) -> Option<f64> {
    if let Ok(n) = text.parse::<f64>() {
        return Some(n);
    }
    let number = |r: std::ops::Range<usize>| text.get(r).and_then(|t| t.parse::<u32>().ok());
    let (year, month, day) = (number(0..4)?, number(5..7)?, number(8..10)?);
    let leap = |y: u32| (y.is_multiple_of(4) && !y.is_multiple_of(100)) || y.is_multiple_of(400);
    let mut days = 0;
    for y in 1970..year {
        days += if leap(y) { 366 } else { 365 };
    }
    let lengths = [31, if leap(year) { 29 } else { 28 }, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    days += lengths[..month as usize - 1].iter().sum::<u32>() + day - 1;
    let clock =
        if text.len() > 10 { number(11..13)? * 3600 + number(14..16)? * 60 + number(17..19)? } else { 0 };
    Some(f64::from(days) * 86_400.0 + f64::from(clock))
}

/// "To be considered non-public, a bucket policy must grant access only to fixed values for one or more
/// of the following": here the keys that the generator uses.
fn is_public(policy: &Value) -> bool {
    let statement = &policy["Statement"];
    let list = statement.as_array().cloned().unwrap_or_else(|| vec![statement.clone()]);
    list.iter().filter(|s| s["Effect"] == "Allow").any(|s| {
        let open = s["Principal"] == "*" || texts(&s["Principal"]["AWS"]).iter().any(|p| p == "*");
        let none = serde_json::Map::new();
        let block = s["Condition"].as_object().unwrap_or(&none);
        let fixed = block.iter().any(|(operator, keys)| {
            let operator = operator.trim_start_matches("ForAnyValue:");
            keys.as_object().expect("accepted").iter().any(|(key, values)| {
                let all = texts(values);
                let fixed = all.iter().all(|v| !v.is_empty() && !v.contains(['*', '?', '$']));
                match key.to_lowercase().as_str() {
                    "aws:sourceip" => {
                        operator == "IpAddress"
                            && all.iter().all(|v| {
                                let net = network(v).expect("accepted");
                                net.len() - 2 >= if net.starts_with('4') { 8 } else { 32 }
                            })
                    }
                    "aws:username" | "aws:userid" | "aws:principalarn" => {
                        let known =
                            ["StringEquals", "StringEqualsIgnoreCase", "StringLike", "ArnEquals", "ArnLike"];
                        known.contains(&operator) && fixed
                    }
                    _ => false,
                }
            })
        });
        open && !fixed
    })
}
