//! Interpretation of claims: policies, groups, and the values of `jwt:*`.
//!
//! Invariants: claims above the limits are refused and not truncated, because a policy may deny by the
//! missing part; names of groups contain the provider's name, so that a provider cannot claim groups of
//! another.
//!
//! Must not depend on: tokens, keys.

use ashlar_iam::Facts;
use serde_json::Value;

use super::token::Claims;

/// Most names and values together, in bytes: the session's token carries them.
const BYTES: usize = 7 * 1024;
/// Most names.
const NAMES: usize = 128;
/// Most levels of nested objects.
const DEPTH: usize = 3;

/// Claims about the token, not about the user.
const ABOUT_THE_TOKEN: [&str; 7] = ["exp", "iat", "nbf", "at_hash", "c_hash", "s_hash", "nonce"];

/// The value of a claim, by its name or by a path into objects, such as `realm_access.roles`.
pub fn find<'a>(claims: &'a Claims, name: &str) -> Option<&'a Value> {
    if let Some(value) = claims.get(name) {
        return Some(value);
    }
    let mut steps = name.split('.');
    let mut value = claims.get(steps.next()?)?;
    for step in steps {
        value = value.as_object()?.get(step)?;
    }
    Some(value)
}

/// Names in a claim: a string with commas, or an array of such strings.
pub fn names(value: Option<&Value>) -> Vec<String> {
    let mut all: Vec<String> =
        super::token::strings(value).iter().flat_map(|text| crate::values::list(text)).collect();
    all.sort();
    all.dedup();
    all
}

/// Groups in a claim. Commas do not separate them.
pub fn groups(value: Option<&Value>, provider: &str) -> Vec<String> {
    let good = |g: &String| !g.is_empty() && g.trim() == *g && !g.chars().any(char::is_control);
    let mut all: Vec<String> = super::token::strings(value).into_iter().filter(good).collect();
    all.sort();
    all.dedup();
    all.into_iter().map(|g| format!("{provider}/{g}")).collect()
}

/// The values of `jwt:*`; values inside objects have names with dots.
///
/// # Errors
/// There are too many.
pub fn facts(claims: &Claims) -> Result<Facts, &'static str> {
    let mut all = Facts::new();
    collect(claims, "", DEPTH, &mut all);
    let size: usize =
        all.iter().map(|(n, v)| n.len() + 6 + v.iter().map(|v| v.len() + 3).sum::<usize>()).sum();
    if all.len() > NAMES || size > BYTES {
        return Err("its claims are too many or too long; have the provider send fewer");
    }
    Ok(all)
}

fn collect(claims: &Claims, before: &str, depth: usize, all: &mut Facts) {
    for (name, value) in claims {
        if before.is_empty() && ABOUT_THE_TOKEN.contains(&name.as_str()) {
            continue;
        }
        let name = format!("{before}{name}");
        let values: Vec<String> = match value {
            Value::Array(many) => many.iter().filter_map(text).collect(),
            Value::Object(inner) if depth > 0 => {
                collect(inner, &format!("{name}."), depth - 1, all);
                continue;
            }
            one => text(one).into_iter().collect(),
        };
        if !values.is_empty() {
            all.push((name, values));
        }
    }
}

fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(s) => Some(s.clone()),
        Value::Number(n) => Some(n.to_string()),
        Value::Bool(b) => Some(b.to_string()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(value: Value) -> Claims {
        value.as_object().unwrap().clone()
    }

    #[test]
    fn claims_of_all_forms_are_read() {
        let claims = object(json!({
            "policy": "a, b,,a", "https://x.y/p": ["c", "d,e", 7], "n": 5, "yes": true, "none": null,
            "realm_access": {"roles": ["r", "s"], "deep": {"er": {"still": {"not": 1}}}}, "exp": 1
        }));
        assert_eq!(names(find(&claims, "policy")), ["a", "b"]);
        assert_eq!(names(find(&claims, "https://x.y/p")), ["c", "d", "e"]);
        assert_eq!(names(find(&claims, "realm_access.roles")), ["r", "s"]);
        assert!(names(find(&claims, "realm_access.roles.x")).is_empty());
        assert!(find(&claims, "realm_access.").is_none() && find(&claims, "").is_none());
        assert_eq!(groups(find(&claims, "policy"), "openid/k"), ["openid/k/a, b,,a"]);
        let facts = facts(&claims).unwrap();
        let of = |name: &str| facts.iter().find(|(n, _)| n == name).map(|(_, v)| v.join("|"));
        assert_eq!(of("https://x.y/p").as_deref(), Some("c|d,e|7"));
        assert_eq!(of("yes").as_deref(), Some("true"));
        assert_eq!(of("realm_access.roles").as_deref(), Some("r|s"));
        assert!(of("exp").is_none() && of("none").is_none());
        assert!(!facts.iter().any(|(n, _)| n.contains("still")));
    }

    #[test]
    fn too_many_claims_are_refused_not_truncated() {
        let many: Claims = (0..200).map(|i| (format!("c{i}"), json!(i))).collect();
        assert!(facts(&many).is_err());
        assert!(facts(&object(json!({ "g": vec!["x".repeat(100); 100] }))).is_err());
        assert!(facts(&object(json!({ "g": vec!["x".repeat(20); 100] }))).is_ok());
    }
}
