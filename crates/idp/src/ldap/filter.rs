//! Search filters (RFC 4515) with `%s` for the login name and `%d` for a distinguished name.
//!
//! A filter is parsed once, with the settings. A name is inserted *after* that, as a value of the encoded
//! filter. Invariant: a name is never parsed as part of a filter, so that no name can change the search.
//!
//! Must not depend on: connections.

use super::ber::Writer;

/// Longest filter, in bytes.
const LONGEST: usize = 4096;
/// Most levels of nested filters.
const DEEPEST: usize = 16;

/// A filter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Filter {
    /// All hold.
    And(Vec<Filter>),
    /// One holds.
    Or(Vec<Filter>),
    /// It does not hold.
    Not(Box<Filter>),
    /// `(attribute=value)`, `>=`, `<=`, `~=`: the tag says which.
    Compare(u8, String, Value),
    /// `(attribute=*)`.
    Present(String),
    /// `(attribute=first*...*last)`; both ends may be empty.
    Substrings(String, Vec<Value>),
    /// `(attribute:dn:rule:=value)`.
    Extensible { attribute: String, rule: String, dn: bool, value: Value },
}

/// A value in pieces.
type Value = Vec<Piece>;

/// A piece of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// Bytes.
    Bytes(Vec<u8>),
    /// The login name.
    User,
    /// A distinguished name.
    Dn,
}

const EQUAL: u8 = 0xa3;

impl Filter {
    /// Reads a filter.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<Filter, String> {
        let bad = |why: &str| format!("the filter \"{text}\" is wrong: {why}");
        if text.len() > LONGEST {
            return Err(format!("a filter has at most {LONGEST} bytes"));
        }
        let (filter, rest) = filter(text.trim(), 0).map_err(|why| bad(&why))?;
        if rest.is_empty() { Ok(filter) } else { Err(bad("there is text after its end")) }
    }

    /// Everything that exists.
    #[must_use]
    pub fn any() -> Filter {
        Filter::Present("objectClass".into())
    }

    /// Whether the filter contains this piece.
    #[must_use]
    pub fn has(&self, piece: &Piece) -> bool {
        let within = |v: &Value| v.contains(piece);
        match self {
            Filter::And(all) | Filter::Or(all) => all.iter().any(|f| f.has(piece)),
            Filter::Not(f) => f.has(piece),
            Filter::Compare(_, _, v) | Filter::Extensible { value: v, .. } => within(v),
            Filter::Present(_) => false,
            Filter::Substrings(_, all) => all.iter().any(within),
        }
    }

    /// Attributes that are compared with the login name.
    pub fn login_attributes<'a>(&'a self, out: &mut Vec<&'a str>) {
        match self {
            Filter::And(all) | Filter::Or(all) => all.iter().for_each(|f| f.login_attributes(out)),
            Filter::Compare(EQUAL, attribute, v) if v[..] == [Piece::User] => out.push(attribute),
            _ => {}
        }
    }

    /// Encodes it (RFC 4511, 4.5.1) with these names.
    pub fn encode(&self, user: &str, dn: &str, w: &mut Writer) {
        let text = |v: &Value| {
            let mut out = Vec::new();
            for piece in v {
                match piece {
                    Piece::Bytes(b) => out.extend_from_slice(b),
                    Piece::User => out.extend_from_slice(user.as_bytes()),
                    Piece::Dn => out.extend_from_slice(dn.as_bytes()),
                }
            }
            out
        };
        match self {
            Filter::And(all) => w.nest(0xa0, |w| all.iter().for_each(|f| f.encode(user, dn, w))),
            Filter::Or(all) => w.nest(0xa1, |w| all.iter().for_each(|f| f.encode(user, dn, w))),
            Filter::Not(f) => w.nest(0xa2, |w| f.encode(user, dn, w)),
            Filter::Compare(tag, attribute, v) => w.nest(*tag, |w| {
                w.bytes(4, attribute.as_bytes());
                w.bytes(4, &text(v));
            }),
            Filter::Present(attribute) => w.bytes(0x87, attribute.as_bytes()),
            Filter::Substrings(attribute, pieces) => w.nest(0xa4, |w| {
                w.bytes(4, attribute.as_bytes());
                w.nest(0x30, |w| {
                    let last = pieces.len() - 1;
                    for (i, v) in pieces.iter().enumerate().filter(|(_, v)| !v.is_empty()) {
                        let tag = if i == 0 {
                            0x80
                        } else if i == last {
                            0x82
                        } else {
                            0x81
                        };
                        w.bytes(tag, &text(v));
                    }
                });
            }),
            Filter::Extensible { attribute, rule, dn: whole, value } => w.nest(0xa9, |w| {
                if !rule.is_empty() {
                    w.bytes(0x81, rule.as_bytes());
                }
                if !attribute.is_empty() {
                    w.bytes(0x82, attribute.as_bytes());
                }
                w.bytes(0x83, &text(value));
                if *whole {
                    w.truth(0x84, true);
                }
            }),
        }
    }
}

