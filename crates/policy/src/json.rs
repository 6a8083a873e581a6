//! A strict, bounded JSON reader for policy documents.
//!
//! Invariants: a repeated member is an error (attackers exploit parsers that choose different ones); depth
//! and size are bounded; nothing may follow the document; numbers keep their text. Must not depend on:
//! policies.

use crate::{Error, Result};

/// Deepest nesting that is read. A policy needs six.
const MAX_DEPTH: u32 = 8;

/// One value of a document.
#[derive(Debug)]
pub(crate) enum Node {
    Null,
    Bool(bool),
    /// As it was written.
    Number(String),
    Text(String),
    List(Vec<Node>),
    Object(Vec<(String, Node)>),
}

impl Node {
    /// Name of the type, for messages.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Node::Null => "null",
            Node::Bool(_) => "true or false",
            Node::Number(_) => "a number",
            Node::Text(_) => "a string",
            Node::List(_) => "an array",
            Node::Object(_) => "an object",
        }
    }
}

/// Reads one document.
///
/// # Errors
/// [`Error::Syntax`] with line and column.
pub(crate) fn parse(text: &str) -> Result<Node> {
    let mut r = Reader { bytes: text.as_bytes(), at: 0 };
    let node = r.value(0)?;
    r.space();
    if r.at < r.bytes.len() {
        return Err(r.fault("there is text after the end of the document"));
    }
    Ok(node)
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn fault(&self, problem: impl Into<String>) -> Error {
        let before = &self.bytes[..self.at.min(self.bytes.len())];
        let line = 1 + memchr::memchr_iter(b'\n', before).count();
        let column = 1 + self.at - memchr::memrchr(b'\n', before).map_or(0, |i| i + 1);
        Error::Syntax { line, column, problem: problem.into() }
    }

    fn space(&mut self) {
        while self.bytes.get(self.at).is_some_and(|b| matches!(b, b' ' | b'\t' | b'\r' | b'\n')) {
            self.at += 1;
        }
    }

    /// Takes the byte if it is next.
    fn eat(&mut self, byte: u8) -> bool {
        let hit = self.bytes.get(self.at) == Some(&byte);
        self.at += usize::from(hit);
        hit
    }

    fn expect(&mut self, byte: u8) -> Result<()> {
        if self.eat(byte) { Ok(()) } else { Err(self.fault(format!("expected '{}'", byte as char))) }
    }

    fn value(&mut self, depth: u32) -> Result<Node> {
        if depth > MAX_DEPTH {
            return Err(self.fault(format!("nested deeper than {MAX_DEPTH} levels")));
        }
        self.space();
        match self.bytes.get(self.at) {
            Some(b'{') => self.object(depth),
            Some(b'[') => self.list(depth),
            Some(b'"') => Ok(Node::Text(self.text()?)),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b't') => self.word("true", Node::Bool(true)),
            Some(b'f') => self.word("false", Node::Bool(false)),
            Some(b'n') => self.word("null", Node::Null),
            Some(_) => Err(self.fault("expected a value")),
            None => Err(self.fault("the document ends too early")),
        }
    }

    fn word(&mut self, word: &str, node: Node) -> Result<Node> {
        if !self.bytes[self.at..].starts_with(word.as_bytes()) {
            return Err(self.fault("expected a value"));
        }
        self.at += word.len();
        Ok(node)
    }

    fn list(&mut self, depth: u32) -> Result<Node> {
        self.at += 1;
        let mut items = Vec::new();
        self.space();
        if self.eat(b']') {
            return Ok(Node::List(items));
        }
        loop {
            items.push(self.value(depth + 1)?);
            self.space();
            if self.eat(b']') {
                return Ok(Node::List(items));
            }
            self.expect(b',')?;
        }
    }

    fn object(&mut self, depth: u32) -> Result<Node> {
        self.at += 1;
        let mut members: Vec<(String, Node)> = Vec::new();
        self.space();
        if self.eat(b'}') {
            return Ok(Node::Object(members));
        }
        let mut names = std::collections::HashSet::new();
        loop {
            self.space();
            if self.bytes.get(self.at) != Some(&b'"') {
                return Err(self.fault("expected a member name in double quotes"));
            }
            let name = self.text()?;
            if !names.insert(name.clone()) {
                return Err(self.fault(format!("\"{name}\" occurs twice; merge the two")));
            }
            self.space();
            self.expect(b':')?;
            let value = self.value(depth + 1)?;
            members.push((name, value));
            self.space();
            if self.eat(b'}') {
                return Ok(Node::Object(members));
            }
            self.expect(b',')?;
        }
    }

    fn digits(&mut self) -> usize {
        let start = self.at;
        while self.bytes.get(self.at).is_some_and(u8::is_ascii_digit) {
            self.at += 1;
        }
        self.at - start
    }

    fn number(&mut self) -> Result<Node> {
        let start = self.at;
        self.eat(b'-');
        let zero = self.bytes.get(self.at) == Some(&b'0');
        let whole = self.digits();
        let mut good = whole == 1 || (whole > 1 && !zero);
        if self.eat(b'.') {
            good &= self.digits() > 0;
        }
        if self.eat(b'e') || self.eat(b'E') {
            let _ = self.eat(b'+') || self.eat(b'-');
            good &= self.digits() > 0;
        }
        if !good {
            return Err(self.fault("not a number"));
        }
        Ok(Node::Number(String::from_utf8_lossy(&self.bytes[start..self.at]).into_owned()))
    }

    fn text(&mut self) -> Result<String> {
        self.at += 1;
        let mut out = String::new();
        loop {
            let start = self.at;
            while self.bytes.get(self.at).is_some_and(|b| !matches!(b, b'"' | b'\\' | 0..=0x1f)) {
                self.at += 1;
            }
            // The input is text and the run ends before an ASCII byte, so this is whole characters.
            out.push_str(&String::from_utf8_lossy(&self.bytes[start..self.at]));
            match self.bytes.get(self.at) {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(out);
                }
                Some(b'\\') => out.push(self.escape()?),
                Some(_) => return Err(self.fault("a control character in a string; write it as \\u00XX")),
                None => return Err(self.fault("the string is not terminated")),
            }
        }
    }

    fn escape(&mut self) -> Result<char> {
        self.at += 1;
        let kind = self.bytes.get(self.at).copied().unwrap_or(0);
        self.at += 1;
        Ok(match kind {
            b'"' => '"',
            b'\\' => '\\',
            b'/' => '/',
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => {
                let first = self.hex()?;
                let code = if (0xd800..0xdc00).contains(&first) {
                    if !(self.eat(b'\\') && self.eat(b'u')) {
                        return Err(self.fault("half of a surrogate pair"));
                    }
                    let second = self.hex()?;
                    if !(0xdc00..0xe000).contains(&second) {
                        return Err(self.fault("half of a surrogate pair"));
                    }
                    0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00)
                } else {
                    first
                };
                char::from_u32(code).ok_or_else(|| self.fault("half of a surrogate pair"))?
            }
            _ => return Err(self.fault("an unknown escape in a string")),
        })
    }

    fn hex(&mut self) -> Result<u32> {
        let digits = self.bytes.get(self.at..self.at + 4).filter(|d| d.iter().all(u8::is_ascii_hexdigit));
        let code = digits
            .and_then(|d| std::str::from_utf8(d).ok())
            .and_then(|d| u32::from_str_radix(d, 16).ok())
            .ok_or_else(|| self.fault("\\u needs four hexadecimal digits"))?;
        self.at += 4;
        Ok(code)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_json_is_refused() {
        for bad in [
            "",
            "{",
            "[1,]",
            "{\"a\":1,}",
            "{\"a\" 1}",
            "01",
            "-",
            "1.",
            "1e",
            "tru",
            "\"\\x\"",
            "\"\\ud800\"",
            "\"\\ud800\\u0041\"",
            "\"\u{1}\"",
            "\"abc",
            "{}{}",
            "[[[[[[[[[[[]]]]]]]]]]]",
            "{\"a\":1,\"a\":2}",
            "{\"a\":1,\"\\u0061\":2}",
        ] {
            assert!(parse(bad).is_err(), "{bad}");
        }
        let Err(Error::Syntax { line, column, .. }) = parse("{\n \"a\": x}") else { panic!() };
        assert_eq!((line, column), (2, 7));
    }

    #[test]
    fn escapes_are_decoded() {
        let Ok(Node::Text(t)) = parse(r#""a\u00e9\ud83d\ude00\n\/é""#) else { panic!() };
        assert_eq!(t, "a\u{e9}\u{1f600}\n/é");
    }
}
