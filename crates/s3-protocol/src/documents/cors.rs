//! The XML of a bucket's CORS rules.
//!
//! Must not depend on: the meaning of rules.

use crate::cors_rules::{Rule, Rules, is_token};
use crate::fault::{Code, Fault, Outcome};
use crate::xml::{Doc, Xml};

/// The bucket's document that holds its rules.
pub const DOCUMENT: &str = "cors";
/// Most rules.
const MAX_RULES: usize = 100;
const METHODS: [&str; 5] = ["GET", "PUT", "POST", "DELETE", "HEAD"];

/// Rules as they are kept.
pub fn decode(text: &str) -> Option<Rules> {
    parse(text.as_bytes()).ok()
}

/// Reads the document that a client sends.
///
/// # Errors
/// It is not XML, or not such a document.
pub fn parse(body: &[u8]) -> Outcome<Rules> {
    let mut doc = Doc::open(body, "CORSConfiguration")?;
    let mut rules = Rules::default();
    while let Some(name) = doc.child()? {
        if name != "CORSRule" {
            return doc.unexpected(&name);
        }
        rules.0.push(rule(&mut doc)?);
        if rules.0.len() > MAX_RULES {
            return Err(Fault::with(
                Code::INVALID_REQUEST,
                "The number of CORS rules should not exceed allowed limit of 100 rules.",
            ));
        }
    }
    doc.finish()?;
    if rules.0.is_empty() { Err(Fault::new(Code::MALFORMED_XML)) } else { Ok(rules) }
}

fn rule(doc: &mut Doc<'_>) -> Outcome<Rule> {
    let mut rule = Rule::default();
    while let Some(name) = doc.child()? {
        match name.as_str() {
            "ID" => rule.id = Some(doc.text()?),
            "AllowedMethod" => rule.methods.push(doc.text()?.trim().to_owned()),
            "AllowedOrigin" => rule.origins.push(doc.text()?.trim().to_owned()),
            "AllowedHeader" => rule.headers.push(doc.text()?.trim().to_owned()),
            "ExposeHeader" => rule.expose.push(doc.text()?.trim().to_owned()),
            "MaxAgeSeconds" => rule.max_age = Some(doc.parse("MaxAgeSeconds")?),
            other => return doc.unexpected(other),
        }
    }
    check(&rule)?;
    Ok(rule)
}

fn check(rule: &Rule) -> Outcome<()> {
    let bad = |why: String| Err(Fault::with(Code::INVALID_REQUEST, why));
    let short = |text: &str| text.chars().take(128).collect::<String>();
    if rule.methods.is_empty() || rule.origins.is_empty() {
        return Err(Fault::new(Code::MALFORMED_XML));
    }
    if rule.id.as_ref().is_some_and(|id| id.chars().count() > 255) {
        return bad("ID length should not exceed allowed limit of 255".to_owned());
    }
    if let Some(m) = rule.methods.iter().find(|m| !METHODS.contains(&m.as_str())) {
        let m = short(m);
        return bad(format!("Found unsupported HTTP method in CORS config. Unsupported method is {m}"));
    }
    let several = |p: &&String| p.matches('*').count() > 1;
    if let Some(o) = rule.origins.iter().find(several) {
        return bad(format!("AllowedOrigin \"{}\" can not have more than one wildcard.", short(o)));
    }
    if let Some(o) = rule.origins.iter().find(|o| o.is_empty() || !o.bytes().all(|b| b.is_ascii_graphic())) {
        return bad(format!("AllowedOrigin \"{}\" is not an origin.", short(o)));
    }
    if let Some(h) = rule.headers.iter().find(several) {
        return bad(format!("AllowedHeader \"{}\" can not have more than one wildcard.", short(h)));
    }
    if let Some(h) = rule.headers.iter().find(|h| !is_token(h)) {
        return bad(format!("AllowedHeader \"{}\" contains invalid character.", short(h)));
    }
    if let Some(h) = rule.expose.iter().find(|h| h.contains('*')) {
        return bad(format!(
            "ExposeHeader \"{}\" contains wildcard. We currently do not support wildcard for ExposeHeader.",
            short(h)
        ));
    }
    if let Some(h) = rule.expose.iter().find(|h| !is_token(h)) {
        return bad(format!("ExposeHeader \"{}\" contains invalid character.", short(h)));
    }
    Ok(())
}

/// The document that clients get.
pub fn print(rules: &Rules) -> String {
    let mut xml = Xml::new();
    xml.root("CORSConfiguration");
    for rule in &rules.0 {
        xml.open("CORSRule").maybe("ID", rule.id.as_deref());
        for (name, values) in [
            ("AllowedMethod", &rule.methods),
            ("AllowedOrigin", &rule.origins),
            ("AllowedHeader", &rule.headers),
            ("ExposeHeader", &rule.expose),
        ] {
            for value in values {
                xml.leaf(name, value);
            }
        }
        if let Some(seconds) = rule.max_age {
            xml.plain("MaxAgeSeconds", seconds);
        }
        xml.close();
    }
    xml.close();
    xml.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cors_documents_are_read_and_printed() {
        let with = |what: &str| format!("<CORSConfiguration><CORSRule>{what}</CORSRule></CORSConfiguration>");
        let base = "<AllowedMethod>GET</AllowedMethod><AllowedOrigin>*</AllowedOrigin>";
        let full = with(&format!(
            "{base}<ID>i</ID><AllowedHeader>*</AllowedHeader><ExposeHeader>ETag</ExposeHeader><MaxAgeSeconds>9</MaxAgeSeconds>"
        ));
        let rules = parse(full.as_bytes()).unwrap();
        assert_eq!(decode(&print(&rules)), Some(rules));
        for (bad, code) in [
            ("<AllowedMethod>GET</AllowedMethod>".to_owned(), "MalformedXML"),
            (base.replace("GET", "PATCH"), "InvalidRequest"),
            (base.replace("GET", "get"), "InvalidRequest"),
            (base.replace('*', "https://*.*"), "InvalidRequest"),
            (base.replace('*', "a b"), "InvalidRequest"),
            (format!("{base}<AllowedHeader>*-*</AllowedHeader>"), "InvalidRequest"),
            (format!("{base}<ExposeHeader>*</ExposeHeader>"), "InvalidRequest"),
            (format!("{base}<ExposeHeader>X-A&#13;&#10;Set-Cookie: x</ExposeHeader>"), "InvalidRequest"),
            (format!("{base}<MaxAgeSeconds>-1</MaxAgeSeconds>"), "MalformedXML"),
            (format!("{base}<Other/>"), "MalformedXML"),
        ] {
            assert_eq!(parse(with(&bad).as_bytes()).unwrap_err().code().name, code, "{bad}");
        }
        assert!(parse(b"<CORSConfiguration/>").is_err());
    }
}