fn filter(text: &str, depth: usize) -> Result<(Filter, &str), String> {
    if depth > DEEPEST {
        return Err("it is nested too deeply".into());
    }
    let inner = text.strip_prefix('(').ok_or("a ( is missing")?.trim_start();
    let (found, rest) = match inner.as_bytes().first() {
        Some(b'&') => list(&inner[1..], depth).map(|(all, rest)| (Filter::And(all), rest))?,
        Some(b'|') => list(&inner[1..], depth).map(|(all, rest)| (Filter::Or(all), rest))?,
        Some(b'!') => {
            let (one, rest) = filter(inner[1..].trim_start(), depth + 1)?;
            (Filter::Not(Box::new(one)), rest)
        }
        _ => {
            let end = inner.find(['(', ')']).ok_or("a ) is missing")?;
            (item(&inner[..end])?, &inner[end..])
        }
    };
    let rest = rest.trim_start().strip_prefix(')').ok_or("a ) is missing")?;
    Ok((found, rest.trim_start()))
}

fn list(text: &str, depth: usize) -> Result<(Vec<Filter>, &str), String> {
    let mut rest = text.trim_start();
    let mut all = Vec::new();
    while rest.starts_with('(') {
        let (one, after) = filter(rest, depth + 1)?;
        all.push(one);
        rest = after;
    }
    if all.is_empty() {
        return Err("& and | need filters".into());
    }
    Ok((all, rest))
}

fn item(text: &str) -> Result<Filter, String> {
    let (left, value) = text.split_once('=').ok_or_else(|| format!("\"{text}\" is not a comparison"))?;
    let (tag, left) = match left.as_bytes().last() {
        Some(b':') => return extensible(&left[..left.len() - 1], value),
        Some(b'>') => (0xa5, &left[..left.len() - 1]),
        Some(b'<') => (0xa6, &left[..left.len() - 1]),
        Some(b'~') => (0xa8, &left[..left.len() - 1]),
        _ => (EQUAL, left),
    };
    let attribute = attribute(left)?;
    if tag == EQUAL && value == "*" {
        return Ok(Filter::Present(attribute));
    }
    let mut parts = value.split('*').map(pieces).collect::<Result<Vec<_>, _>>()?;
    if parts.len() == 1 {
        return Ok(Filter::Compare(tag, attribute, parts.remove(0)));
    }
    if tag != EQUAL || parts[1..parts.len() - 1].iter().any(Vec::is_empty) {
        return Err(format!("\"{text}\" has a * where none is allowed"));
    }
    Ok(Filter::Substrings(attribute, parts))
}

fn extensible(left: &str, value: &str) -> Result<Filter, String> {
    let mut parts = left.split(':');
    let name = parts.next().unwrap_or_default();
    let attribute = if name.is_empty() { String::new() } else { attribute(name)? };
    let mut rest: Vec<&str> = parts.collect();
    let dn = rest.first().is_some_and(|p| p.eq_ignore_ascii_case("dn"));
    if dn {
        rest.remove(0);
    }
    let rule = match rest[..] {
        [] => String::new(),
        [rule] => self::attribute(rule)?,
        _ => return Err(format!("\"{left}:=\" has too many colons")),
    };
    if attribute.is_empty() && rule.is_empty() {
        return Err("a comparison names neither attribute nor rule".into());
    }
    if value.contains('*') {
        return Err(format!("\"{value}\" has a * where none is allowed"));
    }
    Ok(Filter::Extensible { attribute, rule, dn, value: pieces(value)? })
}

fn attribute(text: &str) -> Result<String, String> {
    let text = text.trim();
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-.;".contains(&b);
    if text.is_empty() || !text.bytes().all(plain) {
        return Err(format!("\"{text}\" is not an attribute"));
    }
    Ok(text.to_owned())
}

