//! Distinguished names (RFC 4514), and their normal form.
//!
//! The normal form: attribute types by their short names in lower case; of types that compare without
//! regard to case (RFC 4519: `cn`, `ou`, `dc`, `uid`, ...) the values in lower case and with single spaces;
//! the parts of a multi-valued RDN in order; no spaces around separators; only what must be escaped is.
//! Invariants: two spellings of a name have the same normal form; values of unknown types keep their case and
//! spaces, so that names that a directory treats as different never have the same normal form; a normal form
//! is its own normal form.
//!
//! Must not depend on: directories.

use std::fmt::Write as _;

/// Longest name that is read, in bytes.
const LONGEST: usize = 4096;
/// Most parts of a name.
const PARTS: usize = 64;

/// Attribute types that compare without regard to case and to runs of spaces: short name, long name and
/// number (RFC 4519, RFC 2985, RFC 4524).
const FOLDED: [(&str, &str, &str); 17] = [
    ("cn", "commonname", "2.5.4.3"),
    ("sn", "surname", "2.5.4.4"),
    ("serialnumber", "", "2.5.4.5"),
    ("c", "countryname", "2.5.4.6"),
    ("l", "localityname", "2.5.4.7"),
    ("st", "stateorprovincename", "2.5.4.8"),
    ("street", "streetaddress", "2.5.4.9"),
    ("o", "organizationname", "2.5.4.10"),
    ("ou", "organizationalunitname", "2.5.4.11"),
    ("title", "", "2.5.4.12"),
    ("givenname", "gn", "2.5.4.42"),
    ("uid", "userid", "0.9.2342.19200300.100.1.1"),
    ("mail", "rfc822mailbox", "0.9.2342.19200300.100.1.3"),
    ("dc", "domaincomponent", "0.9.2342.19200300.100.1.25"),
    ("email", "emailaddress", "1.2.840.113549.1.9.1"),
    ("host", "", "0.9.2342.19200300.100.1.9"),
    ("displayname", "", "2.16.840.1.113730.3.1.241"),
];

/// One `type=value`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Part {
    kind: String,
    /// The value as it is compared.
    value: String,
    /// The value as written, without escapes.
    given: String,
}

/// A distinguished name. Two spellings of the same name are equal.
#[derive(Clone, Debug)]
pub struct Dn(Vec<Vec<Part>>);

impl PartialEq for Dn {
    fn eq(&self, other: &Dn) -> bool {
        self.0.len() == other.0.len() && self.ends_like(other)
    }
}

/// The normal form of a name.
///
/// # Errors
/// What is wrong with it.
#[cfg(test)]
pub fn normal(text: &str) -> Result<String, String> {
    Ok(Dn::parse(text)?.normal())
}

impl Dn {
    /// Reads a name that is not empty.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<Dn, String> {
        let bad = |why: &str| format!("\"{text}\" is not a distinguished name: {why}");
        let long = || format!("a distinguished name has at most {LONGEST} bytes");
        if text.len() > LONGEST {
            return Err(long());
        }
        let mut rest = text.as_bytes();
        let mut all: Vec<Vec<Part>> = vec![Vec::new()];
        let mut count = 0;
        loop {
            let (part, after) = part(rest).map_err(|why| bad(&why))?;
            count += 1;
            if count > PARTS {
                return Err(bad("it has too many parts"));
            }
            all.last_mut().expect("it starts with one").push(part);
            match after {
                [] => break,
                [b'+', more @ ..] => rest = more,
                [_, more @ ..] => {
                    all.push(Vec::new());
                    rest = more;
                }
            }
        }
        for rdn in &mut all {
            rdn.sort();
            if rdn.windows(2).any(|w| w[0].kind == w[1].kind && w[0].value == w[1].value) {
                return Err(bad("an attribute occurs twice in one part"));
            }
        }
        let dn = Dn(all);
        // Escapes can lengthen a name, and its stored form must still be accepted.
        if dn.spelled().len().max(dn.normal().len()) > LONGEST {
            return Err(long());
        }
        Ok(dn)
    }

    /// The normal form.
    #[must_use]
    pub fn normal(&self) -> String {
        self.write(|p| &p.value)
    }

    /// The name with case and spaces of values as written, but types and escapes as in the normal form.
    #[must_use]
    pub fn spelled(&self) -> String {
        self.write(|p| &p.given)
    }

    /// Whether it is `base`, or below it.
    #[must_use]
    pub fn is_within(&self, base: &Dn) -> bool {
        self.0.len() >= base.0.len() && self.ends_like(base)
    }

    fn ends_like(&self, end: &Dn) -> bool {
        let same = |(a, b): (&Vec<Part>, &Vec<Part>)| {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.kind == b.kind && a.value == b.value)
        };
        self.0.iter().rev().zip(end.0.iter().rev()).all(same)
    }

    fn write(&self, value: impl Fn(&Part) -> &String) -> String {
        let mut out = String::new();
        for (i, rdn) in self.0.iter().enumerate() {
            for (j, part) in rdn.iter().enumerate() {
                match (i, j) {
                    (0, 0) => {}
                    (_, 0) => out.push(','),
                    _ => out.push('+'),
                }
                out.push_str(&part.kind);
                out.push('=');
                escape(value(part), &mut out);
            }
        }
        out
    }
}

