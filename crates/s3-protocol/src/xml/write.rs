//! Writes documents into one string.

use std::fmt::Write as _;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// A document being printed.
pub struct Xml {
    out: String,
    open: Vec<&'static str>,
}

impl Default for Xml {
    fn default() -> Self {
        Self::new()
    }
}

impl Xml {
    /// The XML declaration, as AWS prints it.
    pub fn new() -> Xml {
        Xml::with_capacity(512)
    }

    /// As [`Xml::new`], for documents known to be large.
    pub fn with_capacity(bytes: usize) -> Xml {
        let mut out = String::with_capacity(bytes);
        out.push_str(super::DECLARATION);
        Xml { out, open: Vec::with_capacity(8) }
    }

    /// Opens the root element in the S3 namespace.
    pub fn root(&mut self, name: &'static str) -> &mut Xml {
        let _ = write!(self.out, "<{name} xmlns=\"{}\">", super::NAMESPACE);
        self.open.push(name);
        self
    }

    /// Opens an element.
    pub fn open(&mut self, name: &'static str) -> &mut Xml {
        self.out.push('<');
        self.out.push_str(name);
        self.out.push('>');
        self.open.push(name);
        self
    }

    /// Opens an element with attributes, printed as they are.
    pub fn open_with(&mut self, name: &'static str, attributes: &str) -> &mut Xml {
        let _ = write!(self.out, "<{name} {attributes}>");
        self.open.push(name);
        self
    }

    /// Closes the innermost open element.
    pub fn close(&mut self) -> &mut Xml {
        let name = self.open.pop().expect("one close for each open");
        self.out.push_str("</");
        self.out.push_str(name);
        self.out.push('>');
        self
    }

    /// An element with text.
    pub fn leaf(&mut self, name: &str, text: &str) -> &mut Xml {
        if text.is_empty() {
            self.out.push('<');
            self.out.push_str(name);
            self.out.push_str("/>");
            return self;
        }
        self.tag(name);
        escape(&mut self.out, text);
        self.untag(name)
    }

    /// Text of the innermost open element.
    pub fn text(&mut self, text: &str) -> &mut Xml {
        escape(&mut self.out, text);
        self
    }

    /// An element with text that needs no escaping (numbers, dates, identifiers).
    pub fn plain(&mut self, name: &str, text: impl std::fmt::Display) -> &mut Xml {
        self.tag(name);
        let _ = write!(self.out, "{text}");
        self.untag(name)
    }

    /// `<ETag>&quot;...&quot;</ETag>`, as AWS prints it.
    pub fn etag(&mut self, etag: impl std::fmt::Display) -> &mut Xml {
        let _ = write!(self.out, "<ETag>&quot;{etag}&quot;</ETag>");
        self
    }

    /// An element with text, or nothing.
    pub fn maybe(&mut self, name: &str, text: Option<&str>) -> &mut Xml {
        match text {
            Some(text) => self.leaf(name, text),
            None => self,
        }
    }

    /// The finished document.
    pub fn finish(self) -> String {
        assert!(self.open.is_empty(), "unclosed {:?}", self.open);
        self.out
    }

    fn tag(&mut self, name: &str) {
        self.out.push('<');
        self.out.push_str(name);
        self.out.push('>');
    }

    fn untag(&mut self, name: &str) -> &mut Xml {
        self.out.push_str("</");
        self.out.push_str(name);
        self.out.push('>');
        self
    }
}

fn escape(out: &mut String, text: &str) {
    let special = |b: u8| matches!(b, b'<' | b'>' | b'&' | b'"') || b < 0x20 || b == 0x7f;
    if !text.bytes().any(special) {
        out.push_str(text);
        return;
    }
    for c in text.chars() {
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '"' => out.push_str("&quot;"),
            // A parser would turn a bare CR into LF; the others are only legible as references.
            c if (c as u32) < 0x20 || c == '\u{7f}' => {
                let _ = write!(out, "&#x{:X};", c as u32);
            }
            c => out.push(c),
        }
    }
}

/// What `encoding-type=url` escapes: everything but letters, digits and `-_./*`.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'/').remove(b'*');

/// Percent-encodes for `encoding-type=url`: everything but letters, digits and `-_./*`.
///
/// A space becomes `%20` and not `+`, which every URL decoder understands.
pub fn url_encode(text: &str) -> String {
    utf8_percent_encode(text, ESCAPED).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_encoded_as_in_listings() {
        for byte in 0..=u8::MAX {
            let plain = byte.is_ascii_alphanumeric() || b"-_./*".contains(&byte);
            let expected = if plain { char::from(byte).to_string() } else { format!("%{byte:02X}") };
            assert_eq!(percent_encoding::percent_encode(&[byte], ESCAPED).to_string(), expected);
        }
    }

    #[test]
    fn characters_that_a_parser_would_change_are_escaped() {
        let mut xml = Xml::new();
        xml.root("R").leaf("K", "a&<b>\"\r\n\u{1}é").leaf("E", "").close();
        let text = xml.finish();
        assert!(text.ends_with("<K>a&amp;&lt;b&gt;&quot;&#xD;&#xA;&#x1;é</K><E/></R>"), "{text}");
        assert_eq!(url_encode("a b+c/ä%"), "a%20b%2Bc/%C3%A4%25");
    }
}