/// A value: escapes are a backslash and two hexadecimal digits.
fn pieces(text: &str) -> Result<Value, String> {
    let digit = |b: Option<&u8>| b.and_then(|b| char::from(*b).to_digit(16));
    let mut out: Value = Vec::new();
    let mut bytes = text.as_bytes();
    while let [b, rest @ ..] = bytes {
        let byte = match (b, rest.first()) {
            (b'%', Some(name @ (b's' | b'd'))) => {
                out.push(if *name == b's' { Piece::User } else { Piece::Dn });
                bytes = &rest[1..];
                continue;
            }
            (b'\\', high) => {
                let pair = digit(high).zip(digit(rest.get(1)));
                let (high, low) = pair.ok_or("a backslash is not followed by a valid escape")?;
                bytes = &rest[2..];
                (high * 16 + low) as u8
            }
            _ => {
                bytes = rest;
                *b
            }
        };
        match out.last_mut() {
            Some(Piece::Bytes(all)) => all.push(byte),
            _ => out.push(Piece::Bytes(vec![byte])),
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::ber::Reader;
    use super::*;

    fn encoded(text: &str, user: &str, dn: &str) -> Vec<u8> {
        let mut w = Writer::default();
        Filter::parse(text).unwrap().encode(user, dn, &mut w);
        w.done()
    }

    #[test]
    fn filters_are_encoded_as_in_rfc_4511() {
        // RFC 4511, 4.5.1, by hand.
        let table: [(&str, &[u8]); 6] = [
            ("(uid=%s)", b"\xa3\x08\x04\x03uid\x04\x01a"),
            ("(objectClass=*)", b"\x87\x0bobjectClass"),
            (
                "(&(uid=%s)(!(cn=x)))",
                b"\xa0\x15\xa3\x08\x04\x03uid\x04\x01a\xa2\x09\xa3\x07\x04\x02cn\x04\x01x",
            ),
            ("(cn=a*b*c)", b"\xa4\x0f\x04\x02cn\x30\x09\x80\x01a\x81\x01b\x82\x01c"),
            ("(cn=*b*)", b"\xa4\x09\x04\x02cn\x30\x03\x81\x01b"),
            (
                "(member:1.2.840.113556.1.4.1941:=%d)",
                b"\xa9\x25\x81\x171.2.840.113556.1.4.1941\x82\x06member\x83\x02d=",
            ),
        ];
        for (text, want) in table {
            assert_eq!(encoded(text, "a", "d="), want, "{text}");
        }
        assert_eq!(encoded("(a>=1)", "", "")[0], 0xa5);
        assert_eq!(encoded("(a<=1)", "", "")[0], 0xa6);
        assert_eq!(encoded("(a~=1)", "", "")[0], 0xa8);
        assert_eq!(encoded(" ( & (a=1) (b=\\2a\\29) ) ", "", "")[0], 0xa0);
        assert_eq!(encoded("(cn:dn:=x)", "", ""), b"\xa9\x0a\x82\x02cn\x83\x01x\x84\x01\xff");
    }

    #[test]
    fn invalid_filters_are_refused() {
        for text in [
            "",
            "uid=%s",
            "(uid=%s",
            "(uid=%s))",
            "()",
            "(&)",
            "(uid)",
            "(=a)",
            "(u d=a)",
            "(a=\\4)",
            "(a=\\zz)",
            "(a>=*)",
            "(a=b**c)",
            "(:=a)",
            "(a:b:c:=d)",
            "(!(a=1)(b=2))",
            "(a=b)(c=d)",
            "(cn:=a*)",
            "(a=\\+1)",
        ] {
            assert!(Filter::parse(text).is_err(), "{text}");
        }
        let deep = format!("{}(a=1){}", "(!".repeat(100), ")".repeat(100));
        assert!(Filter::parse(&deep).is_err());
        assert!(Filter::parse(&format!("(a={})", "b".repeat(5000))).is_err());
    }

    #[test]
    fn filter_lists_its_placeholders_and_attributes() {
        let f = Filter::parse("(&(objectClass=person)(|(uid=%s)(mail=%s)(cn=x%s)))").unwrap();
        assert!(f.has(&Piece::User) && !f.has(&Piece::Dn));
        let mut names = Vec::new();
        f.login_attributes(&mut names);
        assert_eq!(names, ["uid", "mail"]);
        assert!(!Filter::parse("(a=\\25s)").unwrap().has(&Piece::User), "an escaped % is a %");
        assert!(Filter::parse("(a:=%d)").unwrap().has(&Piece::Dn));
    }

    proptest! {
        /// Every name becomes exactly one value of the encoding.
        #[test]
        fn any_name_stays_one_value(name in "\\PC{0,20}|[*()\\\\|&!=\0%sd]{0,12}") {
            let bytes = encoded("(&(a=1)(uid=%s))", &name, "");
            let mut and = Reader(Reader(&bytes).expect(0xa0).unwrap());
            and.expect(0xa3).unwrap();
            let mut equal = Reader(and.expect(0xa3).unwrap());
            prop_assert!(and.is_empty());
            prop_assert_eq!(equal.expect(4).unwrap(), b"uid");
            prop_assert_eq!(equal.expect(4).unwrap(), name.as_bytes());
            prop_assert!(equal.is_empty());
        }

        #[test]
        fn no_text_panics(text in "[(&|!)a=*\\\\:%sd<>~0-9]{0,30}") {
            if let Ok(f) = Filter::parse(&text) {
                f.encode("u", "d", &mut Writer::default());
            }
        }
    }
}
