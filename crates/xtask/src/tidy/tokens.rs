//! A scanner of Rust source text that finds paths; used by [`super::loops`].
//!
//! Skips comments, strings, characters and lifetimes, and every item under `#[cfg(test)]`. Does not expand
//! macros or resolve names.
//!
//! Invariants: it accepts any text without panic; a token has its line number. Must not depend on: the file
//! system, other rules.

/// One token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token<'a> {
    /// An identifier, `::`, or one other character.
    pub text: &'a str,
    /// Counted from 1.
    pub line: usize,
}

/// The tokens of a file outside tests.
#[derive(Debug, Default)]
pub struct Scan<'a> {
    /// Its tokens.
    pub tokens: Vec<Token<'a>>,
    /// Modules in their own files that only tests use: `#[cfg(test)] mod name;`.
    pub test_modules: Vec<&'a str>,
    /// Whether the whole file is under `#![cfg(test)]`.
    pub only_tests: bool,
}

/// Scans a file.
pub fn scan(text: &str) -> Scan<'_> {
    let all = tokens(text);
    let mut scan = Scan::default();
    let mut at = 0;
    while at < all.len() {
        if starts(&all[at..], &["#", "!", "[", "cfg", "(", "test", ")", "]"]) {
            scan.only_tests = true;
        }
        if is_for_tests(&all[at..]) {
            let end = item_end(&all, at);
            if let Some(module) = all[at..end].windows(3).find(|w| w[0].text == "mod" && w[2].text == ";") {
                scan.test_modules.push(module[1].text);
            }
            at = end;
        } else {
            scan.tokens.push(all[at]);
            at += 1;
        }
    }
    scan
}

