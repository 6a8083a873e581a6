//! Text patterns: literal text, `*`, `?` and policy variables.
//!
//! Invariants: a variable is expanded after the pattern was parsed, and its value is literal text: a `*` in a
//! user's name is a star, not a wildcard, and `${` in a value is never expanded again. A variable without a
//! value, or with an empty one, makes the pattern match nothing. Matching is leftmost greedy over the parts
//! between stars, in at most (length of pattern) x (length of text) steps, without backtracking over stars.

use memchr::memmem;
use smallvec::SmallVec;

use crate::key::Key;
use crate::request::{Request, Scalar};

/// One piece of a pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Text(Box<str>),
    /// `?`: one character.
    One,
    /// `*`: any text.
    Any,
    /// `${key}` or `${key, 'default'}`.
    Var(Box<(Key, Option<Box<str>>)>),
}

/// A compiled pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pattern(Form);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Form {
    /// Just this text.
    Exact(Box<str>),
    /// This text, then anything.
    Prefix(Box<str>),
    /// Wildcards elsewhere, no variables.
    General(Box<[Piece]>),
    /// A pattern with variables.
    Variable(Box<[Piece]>),
}

/// A piece whose variables are expanded.
#[derive(Clone, Copy)]
enum Token<'a> {
    Text(&'a [u8]),
    One,
    Any,
}

/// What reading a pattern can find wrong.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Bad {
    /// `${` without `}`.
    Open,
    /// A variable that is no condition key.
    Unknown(String),
    /// A default that is not `'text'`.
    Default(String),
}

impl Pattern {
    /// Reads a pattern. `wild`: `*` and `?` are wildcards; `vars`: `${...}` is a variable.
    pub(crate) fn parse(text: &str, wild: bool, vars: bool) -> Result<Pattern, Bad> {
        let mut pieces: Vec<Piece> = Vec::new();
        let mut literal = String::new();
        let mut rest = text;
        while let Some(c) = rest.chars().next() {
            if vars && rest.starts_with("${") {
                let (name, after) = variable_end(&rest[2..]).ok_or(Bad::Open)?;
                rest = after;
                match name.trim() {
                    special @ ("*" | "?" | "$") => literal.push_str(special),
                    name => {
                        flush(&mut literal, &mut pieces);
                        pieces.push(Piece::Var(Box::new(variable(name)?)));
                    }
                }
                continue;
            }
            rest = &rest[c.len_utf8()..];
            match c {
                '*' if wild => {
                    flush(&mut literal, &mut pieces);
                    if pieces.last() != Some(&Piece::Any) {
                        pieces.push(Piece::Any);
                    }
                }
                '?' if wild => {
                    flush(&mut literal, &mut pieces);
                    pieces.push(Piece::One);
                }
                c => literal.push(c),
            }
        }
        flush(&mut literal, &mut pieces);
        Ok(Pattern(form(pieces)))
    }

    /// A pattern of wildcards only.
    pub(crate) fn glob(text: &str) -> Pattern {
        // Without variables nothing can be wrong with it.
        Pattern::parse(text, true, false).unwrap_or(Pattern(Form::Exact(text.into())))
    }

    /// Whether the text, which is valid UTF-8, matches with the variables of this request.
    #[inline]
    pub(crate) fn matches(&self, text: &[u8], request: &Request) -> bool {
        match &self.0 {
            Form::Exact(t) => t.as_bytes() == text,
            Form::Prefix(t) => text.starts_with(t.as_bytes()),
            Form::General(pieces) => begins(pieces, text) && general(pieces, text, None),
            Form::Variable(pieces) => begins(pieces, text) && general(pieces, text, Some(request)),
        }
    }

    /// As [`Pattern::matches`], for patterns without variables; those with variables do not match.
    pub(crate) fn matches_plain(&self, text: &str) -> bool {
        match &self.0 {
            Form::Exact(t) => **t == *text,
            Form::Prefix(t) => text.starts_with(&**t),
            Form::General(pieces) => general(pieces, text.as_bytes(), None),
            Form::Variable(_) => false,
        }
    }

