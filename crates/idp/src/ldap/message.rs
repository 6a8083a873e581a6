//! The messages of LDAP (RFC 4511) that are used here: bind, search, StartTLS, unbind.
//!
//! Invariants: an invalid answer is an error, never a panic; only [`bind`] writes passwords.
//!
//! Must not depend on: connections.

use super::ber::{Reader, Writer, number};

/// The scope of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The base itself.
    Base = 0,
    /// The base and everything below it.
    Tree = 2,
}

/// The result that a directory reports for an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The result code: RFC 4511, 4.1.9, and appendix A.
    pub code: u32,
    /// The directory's message, for the log.
    pub text: String,
}

impl Outcome {
    /// Success.
    pub const SUCCESS: u32 = 0;
    /// More entries match than the limit allows.
    pub const SIZE_LIMIT: u32 = 4;
    /// There is no entry of that name.
    pub const NO_SUCH_OBJECT: u32 = 32;

    /// Whether the error is temporary: timeLimitExceeded, adminLimitExceeded, busy, unavailable, other.
    pub fn is_passing(&self) -> bool {
        matches!(self.code, 3 | 11 | 51 | 52 | 80)
    }
}

impl std::fmt::Display for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "result {}", self.code)?;
        if self.text.is_empty() { Ok(()) } else { write!(f, ", {:?}", self.text) }
    }
}

/// An entry that a search found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// Its name in the directory's spelling.
    pub dn: String,
    /// The requested attributes that exist, with their values.
    pub attributes: Vec<(String, Vec<Vec<u8>>)>,
}

impl Entry {
    /// The values of an attribute that are valid UTF-8.
    pub fn texts<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        let found = self.attributes.iter().filter(move |(n, _)| n.eq_ignore_ascii_case(name));
        found.flat_map(|(_, values)| values.iter().filter_map(|v| std::str::from_utf8(v).ok()))
    }
}

/// An answer.
#[derive(Debug, PartialEq, Eq)]
pub enum Answer {
    /// The result of a bind.
    Bound(Outcome),
    /// One entry of a search.
    Entry(Entry),
    /// A referral of a search.
    Elsewhere,
    /// The end of a search.
    Done(Outcome),
    /// The result of an extended operation, such as StartTLS, or a notice of disconnection.
    Extended(Outcome),
    /// Something else.
    Other,
}

/// Bytes of a directory's text that are kept.
const TEXT: usize = 256;
/// Values of one attribute that are kept.
const VALUES: usize = 1024;

fn message(id: u32, f: impl FnOnce(&mut Writer)) -> Vec<u8> {
    let mut w = Writer::default();
    w.nest(0x30, |w| {
        w.number(2, id);
        f(w);
    });
    w.done()
}

/// A simple bind.
pub fn bind(id: u32, dn: &str, password: &str) -> Vec<u8> {
    assert!(!password.is_empty(), "an empty password binds as nobody, which must not look like success");
    message(id, |w| {
        w.nest(0x60, |w| {
            w.number(2, 3);
            w.bytes(4, dn.as_bytes());
            w.bytes(0x80, password.as_bytes());
        });
    })
}

/// The parameters of a search.
#[derive(Clone, Copy)]
pub struct Search<'a> {
    /// The base object.
    pub base: &'a str,
    /// The scope.
    pub scope: Scope,
    /// Most entries.
    pub limit: u32,
    /// The filter, encoded.
    pub filter: &'a [u8],
    /// Attributes to return; none: only names.
    pub attributes: &'a [&'a str],
    /// Seconds that the directory may take.
    pub seconds: u32,
}

/// A search. Aliases are not followed.
pub fn search(id: u32, s: &Search<'_>) -> Vec<u8> {
    message(id, |w| {
        w.nest(0x63, |w| {
            w.bytes(4, s.base.as_bytes());
            w.number(10, s.scope as u32);
            w.number(10, 0);
            w.number(2, s.limit);
            w.number(2, s.seconds);
            w.truth(1, false);
            w.raw(s.filter);
            w.nest(0x30, |w| {
                // "1.1" stands for no attributes; an empty list would stand for all.
                let none: &[&str] = &["1.1"];
                let names = if s.attributes.is_empty() { none } else { s.attributes };
                names.iter().for_each(|a| w.bytes(4, a.as_bytes()));
            });
        });
    })
}

/// Encodes a StartTLS request (RFC 4511, 4.14).
pub fn start_tls(id: u32) -> Vec<u8> {
    message(id, |w| w.nest(0x77, |w| w.bytes(0x80, b"1.3.6.1.4.1.1466.20037")))
}

