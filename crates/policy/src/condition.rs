//! Conditions: one operator, one key, the values of the policy.
//!
//! Invariants: a negated operator is the plain one, negated for each value of the request before a quantifier
//! is applied; with several values in the policy it is true if none matches. A missing key fails a plain
//! operator and satisfies a negated one. A value of the request that does not have the operator's type (a
//! number, a date, ...) matches nothing.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::key::{Key, KeyId};
use crate::pattern::{Bad, Pattern};
use crate::request::{Request, Scalar, Values};
use crate::value::{Net, date, number, whole};

/// How to compare.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Compare {
    Equal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Compare {
    fn holds<T: Ord>(self, have: T, want: T) -> bool {
        match self {
            Compare::Equal => have == want,
            Compare::Less => have < want,
            Compare::LessOrEqual => have <= want,
            Compare::Greater => have > want,
            Compare::GreaterOrEqual => have >= want,
        }
    }
}

/// What is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Text,
    TextIgnoringCase,
    Like,
    Number(Compare),
    Date(Compare),
    Bool,
    Binary,
    Ip,
    Arn,
    Null,
}

/// Which of several values of the request have to match.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Quantifier {
    None,
    All,
    Any,
}

/// A condition operator, taken apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Operator {
    pub(crate) kind: Kind,
    pub(crate) negated: bool,
    pub(crate) if_exists: bool,
    pub(crate) quantifier: Quantifier,
}

const BASES: &[(&str, Kind, bool)] = &[
    ("StringEquals", Kind::Text, false),
    ("StringNotEquals", Kind::Text, true),
    ("StringEqualsIgnoreCase", Kind::TextIgnoringCase, false),
    ("StringNotEqualsIgnoreCase", Kind::TextIgnoringCase, true),
    ("StringLike", Kind::Like, false),
    ("StringNotLike", Kind::Like, true),
    ("NumericEquals", Kind::Number(Compare::Equal), false),
    ("NumericNotEquals", Kind::Number(Compare::Equal), true),
    ("NumericLessThan", Kind::Number(Compare::Less), false),
    ("NumericLessThanEquals", Kind::Number(Compare::LessOrEqual), false),
    ("NumericGreaterThan", Kind::Number(Compare::Greater), false),
    ("NumericGreaterThanEquals", Kind::Number(Compare::GreaterOrEqual), false),
    ("DateEquals", Kind::Date(Compare::Equal), false),
    ("DateNotEquals", Kind::Date(Compare::Equal), true),
    ("DateLessThan", Kind::Date(Compare::Less), false),
    ("DateLessThanEquals", Kind::Date(Compare::LessOrEqual), false),
    ("DateGreaterThan", Kind::Date(Compare::Greater), false),
    ("DateGreaterThanEquals", Kind::Date(Compare::GreaterOrEqual), false),
    ("Bool", Kind::Bool, false),
    ("BinaryEquals", Kind::Binary, false),
    ("IpAddress", Kind::Ip, false),
    ("NotIpAddress", Kind::Ip, true),
    ("ArnEquals", Kind::Arn, false),
    ("ArnLike", Kind::Arn, false),
    ("ArnNotEquals", Kind::Arn, true),
    ("ArnNotLike", Kind::Arn, true),
    ("Null", Kind::Null, false),
];

impl Operator {
    /// Reads a name such as `ForAnyValue:StringLikeIfExists`; `Err` tells the author what to write.
    pub(crate) fn parse(name: &str) -> Result<Operator, String> {
        let (quantifier, rest) = if let Some(rest) = name.strip_prefix("ForAllValues:") {
            (Quantifier::All, rest)
        } else if let Some(rest) = name.strip_prefix("ForAnyValue:") {
            (Quantifier::Any, rest)
        } else {
            (Quantifier::None, name)
        };
        let (base, if_exists) = match rest.strip_suffix("IfExists") {
            Some(base) => (base, true),
            None => (rest, false),
        };
        let Some((_, kind, negated)) = BASES.iter().find(|(n, ..)| *n == base) else {
            let near = BASES.iter().map(|(n, ..)| (crate::action::distance(n, base), *n)).min();
            let hint = match near {
                Some((d, n)) if d <= 4 => format!("; did you mean {n}?"),
                _ => String::new(),
            };
            return Err(format!("unknown condition operator \"{name}\"{hint}"));
        };
        if *kind == Kind::Null && (if_exists || quantifier != Quantifier::None) {
            return Err("Null takes neither IfExists nor ForAllValues nor ForAnyValue".into());
        }
        Ok(Operator { kind: *kind, negated: *negated, if_exists, quantifier })
    }
}

/// An ARN of six parts, each matched for itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ArnPattern([Pattern; 6]);