/// Writes a value with the necessary escapes (RFC 4514, 2.4). Spaces at the ends and invisible characters are
/// written in hexadecimal.
fn escape(value: &str, out: &mut String) {
    let inner = value.trim_matches(' ');
    let start = value.len() - value.trim_start_matches(' ').len();
    for (at, c) in value.char_indices() {
        let edge = c == ' ' && (at < start || at >= start + inner.len());
        if edge || c.is_control() || (c.is_whitespace() && c != ' ') {
            let mut buffer = [0; 4];
            for b in c.encode_utf8(&mut buffer).bytes() {
                let _ = write!(out, "\\{b:02x}");
            }
        } else {
            if "\"+,;<>\\".contains(c) || (c == '#' && at == 0) {
                out.push('\\');
            }
            out.push(c);
        }
    }
}

/// Reads one `type=value`; what follows begins with a separator.
fn part(text: &[u8]) -> Result<(Part, &[u8]), String> {
    let at = text.iter().position(|b| *b == b'=').ok_or("a part has no =")?;
    let kind = kind(std::str::from_utf8(&text[..at]).map_err(|_| "an attribute type is not UTF-8")?)?;
    let rest = &text[at + 1..];
    let spaces = rest.iter().take_while(|b| **b == b' ').count();
    let rest = &rest[spaces..];
    let (bytes, after) = if rest.first() == Some(&b'#') { encoded(rest)? } else { plain(rest)? };
    let given = String::from_utf8(bytes).map_err(|_| "a value is not UTF-8")?;
    let folded = FOLDED.iter().any(|(short, ..)| *short == kind);
    let value = if folded { fold(&given) } else { given.clone() };
    Ok((Part { kind, value, given }, after))
}

fn kind(text: &str) -> Result<String, String> {
    let lower = text.trim_matches(' ').to_ascii_lowercase();
    let lower = lower.strip_prefix("oid.").unwrap_or(&lower);
    let word = |t: &str| {
        t.starts_with(|c: char| c.is_ascii_lowercase())
            && t.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
    };
    let number = |t: &str| t.split('.').all(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()));
    if !word(lower) && !number(lower) {
        return Err(format!("\"{text}\" is not an attribute type"));
    }
    let known = FOLDED.iter().find(|(_, long, oid)| *long == lower || *oid == lower);
    Ok(known.map_or(lower, |(short, ..)| short).to_owned())
}

/// Converts to lower case, reduces each run of spaces to one, and removes those at the ends (RFC 4518 without
/// its normalization of composed characters).
fn fold(value: &str) -> String {
    let words = value.split(' ').filter(|w| !w.is_empty());
    let lower = words.map(|w| w.chars().flat_map(char::to_lowercase).collect::<String>());
    lower.collect::<Vec<_>>().join(" ")
}

