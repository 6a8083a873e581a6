//! The XML of a bucket's website configuration.
//!
//! Must not depend on: the meaning of a configuration.

use crate::fault::{Code, Fault, Outcome};
use crate::website::{Elsewhere, Route, Website};
use crate::xml::{Doc, Xml};

/// The bucket's document that holds it.
pub const DOCUMENT: &str = "website";
/// Most routing rules.
const MAX_ROUTES: usize = 50;

/// A configuration as it is kept.
pub fn decode(text: &str) -> Option<Website> {
    parse(text.as_bytes()).ok()
}

fn bad<T>(why: &'static str) -> Outcome<T> {
    Err(Fault::with(Code::INVALID_ARGUMENT, why))
}

/// What AWS calls an invalid request, and not an invalid argument.
fn wrong<T>(why: &'static str) -> Outcome<T> {
    Err(Fault::with(Code::INVALID_REQUEST, why))
}

/// Reads the document that a client sends.
///
/// # Errors
/// It is not XML, or not such a document.
pub fn parse(body: &[u8]) -> Outcome<Website> {
    let mut doc = Doc::open(body, "WebsiteConfiguration")?;
    let mut site = Website::default();
    while let Some(name) = doc.child()? {
        match name.as_str() {
            "IndexDocument" => site.index = Some(only(&mut doc, "Suffix")?),
            "ErrorDocument" => site.error = Some(only(&mut doc, "Key")?),
            "RedirectAllRequestsTo" => {
                let mut to = Elsewhere { host: String::new(), protocol: None };
                while let Some(name) = doc.child()? {
                    match name.as_str() {
                        "HostName" => to.host = host(&mut doc)?,
                        "Protocol" => to.protocol = Some(protocol(&mut doc)?),
                        other => return doc.unexpected(other),
                    }
                }
                site.elsewhere = Some(to);
            }
            "RoutingRules" => {
                while let Some(name) = doc.child()? {
                    if name != "RoutingRule" {
                        return doc.unexpected(&name);
                    }
                    site.routes.push(route(&mut doc)?);
                    if site.routes.len() > MAX_ROUTES {
                        return wrong("Number of routing rules must not exceed 50.");
                    }
                }
            }
            other => return doc.unexpected(other),
        }
    }
    doc.finish()?;
    check(&site)?;
    Ok(site)
}

fn check(site: &Website) -> Outcome<()> {
    match (&site.elsewhere, &site.index) {
        (Some(to), _) if to.host.is_empty() => return Err(Fault::new(Code::MALFORMED_XML)),
        (Some(_), _) if site.index.is_some() || site.error.is_some() || !site.routes.is_empty() => {
            return bad("RedirectAllRequestsTo cannot be provided in conjunction with other Routing Rules.");
        }
        (None, None) => {
            return bad(
                "A value for IndexDocument Suffix must be provided if RedirectAllRequestsTo is empty",
            );
        }
        (None, Some(index)) if index.is_empty() || index.contains('/') => {
            return bad("The IndexDocument Suffix is not well formed");
        }
        _ => {}
    }
    if site.error.as_ref().is_some_and(String::is_empty) {
        return Err(Fault::new(Code::MALFORMED_XML));
    }
    Ok(())
}

fn only(doc: &mut Doc<'_>, what: &str) -> Outcome<String> {
    let mut found = None;
    while let Some(name) = doc.child()? {
        if name != what || found.is_some() {
            return doc.unexpected(&name);
        }
        found = Some(doc.text()?);
    }
    found.ok_or_else(|| Fault::new(Code::MALFORMED_XML))
}

fn host(doc: &mut Doc<'_>) -> Outcome<String> {
    let host = doc.text()?.trim().to_owned();
    let legal = |b: u8| b.is_ascii_graphic() && !b"\"<>\\^`{|}".contains(&b);
    if host.is_empty() || !host.bytes().all(legal) {
        bad("The HostName is not well formed")
    } else {
        Ok(host)
    }
}

fn protocol(doc: &mut Doc<'_>) -> Outcome<String> {
    let text = doc.text()?.trim().to_owned();
    match text.as_str() {
        "http" | "https" => Ok(text),
        _ => wrong(
            "Invalid protocol, protocol can be http or https. If not defined the protocol will be selected automatically.",
        ),
    }
}

fn route(doc: &mut Doc<'_>) -> Outcome<Route> {
    let mut route = Route::default();
    let mut redirects = false;
    while let Some(name) = doc.child()? {
        match name.as_str() {
            "Condition" => {
                while let Some(name) = doc.child()? {
                    match name.as_str() {
                        "KeyPrefixEquals" => route.prefix = Some(doc.text()?),
                        "HttpErrorCodeReturnedEquals" => {
                            let status: u16 = doc.parse("HttpErrorCodeReturnedEquals")?;
                            if !(400..600).contains(&status) {
                                return wrong(
                                    "The provided HTTP error code is not valid. Valid codes are 4XX or 5XX.",
                                );
                            }
                            route.error = Some(status);
                        }
                        other => return doc.unexpected(other),
                    }
                }
                if route.prefix.is_none() && route.error.is_none() {
                    return wrong(
                        "Condition cannot be empty. To redirect all requests without a condition, the condition element shouldn't be present.",
                    );
                }
            }
            "Redirect" => {
                redirects = true;
                redirect(doc, &mut route)?;
            }
            other => return doc.unexpected(other),
        }
    }
    if redirects { Ok(route) } else { Err(Fault::new(Code::MALFORMED_XML)) }
}

