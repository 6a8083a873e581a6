//! Parsing of XML answers into a small tree, and writing of XML requests.
//!
//! Invariants: no DTD; only the five predefined entities and character references; depth limited by
//! [`crate::limits::XML_DEPTH`]; text is kept verbatim, because keys may begin or end with spaces.
//!
//! Must not depend on: the meaning of the elements.

use quick_xml::{Reader, events::Event};

use crate::{
    error::{Error, Result},
    limits,
};

/// An element: name without prefix, text, children. Attributes are discarded.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Element {
    pub(crate) name: String,
    pub(crate) text: String,
    pub(crate) children: Vec<Element>,
}

impl Element {
    /// The first child with this name.
    pub(crate) fn child(&self, name: &str) -> Option<&Element> {
        self.children.iter().find(|c| c.name == name)
    }

    /// All children with this name, in order.
    pub(crate) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Element> {
        self.children.iter().filter(move |c| c.name == name)
    }

    /// The text of the first child with this name; empty if there is none.
    pub(crate) fn text_of(&self, name: &str) -> &str {
        self.child(name).map_or("", |c| c.text.as_str())
    }

    /// The text of the first child with this name, unless it is missing or empty.
    pub(crate) fn some_text(&self, name: &str) -> Option<String> {
        Some(self.text_of(name)).filter(|t| !t.is_empty()).map(str::to_owned)
    }

    /// Whether the text of the first child with this name is `true`.
    pub(crate) fn is_true(&self, name: &str) -> bool {
        self.text_of(name).trim().eq_ignore_ascii_case("true")
    }

    /// The number in the first child with this name.
    pub(crate) fn number(&self, name: &str) -> Option<u64> {
        self.text_of(name).trim().parse().ok()
    }
}

/// Parses a document. Anything that is not well-formed is [`Error::Unexpected`].
pub(crate) fn parse(bytes: &[u8]) -> Result<Element> {
    let bad = |what: &dyn std::fmt::Display| Error::Unexpected(format!("not the XML expected: {what}"));
    let text = std::str::from_utf8(bytes).map_err(|_| bad(&"not UTF-8"))?;
    let mut reader = Reader::from_str(text);
    // `stack[0]` is the document; its only child is the root.
    let mut stack = vec![Element::default()];
    loop {
        match reader.read_event().map_err(|e| bad(&e))? {
            Event::Start(tag) => {
                if stack.len() > limits::XML_DEPTH {
                    return Err(bad(&"nested too deep"));
                }
                let name = String::from_utf8_lossy(tag.local_name().as_ref()).into_owned();
                stack.push(Element { name, ..Element::default() });
            }
            Event::Empty(tag) => {
                let name = String::from_utf8_lossy(tag.local_name().as_ref()).into_owned();
                top(&mut stack).children.push(Element { name, ..Element::default() });
            }
            Event::End(_) => {
                let done = stack.pop().ok_or_else(|| bad(&"an end without a start"))?;
                stack.last_mut().ok_or_else(|| bad(&"an end without a start"))?.children.push(done);
            }
            Event::Text(t) => top(&mut stack).text.push_str(&t.decode().map_err(|e| bad(&e))?),
            Event::CData(t) => top(&mut stack).text.push_str(&t.decode().map_err(|e| bad(&e))?),
            Event::GeneralRef(reference) => {
                let name = reference.decode().map_err(|e| bad(&e))?;
                let character = match (&*name, reference.resolve_char_ref().map_err(|e| bad(&e))?) {
                    (_, Some(character)) => character,
                    ("amp", _) => '&',
                    ("lt", _) => '<',
                    ("gt", _) => '>',
                    ("quot", _) => '"',
                    ("apos", _) => '\'',
                    _ => return Err(bad(&"an entity")),
                };
                top(&mut stack).text.push(character);
            }
            Event::DocType(_) => return Err(bad(&"a document type")),
            Event::Comment(_) | Event::Decl(_) | Event::PI(_) => {}
            Event::Eof => break,
        }
    }
    match (stack.len(), stack.pop().map(|document| document.children)) {
        (1, Some(mut children)) if children.len() == 1 => Ok(children.remove(0)),
        _ => Err(bad(&"not one complete element")),
    }
}

fn top(stack: &mut [Element]) -> &mut Element {
    stack.last_mut().expect("the document itself stays on the stack until the end")
}

/// Writes a request with calls of `open`, `leaf` and `close` in order.
pub(crate) struct Writer(String);

impl Writer {
    /// A document whose root is `name`, in the S3 namespace.
    pub(crate) fn new(root: &str) -> Writer {
        Writer(format!("<{root} xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">"))
    }

    pub(crate) fn open(&mut self, name: &str) -> &mut Writer {
        self.0.extend(["<", name, ">"]);
        self
    }

    pub(crate) fn close(&mut self, name: &str) -> &mut Writer {
        self.0.extend(["</", name, ">"]);
        self
    }

    pub(crate) fn leaf(&mut self, name: &str, text: &str) -> &mut Writer {
        self.open(name);
        for character in text.chars() {
            match character {
                '&' => self.0.push_str("&amp;"),
                '<' => self.0.push_str("&lt;"),
                '>' => self.0.push_str("&gt;"),
                '"' => self.0.push_str("&quot;"),
                // Written as character references, because parsers normalise line ends and discard some of
                // these.
                c if c < ' ' => self.0.push_str(&format!("&#x{:X};", u32::from(c))),
                c => self.0.push(c),
            }
        }
        self.close(name)
    }

    pub(crate) fn finish(mut self, root: &str) -> String {
        self.close(root);
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn keeps_text_verbatim_and_order() {
        let root = parse(
            b"<?xml version=\"1.0\"?>\n<R xmlns=\"x\"><K> a&amp;&#x9;b&lt;<![CDATA[<&]]> </K>\
              <V/><s:M xmlns:s=\"y\">1</s:M><V>2</V></R>",
        )
        .unwrap();
        assert_eq!(root.name, "R");
        assert_eq!(root.text_of("K"), " a&\tb<<& ");
        assert_eq!(root.all("V").map(|v| v.text.as_str()).collect::<Vec<_>>(), ["", "2"]);
        assert_eq!(root.number("M"), Some(1));
    }

    #[test]
    fn invalid_xml_is_refused() {
        let deep = format!("{}{}", "<a>".repeat(100), "</a>".repeat(100));
        for bad in [
            "",
            "plain",
            "<a>",
            "<a></b>",
            "</a>",
            "<a/><b/>",
            "<a>&unknown;</a>",
            &deep,
            "<!DOCTYPE a [<!ENTITY x \"y\">]><a>&x;</a>",
            "<html><body><br></body></html>",
        ] {
            assert!(matches!(parse(bad.as_bytes()), Err(Error::Unexpected(_))), "{bad}");
        }
        assert!(parse(b"<a>\xff</a>").is_err());
    }

    proptest! {
        #[test]
        fn never_panics(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse(&bytes);
        }

        #[test]
        fn written_xml_parses_back(text in "[\\x01-\\u{d7ff}]{0,40}") {
            let mut writer = Writer::new("R");
            writer.leaf("K", &text);
            let document = writer.finish("R");
            // Some control characters are not allowed in XML 1.0, even as references.
            if let Ok(root) = parse(document.as_bytes()) {
                prop_assert_eq!(root.text_of("K"), text);
            }
        }
    }
}
