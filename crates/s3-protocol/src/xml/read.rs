//! Reads documents from clients: a pull parser with all limits of docs/proof.md 2.1.10.
//!
//! No DTD, only the five predefined entities, depth at most [`DEPTH`], at most [`ATTRIBUTES`] attributes on
//! an element. CDATA is text.

use std::borrow::Cow;

use quick_xml::Reader;
use quick_xml::escape::resolve_xml_entity;
use quick_xml::events::Event;

use crate::fault::{Code, Fault, Outcome};

/// Deepest nesting of elements.
pub const DEPTH: usize = 16;
/// Most attributes of one element.
pub const ATTRIBUTES: usize = 8;

/// A document being read.
pub struct Doc<'a> {
    reader: Reader<&'a [u8]>,
    depth: usize,
    /// The element just opened was `<a/>`: its end is implied.
    implied_end: bool,
}

enum Step<'a> {
    Open(Cow<'a, str>),
    Text(Cow<'a, str>),
    Close,
    End,
}

fn malformed(why: impl std::fmt::Display) -> Fault {
    Fault::with(
        Code::MALFORMED_XML,
        format!(
            "The XML you provided was not well-formed or did not validate against our published schema: {why}."
        ),
    )
}

impl<'a> Doc<'a> {
    /// Reads `bytes` and opens the root element, which must be called `root`.
    pub fn open(bytes: &'a [u8], root: &str) -> Outcome<Doc<'a>> {
        if bytes.iter().all(u8::is_ascii_whitespace) {
            return Err(Fault::new(Code::MISSING_REQUEST_BODY));
        }
        let mut reader = Reader::from_reader(bytes);
        reader.config_mut().check_end_names = true;
        reader.config_mut().allow_unmatched_ends = false;
        let mut doc = Doc { reader, depth: 0, implied_end: false };
        match doc.step()? {
            Step::Open(name) if name == root => Ok(doc),
            Step::Open(name) => {
                Err(malformed(format_args!("the root element is {}, not {root}", short(&name))))
            }
            _ => Err(malformed("there is no root element")),
        }
    }

    /// The name of the next child of the element that is open, or `None` at its end.
    ///
    /// Text between children is refused unless it is white space.
    pub fn child(&mut self) -> Outcome<Option<String>> {
        loop {
            match self.step()? {
                Step::Open(name) => return Ok(Some(name.into_owned())),
                Step::Text(text) if text.trim().is_empty() => {}
                Step::Text(_) => return Err(malformed("text where an element belongs")),
                Step::Close => return Ok(None),
                Step::End => return Err(malformed("the document ends too early")),
            }
        }
    }

    /// The text of the element just opened, up to its end; children are refused.
    pub fn text(&mut self) -> Outcome<String> {
        let mut out = String::new();
        loop {
            match self.step()? {
                Step::Text(text) => out.push_str(&text),
                Step::Close => return Ok(out),
                Step::Open(name) => {
                    return Err(malformed(format_args!("an unexpected element {}", short(&name))));
                }
                Step::End => return Err(malformed("the document ends too early")),
            }
        }
    }

    /// As [`Doc::text`], parsed.
    pub fn parse<T: std::str::FromStr>(&mut self, what: &'static str) -> Outcome<T> {
        let text = self.text()?;
        text.trim().parse().map_err(|_| malformed(format_args!("{what} is not valid")))
    }

    /// Passes over the element just opened, with everything in it.
    pub fn skip(&mut self) -> Outcome<()> {
        let outside = self.depth - 1;
        while self.depth > outside {
            if let Step::End = self.step()? {
                return Err(malformed("the document ends too early"));
            }
        }
        Ok(())
    }

    /// An element that this document may not hold.
    pub fn unexpected<T>(&self, name: &str) -> Outcome<T> {
        Err(malformed(format_args!("an unexpected element {}", short(name))))
    }

    /// After the root element has closed: nothing may follow.
    pub fn finish(mut self) -> Outcome<()> {
        match self.step()? {
            Step::End => Ok(()),
            _ => Err(malformed("something follows the root element")),
        }
    }

    fn step(&mut self) -> Outcome<Step<'a>> {
        if std::mem::take(&mut self.implied_end) {
            self.depth -= 1;
            return Ok(Step::Close);
        }
        loop {
            let event = self.reader.read_event().map_err(|_| malformed("it is not well-formed"))?;
            match event {
                Event::Start(start) => return self.opened(&start, false),
                Event::Empty(start) => return self.opened(&start, true),
                Event::End(_) => {
                    self.depth -= 1;
                    return Ok(Step::Close);
                }
                Event::Text(text) => {
                    let text = text.decode().map_err(|_| malformed("it is not UTF-8"))?;
                    if self.depth == 0 && !text.trim().is_empty() {
                        return Err(malformed("text outside the root element"));
                    }
                    no_zero(&text)?;
                    if self.depth > 0 {
                        return Ok(Step::Text(text));
                    }
                }
                Event::CData(data) => {
                    if self.depth == 0 {
                        return Err(malformed("text outside the root element"));
                    }
                    let text = data.decode().map_err(|_| malformed("it is not UTF-8"))?;
                    no_zero(&text)?;
                    return Ok(Step::Text(text));
                }
                Event::GeneralRef(reference) => {
                    let text = resolve(&reference)
                        .ok_or_else(|| malformed("an entity that is not one of XML's own"))?;
                    return Ok(Step::Text(text));
                }
                Event::DocType(_) => return Err(malformed("a document type is not allowed")),
                Event::Decl(_) | Event::Comment(_) | Event::PI(_) => {}
                Event::Eof => {
                    return if self.depth == 0 {
                        Ok(Step::End)
                    } else {
                        Err(malformed("the document ends too early"))
                    };
                }
            }
        }
    }

    fn opened(&mut self, start: &quick_xml::events::BytesStart<'_>, empty: bool) -> Outcome<Step<'a>> {
        self.depth += 1;
        if self.depth > DEPTH {
            return Err(malformed("elements are nested too deeply"));
        }
        if start.attributes().take(ATTRIBUTES + 1).count() > ATTRIBUTES {
            return Err(malformed("an element has too many attributes"));
        }
        let name = std::str::from_utf8(start.local_name().into_inner())
            .map_err(|_| malformed("it is not UTF-8"))?
            .to_owned();
        self.implied_end = empty;
        Ok(Step::Open(Cow::Owned(name)))
    }
}

fn resolve<'a>(reference: &quick_xml::events::BytesRef<'_>) -> Option<Cow<'a, str>> {
    if let Ok(Some(c)) = reference.resolve_char_ref() {
        return (c != '\0').then(|| Cow::Owned(c.to_string()));
    }
    let name = reference.decode().ok()?;
    resolve_xml_entity(&name).map(Cow::Borrowed)
}