impl ArnPattern {
    fn parse(text: &str, vars: bool) -> Result<ArnPattern, String> {
        let mut parts: Vec<&str> = Vec::with_capacity(6);
        let (mut start, mut inside) = (0, false);
        for (i, b) in text.bytes().enumerate() {
            match b {
                b'{' if vars && i > 0 && text.as_bytes()[i - 1] == b'$' => inside = true,
                b'}' => inside = false,
                b':' if !inside && parts.len() < 5 => {
                    parts.push(&text[start..i]);
                    start = i + 1;
                }
                _ => {}
            }
        }
        parts.push(&text[start..]);
        let parts: [&str; 6] = parts
            .try_into()
            .map_err(|_| format!("\"{text}\" is not an ARN of six parts; write arn:*:*:*:*:* for any"))?;
        let mut patterns = Vec::with_capacity(6);
        for part in parts {
            patterns.push(Pattern::parse(part, true, vars).map_err(|b| bad_pattern(&b))?);
        }
        patterns.try_into().map(ArnPattern).map_err(|_| "not an ARN".into())
    }

    fn matches(&self, text: &str, request: &Request) -> bool {
        let mut parts = text.splitn(6, ':');
        self.0.iter().all(|p| parts.next().is_some_and(|t| p.matches(t.as_bytes(), request)))
    }
}

/// The values of a policy, compiled for their operator.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Wanted {
    Texts(Box<[Pattern]>),
    Arns(Box<[ArnPattern]>),
    Numbers(Box<[i128]>),
    Dates(Box<[i64]>),
    /// Whether false, and whether true, is among them.
    Bools([bool; 2]),
    Bytes(Box<[Box<[u8]>]>),
    Nets(Box<[Net]>),
}

/// One compiled condition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Condition {
    pub(crate) operator: Operator,
    pub(crate) key: Key,
    wanted: Wanted,
}

pub(crate) fn bad_pattern(bad: &Bad) -> String {
    match bad {
        Bad::Open => "a policy variable \"${\" without \"}\"; write ${$} for a dollar sign".into(),
        Bad::Unknown(name) => format!("unknown policy variable \"{name}\"{}", hint(name)),
        Bad::Default(text) => format!("the default {text} of a policy variable must be in single quotes"),
    }
}

/// `; did you mean ...?` for a wrong key.
pub(crate) fn hint(name: &str) -> String {
    crate::key::nearest(name).map_or(String::new(), |n| format!("; did you mean {n}?"))
}

impl Condition {
    /// Compiles. `vars`: the language version has variables. `Err`: which value (by number) is wrong and why.
    pub(crate) fn compile(
        operator: Operator,
        key: Key,
        values: &[String],
        vars: bool,
    ) -> Result<Condition, (usize, String)> {
        let wanted = match operator.kind {
            Kind::Text | Kind::TextIgnoringCase => {
                Wanted::Texts(each(values, |v| Pattern::parse(v, false, vars).map_err(|b| bad_pattern(&b)))?)
            }
            Kind::Like => {
                Wanted::Texts(each(values, |v| Pattern::parse(v, true, vars).map_err(|b| bad_pattern(&b)))?)
            }
            Kind::Arn => Wanted::Arns(each(values, |v| ArnPattern::parse(v, vars))?),
            Kind::Number(_) => Wanted::Numbers(each(values, |v| {
                number(v).ok_or_else(|| format!("\"{v}\" is not a number"))
            })?),
            Kind::Date(_) => Wanted::Dates(each(values, |v| {
                date(v).ok_or_else(|| format!("\"{v}\" is not a date; write 2026-11-21T15:04:05Z"))
            })?),
            Kind::Bool | Kind::Null => {
                let mut mask = [false; 2];
                for (i, v) in values.iter().enumerate() {
                    let b = boolean(v).ok_or_else(|| (i, format!("\"{v}\" is neither true nor false")))?;
                    mask[usize::from(b)] = true;
                }
                Wanted::Bools(mask)
            }
            Kind::Binary => Wanted::Bytes(each(values, |v| {
                STANDARD.decode(v).map(Into::into).map_err(|_| format!("\"{v}\" is not base64"))
            })?),
            Kind::Ip => Wanted::Nets(each(values, |v| {
                Net::parse(v)
                    .ok_or_else(|| format!("\"{v}\" is not an address or network; write 192.0.2.0/24"))
            })?),
        };
        Ok(Condition { operator, key, wanted })
    }

    /// Whether it is true for this request.
    pub(crate) fn holds(&self, request: &Request) -> bool {
        let values = request.values(&self.key);
        let Operator { kind, negated, if_exists, quantifier } = self.operator;
        if kind == Kind::Null {
            let Wanted::Bools(mask) = self.wanted else { return false };
            return mask[usize::from(values.is_empty_set())];
        }
        match quantifier {
            Quantifier::None if values.is_absent() => if_exists || negated,
            Quantifier::None => values.any(|v| self.matches(v, request)) != negated,
            Quantifier::All => values.is_empty_set() || !values.any(|v| self.matches(v, request) == negated),
            Quantifier::Any if values.is_absent() => if_exists,
            Quantifier::Any => !values.is_empty_set() && values.any(|v| self.matches(v, request) != negated),
        }
    }