    /// As [`Pattern::matches`], without regard to the case of letters; for patterns without wildcards.
    pub(crate) fn equals_ignoring_case(&self, text: &str, request: &Request) -> bool {
        match &self.0 {
            Form::Exact(t) => same_letters(t, text),
            Form::Variable(pieces) => {
                let mut whole = String::new();
                for piece in pieces {
                    match piece {
                        Piece::Text(t) => whole.push_str(t),
                        Piece::Var(v) => match expand(v, request) {
                            Some(t) => whole.push_str(&t),
                            None => return false,
                        },
                        Piece::One | Piece::Any => return false,
                    }
                }
                same_letters(&whole, text)
            }
            Form::Prefix(_) | Form::General(_) => false,
        }
    }

    /// The one text it matches, when it has neither wildcards nor variables.
    pub(crate) fn fixed(&self) -> Option<&str> {
        match &self.0 {
            Form::Exact(t) => Some(t),
            _ => None,
        }
    }

    /// The keys of its variables.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &Key> {
        let pieces: &[Piece] = match &self.0 {
            Form::Variable(p) => p,
            _ => &[],
        };
        pieces.iter().filter_map(|p| if let Piece::Var(v) = p { Some(&v.0) } else { None })
    }

    /// The literal text it begins with, up to the first wildcard or variable.
    pub(crate) fn literal_head(&self) -> &str {
        match &self.0 {
            Form::Exact(t) | Form::Prefix(t) => t,
            Form::General(p) | Form::Variable(p) => match p.first() {
                Some(Piece::Text(t)) => t,
                _ => "",
            },
        }
    }
}

fn flush(literal: &mut String, pieces: &mut Vec<Piece>) {
    if !literal.is_empty() {
        pieces.push(Piece::Text(std::mem::take(literal).into()));
    }
}

fn form(mut pieces: Vec<Piece>) -> Form {
    if pieces.iter().any(|p| matches!(p, Piece::Var(_))) {
        return Form::Variable(pieces.into());
    }
    match &mut pieces[..] {
        [] => Form::Exact("".into()),
        [Piece::Text(t)] => Form::Exact(std::mem::take(t)),
        [Piece::Any] => Form::Prefix("".into()),
        [Piece::Text(t), Piece::Any] => Form::Prefix(std::mem::take(t)),
        _ => Form::General(pieces.into()),
    }
}

/// Splits after the `}` that ends a variable; one inside a quoted default does not.
fn variable_end(text: &str) -> Option<(&str, &str)> {
    let mut quoted = false;
    for (i, b) in text.bytes().enumerate() {
        match b {
            b'\'' => quoted = !quoted,
            b'}' if !quoted => return Some((&text[..i], &text[i + 1..])),
            _ => {}
        }
    }
    None
}

fn variable(inner: &str) -> Result<(Key, Option<Box<str>>), Bad> {
    let (name, default) = match inner.split_once(',') {
        Some((name, default)) => (name.trim_end(), Some(default.trim())),
        None => (inner, None),
    };
    let key = Key::find(name).ok_or_else(|| Bad::Unknown(name.to_owned()))?;
    let Some(text) = default else { return Ok((key, None)) };
    let inside = text
        .strip_prefix('\'')
        .and_then(|t| t.strip_suffix('\''))
        .filter(|t| !t.replace("''", "").contains('\''))
        .ok_or_else(|| Bad::Default(text.to_owned()))?;
    Ok((key, Some(inside.replace("''", "'").into())))
}

/// The value of a variable: text that is taken literally. Keys with several values have none, as in AWS.
fn expand<'a>(var: &'a (Key, Option<Box<str>>), request: &'a Request) -> Option<std::borrow::Cow<'a, str>> {
    match request.single(&var.0) {
        // An empty value would widen `home/${jwt:team}*` to every folder.
        Some(Scalar::Text("")) | None => var.1.as_deref().map(Into::into),
        Some(Scalar::Text(t)) => Some(t.into()),
        Some(other) => Some(other.text().into_owned().into()),
    }
}