fn short(name: &str) -> String {
    name.chars().take(64).collect()
}

/// U+0000 is no character of XML, not even as a reference: what was read could not be printed to be read again.
fn no_zero(text: &str) -> Outcome<()> {
    if text.contains('\0') { Err(malformed("the character U+0000")) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(xml: &str) -> Outcome<Vec<(String, String)>> {
        let mut doc = Doc::open(xml.as_bytes(), "R")?;
        let mut out = Vec::new();
        while let Some(name) = doc.child()? {
            let text = doc.text()?;
            out.push((name, text));
        }
        doc.finish()?;
        Ok(out)
    }

    #[test]
    fn reads_text_references_and_cdata() {
        let got = texts(
            "<?xml version='1.0'?><R xmlns='x'> <a>1&amp;2</a><b/><c><![CDATA[<x>]]></c><d>&#13;&#x41;</d></R>\n",
        );
        let got = got.unwrap();
        let want = [("a", "1&2"), ("b", ""), ("c", "<x>"), ("d", "\rA")];
        assert!(got.iter().map(|(a, b)| (a.as_str(), b.as_str())).eq(want), "{got:?}");
    }

    #[test]
    fn bombs_and_invalid_documents_are_refused() {
        let deep = format!("<R>{}{}</R>", "<a>".repeat(40), "</a>".repeat(40));
        let wide = format!("<R><a {}/></R>", (0..99).map(|i| format!("a{i}='1' ")).collect::<String>());
        for bad in [
            "<!DOCTYPE R [<!ENTITY a \"b\">]><R><a>&a;</a></R>",
            "<R><a>&lol;</a></R>",
            "<R><a>&#0;</a></R>",
            deep.as_str(),
            wide.as_str(),
            "<R><a></R>",
            "<R>",
            "<R></R><R></R>",
            "<R></R>x",
            "x<R></R>",
            "<Q></Q>",
            "",
            "  ",
            "<R><a>\u{0}<",
        ] {
            let mut doc = match Doc::open(bad.as_bytes(), "R") {
                Ok(doc) => doc,
                Err(_) => continue,
            };
            let fault = loop {
                match doc.child() {
                    Ok(Some(_)) => {
                        if let Err(f) = doc.skip() {
                            break Some(f);
                        }
                    }
                    Ok(None) => break doc.finish().err(),
                    Err(f) => break Some(f),
                }
            };
            let fault = fault.unwrap_or_else(|| panic!("accepted {bad}"));
            assert_eq!(fault.code(), Code::MALFORMED_XML, "{bad}");
        }
    }

    #[test]
    fn nul_is_refused() {
        for bad in ["<a>\0</a>", "<a><![CDATA[\0]]></a>", "<a>&#0;</a>"] {
            assert!(Doc::open(bad.as_bytes(), "a").and_then(|mut doc| doc.text()).is_err(), "{bad:?}");
        }
        let mut good = Doc::open(b"<a>\x01</a>", "a").unwrap();
        assert_eq!(good.text().unwrap(), "\u{1}");
    }
}