    /// Whether one value of the request matches one of the policy, before any negation.
    fn matches(&self, value: Scalar, request: &Request) -> bool {
        match &self.wanted {
            Wanted::Texts(patterns) => {
                let text = value.text();
                if self.operator.kind == Kind::TextIgnoringCase {
                    patterns.iter().any(|p| p.equals_ignoring_case(&text, request))
                } else {
                    patterns.iter().any(|p| p.matches(text.as_bytes(), request))
                }
            }
            Wanted::Arns(arns) => {
                let text = value.text();
                arns.iter().any(|a| a.matches(&text, request))
            }
            Wanted::Numbers(wants) => {
                let Kind::Number(compare) = self.operator.kind else { return false };
                as_number(value).is_some_and(|n| wants.iter().any(|w| compare.holds(n, *w)))
            }
            Wanted::Dates(wants) => {
                let Kind::Date(compare) = self.operator.kind else { return false };
                as_date(value).is_some_and(|d| wants.iter().any(|w| compare.holds(d, *w)))
            }
            Wanted::Bools(mask) => as_bool(value).is_some_and(|b| mask[usize::from(b)]),
            Wanted::Bytes(wants) => {
                let text = value.text();
                wants.iter().any(|w| **w == *text.as_bytes())
            }
            Wanted::Nets(nets) => as_ip(value).is_some_and(|ip| nets.iter().any(|n| n.contains(ip))),
        }
    }

    /// Whether it restricts the statement to values that only few requesters can have, as AWS defines "not
    /// public": fixed values (no wildcard, no variable) of a key on AWS's list, compared by a plain operator.
    pub(crate) fn confines(&self) -> bool {
        let Operator { kind, negated, if_exists, quantifier } = self.operator;
        if negated || if_exists || quantifier == Quantifier::All {
            return false;
        }
        let trusted = match self.key.id {
            KeyId::SourceIp => kind == Kind::Ip,
            KeyId::UserId | KeyId::Username | KeyId::PrincipalArn | KeyId::PrincipalAccount => true,
            KeyId::HeaderEncryptionKey => true,
            // AWS lists the other keys; no request to this server has them, so they match nothing.
            KeyId::Never => true,
            _ => false,
        };
        trusted
            && match &self.wanted {
                Wanted::Texts(p) => {
                    p.iter().all(|p| p.fixed().is_some_and(|t| !t.is_empty() && !t.contains(['*', '?'])))
                }
                Wanted::Arns(a) => a.iter().all(|a| a.0.iter().all(|p| p.fixed().is_some())),
                Wanted::Nets(n) => n.iter().all(|n| !n.is_broad()),
                _ => false,
            }
    }

    /// Every key it asks about.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &Key> {
        let texts: &[Pattern] = match &self.wanted {
            Wanted::Texts(p) => p,
            _ => &[],
        };
        let arns: &[ArnPattern] = match &self.wanted {
            Wanted::Arns(a) => a,
            _ => &[],
        };
        let inside = texts.iter().chain(arns.iter().flat_map(|a| &a.0)).flat_map(Pattern::keys);
        std::iter::once(&self.key).chain(inside)
    }
}

/// Compiles each value; a failure names its number.
fn each<T>(
    values: &[String],
    compile: impl Fn(&str) -> Result<T, String>,
) -> Result<Box<[T]>, (usize, String)> {
    values.iter().enumerate().map(|(i, v)| compile(v).map_err(|why| (i, why))).collect()
}

fn boolean(text: &str) -> Option<bool> {
    if text.eq_ignore_ascii_case("true") {
        Some(true)
    } else if text.eq_ignore_ascii_case("false") {
        Some(false)
    } else {
        None
    }
}

fn as_number(value: Scalar) -> Option<i128> {
    match value {
        Scalar::Int(i) => Some(whole(i)),
        Scalar::Text(t) => number(t),
        Scalar::Time(ms) => Some(whole(ms.div_euclid(1000))),
        Scalar::Bool(_) | Scalar::Ip(_) => None,
    }
}

fn as_date(value: Scalar) -> Option<i64> {
    match value {
        Scalar::Time(ms) => Some(ms),
        Scalar::Int(seconds) => seconds.checked_mul(1000),
        Scalar::Text(t) => date(t),
        Scalar::Bool(_) | Scalar::Ip(_) => None,
    }
}

fn as_bool(value: Scalar) -> Option<bool> {
    match value {
        Scalar::Bool(b) => Some(b),
        Scalar::Text(t) => boolean(t),
        _ => None,
    }
}

fn as_ip(value: Scalar) -> Option<std::net::IpAddr> {
    match value {
        Scalar::Ip(ip) => Some(ip),
        Scalar::Text(t) => t.parse().ok(),
        _ => None,
    }
}

/// The values of a key in words, for an explanation.
pub(crate) fn in_words(values: Values) -> String {
    if values.is_absent() {
        return "not in the request".into();
    }
    let mut all = Vec::new();
    values.any(|s| {
        all.push(s.text().into_owned());
        false
    });
    all.join(", ")
}