/// Reads a value with escapes; unescaped spaces at its end do not count.
fn plain(text: &[u8]) -> Result<(Vec<u8>, &[u8]), String> {
    let mut out = Vec::new();
    let mut keep = 0;
    let mut at = 0;
    while let Some(&b) = text.get(at) {
        match b {
            b',' | b'+' => break,
            b'"' | b';' | b'<' | b'>' | 0 => {
                return Err(format!("{:?} has to be escaped", char::from(b)));
            }
            b'\\' => {
                match (text.get(at + 1), text.get(at + 2)) {
                    (Some(&c), _) if b" \"#+,;<=>\\".contains(&c) => {
                        out.push(c);
                        at += 2;
                    }
                    (Some(&high), Some(&low)) => {
                        out.push(hex(high, low).ok_or("a backslash is not followed by a valid escape")?);
                        at += 3;
                    }
                    _ => return Err("it ends with a backslash".into()),
                }
                keep = out.len();
            }
            b' ' => {
                out.push(b);
                at += 1;
            }
            _ => {
                out.push(b);
                keep = out.len();
                at += 1;
            }
        }
    }
    out.truncate(keep);
    Ok((out, &text[at..]))
}

/// Reads `#` and the hexadecimal BER encoding of a string.
fn encoded(text: &[u8]) -> Result<(Vec<u8>, &[u8]), String> {
    let end = text.iter().position(|b| matches!(b, b',' | b'+')).unwrap_or(text.len());
    let digits = text[1..end].trim_ascii_end();
    let pairs = digits.chunks(2).map(|pair| match pair {
        [high, low] => hex(*high, *low),
        _ => None,
    });
    let bytes: Vec<u8> = pairs.collect::<Option<_>>().ok_or("what follows # is not hexadecimal")?;
    match bytes.as_slice() {
        // OCTET STRING, UTF8String, PrintableString, IA5String of fewer than 128 bytes.
        [4 | 12 | 19 | 22, length, value @ ..] if *length < 128 && usize::from(*length) == value.len() => {
            Ok((value.to_vec(), &text[end..]))
        }
        _ => Err("a value in # form is not a short string".into()),
    }
}