fn same_letters(a: &str, b: &str) -> bool {
    a.chars().flat_map(char::to_lowercase).eq(b.chars().flat_map(char::to_lowercase))
}

/// Whether the text has the pattern's literal beginning: what most patterns fail by, and cheap.
#[inline]
fn begins(pieces: &[Piece], text: &[u8]) -> bool {
    match pieces.first() {
        Some(Piece::Text(t)) => text.starts_with(t.as_bytes()),
        _ => true,
    }
}

fn general(pieces: &[Piece], text: &[u8], request: Option<&Request>) -> bool {
    let mut expanded: SmallVec<[std::borrow::Cow<str>; 2]> = SmallVec::new();
    if let Some(request) = request {
        for piece in pieces {
            if let Piece::Var(v) = piece {
                match expand(v, request) {
                    Some(t) => expanded.push(t),
                    None => return false,
                }
            }
        }
    }
    let mut values = expanded.iter();
    let tokens: SmallVec<[Token; 12]> = pieces
        .iter()
        .map(|p| match p {
            Piece::Text(t) => Token::Text(t.as_bytes()),
            Piece::One => Token::One,
            Piece::Any => Token::Any,
            Piece::Var(_) => Token::Text(values.next().map_or(&[], |t| t.as_bytes())),
        })
        .collect();
    walk(&tokens, text)
}

fn walk(tokens: &[Token], mut text: &[u8]) -> bool {
    let star = |t: &Token| matches!(t, Token::Any);
    let Some(first) = tokens.iter().position(star) else {
        return starts(tokens, text) == Some(text.len());
    };
    let last = tokens.iter().rposition(star).unwrap_or(first);
    let Some(head) = starts(&tokens[..first], text) else { return false };
    text = &text[head..];
    let Some(tail) = ends(&tokens[last + 1..], text) else { return false };
    text = &text[..tail];
    if first == last {
        return true;
    }
    for part in tokens[first + 1..last].split(star) {
        match find(part, text) {
            Some(end) => text = &text[end..],
            None => return false,
        }
    }
    true
}

/// Bytes of the character that begins here. The text is valid UTF-8.
fn width(byte: u8) -> usize {
    match byte {
        0..=0xbf => 1,
        0xc0..=0xdf => 2,
        0xe0..=0xef => 3,
        _ => 4,
    }
}

/// How much of the text's beginning the part covers.
fn starts(part: &[Token], text: &[u8]) -> Option<usize> {
    let mut at = 0;
    for token in part {
        match token {
            Token::Text(t) => {
                if !text.get(at..)?.starts_with(t) {
                    return None;
                }
                at += t.len();
            }
            Token::One => at += width(*text.get(at)?),
            Token::Any => return None,
        }
    }
    (at <= text.len()).then_some(at)
}

/// Where the part that covers the text's end begins.
fn ends(part: &[Token], text: &[u8]) -> Option<usize> {
    let mut at = text.len();
    for token in part.iter().rev() {
        match token {
            Token::Text(t) => {
                if !text[..at].ends_with(t) {
                    return None;
                }
                at -= t.len();
            }
            Token::One => {
                at = at.checked_sub(1)?;
                while at > 0 && text[at] & 0xc0 == 0x80 {
                    at -= 1;
                }
            }
            Token::Any => return None,
        }
    }
    Some(at)
}