/// Encodes an unbind.
pub fn unbind(id: u32) -> Vec<u8> {
    message(id, |w| w.bytes(0x42, &[]))
}

/// Decodes an answer: its message id and its content. `None`: it is invalid.
pub fn read(content: &[u8]) -> Option<(u32, Answer)> {
    let mut r = Reader(content);
    let id = number(r.expect(2)?)?;
    let (tag, body) = r.next()?;
    // What may follow are controls; none were asked for.
    let answer = match tag {
        0x61 => Answer::Bound(outcome(body)?),
        0x64 => Answer::Entry(entry(body)?),
        0x65 => Answer::Done(outcome(body)?),
        0x73 => Answer::Elsewhere,
        0x78 => Answer::Extended(outcome(body)?),
        _ => Answer::Other,
    };
    Some((id, answer))
}

fn outcome(body: &[u8]) -> Option<Outcome> {
    let mut r = Reader(body);
    let code = number(r.expect(10)?)?;
    r.expect(4)?;
    let text = r.expect(4)?;
    let text = String::from_utf8_lossy(&text[..text.len().min(TEXT)]).trim_end_matches('\0').to_owned();
    Some(Outcome { code, text })
}

fn entry(body: &[u8]) -> Option<Entry> {
    let mut r = Reader(body);
    let dn = String::from_utf8(r.expect(4)?.to_vec()).ok()?;
    let mut list = Reader(r.expect(0x30)?);
    let mut attributes = Vec::new();
    while !list.is_empty() {
        let mut one = Reader(list.expect(0x30)?);
        let name = std::str::from_utf8(one.expect(4)?).ok()?.to_owned();
        let mut set = Reader(one.expect(0x31)?);
        let mut values = Vec::new();
        while !set.is_empty() {
            let value = set.expect(4)?;
            if values.len() < VALUES {
                values.push(value.to_vec());
            }
        }
        attributes.push((name, values));
    }
    Some(Entry { dn, attributes })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn requests_are_encoded_as_in_rfc_4511() {
        assert_eq!(bind(1, "cn=a", "pw"), b"\x30\x12\x02\x01\x01\x60\x0d\x02\x01\x03\x04\x04cn=a\x80\x02pw");
        assert_eq!(unbind(5), b"\x30\x05\x02\x01\x05\x42\x00");
        assert_eq!(start_tls(1), b"\x30\x1d\x02\x01\x01\x77\x18\x80\x161.3.6.1.4.1.1466.20037");
        let s = Search {
            base: "",
            scope: Scope::Base,
            limit: 1,
            filter: b"\x87\x01a",
            attributes: &[],
            seconds: 9,
        };
        assert_eq!(
            search(2, &s),
            b"\x30\x20\x02\x01\x02\x63\x1b\x04\x00\x0a\x01\x00\x0a\x01\x00\x02\x01\x01\x02\x01\x09\x01\x01\x00\x87\x01a\x30\x05\x04\x031.1"
        );
    }

    #[test]
    #[should_panic(expected = "binds as nobody")]
    fn empty_password_is_never_sent() {
        let _ = bind(1, "cn=a", "");
    }

    #[test]
    fn answers_are_decoded() {
        let ok = b"\x02\x01\x01\x61\x07\x0a\x01\x00\x04\x00\x04\x00";
        assert_eq!(read(ok), Some((1, Answer::Bound(Outcome { code: 0, text: String::new() }))));
        let e = b"\x02\x01\x02\x64\x14\x04\x04cn=a\x30\x0c\x30\x0a\x04\x02cn\x31\x04\x04\x02Al";
        let Some((2, Answer::Entry(entry))) = read(e) else { panic!("no entry") };
        assert_eq!((entry.dn.as_str(), entry.texts("CN").collect::<Vec<_>>()), ("cn=a", vec!["Al"]));
        for cut in 0..e.len() {
            assert!(read(&e[..cut]).is_none(), "{cut}");
        }
        assert_eq!(read(b"\x02\x01\x02\x73\x00"), Some((2, Answer::Elsewhere)));
        assert_eq!(read(b"\x02\x01\x02\x6f\x00"), Some((2, Answer::Other)));
    }

    proptest! {
        #[test]
        fn no_answer_panics(mut bytes in prop::collection::vec(any::<u8>(), 0..64), known in any::<bool>()) {
            if known && bytes.len() > 5 {
                bytes[..4].copy_from_slice(&[2, 1, 1, 0x64]);
            }
            let _ = read(&bytes);
        }
    }
}