fn starts(tokens: &[Token<'_>], expected: &[&str]) -> bool {
    tokens.len() >= expected.len() && tokens.iter().zip(expected).all(|(t, e)| t.text == *e)
}

/// `#[cfg(test)]` or `#[cfg(all(test, ...))]`.
fn is_for_tests(tokens: &[Token<'_>]) -> bool {
    starts(tokens, &["#", "[", "cfg", "(", "test", ")", "]"])
        || starts(tokens, &["#", "[", "cfg", "(", "all", "(", "test"])
}

/// The end of the item, field, arm or statement whose attributes begin at `at`.
fn item_end(all: &[Token<'_>], mut at: usize) -> usize {
    while starts(&all[at..], &["#", "["]) {
        at = group_end(all, at + 1);
    }
    if starts(&all[at..], &["pub"]) {
        at += 1;
        if starts(&all[at..], &["("]) {
            at = group_end(all, at);
        }
    }
    let first = all.get(at).map_or("", |t| t.text);
    let to_semicolon = matches!(first, "use" | "static" | "type" | "let")
        || first == "const" && !matches!(all.get(at + 1).map(|t| t.text), Some("fn" | "unsafe" | "async"));
    let is_item = matches!(
        first,
        "mod" | "fn" | "impl" | "struct" | "enum" | "trait" | "const" | "async" | "unsafe" | "macro_rules"
    );
    while let Some(token) = all.get(at) {
        match token.text {
            ";" => return at + 1,
            "," if !to_semicolon && !is_item => return at + 1,
            ")" | "]" | "}" => return at,
            "{" if !to_semicolon => return group_end(all, at),
            "(" | "[" | "{" => at = group_end(all, at),
            _ => at += 1,
        }
    }
    at
}

/// The position after the bracket that closes the one at `at`.
fn group_end(all: &[Token<'_>], mut at: usize) -> usize {
    let mut depth = 0_usize;
    while let Some(token) = all.get(at) {
        at += 1;
        match token.text {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 {
            break;
        }
    }
    at
}

fn tokens(text: &str) -> Vec<Token<'_>> {
    let bytes = text.as_bytes();
    let mut found = Vec::new();
    let (mut at, mut line) = (0, 1);
    while at < bytes.len() {
        let rest = &text[at..];
        let length = skipped(rest).unwrap_or_else(|| {
            let length = match bytes[at] {
                b if is_word(b) => rest.bytes().take_while(|b| is_word(*b)).count(),
                _ if rest.starts_with("::") => 2,
                _ => 1,
            };
            found.push(Token { text: &rest[..length], line });
            length
        });
        line += bytes[at..at + length].iter().filter(|b| **b == b'\n').count();
        at += length;
    }
    found
}

/// Non-ASCII letters count as parts of words, so that a token never ends inside a character.
fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || !byte.is_ascii()
}

/// The length of the space, comment, string, character or lifetime at the beginning of a text, which is not a
/// token.
fn skipped(rest: &str) -> Option<usize> {
    let bytes = rest.as_bytes();
    match bytes[0] {
        b if b.is_ascii_whitespace() => Some(rest.bytes().take_while(u8::is_ascii_whitespace).count()),
        b'/' if rest.starts_with("//") => Some(rest.find('\n').unwrap_or(rest.len())),
        b'/' if rest.starts_with("/*") => Some(block_comment(rest)),
        b'"' => Some(string(rest, 0)),
        b'\'' => Some(character(rest)),
        b'b' if rest.starts_with("b\"") => Some(string(rest, 1)),
        b'b' if rest.starts_with("b'") => Some(1 + character(&rest[1..])),
        b'r' => raw_string(rest, 1),
        b'b' if rest.starts_with("br") => raw_string(rest, 2),
        _ => None,
    }
}

fn block_comment(rest: &str) -> usize {
    let (mut at, mut depth) = (0, 0_usize);
    while at < rest.len() {
        let here = &rest.as_bytes()[at..];
        if here.starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if here.starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    rest.len()
}

fn string(rest: &str, open: usize) -> usize {
    let bytes = rest.as_bytes();
    let mut at = open + 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    rest.len()
}

fn raw_string(rest: &str, prefix: usize) -> Option<usize> {
    let hashes = rest[prefix..].bytes().take_while(|b| *b == b'#').count();
    let open = prefix + hashes;
    if !rest[open..].starts_with('"') {
        return None;
    }
    let close = format!("\"{}", "#".repeat(hashes));
    Some(rest[open + 1..].find(&close).map_or(rest.len(), |end| open + 1 + end + close.len()))
}

/// A character literal, or the quote and name of a lifetime.
fn character(rest: &str) -> usize {
    let mut characters = rest.char_indices().skip(1);
    match characters.next() {
        Some((_, '\\')) => {
            let escaped = characters.next().map_or(2, |(at, c)| at + c.len_utf8());
            rest[escaped..].find('\'').map_or(rest.len(), |end| escaped + end + 1)
        }
        Some((_, c)) => match characters.next() {
            Some((end, '\'')) => end + 1,
            _ if c.is_alphabetic() || c == '_' => 1 + rest[1..].bytes().take_while(|b| is_word(*b)).count(),
            _ => 1,
        },
        None => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(text: &str) -> String {
        scan(text).tokens.iter().map(|t| t.text).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn comments_and_literals_are_left_out() {
        for (text, expected) in [
            ("a::b // c::d\ne", "a :: b e"),
            ("a /* b /* c */ d */ e", "a e"),
            (r#"f("x::y \" z", b"q", 'c', '\'', b'\\', '\u{1F600}', 'ä') g"#, "f ( , , , , , , ) g"),
            ("r#\"a \" b\"# c r\"\\\" d br\"e\" r#type", "c d r # type"),
            ("fn f<'a>(x: &'static str) -> &'a str", "fn f < > ( x : & str ) - > & str"),
            ("\"not closed", ""),
            ("/* not closed", ""),
            ("'", ""),
        ] {
            assert_eq!(texts(text), expected, "{text}");
        }
    }

    #[test]
    fn lines_are_counted_through_strings() {
        let scan = scan("\"a\n\\\nb\"\n/*\n*/ here");
        assert_eq!(scan.tokens, [Token { text: "here", line: 5 }]);
    }

    #[test]
    fn tests_are_left_out() {
        for (text, expected) in [
            ("a; #[cfg(test)] mod tests { b { c } } d", "a ; d"),
            ("#[cfg(test)] #[allow(x)] pub(crate) use a::{b, c}; d", "d"),
            ("#[cfg(test)] fn f<A, B>(a: A, b: B) -> [u8; 4] { a } d", "d"),
            ("#[cfg(test)] const X: [u8; 2] = [1, 2]; d", "d"),
            ("struct S { a: u8, #[cfg(test)] b: u8, c: u8 }", "struct S { a : u8 , c : u8 }"),
            ("struct S { #[cfg(test)] b: u8 } c", "struct S { } c"),
            ("#[cfg(all(test, unix))] impl A for B { c } d", "d"),
            ("#[cfg(not(test))] a", "# [ cfg ( not ( test ) ) ] a"),
        ] {
            assert_eq!(texts(text), expected, "{text}");
        }
        assert_eq!(scan("#[cfg(test)]\nmod tests;\nmod a;").test_modules, ["tests"]);
        assert!(scan("//! Text.\n#![cfg(test)]\nuse a;").only_tests);
    }
}