fn hex(high: u8, low: u8) -> Option<u8> {
    let digit = |b: u8| char::from(b).to_digit(16);
    u8::try_from(digit(high)? * 16 + digit(low)?).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn spellings_of_one_name_are_equal() {
        let want = "uid=alice smith,ou=people,dc=example,dc=org";
        for text in [
            want,
            "UID=Alice Smith,OU=People,DC=example,DC=org",
            "uid = Alice   Smith , ou= People,dc=example , dc=ORG ",
            "userid=\\41lice Smith,organizationalUnitName=people,domainComponent=example,dc=org",
            "0.9.2342.19200300.100.1.1=alice\\20smith,OID.2.5.4.11=people,dc=example,dc=org",
            "uid=#0c0b616c69636520736d697468,ou=people,dc=example,dc=org",
        ] {
            assert_eq!(normal(text).unwrap(), want, "{text}");
        }
        assert_eq!(Dn::parse("UID=Alice,DC=Org").unwrap().spelled(), "uid=Alice,dc=Org");
        assert_eq!(normal("cn=B+ou=A,dc=x").unwrap(), normal("OU=a + CN=b,dc=X").unwrap());
        assert_ne!(normal("cn=a+ou=b,dc=x").unwrap(), normal("cn=a,ou=b,dc=x").unwrap());
        // Values of unknown types keep their case.
        assert_ne!(normal("x-id=A,dc=x").unwrap(), normal("x-id=a,dc=x").unwrap());
        assert_ne!(normal("x-id=a  b").unwrap(), normal("x-id=a b").unwrap());
        assert_eq!(normal("cn=ÄRGER,dc=x").unwrap(), "cn=ärger,dc=x");
        assert_eq!(normal("cn=\\c3\\84rger,dc=x").unwrap(), "cn=ärger,dc=x");
    }

    #[test]
    fn escaped_names_round_trip() {
        let table = [
            ("cn=a\\,b,dc=x", "cn=a\\,b,dc=x"),
            ("cn=a\\2cb,dc=x", "cn=a\\,b,dc=x"),
            ("cn=a\\2Cou\\3db,dc=x", "cn=a\\,ou=b,dc=x"),
            ("cn=a=b,dc=x", "cn=a=b,dc=x"),
            ("cn=\\#a#", "cn=\\#a#"),
            ("cn=a\\+b\\\"\\<\\>\\;\\\\", "cn=a\\+b\\\"\\<\\>\\;\\\\"),
            ("x-a=\\ a\\ ", "x-a=\\20a\\20"),
            ("x-a=\\0a", "x-a=\\0a"),
            ("cn=", "cn="),
        ];
        for (text, want) in table {
            assert_eq!(normal(text).unwrap(), want, "{text}");
        }
        for text in [
            "",
            "a",
            "=a",
            "cn=a,",
            ",cn=a",
            "cn=a,,dc=x",
            "cn=a;dc=x",
            "cn=\"a\"",
            "cn=a\\",
            "cn=a\\z",
            "cn=a\\4",
            "cn=#0",
            "cn=#zz",
            "cn=#0c05",
            "cn=a<b",
            "c n=a",
            "1a=b",
            "1..2=b",
            "cn=\\ff",
            "cn=a+cn=A",
            "-=b",
            "cn=a\0",
        ] {
            assert!(normal(text).is_err(), "{text:?}");
        }
        assert!(normal(&format!("cn={}", "a".repeat(5000))).is_err());
        assert!(normal(&vec!["cn=a"; 65].join(",")).is_err());
    }

    #[test]
    fn names_are_compared_with_a_base() {
        let dn = |t: &str| Dn::parse(t).unwrap();
        let base = dn("OU=People,dc=x");
        assert!(dn("uid=a,ou=people,DC=X").is_within(&base) && base.is_within(&base));
        for other in ["dc=x", "uid=a,ou=people,dc=y", "uid=a\\,ou=people,dc=x", "uid=a,ou=xpeople,dc=x"] {
            assert!(!dn(other).is_within(&base), "{other}");
        }
        assert!(dn("cn=A") == dn("CN=a") && dn("cn=a,dc=x") != dn("dc=x"));
    }

    /// A part, and a way to write it.
    fn written(kind: &str, value: &str, seed: u64) -> String {
        let mut seed = seed;
        let mut coin = |sides: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % sides
        };
        let mut out = String::new();
        for c in kind.chars() {
            out.push(if coin(2) == 0 { c.to_ascii_uppercase() } else { c });
        }
        out.push_str(["=", " =", "= "][coin(3) as usize]);
        for (i, c) in value.chars().enumerate() {
            let must = "\"+,;<>\\\0".contains(c) || (c == '#' && i == 0) || c == ' ' || c.is_control();
            let c = if coin(2) == 0 { c.to_ascii_uppercase() } else { c };
            if must || coin(4) == 0 {
                let mut buffer = [0; 4];
                c.encode_utf8(&mut buffer).bytes().for_each(|b| out.push_str(&format!("\\{b:02X}")));
            } else {
                out.push(c);
            }
        }
        out.push_str(["", " "][coin(2) as usize]);
        out
    }

    proptest! {
        #[test]
        fn any_spelling_has_the_same_normal_form(
            parts in prop::collection::vec(("(cn|ou|dc|uid|o)", "[a-z0-9,+\"\\\\<>;#= äß]{0,8}"), 1..5),
            seed in any::<u64>(),
        ) {
            let spell = |s: u64| parts.iter().enumerate().map(|(i, (k, v))| written(k, v, s ^ i as u64))
                .collect::<Vec<_>>().join(",");
            let one = normal(&spell(seed)).unwrap();
            prop_assert_eq!(&one, &normal(&spell(!seed)).unwrap());
            prop_assert_eq!(&one, &normal(&one).unwrap());
            let parsed = Dn::parse(&one).unwrap();
            prop_assert_eq!(parsed.0.len(), parts.len());
            for (rdn, (k, v)) in parsed.0.iter().zip(&parts) {
                prop_assert_eq!(&rdn[0].kind, k);
                prop_assert_eq!(&rdn[0].value, &fold(v));
            }
        }

        #[test]
        fn no_text_panics(text in "\\PC{0,40}", odd in "[a-c=,+\\\\#\" 0-9]{0,30}") {
            for t in [text, odd] {
                if let Ok(one) = normal(&t) {
                    prop_assert_eq!(&one, &normal(&one).unwrap());
                    prop_assert!(!one.chars().any(char::is_control) && one.trim() == one);
                    let spelled = Dn::parse(&t).unwrap().spelled();
                    prop_assert_eq!(one, normal(&spelled).unwrap());
                }
            }
        }
    }
}