/// The end of the first place where the part matches.
fn find(part: &[Token], text: &[u8]) -> Option<usize> {
    match part {
        [] => Some(0),
        [Token::Text(t)] => memmem::find(text, t).map(|i| i + t.len()),
        _ => (0..=text.len())
            .filter(|&i| text.get(i).is_none_or(|b| b & 0xc0 != 0x80))
            .find_map(|i| starts(part, &text[i..]).map(|n| i + n)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::tests::blank;

    #[test]
    fn wildcards_match() {
        for (pattern, text, want) in [
            ("", "", true),
            ("", "a", false),
            ("*", "", true),
            ("a*", "a/b", true),
            ("*a", "ba", true),
            ("*a", "ab", false),
            ("a*b*c", "aXbYc", true),
            ("a*b*c", "acb", false),
            ("a?c", "abc", true),
            ("a?c", "aéc", true),
            ("a?c", "ac", false),
            ("?", "é", true),
            ("*?", "", false),
            ("*?", "é", true),
            ("?*?", "a", false),
            ("*é?", "xéé", true),
            ("a**b", "ab", true),
            ("*ab*ab*", "ab", false),
            ("*aba*", "ababa", true),
            ("ab*ba", "aba", false),
            ("*.?", "a.b.c", true),
        ] {
            assert_eq!(Pattern::glob(pattern).matches_plain(text), want, "{pattern} {text}");
        }
    }

    /// The classic shape that makes a backtracking matcher take exponential time.
    #[test]
    fn matching_time_is_bounded() {
        let text = "a".repeat(4096);
        for pattern in
            ["a*".repeat(200) + "b", "*a".repeat(200) + "?b", "*?a".repeat(150) + "b", "?".repeat(1000)]
        {
            let begin = std::time::Instant::now();
            assert!(!Pattern::glob(&pattern).matches_plain(&text));
            assert!(begin.elapsed().as_millis() < 500, "{} took {:?}", &pattern[..8], begin.elapsed());
        }
    }

    /// The matcher against the definition of a glob, on every short text over a small alphabet.
    #[test]
    fn matcher_agrees_with_the_definition() {
        fn slow(p: &[u8], t: &[u8]) -> bool {
            match (p.first(), t.first()) {
                (None, None) => true,
                (Some(b'*'), _) => slow(&p[1..], t) || (!t.is_empty() && slow(p, &t[1..])),
                (Some(b'?'), Some(_)) => slow(&p[1..], &t[1..]),
                (Some(a), Some(b)) if a == b => slow(&p[1..], &t[1..]),
                _ => false,
            }
        }
        let words = |letters: &[u8], most: u32| {
            let mut all = vec![Vec::new()];
            let mut last: Vec<Vec<u8>> = all.clone();
            for _ in 0..most {
                last = last.iter().flat_map(|w| letters.iter().map(|l| [&w[..], &[*l]].concat())).collect();
                all.extend(last.iter().cloned());
            }
            all
        };
        for p in words(b"ab*?", 5) {
            let pattern = Pattern::glob(std::str::from_utf8(&p).unwrap());
            for t in words(b"ab", 5) {
                let text = std::str::from_utf8(&t).unwrap();
                assert_eq!(pattern.matches_plain(text), slow(&p, &t), "{p:?} {t:?}");
            }
        }
    }

    #[test]
    fn values_of_variables_are_literal_text() {
        blank(|request, _| {
            let is = |p: &str, t: &str| Pattern::parse(p, true, true).unwrap().matches(t.as_bytes(), request);
            assert!(is("b/${aws:username}/*", "b/a*/x"));
            assert!(!is("b/${aws:username}/*", "b/ab/x"));
            assert!(is("${*}${?}${$}", "*?$"));
            assert!(!is("x${jwt:none}", "x"));
            assert!(is("x${jwt:none, 'it''s }'}y", "xit's }y"));
            assert!(is("$x$", "$x$"));
        });
        assert_eq!(Pattern::parse("${aws:username", true, true), Err(Bad::Open));
        assert_eq!(Pattern::parse("${nope}", true, true), Err(Bad::Unknown("nope".into())));
        assert_eq!(Pattern::parse("${jwt:a, b}", true, true), Err(Bad::Default("b".into())));
    }
}