fn redirect(doc: &mut Doc<'_>, route: &mut Route) -> Outcome<()> {
    while let Some(name) = doc.child()? {
        match name.as_str() {
            "HostName" => route.host = Some(host(doc)?),
            "Protocol" => route.protocol = Some(protocol(doc)?),
            "HttpRedirectCode" => {
                let status: u16 = doc.parse("HttpRedirectCode")?;
                if ![301, 302, 303, 304, 305, 307, 308].contains(&status) {
                    return wrong(
                        "The provided HTTP redirect code is not valid. Valid codes are 3XX except 300.",
                    );
                }
                route.status = Some(status);
            }
            "ReplaceKeyWith" => route.replace_key = Some(doc.text()?),
            "ReplaceKeyPrefixWith" => route.replace_prefix = Some(doc.text()?),
            other => return doc.unexpected(other),
        }
    }
    if route.replace_key.is_some() && route.replace_prefix.is_some() {
        return wrong("You can only define ReplaceKeyPrefix or ReplaceKey but not both.");
    }
    Ok(())
}

/// The document that clients get.
pub fn print(site: &Website) -> String {
    let mut xml = Xml::new();
    xml.root("WebsiteConfiguration");
    if let Some(to) = &site.elsewhere {
        xml.open("RedirectAllRequestsTo").leaf("HostName", &to.host);
        xml.maybe("Protocol", to.protocol.as_deref()).close();
    }
    if let Some(index) = &site.index {
        xml.open("IndexDocument").leaf("Suffix", index).close();
    }
    if let Some(error) = &site.error {
        xml.open("ErrorDocument").leaf("Key", error).close();
    }
    if !site.routes.is_empty() {
        xml.open("RoutingRules");
        for route in &site.routes {
            print_route(&mut xml, route);
        }
        xml.close();
    }
    xml.close();
    xml.finish()
}

fn print_route(xml: &mut Xml, route: &Route) {
    xml.open("RoutingRule");
    if route.prefix.is_some() || route.error.is_some() {
        xml.open("Condition").maybe("KeyPrefixEquals", route.prefix.as_deref());
        if let Some(status) = route.error {
            xml.plain("HttpErrorCodeReturnedEquals", status);
        }
        xml.close();
    }
    xml.open("Redirect")
        .maybe("HostName", route.host.as_deref())
        .maybe("Protocol", route.protocol.as_deref())
        .maybe("ReplaceKeyWith", route.replace_key.as_deref())
        .maybe("ReplaceKeyPrefixWith", route.replace_prefix.as_deref());
    if let Some(status) = route.status {
        xml.plain("HttpRedirectCode", status);
    }
    xml.close().close();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn website_documents_are_read_and_printed() {
        let with = |what: &str| format!("<WebsiteConfiguration>{what}</WebsiteConfiguration>");
        let index = "<IndexDocument><Suffix>index.html</Suffix></IndexDocument>";
        for good in [
            index.to_owned(),
            format!("{index}<ErrorDocument><Key>e/error.html</Key></ErrorDocument>"),
            "<RedirectAllRequestsTo><HostName>a.example</HostName><Protocol>https</Protocol></RedirectAllRequestsTo>".into(),
            format!("{index}<RoutingRules><RoutingRule><Condition><KeyPrefixEquals>a/</KeyPrefixEquals><HttpErrorCodeReturnedEquals>404</HttpErrorCodeReturnedEquals></Condition><Redirect><HostName>h</HostName><ReplaceKeyPrefixWith/><HttpRedirectCode>302</HttpRedirectCode></Redirect></RoutingRule></RoutingRules>"),
        ] {
            let site = parse(with(&good).as_bytes()).unwrap();
            assert_eq!(decode(&print(&site)), Some(site), "{good}");
        }
        for bad in [
            String::new(),
            index.replace("index.html", "a/b"),
            index.replace("index.html", ""),
            format!("{index}<RedirectAllRequestsTo><HostName>a</HostName></RedirectAllRequestsTo>"),
            "<RedirectAllRequestsTo><HostName>a&#13;&#10;b</HostName></RedirectAllRequestsTo>".into(),
            format!(
                "{index}<RoutingRules><RoutingRule><Redirect><ReplaceKeyWith>a</ReplaceKeyWith><ReplaceKeyPrefixWith>b</ReplaceKeyPrefixWith></Redirect></RoutingRule></RoutingRules>"
            ),
            format!("{index}<RoutingRules><RoutingRule><Condition/><Redirect/></RoutingRule></RoutingRules>"),
        ] {
            assert!(parse(with(&bad).as_bytes()).is_err(), "{bad}");
        }
    }
}
